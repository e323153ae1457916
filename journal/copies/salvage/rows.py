"""Gather what is left of a damaged store, and decide what of it can be one store again.

- Rule 1: a row counts if it proves itself: a record by its hash and its place, a kept checkpoint by its checksum, a
  signer's key by its name, a leaf by the record that it attests. All that is derived is left where it is.
- Rule 2: a run is kept up to its first record that is missing, cannot be believed or does not follow.
- Rule 3: arrivals have no gaps, so the records behind a lost one are numbered anew, in their order.

Of the logs, `log` decides. What was gathered stands in a database of SQLite without a name, so that memory is
bounded whatever the store holds.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sealbook.indexes.standing import unpack
from sealbook.journal.bundle.frames import KeptNote, read_note
from sealbook.journal.bundle.records import believe
from sealbook.journal.bundle.scratch import Scratch, nameless_database
from sealbook.journal.copies.salvage.pages import SalvagedFile, SalvagedRow
from sealbook.journal.errors import Corrupt, Refused, UnknownVersion
from sealbook.journal.records import names
from sealbook.journal.records.chain import GENESIS, run_tag
from sealbook.journal.records.names import RESTORATION, STORE_LOG
from sealbook.journal.records.row import Row, decode_row
from sealbook.journal.records.signatures import verify_signature
from sealbook.journal.records.versions import IdentityUpcaster, Upcaster
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import BatchRow, CheckpointRow, LeaseRow, StoreRow, TenantRow, signer_fault
from sealbook.merkle.entry import LeafEntry
from sealbook.merkle.errors import Malformed

WANTED = (  # in this order: what others are counted by comes first
    *(tables.STORE, tables.TENANTS, tables.SIGNERS, tables.LEASES, tables.STATE),
    *(tables.JOURNAL, tables.LEAVES, tables.BATCHES, tables.CHECKPOINTS),
)
ARRIVAL_MAX = 2**63 - 1
OPEN, RESUMABLE, FINAL = range(3)  # what a record leaves of its run: open; concluded, and anchored at once; ended
CACHE_KIB = 16_384
_HEAD = struct.Struct(">Q32s?")

_SCHEMA = """
CREATE TABLE records (tenant TEXT, arrival INT, run TEXT, seq INT, prev BLOB, hash BLOB, salt BLOB, lineage BLOB,
    signer BLOB, ends INT, at INT, size INT, loose INT, PRIMARY KEY (tenant, arrival)) WITHOUT ROWID;
CREATE TABLE kept (tenant TEXT, number INT, arrival INT, run TEXT, seq INT, hash BLOB, ends INT, at INT, size INT,
    PRIMARY KEY (tenant, number)) WITHOUT ROWID;
CREATE UNIQUE INDEX by_run ON kept (tenant, run, seq);
CREATE TABLE tags (tenant TEXT, tag BLOB, run TEXT, attested INT, sealed INT, PRIMARY KEY (tenant, tag)) WITHOUT ROWID;
CREATE TABLE counted (tenant TEXT, run TEXT, records INT, PRIMARY KEY (tenant, run)) WITHOUT ROWID;
CREATE TABLE leaves (tenant TEXT, number INT, entry BLOB, PRIMARY KEY (tenant, number)) WITHOUT ROWID;
CREATE TABLE batches (tenant TEXT, number INT, place INT, entry BLOB, run TEXT,
    PRIMARY KEY (tenant, number, place)) WITHOUT ROWID;
