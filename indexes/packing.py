"""Order-preserving key parts: what sorts as bytes in the order that it has as a value."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache

_U64 = struct.Struct(">Q")
I64_MAX = 2**63 - 1
I64_MIN = -(2**63)


@lru_cache(maxsize=4096)
def text(value: str) -> bytes:
    """A name as a key part, ended by 00. Names hold no NUL, so no name is a prefix of another one's part.

    Cached: an append needs the same few names many times.
    """
    return value.encode() + b"\0"


u64: Callable[[int], bytes] = _U64.pack
"""An unsigned 64-bit number, big-endian."""


def i64(value: int) -> bytes:
    """A signed 64-bit number, big-endian with the sign bit flipped, so that negative ones sort first."""
    return _U64.pack(value + 2**63)


def read_u64(key: bytes, offset: int) -> int:
    """The unsigned number that stands at `offset`."""
    number: int = _U64.unpack_from(key, offset)[0]
    return number


def read_i64(key: bytes, offset: int) -> int:
    """The signed number that stands at `offset`."""
    return read_u64(key, offset) - 2**63


def after_prefix(prefix: bytes) -> bytes | None:
    """The least key above every key that begins with `prefix`; None when there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
