"""What a bundle has of one tenant: all of it as it stands, or selected runs with their proofs, frame by frame.

`exporting` has the rules. It bounds what is read here, in pages, each from a snapshot of its own.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from sealbook.indexes import case as case_index
from sealbook.indexes.packing import text
from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import ContainerWriter
from sealbook.journal.bundle.frames import Attested, Counts, KeptNote, Proof
from sealbook.journal.bundle.reader import Item, SignerKey
from sealbook.journal.bundle.records import Believed, believe, place_said
from sealbook.journal.bundle.scratch import Scratch
from sealbook.journal.deciding.log import anchors, leaves
from sealbook.journal.engine.port import Row
from sealbook.journal.errors import Corrupt, NotFound, Refused
from sealbook.journal.exporting.question import Bound, Question
from sealbook.journal.records.chain import run_tag
from sealbook.journal.records.row import decode_row, encode_row
from sealbook.journal.schema import lookup, tables
from sealbook.journal.schema.standings import known_standing
from sealbook.journal.schema.tables import CheckpointRow
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed

if TYPE_CHECKING:
    from sealbook.journal.store.journal import Journal

PAGE_ROWS = 1000
PAGE_RECORDS_MIN, PAGE_RECORDS_MAX = 8, 256  # each record may be 4 MiB
PAGE_BYTES = 2**20  # a page that is larger is followed by a small one

Progress = Callable[[int, int], None]  # (records written, records in all)
_SELECTED = struct.Struct(">Q")


class Differs(Refused):
    """What stands of the bundle is not what this store gives for this question."""


class Out:
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


class Part(ABC):
    """What a tenant's part has of either kind: its records, the signers they name, and its counts.

    It is written from its beginning, or from behind the items of it that stand in the bundle and were taken up.
    """

    _out: Out

    def __init__(self, journal: Journal, bound: Bound) -> None:
        self._journal, self._bound = journal, bound
        self._tenant = bound.stated.tenant
        self._signers, self._runs = Scratch(), Scratch()
        self._counted = dict.fromkeys(Counts.__dataclass_fields__, 0)
        self._arrival = 0  # of the last record that stands there,
        self._last = b""  # and its row

    def close(self) -> None:
        self._signers.close()
        self._runs.close()

    @property
    def records(self) -> int:
        """How many records of it stand there."""
        return self._counted["records"]

    def take_up(self, item: Item) -> None:
        """Count what stands there already, in its order."""
        match item.value:
            case SignerKey():
                self._signers.put(item.value.id, b"")
                self._counted["signers"] += 1
            case Believed():
                self._arrival, self._last = item.value.row.arrival, encode_row(item.value.row)
                self._counted["records"] += 1
                self._counted["runs"] += item.value.seq == 1
            case Attested():
                self._counted["entries" if item.value.index is None else "leaves"] += 1
            case KeptNote():
                self._counted["checkpoints"] += 1
            case Proof():
                self._counted["proofs"] += 1

    def write(self, out: Out) -> Counts:
        """The whole part; what it holds."""
        self._out = out
        self._out.put(fr.TENANT, fr.encode_map(self._bound.stated))
        if self._last:
            with self._journal.view.snapshot() as snapshot:
                [value] = snapshot.get_many([lookup.record_place(self._tenant, self._arrival)])
            if value != self._last:
                raise Differs(f"the record under arrival {self._arrival} is another one than in the store")
        self._write()
        counts = Counts(**self._counted)
        self._out.put(fr.END, fr.encode_map(counts))
        return counts

    @abstractmethod
    def _write(self) -> None:
        """All between the part's first frame and its last."""

    def _put(self, kind: int, payload: bytes, counted: str) -> None:
        self._out.put(kind, payload)
        self._counted[counted] += 1

    def _record(self, arrival: int, value: bytes) -> Believed:
        """Believe the record that stands under this arrival, and write it, behind its signer's key."""
        row = decode_row(value, None, None)
        if row.arrival != arrival:
            raise Corrupt(f"the record stands under arrival {arrival}, its row says {row.arrival}")
        try:
            record = believe(row, self._tenant, self._journal.view.setting.upcaster)
        except Corrupt as error:
            raise Corrupt(error.what, *place_said(row)) from error
        if record.signer is not None and self._signers.get(record.signer) is None:
            self._signers.put(record.signer, b"")
            with self._journal.view.snapshot() as snapshot:
                [key] = snapshot.get_many([(tables.SIGNERS, record.signer)])
            if key is None:
                raise Corrupt("the key of the record's signer is missing", record.run, record.seq)
            self._put(fr.SIGNER, key, "signers")
        self._put(fr.RECORD, value, "records")
        self._counted["runs"] += record.seq == 1
        return record

    def _scan(self, table: str, lo: bytes, hi: bytes) -> Iterator[Row]:
        """Rows in pages, each from a snapshot of its own."""
        while True:
            with self._journal.view.snapshot() as snapshot:
                page = snapshot.scan(table, lo, hi, PAGE_ROWS)
            yield from page
            if len(page) < PAGE_ROWS:
                return
            lo = page[-1][0] + b"\0"


