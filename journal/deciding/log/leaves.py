"""The tenant's log over `merkle`: adding a leaf, and answering with checkpoints and proofs.

Checkpoint, positions and proof of one answer come from one snapshot. A leaf is never removed or
skipped, so a leaf's index is its log position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sealbook.indexes.standing import Standing, with_leaf
from sealbook.journal.deciding.overlay import Overlay
from sealbook.journal.engine.port import Place, Snapshot
from sealbook.journal.errors import Corrupt, InvalidInput
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import TenantRow
from sealbook.merkle import tree
from sealbook.merkle.anchor_batch import InnerProof
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed
from sealbook.merkle.hashing import LeafHash
from sealbook.merkle.tenant_head import TenantHead
from sealbook.merkle.tree import Node

LEAF_KINDS = {LeafType.SEAL: "seal", LeafType.ANCHOR: "anchor"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """What the log says of a run: the leaf at `index` attests `head` at `seq`. `kind` is `seal` or `anchor`."""

    run: str
    index: int
    kind: str
    seq: int
    head: bytes


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """That a leaf stands at `index` in the log of `size` leaves whose root is `root`.

    `leaf_kind` is `seal`, `anchor`, or `anchor-batch` for a leaf that attests many runs at once. That the run's own
    `inner_entry` is one of the batch's, `inner` proves; `seq` and `head` are that entry's.
    It proves presence. That no newer leaf of the run exists, it does not prove.
    """

    run: str
    leaf_kind: str
    index: int
    size: int
    seq: int
    head: bytes
    leaf_data: bytes
    leaf_hash: LeafHash
    proof: list[bytes]
    root: bytes
    inner: InnerProof | None = None
    inner_entry: bytes | None = None


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    """That the log of `new` leaves begins with the log of `old` leaves."""

    old: int
    new: int
    old_root: bytes
    new_root: bytes
    proof: list[bytes]


def add_leaf(overlay: Overlay, standing: Standing, *, sealing: bool) -> Standing:
    """Append the leaf for the run's head to its tenant's log, and return the standing that knows of it."""
    tenant, run = standing.tenant, standing.run
    counts = overlay.tenant(tenant)
    index = counts.leaves
    kind = LeafType.SEAL if sealing else LeafType.ANCHOR
    append_entry(overlay, tenant, LeafEntry(kind, standing.run_tag, standing.records, standing.head))
    overlay.insert((tables.POSITIONS, tables.position_key(tenant, run, index)), b"")
    moved = with_leaf(standing, index=index, seq=standing.records, sealing=sealing)
    overlay.set_standing(moved)
    if sealing:
        overlay.set_lease(tenant, run, None)  # sealing ends the lease in the same transaction
    return moved


def append_entry(overlay: Overlay, tenant: str, entry: LeafEntry | TenantHead) -> int:
    """Append an entry to the tenant's log, or a head to the store log, and the nodes it completes; its log position."""
    counts = overlay.tenant(tenant)
    index = counts.leaves
    overlay.insert((tables.LEAVES, tables.number_key(tenant, index)), entry.encode())
    for node, hash_ in tree.added(index, [entry.hash()], node_reader(tenant, overlay.get)):
        overlay.insert(tables.node_place(tenant, node), hash_)
    overlay.set_tenant(tenant, counts._replace(leaves=index + 1))
    return index


def node_reader(tenant: str, get: Callable[[Place], bytes | None]) -> tree.Reader:
    """How `merkle` reads the tenant's nodes; a missing one is `Corrupt`, since every complete subtree is stored."""

    def read(nodes: Sequence[Node]) -> list[bytes]:
        return [_present(place, get(place)) for place in tables.node_places(tenant, nodes)]

    return read


def snapshot_reader(tenant: str, snapshot: Snapshot) -> tree.Reader:
    """The same over a snapshot, all nodes in one call."""

    def read(nodes: Sequence[Node]) -> list[bytes]:
        places = tables.node_places(tenant, nodes)
        return [_present(place, value) for place, value in zip(places, snapshot.get_many(places), strict=True)]

    return read


def _present(place: Place, value: bytes | None) -> bytes:
    if value is None or len(value) != 32:
        raise Corrupt("a node of the log is missing or damaged", None, None, *place)
    return value


def log_size(snapshot: Snapshot, tenant: str) -> int:
    """How many leaves the tenant's log has; `Corrupt` when leaves stand there that no row counts."""
    places: list[Place] = [(tables.TENANTS, tenant.encode()), (tables.LEAVES, tables.number_key(tenant, 0))]
    counts, first_leaf = snapshot.get_many(places)
    if counts is None and first_leaf is not None:
        raise Corrupt("the tenant's row is missing", None, None, *places[0])
    return TenantRow.decode(tenant, counts).leaves


