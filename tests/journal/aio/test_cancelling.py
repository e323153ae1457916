"""Whatever moment a caller is cancelled in, what it believes is true: cancelled and nothing written, or the answer."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
from event_loops import ASYNCIO, TRIO, HeldWriter, Loop

from sealbook.journal import Appended, AsyncioJournal, AsyncTenant, Journal, TrioJournal, entries
from sealbook.journal import requests as ask
from sealbook.journal.aio import on_asyncio, on_trio
from sealbook.journal.writing.writer import Home, Ticket
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.keys import SignatureLine

SEED = 20261129


def texts(journal: Journal, run: str = "r") -> list[str]:
    return [record.data["text"] for record in journal.tenant("acme").read(run, limit=1000)]


async def append(tenant: AsyncTenant, text: str = "it", run: str = "r") -> Appended:
    return await tenant.append(run, [entries.note(text)], epoch=1)


async def settle() -> None:
    await ASYNCIO.settle()


# --- one append, cancelled in every turn of the loop ------------------------------------------------------------------

GIVEN_A_PLACE, TAKEN, COMMITTED, LAST_TURN = 4, 8, 12, 16


def test_an_append_cancelled_in_any_turn_is_absent_or_answered_and_present(
    loop: Loop, journal: Journal, held: HeldWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a place, then in the queue, then for its transaction, then for its turn to learn of it."""
    for module in (on_trio, on_asyncio):
        monkeypatch.setattr(module, "PLACES_MAX", 1)
    believed: list[str] = []
    cancelled_at_last: list[int] = []

    async def caller(tenant: AsyncTenant, turn: int) -> None:
        try:
            answer = await append(tenant, "it", f"r{turn}")
        except loop.cancelled:
            believed.append("cancelled")
            raise
        believed.append("answered")
        assert [(record.run, record.seq, record.data) for record in answer] == [(f"r{turn}", 1, {"text": "it"})]
        try:
            await loop.forever()
        except loop.cancelled:
            cancelled_at_last.append(turn)
            raise

    async def main() -> None:
        async with loop.face(journal) as face:
            host = face._ready()
            for nth in range(LAST_TURN):
                async with loop.tasks() as start:
                    await host.enter()  # the only place
                    cancel = start(partial(caller, face.tenant("acme"), nth))
                    for turn in range(LAST_TURN):
                        if turn == nth:
                            cancel()
                        if turn == GIVEN_A_PLACE:
                            host.leave()
                        if turn == TAKEN:
                            held.take()
                        if turn == COMMITTED:
                            held.commit()
                        await loop.turn()

    loop.run(main)
    # asyncio tells a task of its cancellation a turn later, and one that has not begun never begins.
    first, unborn = (TAKEN + 1, 0) if loop is TRIO else (TAKEN, 1)
    assert believed == ["cancelled"] * (first - unborn) + ["answered"] * (LAST_TURN - first)
    assert cancelled_at_last == list(range(first, LAST_TURN))
    stored = [len(texts(journal, f"r{turn}")) for turn in range(LAST_TURN)]
    assert stored == [0] * first + [1] * (LAST_TURN - first)


def test_what_callers_of_a_busy_writer_believe_is_what_stands(loop: Loop, journal: Journal) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    answered: set[str] = set()

    async def caller(tenant: AsyncTenant, text: str) -> None:
        await append(tenant, text, f"r{text[-1]}")
        answered.add(text)

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            for number in range(300):
                cancel = start(partial(caller, face.tenant("acme"), str(number)))
                for _ in range(chance.randrange(4)):
                    await loop.turn()
                if chance.random() < 0.5:
                    cancel()

    loop.run(main)
    stored = [text for run in "0123456789" for text in texts(journal, f"r{run}")]
    assert sorted(stored) == sorted(answered)
    assert journal.check().ok


