"""Read systemd's Journal Export Format as the histories of runs: one per boot.

| in the file | record |
|---|---|
| the first entry of a boot | `RunAdmitted` before it; run = `boot-` and the boot's id |
| an entry | `systemd.Entry`: its fields, text where they are UTF-8, else bytes; a list where one stands twice |
| a line that is no field | `Imported`, with the line: tools that print such files leave some behind |

A field is `NAME=text`, or `NAME`, its length as u64le, its bytes. Entries are parted by empty lines.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from sealbook.cli.importing.history import History, Segment, legal
from sealbook.cli.importing.strict import damaged
from sealbook.journal import entries
from sealbook.journal.records.entries import Entry
from sealbook.journal.records.names import RUN_BYTES_MAX

SOURCE = "systemd-journal"
BOOT = "_BOOT_ID"
LENGTH_BYTES = 8

_NAME = re.compile(rb"[A-Z_][A-Z0-9_]{0,63}")

Fields = dict[str, Any]


def read(text: bytes, name: str) -> list[History]:
    """The histories that this file holds, in the order of their boots; `Damaged` when it holds none."""
    runs: dict[str, list[Entry]] = {}
    stray: list[Entry] = []  # before the first entry of all
    last: list[Entry] | None = None
    for fields, lines in _blocks(text, name):
        if fields:
            boot = fields.get(BOOT)
            if not isinstance(boot, str) or not boot:
                raise damaged(name, f"has an entry without a {BOOT}")
            last = runs.setdefault(boot, [entries.admitted()])
            last += [*stray, entries.entry("systemd.Entry", fields)]
            stray = []
        (stray if last is None else last).extend(_stray(line) for line in lines)
    if not runs:
        raise damaged(name, "holds no entry of a journal")
    return [_history(boot, records) for boot, records in runs.items()]


def _history(boot: str, records: list[Entry]) -> History:
    digest = hashlib.sha256(repr([(record.kind, record.data) for record in records]).encode()).hexdigest()
    run = legal(f"boot-{boot}", RUN_BYTES_MAX, run=True)
    return History(run, digest, SOURCE, (Segment(SOURCE, tuple(records)),))


def _stray(line: bytes) -> Entry:
    return entries.entry("Imported", {"kind": "line", "reason": "it is no field of an entry", "line": _value(line)})


def _blocks(text: bytes, name: str) -> Iterator[tuple[Fields, list[bytes]]]:
    """Each entry's fields, and the lines within it that are none."""
    fields: Fields = {}
    lines: list[bytes] = []
    at = 0
    while at < len(text):
        end = text.find(b"\n", at)
        if end < 0:
            raise damaged(name, "ends within a line")
        line, at = text[at:end], end + 1
        field, separator, value = line.partition(b"=")
        if not line:
            if fields or lines:
                yield fields, lines
            fields, lines = {}, []
        elif not _NAME.fullmatch(field):
            lines.append(line)
        elif separator:
            if field == b"__CURSOR" and fields:  # the empty line before it was lost
                yield fields, lines
                fields, lines = {}, []
            _add(fields, field.decode(), _value(value))
        else:
            length = int.from_bytes(text[at : at + LENGTH_BYTES], "little")
            start, at = at + LENGTH_BYTES, at + LENGTH_BYTES + length + 1
            if at > len(text) or text[at - 1 : at] != b"\n":
                raise damaged(name, "has a field that is cut off", field.decode())
            _add(fields, field.decode(), _value(text[start : at - 1]))
    if fields or lines:
        yield fields, lines


def _add(fields: Fields, field: str, value: str | bytes) -> None:
    """A field that stands twice has all its values, in their order."""
    if field not in fields:
        fields[field] = value
    elif isinstance(fields[field], list):
        fields[field].append(value)
    else:
        fields[field] = [fields[field], value]


def _value(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
