"""The command line: what starting it costs, and what it touches of a large store."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers
from benchmarks.rounds import Scale, say
from benchmarks.table import Row
from benchmarks.workload import TENANT
from sealbook.cli.selecting.records import newest
from sealbook.cli.selecting.selection import Selection
from sealbook.journal import Journal

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
            "10 rows, one to see if more follow, one that counts",
            str(reads),
            "12",
            reads / 12,
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
        counting = peers.Counting(journal.view.engine)
        journal.view.engine = counting
        everything = Selection(None, None, frozenset(), None, None)
        assert len(newest(journal.tenant(TENANT), everything, 10)) == 10
        return counting.rows