class WholePart(Part):
    """Every record of a tenant in the order of arrival, and each leaf as soon as what it attests is there."""

    def __init__(self, journal: Journal, bound: Bound) -> None:
        super().__init__(journal, bound)
        self._size = 0
        self._noted = -1  # the size of the last checkpoint that stands there,
        self._entries = 0  # and how many entries of a batch do, whose leaf does not

    def take_up(self, item: Item) -> None:
        """By `Part.take_up`; and where the runs and the log stand then."""
        super().take_up(item)
        match item.value:
            case Believed():
                self._stand(item.value)
            case Attested(index=None):
                self._entries += 1
            case Attested():
                self._size, self._entries = self._size + 1, 0
            case KeptNote():
                self._noted = item.value.size

    def _write(self) -> None:
        self._leaves, self._notes = self._leaf_entries(), self._kept_notes()
        self._next, self._next_note = next(self._leaves, None), next(self._notes, None)
        self._due(self._arrival)
        for arrival, value in self._rows():
            self._stand(self._record(arrival, value))
            self._due(arrival)
        if self._next is not None or self._size != self._bound.size or self._next_note is not None:
            raise Corrupt(f"leaf {self._size} attests nothing that the tenant's records hold")

    def _stand(self, record: Believed) -> None:
        """Remember where the record's run stands with it."""
        if record.seq == 1:
            assert record.salt is not None
            tag = run_tag(record.salt, self._tenant, record.run)
            self._runs.put(record.run.encode(), tag)
        else:
            known = self._runs.get(record.run.encode())
            if known is None:
                raise Corrupt("the record's run has no first record before it", record.run, record.seq)
            tag = known
        self._runs.put(b"tag:" + tag, record.seq.to_bytes(8) + record.run.encode())

    def _rows(self) -> Iterator[tuple[int, bytes]]:
        first, limit, last = self._arrival + 1, PAGE_RECORDS_MIN, self._bound.stated.records
        while first <= last:
            lo, hi = tables.number_key(self._tenant, first), tables.number_key(self._tenant, last + 1)
            with self._journal.view.snapshot() as snapshot:
                page = snapshot.scan(tables.JOURNAL, lo, hi, limit)
            for arrival, (key, value) in enumerate(page, first):
                if key != tables.number_key(self._tenant, arrival):
                    raise Corrupt("the record is missing", None, None, tables.JOURNAL, key)
                yield arrival, value
            if not page:
                raise Corrupt("the record is missing", None, None, tables.JOURNAL, lo)
            first += len(page)
            limit = _page_limit(limit, page)

    def _due(self, arrival: int) -> None:
        """Write the leaves that attest what is there by now, and the checkpoints of each size that they reach."""
        self._write_notes()
        while self._next is not None and (attested := self._ready(self._next, arrival)) is not None:
            if attested.entry.type is LeafType.ANCHOR_BATCH:
                self._write_entries(attested)
            self._put(fr.LEAF, fr.encode_attested(attested), "leaves")
            self._size += 1
            self._next = next(self._leaves, None)
            self._write_notes()

    def _ready(self, entry: LeafEntry, arrival: int) -> Attested | None:
        if entry.type is LeafType.ADOPTED_LOG:
            return Attested(self._size, entry, "")
        if entry.type is LeafType.ANCHOR_BATCH:
            return Attested(self._size, entry, "") if arrival >= entry.seq else None
        value = self._runs.get(b"tag:" + entry.run_tag)
        if value is None or int.from_bytes(value[:8]) < entry.seq:
            return None
        return Attested(self._size, entry, value[8:].decode())

    def _write_entries(self, leaf: Attested) -> None:
        assert leaf.index is not None
        lo, hi = tables.number_key(self._tenant, leaf.index), tables.number_key(self._tenant, leaf.index + 1)
        there, self._entries = self._entries, 0
        for key, value in islice(self._scan(tables.BATCHES, lo, hi), there, None):
            row = anchors.read_batch_row((tables.BATCHES, key), value)
            self._put(fr.ENTRY, fr.encode_attested(Attested(None, row.entry, row.run)), "entries")

    def _write_notes(self) -> None:
        while self._next_note is not None and self._next_note.size == self._size:
            self._put(fr.CHECKPOINT, fr.encode_note(self._next_note), "checkpoints")
            self._next_note = next(self._notes, None)

    def _leaf_entries(self) -> Iterator[LeafEntry]:
        lo, hi = tables.number_key(self._tenant, self._size), tables.number_key(self._tenant, self._bound.size)
        for key, value in self._scan(tables.LEAVES, lo, hi):
            try:
                yield LeafEntry.decode(value)
            except Malformed as error:
                raise Corrupt(f"the leaf is damaged: {error}", None, None, tables.LEAVES, key) from error

    def _kept_notes(self) -> Iterator[KeptNote]:
        lo, hi = (tables.number_key(self._tenant, size) for size in (self._noted + 1, self._bound.notes_from))
        if lo < hi:
            yield from (kept_note(row) for row in self._scan(tables.CHECKPOINTS, lo, hi))
        yield from (note for note in self._bound.notes if note.size > self._noted)


