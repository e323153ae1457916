"""Group commit: who shares a transaction, who leads, and what everybody is told when something goes wrong."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from writer_world import TENANT, Loop, Slow, asked_together, calling, held, note, queued

from sealbook.journal import Journal, entries, requests
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.port import (
    NOT_WRITTEN,
    Work,
)
from sealbook.journal.errors import Busy, Closed, CommitUnknown, Corrupt, Fenced, OpenedBeforeFork, StoreFull
from sealbook.journal.records.signatures import Ed25519Signer
from sealbook.journal.schema.tables import STATE, run_key
from sealbook.journal.testing import ManualClock
from sealbook.journal.writing import writer as writing
from sealbook.journal.writing.writer import Ticket


@pytest.fixture
def engine() -> Slow:
    return Slow()


@pytest.fixture
def journal(engine: Slow) -> Iterator[Journal]:
    with Journal.over(engine) as journal:
        engine.commits.clear()
        engine.began.clear()
        yield journal


# --- sharing --------------------------------------------------------------------------------------------------------


def test_one_thread_commits_whoever_asks(journal: Journal, engine: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, loop = journal.view.writer, Loop()
    on: list[threading.Thread] = []

    def watched(work: Work) -> Any:
        on.append(threading.current_thread())
        return journal.view.write(work)

    monkeypatch.setattr(writer, "_write", watched)
    for number in range(3):
        writer.submit(TENANT, note("run", str(number)))
    calling(lambda: writer.submit(TENANT, note("another thread")))[0].join(30)
    writer.enlist(TENANT, note("task"), loop)
    loop.wait(1)
    assert on == [writer._thread] * 5
    assert len(engine.commits) == 5
    assert engine.ways_given == 0


def test_a_journal_that_was_never_written_to_has_no_thread(journal: Journal) -> None:
    journal.tenant(TENANT).runs()
    assert journal.view.writer._thread is None


def test_a_write_within_a_write_is_refused_at_once(clock: ManualClock) -> None:
    key = Ed25519Signer(bytes(32))

    class Writing:
        public_key = key.public_key

        def sign(self, message: bytes) -> bytes:
            if inside:
                journal.tenant(TENANT).append("other", [entries.note("x")], epoch=1)
            return key.sign(message)

    inside: list[bool] = []
    journal = Journal.in_memory(signer=Writing(), clock=clock)
    inside.append(True)
    thread, found = calling(lambda: journal.view.writer.submit(TENANT, note("run")))
    thread.join(30)
    assert [type(error) for error in found] == [Busy]
    inside.clear()
    assert journal.view.writer.submit(TENANT, note("run"))[0].seq == 1
    journal.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_where_the_thread_has_died_another_one_answers(
    journal: Journal, engine: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = journal.view.writer
    monkeypatch.setattr(writing, "LOOK_SECONDS", 0.01)

    def die() -> None:
        monkeypatch.undo()
        raise SystemExit

    monkeypatch.setattr(writer, "_gather", die)
    thread, found = calling(lambda: writer.submit(TENANT, note("run")))
    thread.join(30)
    assert found[0][0].run == "run"


def test_requests_that_come_during_a_commit_share_the_next_one(journal: Journal, engine: Slow) -> None:
    answers = asked_together(journal, engine, [note(f"run-{number}") for number in range(20)])
    assert [answer[0].run for answer in answers] == [f"run-{number}" for number in range(20)]
    assert [answer[0].arrival for answer in answers] == list(range(2, 22))
    assert len(engine.commits) == 2
    assert journal.statistics()["batch_requests"]["at_most"]["1"] == 1
    assert journal.statistics()["batch_requests"]["sum"] == 21
    assert journal.check().ok


def test_a_refused_request_leaves_nothing_and_the_others_commit(journal: Journal, engine: Slow) -> None:
    asked = [note("a"), note("b", epoch=7), note("c")]
    one, refused, three = asked_together(journal, engine, asked)
    assert isinstance(refused, Fenced)
    assert (one[0].run, three[0].run) == ("a", "c")
    assert len(engine.commits) == 2
    assert journal.tenant(TENANT).head("b").seq == 0
    assert journal.statistics()["refusals"] == {"Fenced": 1}
    assert journal.check().ok


def test_a_transaction_holds_at_most_its_number_of_entries_and_bytes(
    journal: Journal, engine: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (writing.ENTRIES_MAX, writing.BYTES_MAX) == (1000, 16 * 2**20)
    monkeypatch.setattr(writing, "ENTRIES_MAX", 4)
    asked_together(journal, engine, [note(f"run-{number}") for number in range(10)])
    assert journal.statistics()["commits"] == 1 + 3
    monkeypatch.setattr(writing, "ENTRIES_MAX", 1000)
    monkeypatch.setattr(writing, "BYTES_MAX", 2500)
    asked_together(journal, engine, [note(f"long-{number}", "x" * 1000) for number in range(6)])
    assert journal.statistics()["commits"] == 4 + 1 + 3
    assert journal.statistics()["batch_requests"]["count"] == journal.statistics()["commits"]


def test_a_request_that_is_larger_than_a_transaction_has_one_of_its_own(
    journal: Journal, engine: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "ENTRIES_MAX", 4)
    large = requests.append("large", [entries.note(str(number)) for number in range(9)], epoch=1)
    before, answer, after = asked_together(journal, engine, [note("a"), large, note("b")])
    assert (len(before), len(answer), len(after)) == (1, 9, 1)
    assert journal.check().ok


def test_a_run_that_asks_for_much_does_not_keep_the_others_waiting(
    journal: Journal, engine: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "ENTRIES_MAX", 4)
    flood = [note("flood", str(number)) for number in range(8)]
    answers = asked_together(journal, engine, [*flood, note("late")])
    order = [answer[0].arrival for answer in answers]
    assert order[-1] == 3  # beside the flood's first
    assert order[:-1] == sorted(order[:-1])
    assert [answer[0].data["text"] for answer in answers[:-1]] == [str(number) for number in range(8)]


def test_others_are_let_in_between_only_while_somebody_waits_here(journal: Journal, engine: Slow) -> None:
    asked_together(journal, engine, [note("a"), note("b")])
    assert engine.ways_given == 1  # after the first commit, with two in the queue; not after the last


class Watch:
    """The writer's `time`, which goes by in its pauses alone."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def perf_counter(self) -> float:
        return sum(self.pauses)


