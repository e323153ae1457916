"""Check a bundle as it streams by: what every frame must be, given all those before it.

- Rule 1: each record's hash covers its bytes, which are in their one encoding; in each run, records count from 1, each
  follows the one before, epochs never fall, and nothing follows a conclusion that ends the run for good, or a seal.
- Rule 2: arrivals grow. Where every record is there, they are 1, 2, 3 … up to the tenant's count.
- Rule 3: a leaf attests its run where it stands then: a seal the conclusion that ends it, an anchor the head of a run
  that is open. Leaves come in log order, each right behind the last record that it and those before it attest.
- Rule 4: the leaves give the root that is stated, and the root of every checkpoint, at its size.
- Rule 5: a proof stands right behind the record that it attests, and leads from it to the stated root.
- Rule 6: a signer's key stands right before the first record that names it; the signature is that key's.
- Rule 7: what is counted is there, and what was asked for.

A fault in what a record or leaf says is told and the reading goes on; one in the file's own order ends it (`Damaged`).
What is remembered of each run is small, and moves to a temporary file when there are many (`scratch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, NoReturn

from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import ContainerReader, Mark, Preamble
from sealbook.journal.bundle.faults import CONTENT, Damaged, Fault
from sealbook.journal.bundle.frames import (
    Attested,
    ClaimedKey,
    Counts,
    Frame,
    Header,
    KeptNote,
    Proof,
    TenantPart,
    Totals,
)
from sealbook.journal.bundle.part import ASKED, FINAL, SEALED, UNSURE, Entries, Part, Run, Runs
from sealbook.journal.bundle.records import Believed, believe, place_said
from sealbook.journal.bundle.scratch import Scratch
from sealbook.journal.errors import Corrupt
from sealbook.journal.records.chain import run_tag
from sealbook.journal.records.names import OPERATOR_RUN, RESTORATION
from sealbook.journal.records.signatures import ED25519, signer_id, verify_signature
from sealbook.journal.records.trust import Outside
from sealbook.journal.records.versions import IdentityUpcaster, Upcaster
from sealbook.merkle.anchor_batch import InnerProof
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.hashing import LeafHash
from sealbook.merkle.keys import Algorithm, VerifierKey
from sealbook.merkle.note import Note
from sealbook.merkle.verify import verify_inclusion

FAULTS_MAX = 1000  # that are told; what follows the thousandth says nothing new

Tell = Callable[[Fault], None]


# --- what a reader is given ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SignerKey:
    """A public key that records are signed with."""

    id: bytes
    algorithm: int
    public_key: bytes


Value = (
    Header | str | ClaimedKey | TenantPart | SignerKey | Believed | Attested | KeptNote | Proof | Counts | Totals | None
)


@dataclass(frozen=True, slots=True)
class Item:
    """One frame, checked. `value` is what it says, by its kind; None for a record that cannot be believed."""

    kind: int
    tenant: str | None
    value: Value
    offset: int


class Bundle:
    """A bundle's file as it streams by. `preamble` is there at once, `digest` after the last item."""

    def __init__(
        self,
        stream: BinaryIO,
        *,
        tell: Tell | None = None,
        outside: Sequence[Outside] = (),
        upcaster: Upcaster | None = None,
    ) -> None:
        """`tell` is called with every fault that reading can go on from; without it each is raised (`Damaged`)."""
        self._container = ContainerReader(stream)
        self.preamble: Preamble = self._container.preamble
        self._reader = _Reader(tell or _raise, outside, upcaster or IdentityUpcaster())

    @property
    def digest(self) -> bytes | None:
        """The digest over the whole file; None before its end."""
        return self._container.digest

    @property
    def newer(self) -> int:
        """How many records are of a newer version, so that only their chain could be checked."""
        return self._reader.newer

    @property
    def signed(self) -> int:
        """How many records are signed, each with a signature that is its key's."""
        return self._reader.signed

    @property
    def matched(self) -> frozenset[str]:
        """The sources of the outside checkpoints that a log of the bundle was compared with."""
        return frozenset(self._reader.matched)

    @property
    def mark(self) -> Mark:
        """The place behind the last full block that was read."""
        return self._container.mark

    def items(self) -> Iterator[Item]:
        """Every frame in its order, checked."""
        reader = self._reader
        try:
            for frame in fr.frames(self._container.blocks()):
                yield reader.item(frame)
            reader.ended()
        finally:
            reader.close()

    def items_so_far(self, rest: bytearray) -> Iterator[Item]:
        """Every frame that lies in full blocks, checked, of a file that may end anywhere. `rest` takes what these
        blocks hold of one more."""
        reader = self._reader
        try:
            for frame in fr.frames(self._container.full_blocks(), rest):
                yield reader.item(frame)
        finally:
            reader.close()


