"""The engine in memory: a dict and a sorted list of keys per table, no file system, gone when the process ends.

It is a real engine, held to the same conformance suite as the one on disk. A snapshot and a write each hold the one
lock for as long as they last, so every view is consistent.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sealbook.journal.engine.port import NOT_WRITTEN, Applied, Clock, Row, Snapshot, Traits, Work, Writes
from sealbook.journal.errors import Closed, Corrupt, ReadOnly

KEY_BYTES_MAX: Final = 511  # LMDB's limit, so that whatever fits here fits on disk
VALUE_BYTES_MAX: Final = 2**31 - 1


class MemoryEngine:
    """An engine whose rows live in this process alone.

    With `call_work_twice` every write calls `work` twice on equal views and the second answer counts, which finds a
    `work` that is not pure.
    """

    def __init__(self, *, clock: Clock, readonly: bool = False, call_work_twice: bool = False) -> None:
        self._clock = clock
        self._readonly = readonly
        self._call_work_twice = call_work_twice
        self._lock = threading.RLock()
        self._tables: dict[str, _Table] = {}
        self._version = 0
        self._closed = False

    @property
    def traits(self) -> Traits:
        """What this engine can hold."""
        return Traits(shared=False, key_bytes_max=KEY_BYTES_MAX, value_bytes_max=VALUE_BYTES_MAX)

    @property
    def readonly(self) -> bool:
        """Whether `write` is refused."""
        return self._readonly

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """A consistent view; writes of other threads wait until the block is left."""
        with self._lock:
            self._must_be_open()
            view = _View(self._tables, self._version)
            try:
                yield view
            finally:
                view.end()

    def write(self, work: Work) -> Applied:
        """Run `work` and apply what it returns: all of it, or nothing when it raises or meets damage."""
        with self._lock:
            self._must_be_open()
            if self._readonly:
                raise ReadOnly
            if self._call_work_twice:
                self._decided(work)
            try:
                writes, answers = self._decided(work)
                self._check(writes)
            except BaseException as error:
                error.add_note(NOT_WRITTEN)
                raise
            self._apply(writes)
            return Applied(answers)

    def give_way(self) -> None:
        """Nothing: no other process writes here."""

    def refuse_replaced(self) -> None:
        """Nothing: it stands nowhere."""

    def measures(self) -> dict[str, int]:
        """Nothing: memory is the process's."""
        return {}

    def close(self) -> None:
        """Drop the rows. Closing twice is harmless."""
        with self._lock:
            self._closed = True
            self._tables = {}

    def _must_be_open(self) -> None:
        if self._closed:
            raise Closed

    def _decided(self, work: Work) -> tuple[Writes, Any]:
        view = _View(self._tables, self._version)
        try:
            return work(view, self._clock())
        finally:
            view.end()

    def _check(self, writes: Writes) -> None:
        for table, key in writes.puts:
            assert 0 < len(key) <= KEY_BYTES_MAX, f"table {table}: a key of {len(key)} bytes"
        for table, key in writes.absent:
            if key in self._table(table).rows:
                raise Corrupt("a row stands where none may be", table=table, key=key)
        for table, key in writes.deletes:
            if key not in self._table(table).rows:
                raise Corrupt("the row to remove is not there", table=table, key=key)

    def _apply(self, writes: Writes) -> None:
        self._version += bool(writes)
        for table, key in writes.deletes:
            self._table(table).remove(key)
        for (table, key), value in writes.puts.items():
            self._table(table).put(key, value)

    def _table(self, name: str) -> _Table:
        return self._tables.setdefault(name, _Table())


class _Table:
    """Rows by key, and the keys in order."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.keys: list[bytes] = []

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self.rows:
            insort(self.keys, key)
        self.rows[key] = value

    def remove(self, key: bytes) -> None:
        del self.rows[key]
        del self.keys[bisect_left(self.keys, key)]


_NO_ROWS: Final = _Table()


class _View:
    """The tables as they are while the lock is held; dead once the block or the call that made it is left."""

    def __init__(self, tables: dict[str, _Table], version: int) -> None:
        self._tables: dict[str, _Table] | None = tables
        self.version = version

    def end(self) -> None:
        self._tables = None

    def get_many(self, places: Sequence[tuple[str, bytes]]) -> list[bytes | None]:
        return [self._table(table).rows.get(key) for table, key in places]

    def scan(self, table: str, lo: bytes, hi: bytes | None, limit: int, reverse: bool = False) -> list[Row]:
        rows, keys = self._table(table).rows, self._table(table).keys
        first = bisect_left(keys, lo)
        end = len(keys) if hi is None else bisect_left(keys, hi)
        limit = max(limit, 0)
        chosen = keys[max(first, end - limit) : end][::-1] if reverse else keys[first : min(end, first + limit)]
        return [(key, rows[key]) for key in chosen]

    def count(self, table: str) -> int:
        return len(self._table(table).keys)

    def _table(self, name: str) -> _Table:
        assert self._tables is not None, "a snapshot is not carried out of its block"
        return self._tables.get(name, _NO_ROWS)
