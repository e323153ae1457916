"""Following: which records come, in which order, where it goes on after a restart, and what it does not wait for."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tampering import change, record_place

from sealbook.journal import (
    Closed,
    Corrupt,
    EngineFailed,
    Fenced,
    Following,
    InvalidCursor,
    InvalidInput,
    InvalidName,
    Journal,
    Record,
    Tenant,
    entries,
)
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Applied, Work
from sealbook.journal.errors import CommitUnknown
from sealbook.journal.reading import following as rules
from sealbook.journal.schema.tables import JOURNAL, number_key
from sealbook.journal.testing import ManualClock
from sealbook.journal.threads.wakeups import Bell

PAGE = rules.PAGE_RECORDS


def add(tenant: Tenant, run: str, *texts: str, case: str | None = None) -> list[Record]:
    return list(tenant.append(run, [entries.note(text, case=case) for text in texts], epoch=1))


def taken(following: Following) -> list[str]:
    """The texts of all records that are there, without waiting."""
    found = []
    while (record := following.take()) is not None:
        found.append(record.data["text"])
    return found


class Acts(Bell):
    """A bell that does something instead of waiting, one thing at a time."""

    def __init__(self, *acts: Callable[[], Any]) -> None:
        super().__init__()
        self.acts = list(acts)

    def wait(self, seconds: float | None = None) -> None:
        self.acts.pop(0)()


# --- what comes, and in which order ---------------------------------------------------------------------------------


def test_it_begins_with_the_first_record_and_waits_for_those_that_come(acme: Tenant) -> None:
    add(acme, "a", "1", "2")
    add(acme, "b", "3")
    following = acme.follow()
    following._bell = Acts(lambda: add(acme, "a", "4"), lambda: None, lambda: add(acme, "b", "5", "6"))
    found = [next(following) for _ in range(6)]
    assert [record.data["text"] for record in found] == list("123456")
    assert [record.arrival for record in found] == [1, 2, 3, 4, 5, 6]
    assert [(record.run, record.seq) for record in found[:4]] == [("a", 1), ("a", 2), ("b", 1), ("a", 3)]


def test_from_now_begins_behind_the_last_record(acme: Tenant) -> None:
    empty, no_run = acme.follow(from_now=True), acme.follow("a", from_now=True)
    assert (empty.cursor, empty.arrival, no_run.cursor) == (None, 0, None)
    add(acme, "a", "1", "2")
    assert taken(empty) == taken(no_run) == ["1", "2"]
    now, run = acme.follow(from_now=True), acme.follow("a", from_now=True)
    assert taken(now) == taken(run) == []
    assert (now.arrival, run.arrival) == (2, 2)
    add(acme, "b", "3")
    add(acme, "a", "4")
    assert (taken(now), taken(run)) == (["3", "4"], ["4"])


def test_one_run_and_one_case_are_followed_alone(acme: Tenant) -> None:
    run, case, both = acme.follow("a"), acme.follow(case="k"), acme.follow("a", case="k")
    add(acme, "a", "1")
    add(acme, "a", "2", case="k")
    add(acme, "b", "3", case="k")
    add(acme, "b", "4", case="other")
    assert (taken(run), taken(case), taken(both)) == (["1", "2"], ["2", "3"], ["2"])
    add(acme, "a", "5", case="k")
    assert (taken(run), taken(case), taken(both)) == (["5"], ["5"], ["5"])


def test_the_acts_of_operators_come_too(acme: Tenant) -> None:
    add(acme, "a", "1")
    acme.request_cancel("a", actor="ada", reason="asked")
    kinds = [record.kind for record in iter(acme.follow().take, None) if record is not None]
    assert kinds == ["Note", "CancelRequested"]


def test_a_writer_that_is_faster_than_a_page_is_caught_up_with(acme: Tenant) -> None:
    def burst() -> None:
        for number in range(3):
            add(acme, "b", *[f"{number}"] * (PAGE - 1))

    add(acme, "a", *["x"] * (2 * PAGE))
    following = acme.follow()
    following._bell = Acts(burst)
    found = [next(following).arrival for _ in range(5 * PAGE - 3)]
    assert found == list(range(1, 5 * PAGE - 2))
    assert following.take() is None


def test_many_records_of_other_cases_are_passed_over_page_by_page(acme: Tenant) -> None:
    add(acme, "a", *["x"] * (3 * PAGE))
    add(acme, "a", "ours", case="k")
    add(acme, "a", *["x"] * PAGE)
    following = acme.follow(case="k")
    assert taken(following) == ["ours"]
    assert following.arrival == 4 * PAGE + 1


def test_a_sealed_run_brings_nothing_more_and_does_not_end_it(acme: Tenant) -> None:
    acme.append("a", [entries.admitted(), entries.concluded("completed")], epoch=1, seal=True)
    following = acme.follow("a")
    following._bell = Acts(lambda: add(acme, "b", "1"), following.stop)
    assert [record.kind for record in following] == ["RunAdmitted", "RunConcluded"]


def test_a_tenant_is_followed_alone(journal: Journal) -> None:
    following = journal.tenant("acme").follow()
    add(journal.tenant("other"), "a", "1")
    assert following.take() is None


@pytest.mark.parametrize("bad", [{"run": ""}, {"run": "a\n"}, {"case": ""}, {"case": "c" * 129}])
def test_what_is_followed_must_have_a_legal_name(acme: Tenant, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidName):
        acme.follow(**bad)


# --- what a look costs ----------------------------------------------------------------------------------------------


class Counting(MemoryEngine):
    """An engine that counts what is asked of its snapshots, and how many of them are open."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked = 0
        self.open = 0

    def snapshot(self) -> Any:
        counting, inner = self, super().snapshot()

        class Counted:
            def __enter__(self) -> Any:
                view = inner.__enter__()
                counting.open += 1

                def counted(asked: Callable[..., Any]) -> Callable[..., Any]:
                    def ask(*args: Any, **options: Any) -> Any:
                        counting.asked += 1
                        return asked(*args, **options)

                    return ask

                view.get_many = counted(view.get_many)  # type: ignore[method-assign]
                view.scan = counted(view.scan)  # type: ignore[method-assign]
                return view

            def __exit__(self, *error: Any) -> Any:
                counting.open -= 1
                return inner.__exit__(*error)

        return Counted()


