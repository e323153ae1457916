"""Hold every anchor batch to its entries, and every entry to the chain of the run that it is of.

Two views of the same rows meet here. Run by run (`RunEntries`), each row of `batched` must lead to an entry of its run,
whose record the chain bears out. Batch by batch (`check_batches`), the entries must give the leaf: their root, and the
highest arrival of their records. An entry that no row of `batched` leads to is named last (`check_surplus_entries`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from sealbook.indexes.packing import read_u64
from sealbook.journal.checking.audit import CheckAudit, leaf_in, pages_of
from sealbook.journal.deciding.log.anchors import batch_path
from sealbook.journal.engine.port import Place, Row
from sealbook.journal.errors import Corrupt, Refused
from sealbook.journal.records import names as ids
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import BatchRow, check_names
from sealbook.merkle import tree
from sealbook.merkle.anchor_batch import batch_leaf
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.hashing import leaf_hash
from sealbook.merkle.tree import Node
from sealbook.merkle.verify import verify_inclusion

Heads = dict[int, tuple[bytes, bool | None]]  # seq -> (hash, whether it ends the run)


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """An entry that a run has in the batch at leaf `index`, as entry `number` of it."""

    index: int
    number: int
    entry: LeafEntry


# --- run by run ----------------------------------------------------------------------------------------------------


class RunEntries:
    """The rows of `batched` that stand under one run, and the entries that they lead to."""

    def __init__(self, audit: CheckAudit, tenant: str, run: str, rows: Sequence[Row]) -> None:
        self._audit, self._tenant, self._run = audit, tenant, run
        self._fault = partial(audit.found, tenant=tenant, run=run)
        self._rows: list[tuple[bytes, int, int, bytes | None]] = []  # (key, index, number, the entry's row)
        sound = []
        for key, value in rows:
            if len(value) == tables.BATCH_NUMBER_BYTES:
                sound.append((key, read_u64(key, len(key) - 8), int.from_bytes(value)))
            else:
                self._fault("the row is damaged", place=(tables.BATCHED, key))
        for page in pages_of(sound):
            places = [(tables.BATCHES, tables.batch_key(tenant, index, number)) for _, index, number in page]
            values = audit.snapshot.get_many(places)
            self._rows += [(*row, value) for row, value in zip(page, values, strict=True)]
        entries = [_decoded(value) for *_, value in self._rows]
        self.seqs = frozenset(row.entry.seq for row in entries if row is not None)

    def check(self, heads: Heads, *, intact: bool, tag: bytes | None, seal: int | None) -> list[BatchEntry]:
        """Report each row that the run's chain does not bear out; answer with the entries that hold. `intact` says
        whether the whole chain could be read, `seal` is the log position of the run's seal."""
        held: list[BatchEntry] = []
        for key, index, number, value in self._rows:
            theirs = (tables.BATCHES, tables.batch_key(self._tenant, index, number))
            ours: Place = (tables.BATCHED, key)
            row = _decoded(value)
            if value is None:
                self._fault("the anchor batch has no such entry", place=ours)
                self._fault("the row is missing", place=theirs)
            elif row is None:
                self._fault("the entry of the anchor batch is damaged", place=theirs)
            elif row.run != self._run:
                same = row.entry.run_tag == tag
                self._fault("the entry of the anchor batch is another run's", place=theirs if same else ours)
            else:
                last = held[-1].entry if held else None
                fault = _entry_fault(row.entry, heads, intact, tag, last)
                if fault is None and seal is not None and index > seal:
                    fault = "the anchor batch follows the run's seal"
                if fault is not None:
                    self._fault(fault, seq=row.entry.seq, place=theirs)
                    continue
                held.append(BatchEntry(index, number, row.entry))
        self._audit.agreed[tables.BATCHED] += len(held)
        return held

    def check_orphans(self) -> None:
        """The rows of a run without records, of which no state speaks either."""
        for key, *_ in self._rows:
            self._fault("the anchor batch attests a run that has no records", place=(tables.BATCHED, key))


def _entry_fault(
    entry: LeafEntry, heads: Heads, intact: bool, tag: bytes | None, earlier: LeafEntry | None
) -> str | None:
    if entry.type is not LeafType.ANCHOR or (tag is not None and entry.run_tag != tag):
        return "the entry of the anchor batch is no anchor of the run"
    if earlier is not None and entry.seq <= earlier.seq:
        return f"the entry follows that of another anchor batch, at record {earlier.seq}"
    if entry.seq not in heads:
        return f"the entry attests record {entry.seq}, which the run does not have" if intact else None
    head, final = heads[entry.seq]
    if entry.head != head:
        return "the entry attests another hash than the record's"
    return "the entry anchors a run that had ended" if final else None


def check_newest(
    audit: CheckAudit, tenant: str, run: str, entries: list[BatchEntry], size: int, read: tree.Reader
) -> None:
    """That the log of `size` leaves holds the newest of these entries, by its two paths."""
    if not entries:
        return
    index, number, entry = entries[-1].index, entries[-1].number, entries[-1].entry
    place: Place = (tables.LEAVES, tables.number_key(tenant, index))
    try:
        inner, _ = batch_path(audit.snapshot, tenant, index, number)
        inner.verify(entry)
        proof = tree.inclusion_proof(index=index, size=size, read=read)
        verify_inclusion(leaf=inner.leaf.hash(), index=index, size=size, proof=proof, root=tree.root(size, read))
    except Corrupt as error:
        audit.found(error.what, tenant=tenant, run=run, place=(error.table or place[0], error.key or place[1]))
    except (VerificationError, ValueError) as error:
        what = f"the log does not hold the anchor batch of the run: {error}"
        audit.found(what, tenant=tenant, run=run, seq=entry.seq, place=place)


