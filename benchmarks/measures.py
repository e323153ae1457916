"""The measurements: each builds its stores, times Sealbook and its peers in turn, and answers with rows of the table.

Whoever is compared takes turns in rounds of a few calls, so that a noisy moment of the machine meets all of them. A
round counts by the median of its calls, or by their mean where rare and long calls belong to the cost; a ratio is the
median of the rounds' ratios.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import lmdb

from benchmarks import peers, workload
from benchmarks.table import Row
from benchmarks.workload import EPOCH, RUN_RECORDS, TENANT, Step
from sealbook.cli.selection import Selection, newest
from sealbook.journal import Journal, Tenant, entries, tables
from sealbook.journal import requests as ask

HALF = RUN_RECORDS // 2
FILL_STEPS = 4000  # entries per transaction while a store is filled
BATCH = 100


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the stores are and how long is measured."""

    small: int = 10_000
    large: int = 1_000_000
    rounds: int = 60
    starts: int = 10


QUICK = Scale(small=2_000, large=40_000, rounds=12, starts=3)


# --- rounds --------------------------------------------------------------------------------------------------------

Call = Callable[[], object]


def in_rounds(contenders: Mapping[str, Call], rounds: int, calls: int, *, mean: bool = False) -> dict[str, list[float]]:
    """For each contender, the seconds of one call in each round. Who begins changes from round to round."""
    names = list(contenders)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            took = [_timed(contenders[name]) for _ in range(calls)]
            found[name].append(statistics.fmean(took) if mean else statistics.median(took))
    return found


