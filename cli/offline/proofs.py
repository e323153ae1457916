"""Verify a run's records against a proof file, where no store is: everything is recomputed from the records' bytes.

The steps, in their order; the first that fails is a `VerificationError`:

1. Each record's hash covers its bytes, each follows the one before, all are of one run of one tenant, and none
   follows a conclusion that seals.
2. The checkpoint is of a log that the policy knows, signed by it, and cosigned by the quorum.
3. A leaf entry that is made of these records stands in the tree of that checkpoint: a seal of the last record, which
   must be a conclusion that seals, or an anchor of the last one or of an earlier one. An anchor may stand in a batch:
   then it is the batch's leaf that stands in the tree, and the inner path of the file leads from the anchor to it. Or
   the checkpoint is that of a store log: then the leaf stands in the tree that a head of the records' tenant states,
   and that head in the tree of the checkpoint.
4. Where an age is given, the quorum holds with cosignatures no older than that.
5. The checkpoint is not older than the one remembered of this log, and not another one of its size; where a proof of
   consistency is given, a larger one begins with it.
6. Where a monitor's state is given for a proof through a head, the head is the one that the monitor has at its place
   (`offline_heads`).
What holds and yet says less than one may think is listed as not checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sealbook.cli.offline import heads as offline_heads
from sealbook.cli.offline.heads import Watched
from sealbook.cli.screen.words import counted
from sealbook.indexes.standing import seals
from sealbook.journal.errors import Corrupt, UnknownVersion
from sealbook.journal.records.cbor import decode as decode_cbor
from sealbook.journal.records.chain import GENESIS, chain_hash, run_tag
from sealbook.journal.records.record import Record, decode_record
from sealbook.journal.records.row import Row
from sealbook.journal.records.versions import IdentityUpcaster
from sealbook.merkle.anchor_batch import INNER_PREFIX, InnerProof
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.encoding import parse_decimal
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.hashing import HASH_BYTES
from sealbook.merkle.note import Note, SignedCheckpoint
from sealbook.merkle.policy import Policy
from sealbook.merkle.proof_file import ProofFile, check_not_rolled_back
from sealbook.merkle.tenant_head import HeadProof, TenantHead
from sealbook.merkle.verify import verify_inclusion

# --- the records --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chain:
    """A run's records as they follow one another: what a leaf entry is made of. `lineage` is the store's, `heads[i]`
    the hash of record i + 1. `final` says that the last is a conclusion that seals. `newer` counts records of versions
    that this build cannot read: their hashes are checked, what they say is not."""

    tenant: str
    run: str
    run_tag: bytes
    lineage: bytes
    heads: tuple[bytes, ...]
    final: bool
    signed: int
    newer: int

    def entries(self) -> Iterator[LeafEntry]:
        """Every leaf entry that these records can stand under, the one that says most first."""
        last = len(self.heads)
        if self.final:
            yield LeafEntry(LeafType.SEAL, self.run_tag, last, self.heads[-1])
        for seq in range(last, 0, -1):
            yield LeafEntry(LeafType.ANCHOR, self.run_tag, seq, self.heads[seq - 1])


def chain_of(rows: Iterable[Row]) -> Chain:
    """The chain that these records are, by step 1."""
    tenant = run = None
    salt: bytes | None = None
    lineage = b""
    heads: list[bytes] = []
    final, signed, newer = False, 0, 0
    prev = GENESIS
    for seq, row in enumerate(rows, 1):
        if chain_hash(row.prev, row.body) != row.hash:
            raise VerificationError(f"record {seq}: the hash does not cover its bytes")
        if row.prev != prev:
            raise VerificationError(f"record {seq} does not follow record {seq - 1}: records are missing or moved")
        if final:
            raise VerificationError(f"record {seq} follows the run's conclusion")
        if tenant is None or run is None:
            tenant, run = _place(row)
        record = _record(row, tenant, run, seq)
        if record is None:
            newer += 1
        elif record.salt is not None:
            salt, lineage = record.salt, decode_cbor(row.body)["journal"]
        final = record is not None and record.kind == "RunConcluded" and seals(str(record.data.get("outcome")))
        signed += row.signature is not None
        prev = row.hash
        heads.append(row.hash)
    if tenant is None or run is None:
        raise Malformed("records: there are none")
    if salt is None:
        raise UnknownVersion("the first record is of a newer version, and the run's leaf is made of it", run, 1)
    return Chain(tenant, run, run_tag(salt, tenant, run), lineage, tuple(heads), final, signed, newer)


def _place(row: Row) -> tuple[str, str]:
    """Tenant and run, as the first record states them: every record is then held to be theirs."""
    try:
        body = decode_cbor(row.body)
    except ValueError as error:
        raise Malformed(f"records: the first record is no CBOR: {error}") from error
    if not isinstance(body, dict) or not isinstance(body.get("tenant"), str) or not isinstance(body.get("run"), str):
        raise Malformed("records: the first record names no run")
    return body["tenant"], body["run"]


def _record(row: Row, tenant: str, run: str, seq: int) -> Record | None:
    """The record; None for one of a newer version, of which the hash is all that can be checked."""
    try:
        return decode_record(row, tenant=tenant, run=run, seq=seq, upcaster=IdentityUpcaster(), strict=True)
    except UnknownVersion:
        return None
    except Corrupt as error:  # no store's fault: the file's
        raise VerificationError(f"record {seq}: {error.what}") from error


# --- the proof ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verified:
    """What was shown: `entry` stands at `index` in the log of the signed checkpoint, or in the tenant's log as `head`
    states it, which stands at `head_index` in the store log of the checkpoint. `uncovered` records follow the one that
    the entry attests. `monitored` says that the tenant's heads up to this one are known to extend one another."""

    chain: Chain
    entry: LeafEntry
    index: int
    signed: SignedCheckpoint
    cosigned_by: tuple[str, ...]
    not_checked: tuple[str, ...] = field(default=())
    batched: bool = False
    head: TenantHead | None = None
    head_index: int = 0
    monitored: bool = False

    @property
    def uncovered(self) -> int:
        """How many of the records the leaf says nothing of."""
        return len(self.chain.heads) - self.entry.seq

    @property
    def leaf_kind(self) -> str:
        """`seal`, `anchor`, or `anchor-batch` for an anchor that stands in a batch."""
        if self.entry.type is LeafType.SEAL:
            return "seal"
        return "anchor-batch" if self.batched else "anchor"


