"""Whether an entry may enter a chain: the table of effect moves, and the other rules."""

from __future__ import annotations

import itertools

import pytest

from sealbook.indexes.standing import EffectStatus
from sealbook.journal import (
    Concluded,
    DuplicateEffect,
    EffectKey,
    EffectNotStarted,
    EffectSettled,
    Entry,
    InvalidEntry,
    Mismatch,
    Refused,
    RunSealed,
    Tenant,
    entries,
)
from sealbook.journal.deciding.admission import move_effect
from sealbook.journal.deciding.requests import prepare
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.records.entries import RECOVERIES
from sealbook.journal.schema.tables import EffectRow
from sealbook.journal.testing import all_rows

KEY = EffectKey("charge")
STARTED, DONE, FAILED = EffectStatus.STARTED, EffectStatus.DONE, EffectStatus.FAILED
LANDED, DID_NOT_HAPPEN = EffectStatus.LANDED, EffectStatus.DID_NOT_HAPPEN

START = "start"
ENDS: dict[str, tuple[Entry, EffectStatus]] = {
    "done": (entries.effect_done(KEY), DONE),
    "failed": (entries.effect_failed(KEY), FAILED),
    "landed": (entries.effect_reconciled(KEY, disposition="landed"), LANDED),
    "did-not-happen": (entries.effect_reconciled(KEY, disposition="did-not-happen"), DID_NOT_HAPPEN),
}
# How the latest attempt stands, None for no attempt -> the recoveries under which a new start is taken.
RESTART: dict[EffectStatus | None, tuple[str, ...]] = {
    None: RECOVERIES,
    STARTED: ("retry", "idempotent"),
    FAILED: RECOVERIES,
    DID_NOT_HAPPEN: RECOVERIES,
    DONE: (),
    LANDED: (),
}


def row(status: EffectStatus | None, recovery: str) -> EffectRow | None:
    return None if status is None else EffectRow(3, recovery, status, 7, 0 if status is STARTED else 8)


def start(recovery: str | None = None, attempt: int | None = None) -> Entry:
    return entries.effect_started(KEY, name="n", recovery=recovery, attempt=attempt)


@pytest.mark.parametrize("new", RECOVERIES)
@pytest.mark.parametrize(("status", "recovery"), list(itertools.product(RESTART, RECOVERIES)))
def test_a_start_is_taken_after_these_states_alone(status: EffectStatus | None, recovery: str, new: str) -> None:
    before = row(status, recovery)
    if recovery in RESTART[status]:
        moved = move_effect("r", prepare(start(new)), 9, before)
        assert moved == EffectRow(1 if before is None else 4, new, STARTED, 9, 0)
    else:
        with pytest.raises(DuplicateEffect) as caught:
            move_effect("r", prepare(start(new)), 9, before)
        assert before is not None
        assert (caught.value.attempt, caught.value.status) == (3, before.status.word)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("status", "recovery"), list(itertools.product(RESTART, RECOVERIES)))
def test_an_end_is_taken_while_the_attempt_is_undecided_alone(
    status: EffectStatus | None, recovery: str, end: str
) -> None:
    entry, after = ENDS[end]
    if status is STARTED:
        assert move_effect("r", prepare(entry), 9, row(status, recovery)) == EffectRow(3, recovery, after, 7, 9)
    else:
        with pytest.raises(EffectNotStarted if status is None else EffectSettled):
            move_effect("r", prepare(entry), 9, row(status, recovery))


@pytest.mark.parametrize("stated", [1, 2, 3, 4, 5])
def test_an_attempt_that_the_caller_states_must_be_the_one_it_becomes(stated: int) -> None:
    cases = [(start(attempt=stated), FAILED, 4), (start(attempt=stated), None, 1)]
    cases += [(entries.effect_done(KEY, attempt=stated), STARTED, 3)]
    for entry, status, becomes in cases:
        if stated == becomes:
            assert move_effect("r", prepare(entry), 9, row(status, "ask")).attempt == stated
        else:
            with pytest.raises(Mismatch) as caught:
                move_effect("r", prepare(entry), 9, row(status, "ask"))
            assert (caught.value.stated, caught.value.recorded) == (stated, becomes)


def test_recovery_is_ask_unless_the_start_says_otherwise() -> None:
    """Behaviour P38: the recovery that calls at most once is the default."""
    assert move_effect("r", prepare(start()), 1, None).recovery == "ask"


# --- every path of two and three moves through a store --------------------------------------------------------------

MOVES: dict[str, Entry] = {
    START: start(),
    "retry": start("retry"),
    **{name: entry for name, (entry, _) in ENDS.items()},
}


def model(path: tuple[str, ...]) -> tuple[int, str, str] | None:
    """What DESIGN section 4 makes of a path: (attempt, recovery, status), or None when its last move is refused."""
    attempt, recovery, status = 0, "", "none"
    for move in path:
        if move in (START, "retry"):
            again = status in ("none", "failed", "did-not-happen")
            if not again and not (status == "started" and recovery in ("retry", "idempotent")):
                return None
            attempt, recovery, status = attempt + 1, "retry" if move == "retry" else "ask", "started"
        elif status != "started":
            return None
        else:
            status = move
    return attempt, recovery, status


