"""A record's row as it is stored: arrival, previous hash, hash, signature, body."""

from __future__ import annotations

import struct
from typing import NamedTuple

from sealbook.journal.errors import Corrupt
from sealbook.journal.records.signatures import SIGNATURE_BYTES

_FIXED = struct.Struct("<Q32s32sB")
_LENGTH = struct.Struct("<I")
_UNSIGNED = struct.Struct("<Q32s32sBI")  # all that stands before the body of an unsigned record


class Row(NamedTuple):
    """A stored row of table `journal`, taken apart and not yet believed."""

    arrival: int
    prev: bytes
    hash: bytes
    signature: bytes | None
    body: bytes


def encode_row(row: Row) -> bytes:
    """The bytes of a stored row."""
    fixed = _FIXED.pack(row.arrival, row.prev, row.hash, row.signature is not None)
    if row.signature is not None:
        fixed += _LENGTH.pack(len(row.signature)) + row.signature
    return fixed + _LENGTH.pack(len(row.body)) + row.body


def decode_row(value: bytes, run: str | None, seq: int | None) -> Row:
    """A stored row taken apart; `Corrupt` naming the part that is damaged."""
    if len(value) >= _UNSIGNED.size:
        arrival, prev, record_hash, flag, length = _UNSIGNED.unpack_from(value)
        if flag == 0 and length == len(value) - _UNSIGNED.size:
            return Row(arrival, prev, record_hash, None, value[_UNSIGNED.size :])  # as with most records
    if len(value) < _FIXED.size:
        raise Corrupt("the row is cut off in its header", run, seq)
    arrival, prev, record_hash, flag = _FIXED.unpack_from(value)
    if flag not in (0, 1):
        raise Corrupt(f"the row's flag is {flag}, neither unsigned (0) nor signed (1)", run, seq)
    offset, signature = _FIXED.size, None
    if flag == 1:
        signature, offset = _field(value, offset, "signature", run, seq)
        if len(signature) != SIGNATURE_BYTES:
            raise Corrupt(f"the signature is {len(signature)} bytes", run, seq)
    body, offset = _field(value, offset, "body", run, seq)
    if offset != len(value):
        raise Corrupt(f"{len(value) - offset} bytes follow the body", run, seq)
    return Row(arrival, prev, record_hash, signature, body)


def _field(value: bytes, offset: int, what: str, run: str | None, seq: int | None) -> tuple[bytes, int]:
    if len(value) < offset + _LENGTH.size:
        raise Corrupt(f"the row is cut off before its {what}", run, seq)
    end = offset + _LENGTH.size + _LENGTH.unpack_from(value, offset)[0]
    if len(value) < end:
        raise Corrupt(f"the row is cut off in its {what}", run, seq)
    return value[offset + _LENGTH.size : end], end
