"""Run the benchmarks, print one table, and keep it in results.json. `make bench` runs this.

Everything that a store writes is flushed to the disk as in use, so the folder must be on a real one: by default it is
build/bench of this checkout. Seeds are fixed. It takes about ten minutes, with --quick two.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)  # in place of this folder, whose names must not hide those of other packages
sys.path.append(str(HERE.parent / "build" / "peers"))  # where `make bench` installs who is compared

import lmdb  # noqa: E402

from benchmarks import (  # noqa: E402
    command_line,
    effects,
    growth,
    log_proofs,
    many_callers,
    other_systems,
    processes,
    public_log,
    reading,
    rounds,
    single_caller,
    verifying,
    witness,
    workload,
)
from benchmarks.table import Row, rendered, save  # noqa: E402

MEASURES = {
    "append": single_caller.one_append,
    "batch": single_caller.batches,
    "signed": single_caller.signed,
    "callers": many_callers.many_callers,
    "processes": processes.processes,
    "reading": reading.reading,
    "effect": effects.effects,
    "growth": growth.growth,
    "others": other_systems.other_systems,
    "log": log_proofs.log_proofs,
    "public": public_log.public_log,
    "witness": witness.witness_server,
    "cli": command_line.command_line,  # reads the stores that growth has filled, as the next one does
    "verify": verifying.verifying,
}


def main() -> int:
    """The command. It fails for a missed target only when it is told to be strict: the machine may be busy."""
    parser = argparse.ArgumentParser(description="Measure Sealbook beside its peers.")
    parser.add_argument("--quick", action="store_true", help="small stores and few rounds: does it run?")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--only", choices=MEASURES, action="append", help="only this part; may be repeated")
    parser.add_argument("--dir", type=Path, default=HERE.parent / "build" / "bench", help="where the stores are made")
    arguments = parser.parse_args()

    scale = rounds.QUICK if arguments.quick else rounds.Scale()
    parts = arguments.only or list(MEASURES)
    if {"cli", "verify"} & set(parts) and "growth" not in parts:
        parser.error("cli and verify read the stores that growth fills: name both")
    arguments.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=arguments.dir))
    rows: list[Row] = []
    start = time.monotonic()
    try:
        for name in (name for name in MEASURES if name in parts):
            rows += MEASURES[name](folder, scale)
    finally:
        shutil.rmtree(folder)
    circumstances = {
        "quick": arguments.quick,
        "parts": parts,
        "seed": workload.SEED,
        "seconds": round(time.monotonic() - start),
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "lmdb": ".".join(map(str, lmdb.version())),
        "sqlite": sqlite3.sqlite_version,
    }
    print(rendered(rows))
    print(", ".join(f"{name} {value}" for name, value in circumstances.items() if name != "parts"))
    save(HERE / "results.json", rows, circumstances)
    return 1 if arguments.strict and not all(row.ok for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
