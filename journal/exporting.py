"""Write a bundle of a store: whole tenants as they stand, or selected runs with their proofs.

- Rule 1: what is exported is bounded once, in one snapshot, by each tenant's last arrival and the size of its log. What
  is written meanwhile stays out; nothing that is in a bundle can change afterwards, so it is read in pages.
- Rule 2: a record that its hash does not cover, or that is not in its one encoding, ends the export: a bundle never
  passes damage on.
- Rule 3: the same question to the same store gives the same bytes, save for the time in the preamble.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from sealbook.indexes import case as case_index
from sealbook.indexes.packing import text
from sealbook.journal import anchoring, ids, lookup, publishing, reading, seals, tables
from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import Codec, ContainerWriter, Preamble
from sealbook.journal.bundle.frames import (
    Attested,
    ClaimedKey,
    Counts,
    Header,
    KeptNote,
    Proof,
    TenantPart,
    Totals,
)
from sealbook.journal.bundle.records import Believed, believe, place_said
from sealbook.journal.bundle.scratch import Scratch
from sealbook.journal.engine.port import Row, Snapshot
from sealbook.journal.errors import Busy, Corrupt, InvalidInput, NotFound
from sealbook.journal.record import decode_row, run_tag, signer_id
from sealbook.journal.tables import CheckpointRow, TenantRow
from sealbook.merkle import tree
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed

if TYPE_CHECKING:
    from sealbook.journal.store import Journal

PAGE_ROWS = 1000
PAGE_RECORDS_MIN, PAGE_RECORDS_MAX = 8, 256  # each record may be 4 MiB
PAGE_BYTES = 2**20  # a page that is larger is followed by a small one

WHOLE_LEFT_OUT = ("leases", "secret", "store-log")
SELECTED_LEFT_OUT = ("leases", "other-leaves", "other-runs", "other-tenants", "secret", "store-log")

Progress = Callable[[int, int], None]  # (records written, records in all)
_SELECTED = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Question:
    """What to export. `what` is `store`, `tenant`, `runs`, `cases` or `span`; `names` are the runs or cases, `since`
    and `until` microseconds since 1970, both inclusive. All but `store` are of one tenant."""

    what: str
    tenant: str | None = None
    names: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """What became of an export: what the bundle holds, and the digest over all of it."""

    totals: Totals
    digest: bytes


def export(
    journal: Journal,
    stream: BinaryIO,
    question: Question,
    *,
    made_at: int,
    codec: Codec = Codec.ZLIB,
    keys: Sequence[ClaimedKey] = (),
    progress: Progress | None = None,
) -> Exported:
    """Write the bundle to the stream. `made_at` is unix milliseconds.

    Of `keys` those enter that the bundle's reader may meet: of the exported logs, of the store's record signers, and of
    witnesses. They are a claim, and nothing is checked with them.

    `NotFound`: a run, case or tenant that was asked for is not there. `Corrupt`: the store cannot be believed. `Busy`:
    a log went on under a new origin meanwhile. Whatever is raised, what was written is no whole bundle.
    """
    names = _names(question)
    bounds = _bounds(journal, question)
    writer = ContainerWriter(stream, Preamble(codec, made_at))
    out = _Out(writer, progress, sum(bound.stated.records for bound in bounds))
    lineage = journal._setting.identity.lineage_id
    whole = question.what in fr.WHOLE
    left_out = WHOLE_LEFT_OUT if question.what == "store" else ("other-tenants", *WHOLE_LEFT_OUT)
    header = Header(
        question.what,
        lineage,
        len(names),
        question.since,
        question.until,
        tuple(sorted(left_out if whole else SELECTED_LEFT_OUT)),
    )
    out.put(fr.HEADER, fr.encode_map(header))
    for name in names:
        out.put(fr.ASKED, name.encode())
    claimed = _claimed(journal, keys, {bound.stated.origin for bound in bounds})
    for payload in claimed:
        out.put(fr.KEY, payload)
    totals = Totals(keys=len(claimed))
    for bound in bounds:
        part = _WholePart(journal, bound, out) if whole else _SelectedPart(journal, bound, out, question, names)
        try:
            counts = part.write()
        finally:
            part.close()
        _check_unmoved(journal, bound)
        totals = replace(
            totals,
            records=totals.records + counts.records,
            runs=totals.runs + counts.runs,
            tenants=totals.tenants + 1,
        )
    out.put(fr.END_OF_ALL, fr.encode_map(totals))
    return Exported(totals, writer.finish())


def _names(question: Question) -> list[str]:
    check = {"runs": ids.check_run, "cases": ids.check_case}.get(question.what)
    if check is None:
        return []
    if not question.names:
        raise InvalidInput(question.what, 0, "must be named")
    return sorted({check(name) for name in question.names}, key=str.encode)


def _claimed(journal: Journal, keys: Sequence[ClaimedKey], origins: set[str]) -> list[bytes]:
    """The frames of the keys that have to do with what is exported, in their order, each once."""
    wanted = []
    with journal._snapshot() as snapshot:
        for key in keys:
            if key.purpose == "record":
                [known] = snapshot.get_many([(tables.SIGNERS, signer_id(key.public))])
                if known is None:
                    continue
            if key.purpose != "log" or key.name in origins:
                wanted.append(fr.encode_map(key))
    found = sorted(set(wanted))
    if len(found) > fr.KEYS_MAX:
        raise InvalidInput("keys", len(found), f"are more than the {fr.KEYS_MAX} that a bundle names")
    return found


# --- what bounds an export -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bound:
    """Where a tenant stands when the export begins. `kept` is the checkpoint that proofs lead to, if one was signed.
    `size` is that of the log, also where `stated` is about a checkpoint."""

    stated: TenantPart
    kept: KeptNote | None
    size: int
    root: bytes


def _bounds(journal: Journal, question: Question) -> list[_Bound]:
    names = sorted(journal.tenants()) if question.what == "store" else [ids.check_tenant(question.tenant)]
    bounds = []
    with journal._snapshot() as snapshot:
        for name in names:
            [value] = snapshot.get_many([(tables.TENANTS, name.encode())])
            if value is None:
                raise NotFound("tenant", name)
            bounds.append(_bound(journal, snapshot, name, TenantRow.decode(name, value), question.what in fr.WHOLE))
    return bounds


def _bound(journal: Journal, snapshot: Snapshot, name: str, row: TenantRow, whole: bool) -> _Bound:
    origin = journal.tenant(name)._origin_in(snapshot)
    read = seals.snapshot_reader(name, snapshot)
    size, root, kept = row.leaves, tree.root(row.leaves, read), None
    stated = TenantPart(name, origin, row.arrivals, size, root)
    if not whole:
        latest = publishing.latest(snapshot, name, published=True) or publishing.latest(snapshot, name, published=False)
        if latest is not None and latest.note is not None:
            checkpoint = latest.checkpoint
            kept = KeptNote(checkpoint.size, latest.state, latest.note.encode())
            if tree.root(checkpoint.size, read) != checkpoint.root:
                raise Corrupt(f"the log of {checkpoint.size} leaves has another root than its checkpoint")
            stated = TenantPart(name, origin, row.arrivals, checkpoint.size, checkpoint.root)
    return _Bound(stated, kept, size, root)


def _check_unmoved(journal: Journal, bound: _Bound) -> None:
    """A log that goes on under a new origin has all its leaves moved: what was read is then of two logs."""
    name = bound.stated.tenant
    with journal._snapshot() as snapshot:
        origin = journal.tenant(name)._origin_in(snapshot)
        root = tree.root(bound.size, seals.snapshot_reader(name, snapshot))
    if (origin, root) != (bound.stated.origin, bound.root):
        raise Busy(f"the log of tenant {name} went on under another origin meanwhile: export again")


# --- writing ---------------------------------------------------------------------------------------------------------


class _Out:
    """Frames on their way into the bundle."""

    def __init__(self, writer: ContainerWriter, progress: Progress | None, total: int) -> None:
        self._writer, self._progress, self._total = writer, progress, total
        self._records = 0

    def put(self, kind: int, payload: bytes) -> None:
        """The next frame."""
        self._writer.write(fr.frame(kind, payload))
        if kind == fr.RECORD:
            self._records += 1
            if self._progress is not None and self._records % PAGE_ROWS == 0:
                self._progress(self._records, self._total)


class _Part(ABC):
    """What a tenant's part has of either kind: its records, the signers they name, and its counts."""

    def __init__(self, journal: Journal, bound: _Bound, out: _Out) -> None:
        self._journal, self._bound, self._out = journal, bound, out
        self._tenant = bound.stated.tenant
        self._signers, self._runs = Scratch(), Scratch()
        self._counted = dict.fromkeys(Counts.__dataclass_fields__, 0)

    def close(self) -> None:
        self._signers.close()
        self._runs.close()

    def write(self) -> Counts:
        """The whole part; what it holds."""
        self._out.put(fr.TENANT, fr.encode_map(self._bound.stated))
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
            record = believe(row, self._tenant, self._journal._setting.upcaster)
        except Corrupt as error:
            raise Corrupt(error.what, *place_said(row)) from error
        if record.signer is not None and self._signers.get(record.signer) is None:
            self._signers.put(record.signer, b"")
            with self._journal._snapshot() as snapshot:
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
            with self._journal._snapshot() as snapshot:
                page = snapshot.scan(table, lo, hi, PAGE_ROWS)
            yield from page
            if len(page) < PAGE_ROWS:
                return
            lo = page[-1][0] + b"\0"


