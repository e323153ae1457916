"""A stored tree that counts how it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sealbook.merkle.hashing import LeafHash, leaf_hash
from sealbook.merkle.tree import Node, added


class StoredTree:
    """A tree in a dictionary, as a store keeps one in a table. `asked` lists what each read asked for."""

    def __init__(self) -> None:
        self.size = 0
        self.nodes: dict[Node, bytes] = {}
        self.asked: list[list[Node]] = []

    def read(self, nodes: Sequence[Node]) -> list[bytes]:
        self.asked.append(list(nodes))
        return [self.nodes[node] for node in nodes]

    def append(self, *leaves: LeafHash) -> list[Node]:
        """Append leaves; the nodes that were stored for them."""
        new = added(self.size, leaves, self.read)
        assert not [node for node, _ in new if node in self.nodes], "a stored node is never written again"
        self.nodes.update(new)
        self.size += len(leaves)
        return [node for node, _ in new]


Grow = Callable[..., StoredTree]


@pytest.fixture(scope="session")
def grow() -> Grow:
    """A function that grows a tree of `size` leaves; leaf number i holds i as eight bytes, big-endian."""

    def grown(size: int, batch: int = 1) -> StoredTree:
        tree = StoredTree()
        leaves = [leaf_hash(number.to_bytes(8)) for number in range(size)]
        for start in range(0, size, batch):
            tree.append(*leaves[start : start + batch])
        return tree

    return grown
