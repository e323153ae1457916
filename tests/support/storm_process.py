"""One process of a storm: tasks that execute runs, append, take leases, and are cancelled, under a clock that jumps.

It does not know how it ends: it is killed at any moment, or told to stop. What it was answered it says in the log.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio
from storm_log import Log

from sealbook.journal import (
    AsyncLeasedRun,
    AsyncTenant,
    DidNotHappen,
    Fenced,
    Fresh,
    InDoubt,
    Landed,
    LeaseHeld,
    Moment,
    Refused,
    Replayed,
    RunSealed,
    TrioJournal,
    entries,
    reconcile,
)
from sealbook.journal.engine.clock import system_clock

STORE: Final = "agents.sealbook"
LOG: Final = "log"
WORLD: Final = "world"
TENANT: Final = "acme"

EXECUTING, HOLDING, APPENDING = 22, 5, 5  # tasks
assert EXECUTING + HOLDING + APPENDING == 32
SLOTS = 24  # runs that are open at a time, among all processes
DAYS_MAX = 400  # that the wall clock may be off
TTL_S = 2.0  # the shortest that a leased run may have
TTL_S_SHORT = 1.0


class Flop(Exception):
    """What an effect fails of now and then."""


class JumpingClock:
    """The system's, with wall time off by whatever it was set to last: boot time is that of all processes."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def __call__(self) -> Moment:
        now = system_clock()
        return replace(now, wall_ms=now.wall_ms + self.offset_ms)


