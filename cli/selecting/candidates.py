"""Where the wanted records are read: from the fewest places that hold all of them, in the order of their arrival.

| what is wanted | is read from |
|---|---|
| runs by name (`-u`, `RUN=`) | those runs |
| cases (`--case`, `CASE=`) | the case index |
| runs by OUTCOME or SOURCE, or by a glob | the runs that their index, or the listing by name, has |
| several groups of matches | the places of all of them, each record once |
| anything else | the tenant's history |

A listing of more than RUNS_MAX runs is left: so many are met in the history as soon. Every record that is read is asked
besides whether it is wanted, so this page decides how long it takes and never what is printed. Instants and cursors
bound what is read of each place: `span` has the rule.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from sealbook.cli.selecting import globs, paging, span
from sealbook.cli.selecting.matches import Group

if TYPE_CHECKING:
    from sealbook.cli.selecting.selection import Selection
    from sealbook.indexes.standing import Standing
    from sealbook.journal import Page, Record, Tenant

RUNS_MAX = 5000  # whose standings are read before the first record is printed
NO_END = 2**64  # above every arrival

Listing = Callable[[str | None, int], "Page[Standing]"]


class Reading:
    """One look at a tenant for the records of a selection, in one direction."""

    def __init__(self, tenant: Tenant, selection: Selection, *, reverse: bool, page: int) -> None:
        self._tenant = tenant
        self._selection = selection
        self._reverse = reverse
        self._page = page
        self._first, self._last = selection.first, NO_END
        if not selection.scan and (selection.since is not None or selection.until is not None):
            self._bound_by_instants()

    def records(self) -> Iterator[Record]:
        """Records among which all wanted ones are, each once, in order."""
        if self._last < self._first:
            return iter(())
        places = [self._place(group) for group in self._selection.groups or ({},)]
        found = [place for place in places if place is not None]
        if len(found) < len(places):
            return self._history()
        return found[0] if len(found) == 1 else self._united(found)

    def _bound_by_instants(self) -> None:
        since, until = self._selection.since, self._selection.until
        first, last = span.bounds(
            lambda arrival: self._tenant.history(start=arrival, limit=1)[0].at,
            _arrivals(self._tenant),
            None if since is None else -(-since // 1000),  # records have milliseconds
            None if until is None else until // 1000,
        )
        self._first = max(self._first, first)
        self._last = NO_END if until is None else last

    def _place(self, group: Group) -> Iterator[Record] | None:
        """The fewest records that hold those of a group; None for the whole history."""
        wanted = self._selection
        runs = _in_all(
            None if wanted.run is None else {wanted.run},
            None if not wanted.runs or any(map(globs.is_glob, wanted.runs)) else wanted.runs,
            group.get("RUN"),
        )
        if runs is not None:
            return self._of_runs([found for name in sorted(runs) if (found := self._tenant.standing(name))])
        cases = _in_all(None if wanted.case is None else {wanted.case}, group.get("CASE"))
        if cases is not None:
            return self._of_cases(sorted(cases))
        for listings in self._listings(group):
            listed = self._listed(listings)
            if listed is not None:
                return self._of_runs(listed)
        return None

    def _listings(self, group: Group) -> Iterator[list[Listing]]:
        """For each condition that a listing of runs knows: the listings that hold all of its runs."""
        tenant = self._tenant
        if "OUTCOME" in group:
            yield [_of_name(tenant.by_outcome, name) for name in group["OUTCOME"]]
        if "SOURCE" in group:
            yield [_of_name(tenant.recent_from, name) for name in group["SOURCE"]]
        if self._selection.runs:
            yield [self._beginning(globs.beginning(glob)) for glob in self._selection.runs]

    def _beginning(self, text: str) -> Listing:
        return lambda after, limit: self._tenant.runs(prefix=text, all=True, after=after, limit=limit)

    def _listed(self, listings: Iterable[Listing]) -> list[Standing] | None:
        """The runs of all listings, each once; None when there are too many."""
        found: dict[str, Standing] = {}
        for listing in listings:
            for standing in paging.pages(listing):
                found[standing.run] = standing
                if len(found) > RUNS_MAX:
                    return None
        return list(found.values())

    # --- the places -----------------------------------------------------------------------------------------------

    def _history(self) -> Iterator[Record]:
        start = self._first if not self._reverse else None if self._last == NO_END else self._last
        found = paging.history(self._tenant, reverse=self._reverse, start=start, page=self._page)
        return takewhile(self._in_window, found)

    def _in_window(self, record: Record) -> bool:
        return self._first <= record.arrival <= self._last

    def _of_runs(self, runs: Sequence[Standing]) -> Iterator[Record]:
        """The records of these runs in the window."""
        near = [run for run in runs if run.first_arrival <= self._last and run.last_arrival >= self._first]
        if len(near) == 1:
            return self._of_run(near[0], self._page)
        edges = [run.last_arrival if self._reverse else run.first_arrival for run in near]
        parts = ((edge, run.run, self._of_run(run, paging.MERGED_PAGE)) for edge, run in zip(edges, near, strict=True))
        return paging.in_turn(parts, reverse=self._reverse)

    def _of_run(self, run: Standing, page: int) -> Iterator[Record]:
        """One run's records in the window, whose ends are found by halving: a run's arrivals rise."""
        seqs = range(1, run.records + 1)
        first, last = 1, run.records

        def arrival(seq: int) -> int:
            return self._tenant.read(run.run, start=seq, limit=1)[0].arrival

        if self._first > run.first_arrival:
            first = 1 + bisect_left(seqs, self._first, key=arrival)
        if self._last < run.last_arrival:
            last = bisect_left(seqs, self._last + 1, key=arrival)
        if first > last:
            return iter(())
        return paging.run_records(self._tenant, run.run, reverse=self._reverse, start=first, last=last, page=page)

    def _of_cases(self, names: Sequence[str]) -> Iterator[Record]:
        found = [paging.case_records(self._tenant, name, reverse=self._reverse) for name in names]
        return filter(self._in_window, found[0] if len(found) == 1 else self._united(found))

    def _united(self, places: Sequence[Iterator[Record]]) -> Iterator[Record]:
        """The records of all places in order, each once."""
        last = 0
        for record in heapq.merge(*places, key=lambda record: record.arrival, reverse=self._reverse):
            if record.arrival != last:
                yield record
                last = record.arrival


def _arrivals(tenant: Tenant) -> int:
    """How many records the tenant has now."""
    newest = tenant.history(limit=1, reverse=True)
    return newest[0].arrival if newest else 0


def _in_all(*choices: Iterable[str] | None) -> set[str] | None:
    """What stands in every choice; None when there is none."""
    made = [set(choice) for choice in choices if choice is not None]
    return set.intersection(*made) if made else None


def _of_name(listing: Callable[..., Page[Standing]], name: str) -> Listing:
    return lambda after, limit: listing(name, after=after, limit=limit)
