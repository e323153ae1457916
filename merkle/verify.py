"""Verify that a leaf is in a tree, and that one tree is a longer version of another: the file an auditor reads.

Both verifiers are the algorithms of RFC 9162, sections 2.1.3.2 and 2.1.4.2, with its sentences beside the lines. They
return nothing when the claim holds and raise `VerificationError`, which says what failed, when it does not. Beyond
the RFC they refuse hashes that are not exactly 32 bytes, numbers beyond 2**63 - 1, and proofs of more than 63 hashes.

What they do not show: that the leaf hash is that of the records in hand (hash the leaf entry built from the records),
and that the root is the log's (take it from a checkpoint whose signature holds).
"""

from __future__ import annotations

from collections.abc import Sequence

from sealbook.merkle.errors import VerificationError, shown
from sealbook.merkle.hashing import HASH_BYTES, PROOF_HASHES_MAX, SIZE_MAX, LeafHash, node_hash


def verify_inclusion(*, leaf: LeafHash, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Leaf number `index` of the tree of `size` leaves with this root is `leaf`."""
    if not isinstance(leaf, LeafHash):
        raise TypeError(f"leaf is a LeafHash, not {type(leaf).__name__}: hash the leaf entry with leaf_hash")
    _check_number("index", index)
    _check_number("size", size)
    _check_proof(proof)
    _check_hash("root", root)

    # "Compare leaf_index from the inclusion_proof_v2 structure against tree_size. If leaf_index is greater than or
    # equal to tree_size, then fail the proof verification."
    if index >= size:
        raise VerificationError(f"index {index} is not in a tree of {size} leaves")
    # "Set fn to leaf_index and sn to tree_size - 1." "Set r to hash."
    fn, sn = index, size - 1
    r: bytes = leaf
    # "For each value p in the inclusion_path array:"
    for p in proof:
        # "If sn is 0, then stop the iteration and fail the proof verification."
        if sn == 0:
            raise VerificationError(f"the proof has {len(proof)} hashes, too many for leaf {index} of {size}")
        # "If LSB(fn) is set, or if fn is equal to sn, then:"
        if fn & 1 or fn == sn:
            # "Set r to HASH(0x01 || p || r)."
            r = node_hash(p, r)
            # "If LSB(fn) is not set, then right-shift both fn and sn equally until either LSB(fn) is set or fn is 0."
            while not fn & 1 and fn != 0:
                fn, sn = fn >> 1, sn >> 1
        else:
            # "Otherwise: Set r to HASH(0x01 || r || p)."
            r = node_hash(r, p)
        # "Finally, right-shift both fn and sn one time."
        fn, sn = fn >> 1, sn >> 1
    # "Compare sn to 0. Compare r against the root_hash. If sn is equal to 0 and r and the root_hash are equal, then the
    # log has proven the inclusion of hash. Otherwise, fail the proof verification."
    if sn != 0:
        raise VerificationError(f"the proof has {len(proof)} hashes, too few for leaf {index} of {size}")
    if r != root:
        raise VerificationError(f"leaf {index} of {size} leads to root {r.hex()}, not to {root.hex()}")


def verify_consistency(
    *, old_size: int, new_size: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]
) -> None:
    """The first `old_size` leaves of the tree with `new_root` are all leaves of the tree with `old_root`.

    Old size 0 is refused: every tree begins with the empty one, so nothing would be shown. Whoever starts from
    nothing, as a witness at first contact does, decides that case before asking."""
    _check_number("old size", old_size)
    _check_number("new size", new_size)
    _check_hash("old root", old_root)
    _check_hash("new root", new_root)
    _check_proof(proof)

    # The algorithm is for 0 < first < second; the edges are decided here.
    if old_size > new_size:
        raise VerificationError(f"old size {old_size} exceeds new size {new_size}: a log never shrinks")
    if old_size == 0:
        raise VerificationError("old size is 0: consistency with the empty tree shows nothing")
    if old_size == new_size:
        if proof:
            raise VerificationError(f"the sizes are equal ({old_size}), the proof must be empty")
        if old_root != new_root:
            raise VerificationError(f"two roots at size {old_size}: {old_root.hex()} and {new_root.hex()}")
        return

    # "If consistency_path is an empty array, stop and fail the proof verification."
    if not proof:
        raise VerificationError(f"the proof from size {old_size} to {new_size} is empty")
    # "If first is an exact power of 2, then prepend first_hash to the consistency_path array."
    path = [old_root, *proof] if old_size & (old_size - 1) == 0 else list(proof)
    # "Set fn to first - 1 and sn to second - 1."
    fn, sn = old_size - 1, new_size - 1
    # "If LSB(fn) is set, then right-shift both fn and sn equally until LSB(fn) is not set."
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    # "Set both fr and sr to the first value in the consistency_path array."
    fr = sr = path[0]
    # "For each subsequent value c in the consistency_path array:"
    for c in path[1:]:
        # "If sn is 0, then stop the iteration and fail the proof verification."
        if sn == 0:
            raise VerificationError(f"the proof has {len(proof)} hashes, too many from {old_size} to {new_size}")
        # "If LSB(fn) is set, or if fn is equal to sn, then:"
        if fn & 1 or fn == sn:
            # "Set fr to HASH(0x01 || c || fr)." "Set sr to HASH(0x01 || c || sr)."
            fr = node_hash(c, fr)
            sr = node_hash(c, sr)
            # "If LSB(fn) is not set, then right-shift both fn and sn equally until either LSB(fn) is set or fn is 0."
            while not fn & 1 and fn != 0:
                fn, sn = fn >> 1, sn >> 1
        else:
            # "Otherwise: Set sr to HASH(0x01 || sr || c)."
            sr = node_hash(sr, c)
        # "Finally, right-shift both fn and sn one time."
        fn, sn = fn >> 1, sn >> 1
    # "… verify that the fr calculated is equal to the first_hash supplied, that the sr calculated is equal to the
    # second_hash supplied, and that sn is 0."
    if sn != 0:
        raise VerificationError(f"the proof has {len(proof)} hashes, too few from {old_size} to {new_size}")
    if fr != old_root:
        raise VerificationError(f"the proof leads to old root {fr.hex()}, not to {old_root.hex()}")
    if sr != new_root:
        raise VerificationError(f"the proof leads to new root {sr.hex()}, not to {new_root.hex()}")


def _check_number(what: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= SIZE_MAX:
        raise VerificationError(f"{what} is 0 to {SIZE_MAX}, not {shown(value)}")


def _check_proof(proof: Sequence[bytes]) -> None:
    if len(proof) > PROOF_HASHES_MAX:
        raise VerificationError(f"the proof has {len(proof)} hashes, the limit is {PROOF_HASHES_MAX}")
    for number, value in enumerate(proof):
        _check_hash(f"proof hash {number}", value)


def _check_hash(what: str, value: bytes) -> None:
    if not isinstance(value, bytes):
        raise TypeError(f"{what} is bytes, not {type(value).__name__}")
    if len(value) != HASH_BYTES:
        raise VerificationError(f"{what} has {len(value)} bytes, not {HASH_BYTES}")
