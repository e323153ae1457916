"""A run's records as a file, for who verifies them without the store: one line of JSON per record, in the run's order.

    {"v":1,"prev":"<base64>","hash":"<base64>","signature":null,"body":"<base64>"}

There is one way to write a record: these members in this order, no spaces, padded base64, `null` or the 64 bytes of
the signature. `v` is the version of the line. The arrival is left out: no hash covers it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from sealbook.journal.errors import UnknownVersion
from sealbook.journal.records.body import BODY_BYTES_MAX
from sealbook.journal.records.row import Row
from sealbook.merkle.encoding import parse_base64
from sealbook.merkle.errors import Malformed

LINE_VERSION = 1
LINE_BYTES_MAX = BODY_BYTES_MAX // 3 * 4 + 1024  # a body in base64, and the rest of the line
_MEMBERS = ("v", "prev", "hash", "signature", "body")
_SIZES = {"prev": 32, "hash": 32, "signature": 64}


def encode(prev: bytes, record_hash: bytes, signature: bytes | None, body: bytes) -> bytes:
    """The line of a record, its newline included."""
    members = {
        "v": LINE_VERSION,
        "prev": b64encode(prev).decode(),
        "hash": b64encode(record_hash).decode(),
        "signature": None if signature is None else b64encode(signature).decode(),
        "body": b64encode(body).decode(),
    }
    return json.dumps(members, separators=(",", ":")).encode() + b"\n"


def read(stream: BinaryIO) -> Iterator[Row]:
    """The records of a file, none of them believed; arrival is 0. `Malformed`, which names the line, for any line that
    `encode` does not write."""
    for number, line in enumerate(_lines(stream), 1):
        try:
            yield _decode(line)
        except Malformed as error:
            raise Malformed(f"records: line {number}: {error}") from error


def _lines(stream: BinaryIO) -> Iterable[bytes]:
    return iter(lambda: stream.readline(LINE_BYTES_MAX + 1), b"")


def _decode(line: bytes) -> Row:
    if len(line) > LINE_BYTES_MAX:
        raise Malformed(f"more than {LINE_BYTES_MAX} bytes")
    try:
        members = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed("no JSON") from error
    if not isinstance(members, dict):
        raise Malformed("no record, which is an object")
    version = members.get("v")
    if isinstance(version, int) and version > LINE_VERSION:
        raise UnknownVersion(f"records are in version {version}, {LINE_VERSION} is known: verify with a newer build")
    if version != LINE_VERSION or tuple(members) != _MEMBERS:
        raise Malformed(f"the members of a record are {', '.join(_MEMBERS)}")
    prev, record_hash = _bytes(members, "prev"), _bytes(members, "hash")
    signature = None if members["signature"] is None else _bytes(members, "signature")
    body = _bytes(members, "body")
    if encode(prev, record_hash, signature, body) != line:
        raise Malformed("not the one way to write this record")
    return Row(0, prev, record_hash, signature, body)


def _bytes(members: dict[str, Any], name: str) -> bytes:
    text = members[name]
    if not isinstance(text, str):
        raise Malformed(f"{name} is base64 in text")
    data = parse_base64(name, text)
    if len(data) != _SIZES.get(name, len(data)):
        raise Malformed(f"{name} has {_SIZES[name]} bytes, not {len(data)}")
    return data
