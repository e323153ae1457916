"""Verbs that list a tenant's runs and records by an index."""

from __future__ import annotations

from sealbook.indexes.standing import Standing
from sealbook.journal.engine.port import Snapshot
from sealbook.journal.errors import (
    InvalidInput,
)
from sealbook.journal.reading import listings
from sealbook.journal.reading.listings import Abandoned, Page, Part, Waiting
from sealbook.journal.records import names as ids
from sealbook.journal.records.names import LIMIT_DEFAULT
from sealbook.journal.records.record import Record
from sealbook.journal.store.base import Verbs


class ListingVerbs(Verbs):
    """Listings over the indexes, page by page."""

    def waiting(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Waiting]:
        """Suspended runs, soonest instant first; those that wait for an event alone last."""

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Waiting]:
            return listings.waiting_runs(snapshot, self._upcaster, self.name, position, limit)

        return self._page(("waiting",), after, limit, page, indexed=True)

    def by_outcome(self, outcome: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Standing]:
        """Runs whose last conclusion had this outcome, newest first."""
        ids.check_outcome(outcome)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Standing]:
            return listings.by_outcome(snapshot, self.name, outcome, position, limit)

        return self._page(("by_outcome", outcome), after, limit, page, indexed=True)

    def count_by_outcome(self, outcome: str) -> int:
        """How many runs `by_outcome` lists in all."""
        ids.check_outcome(outcome)
        with self._reading(indexed=True) as snapshot:
            return listings.count_by_outcome(snapshot, self.name, outcome)

    def recent(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Standing]:
        """Runs by their last record, newest first. A run that moves between two pages appears again at the top."""

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Standing]:
            return listings.by_activity(snapshot, self.name, None, position, limit)

        return self._page(("recent",), after, limit, page, indexed=True)

    def recent_from(self, source: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Standing]:
        """The same for the runs that one source admitted."""
        ids.check_source(source)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Standing]:
            return listings.by_activity(snapshot, self.name, source, position, limit)

        return self._page(("recent_from", source), after, limit, page, indexed=True)

    def case_history(self, case: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Record]:
        """Every record of the case, whichever run wrote it, by run and seq."""
        ids.check_case(case)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Record]:
            return listings.case_records(snapshot, self._upcaster, self.name, case, position, limit)

        return self._page(("case_history", case), after, limit, page, indexed=True)

    def names(self, index: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[str]:
        """The names that there are of `case`, `source` or `outcome`, in the order of their bytes."""
        if index not in listings.NAMED:
            raise InvalidInput("index", index, f"is none of {', '.join(listings.NAMED)}")

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[str]:
            return listings.names(snapshot, self.name, index, position, limit)

        return self._page(("names", index), after, limit, page, indexed=True)

    def abandoned(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Abandoned]:
        """Open runs whose lease expired without being released, oldest expiry first."""
        moment = self.view.clock()

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Abandoned]:
            return listings.abandoned(snapshot, moment, self.name, position, limit)

        return self._page(("abandoned",), after, limit, page)
