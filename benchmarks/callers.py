"""Many callers at once: tasks of trio, threads, or one alone, each with its entries made before the clock starts.

A burst is what a round has of one contender: every caller appends its entries one after another, each when the one
before is durable. The clock runs from when all callers are ready until the last one is done.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import trio

from benchmarks import workload
from benchmarks.rounds import say, turns
from benchmarks.workload import EPOCH, RUN_RECORDS, TENANT, Step
from sealbook.journal import Journal, Tenant, TrioJournal

Shares = Sequence[Sequence[Any]]
"""What each caller hands over, one after another: steps, unless the contender knows better."""

Append = Callable[[Any], object]
AppendFromTask = Callable[[Any], Awaitable[object]]
Opened = Callable[[], AbstractAsyncContextManager[AppendFromTask]]
"""What a contender needs around its tasks, and what they then call."""


@dataclass(frozen=True, slots=True)
class Burst:
    """How many appends there were, the seconds from the first to the last, of CPU, and of each append alone."""

    appends: int
    seconds: float
    cpu: float
    each: list[float]

    @property
    def rate(self) -> float:
        """Appends per second."""
        return self.appends / self.seconds

    @property
    def cpu_each(self) -> float:
        """Microseconds of CPU, of this process, for one append."""
        return self.cpu / self.appends * 1e6

    @property
    def slow(self) -> float:
        """The seconds that 99 of 100 appends stay below."""
        return statistics.quantiles(self.each, n=100)[98]


class Supply:
    """The entries of one contender's callers: each caller has runs of its own, and one of them at a time."""

    def __init__(self, runs: Sequence[int], callers: int) -> None:
        self._lanes = [_lane(runs[number::callers]) for number in range(callers)]

    def take(self, each: int) -> Shares:
        """The next so many entries of each caller."""
        shares = [list(islice(lane, each)) for lane in self._lanes]
        assert all(len(share) == each for share in shares), "too few runs were set aside"
        return shares


def runs_needed(callers: int, each: int) -> int:
    """How many runs the callers need, to append so many entries each."""
    return callers * -(-each // RUN_RECORDS)


def _lane(runs: Sequence[int]) -> Iterator[Step]:
    for number in runs:
        name = workload.run_name(number)
        for position in range(1, RUN_RECORDS + 1):
            yield name, workload.entry_at(number, position)


def alone(append: Append, shares: Shares) -> Burst:
    """One caller, which is this thread."""
    [share] = shares
    cpu, start = time.process_time(), time.perf_counter()
    each = _appended(append, share)
    return Burst(len(share), time.perf_counter() - start, time.process_time() - cpu, each)


def by_threads(append: Append, shares: Shares) -> Burst:
    """A thread for each caller."""
    ready = threading.Barrier(len(shares) + 1)
    found: list[list[float]] = []
    errors: list[Exception] = []

    def call(share: Sequence[Any]) -> None:
        ready.wait()
        try:
            found.append(_appended(append, share))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    cpu, start = time.process_time(), time.perf_counter()
    ready.wait()
    for thread in threads:
        thread.join()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    if errors:
        raise errors[0]
    return _burst(shares, seconds, cpu, found)


def by_tasks(opened: Opened, shares: Shares) -> Burst:
    """A task of trio for each caller, in one program."""
    found: list[list[float]] = []

    async def call(append: AppendFromTask, share: Sequence[Any]) -> None:
        each = []
        for step in share:
            start = time.perf_counter()
            await append(step)
            each.append(time.perf_counter() - start)
        found.append(each)

    async def program() -> Burst:
        async with opened() as append:
            cpu, start = time.process_time(), time.perf_counter()
            async with trio.open_nursery() as nursery:
                for share in shares:
                    nursery.start_soon(call, append, share)
            return _burst(shares, time.perf_counter() - start, time.process_time() - cpu, found)

    return trio.run(program)


def _appended(append: Append, share: Sequence[Any]) -> list[float]:
    each = []
    for step in share:
        start = time.perf_counter()
        append(step)
        each.append(time.perf_counter() - start)
    return each


def _burst(shares: Shares, seconds: float, cpu: float, found: Sequence[Sequence[float]]) -> Burst:
    each = [one for several in found for one in several]
    assert len(each) == sum(map(len, shares))
    return Burst(len(each), seconds, cpu, each)


# --- Sealbook, as its callers call it --------------------------------------------------------------------------------


def appending(tenant: Tenant) -> Append:
    """Append from a thread."""
    return lambda step: tenant.append(step[0], [step[1]], epoch=EPOCH)


def appending_from_tasks(journal: Journal) -> Opened:
    """Append from tasks, through the public face for trio over a journal that is open."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[AppendFromTask]:
        async with TrioJournal(journal) as face:
            tenant = face.tenant(TENANT)

            async def append(step: Step) -> Any:
                return await tenant.append(step[0], [step[1]], epoch=EPOCH)

            yield append

    return opened


# --- rounds of bursts ------------------------------------------------------------------------------------------------


def bursts_in_rounds(contenders: Mapping[str, Callable[[], Burst]], rounds: int) -> dict[str, list[Burst]]:
    """The bursts of each contender, one in each round; what they cost is said at the end."""
    found: dict[str, list[Burst]] = {name: [] for name in contenders}
    for name in turns(list(contenders), rounds):
        found[name].append(contenders[name]())
    for name, bursts in found.items():
        cpu = statistics.median(burst.cpu_each for burst in bursts)
        say(f"    {name}: {typical(bursts)}, {cpu:,.0f} us of CPU each")
    return found


def typical(bursts: Sequence[Burst]) -> str:
    """The median rate, as people read it."""
    return f"{statistics.median(burst.rate for burst in bursts):,.0f}/s"


def times(ours: Sequence[Burst], theirs: Sequence[Burst]) -> float:
    """How many times their rate ours is: the median of the rounds' ratios."""
    return statistics.median(our.rate / their.rate for our, their in zip(ours, theirs, strict=True))
