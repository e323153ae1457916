"""What a store holds before anything is timed: so many records of the workload, and leases for the runs to come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.workload import RUN_RECORDS, Step
from sealbook.journal import Tenant

HALF = RUN_RECORDS // 2
FILL_STEPS = 4000  # entries per transaction while a store is filled


def runs_of(records: int) -> range:
    """The runs of a store that was filled with this many records."""
    return range(records * 3 // (2 * RUN_RECORDS))


def filling(records: int) -> Iterator[Step]:
    """The entries of a store of this many records: every third run is concluded, the others stop half way."""
    return workload.in_turn(runs_of(records), lambda run: RUN_RECORDS if run % 3 == 0 else HALF)


def fill(tenant: Tenant, records: int) -> int:
    """Append this many records; returns the number of the first run that has none."""
    lease(tenant, runs_of(records))
    for part in parts(filling(records), FILL_STEPS):
        tenant.group([workload.append(step) for step in part])
    return runs_of(records).stop


def lease(tenant: Tenant, runs: Sequence[int]) -> None:
    """Give each of these runs its lease."""
    names = sorted(map(workload.run_name, runs))
    for part in parts(names, FILL_STEPS):
        tenant.group([workload.acquire(run) for run in part])


def parts(things: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The things in lists of this size; the last one may be shorter."""
    iterator = iter(things)
    while part := list(islice(iterator, size)):
        yield part


def bytes_on_disk(store: Path) -> int:
    """What the store's data file occupies."""
    return (store / "data.mdb").stat().st_blocks * 512
