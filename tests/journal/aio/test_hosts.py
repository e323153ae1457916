"""A face in its event loop: who waits for whom, what runs in a thread, and where a face is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from event_loops import ASYNCIO, TRIO, HeldWriter, Loop

from sealbook.journal import (
    AsyncioJournal,
    AsyncTenant,
    Closed,
    Fenced,
    InvalidInput,
    Journal,
    OpenedBeforeFork,
    StoreMissing,
    TrioJournal,
    WrongLoop,
    entries,
)
from sealbook.journal.aio import on_asyncio, on_trio
from sealbook.journal.aio.faces import AsyncJournal
from sealbook.journal.aio.host import Scope
from sealbook.journal.aio.verbs import INLINE_ITEMS_MAX
from sealbook.journal.writing.writer import Ticket


async def append(tenant: AsyncTenant, text: str = "it", run: str = "r") -> None:
    await tenant.append(run, [entries.note(text)], epoch=1)


def texts(journal: Journal, run: str = "r") -> list[str]:
    return [record.data["text"] for record in journal.tenant("acme").read(run)]


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_all_callers_of_a_transaction_are_woken_in_one_go(
    loop: Loop, journal: Journal, held: HeldWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[int] = []

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            host: Any = face._ready()
            finished = host.finished

            def counted(tickets: list[Ticket]) -> None:
                woken.append(len(tickets))
                finished(tickets)

            monkeypatch.setattr(host, "finished", counted)
            for run in "abcde":
                start(partial(append, face.tenant("acme"), run=run))
            await loop.settle()
            held.take()
            held.commit()

    loop.run(main)
    assert woken == [5]


def test_what_is_refused_in_a_transaction_reaches_its_caller_alone(
    loop: Loop, journal: Journal, held: HeldWriter
) -> None:
    refused: list[tuple[str, str | None]] = []

    async def caller(tenant: AsyncTenant, run: str, epoch: int) -> None:
        try:
            await tenant.append(run, [entries.note("it")], epoch=epoch)
        except Fenced as error:
            refused.append((error.run, error.tenant))

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            for run, epoch in (("a", 1), ("b", 7), ("c", 1)):
                start(partial(caller, face.tenant("acme"), run, epoch))
            await loop.settle()
            held.take()
            held.commit()

    loop.run(main)
    assert refused == [("b", "acme")]
    assert [texts(journal, run) for run in "abc"] == [["it"], [], ["it"]]


def test_a_task_that_is_told_twice_goes_on_once(loop: Loop, journal: Journal, held: HeldWriter) -> None:
    """Whoever committed tells again when a signal came between, and cannot know whether it was heard."""

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            start(partial(append, face.tenant("acme"), "once"))
            await loop.settle()
            held.take()
            tickets = list(held._batch)
            held.commit()
            host: Any = face._ready()
            host.finished(tickets)
            await loop.settle()

    loop.run(main)
    assert texts(journal) == ["once"]


def test_beyond_the_places_callers_wait_in_order_and_nothing_of_theirs_is_encoded(
    loop: Loop, journal: Journal, held: HeldWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (on_trio, on_asyncio):
        monkeypatch.setattr(module, "PLACES_MAX", 2)
    encoded: list[str] = []

    def noted(text: str) -> Any:
        encoded.append(text)
        yield entries.note(text)

    async def caller(tenant: AsyncTenant, text: str) -> None:
        await tenant.append("r", noted(text), epoch=1)

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            tenant = face.tenant("acme")
            cancels = []
            for text in "abcdef":
                cancels.append(start(partial(caller, tenant, text)))
                await loop.settle()
            assert (encoded, held.queued) == (["a", "b"], 2)
            cancels[2]()
            await loop.settle()
            for expected in ("abde", "abdef"):
                held.take()
                held.commit()
                await loop.settle()
                assert set(encoded) == set(expected)
            held.take()
            held.commit()

    loop.run(main)
    assert sorted(texts(journal)) == ["a", "b", "d", "e", "f"]


def test_a_caller_that_is_cancelled_while_its_place_is_handed_on_keeps_no_place(
    loop: Loop, journal: Journal, held: HeldWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (on_trio, on_asyncio):
        monkeypatch.setattr(module, "PLACES_MAX", 1)

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            host = face._ready()
            await host.enter()
            cancel = start(partial(append, face.tenant("acme"), "cancelled"))
            await loop.settle()
            host.leave()
            cancel()
            await loop.settle()
            start(partial(append, face.tenant("acme"), "next"))
            await loop.settle()
            assert held.queued == 1
            held.take()
            held.commit()

    loop.run(main)
    assert texts(journal) == ["next"]


def test_an_answer_that_comes_after_the_program_is_over_harms_nobody(
    loop: Loop, journal: Journal, held: HeldWriter
) -> None:
    host: Any = None

    async def main() -> None:
        nonlocal host
        async with loop.face(journal) as face:
            host = face._ready()

    loop.run(main)
    host.finished([Ticket("acme", None, host)])  # type: ignore[arg-type]


# --- what runs where --------------------------------------------------------------------------------------------------


def test_short_reads_stay_in_the_loops_thread_and_long_ones_leave_it(
    loop: Loop, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    snapshot = journal.view.engine.snapshot

    def watched() -> Any:
        threads.append(threading.get_ident())
        return snapshot()

    async def stays(reading: Callable[[], Awaitable[Any]]) -> bool:
        threads.clear()
        await reading()
        assert len(set(threads)) == 1
        return threads[0] == threading.get_ident()

    async def main() -> None:
        async with loop.face(journal) as face:
            acme = face.tenant("acme")
            await append(acme)
            monkeypatch.setattr(journal.view.engine, "snapshot", watched)
            assert await stays(partial(acme.head, "r"))
            assert await stays(partial(acme.standing, "r"))
            assert await stays(partial(acme.read, "r"))
            assert await stays(partial(acme.recent, limit=INLINE_ITEMS_MAX))
            assert not await stays(partial(acme.recent, limit=INLINE_ITEMS_MAX + 1))
            assert not await stays(partial(acme.read, "r", limit=INLINE_ITEMS_MAX + 1))
            assert not await stays(partial(acme.verify, "r"))
            assert not await stays(face.check)

    loop.run(main)


def test_a_short_read_lets_other_tasks_run_and_can_be_cancelled(loop: Loop, journal: Journal) -> None:
    seen: list[str] = []

    async def reading(tenant: AsyncTenant) -> None:
        while True:
            await tenant.head("r")
            seen.append("read")

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            cancel = start(partial(reading, face.tenant("acme")))
            await loop.settle()
            cancel()

    loop.run(main)
    assert len(seen) > 1


def test_11_the_stored_bytes_are_those_of_the_moment_of_the_call(
    loop: Loop, journal: Journal, held: HeldWriter
) -> None:
    data: dict[str, Any] = {"inner": {}}

    async def caller(tenant: AsyncTenant) -> None:
        [record] = await tenant.append("r", [entries.entry("Thing", data)], epoch=1)
        assert record.data == {"inner": {}}

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            start(partial(caller, face.tenant("acme")))
            await loop.settle()
            data["x"] = 1
            data["inner"]["y"] = 2
            held.take()
            held.commit()

    loop.run(main)
    assert journal.tenant("acme").read("r")[0].data == {"inner": {}}


def test_15_another_process_writes_while_a_cancelled_caller_waits(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "agents.sealbook"
    elsewhere = (
        "import sys; from sealbook.journal import Journal, entries\n"
        "with Journal.open(sys.argv[1], lock_timeout=1) as journal:\n"
        "    journal.tenant('acme').append('r', [entries.note('elsewhere')], epoch=1)"
    )

    async def main() -> None:
        async with loop.face.open(folder, create=True) as face, loop.tasks() as start:
            held = HeldWriter(face._sync, monkeypatch)
            cancels = [start(partial(append, face.tenant("acme"), text)) for text in ("withdrawn", "waiting")]
            await loop.settle()
            cancels[0]()
            await loop.settle()
            held.take()
            cancels[1]()
            await loop.settle()
            subprocess.run([sys.executable, "-P", "-c", elsewhere, folder], check=True)
            held.commit()

    loop.run(main)
    with Journal.open(folder) as journal:
        assert texts(journal) == ["elsewhere", "waiting"]


# --- opening and closing ----------------------------------------------------------------------------------------------


def test_a_journal_is_opened_where_the_face_is_entered_and_closed_where_it_is_left(loop: Loop, tmp_path: Path) -> None:
    folder = tmp_path / "agents.sealbook"

    async def main() -> None:
        async with loop.face.open(folder, create=True) as face:
            await append(face.tenant("acme"))
        async with loop.face.open(folder, readonly=True) as face:
            assert face.readonly
            assert await face.tenants() == ["acme"]

    loop.run(main)
    with Journal.open(folder) as journal:
        assert texts(journal) == ["it"]


def test_a_store_that_is_not_there_is_missing_and_the_face_may_be_entered_again(loop: Loop, tmp_path: Path) -> None:
    folder = tmp_path / "agents.sealbook"

    async def main() -> None:
        face = loop.face.open(folder)
        with pytest.raises(StoreMissing):
            await face.__aenter__()
        Journal.open(folder, create=True).close()
        async with face:
            assert await face.tenants() == []

    loop.run(main)


def test_a_journal_that_was_handed_over_open_stays_open(loop: Loop, journal: Journal) -> None:
    async def main() -> None:
        async with loop.face(journal) as face:
            await append(face.tenant("acme"), "awaited")
        with pytest.raises(Closed):
            await append(face.tenant("acme"))

    loop.run(main)
    journal.tenant("acme").append("r", [entries.note("not awaited")], epoch=1)
    assert texts(journal) == ["awaited", "not awaited"]


def test_closing_waits_for_verbs_under_way_also_when_cancelled_and_admits_no_more(
    loop: Loop, journal: Journal, held: HeldWriter
) -> None:
    seen: list[str] = []

    async def caller(tenant: AsyncTenant, text: str) -> None:
        await append(tenant, text)
        seen.append(text)

    async def closing(face: AsyncJournal) -> None:
        await face.aclose()
        seen.append("closed")

    async def main() -> None:
        face = loop.face(journal)
        async with face, loop.tasks() as start:
            for text in "ab":
                start(partial(caller, face.tenant("acme"), text))
            await loop.settle()
            cancel = start(partial(closing, face))
            start(partial(closing, face))
            await loop.settle()
            cancel()
            await loop.settle()
            with pytest.raises(Closed):
                await append(face.tenant("acme"), "too late")
            with pytest.raises(Closed):
                await face.tenant("acme").head("r")
            assert seen == []
            held.take()
            held.commit()

    loop.run(main)
    assert (set(seen[:2]), seen[2:]) == ({"a", "b"}, ["closed", "closed"])
    assert set(texts(journal)) == {"a", "b"}


def test_a_request_that_comes_while_the_owner_closes_the_journal_is_refused(
    loop: Loop, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_open = journal.view.writer._must_be_open

    def is_closed_next() -> None:
        must_be_open()
        journal.close()

    async def main() -> None:
        async with loop.face(journal) as face:
            monkeypatch.setattr(journal.view.writer, "_must_be_open", is_closed_next)
            with pytest.raises(Closed):
                await append(face.tenant("acme"))
            monkeypatch.undo()

    loop.run(main)


def test_closing_waits_for_calls_in_threads(loop: Loop, journal: Journal) -> None:
    begun, go_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def slow(done: int, in_all: int) -> None:
        begun.set()
        assert go_on.wait(60)

    async def checking(face: AsyncJournal) -> None:
        await face.reindex(progress=slow)
        seen.append("reindexed")

    async def closing(face: AsyncJournal) -> None:
        await face.aclose()
        seen.append("closed")

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            await append(face.tenant("acme"))
            start(partial(checking, face))
            while not begun.is_set():
                await loop.turn()
            start(partial(closing, face))
            await loop.settle()
            assert seen == []
            go_on.set()

    loop.run(main)
    assert seen == ["reindexed", "closed"]


# --- where a face is refused ------------------------------------------------------------------------------------------


def test_a_face_is_refused_before_it_is_entered_and_the_second_time(loop: Loop, journal: Journal) -> None:
    face = loop.face.in_memory()
    with pytest.raises(WrongLoop, match="enter it first"):
        face.tenant("acme")

    async def main() -> None:
        with pytest.raises(WrongLoop, match="enter it first"):
            await face.tenants()
        async with face:
            with pytest.raises(WrongLoop, match="entered already"):
                await face.__aenter__()

    loop.run(main)


def test_closing_a_face_that_was_never_entered_opens_nothing(loop: Loop, tmp_path: Path) -> None:
    loop.run(loop.face.open(tmp_path / "agents.sealbook", create=True).aclose)
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_no_journal(loop: Loop) -> None:
    with pytest.raises(InvalidInput, match="for a path there is `open`"):
        loop.face("agents.sealbook")  # type: ignore[arg-type]


def test_a_face_is_refused_in_another_program(loop: Loop, journal: Journal) -> None:
    face = loop.face(journal)

    async def elsewhere() -> None:
        for verb in (partial(face.tenant("acme").head, "r"), partial(append, face.tenant("acme")), face.aclose):
            with pytest.raises(WrongLoop, match="was entered in another"):
                await verb()

    async def main() -> None:
        async with face:
            thread = threading.Thread(target=loop.run, args=[elsewhere])
            thread.start()
            thread.join()
            await append(face.tenant("acme"))

    loop.run(main)
    assert texts(journal) == ["it"]


@pytest.mark.parametrize(("face", "other"), [(TrioJournal, ASYNCIO), (AsyncioJournal, TRIO)])
def test_a_face_is_refused_in_a_loop_of_the_other_kind(face: type[AsyncJournal], other: Loop) -> None:
    async def main() -> None:
        with pytest.raises(WrongLoop, match="is running in this thread"):
            await face.in_memory().__aenter__()

    other.run(main)


def test_a_face_is_refused_in_a_child_process(loop: Loop, journal: Journal) -> None:
    async def in_child(face: AsyncJournal) -> int:
        said = 0
        for verb in (partial(append, face.tenant("acme")), partial(face.tenant("acme").head, "r"), face.aclose):
            try:
                await verb()
            except OpenedBeforeFork:
                said += 1
        return said

    async def main() -> None:
        async with loop.face(journal) as face:
            child = os.fork()
            if child == 0:  # pragma: no cover - another process
                try:
                    in_child(face).send(None)
                except StopIteration as end:
                    os._exit(end.value)
                finally:
                    os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            await append(face.tenant("acme"))

    loop.run(main)
    assert texts(journal) == ["it"]


# --- a body and tasks beside it ---------------------------------------------------------------------------------------


def test_a_body_ends_the_tasks_beside_it(loop: Loop, journal: Journal) -> None:
    seen: list[str] = []

    async def beside() -> None:
        try:
            await loop.forever()
        finally:
            seen.append("ended")

    async def main() -> None:
        async with loop.face(journal) as face:
            async with face._ready().scope() as scope:
                scope.start(beside)
                await loop.settle()
                seen.append("body")
            assert not scope.stopped

    loop.run(main)
    assert seen == ["body", "ended"]


def test_a_task_beside_it_stops_a_body_where_it_waits(loop: Loop, journal: Journal) -> None:
    seen: list[str] = []

    async def main() -> None:
        async with loop.face(journal) as face:
            async with face._ready().scope() as scope:

                async def stopping() -> None:
                    scope.stop()

                scope.start(stopping)
                try:
                    await loop.forever()
                finally:
                    seen.append("stopped")
            assert scope.stopped
            await loop.settle()  # and nothing is cancelled after the block
            seen.append("went on")

    loop.run(main)
    assert seen == ["stopped", "went on"]


def test_a_body_that_stops_itself_and_ends_is_not_cancelled_afterwards(loop: Loop, journal: Journal) -> None:
    async def main() -> None:
        async with loop.face(journal) as face:
            async with face._ready().scope() as scope:
                scope.start(loop.forever)
                await loop.settle()
                scope.stop()
            await loop.settle()

    loop.run(main)


def test_what_a_body_raises_is_raised_as_it_is(loop: Loop, journal: Journal) -> None:
    async def block(face: AsyncJournal, *, stop: bool) -> None:
        async with face._ready().scope() as scope:
            scope.start(loop.forever)
            await loop.settle()
            if stop:
                scope.stop()
            raise KeyError("by the body")

    async def main() -> None:
        async with loop.face(journal) as face:
            for stop in (False, True):
                with pytest.raises(KeyError, match="by the body"):
                    await block(face, stop=stop)
            await loop.settle()

    loop.run(main)


def test_an_error_of_a_task_beside_it_stops_a_body_and_is_raised(loop: Loop, journal: Journal) -> None:
    async def failing() -> None:
        raise KeyError("beside the body")

    async def block(face: AsyncJournal) -> None:
        async with face._ready().scope() as scope:
            scope.start(failing)
            await loop.forever()

    async def main() -> None:
        async with loop.face(journal) as face:
            with pytest.raises(ExceptionGroup) as caught:
                await block(face)
            assert [type(error) for error in caught.value.exceptions] == [KeyError]
            await loop.settle()

    loop.run(main)


def test_a_cancellation_from_outside_is_not_taken_for_a_stop(loop: Loop, journal: Journal) -> None:
    seen: list[str] = []
    scopes: list[Scope] = []

    async def block(face: AsyncJournal) -> None:
        async with face._ready().scope() as scope:
            scopes.append(scope)
            await loop.forever()
        seen.append("went on")
        await loop.turn()
        seen.append("was not cancelled")

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            cancel = start(partial(block, face))
            await loop.settle()
            scopes[0].stop()
            cancel()

    loop.run(main)
    assert seen == []
