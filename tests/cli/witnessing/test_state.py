"""What a witness remembers is decided upon and made durable in one transaction."""

from __future__ import annotations

from typing import Any

import pytest
from witness_world import LATTICE, NAME, ORIGIN, WITNESS, GrowingLog

from sealbook.cli.witnessing.cosigner import Cosigner
from sealbook.cli.witnessing.state import (
    EVIDENCE,
    EVIDENCE_PER_CLASS_MAX,
    STATES,
    TRIES_MAX,
    StateStore,
)
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Applied, Retry, Unknown, Work
from sealbook.journal.errors import CommitUnknown, Corrupt, EngineFailed, NotFound
from sealbook.journal.testing import ManualClock, rows, tamper
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.keys import SignatureLine
from sealbook.merkle.note import Note, open_checkpoint, sign_text
from sealbook.merkle.witness import AddCheckpoint, Submission, TrustedLog, origin_key, read_request


@pytest.fixture
def engine(clock: ManualClock) -> MemoryEngine:
    return MemoryEngine(clock=clock, call_work_twice=True)


@pytest.fixture
def state(engine: MemoryEngine) -> StateStore:
    return StateStore(engine, Cosigner(NAME, (WITNESS,)))


def statuses(state: StateStore, *submissions: Submission) -> list[int]:
    return [decision.answer.status for decision in state.decide(submissions)]


def forked(log: GrowingLog, number: int, old: int, size: int, proof: tuple[bytes, ...] = ()) -> Submission:
    """A checkpoint that the log signed with a root of its own invention."""
    text = Checkpoint(log.origin, size, bytes([number]) * 32).text()
    body = AddCheckpoint(old, proof, Note(text, (sign_text(text, log.signer),)).encode()).encode()
    read = read_request(body, {log.origin: log.trusted})
    assert isinstance(read, Submission)
    return read


def test_the_whole_note_is_remembered_with_the_log_s_line_and_the_witness_s(state: StateStore, log: GrowingLog) -> None:
    assert statuses(state, log.submission(0, 3)) == [200]
    note = state.note(origin_key(ORIGIN))
    assert note is not None
    opened = open_checkpoint(note, origin=ORIGIN, log_keys=[log.signer.key], cosigner_keys=[WITNESS.key])
    assert opened.checkpoint == log.checkpoint(3)
    assert len(opened.note.lines) == 2
    assert [each.checkpoint for each in state.states()] == [log.checkpoint(3)]
    assert state.note(origin_key("nobody.example")) is None


def test_every_key_of_the_witness_cosigns(engine: MemoryEngine, log: GrowingLog) -> None:
    state = StateStore(engine, Cosigner(NAME, (WITNESS, LATTICE)))
    (decision,) = state.decide([log.submission(0, 3)])
    lines = [SignatureLine.parse(line) for line in decision.answer.body.decode().splitlines()]
    assert [line.key_id for line in lines] == [WITNESS.key.key_id, LATTICE.key.key_id]


def test_requests_of_one_transaction_are_decided_in_their_order(
    state: StateStore, log: GrowingLog, fork: GrowingLog, other: GrowingLog
) -> None:
    found = statuses(
        state,
        log.submission(0, 3),
        log.submission(0, 4),
        other.submission(0, 2),
        log.submission(3, 7),
        fork.submission(3, 8),
        fork.submission(7, 8),
        log.submission(7, 7),
    )
    assert found == [200, 409, 200, 200, 409, 422, 200]


def test_of_many_growths_from_one_size_one_is_cosigned(state: StateStore, log: GrowingLog) -> None:
    state.decide([log.submission(0, 5)])
    assert statuses(state, *(log.submission(5, size) for size in range(6, 18))) == [200] + [409] * 11


def test_a_cosignature_is_never_dated_back(state: StateStore, log: GrowingLog, clock: ManualClock) -> None:
    state.decide([log.submission(0, 3)])
    clock.step_wall(-1)
    assert statuses(state, log.submission(3, 4), log.submission(3, 3)) == [503, 503]
    clock.step_wall(1)
    assert statuses(state, log.submission(3, 4)) == [200]


