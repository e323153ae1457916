"""Anchor batches: the root over their entries, and the inner path to the byte."""

from __future__ import annotations

import hashlib
import re

import pytest

from sealbook.merkle.anchor_batch import InnerProof, batch_leaf, inner_proof, sorted_entries
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed, VerificationError


def anchors(count: int) -> list[LeafEntry]:
    tags = [hashlib.sha256(bytes([number])).digest() for number in range(count)]
    return sorted_entries([LeafEntry(LeafType.ANCHOR, tag, number + 1, tag) for number, tag in enumerate(tags)])


def naive_root(entries: list[bytes]) -> bytes:
    """RFC 6962 section 2.1, as it is written."""
    if len(entries) == 1:
        return hashlib.sha256(b"\0" + entries[0]).digest()
    split = 1 << (len(entries) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + naive_root(entries[:split]) + naive_root(entries[split:])).digest()


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9])
def test_a_leaf_holds_the_root_over_the_sorted_entries_the_arrival_and_no_head(count: int) -> None:
    entries = anchors(count)
    encoded = sorted(entry.encode() for entry in entries)
    expected = b"sealbook/leaf/v1\0\3" + naive_root(encoded) + (77).to_bytes(8) + bytes(32)
    assert batch_leaf(entries, covered=77).encode() == expected


def test_each_entry_has_its_path_to_the_leaf_and_no_other_entrys() -> None:
    entries = anchors(7)
    leaf = batch_leaf(entries, covered=9)
    for index, entry in enumerate(entries):
        proof = inner_proof(leaf, entries, index)
        proof.verify(entry)
        assert InnerProof.parse(proof.encode()) == proof
        for other in entries[:index] + entries[index + 1 :]:
            with pytest.raises(VerificationError, match="leads to root"):
                proof.verify(other)


def test_the_bytes_of_an_inner_proof_are_these() -> None:
    entries = anchors(2)
    leaf = batch_leaf(entries, covered=9)
    given = inner_proof(leaf, entries, 1).encode()
    head = b"sealbook/batch/v1\0\0\0" + leaf.encode() + (1).to_bytes(4) + (2).to_bytes(4)
    assert given == head + entries[0].hash()


@pytest.mark.parametrize("kind", [LeafType.SEAL, LeafType.ANCHOR])
def test_a_batch_of_an_entry_seals_nothing(kind: LeafType) -> None:
    entries = anchors(3)
    proof = inner_proof(batch_leaf(entries, covered=9), entries, 0)
    offered = LeafEntry(kind, entries[0].run_tag, entries[0].seq, entries[0].head)
    if kind is LeafType.ANCHOR:
        proof.verify(offered)
        return
    with pytest.raises(VerificationError, match="a batch holds anchors, not SEAL"):
        proof.verify(offered)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([], "has 1 to 4294967295 entries, not 0"),
        (list(reversed(anchors(2))), "entry 1 is not above the one before it"),
        (anchors(1) * 2, "entry 1 is not above the one before it"),
        ([LeafEntry(LeafType.SEAL, bytes(32), 1, bytes(32))], "entry 0 is of type SEAL"),
    ],
)
def test_entries_that_no_batch_has_give_no_leaf(entries: list[LeafEntry], reason: str) -> None:
    with pytest.raises(Malformed, match=re.escape(reason)):
        batch_leaf(entries, covered=9)


GOOD = inner_proof(batch_leaf(anchors(3), covered=9), anchors(3), 0).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GOOD[:-1],
        GOOD + b"\0",
        b"x" + GOOD[1:],
        GOOD[:37] + b"\2" + GOOD[38:],  # another type of leaf
        GOOD[:110] + (3).to_bytes(4) + GOOD[114:],  # entry 3 of 3
        GOOD + bytes(32) * 31,
    ],
)
def test_bytes_that_no_inner_proof_has_are_malformed(data: bytes) -> None:
    InnerProof.parse(GOOD)
    with pytest.raises(Malformed):
        InnerProof.parse(data)
