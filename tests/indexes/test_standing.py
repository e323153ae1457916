"""Where a run stands: how each kind moves it, and its stored form."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.indexes.packing import I64_MAX, I64_MIN, u64
from sealbook.indexes.standing import (
    BLOCK_RECORDS,
    SEALING_EXCEPTIONS,
    EffectStatus,
    Facts,
    Standing,
    advance,
    pack,
    seals,
    unpack,
    with_leaf,
)

Fold = Callable[..., Standing]
STARTED = EffectStatus.STARTED


def test_the_first_record_makes_a_standing(fold: Fold) -> None:
    standing = fold(("RunAdmitted", {"case": "c", "source": "s", "epoch": 7}))
    assert standing == Standing(
        tenant="acme", run="r", records=1, head=b"\1" * 32, epoch=7, first_arrival=10, last_arrival=10,
        admitted_at=1001, updated_at=1001, case="c", source="s", last_kind="RunAdmitted", outcome=None,
        outcome_arrival=None, waiting_seq=None, until=None, effects_started=0, effects_done=0, effects_failed=0,
        run_tag=b"t" * 32, highest_leaf=None, highest_leaf_seq=None, seal=None, recent_arrivals=u64(10),
    )  # fmt: skip


def test_head_epoch_arrival_and_time_are_those_of_the_last_record(fold: Fold) -> None:
    standing = fold("RunAdmitted", "Note", ("Note", {"epoch": 3, "at": 5}))
    assert (standing.records, standing.head, standing.epoch) == (3, b"\3" * 32, 3)
    assert (standing.first_arrival, standing.last_arrival, standing.updated_at) == (10, 30, 5)


def test_the_arrivals_of_the_records_after_the_last_full_block_are_kept(fold: Fold) -> None:
    for count in (1, 63, 64, 65, 130):
        recent = range(count - count % BLOCK_RECORDS, count)
        assert fold(*["Note"] * count).recent_arrivals == b"".join(u64(10 * (number + 1)) for number in recent)


def test_case_source_and_admission_are_those_of_the_first_record_that_has_one(fold: Fold) -> None:
    standing = fold("RunAdmitted", ("Note", {"case": "c", "source": "s"}), ("Note", {"case": "d", "source": "t"}))
    assert (standing.case, standing.source, standing.admitted_at) == ("c", "s", 1001)
    assert fold("Note").admitted_at is None


# kind -> whether it (ends a wait, sets the outcome)
MOVES = {
    "RunAdmitted": (True, False),
    "EffectStarted": (True, False),
    "EffectDone": (True, False),
    "EffectFailed": (True, False),
    "EffectReconciled": (True, False),
    "RunConcluded": (True, True),
    "Note": (False, False),
    "Anything.Else": (True, False),
}


@pytest.mark.parametrize("kind", MOVES)
def test_each_kind_moves_the_wait_and_the_outcome_as_the_table_says(fold: Fold, kind: str) -> None:
    ends, concludes = MOVES[kind]
    suspended = ("RunSuspended", {"until": 55})
    earlier = ("RunConcluded", {"outcome": "failed"})
    standing = fold(earlier, suspended, (kind, {"outcome": "done"} if concludes else {}))
    assert (standing.waiting_seq, standing.until, standing.waiting) == ((None, None, False) if ends else (2, 55, True))
    assert (standing.outcome, standing.outcome_arrival) == (("done", 30) if concludes else ("failed", 10))
    assert standing.concluded is concludes


def test_a_suspension_begins_a_wait_and_a_second_one_replaces_it(fold: Fold) -> None:
    standing = fold(("RunSuspended", {"until": 5}), "Note", ("RunSuspended", {"until": None}))
    assert (standing.waiting_seq, standing.until) == (3, None)


def test_a_conclusion_is_final_when_it_is_last_and_its_outcome_seals(fold: Fold) -> None:
    done, failed = ("RunConcluded", {"outcome": "done"}), ("RunConcluded", {"outcome": "failed"})
    assert fold(done).final
    assert not fold(failed).final
    assert not fold(done, "Note").final
    assert (fold(failed).concluded, fold(failed, "Note").concluded) == (True, False)


def test_all_outcomes_seal_but_four() -> None:
    assert {"failed", "exhausted", "quarantined", "withheld"} == SEALING_EXCEPTIONS
    assert all(seals(outcome) for outcome in ("done", "cancelled", "unheard-of", "failed-again"))
    assert not any(seals(outcome) for outcome in SEALING_EXCEPTIONS)


STATUSES: list[EffectStatus | None] = [None, *EffectStatus]


@pytest.mark.parametrize(("before", "after"), list(itertools.product(STATUSES, EffectStatus)))
def test_effects_are_counted_by_the_latest_attempt_of_their_key(
    fold: Fold, before: EffectStatus | None, after: EffectStatus
) -> None:
    def counts(status: EffectStatus | None) -> tuple[int, int, int]:
        return (
            int(status is not None),
            int(status in (EffectStatus.DONE, EffectStatus.LANDED)),
            int(status in (EffectStatus.FAILED, EffectStatus.DID_NOT_HAPPEN)),
        )

    first = ("EffectStarted", {"effect_before": None, "effect_after": STARTED})
    other = [first, ("EffectDone", {"effect_before": STARTED, "effect_after": EffectStatus.DONE})]
    to_before = [("EffectX", {"effect_before": None, "effect_after": before})] if before is not None else []
    standing = fold(*other, *to_before, ("EffectX", {"effect_before": before, "effect_after": after}))
    own = counts(after)
    found = (standing.effects_started, standing.effects_done, standing.effects_failed)
    assert found == (1 + own[0], 1 + own[1], own[2])
    assert standing.effects_in_doubt == (after is STARTED)


def test_a_record_that_is_no_effect_moves_no_count(fold: Fold) -> None:
    standing = fold("Note", "RunSuspended", ("RunConcluded", {"outcome": "x"}))
    assert (standing.effects_started, standing.effects_done, standing.effects_failed) == (0, 0, 0)


def test_statuses_are_spelled_as_people_read_them() -> None:
    assert [status.word for status in EffectStatus] == ["started", "done", "failed", "landed", "did-not-happen"]


def test_a_leaf_moves_the_highest_one_and_a_seal_stays(fold: Fold) -> None:
    standing = with_leaf(fold("Note", "Note"), index=4, seq=2, sealing=False)
    assert (standing.highest_leaf, standing.highest_leaf_seq, standing.seal, standing.sealed) == (4, 2, None, False)
    standing = with_leaf(standing, index=9, seq=2, sealing=True)
    assert (standing.highest_leaf, standing.seal, standing.sealed) == (9, 9, True)


def test_records_come_one_after_the_other() -> None:
    first = Facts(seq=2, arrival=1, epoch=1, at=0, kind="Note", hash=bytes(32))
    with pytest.raises(AssertionError):
        advance(None, first, tenant="a", run="r", run_tag=bytes(32))


numbers = st.integers(0, I64_MAX)
maybe = st.none() | numbers
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=130)
standings = st.builds(
    Standing,
    tenant=st.just("acme"),
    run=st.just("r"),
    records=numbers,
    head=st.binary(min_size=32, max_size=32),
    epoch=numbers,
    first_arrival=numbers,
    last_arrival=numbers,
    admitted_at=maybe,
    updated_at=numbers,
    case=st.none() | texts,
    source=st.none() | texts,
    last_kind=texts,
    outcome=st.none() | texts,
    outcome_arrival=maybe,
    waiting_seq=maybe,
    until=st.none() | st.integers(I64_MIN + 1, I64_MAX),
    effects_started=numbers,
    effects_done=numbers,
    effects_failed=numbers,
    run_tag=st.binary(min_size=32, max_size=32),
    highest_leaf=maybe,
    highest_leaf_seq=maybe,
    seal=maybe,
    recent_arrivals=st.just(b""),
    owner=st.none(),
    expires_at=st.none(),
)


@st.composite
def found(draw: st.DrawFn) -> Standing:
    """A standing with the arrivals that go with its number of records."""
    standing = draw(standings)
    length = 8 * (standing.records % BLOCK_RECORDS)
    return standing._replace(recent_arrivals=draw(st.binary(min_size=length, max_size=length)))


@settings(derandomize=True, max_examples=300, deadline=None)
@given(found())
def test_a_standing_comes_back_from_its_stored_form(standing: Standing) -> None:
    assert unpack("acme", "r", pack(standing)) == standing


def test_owner_and_expiry_are_never_stored(fold: Fold) -> None:
    standing = fold("Note")
    leased = standing._replace(owner="w", expires_at=5)
    assert pack(leased) == pack(standing)
    assert unpack("acme", "r", pack(leased)) == standing


@settings(derandomize=True, max_examples=200, deadline=None)
@given(found(), st.data())
def test_bytes_that_are_no_stored_standing_are_a_value_error(standing: Standing, data: Any) -> None:
    value = pack(standing)
    for damaged in (value + b"\0", value[: data.draw(st.integers(0, len(value) - 1))], bytes([9]) + value[1:]):
        with pytest.raises(ValueError, match=r".+"):
            unpack("acme", "r", damaged)
