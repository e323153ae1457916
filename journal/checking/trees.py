"""Build each tenant's log again from its leaf entries, and compare every leaf and every stored node of its tree.

A leaf must be accounted for by a run (`leaves` claims it for the run whose position row leads to it), and each
complete subtree must be stored with the hash that the leaves give. The root is stored nowhere: it is folded from these
nodes, so it is right when they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from sealbook.journal.checking.anchors import BatchEntry, check_newest
from sealbook.journal.checking.audit import CheckAudit, names_of_number
from sealbook.journal.deciding.log import leaves as seals
from sealbook.journal.engine.port import Place
from sealbook.journal.errors import Corrupt, Refused
from sealbook.journal.records import names
from sealbook.journal.schema import tables
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import check_names, rows_of
from sealbook.merkle import tree
from sealbook.merkle.entry import LEAF_PREFIX, LeafEntry, LeafType
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.hashing import LeafHash, leaf_hash
from sealbook.merkle.tree import Node
from sealbook.merkle.verify import verify_inclusion

TYPE_AT = len(LEAF_PREFIX)  # of a leaf entry
PAGE_LEAVES = 1000  # whose nodes are computed at once
FOREIGN = {
    LeafType.ANCHOR_BATCH: "the anchor batch has no entries that give its leaf",
    LeafType.ADOPTED_LOG: "no record says that the log adopted the one that this leaf names",
}


def check_trees(audit: CheckAudit) -> dict[str, int]:
    """Build every tenant's log again from its leaf entries: each leaf a run's, each node its subtree's hash. The size
    of each."""
    return _Logs(audit).check()


class _Logs:
    """All logs under way."""

    def __init__(self, audit: CheckAudit) -> None:
        self._audit = audit
        self._unclaimed: dict[tuple[str, bytes], list[int]] = {}  # (tenant, run tag) -> leaves that no run accounts for

    def check(self) -> dict[str, int]:
        sizes = dict.fromkeys(self._audit.tallies, 0)
        rows = self._audit.rows(tables.LEAVES, names_of_number)
        for tenant, leaves in groupby(rows, lambda row: row[0][0]):
            sizes[tenant] = self._log(tenant, ((index, value) for (_, index), _, value in leaves))
        for tenant, size in sizes.items():
            if not size:
                sizes[tenant] = self._log(tenant, iter(()))
        if self._unclaimed:
            self._name_unclaimed()
        return sizes

    def _log(self, tenant: str, leaves: Iterator[tuple[int, bytes]]) -> int:
        """The size of the tenant's log. Leaves whose number the tree never reached are surplus."""
        nodes = _Nodes(self._audit, tenant)
        for index, value in leaves:
            while nodes.size < index and (hash_ := nodes.stored_leaf(nodes.size)) is not None:
                self._missing(tenant, nodes.size)
                nodes.add(hash_)
            if index != nodes.size:
                self._audit.found("the leaf follows a gap", tenant=tenant, place=_leaf_place(tenant, index))
            elif self._audit.tally(tenant).is_claimed(index):
                nodes.add(leaf_hash(value))
            elif (hash_ := nodes.stored_leaf(index)) is not None:
                self._foreign(tenant, index, value)
                if value[TYPE_AT : TYPE_AT + 1] == bytes([LeafType.ANCHOR_BATCH]) and leaf_hash(value) == hash_:
                    self._audit.tally(tenant).batch = max(self._audit.tally(tenant).batch, index)
                nodes.add(hash_)  # what the tree was built with, so that one changed leaf is one finding
            else:
                self._audit.found("the tree never held this leaf", tenant=tenant, place=_leaf_place(tenant, index))
        row = self._audit.tenant_row(tenant)
        counted = 0 if row is None else row.leaves
        while nodes.size < counted or self._audit.findings.names(*_leaf_place(tenant, nodes.size)):
            hash_ = nodes.stored_leaf(nodes.size)
            if hash_ is None:
                break
            self._missing(tenant, nodes.size)
            nodes.add(hash_)
        nodes.flush()
        return nodes.size

    def _missing(self, tenant: str, index: int) -> None:
        self._audit.found("the leaf is missing", tenant=tenant, place=_leaf_place(tenant, index))

    def _foreign(self, tenant: str, index: int, value: bytes) -> None:
        """A leaf that nothing accounts for. One of a run is named later, when the run is known."""
        what = "the leaf is no head of a tenant's log"
        if tenant != names.STORE_LOG:
            try:
                entry = LeafEntry.decode(value)
            except Malformed as error:
                what = f"the leaf is damaged: {error}"
            else:
                if entry.type not in FOREIGN:
                    self._unclaimed.setdefault((tenant, entry.run_tag), []).append(index)
                    return
                what = FOREIGN[entry.type]
        whose = None if tenant == names.STORE_LOG else tenant
        self._audit.found(what, tenant=whose, place=_leaf_place(tenant, index))

    def _name_unclaimed(self) -> None:
        """A leaf that no position row leads to: its run is known by its tag, or there is none."""
        for key, value in rows_of(self._audit.snapshot, tables.STATE):
            try:
                tenant, run = tables.split_run_key(key)
                check_names(tenant, run)
                standing = self._audit.corrected.get(key) or read_standing(tenant, run, value)
            except (ValueError, Refused, Corrupt):
                continue  # reported where the run was checked
            if standing is None:
                continue
            for index in self._unclaimed.pop((tenant, standing.run_tag), ()):
                place = (tables.POSITIONS, tables.position_key(tenant, run, index))
                if self._audit.snapshot.get_many([place]) == [None]:
                    self._audit.found("the row is missing", tenant=tenant, run=run, place=place)
        for (tenant, _), indexes in self._unclaimed.items():
            for index in indexes:
                self._audit.found("the leaf attests no run", tenant=tenant, place=_leaf_place(tenant, index))


