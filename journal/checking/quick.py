"""Check a store at a level below `deep`: sweep its records, hold ends to counts, and build its logs again.

One snapshot, so that a store which is being written to is checked as it stood at one moment (behaviour B43). Ranges of
records may be swept elsewhere, by other processes with snapshots of their own: a record never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from sealbook.journal.checking import ends, leaves, outside
from sealbook.journal.checking.adoptions import check_adoptions
from sealbook.journal.checking.anchors import check_batches
from sealbook.journal.checking.audit import Audit
from sealbook.journal.checking.checkpoints import check_checkpoints
from sealbook.journal.checking.levels import Level
from sealbook.journal.checking.records import Range, Swept, sweep, take
from sealbook.journal.checking.store_log import check_heads
from sealbook.journal.checking.trees import Logs
from sealbook.journal.schema import tables

Progress = Callable[[int, int], None]  # (records checked, records in all)
Elsewhere = Callable[[Sequence[Range]], Iterable[Swept]]
"""Has ranges swept by others, and hands back what each found, as it is known."""

RANGE_RECORDS = 20_000


def check_records(audit: Audit, level: Level, progress: Progress | None, elsewhere: Elsewhere | None) -> int:
    """Sweep all records and hold them to what counts them; how many runs are not sealed."""
    ranges = list(_ranges(audit, level, split=elsewhere is not None))
    total, done = audit.snapshot.count(tables.JOURNAL), 0
    if elsewhere is not None:
        for found in elsewhere(ranges):
            take(audit, found)
            done += found.records
            if progress is not None:
                progress(done, total)
    else:

        def told(records: int) -> None:
            nonlocal done
            done += records
            if progress is not None:
                progress(done, total)

        for each in ranges:
            sweep(audit, each, told=told)
    return ends.check_ends(audit, level)


def check_logs(audit: Audit) -> dict[str, int]:
    """Build every log again from its leaves, and hold leaves to records and checkpoints to trees; the logs' sizes."""
    leaves.read_acts(audit)
    leaves.check_leaves(audit)
    check_batches(audit)
    check_adoptions(audit)
    check_heads(audit)
    sizes = Logs(audit).check()
    audit.flush()
    check_checkpoints(audit, sizes)
    return sizes


def hold_outside(
    audit: Audit, base: str, store_origin: str | None, sizes: dict[str, int]
) -> tuple[list[str], list[str]]:
    """`outside.hold` for the logs of a store whose tenants' origins begin with `base`."""
    return outside.hold(audit, outside.origins_of(audit, base, store_origin), sizes)


def _ranges(audit: Audit, level: Level, *, split: bool) -> Iterator[Range]:
    for tenant in ends.tenants_of(audit.snapshot):
        audit.tally(tenant)  # so that its log is built again, be all of its records gone
        reached, counted = ends.arrivals_of(audit.snapshot, tenant)
        last = max(reached, counted or 0)
        size = RANGE_RECORDS if split and last <= audit.arrival_bound else max(last, 1)
        for first in range(1, last + 1, size):
            yield Range(tenant, first, min(first + size - 1, last), level)
