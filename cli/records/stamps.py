"""The instants of records for people, in UTC or another zone, each as `--since` takes it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

from sealbook.journal.records import instants

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Stamp = Callable[[int, tzinfo], str]  # unix milliseconds and a zone


def short(millis: int, zone: tzinfo) -> str:
    """RFC 3339 with milliseconds: `2026-11-29T08:00:05.123Z`, elsewhere `2026-11-29T09:00:05.123+01:00`."""
    return instants.of_millis(millis) if zone is UTC else _iso(millis, zone, "milliseconds")


def iso(millis: int, zone: tzinfo) -> str:
    """Whole seconds and the zone's offset: `2026-11-29T08:00:05+00:00`."""
    return _iso(millis, zone, "seconds")


def iso_precise(millis: int, zone: tzinfo) -> str:
    """The same with microseconds: `2026-11-29T08:00:05.123000+00:00`."""
    return _iso(millis, zone, "microseconds")


def unix(millis: int, zone: tzinfo) -> str:
    """Seconds since 1970 with microseconds: `1795939205.123000`."""
    whole, rest = divmod(abs(millis), 1000)
    return f"{'-' if millis < 0 else ''}{whole}.{rest:03d}000"


def delta(millis: int, before: int | None) -> str:
    """The seconds since the record that was printed before: `+1.250`; blank for the first."""
    if before is None:
        return ""
    whole, rest = divmod(abs(millis - before), 1000)
    return f"{'-' if millis < before else '+'}{whole}.{rest:03d}"


def _iso(millis: int, zone: tzinfo, precision: str) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).astimezone(zone).isoformat(timespec=precision)
    except OverflowError:  # outside the years 1 to 9999
        return instants.of_millis(millis)
