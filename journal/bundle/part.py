"""Check a tenant's part of a bundle as it streams by: its records, its leaves, its checkpoints, its proofs.

The rules have the numbers that `reader` gives them. What is remembered of each run is small (`scratch`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.frames import Attested, Counts, Header, KeptNote, Proof, TenantPart
from sealbook.journal.bundle.records import Believed, believe, place_said
from sealbook.journal.bundle.scratch import Scratch
from sealbook.journal.errors import Corrupt
from sealbook.journal.records.chain import GENESIS, run_tag
from sealbook.journal.records.names import OPERATOR_RUN, RESTORATION
from sealbook.journal.records.signatures import ED25519, signer_id, verify_signature
from sealbook.journal.records.trust import Outside
from sealbook.journal.records.versions import Upcaster
from sealbook.merkle.anchor_batch import InnerProof
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.hashing import LeafHash
from sealbook.merkle.keys import Algorithm, VerifierKey
from sealbook.merkle.monitor import Growth
from sealbook.merkle.verify import verify_inclusion

RUN = struct.Struct(">Q32s32sQQQB")
FINAL, SEALED, ASKED, UNSURE = 1, 2, 4, 8


class Run(NamedTuple):
    """Where a run stands so far. `UNSURE` from the first record on that is of a newer version."""

    seq: int = 0
    head: bytes = GENESIS
    tag: bytes = bytes(32)
    arrival: int = 0
    epoch: int = 0
    attested: int = 0
    flags: int = 0

    def has(self, flag: int) -> bool:
        """Whether the flag is set."""
        return bool(self.flags & flag)


class Runs:
    """Where each run of a tenant stands so far."""

    def __init__(self) -> None:
        self._scratch = Scratch()

    def get(self, name: str) -> Run:
        """Where the run stands; at its beginning when nothing of it was read."""
        value = self._scratch.get(name.encode())
        return Run() if value is None else Run(*RUN.unpack(value))

    def put(self, name: str, run: Run) -> None:
        """Let it stand there."""
        self._scratch.put(name.encode(), RUN.pack(*run))

    def close(self) -> None:
        """Forget all of them."""
        self._scratch.close()


class Entries:
    """The entries of an anchor batch so far: their tree, the last one's run tag, the highest arrival they cover."""

    def __init__(self) -> None:
        self.log = Growth()
        self.last = b""
        self.arrival = 0


@dataclass(frozen=True, slots=True)
class SignerKey:
    """A public key that records are signed with."""

    id: bytes
    algorithm: int
    public_key: bytes


@dataclass(slots=True)
class Seen:
    """What all parts have shown so far: records of a newer version, records whose signature is their key's, and the
    sources of the outside checkpoints that a log was compared with."""

    newer: int = 0
    signed: int = 0
    matched: set[str] = field(default_factory=set)


