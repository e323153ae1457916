"""The content of a bundle: frames one after another, each a kind, a length, and what it says.

    frame      kind u8 ‖ bytes u32be ‖ what it says
    content    H Q* K* (T part E)* Z

    kind   what it says
    H      header      CBOR map: what, lineage, asked, since?, until?, left_out
    Q      asked       a name: of a run or of a case that was asked for
    K      key         CBOR map: name, public, purpose, algorithm: a public key, as the exporter says
    T      tenant      CBOR map: tenant, origin, records, size, root
    S      signer      algorithm u8 ‖ public key 32
    R      record      the row as the store has it
    B      entry       entry of an anchor batch 90 ‖ run
    L      leaf        index u64be ‖ leaf entry 90 ‖ run, which is empty for types 3 and 4
    C      checkpoint  size u64be ‖ state u8 ‖ the signed note, in state 0 the checkpoint's text
    P      proof       index u64be ‖ entry 90 ‖ hashes u8 ‖ 32 × hashes ‖ inner bytes u32be ‖ inner ‖ run
    E      end         CBOR map: counts of the tenant's part
    Z      end of all  CBOR map: counts of the bundle

Here they are built and taken apart, one by one. What they must be together, `reader` says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from sealbook.journal.bundle.faults import CONTENT, Damaged, Fault
from sealbook.journal.errors import Corrupt, Refused
from sealbook.journal.records import cbor
from sealbook.journal.records import names as ids
from sealbook.journal.records.body import BODY_BYTES_MAX, LINEAGE_BYTES
from sealbook.journal.records.row import Row, decode_row
from sealbook.merkle.anchor_batch import INNER_HASHES_MAX, INNER_PREFIX
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LEAF_ENTRY_BYTES, LeafEntry
from sealbook.merkle.errors import Malformed
from sealbook.merkle.hashing import EMPTY_ROOT, HASH_BYTES, PROOF_HASHES_MAX, SIZE_MAX
from sealbook.merkle.keys import ED25519_PUBLIC_KEY_BYTES, MLDSA44_PUBLIC_KEY_BYTES, NAME_BYTES_MAX
from sealbook.merkle.note import NOTE_BYTES_MAX, Note

HEADER, ASKED, KEY, TENANT, SIGNER, RECORD, ENTRY, LEAF, CHECKPOINT, PROOF, END, END_OF_ALL = b"HQKTSRBLCPEZ"
NAMES = {
    HEADER: "header",
    ASKED: "asked",
    KEY: "key",
    TENANT: "tenant",
    SIGNER: "signer",
    RECORD: "record",
    ENTRY: "entry",
    LEAF: "leaf",
    CHECKPOINT: "checkpoint",
    PROOF: "proof",
    END: "end",
    END_OF_ALL: "end of all",
}
COUNTED = {  # what a tenant's part counts: the member of `Counts` by kind; runs are counted by their first records
    SIGNER: "signers",
    RECORD: "records",
    ENTRY: "entries",
    LEAF: "leaves",
    CHECKPOINT: "checkpoints",
    PROOF: "proofs",
}
HEAD = struct.Struct(">BI")
MAP_BYTES_MAX = 4096
INNER_BYTES_MAX = len(INNER_PREFIX) + LEAF_ENTRY_BYTES + 8 + HASH_BYTES * INNER_HASHES_MAX
BYTES_MAX = {
    **dict.fromkeys((HEADER, KEY, TENANT, END, END_OF_ALL), MAP_BYTES_MAX),
    ASKED: ids.RUN_BYTES_MAX,
    SIGNER: 33,
    RECORD: BODY_BYTES_MAX + 256,
    ENTRY: LEAF_ENTRY_BYTES + ids.RUN_BYTES_MAX,
    LEAF: 8 + LEAF_ENTRY_BYTES + ids.RUN_BYTES_MAX,
    CHECKPOINT: 9 + NOTE_BYTES_MAX,
    PROOF: 8 + LEAF_ENTRY_BYTES + 1 + HASH_BYTES * PROOF_HASHES_MAX + 4 + INNER_BYTES_MAX + ids.RUN_BYTES_MAX,
}
WHOLE = ("store", "tenant")  # what a bundle may hold: every record, from which a store can be built again,
SELECTED = ("runs", "cases", "span")  # or selected runs, whole, of one tenant
KEYS = {  # (purpose, algorithm of a verifier key): the bytes of its public half
    ("record", 1): ED25519_PUBLIC_KEY_BYTES,
    ("log", 1): ED25519_PUBLIC_KEY_BYTES,
    ("witness", 4): ED25519_PUBLIC_KEY_BYTES,
    ("witness", 6): MLDSA44_PUBLIC_KEY_BYTES,
}
KEYS_MAX = 1000  # in a bundle: a reader remembers all of them
assert ids.CASE_BYTES_MAX <= ids.RUN_BYTES_MAX


class Frame(NamedTuple):
    """One frame and where it begins in the content."""

    kind: int
    payload: bytes
    offset: int

    @property
    def name(self) -> str:
        """Its kind as people read it."""
        return NAMES[self.kind]


@dataclass(frozen=True, slots=True)
class Header:
    """What was asked for and what is not in here. `since` and `until` are microseconds since 1970, both inclusive."""

    what: str
    lineage: bytes
    asked: int
    since: int | None
    until: int | None
    left_out: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether every record of its tenants is there."""
        return self.what in WHOLE


