"""Anchor batches: the heads of many open runs under one leaf, and the path from a run's own entry to that leaf.

The entries of a batch are anchors (type 2), one per run, sorted by their 90 bytes. The batch's leaf (type 3) holds the
RFC 6962 root over them in its run tag, the highest arrival that they cover in its seq, and 32 zero bytes for a head.
That a run is in the log is then shown by two paths: from its entry to the root that the leaf holds, and from the leaf
to the root of the log. The first one, `InnerProof`, stands in the `extra` line of a `.tlog-proof`:

    offset  bytes  what
         0     20  "sealbook/batch/v1" and three zero bytes
        20     90  the batch's leaf entry
       110      4  index of the run's entry, big-endian
       114      4  how many entries the batch has, big-endian
       118  32 × n  the path, sibling of the entry first
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sealbook.merkle import tree
from sealbook.merkle.entry import HEAD_BYTES, LEAF_ENTRY_BYTES, LeafEntry, LeafType
from sealbook.merkle.errors import Malformed, VerificationError, shown
from sealbook.merkle.hashing import HASH_BYTES
from sealbook.merkle.tree import Node
from sealbook.merkle.verify import verify_inclusion

BATCH_SIZE_MAX = 2**32 - 1  # u32
INNER_PREFIX = b"sealbook/batch/v1\0\0\0"
INNER_HASHES_MAX = 32  # levels of a tree of BATCH_SIZE_MAX leaves

_LAYOUT = struct.Struct(f">{len(INNER_PREFIX)}s{LEAF_ENTRY_BYTES}sII")
assert BATCH_SIZE_MAX.bit_length() == INNER_HASHES_MAX


@dataclass(frozen=True, slots=True)
class InnerProof:
    """The path from a run's entry to the batch that holds it. Only one that has its bytes can be made."""

    leaf: LeafEntry
    index: int
    size: int
    proof: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if self.leaf.type is not LeafType.ANCHOR_BATCH:
            raise Malformed(f"inner proof: the leaf is an anchor batch, not of type {self.leaf.type.value}")
        if not 0 <= self.index < self.size <= BATCH_SIZE_MAX:
            raise Malformed(f"inner proof: no batch has entry {shown(self.index)} of {shown(self.size)}")
        if len(self.proof) > INNER_HASHES_MAX or any(len(value) != HASH_BYTES for value in self.proof):
            raise Malformed(f"inner proof: at most {INNER_HASHES_MAX} hashes of {HASH_BYTES} bytes")

    def encode(self) -> bytes:
        """The bytes of the `extra` line, before base64."""
        return _LAYOUT.pack(INNER_PREFIX, self.leaf.encode(), self.index, self.size) + b"".join(self.proof)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The proof that `data` encodes. Raises `Malformed` for anything that `encode` does not write."""
        if len(data) < _LAYOUT.size or (len(data) - _LAYOUT.size) % HASH_BYTES:
            raise Malformed(f"inner proof: no such proof has {len(data)} bytes")
        prefix, leaf, index, size = _LAYOUT.unpack_from(data)
        if prefix != INNER_PREFIX:
            raise Malformed(f"inner proof: begins with {prefix!r}, not with {INNER_PREFIX!r}")
        hashes = tuple(data[start : start + HASH_BYTES] for start in range(_LAYOUT.size, len(data), HASH_BYTES))
        return cls(LeafEntry.decode(leaf), index, size, hashes)

    def verify(self, entry: LeafEntry) -> None:
        """The batch's leaf covers this entry, which the caller has made of the records. That the leaf stands in the
        log, `verify_inclusion` of the leaf says. Raises `VerificationError`."""
        if entry.type is not LeafType.ANCHOR:
            raise VerificationError(f"a batch holds anchors, not {entry.type.name}: it seals nothing")
        verify_inclusion(leaf=entry.hash(), index=self.index, size=self.size, proof=self.proof, root=self.leaf.run_tag)


def sorted_entries(entries: Sequence[LeafEntry]) -> list[LeafEntry]:
    """The entries in the order in which a batch has them."""
    return sorted(entries, key=LeafEntry.encode)


def batch_leaf(entries: Sequence[LeafEntry], *, covered: int) -> LeafEntry:
    """The leaf of the batch with these entries, whose records' highest arrival is `covered`. Raises `Malformed` when
    they are not the sorted anchors of as many runs."""
    if not 1 <= len(entries) <= BATCH_SIZE_MAX:
        raise Malformed(f"anchor batch: has 1 to {BATCH_SIZE_MAX} entries, not {len(entries)}")
    for number, entry in enumerate(entries):
        if entry.type is not LeafType.ANCHOR:
            raise Malformed(f"anchor batch: entry {number} is of type {entry.type.name}")
        if number and entry.run_tag <= entries[number - 1].run_tag:
            raise Malformed(f"anchor batch: entry {number} is not above the one before it")
    root = tree.root(len(entries), _reader(entries))
    return LeafEntry(LeafType.ANCHOR_BATCH, root, covered, bytes(HEAD_BYTES))


def inner_proof(leaf: LeafEntry, entries: Sequence[LeafEntry], index: int) -> InnerProof:
    """The path from entry `index` of the batch to its leaf."""
    proof = tree.inclusion_proof(index=index, size=len(entries), read=_reader(entries))
    return InnerProof(leaf, index, len(entries), tuple(proof))


def _reader(entries: Sequence[LeafEntry]) -> tree.Reader:
    """The nodes of the batch's own tree, which is stored nowhere."""
    nodes: dict[Node, bytes] = dict(tree.added(0, [entry.hash() for entry in entries], lambda wanted: []))
    return lambda wanted: [nodes[node] for node in wanted]
