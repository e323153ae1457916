"""Follow a tenant: its records in the order of their arrival, and then those that come.

Between two looks nothing is held, no snapshot and no page of the file. A look costs the store's version when nothing
has happened, and one page otherwise. The page begins with the record that was read last, so that a history which was
rewritten meanwhile, or an older copy that was put back, is `Corrupt` and never waited for. Where another store stands
by now, or none, a look is the `EngineFailed` that a writer meets: nothing will ever come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple

from sealbook.indexes.packing import read_u64, text, u64
from sealbook.journal.engine.port import Snapshot
from sealbook.journal.errors import Corrupt
from sealbook.journal.reading import cursors, listings
from sealbook.journal.reading.listings import Part
from sealbook.journal.records.record import Record
from sealbook.journal.records.versions import Upcaster
from sealbook.journal.threads.wakeups import Bell, Pulse

PAGE_RECORDS: Final = 100  # few enough to be read within a task of an event loop
HASH_BYTES: Final = 32


class Position(NamedTuple):
    """A record by its place and its hash: as bytes, run 00 seq:u64be arrival:u64be hash."""

    run: str
    seq: int
    arrival: int
    hash: bytes

    @classmethod
    def of(cls, record: Record) -> Position:
        """Where this record stands."""
        return cls(record.run, record.seq, record.arrival, record.hash)

    def encode(self) -> bytes:
        """The position within a cursor."""
        return text(self.run) + u64(self.seq) + u64(self.arrival) + self.hash

    @classmethod
    def decode(cls, content: bytes) -> Position:
        """The position that a cursor of ours holds."""
        run, _, rest = content.partition(b"\0")
        return cls(run.decode(), read_u64(rest, 0), read_u64(rest, 8), rest[16:])


@dataclass(frozen=True, slots=True)
class Source:
    """What is followed, and how it is read: the tenant's records, those of one run, and of one case among them."""

    snapshot: Callable[[], AbstractContextManager[Snapshot]]
    version: Callable[[], int]
    upcaster: Upcaster
    secret: bytes
    tenant: str
    run: str | None
    case: str | None

    @property
    def _listing(self) -> tuple[str, ...]:
        return "follow", self.run or "", self.case or ""

    def seal(self, position: Position) -> str:
        """The cursor for what comes after this record."""
        return cursors.encode(self.secret, self.tenant, self._listing, position.encode())

    def unseal(self, after: str) -> Position:
        """The record that a cursor names; `InvalidCursor` when it was not issued for what is followed here."""
        return Position.decode(cursors.decode(self.secret, self.tenant, self._listing, after))

    def newest(self) -> Position | None:
        """The last record there is now; None before the first."""
        with self.snapshot() as snapshot:
            if self.run is None:
                part = listings.history(snapshot, self.upcaster, self.tenant, None, 1, reverse=True)
            else:
                seq = listings.head(snapshot, self.tenant, self.run).seq
                part = listings.run_records(snapshot, self.upcaster, self.tenant, self.run, seq, 1)
        return Position.of(part.items[-1]) if part.items else None

    def page(self, snapshot: Snapshot, last: Position | None) -> Part[Record]:
        """The records after this one, of every case; `Corrupt` when it does not stand where it stood."""
        limit = PAGE_RECORDS if last is None else PAGE_RECORDS + 1
        if self.run is None:
            start = 1 if last is None else last.arrival
            part = listings.history(snapshot, self.upcaster, self.tenant, start, limit, reverse=False)
        else:
            start = 1 if last is None else last.seq
            part = listings.run_records(snapshot, self.upcaster, self.tenant, self.run, start, limit)
        if last is None:
            return part
        if not part.items:
            raise Corrupt(
                f"the record was followed and is gone, with all after arrival {last.arrival}: the history was cut"
                " short, or an older copy of the store put back",
                last.run,
                last.seq,
            )
        if Position.of(part.items[0]) != last:
            what = f"another record stands at arrival {last.arrival} than was followed: the history was rewritten"
            raise Corrupt(what, last.run, last.seq)
        return Part(part.items[1:], part.last)

    def takes(self, record: Record) -> bool:
        """Whether the record is of the case that is followed."""
        return self.case is None or record.case == self.case


class Follower:
    """The rules of following, without any waiting. One thread or task uses it at a time."""

    def __init__(self, source: Source, after: Position | None) -> None:
        self._source = source
        self._given = after  # the record that was handed out last
        self._read = after  # the record that was read last
        self._page: deque[Record] = deque()  # read, and not handed out
        self._version: int | None = None
        self.behind = True  # whether more may be there already, so that nobody should wait

    @property
    def cursor(self) -> str | None:
        """Where to go on after what was handed out, or was passed over since as not of the case; None at the start."""
        position = self._position
        return None if position is None else self._source.seal(position)

    @property
    def arrival(self) -> int:
        """The arrival of the record that the cursor names; 0 at the start."""
        position = self._position
        return 0 if position is None else position.arrival

    @property
    def _position(self) -> Position | None:
        return self._given if self._page else self._read

    def take(self) -> Record | None:
        """The next record; None when none is there, or, while `behind`, when a whole page was of other cases."""
        if not self._page:
            self._look()
        if not self._page:
            return None
        record = self._page.popleft()
        self._given = Position.of(record)
        return record

    def _look(self) -> None:
        """Read the next page, if the store has moved since there was none."""
        if not self.behind and self._source.version() == self._version:
            return
        with self._source.snapshot() as snapshot:
            part = self._source.page(snapshot, self._read)
            self._version, self.behind = snapshot.version, part.last is not None
        if part.items:
            self._read = Position.of(part.items[-1])
            self._page.extend(record for record in part.items if self._source.takes(record))


class Followed:
    """Where an iteration over what is committed stands, whichever face it has."""

    _follower: Follower

    @property
    def cursor(self) -> str | None:
        """What to pass as `after=` to go on after the record that was handed out last; None before the first one.

        Records of other cases that were passed over are behind it too, so it moves although nothing is handed out.
        """
        return self._follower.cursor

    @property
    def arrival(self) -> int:
        """The arrival of the record that the cursor names; 0 before the first one."""
        return self._follower.arrival


class Following(Followed, Iterator[Record]):
    """Records as they are committed, by this and other processes: an iterator that waits for the next one.

    It ends when `stop` is called, from any thread, and with `Closed` when the journal is closed. A run that is sealed
    does not end it: nothing follows, and it waits. One thread at a time takes records from it.
    """

    def __init__(self, follower: Follower, pulse: Pulse) -> None:
        """Not for callers: see `Tenant.follow`."""
        self._follower, self._pulse = follower, pulse
        self._bell = Bell()
        self._stopped = False

    def take(self) -> Record | None:
        """The next record if it is there already, None when there is none now. It never waits."""
        while (record := self._follower.take()) is None and self._follower.behind:
            pass
        return record

    def stop(self) -> None:
        """End the iteration, also one that waits in another thread. What was handed out stays so."""
        self._stopped = True
        self._bell.ring()

    def __next__(self) -> Record:
        if self._stopped:
            raise StopIteration
        record = self.take()
        return self._awaited() if record is None else record

    def _awaited(self) -> Record:
        """The next record once it is there. The bell hangs before the look, so that no commit is missed between."""
        try:
            self._pulse.hang(self._bell.ring)
            while not self._stopped:
                if (record := self.take()) is not None:
                    return record
                self._bell.wait()
        finally:
            self._pulse.take_down(self._bell.ring)
        raise StopIteration
