"""What a monitor remembers: one file, a database of SQLite, with every leaf and the last checkpoint of each log.

A visit is one transaction of it, so that it counts whole or not at all, and two visits at a time are none.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sealbook.journal.errors import Busy, EngineFailed
from sealbook.journal.keys.private_files import PRIVATE_MODE
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.hashing import HASH_BYTES
from sealbook.merkle.monitor import Leaf, LeafRules, decode_leaf
from sealbook.merkle.tenant_head import TenantHead

APPLICATION_ID = 0x5EA1B00C  # of the SQLite file
STATE_VERSION = 2

_SCHEMA = """
CREATE TABLE logs (
    log INTEGER PRIMARY KEY, origin TEXT NOT NULL, size INTEGER NOT NULL, root BLOB NOT NULL, peaks BLOB NOT NULL,
    note BLOB NOT NULL
);
CREATE TABLE leaves (
    log INTEGER NOT NULL, position INTEGER NOT NULL, tag BLOB, leaf BLOB NOT NULL, PRIMARY KEY (log, position)
) WITHOUT ROWID;
CREATE INDEX newest ON leaves (log, tag, position);
CREATE TABLE monitored (log INTEGER NOT NULL, tag BLOB NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (log, tag))
    WITHOUT ROWID;
"""
# Left to itself SQLite walks the primary key backwards, which is in the order that is asked for: a log's length.
_BY_TAG = "FROM leaves INDEXED BY newest"


@dataclass(frozen=True, slots=True)
class Remembered:
    """A log as it was at the last visit."""

    number: int
    checkpoint: Checkpoint
    peaks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest leaf of a tag below `size`."""

    position: int
    size: int
    leaf: Leaf