def test_every_path_of_three_moves_ends_as_the_rules_say(acme: Tenant, engine: MemoryEngine) -> None:
    for number, path in enumerate(itertools.product(MOVES, repeat=3)):
        run = f"r{number}"
        acme.append(run, [entries.admitted()], epoch=1)
        for length in (1, 2, 3):
            stands_as_the_model_says(acme, engine, run, path[:length], [MOVES[path[length - 1]]])
            if model(path[:length]) is None:
                break


def test_every_path_of_three_moves_in_one_batch_ends_as_the_rules_say(acme: Tenant, engine: MemoryEngine) -> None:
    for number, path in enumerate(itertools.product(MOVES, repeat=3)):
        lengths = [length for length in (1, 2, 3) if model(path[:length]) is None]
        expected = path[: lengths[0]] if lengths else path
        stands_as_the_model_says(acme, engine, f"r{number}", expected, [MOVES[move] for move in path])


def stands_as_the_model_says(
    acme: Tenant, engine: MemoryEngine, run: str, path: tuple[str, ...], moves: list[Entry]
) -> None:
    expected = model(path)
    if expected is None:
        before = all_rows(engine)
        with pytest.raises((DuplicateEffect, EffectNotStarted, EffectSettled)):
            acme.append(run, moves, epoch=1)
        assert all_rows(engine) == before
        return
    acme.append(run, moves, epoch=1)
    effect = acme.effect(run, KEY)
    assert effect is not None
    assert (effect.attempt, effect.recovery, effect.status) == expected
    counts(acme, run, effect.status)


def counts(acme: Tenant, run: str, status: str) -> None:
    """Counts are of keys by their latest attempt: done includes landed, failed includes did-not-happen."""
    standing = acme.standing(run)
    assert standing is not None
    assert (standing.effects_started, standing.effects_done, standing.effects_failed, standing.effects_in_doubt) == (
        1,
        status in ("done", "landed"),
        status in ("failed", "did-not-happen"),
        status == "started",
    )


def test_attempts_are_numbered_by_the_store_and_stamped_on_each_record(acme: Tenant) -> None:
    batch = [start(), entries.effect_failed(KEY), start("retry"), start("retry"), entries.effect_done(KEY)]
    made = acme.append("r", [entries.admitted(), *batch], epoch=1)
    assert [record.attempt for record in made] == [None, 1, 1, 2, 3, 3]
    effect = acme.effect("r", KEY)
    assert effect is not None
    assert (effect.start_seq, effect.end_seq, effect.in_doubt) == (5, 6, False)


def test_an_effect_key_on_a_kind_that_is_no_effect_moves_nothing(acme: Tenant) -> None:
    [record] = acme.append("r", [Entry("Note", {}, None, KEY, 7)], epoch=1)
    assert (record.effect, record.attempt) == (KEY, 7)
    assert acme.effect("r", KEY) is None
    acme.append("r", [start()], epoch=1)


# --- places (D21, D22) ----------------------------------------------------------------------------------------------

SEALING = ["done", "cancelled", "anything-else"]
LEFT_OPEN = ["failed", "exhausted", "quarantined", "withheld"]


def test_an_admission_stands_at_seq_1_only(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.note("x")], epoch=1)
    before = all_rows(engine)
    for run, batch in (
        ("r", [entries.admitted()]),
        ("s", [entries.note("x"), entries.admitted()]),
        ("s", [entries.admitted(), entries.admitted()]),
    ):
        with pytest.raises(InvalidEntry, match="seq 1 only"):
            acme.append(run, batch, epoch=1)
    assert all_rows(engine) == before


@pytest.mark.parametrize("outcome", SEALING)
def test_nothing_follows_a_conclusion_that_seals_even_before_the_seal(acme: Tenant, outcome: str) -> None:
    acme.append("r", [entries.admitted(), entries.concluded(outcome)], epoch=1)
    for entry in (entries.note("x"), entries.concluded(outcome), entries.suspended()):
        with pytest.raises(Concluded) as caught:
            acme.append("r", [entry], epoch=1)
        assert caught.value.outcome == outcome
    acme.seal("r")
    with pytest.raises(RunSealed) as sealed:
        acme.append("r", [entries.note("x")], epoch=1)
    assert sealed.value.outcome == outcome


@pytest.mark.parametrize("outcome", LEFT_OPEN)
def test_a_conclusion_that_does_not_seal_leaves_the_run_open(acme: Tenant, outcome: str) -> None:
    acme.append("r", [entries.admitted(), entries.concluded(outcome)], epoch=1)
    acme.append("r", [entries.note("again"), entries.concluded("done")], epoch=1, seal=True)
    standing = acme.standing("r")
    assert standing is not None
    assert (standing.outcome, standing.sealed) == ("done", True)


@pytest.mark.parametrize("outcome", SEALING + LEFT_OPEN)
def test_nothing_follows_a_conclusion_within_one_batch(acme: Tenant, engine: MemoryEngine, outcome: str) -> None:
    before = all_rows(engine)
    for entry in (entries.note("x"), entries.concluded("done")):
        with pytest.raises(InvalidEntry, match="follows a RunConcluded"):
            acme.append("r", [entries.admitted(), entries.concluded(outcome), entry], epoch=1)
    assert all_rows(engine) == before


def test_every_error_of_the_rules_is_a_refusal() -> None:
    for kind in (DuplicateEffect, EffectNotStarted, EffectSettled, Concluded, RunSealed, InvalidEntry, Mismatch):
        assert issubclass(kind, Refused)
