"""What a whole log's leaves are held to, one by one in log order, from the leaves alone.

- Rule 1: per run tag of seals and anchors, seq strictly increases.
- Rule 2: nothing follows a run's seal.
- Rule 3: the arrivals that anchor batches cover strictly increase.
- Rule 4: the leaf that adopts another log is the first one.
- Rule 5: per tag of tenant heads, size strictly increases; a log holds heads of tenants or entries of runs, not both.

The entries within an anchor batch are not in the log, so Rules 1 and 2 do not reach them: a store's own check does.
That leaves are those of a checkpoint, `Growth` shows: it computes the root from every leaf, so a log that dropped or
changed an earlier one comes to another root.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import OF_ONE_RUN, LeafEntry, LeafType, adopted_leaf
from sealbook.merkle.errors import VerificationError, shown
from sealbook.merkle.hashing import LeafHash
from sealbook.merkle.tenant_head import HEAD_PREFIX, TenantHead
from sealbook.merkle.tree import Node

Leaf = LeafEntry | TenantHead


def decode_leaf(data: bytes) -> Leaf:
    """The leaf that these bytes are, of whichever kind of log. Raises `Malformed`."""
    return TenantHead.decode(data) if data.startswith(HEAD_PREFIX) else LeafEntry.decode(data)


def tag_of(leaf: Leaf) -> bytes | None:
    """The tag of the run or tenant that the leaf is about; None for one that is about several runs, or a log."""
    if isinstance(leaf, TenantHead):
        return leaf.tag
    return leaf.run_tag if leaf.type in OF_ONE_RUN else None


class LeafRules:
    """The rules over a log's leaves as they come in. `batch` is the arrival that the last anchor batch covers, and
    `heads` says whether the log is one of tenant heads, None before its first leaf."""

    def __init__(self, *, batch: int = 0, heads: bool | None = None) -> None:
        self.batch = batch
        self.heads = heads

    def check(self, index: int, leaf: Leaf, earlier: Leaf | None) -> None:
        """Hold the leaf at `index` to the rules; `earlier` is the newest leaf of its tag. Raises
        `VerificationError`."""
        if self.heads is None:
            self.heads = isinstance(leaf, TenantHead)
        if self.heads is not isinstance(leaf, TenantHead):
            raise VerificationError(f"leaf {index}: heads of tenants and entries of runs stand in one log")
        if isinstance(leaf, TenantHead):
            _check_head(index, leaf, earlier)
        else:
            self._check_entry(index, leaf, earlier)

    def _check_entry(self, index: int, entry: LeafEntry, earlier: Leaf | None) -> None:
        if entry.type is LeafType.ADOPTED_LOG and index != 0:
            raise VerificationError(f"leaf {index} adopts another log: only the first leaf may")
        if entry.type is LeafType.ANCHOR_BATCH:
            if entry.seq <= self.batch:
                what = f"the anchor batch covers arrival {entry.seq} and follows one that covers {self.batch}"
                raise VerificationError(f"leaf {index}: {what}")
            self.batch = entry.seq
        if entry.type in OF_ONE_RUN and isinstance(earlier, LeafEntry):
            where = f"leaf {index}, run tag {entry.run_tag.hex()}"
            if earlier.type is LeafType.SEAL:
                raise VerificationError(f"{where}: the run was sealed at record {earlier.seq}, nothing may follow")
            if entry.seq <= earlier.seq:
                raise VerificationError(f"{where}: record {entry.seq} follows record {earlier.seq}, seq must increase")


def _check_head(index: int, head: TenantHead, earlier: Leaf | None) -> None:
    if isinstance(earlier, TenantHead) and head.size <= earlier.size:
        where = f"leaf {index}, tenant tag {head.tag.hex()}"
        raise VerificationError(f"{where}: size {head.size} follows size {earlier.size}, sizes must increase")


def check_run_rules(leaves: Iterable[Leaf]) -> None:
    """Hold a log's leaves, all of them in log order, to the rules. Raises `VerificationError` at the first that breaks
    one. Keeps one leaf per tag in memory."""
    rules, latest = LeafRules(), dict[bytes, Leaf]()
    for index, leaf in enumerate(leaves):
        tag = tag_of(leaf)
        rules.check(index, leaf, None if tag is None else latest.get(tag))
        if tag is not None:
            latest[tag] = leaf


def check_handed_over(first: Leaf, seen: Checkpoint) -> None:
    """The log whose first leaf this is goes on from the log whose last checkpoint was `seen`: it states that very
    origin, and a size and root that do not contradict it. A larger size is accepted as stated: that the log of that
    size began with the one that was seen, the leaf does not show. Raises `VerificationError`."""
    if not isinstance(first, LeafEntry) or first.type is not LeafType.ADOPTED_LOG:
        raise VerificationError("the log's first leaf adopts no other log")
    if first.run_tag != adopted_leaf(seen.origin, first.seq, first.head).run_tag:
        raise VerificationError(f"the log adopts another log than {shown(seen.origin)}")
    if first.seq < seen.size:
        raise VerificationError(f"the log goes on from size {first.seq}, and size {seen.size} had been seen")
    if first.seq == seen.size and first.head != seen.root:
        raise VerificationError(
            f"the log goes on from root {first.head.hex()} at size {first.seq}, seen was {seen.root.hex()}"
        )


class Growth:
    """A log's tree as its leaves come in: its size, and the complete subtrees that its root is folded from."""

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        places = _peaks(size)
        if len(peaks) != len(places):
            raise ValueError(f"a tree of {size} leaves has {len(places)} peaks, not {len(peaks)}")
        self.size = size
        self._nodes = dict(zip(places, peaks, strict=True))

    @property
    def peaks(self) -> list[bytes]:
        """The hashes of the largest complete subtrees, largest first."""
        return [self._nodes[node] for node in _peaks(self.size)]

    def add(self, leaves: Sequence[LeafHash]) -> None:
        """The next leaves."""
        self._nodes.update(tree.added(self.size, leaves, self._read))
        self.size += len(leaves)
        self._nodes = {node: self._nodes[node] for node in _peaks(self.size)}

    def root(self) -> bytes:
        """The root of all leaves so far."""
        return tree.root(self.size, self._read)

    def _read(self, nodes: Sequence[Node]) -> list[bytes]:
        return [self._nodes[node] for node in nodes]


def _peaks(size: int) -> list[Node]:
    return [Node(level, (size >> level) - 1) for level in reversed(range(size.bit_length())) if size >> level & 1]
