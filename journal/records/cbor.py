"""What a record's data may hold, and its one encoding: deterministic CBOR (RFC 8949 section 4.2.1).

Values are null, booleans, integers from -2**63 to 2**64 - 1, finite floats, text, bytes, arrays, and maps with text
keys; at most 64 levels deep. Aware datetimes become RFC 3339 text. Everything else is refused before any lock is
taken, so that one value has one spelling and a reader gets back what was written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import cbor2

from sealbook.journal.errors import InvalidEntry, shown
from sealbook.journal.records import instants
from sealbook.journal.records.names import plain_text

DEPTH_MAX = 64  # of containers, the data map counted
INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**64 - 1
_TEXT = frozenset({str})
_PLAIN = frozenset({str, bytes, bool, type(None)})  # kept as they are, whatever their value


def encode_map(value: Mapping[str, Any], where: str) -> tuple[bytes, dict[str, Any]]:
    """The deterministic CBOR of a map, and the plain copy of it that a reader will get back.

    `InvalidEntry` names the member that cannot be encoded.
    """
    canonical = _Canonical()
    plain = canonical.map(value, where, 1)
    try:
        # Keys are in canonical order already, so only floats need cbor2's (slower) canonical mode.
        return cbor2.dumps(plain, canonical=canonical.has_floats), plain
    except UnicodeEncodeError:
        raise InvalidEntry(where, "holds text with a lone surrogate, which UTF-8 cannot carry") from None


def decode(data: bytes) -> Any:
    """The value that CBOR bytes encode; ValueError when they do not begin with one whole, definite CBOR item.

    What else is not canonical, bytes after the item included, is found by encoding the value again and comparing.
    """
    try:
        return cbor2.loads(data, max_depth=DEPTH_MAX + 4, allow_indefinite=False, allow_duplicate_keys=False)
    except (cbor2.CBORDecodeError, UnicodeDecodeError, EOFError, OverflowError, TypeError) as error:
        raise ValueError(str(error)) from error


def key_order(key: str) -> tuple[int, bytes]:
    """RFC 8949 section 4.2.1: keys sort in the bytewise order of their encodings, hence by length first."""
    encoded = key.encode()
    return len(encoded), encoded


class _Canonical:
    """One walk over a value: checks it, copies it, and brings every map into canonical key order."""

    def __init__(self) -> None:
        self.has_floats = False

    def map(self, value: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
        if depth > DEPTH_MAX:
            raise InvalidEntry(where[:200], f"is nested deeper than {DEPTH_MAX} levels")
        keys = list(value)
        if not _TEXT.issuperset(map(type, keys)):
            value = _with_plain_keys(value, where)
            keys = list(value)
        if "".join(keys).isascii():  # then bytes are characters, and two plain sorts do what `key_order` says
            keys.sort()
            keys.sort(key=len)
        else:
            try:
                keys.sort(key=key_order)
            except UnicodeEncodeError:
                raise InvalidEntry(where, "has a key with a lone surrogate, which UTF-8 cannot carry") from None
        plain: dict[str, Any] = {}
        for key in keys:
            item = value[key]
            kind = type(item)
            if kind is dict:
                item = self.map(item, f"{where}.{key}", depth + 1)
            elif kind not in _PLAIN and (kind is not int or not INTEGER_MIN <= item <= INTEGER_MAX):
                item = self.item(item, f"{where}.{key}", depth)
            plain[key] = item
        return plain

    def item(self, value: Any, where: str, depth: int) -> Any:
        if value is None or isinstance(value, bool | bytes):
            return value
        if isinstance(value, str):
            return plain_text(value)
        if isinstance(value, int):
            if not INTEGER_MIN <= value <= INTEGER_MAX:
                raise InvalidEntry(where, "is an integer outside -2**63 to 2**64 - 1: send it as text")
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidEntry(where, f"is {value}: only finite numbers are kept")
            self.has_floats = True
            return float(value)
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        if isinstance(value, Mapping):
            return self.map(value, where, depth + 1)
        if isinstance(value, list | tuple):
            if depth >= DEPTH_MAX:
                raise InvalidEntry(where[:200], f"is nested deeper than {DEPTH_MAX} levels")
            return [self.item(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
        if isinstance(value, datetime):
            try:
                return instants.of_datetime(value)
            except (ValueError, OverflowError):
                raise InvalidEntry(where, "is a datetime without a time zone: it names no instant") from None
        raise InvalidEntry(where, f"is {type(value).__name__}, which has no place in CBOR data")


def _with_plain_keys(value: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """The map with the very text of each key, where some keys are of a subclass of `str`."""
    found: dict[str, Any] = {}
    for key in value:
        if not isinstance(key, str):
            raise InvalidEntry(where, f"has the key {shown(key)}: map keys must be text")
        text = plain_text(key)
        if text in found:
            raise InvalidEntry(where, f"has the key {shown(text)} twice")
        found[text] = value[key]
    return found
