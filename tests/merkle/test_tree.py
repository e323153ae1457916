"""What a tree stores, what it reads, and which questions it refuses."""

from __future__ import annotations

import doctest
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sealbook.merkle import tree
from sealbook.merkle.hashing import EMPTY_ROOT, SIZE_MAX, LeafHash, leaf_hash, node_hash
from sealbook.merkle.tree import Node, added, consistency_proof, inclusion_proof, root


def nothing_stored(nodes: Sequence[Node]) -> list[bytes]:
    raise AssertionError(f"asked for {nodes}")


def test_the_worked_example_of_the_module_holds() -> None:
    results = doctest.testmod(tree)
    assert results.attempted > 0
    assert results.failed == 0


def test_a_tree_of_n_leaves_stores_2n_minus_popcount_n_hashes(grow: Any) -> None:
    stored = grow(0)
    for size in range(1, 301):
        stored.append(leaf_hash(size.to_bytes(8)))
        assert len(stored.nodes) == 2 * size - size.bit_count()


def test_every_stored_node_is_the_hash_of_its_two_children(grow: Any) -> None:
    stored = grow(100)
    for node, value in stored.nodes.items():
        if node.level > 0:
            children = [Node(node.level - 1, 2 * node.index), Node(node.level - 1, 2 * node.index + 1)]
            assert value == node_hash(*(stored.nodes[child] for child in children))


@pytest.mark.parametrize("batch", [2, 3, 5, 7, 64, 300])
def test_leaves_appended_in_batches_give_the_same_nodes_as_one_by_one(grow: Any, batch: int) -> None:
    assert grow(300, batch).nodes == grow(300).nodes


def test_new_nodes_come_in_the_order_of_nodes_children_before_parents(grow: Any) -> None:
    for size in range(40):
        for count in range(1, 20):
            stored = grow(size, 8)
            new = stored.append(*[leaf_hash(bytes([number])) for number in range(count)])
            assert new == sorted(new)
            assert [node.index for node in new if node.level == 0] == list(range(size, size + count))


def test_appending_nothing_stores_nothing_and_reads_nothing() -> None:
    assert added(5, [], nothing_stored) == []


def test_a_leaf_on_an_even_tree_reads_nothing() -> None:
    leaf = leaf_hash(b"x")
    assert added(0, [leaf], nothing_stored) == [(Node(0, 0), leaf)]
    assert added(2**62, [leaf], nothing_stored) == [(Node(0, 2**62), leaf)]


def test_the_root_of_nothing_reads_nothing() -> None:
    assert root(0, nothing_stored) == EMPTY_ROOT


def test_a_proof_without_hashes_reads_nothing() -> None:
    assert inclusion_proof(index=0, size=1, read=nothing_stored) == []
    # Field report PRF 71 and behaviour A109: empty for (0, n) and (n, n), and for no other pair.
    for old_size, new_size in [(0, 0), (0, 1), (0, 9), (1, 1), (9, 9), (SIZE_MAX, SIZE_MAX), (0, SIZE_MAX)]:
        assert consistency_proof(old_size=old_size, new_size=new_size, read=nothing_stored) == []


def test_a_consistency_proof_between_two_different_trees_is_never_empty(grow: Any) -> None:
    stored = grow(33, 33)
    for new_size in range(2, 34):
        for old_size in range(1, new_size):
            assert consistency_proof(old_size=old_size, new_size=new_size, read=stored.read) != []


class EveryNode:
    """A reader of a tree as large as one likes: every node has some hash."""

    def __init__(self) -> None:
        self.asked: list[Sequence[Node]] = []

    def __call__(self, nodes: Sequence[Node]) -> list[bytes]:
        self.asked.append(nodes)
        return [hashlib.sha256(repr(node).encode()).digest() for node in nodes]


