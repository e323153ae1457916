"""Leaf entries: the 90 bytes that say what a leaf of a tenant's log attests.

    offset  bytes  what
         0     17  "sealbook/leaf/v1" and a zero byte
        17      1  type
        18     32  run tag
        50      8  seq, big-endian, 1 or more
        58     32  head

    type               run tag                     seq                           head
    1 seal             names the run, not by name  the run's last record         that record's chain hash
    2 anchor           likewise                    the run's record at the time  that record's chain hash
    3 anchor batch     root over anchors           highest arrival covered       32 zero bytes
    4 adopted log      SHA-256 of the old origin   size of the old log           root of the old log

What the entries of a whole log are held to, `monitor` says; what stands under an anchor batch, `anchor_batch`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from typing import Self

from sealbook.merkle.errors import Malformed, shown
from sealbook.merkle.hashing import LeafHash, leaf_hash

LEAF_PREFIX = b"sealbook/leaf/v1\0"
LEAF_ENTRY_BYTES = 90
RUN_TAG_BYTES = 32
HEAD_BYTES = 32
SEQ_MAX = 2**64 - 1  # u64

_LAYOUT = struct.Struct(f">{len(LEAF_PREFIX)}sB{RUN_TAG_BYTES}sQ{HEAD_BYTES}s")
assert _LAYOUT.size == LEAF_ENTRY_BYTES


class LeafType(IntEnum):
    """What a leaf attests."""

    SEAL = 1  # a run's last record: the run has concluded and is frozen
    ANCHOR = 2  # a run's head at some moment: the run was still open
    ANCHOR_BATCH = 3  # the heads of many open runs at some moment
    ADOPTED_LOG = 4  # the last known checkpoint of the log that this one goes on from


OF_ONE_RUN = frozenset({LeafType.SEAL, LeafType.ANCHOR})


@dataclass(frozen=True, slots=True)
class LeafEntry:
    """One leaf of a tenant's log. Only an entry that has its 90 bytes can be made; any other is `Malformed`."""

    type: LeafType
    run_tag: bytes
    seq: int
    head: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.type, LeafType):
            raise Malformed(f"leaf entry: type is a LeafType, not {shown(self.type)}")
        if not isinstance(self.run_tag, bytes) or len(self.run_tag) != RUN_TAG_BYTES:
            raise Malformed(f"leaf entry: run tag is {RUN_TAG_BYTES} bytes, not {shown(self.run_tag)}")
        if not isinstance(self.seq, int) or isinstance(self.seq, bool) or not 1 <= self.seq <= SEQ_MAX:
            raise Malformed(f"leaf entry: seq is 1 to {SEQ_MAX}, not {shown(self.seq)}")
        if not isinstance(self.head, bytes) or len(self.head) != HEAD_BYTES:
            raise Malformed(f"leaf entry: head is {HEAD_BYTES} bytes, not {shown(self.head)}")
        if self.type is LeafType.ANCHOR_BATCH and any(self.head):
            raise Malformed(f"leaf entry: an anchor batch has no head, not {self.head.hex()}")

    def encode(self) -> bytes:
        """The 90 bytes of the leaf."""
        return _LAYOUT.pack(LEAF_PREFIX, self.type, self.run_tag, self.seq, self.head)

    def hash(self) -> LeafHash:
        """The leaf hash under which the entry stands in the tree."""
        return leaf_hash(self.encode())

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The entry that `data` encodes. Raises `Malformed` for anything that `encode` does not write."""
        if len(data) != LEAF_ENTRY_BYTES:
            raise Malformed(f"leaf entry: {LEAF_ENTRY_BYTES} bytes expected, not {len(data)}")
        prefix, number, run_tag, seq, head = _LAYOUT.unpack(data)
        if prefix != LEAF_PREFIX:
            raise Malformed(f"leaf entry: begins with {prefix!r}, not with {LEAF_PREFIX!r}")
        try:
            leaf_type = LeafType(number)
        except ValueError:
            raise Malformed(f"leaf entry: type {number} is unknown") from None
        return cls(leaf_type, run_tag, seq, head)


def adopted_leaf(origin: str, size: int, root: bytes) -> LeafEntry:
    """The first leaf of a log that goes on from the last known checkpoint of another one."""
    return LeafEntry(LeafType.ADOPTED_LOG, sha256(origin.encode()).digest(), size, root)
