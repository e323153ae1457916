"""Walk over the deterministic CBOR of a large record without building what it says: a body of 4 MiB may stand for
hundreds of times as much in memory.

`spans` accepts exactly what `values.encode_map` writes, as far as values go, and answers where members stand. Which
members a record has, and what they must be, `record` says.
"""

from __future__ import annotations

import struct
from collections.abc import Container

from sealbook.journal.records.body import MEMBERS
from sealbook.journal.records.cbor import DEPTH_MAX

Span = tuple[int, int]  # (start, end) of a value's bytes
Key = tuple[int, bytes]  # (length, key): the order of a map

_FLOATS = {25: (">e", 2), 26: (">f", 4), 27: (">d", 8)}
_NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP = range(1, 6)
NO_KEY: Key = (-1, b"")
MEMBERS_MAX = 14  # of a body, all told
assert len(MEMBERS) == MEMBERS_MAX


def spans(body: bytes, of_data: Container[str]) -> tuple[dict[str, Span], dict[str, Span]]:
    """Where the members of a body stand, and those of its `data` whose names are in `of_data`.

    ValueError when the body is not a map in its one encoding, has more members than any record, or holds what no
    record may hold.
    """
    envelope: dict[str, Span] = {}
    data: dict[str, Span] = {}
    count, at = _map(body, 0)
    before = NO_KEY
    for _ in range(count):
        key, at = _key(body, at, before)
        before = (len(key), key)
        name, start = key.decode(), at
        if name == "data":
            data, at = _data(body, at, of_data)
        else:
            at = _skip(body, at, 0)
        envelope[name] = (start, at)
        if len(envelope) > MEMBERS_MAX:
            raise ValueError("has more members than any record")
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes follow the map")
    return envelope, data


def _data(body: bytes, at: int, wanted: Container[str]) -> tuple[dict[str, Span], int]:
    """The same for the map `data` that begins at `at`, and its end."""
    found: dict[str, Span] = {}
    count, at = _map(body, at)
    before = NO_KEY
    for _ in range(count):
        key, at = _key(body, at, before)
        before = (len(key), key)
        start, at = at, _skip(body, at, 1)
        if (name := key.decode()) in wanted:
            found[name] = (start, at)
    return found, at


def _skip(body: bytes, at: int, depth: int) -> int:
    """The end of the value that begins at `at`, within so many containers of the data."""
    left: list[int] = []  # items still to come, of each container that is open
    keys: list[Key | None] = []  # and the last key of each map among them
    while True:
        if left and (before := keys[-1]) is not None:
            key, at = _key(body, at, before)
            keys[-1] = (len(key), key)
        major, value, at = _head(body, at)
        if major in (_TEXT, _BYTES):
            start, at = at, at + value
            if at > len(body):
                raise ValueError("is cut off")
            if major == _TEXT:
                body[start:at].decode()
        elif major == _NEGATIVE and value >= 2**63:
            raise ValueError("holds an integer below -2**63")
        elif major in (_ARRAY, _MAP):
            if depth + len(left) >= DEPTH_MAX:
                raise ValueError(f"is nested deeper than {DEPTH_MAX} levels")
            if value:
                left.append(value)
                keys.append(NO_KEY if major == _MAP else None)
                continue
        while left and left[-1] == 1:
            left.pop()
            keys.pop()
        if not left:
            return at
        left[-1] -= 1


def _map(body: bytes, at: int) -> tuple[int, int]:
    """How many members the map at `at` has, and where the first begins."""
    major, count, at = _head(body, at)
    if major != _MAP:
        raise ValueError("is no map")
    return count, at


def _key(data: bytes, at: int, before: Key) -> tuple[bytes, int]:
    """A key of a map, which must sort behind the one before it: by length, then bytewise."""
    major, size, at = _head(data, at)
    if major != _TEXT:
        raise ValueError("has a key that is no text")
    key = data[at : at + size]
    if len(key) != size:
        raise ValueError("is cut off")
    key.decode()
    if (size, key) <= before:
        raise ValueError("has keys out of order, or twice")
    return key, at + size


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """(major type, argument, what follows) of the item at `at`; for a float or simple value the argument is 0."""
    if at >= len(data):
        raise ValueError("is cut off")
    major, info = data[at] >> 5, data[at] & 31
    at += 1
    if major == 7:
        return 7, 0, _simple(data, at, info)
    if info < 24:
        value = info
    elif info < 28:
        size = 1 << info - 24
        value = int.from_bytes(data[at : at + size])
        if at + size > len(data):
            raise ValueError("is cut off")
        if value < (24 if size == 1 else 1 << 4 * size):
            raise ValueError("has a number that is written longer than it need be")
        at += size
    else:
        raise ValueError("has an item of indefinite length, or none at all")
    if major == 6:
        raise ValueError("has a tag")
    return major, value, at


def _simple(data: bytes, at: int, info: int) -> int:
    if info in (20, 21, 22):  # false, true, null
        return at
    if info not in _FLOATS:
        raise ValueError("has a simple value that no record holds")
    layout, size = _FLOATS[info]
    stored = data[at : at + size]
    if len(stored) != size:
        raise ValueError("is cut off")
    [value] = struct.unpack(layout, stored)
    if value - value != 0:
        raise ValueError("has a number that is not finite")
    if any(_fits(value, shorter) for number, (shorter, _) in _FLOATS.items() if number < info):
        raise ValueError("has a float that is written longer than it need be")
    return at + size


def _fits(value: float, layout: str) -> bool:
    try:
        return bool(struct.unpack(layout, struct.pack(layout, value))[0] == value)
    except OverflowError:
        return False