class Process:
    """One life of a process, from its start to its death."""

    def __init__(self, folder: Path, name: str, seed: str) -> None:
        self.log = Log(folder / LOG)
        self.name = name
        self._folder = folder
        self._chance = random.Random(seed)
        self._clock = JumpingClock()
        self._generations: Counter[int] = Counter()  # of the run in each slot
        self._blocks: dict[trio.CancelScope, str] = {}  # under way
        self._texts = 0
        self._acme: AsyncTenant

    async def live(self, stop: int) -> None:
        """Until the other end of this pipe is closed."""
        async with TrioJournal.open(self._folder / STORE, clock=self._clock, lock_timeout=60) as journal:
            self._acme = journal.tenant(TENANT)
            async with trio.open_nursery() as nursery:
                for work, tasks in ((self._execute, EXECUTING), (self._hold, HOLDING), (self._write, APPENDING)):
                    for _ in range(tasks):
                        nursery.start_soon(self._again_and_again, work)
                nursery.start_soon(self._cancel)
                nursery.start_soon(self._step_clock)
                await trio.lowlevel.wait_readable(stop)
                nursery.cancel_scope.cancel()

    async def _again_and_again(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._pause(0.01)
            await work()

    async def _pause(self, seconds_max: float) -> None:
        await trio.sleep(self._chance.random() * seconds_max)

    def _happens(self, share: float) -> bool:
        return self._chance.random() < share

    # --- weather -----------------------------------------------------------------------------------------------------

    async def _cancel(self) -> None:
        while True:
            await self._pause(0.1)
            if self._blocks:
                self._chance.choice(list(self._blocks)).cancel()

    async def _step_clock(self) -> None:
        while True:
            await self._pause(0.2)
            self._clock.offset_ms = round(self._chance.uniform(-DAYS_MAX, DAYS_MAX) * 86_400_000)
            self.log.say("stepped-clock", self._clock.offset_ms)

    # --- runs that are executed --------------------------------------------------------------------------------------

    async def _execute(self) -> None:
        slot = self._chance.randrange(SLOTS)
        run = f"run-{slot}-{self._generations[slot]}"
        with trio.CancelScope() as scope:
            self._blocks[scope] = run
            try:
                await self._block(slot, run)
            except (Fenced, Flop):
                await self._notice(run, 0.5)
            except LeaseHeld:
                await self._notice(run, 0.03)
            except InDoubt as error:
                self.log.say("doubt", run, error.effect)
                await self._decide(run, bytes.fromhex(error.effect))
            except RunSealed:
                self._generations[slot] += 1
            finally:
                del self._blocks[scope]
        if scope.cancelled_caught:
            self.log.say("cancelled", run)
            await self._notice(run, 0.5)

    async def _block(self, slot: int, run: str) -> None:
        admission = await self._acme.admit("storm", run, run=run)
        if isinstance(admission, Replayed):
            self._generations[slot] += 1
            return
        if isinstance(admission, Fresh):
            self.log.say("fresh", run)
        async with self._acme.leased(run, owner=self.name, ttl=TTL_S) as live:
            self.log.say("entered", run, live.epoch)
            await self._body(live)

    async def _body(self, run: AsyncLeasedRun) -> None:
        self._stepped(run, "ClockRead", (await run.now()).isoformat())
        await self._effect(run, "charge", self._act)
        await self._effect(run, "think", self._try_to_act, recovery="retry")
        await run.note("half way")
        self._stepped(run, "Note", "half way")
        await self._effect(run, "ship", self._act, recovery="idempotent")
        self._stepped(run, "RandomDrawn", await run.random())
        await self._effect(run, "book", self._book, recovery=reconcile(partial(self._look, run)))
        if await run.cancel_requested:
            await run.conclude("cancelled")
            self._stepped(run, "RunConcluded", "cancelled")
            return
        await run.snapshot("booked")
        self._stepped(run, "Snapshot", "booked")
        await run.conclude("completed")
        self._stepped(run, "RunConcluded", "completed")

    def _stepped(self, run: AsyncLeasedRun, kind: str, content: Any) -> None:
        self.log.say("stepped", run.name, kind, content)

    async def _effect(self, run: AsyncLeasedRun, name: str, act: Callable[..., Awaitable[str]], **options: Any) -> None:
        answer = await run.effect(name, partial(act, run, name), **options)
        assert answer == f"{name} of {run.name}", answer
        self.log.say("answered", run.name, name)

    # --- the world ---------------------------------------------------------------------------------------------------

    async def _act(self, run: AsyncLeasedRun, name: str, idempotency_key: str | None = None) -> str:
        self.log.say("called", run.name, name, run.epoch, run.idempotency_key[:16])
        assert idempotency_key in (None, run.idempotency_key)
        await self._pause(0.04)
        return f"{name} of {run.name}"

    async def _try_to_act(self, run: AsyncLeasedRun, name: str) -> str:
        answer = await self._act(run, name)
        if self._happens(0.1):
            raise Flop
        return answer

    async def _book(self, run: AsyncLeasedRun, name: str) -> str:
        answer = await self._act(run, name)
        (self._folder / WORLD / run.name).touch()
        await self._pause(0.04)
        return answer

    def _look(self, run: AsyncLeasedRun) -> Landed | DidNotHappen:
        seen = (self._folder / WORLD / run.name).exists()
        self.log.say("looked", run.name, run.epoch, seen)
        return Landed(f"book of {run.name}") if seen else DidNotHappen()

    # --- people ------------------------------------------------------------------------------------------------------

    async def _notice(self, run: str, share: float) -> None:
        """Somebody sees that a run stands still, or believes so, and takes its lease away."""
        if self._happens(share):
            with suppress(Refused):
                await self._acme.force_lease(run, actor=self.name, reason="it stood still")

    async def _decide(self, run: str, effect: bytes) -> None:
        """Somebody decides that an effect in doubt has happened, and asks now and then for the run to be cancelled."""
        decided = entries.effect_reconciled(effect, disposition="landed", data={"result": f"charge of {run}"})
        with suppress(Refused):
            forced = await self._acme.force_lease(run, actor=self.name, reason="to decide")
            await self._acme.append(run, [decided], epoch=forced.epoch)
            if self._happens(0.2):
                await self._acme.request_cancel(run, actor=self.name)

    # --- records -----------------------------------------------------------------------------------------------------

    async def _hold(self) -> None:
        """Append under a lease that nobody renews."""
        run = f"held-{self._chance.randrange(6)}"
        with trio.CancelScope() as scope:
            self._blocks[scope] = run
            try:
                lease = await self._acme.acquire(run, owner=self.name, ttl=TTL_S_SHORT)
                for _ in range(self._chance.randrange(8)):
                    await self._append(run, lease=lease)
                    await self._pause(1.5 if self._happens(0.05) else 0.02)
                if self._happens(0.7):
                    await self._acme.release(lease)
            except LeaseHeld:
                await self._notice(run, 0.05)
            except Refused:
                pass
            finally:
                del self._blocks[scope]

    async def _write(self) -> None:
        """Append to a run that nobody leases."""
        run = f"free-{self._chance.randrange(4)}"
        with trio.CancelScope() as scope:
            self._blocks[scope] = run
            try:
                await self._append(run, epoch=1)
            except Refused:
                pass
            finally:
                del self._blocks[scope]

    async def _append(self, run: str, **place: Any) -> None:
        texts = []
        for _ in range(self._chance.choice((1, 1, 1, 3))):
            self._texts += 1
            texts.append(f"{self.name}/{self._texts}")
        try:
            records = await self._acme.append(run, [entries.note(text) for text in texts], **place)
        except (trio.Cancelled, Refused):
            for text in texts:
                self.log.say("absent", text)
            raise
        for text, record in zip(texts, records, strict=True):
            self.log.say("told", run, record.seq, record.hash.hex()[:16], text)


def live(folder: Path, name: str, seed: str, stop: int) -> None:
    """Be that process until it is told to stop."""
    trio.run(Process(folder, name, seed).live, stop)
    os._exit(0)
