"""What a restore leaves in a tenant's own run: which bundle the tenant was built from, and what it then had.

    Restored   restoration, digest 32, records, size, root 32, actor, reason

`restoration` is that of the store: epochs are restoration × 2³² and a counter, so all that are issued from now on are
above those that the bundle's records were written under.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sealbook.journal.errors import Corrupt
from sealbook.journal.ids import EPOCH_MAX, RESTORATION
from sealbook.journal.record import Record

KIND = "Restored"


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


def read_act(record: Record) -> Restoration:
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
