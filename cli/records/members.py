"""Which members of a record are printed: all of them, or those of `--output-fields`, with long values elided or whole.

The names are those of `-o json`; `data.name` is one member of the data. The place and the hash always stay, so that
what is printed can be found again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sealbook.cli.records import elision, objects

if TYPE_CHECKING:
    from sealbook.journal import Record

NAMES = (
    *("tenant", "run", "seq", "arrival", "epoch", "at", "kind", "case"),
    *("effect", "attempt", "data", "prev", "hash", "signature"),
)
ALWAYS = frozenset({"seq", "hash"})
IN_DATA = "data."


def parse(text: str) -> tuple[str, ...]:
    """The members that a list with commas names; a usage error for one that no record has."""
    return tuple(_name(word.strip()) for word in text.split(","))


def _name(word: str) -> str:
    if word[: len(IN_DATA)].lower() == IN_DATA and len(word) > len(IN_DATA):
        return IN_DATA + word[len(IN_DATA) :]
    if word.lower() not in NAMES:
        raise click.BadParameter(f"there is no member {word!r}: there are {', '.join(NAMES)} and data.name")
    return word.lower()


def of_data(chosen: tuple[str, ...]) -> tuple[str, ...]:
    """The members of data among those that were chosen."""
    return tuple(name.removeprefix(IN_DATA) for name in chosen if name.startswith(IN_DATA))


def data(record: Record, chosen: tuple[str, ...]) -> dict[str, Any]:
    """The record's data, or the members of it that were chosen."""
    if not chosen or "data" in chosen:
        return record.data
    wanted = of_data(chosen)
    return {name: value for name, value in record.data.items() if name in wanted}


def has_data(chosen: tuple[str, ...]) -> bool:
    """Whether any data is printed."""
    return not chosen or "data" in chosen or bool(of_data(chosen))


def of_json(record: Record, chosen: tuple[str, ...], *, everything: bool) -> dict[str, Any]:
    """The record as `-o json` prints it."""
    members = objects.record(record._replace(data={}))
    own = data(record, chosen)
    members["data"] = objects.data(own) if everything else elision.data(own)
    if not chosen:
        return members
    kept = ALWAYS.union(chosen, {"data"} if has_data(chosen) else ())
    return {name: value for name, value in members.items() if name in kept}
