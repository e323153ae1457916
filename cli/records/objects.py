"""What `-o json` prints: one object per line, in ASCII, so that every terminal, locale and reader takes it.

Hashes and keys are hex, instants RFC 3339 in UTC or null, integers exact however large. Bytes within data are
`{"$bytes": "base64"}`, and a member of data whose name begins with `$` gains one more.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from sealbook.journal.records import instants

if TYPE_CHECKING:
    from sealbook.indexes.standing import Standing
    from sealbook.journal import (
        Cancellation,
        ConsistencyProof,
        Effect,
        GatheredHead,
        InclusionProof,
        Leaf,
        Lease,
        Record,
    )
    from sealbook.journal.deciding.log.anchors import AnchorBatch
    from sealbook.merkle.anchor_batch import InnerProof
    from sealbook.merkle.checkpoint import Checkpoint

Object = dict[str, Any]


def text(value: Any) -> str:
    """The value in one line of JSON. DEL, the one control character that JSON lets stand, is escaped as well."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False).replace("\x7f", "\\u007f")


def pretty(value: Any) -> str:
    """The same over several lines, for people."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=2).replace("\x7f", "\\u007f")


def data(value: Any) -> Any:
    """A record's data with bytes as `{"$bytes": ...}` and one more `$` before names that begin with one."""
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {member(name): data(item) for name, item in value.items()}
    if isinstance(value, list):
        return [data(item) for item in value]
    return value


def member(name: str) -> str:
    """The name of a member of data in JSON."""
    return f"${name}" if name.startswith("$") else name


def record(record: Record) -> Object:
    """A record."""
    signature = None
    if record.signer is not None and record.signature is not None:
        signature = {"signer": record.signer.hex(), "value": record.signature.hex()}
    return {
        "tenant": record.tenant,
        "run": record.run,
        "seq": record.seq,
        "arrival": record.arrival,
        "epoch": record.epoch,
        "at": instants.of_millis(record.at),
        "kind": record.kind,
        "case": record.case,
        "effect": hex_or_none(record.effect),
        "attempt": record.attempt,
        "data": data(record.data),
        "prev": record.prev.hex(),
        "hash": record.hash.hex(),
        "signature": signature,
    }


def run(standing: Standing) -> Object:
    """Where a run stands. `arrival` is that of its last record, `log_index` the position of its highest leaf."""
    return {
        "tenant": standing.tenant,
        "run": standing.run,
        "case": standing.case,
        "source": standing.source,
        "records": standing.records,
        "arrival": standing.last_arrival,
        "first_arrival": standing.first_arrival,
        "last_arrival": standing.last_arrival,
        "last_kind": standing.last_kind,
        "outcome": standing.outcome,
        "waiting": standing.waiting,
        "waiting_until": micros_or_none(standing.until if standing.waiting else None),
        "admitted_at": millis_or_none(standing.admitted_at),
        "updated_at": instants.of_millis(standing.updated_at),
        "epoch": standing.epoch,
        "owner": standing.owner,
        "expires_at": millis_or_none(standing.expires_at),
        "sealed": standing.sealed,
        "log_index": standing.highest_leaf,
        "head": standing.head.hex(),
        "effects": {
            "started": standing.effects_started,
            "done": standing.effects_done,
            "failed": standing.effects_failed,
            "in_doubt": standing.effects_in_doubt,
        },
    }


def effect(tenant: str, effect: Effect) -> Object:
    """An effect by its latest attempt."""
    return {
        "tenant": tenant,
        "run": effect.run,
        "effect": effect.key.hex(),
        "name": effect.name,
        "attempt": effect.attempt,
        "recovery": effect.recovery,
        "status": effect.status,
        "in_doubt": effect.in_doubt,
        "start_seq": effect.start_seq,
        "end_seq": effect.end_seq,
    }


def lease(lease: Lease) -> Object:
    """A lease; `owner` and `expires_at` are null once it was released."""
    return {
        "tenant": lease.tenant,
        "run": lease.run,
        "owner": lease.owner,
        "epoch": lease.epoch,
        "expires_at": millis_or_none(lease.expires_at),
    }


def leaf(tenant: str, leaf: Leaf) -> Object:
    """A leaf of the tenant's log."""
    return {
        "tenant": tenant,
        "run": leaf.run,
        "leaf_kind": leaf.kind,
        "index": leaf.index,
        "seq": leaf.seq,
        "head": leaf.head.hex(),
    }


def cancellation(cancellation: Cancellation) -> Object:
    """A request to cancel a run."""
    return {
        "run": cancellation.run,
        "actor": cancellation.actor,
        "reason": cancellation.reason,
        "basis": cancellation.basis,
        "at": instants.of_millis(cancellation.at),
    }


def checkpoint(checkpoint: Checkpoint) -> Object:
    """A log's origin, size and root."""
    return {"origin": checkpoint.origin, "size": checkpoint.size, "root": checkpoint.root.hex()}


def inclusion(proof: InclusionProof) -> Object:
    """The proof that a run's leaf stands in the log."""
    return {
        "run": proof.run,
        "leaf_kind": proof.leaf_kind,
        "index": proof.index,
        "size": proof.size,
        "seq": proof.seq,
        "head": proof.head.hex(),
        "leaf_data": proof.leaf_data.hex(),
        "leaf_hash": bytes(proof.leaf_hash).hex(),
        "proof": [node.hex() for node in proof.proof],
        "root": proof.root.hex(),
        **({} if proof.inner is None else {"inner": inner(proof.inner, proof.inner_entry)}),
    }


def inner(proof: InnerProof, entry: bytes | None) -> Object:
    """The path from a run's own entry to the anchor batch whose leaf stands in the log."""
    return {
        "index": proof.index,
        "size": proof.size,
        "proof": [node.hex() for node in proof.proof],
        "entry": hex_or_none(entry),
    }


def anchor_batch(tenant: str, batch: AnchorBatch) -> Object:
    """A leaf for the heads of many open runs."""
    return {
        "tenant": tenant,
        "leaf_kind": "anchor-batch",
        "index": batch.index,
        "runs": batch.runs,
        "arrival": batch.arrival,
        "root": batch.root.hex(),
    }


def gathered_head(head: GatheredHead) -> Object:
    """A head that entered the store log."""
    return {"tenant": head.tenant, "index": head.index, "size": head.size, "root": head.root.hex()}


def consistency(proof: ConsistencyProof) -> Object:
    """The proof that a log begins with an older one."""
    return {
        "old": proof.old,
        "new": proof.new,
        "old_root": proof.old_root.hex(),
        "new_root": proof.new_root.hex(),
        "proof": [node.hex() for node in proof.proof],
    }


def hex_or_none(value: bytes | None) -> str | None:
    """Bytes as hex."""
    return None if value is None else value.hex()


def millis_or_none(value: int | None) -> str | None:
    """Unix milliseconds as an instant."""
    return None if value is None else instants.of_millis(value)


def micros_or_none(value: int | None) -> str | None:
    """Microseconds since 1970 as an instant."""
    return None if value is None else instants.of_micros(value)
