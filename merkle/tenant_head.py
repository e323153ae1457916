"""Leaves of a log of logs: what one tenant's log has come to, told to those who watch a single origin for all.

    offset  bytes  what
         0     24  "sealbook/tenant-head/v1" and a zero byte
        24     32  tenant tag: names the tenant without telling its name
        56      8  size of the tenant's log, big-endian, 1 or more
        64     32  root of the tenant's log at that size

Sizes strictly rise per tag. That each root extends the one before it, the leaves do not show: whoever monitors the
log asks for proofs of consistency between successive leaves of a tag. A fork of one tenant then stands in public.

That a run is in the log of logs is shown by two paths: from the run's leaf to the root that a head states, and from the
head to the root of the log of logs. The first one, `HeadProof`, stands in the `extra` line of a `.tlog-proof`:

    offset  bytes  what
         0     20  "sealbook/head/v1" and four zero bytes
        20     96  the head
       116      8  which adoption gave the tenant's log its tag, big-endian: the number of its record, 0 for none
       124      8  index of the run's leaf in the tenant's log, big-endian
       132      4  how many hashes the path has, big-endian
       136  32 × n  the path, sibling of the run's leaf first
                   to the end, where that leaf is an anchor batch: the path from the run's entry to it (`anchor_batch`)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

from sealbook.merkle.anchor_batch import InnerProof
from sealbook.merkle.errors import Malformed, shown
from sealbook.merkle.hashing import HASH_BYTES, PROOF_HASHES_MAX, SIZE_MAX, LeafHash, leaf_hash
from sealbook.merkle.verify import verify_inclusion

HEAD_PREFIX = b"sealbook/tenant-head/v1\0"
TENANT_TAG_BYTES = 32
TENANT_HEAD_BYTES = 96

_LAYOUT = struct.Struct(f">{len(HEAD_PREFIX)}s{TENANT_TAG_BYTES}sQ{HASH_BYTES}s")
assert _LAYOUT.size == TENANT_HEAD_BYTES

HEAD_PROOF_PREFIX = b"sealbook/head/v1\0\0\0\0"
ADOPTION_MAX = 2**63 - 1

_PROOF = struct.Struct(f">{len(HEAD_PROOF_PREFIX)}s{TENANT_HEAD_BYTES}sQQI")


@dataclass(frozen=True, slots=True)
class TenantHead:
    """One leaf of a log of logs. Only one that has its 96 bytes can be made; any other is `Malformed`."""

    tag: bytes
    size: int
    root: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.tag, bytes) or len(self.tag) != TENANT_TAG_BYTES:
            raise Malformed(f"tenant head: tag is {TENANT_TAG_BYTES} bytes, not {shown(self.tag)}")
        if not isinstance(self.size, int) or isinstance(self.size, bool) or not 1 <= self.size <= SIZE_MAX:
            raise Malformed(f"tenant head: size is 1 to {SIZE_MAX}, not {shown(self.size)}")
        if not isinstance(self.root, bytes) or len(self.root) != HASH_BYTES:
            raise Malformed(f"tenant head: root is {HASH_BYTES} bytes, not {shown(self.root)}")

    def encode(self) -> bytes:
        """The 96 bytes of the leaf."""
        return _LAYOUT.pack(HEAD_PREFIX, self.tag, self.size, self.root)

    def hash(self) -> LeafHash:
        """The leaf hash under which the head stands in the tree."""
        return leaf_hash(self.encode())

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The head that `data` encodes. Raises `Malformed` for anything that `encode` does not write."""
        if len(data) != TENANT_HEAD_BYTES:
            raise Malformed(f"tenant head: {TENANT_HEAD_BYTES} bytes expected, not {len(data)}")
        prefix, tag, size, root = _LAYOUT.unpack(data)
        if prefix != HEAD_PREFIX:
            raise Malformed(f"tenant head: begins with {prefix!r}, not with {HEAD_PREFIX!r}")
        return cls(tag, size, root)


@dataclass(frozen=True, slots=True)
class HeadProof:
    """The path from a run's leaf to the head of its tenant's log. Only one that has its bytes can be made.

    `batch` leads from the run's entry to the leaf, where that is an anchor batch.
    """

    head: TenantHead
    adoption: int
    index: int
    proof: tuple[bytes, ...]
    batch: InnerProof | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.adoption <= ADOPTION_MAX:
            raise Malformed(f"head proof: no adoption has number {shown(self.adoption)}")
        if not 0 <= self.index < self.head.size:
            raise Malformed(f"head proof: no log of {self.head.size} leaves has leaf {shown(self.index)}")
        if len(self.proof) > PROOF_HASHES_MAX or any(len(value) != HASH_BYTES for value in self.proof):
            raise Malformed(f"head proof: at most {PROOF_HASHES_MAX} hashes of {HASH_BYTES} bytes")

    def encode(self) -> bytes:
        """The bytes of the `extra` line, before base64."""
        fixed = _PROOF.pack(HEAD_PROOF_PREFIX, self.head.encode(), self.adoption, self.index, len(self.proof))
        return fixed + b"".join(self.proof) + (b"" if self.batch is None else self.batch.encode())

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The proof that `data` encodes. Raises `Malformed` for anything that `encode` does not write."""
        if len(data) < _PROOF.size:
            raise Malformed(f"head proof: no such proof has {len(data)} bytes")
        prefix, head, adoption, index, count = _PROOF.unpack_from(data)
        if prefix != HEAD_PROOF_PREFIX:
            raise Malformed(f"head proof: begins with {prefix!r}, not with {HEAD_PROOF_PREFIX!r}")
        end = _PROOF.size + count * HASH_BYTES
        if count > PROOF_HASHES_MAX or end > len(data):
            raise Malformed(f"head proof: {count} hashes do not stand in {len(data)} bytes")
        hashes = tuple(data[start : start + HASH_BYTES] for start in range(_PROOF.size, end, HASH_BYTES))
        batch = InnerProof.parse(data[end:]) if end < len(data) else None
        return cls(TenantHead.decode(head), adoption, index, hashes, batch)

    def verify(self, leaf: LeafHash) -> None:
        """The log that the head is of had this leaf, which the caller has made of the records. That the head stands in
        the log of logs, `verify_inclusion` of the head says. Raises `VerificationError`."""
        verify_inclusion(leaf=leaf, index=self.index, size=self.head.size, proof=self.proof, root=self.head.root)
