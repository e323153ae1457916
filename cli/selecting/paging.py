"""Records and listings page by page, in the order of arrival: a tenant's history, one run, one case.

No snapshot is held while somebody reads what was printed: a page is read, and the next one goes on after it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from sealbook.journal import Page, Record, Tenant

T = TypeVar("T")

PAGE_MAX = 1000  # the first page is as small as what is asked for: `-n 10` touches only what it prints
PAGE_GROWTH = 4  # so that what is read stays within a few times what is taken of it
MERGED_PAGE = 100  # of each run of a case, since as many pages are held as runs overlap


def pages(listing: Callable[[str | None, int], Page[T]], *, page: int = PAGE_MAX) -> Iterator[T]:
    """Every item of a listing, which is asked with (after, limit)."""
    after: str | None = None
    while True:
        items = listing(after, page)
        yield from items
        if items.next is None:
            return
        after, page = items.next, min(page * PAGE_GROWTH, PAGE_MAX)


def history(
    tenant: Tenant, *, reverse: bool = False, start: int | None = None, page: int = PAGE_MAX
) -> Iterator[Record]:
    """The tenant's records in arrival order from arrival `start` on, or backwards from it."""
    return pages(lambda after, limit: tenant.history(start=start, limit=limit, after=after, reverse=reverse), page=page)


def run_records(
    tenant: Tenant, run: str, *, reverse: bool = False, start: int = 1, last: int | None = None, page: int = PAGE_MAX
) -> Iterator[Record]:
    """One run's records from `start` to `last`, its head unless that is given, or backwards."""
    if not reverse:
        found = pages(lambda after, limit: tenant.read(run, start=start, limit=limit, after=after), page=page)
        yield from takewhile(lambda record: last is None or record.seq <= last, found)
        return
    last = tenant.head(run).seq if last is None else last
    while last >= start:
        first = max(start, last - page + 1)
        yield from reversed(tenant.read(run, start=first, limit=last - first + 1))
        last, page = first - 1, min(page * PAGE_GROWTH, PAGE_MAX)


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
    edges = ((run, (part.last if reverse else part.first)[0], part) for run, part in parts.items())
    yield from in_turn(
        ((edge, run, _of_case(tenant, run, case, part, reverse)) for run, edge, part in edges), reverse=reverse
    )


def in_turn(parts: Iterable[tuple[int, str, Iterator[Record]]], *, reverse: bool = False) -> Iterator[Record]:
    """The records of all parts in arrival order. A part is (the arrival of its first record, its run, its records).

    With `reverse` every part is newest first, and so is the answer. A part is opened when its turn comes.
    """
    sign = -1 if reverse else 1
    # (turn, run, the record whose turn it is, what follows it); arrivals differ, so nothing else is ever compared
    turns: list[tuple[int, str, Record | None, Iterator[Record]]] = [
        (sign * edge, run, None, records) for edge, run, records in parts
    ]
    heapq.heapify(turns)
    while turns:
        _, run, due, rest = turns[0]
        if due is not None:
            yield due
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