@pytest.mark.parametrize("size", [2, 3, 1000, 2**20 - 1, 2**20, 2**20 + 1, 2**62 + 1, SIZE_MAX])
def test_the_reader_is_asked_once_for_no_more_nodes_than_two_per_level(size: int) -> None:
    calls: list[Callable[[EveryNode], object]] = [lambda read: root(size, read)]
    calls += [
        lambda read, index=index: inclusion_proof(index=index, size=size, read=read)  # type: ignore[misc]
        for index in {0, 1, size // 3, size // 2, size - 1}
    ]
    calls += [
        lambda read, old=old: consistency_proof(old_size=old, new_size=size, read=read)  # type: ignore[misc]
        for old in {1, size // 3 + 1, size // 2, size - 1}
    ]
    if size % 2 and size < SIZE_MAX:
        calls.append(lambda read: added(size, [leaf_hash(b"x")], read))
    for call in calls:
        read = EveryNode()
        call(read)
        assert len(read.asked) == 1
        assert len(set(read.asked[0])) == len(read.asked[0]) <= 2 * size.bit_length()
        assert all((node.index + 1) << node.level <= size for node in read.asked[0]), "only complete subtrees"


def test_appending_to_the_largest_tree_but_one_reads_one_node_per_level() -> None:
    read = EveryNode()
    size = 2**62 - 1
    new = added(size, [leaf_hash(b"x")], read)
    assert [node.level for node, _ in new] == list(range(63))
    assert read.asked == [[Node(level, 2 ** (62 - level) - 2) for level in range(62)]]


OUT_OF_RANGE: list[Any] = [-1, 2**63, 2**64, 10**5000, True, False, 1.0, "1", None]


@pytest.mark.parametrize("number", OUT_OF_RANGE, ids=lambda value: type(value).__name__)
def test_numbers_that_are_no_size_are_refused(number: Any) -> None:
    for call in (
        lambda: root(number, nothing_stored),
        lambda: added(number, [leaf_hash(b"x")], nothing_stored),
        lambda: inclusion_proof(index=number, size=5, read=nothing_stored),
        lambda: inclusion_proof(index=0, size=number, read=nothing_stored),
        lambda: consistency_proof(old_size=number, new_size=5, read=nothing_stored),
        lambda: consistency_proof(old_size=0, new_size=number, read=nothing_stored),
    ):
        with pytest.raises(ValueError, match="is 0 to"):
            call()


@pytest.mark.parametrize(("index", "size"), [(0, 0), (1, 1), (5, 5), (6, 5), (SIZE_MAX, SIZE_MAX)])
def test_a_leaf_past_the_end_has_no_proof(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="is not in a tree of"):
        inclusion_proof(index=index, size=size, read=nothing_stored)


@pytest.mark.parametrize(("old_size", "new_size"), [(1, 0), (6, 5), (SIZE_MAX, 1)])
def test_a_log_that_shrinks_has_no_proof(old_size: int, new_size: int) -> None:
    with pytest.raises(ValueError, match="exceeds new size"):
        consistency_proof(old_size=old_size, new_size=new_size, read=nothing_stored)


def test_a_tree_does_not_grow_past_its_largest_size() -> None:
    leaf = leaf_hash(b"x")
    assert added(SIZE_MAX - 1, [leaf], nothing_stored) == [(Node(0, SIZE_MAX - 1), leaf)]
    with pytest.raises(ValueError, match="at most"):
        added(SIZE_MAX, [leaf], nothing_stored)
    with pytest.raises(ValueError, match="at most"):
        added(SIZE_MAX - 1, [leaf, leaf], nothing_stored)


@pytest.mark.parametrize("leaf", [hashlib.sha256(b"x").digest(), bytearray(32), "x" * 32])
def test_a_digest_that_is_no_leaf_hash_cannot_enter_a_tree(leaf: Any) -> None:
    with pytest.raises(TypeError, match="a leaf is a LeafHash"):
        added(0, [leaf_hash(b"first"), leaf], nothing_stored)


def test_a_reader_that_answers_too_few_or_too_many_hashes_is_refused() -> None:
    for count in (0, 1, 3):
        with pytest.raises(ValueError, match=f"answered {count} hashes for 2 nodes"):
            root(5, lambda _, count=count: [bytes(32)] * count)  # type: ignore[misc]


@pytest.mark.parametrize("value", [b"", bytes(31), bytes(33)])
def test_a_stored_hash_of_another_length_is_refused(value: bytes) -> None:
    for call in (
        lambda: root(4, lambda nodes: [value]),
        lambda: inclusion_proof(index=0, size=2, read=lambda nodes: [value]),
        lambda: consistency_proof(old_size=1, new_size=2, read=lambda nodes: [value]),
        lambda: added(1, [LeafHash(bytes(32))], lambda nodes: [value]),
    ):
        with pytest.raises(ValueError, match=f"has {len(value)} bytes"):
            call()
