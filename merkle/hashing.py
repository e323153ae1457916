"""The hashes of an RFC 6962 tree, and the limits that every tree and proof keeps.

    leaf(data)         = SHA-256(0x00 || data)
    node(left, right)  = SHA-256(0x01 || left || right)
    root of no leaves  = SHA-256("")

The first byte keeps leaves and nodes apart: without it the two children of a node, read as one leaf, would have that
node's hash. SHA-256 and nothing else, because witnesses accept nothing else.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Self

HASH_BYTES = 32  # SHA-256
SIZE_MAX = 2**63 - 1  # leaves; C2SP implementations keep sizes in signed 64-bit integers
PROOF_HASHES_MAX = 63  # tlog-witness carries at most 63 proof lines

# A consistency proof has at most one hash more than the tree has levels above its leaves,
# so the limit binds no tree of up to 2**62 leaves.
assert SIZE_MAX.bit_length() == PROOF_HASHES_MAX


class LeafHash(bytes):
    """The hash of a leaf: 32 bytes, of a type of its own.

    Trees and verifiers take leaves as `LeafHash` only, so a plain digest, which lacks the leaf prefix, cannot become
    a leaf by mistake. Wrap bytes only where they are known to be a leaf hash, as when a stored tree node is read.
    """

    __slots__ = ()

    def __new__(cls, digest: bytes) -> Self:
        if not isinstance(digest, bytes):
            raise TypeError(f"a leaf hash is made of bytes, not of {type(digest).__name__}")
        if len(digest) != HASH_BYTES:
            raise ValueError(f"a leaf hash has {HASH_BYTES} bytes, not {len(digest)}")
        return super().__new__(cls, digest)


def leaf_hash(data: bytes) -> LeafHash:
    """The hash of the leaf that holds `data`."""
    return LeafHash(sha256(b"\x00" + data).digest())


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of the node over two subtrees, given their 32-byte hashes."""
    # Other lengths would let two different pairs of children share one hash.
    if len(left) != HASH_BYTES or len(right) != HASH_BYTES:
        raise ValueError(f"a node has children of {HASH_BYTES} bytes, not of {len(left)} and {len(right)}")
    return sha256(b"\x01" + left + right).digest()


EMPTY_ROOT: bytes = sha256(b"").digest()