@pytest.mark.parametrize("run", [None, "a"])
def test_a_look_at_a_store_that_has_not_moved_reads_its_version_and_nothing_else(run: str | None) -> None:
    engine = Counting(clock=Journal.in_memory().view.clock)
    acme = Journal.over(engine).tenant("acme")
    add(acme, "a", "1")
    following = acme.follow(run)
    assert taken(following) == ["1"]
    asked = engine.asked
    assert [following.take() for _ in range(100)] == [None] * 100
    assert engine.asked == asked
    add(acme, "a", "2")
    assert taken(following) == ["2"]
    assert engine.asked > asked


def test_no_snapshot_is_held_while_a_record_is_in_the_callers_hands_or_nothing_comes() -> None:
    engine = Counting(clock=Journal.in_memory().view.clock)
    acme = Journal.over(engine).tenant("acme")
    add(acme, "a", *["x"] * (PAGE + 1))
    held = []
    following = acme.follow()
    following._bell = Acts(lambda: held.append(engine.open), following.stop)
    for _ in following:
        held.append(engine.open)
    assert held == [0] * (PAGE + 2)


# --- cursors ----------------------------------------------------------------------------------------------------------


def test_a_cursor_is_where_another_follower_goes_on(acme: Tenant) -> None:
    add(acme, "a", *"123")
    first = acme.follow()
    assert first.cursor is None
    cursors = [(next(first).data["text"], first.cursor, first.arrival) for _ in range(3)]
    for text, cursor, arrival in cursors:
        assert arrival == int(text)
        assert taken(acme.follow(after=cursor)) == list("123")[arrival:]


def test_a_cursor_outlives_the_process(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "s", create=True) as journal:
        add(journal.tenant(), "a", "1", "2")
        following = journal.tenant().follow("a")
        next(following)
        cursor = following.cursor
    with Journal.open(tmp_path / "s", readonly=True) as journal:
        assert taken(journal.tenant().follow("a", after=cursor)) == ["2"]


def test_a_cursor_goes_on_with_records_that_were_passed_over(acme: Tenant) -> None:
    add(acme, "a", "1", case="k")
    add(acme, "a", "2", "3")
    following = acme.follow(case="k")
    assert taken(following) == ["1"]
    assert following.arrival == 3
    add(acme, "a", "4", case="k")
    assert taken(acme.follow(case="k", after=following.cursor)) == ["4"]


def test_a_cursor_of_another_run_case_tenant_or_store_is_refused(acme: Tenant, journal: Journal) -> None:
    add(acme, "a", "1", "2", case="k")
    following = acme.follow("a")
    next(following)
    others: list[tuple[Tenant, dict[str, Any]]] = [
        (acme, {}),
        (acme, {"run": "b"}),
        (acme, {"run": "a", "case": "k"}),
        (acme, {"case": "a"}),
        (journal.tenant("other"), {"run": "a"}),
        (Journal.in_memory().tenant("acme"), {"run": "a"}),
    ]
    for tenant, options in others:
        with pytest.raises(InvalidCursor):
            tenant.follow(**options, after=following.cursor)
    with pytest.raises(InvalidCursor):
        acme.follow(after=acme.history(limit=1).next or "history has no cursor here")


