"""The source index: the runs that one source admitted, by their last record, in blocks of 256 arrivals.

source       tenant 00 source 00 block:u64be run  ->  (empty)
"""

from __future__ import annotations

from sealbook.indexes.activity import BLOCK
from sealbook.indexes.packing import text, u64
from sealbook.indexes.standing import Standing

TABLE = "source"


def rows(standing: Standing) -> list[tuple[str, bytes, bytes]]:
    """The run's row under its source; none for a run that was admitted without a key."""
    if standing.source is None:
        return []
    block = u64(standing.last_arrival // BLOCK)
    return [(TABLE, prefix(standing.tenant, standing.source) + block + standing.run.encode(), b"")]


def prefix(tenant: str, source: str) -> bytes:
    """What the keys of all runs of this source begin with."""
    return text(tenant) + text(source)
