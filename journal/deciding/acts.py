"""What each record of `~tenant`, the tenant's own run, says: the operator acts, read strictly.

    CancelRequested   run, actor, reason, basis
    LeaseForced       run, epoch_before, epoch, actor, reason
    LogAdopted        origin, old_origin, old_size, old_root 32, old_checkpoint, actor, reason
    Restored          restoration, digest 32, records, size, root 32, actor, reason

`restoration` is that of the store: epochs are restoration × 2³² and a counter, so all that are issued from now on are
above those that a restored bundle's records were written under.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sealbook.journal.deciding import requests
from sealbook.journal.errors import Corrupt, InvalidInput
from sealbook.journal.records.names import EPOCH_MAX, RESTORATION, check_own_run
from sealbook.journal.records.record import Record
from sealbook.journal.schema.origins import check_origin
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry, adopted_leaf
from sealbook.merkle.errors import Malformed
from sealbook.merkle.note import Note

CANCEL_REQUESTED = "CancelRequested"
LEASE_FORCED = "LeaseForced"
LOG_ADOPTED = "LogAdopted"
RESTORED = "Restored"
ACTS = frozenset({CANCEL_REQUESTED, LEASE_FORCED, LOG_ADOPTED, RESTORED})


@dataclass(frozen=True, slots=True)
class Restoration:
    """One restore of one tenant. `digest` is that of the bundle's file; `records`, `size` and `root` are what the
    tenant had when all of the bundle was in it."""

    restoration: int
    digest: bytes
    records: int
    size: int
    root: bytes
    actor: str
    reason: str

    def data(self) -> dict[str, Any]:
        """The data of the record."""
        return {
            "restoration": self.restoration,
            "digest": self.digest,
            "records": self.records,
            "size": self.size,
            "root": self.root,
            "actor": self.actor,
            "reason": self.reason,
        }


def restoration_of(record: Record) -> Restoration:
    """The restore that the record tells of; `Corrupt` when it tells of none."""
    data = record.data
    members: dict[str, type] = {
        "restoration": int,
        "digest": bytes,
        "records": int,
        "size": int,
        "root": bytes,
        "actor": str,
        "reason": str,
    }
    if any(type(data.get(name)) is not kind for name, kind in members.items()):
        raise Corrupt("is no restore: its members are not those of one", record.run, record.seq)
    act = Restoration(**{name: data[name] for name in members})
    if not 1 <= act.restoration <= EPOCH_MAX // RESTORATION or len(act.digest) != 32 or len(act.root) != 32:
        raise Corrupt("is no restore: its numbers are not those of one", record.run, record.seq)
    if record.epoch != act.restoration * RESTORATION:
        raise Corrupt("is a restore that was written under another epoch", record.run, record.seq)
    return act


def log_adoption_of(record: Record) -> tuple[str, LeafEntry]:
    """The origin that a `LogAdopted` gives the log, and the first leaf that goes with it; `Corrupt` when it is none."""
    data = record.data
    origin, old_origin, size, root, note = (
        data.get(name) for name in ("origin", "old_origin", "old_size", "old_root", "old_checkpoint")
    )
    try:
        if not isinstance(note, str) or not isinstance(root, bytes):
            raise InvalidInput("old checkpoint", note, "must be text")
        stated = Checkpoint.parse(Note.parse(note.encode()).text)
        if (stated.origin, stated.size, stated.root) != (old_origin, size, root):
            raise InvalidInput("old checkpoint", note, "must be the one that the act states")
        return check_origin(origin), adopted_leaf(stated.origin, stated.size, stated.root)
    except (Malformed, InvalidInput) as error:
        raise Corrupt(f"is no adoption of a log: {error}", record.run, record.seq) from error


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A request that a run be cancelled. `basis` says how the actor is known; `at` is unix milliseconds."""

    run: str
    actor: str
    reason: str
    basis: str
    at: int


def cancellation_of(record: Record) -> Cancellation:
    """The cancellation that a CancelRequested of `~tenant` records; `Corrupt` when it records none."""
    data = record.data
    members = [data.get(name) for name in ("run", "actor", "reason", "basis")]
    if record.kind != CANCEL_REQUESTED or not all(isinstance(member, str) for member in members):
        raise Corrupt("is no cancel request", record.run, record.seq)
    if data["basis"] not in requests.BASES:
        raise Corrupt(f"has the unknown basis {data['basis']!r}", record.run, record.seq)
    return Cancellation(data["run"], data["actor"], data["reason"], data["basis"], record.at)


def forced_lease_of(record: Record) -> tuple[str, int]:
    """The run whose lease a `LeaseForced` took away, and the epoch from then on; a refusal when it says neither."""
    run, before, epoch = (
        check_own_run(record.data.get("run")),
        record.data.get("epoch_before"),
        record.data.get("epoch"),
    )
    if type(before) is not int or type(epoch) is not int or before >= epoch:
        raise InvalidInput("epoch", epoch, f"of a forced lease must be above the one before, {before}")
    return run, epoch
