"""Instants as text and as numbers: RFC 3339 in UTC on the outside, integers since 1970 inside."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


def micros(instant: datetime) -> int:
    """Microseconds since 1970 of an aware datetime; exact from year 1 to 9999. ValueError for a naive one."""
    if instant.utcoffset() is None:
        raise ValueError("a datetime without a time zone names no instant")
    return (instant - _EPOCH) // timedelta(microseconds=1)


def parse(text: str) -> int:
    """Microseconds since 1970 of an RFC 3339 instant; digits beyond the sixth are cut off.

    ValueError for anything else: a missing offset, a day that does not exist, a leap second.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no RFC 3339 instant such as 2026-11-29T08:30:00Z")
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    fraction, sign, offset_hours, offset_minutes = match.group(7, 8, 9, 10)
    offset = timedelta()
    if sign:
        if int(offset_hours) > 23 or int(offset_minutes) > 59:
            raise ValueError(f"{text!r} has no such offset")
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes)) * (-1 if sign == "-" else 1)
    local = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    whole = (local - _EPOCH - offset) // timedelta(microseconds=1)
    return whole + int((fraction or "0").ljust(6, "0")[:6])


def of_datetime(instant: datetime) -> str:
    """The RFC 3339 text of an aware datetime, in UTC. ValueError for a naive one."""
    return of_micros(micros(instant))


def of_millis(millis: int) -> str:
    """The RFC 3339 text of unix milliseconds, in UTC, with three digits of a second."""
    return of_micros(millis * 1000, digits=3)


def of_micros(value: int, digits: int | None = None) -> str:
    """The RFC 3339 text of microseconds since 1970, in UTC; without `digits`, as many as are needed.

    An instant outside the years 1 to 9999, which RFC 3339 cannot write, is shown as `@` and its seconds.
    """
    seconds, fraction = divmod(value, 1_000_000)
    try:
        text = (_EPOCH + timedelta(seconds=seconds)).strftime("%m-%dT%H:%M:%S")
        year = (_EPOCH + timedelta(seconds=seconds)).year
    except OverflowError:
        return f"@{seconds}"
    decimals = f"{fraction:06d}"[:digits] if digits is not None else f"{fraction:06d}".rstrip("0")
    return f"{year:04d}-{text}{'.' if decimals else ''}{decimals}Z"
