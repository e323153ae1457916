"""One record: its canonical body, its place in the chain, its signature, and its stored row.

    body   deterministic CBOR map: v tenant run seq epoch at kind case? effect? attempt? signer? data
           a run's first record also has journal (16-byte lineage of the store) and salt (32 random bytes)
    hash   BLAKE3(derive-key "sealbook 2026 record v1", prev ‖ body); the first prev is 32 zero bytes
    row    arrival u64le ‖ prev 32 ‖ hash 32 ‖ flag (0 unsigned, 1 signed) ‖ [signature] ‖ body
           signature and body each stand after their length, u32le; nothing follows the body

Stored bytes are hashed before they are parsed (behaviour P24).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import cbor2
from blake3 import blake3

from sealbook.indexes.packing import u64
from sealbook.journal.errors import Corrupt, InvalidEntry, InvalidInput, Refused, TooLarge, UnknownVersion
from sealbook.journal.records import cbor
from sealbook.journal.records.entries import EFFECT_KEY_BYTES, length_prefixed
from sealbook.journal.records.names import EPOCH_MAX, check_case, check_kind, check_run, check_tenant

BODY_BYTES_MAX = 4 * 2**20
GENESIS = bytes(32)
HASH_CONTEXT = "sealbook 2026 record v1"
RUN_TAG_CONTEXT = "sealbook 2026 run tag v1"
TENANT_TAG_CONTEXT = "sealbook 2026 tenant tag v1"
SIGNATURE_DOMAIN = b"sealbook/record/v1\0"
_PROBE = b"sealbook/probe/v1\0"  # no record's signature covers it
ED25519 = 1  # the algorithm byte of a signer id
SALT_BYTES = 32
SIGNER_BYTES = 32
SIGNATURE_BYTES = 64
LINEAGE_BYTES = 16

_FIXED = struct.Struct("<Q32s32sB")
_LENGTH = struct.Struct("<I")
_UNSIGNED = struct.Struct("<Q32s32sBI")  # all that stands before the body of an unsigned record

MEMBERS = frozenset(
    (
        "v",
        "at",
        "run",
        "seq",
        "case",
        "data",
        "kind",
        "salt",
        "epoch",
        "effect",
        "signer",
        "tenant",
        "attempt",
        "journal",
    )
)
assert len(MEMBERS) < 24  # so that a body's map head is one byte

_MAP_HEADS = [bytes((0xA0 + members,)) for members in range(24)]  # by the number of members
_DATA_KEY = cbor2.dumps("data")


def _bytes_head(name: str, length: int) -> bytes:
    """The key of a member and all of its value but the bytes themselves."""
    return cbor2.dumps(name) + cbor2.dumps(bytes(length))[:-length]


_SALT_HEAD = _bytes_head("salt", SALT_BYTES)
_EFFECT_HEAD = _bytes_head("effect", EFFECT_KEY_BYTES)
_SIGNER_HEAD = _bytes_head("signer", SIGNER_BYTES)
_JOURNAL_HEAD = _bytes_head("journal", LINEAGE_BYTES)


class Signer(Protocol):
    """Whoever signs records: an Ed25519 key, or a device that holds one."""

    @property
    def public_key(self) -> bytes:
        """The 32 raw bytes of the public key."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The 64-byte Ed25519 signature of the message."""
        ...


class Upcaster(Protocol):
    """Lifts the data of older record versions when they are read. Bytes and hashes never change."""

    def current_version(self, kind: str) -> int:
        """The version that this build writes for records of this kind."""
        ...

    def upcast(self, kind: str, version: int, data: dict[str, Any]) -> dict[str, Any] | None:
        """The data as the current version has it; None when the version cannot be reached from here."""
        ...


class IdentityUpcaster:
    """The default: every kind is at version 1 and nothing is lifted (behaviour P22)."""

    def current_version(self, kind: str) -> int:
        """Always 1."""
        return 1

    def upcast(self, kind: str, version: int, data: dict[str, Any]) -> dict[str, Any] | None:
        """Never reaches another version."""
        return None


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a run's chain: its number of records and the hash of the last, 32 zero bytes at seq 0."""

    seq: int
    hash: bytes


class Row(NamedTuple):
    """A stored row of table `journal`, taken apart and not yet believed."""

    arrival: int
    prev: bytes
    hash: bytes
    signature: bytes | None
    body: bytes