def _raise(fault: Fault) -> None:
    raise Damaged(fault)


# --- the reader ------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, tell: Tell, outside: Sequence[Outside], upcaster: Upcaster) -> None:
        self._tell, self._upcaster = tell, upcaster
        self._outside = sorted(outside, key=lambda seen: seen.checkpoint.size)
        self._frame = Frame(fr.HEADER, b"", 0)
        self._end = 0  # of the last frame
        self._told = 0
        self._header: Header | None = None
        self._asked = 0
        self._asked_last = ""
        self._key_last = b""
        self._part: Part | None = None
        self._tenant_last = ""
        self._totals = Totals()
        self._over = False
        self._runs, self._signers = Runs(), Scratch()
        self.newer = self.signed = 0
        self.matched: set[str] = set()

    def close(self) -> None:
        self._runs.close()
        self._signers.close()

    def item(self, frame: Frame) -> Item:
        """The next frame, held to the rules."""
        self._frame = frame
        self._end = frame.offset + fr.HEAD.size + len(frame.payload)
        if self._over:
            self._stop("it follows the end of all")
        if frame.kind not in self._expected():
            self._stop(f"no {frame.name} stands here")
        part = self._part
        try:
            value = self._taken(frame)
        except ValueError as error:
            self._stop(str(error))
        part = part or self._part
        return Item(frame.kind, None if part is None else part.stated.tenant, value, frame.offset)

    def ended(self) -> None:
        if not self._over:
            self._frame = Frame(fr.END_OF_ALL, b"", self._end)
            self._stop("the content ends before it")

    def _expected(self) -> tuple[int, ...]:
        header = self._header
        if header is None:
            return (fr.HEADER,)
        if self._part is None:
            if self._asked < header.asked:
                return (fr.ASKED,)
            if self._totals.tenants == 0:
                return (fr.KEY, fr.TENANT, fr.END_OF_ALL)
            return (fr.TENANT, fr.END_OF_ALL)
        if self._part.signer is not None:
            return (fr.RECORD,)
        if header.whole:
            return (fr.RECORD, fr.SIGNER, fr.ENTRY, fr.LEAF, fr.CHECKPOINT, fr.END)
        return (fr.RECORD, fr.SIGNER, fr.CHECKPOINT, fr.PROOF, fr.END)

    def _taken(self, frame: Frame) -> Value:
        payload = frame.payload
        match frame.kind:
            case fr.HEADER:
                self._header = fr.decode_header(payload)
                return self._header
            case fr.ASKED:
                return self._take_asked(fr.decode_asked(payload))
            case fr.KEY:
                return self._take_key(payload)
            case fr.TENANT:
                return self._take_tenant(fr.decode_tenant(payload))
            case fr.SIGNER:
                return self._take_signer(*fr.decode_signer(payload))
            case fr.RECORD:
                return self._take_record(payload)
            case fr.ENTRY:
                return self._take_entry(fr.decode_attested(fr.ENTRY, payload))
            case fr.LEAF:
                return self._take_leaf(fr.decode_attested(fr.LEAF, payload))
            case fr.CHECKPOINT:
                return self._take_checkpoint(fr.decode_note(payload))
            case fr.PROOF:
                return self._take_proof(fr.decode_proof(payload))
            case fr.END:
                return self._take_end(fr.decode_counts(payload))
            case _:
                return self._take_end_of_all(fr.decode_totals(payload))

    # --- the order of things ---------------------------------------------------------------------------------------

    def _take_asked(self, name: str) -> str:
        if self._asked and name.encode() <= self._asked_last.encode():
            raise ValueError("names stand in their order, each once")
        self._asked += 1
        self._asked_last = name
        if self._head.what == "runs":
            self._runs.put(name, Run(flags=ASKED))
        return name

    def _take_key(self, payload: bytes) -> ClaimedKey:
        key = fr.decode_key(payload)
        if payload <= self._key_last:
            raise ValueError("keys stand in their order, each once")
        if self._totals.keys == fr.KEYS_MAX:
            raise ValueError(f"a bundle names at most {fr.KEYS_MAX} keys")
        self._key_last = payload
        self._totals = replace(self._totals, keys=self._totals.keys + 1)
        return key

    def _take_tenant(self, stated: TenantPart) -> TenantPart:
        if stated.tenant <= self._tenant_last:
            raise ValueError("tenants stand in their order, each once")
        if self._totals.tenants and self._head.what != "store":
            raise ValueError("this bundle is of one tenant")
        self._tenant_last = stated.tenant
        mine = [seen for seen in self._outside if seen.checkpoint.origin == stated.origin]
        self._part = Part(stated, mine, absent=self._asked if self._head.what == "runs" else 0)
        self._compare(0)
        return stated

    def _take_end(self, stated: Counts) -> Counts:
        part, header = self._current, self._head
        if part.counts != stated:
            self._fault(f"it counts {stated}, there are {part.counts}")
        if part.absent:
            self._fault(f"{part.absent} of the runs that were asked for are not there")
        if part.entries is not None:
            self._fault("entries of an anchor batch stand without its leaf")
        if header.whole:
            if part.counts.records != part.stated.records:
                self._fault(f"the tenant had {part.stated.records} records, {part.counts.records} are there")
            if part.log.size != part.stated.size or part.log.root() != part.stated.root:
                self._fault(f"the {part.log.size} leaves do not give the log of size {part.stated.size} that is stated")
        elif part.counts.records > part.stated.records:
            self._fault(f"the tenant had {part.stated.records} records, {part.counts.records} are there")
        for seen in part.outside:
            self._compare_at_end(part, seen)
        totals = self._totals
        self._totals = replace(
            totals,
            records=totals.records + part.counts.records,
            runs=totals.runs + part.counts.runs,
            tenants=totals.tenants + 1,
        )
        self._part = None
        self._runs.close()
        self._runs = Runs()
        return stated

    def _take_end_of_all(self, stated: Totals) -> Totals:
        if stated != self._totals:
            self._fault(f"it counts {stated}, there are {self._totals}")
        if self._head.what != "store" and self._totals.tenants != 1:
            self._fault("this bundle is of one tenant")
        self._over = True
        return stated

    # --- records -----------------------------------------------------------------------------------------------------

    def _take_signer(self, algorithm: int, public_key: bytes) -> SignerKey:
        part = self._current
        if algorithm != ED25519:
            raise ValueError(f"its algorithm is {algorithm}, known is {ED25519}")
        try:
            VerifierKey("signer", Algorithm.ED25519, public_key)
        except Malformed as error:
            raise ValueError("its key is none, or one of small order") from error
        signer = SignerKey(signer_id(public_key), algorithm, public_key)
        name = signer.id + part.stated.tenant.encode()
        if self._signers.get(name) is not None:
            raise ValueError("the signer stands here twice")
        self._signers.put(name, public_key)
        part.count("signers")
        part.signer = signer.id
        return signer

    def _take_record(self, payload: bytes) -> Believed | None:
        part = self._current
        row = fr.decode_record_row(payload)
        tenant = part.stated.tenant
        try:
            record = believe(row, tenant, self._upcaster)
        except Corrupt as error:
            self._fault(error.what, *place_said(row))  # it has no place in any run but the one that it claims
            part.signer, part.fresh = None, False
            part.arrival = max(part.arrival, row.arrival)
            part.count("records")
            return None
        where = (record.run, record.seq)
        if part.signer not in (None, record.signer):
            self._fault("the key before it is not that of its signer", *where)
        part.signer, part.fresh = None, False
        expected = part.arrival + 1
        if row.arrival < expected or (self._head.whole and row.arrival != expected):
            self._fault(f"it has arrival {row.arrival}, the one before it {part.arrival}", *where)
        part.arrival = max(part.arrival, row.arrival)
        before = self._runs.get(record.run)
        if before.seq == 0:
            self._begin(part, record, before)
        self._follow(record, before)
        if record.record is None:
            self.newer += 1
        if record.signer is not None:
            self._check_signature(part, record)
        flags = before.flags | (FINAL if record.final else 0) | (UNSURE if record.final is None else 0)
        tag = before.tag if record.salt is None else run_tag(record.salt, tenant, record.run)
        after = Run(record.seq, row.hash, tag, row.arrival, record.epoch, before.attested, flags)
        self._runs.put(record.run, after)
        part.count("records")
        return record

    def _begin(self, part: Part, record: Believed, before: Run) -> None:
        part.count("runs")
        if record.lineage is not None and record.lineage != self._head.lineage:
            self._fault("its run began in a store of another lineage", record.run, record.seq)
        if before.has(ASKED):
            part.absent -= 1
        elif self._head.what == "runs":
            self._fault("its run was not asked for", record.run, record.seq)

    def _follow(self, record: Believed, before: Run) -> None:
        """By Rule 1."""
        where = (record.run, record.seq)
        if record.seq != before.seq + 1:
            self._fault(f"it stands behind record {before.seq}: records are missing, moved or repeated", *where)
        elif record.row.prev != before.head:
            self._fault("it does not follow the record before it", *where)
        elif before.has(SEALED):
            self._fault("it follows the run's seal", *where)
        elif before.has(FINAL):
            self._fault("it follows the run's conclusion", *where)
        elif record.epoch < before.epoch:
            self._fault(f"its epoch is {record.epoch}, that of the record before it {before.epoch}", *where)
        elif record.epoch % RESTORATION if record.run == OPERATOR_RUN else record.epoch < 1:
            self._fault(f"its epoch is {record.epoch}, which no store writes such a run under", *where)

    def _check_signature(self, part: Part, record: Believed) -> None:
        """By Rule 6."""
        assert record.signer is not None and record.row.signature is not None
        key = self._signers.get(record.signer + part.stated.tenant.encode())
        if key is None:
            self._fault("the key of its signer is not there", record.run, record.seq)
        elif not verify_signature(key, record.row.hash, record.row.signature):
            self._fault("its signature is not that of its signer's key", record.run, record.seq)
        else:
            self.signed += 1

    # --- the log -----------------------------------------------------------------------------------------------------

    def _take_entry(self, attested: Attested) -> Attested:
        part = self._current
        if attested.entry.type is not LeafType.ANCHOR:
            raise ValueError("the entry of a batch is an anchor")
        entries = part.entries = part.entries or Entries()
        if entries.last >= attested.entry.run_tag:
            raise ValueError("the entries of a batch stand in their order, one per run")
        run = self._attested(attested.entry, attested.run, batched=True)
        if run is not None and run.arrival <= part.covered:
            self._fault("the batch before this one covers it already", attested.run, attested.entry.seq)
        entries.log.add([attested.entry.hash()])
        entries.last = attested.entry.run_tag
        entries.arrival = max(entries.arrival, 0 if run is None else run.arrival)
        part.count("entries")
        return attested

    def _take_leaf(self, attested: Attested) -> Attested:
        part, entry = self._current, attested.entry
        if attested.index != part.log.size:
            raise ValueError(f"it has index {attested.index}, {part.log.size} leaves stand before it")
        if (entry.type in (LeafType.SEAL, LeafType.ANCHOR)) != bool(attested.run):
            raise ValueError("a leaf of one run names it, and no other does")
        if (part.entries is not None) != (entry.type is LeafType.ANCHOR_BATCH):
            raise ValueError("the leaf of an anchor batch follows the batch's entries, and no other does")
        if entry.type is LeafType.ADOPTED_LOG:
            if part.log.size or part.arrival:
                self._fault("only the first leaf adopts another log, and before all records")
        elif part.entries is not None:
            self._check_batch(part, part.entries, entry)
        else:
            run = self._attested(entry, attested.run, batched=False)
            part.reached = max(part.reached, part.arrival if run is None else run.arrival)
        if part.reached != part.arrival:
            self._fault("it stands later than what it attests", attested.run or None)
        part.fresh = True
        part.log.add([entry.hash()])
        part.count("leaves")
        part.entries = None
        self._compare(part.log.size)
        return attested

    def _check_batch(self, part: Part, entries: Entries, leaf: LeafEntry) -> None:
        if leaf.run_tag != entries.log.root() or leaf.seq != entries.arrival:
            self._fault("the entries of the anchor batch do not give its leaf")
        part.covered = max(part.covered, leaf.seq)
        part.reached = max(part.reached, leaf.seq)

    def _attested(self, entry: LeafEntry, name: str, *, batched: bool) -> Run | None:
        """By Rule 3: where the run stands, once its leaf is counted; None for a run of which no record is there."""
        run = self._runs.get(name)
        where = (name, entry.seq)
        if run.seq == 0:
            self._fault("no record of its run is there", *where)
            return None
        if (entry.run_tag, entry.seq, entry.head) != (run.tag, run.seq, run.head):
            self._fault(f"it does not attest the run where it stands, at record {run.seq}", *where)
        elif run.has(SEALED):
            self._fault("it follows the run's seal", *where)
        elif not batched and entry.seq <= run.attested:
            self._fault(f"it follows another leaf of the run, at record {run.attested}", *where)
        elif not run.has(UNSURE) and run.has(FINAL) != (entry.type is LeafType.SEAL):
            self._fault("an anchor is of a run that is open, a seal of one that has ended for good", *where)
        if not batched:
            run = run._replace(attested=entry.seq, flags=run.flags | (SEALED if entry.type is LeafType.SEAL else 0))
            self._runs.put(name, run)
        return run

    def _take_checkpoint(self, kept: KeptNote) -> KeptNote:
        part = self._current
        checkpoint = read_note(kept)
        if kept.size <= part.noted:
            raise ValueError("checkpoints stand in the order of their sizes, each once")
        if checkpoint.size != kept.size:
            raise ValueError(f"it states size {checkpoint.size}, not {kept.size}")
        size, root = (part.log.size, part.log.root()) if self._head.whole else (part.stated.size, part.stated.root)
        if kept.size != size or part.entries is not None or not part.fresh:
            raise ValueError(f"a checkpoint of size {kept.size} does not stand at size {size}")
        if checkpoint.root != root:
            self._fault(f"the log of {size} leaves has another root than the checkpoint")
        if not self._head.whole and (part.arrival or kept.state == 0):
            raise ValueError("a signed checkpoint stands before the records that are proven by it")
        part.noted, part.fresh = kept.size, False
        part.count("checkpoints")
        return kept

    def _take_proof(self, proof: Proof) -> Proof:
        """By Rule 5."""
        part = self._current
        run = self._runs.get(proof.run)
        where = (proof.run, proof.entry.seq)
        if run.seq == 0 or run.attested or run.arrival != part.arrival:
            raise ValueError("one proof stands behind the record of its run that it attests")
        self._attested(proof.entry, proof.run, batched=False)
        try:
            leaf = LeafHash(proof.entry.hash())
            if proof.entry.type not in (LeafType.SEAL, LeafType.ANCHOR):
                raise VerificationError("a proof is of a seal or an anchor")
            if proof.inner:
                inner = InnerProof.parse(proof.inner)
                inner.verify(proof.entry)
                leaf = inner.leaf.hash()
            stated = part.stated
            verify_inclusion(leaf=leaf, index=proof.index, size=stated.size, proof=proof.path, root=stated.root)
        except VerificationError as error:
            self._fault(f"the proof does not hold: {error}", *where)
        part.count("proofs")
        return proof

    # --- checkpoints from outside -------------------------------------------------------------------------------------

    def _compare(self, size: int) -> None:
        """Hold the log of so many leaves to the checkpoints from outside of that size."""
        part = self._current
        while part.outside and part.outside[0].checkpoint.size == size and self._head.whole:
            seen = part.outside.pop(0)
            self.matched.add(seen.source)
            if seen.checkpoint.root != part.log.root():
                self._fault(f"the log of {size} leaves is not that of {seen.source}: its root is another one")

    def _compare_at_end(self, part: Part, seen: Outside) -> None:
        stated, size = part.stated, seen.checkpoint.size
        if self._head.whole:
            self.matched.add(seen.source)
            self._fault(f"{seen.source} is of size {size}, the log has {part.log.size} leaves: some are missing")
        elif size == stated.size:
            self.matched.add(seen.source)
            if seen.checkpoint.root != stated.root:
                self._fault(f"the log of {size} leaves is not that of {seen.source}: its root is another one")

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    def _head(self) -> Header:
        assert self._header is not None
        return self._header

    @property
    def _current(self) -> Part:
        assert self._part is not None
        return self._part

    def _described(self, what: str, run: str | None, seq: int | None) -> Fault:
        tenant = None if self._part is None else self._part.stated.tenant
        return Fault(what, self._frame.name, CONTENT, self._frame.offset, tenant, run, seq)

    def _fault(self, what: str, run: str | None = None, seq: int | None = None) -> None:
        fault = self._described(what, run, seq)
        self._told += 1
        if self._told > FAULTS_MAX:
            raise Damaged(fault)
        self._tell(fault)

    def _stop(self, what: str) -> NoReturn:
        raise Damaged(self._described(what, None, None))


def read_note(kept: KeptNote) -> Checkpoint:
    """What a kept checkpoint states; ValueError when it is none."""
    try:
        return Checkpoint.parse(kept.note if kept.state == 0 else Note.parse(kept.note).text)
    except Malformed as error:
        raise ValueError(str(error)) from error
