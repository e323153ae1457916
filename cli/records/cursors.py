"""Where somebody stopped reading: a record by its place and its hash, so that a rewritten history is noticed.

    t=default;a=15;s=4;h=4f0c…;r=order-42        tenant, arrival, seq, the record's hash, and last its run, URL-quoted

A cursor can be read by people and used with any other selection. It is checked against the store each time: where
another record stands, or none, the history was rewritten, cut short or put back to an older copy: that is `Corrupt`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from sealbook.cli.ground.file_output import check_place, opened
from sealbook.journal import Corrupt, InvalidCursor

if TYPE_CHECKING:
    from sealbook.journal import Record, Tenant

_FORM = re.compile(r"t=([\w.-]{1,64});a=([1-9]\d{0,18});s=([1-9]\d{0,18});h=([0-9a-f]{64});r=(\S{1,512})", re.ASCII)
FILE_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Cursor:
    """A record that was printed."""

    tenant: str
    arrival: int
    seq: int
    hash: str
    run: str

    @classmethod
    def of(cls, record: Record) -> Cursor:
        """The cursor of this record."""
        return cls(record.tenant, record.arrival, record.seq, record.hash.hex(), record.run)

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The cursor that `str` wrote; `InvalidCursor` for any other text."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise InvalidCursor("it is none that `show --show-cursor` prints")
        return cls(match[1], int(match[2]), int(match[3]), match[4], unquote(match[5]))

    def __str__(self) -> str:
        return f"t={self.tenant};a={self.arrival};s={self.seq};h={self.hash};r={quote(self.run, safe='')}"

    def check(self, tenant: Tenant) -> None:
        """`Corrupt` when the record does not stand in the store as it did; `InvalidCursor` for another tenant's."""
        if self.tenant != tenant.name:
            raise InvalidCursor(f"it is one of tenant {self.tenant}, not of {tenant.name}")
        found = tenant.history(start=self.arrival, limit=1)
        if not found:
            what = f"the record of the cursor is gone, with all after arrival {self.arrival}: the history was cut short"
            raise Corrupt(f"{what}, or an older copy of the store put back", self.run, self.seq)
        if Cursor.of(found[0]) != self:
            what = f"another record stands at arrival {self.arrival} than the cursor names: the history was rewritten"
            raise Corrupt(what, self.run, self.seq)


def read_file(path: Path) -> Cursor | None:
    """The cursor that the file keeps; None where there is no file yet, or an empty one. OSError where no file could be
    kept, now, and not when everything has been printed."""
    check_place(path)
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    try:
        return Cursor.parse(text) if text else None
    except InvalidCursor:
        raise InvalidCursor(f"{path} holds none that `show --cursor-file` writes") from None


def write_file(path: Path, cursor: Cursor) -> None:
    """Keep the cursor: the file has the new one or the old one, whatever happens."""
    with opened(path) as file:
        file.write(f"{cursor}\n".encode("ascii"))
