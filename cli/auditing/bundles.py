"""What an auditor brings to a bundle, what is in it, and the verdict as JSON. What is asked of it `verdict` says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from sealbook.journal.bundle import frames
from sealbook.journal.bundle.faults import Fault
from sealbook.journal.bundle.frames import ClaimedKey, Proof
from sealbook.journal.bundle.reader import Bundle
from sealbook.journal.bundle.records import Believed
from sealbook.journal.bundle.scratch import Scratch
from sealbook.journal.bundle.verdict import Claim, Verdict
from sealbook.journal.records import instants
from sealbook.journal.records.signatures import signer_id
from sealbook.journal.records.trust import Outside
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed
from sealbook.merkle.keys import Algorithm, VerifierKey
from sealbook.merkle.note import Note

if TYPE_CHECKING:
    from sealbook.merkle.note import SignedCheckpoint
    from sealbook.merkle.policy import Policy

WHOLE_PROVES = (
    "the records, leaves and checkpoints of the bundle agree with each other and are complete as it counts them"
)
SELECTION_PROVES = "each proven run stands in the log; that no other run does, a selection does not show"


def parse_anchor(source: str, data: bytes, policy: Policy | None) -> Outside:
    """A checkpoint from outside: a signed note, or its text alone. With a policy it must be a note that meets it.

    `Malformed` says what a checkpoint is, and nothing of the file: it may be any file of the machine.
    """
    if policy is not None:
        return Outside(source, open_note(data, policy).checkpoint)
    try:
        return Outside(source, Checkpoint.parse(Note.parse(data).text))
    except Malformed:
        pass
    try:
        return Outside(source, Checkpoint.parse(data))
    except Malformed:
        raise Malformed("no checkpoint, which is three lines: an origin, a size and a root") from None


def open_note(data: bytes, policy: Policy) -> SignedCheckpoint:
    """The signed checkpoint that the policy accepts; `Malformed`, without a word of the file, for what is none."""
    try:
        Checkpoint.parse(Note.parse(data).text)
    except Malformed:
        raise Malformed("no signed checkpoint: three lines, an empty one, and signatures") from None
    return policy.open(data)


def parse_signers(data: bytes) -> frozenset[bytes]:
    """Public keys of record signers in hex, one per line; empty lines and those that begin with # say nothing."""
    found = set()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            key = bytes.fromhex(text)
        except ValueError:
            key = b""
        if len(key) != 32:
            raise Malformed(f"keys: line {number} is no public key of 64 hex digits")
        found.add(key)
    return frozenset(found)


# --- what is in it ---------------------------------------------------------------------------------------------------


def listing(stream: BinaryIO) -> Iterator[dict[str, Any]]:
    """One object per run, by tenant and name, once its tenant's part has been read. `Damaged`: as the reader says."""
    runs = Scratch()
    try:
        for item in Bundle(stream).items():
            if isinstance(item.value, Believed):
                _count(runs, item.tenant or "", item.value)
            elif isinstance(item.value, frames.Attested | Proof) and item.value.run:
                _attest(runs, item.value)
            elif isinstance(item.value, frames.Counts):
                for value in runs.values():
                    yield json.loads(value.partition(b"\0")[2])
                runs.close()
                runs = Scratch()
    finally:
        runs.close()


def _count(runs: Scratch, tenant: str, believed: Believed) -> None:
    record, name = believed.record, believed.run.encode()
    known = _known(runs, name) or {
        "tenant": tenant,
        "run": believed.run,
        "records": 0,
        "first_at": None if record is None else instants.of_millis(record.at),
    }
    known |= {
        "records": believed.seq,
        "last_at": None if record is None else instants.of_millis(record.at),
        "last_kind": None if record is None else record.kind,
        "outcome": None,
        "attested": known.get("attested", 0),
        "leaf": known.get("leaf"),
    }
    if record is not None and record.kind == "RunConcluded":
        known["outcome"] = record.data.get("outcome")
    _keep(runs, name, known)


def _attest(runs: Scratch, attested: frames.Attested | Proof) -> None:
    name = attested.run.encode()
    known = _known(runs, name)
    if known is not None and attested.index is not None:
        kind = attested.entry.type.name.lower()
        _keep(runs, name, known | {"attested": attested.entry.seq, "leaf": f"{kind} {attested.index}"})
    elif known is not None:
        _keep(runs, name, known | {"attested": attested.entry.seq, "leaf": "anchor in a batch"})


def _known(runs: Scratch, name: bytes) -> dict[str, Any] | None:
    value = runs.get(name)
    return None if value is None else json.loads(value.partition(b"\0")[2])


def _keep(runs: Scratch, name: bytes, known: dict[str, Any]) -> None:
    runs.put(name, name + b"\0" + json.dumps(known).encode())


# --- as JSON ---------------------------------------------------------------------------------------------------------


def as_object(file: str, verdict: Verdict) -> dict[str, Any]:
    """The verdict as `bundle verify -o json` prints it."""
    header, totals = verdict.header, verdict.totals
    return {
        "file": file,
        "sound": verdict.sound,
        "what": None if header is None else header.what,
        "made_at": None if verdict.made_at is None else instants.of_millis(verdict.made_at),
        "codec": verdict.codec,
        "tenants": None if totals is None else totals.tenants,
        "runs": None if totals is None else totals.runs,
        "records": None if totals is None else totals.records,
        "proven": verdict.proven,
        "signed": verdict.signed,
        "newer": verdict.newer,
        "digest": None if verdict.digest is None else verdict.digest.hex(),
        "keys": [_claim(claim) for claim in verdict.claims],
        "left_out": [] if header is None else list(header.left_out),
        "findings": [_finding(fault) for fault in verdict.faults],
        "not_checked": list(verdict.not_checked),
    }


def _finding(fault: Fault) -> dict[str, Any]:
    return {
        "what": fault.what,
        "section": fault.section,
        "where": fault.where,
        "offset": fault.offset,
        "tenant": fault.tenant,
        "run": fault.run,
        "seq": fault.seq,
        "incomplete": fault.incomplete,
    }


def _claim(claim: Claim) -> dict[str, Any]:
    key = claim.key
    return {
        "name": key.name,
        "purpose": key.purpose,
        "public": public_half(key),
        "signer": signer_id(key.public).hex() if key.purpose == "record" else None,
        "brought": claim.brought,
    }


def public_half(key: ClaimedKey) -> str:
    """The key as `sealbook keys` prints it: of a record signer in hex, else as a verifier key if it can be one."""
    if key.purpose == "record":
        return key.public.hex()
    try:
        return str(VerifierKey(key.name, Algorithm(key.algorithm), key.public))
    except Malformed:
        return key.public.hex()