def _timed(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def _rate(seconds: Sequence[float], things: int = 1) -> str:
    return f"{things / statistics.median(seconds):,.0f}/s"


def _micros(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1e6:,.0f} us"


def say(text: str) -> None:
    """Tell a waiting person what is being done."""
    print(f"... {text}", file=sys.stderr, flush=True)


# --- stores --------------------------------------------------------------------------------------------------------


def filling(records: int) -> Iterator[Step]:
    """The entries of a store of this many records: every third run is concluded, the others stop half way."""
    return workload.in_turn(range(records * 3 // (2 * RUN_RECORDS)), lambda run: RUN_RECORDS if run % 3 == 0 else HALF)


def fill(tenant: Tenant, records: int) -> int:
    """Append this many records; returns the number of the first run that has none."""
    runs = range(records * 3 // (2 * RUN_RECORDS))
    lease(tenant, runs)
    for part in _parts(filling(records), FILL_STEPS):
        tenant.group([workload.append(step) for step in part])
    return runs.stop


def lease(tenant: Tenant, runs: Sequence[int]) -> None:
    """Give each of these runs its lease."""
    names = sorted(map(workload.run_name, runs))
    for part in _parts(names, FILL_STEPS):
        tenant.group([workload.acquire(run) for run in part])


def _parts(things: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(things)
    while part := list(islice(iterator, size)):
        yield part


def bytes_on_disk(store: Path) -> int:
    """What the store's data file occupies."""
    return (store / "data.mdb").stat().st_blocks * 512


# --- one append, and a batch -----------------------------------------------------------------------------------------


def one_append(folder: Path, scale: Scale) -> list[Row]:
    """One durable append of a typical entry, beside LMDB with the same rows, LMDB with one row, and the floor."""
    say(f"one append, in a store of {scale.small:,} records")
    calls, runs = 25, scale.rounds // 2
    recorder = peers.Recorder()
    rehearsal = Journal.over(recorder).tenant(TENANT)
    first = fill(rehearsal, scale.small)
    fresh = range(first, first + runs)
    lease(rehearsal, fresh)
    prepared = len(recorder.written)
    steps = list(workload.in_turn(fresh))[: scale.rounds * calls]
    for run, entry in steps:
        rehearsal.append(run, [entry], epoch=EPOCH)
    bare = peers.BareLmdb(folder / "bare")
    operations = [bare.operations(writes) for writes in recorder.written]
    for several in operations[:prepared]:
        bare.write(several)
    rows_per_append = statistics.fmean(map(len, operations[prepared:]))

    one_row, floor = peers.OneRow(folder / "one-row"), peers.Floor(folder / "floor")
    with Journal.open(folder / "one.sealbook", create=True) as journal:
        tenant = journal.tenant(TENANT)
        fill(tenant, scale.small)
        lease(tenant, fresh)
        ahead, replay = iter(steps), iter(operations[prepared:])

        def append() -> None:
            run, entry = next(ahead)
            tenant.append(run, [entry], epoch=EPOCH)

        took = in_rounds(
            {
                "ours": append,
                "bare": lambda: bare.write(next(replay)),
                "one row": one_row.write,
                "floor": floor.write,
            },
            scale.rounds,
            calls,
        )
    for peer in (bare, one_row, floor):
        peer.close()
    what, ours = f"one durable append, {rows_per_append:.1f} rows", took["ours"]
    return [
        Row(what, bare.settings, _rate(ours), _rate(took["bare"]), ratio(took["bare"], ours), at_least=0.7),
        Row(what, one_row.settings, _rate(ours), _rate(took["one row"]), ratio(took["one row"], ours)),
        Row(what, floor.settings, _rate(ours), _rate(took["floor"]), ratio(took["floor"], ours)),
    ]


def batches(folder: Path, scale: Scale) -> list[Row]:
    """100 entries in one transaction, of one run and of 64 runs, beside SQLite that does the same work."""
    say(f"batches of {BATCH}, in a store of {scale.small:,} records")
    calls, batches_per_run = 5, 10
    count = scale.rounds * calls
    floor, sqlite = peers.Floor(folder / "floor"), peers.Sqlite(folder / "batches.sqlite")
    with Journal.open(folder / "batches.sealbook", create=True) as journal:
        tenant = journal.tenant(TENANT)
        first = fill(tenant, scale.small)
        short = range(first, first + count * BATCH // RUN_RECORDS)
        long = range(short.stop, short.stop + count // batches_per_run)
        lease(tenant, range(first, long.stop))
        sqlite.acquire([workload.run_name(number) for number in range(long.stop)])
        for part in _parts(filling(scale.small), FILL_STEPS):
            sqlite.append([workload.append(step) for step in part])

        of_one = list(workload.long_batches(long, BATCH, BATCH * batches_per_run))
        one, one_replay = iter(of_one), iter(of_one)
        of_many = list(_parts(workload.in_turn(short), BATCH))
        many, many_replay = iter(of_many), iter(of_many)

        def append_one() -> None:
            run, batch = next(one)
            tenant.append(run, batch, epoch=EPOCH)

        def append_one_to_sqlite() -> None:
            run, batch = next(one_replay)
            sqlite.append([ask.append(run, batch, epoch=EPOCH)])

        took = in_rounds(
            {
                "one": append_one,
                "one, sqlite": append_one_to_sqlite,
                "many": lambda: tenant.group([workload.append(step) for step in next(many)]),
                "many, sqlite": lambda: sqlite.append([workload.append(step) for step in next(many_replay)]),
                "floor": floor.write,
            },
            scale.rounds,
            calls,
            mean=True,  # what SQLite's checkpoints and LMDB's page splits take belongs to the cost
        )
    sqlite.close()
    floor.close()
    rows = []
    for name, what, target in (
        ("many", f"entries per second, {BATCH} of 64 runs in one transaction", 1.3),
        ("one", f"entries per second, {BATCH} of one run in one transaction", None),
    ):
        ours, theirs = took[name], took[f"{name}, sqlite"]
        row = Row(what, sqlite.settings, _rate(ours, BATCH), _rate(theirs, BATCH), ratio(theirs, ours), at_least=target)
        beside = ratio(took["floor"], ours) * BATCH
        rows += [row, Row(what, floor.settings, _rate(ours, BATCH), _rate(took["floor"]), beside)]
    return rows


# --- growth ----------------------------------------------------------------------------------------------------------


def growth(folder: Path, scale: Scale) -> list[Row]:
    """One caller's append to random runs of a large and of a small store, and the bytes that an entry takes."""
    small_path, large_path = folder / "small.sealbook", folder / "large.sealbook"
    rows: list[Row] = []
    for path, records in ((small_path, scale.small), (large_path, scale.large)):
        say(f"filling a store with {records:,} records")
        start = time.perf_counter()
        with Journal.open(path, create=True) as journal:
            fill(journal.tenant(TENANT), records)
        say(f"    {records / (time.perf_counter() - start):,.0f} entries/s")
        taken = bytes_on_disk(path) / records
        what = f"bytes on disk per entry, {records:,} entries, all indexes"
        rows.append(Row(what, "1,100 bytes", f"{taken:,.0f}", "1,100", taken / 1100, at_most=1.0))

    say("appending to random runs of both")
    floor, calls = peers.Floor(folder / "floor"), 10
    count = scale.rounds * calls
    with Journal.open(small_path) as small, Journal.open(large_path) as large:
        took = in_rounds(
            {
                "small": _appending(small.tenant(TENANT), scale.small, count),
                "large": _appending(large.tenant(TENANT), scale.large, count),
                "floor": floor.write,
            },
            scale.rounds,
            calls,
        )
    floor.close()
    what = f"cost of one append to a random run, {scale.large:,} records"
    peer = f"the same with {scale.small:,} records"
    above, below = took["large"], took["small"]
    grown = Row(what, peer, _micros(above), _micros(below), ratio(above, below), at_most=2.0)
    beside = Row(what, floor.settings, _micros(above), _micros(took["floor"]), ratio(above, took["floor"]))
    return [grown, beside, *rows]


def _appending(tenant: Tenant, records: int, count: int) -> Call:
    """A call that appends the next entry of a random open run of a store filled with this many records."""
    runs = [run for run in range(records * 3 // (2 * RUN_RECORDS)) if run % 3]
    rounds = -(-count // len(runs))
    each = min(count, len(runs))
    steps = iter([step for turn in range(rounds) for step in workload.scattered(runs, HALF + 1 + turn, each)])

    def append() -> None:
        run, entry = next(steps)
        tenant.append(run, [entry], epoch=EPOCH)

    return append


# --- the log ---------------------------------------------------------------------------------------------------------

LEAVES_PER_RUN = 100
FILL_LEAVES = 2000  # leaves per transaction while a log is filled
VERBS = ("checkpoint", "inclusion", "consistency")


def log_proofs(folder: Path, scale: Scale) -> list[Row]:
    """Checkpoint and proofs of a long log, beside one random `get` of the same store and a short log."""
    short, long = folder / "short-log.sealbook", folder / "long-log.sealbook"
    for path, leaves in ((short, scale.small), (long, scale.large)):
        say(f"filling a log with {leaves:,} leaves")
        start = time.perf_counter()
        with Journal.open(path, create=True) as journal:
            _fill_log(journal.tenant(TENANT), leaves)
        say(f"    {leaves / (time.perf_counter() - start):,.0f} leaves/s")

    say("checkpoints and proofs of both")
    took: dict[tuple[Path, str], list[float]] = {}
    chance = random.Random(workload.SEED)
    for _ in range(max(5, scale.rounds // 4)):
        for path, leaves in ((short, scale.small), (long, scale.large)):
            for name, seconds in {**_prove(path, leaves, chance), "get": _get(path, leaves, chance)}.items():
                took.setdefault((path, name), []).append(seconds)
    gets, rows = took[long, "get"], []
    for name in VERBS:
        above, below = took[long, name], took[short, name]
        rows += [
            Row(
                f"cost of {name}, {scale.large:,} leaves",
                "bare LMDB, one random get in its own read transaction, same store",
                _micros(above),
                f"{statistics.median(gets) * 1e6:.2f} us",
                ratio(above, gets),
                at_most=30,
            ),
            Row(
                f"cost of {name}, {scale.large:,} leaves",
                f"the same with {scale.small:,} leaves",
                _micros(above),
                _micros(below),
                ratio(above, below),
                at_most=2,
            ),
        ]
    return rows


def _fill_log(tenant: Tenant, leaves: int) -> None:
    """Append records through the public verbs and anchor each of them, 100 to a run, so that each makes a leaf."""
    numbers = [(run, seq) for run in range(leaves // LEAVES_PER_RUN) for seq in range(1, LEAVES_PER_RUN + 1)]
    for part in _parts(numbers, FILL_LEAVES):
        requests: list[ask.Request] = []
        for run, seq in part:
            name = workload.run_name(run)
            requests += [ask.append(name, [entries.note(f"step {seq}")], epoch=EPOCH), ask.anchor(name)]
        tenant.group(requests)


def _prove(path: Path, leaves: int, chance: random.Random, calls: int = 100) -> dict[str, float]:
    """Seconds of each verb. Inclusion is of the last leaf of a random run: these stand all over the log."""
    runs = [workload.run_name(chance.randrange(leaves // LEAVES_PER_RUN)) for _ in range(calls)]
    sizes = [chance.randrange(1, leaves) for _ in range(calls)]
    with Journal.open(path, readonly=True) as journal:
        tenant = journal.tenant(TENANT)
        tenant.checkpoint()
        return {
            "checkpoint": _median(lambda _: tenant.checkpoint(), sizes),
            "inclusion": _median(tenant.inclusion_proof, runs),
            "consistency": _median(tenant.consistency_proof, sizes),
        }


def _get(path: Path, leaves: int, chance: random.Random, calls: int = 1000) -> float:
    """Seconds of one `get` of a random record's row, in a read transaction of its own, by LMDB alone."""
    keys = []
    for _ in range(calls):
        run = workload.run_name(chance.randrange(leaves // LEAVES_PER_RUN))
        keys.append(tables.record_key(TENANT, run, chance.randrange(1, LEAVES_PER_RUN + 1)))
    env = lmdb.open(str(path), readonly=True, max_dbs=64, lib_version=0)
    try:
        table = env.open_db(tables.JOURNAL.encode(), create=False)

        def get(key: bytes) -> None:
            with env.begin() as txn:
                assert txn.get(key, db=table) is not None

        return _median(get, keys)
    finally:
        env.close()


def _median(call: Callable[[Any], object], arguments: Sequence[Any]) -> float:
    return statistics.median(_timed(lambda argument=argument: call(argument)) for argument in arguments)  # type: ignore[misc]


# --- the command line ------------------------------------------------------------------------------------------------

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def command_line(folder: Path, scale: Scale) -> list[Row]:
    """What starting the program costs, and what `show -n 10` touches of the large store that `growth` left."""
    say("starting the command line")
    helped = [_ran(["--help"]) for _ in range(scale.starts)]
    started = statistics.median(run.cpu for run in helped)
    bare = statistics.median(_spawned([sys.executable, "-c", "pass"]).cpu for _ in range(scale.starts))
    small: list[Ran] = []
    large: list[Ran] = []
    for _ in range(scale.starts):
        for found, store in ((small, "small"), (large, "large")):
            found.append(
                _ran(["-D", str(folder / f"{store}.sealbook"), "--tenant", TENANT, "show", "-n", "10", "-o", "json"])
            )
    few, many = (statistics.median(run.faults for run in found) for found in (small, large))
    reads = _rows_read(folder / "large.sealbook")
    return [
        Row("CPU of sealbook --help", "0.15 s", f"{started:.3f} s", "0.150 s", started / 0.15, at_most=1.0),
        Row("CPU of sealbook --help", "python -c pass", f"{started:.3f} s", f"{bare:.3f} s", started / bare),
        Row(
            f"page faults of show -n 10, {scale.large:,} records",
            f"the same with {scale.small:,} records",
            f"{many:,.0f}",
            f"{few:,.0f}",
            many / few,
            at_most=1.02,
        ),
        Row(
            "rows read for show -n 10",
            "2 x 10 rows, one to see if more follow",
            str(reads),
            "21",
            reads / 21,
            at_most=1.0,
        ),
    ]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a process cost: seconds of CPU, user and system, and page faults that needed no disk."""

    cpu: float
    faults: int


def _ran(arguments: Sequence[str]) -> Ran:
    return _spawned([str(Path(sysconfig.get_path("scripts")) / "sealbook"), *arguments])


def _spawned(command: Sequence[str]) -> Ran:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(cpu, after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt)


def _rows_read(path: Path) -> int:
    """How many rows `show -n 10` takes through the engine's port, counted between the journal and its engine."""
    with Journal.open(path, readonly=True) as journal:
        counting = peers.Counting(journal._engine)
        journal._engine = counting
        everything = Selection(None, None, frozenset(), None, None)
        assert len(newest(journal.tenant(TENANT), everything, 10)) == 10
        return counting.rows