@dataclass(frozen=True, slots=True)
class Consistency:
    """A proof that one size of a log begins with another, as `sealbook log consistency -o json` prints it."""

    old: int
    new: int
    proof: tuple[bytes, ...]


def verify(
    chain: Chain,
    file: ProofFile,
    policy: Policy,
    *,
    must_seal: bool = False,
    now: int,
    age_seconds_max: int | None = None,
    seen: Checkpoint | None = None,
    consistency: Consistency | None = None,
    watched: Watched | None = None,
) -> Verified:
    """Steps 2 to 6. `seen` is the last checkpoint that was accepted of the proof's log, `now` POSIX seconds, `watched`
    what a monitor knows of the place of the proof's head."""
    signed = policy.open(file.checkpoint)
    path = offline_heads.head_proof(file)
    inner = _inner(file) if path is None else path.batch
    entry = _covering(chain, file, path, inner, signed.checkpoint)
    if must_seal and entry.type is not LeafType.SEAL:
        raise VerificationError(f"the leaf is an anchor of record {entry.seq}, not the run's seal")
    if age_seconds_max is not None:
        policy.check_freshness(signed.cosignatures, now=now, age_seconds_max=age_seconds_max)
    _check_seen(signed.checkpoint, seen, consistency)
    keys = {signature.key for signature in signed.cosignatures}
    cosigned_by = tuple(witness.name for witness in policy.witnesses if witness.key in keys)
    not_checked = list(_not_checked(chain, entry, policy, age_seconds_max, signed.checkpoint, seen, consistency))
    batched = inner is not None
    if path is None:
        return Verified(chain, entry, file.index, signed, cosigned_by, tuple(not_checked), batched)
    monitored = offline_heads.is_monitored(file, path, watched)
    not_checked += offline_heads.not_checked(path, watched, monitored)
    return Verified(
        chain, entry, path.index, signed, cosigned_by, tuple(not_checked), batched, path.head, file.index, monitored
    )


