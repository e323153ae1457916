"""The verifiers accept what holds and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.hashing import EMPTY_ROOT, SIZE_MAX, LeafHash, leaf_hash, node_hash
from sealbook.merkle.tree import Node, consistency_proof, inclusion_proof, root
from sealbook.merkle.verify import verify_consistency, verify_inclusion

SIZES = range(1, 34)
GARBAGE = hashlib.sha256(b"garbage").digest()


def refused(verify: Callable[..., None], claim: dict[str, Any], **changes: Any) -> None:
    """The claim with these changes is refused; the claim itself is one that holds."""
    with pytest.raises(VerificationError):
        verify(**(claim | changes))


def inclusions(grow: Any) -> Iterator[dict[str, Any]]:
    stored = grow(SIZES[-1])
    for size in SIZES:
        for index in range(size):
            yield {
                "leaf": LeafHash(stored.nodes[Node(0, index)]),
                "index": index,
                "size": size,
                "proof": inclusion_proof(index=index, size=size, read=stored.read),
                "root": root(size, stored.read),
            }


def consistencies(grow: Any) -> Iterator[dict[str, Any]]:
    stored = grow(SIZES[-1])
    for new_size in SIZES:
        for old_size in range(1, new_size + 1):
            yield {
                "old_size": old_size,
                "new_size": new_size,
                "old_root": root(old_size, stored.read),
                "new_root": root(new_size, stored.read),
                "proof": consistency_proof(old_size=old_size, new_size=new_size, read=stored.read),
            }


def changed_proofs(proof: list[bytes]) -> Iterator[list[bytes]]:
    """Proofs one longer, one shorter, with two siblings swapped, reversed, or with one bit flipped."""
    for at in range(len(proof) + 1):
        yield [*proof[:at], GARBAGE, *proof[at:]]
    for at in range(len(proof)):
        yield [*proof[:at], proof[at], *proof[at:]]
        yield [*proof[:at], *proof[at + 1 :]]
        for bit in (0, 100, 255):
            flipped = (int.from_bytes(proof[at]) ^ (1 << bit)).to_bytes(32)
            yield [*proof[:at], flipped, *proof[at + 1 :]]
    for at in range(len(proof) - 1):
        yield [*proof[:at], proof[at + 1], proof[at], *proof[at + 2 :]]
    if len(proof) > 1:
        yield proof[::-1]


def test_every_change_of_an_inclusion_claim_is_refused(grow: Any) -> None:
    """Field report PRF 79: surplus index bits, index = size, proofs one longer or shorter, swapped siblings."""
    for claim in inclusions(grow):
        verify_inclusion(**claim)
        index, size = claim["index"], claim["size"]
        for bit in (*range(8), 31, 32, 61, 62, 63, 64):
            refused(verify_inclusion, claim, index=index + 2**bit)
            if index & 1 << bit:
                refused(verify_inclusion, claim, index=index - 2**bit)
        for other in (size, size + 1, -1, -index - 1):
            refused(verify_inclusion, claim, index=other)
        for proof in changed_proofs(claim["proof"]):
            refused(verify_inclusion, claim, proof=proof)
        refused(verify_inclusion, claim, leaf=leaf_hash(b"another"))
        refused(verify_inclusion, claim, root=GARBAGE)
        refused(verify_inclusion, claim, root=EMPTY_ROOT)
        refused(verify_inclusion, claim, size=0)


def test_an_inner_node_is_no_leaf_of_a_smaller_tree(grow: Any) -> None:
    stored = grow(4)
    left, right = stored.nodes[Node(1, 0)], stored.nodes[Node(1, 1)]
    # The arithmetic alone cannot tell: that is why a leaf is a type of its own, made by hashing a leaf entry.
    verify_inclusion(leaf=LeafHash(left), index=0, size=2, proof=[right], root=root(4, stored.read))
    with pytest.raises(TypeError):
        verify_inclusion(leaf=left, index=0, size=2, proof=[right], root=root(4, stored.read))
    with pytest.raises(VerificationError):
        verify_inclusion(leaf=LeafHash(left), index=0, size=4, proof=[right], root=root(4, stored.read))


def test_every_change_of_a_consistency_claim_is_refused(grow: Any) -> None:
    for claim in consistencies(grow):
        verify_consistency(**claim)
        old_size, new_size = claim["old_size"], claim["new_size"]
        for proof in changed_proofs(claim["proof"]):
            refused(verify_consistency, claim, proof=proof)
        refused(verify_consistency, claim, old_root=GARBAGE)
        refused(verify_consistency, claim, new_root=GARBAGE)
        refused(verify_consistency, claim, old_size=0)
        refused(verify_consistency, claim, old_size=new_size + 1)
        refused(verify_consistency, claim, new_size=old_size - 1)
        if old_size < new_size:
            refused(verify_consistency, claim, proof=[])
            refused(verify_consistency, claim, old_size=new_size)
            refused(verify_consistency, claim, new_size=old_size)
            refused(verify_consistency, claim, old_root=claim["new_root"], new_root=claim["old_root"])


def test_another_old_size_with_the_same_proof_and_roots_is_refused(grow: Any) -> None:
    for claim in consistencies(grow):
        for other in range(1, claim["new_size"] + 1):
            if other != claim["old_size"]:
                refused(verify_consistency, claim, old_size=other)


@pytest.mark.parametrize(
    ("old_size", "new_size", "reason"),
    [
        (0, 0, "old size is 0"),
        (0, 5, "old size is 0"),
        (1, 0, "exceeds"),
        (6, 5, "exceeds"),
        (-1, 5, "old size is 0 to"),
        (5, 2**63, "new size is 0 to"),
        (5, 2**64, "new size is 0 to"),
        (2**64, 2**64, "old size is 0 to"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(old_size: int, new_size: int, reason: str) -> None:
    """Field report PRF 71 and decision D24: the strict verifier refuses old size 0, with any roots and proof."""
    for old_root in (EMPTY_ROOT, GARBAGE):
        for proof in ([], [GARBAGE]):
            with pytest.raises(VerificationError, match=reason):
                verify_consistency(
                    old_size=old_size, new_size=new_size, old_root=old_root, new_root=old_root, proof=proof
                )


def test_equal_sizes_need_equal_roots_and_no_proof() -> None:
    one, other = leaf_hash(b"one"), leaf_hash(b"other")
    for size in (1, 2, 7, SIZE_MAX):
        claim: dict[str, Any] = {
            "old_size": size, "new_size": size, "old_root": one, "new_root": one, "proof": []
        }  # fmt: skip
        verify_consistency(**claim)
        refused(verify_consistency, claim, new_root=other)
        refused(verify_consistency, claim, proof=[one])


INCLUSION: dict[str, Any] = {
    "leaf": leaf_hash(b"a"),
    "index": 0,
    "size": 2,
    "proof": [leaf_hash(b"b")],
    "root": node_hash(leaf_hash(b"a"), leaf_hash(b"b")),
}
CONSISTENCY: dict[str, Any] = {
    "old_size": 1,
    "new_size": 2,
    "old_root": INCLUSION["leaf"],
    "new_root": INCLUSION["root"],
    "proof": INCLUSION["proof"],
}


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_hashes_that_are_not_32_bytes_are_refused(length: int) -> None:
    value = bytes(length)
    refused(verify_inclusion, INCLUSION, proof=[value])
    refused(verify_inclusion, INCLUSION, root=value)
    refused(verify_consistency, CONSISTENCY, proof=[value])
    refused(verify_consistency, CONSISTENCY, old_root=value)
    refused(verify_consistency, CONSISTENCY, new_root=value)


def test_a_hash_cannot_be_split_between_its_neighbours() -> None:
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    whole = hashlib.sha256(b"\x01" + left + right).digest()
    with pytest.raises(VerificationError, match="64 bytes, not 32"):
        verify_inclusion(leaf=leaf_hash(b"a"), index=1, size=2, proof=[left + right], root=whole)


@pytest.mark.parametrize(
    "number", [-1, 2**63, 2**64 - 1, 10**5000, True, False, 0.0, "0", None], ids=lambda value: type(value).__name__
)
def test_numbers_that_are_no_size_are_refused(number: Any) -> None:
    refused(verify_inclusion, INCLUSION, index=number)
    refused(verify_inclusion, INCLUSION, size=number)
    refused(verify_consistency, CONSISTENCY, old_size=number)
    refused(verify_consistency, CONSISTENCY, new_size=number)


@pytest.mark.parametrize("value", ["a" * 32, bytearray(32), None, 32])
def test_hashes_that_are_not_bytes_are_a_mistake_of_the_caller(value: Any) -> None:
    for changes in ({"leaf": value}, {"root": value}, {"proof": [value]}):
        with pytest.raises(TypeError):
            verify_inclusion(**(INCLUSION | changes))
    for changes in ({"old_root": value}, {"new_root": value}, {"proof": [value]}):
        with pytest.raises(TypeError):
            verify_consistency(**(CONSISTENCY | changes))


def test_a_digest_without_the_leaf_prefix_is_no_leaf() -> None:
    with pytest.raises(TypeError, match="LeafHash"):
        verify_inclusion(**(INCLUSION | {"leaf": bytes(INCLUSION["leaf"])}))


def test_a_proof_of_more_than_63_hashes_is_refused() -> None:
    for count in (64, 1_000):
        with pytest.raises(VerificationError, match="the limit is 63"):
            verify_inclusion(**(INCLUSION | {"proof": [GARBAGE] * count}))
        with pytest.raises(VerificationError, match="the limit is 63"):
            verify_consistency(**(CONSISTENCY | {"proof": [GARBAGE] * count}))


def right_edge(size: int, leaf: LeafHash) -> tuple[list[bytes], bytes]:
    """A made-up proof for the last leaf of a tree of `size` leaves, and the root that it leads to."""
    proof = [hashlib.sha256(bytes([level])).digest() for level in range((size - 1).bit_count())]
    value: bytes = leaf
    for sibling in proof:
        value = node_hash(sibling, value)
    return proof, value


@pytest.mark.parametrize("size", [2**32, 2**62, 2**62 + 1, SIZE_MAX])
def test_the_last_leaf_of_a_huge_tree_is_verified(size: int) -> None:
    leaf = leaf_hash(b"last")
    proof, top = right_edge(size, leaf)
    claim: dict[str, Any] = {"leaf": leaf, "index": size - 1, "size": size, "proof": proof, "root": top}
    verify_inclusion(**claim)
    refused(verify_inclusion, claim, index=size - 2)
    refused(verify_inclusion, claim, size=size - 1)
    refused(verify_inclusion, claim, proof=proof[:-1])
    refused(verify_inclusion, claim, root=GARBAGE)


def test_an_error_says_what_failed() -> None:
    with pytest.raises(VerificationError, match="too few for leaf 0 of 2"):
        verify_inclusion(**(INCLUSION | {"proof": []}))
    with pytest.raises(VerificationError, match="too many for leaf 0 of 2"):
        verify_inclusion(**(INCLUSION | {"proof": [*INCLUSION["proof"], GARBAGE]}))
    with pytest.raises(VerificationError, match=f"leads to root {INCLUSION['root'].hex()}, not to {GARBAGE.hex()}"):
        verify_inclusion(**(INCLUSION | {"root": GARBAGE}))
    with pytest.raises(VerificationError, match=f"two roots at size 2: {GARBAGE.hex()}"):
        verify_consistency(**(CONSISTENCY | {"old_size": 2, "old_root": GARBAGE, "proof": []}))


def test_a_verification_error_stands_alone() -> None:
    assert VerificationError.__bases__ == (Exception,)
    assert issubclass(Malformed, VerificationError)
