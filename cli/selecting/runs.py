"""Which runs a verb lists, and in which order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from sealbook.cli.selecting.paging import pages
from sealbook.journal import NotFound

if TYPE_CHECKING:
    from sealbook.indexes.standing import Standing
    from sealbook.journal import Tenant

SORTS: dict[str, Callable[[Standing], Any]] = {  # each begins with the least, but for `recent`, which an index has
    "name": lambda standing: standing.run.encode(),
    "recent": lambda standing: -standing.last_arrival,
    "admitted": lambda standing: standing.first_arrival,
    "records": lambda standing: standing.records,
    "effects": lambda standing: standing.effects_started,
    "in-doubt": lambda standing: standing.effects_in_doubt,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs to list, and in which order; no sort is that of the listing which is read. `since` is microseconds
    since 1970."""

    outcome: str | None = None
    source: str | None = None
    case: str | None = None
    waiting: bool = False
    abandoned: bool = False
    in_doubt: bool = False
    since: int | None = None
    store_runs: bool = False
    sort: str | None = None
    reverse: bool = False

    def takes(self, standing: Standing) -> bool:
        """Whether the run is one of them, as far as its standing tells."""
        return (
            (self.outcome is None or standing.outcome == self.outcome)
            and (self.source is None or standing.source == self.source)
            and (not self.waiting or standing.waiting)
            and (not self.in_doubt or standing.effects_in_doubt > 0)
            and (self.since is None or standing.updated_at * 1000 >= self.since)
        )


def find(tenant: Tenant, wanted: Wanted, limit: int | None) -> Iterator[Standing]:
    """At most `limit` runs. Those that must be sorted are held in memory: with a limit, so many of them."""
    found = filter(wanted.takes, _of_case(tenant, wanted, _listed(tenant, wanted)))
    if not wanted.reverse and (wanted.sort is None or _is_sorted(wanted)):
        return islice(found, limit)
    key = SORTS[wanted.sort or "name"]
    if limit is None:
        return iter(sorted(found, key=key, reverse=wanted.reverse))
    return iter((heapq.nlargest if wanted.reverse else heapq.nsmallest)(limit, found, key=key))


def _is_sorted(wanted: Wanted) -> bool:
    """Whether the listing has the order that is wanted already."""
    if wanted.sort == "recent":
        return not (wanted.abandoned or wanted.waiting)
    listed = wanted.abandoned or wanted.waiting or wanted.outcome is not None or wanted.source is not None
    return wanted.sort == "name" and not listed


def _listed(tenant: Tenant, wanted: Wanted) -> Iterator[Standing]:
    """The runs from the listing that knows the rarest of what is wanted."""
    recent = wanted.sort == "recent"
    if wanted.abandoned:
        names = (item.run for item in pages(lambda after, limit: tenant.abandoned(after=after, limit=limit)))
        return _standings(tenant, names)
    if wanted.waiting:
        names = (item.run for item in pages(lambda after, limit: tenant.waiting(after=after, limit=limit)))
        return _standings(tenant, names)
    if wanted.outcome is not None and not recent:
        outcome = wanted.outcome
        return pages(lambda after, limit: tenant.by_outcome(outcome, after=after, limit=limit))
    if wanted.source is not None:
        source = wanted.source
        return pages(lambda after, limit: tenant.recent_from(source, after=after, limit=limit))
    if recent:
        return pages(lambda after, limit: tenant.recent(after=after, limit=limit))
    return pages(lambda after, limit: tenant.runs(after=after, limit=limit, all=wanted.store_runs))


def _standings(tenant: Tenant, names: Iterator[str]) -> Iterator[Standing]:
    """Where these runs stand by now. One that was leased and never written to stands nowhere."""
    return (standing for standing in map(tenant.standing, names) if standing is not None)


def _of_case(tenant: Tenant, wanted: Wanted, found: Iterator[Standing]) -> Iterator[Standing]:
    if wanted.case is None:
        return found
    case = wanted.case
    members = {record.run for record in pages(lambda after, limit: tenant.case_history(case, after=after, limit=limit))}
    if not members:
        raise NotFound("case", case)
    return (standing for standing in found if standing.run in members)