class PartReader:
    """A tenant's part so far. `fault` is called with what is wrong, and the run and seq that it is about."""

    def __init__(
        self,
        header: Header,
        stated: TenantPart,
        outside: list[Outside],
        runs: Runs,
        *,
        absent: int,
        upcaster: Upcaster,
        seen: Seen,
        fault: Callable[..., None],
    ) -> None:
        self._header, self.stated, self._outside, self._absent = header, stated, outside, absent
        self._runs, self._signers = runs, Scratch()
        self._upcaster, self._seen, self._fault = upcaster, seen, fault
        self._log = Growth()
        self._counted = dict.fromkeys(Counts.__dataclass_fields__, 0)
        self._arrival = 0  # of the last record,
        self._covered = 0  # the highest that an anchor batch covers,
        self._reached = 0  # and the highest that any leaf attests
        self._noted = -1  # the size of the last checkpoint
        self._fresh = True  # whether a checkpoint may stand here: behind the leaf that it is the first to count
        self.signer: bytes | None = None  # whose key was given for the record that is next
        self._entries: Entries | None = None

    def close(self) -> None:
        """Forget everything."""
        self._signers.close()

    @property
    def counts(self) -> Counts:
        """How many of each are there."""
        return Counts(**self._counted)

    def begin(self) -> None:
        """Compare the log that has no leaf yet."""
        self._compare(0)

    def end(self, stated: Counts) -> None:
        """By Rules 4 and 7: what is counted is there, and gives the log that is stated."""
        counts, whole = self.counts, self._header.whole
        if counts != stated:
            self._fault(f"it counts {stated}, there are {counts}")
        if self._absent:
            self._fault(f"{self._absent} of the runs that were asked for are not there")
        if self._entries is not None:
            self._fault("entries of an anchor batch stand without its leaf")
        if counts.records > self.stated.records or (whole and counts.records < self.stated.records):
            self._fault(f"the tenant had {self.stated.records} records, {counts.records} are there")
        if whole and (self._log.size, self._log.root()) != (self.stated.size, self.stated.root):
            self._fault(f"the {self._log.size} leaves do not give the log of size {self.stated.size} that is stated")
        for seen in self._outside:
            self._compare_at_end(seen)

    def count(self, kind: int) -> None:
        """A frame of this kind stands here."""
        self._counted[fr.COUNTED[kind]] += 1

    # --- records -----------------------------------------------------------------------------------------------------

    def take_signer(self, algorithm: int, public_key: bytes) -> SignerKey:
        """By Rule 6: the key of the record that is next."""
        if algorithm != ED25519:
            raise ValueError(f"its algorithm is {algorithm}, known is {ED25519}")
        try:
            VerifierKey("signer", Algorithm.ED25519, public_key)
        except Malformed as error:
            raise ValueError("its key is none, or one of small order") from error
        signer = SignerKey(signer_id(public_key), algorithm, public_key)
        if self._signers.get(signer.id) is not None:
            raise ValueError("the signer stands here twice")
        self._signers.put(signer.id, public_key)
        self.signer = signer.id
        return signer

    def take_record(self, payload: bytes) -> Believed | None:
        """By Rules 1 and 2; None for a record that cannot be believed."""
        row = fr.decode_record_row(payload)
        tenant = self.stated.tenant
        try:
            record = believe(row, tenant, self._upcaster)
        except Corrupt as error:
            self._fault(error.what, *place_said(row))  # it has no place in any run but the one that it claims
            self.signer, self._fresh = None, False
            self._arrival = max(self._arrival, row.arrival)
            return None
        where = (record.run, record.seq)
        if self.signer not in (None, record.signer):
            self._fault("the key before it is not that of its signer", *where)
        self.signer, self._fresh = None, False
        expected = self._arrival + 1
        if row.arrival < expected or (self._header.whole and row.arrival != expected):
            self._fault(f"it has arrival {row.arrival}, the one before it {self._arrival}", *where)
        self._arrival = max(self._arrival, row.arrival)
        before = self._runs.get(record.run)
        if before.seq == 0:
            self._begin(record, before)
        self._follow(record, before)
        if record.record is None:
            self._seen.newer += 1
        if record.signer is not None:
            self._check_signature(record)
        flags = before.flags | (FINAL if record.final else 0) | (UNSURE if record.final is None else 0)
        tag = before.tag if record.salt is None else run_tag(record.salt, tenant, record.run)
        after = Run(record.seq, row.hash, tag, row.arrival, record.epoch, before.attested, flags)
        self._runs.put(record.run, after)
        return record

    def _begin(self, record: Believed, before: Run) -> None:
        self._counted["runs"] += 1
        if record.lineage is not None and record.lineage != self._header.lineage:
            self._fault("its run began in a store of another lineage", record.run, record.seq)
        if before.has(ASKED):
            self._absent -= 1
        elif self._header.what == "runs":
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

    def _check_signature(self, record: Believed) -> None:
        """By Rule 6."""
        assert record.signer is not None and record.row.signature is not None
        key = self._signers.get(record.signer)
        if key is None:
            self._fault("the key of its signer is not there", record.run, record.seq)
        elif not verify_signature(key, record.row.hash, record.row.signature):
            self._fault("its signature is not that of its signer's key", record.run, record.seq)
        else:
            self._seen.signed += 1

    # --- the log -----------------------------------------------------------------------------------------------------

    def take_entry(self, attested: Attested) -> Attested:
        """An entry of an anchor batch, whose leaf follows."""
        if attested.entry.type is not LeafType.ANCHOR:
            raise ValueError("the entry of a batch is an anchor")
        entries = self._entries = self._entries or Entries()
        if entries.last >= attested.entry.run_tag:
            raise ValueError("the entries of a batch stand in their order, one per run")
        run = self._attested(attested.entry, attested.run, batched=True)
        if run is not None and run.arrival <= self._covered:
            self._fault("the batch before this one covers it already", attested.run, attested.entry.seq)
        entries.log.add([attested.entry.hash()])
        entries.last = attested.entry.run_tag
        entries.arrival = max(entries.arrival, 0 if run is None else run.arrival)
        return attested

    def take_leaf(self, attested: Attested) -> Attested:
        """By Rule 3."""
        entry = attested.entry
        if attested.index != self._log.size:
            raise ValueError(f"it has index {attested.index}, {self._log.size} leaves stand before it")
        if (entry.type in (LeafType.SEAL, LeafType.ANCHOR)) != bool(attested.run):
            raise ValueError("a leaf of one run names it, and no other does")
        if (self._entries is not None) != (entry.type is LeafType.ANCHOR_BATCH):
            raise ValueError("the leaf of an anchor batch follows the batch's entries, and no other does")
        if entry.type is LeafType.ADOPTED_LOG:
            if self._log.size or self._arrival:
                self._fault("only the first leaf adopts another log, and before all records")
        elif self._entries is not None:
            self._check_batch(self._entries, entry)
        else:
            run = self._attested(entry, attested.run, batched=False)
            self._reached = max(self._reached, self._arrival if run is None else run.arrival)
        if self._reached != self._arrival:
            self._fault("it stands later than what it attests", attested.run or None)
        self._fresh = True
        self._log.add([entry.hash()])
        self._entries = None
        self._compare(self._log.size)
        return attested

    def _check_batch(self, entries: Entries, leaf: LeafEntry) -> None:
        if leaf.run_tag != entries.log.root() or leaf.seq != entries.arrival:
            self._fault("the entries of the anchor batch do not give its leaf")
        self._covered = max(self._covered, leaf.seq)
        self._reached = max(self._reached, leaf.seq)

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

    def take_checkpoint(self, kept: KeptNote) -> KeptNote:
        """By Rule 4."""
        checkpoint = fr.read_note(kept)
        if kept.size <= self._noted:
            raise ValueError("checkpoints stand in the order of their sizes, each once")
        if checkpoint.size != kept.size:
            raise ValueError(f"it states size {checkpoint.size}, not {kept.size}")
        size, root = (self._log.size, self._log.root()) if self._header.whole else (self.stated.size, self.stated.root)
        if kept.size != size or self._entries is not None or not self._fresh:
            raise ValueError(f"a checkpoint of size {kept.size} does not stand at size {size}")
        if checkpoint.root != root:
            self._fault(f"the log of {size} leaves has another root than the checkpoint")
        if not self._header.whole and (self._arrival or kept.state == 0):
            raise ValueError("a signed checkpoint stands before the records that are proven by it")
        self._noted, self._fresh = kept.size, False
        return kept

    def take_proof(self, proof: Proof) -> Proof:
        """By Rule 5."""
        run = self._runs.get(proof.run)
        where = (proof.run, proof.entry.seq)
        if run.seq == 0 or run.attested or run.arrival != self._arrival:
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
            stated = self.stated
            verify_inclusion(leaf=leaf, index=proof.index, size=stated.size, proof=proof.path, root=stated.root)
        except VerificationError as error:
            self._fault(f"the proof does not hold: {error}", *where)
        return proof

    # --- checkpoints from outside -------------------------------------------------------------------------------------

    def _compare(self, size: int) -> None:
        """Hold the log of so many leaves to the checkpoints from outside of that size."""
        while self._outside and self._outside[0].checkpoint.size == size and self._header.whole:
            seen = self._outside.pop(0)
            self._seen.matched.add(seen.source)
            if seen.checkpoint.root != self._log.root():
                self._fault(f"the log of {size} leaves is not that of {seen.source}: its root is another one")

    def _compare_at_end(self, seen: Outside) -> None:
        stated, size = self.stated, seen.checkpoint.size
        if self._header.whole:
            self._seen.matched.add(seen.source)
            self._fault(f"{seen.source} is of size {size}, the log has {self._log.size} leaves: some are missing")
        elif size == stated.size:
            self._seen.matched.add(seen.source)
            if seen.checkpoint.root != stated.root:
                self._fault(f"the log of {size} leaves is not that of {seen.source}: its root is another one")
