"""What Sealbook is measured beside: the floor, bare LMDB, and SQLite doing the same work.

Every peer is as durable as Sealbook: its write returns when the disk has confirmed it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import lmdb

from benchmarks.workload import EPOCH, TENANT, TTL_SECONDS
from sealbook.journal import Record
from sealbook.journal import requests as ask
from sealbook.journal.deciding.requests import Prepared
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import (
    Applied,
    Engine,
    Moment,
    Place,
    Retry,
    Snapshot,
    Traits,
    Unknown,
    Work,
    Writes,
)
from sealbook.journal.records.body import encode_body
from sealbook.journal.records.chain import GENESIS, chain_hash
from sealbook.journal.schema import tables

ROW_BYTES = 400
_FLOOR_BYTES = 16 * 2**20
_MAP_BYTES = 1 << 36


class Floor:
    """`pwrite` of 400 bytes and `fdatasync`, on a file that was written before: what no durable write can beat."""

    settings = "pwrite of 400 bytes + fdatasync on a file already written"

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.write(self._file, os.urandom(_FLOOR_BYTES))
        os.fsync(self._file)
        self._row = os.urandom(ROW_BYTES)
        self._offset = 0

    def write(self) -> None:
        """One durable write, next to the one before."""
        os.pwrite(self._file, self._row, self._offset)
        os.fdatasync(self._file)
        self._offset = (self._offset + ROW_BYTES) % (_FLOOR_BYTES - ROW_BYTES)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class OneRow:
    """LMDB with one table, one new row of 400 bytes per transaction."""

    settings = "LMDB, one put of 400 bytes per transaction, sync and metasync on"

    def __init__(self, folder: Path) -> None:
        self._env = opened(folder)
        self._table = self._env.open_db(b"rows")
        self._row = os.urandom(ROW_BYTES)
        self._number = 0

    def write(self) -> None:
        """One transaction."""
        self._number += 1
        with self._env.begin(write=True) as txn:
            txn.put(self._number.to_bytes(8, "big"), self._row, db=self._table)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class BareLmdb:
    """LMDB alone, putting rows that were encoded beforehand into Sealbook's tables."""

    settings = "LMDB, the same rows encoded beforehand, put row by row in key order, sync and metasync on"

    def __init__(self, folder: Path) -> None:
        self._env = opened(folder)
        self._tables = {name: self._env.open_db(name.encode()) for name in tables.TABLES}

    def write(self, operations: Sequence[tuple[Any, ...]]) -> None:
        """One transaction that makes these puts and deletes."""
        with self._env.begin(write=True) as txn:
            for table, key, value in operations:
                if value is None:
                    txn.delete(key, db=table)
                else:
                    txn.put(key, value, db=table)

    def operations(self, writes: Writes) -> list[tuple[Any, ...]]:
        """What `write` takes, made of the writes of one of Sealbook's transactions. Not part of what is timed."""
        rows: dict[tuple[str, bytes], bytes | None] = dict.fromkeys(writes.deletes)
        rows.update(writes.puts)
        return [(self._tables[table], key, value) for (table, key), value in sorted(rows.items())]

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def opened(folder: Path) -> Any:
    """A new environment of LMDB, durable at every commit."""
    folder.mkdir()
    return lmdb.open(
        str(folder), map_size=_MAP_BYTES, max_dbs=64, sync=True, metasync=True, writemap=False, lib_version=0
    )


