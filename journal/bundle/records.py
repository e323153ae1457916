"""Believe a record of a bundle: its hash, its one encoding, what it says it is. Memory stays bounded whatever it holds.

A large body is walked over, and its record made of the same envelope with the data cut down to the members that the
store reads: the rules that `decode_record` holds are the same for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cbor2

from sealbook.indexes.standing import seals
from sealbook.journal.bundle import canonical
from sealbook.journal.errors import Corrupt, InvalidName, Refused, UnknownVersion
from sealbook.journal.records import names
from sealbook.journal.records.body import BODY_BYTES_MAX, LINEAGE_BYTES, SALT_BYTES
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.record import Record, decode_record
from sealbook.journal.records.row import Row
from sealbook.journal.records.versions import Upcaster
from sealbook.merkle.note import NOTE_BYTES_MAX

BUILT_BYTES_MAX = 65_536  # a body up to here is simply decoded: it becomes less than 16 MiB of values
MEMBER_BYTES_MAX = 4096  # of a member that is kept, unless it is text or bytes,
TEXT_BYTES_MAX = NOTE_BYTES_MAX + 16  # which become no longer in memory: the longest is a signed note
SIGNER_BYTES = 32  # SHA-256
READ_MEMBERS = frozenset(  # of `data`, by the rules of admission and by the folds of operator acts
    {
        *("source", "id", "recovery", "disposition", "until", "outcome"),
        *("run", "actor", "reason", "basis", "owner", "epoch", "epoch_before"),
        *("origin", "old_origin", "old_size", "old_root", "old_checkpoint"),
        *("digest", "records", "size", "root"),
    }
)
UNREADABLE = b"\x80"  # an empty array, for a member that is longer: no rule takes one


@dataclass(frozen=True, slots=True)
class Believed:
    """A record whose bytes are what they say. `record` is None for one of a newer version, whose place alone is known.

    `final` says whether it is a conclusion that ends its run for good; None when that cannot be known.
    """

    row: Row
    run: str
    seq: int
    epoch: int
    record: Record | None
    lineage: bytes | None
    salt: bytes | None
    signer: bytes | None

    @property
    def final(self) -> bool | None:
        """Whether nothing may follow the record but a seal; None for a record of a newer version."""
        if self.record is None:
            return None
        return self.record.kind == "RunConcluded" and ends_for_good(self.record.data.get("outcome"))


def ends_for_good(outcome: object) -> bool:
    """Whether a conclusion with this outcome, which may be anything, seals."""
    try:
        return seals(names.check_outcome(outcome))
    except InvalidName:
        return False


def believe(row: Row, tenant: str, upcaster: Upcaster) -> Believed:
    """The record that a row holds. `Corrupt` as far as the place is known: the hash does not cover the bytes, they
    are not in their one encoding, or they are no record of this tenant."""
    if len(row.body) > BODY_BYTES_MAX:
        raise Corrupt(f"the body is {len(row.body)} bytes, the limit is {BODY_BYTES_MAX}")
    if chain_hash(row.prev, row.body) != row.hash:
        raise Corrupt("the hash does not cover the record's bytes")
    try:
        if len(row.body) <= BUILT_BYTES_MAX:
            record = decode_record(row, tenant=tenant, run=None, seq=None, upcaster=upcaster, strict=True)
        else:
            record = _cut_down(row, tenant, upcaster)
    except UnknownVersion:
        return _newer(row, tenant)
    # `journal` is the last member of a body in canonical order, so a first body ends in it
    lineage = row.body[-LINEAGE_BYTES:] if record.seq == 1 else None
    return Believed(row, record.run, record.seq, record.epoch, record, lineage, record.salt, record.signer)


def place_said(row: Row) -> tuple[str | None, int | None]:
    """The run and the place in it that a row's bytes name, whether or not they can be believed; None each for none."""
    try:
        envelope = canonical.spans(row.body, ())[0]
        run, seq = (cbor2.loads(_value(row.body, envelope[name])) for name in ("run", "seq"))
        return names.check_run(run), names.check_size("seq", seq)
    except (ValueError, KeyError, Refused):
        return None, None


def shown_data(record: Record, *, whole: bool) -> dict[str, Any]:
    """The record's data as it may be shown: of a large record the members that were kept, and what was left out."""
    if len(record.body) <= BUILT_BYTES_MAX:
        return record.data
    if whole:
        data: dict[str, Any] = cbor2.loads(record.body)["data"]
        return data
    return {**record.data, "…": f"{len(record.body)} bytes in all, hash {record.hash.hex()}"}


def _cut_down(row: Row, tenant: str, upcaster: Upcaster) -> Record:
    envelope, data = _spans(row)
    kept = {name: _value(row.body, span) for name, span in data.items()}
    members = {name: _value(row.body, span) for name, span in envelope.items()} | {"data": _map(kept)}
    cut = _map(members)
    short = Row(row.arrival, row.prev, chain_hash(row.prev, cut), row.signature, cut)
    record = decode_record(short, tenant=tenant, run=None, seq=None, upcaster=upcaster, strict=True)
    return record._replace(prev=row.prev, hash=row.hash, body=row.body)


def _value(body: bytes, span: canonical.Span) -> bytes:
    start, end = span
    text = body[start] >> 5 in (2, 3)
    return body[start:end] if end - start <= (TEXT_BYTES_MAX if text else MEMBER_BYTES_MAX) else UNREADABLE


def _map(members: dict[str, bytes]) -> bytes:
    """The map of these values, which are encoded and in their order."""
    assert len(members) <= len(READ_MEMBERS) < 24
    return bytes([0xA0 + len(members)]) + b"".join(cbor2.dumps(name) + value for name, value in members.items())


def _spans(row: Row) -> tuple[dict[str, canonical.Span], dict[str, canonical.Span]]:
    try:
        return canonical.spans(row.body, READ_MEMBERS)
    except ValueError as error:
        raise Corrupt(f"the body {error}") from error


def _newer(row: Row, tenant: str) -> Believed:
    """The place of a record whose version this build cannot read: its chain is checked all the same."""
    envelope = _spans(row)[0]
    members = {name: cbor2.loads(_value(row.body, span)) for name, span in envelope.items() if name != "data"}
    try:
        run, epoch = names.check_run(members.get("run")), names.check_epoch(members.get("epoch"))
        seq = names.check_size("seq", members.get("seq"))
    except Refused as error:
        raise Corrupt(f"a record of a newer version does not say which it is: {error}") from error
    if members.get("tenant") != tenant or seq < 1:
        raise Corrupt("a record of a newer version says that it is one of another place", run, seq)
    salt, lineage = _bytes(members, "salt", SALT_BYTES), _bytes(members, "journal", LINEAGE_BYTES)
    signer = _bytes(members, "signer", SIGNER_BYTES)
    if (seq == 1) != (salt is not None) or (seq == 1) != (lineage is not None):
        raise Corrupt("journal and salt stand in the first record and nowhere else", run, seq)
    if (signer is None) != (row.signature is None):
        raise Corrupt("signer and signature do not come together", run, seq)
    return Believed(row, run, seq, epoch, None, lineage, salt, signer)


def _bytes(members: dict[str, object], name: str, length: int) -> bytes | None:
    """The member, None where there is none; `Corrupt` when it is not so many bytes."""
    if name not in members:
        return None
    value = members[name]
    if not isinstance(value, bytes) or len(value) != length:
        raise Corrupt(f"the body's {name} is not what it must be")
    return value