def test_two_loops_and_threads_share_one_writer_and_all_believe_what_stands(journal: Journal) -> None:
    """A ticket that is withdrawn while it leads must not let a thread lead beside it."""
    print(f"seed {SEED}")
    answered: list[str] = []
    over = threading.Event()

    def callers(loop: Loop) -> None:
        chance = random.Random(f"{SEED}/{loop.name}")

        async def caller(tenant: AsyncTenant, text: str) -> None:
            await append(tenant, text, loop.name)
            answered.append(text)

        async def main() -> None:
            async with loop.face(journal) as face:
                for wave in range(60):
                    async with loop.tasks() as start:
                        for number in range(5):
                            cancel = start(partial(caller, face.tenant("acme"), f"{loop.name}/{wave}/{number}"))
                            for _ in range(chance.randrange(3)):
                                await loop.turn()
                            if chance.random() < 0.5:
                                cancel()

        loop.run(main)

    def threads_own(name: str) -> None:
        number = 0
        while not over.is_set():
            text = f"{name}/{number}"
            journal.tenant("acme").append(name, [entries.note(text)], epoch=1)
            answered.append(text)
            number += 1

    loops = [threading.Thread(target=callers, args=(loop,)) for loop in (TRIO, ASYNCIO)]
    others = [threading.Thread(target=threads_own, args=(name,)) for name in ("one", "other")]
    for thread in (*loops, *others):
        thread.start()
    for thread in loops:
        thread.join(120)
    over.set()
    for thread in others:
        thread.join(120)
    stored: list[str] = []
    after: str | None = None
    while True:
        page = journal.tenant("acme").history(limit=1000, after=after)
        stored += [record.data["text"] for record in page]
        after = page.next
        if after is None:
            break
    assert sorted(stored) == sorted(answered)
    assert journal.check().ok


def test_a_cancelled_ticket_leaves_the_others_of_its_queue_alone(
    loop: Loop, journal: Journal, held: HeldWriter
) -> None:
    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            cancels = [start(partial(caller, face.tenant("acme"), text)) for text in "abc"]
            await loop.settle()
            cancels[1]()
            await loop.settle()
            held.take()
            held.commit()

    async def caller(tenant: AsyncTenant, text: str) -> None:
        await append(tenant, text, run=text)

    loop.run(main)
    assert [texts(journal, run) for run in "abc"] == [["a"], [], ["c"]]


def test_a_call_in_a_thread_is_waited_for_and_how_it_ended_is_told(loop: Loop, journal: Journal) -> None:
    begun, go_on = threading.Event(), threading.Event()
    told: list[str] = []

    def sign(checkpoint: Checkpoint, consistent: object) -> list[SignatureLine]:
        begun.set()
        assert go_on.wait(60)
        raise KeyError("the key is away")

    async def caller(tenant: AsyncTenant) -> None:
        try:
            await tenant.sign_checkpoint(sign)
        except KeyError as error:
            told.append(str(error))
        try:
            await loop.forever()
        except loop.cancelled:
            told.append("cancelled")
            raise

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            await append(face.tenant("acme"))
            cancel = start(partial(caller, face.tenant("acme")))
            while not begun.is_set():
                await loop.turn()
            cancel()
            await loop.settle()
            assert told == []
            go_on.set()

    loop.run(main)
    assert told == ["'the key is away'", "cancelled"]


# --- trio -------------------------------------------------------------------------------------------------------------