class _WholePart(_Part):
    """Every record of a tenant in the order of arrival, and each leaf as soon as what it attests is there."""

    def __init__(self, journal: Journal, bound: _Bound, out: _Out) -> None:
        super().__init__(journal, bound, out)
        self._leaves = self._leaf_entries()
        self._next = next(self._leaves, None)
        self._notes = self._kept_notes()
        self._next_note = next(self._notes, None)
        self._size = 0

    def _write(self) -> None:
        self._due(0)
        for arrival, value in self._rows():
            record = self._record(arrival, value)
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
            self._due(arrival)
        if self._next is not None or self._size != self._bound.size or self._next_note is not None:
            raise Corrupt(f"leaf {self._size} attests nothing that the tenant's records hold")

    def _rows(self) -> Iterator[tuple[int, bytes]]:
        first, limit, last = 1, PAGE_RECORDS_MIN, self._bound.stated.records
        while first <= last:
            lo, hi = tables.number_key(self._tenant, first), tables.number_key(self._tenant, last + 1)
            with self._journal._snapshot() as snapshot:
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
        for key, value in self._scan(tables.BATCHES, lo, hi):
            row = anchoring.read_batch_row((tables.BATCHES, key), value)
            self._put(fr.ENTRY, fr.encode_attested(Attested(None, row.entry, row.run)), "entries")

    def _write_notes(self) -> None:
        while self._next_note is not None and self._next_note.size == self._size:
            self._put(fr.CHECKPOINT, fr.encode_note(self._next_note), "checkpoints")
            self._next_note = next(self._notes, None)

    def _leaf_entries(self) -> Iterator[LeafEntry]:
        lo, hi = tables.number_key(self._tenant, 0), tables.number_key(self._tenant, self._bound.size)
        for key, value in self._scan(tables.LEAVES, lo, hi):
            try:
                yield LeafEntry.decode(value)
            except Malformed as error:
                raise Corrupt(f"the leaf is damaged: {error}", None, None, tables.LEAVES, key) from error

    def _kept_notes(self) -> Iterator[KeptNote]:
        lo, hi = tables.number_key(self._tenant, 0), tables.number_key(self._tenant, self._bound.size + 1)
        for key, value in self._scan(tables.CHECKPOINTS, lo, hi):
            row = CheckpointRow.decode((tables.CHECKPOINTS, key), value)
            assert row is not None
            yield KeptNote(tables.split_number_key(key)[1], row.state, row.note)


