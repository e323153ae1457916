"""The waiting index: suspended runs, soonest first; those that wait for an event alone sort last.

    waiting      tenant 00 until:i64be(sign flipped) run  ->  (empty)

`until` is microseconds since 1970, 2**63 - 1 where the suspension names no instant.
"""

from __future__ import annotations

from sealbook.indexes.packing import I64_MAX, i64, text
from sealbook.indexes.standing import Standing

TABLE = "waiting"


def rows(standing: Standing) -> list[tuple[str, bytes, bytes]]:
    """The run's row while it waits; none otherwise."""
    if standing.waiting_seq is None:
        return []
    until = I64_MAX if standing.until is None else standing.until
    return [(TABLE, text(standing.tenant) + i64(until) + standing.run.encode(), b"")]
