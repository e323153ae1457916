"""Selected runs of a tenant in a bundle, with the proofs that they stand in its log."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sealbook.indexes import case as case_index
from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.frames import Proof
from sealbook.journal.bundle.reader import Item
from sealbook.journal.bundle.records import Believed, believe
from sealbook.journal.deciding.log import anchors, leaves
from sealbook.journal.errors import Corrupt, NotFound
from sealbook.journal.exporting.parts import PAGE_ROWS, PartWriter
from sealbook.journal.exporting.question import Bound, Question
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import lookup, tables
from sealbook.journal.schema.standings import known_standing
from sealbook.merkle.entry import LeafEntry

if TYPE_CHECKING:
    from sealbook.journal.store.journal import Journal

_SELECTED = struct.Struct(">Q")


class SelectedPart(PartWriter):
    """Selected runs, whole, in the order of arrival, and a proof behind the record that each run's leaf attests.

    Where a part of it stands already, the runs are looked for once more: no bundle says which are yet to come.
    """

    def __init__(self, journal: Journal, bound: Bound, question: Question) -> None:
        super().__init__(journal, bound)
        self._question = question
        self._arrivals = array("Q")
        self._unproven: Believed | None = None  # the record that stands last there

    def count_written(self, item: Item) -> None:
        """By `PartWriter.count_written`; and whether the proof behind the last record stands there."""
        super().count_written(item)
        self._unproven = item.value if isinstance(item.value, Believed) else None

    def _write(self) -> None:
        if self._bound.kept is not None and self._counted["checkpoints"] == 0:
            self._put(fr.CHECKPOINT, fr.encode_note(self._bound.kept))
        for run in self._found():
            if self._runs.get(run.encode()) is None:
                self._select(run)
        if self._unproven is not None:
            self._prove(self._unproven)
        ordered = array("Q", sorted(arrival for arrival in self._arrivals if arrival > self._arrival))
        for arrival, value in self._rows(ordered):
            self._prove(self._record(arrival, value))

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
        for _, value in self._rows(range(1, self._bound.stated.records + 1)):
            if value is None:
                continue
            record = believe(decode_row(value, None, None), self._tenant, self._journal.view.setting.upcaster).record
            if record is None:
                continue
            at = record.at * 1000
            if (since is None or at >= since) and (until is None or at <= until):
                yield record.run

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
        self._put(fr.PROOF, fr.encode_proof(shown))


def _attested(proof: leaves.InclusionProof) -> LeafEntry:
    """The run's own entry: in the log, or in the batch whose leaf is there."""
    return LeafEntry.decode(proof.leaf_data if proof.inner_entry is None else proof.inner_entry)
