"""The layout that one writes first: a table for everything, and a reverse row for every index row. The baseline.

The same rules, checks, chain and durability as Sealbook's, one LMDB transaction per append. Each fact of a run has a
table of its own; an index row is found again, to be removed, through a reverse row; a record stands under its run, and
its arrival points at it.
"""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Any

from benchmarks.peers import opened
from benchmarks.workload import EPOCH, TENANT
from sealbook.indexes.packing import i64, text, u64
from sealbook.journal import Record
from sealbook.journal import requests as ask
from sealbook.journal.deciding.requests import Prepared
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.records.body import encode_body
from sealbook.journal.records.chain import GENESIS, chain_hash

TABLES = (
    *("records", "arrivals", "counters", "heads", "leases", "effects", "effect_counts", "admissions"),
    *("by_case", "by_outcome", "by_activity", "by_source", "waiting", "reverse", "facts"),
)
_EFFECT = struct.Struct("<QBQQ")
_COUNTS = struct.Struct("<QQ")
_LINEAGE = bytes(16)
_WAIT_WITHOUT_END = 2**62


class Naive:
    """A journal in fifteen tables. May be called from many threads; each append commits for itself."""

    settings = "LMDB, 15 tables with reverse index rows, one commit per append, sync and metasync on"

    def __init__(self, folder: Path) -> None:
        self._env = opened(folder)
        self._tables = {name: self._env.open_db(name.encode()) for name in TABLES}
        self._lock = threading.Lock()
        self._prefix = text(TENANT)

    def acquire(self, runs: list[str]) -> None:
        """Lease these runs to one owner, in one transaction."""
        with self._lock, self._env.begin(write=True) as txn:
            for run in runs:
                txn.put(self._run(run), u64(EPOCH) + b"worker-1", db=self._tables["leases"])

    def fill(self, requests: list[ask.Append]) -> None:
        """Append many in one transaction, as a store is filled. Not part of what is timed."""
        with self._lock, self._env.begin(write=True) as txn:
            for request in requests:
                self._append(txn, request)

    def append(self, request: ask.Append) -> list[Record]:
        """Append the entries of this request, durably."""
        with self._lock, self._env.begin(write=True) as txn:
            return self._append(txn, request)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _append(self, txn: Any, request: ask.Append) -> list[Record]:
        run = request.run
        key = self._run(run)
        at = system_clock().wall_ms
        lease = txn.get(key, db=self._tables["leases"])
        assert lease is not None and lease[:8] == u64(EPOCH)
        head = txn.get(key, db=self._tables["heads"])
        seq, prev = (0, GENESIS) if head is None else (int.from_bytes(head[:8]), head[8:])
        if seq:
            row = txn.get(key + b"\0" + u64(seq), db=self._tables["records"])
            assert chain_hash(row[8:40], row[72:]) == row[40:72] == prev
        counter = txn.get(TENANT.encode(), db=self._tables["counters"])
        arrival = 0 if counter is None else int.from_bytes(counter)
        answers = []
        for entry in request.entries:
            seq, arrival = seq + 1, arrival + 1
            attempt = self._effect(txn, key, entry, seq)
            body = encode_body(
                v=1,
                tenant=TENANT,
                run=run,
                seq=seq,
                epoch=EPOCH,
                at=at,
                kind=entry.kind,
                data=entry.data,
                case=entry.case,
                effect=entry.effect,
                attempt=attempt,
                journal=_LINEAGE if seq == 1 else None,
                salt=request.salt if seq == 1 else None,
            )
            hash_ = chain_hash(prev, body)
            put = txn.put
            put(key + b"\0" + u64(seq), u64(arrival) + prev + hash_ + body, db=self._tables["records"])
            put(self._prefix + u64(arrival), text(run) + u64(seq), db=self._tables["arrivals"])
            put(key, u64(seq) + hash_, db=self._tables["heads"])
            put(TENANT.encode(), u64(arrival), db=self._tables["counters"])
            if entry.case is not None:
                put(self._prefix + text(entry.case) + key + u64(seq), b"", db=self._tables["by_case"])
            self._index(txn, key, entry, seq, arrival, at)
            salt = request.salt if seq == 1 else None
            named = (TENANT, run, seq, arrival, EPOCH, at, entry.kind, 1, entry.case, entry.effect, attempt)
            answers.append(Record(*named, entry.plain, prev, hash_, None, None, salt, body))
            prev = hash_
        return answers

    def _index(self, txn: Any, key: bytes, entry: Prepared, seq: int, arrival: int, at: int) -> None:
        """Move the run in every index that the record moves it in."""
        if entry.source is not None:
            assert entry.id is not None
            holder = self._prefix + text(entry.source) + entry.id.encode()
            assert txn.put(holder, key, overwrite=False, db=self._tables["admissions"])
            txn.put(key, text(entry.source) + i64(at), db=self._tables["facts"])
        fact = txn.get(key, db=self._tables["facts"])
        self._move(txn, "by_activity", key, self._prefix + u64(arrival))
        if fact is not None:
            self._move(txn, "by_source", key, self._prefix + fact[: fact.index(b"\0") + 1] + u64(arrival))
        until = None
        if entry.kind == "RunSuspended":
            until = self._prefix + i64(_WAIT_WITHOUT_END if entry.until is None else entry.until) + key
        if entry.kind != "Note":
            self._move(txn, "waiting", key, until)
        if entry.outcome is not None:
            self._move(txn, "by_outcome", key, self._prefix + text(entry.outcome) + u64(arrival))

    def _move(self, txn: Any, table: str, key: bytes, place: bytes | None) -> None:
        """Let the run's row in this index be this one, or none."""
        reverse = table.encode() + b"\0" + key
        before = txn.get(reverse, db=self._tables["reverse"])
        if before is not None:
            txn.delete(before, db=self._tables[table])
            txn.delete(reverse, db=self._tables["reverse"])
        if place is not None:
            txn.put(place, key, db=self._tables[table])
            txn.put(reverse, place, db=self._tables["reverse"])

    def _effect(self, txn: Any, key: bytes, entry: Prepared, seq: int) -> int | None:
        """Start or end the entry's effect; the attempt."""
        if entry.effect is None:
            return None
        place, effects = key + b"\0" + entry.effect, self._tables["effects"]
        found = txn.get(place, db=effects)
        counted = txn.get(key, db=self._tables["effect_counts"])
        started, done = (0, 0) if counted is None else _COUNTS.unpack(counted)
        if entry.kind == "EffectStarted":
            assert found is None
            txn.put(place, _EFFECT.pack(1, 1, seq, 0), db=effects)
            started += 1
        else:
            attempt, status, start, _ = _EFFECT.unpack(found)
            assert (attempt, status) == (1, 1)
            txn.put(place, _EFFECT.pack(1, 2, start, seq), db=effects)
            done += 1
        txn.put(key, _COUNTS.pack(started, done), db=self._tables["effect_counts"])
        return 1

    def _run(self, run: str) -> bytes:
        return self._prefix + run.encode()