class Record(NamedTuple):
    """One immutable entry of a run, as it was read. A named tuple, a quarter of the cost of a frozen dataclass.

    `at` is unix milliseconds, stamped by the store. `hash`, `prev`, `effect` and `signer` are bytes. `body` is the
    exact bytes that `hash` covers; `data` is what they say, lifted to the current version where it was older.
    """

    tenant: str
    run: str
    seq: int
    arrival: int
    epoch: int
    at: int
    kind: str
    v: int
    case: str | None
    effect: bytes | None
    attempt: int | None
    data: dict[str, Any]
    prev: bytes
    hash: bytes
    signer: bytes | None
    signature: bytes | None
    salt: bytes | None
    body: bytes


def chain_hash(prev: bytes, body: bytes) -> bytes:
    """The hash of a record: BLAKE3 in derive-key mode over the previous hash and the body."""
    return blake3(prev + body, derive_key_context=HASH_CONTEXT).digest()


def run_tag(salt: bytes, tenant: str, run: str) -> bytes:
    """What names a run in the log without telling its name: it takes the run's salt to compute it."""
    message = salt + length_prefixed(tenant.encode(), run.encode())
    return blake3(message, derive_key_context=RUN_TAG_CONTEXT).digest()


def tenant_tag(lineage: bytes, tenant: str, adoption: int) -> bytes:
    """What a tenant's log is called in the store log: `adoption` counts it anew after it went on under a new origin.

    Who holds a record of the store knows its lineage, and so the tag; nobody else learns a name from a tag."""
    message = lineage + length_prefixed(tenant.encode()) + u64(adoption)
    return blake3(message, derive_key_context=TENANT_TAG_CONTEXT).digest()


def signer_id(public_key: bytes) -> bytes:
    """The name of a signer: SHA-256 of the algorithm byte and the public key."""
    return hashlib.sha256(bytes([ED25519]) + public_key).digest()


def signed_message(record_hash: bytes) -> bytes:
    """What a record's signature covers."""
    return SIGNATURE_DOMAIN + record_hash


class Ed25519Signer:
    """A signer that holds its private key in memory: the 32-byte seed of an Ed25519 key."""

    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_key: bytes = self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature of the message."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"Ed25519Signer(public_key={self.public_key.hex()})"


def check_signer(signer: Signer) -> None:
    """Have the signer sign something that is no record, once: `InvalidInput` when its signature is not its key's.

    A signer that is broken later writes what `check` then finds.
    """
    try:
        public_key = signer.public_key
        if not isinstance(public_key, bytes) or len(public_key) != 32:
            raise InvalidInput("signer", public_key, "must have an Ed25519 public key of 32 bytes")
        if not _is_signature(public_key, _PROBE, signer.sign(_PROBE)):
            raise InvalidInput("signer", public_key.hex(), "makes signatures that are not those of its public key")
    except (AttributeError, TypeError) as error:
        raise InvalidInput("signer", signer, f"is no signer: {error}") from error


def verify_signature(public_key: bytes, record_hash: bytes, signature: bytes) -> bool:
    """Whether the signature is that of this key over this record's hash."""
    return _is_signature(public_key, signed_message(record_hash), signature)


