"""The two event loops under one name, for tests that hold on both; and a writer that moves when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
import trio

from sealbook.journal import AsyncioJournal, Journal, TrioJournal
from sealbook.journal.aio.faces import AsyncJournal
from sealbook.journal.writing.writer import Ticket

T = TypeVar("T")

TURNS = 10  # more than any wake-up here takes

Cancel = Callable[[], object]
Start = Callable[[Callable[[], Awaitable[None]]], Cancel]


@dataclass(frozen=True)
class Loop:
    """One kind of event loop."""

    name: str
    face: type[AsyncJournal]
    cancelled: type[BaseException]
    run: Callable[[Callable[[], Awaitable[Any]]], Any]
    turn: Callable[[], Awaitable[None]]
    forever: Callable[[], Awaitable[Any]]
    tasks: Callable[[], AbstractAsyncContextManager[Start]]

    async def settle(self) -> None:
        """Let every task go on until it waits for more than its turn."""
        for _ in range(TURNS):
            await self.turn()


@asynccontextmanager
async def _trio_tasks() -> AsyncIterator[Start]:
    async with trio.open_nursery() as nursery:

        def start(work: Callable[[], Awaitable[None]]) -> Cancel:
            scope = trio.CancelScope()

            async def run() -> None:
                with scope:
                    await work()

            nursery.start_soon(run)
            return scope.cancel

        yield start


@asynccontextmanager
async def _asyncio_tasks() -> AsyncIterator[Start]:
    async with asyncio.TaskGroup() as group:

        def start(work: Callable[[], Awaitable[None]]) -> Cancel:
            async def run() -> None:
                await work()

            return group.create_task(run()).cancel

        yield start


def _run_asyncio(main: Callable[[], Awaitable[T]]) -> T:
    async def program() -> T:
        return await main()

    return asyncio.run(program())


TRIO = Loop(
    name="trio",
    face=TrioJournal,
    cancelled=trio.Cancelled,
    run=trio.run,
    turn=trio.lowlevel.checkpoint,
    forever=trio.sleep_forever,
    tasks=_trio_tasks,
)
ASYNCIO = Loop(
    name="asyncio",
    face=AsyncioJournal,
    cancelled=asyncio.CancelledError,
    run=_run_asyncio,
    turn=lambda: asyncio.sleep(0),
    forever=lambda: asyncio.Event().wait(),
    tasks=_asyncio_tasks,
)
LOOPS = [TRIO, ASYNCIO]


class HeldWriter:
    """The writer of a journal, whose own thread does not start: the test takes and commits."""

    def __init__(self, journal: Journal, patch: pytest.MonkeyPatch) -> None:
        self._writer = journal.view.writer
        self._batch: list[Ticket] = []
        patch.setattr(self._writer, "_start_thread", lambda: None)

    @property
    def queued(self) -> int:
        """How many tickets have no answer yet."""
        return sum(not ticket.withdrawn for ticket in self._writer._queue)

    def take(self) -> None:
        """Take all tickets of the queue into a transaction, so that none of them can be withdrawn."""
        self._batch = self._writer._taken()

    def commit(self) -> None:
        """Commit the transaction, and answer."""
        batch, self._batch = self._batch, []
        self._writer._commit(batch)
        self._writer._leave()

    def drain(self) -> None:
        """Commit whatever a failed test has left, so that the journal can be closed."""
        if self.queued:
            self.take()
            self.commit()
        self._writer._leave()