def test_a_cursor_and_from_now_contradict_each_other(acme: Tenant) -> None:
    add(acme, "a", "1")
    following = acme.follow()
    next(following)
    with pytest.raises(InvalidInput):
        acme.follow(after=following.cursor, from_now=True)


def test_every_position_is_decoded_as_it_was_encoded() -> None:
    for run in ("a", "r" * 128, "ä/~"):
        for hash_byte in (0, 1, 255):
            position = rules.Position(run, 2**40, 2**63, bytes([hash_byte]) * 32)
            assert rules.Position.decode(position.encode()) == position


# --- a history that is not the one that was followed ------------------------------------------------------------------


@pytest.mark.parametrize("run", [None, "a"])
def test_an_older_copy_that_was_put_back_is_corrupt_and_not_waited_for(tmp_path: Path, run: str | None) -> None:
    store, older = tmp_path / "s", tmp_path / "older"
    with Journal.open(store, create=True) as journal:
        add(journal.tenant(), "a", "1")
    shutil.copytree(store, older)
    with Journal.open(store) as journal:
        add(journal.tenant(), "a", "2")
        following = journal.tenant().follow(run)
        assert taken(following) == ["1", "2"]
    with Journal.open(older) as journal:
        resumed = journal.tenant().follow(run, after=following.cursor)
        with pytest.raises(Corrupt, match=r"a record 2: .*is gone.*older copy") as found:
            resumed.take()
        assert (found.value.run, found.value.seq, found.value.tenant) == ("a", 2, "default")
        add(journal.tenant(), "a", "another 2", "3")
        with pytest.raises(Corrupt, match=r"another record stands at arrival 2 .*rewritten"):
            resumed.take()


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_a_store_that_was_replaced_or_moved_away_under_a_follower_is_not_waited_for(
    tmp_path: Path, again: bool, readonly: bool
) -> None:
    store = tmp_path / "s"
    with Journal.open(store, create=True) as journal:
        add(journal.tenant(), "a", "1")
    shutil.copytree(store, tmp_path / "copy")
    with Journal.open(store, readonly=readonly) as journal:
        following = journal.tenant().follow()
        assert taken(following) == ["1"]
        store.rename(tmp_path / "away")
        if again:
            (tmp_path / "copy").rename(store)
        for wait in (following.__next__, following.take):
            with pytest.raises(EngineFailed, match=r"data.mdb was replaced.*open the store again"):
                wait()


def test_a_follower_looks_whether_its_store_still_stands_where_it_was_opened(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "s", create=True) as journal:
        add(journal.tenant(), "a", "1")
        following = journal.tenant().follow()
        assert taken(following) == ["1"]
        (tmp_path / "s").rename(tmp_path / "away")
        with pytest.raises(EngineFailed, match="replaced"):
            following.take()


def test_a_record_that_was_rewritten_behind_a_follower_is_found_when_the_store_moves(
    acme: Tenant, engine: MemoryEngine
) -> None:
    add(acme, "a", "1", "2")
    add(acme, "b", "3")
    following = acme.follow()
    assert taken(following) == ["1", "2", "3"]
    a, b = record_place(engine, "acme", "a", 2), record_place(engine, "acme", "b", 1)
    with engine.snapshot() as snapshot:
        one, other = snapshot.get_many([a, b])
    assert one is not None and other is not None
    change(engine, {b: other[:8] + one[8:]})  # a genuine record, at a place that is not its own
    with pytest.raises(Corrupt):
        following.take()


def test_a_record_that_is_absent_is_named_and_not_passed_over(acme: Tenant, engine: MemoryEngine) -> None:
    add(acme, "a", "1", "2", "3")
    change(engine, {(JOURNAL, number_key("acme", 2)): None})
    following = acme.follow()
    for _ in range(2):
        with pytest.raises(Corrupt):
            following.take()
    assert following.cursor is None


# --- waiting, and its end ---------------------------------------------------------------------------------------------