# --- batch by batch --------------------------------------------------------------------------------------------------


def check_batches(audit: CheckAudit) -> None:
    """Hold each batch's entries to its leaf, and claim the leaf when it is theirs."""
    covered: dict[str, int] = {}
    for (tenant, index), rows in groupby(_walk(audit), key=lambda row: row[:2]):
        entries = _BatchEntries(audit, tenant, index)
        for _, _, number, key, value in rows:
            entries.add(number, key, value)
        leaf = entries.check(covered.get(tenant, 0))
        if leaf is not None:
            covered[tenant] = max(covered.get(tenant, 0), leaf.seq)
            audit.tally(tenant).batch = max(audit.tally(tenant).batch, index)


def _walk(audit: CheckAudit) -> Iterator[tuple[str, int, int, bytes, bytes]]:
    for names, key, value in audit.rows(tables.BATCHES, _names_of_entry):
        yield *names, key, value


def _names_of_entry(key: bytes) -> tuple[str, int, int]:
    tenant, index, number = tables.split_batch_key(key)
    ids.check_tenant(tenant)
    return tenant, index, number


class _BatchEntries:
    """The entries of one batch as they come in."""

    def __init__(self, audit: CheckAudit, tenant: str, index: int) -> None:
        self._audit, self._tenant, self._index = audit, tenant, index
        self._rows: list[BatchRow] = []
        self._keys: list[bytes] = []
        self._whole = True

    def add(self, number: int, key: bytes, value: bytes) -> None:
        """The next row."""
        expected = len(self._keys)
        if number != expected and self._whole:
            gap = (tables.BATCHES, tables.batch_key(self._tenant, self._index, expected))
            self._audit.found("the entry of the anchor batch is missing", tenant=self._tenant, place=gap)
            self._whole = False
        self._keys.append(key)
        row = _decoded(value)
        try:
            if row is not None:
                check_names(self._tenant, row.run)
                self._rows.append(row)
                return
        except Refused:
            pass
        self._whole = False
        what = "the entry of the anchor batch is damaged"
        self._audit.found(what, tenant=self._tenant, place=(tables.BATCHES, key))

    def check(self, covered_before: int) -> LeafEntry | None:
        """Compare the entries with the leaf; the leaf, as far as it is known to be one of a batch."""
        audit, tenant, index = self._audit, self._tenant, self._index
        place: Place = (tables.LEAVES, tables.number_key(tenant, index))
        value, node = audit.snapshot.get_many([place, tables.node_place(tenant, Node(0, index))])
        leaf = leaf_in(value)
        sound = value is not None and leaf_hash(value) == node
        arrivals = self._arrivals()
        derived = self._derived(arrivals, leaf)
        if derived is not None and value == derived.encode():
            audit.tally(tenant).claim(index)
            self._check_order(arrivals, covered_before, place)
            return derived
        audit.unsound_batches.add((tenant, index))
        if sound and leaf is not None and leaf.type is LeafType.ANCHOR_BATCH:
            audit.found("the entries of the anchor batch do not give its leaf", tenant=tenant, place=place)
            audit.tally(tenant).claim(index)
            return leaf
        if derived is not None and derived.hash() == node:
            return derived  # the leaf is missing or damaged, which is found where the log is built again
        for key in self._keys:
            audit.found("no anchor batch stands at that leaf", tenant=tenant, place=(tables.BATCHES, key))
        return None

    def _derived(self, arrivals: list[int | None], leaf: LeafEntry | None) -> LeafEntry | None:
        """The leaf that the entries give. Where a record cannot be read, the arrival is believed to be the leaf's."""
        known = [arrival for arrival in arrivals if arrival is not None]
        if not self._whole or not self._rows:
            return None
        covered = max(known, default=0)
        if len(known) < len(arrivals) and leaf is not None:
            covered = max(covered, leaf.seq)
        try:
            return batch_leaf([row.entry for row in self._rows], covered=covered)
        except Malformed:
            return None

    def _arrivals(self) -> list[int | None]:
        """The arrival of the record that each entry attests; None where it cannot be read."""
        found = [self._audit.find(self._tenant, row.run, row.entry.seq) for row in self._rows]
        return [None if each is None else each[0] for each in found]

    def _check_order(self, arrivals: list[int | None], covered_before: int, place: Place) -> None:
        for row, arrival in zip(self._rows, arrivals, strict=True):
            if arrival is not None and arrival <= covered_before:
                what = f"the anchor batch covers arrival {arrival}, and one before it covers {covered_before}"
                self._audit.found(what, tenant=self._tenant, run=row.run, seq=row.entry.seq, place=place)
                return


def check_surplus_entries(audit: CheckAudit) -> None:
    """Name every entry that no row of its run leads to."""
    if audit.agreed[tables.BATCHED] == audit.snapshot.count(tables.BATCHES):
        return
    for tenant, index, number, key, value in _walk(audit):
        row = _decoded(value)
        if row is None:
            continue  # reported where its batch was checked
        try:
            check_names(tenant, row.run)
        except Refused:
            continue
        place: Place = (tables.BATCHED, tables.position_key(tenant, row.run, index))
        [stored] = audit.snapshot.get_many([place])
        if stored == number.to_bytes(tables.BATCH_NUMBER_BYTES):
            continue
        if stored is None and (tenant, index) not in audit.unsound_batches:
            audit.found("the row is missing", tenant=tenant, run=row.run, place=place)
        else:
            audit.found("nothing leads to this entry", tenant=tenant, place=(tables.BATCHES, key))


def _decoded(value: bytes | None) -> BatchRow | None:
    try:
        return None if value is None else BatchRow.decode(value)
    except ValueError:
        return None
