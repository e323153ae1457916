"""Long values shortened so that nothing vanishes silently: what was left out is told by its length and its digest.

    {"$elided": {"type": "text", "bytes": 5000, "blake3": "<64 hex digits>", "begins": "<at most 64 characters>"}}

stands for a text of more than VALUE_BYTES_MAX bytes, and without `begins` for such bytes, or for an array or a map that
is longer than NESTED_BYTES_MAX after that. `type` is `text`, `bytes`, `array` or `map`. `bytes` and `blake3` are of the
text's UTF-8, of the bytes themselves, or of the deterministic CBOR of the array or map. No member of data is written
`$elided`: a name that begins with `$` gains one more.
"""

from __future__ import annotations

from typing import Any

import cbor2
from blake3 import blake3

from sealbook.cli.records import objects

VALUE_BYTES_MAX = 4096  # as journalctl's limit
NESTED_BYTES_MAX = 65536
BEGINNING = 64


def data(value: Any) -> Any:
    """`objects.data` of the value, with what is long in it elided."""
    return _elided(value)[0]


def _elided(value: Any) -> tuple[Any, int]:
    """The value as JSON has it, and about how many bytes that takes."""
    if isinstance(value, str):
        content = value.encode()
        if len(content) > VALUE_BYTES_MAX:
            return _mark("text", content, begins=value[:BEGINNING]), BEGINNING
        return value, len(content)
    if isinstance(value, bytes):
        if len(value) > VALUE_BYTES_MAX:
            return _mark("bytes", value), BEGINNING
        return objects.data(value), len(value)
    if isinstance(value, dict):
        members = {name: _elided(item) for name, item in value.items()}
        size = sum(len(name) + item[1] for name, item in members.items())
        if size > NESTED_BYTES_MAX:
            return _mark("map", cbor2.dumps(value, canonical=True)), BEGINNING
        return {objects.member(name): item for name, (item, _) in members.items()}, size
    if isinstance(value, list):
        items = [_elided(item) for item in value]
        size = sum(item[1] + 1 for item in items)
        if size > NESTED_BYTES_MAX:
            return _mark("array", cbor2.dumps(value, canonical=True)), BEGINNING
        return [item for item, _ in items], size
    return value, 8


def _mark(kind: str, content: bytes, **more: str) -> dict[str, Any]:
    return {"$elided": {"type": kind, "bytes": len(content), "blake3": blake3(content).hexdigest(), **more}}