def test_other_logs_do_not_wait_for_a_clock_that_is_behind_one(
    state: StateStore, log: GrowingLog, other: GrowingLog, clock: ManualClock
) -> None:
    state.decide([log.submission(0, 3)])
    clock.step_wall(-1)
    assert statuses(state, log.submission(3, 4), other.submission(0, 3)) == [503, 200]


def test_a_pinned_checkpoint_stands_for_the_state_that_is_not_there(state: StateStore, log: GrowingLog) -> None:
    pinned = TrustedLog(ORIGIN, (log.signer.key,), log.checkpoint(5))

    def submission(old: int, size: int) -> Submission:
        read = read_request(log.request(old, size), {ORIGIN: pinned})
        assert isinstance(read, Submission)
        return read

    (decision,) = state.decide([submission(0, 6)])
    assert (decision.answer.status, decision.answer.body) == (409, b"5\n")
    assert statuses(state, submission(5, 6), submission(5, 7), submission(6, 7)) == [200, 409, 200]


def test_a_disabled_log_is_not_cosigned_for_and_goes_on_from_where_it_was(
    state: StateStore, log: GrowingLog, other: GrowingLog
) -> None:
    state.decide([log.submission(0, 3)])
    state.disable(ORIGIN)
    assert state.disabled() == [ORIGIN]
    assert statuses(state, log.submission(3, 4), other.submission(0, 1)) == [404, 200]
    assert state.note(origin_key(ORIGIN)) is not None
    state.enable(ORIGIN)
    assert statuses(state, log.submission(0, 4), log.submission(3, 4)) == [409, 200]
    with pytest.raises(NotFound):
        state.enable(ORIGIN)


def test_a_damaged_state_stops_its_own_log_alone(
    state: StateStore, engine: MemoryEngine, log: GrowingLog, other: GrowingLog
) -> None:
    state.decide([log.submission(0, 3)])
    ((key, value),) = rows(engine, STATES)
    for at in (0, 7, 30, len(value) - 1):
        damaged = bytearray(value)
        damaged[at] ^= 1
        tamper(engine, STATES, key, bytes(damaged))
        assert statuses(state, log.submission(3, 4), other.submission(0, 2), log.submission(0, 4))[::2] == [500, 500]
        with pytest.raises(Corrupt):
            state.note(origin_key(ORIGIN))
    assert rows(engine, STATES)[0][0] != rows(engine, STATES)[1][0], "the other log's state was written"


def test_a_state_under_another_log_s_key_is_damage(
    state: StateStore, engine: MemoryEngine, log: GrowingLog, other: GrowingLog
) -> None:
    from sealbook.cli.witnessing.state import checked, with_check

    state.decide([log.submission(0, 3)])
    key = origin_key(ORIGIN)
    content = checked((STATES, key), rows(engine, STATES)[0][1])
    place = (STATES, origin_key(other.origin))
    tamper(engine, *place, with_check(place, content))
    assert statuses(state, other.submission(0, 2)) == [500]
    with pytest.raises(Corrupt, match="another log's key"):
        state.note(place[1])


# --- evidence -----------------------------------------------------------------------------------------------------


def test_two_roots_at_one_size_are_kept_whatever_old_size_was_named(
    state: StateStore, log: GrowingLog, fork: GrowingLog, clock: ManualClock
) -> None:
    state.decide([log.submission(0, 9)])
    held = state.note(origin_key(ORIGIN))
    assert statuses(state, fork.submission(4, 9)) == [409]
    (evidence,) = state.evidence(ORIGIN)
    assert (evidence.origin, evidence.reason) == (ORIGIN, "two roots at size 9")
    assert (evidence.held, evidence.request) == (held, fork.submission(4, 9).body)
    clock.advance(60)
    assert statuses(state, fork.submission(9, 9)) == [422]
    assert len(list(state.evidence())) == 1, "the same checkpoint is kept once"


def test_a_proof_that_does_not_hold_is_kept(state: StateStore, log: GrowingLog, fork: GrowingLog) -> None:
    state.decide([log.submission(0, 9)])
    (decision,) = state.decide([fork.submission(9, 12)])
    assert decision.answer.status == 422
    assert decision.evidence is not None
    assert [each.request for each in state.evidence(ORIGIN)] == [fork.submission(9, 12).body]
    assert list(state.evidence("nobody.example")) == []