@dataclass(frozen=True, slots=True)
class ClaimedKey:
    """A public key, and whose it is and what for, as the exporter says: `record`, `log` or `witness`.

    `algorithm` is that of a verifier key (C2SP signed-note). Nothing in a bundle is checked with it.
    """

    name: str
    public: bytes
    purpose: str
    algorithm: int


@dataclass(frozen=True, slots=True)
class TenantPart:
    """Where a tenant stood when it was exported: `records` counts all that it had; `size` and `root` are of the log
    that its leaves give, or that the proofs lead to."""

    tenant: str
    origin: str
    records: int
    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class Counts:
    """What a tenant's part holds."""

    checkpoints: int = 0
    entries: int = 0
    leaves: int = 0
    proofs: int = 0
    records: int = 0
    runs: int = 0
    signers: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """What a bundle holds."""

    keys: int = 0
    records: int = 0
    runs: int = 0
    tenants: int = 0

    def plus(self, part: Counts) -> Totals:
        """The totals with one more tenant's part."""
        return replace(self, records=self.records + part.records, runs=self.runs + part.runs, tenants=self.tenants + 1)


@dataclass(frozen=True, slots=True)
class KeptNote:
    """A checkpoint as the store kept it: its size, how far it had come, and the note."""

    size: int
    state: int
    note: bytes


@dataclass(frozen=True, slots=True)
class Attested:
    """A leaf entry of the run, or of none; `index` is its log position, None for an entry of an anchor batch."""

    index: int | None
    entry: LeafEntry
    run: str


@dataclass(frozen=True, slots=True)
class Proof:
    """That the run's entry stands in the log, `inner` by way of an anchor batch."""

    index: int
    entry: LeafEntry
    path: tuple[bytes, ...]
    inner: bytes
    run: str


# --- building --------------------------------------------------------------------------------------------------------


def frame(kind: int, payload: bytes) -> bytes:
    """The frame's bytes."""
    assert len(payload) <= BYTES_MAX[kind]
    return HEAD.pack(kind, len(payload)) + payload


def encode_map(value: Header | ClaimedKey | TenantPart | Counts | Totals) -> bytes:
    """The CBOR of a frame that is a map; members that are None are left out."""
    members = {name: member for name, member in asdict(value).items() if member is not None}
    return cbor.encode_map(members, "frame")[0]


def encode_attested(attested: Attested) -> bytes:
    """What a leaf's frame says, or an entry's."""
    position = b"" if attested.index is None else attested.index.to_bytes(8)
    return position + attested.entry.encode() + attested.run.encode()


def encode_note(note: KeptNote) -> bytes:
    """What a checkpoint's frame says."""
    return note.size.to_bytes(8) + bytes([note.state]) + note.note


def encode_proof(proof: Proof) -> bytes:
    """What a proof's frame says."""
    path = bytes([len(proof.path)]) + b"".join(proof.path)
    inner = len(proof.inner).to_bytes(4) + proof.inner
    return proof.index.to_bytes(8) + proof.entry.encode() + path + inner + proof.run.encode()


