"""What the parts of a bundle have in common: frames on their way into it, and the records of one tenant.

`bundle` has the rules. It bounds what is read here, in pages, each from a snapshot of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import ContainerWriter
from sealbook.journal.bundle.frames import Counts, KeptNote
from sealbook.journal.bundle.part import SignerKey
from sealbook.journal.bundle.reader import Item
from sealbook.journal.bundle.records import Believed, believe, place_said
from sealbook.journal.bundle.scratch import Scratch
from sealbook.journal.engine.port import Place, Row
from sealbook.journal.errors import Corrupt, Refused
from sealbook.journal.exporting.question import Bound
from sealbook.journal.records.row import decode_row, encode_row
from sealbook.journal.schema import lookup, tables
from sealbook.journal.schema.tables import CheckpointRow

if TYPE_CHECKING:
    from sealbook.journal.store.journal import Journal

PAGE_ROWS = 1000
PAGE_RECORDS_MIN, PAGE_RECORDS_MAX = 8, 256  # each record may be 4 MiB
PAGE_BYTES = 2**20  # a page that is larger is followed by a small one

Progress = Callable[[int, int], None]  # (records written, records in all)


class Differs(Refused):
    """What stands of the bundle is not what this store gives for this question."""


class FrameWriter:
    """Frames on their way into the bundle, of which a part may stand there already.

    `there` are the first frames of those that are put, and `rest` is how the next one begins; they are compared and not
    written again. `records` counts the records that stand there.
    """

    def __init__(
        self,
        writer: ContainerWriter,
        progress: Progress | None,
        total: int,
        there: Iterable[tuple[int, bytes]] = (),
        rest: bytes = b"",
        records: int = 0,
    ) -> None:
        self._writer, self._progress, self._total = writer, progress, total
        self._there, self._rest, self._records = deque(there), rest, records

    def put(self, kind: int, payload: bytes) -> None:
        """The next frame. `Differs`: another one stands there."""
        if self._there:
            if self._there.popleft() != (kind, payload):
                raise Differs(f"its {fr.NAMES[kind]} is another one")
            return
        frame = fr.frame(kind, payload)
        if not frame.startswith(self._rest):
            raise Differs(f"it does not go on with the {fr.NAMES[kind]} that is next")
        self._writer.write(frame[len(self._rest) :])
        self._rest = b""
        if kind == fr.RECORD:
            self._records += 1
            if self._progress is not None and self._records % PAGE_ROWS == 0:
                self._progress(self._records, self._total)


class PartWriter(ABC):
    """What a tenant's part has of either kind: its records, the signers they name, and its counts.

    It is written from its beginning, or from behind the items of it that stand in the bundle and were read.
    """

    _out: FrameWriter

    def __init__(self, journal: Journal, bound: Bound) -> None:
        self._journal, self._bound = journal, bound
        self._tenant = bound.stated.tenant
        self._signers, self._runs = Scratch(), Scratch()
        self._counted = dict.fromkeys(Counts.__dataclass_fields__, 0)
        self._arrival = 0  # of the last record that stands there,
        self._last = b""  # and its row

    def close(self) -> None:
        """Forget everything."""
        self._signers.close()
        self._runs.close()

    @property
    def records(self) -> int:
        """How many records of it stand there."""
        return self._counted["records"]

    def count_written(self, item: Item) -> None:
        """Count what stands there already, in its order."""
        if item.kind in fr.COUNTED:
            self._counted[fr.COUNTED[item.kind]] += 1
        match item.value:
            case SignerKey():
                self._signers.put(item.value.id, b"")
            case Believed():
                self._arrival, self._last = item.value.row.arrival, encode_row(item.value.row)
                self._counted["runs"] += item.value.seq == 1

    def write(self, out: FrameWriter) -> Counts:
        """The whole part; what it holds."""
        self._out = out
        self._out.put(fr.TENANT, fr.encode_map(self._bound.stated))
        if self._last and self._get(lookup.record_place(self._tenant, self._arrival)) != self._last:
            raise Differs(f"the record under arrival {self._arrival} is another one than in the store")
        self._write()
        counts = Counts(**self._counted)
        self._out.put(fr.END, fr.encode_map(counts))
        return counts

    @abstractmethod
    def _write(self) -> None:
        """All between the part's first frame and its last."""

    def _put(self, kind: int, payload: bytes) -> None:
        self._out.put(kind, payload)
        self._counted[fr.COUNTED[kind]] += 1

    def _record(self, arrival: int, value: bytes | None) -> Believed:
        """Believe the record that stands under this arrival, and write it, behind its signer's key."""
        if value is None:
            raise Corrupt("the record is missing", None, None, *lookup.record_place(self._tenant, arrival))
        row = decode_row(value, None, None)
        if row.arrival != arrival:
            raise Corrupt(f"the record stands under arrival {arrival}, its row says {row.arrival}")
        try:
            record = believe(row, self._tenant, self._journal.view.setting.upcaster)
        except Corrupt as error:
            raise Corrupt(error.what, *place_said(row)) from error
        if record.signer is not None and self._signers.get(record.signer) is None:
            self._signers.put(record.signer, b"")
            key = self._get((tables.SIGNERS, record.signer))
            if key is None:
                raise Corrupt("the key of the record's signer is missing", record.run, record.seq)
            self._put(fr.SIGNER, key)
        self._put(fr.RECORD, value)
        self._counted["runs"] += record.seq == 1
        return record

    def _get(self, place: Place) -> bytes | None:
        with self._journal.view.snapshot() as snapshot:
            return snapshot.get_many([place])[0]

    def _rows(self, arrivals: Sequence[int]) -> Iterator[tuple[int, bytes | None]]:
        """(arrival, row) of the records with these arrivals, few at a time where they are large."""
        at, limit = 0, PAGE_RECORDS_MIN
        while at < len(arrivals):
            wanted = arrivals[at : at + limit]
            with self._journal.view.snapshot() as snapshot:
                page = snapshot.get_many([lookup.record_place(self._tenant, arrival) for arrival in wanted])
            yield from zip(wanted, page, strict=True)
            at += len(wanted)
            size = sum(len(value) for value in page if value is not None)
            limit = min(2 * limit, PAGE_RECORDS_MAX) if size < PAGE_BYTES else PAGE_RECORDS_MIN

    def _scan(self, table: str, lo: bytes, hi: bytes) -> Iterator[Row]:
        """Rows in pages, each from a snapshot of its own."""
        while True:
            with self._journal.view.snapshot() as snapshot:
                page = snapshot.scan(table, lo, hi, PAGE_ROWS)
            yield from page
            if len(page) < PAGE_ROWS:
                return
            lo = page[-1][0] + b"\0"


def kept_note(row: Row) -> KeptNote:
    """The checkpoint that a row of table `checkpoints` keeps."""
    key, value = row
    kept = CheckpointRow.decode((tables.CHECKPOINTS, key), value)
    assert kept is not None
    return KeptNote(tables.split_number_key(key)[1], kept.state, kept.note)
