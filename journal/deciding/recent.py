"""What this process remembers of recent runs between two commits, so that an append need not read it again.

It holds as long as nobody else has written: the version of the snapshot tells. Whatever another process, or another
way of writing in this one, commits makes all of it void at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

from sealbook.indexes.standing import Standing
from sealbook.journal.engine.port import Snapshot
from sealbook.journal.schema.tables import LeaseRow, TenantRow

RUNS_MAX: Final = 4096

RunPlace = tuple[str, str]  # (tenant, run)


class Known(NamedTuple):
    """Where some runs and tenants stand. A run without a lease is None among the leases."""

    standings: Mapping[RunPlace, Standing]
    leases: Mapping[RunPlace, LeaseRow | None]
    tenants: Mapping[str, TenantRow]


NOTHING_KNOWN: Final = Known({}, {}, {})


class Recent:
    """What the last commits of one journal left. Used by one thread at a time."""

    def __init__(self) -> None:
        self._version = -1
        self._standings: dict[RunPlace, Standing] = {}
        self._leases: dict[RunPlace, LeaseRow | None] = {}
        self._tenants: dict[str, TenantRow] = {}
        self._known = Known(self._standings, self._leases, self._tenants)

    def known(self, snapshot: Snapshot) -> Known:
        """What is known to stand in this snapshot: nothing, once anybody else has written."""
        return self._known if snapshot.version == self._version else NOTHING_KNOWN

    def learn(self, version: int, left: Known) -> None:
        """Take in what the commit that led from `version` to the next one has left."""
        if version != self._version:
            self.forget()
        for run in left.standings:
            self._standings.pop(run, None)  # so that the dictionary's order is that of the last move
        self._standings.update(left.standings)
        for run, lease in left.leases.items():
            if run in self._standings:
                self._leases[run] = lease
        self._tenants.update(left.tenants)
        self._version = version + 1
        for run in list(islice(self._standings, max(0, len(self._standings) - RUNS_MAX))):
            del self._standings[run]
            self._leases.pop(run, None)

    def forget(self) -> None:
        """Know nothing."""
        self._version = -1
        self._standings.clear()
        self._leases.clear()
        self._tenants.clear()
