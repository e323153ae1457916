"""What people may write for an instant: systemd's grammar of times, and RFC 3339.

    now  today  yesterday  tomorrow              the words; a day begins with its first instant
    -2h  +5min  "2 hours ago"  "5min left"       a span before or after now; a bare number is of seconds
    @1795939200  @1795939200.5                   seconds since 1970
    2026-11-29  26-11-29                         the day's first instant
    2026-11-29 08:00  2026-11-29 08:00:05.25     a date and a time; a `T` may stand between them
    08:00  08:00:05                              that time of today
    Sun 2026-11-29 08:00                         a weekday may stand before a date, and must be that date's
    2026-11-29 08:00 Europe/Berlin  ... UTC      a zone may stand after a date, a time or a day's word
    2026-11-29T08:00:05Z  ...+01:00              RFC 3339

Spans are fixed lengths: a month (M) is 30.4375 days, a year 365.25 days, m is a minute. Digits beyond the sixth of a
second are cut off; there are no leap seconds. Where no zone stands, the caller's one is meant.

A clock that is set forward never shows some times, and one that is set back shows some twice. A time that was never
shown names no instant and is refused; of two, the caller says whether the first or the second is meant.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from sealbook.journal.records import instants

SECOND = 1_000_000  # in microseconds, as everything here is counted
LOCAL_ZONE_FILE = "/etc/localtime"

UNITS = {
    **dict.fromkeys(("usec", "us", "µs", "μs"), 1),  # both mu are written
    **dict.fromkeys(("msec", "ms"), 1000),
    **dict.fromkeys(("seconds", "second", "sec", "s", ""), SECOND),
    **dict.fromkeys(("minutes", "minute", "min", "m"), 60 * SECOND),
    **dict.fromkeys(("hours", "hour", "hr", "h"), 3600 * SECOND),
    **dict.fromkeys(("days", "day", "d"), 86_400 * SECOND),
    **dict.fromkeys(("weeks", "week", "w"), 604_800 * SECOND),
    **dict.fromkeys(("months", "month", "M"), 2_629_800 * SECOND),
    **dict.fromkeys(("years", "year", "y"), 31_557_600 * SECOND),
}
DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_SPAN_PART = re.compile(r"\s*(\d{1,18})(?:\.(\d{1,9}))?(?!\d)\s*([A-Za-zµμ]*)\s*", re.ASCII)
_DURATION = re.compile(r"[1-9][0-9]{0,8}[smhd]?", re.ASCII)
_SINCE_1970 = re.compile(r"(-?)(\d{1,18})(?:\.(\d{1,9}))?", re.ASCII)
_AS_PRINTED = re.compile(r"-?\d{9,18}\.\d{1,9}", re.ASCII)  # `short-unix` prints seconds so
_DATE = re.compile(r"(\d{4}|\d\d)-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)? ?(Z|z|[+-]\d\d:?\d\d)?", re.ASCII)
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*", re.ASCII)


def parse(text: str, *, now: int, zone: tzinfo = UTC, second: bool = False) -> int:
    """The instant that the text names, in microseconds since 1970; `now` is such a number as well.

    `zone` is that of times without one; `second` takes the second of two instants that a clock showed alike.
    ValueError, in words for who wrote the text, when it names no instant.
    """
    try:
        return _parse(text.strip(), now, zone, second)
    except OverflowError:
        raise ValueError("it lies outside the years 1 to 9999") from None


def _parse(text: str, now: int, zone: tzinfo, second: bool) -> int:
    if text == "now":
        return now
    if text.startswith("@"):
        return _since_1970(text[1:])
    if _AS_PRINTED.fullmatch(text):
        return _since_1970(text)
    if text.startswith(("+", "-")):
        return now + (1 if text[0] == "+" else -1) * span(text[1:])
    for word, sign in ((" ago", -1), (" left", 1)):
        if text.endswith(word):
            return now + sign * span(text.removesuffix(word))
    text, zone = _without_zone(text, zone)
    text, weekday = _without_weekday(text)
    today = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now)).astimezone(zone).date()
    if text in DAYS and weekday is None:
        return _first_of(today + timedelta(days=DAYS[text]), zone)
    match = _DATE.match(text)
    day, rest = (_date(match), text[match.end() :]) if match else (today, f" {text}")
    if weekday is not None and (match is None or day.weekday() != weekday):
        raise ValueError(f"{day.isoformat()} is a {WEEKDAYS[day.weekday()].title()}")
    if not rest:
        return _first_of(day, zone)
    clock = _TIME.fullmatch(rest[1:].lstrip(" ")) if rest[0] in "Tt " else None
    if clock is None:
        raise ValueError(
            "it is neither RFC 3339 such as 2026-11-29T08:30:00Z nor such as today, -2h or 2026-11-29 08:30"
        )
    shown = datetime.combine(day, _time(clock))
    return _instant(shown, _offset(clock[5]) if clock[5] else zone, second)


def span(text: str) -> int:
    """A length of time such as `2h 30min`, in microseconds. ValueError when it is none."""
    total, at = 0, 0
    while at < len(text) or not text:
        match = _SPAN_PART.match(text, at)
        if match is None or match[3] not in UNITS:
            raise ValueError(f"{text!r} is no span of time such as 2h, 5min or 90")
        total += _scaled(match[1], match[2], UNITS[match[3]])
        at = match.end()
    return total


def duration(text: str | int) -> int:
    """What an option takes for a length of time, in seconds: a whole number of s, m, h or d; alone it is of seconds."""
    if isinstance(text, int):
        return text
    if _DURATION.fullmatch(text) is None:
        raise click.BadParameter(f"{text!r} is no duration such as 30s, 10m, 6h or 1d")
    return span(text) // SECOND


def local_zone() -> tzinfo:
    """The zone of this machine's clock: as TZ says, else as the system is set up, else UTC. `ValueError` for a TZ that
    names none: UTC would pass for the local time."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if name:
        zone = _zone(name)
        if zone is None:
            raise ValueError(f"TZ is {name!r}, which names no zone that is known here")
        return zone
    try:
        with Path(LOCAL_ZONE_FILE).open("rb") as file:
            return ZoneInfo.from_file(file, key="local time")
    except (OSError, ValueError):
        return UTC