def test_evidence_is_bounded_the_first_proofs_and_the_newest_suspicions_stay(
    state: StateStore, engine: MemoryEngine, log: GrowingLog, clock: ManualClock
) -> None:
    state.decide([log.submission(0, 9)])
    first = [forked(log, number, 9, 9) for number in range(EVIDENCE_PER_CLASS_MAX)]
    for submission in first:
        state.decide([submission])
        clock.advance(1)
    suspicions = [forked(log, number, 9, 12, (bytes(32),)) for number in range(2 * EVIDENCE_PER_CLASS_MAX + 3)]
    for submission in suspicions:
        state.decide([submission])
        clock.advance(1)
    state.decide([forked(log, 200, 9, 9)])
    assert len(rows(engine, EVIDENCE)) == 2 * EVIDENCE_PER_CLASS_MAX
    kept = [each.request for each in state.evidence(ORIGIN)]
    assert kept[:EVIDENCE_PER_CLASS_MAX] == [each.body for each in first]
    assert kept[EVIDENCE_PER_CLASS_MAX:] == [each.body for each in suspicions[-EVIDENCE_PER_CLASS_MAX:]]


def test_evidence_of_one_transaction_is_bounded_too(state: StateStore, engine: MemoryEngine, log: GrowingLog) -> None:
    state.decide([log.submission(0, 9)])
    state.decide([forked(log, number, 9, 12, (bytes(32),)) for number in range(3 * EVIDENCE_PER_CLASS_MAX)])
    assert len(rows(engine, EVIDENCE)) == EVIDENCE_PER_CLASS_MAX


# --- a commit that fails ----------------------------------------------------------------------------------------------


class Failing:
    """A memory engine whose next writes end as the test says, before or after they were applied."""

    def __init__(self, inner: MemoryEngine) -> None:
        self._inner = inner
        self.ends: list[Any] = []
        self.applies = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, work: Work) -> Applied | Retry | Unknown:
        if not self.ends:
            return self._inner.write(work)
        end = self.ends.pop(0)
        if self.applies:
            self._inner.write(work)
        if isinstance(end, BaseException):
            raise end
        assert isinstance(end, Retry | Unknown)
        return end


@pytest.mark.parametrize("applies", [False, True])
def test_an_unknown_commit_answers_nothing_and_the_state_is_read_anew(
    engine: MemoryEngine, log: GrowingLog, applies: bool
) -> None:
    failing = Failing(engine)
    marked: list[bool] = []
    state = StateStore(failing, Cosigner(NAME, (WITNESS,), mark_signed=lambda: marked.append(True)))
    state.decide([log.submission(0, 3)])
    marked.clear()
    failing.ends, failing.applies = [Unknown(OSError("lost"))], applies
    with pytest.raises(CommitUnknown):
        state.decide([log.submission(3, 4)])
    assert marked == []
    assert statuses(state, log.submission(3, 4), log.submission(4, 5)) == ([409, 200] if applies else [200, 200])


def test_an_engine_that_asks_for_it_is_tried_again_a_few_times(engine: MemoryEngine, log: GrowingLog) -> None:
    failing = Failing(engine)
    state = StateStore(failing, Cosigner(NAME, (WITNESS,)))
    failing.ends = [Retry("lost a race")] * (TRIES_MAX - 1)
    assert statuses(state, log.submission(0, 3)) == [200]
    failing.ends = [Retry("lost a race")] * TRIES_MAX
    with pytest.raises(EngineFailed, match="lost a race"):
        state.decide([log.submission(3, 4)])
    assert statuses(state, log.submission(3, 4)) == [200]


def test_the_key_is_marked_before_an_answer_leaves_and_only_if_one_was_cosigned(
    engine: MemoryEngine, log: GrowingLog
) -> None:
    def refuse() -> None:
        raise OSError("the ring cannot be written")

    unmarked = StateStore(engine, Cosigner(NAME, (WITNESS,), mark_signed=refuse))
    with pytest.raises(OSError, match="ring"):
        unmarked.decide([log.submission(0, 3)])
    assert statuses(unmarked, log.submission(0, 3)) == [409], "refusals need no mark"
