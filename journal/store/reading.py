"""Verbs that read one run, one effect, one lease, or records in the order of their arrival."""

from __future__ import annotations

from sealbook.indexes.standing import Standing
from sealbook.journal.deciding import leases
from sealbook.journal.deciding.acts import Cancellation, cancellation_of
from sealbook.journal.deciding.appending import read_holder
from sealbook.journal.deciding.leases import Lease
from sealbook.journal.engine.port import Place, Snapshot
from sealbook.journal.errors import (
    InvalidInput,
)
from sealbook.journal.reading import listings
from sealbook.journal.reading.following import Follower, Following, Source
from sealbook.journal.reading.listings import Effect, Page, Part
from sealbook.journal.records import names as ids
from sealbook.journal.records.chain import Head
from sealbook.journal.records.entries import EFFECT_KEY_BYTES
from sealbook.journal.records.names import LIMIT_DEFAULT
from sealbook.journal.records.record import Record
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import LeaseRow
from sealbook.journal.store.base import Verbs


class ReadingVerbs(Verbs):
    """What a tenant has recorded. Each answer comes from one snapshot."""

    def read(self, run: str, *, start: int = 1, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Record]:
        """At most `limit` records of the run from seq `start` on, verified; empty for an unknown run.

        `Corrupt` for a record that is missing, damaged or does not follow its neighbour.
        """
        ids.check_run(run)
        start = ids.check_size("start", start)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Record]:
            first = start if position is None else int.from_bytes(position, "big") + 1
            return listings.run_records(snapshot, self._upcaster, self.name, run, first, limit)

        return self._page(("read", run), after, limit, page)

    def history(
        self, *, start: int | None = None, limit: int = LIMIT_DEFAULT, after: str | None = None, reverse: bool = False
    ) -> Page[Record]:
        """Records of all runs in arrival order, from arrival `start` on; with `reverse`, from it (or the end) back."""
        start = None if start is None else ids.check_size("start", start)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Record]:
            first = start
            if position is not None:
                first = int.from_bytes(position, "big") + (-1 if reverse else 1)
            return listings.history(snapshot, self._upcaster, self.name, first, limit, reverse)

        return self._page(("history", str(reverse)), after, limit, page)

    def follow(
        self, run: str | None = None, *, case: str | None = None, after: str | None = None, from_now: bool = False
    ) -> Following:
        """Records in the order of their arrival, and then those that come, whichever process commits them.

        All records of the tenant, its operators' acts among them, or those of one run, and of one case among these.
        It begins with the first, with what follows the cursor `after`, or with `from_now` behind the last one there is
        now. What this process commits is handed out at once, what another one does within a tenth of a second.

        `InvalidCursor` when `after` was issued for another run, case, tenant or store. The iteration raises `Corrupt`
        when the record that was read last is gone, or is another one: the history was rewritten or cut short, or an
        older copy of the store was put back. It raises `Closed` when the journal is closed, and what reading raises.
        """
        if after is not None and from_now:
            raise InvalidInput("from_now", from_now, "cannot be combined with a cursor, which says where to go on")
        run = None if run is None else ids.check_run(run)
        case = None if case is None else ids.check_case(case)
        source = Source(self._reading, self.view.version, self._upcaster, self._secret, self.name, run, case)
        last = source.newest() if from_now else None
        if after is not None:
            with self._named():
                last = source.unseal(after)
        return Following(Follower(source, last), self.view.wakeups)

    def head(self, run: str) -> Head:
        """The end of the run's chain: seq 0 and zero bytes for an unknown run."""
        ids.check_run(run)
        with self._reading() as snapshot:
            return listings.head(snapshot, self.name, run)

    def standing(self, run: str) -> Standing | None:
        """Where the run stands, its lease included; None for a run without records."""
        ids.check_run(run)
        with self._reading() as snapshot:
            return listings.standings(snapshot, self.name, [run])[0]

    def effects(self, run: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Effect]:
        """The run's effects in the order of their keys, each by its latest attempt."""
        ids.check_run(run)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Effect]:
            return listings.effects(snapshot, self._upcaster, self.name, run, position, limit)

        return self._page(("effects", run), after, limit, page)

    def effect(self, run: str, key: bytes) -> Effect | None:
        """One effect of the run; None when it was never started."""
        ids.check_run(run)
        if not isinstance(key, bytes) or len(key) != EFFECT_KEY_BYTES:
            raise InvalidInput("effect key", key, f"must be an EffectKey ({EFFECT_KEY_BYTES} bytes)")
        with self._reading() as snapshot:
            return listings.effect(snapshot, self._upcaster, self.name, run, key)

    def lease(self, run: str) -> Lease | None:
        """The run's lease as it is recorded, expired or not; None for one never leased, or sealed."""
        ids.check_run(run)
        place: Place = (tables.LEASES, tables.run_key(self.name, run))
        with self._reading() as snapshot:
            row = LeaseRow.decode(place, run, snapshot.get_many([place])[0])
            return None if row is None else leases.granted(self.name, run, row)

    def runs(
        self, *, limit: int = LIMIT_DEFAULT, after: str | None = None, prefix: str = "", all: bool = False
    ) -> Page[Standing]:
        """Runs by name, those that begin with `prefix`; with `all` also the store's own (`~tenant`)."""
        if prefix:
            ids.check_run(prefix)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Standing]:
            return listings.runs(snapshot, self.name, position, limit, prefix, all)

        return self._page(("runs", prefix, str(all)), after, limit, page)

    def admitted_as(self, source: str, id: str) -> str | None:
        """The run that this admission key created; None when it was never honoured."""
        key = tables.admission_key(self.name, self._secret, ids.check_source(source), ids.check_admission_id(id))
        with self._reading() as snapshot:
            value = snapshot.get_many([(tables.ADMISSIONS, key)])[0]
            return None if value is None else read_holder(key, value)

    def cancellation(self, run: str) -> Cancellation | None:
        """The request that the run be cancelled; None when nobody asked."""
        ids.check_run(run)
        with self._reading() as snapshot:
            value = snapshot.get_many([(tables.CANCELS, tables.run_key(self.name, run))])[0]
            if value is None:
                return None
            place = (ids.OPERATOR_RUN, int.from_bytes(value, "big"))
            [record] = listings.records_at(snapshot, self._upcaster, self.name, [place])
            return cancellation_of(record)
