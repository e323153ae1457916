"""All logs of a store, once or again and again, until it is told to stop; killed, it goes on where it was.

The logs are published side by side, and one that fails does not keep the others. The policy and the list of tenants are
read anew each time, so a witness that is added is asked in the next round.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import trio

from sealbook.cli.ground import exit_codes
from sealbook.cli.publishing.client import Clock, Transport
from sealbook.cli.publishing.memory import Memory, PublishingStopped
from sealbook.cli.publishing.publisher import Publisher, PublishingRules, PublishingState, Turn
from sealbook.cli.publishing.signing import LogSigner, check_keys
from sealbook.journal.errors import SealbookError
from sealbook.journal.keys.ring import Keyring
from sealbook.journal.store.logs import Log, StoreLog
from sealbook.merkle.errors import VerificationError

PARALLEL_LOGS_MAX: Final = 8

Told = Callable[[str, Turn | Exception], None]
"""Is told how each log's turn ended: its origin, and the turn or what refused it."""


@dataclass(eq=False)
class Daemon:
    """Publishes some logs. `rules` is asked before each turn. A store log gathers the tenants' heads first."""

    ring: Keyring
    logs: Callable[[], Iterable[Log]]
    rules: Callable[[Memory], PublishingRules]
    transport: Transport
    clock: Clock
    told: Told
    passphrase: bytes | None = None
    _publishers: dict[str, Publisher] = field(default_factory=dict, init=False)
    """By origin."""

    async def once(self) -> int:
        """One turn of every log; the worst exit code among them."""
        codes: list[int] = []
        limiter = trio.CapacityLimiter(PARALLEL_LOGS_MAX)

        async def turn(log: Log) -> None:
            async with limiter:
                codes.append(await self._turn(log))

        async with trio.open_nursery() as nursery:
            for log in self.logs():
                nursery.start_soon(turn, log)
        return worst(codes)

    async def every(self, seconds: float) -> None:
        """Turn after turn, each `seconds` after the one before began, or when that one has ended."""
        while True:
            begun = trio.current_time()
            await self.once()
            await trio.sleep_until(begun + seconds)

    def _publisher(self, log: Log, origin: str) -> Publisher:
        found = self._publishers.get(origin)
        if found is None:
            signer, memory = LogSigner(self.ring, origin, self.passphrase), Memory(self.ring.folder, origin)
            found = self._publishers[origin] = Publisher(log, signer, memory, self.transport, self.clock)
        return found

    async def _turn(self, log: Log) -> int:
        origin = log.name  # until the store has told it
        try:
            origin = log.origin  # which another process may have changed: `log adopt`
            check_keys(self.ring, log)
            if isinstance(log, StoreLog):
                await trio.to_thread.run_sync(log.gather)
            publisher = self._publisher(log, origin)
            turn = await publisher.turn(self.rules(publisher.memory))
        except (SealbookError, VerificationError, OSError) as error:
            code = exit_codes.code_of(error)
            assert code is not None
            self.told(origin, error)
            return code
        self.told(origin, PublishingStopped(origin, turn.stop) if turn.stop is not None else turn)
        return code_of(turn)


def code_of(turn: Turn) -> int:
    """A turn's exit code."""
    return {PublishingState.STOPPED: exit_codes.INTEGRITY, PublishingState.WAITING: exit_codes.REFUSED}.get(
        turn.state, exit_codes.OK
    )


def worst(codes: Iterable[int]) -> int:
    """The code that matters most: an integrity failure before all others, success last."""
    order = (exit_codes.INTEGRITY, exit_codes.FAILED, exit_codes.REFUSED, exit_codes.NOT_FOUND)
    found = set(codes)
    return next((code for code in order if code in found), max(found, default=exit_codes.OK))


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """One of the errors in a group, as nurseries raise them: what is told of it is one line."""
    error = group.exceptions[0]
    return first_of(error) if isinstance(error, BaseExceptionGroup) else error


async def until_signalled(work: Callable[[], Awaitable[None]]) -> bool:
    """Run the work to its end, or until SIGINT or SIGTERM; whether it came to its end."""
    ended = False

    async def watch(scope: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                scope.cancel()
                return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, nursery.cancel_scope)
        await work()
        ended = True
        nursery.cancel_scope.cancel()
    return ended
