"""Follow a log in public: read every leaf since the last visit, hold it to the rules, and remember all of it.

- Rule 1: the checkpoint is one that the policy accepts.
- Rule 2: the leaves since the last visit, after those remembered, lead to the checkpoint's root. So the log has only
  grown: one that is smaller, or forked, is refused, and what is remembered stays as it was.
- Rule 3: the leaves keep the rules of a log (`merkle.monitor`).
- Rule 4: a log of another origin is accepted only when its first leaf goes on from the checkpoint remembered.

What is remembered is one file, a database of SQLite: a visit is one transaction of it, so that it counts whole or not
at all, and two visits at a time are none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sealbook.cli.tiles import Folder, FolderOfTiles
from sealbook.journal.errors import Busy, EngineFailed, NotFound
from sealbook.merkle import tiles
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import VerificationError, shown
from sealbook.merkle.hashing import HASH_BYTES, LeafHash, leaf_hash
from sealbook.merkle.monitor import Growth, Leaf, Rules, check_handed_over, decode_leaf, tag_of
from sealbook.merkle.note import NOTE_BYTES_MAX
from sealbook.merkle.policy import Policy
from sealbook.merkle.tenant_head import TenantHead
from sealbook.merkle.tiles import CHECKPOINT_PATH, TILE_WIDTH

APPLICATION_ID = 0x5EA1B00C  # of the SQLite file
STATE_VERSION = 1
SECONDS_MAX = 15.0  # to connect, and between any two parts of an answer
MISSING_MAX = 5  # leaves of the old log that are named when a new one lacks them

_SCHEMA = """
CREATE TABLE logs (
    log INTEGER PRIMARY KEY, origin TEXT NOT NULL, size INTEGER NOT NULL, root BLOB NOT NULL, peaks BLOB NOT NULL,
    note BLOB NOT NULL
);
CREATE TABLE leaves (
    log INTEGER NOT NULL, position INTEGER NOT NULL, tag BLOB, leaf BLOB NOT NULL, PRIMARY KEY (log, position)
) WITHOUT ROWID;
CREATE INDEX newest ON leaves (log, tag, position);
"""
# Left to itself SQLite walks the primary key backwards, which is in the order that is asked for: a log's length.
_BY_TAG = "FROM leaves INDEXED BY newest"


# --- what is remembered ----------------------------------------------------------------------------------------------


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


class State:
    """The file of a monitor, for the length of one visit."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[State]:
        """The state in this file, which comes into being. What is done within counts when nothing is raised."""
        try:
            database = sqlite3.connect(path, isolation_level=None, timeout=5)
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

    def rules(self, number: int) -> Rules:
        """The rules as they stand after the leaves that are remembered."""
        query = "SELECT leaf FROM leaves WHERE log = ? AND"
        first = self._database.execute(f"{query} position = 0", (number,)).fetchone()
        untagged = f"{_BY_TAG} WHERE log = ? AND tag IS NULL ORDER BY position DESC"
        last = self._database.execute(f"SELECT leaf {untagged}", (number,)).fetchone()
        heads = None if first is None else isinstance(decode_leaf(first[0]), TenantHead)
        batch = None if last is None else decode_leaf(last[0])
        covered = batch.seq if isinstance(batch, LeafEntry) and batch.type is LeafType.ANCHOR_BATCH else 0
        return Rules(batch=covered, heads=heads)

    def newest(self, number: int, tag: bytes, size: int) -> Newest | None:
        """The newest leaf of the tag among the first `size` leaves."""
        query = f"{_BY_TAG} WHERE log = ? AND tag = ? AND position < ? ORDER BY position DESC"
        row = self._database.execute(f"SELECT position, leaf {query}", (number, tag, size)).fetchone()
        return None if row is None else Newest(row[0], size, decode_leaf(row[1]))

    def add(self, number: int, position: int, tag: bytes | None, data: bytes) -> None:
        """Remember a leaf."""
        self._database.execute("INSERT INTO leaves VALUES (?, ?, ?, ?)", (number, position, tag, data))

    def accept(self, number: int, checkpoint: Checkpoint, peaks: Sequence[bytes], note: bytes) -> None:
        """Remember the log's latest checkpoint."""
        row = (number, checkpoint.origin, checkpoint.size, checkpoint.root, b"".join(peaks), note)
        self._database.execute("INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?, ?)", row)

    def lost(self, old: int, new: int) -> list[int]:
        """The positions of the old log's leaves that the new log does not have."""
        query = (
            "SELECT position FROM leaves AS a WHERE log = ? AND tag IS NOT NULL AND NOT EXISTS (SELECT 1 FROM leaves"
            " AS b INDEXED BY newest WHERE b.log = ? AND b.tag = a.tag AND b.leaf = a.leaf) ORDER BY position"
        )
        return [row[0] for row in self._database.execute(query, (old, new))]


# --- a visit ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Visit:
    """What a visit found: the log's sizes before and after, and, when it went on from another log, that one's origin
    and the positions of its leaves that the new log lacks."""

    number: int
    checkpoint: Checkpoint
    old_size: int
    went_on_from: str | None = None
    lost: tuple[int, ...] = ()


