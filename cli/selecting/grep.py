"""`--grep`: a pattern over what a record says, its summary and every text in its data.

A pattern without upper-case letters takes both cases, as in journalctl, unless `--case-sensitive` decides otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sealbook.journal import Record


def parse(pattern: str, case_sensitive: bool | None) -> re.Pattern[str]:
    """The pattern, a regular expression of Python's; None is smart case. A usage error when it is none."""
    if case_sensitive is None:
        case_sensitive = pattern != pattern.lower()
    try:
        return re.compile(pattern, 0 if case_sensitive else re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise click.BadParameter(f"{pattern!r} is no regular expression: {error}") from error


def found(pattern: re.Pattern[str], record: Record) -> bool:
    """Whether the pattern occurs in what the record says."""
    from sealbook.cli.records.lines import full_summary

    return any(map(pattern.search, (full_summary(record), *texts(record.data))))


def texts(value: Any) -> Iterator[str]:
    """Every text within a value, names of members excepted."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
