"""The shape of a tenant's tree: which nodes are stored, and which of them a root or a proof needs.

The hash of every complete subtree is stored once, when its last leaf is appended, and never changes. Subtrees that are
not complete are never stored: their hashes are folded from the complete ones. A node is named by its level and its
number in that level; `Node(level, index)` covers the leaves `index * 2**level` up to `(index + 1) * 2**level - 1`.
A tree of five leaves stores eight nodes, 2n minus the number of ones in n:

    level 2        (2,0)
                /         \\
    level 1   (1,0)      (1,1)
              /   \\      /   \\
    level 0 (0,0) (0,1) (0,2) (0,3) (0,4)

    root of 5 leaves          node_hash((2,0), (0,4))
    inclusion of leaf 2       (0,3), (1,0), (0,4)
    consistency of 3 with 5   (0,2), (0,3), (1,0), (0,4)

Nothing here reads storage. Each function works out the nodes that it needs, asks its reader for all of them at once,
and computes: one read per call, or none where no stored node is needed, of O(log n) nodes.

>>> from sealbook.merkle.hashing import leaf_hash
>>> stored: dict[Node, bytes] = {}
>>> def read(nodes: Sequence[Node]) -> list[bytes]:
...     return [stored[node] for node in nodes]
>>> for size, word in enumerate([b"a", b"b", b"c", b"d", b"e"]):
...     new = added(size, [leaf_hash(word)], read)
...     stored.update(new)
...     print([tuple(node) for node, _ in new])
[(0, 0)]
[(0, 1), (1, 0)]
[(0, 2)]
[(0, 3), (1, 1), (2, 0)]
[(0, 4)]
>>> root(5, read) == node_hash(stored[Node(2, 0)], stored[Node(0, 4)])
True
>>> inclusion_proof(index=2, size=5, read=read) == read([Node(0, 3), Node(1, 0), Node(0, 4)])
True
>>> consistency_proof(old_size=3, new_size=5, read=read) == read([Node(0, 2), Node(0, 3), Node(1, 0), Node(0, 4)])
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sealbook.merkle.errors import shown
from sealbook.merkle.hashing import EMPTY_ROOT, HASH_BYTES, SIZE_MAX, LeafHash, node_hash


class Node(NamedTuple):
    """A complete subtree of `2**level` leaves, the `index`-th of its level. A named tuple because nodes
    are keys of dictionaries, where a frozen dataclass takes five times as long."""

    level: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls on a node


Reader = Callable[[Sequence[Node]], Sequence[bytes]]
"""Answers the hashes of the nodes, in their order. It raises, in its own words, when one is missing."""


def added(size: int, leaves: Sequence[LeafHash], read: Reader) -> list[tuple[Node, bytes]]:
    """Every node to store when `leaves` are appended to a tree of `size` leaves: the leaves themselves, then each
    subtree that they complete, children before parents and in the nodes' order."""
    _check_number("size", size)
    if size + len(leaves) > SIZE_MAX:
        raise ValueError(f"a tree has at most {SIZE_MAX} leaves, not {size} and {len(leaves)} more")
    for leaf in leaves:
        if not isinstance(leaf, LeafHash):
            raise TypeError(f"a leaf is a LeafHash, not {type(leaf).__name__}")

    left = iter(_read_once(_left_neighbours(size, size + len(leaves)), read))
    nodes: list[tuple[Node, bytes]] = []
    new: list[bytes] = list(leaves)  # the hashes of a level's new nodes
    level, first = 0, size  # `first` is the number of the first of them
    while new:
        for index, value in enumerate(new, first):
            nodes.append((Node(level, index), value))
        if first % 2:
            new.insert(0, next(left))
        new = [node_hash(*pair) for pair in zip(new[::2], new[1::2], strict=False)]  # a last odd one has no parent yet
        level, first = level + 1, first // 2
    return nodes


def root(size: int, read: Reader) -> bytes:
    """The root of the tree's first `size` leaves: RFC 6962's MTH(D[size])."""
    _check_number("size", size)
    if size == 0:
        return EMPTY_ROOT
    return _subtree_hashes([(0, size)], read)[0]


