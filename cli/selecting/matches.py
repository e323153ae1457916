"""`FIELD=VALUE` on the command line: values of one field are alternatives, different fields all hold, `+` begins anew.

    RUN=order-42 KIND=Note KIND=EffectDone + CASE=case-7

takes the notes and ended effects of one run, and all records of a case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from sealbook.cli.records import fields

if TYPE_CHECKING:
    from sealbook.cli.records.fields import Fields
    from sealbook.journal import Record

Group = Mapping[str, frozenset[str]]  # field -> any of these values; a record must agree in every field


def parse(words: Iterable[str]) -> tuple[Group, ...]:
    """The groups that the words make, of which a record must meet one; none for no words."""
    groups: list[dict[str, frozenset[str]]] = [{}]
    any_word = False
    for word in words:
        any_word = True
        if word == "+":
            groups.append({})
            continue
        name, equals, value = word.partition("=")
        if not equals:
            raise click.BadParameter(f"{word!r} is no match such as RUN=order-42")
        field = fields.name_of(name)
        groups[-1][field] = groups[-1].get(field, frozenset()) | {fields.value_of(field, value)}
    if any_word and not all(groups):
        raise click.BadParameter("a + stands between matches")
    return tuple(groups) if any_word else ()


def meets(groups: tuple[Group, ...], record: Record, known: Fields) -> bool:
    """Whether the record meets one of the groups; every record meets none at all."""
    return not groups or any(
        all(known.value(record, field) in values for field, values in group.items()) for group in groups
    )
