"""A span of time is found among records by halving, and clocks that were set back hide nothing near its bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealbook.cli.selecting import span

COUNT = 10**6


def test_bounds_are_found_without_reading_the_records_between() -> None:
    asked: list[int] = []

    def at(number: int) -> int:
        asked.append(number)
        return number * 10

    first, last = span.bounds(at, COUNT, 5_000_000, 6_000_005)
    assert (first, last) == (500_000 - span.MARGIN, 600_000 + span.MARGIN)
    assert len(asked) <= span.PROBES + 1 + 2 * 20
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, (1, 5)),
        (10, 50, (1, 5)),
        (11, 49, (2, 4)),
        (20, 20, (2, 2)),
        (51, None, (6, 5)),
        (None, 9, (1, 0)),
    ],
)
def test_both_ends_are_inclusive(
    monkeypatch: pytest.MonkeyPatch, since: int | None, until: int | None, expected: tuple[int, int]
) -> None:
    monkeypatch.setattr(span, "MARGIN", 0)
    assert span.bounds(lambda number: number * 10, 5, since, until) == expected


def test_nothing_is_looked_at_where_nothing_is() -> None:
    assert span.bounds(lambda number: 1 // 0, 0, 1, 2) == (1, 0)


@given(st.lists(st.integers(-500, 500), min_size=1, max_size=500), st.integers(0, 10**6))
def test_a_clock_that_trembles_hides_nothing(tremor: list[int], since: int) -> None:
    instants = [number * 1000 + tremor[number % len(tremor)] * 40 for number in range(1000)]  # by up to 20 records
    first, last = span.bounds(lambda number: instants[number - 1], len(instants), since, since + 50_000)
    for number, instant in enumerate(instants, 1):
        assert not since <= instant <= since + 50_000 or first <= number <= last


@pytest.mark.parametrize("length", [40_000, 400_000])
def test_a_clock_that_was_wrong_for_long_makes_every_record_be_looked_at(length: int) -> None:
    def at(number: int) -> int:
        return number + (10**9 if 300_000 <= number < 300_000 + length else 0)

    assert span.bounds(at, COUNT, 900_000, None) == (1, COUNT)


def test_one_record_from_the_future_near_the_bound_is_looked_at() -> None:
    late = COUNT - span.MARGIN + 1
    first, last = span.bounds(lambda number: 10**12 if number == late else number, COUNT, 10**9, None)
    assert first <= late <= last
