"""Checking every record of a large store: beside its hash and decoder alone, and the memory that it takes."""

from __future__ import annotations

import statistics
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.rounds import Scale, cpu, say
from benchmarks.table import Row
from benchmarks.workload import TENANT
from sealbook.indexes.packing import text, u64
from sealbook.journal import IdentityUpcaster, Journal, Level
from sealbook.journal.records.record import decode_record
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables

PAGE_RECORDS = 1_000
ROUNDS = 3


def verifying(folder: Path, scale: Scale) -> list[Row]:
    """The stores that `growth` left, at level chain: records per second of CPU, and memory of its own."""
    say(f"verifying {scale.large:,} records at level chain")
    with Journal.open(folder / "large.sealbook", readonly=True) as journal:
        count = _decoded(journal)

        def check() -> None:
            report = journal.check(level=Level.CHAIN)
            assert report.ok and report.records == count

        took = [(cpu(lambda: _decoded(journal)), cpu(check)) for _ in range(ROUNDS)]
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        few, many = (pool.submit(_memory, folder / f"{name}.sealbook").result() for name in ("small", "large"))
    alone, checked = (statistics.median(seconds) for seconds in zip(*took, strict=True))
    return [
        Row(
            f"verify --level chain, {scale.large:,} records",
            "BLAKE3 and the strict decoder alone",
            f"{count / checked:,.0f}/s",
            f"{count / alone:,.0f}/s",
            statistics.median(bare / whole for bare, whole in took),
            at_least=0.7,
        ),
        Row(
            "memory of its own while it does",
            f"the same with {scale.small:,} records",
            f"{many / 2**20:.0f} MiB",
            f"{few / 2**20:.0f} MiB",
            many / few,
            at_most=2,
        ),
    ]


def _decoded(journal: Journal) -> int:
    """Hash and decode every record, and nothing else."""
    count, upcaster = 0, IdentityUpcaster()
    with journal.view.snapshot() as snapshot:
        lo, hi = text(TENANT), text(TENANT) + u64(2**63)
        while page := snapshot.scan(tables.JOURNAL, lo, hi, PAGE_RECORDS):
            for _, value in page:
                row = decode_row(value, None, None)
                decode_record(row, tenant=TENANT, run=None, seq=None, upcaster=upcaster, strict=True)
            count += len(page)
            lo = page[-1][0] + b"\0"
    return count


def _memory(store: Path) -> int:
    """The most anonymous memory of a process that checks the store, in bytes: the mapped file is not its own."""
    most = 0

    def look(done: int, total: int) -> None:
        nonlocal most
        most = max(most, _anonymous())

    with Journal.open(store, readonly=True) as journal:
        journal.check(level=Level.CHAIN, progress=look)
    return most


def _anonymous() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    [kib] = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(kib) * 1024
