"""Hold every leaf of the store log to the log that it is a head of: its tag, a rising size, and the root of that size.

The root of a tenant's log is folded from its stored nodes, which are checked where that log is built again (`trees`). A
log that went on under a new origin has another tree since: what its earlier heads state is folded from its own leaves,
behind the first leaf that it had then.
"""

from __future__ import annotations

from collections.abc import Iterator

from sealbook.indexes.packing import text
from sealbook.journal.checking.audit import CheckAudit
from sealbook.journal.deciding.log import leaves as seals
from sealbook.journal.engine.port import Place
from sealbook.journal.errors import Corrupt
from sealbook.journal.records.chain import tenant_tag
from sealbook.journal.records.names import OPERATOR_RUN, STORE_LOG
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import rows_of
from sealbook.merkle import tree
from sealbook.merkle.entry import LeafEntry
from sealbook.merkle.errors import Malformed
from sealbook.merkle.hashing import leaf_hash
from sealbook.merkle.monitor import Growth
from sealbook.merkle.tenant_head import TenantHead
from sealbook.merkle.tree import Node


def check_heads(audit: CheckAudit) -> None:
    """Check the store log's leaves, and claim those that are heads."""
    heads = _Heads(audit)
    if audit.snapshot.get_many([(tables.TENANTS, STORE_LOG.encode())]) != [None]:
        audit.tally(STORE_LOG)  # so that its tree is built again, be every leaf missing
    for key, value in rows_of(audit.snapshot, tables.LEAVES, text(STORE_LOG)):
        try:
            _, index = tables.split_number_key(key)
            head = TenantHead.decode(value)
        except (ValueError, Malformed):
            continue  # reported where the log is built again
        if index <= audit.leaf_index_max:
            heads.check(index, head)


def tags_of(audit: CheckAudit, tenant: str) -> dict[bytes, int]:
    """The tags that the tenant's log has had, each with the adoption that gave it."""
    adoptions = [0] if tenant not in audit.tallies else [0, *audit.tallies[tenant].adoptions]
    lineage = audit.setting.identity.lineage_id
    return {tenant_tag(lineage, tenant, adoption): adoption for adoption in adoptions}


def is_unsure(audit: CheckAudit, tenant: str) -> bool:
    """Whether the tenant's own run cannot be read, so that not all of its tags are known."""
    return tables.run_key(tenant, OPERATOR_RUN) in audit.unsure


def believe_count(audit: CheckAudit, tenant: str) -> None:
    """A head of the tenant's log is damaged, which is reported: what its row counts is then believed."""
    row = audit.tenant_row(tenant)
    if row is not None:
        audit.tally(tenant).gathered = row.gathered


class _Heads:
    """The heads as they come in, in the order of the log."""

    def __init__(self, audit: CheckAudit) -> None:
        self._audit = audit
        self._owners = {
            tag: (tenant, adoption) for tenant in audit.tallies for tag, adoption in tags_of(audit, tenant).items()
        }
        self._unsure = any(is_unsure(audit, tenant) for tenant in audit.tallies)
        self._sizes: dict[bytes, int] = {}
        self._trees: dict[bytes, _EarlierTree] = {}

    def check(self, index: int, head: TenantHead) -> None:
        """The head at the next index."""
        audit, place = self._audit, (tables.LEAVES, tables.number_key(STORE_LOG, index))
        owner = self._owners.get(head.tag)
        fault = self._stranger_fault() if owner is None else self._fault(head, *owner)
        [node] = audit.snapshot.get_many([tables.node_place(STORE_LOG, Node(0, index))])
        sound = head.hash() == node
        if fault is None or sound:
            audit.tally(STORE_LOG).claim(index)
        if fault is not None:
            audit.found(fault, tenant=None if owner is None else owner[0], place=place)
        if owner is None:
            return
        tenant, adoption = owner
        audit.expect(tables.HEADS, tables.number_key(tenant, index), b"", tenant)
        if fault is None or sound:
            self._sizes[head.tag] = max(head.size, self._sizes.get(head.tag, 0))
            if adoption == _present(audit, tenant):
                audit.tally(tenant).gathered = self._sizes[head.tag]
        else:
            believe_count(audit, tenant)

    def _stranger_fault(self) -> str | None:
        return None if self._unsure else "the leaf is no head of a tenant's log"

    def _fault(self, head: TenantHead, tenant: str, adoption: int) -> str | None:
        before = self._sizes.get(head.tag, 0)
        if head.size <= before:
            return f"the head of size {head.size} follows one of size {before}"
        try:
            root = self._root(head, tenant, adoption)
        except Corrupt:
            return None  # a node's or a count's damage is reported where the tenant's log is built again
        if root is None:
            return f"the head says size {head.size}, which the tenant's log never had"
        return None if root == head.root else "the head states another root than the tenant's log had"

    def _root(self, head: TenantHead, tenant: str, adoption: int) -> bytes | None:
        """The root that the tenant's log had at the head's size; None when it never had that size."""
        audit = self._audit
        if adoption == _present(audit, tenant):
            if head.size > seals.log_size(audit.snapshot, tenant):
                return None
            return tree.root(head.size, seals.snapshot_reader(tenant, audit.snapshot))
        if head.tag not in self._trees:
            self._trees[head.tag] = _EarlierTree(audit, tenant, audit.tallies[tenant].adoptions.get(adoption))
        return self._trees[head.tag].root(head.size)


def _present(audit: CheckAudit, tenant: str) -> int:
    """The adoption that gave the tenant's log the tree that it has now; 0 for its first one."""
    return max(audit.tallies[tenant].adoptions, default=0)


class _EarlierTree:
    """The tree of a log before it went on under a new origin: `first` is the first leaf that it had then, None when it
    had none but its own."""

    def __init__(self, audit: CheckAudit, tenant: str, first: LeafEntry | None) -> None:
        self._leaves = self._own_leaves(audit, tenant)
        self._growth = Growth()
        if first is not None:
            self._growth.add([first.hash()])

    @staticmethod
    def _own_leaves(audit: CheckAudit, tenant: str) -> Iterator[bytes]:
        leaves = rows_of(audit.snapshot, tables.LEAVES, text(tenant))
        next(leaves, None)  # the leaf that adopts the log of before
        return (value for _, value in leaves)

    def root(self, size: int) -> bytes | None:
        """The root at this size, which is larger than at the call before."""
        while self._growth.size < size:
            value = next(self._leaves, None)
            if value is None:
                return None
            self._growth.add([leaf_hash(value)])
        return self._growth.root() if self._growth.size == size else None


def head_stands(audit: CheckAudit, key: bytes) -> bool:
    """Whether the leaf that a row of `heads` names is a head of that tenant's log, or is reported already."""
    tenant, index = tables.split_number_key(key)
    place: Place = (tables.LEAVES, tables.number_key(STORE_LOG, index))
    if audit.findings.names(*place):
        believe_count(audit, tenant)
        return True
    [value] = audit.snapshot.get_many([place])
    try:
        head = None if value is None else TenantHead.decode(value)
    except Malformed:
        return False
    return head is not None and (head.tag in tags_of(audit, tenant) or is_unsure(audit, tenant))
