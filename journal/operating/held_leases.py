"""Leases that still live, and for how long: what keeps others from a run, whether or not anybody is there to use it."""

from __future__ import annotations

from dataclasses import dataclass

from sealbook.indexes.packing import text
from sealbook.journal.deciding.leases import UNKNOWN_BOOT, remaining_ms
from sealbook.journal.reading.listings import _run_name
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import LeaseRow
from sealbook.journal.store.tenant import Tenant


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that lives for `remaining_ms` more. `before_this_boot` says that another boot of the machine granted it:
    whoever held it has ended, and it lives on by a wall clock that may have been set back since."""

    tenant: str
    run: str
    owner: str
    epoch: int
    remaining_ms: int
    before_this_boot: bool


def held(tenant: Tenant) -> list[Held]:
    """The tenant's live leases, the one that lives longest first. It scans the lease rows, which open runs have."""
    moment = tenant.view.clock()
    prefix = text(tenant.name)
    found = []
    with tenant.view.snapshot() as snapshot:
        for key, value in tables.rows_of(snapshot, tables.LEASES, prefix):
            run = _run_name(key, prefix)
            row = LeaseRow.decode((tables.LEASES, key), run, value)
            if row is None or not (left := remaining_ms(row, moment)):
                continue
            known = UNKNOWN_BOOT not in (row.boot_id, moment.boot_id)
            before = known and row.boot_id != moment.boot_id
            found.append(Held(tenant.name, run, row.owner, row.epoch, left, before))
    return sorted(found, key=lambda each: -each.remaining_ms)
