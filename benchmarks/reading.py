"""A run that is read from end to end, and a tenant that another process follows while it is written to."""

from __future__ import annotations

import statistics
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks import workload
from benchmarks.callers import Supply, appending_from_tasks, by_tasks, runs_needed
from benchmarks.rounds import Scale, cpu, say
from benchmarks.single_caller import BATCH
from benchmarks.stores import fill, lease
from benchmarks.table import Row
from benchmarks.workload import EPOCH, TENANT
from sealbook.journal import Journal, Tenant

RECORDS = 10_000  # of the run that is read
PAGE_RECORDS = 1_000
RECORDS_PER_SECOND_MIN = 80_000
CALLERS = 64
EACH = 150  # entries of each of them in a round that is followed


def reading(folder: Path, scale: Scale) -> list[Row]:
    """Read by page, in seconds of CPU; then appends of 64 tasks, and when a follower has them all."""
    path = folder / "reading.sealbook"
    with Journal.open(path, create=True) as journal:
        tenant = journal.tenant(TENANT)
        fresh = fill(tenant, scale.small)
        return [_read(tenant, fresh, scale), _followed(journal, path, fresh + 1, scale)]


def _read(tenant: Tenant, run: int, scale: Scale) -> Row:
    say(f"reading a run of {RECORDS:,} records")
    lease(tenant, [run])
    for name, batch in workload.long_batches([run], BATCH, RECORDS):
        tenant.append(name, batch, epoch=EPOCH)
    name = workload.run_name(run)

    def read() -> None:
        found, after = 0, None
        while found == 0 or after is not None:
            page = tenant.read(name, limit=PAGE_RECORDS, after=after)
            found, after = found + len(page), page.next
        assert found == RECORDS

    rates = [RECORDS / cpu(read) for _ in range(max(5, scale.rounds // 3))]
    rate = statistics.median(rates)
    target = RECORDS_PER_SECOND_MIN
    what = f"reading a run of {RECORDS:,} records, hashed and decoded, per second and core"
    return Row(what, f"{target:,}/s", f"{rate:,.0f}/s", f"{target:,}/s", rate / target, at_least=1.0)


def _followed(journal: Journal, path: Path, fresh: int, scale: Scale) -> Row:
    say(f"following {CALLERS} tasks that append")
    rounds = 3 if scale.rounds < 30 else 6
    runs = range(fresh, fresh + runs_needed(CALLERS, EACH * rounds))
    lease(journal.tenant(TENANT), runs)
    supply, from_tasks = Supply(runs, CALLERS), appending_from_tasks(journal)
    written, followed = [], []
    for _ in range(rounds):
        shares = supply.take(EACH)
        with _Follower(path, CALLERS * EACH) as follower:
            follower.ready()
            begun = time.monotonic()
            burst = by_tasks(from_tasks, shares)
            followed.append(CALLERS * EACH / (follower.last() - begun))
        written.append(burst.rate)
    return Row(
        f"records followed by another process, per second, from {CALLERS} tasks that append",
        "the rate at which they are appended in the same seconds",
        f"{statistics.median(followed):,.0f}/s",
        f"{statistics.median(written):,.0f}/s",
        statistics.median(theirs / ours for theirs, ours in zip(followed, written, strict=True)),
        at_least=0.9,
    )


class _Follower:
    """A process of its own that follows a tenant until it has so many records."""

    def __init__(self, path: Path, records: int) -> None:
        context = get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_follow, args=(path, records, there))

    def __enter__(self) -> _Follower:
        self._process.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._process.kill()
        self._process.join()

    def ready(self) -> None:
        """Wait until it follows."""
        assert self._here.recv() == "ready"

    def last(self) -> float:
        """When it had the last record, by the clock of the machine."""
        found: float = self._here.recv()
        return found


def _follow(path: Path, records: int, there: Connection) -> None:
    with Journal.open(path, readonly=True) as journal:
        following = journal.tenant(TENANT).follow(from_now=True)
        there.send("ready")
        for _ in range(records):
            next(following)
        there.send(time.monotonic())
