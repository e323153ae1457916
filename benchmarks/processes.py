"""Several processes that append to one store: how fast, beside one of them alone, and whether everything is there.

The processes stay, with the store open, and are told to append for a while: all of them or the first, with one caller
each or with eight threads. Whatever a process was told to be durable it remembers, for the comparison at the end.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks import workload
from benchmarks.peers import Floor
from benchmarks.rounds import Scale, say, turns
from benchmarks.stores import fill
from benchmarks.table import Row
from benchmarks.workload import EPOCH, RUN_RECORDS, TENANT, TTL_SECONDS, Step
from sealbook.journal import Journal, Tenant

PROCESSES = 8
THREADS = 8
AHEAD = {1: 2_500, THREADS: 1_250}  # entries of each caller that are made beforehand, by how many the process has
SETTINGS = {
    "1 process, 1 caller": (1, 1),
    "1 process, 8 threads": (1, THREADS),
    "8 processes, 1 caller each": (PROCESSES, 1),
    "8 processes, 8 threads each": (PROCESSES, THREADS),
}


@dataclass(frozen=True, slots=True)
class Task:
    """What a process is told: append from so many threads, from this time on the machine's clock to that one."""

    threads: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Done:
    """What it answers: appends within the time, seconds of CPU, and the durable records of each run, of all times."""

    appends: int
    cpu: float
    records: dict[str, int]


def processes(folder: Path, scale: Scale) -> list[Row]:
    """All settings in turn, round after round, and then a check of the store."""
    say(f"{PROCESSES} processes with one store of {scale.small:,} records")
    path = folder / "processes.sealbook"
    with Journal.open(path, create=True) as journal:
        fresh = fill(journal.tenant(TENANT), scale.small)
    rounds, seconds = (3, 0.5) if scale.rounds < 30 else (5, 1.0)
    floor = Floor(folder / "floor")
    rates: dict[str, list[float]] = {name: [] for name in (*SETTINGS, "floor")}
    durable: dict[str, int] = {}
    with ExitStack() as stack:
        workers = [stack.enter_context(_Worker(path, fresh + number)) for number in range(PROCESSES)]
        for name in turns(list(rates), rounds):
            if name == "floor":
                rates[name].append(_floor_rate(floor))
                continue
            several, threads = SETTINGS[name]
            answers = _together(workers[:several], threads, seconds)
            appends = sum(done.appends for done in answers)
            rates[name].append(appends / seconds)
            for done in answers:
                durable |= done.records
            cpu = sum(done.cpu for done in answers) / appends * 1e6
            say(f"    {name}: {rates[name][-1]:,.0f}/s, {cpu:,.0f} us of CPU each")
    floor.close()
    return [*_rows(rates), _correct(path, durable)]


def _together(workers: Sequence[_Worker], threads: int, seconds: float) -> list[Done]:
    """Have all of these append at the same time."""
    for worker in workers:
        worker.here.send(threads)  # it makes its entries now
    for worker in workers:
        worker.here.recv()
    begin = time.monotonic() + 0.05
    for worker in workers:
        worker.here.send(Task(threads, begin, begin + seconds))
    return [worker.here.recv() for worker in workers]


def _floor_rate(floor: Floor, writes: int = 100) -> float:
    start = time.perf_counter()
    for _ in range(writes):
        floor.write()
    return writes / (time.perf_counter() - start)


def _rows(rates: dict[str, list[float]]) -> list[Row]:
    def row(ours: str, theirs: str, peer: str, more: str = "", at_least: float | None = None) -> Row:
        above, below = rates[ours], rates[theirs]
        found = statistics.median(a / b for a, b in zip(above, below, strict=True))
        mine, others = (f"{statistics.median(values):,.0f}/s" for values in (above, below))
        return Row(f"{ours}, one store{more}", peer, mine, others, found, at_least=at_least)

    one, threaded, each, many = SETTINGS
    bound = "; they cannot share a commit, so that the disk's flushes bound them"
    return [
        row(each, one, f"{one}, of ours", at_least=0.7),
        row(each, threaded, f"{threaded}, of ours, which share commits", bound),
        row(each, "floor", Floor.settings),
        row(many, threaded, f"{threaded}, of ours", at_least=0.35),
        row(many, "floor", Floor.settings),
    ]


def _correct(path: Path, durable: dict[str, int]) -> Row:
    """How many records are missing or too many, and what `check` finds: nothing of either."""
    say("checking what they wrote")
    with Journal.open(path, readonly=True) as journal:
        tenant = journal.tenant(TENANT)
        wrong = sum(abs(tenant.head(run).seq - records) for run, records in durable.items())
        report = journal.check()
    wrong += len(report.findings) + report.findings_more
    what = f"records lost or doubled by {PROCESSES} processes, and findings of check"
    told = sum(durable.values())
    return Row(what, "records that callers were told to be durable", str(wrong), f"{told:,}", wrong, at_most=0)


# --- one process ----------------------------------------------------------------------------------------------------


class _Worker:
    """A process that appends when it is told to, and is ended with the block."""

    def __init__(self, path: Path, first_run: int) -> None:
        context = get_context("spawn")
        self.here, there = context.Pipe()
        self._process = context.Process(target=_work, args=(path, first_run, there), daemon=True)

    def __enter__(self) -> _Worker:
        self._process.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._process.kill()
        self._process.join()


def _work(path: Path, first_run: int, there: Connection) -> None:
    """Append until killed. Its runs are every eighth from the first one on, each caller's one after another."""
    runs = count(first_run, PROCESSES)
    with Journal.open(path) as journal:
        tenant = journal.tenant(TENANT)
        callers = [_Caller(tenant, runs) for _ in range(THREADS)]
        while True:
            threads = there.recv()
            for caller in callers[:threads]:
                caller.prepare(AHEAD[threads])
            there.send("ready")
            there.send(_append(callers[:threads], there.recv()))


def _append(callers: Sequence[_Caller], task: Task) -> Done:
    threads = [threading.Thread(target=caller.append, args=(task,)) for caller in callers]
    cpu = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu = time.process_time() - cpu
    records = Counter[str]()
    for caller in callers:
        if caller.error is not None:
            raise caller.error
        records.update(caller.durable)
    return Done(sum(caller.in_time for caller in callers), cpu, dict(records))


class _Caller:
    """One caller: its entries made beforehand, and what it was told to be durable."""

    def __init__(self, tenant: Tenant, runs: Iterator[int]) -> None:
        self._tenant, self._runs = tenant, runs
        self._ahead: deque[Step] = deque()
        self.durable: Counter[str] = Counter()
        self.in_time = 0
        self.error: Exception | None = None

    def prepare(self, entries: int) -> None:
        """Have at least so many entries ready."""
        while len(self._ahead) < entries:
            number = next(self._runs)
            name = workload.run_name(number)
            self._ahead.extend((name, workload.entry_at(number, at)) for at in range(1, RUN_RECORDS + 1))

    def append(self, task: Task) -> None:
        """Append one entry after another while there is time. An error is kept for the one that started the thread."""
        self.in_time = 0
        time.sleep(max(0.0, task.begin - time.monotonic()))
        try:
            while time.monotonic() < task.end:
                run, entry = self._ahead.popleft()
                if run not in self.durable:  # a run is leased as it begins, in the time that is measured
                    self._tenant.acquire(run, owner="worker-1", ttl=TTL_SECONDS)
                self._tenant.append(run, [entry], epoch=EPOCH)
                self.durable[run] += 1
                self.in_time += time.monotonic() < task.end
        except Exception as error:
            self.error = error
