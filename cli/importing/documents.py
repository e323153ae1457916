"""Read a file that holds one JSON document, or one per line."""

from __future__ import annotations

from typing import Any

from sealbook.cli.importing import strict
from sealbook.cli.importing.strict import DamagedDocument, damaged


def read(text: bytes, name: str) -> list[Any]:
    """Every document of the file, in order. `Damaged` names the line that is no JSON."""
    lines = [(number, line) for number, line in enumerate(text.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise damaged(name, "is empty")
    if len(lines) > 1 and _is_document(lines[0][1], name):
        return [_document(line, name, number) for number, line in lines]
    return [strict.loads(text, name)]


def _is_document(line: bytes, name: str) -> bool:
    try:
        strict.loads(line, name)
    except DamagedDocument:
        return False
    return True


def _document(line: bytes, name: str, number: int) -> Any:
    try:
        return strict.loads(line, name)
    except DamagedDocument as error:
        raise damaged(name, error.reason, f"line {number}") from None
