"""What is remembered of each run while a bundle streams by, in bounded memory however many runs there are.

The newest entries stand in memory. When they are too many, they move into a database of SQLite without a name, which
SQLite keeps in a temporary file and removes with the connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from blake3 import blake3

HELD_MAX = 50_000  # entries, at some 300 bytes each
CACHE_KIB = 4096
KEY_BYTES = 16


class Scratch:
    """A map from names to short byte strings."""

    def __init__(self, held_max: int = HELD_MAX) -> None:
        self._held: dict[bytes, bytes] = {}
        self._held_max = held_max
        self._moved: sqlite3.Connection | None = None

    def get(self, name: bytes) -> bytes | None:
        """The value under this name; None where there is none."""
        key = _key(name)
        value = self._held.get(key)
        if value is None and self._moved is not None:
            row = self._moved.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
            value = None if row is None else row[0]
        return value

    def put(self, name: bytes, value: bytes) -> None:
        """Let this value stand under the name."""
        self._held[_key(name)] = value
        if len(self._held) > self._held_max:
            self._move()

    def values(self) -> Iterator[bytes]:
        """Every value, in the order of their bytes."""
        if self._moved is None:
            yield from sorted(self._held.values())
            return
        self._move()
        for row in self._moved.execute("SELECT value FROM entries ORDER BY value"):
            yield row[0]

    def close(self) -> None:
        """Forget everything."""
        self._held.clear()
        if self._moved is not None:
            self._moved.close()
            self._moved = None

    def _move(self) -> None:
        if self._moved is None:
            self._moved = nameless_database(CACHE_KIB)
            self._moved.execute("CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        self._moved.execute("BEGIN")
        self._moved.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", sorted(self._held.items()))
        self._moved.execute("COMMIT")
        self._held.clear()


def nameless_database(cache_kib: int) -> sqlite3.Connection:
    """A database in a temporary file without a name, which goes with the connection."""
    database = sqlite3.connect("", isolation_level=None)
    for pragma in (f"cache_size = -{cache_kib}", "journal_mode = OFF", "synchronous = OFF", "temp_store = FILE"):
        database.execute(f"PRAGMA {pragma}")
    return database


def _key(name: bytes) -> bytes:
    return blake3(name).digest(KEY_BYTES)