CREATE TABLE notes (tenant TEXT, size INT, state INT, note BLOB, PRIMARY KEY (tenant, size)) WITHOUT ROWID;
CREATE TABLE log (tenant TEXT, due INT, place INT, old INT, entry BLOB, run TEXT);
CREATE INDEX log_order ON log (tenant, due, place);
CREATE INDEX log_entry ON log (tenant, run, entry);
"""


@dataclass(slots=True)
class Salvage:
    """What was gathered from a data file."""

    file: SalvagedFile
    upcaster: Upcaster = field(default_factory=IdentityUpcaster)
    lineage: bytes | None = None
    restoration: int = 0
    unbelieved: int = 0
    """Rows that stand in a table of records, leaves or checkpoints and do not prove themselves."""
    signers: dict[bytes, bytes] = field(default_factory=dict)
    tenants: dict[str, TenantRow | None] = field(default_factory=dict)
    cuts: dict[tuple[str, str], int] = field(default_factory=dict)
    """Runs that end before this record whatever it is: it was found to break a rule."""
    db: sqlite3.Connection = field(init=False)

    def __post_init__(self) -> None:
        self.db = nameless_database(CACHE_KIB)
        self.db.executescript(_SCHEMA)

    def close(self) -> None:
        """Forget everything."""
        self.db.close()
        self.file.close()

    # --- gathering ---------------------------------------------------------------------------------------------------

    def gather(self) -> None:
        """Read the file once, by Rule 1. `UnknownVersion` when a record is of a newer version."""
        self.db.execute("BEGIN")
        for found in self.file.rows(WANTED):
            for table in WANTED if found.table is None else (found.table,):
                if self._believed(table, found):
                    break
            else:
                self.unbelieved += found.table is not None
        self.db.execute("COMMIT")
        self._settle()

    def _believed(self, table: str, found: SalvagedRow) -> bool:
        """Take the row if it is one of this table; those of no known table are taken only by what proves itself."""
        try:
            taken: bool = getattr(self, f"_take_{table}")(found)
        except (Corrupt, Refused, Malformed, ValueError, IndexError, OverflowError, struct.error):
            return False
        return taken

    def _take_store(self, found: SalvagedRow) -> bool:
        if found.key != tables.STORE_PLACE[1]:
            return False
        row = StoreRow.decode(found.value)
        self.lineage = self.lineage or row.lineage_id
        self.restoration = max(self.restoration, row.restoration)
        return True

    def _take_tenants(self, found: SalvagedRow) -> bool:
        if found.table is None:
            return False  # a count of an earlier day looks like one of today
        name = found.key.decode()
        row = TenantRow.decode(name, found.value)
        self.tenants[name if name == STORE_LOG else names.check_tenant(name)] = row
        return True

    def _take_signers(self, found: SalvagedRow) -> bool:
        if signer_fault(found.key, found.value) is not None:
            return False
        self.signers[found.key] = found.value
        return True

    def _take_leases(self, found: SalvagedRow) -> bool:
        if found.table is None:
            return False
        run = names.check_run(tables.split_run_key(found.key)[1])
        row = LeaseRow.decode((tables.LEASES, found.key), run, found.value)
        assert row is not None
        self.restoration = max(self.restoration, row.epoch // RESTORATION)
        return True

    def _take_state(self, found: SalvagedRow) -> bool:
        if found.table is None:
            return False
        tenant, run = tables.split_run_key(found.key)
        standing = unpack(names.check_tenant(tenant), names.check_run(run), found.value)
        self.put("counted", tenant, run, standing.records)
        return True

    def _take_journal(self, found: SalvagedRow) -> bool:
        tenant, arrival = tables.split_number_key(found.key)
        row = decode_row(found.value, None, None)
        counts = self.tenants.get(tenant)
        beyond = found.table is None and counts is not None and arrival > counts.arrivals
        if row.arrival != arrival or not 1 <= arrival <= ARRIVAL_MAX or beyond:
            return False
        record = believe(row, names.check_tenant(tenant), self.upcaster)
        if record.record is None:
            what = "a record is of a newer version: recover with a newer build"
            raise UnknownVersion(what, record.run, record.seq)
        ends = FINAL if record.final else RESUMABLE if record.record.kind == "RunConcluded" else OPEN
        self.put(
            "records",
            *(tenant, arrival, record.run, record.seq, row.prev, row.hash, record.salt, record.lineage),
            *(record.signer, ends, found.offset, len(found.value), found.table is None),
        )
        self.tenants.setdefault(tenant, None)
        return True

    def _take_leaves(self, found: SalvagedRow) -> bool:
        tenant, number = self._number(found)
        if tenant != STORE_LOG:
            LeafEntry.decode(found.value)
            self.put("leaves", tenant, number, found.value)
        return True

    def _take_batches(self, found: SalvagedRow) -> bool:
        tenant, number, place = tables.split_batch_key(found.key)
        row = BatchRow.decode(found.value)
        self.put("batches", names.check_tenant(tenant), number, place, row.entry.encode(), names.check_run(row.run))
        return True

    def _take_checkpoints(self, found: SalvagedRow) -> bool:
        tenant, size = self._number(found)
        row = CheckpointRow.decode((tables.CHECKPOINTS, found.key), found.value)
        assert row is not None
        if tenant != STORE_LOG:
            read_note(KeptNote(size, row.state, row.note))
            self.put("notes", tenant, size, int(row.state), row.note)
        return True

    @staticmethod
    def _number(found: SalvagedRow) -> tuple[str, int]:
        tenant, number = tables.split_number_key(found.key)
        if number > ARRIVAL_MAX:
            raise ValueError("the number is beyond any store's")
        return tenant if tenant == STORE_LOG else names.check_tenant(tenant), number

    def put(self, table: str, *row: Any) -> None:
        """Keep a row, unless one has its place: what stands in a tree came first, and stays."""
        places = ",".join("?" * len(row))
        self.db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({places})", row)  # names of our own

    def _settle(self) -> None:
        """The lineage, where no row says it, is that of most runs."""
        self.tenants.pop(STORE_LOG, None)
        for (name,) in self.db.execute("SELECT tenant FROM counted UNION SELECT tenant FROM leaves"):
            self.tenants.setdefault(name, None)
        if self.lineage is None:
            query = "SELECT lineage FROM records WHERE seq = 1 GROUP BY lineage ORDER BY count(*) DESC LIMIT 1"
            row = self.db.execute(query).fetchone()
            self.lineage = None if row is None else row[0]

    # --- records: Rules 2 and 3 --------------------------------------------------------------------------------------

    def chain(self, tenant: str) -> int:
        """Decide which of the tenant's records are kept; how many."""
        for table in ("kept", "tags", "log"):
            self.db.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))  # names of our own
        heads, number = Scratch(), 0
        query = (
            "SELECT arrival, run, seq, prev, hash, salt, lineage, signer, ends, at, size FROM records"
            " WHERE tenant = ? ORDER BY arrival"
        )
        self.db.execute("BEGIN")
        for arrival, run, seq, prev, hash_, salt, lineage, signer, ends, at, size in self.db.execute(query, (tenant,)):
            name = run.encode()
            last, head, ended = _HEAD.unpack(heads.get(name) or _HEAD.pack(0, GENESIS, False))
            if (
                not ended
                and (seq, prev) == (last + 1, head)
                and seq < self.cuts.get((tenant, run), seq + 1)
                and (seq > 1 or lineage == self.lineage)
                and (signer is None or self._signed(signer, at, size))
            ):
                number += 1
                self.put("kept", tenant, number, arrival, run, seq, hash_, ends, at, size)
                if salt is not None:
                    self.put("tags", tenant, run_tag(salt, tenant, run), run, 0, 0)
                heads.put(name, _HEAD.pack(seq, hash_, ends == FINAL))
            else:
                heads.put(name, _HEAD.pack(last, head, True))
        self.db.execute("COMMIT")
        heads.close()
        return number

    def _signed(self, signer: bytes, at: int, size: int) -> bool:
        key, row = self.signers.get(signer), decode_row(self.file.at(at, size), None, None)
        return key is not None and row.signature is not None and verify_signature(key[1:], row.hash, row.signature)

    def kept(self, tenant: str) -> Iterator[tuple[Row, int, bytes | None]]:
        """(row, seq, signer) of the records that are kept, in their order and under their new arrivals."""
        query = """
            SELECT number, kept.at, kept.size, kept.seq, signer FROM kept JOIN records USING (tenant, arrival)
            WHERE tenant = ? ORDER BY number"""
        for number, at, size, seq, signer in self.db.execute(query, (tenant,)):
            row = decode_row(self.file.at(at, size), None, None)
            yield Row(number, row.prev, row.hash, row.signature, row.body), seq, signer

    def lost_arrivals(self, tenant: str) -> Iterator[tuple[int, int]]:
        """The arrivals whose records are not kept, as (first, last)."""
        counts, expected = self.tenants.get(tenant), 1
        [top] = self.db.execute("SELECT coalesce(max(arrival), 0) FROM records WHERE tenant = ?", (tenant,)).fetchone()
        top = max(top, 0 if counts is None else counts.arrivals)
        for (arrival,) in self.db.execute("SELECT arrival FROM kept WHERE tenant = ? ORDER BY number", (tenant,)):
            if arrival > expected:
                yield expected, arrival - 1
            expected = arrival + 1
        if expected <= top:
            yield expected, top

    def lost_runs(self, tenant: str) -> Iterator[tuple[str, int, int]]:
        """(run, records kept, records that it is known to have had) of the runs that are shorter than they were."""
        query = """
            SELECT run, max(was),
                coalesce((SELECT max(seq) FROM kept WHERE kept.tenant = :tenant AND kept.run = all_.run), 0)
            FROM (SELECT run, max(seq) AS was FROM records WHERE tenant = :tenant GROUP BY run
                  UNION ALL SELECT run, records FROM counted WHERE tenant = :tenant) AS all_
            GROUP BY run ORDER BY run"""
        for run, was, kept in self.db.execute(query, {"tenant": tenant}):
            if kept < was:
                yield run, kept, was

    def loose(self, tenant: str) -> int:
        """How many of the records that are kept were found outside of the tables."""
        query = "SELECT count(*) FROM kept JOIN records USING (tenant, arrival) WHERE tenant = ? AND loose"
        return int(self.db.execute(query, (tenant,)).fetchone()[0])
