"""The store as a batch sees it while it is being decided: a snapshot, and what earlier requests changed over it.

Nothing is written here. A request enters whole or not at all: `drop()` takes back what it has changed since the last
`enter()`, so it can be refused in the middle of a batch without a nested transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from sealbook.indexes.registry import moves
from sealbook.indexes.standing import Standing, pack
from sealbook.journal.deciding.recent import NOTHING_KNOWN, Known
from sealbook.journal.engine.port import Place, Row, Snapshot, Writes
from sealbook.journal.errors import Corrupt
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.record import names
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import record_place
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import LeaseRow, TenantRow

RunPlace = tuple[str, str]  # (tenant, run)
_NOTHING: Final = object()


class Overlay:
    """Reads fall through to the snapshot; writes stay here until `writes()` hands them out."""

    def __init__(self, snapshot: Snapshot, known: Known = NOTHING_KNOWN) -> None:
        """`known` is what need not be read of this snapshot."""
        self._snapshot = snapshot
        self._known = known
        self._stored: dict[Place, bytes | None] = {}  # rows as the snapshot has them
        self._before: dict[RunPlace, Standing | None] = {}  # and what the state rows among them say
        self._rows: dict[Place, bytes | None] = {}  # rows that were changed; None for one that is removed
        self._inserted: dict[Place, None] = {}  # those of them that were not there before
        self._standings: dict[RunPlace, Standing] = {}
        self._leases: dict[RunPlace, LeaseRow | None] = {}  # as they stand, whether changed or only read
        self._tenants: dict[str, TenantRow] = {}
        self.takeovers: dict[RunPlace, tuple[int, int]] = {}  # the epochs of an expired lease and of its successor
        self._changes: list[tuple[dict[Any, Any], Any, Any]] = []  # of this request: where, which key, what was there

    def enter(self) -> None:
        """The request being decided stands."""
        self._changes.clear()

    def drop(self) -> None:
        """The request being decided is refused: take back what it has changed."""
        for layer, key, before in reversed(self._changes):
            if before is _NOTHING:
                del layer[key]
            else:
                layer[key] = before
        self._changes.clear()

    def _set(self, layer: dict[Any, Any], key: Any, value: Any) -> None:
        self._changes.append((layer, key, layer.get(key, _NOTHING)))
        layer[key] = value

    # --- rows -------------------------------------------------------------------------------------------------

    def fetch(self, places: Collection[Place]) -> None:
        """Read these rows in one go, so that later reads of them cost nothing. Each place is named once."""
        self._stored.update(zip(places, self._snapshot.get_many(list(places)), strict=True))

    def knows(self, tenant: str, run: str) -> bool:
        """Whether it was known from the beginning where the run and its tenant stand."""
        return (tenant, run) in self._known.standings and tenant in self._known.tenants

    def get(self, place: Place) -> bytes | None:
        """The row as it stands for the request being decided."""
        if place in self._rows:
            return self._rows[place]
        if place not in self._stored:
            [self._stored[place]] = self._snapshot.get_many([place])
        return self._stored[place]

    def peek(self, place: Place) -> bytes | None:
        """The same for a row that may be large and is not read again: it is not kept."""
        if place in self._rows:
            return self._rows[place]
        return self._stored[place] if place in self._stored else self._snapshot.get_many([place])[0]

    def stored_rows(self, table: str, lo: bytes, hi: bytes, limit: int) -> list[Row]:
        """A page of the table's rows as they were before this batch."""
        return self._snapshot.scan(table, lo, hi, limit)

    def stored_values(self, places: Sequence[Place]) -> list[bytes | None]:
        """These rows as they were before this batch. They are not kept: there may be many."""
        return self._snapshot.get_many(places)

    def tenants(self) -> list[str]:
        """The names of all that has a row in `tenants`, the store log's among them, in order."""
        names = {*self._tenants}
        for key, value in tables.rows_of(self._snapshot, tables.TENANTS):
            try:
                names.add(key.decode())
            except UnicodeDecodeError as error:
                raise Corrupt("the row names no tenant", None, None, tables.TENANTS, key) from error
            self._stored[tables.TENANTS, key] = value
        return sorted(names)

    def moved_runs(self, tenant: str) -> set[str]:
        """The tenant's runs that this batch has moved so far."""
        return {run for name, run in self._standings if name == tenant}

    def touched(self, tenant: str) -> bool:
        """Whether this batch has changed anything of the tenant so far."""
        return tenant in self._tenants or bool(self.moved_runs(tenant))

    def put(self, place: Place, value: bytes) -> None:
        """Write a row, new or not."""
        self._set(self._rows, place, value)

    def insert(self, place: Place, value: bytes) -> None:
        """Write a row that must be new: the engine refuses to write over one."""
        self._set(self._rows, place, value)
        self._set(self._inserted, place, None)

    def delete(self, place: Place) -> None:
        """Remove a row that is there."""
        self._set(self._rows, place, None)

    # --- what rows mean --------------------------------------------------------------------------------------------

    def tenant(self, tenant: str) -> TenantRow:
        """The tenant's counts."""
        row = self._tenants.get(tenant) or self._known.tenants.get(tenant)
        return row or TenantRow.decode(tenant, self.get((tables.TENANTS, tenant.encode())))

    def set_tenant(self, tenant: str, row: TenantRow) -> None:
        """Count on. The row is written once, by `writes()`."""
        self._set(self._tenants, tenant, row)

    def standing(self, tenant: str, run: str) -> Standing | None:
        """Where the run stands; None for a run without records."""
        name = (tenant, run)
        if name in self._standings:
            return self._standings[name]
        if name not in self._before:
            place = (tables.STATE, tables.run_key(tenant, run))
            self._before[name] = self._known.standings.get(name) or read_standing(tenant, run, self.get(place))
        return self._before[name]

    def set_standing(self, standing: Standing) -> None:
        """The run has moved. Its state row and index rows are written once, by `writes()`."""
        self._set(self._standings, (standing.tenant, standing.run), standing)

    def lease(self, tenant: str, run: str) -> LeaseRow | None:
        """The run's lease row; None for a run that was never leased, or is sealed."""
        name = (tenant, run)
        if name not in self._leases:
            if name in self._known.leases:
                return self._known.leases[name]
            place = (tables.LEASES, tables.run_key(tenant, run))
            self._leases[name] = LeaseRow.decode(place, run, self.get(place))
        return self._leases[name]

    def take_over(self, tenant: str, run: str, epoch_before: int, epoch: int) -> None:
        """Note that a lease which had expired is taken over, for the operator to hear of once it is durable."""
        self._set(self.takeovers, (tenant, run), (epoch_before, epoch))

    def set_lease(self, tenant: str, run: str, row: LeaseRow | None) -> None:
        """Write the run's lease row, or remove it."""
        place = (tables.LEASES, tables.run_key(tenant, run))
        if row is not None:
            self.put(place, row.encode(place))
        elif self.get(place) is not None:
            self.delete(place)
        self._set(self._leases, (tenant, run), row)

    def check_head(self, standing: Standing) -> None:
        """Recompute the hash of the run's last record before anything is chained to it.

        Where this process made that record and nobody has written since, it has the hash already.
        """
        tenant, run, seq = standing.tenant, standing.run, standing.records
        if self._known.standings.get((tenant, run)) is standing:
            return
        place = record_place(tenant, standing.last_arrival)
        if place in self._inserted:
            return  # this batch made it
        value = self.peek(place)
        if value is None:
            raise Corrupt("the last record is missing", run, seq)
        row = decode_row(value, run, seq)
        if chain_hash(row.prev, row.body) != row.hash:
            raise Corrupt("the hash does not cover the record's bytes", run, seq)
        same = row.hash == standing.head and row.arrival == standing.last_arrival
        if not same or not names(row.body, tenant, run, seq):
            raise Corrupt("the run's state does not agree with its last record", run, seq)

    def left(self) -> Known:
        """What is known, once this batch is committed, of what it has moved; leases also where it only read them."""
        return Known(self._standings, self._leases, self._tenants)

    # --- the result ------------------------------------------------------------------------------------------------

    def writes(self) -> Writes:
        """Everything that the batch changes, index rows included: once per run, whatever happened in between."""
        puts: dict[Place, bytes] = {}
        absent, deletes = set(self._inserted), set[Place]()
        for place, value in self._rows.items():
            if value is not None:
                puts[place] = value
            elif self._stands(place):
                deletes.add(place)
        for tenant, counts in self._tenants.items():
            puts[tables.TENANTS, tenant.encode()] = counts.encode()
        for (tenant, run), after in self._standings.items():
            before = self._before.get((tenant, run))
            place = (tables.STATE, tables.run_key(tenant, run))
            puts[place] = pack(after)
            if before is None:
                absent.add(place)
            gone, new = moves(before, after)
            for table, key, _ in gone:
                deletes.add((table, key))
            for table, key, value in new:
                puts[table, key] = value
                if (table, key) in deletes:
                    deletes.discard((table, key))
                else:
                    absent.add((table, key))
        return Writes(puts, absent, deletes)

    def _stands(self, place: Place) -> bool:
        """Whether the row was there before this batch: also one that was known, and so was not read until now."""
        if place not in self._stored:
            self.fetch([place])
        return self._stored[place] is not None
