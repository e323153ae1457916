"""Files that the command line names: read, or refused as missing or none of their kind, which is exit code 2.

What is wrong is said by line and reason, never by what stands there: it may be another file than was meant, and secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sealbook.journal.errors import Refused


@dataclass(eq=False)
class FileRefused(Refused):
    """The file is missing, cannot be read or is none of its kind. `line` is 0 when it is no single line."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}{f' line {self.line}' if self.line else ''}: {self.reason}"


def read(path: Path) -> bytes:
    """The file's bytes. `FileRefused` when they cannot be had."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileRefused(str(path), 0, error.strerror or "it cannot be read") from error
