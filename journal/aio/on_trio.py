"""The face for programs that run on trio, and the only module of the library that imports trio."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import trio
from trio.lowlevel import Abort, ParkingLot, Task, enable_ki_protection

from sealbook.journal.aio.faces import AsyncJournal
from sealbook.journal.aio.host import PLACES_MAX, Scope
from sealbook.journal.deciding import requests
from sealbook.journal.errors import OpenedBeforeFork, WrongLoop
from sealbook.journal.writing.writer import Ticket, Writer

T = TypeVar("T")


class TrioJournal(AsyncJournal):
    """An open store in a trio program: the verbs of `Journal`, awaited.

    What holds on every event loop is said in `sealbook.journal.aio`.

    >>> import trio
    >>> from sealbook.journal import TrioJournal, entries
    >>> async def main():
    ...     async with TrioJournal.in_memory() as journal:
    ...         acme = journal.tenant("acme")
    ...         lease = await acme.acquire("order-42", owner="worker-1", ttl=30)
    ...         return await acme.append("order-42", [entries.note("begun")], lease=lease)
    >>> [record.seq for record in trio.run(main)]
    [1]
    """

    @staticmethod
    def _new_host() -> TrioHost:
        return TrioHost()


class TrioHost:
    """The trio program that is running.

    Where a Ctrl-C could part a ticket from its task, or a place from whoever leaves it, trio is told to hold it back
    until the task waits; from there on it is one more cancellation.
    """

    def __init__(self) -> None:
        self._token = _running()
        self._pid = os.getpid()
        self._waiting: dict[Ticket, Task] = {}
        self._free = PLACES_MAX
        self._queue = ParkingLot()  # of tasks that wait for a place
        self._closers = ParkingLot()  # of tasks that wait until all places are free

    def check(self) -> None:
        if os.getpid() != self._pid:
            raise OpenedBeforeFork("the journal was entered before this process was forked: open it anew here")
        if _running() is not self._token:
            raise WrongLoop("it was entered in another trio program")

    async def checkpoint(self) -> None:
        await trio.lowlevel.checkpoint()

    @enable_ki_protection
    async def enter(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._free:
            self._free -= 1
        else:
            await self._queue.park()  # whoever leaves hands its place on

    @enable_ki_protection
    def leave(self) -> None:
        if self._queue:
            self._queue.unpark()
            return
        self._free += 1
        if self._free == PLACES_MAX:
            self._closers.unpark_all()

    @enable_ki_protection
    async def committed(self, writer: Writer, tenant: str, request: requests.Request) -> Any:
        ticket = writer.enlist(tenant, request, self)

        def withdraw(_: object) -> Abort:
            if not writer.withdraw(ticket):
                return Abort.FAILED  # it is under way: trio cancels the task at its next checkpoint
            del self._waiting[ticket]
            return Abort.SUCCEEDED

        self._waiting[ticket] = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(withdraw)
        return ticket.result()

    def finished(self, tickets: Sequence[Ticket]) -> None:
        """Called from whichever thread committed: wake the tasks of all these tickets in one go."""
        with suppress(trio.RunFinishedError):  # the program is over, and nobody waits
            self._token.run_sync_soon(self._wake, tickets)

    def _wake(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            if (task := self._waiting.pop(ticket, None)) is not None:  # it may be told twice
                trio.lowlevel.reschedule(task)

    async def in_thread(self, call: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(call)

    async def to_the_end(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        with trio.CancelScope(shield=True):
            answer = await work()
        return answer

    async def wind_up(self, close: Callable[[], None]) -> None:
        with trio.CancelScope(shield=True):
            while self._free < PLACES_MAX:
                await self._closers.park()
            await trio.to_thread.run_sync(close)

    def task(self) -> object:
        return trio.lowlevel.current_task()

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    def bell(self) -> TrioBell:
        return TrioBell(self._token)

    @asynccontextmanager
    async def scope(self) -> AsyncIterator[Scope]:
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            scope = TrioScope(nursery)
            try:
                with scope.body:
                    yield scope
            except BaseException as error:
                failure = error  # raised on outside, so that the nursery does not wrap it
            nursery.cancel_scope.shield = True  # a cancellation from outside is the body's, and was met there
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure


class TrioBell:
    """Where one task waits until it is rung, from any thread."""

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token
        self._rung = trio.Event()

    def ring(self) -> None:
        with suppress(trio.RunFinishedError):  # the program is over, and nobody waits
            self._token.run_sync_soon(self._set, idempotent=True)

    def _set(self) -> None:
        self._rung.set()

    async def wait(self) -> None:
        await self._rung.wait()
        self._rung = trio.Event()


class TrioScope:
    """A body in a cancel scope of its own, beside a nursery."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.body = trio.CancelScope()
        self._nursery = nursery

    @property
    def stopped(self) -> bool:
        return self.body.cancel_called

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._nursery.start_soon(work)

    def stop(self) -> None:
        self.body.cancel()


def _running() -> trio.lowlevel.TrioToken:
    try:
        return trio.lowlevel.current_trio_token()
    except RuntimeError:
        raise WrongLoop("no trio program is running in this thread") from None
