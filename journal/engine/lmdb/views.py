"""A transaction, as a snapshot to read from and, for the writer, to put through."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import lmdb

from sealbook.journal.engine.lmdb.failures import failure_of
from sealbook.journal.engine.port import Place, Row, Writes
from sealbook.journal.errors import Corrupt, OpenedBeforeFork

Handles = Mapping[str, Any]  # a table's name -> LMDB's handle for it


FORKED: Final = "the store was opened before this process was forked: open it anew here"


class TablesMissing(Exception):
    """The writes need tables that the store does not have yet."""

    def __init__(self, names: set[str]) -> None:
        self.names = names


class EngineView:
    """A transaction, as a snapshot to read from; the writer also puts through it. Dead after `end`."""

    __slots__ = ("_handles", "_pid", "txn", "version")

    def __init__(self, txn: Any, handles: Handles, pid: int, version: int) -> None:
        self.txn, self._handles, self._pid, self.version = txn, handles, pid, version

    def get_many(self, places: Sequence[Place]) -> list[bytes | None]:
        get, handle_of = self._live().get, self._handles.get
        found: list[bytes | None] = []
        try:
            for table, key in places:
                handle = handle_of(table)
                found.append(None if handle is None or not key else get(key, None, handle))
        except lmdb.Error as error:
            raise failure_of(error) from error
        return found

    def scan(self, table: str, lo: bytes, hi: bytes | None, limit: int, reverse: bool = False) -> list[Row]:
        txn, handle = self._live(), self._handles.get(table)
        if handle is None or limit <= 0:
            return []
        try:
            cursor = txn.cursor(handle)
            return _page_down(cursor, lo, hi, limit) if reverse else _page_up(cursor, lo, hi, limit)
        except lmdb.Error as error:
            raise failure_of(error) from error

    def count(self, table: str) -> int:
        txn, handle = self._live(), self._handles.get(table)
        try:
            return 0 if handle is None else int(txn.stat(handle)["entries"])
        except lmdb.Error as error:
            raise failure_of(error) from error

    def pages(self, pages: int, file_bytes: int) -> dict[str, int]:
        """How many of so many pages each table has, and how many none has."""
        txn = self._live()
        stats = {"": txn.stat()} | {name: txn.stat(handle) for name, handle in self._handles.items()}
        used = {
            name: stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] + 2 * (name == "")
            for name, stat in stats.items()
        }
        return {
            "page_bytes": stats[""]["psize"],
            "file_bytes": file_bytes,
            "pages": pages,
            "free_pages": max(0, pages - sum(used.values())),
            **{f"pages.{name}": count for name, count in used.items()},
        }

    def put(self, writes: Writes) -> None:
        """Put and delete, in key order, as one pass over each table; `Corrupt` where a row contradicts the writes."""
        handles, txn = self._handles, self._live()
        put, puts, absent = txn.put, writes.puts, writes.absent
        if missing := {table for table, _ in puts} - handles.keys():
            raise TablesMissing(missing)
        for place in sorted(writes.deletes):
            table, key = place
            if table not in handles or not txn.delete(key, b"", handles[table]):
                raise Corrupt("the row to remove is not there", table=table, key=key)
        for place in sorted(puts):
            table, key = place
            try:
                done = put(key, puts[place], True, place not in absent, False, handles[table])
            except lmdb.BadValsizeError as error:
                raise AssertionError(f"table {table}: a key of {len(key)} bytes") from error
            if not done:
                raise Corrupt("a row stands where none may be", table=table, key=key)

    def end(self) -> None:
        """Abort what is not committed, and free the reader's slot. In a forked child the parent's is left alone."""
        txn, self.txn = self.txn, None
        if txn is not None and os.getpid() == self._pid:
            txn.abort()

    def _live(self) -> Any:
        if os.getpid() != self._pid:
            raise OpenedBeforeFork(FORKED)
        assert self.txn is not None, "a snapshot is not carried out of its block"
        return self.txn


def _page_up(cursor: Any, lo: bytes, hi: bytes | None, limit: int) -> list[Row]:
    page: list[Row] = []
    if cursor.set_range(lo) if lo else cursor.first():
        for row in cursor.iternext():
            if hi is not None and row[0] >= hi:
                break
            page.append(row)
            if len(page) == limit:
                break
    return page


def _page_down(cursor: Any, lo: bytes, hi: bytes | None, limit: int) -> list[Row]:
    page: list[Row] = []
    if hi is None:
        found = cursor.last()
    elif not hi:
        found = False
    else:
        found = cursor.prev() if cursor.set_range(hi) else cursor.last()
    if found:
        for row in cursor.iterprev():
            if row[0] < lo:
                break
            page.append(row)
            if len(page) == limit:
                break
    return page
