"""What the faces ask of an event loop: how to wait for the writer, for a thread and for one another, and how to cancel.

Until a request is handed over, a cancellation cancels. After that its ticket is withdrawn, if no transaction has taken
it: the caller is cancelled, and nothing was or will be written. Otherwise the caller waits, gets the answer, and meets
its cancellation where it waits next. What says how an effect ended is handed over whatever comes (`to_the_end`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TypeVar

from sealbook.journal.deciding import requests
from sealbook.journal.writing.writer import Writer

T = TypeVar("T")

PLACES_MAX: Final = 4096  # verbs of one face under way at a time: beyond it, tasks wait before they encode anything


class Scope(Protocol):
    """A body of code, and the tasks that run beside it and end with it."""

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        ...

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` beside the body. It is cancelled when the body ends."""
        ...

    def stop(self) -> None:
        """Cancel the body; the block then ends without an error of its own."""
        ...


class LoopBell(Protocol):
    """Where one task waits until it is rung."""

    def ring(self) -> None:
        """Let `wait` return, now or the next time. Called from any thread; it never raises."""
        ...

    async def wait(self) -> None:
        """Until it has been rung since the last time. A cancellation ends it at once."""
        ...


class Host(Protocol):
    """One running event loop, as a face needs it. Everything is called in the loop that it was made in."""

    def check(self) -> None:
        """Refuse a caller in a child process (`OpenedBeforeFork`), in another loop or another thread (`WrongLoop`)."""
        ...

    async def checkpoint(self) -> None:
        """Be cancelled if the caller is, and let other tasks run."""
        ...

    async def enter(self) -> None:
        """Be cancelled if the caller is; then take one of the `PLACES_MAX` places, after everybody who came before."""
        ...

    def leave(self) -> None:
        """Give the place to whoever has waited longest."""
        ...

    async def committed(self, writer: Writer, tenant: str, request: requests.Request) -> Any:
        """Hand the request over, and return the answer to it or raise its refusal."""
        ...

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run `call` in a worker thread, to its end: a cancellation waits for it."""
        ...

    async def to_the_end(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await `work` to its end: a cancellation waits for it."""
        ...

    async def wind_up(self, close: Callable[[], None]) -> None:
        """Wait until all places are free, then run `close` in a worker thread. A cancellation waits for both."""
        ...

    def task(self) -> object:
        """The task that is running."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; a cancellation ends it at once."""
        ...

    def bell(self) -> LoopBell:
        """A bell for a task of this loop."""
        ...

    def scope(self) -> AbstractAsyncContextManager[Scope]:
        """A body and tasks beside it. What the body raises is raised on as it is; an error of a task stops the body."""
        ...