def origin_of(file: ProofFile) -> str:
    """The log that the proof claims to be of."""
    return Checkpoint.parse(Note.parse(file.checkpoint).text).origin


def _inner(file: ProofFile) -> InnerProof | None:
    """The inner path of the file, if it has one. Other extra data is somebody else's, and says nothing here."""
    if file.extra is None or not file.extra.startswith(INNER_PREFIX):
        return None
    return InnerProof.parse(file.extra)


def _covering(
    chain: Chain, file: ProofFile, path: HeadProof | None, inner: InnerProof | None, checkpoint: Checkpoint
) -> LeafEntry:
    """The entry made of these records that the proof leads from to the root."""
    if path is not None:
        offline_heads.check_head(chain.lineage, chain.tenant, file, path, checkpoint)
    index = file.index if path is None else path.index
    failure: VerificationError | None = None
    for entry in chain.entries():
        try:
            if inner is not None:
                inner.verify(entry)
            leaf = entry.hash() if inner is None else inner.leaf.hash()
            if path is not None:
                path.verify(leaf)
            else:
                verify_inclusion(leaf=leaf, index=index, size=checkpoint.size, proof=file.proof, root=checkpoint.root)
        except VerificationError as error:
            failure = failure or error
            continue
        # A run that has concluded takes no anchor: whoever offers one wants the seal not to be looked for.
        if chain.final and entry.type is LeafType.ANCHOR and entry.seq == len(chain.heads):
            raise VerificationError(
                f"the records end in the run's conclusion, record {entry.seq}, and the leaf is an anchor of it, no seal"
            )
        return entry
    raise VerificationError(
        f"no leaf entry of these {len(chain.heads)} records stands at index {index} of the log: {failure}"
    )


def _check_seen(checkpoint: Checkpoint, seen: Checkpoint | None, consistency: Consistency | None) -> None:
    if seen is None:
        return
    proof: Sequence[bytes] | None = None
    if consistency is not None and checkpoint.size > seen.size > 0:
        if (consistency.old, consistency.new) != (seen.size, checkpoint.size):
            raise VerificationError(
                f"the proof of consistency is from size {consistency.old} to {consistency.new}, needed is one from"
                f" {seen.size} to {checkpoint.size}"
            )
        proof = consistency.proof
    try:
        check_not_rolled_back(checkpoint, seen, proof)
    except VerificationError as error:
        if checkpoint.size < seen.size:
            raise VerificationError(
                f"{error}: this proof is older than what was accepted before, which need be nobody's fault: ask for a"
                " newer proof of the run, and verify that"
            ) from error
        if checkpoint.size == seen.size and checkpoint.root != seen.root:
            raise VerificationError(f"{error}: keep both checkpoints, whoever signed them must explain them") from error
        raise


