"""A whole tenant in a bundle: every record as it stands, every leaf, every checkpoint that was kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.frames import Attested, KeptNote
from sealbook.journal.bundle.reader import Item
from sealbook.journal.bundle.records import Believed
from sealbook.journal.deciding.log import anchors
from sealbook.journal.errors import Corrupt
from sealbook.journal.exporting.parts import PartWriter, kept_note
from sealbook.journal.exporting.question import Bound
from sealbook.journal.records.chain import run_tag
from sealbook.journal.schema import tables
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed

if TYPE_CHECKING:
    from sealbook.journal.store.journal import Journal


class WholePart(PartWriter):
    """Every record of a tenant in the order of arrival, and each leaf as soon as what it attests is there."""

    def __init__(self, journal: Journal, bound: Bound) -> None:
        super().__init__(journal, bound)
        self._size = 0
        self._noted = -1  # the size of the last checkpoint that stands there,
        self._entries = 0  # and how many entries of a batch do, whose leaf does not

    def count_written(self, item: Item) -> None:
        """By `PartWriter.count_written`; and where the runs and the log stand then."""
        super().count_written(item)
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
        for arrival, value in self._rows(range(self._arrival + 1, self._bound.stated.records + 1)):
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

    def _due(self, arrival: int) -> None:
        """Write the leaves that attest what is there by now, and the checkpoints of each size that they reach."""
        self._write_notes()
        while self._next is not None and (attested := self._ready(self._next, arrival)) is not None:
            if attested.entry.type is LeafType.ANCHOR_BATCH:
                self._write_entries(attested)
            self._put(fr.LEAF, fr.encode_attested(attested))
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
            self._put(fr.ENTRY, fr.encode_attested(Attested(None, row.entry, row.run)))

    def _write_notes(self) -> None:
        while self._next_note is not None and self._next_note.size == self._size:
            self._put(fr.CHECKPOINT, fr.encode_note(self._next_note))
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
