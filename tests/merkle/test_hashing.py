"""Leaves and nodes are hashed apart, and leaf hashes are a type of their own."""

from __future__ import annotations

import copy
import hashlib
import pickle

import pytest

from sealbook.merkle.hashing import EMPTY_ROOT, HASH_BYTES, LeafHash, leaf_hash, node_hash


def test_the_root_of_no_leaves_is_the_hash_of_nothing() -> None:
    # RFC 6962 section 2.1: "The hash of an empty list is the hash of an empty string".
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_leaf_is_hashed_behind_a_zero_byte_and_a_node_behind_a_one() -> None:
    left, right = leaf_hash(b"left"), leaf_hash(b"right")
    assert left == hashlib.sha256(b"\x00left").digest()
    assert node_hash(left, right) == hashlib.sha256(b"\x01" + left + right).digest()


def test_the_children_of_a_node_read_as_one_leaf_have_another_hash() -> None:
    left, right = leaf_hash(b"left"), leaf_hash(b"right")
    assert leaf_hash(left + right) != node_hash(left, right)


def test_a_leaf_hash_is_bytes_of_its_own_type_and_survives_copying() -> None:
    value = leaf_hash(b"x")
    assert isinstance(value, LeafHash)
    assert len(value) == HASH_BYTES
    for copied in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert copied == value
        assert isinstance(copied, LeafHash)


@pytest.mark.parametrize("length", [0, 1, 20, 31, 33, 64])
def test_a_leaf_hash_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"not {length}"):
        LeafHash(bytes(length))


@pytest.mark.parametrize("value", [32, "a" * 32, bytearray(32), memoryview(bytes(32)), [0] * 32, None])
def test_a_leaf_hash_of_anything_but_bytes_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        LeafHash(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("left", "right"), [(31, 33), (33, 31), (0, 32), (32, 0), (64, 0)])
def test_a_node_over_hashes_of_another_length_is_refused(left: int, right: int) -> None:
    with pytest.raises(ValueError, match="children of 32 bytes"):
        node_hash(bytes(left), bytes(right))
