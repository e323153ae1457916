"""Other systems, to know where one stands: PostgreSQL, SQLite without shared commits, and LangGraph's checkpoints.

No row has a target. A system that cannot be had here is left out, with a line that says why.
"""

from __future__ import annotations

import importlib
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from benchmarks import workload
from benchmarks.callers import (
    Append,
    Burst,
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
from benchmarks.peers import Floor, Sqlite
from benchmarks.postgres import Missing, Postgres, cluster
from benchmarks.rounds import Scale, say
from benchmarks.single_caller import BATCH
from benchmarks.stores import FILL_STEPS, fill, filling, lease, parts, runs_of
from benchmarks.table import Row
from benchmarks.workload import TENANT, Step
from sealbook.journal import Journal

CALLERS = 64
EACH = 2  # entries of each of 64 callers in one round
EACH_ALONE = 30
BATCHES = 2
CONNECTIONS = 8  # of PostgreSQL: all appends lock the row that counts arrivals, and more of them only wait


def other_systems(folder: Path, scale: Scale) -> list[Row]:
    """Ours with one caller, 64 callers and batches, beside each of the others called alike."""
    rounds = max(5, scale.rounds // 6)
    with ExitStack() as stack:
        others = []
        for prepare in (_sqlite, _postgres, _langgraph):
            try:
                others.append(prepare(folder, scale, stack))
            except Missing as why:
                say(f"left out: {why}")
        say(f"{', '.join(other.name for other in others)}, in stores of {scale.small:,} records")
        return _measured(folder, scale, rounds, others, stack)


@dataclass(frozen=True, slots=True)
class Other:
    """A system: what it is called with from any thread, and with many entries at once from one."""

    name: str
    settings: str
    append: Append
    batch: Append | None
    acquire: Callable[[Sequence[str]], None] = field(default=lambda runs: None)


def _measured(folder: Path, scale: Scale, rounds: int, others: Sequence[Other], stack: ExitStack) -> list[Row]:
    floor = Floor(folder / "floor")
    stack.callback(floor.close)
    journal = stack.enter_context(Journal.open(folder / "others.sealbook", create=True))
    tenant = journal.tenant(TENANT)
    fresh = fill(tenant, scale.small)
    one = range(fresh, fresh + runs_needed(1, EACH_ALONE * rounds))
    many = range(one.stop, one.stop + runs_needed(CALLERS, EACH * rounds))
    batched = range(many.stop, many.stop + runs_needed(1, BATCHES * BATCH * rounds))
    lease(tenant, range(fresh, batched.stop))
    for other in others:
        other.acquire([workload.run_name(number) for number in range(fresh, batched.stop)])

    def single(append: Append) -> Callable[[], Burst]:
        supply = Supply(one, 1)
        return lambda: alone(append, supply.take(EACH_ALONE))

    def threaded(append: Append) -> Callable[[], Burst]:
        supply = Supply(many, CALLERS)
        return lambda: by_threads(append, supply.take(EACH))

    def whole(append: Append) -> Callable[[], Burst]:
        batches = parts(workload.in_turn(batched), BATCH)

        def burst() -> Burst:
            found = alone(append, [[next(batches) for _ in range(BATCHES)]])
            return replace(found, appends=found.appends * BATCH)

        return burst

    supply = Supply(many, CALLERS)
    contenders: dict[str, Callable[[], Burst]] = {
        "ours, one": single(appending(tenant)),
        "ours, many": lambda: by_tasks(appending_from_tasks(journal), supply.take(EACH)),
        "ours, batch": whole(lambda batch: tenant.group([workload.append(step) for step in batch])),
        "floor": lambda: alone(lambda _: floor.write(), [range(EACH_ALONE)]),
    }
    for other in others:
        contenders[f"{other.name}, one"] = single(other.append)
        contenders[f"{other.name}, many"] = threaded(other.append)
        if other.batch is not None:
            contenders[f"{other.name}, batch"] = whole(other.batch)
    return _rows(bursts_in_rounds(contenders, rounds), others)


def _rows(took: Mapping[str, Sequence[Burst]], others: Sequence[Other]) -> list[Row]:
    rows = []
    for way, what, how in (
        ("one", "1 caller, 1 entry", "1 caller"),
        ("many", f"{CALLERS} trio tasks, 1 entry each", f"{CALLERS} threads"),
        ("batch", f"entries per second, batches of {BATCH} from 1 caller", "1 caller"),
    ):
        ours = took[f"ours, {way}"]
        for other in others:
            theirs = took.get(f"{other.name}, {way}")
            if theirs is not None:
                rows.append(Row(what, f"{other.settings}; {how}", typical(ours), typical(theirs), times(ours, theirs)))
        floor = took["floor"]
        rows.append(Row(what, Floor.settings, typical(ours), typical(floor), times(ours, floor)))
    return rows


# --- the systems -----------------------------------------------------------------------------------------------------


def _sqlite(folder: Path, scale: Scale, stack: ExitStack) -> Other:
    database = Sqlite(folder / "one-commit.sqlite")
    stack.callback(database.close)
    _fill(database, scale)
    lock = threading.Lock()

    def append(step: Step) -> None:
        request = workload.append(step)
        with lock:
            database.append([request])

    settings = "SQLite, WAL, synchronous=FULL, same tables, indexes, checks and chain, one commit"
    return Other("SQLite", settings, append, _appending(database), database.acquire)


def _postgres(folder: Path, scale: Scale, stack: ExitStack) -> Other:
    address = stack.enter_context(cluster(folder.parent))
    first = Postgres(address, create=True)
    stack.callback(first.close)
    _fill(first, scale)
    pool: SimpleQueue[Postgres] = SimpleQueue()
    for _ in range(CONNECTIONS):
        database = Postgres(address)
        stack.callback(database.close)
        pool.put(database)

    def append(step: Step) -> None:
        request = workload.append(step)
        database = pool.get()
        database.append([request])
        pool.put(database)

    settings = f"{first.settings}, one commit, a pool of {CONNECTIONS} connections"
    return Other("PostgreSQL", settings, append, _appending(first), first.acquire)


def _fill(database: Sqlite, scale: Scale) -> None:
    database.acquire([workload.run_name(number) for number in runs_of(scale.small)])
    for part in parts(filling(scale.small), FILL_STEPS):
        database.append([workload.append(step) for step in part])


def _appending(database: Sqlite) -> Append:
    return lambda batch: database.append([workload.append(step) for step in batch])


def _langgraph(folder: Path, scale: Scale, stack: ExitStack) -> Other:
    try:
        saver_type: Any = importlib.import_module("langgraph.checkpoint.sqlite").SqliteSaver
        empty: Any = importlib.import_module("langgraph.checkpoint.base").empty_checkpoint
    except ImportError as error:
        raise Missing(f"langgraph-checkpoint-sqlite is not installed: {error}") from None
    connection = sqlite3.connect(folder / "langgraph.sqlite", check_same_thread=False)
    stack.callback(connection.close)
    saver = saver_type(connection)

    def put(step: Step) -> None:
        run, entry = step
        checkpoint = empty() | {"channel_values": {"entry": dict(entry.data), "kind": entry.kind, "case": entry.case}}
        saver.put({"configurable": {"thread_id": run, "checkpoint_ns": ""}}, checkpoint, {"source": "loop"}, {})

    connection.execute("PRAGMA synchronous=OFF")  # while it is filled, one checkpoint at a time
    for step in filling(scale.small):
        put(step)
    connection.execute("PRAGMA synchronous=FULL")
    settings = "langgraph-checkpoint-sqlite, put of a checkpoint with the same data, WAL, synchronous=FULL"
    return Other("LangGraph", settings, put, None)
