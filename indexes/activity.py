"""The activity index: runs by their last record, in blocks of 256 arrivals.

    activity     tenant 00 block:u64be run  ->  (empty)

`block` is the last record's arrival divided by 256. A row keyed by the arrival itself would move on every append;
one keyed by its block moves seldom, and sorting a block's few rows by `last_arrival` while it is read answers exactly.
"""

from __future__ import annotations

from sealbook.indexes.packing import text, u64
from sealbook.indexes.standing import Standing

TABLE = "activity"
BLOCK = 256  # arrivals per block, hence the most rows that one block can hold


def rows(standing: Standing) -> list[tuple[str, bytes, bytes]]:
    """The run's one row."""
    return [(TABLE, text(standing.tenant) + u64(standing.last_arrival // BLOCK) + standing.run.encode(), b"")]
