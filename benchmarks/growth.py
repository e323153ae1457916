"""A store that has grown: appends to random runs, by one caller and by 64, and the bytes that an entry takes."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import peers, workload
from benchmarks.callers import Burst, alone, appending_from_tasks, bursts_in_rounds, by_tasks, times, typical
from benchmarks.rounds import Call, Scale, in_rounds, micros, ratio, say
from benchmarks.stores import HALF, bytes_on_disk, fill, runs_of
from benchmarks.table import Row
from benchmarks.workload import EPOCH, TENANT, Step
from sealbook.journal import Journal, Tenant

CALLERS = 64
EACH = 12  # entries of each of them in one round
ENDLESS = 1_000_000  # records, before which no run is concluded here


def growth(folder: Path, scale: Scale) -> list[Row]:
    """A small and a large store are filled through the public verbs, measured in turn, and left for other parts."""
    small_path, large_path = folder / "small.sealbook", folder / "large.sealbook"
    sizes = [_filled(path, records) for path, records in ((small_path, scale.small), (large_path, scale.large))]
    floor = peers.Floor(folder / "floor")
    with Journal.open(small_path) as small, Journal.open(large_path) as large:
        of_small, of_large = OpenRuns(scale.small), OpenRuns(scale.large)
        rows = _one_caller(small.tenant(TENANT), of_small, large.tenant(TENANT), of_large, floor, scale)
        rows += _many_callers(small, of_small, large, of_large, floor, scale)
    floor.close()
    return rows + sizes


def _filled(path: Path, records: int) -> Row:
    """Fill a store with so many records; how large it is then."""
    say(f"filling a store with {records:,} records")
    start = time.perf_counter()
    with Journal.open(path, create=True) as journal:
        fill(journal.tenant(TENANT), records)
    say(f"    {records / (time.perf_counter() - start):,.0f} entries/s")
    taken = bytes_on_disk(path) / records
    what = f"bytes on disk per entry, {records:,} entries, all indexes"
    return Row(what, "700 bytes", f"{taken:,.0f}", "700", taken / 700, at_most=1.0)


class OpenRuns:
    """The open runs of a store that was filled with this many records, and where each of them goes on."""

    def __init__(self, records: int) -> None:
        self.runs = [run for run in runs_of(records) if run % 3]
        self._next = dict.fromkeys(self.runs, HALF + 1)
        self._chance = random.Random(workload.SEED)

    def steps(self, count: int, among: Sequence[int]) -> list[Step]:
        """The next entries of so many of these runs, each picked at random."""
        return [self._step(self._chance.choice(among)) for _ in range(count)]

    def _step(self, run: int) -> Step:
        position = self._next[run]
        self._next[run] += 1
        return workload.run_name(run), workload.entry_at(run, position, ENDLESS)


def _one_caller(
    small: Tenant, of_small: OpenRuns, large: Tenant, of_large: OpenRuns, floor: peers.Floor, scale: Scale
) -> list[Row]:
    say("appending to random runs of both")
    calls = 10
    count = scale.rounds * calls

    def appending(tenant: Tenant, runs: OpenRuns) -> Call:
        steps = iter(runs.steps(count, runs.runs))

        def append() -> None:
            run, entry = next(steps)
            tenant.append(run, [entry], epoch=EPOCH)

        return append

    contenders = {"small": appending(small, of_small), "large": appending(large, of_large), "floor": floor.write}
    took = in_rounds(contenders, scale.rounds, calls)
    what = f"cost of one append to a random run, {scale.large:,} records"
    above, below = took["large"], took["small"]
    return [
        Row(what, _same(scale), micros(above), micros(below), ratio(above, below), at_most=2.0),
        Row(what, floor.settings, micros(above), micros(took["floor"]), ratio(above, took["floor"])),
    ]


def _many_callers(
    small: Journal, of_small: OpenRuns, large: Journal, of_large: OpenRuns, floor: peers.Floor, scale: Scale
) -> list[Row]:
    say(f"the same from {CALLERS} tasks")

    def burst(journal: Journal, runs: OpenRuns) -> Burst:
        shares = [runs.steps(EACH, runs.runs[number::CALLERS] or runs.runs[-1:]) for number in range(CALLERS)]
        return by_tasks(appending_from_tasks(journal), shares)

    took = bursts_in_rounds(
        {
            "small": lambda: burst(small, of_small),
            "large": lambda: burst(large, of_large),
            "floor": lambda: alone(lambda _: floor.write(), [range(50)]),
        },
        max(5, scale.rounds // 4),
    )
    what = f"{CALLERS} trio tasks over random runs, {scale.large:,} records"
    ours = took["large"]
    return [
        Row(what, _same(scale), typical(ours), typical(took["small"]), times(ours, took["small"]), at_least=0.4),
        Row(what, floor.settings, typical(ours), typical(took["floor"]), times(ours, took["floor"])),
    ]


def _same(scale: Scale) -> str:
    return f"the same with {scale.small:,} records"