def test_on_trio_a_ctrl_c_while_a_request_is_handed_over_takes_it_back(
    journal: Journal, held: HeldWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    enlist = journal.view.writer.enlist

    def interrupted(tenant: str, request: ask.Request, home: Home) -> Ticket:
        ticket = enlist(tenant, request, home)
        signal.raise_signal(signal.SIGINT)
        return ticket

    monkeypatch.setattr(journal.view.writer, "enlist", interrupted)

    async def main() -> None:
        async with TrioJournal(journal) as face:
            await append(face.tenant("acme"))

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert held.queued == 0
    assert texts(journal) == []


def test_on_trio_a_shielded_append_is_not_cancelled(journal: Journal) -> None:
    async def main() -> None:
        async with TrioJournal(journal) as face:
            with trio.CancelScope() as outer:
                outer.cancel()
                with trio.CancelScope(shield=True):
                    await append(face.tenant("acme"))

    trio.run(main)
    assert texts(journal) == ["it"]


# --- asyncio ----------------------------------------------------------------------------------------------------------


def in_asyncio(journal: Journal, body: Callable[[AsyncTenant], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncioJournal(journal) as face:
            await body(face.tenant("acme"))

    asyncio.run(main())


async def late(held: HeldWriter, cancel: Callable[[], object]) -> None:
    """Cancel what waits for its append once a transaction has taken it, and commit a little later."""
    await settle()
    held.take()
    cancel()
    await settle()
    held.commit()


def test_an_asyncio_timeout_before_the_transaction_is_a_timeout_and_writes_nothing(
    journal: Journal, held: HeldWriter
) -> None:
    async def body(tenant: AsyncTenant) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await append(tenant)

    in_asyncio(journal, body)
    assert held.queued == 0
    assert texts(journal) == []


def test_an_asyncio_timeout_that_comes_too_late_cancels_nothing_afterwards(journal: Journal, held: HeldWriter) -> None:
    async def body(tenant: AsyncTenant) -> None:
        async with asyncio.TaskGroup() as group:
            async with asyncio.timeout(None) as timeout:
                group.create_task(late(held, lambda: timeout.reschedule(0)))
                answer = await append(tenant)
            assert [record.seq for record in answer] == [1]
            await settle()
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0

    in_asyncio(journal, body)
    assert texts(journal) == ["it"]


def test_an_asyncio_timeout_too_late_for_an_append_ends_what_is_awaited_next(
    journal: Journal, held: HeldWriter
) -> None:
    believed: list[int] = []

    async def block(tenant: AsyncTenant, group: asyncio.TaskGroup) -> None:
        async with asyncio.timeout(None) as timeout:
            group.create_task(late(held, lambda: timeout.reschedule(0)))
            believed.append(len(await append(tenant)))
            await settle()
            believed.append(-1)

    async def body(tenant: AsyncTenant) -> None:
        async with asyncio.TaskGroup() as group:
            with pytest.raises(TimeoutError):
                await block(tenant, group)

    in_asyncio(journal, body)
    assert believed == [1]


def test_of_two_asyncio_timeouts_that_come_too_late_the_outer_one_is_not_lost(
    journal: Journal, held: HeldWriter
) -> None:
    believed: list[int] = []

    async def block(tenant: AsyncTenant, group: asyncio.TaskGroup) -> None:
        async with asyncio.timeout(None) as outer:
            async with asyncio.timeout(None) as inner:

                def both() -> None:
                    inner.reschedule(0)
                    outer.reschedule(0)

                group.create_task(late(held, both))
                believed.append(len(await append(tenant)))
            await settle()
            believed.append(-1)

    async def body(tenant: AsyncTenant) -> None:
        async with asyncio.TaskGroup() as group:
            with pytest.raises(TimeoutError):
                await block(tenant, group)

    in_asyncio(journal, body)
    assert believed == [1]


def test_wait_for_returns_the_answer_of_an_append_that_its_timeout_came_too_late_for(
    journal: Journal, held: HeldWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(tenant: AsyncTenant) -> None:
        loop, started = asyncio.get_running_loop(), time.monotonic()
        now = [started]
        monkeypatch.setattr(loop, "time", lambda: now[0])

        def time_passes() -> None:
            now[0] += 11

        async with asyncio.TaskGroup() as group:
            group.create_task(late(held, time_passes))
            assert len(await asyncio.wait_for(append(tenant), 10)) == 1
        assert now[0] > started

    in_asyncio(journal, body)


def test_a_failing_task_group_learns_the_append_and_raises_its_failure_alone(
    journal: Journal, held: HeldWriter
) -> None:
    believed: list[int] = []

    async def failing() -> None:
        await settle()
        held.take()
        raise ValueError("by the group")

    async def block(tenant: AsyncTenant) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(failing()).add_done_callback(lambda _: held.commit())
            believed.append(len(await append(tenant)))
            await asyncio.Event().wait()

    async def body(tenant: AsyncTenant) -> None:
        with pytest.raises(ExceptionGroup) as caught:
            await block(tenant)
        assert [str(error) for error in caught.value.exceptions] == ["by the group"]
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0
        await settle()

    in_asyncio(journal, body)
    assert believed == [1]
    assert texts(journal) == ["it"]


def test_an_asyncio_task_that_is_cancelled_before_it_calls_hands_nothing_over(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enlist(*ticket: object) -> Ticket:
        raise AssertionError("handed over")

    monkeypatch.setattr(journal.view.writer, "enlist", enlist)

    async def body(tenant: AsyncTenant) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await append(tenant)
        task.uncancel()

    in_asyncio(journal, body)


def test_an_asyncio_task_that_swallowed_a_cancellation_before_can_be_cancelled_again(
    journal: Journal, held: HeldWriter
) -> None:
    believed: list[str] = []

    async def caller(tenant: AsyncTenant) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            believed.append("swallowed")
        await append(tenant)
        believed.append("answered")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            believed.append("cancelled")

    async def body(tenant: AsyncTenant) -> None:
        task = asyncio.create_task(caller(tenant))
        await settle()
        task.cancel()
        await late(held, task.cancel)
        await task
        assert task.cancelling() == 2

    in_asyncio(journal, body)
    assert believed == ["swallowed", "answered", "cancelled"]