class SelectedPart(Part):
    """Selected runs, whole, in the order of arrival, and a proof behind the record that each run's leaf attests.

    Where a part of it stands already, the runs are looked for once more: no bundle says which are yet to come.
    """

    def __init__(self, journal: Journal, bound: Bound, question: Question) -> None:
        super().__init__(journal, bound)
        self._question = question
        self._arrivals = array("Q")
        self._unproven: Believed | None = None  # the record that stands last there

    def take_up(self, item: Item) -> None:
        """By `Part.take_up`; and whether the proof behind the last record stands there."""
        super().take_up(item)
        self._unproven = item.value if isinstance(item.value, Believed) else None

    def _write(self) -> None:
        if self._bound.kept is not None and self._counted["checkpoints"] == 0:
            self._put(fr.CHECKPOINT, fr.encode_note(self._bound.kept), "checkpoints")
        for run in self._found():
            if self._runs.get(run.encode()) is None:
                self._select(run)
        if self._unproven is not None:
            self._prove(self._unproven)
        ordered = array("Q", sorted(arrival for arrival in self._arrivals if arrival > self._arrival))
        at, limit = 0, PAGE_RECORDS_MIN
        while at < len(ordered):
            wanted = ordered[at : at + limit]
            places = [lookup.record_place(self._tenant, arrival) for arrival in wanted]
            with self._journal.view.snapshot() as snapshot:
                values = snapshot.get_many(places)
            page: list[Row] = []
            for arrival, (table, key), value in zip(wanted, places, values, strict=True):
                if value is None:
                    raise Corrupt("the record is missing", None, None, table, key)
                page.append((key, value))
                self._prove(self._record(arrival, value))
            at += len(page)
            limit = _page_limit(limit, page)

    def _found(self) -> Iterator[str]:
        """The runs that were asked for; some more than once."""
        match self._question.what:
            case "runs":
                yield from self._question.names
            case "cases":
                for case in self._question.names:
                    yield from self._of_case(case)
            case _:
                yield from self._of_span()

    def _of_case(self, case: str) -> Iterator[str]:
        prefix, found = case_index.prefix(self._tenant, case), ""
        for key, value in self._scan(case_index.TABLE, prefix, tables.prefix_end(prefix)):
            try:
                _, _, run, block = case_index.split_key(key)
                first = next(case_index.seqs(block, value))
            except ValueError as error:
                raise Corrupt(f"the index row is damaged: {error}", None, None, case_index.TABLE, key) from error
            if run != found and self._arrival_of(run, first) <= self._bound.stated.records:
                found = run
                yield run
        if not found:
            raise NotFound("case", case)

    def _arrival_of(self, run: str, seq: int) -> int:
        with self._journal.view.snapshot() as snapshot:
            standing = known_standing(snapshot, self._tenant, run)
            return lookup.arrivals_between(snapshot.get_many, standing, seq, seq)[0]

    def _of_span(self) -> Iterator[str]:
        """Instants are looked at record by record: a clock may have been wrong."""
        since, until = self._question.since, self._question.until
        lo, hi = text(self._tenant), tables.number_key(self._tenant, self._bound.stated.records + 1)
        limit = PAGE_RECORDS_MIN
        while True:
            with self._journal.view.snapshot() as snapshot:
                page = snapshot.scan(tables.JOURNAL, lo, hi, limit)
            for _, value in page:
                record = believe(
                    decode_row(value, None, None), self._tenant, self._journal.view.setting.upcaster
                ).record
                if record is None:
                    continue
                at = record.at * 1000
                if (since is None or at >= since) and (until is None or at <= until):
                    yield record.run
            if not page:
                return
            lo, limit = page[-1][0] + b"\0", _page_limit(limit, page)

    def _select(self, run: str) -> None:
        """Take the run's records up to the bound, and find out which of them its proof attests."""
        stated = self._bound.stated
        with self._journal.view.snapshot() as snapshot:
            standing = known_standing(snapshot, self._tenant, run)
            if standing.first_arrival > stated.records:
                raise NotFound("run", run)
            for first in range(1, standing.records + 1, PAGE_ROWS):
                last = min(standing.records, first + PAGE_ROWS - 1)
                found = lookup.arrivals_between(snapshot.get_many, standing, first, last)
                self._arrivals.extend(arrival for arrival in found if arrival <= stated.records)
            proof = anchors.inclusion(snapshot, standing, stated.size)
        seq = 0 if proof is None else _attested(proof).seq
        self._runs.put(run.encode(), _SELECTED.pack(seq))

    def _prove(self, record: Believed) -> None:
        value = self._runs.get(record.run.encode())
        if value is None:
            raise Corrupt("the record is of another run than its state says", record.run, record.seq)
        if _SELECTED.unpack(value)[0] != record.seq:
            return
        with self._journal.view.snapshot() as snapshot:
            standing = known_standing(snapshot, self._tenant, record.run)
            proof = anchors.inclusion(snapshot, standing, self._bound.stated.size)
        assert proof is not None
        inner = b"" if proof.inner is None else proof.inner.encode()
        shown = Proof(proof.index, _attested(proof), tuple(proof.proof), inner, record.run)
        self._put(fr.PROOF, fr.encode_proof(shown), "proofs")


def kept_note(row: Row) -> KeptNote:
    """The checkpoint that a row of table `checkpoints` keeps."""
    key, value = row
    kept = CheckpointRow.decode((tables.CHECKPOINTS, key), value)
    assert kept is not None
    return KeptNote(tables.split_number_key(key)[1], kept.state, kept.note)


def _attested(proof: leaves.InclusionProof) -> LeafEntry:
    """The run's own entry: in the log, or in the batch whose leaf is there."""
    return LeafEntry.decode(proof.leaf_data if proof.inner_entry is None else proof.inner_entry)


def _page_limit(limit: int, page: Sequence[Row]) -> int:
    """How many records to read next: few when they are large."""
    size = sum(len(value) for _, value in page)
    return min(2 * limit, PAGE_RECORDS_MAX) if size < PAGE_BYTES else PAGE_RECORDS_MIN
