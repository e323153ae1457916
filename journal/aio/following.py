"""Following in an event loop: the rules of `journal.following`, and a task that waits for the pulse of the journal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from sealbook.journal.aio.verbs import Face
from sealbook.journal.reading.following import Followed, Following
from sealbook.journal.records.record import Record

P = ParamSpec("P")


class AsyncFollowing(Followed, AsyncIterator[Record]):
    """Records as they are committed, by this and other processes: `async for record in tenant.follow():`.

    It ends when `stop` is called, from any task or thread, and with `Closed` when the journal, or the face that it was
    made by, is closed. A run that is sealed does not end it: nothing follows, and it waits. Each step is a checkpoint:
    a cancellation is met before the next record is taken, and so takes none with it. One task at a time takes records.
    """

    def __init__(self, tenant: Face, following: Following) -> None:
        """Not for callers: see `AsyncTenant.follow`."""
        self._tenant = tenant
        self._follower, self._pulse = following._follower, following._pulse
        self._bell = tenant._ready().bell()
        self._stopped = False

    async def take(self) -> Record | None:
        """The next record if it is there already, None when there is none now. It never waits for one."""
        while True:
            await self._tenant._ready().checkpoint()
            record = self._follower.take()
            if record is not None or not self._follower.behind:
                return record

    def stop(self) -> None:
        """End the iteration, also while a task waits in it. What was handed out stays so."""
        self._stopped = True
        self._bell.ring()

    async def __anext__(self) -> Record:
        if self._stopped:
            raise StopAsyncIteration
        record = await self.take()
        return await self._awaited() if record is None else record

    async def _awaited(self) -> Record:
        """The next record once it is there. The bell hangs before the look, so that no commit is missed between."""
        try:
            self._pulse.hang(self._bell.ring)
            while not self._stopped:
                if (record := await self.take()) is not None:
                    return record
                await self._bell.wait()
        finally:
            self._pulse.take_down(self._bell.ring)
        raise StopAsyncIteration


def followed(
    verb: Callable[Concatenate[Any, P], Following],
) -> Callable[Concatenate[Face, P], AsyncFollowing]:
    """The verb that follows, which is not awaited: it says from where on, and the iteration waits."""

    @wraps(verb)
    def following(self: Face, /, *args: P.args, **kwargs: P.kwargs) -> AsyncFollowing:
        self._ready()
        return AsyncFollowing(self, verb(self._sync, *args, **kwargs))

    return following