def in_thread(following: Following) -> tuple[threading.Thread, list[Any]]:
    """A thread that takes all records, and what it took; at last how it ended."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.extend(record.data["text"] for record in following)
            found.append("ended")
        except BaseException as error:
            found.append(type(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


class Hanging:
    """Tells when somebody hangs a bell, which comes after the first look and before the one that waits."""

    def __init__(self, journal: Journal) -> None:
        self.hung = threading.Semaphore(0)
        hang = journal.view.wakeups.hang

        def told(ring: Callable[[], object]) -> None:
            hang(ring)
            self.hung.release()

        journal.view.wakeups.hang = told  # type: ignore[method-assign]

    def wait(self) -> None:
        assert self.hung.acquire(timeout=30)


def test_what_this_process_commits_wakes_whoever_waits(journal: Journal, acme: Tenant) -> None:
    hanging = Hanging(journal)
    following = acme.follow()
    thread, found = in_thread(following)
    for text in "123":
        hanging.wait()
        add(acme, "a", text)
    hanging.wait()
    following.stop()
    thread.join(30)
    assert found == ["1", "2", "3", "ended"]
    assert not journal.view.wakeups._rings


def test_a_refusal_wakes_nobody(journal: Journal, acme: Tenant) -> None:
    add(acme, "a", "1")
    rung: list[int] = []
    journal.view.wakeups.hang(lambda: rung.append(1))
    with pytest.raises(Fenced):
        acme.append("a", [entries.note("2")], epoch=9)
    assert rung == []
    acme.append("a", [entries.note("2")], epoch=1)
    assert rung == [1]


class Interrupted(MemoryEngine):
    """An engine whose next write fails in an unforeseen way once it is durable."""

    interrupted = False

    def write(self, work: Work) -> Applied:
        applied = super().write(work)
        if self.interrupted:
            raise ZeroDivisionError
        return applied


def test_what_may_have_been_written_wakes_whoever_waits() -> None:
    engine = Interrupted(clock=ManualClock())
    journal = Journal.over(engine)
    rung: list[int] = []
    journal.view.wakeups.hang(lambda: rung.append(1))
    engine.interrupted = True
    with pytest.raises(CommitUnknown):
        add(journal.tenant(), "a", "1")
    assert rung == [1]
    assert taken(journal.tenant().follow()) == ["1"]


def test_what_comes_between_the_look_and_the_wait_is_not_missed(journal: Journal, acme: Tenant) -> None:
    hang = journal.view.wakeups.hang

    def late(ring: Callable[[], object]) -> None:
        add(acme, "a", "just now")  # nobody is rung for it
        hang(ring)

    journal.view.wakeups.hang = late  # type: ignore[method-assign]
    following = acme.follow()
    following._bell = Acts()  # it may not wait
    assert next(following).data["text"] == "just now"


def test_stopping_ends_an_iteration_that_waits_and_one_that_does_not(acme: Tenant) -> None:
    add(acme, "a", "1", "2")
    following = acme.follow()
    next(following)
    following.stop()
    assert list(following) == []
    assert following.arrival == 1


def test_closing_the_journal_ends_a_wait_with_closed(tmp_path: Path) -> None:
    for journal in (Journal.in_memory(), Journal.open(tmp_path / "s", create=True)):
        hanging = Hanging(journal)
        following = journal.tenant().follow()
        thread, found = in_thread(following)
        hanging.wait()
        journal.close()
        thread.join(30)
        assert found == [Closed]
        with pytest.raises(Closed):
            next(following)


WRITER = """
import sys
from sealbook.journal import Journal, entries

with Journal.open(sys.argv[1], lock_timeout=60) as journal:
    tenant = journal.tenant()
    for number in range(int(sys.argv[3])):
        tenant.append(sys.argv[2], [entries.note(str(number))], epoch=1)
"""


def test_records_of_several_processes_come_in_the_order_of_their_arrival(tmp_path: Path) -> None:
    store = tmp_path / "s"
    with Journal.open(store, create=True) as journal:
        following = journal.tenant().follow()
        one = journal.tenant().follow("run-1")
        command = [sys.executable, "-P", "-c", WRITER, str(store)]
        writers = [subprocess.Popen([*command, f"run-{number}", "40"]) for number in range(3)]
        try:
            found = [next(following) for _ in range(120)]
            of_one = [next(one) for _ in range(40)]
        finally:
            codes = [writer.wait(60) for writer in writers]
        assert codes == [0, 0, 0]
        assert [record.arrival for record in found] == list(range(1, 121))
        assert [record.seq for record in of_one] == list(range(1, 41))
        assert following.take() is None
        assert [r.hash for r in found if r.run == "run-1"] == [r.hash for r in of_one]


def test_a_forked_child_is_told_to_open_the_store_anew(tmp_path: Path) -> None:
    code = f"""
import os
from sealbook.journal import Journal, OpenedBeforeFork
journal = Journal.open({str(tmp_path / "s")!r}, create=True)
following = journal.tenant().follow()
if os.fork() == 0:
    try:
        next(following)
    except OpenedBeforeFork:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    ended = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "7\n"
