"""A long log: what its checkpoint and its proofs cost, beside a short one, reading one row, and pymerkle."""

from __future__ import annotations

import importlib
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lmdb

from benchmarks import workload
from benchmarks.rounds import Scale, micros, ratio, say, timed
from benchmarks.stores import parts
from benchmarks.table import Row
from benchmarks.workload import EPOCH, TENANT
from sealbook.journal import Journal, Tenant, entries
from sealbook.journal import requests as ask
from sealbook.journal.schema import tables

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
    took: dict[tuple[Path | str, str], list[float]] = {}
    chance = random.Random(workload.SEED)
    trees = _trees(folder, scale.small)
    for _ in range(max(5, scale.rounds // 4)):
        for path, leaves in ((short, scale.small), (long, scale.large)):
            for name, seconds in {**_prove(path, leaves, chance), "get": _get(path, leaves, chance)}.items():
                took.setdefault((path, name), []).append(seconds)
        for settings, tree in trees.items():
            for name, seconds in _prove_in(tree, scale.small, chance).items():
                took.setdefault((settings, name), []).append(seconds)
    gets, rows = took[long, "get"], []
    for name in VERBS:
        above, below = took[long, name], took[short, name]
        rows += [
            Row(
                f"cost of {name}, {scale.large:,} leaves",
                "bare LMDB, one random get in its own read transaction, same store",
                micros(above),
                f"{statistics.median(gets) * 1e6:.2f} us",
                ratio(above, gets),
                at_most=30,
            ),
            Row(
                f"cost of {name}, {scale.large:,} leaves",
                f"the same with {scale.small:,} leaves",
                micros(above),
                micros(below),
                ratio(above, below),
                at_most=2,
            ),
        ]
        rows += [
            Row(
                f"cost of {name}, {scale.small:,} leaves",
                settings,
                micros(below),
                micros(took[settings, name]),
                ratio(below, took[settings, name]),
            )
            for settings in trees
        ]
    return rows


def _trees(folder: Path, leaves: int) -> dict[str, Any]:
    """Trees of pymerkle with so many leaves, by how they are kept; none where it is not installed."""
    try:
        pymerkle: Any = importlib.import_module("pymerkle")
    except ImportError as error:
        say(f"left out: pymerkle is not installed: {error}")
        return {}
    trees = {
        "pymerkle, in memory": pymerkle.InmemoryTree("sha256"),
        "pymerkle, on SQLite": pymerkle.SqliteTree(str(folder / "pymerkle.sqlite")),
    }
    for tree in trees.values():
        tree.append_entries([b"%090d" % number for number in range(leaves)])  # as long as a leaf entry of ours
    return trees


def _prove_in(tree: Any, leaves: int, chance: random.Random, calls: int = 10) -> dict[str, float]:
    """Seconds of each verb, as `_prove` measures ours."""
    sizes = [chance.randrange(1, leaves) for _ in range(calls)]
    return {
        "checkpoint": _median(lambda _: tree.get_root(), sizes),
        "inclusion": _median(tree.prove_inclusion, sizes),
        "consistency": _median(tree.prove_consistency, sizes),
    }


def _fill_log(tenant: Tenant, leaves: int) -> None:
    """Append records through the public verbs and anchor each of them, 100 to a run, so that each makes a leaf."""
    numbers = [(run, seq) for run in range(leaves // LEAVES_PER_RUN) for seq in range(1, LEAVES_PER_RUN + 1)]
    for part in parts(numbers, FILL_LEAVES):
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
    keys = [tables.number_key(TENANT, chance.randrange(1, leaves + 1)) for _ in range(calls)]
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
    return statistics.median(timed(lambda argument=argument: call(argument)) for argument in arguments)  # type: ignore[misc]
