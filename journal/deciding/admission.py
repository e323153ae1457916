"""Decide whether entries may enter a run's chain, and what each becomes. Pure: stored state in, moves out.

Rule 1: a sealed run takes nothing (`RunSealed`), a run whose conclusion seals takes nothing (`Concluded`).
Rule 2: the epoch must be the current one (`Fenced`; see `lease`).
Rule 3: `RunAdmitted` stands at seq 1 only, and its admission key is honoured once per tenant.
Rule 4: an effect moves as MOVES says; each attempt has one recorded start.
Rule 5: nothing follows a conclusion within one batch.
"""

from __future__ import annotations

from sealbook.indexes.standing import EffectStatus, Standing
from sealbook.journal.deciding.requests import EFFECT_KINDS, Prepared
from sealbook.journal.errors import (
    Concluded,
    DuplicateEffect,
    EffectNotStarted,
    EffectSettled,
    InvalidEntry,
    Mismatch,
    RunSealed,
)
from sealbook.journal.schema.tables import EffectRow

STARTED = EffectStatus.STARTED
SETTLED_AS = {  # an end's kind and disposition -> how the latest attempt stands after it
    ("EffectDone", None): EffectStatus.DONE,
    ("EffectFailed", None): EffectStatus.FAILED,
    ("EffectReconciled", "landed"): EffectStatus.LANDED,
    ("EffectReconciled", "did-not-happen"): EffectStatus.DID_NOT_HAPPEN,
}
RESTARTABLE = frozenset({EffectStatus.FAILED, EffectStatus.DID_NOT_HAPPEN})
REPEATABLE = frozenset({"retry", "idempotent"})  # recoveries under which an undecided attempt may be superseded


def check_open(run: str, standing: Standing | None) -> None:
    """Rule 1."""
    if standing is None:
        return
    if standing.sealed:
        raise RunSealed(run, standing.outcome or "")
    if standing.final:
        raise Concluded(run, standing.outcome or "")


def check_place(entry: Prepared, seq: int, previous: Prepared | None) -> None:
    """Rules 3 (the place) and 5, for the entry that would become record `seq` after `previous` of the same batch."""
    if entry.kind == "RunAdmitted" and seq != 1:
        raise InvalidEntry("RunAdmitted", f"stands at seq 1 only, this would be seq {seq}")
    if previous is not None and previous.kind == "RunConcluded":
        raise InvalidEntry(entry.kind, "follows a RunConcluded of the same batch")


def move_effect(run: str, entry: Prepared, seq: int, row: EffectRow | None) -> EffectRow:
    """Rule 4: how the effect's row stands after this entry becomes record `seq`.

    | latest attempt | EffectStarted | EffectDone, EffectFailed, EffectReconciled |
    |---|---|---|
    | none | attempt 1 | EffectNotStarted |
    | started, recovery ask or reconcile | DuplicateEffect | ends it |
    | started, recovery retry or idempotent | attempt n + 1 | ends it |
    | failed, reconciled as did-not-happen | attempt n + 1 | EffectSettled |
    | done, reconciled as landed | DuplicateEffect | EffectSettled |
    """
    assert entry.effect is not None and entry.kind in EFFECT_KINDS
    key = entry.effect
    if entry.kind == "EffectStarted":
        if row is not None:
            undecided = row.status is STARTED and row.recovery in REPEATABLE
            if not undecided and row.status not in RESTARTABLE:
                raise DuplicateEffect(run, key.hex(), row.attempt, row.status.word)
        moved = EffectRow(1 if row is None else row.attempt + 1, entry.recovery, STARTED, seq)
    else:
        if row is None:
            raise EffectNotStarted(run, key.hex())
        if row.status is not STARTED:
            raise EffectSettled(run, key.hex(), row.attempt, row.status.word)
        status = SETTLED_AS[entry.kind, entry.disposition]
        moved = EffectRow(row.attempt, row.recovery, status, row.start_seq, seq)
    if entry.attempt is not None and entry.attempt != moved.attempt:
        raise Mismatch(run, f"the attempt of effect {key.hex()[:16]}…", entry.attempt, moved.attempt)
    return moved
