"""Hold every checkpoint that the store keeps to the log as it stands: same size, same root, nothing signed is lost.

A checkpoint that was signed and that the tree no longer gives shows that the log was rewritten after it was signed.
Signatures are not verified here: whose keys to trust is not in the store.
"""

from __future__ import annotations

from typing import NamedTuple

from sealbook.journal.checking.audit import Audit
from sealbook.journal.deciding.log import checkpoints as publishing
from sealbook.journal.deciding.log import leaves
from sealbook.journal.engine.port import Place
from sealbook.journal.errors import Corrupt, Refused
from sealbook.journal.records import names
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import CheckpointRow, CheckpointState, TenantRow
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint


class Kept(NamedTuple):
    """What a tenant's checkpoints add up to: the members of its row that count them."""

    checkpoints: int
    signed: int
    published: int


NOTHING_KEPT = Kept(0, -1, -1)


def check_checkpoints(audit: Audit, sizes: dict[str, int]) -> dict[str, Kept]:
    """Check every kept checkpoint against its tenant's log of `sizes`; what they add up to, by tenant."""
    kept: dict[str, Kept] = {}
    first: dict[str, Checkpoint] = {}  # that was signed, by tenant
    for key, value in audit.walk(tables.CHECKPOINTS):
        place: Place = (tables.CHECKPOINTS, key)
        try:
            tenant, size = tables.split_number_key(key)
            names.check_log(tenant)
        except (ValueError, Refused) as error:
            audit.found(f"the row's key is damaged: {error}", place=place)
            continue
        state = CheckpointState.PENDING
        try:
            row = CheckpointRow.decode(place, value)
            assert row is not None
            state = row.state
            checkpoint = publishing.read_row(place, size, row).checkpoint
            if size > sizes.get(tenant, 0):
                audit.found(
                    f"the log has {sizes.get(tenant, 0)} leaves, and {size} were signed", tenant=tenant, place=place
                )
            elif tree.root(size, leaves.snapshot_reader(tenant, audit.snapshot)) != checkpoint.root:
                audit.found("the log has another root than was signed", tenant=tenant, place=place)
            if state is not CheckpointState.PENDING:
                named = first.setdefault(tenant, checkpoint)
                if named.origin != checkpoint.origin:
                    what = (
                        f"the checkpoint is of {checkpoint.origin}, and that of size {named.size} is of {named.origin}"
                    )
                    audit.found(what, tenant=tenant, place=place)
        except Corrupt as error:
            if error.table == tables.CHECKPOINTS:  # a node's damage is reported where the log is built again
                audit.found(error.what, tenant=tenant, place=place)
        before = kept.get(tenant, NOTHING_KEPT)
        kept[tenant] = Kept(
            before.checkpoints + 1,
            max(before.signed, size) if state >= CheckpointState.SIGNED else before.signed,
            max(before.published, size) if state >= CheckpointState.WITHOUT_QUORUM else before.published,
        )
    for key, value in audit.walk(tables.TENANTS):
        _name_the_missing(audit, key, value)
    return kept


def _name_the_missing(audit: Audit, key: bytes, value: bytes) -> None:
    """The largest checkpoints that a tenant's row counts must be there."""
    tenant = key.decode(errors="replace")
    try:
        row = TenantRow.decode(tenant, value)
    except Corrupt:
        return  # reported where the rows of tenants are checked
    for size in {row.signed, row.published} - {-1}:
        place: Place = (tables.CHECKPOINTS, tables.number_key(tenant, size))
        if audit.snapshot.get_many([place]) == [None]:
            audit.found("the checkpoint is missing", tenant=tenant, place=place)
