"""The store as a batch sees it while it is being decided: a snapshot, and what earlier requests changed over it.

Nothing is written here. A request enters whole or not at all: what it changes is a draft until `enter()`, and
`drop()` forgets it, so it can be refused in the middle of a batch without a nested transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sealbook.indexes.registry import moves
from sealbook.indexes.standing import Standing, pack, unpack
from sealbook.journal import tables
from sealbook.journal.engine.port import Place, Row, Snapshot, Writes
from sealbook.journal.errors import Corrupt
from sealbook.journal.record import chain_hash, decode_row
from sealbook.journal.tables import LeaseRow, TenantRow

RunPlace = tuple[str, str]  # (tenant, run)


class Overlay:
    """Reads fall through to the snapshot; writes stay here until `writes()` hands them out.

    What the request being decided changes is in the draft; `enter()` moves it to what stands.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._stored: dict[Place, bytes | None] = {}  # rows as the snapshot has them
        self._before: dict[RunPlace, Standing | None] = {}  # and what the state rows among them say
        self._rows: dict[Place, bytes | None] = {}  # rows that were changed; None for one that is removed
        self._inserted: set[Place] = set()  # those of them that were not there before
        self._standings: dict[RunPlace, Standing] = {}
        self._tenants: dict[str, TenantRow] = {}
        self._draft_rows: dict[Place, bytes | None] = {}
        self._draft_inserted: set[Place] = set()
        self._draft_standings: dict[RunPlace, Standing] = {}
        self._draft_tenants: dict[str, TenantRow] = {}

    def enter(self) -> None:
        """The request being decided stands: let its changes in."""
        self._rows.update(self._draft_rows)
        self._inserted.update(self._draft_inserted)
        self._standings.update(self._draft_standings)
        self._tenants.update(self._draft_tenants)
        self.drop()

    def drop(self) -> None:
        """The request being decided is refused, or has entered: forget its draft."""
        self._draft_rows.clear()
        self._draft_inserted.clear()
        self._draft_standings.clear()
        self._draft_tenants.clear()

    # --- rows -------------------------------------------------------------------------------------------------

    def fetch(self, places: Collection[Place]) -> None:
        """Read these rows in one go, so that later reads of them cost nothing. Each place is named once."""
        self._stored.update(zip(places, self._snapshot.get_many(list(places)), strict=True))

    def get(self, place: Place) -> bytes | None:
        """The row as it stands for the request being decided."""
        for layer in (self._draft_rows, self._rows, self._stored):
            if place in layer:
                return layer[place]
        [stored] = self._snapshot.get_many([place])
        self._stored[place] = stored
        return stored

    def peek(self, place: Place) -> bytes | None:
        """The same for a row that may be large and is not read again: it is not kept."""
        for layer in (self._draft_rows, self._rows, self._stored):
            if place in layer:
                return layer[place]
        return self._snapshot.get_many([place])[0]

    def stored_rows(self, table: str, lo: bytes, hi: bytes, limit: int) -> list[Row]:
        """A page of the table's rows as they were before this batch."""
        return self._snapshot.scan(table, lo, hi, limit)

    def stored_values(self, places: Sequence[Place]) -> list[bytes | None]:
        """These rows as they were before this batch. They are not kept: there may be many."""
        return self._snapshot.get_many(places)

    def moved_runs(self, tenant: str) -> set[str]:
        """The tenant's runs that this batch has moved so far."""
        return {run for name, run in (*self._standings, *self._draft_standings) if name == tenant}

    def touched(self, tenant: str) -> bool:
        """Whether this batch has changed anything of the tenant so far."""
        return bool(tenant in self._tenants or tenant in self._draft_tenants or self.moved_runs(tenant))

    def put(self, place: Place, value: bytes) -> None:
        """Write a row, new or not."""
        self._draft_rows[place] = value

    def insert(self, place: Place, value: bytes) -> None:
        """Write a row that must be new: the engine refuses to write over one."""
        self._draft_rows[place] = value
        self._draft_inserted.add(place)

    def insert_all(self, rows: Mapping[Place, bytes]) -> None:
        """Write rows that must be new."""
        self._draft_rows.update(rows)
        self._draft_inserted.update(rows)

    def delete(self, place: Place) -> None:
        """Remove a row that is there."""
        self._draft_rows[place] = None

    # --- what rows mean --------------------------------------------------------------------------------------------

    def tenant(self, tenant: str) -> TenantRow:
        """The tenant's counts."""
        row = self._draft_tenants.get(tenant) or self._tenants.get(tenant)
        return row or TenantRow.decode(tenant, self.get((tables.TENANTS, tenant.encode())))

    def set_tenant(self, tenant: str, row: TenantRow) -> None:
        """Count on. The row is written once, by `writes()`."""
        self._draft_tenants[tenant] = row

    def standing(self, tenant: str, run: str) -> Standing | None:
        """Where the run stands; None for a run without records."""
        name = (tenant, run)
        moved = self._draft_standings.get(name) or self._standings.get(name)
        if moved is not None:
            return moved
        if name not in self._before:
            self._before[name] = read_standing(tenant, run, self.get((tables.STATE, tables.run_key(tenant, run))))
        return self._before[name]

    def set_standing(self, standing: Standing) -> None:
        """The run has moved. Its state row and index rows are written once, by `writes()`."""
        self._draft_standings[standing.tenant, standing.run] = standing

    def lease(self, tenant: str, run: str) -> LeaseRow | None:
        """The run's lease row; None for a run that was never leased, or is sealed."""
        place = (tables.LEASES, tables.run_key(tenant, run))
        return LeaseRow.decode(place, run, self.get(place))

    def set_lease(self, tenant: str, run: str, row: LeaseRow | None) -> None:
        """Write the run's lease row, or remove it."""
        place = (tables.LEASES, tables.run_key(tenant, run))
        if row is not None:
            self.put(place, row.encode(place))
        elif self.get(place) is not None:
            self.delete(place)

    def check_head(self, standing: Standing) -> None:
        """Recompute the hash of the run's last record before anything is chained to it (behaviour D4)."""
        tenant, run, seq = standing.tenant, standing.run, standing.records
        place = (tables.JOURNAL, tables.record_key(tenant, run, seq))
        if place in self._draft_inserted or place in self._inserted:
            return  # this batch made it
        value = self.peek(place)
        if value is None:
            raise Corrupt("the last record is missing", run, seq)
        row = decode_row(value, run, seq)
        if chain_hash(row.prev, row.body) != row.hash:
            raise Corrupt("the hash does not cover the record's bytes", run, seq)
        if row.hash != standing.head or row.arrival != standing.last_arrival:
            raise Corrupt("the run's state does not agree with its last record", run, seq)

    # --- the result ------------------------------------------------------------------------------------------------

    def writes(self) -> Writes:
        """Everything that the batch changes, index rows included: once per run, whatever happened in between."""
        puts: dict[Place, bytes] = {}
        absent, deletes = self._inserted.copy(), set[Place]()
        for place, value in self._rows.items():
            if value is not None:
                puts[place] = value
            elif self._stored.get(place) is not None:
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


def read_standing(tenant: str, run: str, value: bytes | None) -> Standing | None:
    """The standing that a state row holds; `Corrupt` when it holds none."""
    if value is None:
        return None
    try:
        return unpack(tenant, run, value)
    except ValueError as error:
        raise Corrupt(
            f"the state row is damaged: {error}", run, None, tables.STATE, tables.run_key(tenant, run)
        ) from error