def leaf_entries(snapshot: Snapshot, tenant: str, start: int, limit: int) -> list[bytes]:
    """The entries of at most `limit` leaves from number `start` on, as they are stored."""
    lo, hi = tables.number_key(tenant, start), tables.number_key(tenant, start + limit)
    page = snapshot.scan(tables.LEAVES, lo, hi, limit)
    expected = max(0, min(limit, log_size(snapshot, tenant) - start))
    if len(page) != expected:
        raise Corrupt(f"{len(page)} leaves from {start} on, not {expected}", None, None, tables.LEAVES, lo)
    for index, (key, _) in enumerate(page, start):
        if key != tables.number_key(tenant, index):
            raise Corrupt(f"leaf {index} is missing", None, None, tables.LEAVES, key)
    return [value for _, value in page]


def checkpoint(snapshot: Snapshot, tenant: str, origin: str, size: int | None = None) -> Checkpoint:
    """The tenant's log as it stands, or as it was at `size` leaves: origin, size, root."""
    whole = log_size(snapshot, tenant)
    size = whole if size is None else size
    if size > whole:
        raise InvalidInput("size", size, f"exceeds the log's size, {whole}")
    return Checkpoint(origin, size, tree.root(size, snapshot_reader(tenant, snapshot)))


def consistency(snapshot: Snapshot, tenant: str, old_size: int) -> ConsistencyProof:
    """The proof from `old_size` to the log as it stands; `InvalidInput` for a size that it has not reached."""
    size, read = log_size(snapshot, tenant), snapshot_reader(tenant, snapshot)
    if old_size > size:
        raise InvalidInput("old size", old_size, f"exceeds the log's size, {size}")
    proof = tree.consistency_proof(old_size=old_size, new_size=size, read=read)
    return ConsistencyProof(old_size, size, tree.root(old_size, read), tree.root(size, read), list(proof))


def own_inclusion(snapshot: Snapshot, standing: Standing, size: int) -> InclusionProof | None:
    """The proof of the run's highest leaf of its own below `size`; None when it has none."""
    tenant, run = standing.tenant, standing.run
    leaf = highest_leaf(snapshot, standing, size)
    if leaf is None:
        return None
    read = snapshot_reader(tenant, snapshot)
    entry = LeafEntry(LeafType.SEAL if leaf.kind == "seal" else LeafType.ANCHOR, standing.run_tag, leaf.seq, leaf.head)
    return InclusionProof(
        run=run,
        leaf_kind=leaf.kind,
        index=leaf.index,
        size=size,
        seq=leaf.seq,
        head=leaf.head,
        leaf_data=entry.encode(),
        leaf_hash=entry.hash(),
        proof=list(tree.inclusion_proof(index=leaf.index, size=size, read=read)),
        root=tree.root(size, read),
    )


def highest_leaf(snapshot: Snapshot, standing: Standing, size: int) -> Leaf | None:
    """The run's highest leaf below `size`."""
    tenant, run, index = standing.tenant, standing.run, standing.highest_leaf
    if index is None:
        return None
    if index >= size:
        lo, hi = tables.position_key(tenant, run, 0), tables.position_key(tenant, run, size)
        page = snapshot.scan(tables.POSITIONS, lo, hi, 1, reverse=True)
        if not page:
            return None
        try:
            index = tables.split_position_key(page[0][0])[2]
        except ValueError as error:
            raise Corrupt(f"the position is damaged: {error}", run, None, tables.POSITIONS, page[0][0]) from error
    return read_leaf(snapshot, standing, index)


def read_leaf(snapshot: Snapshot, standing: Standing, index: int) -> Leaf:
    """The leaf at `index`, which must attest this run; `Corrupt` otherwise."""
    return leaf_of(standing, index, snapshot.get_many([leaf_place(standing, index)])[0])


def leaf_place(standing: Standing, index: int) -> Place:
    """Where the leaf at `index` of the run's tenant stands."""
    return tables.LEAVES, tables.number_key(standing.tenant, index)


def leaf_of(standing: Standing, index: int, value: bytes | None) -> Leaf:
    """The leaf that the row at `index` holds, which must attest this run; `Corrupt` otherwise."""
    run, place = standing.run, leaf_place(standing, index)
    if value is None:
        raise Corrupt(f"the run's leaf {index} is missing", run, None, *place)
    try:
        entry = LeafEntry.decode(value)
    except Malformed as error:
        raise Corrupt(f"the run's leaf {index} is damaged: {error}", run, None, *place) from error
    if entry.run_tag != standing.run_tag or entry.type not in LEAF_KINDS:
        raise Corrupt(f"leaf {index} attests another run", run, None, *place)
    return Leaf(run, index, LEAF_KINDS[entry.type], entry.seq, entry.head)
