"""One entry per append from 1, 64 and 512 callers: what sharing commits gives, beside peers that share and do not."""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks import workload
from benchmarks.callers import (
    AppendFromTask,
    Burst,
    Opened,
    Supply,
    alone,
    appending,
    appending_from_tasks,
    bursts_in_rounds,
    by_tasks,
    by_threads,
    runs_needed,
    times,
    typical,
)
from benchmarks.naive import Naive
from benchmarks.peers import Floor
from benchmarks.rounds import Scale, say
from benchmarks.sharing import SharingSqlite
from benchmarks.stores import FILL_STEPS, fill, filling, lease, parts
from benchmarks.table import Row
from benchmarks.workload import TENANT
from sealbook.journal import Journal

CALLERS = 64
MANY = 512
EACH = 12  # entries of each of 64 callers that share commits, in one round
EACH_OF_MANY = 6
EACH_ALONE = 40
EACH_NAIVE = 2  # of each of 64 callers, one commit for each entry

Bursts = dict[str, list[Burst]]


def many_callers(folder: Path, scale: Scale) -> list[Row]:
    """Bursts of appends by ours and by the peers, in rounds."""
    say(f"1, {CALLERS} and {MANY} callers, in stores of {scale.small:,} records")
    rounds = max(5, scale.rounds // 4)
    sqlite, naive, floor = SharingSqlite(folder / "shared.sqlite"), Naive(folder / "naive"), Floor(folder / "floor")
    try:
        with Journal.open(folder / "callers.sealbook", create=True) as journal:
            contenders = _prepared(journal, sqlite, naive, scale, rounds)
            contenders["floor"] = lambda: alone(lambda _: floor.write(), [range(EACH_ALONE)])
            took = bursts_in_rounds(contenders, rounds)
    finally:
        for peer in (sqlite, naive, floor):
            peer.close()
    return _rows(took)


def _prepared(
    journal: Journal, sqlite: SharingSqlite, naive: Naive, scale: Scale, rounds: int
) -> dict[str, Callable[[], Burst]]:
    """The stores filled, and each contender's burst."""
    tenant = journal.tenant(TENANT)
    fresh = fill(tenant, scale.small)
    needed = {
        "tasks": (CALLERS, EACH),
        "threads": (CALLERS, EACH),
        "many": (MANY, EACH_OF_MANY),
        "one": (1, EACH_ALONE),
        "naive": (CALLERS, EACH_NAIVE),
    }
    runs: dict[str, range] = {}
    for name, (callers, each) in needed.items():
        runs[name] = range(fresh, fresh + runs_needed(callers, each * rounds))
        fresh = runs[name].stop
    lease(tenant, range(runs["tasks"].start, fresh))
    names = [workload.run_name(number) for number in range(fresh)]
    for peer in (sqlite, naive):
        peer.acquire(names)
        for part in parts(filling(scale.small), FILL_STEPS):
            peer.fill([workload.append(step) for step in part])

    def burst(how: Callable[..., Burst], append: object, name: str) -> Callable[[], Burst]:
        callers, each = needed[name]
        supply = Supply(runs[name], callers)
        return lambda: how(append, supply.take(each))

    from_tasks = appending_from_tasks(journal)
    return {
        "ours, 1 caller": burst(alone, appending(tenant), "one"),
        "ours, 64 tasks": burst(by_tasks, from_tasks, "tasks"),
        "ours, 64 threads": burst(by_threads, appending(tenant), "threads"),
        "ours, 512 tasks": burst(by_tasks, from_tasks, "many"),
        "sqlite, 64 tasks": burst(by_tasks, _sqlite_from_tasks(sqlite), "tasks"),
        "sqlite, 64 threads": burst(by_threads, lambda step: sqlite.append(workload.append(step)), "threads"),
        "naive, 64 threads": burst(by_threads, lambda step: naive.append(workload.append(step)), "naive"),
    }


def _sqlite_from_tasks(sqlite: SharingSqlite) -> Opened:
    @asynccontextmanager
    async def opened() -> AsyncIterator[AppendFromTask]:
        yield lambda step: sqlite.append_from_task(workload.append(step))

    return opened


def _rows(took: Bursts) -> list[Row]:
    tasks, threads, many, floor = (
        took[name] for name in ("ours, 64 tasks", "ours, 64 threads", "ours, 512 tasks", "floor")
    )
    ways = ["64 tasks", "64 threads"]
    ways.sort(key=lambda way: -statistics.median(burst.rate for burst in took[f"sqlite, {way}"]))
    faster, slower = ways
    of_tasks, of_threads, of_many = (
        f"{name}, 1 entry each" for name in ("64 trio tasks", "64 threads", "512 trio tasks")
    )

    def row(what: str, peer: str, ours: list[Burst], theirs: list[Burst], at_least: float | None = None) -> Row:
        return Row(what, peer, typical(ours), typical(theirs), times(ours, theirs), at_least=at_least)

    return [
        row(of_tasks, f"{SharingSqlite.settings}; its faster way, {faster}", tasks, took[f"sqlite, {faster}"], 2.5),
        row(of_tasks, f"{SharingSqlite.settings}; its slower way, {slower}", tasks, took[f"sqlite, {slower}"]),
        row(of_tasks, "one caller of ours, synchronous, 1 entry each", tasks, took["ours, 1 caller"], 8),
        row(of_tasks, f"{Naive.settings}, 64 threads", tasks, took["naive, 64 threads"], 12),
        row(of_tasks, Floor.settings, tasks, floor),
        row(of_threads, f"{SharingSqlite.settings}; 64 threads", threads, took["sqlite, 64 threads"], 1.5),
        row(of_threads, f"{SharingSqlite.settings}; 64 tasks", threads, took["sqlite, 64 tasks"]),
        row(of_threads, Floor.settings, threads, floor),
        row(of_many, "64 trio tasks of ours", many, tasks, 1.2),
        row(of_many, Floor.settings, many, floor),
        _latency(of_many, many, floor, at_most=80),
        _latency(of_tasks, tasks, floor),
    ]


def _latency(what: str, ours: list[Burst], floor: list[Burst], at_most: float | None = None) -> Row:
    """What 99 of 100 appends stay below, beside the floor's median of the same round."""
    medians = [statistics.median(burst.each) for burst in floor]
    return Row(
        f"latency of {what}: 99 of 100 are below",
        f"the median of the floor: {Floor.settings}",
        f"{statistics.median(burst.slow for burst in ours) * 1000:.1f} ms",
        f"{statistics.median(medians) * 1000:.2f} ms",
        statistics.median(burst.slow / median for burst, median in zip(ours, medians, strict=True)),
        at_most=at_most,
    )