# --- taking apart ----------------------------------------------------------------------------------------------------


def frames(blocks: Iterable[bytes], rest: bytearray | None = None) -> Iterator[Frame]:
    """The frames that the content's blocks hold. `Damaged` for a kind that there is none of, a length beyond the
    kind's limit, or a frame that is cut off: its bytes go to `rest` instead where the content may end anywhere."""
    held, offset = bytearray(), 0
    for block in blocks:
        held += block
        at = 0
        while len(held) - at >= HEAD.size:
            kind, length = HEAD.unpack_from(held, at)
            if kind not in NAMES or length > BYTES_MAX[kind]:
                raise Damaged(Fault("no frame begins so", "frame", CONTENT, offset))
            end = at + HEAD.size + length
            if len(held) < end:
                break
            yield Frame(kind, bytes(held[at + HEAD.size : end]), offset)
            offset += end - at
            at = end
        del held[:at]
    if rest is not None:
        rest += held
    elif held:
        raise Damaged(Fault("the content ends within a frame", "frame", CONTENT, offset))


def decode_header(payload: bytes) -> Header:
    """The header; ValueError when it is none."""
    members = _map(payload, {"what", "lineage", "asked", "left_out"}, {"since", "until"})
    left_out = members["left_out"]
    if not isinstance(left_out, list) or not all(isinstance(item, str) for item in left_out):
        raise ValueError("left_out is no list of texts")
    header = Header(
        _text(members, "what"),
        _bytes(members, "lineage", LINEAGE_BYTES),
        _number(members, "asked"),
        _instant(members, "since"),
        _instant(members, "until"),
        tuple(left_out),
    )
    if header.what not in WHOLE + SELECTED:
        raise ValueError("what is none that a bundle holds")
    if (header.asked > 0) != (header.what in ("runs", "cases")):
        raise ValueError("names stand in a bundle of runs or cases, and there alone")
    if header.what != "span" and (header.since, header.until) != (None, None):
        raise ValueError("instants bound a span alone")
    return header


def decode_key(payload: bytes) -> ClaimedKey:
    """A key as it is claimed; ValueError when the bytes are none. Whether it could have signed is not asked."""
    members = _map(payload, {"name", "public", "purpose", "algorithm"})
    key = ClaimedKey(
        _text(members, "name"), members["public"], _text(members, "purpose"), _number(members, "algorithm")
    )
    if not 1 <= len(key.name.encode()) <= NAME_BYTES_MAX:
        raise ValueError(f"the name of a key is 1 to {NAME_BYTES_MAX} bytes")
    length = KEYS.get((key.purpose, key.algorithm))
    if length is None:
        raise ValueError("no key of that purpose has that algorithm")
    _bytes(members, "public", length)
    return key


def decode_tenant(payload: bytes) -> TenantPart:
    """Where a tenant stood; ValueError when the bytes do not say so."""
    members = _map(payload, {"tenant", "origin", "records", "size", "root"})
    part = TenantPart(
        _name(ids.check_tenant, members["tenant"]),
        _text(members, "origin"),
        _number(members, "records"),
        _number(members, "size"),
        _bytes(members, "root", HASH_BYTES),
    )
    if part.size == 0 and part.root != EMPTY_ROOT:
        raise ValueError("a log without leaves has another root")
    return part


def decode_counts(payload: bytes) -> Counts:
    """A part's counts; ValueError when the bytes are none."""
    return Counts(**_numbers(payload, Counts))


def decode_totals(payload: bytes) -> Totals:
    """A bundle's counts; ValueError when the bytes are none."""
    return Totals(**_numbers(payload, Totals))


def decode_name(name: bytes) -> str:
    """The name of a run, or of a case that was asked for; ValueError when it is none."""
    try:
        text = name.decode()
    except UnicodeDecodeError as error:
        raise ValueError("the name is no UTF-8") from error
    return _name(ids.check_run, text)


def decode_signer(payload: bytes) -> tuple[int, bytes]:
    """(algorithm, public key); ValueError when the bytes are none."""
    if len(payload) != 33:
        raise ValueError("a signer is 33 bytes")
    return payload[0], payload[1:]


