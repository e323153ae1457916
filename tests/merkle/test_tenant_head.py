"""Leaves of a log of logs, to the byte, the rules that such a log is held to, and the paths that lead through one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sealbook.merkle import tree
from sealbook.merkle.anchor_batch import InnerProof, batch_leaf, inner_proof
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.monitor import Leaf, check_run_rules, decode_leaf, tag_of
from sealbook.merkle.tenant_head import HeadProof, TenantHead

TAG, ROOT = bytes(range(32)), bytes(range(0x80, 0xA0))
HEAD = TenantHead(TAG, 0x0102030405060708, ROOT)
ENCODED = b"sealbook/tenant-head/v1\0" + TAG + bytes(range(1, 9)) + ROOT


def test_a_head_is_these_ninety_six_bytes_and_is_hashed_as_a_leaf() -> None:
    assert len(ENCODED) == 96
    assert HEAD.encode() == ENCODED
    assert TenantHead.decode(ENCODED) == HEAD
    assert HEAD.hash() == hashlib.sha256(b"\0" + ENCODED).digest()


def test_a_leaf_of_either_kind_is_known_by_how_it_begins() -> None:
    entry = LeafEntry(LeafType.ANCHOR, TAG, 1, ROOT)
    assert (decode_leaf(ENCODED), decode_leaf(entry.encode())) == (HEAD, entry)
    assert tag_of(HEAD) == tag_of(entry) == TAG
    assert tag_of(LeafEntry(LeafType.ANCHOR_BATCH, TAG, 1, bytes(32))) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "96 bytes expected, not 0"),
        (ENCODED[:-1], "96 bytes expected, not 95"),
        (ENCODED + b"\0", "96 bytes expected, not 97"),
        (b"sealbook/tenant-head/v2\0" + ENCODED[24:], "begins with"),
        (ENCODED[:56] + bytes(8) + ENCODED[64:], "size is 1 to"),
        (ENCODED[:56] + b"\x80" + bytes(7) + ENCODED[64:], "size is 1 to"),
    ],
)
def test_bytes_that_no_head_has_are_malformed(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        TenantHead.decode(data)


@pytest.mark.parametrize("values", [{"tag": bytes(31)}, {"tag": "t"}, {"size": 0}, {"size": True}, {"root": b""}])
def test_a_head_that_has_no_bytes_cannot_be_made(values: dict[str, Any]) -> None:
    members: dict[str, Any] = {"tag": TAG, "size": 1, "root": ROOT}
    with pytest.raises(Malformed):
        TenantHead(**(members | values))


def test_sizes_strictly_increase_per_tag() -> None:
    other = bytes(32)
    good = [TenantHead(TAG, 1, ROOT), TenantHead(other, 9, ROOT), TenantHead(TAG, 2, ROOT)]
    check_run_rules(good)
    for size in (1, 2):
        with pytest.raises(VerificationError, match=f"leaf 3.*size {size} follows size 2"):
            check_run_rules([*good, TenantHead(TAG, size, ROOT)])


@pytest.mark.parametrize("first", ["a head", "an entry"])
def test_heads_of_tenants_and_entries_of_runs_stand_in_no_one_log(first: str) -> None:
    leaves: list[Leaf] = [HEAD, LeafEntry(LeafType.SEAL, ROOT, 1, ROOT)]
    with pytest.raises(VerificationError, match="leaf 1: heads of tenants and entries of runs"):
        check_run_rules(leaves if first == "a head" else leaves[::-1])


# --- from a run's leaf to a head -------------------------------------------------------------------------------------


def leaf_of(number: int) -> LeafEntry:
    return LeafEntry(LeafType.ANCHOR, number.to_bytes(32), number + 1, ROOT)


def head_proof(index: int = 1, size: int = 3, batch: InnerProof | None = None) -> HeadProof:
    """The path from a leaf of a log of anchors, or of one anchor batch among them, to the head of that log."""
    leaves = [leaf_of(number).hash() for number in range(size)]
    if batch is not None:
        leaves[index] = batch.leaf.hash()
    nodes = dict(tree.added(0, leaves, lambda wanted: []))

    def read(wanted: Sequence[tree.Node]) -> list[bytes]:
        return [nodes[node] for node in wanted]

    path = tuple(tree.inclusion_proof(index=index, size=size, read=read))
    return HeadProof(TenantHead(TAG, size, tree.root(size, read)), 0, index, path, batch)


def inner() -> InnerProof:
    return inner_proof(batch_leaf([leaf_of(8), leaf_of(9)], covered=12), [leaf_of(8), leaf_of(9)], 1)


def test_a_head_proof_is_these_very_bytes() -> None:
    proof = head_proof()
    assert len(proof.proof) == 2
    fixed = b"sealbook/head/v1\0\0\0\0" + proof.head.encode() + (0).to_bytes(8) + (1).to_bytes(8) + (2).to_bytes(4)
    assert proof.encode() == fixed + b"".join(proof.proof)
    assert replace(proof, batch=inner()).encode() == fixed + b"".join(proof.proof) + inner().encode()
    assert replace(proof, adoption=7).encode()[116:124] == (7).to_bytes(8)


@pytest.mark.parametrize("batch", [None, inner()])
@pytest.mark.parametrize("place", [(0, 1), (1, 3), (129, 300)])
def test_a_head_proof_is_read_back_and_leads_from_the_leaf_to_the_head(
    place: tuple[int, int], batch: InnerProof | None
) -> None:
    index, size = place
    proof = HeadProof.parse(head_proof(index, size, batch).encode())
    assert proof == head_proof(index, size, batch)
    leaf = leaf_of(index).hash() if batch is None else batch.leaf.hash()
    proof.verify(leaf)
    with pytest.raises(VerificationError):
        proof.verify(leaf_of(size).hash())


@pytest.mark.parametrize("position", range(len(head_proof().encode())))
def test_a_head_proof_with_a_changed_byte_leads_nowhere(position: int) -> None:
    data = head_proof().encode()
    changed = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
    if 24 + 20 <= position < 56 + 20 or 116 <= position < 124:
        assert HeadProof.parse(changed) != head_proof()  # of another tenant, which the path does not say
        return
    with pytest.raises(VerificationError):
        HeadProof.parse(changed).verify(leaf_of(1).hash())


@pytest.mark.parametrize("cut", [0, 19, 20, 135, 136, 199])
def test_a_head_proof_that_is_cut_off_is_malformed(cut: int) -> None:
    with pytest.raises(Malformed):
        HeadProof.parse(head_proof().encode()[:cut])


@pytest.mark.parametrize(
    "make",
    [
        lambda: HeadProof(HEAD, -1, 0, ()),
        lambda: HeadProof(HEAD, 2**63, 0, ()),
        lambda: HeadProof(HEAD, 0, HEAD.size, ()),
        lambda: HeadProof(HEAD, 0, -1, ()),
        lambda: HeadProof(HEAD, 0, 0, (bytes(31),)),
        lambda: HeadProof(HEAD, 0, 0, (bytes(32),) * 64),
    ],
)
def test_what_no_head_proof_can_say_is_not_made(make: Callable[[], HeadProof]) -> None:
    with pytest.raises(Malformed):
        make()
