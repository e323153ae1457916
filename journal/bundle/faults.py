"""What is wrong with a bundle, and where: by its place in the file, and by the record that it is about."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from sealbook.journal.errors import UnknownVersion, WrongFormat, printable
from sealbook.merkle.errors import VerificationError

FILE = "file"
CONTENT = "content"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. `offset` counts the bytes of the file, or of the content that its blocks hold.

    `section` is what stands there: `preamble`, `block 3`, `trailer`, or the kind of frame. `incomplete` says that the
    file ends too early, as it does when writing or copying it was cut off.
    """

    what: str
    section: str
    where: str
    offset: int
    tenant: str | None = None
    run: str | None = None
    seq: int | None = None
    incomplete: bool = False

    def __str__(self) -> str:
        place = f"{self.section} at byte {self.offset} of the {self.where}"
        if self.run is not None:
            record = "" if self.seq is None else f" record {self.seq}"
            return f"{place}: tenant {self.tenant} run {self.run}{record}: {self.what}"
        return f"{place}: {self.what}" if self.tenant is None else f"{place}: tenant {self.tenant}: {self.what}"


class Damaged(VerificationError):
    """A bundle that cannot be what somebody wrote. `fault` says what is wrong, and where; `name` which bundle it is."""

    def __init__(self, fault: Fault, name: str = "bundle") -> None:
        super().__init__(f"{name}: {fault}")
        self.fault = fault


@contextmanager
def named(stream: BinaryIO) -> Iterator[None]:
    """What a reader raises about the bundle names its file, where the stream is one that was opened by name."""
    name = name_of(stream)
    try:
        yield
    except Damaged as error:
        raise Damaged(error.fault, name or "bundle") from error
    except (WrongFormat, UnknownVersion) as error:
        if not name or (isinstance(error, UnknownVersion) and error.run is not None):
            raise
        raise type(error)(f"{name}: {error}") from error


def name_of(stream: BinaryIO) -> str:
    """The name of the stream's file, as it stands in an error of one line; empty where there is none."""
    name = getattr(stream, "name", None)
    return printable(os.fsdecode(name)) if isinstance(name, str | bytes | os.PathLike) else ""
