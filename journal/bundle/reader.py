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
from sealbook.journal.bundle.part import ASKED, PartReader, Run, Runs, Seen, SignerKey
from sealbook.journal.bundle.records import Believed
from sealbook.journal.records.trust import Outside
from sealbook.journal.records.versions import IdentityUpcaster, Upcaster

FAULTS_MAX = 1000  # that are told; what follows the thousandth says nothing new

Tell = Callable[[Fault], None]


# --- what a reader is given ------------------------------------------------------------------------------------------


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
        self._reader = _BundleReader(tell or _raise, outside, upcaster or IdentityUpcaster())

    @property
    def digest(self) -> bytes | None:
        """The digest over the whole file; None before its end."""
        return self._container.digest

    @property
    def newer(self) -> int:
        """How many records are of a newer version, so that only their chain could be checked."""
        return self._reader.seen.newer

    @property
    def signed(self) -> int:
        """How many records are signed, each with a signature that is its key's."""
        return self._reader.seen.signed

    @property
    def matched(self) -> frozenset[str]:
        """The sources of the outside checkpoints that a log of the bundle was compared with."""
        return frozenset(self._reader.seen.matched)

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


class _BundleReader:
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
        self._part: PartReader | None = None
        self._tenant_last = ""
        self._totals = Totals()
        self._over = False
        self._runs, self.seen = Runs(), Seen()

    def close(self) -> None:
        self._runs.close()
        if self._part is not None:
            self._part.close()

    def item(self, frame: Frame) -> Item:
        """The next frame, held to the rules."""
        self._frame = frame
        self._end = frame.offset + fr.HEAD.size + len(frame.payload)
        if self._over:
            self._stop("it follows the end of all")
        if frame.kind not in self._expected():
            self._stop(f"no {frame.name} stands here")
        part = self._part
        if frame.kind in fr.COUNTED:
            self._current.count(frame.kind)
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
                return self._take_asked(fr.decode_name(payload))
            case fr.KEY:
                return self._take_key(payload)
            case fr.TENANT:
                return self._take_tenant(fr.decode_tenant(payload))
            case fr.SIGNER:
                return self._current.take_signer(*fr.decode_signer(payload))
            case fr.RECORD:
                return self._current.take_record(payload)
            case fr.ENTRY:
                return self._current.take_entry(fr.decode_attested(fr.ENTRY, payload))
            case fr.LEAF:
                return self._current.take_leaf(fr.decode_attested(fr.LEAF, payload))
            case fr.CHECKPOINT:
                return self._current.take_checkpoint(fr.decode_note(payload))
            case fr.PROOF:
                return self._current.take_proof(fr.decode_proof(payload))
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
        self._part = PartReader(
            self._head,
            stated,
            mine,
            self._runs,
            absent=self._asked if self._head.what == "runs" else 0,
            upcaster=self._upcaster,
            seen=self.seen,
            fault=self._fault,
        )
        self._part.begin()
        return stated

    def _take_end(self, stated: Counts) -> Counts:
        self._current.end(stated)
        self._totals = self._totals.plus(self._current.counts)
        self.close()
        self._part, self._runs = None, Runs()
        return stated

    def _take_end_of_all(self, stated: Totals) -> Totals:
        if stated != self._totals:
            self._fault(f"it counts {stated}, there are {self._totals}")
        if self._head.what != "store" and self._totals.tenants != 1:
            self._fault("this bundle is of one tenant")
        self._over = True
        return stated

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    def _head(self) -> Header:
        assert self._header is not None
        return self._header

    @property
    def _current(self) -> PartReader:
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
