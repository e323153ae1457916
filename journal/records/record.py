"""One record as it is read: a stored row, hashed, taken apart and believed.

    body   deterministic CBOR map: v tenant run seq epoch at kind case? effect? attempt? signer? data
           a run's first record also has journal (16-byte lineage of the store) and salt (32 random bytes)
    hash   BLAKE3(derive-key "sealbook 2026 record v1", prev ‖ body); the first prev is 32 zero bytes
    row    arrival u64le ‖ prev 32 ‖ hash 32 ‖ flag (0 unsigned, 1 signed) ‖ [signature] ‖ body
           signature and body each stand after their length, u32le; nothing follows the body

Stored bytes are hashed before they are parsed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import cbor2

from sealbook.journal.errors import Corrupt, UnknownVersion
from sealbook.journal.records import cbor
from sealbook.journal.records.body import MEMBERS, encoding_fault, is_int, shape_fault
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.row import Row, decode_row
from sealbook.journal.records.versions import Upcaster


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
    if seq is None and is_int(body.get("seq")):
        seq = body["seq"]
    kind, version = body["kind"], body["v"]
    known = upcaster.current_version(kind)
    if version != known and (version > known or version < 1):
        raise UnknownVersion(f"kind {kind} version {version} is newer than version {known}, which is known", run, seq)
    fault = shape_fault(body)
    if fault is None and strict and (extra := body.keys() - MEMBERS):
        fault = f"the body has unknown members: {', '.join(map(repr, sorted(extra, key=repr)))}"
    if fault is not None:
        raise Corrupt(fault, run, seq)
    if strict and (fault := encoding_fault(body, row.body)):
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
