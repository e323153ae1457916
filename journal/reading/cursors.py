"""Where a listing goes on: an opaque text that only the listing which issued it takes back.

A cursor is base64url of a position and a 16-byte tag: BLAKE3, keyed with the store's secret, over the tenant, the
listing with its arguments, and the position. So it is refused by another tenant, another listing and another store,
and a position is never trusted that the store did not issue.
"""

from __future__ import annotations

import base64
import binascii

from blake3 import blake3

from sealbook.journal.errors import InvalidCursor
from sealbook.journal.records.entries import length_prefixed

_TAG_BYTES = 16
_CURSOR_CHARACTERS_MAX = 2048


def encode(secret: bytes, tenant: str, listing: tuple[str, ...], position: bytes) -> str:
    """The cursor for what comes after `position`."""
    return _text(position + _tag(secret, tenant, listing, position))


def decode(secret: bytes, tenant: str, listing: tuple[str, ...], cursor: object) -> bytes:
    """The position that a cursor holds; `InvalidCursor` when this listing of this tenant did not issue it."""
    if not isinstance(cursor, str) or len(cursor) > _CURSOR_CHARACTERS_MAX:
        raise InvalidCursor("it is malformed")
    try:
        content = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        raise InvalidCursor("it is malformed") from None
    position, tag = content[:-_TAG_BYTES], content[-_TAG_BYTES:]
    if _text(content) != cursor:
        raise InvalidCursor("it is malformed")  # another spelling of the same bytes
    if len(content) < _TAG_BYTES or tag != _tag(secret, tenant, listing, position):
        raise InvalidCursor("another tenant, store or listing issued it, or it is malformed")
    return position


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _tag(secret: bytes, tenant: str, listing: tuple[str, ...], position: bytes) -> bytes:
    parts = [tenant.encode(), *(part.encode() for part in listing), position]
    return blake3(length_prefixed(*parts), key=secret).digest(_TAG_BYTES)
