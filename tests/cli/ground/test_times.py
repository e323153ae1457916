"""Times are read as systemd reads them, RFC 3339 besides, and the hours that clocks skip and repeat as documented."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealbook.cli.ground import times
from sealbook.journal.records import instants

BERLIN, HAVANA, APIA = ZoneInfo("Europe/Berlin"), ZoneInfo("America/Havana"), ZoneInfo("Pacific/Apia")
NOW = instants.parse("2026-11-29T22:20:32.500000Z")  # a Sunday
HOUR, DAY = 3600 * 10**6, 86_400 * 10**6

TABLE = [  # (text, the instant), taken from `systemd-analyze timestamp` where systemd 252 takes the text
    ("now", "2026-11-29T22:20:32.5Z"),
    ("today", "2026-11-29T00:00:00Z"),
    ("yesterday", "2026-11-28T00:00:00Z"),
    ("tomorrow", "2026-11-30T00:00:00Z"),
    ("-5days", "2026-11-24T22:20:32.5Z"),
    ("- 5min", "2026-11-29T22:15:32.5Z"),
    ("-5 m", "2026-11-29T22:15:32.5Z"),
    ("-5us", "2026-11-29T22:20:32.499995Z"),
    ("-1h30min", "2026-11-29T20:50:32.5Z"),
    ("-90", "2026-11-29T22:19:02.5Z"),
    ("+1.5h", "2026-11-29T23:50:32.5Z"),
    ("+5min", "2026-11-29T22:25:32.5Z"),
    ("-1M", "2026-10-30T11:50:32.5Z"),
    ("-1y", "2025-11-29T16:20:32.5Z"),
    ("-2w 1d", "2026-11-14T22:20:32.5Z"),
    ("2 hours ago", "2026-11-29T20:20:32.5Z"),
    ("1h 300ms ago", "2026-11-29T21:20:32.2Z"),
    ("2 hours left", "2026-11-30T00:20:32.5Z"),
    ("@1395716396", "2014-03-25T02:59:56Z"),
    ("@1.5", "1970-01-01T00:00:01.5Z"),
    ("@1h", "1970-01-01T01:00:00Z"),
    ("@-1.25", "1969-12-31T23:59:58.75Z"),
    ("1795939205.123000", "2026-11-29T08:00:05.123Z"),
    ("2012-09-22 16:34:22", "2012-09-22T16:34:22Z"),
    ("2012-09-22  16:34", "2012-09-22T16:34:00Z"),
    ("2012-09-22", "2012-09-22T00:00:00Z"),
    ("12-09-22", "2012-09-22T00:00:00Z"),
    ("99-01-01", "1999-01-01T00:00:00Z"),
    ("2012-9-2 1:2", "2012-09-02T01:02:00Z"),
    ("16:34", "2026-11-29T16:34:00Z"),
    ("16:34:22.25", "2026-11-29T16:34:22.25Z"),
    ("Sat 2012-09-22", "2012-09-22T00:00:00Z"),
    ("saturday 2012-09-22 16:34 UTC", "2012-09-22T16:34:00Z"),
    ("today UTC", "2026-11-29T00:00:00Z"),
    ("today Europe/Berlin", "2026-11-28T23:00:00Z"),
    ("2012-09-22 16:34:22.123456789", "2012-09-22T16:34:22.123456Z"),
    ("2012-09-22T16:34", "2012-09-22T16:34:00Z"),
    ("2012-09-22t16:34:22z", "2012-09-22T16:34:22Z"),
    ("2012-09-22T16:34:22+02:00", "2012-09-22T14:34:22Z"),
    ("2012-09-22T16:34:22-0230", "2012-09-22T19:04:22Z"),
    ("2012-09-22 16:34 +01:00", "2012-09-22T15:34:00Z"),
    ("2012-09-22 16:34 Europe/Berlin", "2012-09-22T14:34:00Z"),
    ("16:34 Asia/Kolkata", "2026-11-30T11:04:00Z"),
    ("0001-01-01", "0001-01-01T00:00:00Z"),
    ("9999-12-31 23:59:59.999999", "9999-12-31T23:59:59.999999Z"),
]


@pytest.mark.parametrize(("text", "instant"), TABLE)
def test_a_text_names_this_instant(text: str, instant: str) -> None:
    assert times.parse(text, now=NOW) == instants.parse(instant)
    assert times.parse(f" {text} ", now=NOW) == instants.parse(instant)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "NOW", "soon", "5min", "1 hour", "1y 12month", "+-5", "--5", "-", "@", "@x", "ago", " ago"),
        *("24:00", "16:60", "16:34:60", "2012-13-01", "2012-02-30", "012-09-22", "2012-09", "20120922", "1395716396"),
        *("Sun 2012-09-22", "Saturday today", "Sat, 2012-09-22", "Sat 16:34", "today 12:00", "tomorrow 2012-09-22"),
        *("2012-09-22 16:34:22 CEST2", "2012-09-22 16:34 Europe", "2012-09-22 16:34 ../etc/passwd", "-1h UTC"),
        *("2012-09-22 16:34+24:00", "2012-09-22 16:34+01:60", "2012-09-22 16", "2012-09-22 16:34.5", "٢٠١٢-٠٩-٢٢"),
        *("-1q", "-1 hours 2 q", "0000-01-01", "9999-12-31 23:59 -23:00x", "2012-09-22x16:34", "-" + "9" * 19),
    ],
)
def test_anything_else_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        times.parse(text, now=NOW)


def test_an_instant_outside_of_the_calendar_is_refused() -> None:
    for text, zone in (("0001-01-01", BERLIN), ("9999-12-31 23:00", HAVANA)):
        with pytest.raises(ValueError, match="outside the years 1 to 9999"):
            times.parse(text, now=NOW, zone=zone)


def test_a_time_that_the_clock_skipped_is_refused_and_its_neighbours_are_taken() -> None:
    for text in ("2026-03-29 02:30 Europe/Berlin", "2026-03-29T02:00 Europe/Berlin"):
        with pytest.raises(ValueError, match="no clock of Europe/Berlin shows 2026-03-29 02:"):
            times.parse(text, now=NOW)
    before = times.parse("2026-03-29 01:59:59.999999 Europe/Berlin", now=NOW)
    assert times.parse("2026-03-29 03:00 Europe/Berlin", now=NOW) == before + 1


def test_of_two_instants_that_were_shown_alike_the_caller_chooses() -> None:
    first = times.parse("2026-10-25 02:30", now=NOW, zone=BERLIN)
    assert first == instants.parse("2026-10-25T00:30:00Z")
    assert times.parse("2026-10-25 02:30", now=NOW, zone=BERLIN, second=True) == first + HOUR
    assert times.parse("2026-10-25 04:30", now=NOW, zone=BERLIN, second=True) == first + 3 * HOUR


def test_a_day_begins_with_the_first_instant_that_its_clock_shows() -> None:
    assert times.parse("2026-03-08 America/Havana", now=NOW) == instants.parse("2026-03-08T05:00:00Z")  # 00:00 skipped
    assert times.parse("2026-11-01", now=NOW, zone=HAVANA, second=True) == instants.parse("2026-11-01T04:00:00Z")
    never = times.parse("2011-12-30", now=NOW, zone=APIA)  # the island crossed the date line
    assert never == times.parse("2011-12-31", now=NOW, zone=APIA) == instants.parse("2011-12-30T10:00:00Z")


def test_words_and_times_are_of_the_day_that_the_zone_has() -> None:
    late = instants.parse("2026-11-29T23:30:00Z")
    assert times.parse("today", now=late, zone=BERLIN) == instants.parse("2026-11-29T23:00:00Z")
    assert times.parse("yesterday", now=late) == instants.parse("2026-11-28T00:00:00Z")
    assert times.parse("00:10", now=late, zone=BERLIN) == instants.parse("2026-11-29T23:10:00Z")
    spring = instants.parse("2026-03-30T10:00:00Z")  # the day before has 23 hours
    assert (
        times.parse("today", now=spring, zone=BERLIN) - times.parse("yesterday", now=spring, zone=BERLIN) == 23 * HOUR
    )


zones = st.sampled_from([UTC, BERLIN, HAVANA, APIA, ZoneInfo("Asia/Kolkata"), ZoneInfo("Australia/Lord_Howe")])
moments = st.datetimes(datetime(1902, 1, 1), datetime(2037, 12, 31), timezones=st.just(UTC))


@given(moments, zones)
def test_what_a_clock_shows_names_the_instant_at_which_it_shows_it(moment: datetime, zone: tzinfo) -> None:
    local = moment.astimezone(zone)
    text = local.strftime("%a %Y-%m-%d %H:%M:%S.%f")
    assert times.parse(text, now=NOW, zone=zone, second=bool(local.fold)) == instants.micros(moment)
    if zone is not UTC:
        assert times.parse(f"{text} {zone}", now=NOW, second=bool(local.fold)) == instants.micros(moment)


@given(moments)
def test_rfc_3339_is_read_as_the_journal_reads_it(moment: datetime) -> None:
    text = instants.of_datetime(moment)
    assert times.parse(text, now=NOW) == instants.parse(text)


@given(st.dates(datetime(1902, 1, 2).date(), datetime(2037, 12, 31).date()), zones)
def test_no_earlier_instant_belongs_to_the_day(day: object, zone: tzinfo) -> None:
    start = times.parse(str(day), now=NOW, zone=zone)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    shown = [(epoch + timedelta(microseconds=start + step)).astimezone(zone).date() for step in (-1, 0)]
    assert shown[0] < day <= shown[1]  # type: ignore[operator]


@given(st.dictionaries(st.sampled_from([unit for unit in times.UNITS if unit]), st.integers(0, 10**6), min_size=1))
def test_a_span_is_the_sum_of_its_parts(parts: dict[str, int]) -> None:
    total = sum(count * times.UNITS[unit] for unit, count in parts.items())
    for joint in ("", " "):
        text = joint.join(f"{count}{joint}{unit}" for unit, count in parts.items())
        assert times.parse(f"-{text}", now=NOW) == NOW - total
        assert times.parse(f"{text} ago", now=NOW) == NOW - total


@given(st.text(max_size=30) | st.text(alphabet="0123456789-:. +@TZhmago", max_size=30))
def test_no_text_ends_in_anything_but_an_instant_or_a_refusal(text: str) -> None:
    with suppress(ValueError):
        assert isinstance(times.parse(text, now=NOW, zone=BERLIN), int)


def test_the_local_zone_is_that_of_the_environment_and_then_of_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert times.local_zone() == BERLIN
    monkeypatch.setenv("TZ", "nowhere")
    with pytest.raises(ValueError, match="'nowhere', which names no zone"):
        times.local_zone()
    monkeypatch.delenv("TZ")
    monkeypatch.setattr(times, "LOCAL_ZONE_FILE", str(tmp_path / "none"))
    assert times.local_zone() is UTC