def _not_checked(
    chain: Chain,
    entry: LeafEntry,
    policy: Policy,
    age_seconds_max: int | None,
    checkpoint: Checkpoint,
    seen: Checkpoint | None,
    consistency: Consistency | None,
) -> Iterator[str]:
    """What this verification leaves open, one line each."""
    if entry.seq < len(chain.heads):
        yield f"records {entry.seq + 1} to {len(chain.heads)}: the leaf is an anchor of record {entry.seq}"
    if entry.type is not LeafType.SEAL:
        yield f"how the run went on after record {entry.seq}: the leaf is an anchor, not a seal"
    if chain.newer:
        yield f"what {chain.newer} of the records say: they are of a newer version"
    if chain.signed:
        signed = counted(chain.signed, "record")
        yield f"the signatures of {signed}: the log vouches for their bytes, not for who signed them"
    if policy.quorum is None:
        yield "whether others are shown another log: the policy's quorum is none"
    elif age_seconds_max is None:
        yield "how old the checkpoint is: no --max-age"
    if seen is None:
        yield "whether a later checkpoint was accepted before: none of this log is remembered"
    elif checkpoint.size > seen.size > 0 and consistency is None:
        yield f"whether size {checkpoint.size} begins with size {seen.size}, accepted before: no --consistency"


# --- what comes as files ------------------------------------------------------------------------------------------


def parse_consistency(data: bytes) -> Consistency:
    """The proof that `sealbook log consistency -o json` printed. The roots in it are not looked at."""
    try:
        members = json.loads(data)
        proof = tuple(bytes.fromhex(item) for item in members["proof"])
        old, new = members["old"], members["new"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Malformed("consistency: no proof as `log consistency -o json` prints it") from error
    if type(old) is not int or type(new) is not int or any(len(value) != HASH_BYTES for value in proof):
        raise Malformed("consistency: no proof as `log consistency -o json` prints it")
    return Consistency(old, new, proof)


_UNIT_SECONDS: dict[str, int] = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_age(text: str) -> int:
    """Seconds: a number of them, or of `s`, `m`, `h` or `d`."""
    unit = text[-1:] if text[-1:] in _UNIT_SECONDS else ""
    return parse_decimal("age", text.removesuffix(unit)) * _UNIT_SECONDS.get(unit, 1)


# --- what is printed ----------------------------------------------------------------------------------------------


def as_object(verified: Verified) -> dict[str, Any]:
    """The answer as JSON has it."""
    checkpoint = verified.signed.checkpoint
    return {
        "verified": True,
        "tenant": verified.chain.tenant,
        "run": verified.chain.run,
        "records": len(verified.chain.heads),
        "leaf_kind": verified.leaf_kind,
        "index": verified.index,
        "seq": verified.entry.seq,
        "head": verified.entry.head.hex(),
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "root": checkpoint.root.hex(),
        "tenant_head": None if verified.head is None else offline_heads.as_object(verified.head, verified.head_index),
        "monitored": None if verified.head is None else verified.monitored,
        "signed_by": [signature.key.id for signature in verified.signed.log_signatures],
        "cosigned_by": list(verified.cosigned_by),
        "not_checked": list(verified.not_checked),
    }


def as_lines(verified: Verified, safe: Callable[[str], str]) -> list[str]:
    """The answer in words: what was shown, and by whom. `safe` makes names fit for a terminal."""
    chain, checkpoint = verified.chain, verified.signed.checkpoint
    attested = f"records 1 to {verified.entry.seq}" if verified.entry.seq > 1 else "record 1"
    meaning = "the run is whole and sealed" if verified.leaf_kind == "seal" else "the run was still open"
    keys = ", ".join(safe(signature.key.id) for signature in verified.signed.log_signatures)
    head: list[str] = []
    if verified.head is not None:
        head.append(offline_heads.as_line(verified.head, verified.head_index, verified.monitored))
    return [
        f"{attested} of run {safe(chain.run)}, tenant {safe(chain.tenant)}, stand in the log: {meaning}",
        f"leaf: {verified.leaf_kind} of record {verified.entry.seq} at log position {verified.index}",
        *head,
        f"checkpoint: {safe(checkpoint.origin)}, size {checkpoint.size}, root {checkpoint.root.hex()}",
        f"signed by: {keys}",
        f"cosigned by: {', '.join(safe(name) for name in verified.cosigned_by) or 'nobody'}",
    ]