def visit(source: Folder, policy: Policy, state: State, where: str) -> Visit:
    """Read what is new in the log, by all rules. Raises `VerificationError` by the first that is broken."""
    note = source.find(CHECKPOINT_PATH)
    if note is None:
        raise NotFound("checkpoint of the log at", where)
    checkpoint = policy.open(note).checkpoint
    seen = state.latest()
    if seen is None:
        return _read(source, state, Remembered(1, Checkpoint(checkpoint.origin, 0, _empty()), ()), checkpoint, note)
    if seen.checkpoint.origin != checkpoint.origin:
        return _handed_over(source, state, seen, checkpoint, note)
    if checkpoint.size < seen.checkpoint.size:
        raise VerificationError(
            f"the log has size {checkpoint.size}, and size {seen.checkpoint.size} was seen before: it lost what it had"
            " published, or this is an older copy"
        )
    return _read(source, state, seen, checkpoint, note)


def _empty() -> bytes:
    return Growth().root()


def _handed_over(source: Folder, state: State, seen: Remembered, checkpoint: Checkpoint, note: bytes) -> Visit:
    if checkpoint.size == 0:
        raise VerificationError(f"the log {shown(checkpoint.origin)} is empty and goes on from no other one")
    first = decode_leaf(next(_leaves(source, 0, checkpoint.size)))
    check_handed_over(first, seen.checkpoint)
    fresh = Remembered(seen.number + 1, Checkpoint(checkpoint.origin, 0, _empty()), ())
    found = _read(source, state, fresh, checkpoint, note)
    lost = state.lost(seen.number, fresh.number)
    return Visit(found.number, checkpoint, 0, seen.checkpoint.origin, tuple(lost))


def _read(source: Folder, state: State, seen: Remembered, checkpoint: Checkpoint, note: bytes) -> Visit:
    growth, rules = Growth(seen.checkpoint.size, seen.peaks), state.rules(seen.number)
    hashes: list[LeafHash] = []
    for position, data in enumerate(_leaves(source, seen.checkpoint.size, checkpoint.size), seen.checkpoint.size):
        leaf = decode_leaf(data)
        tag = tag_of(leaf)
        earlier = None if tag is None else state.newest(seen.number, tag, position)
        rules.check(position, leaf, None if earlier is None else earlier.leaf)
        state.add(seen.number, position, tag, data)
        hashes.append(leaf_hash(data))
        if len(hashes) == TILE_WIDTH:
            growth.add(hashes)
            hashes.clear()
    growth.add(hashes)
    if growth.root() != checkpoint.root:
        known = f", after the {seen.checkpoint.size} seen before," if seen.checkpoint.size else ""
        raise VerificationError(
            f"the log's leaves{known} lead to root {growth.root().hex()} at size {checkpoint.size}, signed is"
            f" {checkpoint.root.hex()}: the log was forked, or its entries are not those that were signed"
        )
    state.accept(seen.number, checkpoint, growth.peaks, note)
    return Visit(seen.number, checkpoint, seen.checkpoint.size)


def _leaves(source: Folder, start: int, end: int) -> Iterator[bytes]:
    """The leaves from position `start` up to `end`, bundle by bundle."""
    for bundle in tiles.entry_bundles(old_size=start, new_size=end):
        data = source.find(bundle.path())
        if data is None:  # a partial bundle may be gone once the full one is there
            data = source.find(bundle.full().path())
        if data is None:
            raise VerificationError(f"the log does not serve {bundle.path()}, and signs size {end}")
        entries = tiles.decode_bundle(bundle, data)
        yield from entries[max(0, start - bundle.leaves().start) :]


# --- where the log is ------------------------------------------------------------------------------------------------


@contextmanager
def source_of(where: str) -> Iterator[Folder]:
    """The log at this folder or URL."""
    if "://" not in where:
        yield FolderOfTiles(Path(where))
        return
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise EngineFailed(
            f"{error.name} is not installed: `pip install 'sealbook[witness]'` brings what reads a log over HTTP"
        ) from error
    with httpx2.Client(timeout=SECONDS_MAX, follow_redirects=False) as client:

        def get(url: str) -> bytes | None:
            try:
                with client.stream("GET", url) as response:
                    if response.status_code in (404, 410):
                        return None
                    if response.status_code != 200:
                        raise EngineFailed(f"{url}: HTTP status {response.status_code}")
                    received = bytearray()
                    for part in response.iter_bytes():
                        received += part
                        if len(received) > NOTE_BYTES_MAX:
                            raise VerificationError(f"{url}: more than {NOTE_BYTES_MAX} bytes")
                    return bytes(received)
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise EngineFailed(f"{url}: {type(error).__name__}: {error}") from error

        yield UrlOfTiles(where, get)


class UrlOfTiles:
    """The tiles under a URL."""

    def __init__(self, url: str, get: Callable[[str], bytes | None]) -> None:
        self._url, self._get = url.rstrip("/"), get

    def find(self, path: str) -> bytes | None:
        """The bytes that stand at this path; None where there are none."""
        return self._get(f"{self._url}/{path}")