class MonitorState:
    """The file of a monitor, for the length of one visit."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[MonitorState]:
        """The state in this file, which comes into being. What is done within counts when nothing is raised.

        The file is its owner's alone: who may write it decides what counts as seen."""
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE))
            database = sqlite3.connect(path, isolation_level=None, timeout=5)
        except OSError as error:
            raise EngineFailed(f"{path}: {error.strerror}") from error
        except sqlite3.Error as error:
            raise EngineFailed(f"{path}: {error}") from error
        try:
            with database:
                database.execute("BEGIN EXCLUSIVE")
                state = cls(database)
                state._prepare(path)
                yield state
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise Busy(f"{path} is in use by another monitor") from error
            raise EngineFailed(f"{path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise VerificationError(f"{path} is not the state of a monitor, or is damaged: {error}") from error
        finally:
            database.close()

    def _prepare(self, path: Path) -> None:
        [application] = self._database.execute("PRAGMA application_id").fetchone()
        [version] = self._database.execute("PRAGMA user_version").fetchone()
        tables = self._database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if not tables and not application:
            for statement in _SCHEMA.split(";"):
                self._database.execute(statement)
            self._database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._database.execute(f"PRAGMA user_version = {STATE_VERSION}")
        elif (application, version) != (APPLICATION_ID, STATE_VERSION):
            raise VerificationError(f"{path} is not the state of a monitor that this build knows")

    def latest(self) -> Remembered | None:
        """The log that is followed; None before the first visit."""
        row = self._database.execute("SELECT log, origin, size, root, peaks FROM logs ORDER BY log DESC").fetchone()
        if row is None:
            return None
        number, origin, size, root, peaks = row
        hashes = tuple(peaks[start : start + HASH_BYTES] for start in range(0, len(peaks), HASH_BYTES))
        return Remembered(number, Checkpoint(origin, size, root), hashes)

    def rules(self, number: int) -> LeafRules:
        """The rules as they stand after the leaves that are remembered."""
        query = "SELECT leaf FROM leaves WHERE log = ? AND"
        first = self._database.execute(f"{query} position = 0", (number,)).fetchone()
        untagged = f"{_BY_TAG} WHERE log = ? AND tag IS NULL ORDER BY position DESC"
        last = self._database.execute(f"SELECT leaf {untagged}", (number,)).fetchone()
        heads = None if first is None else isinstance(decode_leaf(first[0]), TenantHead)
        batch = None if last is None else decode_leaf(last[0])
        covered = batch.seq if isinstance(batch, LeafEntry) and batch.type is LeafType.ANCHOR_BATCH else 0
        return LeafRules(batch=covered, heads=heads)

    def newest(self, number: int, tag: bytes, size: int) -> Newest | None:
        """The newest leaf of the tag among the first `size` leaves."""
        query = f"{_BY_TAG} WHERE log = ? AND tag = ? AND position < ? ORDER BY position DESC"
        row = self._database.execute(f"SELECT position, leaf {query}", (number, tag, size)).fetchone()
        return None if row is None else Newest(row[0], size, decode_leaf(row[1]))

    def at(self, number: int, position: int) -> bytes | None:
        """The leaf at this position; None where none was read."""
        row = self._database.execute(
            "SELECT leaf FROM leaves WHERE log = ? AND position = ?", (number, position)
        ).fetchone()
        return None if row is None else bytes(row[0])

    def monitored(self, number: int, tag: bytes) -> int:
        """The position up to which each leaf of the tag is known to extend the one before it; -1 for none."""
        query = "SELECT position FROM monitored WHERE log = ? AND tag = ?"
        row = self._database.execute(query, (number, tag)).fetchone()
        return -1 if row is None else int(row[0])

    def set_monitored(self, number: int, tag: bytes, position: int) -> None:
        """The leaves of the tag extend one another up to this position."""
        self._database.execute("INSERT OR REPLACE INTO monitored VALUES (?, ?, ?)", (number, tag, position))

    def behind(self, number: int) -> list[bytes]:
        """The tags that have leaves after the position up to which they are monitored."""
        query = (
            "SELECT tag FROM leaves INDEXED BY newest WHERE log = ? AND tag IS NOT NULL GROUP BY tag HAVING"
            " max(position) >"
            " coalesce((SELECT position FROM monitored AS known WHERE known.log = ? AND known.tag = leaves.tag), -1)"
        )
        return [row[0] for row in self._database.execute(query, (number, number))]

    def heads_after(self, number: int, tag: bytes, position: int) -> list[tuple[int, TenantHead]]:
        """The tag's next heads after this position, in log order, at most a thousand of them."""
        query = (
            f"SELECT position, leaf {_BY_TAG} WHERE log = ? AND tag = ? AND position > ? ORDER BY position LIMIT 1000"
        )
        rows = self._database.execute(query, (number, tag, position))
        return [(row[0], TenantHead.decode(row[1])) for row in rows]

    def add(self, number: int, position: int, tag: bytes | None, data: bytes) -> None:
        """Remember a leaf."""
        self._database.execute("INSERT INTO leaves VALUES (?, ?, ?, ?)", (number, position, tag, data))

    def accept(self, number: int, checkpoint: Checkpoint, peaks: Sequence[bytes], note: bytes) -> None:
        """Remember the log's latest checkpoint."""
        row = (number, checkpoint.origin, checkpoint.size, checkpoint.root, b"".join(peaks), note)
        self._database.execute("INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?, ?)", row)

    def tags(self, number: int) -> int:
        """How many tags have leaves."""
        query = "SELECT count(DISTINCT tag) FROM leaves INDEXED BY newest WHERE log = ?"
        return int(self._database.execute(query, (number,)).fetchone()[0])

    def lost(self, old: int, new: int) -> list[int]:
        """The positions of the old log's leaves that the new log does not have."""
        query = (
            "SELECT position FROM leaves AS a WHERE log = ? AND tag IS NOT NULL AND NOT EXISTS (SELECT 1 FROM leaves"
            " AS b INDEXED BY newest WHERE b.log = ? AND b.tag = a.tag AND b.leaf = a.leaf) ORDER BY position"
        )
        return [row[0] for row in self._database.execute(query, (old, new))]
