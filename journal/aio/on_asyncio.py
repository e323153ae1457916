"""The face for programs that run on asyncio, and the only module of the library that imports asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from sealbook.journal.aio.faces import AsyncJournal
from sealbook.journal.aio.host import PLACES_MAX, Scope
from sealbook.journal.deciding import requests
from sealbook.journal.errors import OpenedBeforeFork, WrongLoop
from sealbook.journal.writing.writer import Ticket, Writer

T = TypeVar("T")


class AsyncioJournal(AsyncJournal):
    """An open store in an asyncio program: the verbs of `Journal`, awaited.

    What holds on every event loop is said in `sealbook.journal.aio`.

    >>> import asyncio
    >>> from sealbook.journal import AsyncioJournal, entries
    >>> async def main():
    ...     async with AsyncioJournal.in_memory() as journal:
    ...         acme = journal.tenant("acme")
    ...         lease = await acme.acquire("order-42", owner="worker-1", ttl=30)
    ...         return await acme.append("order-42", [entries.note("begun")], lease=lease)
    >>> [record.seq for record in asyncio.run(main())]
    [1]
    """

    @staticmethod
    def _new_host() -> AsyncioHost:
        return AsyncioHost()


class AsyncioHost:
    """The asyncio loop that is running."""

    def __init__(self) -> None:
        self._loop = _running()
        self._pid = os.getpid()
        self._waiting: dict[Hashable, asyncio.Future[None]] = {}
        self._places = asyncio.Semaphore(PLACES_MAX)
        self._under_way = 0
        self._closers: list[Hashable] = []  # those who wait until nothing is under way

    def check(self) -> None:
        if os.getpid() != self._pid:
            raise OpenedBeforeFork("the journal was entered before this process was forked: open it anew here")
        if _running() is not self._loop:
            raise WrongLoop("it was entered in another asyncio loop")

    async def checkpoint(self) -> None:
        await asyncio.sleep(0)

    async def enter(self) -> None:
        if _current_task().cancelling():
            await asyncio.sleep(0)  # where a cancellation that the task has not met yet reaches it
        await self._places.acquire()
        self._under_way += 1

    def leave(self) -> None:
        self._places.release()
        self._under_way -= 1
        if not self._under_way:
            self._wake(self._closers)
            self._closers = []

    async def committed(self, writer: Writer, tenant: str, request: requests.Request) -> Any:
        ticket = writer.enlist(tenant, request, self)
        await self._told(ticket, lambda: writer.withdraw(ticket))
        return ticket.result()

    def finished(self, tickets: Sequence[Ticket]) -> None:
        """Called from whichever thread committed: wake the tasks of all these tickets in one go."""
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            self._loop.call_soon_threadsafe(self._wake, tickets)

    async def in_thread(self, call: Callable[[], T]) -> T:
        return await self._ended(self._loop.run_in_executor(None, partial(copy_context().run, call)))

    async def to_the_end(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task, done = _current_task(), self._loop.create_task(work())
        cancelled = False
        if task.cancelling():
            try:
                await asyncio.sleep(0)  # where a cancellation that the task has not met yet reaches it
            except asyncio.CancelledError:
                cancelled = True
        try:
            return await self._ended(done)
        finally:
            if cancelled:
                self._loop.call_soon(_cancel_again, task, task.cancelling() - 1)

    async def _ended(self, done: asyncio.Future[T]) -> T:
        done.add_done_callback(lambda _: self._wake([done]))
        await self._told(done, _never)
        return done.result()

    async def wind_up(self, close: Callable[[], None]) -> None:
        while self._under_way:
            closer = object()
            self._closers.append(closer)
            await self._told(closer, _never)
        await self.in_thread(close)

    async def _told(self, event: Hashable, withdraw: Callable[[], bool]) -> None:
        """Wait until `_wake` is called with this event. A cancellation is raised if `withdraw` says so; otherwise it is
        kept until the event has come, and the task meets it where it waits next."""
        task = _current_task()
        cancellations = task.cancelling()
        cancelled = False
        waiting = True
        while waiting:
            future = self._waiting[event] = self._loop.create_future()
            try:
                await future
            except asyncio.CancelledError:
                if withdraw():
                    del self._waiting[event]
                    raise
                cancelled = True
            waiting = event in self._waiting
        if cancelled:
            self._loop.call_soon(_cancel_again, task, cancellations)

    def _wake(self, events: Iterable[Hashable]) -> None:
        for event in events:
            future = self._waiting.pop(event, None)  # it may be told twice
            if future is not None and not future.done():
                future.set_result(None)

    def task(self) -> object:
        return _current_task()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def bell(self) -> AsyncioBell:
        return AsyncioBell(self._loop)

    @asynccontextmanager
    async def scope(self) -> AsyncIterator[Scope]:
        failure: BaseException | None = None
        async with asyncio.TaskGroup() as group:
            scope = AsyncioScope(group)
            try:
                yield scope
            except BaseException as error:
                failure = error  # raised on outside, so that the group does not wrap it
            scope.end()
        if failure is not None and not scope.absorbs(failure):
            raise failure


class AsyncioBell:
    """Where one task waits until it is rung, from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rung = asyncio.Event()

    def ring(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self) -> None:
        await self._rung.wait()
        self._rung.clear()


class AsyncioScope:
    """A body in the task that made this, beside a task group."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._body = _current_task()
        self._cancellations = self._body.cancelling()
        self._group = group
        self._beside: list[asyncio.Task[None]] = []
        self.stopped = False
        self._cancelled = False
        self._ended = False

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await work()

        self._beside.append(self._group.create_task(run()))

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            # When the body waits again: one that stops itself and ends would meet the cancellation after its end.
            self._body.get_loop().call_soon(self._cancel)

    def _cancel(self) -> None:
        if not self._ended:
            self._cancelled = True
            self._body.cancel()

    def end(self) -> None:
        """The body has ended; so do the tasks beside it."""
        self._ended = True
        if self._cancelled:
            self._body.uncancel()
        for task in self._beside:
            task.cancel()

    def absorbs(self, failure: BaseException) -> bool:
        """Whether this is the cancellation that `stop` asked for, and nobody else's."""
        ours = self._cancelled and isinstance(failure, asyncio.CancelledError)
        return ours and self._body.cancelling() <= self._cancellations


def _cancel_again(task: asyncio.Task[Any], cancellations: int) -> None:
    """Cancel a task that has been cancelled already and has not met it: unless whoever did so has left meanwhile (a
    timeout whose block has ended), or the task itself has. The count of cancellations stays what their authors made it.
    """
    if not task.done() and task.cancelling() > cancellations:
        task.uncancel()
        task.cancel()


def _never() -> bool:
    return False


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None, "a coroutine of asyncio runs in a task"
    return task


def _running() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise WrongLoop("no asyncio loop is running in this thread") from None