def test_a_lone_caller_waits_for_nobody_and_many_wait_a_moment_for_each_other(
    journal: Journal, engine: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch()
    monkeypatch.setattr(writing, "time", watch)
    pauses = watch.pauses
    for number in range(5):
        journal.view.writer.submit(TENANT, note("lone", str(number)))
    assert pauses == []
    asked_together(journal, engine, [note("a"), note("b"), note("c")])
    assert journal.view.writer._expected == 3
    journal.view.writer._last_seconds = 3600.0  # so that the wait ends by its longest, and not by a short transaction
    pauses.clear()
    journal.view.writer.submit(TENANT, note("back"))
    assert set(pauses) == {writing.GATHERING_PAUSE}
    pauses.clear()
    journal.view.writer.submit(TENANT, note("back", "alone"))
    assert pauses == []


# --- what is remembered ---------------------------------------------------------------------------------------------


def test_a_recent_run_is_not_read_again_until_somebody_else_has_written(journal: Journal, engine: Slow) -> None:
    acme = journal.tenant(TENANT)
    state = (STATE, run_key(TENANT, "run"))
    journal.view.writer.submit(TENANT, note("run", "1"))
    engine.read.clear()
    journal.view.writer.submit(TENANT, note("run", "2"))
    assert state not in engine.read
    with Journal(engine, journal.view.setting, system_clock, "sealbook") as other:
        other.tenant(TENANT).append("run", [entries.note("3")], epoch=1)
        engine.read.clear()
        journal.view.writer.submit(TENANT, note("run", "4"))
        assert state in engine.read
        assert [record.data["text"] for record in acme.read("run")] == ["1", "2", "3", "4"]
        assert journal.check().ok


@pytest.mark.parametrize("earlier", ["renewed", "read"])
def test_a_seal_ends_the_lease_that_was_remembered_and_renewed_in_one_transaction(
    journal: Journal, engine: Slow, earlier: str
) -> None:
    lease = journal.view.writer.submit(TENANT, requests.acquire("run", owner="w", ttl=30))
    journal.view.writer.submit(TENANT, note("run", epoch=lease.epoch))
    renewal = requests.renew("run", owner="w", epoch=lease.epoch, ttl=30)
    concluded = requests.append("run", [entries.concluded("done")], epoch=lease.epoch, seal=True)
    asked_together(journal, engine, [renewal, concluded] if earlier == "renewed" else [concluded])
    assert journal.tenant(TENANT).lease("run") is None
    assert journal.check().ok


def test_what_is_remembered_is_bounded_and_the_oldest_goes(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sealbook.journal.deciding.recent.RUNS_MAX", 3)
    for run in ("a", "b", "c", "a", "d"):
        journal.view.writer.submit(TENANT, note(run))
    assert [run for _, run in journal.view.writer._recent._standings] == ["c", "a", "d"]


# --- trouble --------------------------------------------------------------------------------------------------------


def test_a_commit_that_fails_is_told_to_everybody_by_an_error_of_their_own(journal: Journal, engine: Slow) -> None:
    with held(engine) as go:
        first = calling(lambda: journal.view.writer.submit(TENANT, note("first")))
        assert engine.began.wait(30)
        rest = [calling(lambda run=run: journal.view.writer.submit(TENANT, note(run))) for run in "abc"]  # type: ignore[misc]
        queued(journal, 4)
        engine.failures = [Busy("in the first"), CommitUnknown("in the second")]
        go.set()
        for thread, _ in (first, *rest):
            thread.join(30)
    assert isinstance(first[1][0], Busy)
    errors = [found[0] for _, found in rest]
    assert all(isinstance(error, CommitUnknown) and str(error) == str(errors[0]) for error in errors)
    assert len({id(error) for error in errors}) == 3
    assert journal.tenant(TENANT).runs() == []


@pytest.mark.parametrize(
    "error", [StoreFull("no room"), Corrupt("a row stands where none may be"), ZeroDivisionError()]
)
def test_when_one_request_may_be_at_fault_each_is_tried_alone(
    journal: Journal, engine: Slow, error: BaseException
) -> None:
    error.add_note(NOT_WRITTEN)
    with held(engine) as go:
        first = calling(lambda: journal.view.writer.submit(TENANT, note("first")))
        assert engine.began.wait(30)
        rest = []
        for number, run in enumerate("abc", 2):
            rest.append(calling(lambda run=run: journal.view.writer.submit(TENANT, note(run))))  # type: ignore[misc]
            queued(journal, number)
        engine.failures = [Busy("in the first"), error, error]
        go.set()
        for thread, _ in (first, *rest):
            thread.join(30)
    [a], [b], [c] = [found for _, found in rest]
    assert a is error
    assert (b[0].run, c[0].run) == ("b", "c")
    assert journal.check().ok


# --- the queue ------------------------------------------------------------------------------------------------------


def test_a_ticket_that_is_withdrawn_before_it_is_taken_writes_nothing(
    journal: Journal, engine: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, loop = journal.view.writer, Loop()
    leading, go = threading.Event(), threading.Event()

    def gather() -> None:
        leading.set()
        assert go.wait(30)

    monkeypatch.setattr(writer, "_gather", gather)
    head = writer.enlist(TENANT, note("withdrawn"), loop)
    assert leading.wait(30)
    thread, found = calling(lambda: writer.submit(TENANT, note("behind")))
    queued(journal, 2)
    assert writer.withdraw(head)
    go.set()
    thread.join(30)
    assert found[0][0].seq == 1
    assert not loop.calls
    assert [standing.run for standing in journal.tenant(TENANT).runs()] == ["behind"]


def test_a_courtesy_that_fails_is_no_part_of_an_answer(
    journal: Journal, engine: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise Closed

    monkeypatch.setattr(journal.view.writer, "_give_way", fail)
    with held(engine) as go:
        first, answer = calling(lambda: journal.view.writer.submit(TENANT, note("first")))
        assert engine.began.wait(30)
        second, _ = calling(lambda: journal.view.writer.submit(TENANT, note("second")))
        queued(journal, 2)
        go.set()
        first.join(30)
        second.join(30)
    assert answer[0][0].run == "first"


# --- event loops ----------------------------------------------------------------------------------------------------


class Deaf(Loop):
    """A loop that cannot be told."""

    def finished(self, tickets: Sequence[Ticket]) -> None:
        super().finished(tickets)
        raise ZeroDivisionError


def test_a_loop_that_cannot_be_told_keeps_nobody_else_from_being_told(engine: Slow) -> None:
    writer = Journal.over(engine).view.writer  # not closed: that would wait for whoever is not answered
    deaf, loop = Deaf(), Loop()
    engine.began.clear()
    with held(engine) as go:
        thread, found = calling(lambda: writer.submit(TENANT, note("thread")))
        assert engine.began.wait(30)
        writer.enlist(TENANT, note("deaf"), deaf)
        writer.enlist(TENANT, note("loop"), loop)
        go.set()
        thread.join(30)
    loop.wait(1)
    assert found[0][0].run == "thread"
    writer.enlist(TENANT, note("deaf", "again"), deaf)
    deaf.wait(2)
    writer.enlist(TENANT, note("loop", "again"), loop)
    loop.wait(2)


def test_where_no_thread_can_be_started_nothing_is_left_in_the_queue(
    engine: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    journal = Journal.over(engine)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            journal.view.writer.enlist(TENANT, note("refused"), loop)
        with pytest.raises(RuntimeError, match="can't start"):
            journal.view.writer.submit(TENANT, note("refused"))
    assert journal.view.writer._thread is None
    assert not journal.view.writer._queue
    journal.view.writer.submit(TENANT, note("thread"))
    journal.view.writer.enlist(TENANT, note("loop"), loop)
    loop.wait(1)
    assert [standing.run for standing in journal.tenant(TENANT).runs()] == ["loop", "thread"]
    journal.close()


def test_the_writers_thread_ends_with_a_journal_that_nobody_has_closed(engine: Slow) -> None:
    journal = Journal.over(engine)
    loop = Loop()
    journal.view.writer.enlist(TENANT, note("loop"), loop)
    loop.wait(1)
    thread, known = journal.view.writer._thread, weakref.ref(journal)
    assert thread is not None
    assert thread.is_alive()
    del journal
    for _ in range(100):  # the thread may have been about to let go of it
        gc.collect()
        thread.join(0.05)
        if not thread.is_alive():
            break
    assert not thread.is_alive()
    assert known() is None


def test_a_journal_that_nobody_knows_any_more_still_answers_what_it_was_asked(engine: Slow) -> None:
    """A task that nobody but its loop knows, and the loop only weakly, would else vanish with the request it made."""
    known = []
    for number in range(20):
        loop = Loop()
        journal = Journal.over(Slow())
        journal.view.writer.enlist(TENANT, note("first"), loop)
        if number % 2:
            loop.wait(1)
            journal.view.writer.enlist(TENANT, note("second"), loop)
        known.append(weakref.ref(journal))
        del journal
        gc.collect()
        loop.wait(1 + number % 2)
        assert [ticket.result()[0].seq for call in loop.calls for ticket in call] == [1, 1][: 1 + number % 2]
    for _ in range(100):
        gc.collect()
        if not any(journal() for journal in known):
            break
        threading.Event().wait(0.05)
    assert not any(journal() for journal in known)


def test_a_signer_that_wants_to_end_its_thread_does_not_end_the_writers(clock: ManualClock) -> None:
    """No signal comes to that thread: what is raised there is the host's own, and an answer like any other."""
    key, loop = Ed25519Signer(bytes(32)), Loop()

    class Device:
        public_key = key.public_key
        works = True

        def sign(self, message: bytes) -> bytes:
            if not self.works:
                raise SystemExit("no device")
            return key.sign(message)

    device = Device()
    journal = Journal.in_memory(signer=device, clock=clock)
    device.works = False
    ticket = journal.view.writer.enlist(TENANT, note("refused"), loop)
    loop.wait(1)
    with pytest.raises(SystemExit, match="no device"):
        ticket.result()
    device.works = True
    ticket = journal.view.writer.enlist(TENANT, note("signed"), loop)
    loop.wait(2)
    assert ticket.result()[0].run == "signed"
    assert journal.check().ok
    journal.close()


def test_a_loop_is_told_once_for_all_its_tickets_of_a_transaction(journal: Journal, engine: Slow) -> None:
    one, other = Loop(), Loop()
    with held(engine) as go:
        journal.view.writer.enlist(TENANT, note("first"), one)
        assert engine.began.wait(30)
        mine = [journal.view.writer.enlist(TENANT, note(f"mine-{number}"), one) for number in range(5)]
        others = [journal.view.writer.enlist(TENANT, note(f"other-{number}", epoch=9), other) for number in range(3)]
        go.set()
        one.wait(6)
        other.wait(3)
    assert [len(call) for call in one.calls] == [1, 5]
    assert one.calls[1] == mine
    assert other.calls == [others]
    assert [ticket.result()[0].run for ticket in mine] == [f"mine-{number}" for number in range(5)]
    for ticket in others:
        with pytest.raises(Fenced):
            ticket.result()


def test_threads_and_loops_share_transactions(journal: Journal, engine: Slow) -> None:
    loop = Loop()
    with held(engine) as go:
        thread, found = calling(lambda: journal.view.writer.submit(TENANT, note("thread-1")))
        assert engine.began.wait(30)
        journal.view.writer.enlist(TENANT, note("loop-1"), loop)
        queued(journal, 2)
        second, found_second = calling(lambda: journal.view.writer.submit(TENANT, note("thread-2")))
        queued(journal, 3)
        journal.view.writer.enlist(TENANT, note("loop-2"), loop)
        go.set()
        thread.join(30)
        second.join(30)
        loop.wait(2)
    assert (found[0][0].run, found_second[0][0].run) == ("thread-1", "thread-2")
    assert len(engine.commits) == 2
    assert journal.check().ok


def test_a_ticket_can_be_withdrawn_until_a_transaction_has_taken_it(journal: Journal, engine: Slow) -> None:
    loop = Loop()
    with held(engine) as go:
        taken = journal.view.writer.enlist(TENANT, note("taken"), loop)
        assert engine.began.wait(30)
        free = journal.view.writer.enlist(TENANT, note("free"), loop)
        last = journal.view.writer.enlist(TENANT, note("last"), loop)
        assert not journal.view.writer.withdraw(taken)
        assert journal.view.writer.withdraw(free)
        assert not journal.view.writer.withdraw(free)
        go.set()
        loop.wait(2)
    assert not journal.view.writer.withdraw(last)
    assert [standing.run for standing in journal.tenant(TENANT).runs()] == ["last", "taken"]


def test_many_threads_and_loops_lose_nothing(journal: Journal) -> None:
    loop = Loop()

    def work(number: int) -> None:
        for step in range(40):
            journal.view.writer.submit(TENANT, note(f"thread-{number}", str(step)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for step in range(40):
        for number in range(8):
            journal.view.writer.enlist(TENANT, note(f"loop-{number}", str(step)), loop)
    for thread in threads:
        thread.join(60)
    loop.wait(320)
    acme = journal.tenant(TENANT)
    for name in ("thread", "loop"):
        for number in range(8):
            records = acme.read(f"{name}-{number}")
            assert [record.data["text"] for record in records] == [str(step) for step in range(40)]
    assert journal.check().ok


# --- the end --------------------------------------------------------------------------------------------------------


def test_closing_lets_nobody_in_and_answers_everybody_in_the_queue(engine: Slow) -> None:
    journal = Journal.over(engine)
    loop = Loop()
    engine.began.clear()
    with held(engine) as go:
        thread, found = calling(lambda: journal.view.writer.submit(TENANT, note("one")))
        assert engine.began.wait(30)
        other, found_other = calling(lambda: journal.view.writer.submit(TENANT, note("two")))
        queued(journal, 2)
        ticket = journal.view.writer.enlist(TENANT, note("three"), loop)
        closing, closed = calling(journal.close)
        while not journal.view.writer._closed:
            threading.Event().wait(0.001)
        with pytest.raises(Closed):
            journal.view.writer.submit(TENANT, note("late"))
        with pytest.raises(Closed):
            journal.view.writer.enlist(TENANT, note("late"), loop)
        assert closed == []
        go.set()
        closing.join(30)
    thread.join(30)
    other.join(30)
    assert closed == [None]
    assert found[0][0].run == "one"
    assert found_other[0][0].run == "two"
    assert ticket.result()[0].run == "three"
    journal.close()


def test_a_child_of_a_fork_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "a.sealbook", create=True) as journal:
        loop = Loop()
        journal.view.writer.enlist(TENANT, note("before"), loop)
        loop.wait(1)
        child = os.fork()
        if child == 0:
            try:
                journal.view.writer.submit(TENANT, note("child"))
            except OpenedBeforeFork:
                os._exit(42)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
        journal.view.writer.submit(TENANT, note("after"))
        assert [standing.run for standing in journal.tenant(TENANT).runs()] == ["after", "before"]