def _scaled(whole: str, fraction: str | None, unit: int) -> int:
    digits = fraction or ""
    part: int = int(digits or "0") * unit // 10 ** len(digits)
    return int(whole) * unit + part


def _since_1970(text: str) -> int:
    match = _SINCE_1970.fullmatch(text)
    if match is None:
        return span(text)
    return (-1 if match[1] else 1) * _scaled(match[2], match[3], SECOND)


def _without_zone(text: str, zone: tzinfo) -> tuple[str, tzinfo]:
    before, blank, name = text.rpartition(" ")
    found = _zone(name) if blank else None
    return (text, zone) if found is None else (before.rstrip(" "), found)


def _zone(name: str) -> tzinfo | None:
    """The zone of this name in the IANA database; None where there is none."""
    if name == "UTC":
        return UTC
    if not _ZONE_NAME.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: `Europe` is a folder
        return None


def _without_weekday(text: str) -> tuple[str, int | None]:
    word, blank, rest = text.partition(" ")
    for number, name in enumerate(WEEKDAYS):
        if blank and word.lower() in (name, name[:3]):
            return rest.lstrip(" "), number
    return text, None


def _date(match: re.Match[str]) -> date:
    year = int(match[1])
    if len(match[1]) == 2:
        year += 1900 if year >= 69 else 2000  # as POSIX reads two digits
    return date(year, int(match[2]), int(match[3]))


def _time(match: re.Match[str]) -> time:
    micros = int((match[4] or "").ljust(6, "0")[:6])
    return time(int(match[1]), int(match[2]), int(match[3] or 0), micros)


def _offset(text: str) -> tzinfo:
    if text in "Zz":
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"there is no offset {text}")
    return timezone(timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1))


def _instant(shown: datetime, zone: tzinfo, second: bool) -> int:
    """When the zone's clock shows this."""
    found: int = instants.micros(shown.replace(tzinfo=zone, fold=int(second)))
    if _shown_at(found, zone) != shown:
        raise ValueError(f"no clock of {zone} shows {shown.isoformat(' ')}: it was set forward over it")
    return found


def _first_of(day: date, zone: tzinfo) -> int:
    """The first instant at which the zone's clock shows this day, or a later one where it never does."""
    midnight = datetime.combine(day, time())
    earliest, latest = (instants.micros(midnight.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if _shown_at(earliest, zone) == midnight:
        return earliest
    lo, hi = min(earliest, latest) // SECOND, max(earliest, latest) // SECOND  # the clock was set forward in between
    while lo < hi:
        middle = (lo + hi) // 2
        lo, hi = (lo, middle) if _shown_at(middle * SECOND, zone) >= midnight else (middle + 1, hi)
    return lo * SECOND


def _shown_at(instant: int, zone: tzinfo) -> datetime:
    """What the zone's clock shows then."""
    return (
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant))
        .astimezone(zone)
        .replace(tzinfo=None, fold=0)
    )
