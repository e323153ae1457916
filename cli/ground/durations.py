"""Durations on the command line: `30s`, `10m`, `6h`, `1d`; a number alone is seconds."""

from __future__ import annotations

import re

import click

_DURATION = re.compile(r"([1-9][0-9]{0,8})(s|m|h|d)?", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def duration(value: str | int) -> int:
    """`30s`, `10m`, `6h` or `1d`, in seconds; `30` is 30 seconds."""
    if isinstance(value, int):
        return value
    match = _DURATION.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is no duration such as 30s, 10m, 6h or 1d")
    return int(match[1]) * _SECONDS[match[2] or "s"]