def inclusion_proof(*, index: int, size: int, read: Reader) -> list[bytes]:
    """The sibling hashes from leaf `index` up to the root of the first `size` leaves: RFC 6962's PATH(index, D[size]).
    An index past the end is refused: it has no proof, and an empty one is that of the only leaf of a tree."""
    _check_number("index", index)
    _check_number("size", size)
    if index >= size:
        raise ValueError(f"index {index} is not in a tree of {size} leaves")

    siblings: list[tuple[int, int]] = []  # from the root down
    start, end = 0, size
    while end - start > 1:
        middle = start + _left_size(end - start)
        if index < middle:
            siblings.append((middle, end))
            end = middle
        else:
            siblings.append((start, middle))
            start = middle
    return _subtree_hashes(siblings[::-1], read)


def consistency_proof(*, old_size: int, new_size: int, read: Reader) -> list[bytes]:
    """The hashes that lead from the root of the first `old_size` leaves to that of the first `new_size`: RFC 6962's
    PROOF(old_size, D[new_size]). Empty when the sizes are equal or the old one is 0."""
    _check_number("old size", old_size)
    _check_number("new size", new_size)
    if old_size > new_size:
        raise ValueError(f"old size {old_size} exceeds new size {new_size}")
    if old_size == 0 or old_size == new_size:
        return []

    subtrees: list[tuple[int, int]] = []  # from the root down
    start, end = 0, new_size
    while end != old_size:
        middle = start + _left_size(end - start)
        if old_size <= middle:
            subtrees.append((middle, end))
            end = middle
        else:
            subtrees.append((start, middle))
            start = middle
    # RFC 6962: SUBPROOF(m, D[m], true) = {}, SUBPROOF(m, D[m], false) = {MTH(D[m])}; the flag holds until the first
    # step to the right: as long as it does, this subtree is the whole old tree and the verifier has its root.
    if start > 0:
        subtrees.append((start, end))
    return _subtree_hashes(subtrees[::-1], read)


def _left_neighbours(size: int, new_size: int) -> list[Node]:
    """The stored nodes that are joined with the first new node of a level, lowest level first."""
    neighbours: list[Node] = []
    level, first, end = 0, size, new_size
    while first < end:
        if first % 2:
            neighbours.append(Node(level, first - 1))
        level, first, end = level + 1, first // 2, end // 2
    return neighbours


def _subtree_hashes(ranges: Sequence[tuple[int, int]], read: Reader) -> list[bytes]:
    """The hashes of the subtrees over the given leaves, `start` up to and without `end`."""
    covers = [_complete_subtrees(start, end) for start, end in ranges]
    hashes = iter(_read_once([node for cover in covers for node in cover], read))
    return [next(hashes) if len(cover) == 1 else _folded([next(hashes) for _ in cover]) for cover in covers]


def _complete_subtrees(start: int, end: int) -> list[Node]:
    """The complete subtrees, largest first, that the subtree over leaves `start` to `end` is folded from.

    `start` is a multiple of the largest of them, as it is for every subtree that the RFC's definitions reach."""
    nodes: list[Node] = []
    while start < end:
        level = (end - start).bit_length() - 1
        assert start % (1 << level) == 0
        nodes.append(Node(level, start >> level))
        start += 1 << level
    return nodes


def _folded(hashes: list[bytes]) -> bytes:
    """The hash over complete subtrees of falling size: right to left, as MTH splits at the largest power of two."""
    value = hashes[-1]
    for left in reversed(hashes[:-1]):
        value = node_hash(left, value)
    return value


def _left_size(size: int) -> int:
    """RFC 6962: "let k be the largest power of two smaller than n"."""
    return 1 << (size - 1).bit_length() - 1


def _read_once(nodes: Sequence[Node], read: Reader) -> Sequence[bytes]:
    """The hashes of the nodes, in their order. The reader is asked once, or not at all when no node is needed."""
    if not nodes:
        return []
    hashes = read(nodes)
    if len(hashes) != len(nodes):
        raise ValueError(f"the reader answered {len(hashes)} hashes for {len(nodes)} nodes")
    for node, value in zip(nodes, hashes, strict=True):
        if len(value) != HASH_BYTES:
            raise ValueError(f"the hash of {node} has {len(value)} bytes, not {HASH_BYTES}")
    return hashes


def _check_number(what: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= SIZE_MAX:
        raise ValueError(f"{what} is 0 to {SIZE_MAX}, not {shown(value)}")