def _is_signature(public_key: bytes, message: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


# --- writing ---------------------------------------------------------------------------------------------


def encode_body(
    *,
    v: int,
    tenant: str,
    run: str,
    seq: int,
    epoch: int,
    at: int,
    kind: str,
    data: bytes,
    case: str | None = None,
    effect: bytes | None = None,
    attempt: int | None = None,
    signer: bytes | None = None,
    journal: bytes | None = None,
    salt: bytes | None = None,
) -> bytes:
    """The body of these members, in canonical order; `data` is encoded already, and members that are None are left out.

    Written out, because it is the dearest step of an append: `TooLarge` when the body is.
    """
    parts = [b"", _member("v", v), _member("at", at), _member("run", run), _member("seq", seq)]
    if case is not None:
        parts.append(_member("case", case))
    parts += (_DATA_KEY, data, _member("kind", kind))
    if salt is not None:
        parts += (_SALT_HEAD, salt)
    parts.append(_member("epoch", epoch))
    if effect is not None:
        parts += (_EFFECT_HEAD, effect)
    if signer is not None:
        parts += (_SIGNER_HEAD, signer)
    parts.append(_member("tenant", tenant))
    if attempt is not None:
        parts.append(_member("attempt", attempt))
    if journal is not None:
        parts += (_JOURNAL_HEAD, journal)
    optional = (case, salt, effect, signer, attempt, journal)
    parts[0] = _MAP_HEADS[len(MEMBERS) - optional.count(None)]
    body = b"".join(parts)
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(len(body), BODY_BYTES_MAX)
    return body


@lru_cache(maxsize=8192, typed=True)
def _member(name: str, value: str | int) -> bytes:
    """A member of a body. Cached: most of them are those of the record before."""
    return cbor2.dumps(name) + cbor2.dumps(value)


def encode_row(row: Row) -> bytes:
    """The bytes of a stored row."""
    fixed = _FIXED.pack(row.arrival, row.prev, row.hash, row.signature is not None)
    if row.signature is not None:
        fixed += _LENGTH.pack(len(row.signature)) + row.signature
    return fixed + _LENGTH.pack(len(row.body)) + row.body


# --- reading ---------------------------------------------------------------------------------------------


def decode_row(value: bytes, run: str | None, seq: int | None) -> Row:
    """A stored row taken apart; `Corrupt` naming the part that is damaged (behaviour A36 to A39)."""
    if len(value) >= _UNSIGNED.size:
        arrival, prev, record_hash, flag, length = _UNSIGNED.unpack_from(value)
        if flag == 0 and length == len(value) - _UNSIGNED.size:
            return Row(arrival, prev, record_hash, None, value[_UNSIGNED.size :])  # as with most records
    if len(value) < _FIXED.size:
        raise Corrupt("the row is cut off in its header", run, seq)
    arrival, prev, record_hash, flag = _FIXED.unpack_from(value)
    if flag not in (0, 1):
        raise Corrupt(f"the row's flag is {flag}, neither unsigned (0) nor signed (1)", run, seq)
    offset, signature = _FIXED.size, None
    if flag == 1:
        signature, offset = _field(value, offset, "signature", run, seq)
        if len(signature) != SIGNATURE_BYTES:
            raise Corrupt(f"the signature is {len(signature)} bytes", run, seq)
    body, offset = _field(value, offset, "body", run, seq)
    if offset != len(value):
        raise Corrupt(f"{len(value) - offset} bytes follow the body", run, seq)
    return Row(arrival, prev, record_hash, signature, body)


def _field(value: bytes, offset: int, what: str, run: str | None, seq: int | None) -> tuple[bytes, int]:
    if len(value) < offset + _LENGTH.size:
        raise Corrupt(f"the row is cut off before its {what}", run, seq)
    end = offset + _LENGTH.size + _LENGTH.unpack_from(value, offset)[0]
    if len(value) < end:
        raise Corrupt(f"the row is cut off in its {what}", run, seq)
    return value[offset + _LENGTH.size : end], end


def decode_record(
    row: Row, *, tenant: str, run: str | None, seq: int | None, upcaster: Upcaster, strict: bool = False
) -> Record:
    """The record that a row holds, which must be record `seq` of the run; None for whichever it says that it is.

    The hash is recomputed before anything is parsed. `Corrupt`: the hash does not cover these bytes, they are no
    record, or they are another one. `UnknownVersion`: the record is whole, and of a version that this build and its
    upcaster cannot read. `strict` also demands the one canonical encoding and no unknown member.
    """
    if chain_hash(row.prev, row.body) != row.hash:
        raise Corrupt("the hash does not cover the record's bytes", run, seq)
    try:
        body = cbor.decode(row.body)
    except ValueError as error:
        raise Corrupt(f"the body is no CBOR: {error}", run, seq) from error
    if type(body) is not dict or type(body.get("kind")) is not str or type(body.get("v")) is not int:
        raise Corrupt("the body is no record", run, seq)
    if run is None and isinstance(body.get("run"), str):
        run = body["run"]
    if seq is None and _is_int(body.get("seq")):
        seq = body["seq"]
    kind, version = body["kind"], body["v"]
    known = upcaster.current_version(kind)
    if version != known and (version > known or version < 1):
        raise UnknownVersion(f"kind {kind} version {version} is newer than version {known}, which is known", run, seq)
    fault = _shape_fault(body)
    if fault is None and strict and (extra := body.keys() - MEMBERS):
        fault = f"the body has unknown members: {', '.join(map(repr, sorted(extra, key=repr)))}"
    if fault is not None:
        raise Corrupt(fault, run, seq)
    if strict and (fault := _encoding_fault(body, row.body)):
        raise Corrupt(fault, run, seq)
    if (body["tenant"], body["run"], body["seq"]) != (tenant, run, seq):
        raise Corrupt(f"the body says it is {body['run']} record {body['seq']} of another place", run, seq)
    if ("signer" in body) != (row.signature is not None):
        raise Corrupt("signer and signature do not come together", run, seq)
    if (seq == 1) != ("salt" in body) or (seq == 1) != ("journal" in body):
        raise Corrupt("journal and salt stand in the first record and nowhere else", run, seq)
    data = body["data"]
    if version != known:
        lifted = upcaster.upcast(kind, version, data)
        if lifted is None:
            raise UnknownVersion(f"kind {kind} version {version} cannot be lifted to version {known}", run, seq)
        data = lifted
    optional = body.get
    return Record(  # by position, at half the cost: a run is read at a few microseconds per record
        tenant,
        body["run"],
        body["seq"],
        row.arrival,
        body["epoch"],
        body["at"],
        kind,
        version,
        optional("case"),
        optional("effect"),
        optional("attempt"),
        data,
        row.prev,
        row.hash,
        optional("signer"),
        row.signature,
        optional("salt"),
        row.body,
    )


def read_record(
    tenant: str, run: str | None, seq: int | None, arrival: int, value: bytes | None, upcaster: Upcaster
) -> Record:
    """The record that stands under this arrival, which must be that of the run and seq where they are given."""
    if value is None:
        raise Corrupt("the record is missing", run, seq)
    row = decode_row(value, run, seq)
    record = decode_record(row, tenant=tenant, run=run, seq=seq, upcaster=upcaster)
    if row.arrival != arrival:
        raise Corrupt(f"the record stands under arrival {arrival}, its row says {row.arrival}", record.run, record.seq)
    return record


@lru_cache(maxsize=1024)
def _members_of(tenant: str, run: str) -> tuple[bytes, bytes]:
    return b"\x66tenant" + cbor2.dumps(tenant), b"\x63run" + cbor2.dumps(run) + b"\x63seq"


def names(value: bytes, tenant: str, run: str, seq: int) -> bool:
    """Whether a row has the members in it that name this record, as the one encoding of a body has them.

    It is told from the bytes, at a tenth of the cost of decoding them: enough to see that a row was mistaken for
    another one, and nothing to believe a row by.
    """
    whose, which = _members_of(tenant, run)
    return whose in value and which + cbor2.dumps(seq) in value


def says_it_is(value: bytes) -> tuple[object, object, object] | None:
    """(tenant, run, seq) as a stored row states them, and nobody has checked; None when it states nothing."""
    try:
        body = cbor.decode(decode_row(value, None, None).body)
    except (Corrupt, ValueError):
        return None
    return (body.get("tenant"), body.get("run"), body.get("seq")) if isinstance(body, dict) else None


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_bytes(length: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, bytes) and len(value) == length


_SHAPE: dict[str, tuple[bool, Callable[[Any], bool]]] = {  # member: (always there, what it must be)
    "v": (True, lambda value: _is_int(value) and 1 <= value < 2**32),
    "tenant": (True, lambda value: isinstance(value, str)),
    "run": (True, lambda value: isinstance(value, str)),
    "seq": (True, lambda value: _is_int(value) and 1 <= value < 2**63),
    "epoch": (True, lambda value: _is_int(value) and 0 <= value <= EPOCH_MAX),
    "at": (True, lambda value: _is_int(value) and 0 <= value < 2**63),
    "kind": (True, lambda value: isinstance(value, str)),
    "data": (True, lambda value: isinstance(value, dict)),
    "case": (False, lambda value: isinstance(value, str)),
    "effect": (False, _is_bytes(EFFECT_KEY_BYTES)),
    "attempt": (False, lambda value: _is_int(value) and 1 <= value < 2**63),
    "signer": (False, _is_bytes(SIGNER_BYTES)),
    "journal": (False, _is_bytes(LINEAGE_BYTES)),
    "salt": (False, _is_bytes(SALT_BYTES)),
}
assert set(_SHAPE) == MEMBERS


def _shape_fault(body: dict[Any, Any]) -> str | None:
    """Which member is not what `_SHAPE` says, or None."""
    for name, (always, fits) in _SHAPE.items():
        if name in body:
            if not fits(body[name]):
                return f"the body's {name} is not what it must be"
        elif always:
            return f"the body has no {name}"
    return None


def _encoding_fault(body: dict[str, Any], encoded: bytes) -> str | None:
    """Why these bytes are not the one way to write this body, or None (re-encode and compare)."""
    try:
        check_tenant(body["tenant"])
        check_run(body["run"])
        check_kind(body["kind"])
        if "case" in body:
            check_case(body["case"])
        again = encode_body(**{**body, "data": cbor.encode_map(body["data"], "data")[0]})
    except (InvalidEntry, Refused) as error:
        return f"the body holds what no record may hold: {error}"
    return None if again == encoded else "the body is not in its canonical encoding"
