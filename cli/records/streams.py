r"""Records as streams of bytes for other programs, whole and exact: nothing in them is elided or escaped.

export     systemd's journal export format. A field is `NAME=value` and a newline; a value that has other characters
           than printable ones stands after `NAME`, a newline and its length, u64 little-endian. A blank line ends the
           entry. `SEALBOOK_BODY` is the exact bytes that the hash covers.
cbor-seq   RFC 8742: one map per record, in deterministic CBOR. `at` is unix milliseconds, hashes and keys are bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import cbor2

from sealbook.cli.records import members, objects
from sealbook.cli.records.lines import full_summary

if TYPE_CHECKING:
    from sealbook.journal import Record

_LENGTH = struct.Struct("<Q")
_PREFIX = "SEALBOOK_"


def export(record: Record, cursor: str, level: int, chosen: tuple[str, ...]) -> bytes:
    """One entry of a journal export. Cursor, time, message and priority always stay, as place and hash do."""
    head = {
        "__CURSOR": cursor.encode(),
        "__REALTIME_TIMESTAMP": str(record.at * 1000).encode(),
        "MESSAGE": full_summary(record).encode(),
        "PRIORITY": str(level).encode(),
    }
    fields = head | {f"{_PREFIX}{name.upper()}": value for name, value in _fields(record, chosen)}
    return b"".join(_field(name, value) for name, value in fields.items()) + b"\n"


def cbor(record: Record, chosen: tuple[str, ...]) -> bytes:
    """One item of a CBOR sequence."""
    signature = None if record.signature is None else {"signer": record.signer, "value": record.signature}
    whole: dict[str, Any] = record._asdict() | {"signature": signature, "data": members.data(record, chosen)}
    kept = set(chosen or members.NAMES) | members.ALWAYS | ({"data"} if members.has_data(chosen) else set())
    return cbor2.dumps({name: whole[name] for name in members.NAMES if name in kept}, canonical=True)


def _fields(record: Record, chosen: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """The members as text, those that are null left out; the whole body unless members were chosen."""
    for name, value in members.of_json(record, chosen, everything=True).items():
        if value is not None:
            yield name, (value if isinstance(value, str) else objects.text(value)).encode()
    if not chosen:
        yield "body", record.body


def _field(name: str, value: bytes) -> bytes:
    try:
        printable = value.decode().isprintable()
    except UnicodeDecodeError:
        printable = False
    if printable:
        return b"%s=%s\n" % (name.encode(), value)
    return b"%s\n%s%s\n" % (name.encode(), _LENGTH.pack(len(value)), value)