class Recorder:
    """An engine in memory that keeps the writes of every transaction, for `BareLmdb` to put again."""

    def __init__(self) -> None:
        self._engine = MemoryEngine(clock=system_clock)
        self.written: list[Writes] = []

    @property
    def traits(self) -> Traits:
        """Those of the engine in memory."""
        return self._engine.traits

    @property
    def readonly(self) -> bool:
        """Never."""
        return False

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """That of the engine in memory."""
        return self._engine.snapshot()

    def write(self, work: Work) -> Applied:
        """Apply in memory what `work` decides, and keep it."""

        def decided(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
            writes, answers = work(snapshot, moment)
            self.written.append(writes)
            return writes, answers

        return self._engine.write(decided)

    def give_way(self) -> None:
        """That of the engine in memory."""
        self._engine.give_way()

    def refuse_replaced(self) -> None:
        """That of the engine in memory."""
        self._engine.refuse_replaced()

    def measures(self) -> Mapping[str, int]:
        """Those of the engine in memory."""
        return self._engine.measures()

    def close(self) -> None:
        """Close the engine in memory."""
        self._engine.close()


class Counting:
    """An engine that counts the rows which its snapshots are asked for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.rows = 0

    @property
    def traits(self) -> Traits:
        """Those of the engine below."""
        return self._engine.traits

    @property
    def readonly(self) -> bool:
        """That of the engine below."""
        return self._engine.readonly

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """One of the engine below, its rows counted."""
        with self._engine.snapshot() as snapshot:
            yield _CountingSnapshot(self, snapshot)

    def write(self, work: Work) -> Applied | Retry | Unknown:
        """That of the engine below."""
        return self._engine.write(work)

    def give_way(self) -> None:
        """That of the engine below."""
        self._engine.give_way()

    def refuse_replaced(self) -> None:
        """That of the engine below."""
        self._engine.refuse_replaced()

    def measures(self) -> Mapping[str, int]:
        """Those of the engine below."""
        return self._engine.measures()

    def close(self) -> None:
        """Close the engine below."""
        self._engine.close()


class _CountingSnapshot:
    def __init__(self, counting: Counting, snapshot: Snapshot) -> None:
        self._counting = counting
        self._snapshot = snapshot
        self.version = snapshot.version

    def get_many(self, places: Sequence[Place]) -> list[bytes | None]:
        self._counting.rows += len(places)
        return self._snapshot.get_many(places)

    def scan(
        self, table: str, lo: bytes, hi: bytes | None, limit: int, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        page = self._snapshot.scan(table, lo, hi, limit, reverse)
        self._counting.rows += len(page)
        return page

    def count(self, table: str) -> int:
        return self._snapshot.count(table)


# --- SQLite --------------------------------------------------------------------------------------------------------

SCHEMA = """
CREATE TABLE tenants (tenant TEXT PRIMARY KEY, arrivals INTEGER NOT NULL, leaves INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
  tenant TEXT NOT NULL, run TEXT NOT NULL, seq INTEGER NOT NULL, arrival INTEGER NOT NULL, prev BLOB NOT NULL,
  hash BLOB NOT NULL, "case" TEXT, body BLOB NOT NULL);
CREATE UNIQUE INDEX records_by_run ON records (tenant, run, seq);
CREATE UNIQUE INDEX records_by_arrival ON records (tenant, arrival);
CREATE INDEX records_by_case ON records (tenant, "case", run, seq) WHERE "case" IS NOT NULL;
CREATE TABLE runs (
  tenant TEXT NOT NULL, run TEXT NOT NULL, records INTEGER NOT NULL, head BLOB NOT NULL, epoch INTEGER NOT NULL,
  first_arrival INTEGER NOT NULL, last_arrival INTEGER NOT NULL, admitted_at INTEGER, updated_at INTEGER NOT NULL,
  "case" TEXT, source TEXT, last_kind TEXT NOT NULL, outcome TEXT, outcome_arrival INTEGER, waiting_seq INTEGER,
  until INTEGER, started INTEGER NOT NULL, done INTEGER NOT NULL, PRIMARY KEY (tenant, run)) WITHOUT ROWID;
CREATE INDEX runs_by_outcome ON runs (tenant, outcome, outcome_arrival) WHERE outcome IS NOT NULL;
CREATE INDEX runs_waiting ON runs (tenant, until, run) WHERE waiting_seq IS NOT NULL;
CREATE INDEX runs_by_activity ON runs (tenant, last_arrival);
CREATE INDEX runs_by_source ON runs (tenant, source, last_arrival) WHERE source IS NOT NULL;
CREATE TABLE leases (
  tenant TEXT NOT NULL, run TEXT NOT NULL, epoch INTEGER NOT NULL, owner TEXT, expires_at INTEGER,
  PRIMARY KEY (tenant, run)) WITHOUT ROWID;
CREATE TABLE effects (
  tenant TEXT NOT NULL, run TEXT NOT NULL, key BLOB NOT NULL, attempt INTEGER NOT NULL, recovery TEXT NOT NULL,
  status TEXT NOT NULL, start_seq INTEGER NOT NULL, end_seq INTEGER, PRIMARY KEY (tenant, run, key)) WITHOUT ROWID;
CREATE TABLE admissions (
  tenant TEXT NOT NULL, source TEXT NOT NULL, id TEXT NOT NULL, run TEXT NOT NULL,
  PRIMARY KEY (tenant, source, id)) WITHOUT ROWID;
"""
_GET_RUN = """
SELECT records, head, first_arrival, admitted_at, "case", source, last_kind, outcome, outcome_arrival, started, done
FROM runs WHERE tenant = ? AND run = ?"""
_SET_RUN = f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * 18)})"
_LINEAGE = bytes(16)


class Sqlite:
    """A journal as one would write it on SQLite: the same tables, indexes, rules and chain, tenants apart.

    What is not storage is done by Sealbook's own functions, so that the engines are compared: entries are checked and
    encoded, a run's last record is read and its hash recomputed, and the records are returned.
    """

    settings = "SQLite, WAL, synchronous=FULL, same tables, indexes, checks and chain, one commit"

    def __init__(self, path: Path) -> None:
        self._db: Any = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(SCHEMA)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def acquire(self, runs: Sequence[str]) -> None:
        """Lease these runs to one owner, in one transaction."""
        expires_at = int((time.time() + TTL_SECONDS) * 1000)
        leases = [(TENANT, run, EPOCH, "worker-1", expires_at) for run in runs]
        with self._transaction():
            self._db.executemany("INSERT INTO leases VALUES (?, ?, ?, ?, ?)", leases)

    def append(self, requests: Sequence[ask.Append], *, apart: bool = False) -> list[list[Record]]:
        """Append the entries of these requests in one transaction; `apart`, so that each could be refused alone."""
        db = self._db
        with self._transaction():
            at = time.time_ns() // 1_000_000
            counts = db.execute("SELECT arrivals, leaves FROM tenants WHERE tenant = ?", (TENANT,)).fetchone()
            arrivals, leaves = counts or (0, 0)
            answers = []
            for request in requests:
                if apart:
                    db.execute("SAVEPOINT request")
                answers.append(self._append(request, at, arrivals))
                if apart:
                    db.execute("RELEASE request")
                arrivals += len(request.entries)
            db.execute("INSERT OR REPLACE INTO tenants VALUES (?, ?, ?)", (TENANT, arrivals, leaves))
            return answers

    def _append(self, request: ask.Append, at: int, arrival: int) -> list[Record]:
        db, run = self._db, request.run
        lease = db.execute("SELECT epoch FROM leases WHERE tenant = ? AND run = ?", (TENANT, run)).fetchone()
        assert lease == (request.epoch,)
        state = db.execute(_GET_RUN, (TENANT, run)).fetchone()
        if state is None:
            state = (0, GENESIS, arrival + 1, at, None, None, "", None, None, 0, 0)
        else:
            self._check_last(run, *state[:2])
        seq, prev, first, admitted_at, case, source, kind, outcome, outcome_arrival, started, done = state
        waiting_seq = until = None
        records: list[Record] = []
        for entry in request.entries:
            assert kind != "RunConcluded"
            seq, arrival, kind = seq + 1, arrival + 1, entry.kind
            case, waiting_seq, until, attempt = case or entry.case, None, None, None
            if entry.source is not None:
                source = entry.source
                db.execute("INSERT INTO admissions VALUES (?, ?, ?, ?)", (TENANT, source, entry.id, run))
            elif kind == "EffectStarted":
                attempt, started = self._start_effect(run, entry, seq), started + 1
            elif kind == "EffectDone":
                attempt, done = self._end_effect(run, entry, seq), done + 1
            elif kind == "RunSuspended":
                waiting_seq, until = seq, entry.until
            elif kind == "RunConcluded":
                outcome, outcome_arrival = entry.outcome, arrival
            salt = request.salt if seq == 1 else None
            body = encode_body(
                v=1,
                tenant=TENANT,
                run=run,
                seq=seq,
                epoch=EPOCH,
                at=at,
                kind=kind,
                data=entry.data,
                case=entry.case,
                effect=entry.effect,
                attempt=attempt,
                journal=None if salt is None else _LINEAGE,
                salt=salt,
            )
            hash_ = chain_hash(prev, body)
            named = (TENANT, run, seq, arrival, EPOCH, at, kind, 1, entry.case, entry.effect, attempt, entry.plain)
            records.append(Record(*named, prev, hash_, None, None, salt, body))
            prev = hash_
        db.executemany(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(TENANT, run, item.seq, item.arrival, item.prev, item.hash, item.case, item.body) for item in records],
        )
        stood = (TENANT, run, seq, prev, EPOCH, first, arrival, admitted_at, at, case, source, kind)
        db.execute(_SET_RUN, (*stood, outcome, outcome_arrival, waiting_seq, until, started, done))
        return records

    def _check_last(self, run: str, seq: int, head: bytes) -> None:
        query = "SELECT prev, hash, body FROM records WHERE tenant = ? AND run = ? AND seq = ?"
        prev, hash_, body = self._db.execute(query, (TENANT, run, seq)).fetchone()
        assert chain_hash(prev, body) == hash_ == head

    def _start_effect(self, run: str, entry: Prepared, seq: int) -> int:
        assert self._effect(run, entry) is None
        values = (TENANT, run, entry.effect, 1, entry.recovery, "started", seq)
        self._db.execute("INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", values)
        return 1

    def _end_effect(self, run: str, entry: Prepared, seq: int) -> int:
        attempt, status = self._effect(run, entry)
        assert status == "started"
        query = "UPDATE effects SET status = ?, end_seq = ? WHERE tenant = ? AND run = ? AND key = ?"
        self._db.execute(query, ("done", seq, TENANT, run, entry.effect))
        return int(attempt)

    def _effect(self, run: str, entry: Prepared) -> Any:
        query = "SELECT attempt, status FROM effects WHERE tenant = ? AND run = ? AND key = ?"
        return self._db.execute(query, (TENANT, run, entry.effect)).fetchone()

    def close(self) -> None:
        """Close the database."""
        self._db.close()
