"""How grave a record is, on syslog's scale, so that `-p` means what it means to journalctl.

| level | records |
|---|---|
| err (3) | `EffectFailed`, an effect reconciled as `did-not-happen`, a conclusion that ends nothing, such as `failed` |
| warning (4) | `RunSuspended`, `CancelRequested`, `LeaseForced`, and an `EffectStarted` that is in doubt now |
| notice (5) | any other conclusion |
| info (6) | all else |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sealbook.indexes.standing import seals

if TYPE_CHECKING:
    from sealbook.journal import Record, Tenant

NAMES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
ERR, WARNING, NOTICE, INFO = 3, 4, 5, 6
_PENDING = frozenset({"RunSuspended", "CancelRequested", "LeaseForced"})


def parse(text: str) -> range:
    """`LEVEL` means this one or graver, `A..B` all between; a level is a name or its number."""
    first, dots, last = text.partition("..")
    numbers = [_number(word) for word in ([first, last] if dots else [NAMES[0], first])]
    return range(min(numbers), max(numbers) + 1)


def _number(word: str) -> int:
    if word in NAMES:
        return NAMES.index(word)
    if len(word) == 1 and word in "01234567":
        return int(word)
    what = f"{word!r} is no level: there are {', '.join(NAMES)}, or 0 to 7"
    raise click.BadParameter(what, param_hint="'-p' / '--priority'")


def level(record: Record, tenant: Tenant | None) -> int:
    """The level of the record. The tenant is asked about effects that were started; without one they pass for info."""
    outcome = record.data.get("outcome")
    if record.kind == "RunConcluded":
        return NOTICE if isinstance(outcome, str) and seals(outcome) else ERR
    if record.kind == "EffectFailed":
        return ERR
    if record.kind == "EffectReconciled" and record.data.get("disposition") == "did-not-happen":
        return ERR
    if record.kind in _PENDING or (tenant is not None and _in_doubt(record, tenant)):
        return WARNING
    return INFO


def _in_doubt(record: Record, tenant: Tenant) -> bool:
    if record.kind != "EffectStarted" or record.effect is None:
        return False
    effect = tenant.effect(record.run, record.effect)
    return effect is not None and effect.in_doubt and effect.start_seq == record.seq