class _Nodes:
    """A tenant's tree as its leaves come in. Each subtree that is completed is expected in table `nodes`."""

    def __init__(self, audit: CheckAudit, tenant: str) -> None:
        self._audit, self._tenant = audit, tenant
        self._peaks: dict[Node, bytes] = {}  # the complete subtrees that later ones are joined from
        self._built = 0
        self._new: list[LeafHash] = []

    @property
    def size(self) -> int:
        """How many leaves the tree has."""
        return self._built + len(self._new)

    def stored_leaf(self, index: int) -> LeafHash | None:
        """The hash under which the tree holds leaf `index`."""
        [value] = self._audit.snapshot.get_many([tables.node_place(self._tenant, Node(0, index))])
        return None if value is None or len(value) != 32 else LeafHash(value)

    def add(self, leaf: LeafHash) -> None:
        """The next leaf."""
        self._new.append(leaf)
        if len(self._new) >= PAGE_LEAVES:
            self.flush()

    def flush(self) -> None:
        """Compute what the leaves so far complete."""
        added = tree.added(self._built, self._new, lambda nodes: [self._peaks[node] for node in nodes])
        self._built, self._new = self.size, []
        self._peaks.update(added)
        size = self._built
        peaks = [Node(level, (size >> level) - 1) for level in range(size.bit_length()) if size >> level & 1]
        self._peaks = {node: self._peaks[node] for node in peaks}
        for node, hash_ in added:
            table, key = tables.node_place(self._tenant, node)
            self._audit.expect(table, key, hash_, self._tenant)


def _leaf_place(tenant: str, index: int) -> Place:
    return tables.LEAVES, tables.number_key(tenant, index)


def check_inclusion(
    audit: CheckAudit, tenant: str, run: str, leaves: list[tuple[int, LeafEntry]], batched: list[BatchEntry]
) -> None:
    """That the tree holds the run's leaves, and the newest anchor batch that has it, under its root as it stands."""
    try:
        size, read = seals.log_size(audit.snapshot, tenant), seals.snapshot_reader(tenant, audit.snapshot)
        root = tree.root(size, read)
    except Corrupt as error:
        audit.found(error.what, tenant=tenant, place=(error.table or tables.NODES, error.key or b""))
        return
    except ValueError as error:
        audit.found(f"the log has no such size: {error}", tenant=tenant, place=(tables.TENANTS, tenant.encode()))
        return
    for index, entry in leaves:
        try:
            proof = tree.inclusion_proof(index=index, size=size, read=read)
            verify_inclusion(leaf=entry.hash(), index=index, size=size, proof=proof, root=root)
        except Corrupt as error:
            audit.found(error.what, tenant=tenant, place=(error.table or tables.NODES, error.key or b""))
        except (VerificationError, ValueError) as error:
            what = f"the log does not hold the run's leaf: {error}"
            audit.found(what, tenant=tenant, run=run, seq=entry.seq, place=_leaf_place(tenant, index))
    check_newest(audit, tenant, run, batched, size, read)
