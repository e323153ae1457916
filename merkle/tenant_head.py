"""Leaves of a log of logs: what one tenant's log has come to, told to those who watch a single origin for all.

    offset  bytes  what
         0     24  "sealbook/tenant-head/v1" and a zero byte
        24     32  tenant tag: names the tenant without telling its name
        56      8  size of the tenant's log, big-endian, 1 or more
        64     32  root of the tenant's log at that size

Sizes strictly rise per tag. That each root extends the one before it, the leaves do not show: whoever monitors the
log asks for proofs of consistency between successive leaves of a tag. A fork of one tenant then stands in public.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

from sealbook.merkle.errors import Malformed, shown
from sealbook.merkle.hashing import HASH_BYTES, SIZE_MAX, LeafHash, leaf_hash

HEAD_PREFIX = b"sealbook/tenant-head/v1\0"
TENANT_TAG_BYTES = 32
TENANT_HEAD_BYTES = 96

_LAYOUT = struct.Struct(f">{len(HEAD_PREFIX)}s{TENANT_TAG_BYTES}sQ{HASH_BYTES}s")
assert _LAYOUT.size == TENANT_HEAD_BYTES


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