def decode_record_row(payload: bytes) -> Row:
    """The record's row, not yet believed; ValueError when it is none."""
    try:
        row = decode_row(payload, None, None)
    except Corrupt as error:
        raise ValueError(error.what) from error
    if not 1 <= row.arrival <= SIZE_MAX:
        raise ValueError("the arrival is impossible")
    return row


def decode_attested(kind: int, payload: bytes) -> Attested:
    """The leaf, or the entry of a batch; ValueError when the bytes are none."""
    at = 8 if kind == LEAF else 0
    if len(payload) < at + LEAF_ENTRY_BYTES:
        raise ValueError("it is cut off")
    index = int.from_bytes(payload[:8]) if kind == LEAF else None
    name = payload[at + LEAF_ENTRY_BYTES :]
    return Attested(index, _entry(payload[at : at + LEAF_ENTRY_BYTES]), decode_name(name) if name else "")


def decode_note(payload: bytes) -> KeptNote:
    """The checkpoint as it was kept; ValueError when the bytes are none. The note is not looked at."""
    if len(payload) < 9 or payload[8] > 3:
        raise ValueError("it is no checkpoint that a store kept")
    return KeptNote(int.from_bytes(payload[:8]), payload[8], payload[9:])


def read_note(kept: KeptNote) -> Checkpoint:
    """What a kept checkpoint states; ValueError when it is none."""
    try:
        return Checkpoint.parse(kept.note if kept.state == 0 else Note.parse(kept.note).text)
    except Malformed as error:
        raise ValueError(str(error)) from error


def decode_proof(payload: bytes) -> Proof:
    """The proof; ValueError when the bytes are none. It is not verified."""
    at = 8 + LEAF_ENTRY_BYTES
    if len(payload) <= at:
        raise ValueError("it is cut off")
    entry, count = _entry(payload[8:at]), payload[at]
    inner_at = at + 1 + HASH_BYTES * count
    run_at = inner_at + 4 + int.from_bytes(payload[inner_at : inner_at + 4])
    if count > PROOF_HASHES_MAX or len(payload) <= run_at:
        raise ValueError("it is cut off")
    path = tuple(payload[at + 1 + HASH_BYTES * number :][:HASH_BYTES] for number in range(count))
    inner = payload[inner_at + 4 : run_at]
    return Proof(int.from_bytes(payload[:8]), entry, path, inner, decode_name(payload[run_at:]))


def _map(payload: bytes, always: set[str], sometimes: frozenset[str] | set[str] = frozenset()) -> dict[str, Any]:
    members = cbor.decode(payload)
    if not isinstance(members, dict) or not always <= members.keys() <= always | sometimes:
        raise ValueError("its members are not those of such a frame")
    try:
        again = cbor.encode_map(members, "frame")[0]
    except Refused as error:
        raise ValueError(str(error)) from error
    if again != payload:
        raise ValueError("it is not in its canonical encoding")
    return members


def _text(members: dict[str, Any], name: str) -> str:
    value = members[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def _bytes(members: dict[str, Any], name: str, length: int) -> bytes:
    value = members[name]
    if not isinstance(value, bytes) or len(value) != length:
        raise ValueError(f"{name} is not {length} bytes")
    return value


def _number(members: dict[str, Any], name: str) -> int:
    value = members[name]
    if type(value) is not int or not 0 <= value <= SIZE_MAX:
        raise ValueError(f"{name} is no number")
    return value


def _numbers(payload: bytes, kind: type[Counts] | type[Totals]) -> dict[str, int]:
    names = set(kind.__dataclass_fields__)
    members = _map(payload, names)
    return {name: _number(members, name) for name in names}


def _instant(members: dict[str, Any], name: str) -> int | None:
    value = members.get(name)
    if name in members and (type(value) is not int or not -(2**63) <= value < 2**63):
        raise ValueError(f"{name} is no instant")
    return value


def _name(check: Any, value: object) -> str:
    try:
        name: str = check(value)
    except Refused as error:
        raise ValueError(str(error)) from error
    return name


def _entry(data: bytes) -> LeafEntry:
    try:
        return LeafEntry.decode(data)
    except Malformed as error:
        raise ValueError(str(error)) from error