class _SelectedPart(_Part):
    """Selected runs, whole, in the order of arrival, and a proof behind the record that each run's leaf attests."""

    def __init__(self, journal: Journal, bound: _Bound, out: _Out, question: Question, names: Sequence[str]) -> None:
        super().__init__(journal, bound, out)
        self._question, self._names = question, names
        self._arrivals = array("Q")

    def _write(self) -> None:
        if self._bound.kept is not None:
            self._put(fr.CHECKPOINT, fr.encode_note(self._bound.kept), "checkpoints")
        for run in self._found():
            if self._runs.get(run.encode()) is None:
                self._select(run)
        ordered = array("Q", sorted(self._arrivals))
        at, limit = 0, PAGE_RECORDS_MIN
        while at < len(ordered):
            wanted = ordered[at : at + limit]
            places = [lookup.record_place(self._tenant, arrival) for arrival in wanted]
            with self._journal._snapshot() as snapshot:
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
                yield from self._names
            case "cases":
                for case in self._names:
                    yield from self._of_case(case)
            case _:
                yield from self._of_span()

    def _of_case(self, case: str) -> Iterator[str]:
        prefix, found = case_index.prefix(self._tenant, case), False
        for key, _ in self._scan(case_index.TABLE, prefix, tables.prefix_end(prefix)):
            found = True
            yield case_index.split_key(key)[2]
        if not found:
            raise NotFound("case", case)

    def _of_span(self) -> Iterator[str]:
        """Instants are looked at record by record: a clock may have been wrong."""
        since, until = self._question.since, self._question.until
        lo, hi = text(self._tenant), tables.number_key(self._tenant, self._bound.stated.records + 1)
        limit = PAGE_RECORDS_MIN
        while True:
            with self._journal._snapshot() as snapshot:
                page = snapshot.scan(tables.JOURNAL, lo, hi, limit)
            for _, value in page:
                record = believe(decode_row(value, None, None), self._tenant, self._journal._setting.upcaster).record
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
        with self._journal._snapshot() as snapshot:
            standing = reading.known_standing(snapshot, self._tenant, run)
            if standing.first_arrival > stated.records:
                raise NotFound("run", run)
            for first in range(1, standing.records + 1, PAGE_ROWS):
                last = min(standing.records, first + PAGE_ROWS - 1)
                found = lookup.arrivals_between(snapshot.get_many, standing, first, last)
                self._arrivals.extend(arrival for arrival in found if arrival <= stated.records)
            proof = anchoring.inclusion(snapshot, standing, stated.size)
        seq = 0 if proof is None else _attested(proof).seq
        self._runs.put(run.encode(), _SELECTED.pack(seq))

    def _prove(self, record: Believed) -> None:
        value = self._runs.get(record.run.encode())
        if value is None:
            raise Corrupt("the record is of another run than its state says", record.run, record.seq)
        if _SELECTED.unpack(value)[0] != record.seq:
            return
        with self._journal._snapshot() as snapshot:
            standing = reading.known_standing(snapshot, self._tenant, record.run)
            proof = anchoring.inclusion(snapshot, standing, self._bound.stated.size)
        assert proof is not None
        inner = b"" if proof.inner is None else proof.inner.encode()
        shown = Proof(proof.index, _attested(proof), tuple(proof.proof), inner, record.run)
        self._put(fr.PROOF, fr.encode_proof(shown), "proofs")


def _attested(proof: seals.InclusionProof) -> LeafEntry:
    """The run's own entry: in the log, or in the batch whose leaf is there."""
    return LeafEntry.decode(proof.leaf_data if proof.inner_entry is None else proof.inner_entry)


def _page_limit(limit: int, page: Sequence[Row]) -> int:
    """How many records to read next: few when they are large."""
    size = sum(len(value) for _, value in page)
    return min(2 * limit, PAGE_RECORDS_MAX) if size < PAGE_BYTES else PAGE_RECORDS_MIN
