"""The store log: one log for all tenants' logs of a store. What is due in it, and the proofs that lead through it.

- Rule 1: a tenant's log that has grown since its last head gets one: its tag, its size, its root as it stands.
- Rule 2: sizes strictly rise per tag. A log that is shorter than its last head says is damaged, and no head is given.
- Rule 3: heads that are gathered together stand in the order of their tags, which tells nothing of the names.

A log that went on under a new origin is another tree, so it has another tag from then on. The store log's rows stand in
the tables of the tenants' logs, under a name that no tenant can have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sealbook.journal.deciding.log import anchors, checkpoints, leaves
from sealbook.journal.deciding.log.adoption import adoption_of
from sealbook.journal.deciding.log.leaves import InclusionProof
from sealbook.journal.deciding.overlay import Overlay
from sealbook.journal.engine.port import Place, Snapshot
from sealbook.journal.errors import Corrupt, InvalidInput
from sealbook.journal.records.chain import tenant_tag
from sealbook.journal.records.names import STORE_LOG
from sealbook.journal.schema import tables
from sealbook.journal.schema.standings import known_standing
from sealbook.journal.schema.tables import TenantRow
from sealbook.merkle import tree
from sealbook.merkle.errors import Malformed
from sealbook.merkle.tenant_head import HeadProof, TenantHead

PAGE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class GatheredHead:
    """A head that entered the store log: at `index` it says that the tenant's log had `size` leaves and this root."""

    tenant: str
    index: int
    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class HeadInclusion:
    """That a run's leaf stands in its tenant's log (`inner`), as that log's head at `index` of the store log says.

    `head` leads from the run's leaf to that head, `proof` from there to the `root` of the store log of `size` leaves.
    """

    inner: InclusionProof
    head: HeadProof
    index: int
    size: int
    proof: list[bytes]
    root: bytes


# --- the rule ------------------------------------------------------------------------------------------------------


class _Due(NamedTuple):
    tag: bytes
    tenant: str
    counts: TenantRow


def gather(overlay: Overlay, lineage: bytes, origin: str) -> list[GatheredHead]:
    """Append the heads that are due; the lineage id is the store's, the origin that of its log."""
    checkpoints.check_origin(overlay, STORE_LOG, origin)
    due: list[_Due] = []
    for tenant in overlay.tenants():
        counts = overlay.tenant(tenant)
        if tenant == STORE_LOG or counts.leaves == counts.gathered:
            continue
        if counts.leaves < counts.gathered:
            what = f"the log has {counts.leaves} leaves, and its last head says {counts.gathered}"
            raise Corrupt(what, None, None, tables.TENANTS, tenant.encode())
        number = adoption_of(tenant, overlay.get((tables.ORIGINS, tenant.encode())))
        due.append(_Due(tenant_tag(lineage, tenant, number), tenant, counts))
    return [_append(overlay, each) for each in sorted(due)]


def _append(overlay: Overlay, due: _Due) -> GatheredHead:
    tag, tenant, counts = due
    root = tree.root(counts.leaves, leaves.node_reader(tenant, overlay.get))
    index = leaves.append_entry(overlay, STORE_LOG, TenantHead(tag, counts.leaves, root))
    overlay.insert((tables.HEADS, tables.number_key(tenant, index)), b"")
    overlay.set_tenant(tenant, counts._replace(gathered=counts.leaves))
    return GatheredHead(tenant, index, counts.leaves, root)


# --- reading -------------------------------------------------------------------------------------------------------


def tags(snapshot: Snapshot, lineage: bytes) -> dict[bytes, str]:
    """The tenants whose logs have leaves, by the tags that their logs have now."""
    found: dict[bytes, str] = {}
    lo = b""
    while page := snapshot.scan(tables.TENANTS, lo, None, PAGE_ROWS):
        origins = snapshot.get_many([(tables.ORIGINS, key) for key, _ in page])
        for (key, value), origin in zip(page, origins, strict=True):
            tenant = key.decode(errors="replace")
            if tenant != STORE_LOG and TenantRow.decode(tenant, value).leaves:
                found[tenant_tag(lineage, tenant, adoption_of(tenant, origin))] = tenant
        lo = page[-1][0] + b"\0"
    return found


def newest(snapshot: Snapshot, tenant: str, size: int | None) -> tuple[int, TenantHead] | None:
    """The tenant's newest head among the first `size` leaves of the store log, by default all, and its position."""
    size = _checked_size(snapshot, size)
    lo, hi = tables.number_key(tenant, 0), tables.number_key(tenant, size)
    page = snapshot.scan(tables.HEADS, lo, hi, 1, reverse=True)
    if not page:
        return None
    try:
        index = tables.split_number_key(page[0][0])[1]
    except ValueError as error:
        raise Corrupt(f"the row that names a head is damaged: {error}", None, None, tables.HEADS, page[0][0]) from error
    place: Place = (tables.LEAVES, tables.number_key(STORE_LOG, index))
    return index, read_head(place, snapshot.get_many([place])[0])


def inclusion(snapshot: Snapshot, lineage: bytes, tenant: str, run: str, size: int | None) -> HeadInclusion | None:
    """The proof of the run's highest leaf that the tenant's newest head covers, in the store log of `size` leaves."""
    size = _checked_size(snapshot, size)
    standing = known_standing(snapshot, tenant, run)
    found = newest(snapshot, tenant, size)
    if found is None:
        return None
    index, head = found
    number = adoption_of(tenant, snapshot.get_many([(tables.ORIGINS, tenant.encode())])[0])
    if head.tag != tenant_tag(lineage, tenant, number):
        return None  # of the tree that the log had before it went on under a new origin
    place: Place = (tables.LEAVES, tables.number_key(STORE_LOG, index))
    if head.size > leaves.log_size(snapshot, tenant):
        raise Corrupt(f"the head says size {head.size}, which the tenant's log does not have", None, None, *place)
    inner = anchors.inclusion(snapshot, standing, head.size)
    if inner is None:
        return None
    if inner.root != head.root:
        raise Corrupt("the head states another root than the tenant's log had", None, None, *place)
    read = leaves.snapshot_reader(STORE_LOG, snapshot)
    return HeadInclusion(
        inner=inner,
        head=HeadProof(head, number, inner.index, tuple(inner.proof), inner.inner),
        index=index,
        size=size,
        proof=list(tree.inclusion_proof(index=index, size=size, read=read)),
        root=tree.root(size, read),
    )


def read_head(place: Place, value: bytes | None) -> TenantHead:
    """The head that a leaf of the store log is; `Corrupt` when there is none."""
    if value is None:
        raise Corrupt("the head of the tenant's log is missing", None, None, *place)
    try:
        return TenantHead.decode(value)
    except Malformed as error:
        raise Corrupt(f"the head of the tenant's log is damaged: {error}", None, None, *place) from error


def _checked_size(snapshot: Snapshot, size: int | None) -> int:
    whole = leaves.log_size(snapshot, STORE_LOG)
    if size is not None and size > whole:
        raise InvalidInput("size", size, f"exceeds the log's size, {whole}")
    return whole if size is None else size
