"""The outcome index: runs by how they last concluded, newest conclusion last.

    outcome      tenant 00 outcome 00 arrival:u64be  ->  run

`arrival` is that of the RunConcluded.
"""

from __future__ import annotations

from sealbook.indexes.packing import text, u64
from sealbook.indexes.standing import Standing

TABLE = "outcome"


def rows(standing: Standing) -> list[tuple[str, bytes, bytes]]:
    """The run's row under its outcome; none before its first conclusion."""
    if standing.outcome is None or standing.outcome_arrival is None:
        return []
    return [(TABLE, prefix(standing.tenant, standing.outcome) + u64(standing.outcome_arrival), standing.run.encode())]


def prefix(tenant: str, outcome: str) -> bytes:
    """What the keys of all runs with this outcome begin with."""
    return text(tenant) + text(outcome)
