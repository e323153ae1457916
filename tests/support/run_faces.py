"""The three faces of a leased run under one name, for tests that hold on all of them; and a heart that beats on demand.

A test's program is a coroutine. On the threaded face it never waits: its verbs block, and it is driven to its end at
once; side by side means in threads there, and in tasks on the other two.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeVar

import trio
from whole_journal import journal_of

from sealbook.journal import AsyncioJournal, Tenant, TrioJournal
from sealbook.journal.aio import leased as awaited
from sealbook.journal.running.leased import LeasedRun

T = TypeVar("T")

SECONDS_MAX = 60  # a test that waits longer for another thread has failed


class Event(Protocol):
    """What one thread or task waits for another with."""

    def set(self) -> None: ...
    def wait(self) -> Awaitable[Any]: ...


class Heart:
    """Stands in for the time between two renewals: each `beat` lets one renewal happen and waits until it has."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self.pauses: list[float] = []
        self._pausing = face.event()
        self._go = face.event()

    async def pause(self, seconds: float) -> bool:
        """What the renewing thread or task waits in."""
        self.pauses.append(seconds)
        go = self._go
        self._pausing.set()
        await go.wait()
        return False

    async def beat(self) -> None:
        """Let the renewal happen that is due; back when the next pause has begun."""
        await self._let_go()
        await self._pausing.wait()

    async def last_beat(self, run: Any) -> None:
        """Let the last renewal happen: tasks are cancelled in here, a thread learns it later."""
        await self._let_go()
        await self._face.lost(run)

    async def _let_go(self) -> None:
        await self._pausing.wait()
        self._pausing, go, self._go = self._face.event(), self._go, self._face.event()
        go.set()


class Face(Protocol):
    """One face: how a program runs on it, and how it opens a run."""

    name: str

    def run(self, program: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
    def leased(
        self,
        tenant: Tenant,
        run: str,
        *,
        heart: Heart | None = None,
        owner: str = "w",
        ttl: float = 30.0,
        case: str | None = None,
    ) -> AbstractAsyncContextManager[Any]: ...
    def event(self) -> Event: ...
    async def lost(self, run: Any) -> None: ...
    async def admit(self, tenant: Tenant, source: str, id: str, **options: Any) -> Any: ...
    async def side_by_side(self, *programs: Callable[[], Coroutine[Any, Any, Any]]) -> None: ...


# --- threads --------------------------------------------------------------------------------------------------------


def driven(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("a program of the threaded face has nothing to wait for")


class ThreadEvent:
    """A `threading.Event` whose waiting can be awaited, and fails after a while."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        assert self._event.wait(SECONDS_MAX), "waited too long for another thread"


class HeartStop:
    """The `Stop` of a threaded run whose pauses are a heart's."""

    def __init__(self, heart: Heart) -> None:
        self._heart = heart
        self._set = False

    def wait(self, timeout: float) -> bool:
        driven(self._heart.pause(timeout))
        return self._set

    def set(self) -> None:
        self._set = True
        self._heart._go.set()


class AwaitableRun:
    """A `LeasedRun` whose verbs can be awaited, as those of the other faces must be."""

    def __init__(self, run: LeasedRun) -> None:
        self.sync = run

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.sync, name)
        if not callable(found):
            return found

        async def verb(*args: Any, **kwargs: Any) -> Any:
            return found(*[_plain(arg) for arg in args], **{name: _plain(value) for name, value in kwargs.items()})

        return verb

    @property
    def cancel_requested(self) -> Awaitable[bool]:
        async def asked() -> bool:
            return self.sync.cancel_requested

        return asked()


def _plain(value: Any) -> Any:
    """A coroutine function as the plain function that it is on this face."""
    return (lambda *args, **kwargs: driven(value(*args, **kwargs))) if iscoroutinefunction(value) else value


class Threaded:
    """The face of blocking verbs."""

    name = "threads"

    def run(self, program: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return driven(program())

    @asynccontextmanager
    async def leased(
        self,
        tenant: Tenant,
        run: str,
        *,
        heart: Heart | None = None,
        owner: str = "w",
        ttl: float = 30.0,
        case: str | None = None,
    ) -> AsyncIterator[Any]:
        if heart is None:
            block = tenant.leased(run, owner=owner, ttl=ttl, case=case)
        else:
            block = LeasedRun(tenant, run, owner=owner, ttl=ttl, case=case, stop=HeartStop(heart))
        with block as live:
            yield AwaitableRun(live)

    def event(self) -> Event:
        return ThreadEvent()

    async def lost(self, run: Any) -> None:
        run.sync._keeper.join(SECONDS_MAX)
        assert not run.sync._keeper.is_alive()

    async def admit(self, tenant: Tenant, source: str, id: str, **options: Any) -> Any:
        return tenant.admit(source, id, **options)

    async def side_by_side(self, *programs: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        errors: list[BaseException] = []

        def work(program: Callable[[], Coroutine[Any, Any, Any]]) -> None:
            try:
                driven(program())
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(program,)) for program in programs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS_MAX)
            assert not thread.is_alive()
        if errors:
            raise errors[0]


# --- tasks ----------------------------------------------------------------------------------------------------------


class _Tasks:
    """What the two event loops have in common: an asynchronous journal over the test's own."""

    journal: type[Any]
    event: Callable[[], Event]

    @asynccontextmanager
    async def leased(
        self,
        tenant: Tenant,
        run: str,
        *,
        heart: Heart | None = None,
        owner: str = "w",
        ttl: float = 30.0,
        case: str | None = None,
    ) -> AsyncIterator[Any]:
        async with self.journal(journal_of(tenant)) as journal:
            mine = journal.tenant(tenant.name)
            pause = None if heart is None else heart.pause
            if pause is None:
                block = mine.leased(run, owner=owner, ttl=ttl, case=case)
            else:
                block = awaited.leased(mine, run, owner=owner, ttl=ttl, case=case, pause=pause)
            async with block as live:
                yield live

    async def lost(self, run: Any) -> None:
        await self.event().wait()

    async def admit(self, tenant: Tenant, source: str, id: str, **options: Any) -> Any:
        async with self.journal(journal_of(tenant)) as journal:
            return await journal.tenant(tenant.name).admit(source, id, **options)


class OnTrio(_Tasks):
    """The asynchronous face in a trio program."""

    name = "trio"
    journal = TrioJournal

    def run(self, program: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async def in_time() -> T:
            with trio.fail_after(SECONDS_MAX):
                return await program()

        return trio.run(in_time)

    event = staticmethod(trio.Event)

    async def side_by_side(self, *programs: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        async with trio.open_nursery() as nursery:
            for program in programs:
                nursery.start_soon(program)


class OnAsyncio(_Tasks):
    """The asynchronous face in an asyncio program."""

    name = "asyncio"
    journal = AsyncioJournal

    def run(self, program: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async def in_time() -> T:
            async with asyncio.timeout(SECONDS_MAX):
                return await program()

        return asyncio.run(in_time())

    event = staticmethod(asyncio.Event)

    async def side_by_side(self, *programs: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        await asyncio.gather(*[program() for program in programs])


FACES: list[Face] = [Threaded(), OnTrio(), OnAsyncio()]
