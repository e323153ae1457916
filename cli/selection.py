"""Which records a verb prints, in which order: the tenant's whole history, one run or one case, filtered.

Order is arrival, and it is read in pages: no snapshot is held while somebody reads what was printed. Instants filter
and never order, because a clock may have been wrong; so a filter on them looks at every record that it may have to
print, and the newest records are found from the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from sealbook.journal import Page, Record, Tenant

T = TypeVar("T")

PAGE_MAX = 1000  # the first page is as small as what is asked for: `-n 10` touches only what it prints
MERGED_PAGE = 100  # of each run of a case, since as many pages are held as runs overlap


@dataclass(frozen=True, slots=True)
class Selection:
    """What to print. Instants are microseconds since 1970, both inclusive; no kinds means all kinds."""

    run: str | None = None
    case: str | None = None
    kinds: frozenset[str] = frozenset()
    since: int | None = None
    until: int | None = None

    def takes(self, record: Record) -> bool:
        """Whether the record is one of them."""
        return (
            (self.run is None or record.run == self.run)
            and (self.case is None or record.case == self.case)
            and (not self.kinds or record.kind in self.kinds)
            and (self.since is None or record.at * 1000 >= self.since)
            and (self.until is None or record.at * 1000 <= self.until)
        )


def records(
    tenant: Tenant, selection: Selection, *, reverse: bool = False, limit: int | None = None
) -> Iterator[Record]:
    """The records of the selection in arrival order, or newest first; at most `limit` of them."""
    if limit == 0:
        return
    if selection.run is not None:
        found = run_records(tenant, selection.run, reverse=reverse, page=_first_page(limit))
    elif selection.case is not None:
        found = case_records(tenant, selection.case, reverse=reverse)
    else:
        found = history(tenant, reverse=reverse, page=_first_page(limit))
    count = 0
    for record in found:
        if selection.takes(record):
            yield record
            count += 1
            if count == limit:
                return


def newest(tenant: Tenant, selection: Selection, limit: int) -> list[Record]:
    """The newest `limit` records of the selection, oldest first."""
    return list(records(tenant, selection, reverse=True, limit=limit))[::-1]


def pages(listing: Callable[[str | None, int], Page[T]], *, page: int = PAGE_MAX) -> Iterator[T]:
    """Every item of a listing, which is asked with (after, limit)."""
    after: str | None = None
    while True:
        items = listing(after, page)
        yield from items
        if items.next is None:
            return
        after, page = items.next, PAGE_MAX


def history(
    tenant: Tenant, *, reverse: bool = False, start: int | None = None, page: int = PAGE_MAX
) -> Iterator[Record]:
    """The tenant's records in arrival order from arrival `start` on, or backwards from it."""
    return pages(lambda after, limit: tenant.history(start=start, limit=limit, after=after, reverse=reverse), page=page)


def run_records(
    tenant: Tenant, run: str, *, reverse: bool = False, start: int = 1, page: int = PAGE_MAX
) -> Iterator[Record]:
    """One run's records from `start` on, or from its head back to `start`."""
    if not reverse:
        yield from pages(lambda after, limit: tenant.read(run, start=start, limit=limit, after=after), page=page)
        return
    last = tenant.head(run).seq
    while last >= start:
        first = max(start, last - page + 1)
        yield from reversed(tenant.read(run, start=first, limit=last - first + 1))
        last, page = first - 1, PAGE_MAX


@dataclass(slots=True)
class _Part:
    """Where a case begins and ends in one run, as (arrival, seq)."""

    first: tuple[int, int]
    last: tuple[int, int]


def case_records(tenant: Tenant, case: str, *, reverse: bool = False) -> Iterator[Record]:
    """A case's records by arrival: its listing is by run and seq, so the runs are merged.

    One pass learns where the case begins and ends in each run; then a run is opened when its turn comes and held
    until the case leaves it.
    """
    parts: dict[str, _Part] = {}
    for record in pages(lambda after, limit: tenant.case_history(case, limit=limit, after=after)):
        place = (record.arrival, record.seq)
        part = parts.setdefault(record.run, _Part(place, place))
        part.last = place
    sign = -1 if reverse else 1
    # (turn, run, the record whose turn it is, what follows it); arrivals differ, so nothing else is ever compared
    turns: list[tuple[int, str, Record | None, Iterator[Record]]] = [
        (sign * (part.last if reverse else part.first)[0], run, None, _of_case(tenant, run, case, part, reverse))
        for run, part in parts.items()
    ]
    heapq.heapify(turns)
    while turns:
        _, run, due, rest = turns[0]
        yield next(rest) if due is None else due
        following = next(rest, None)
        if following is None:
            heapq.heappop(turns)
        else:
            heapq.heapreplace(turns, (sign * following.arrival, run, following, rest))


def _of_case(tenant: Tenant, run: str, case: str, part: _Part, reverse: bool) -> Iterator[Record]:
    first, last = part.first[1], part.last[1]
    while first <= last:
        if reverse:
            start = max(first, last - MERGED_PAGE + 1)
            page = list(reversed(tenant.read(run, start=start, limit=last - start + 1)))
            last = start - 1
        else:
            page = list(tenant.read(run, start=first, limit=min(MERGED_PAGE, last - first + 1)))
            first += len(page)
        yield from (record for record in page if record.case == case)


def _first_page(limit: int | None) -> int:
    return PAGE_MAX if limit is None else min(limit, PAGE_MAX)
