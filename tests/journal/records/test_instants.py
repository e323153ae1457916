"""Instants as text and as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.journal.records import instants

MICROS = {
    "1970-01-01T00:00:00Z": 0,
    "1969-12-31T23:59:59Z": -1_000_000,
    "1969-12-31T23:59:59.999999Z": -1,
    "2038-01-19T03:14:08Z": 2**31 * 1_000_000,
    "2100-01-01T00:00:00Z": 4_102_444_800_000_000,
    "0001-01-01T00:00:00Z": -62_135_596_800_000_000,
    "9999-12-31T23:59:59.999999Z": 253_402_300_799_999_999,
    "2026-03-29T02:30:00+02:00": 1_774_744_200_000_000,
    "2026-03-29 00:30:00z": 1_774_744_200_000_000,
    "2026-03-28T19:30:00.0-05:00": 1_774_744_200_000_000,
    "1970-01-01t00:00:00.123456789Z": 123_456,
}


@pytest.mark.parametrize("text", MICROS)
def test_an_instant_is_read_exactly(text: str) -> None:
    assert instants.parse(text) == MICROS[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2016-12-31T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00.1234567890Z",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+02:60",
        "2026-01-01T00:00:00+0200",
        " 2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z\n",
        "٢٠٢٦-01-01T00:00:00Z",
        "1 min ago",
    ],
)
def test_anything_else_is_no_instant(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        instants.parse(text)


def test_a_naive_datetime_names_no_instant() -> None:
    with pytest.raises(ValueError, match="time zone"):
        instants.micros(datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="time zone"):
        instants.of_datetime(datetime(2026, 1, 1))


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_500_000, "1970-01-01T00:00:01.5Z"),
        (-62_135_596_800_000_000, "0001-01-01T00:00:00Z"),
        (2**62, f"@{2**62 // 1_000_000}"),
    ],
)
def test_a_number_of_microseconds_is_written_as_utc(micros: int, text: str) -> None:
    assert instants.of_micros(micros) == text


def test_milliseconds_are_written_with_three_digits() -> None:
    assert instants.of_millis(1_500) == "1970-01-01T00:00:01.500Z"
    assert instants.of_millis(0) == "1970-01-01T00:00:00.000Z"


@settings(derandomize=True, max_examples=300, deadline=None)
@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),
    st.integers(-23 * 60, 23 * 60),
)
def test_every_instant_comes_back_from_its_text(naive: datetime, offset: int) -> None:
    instant = naive.replace(tzinfo=timezone(timedelta(minutes=offset)))
    micros = instants.micros(instant)
    assert instants.parse(instants.of_datetime(instant)) == micros
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros) == instant
