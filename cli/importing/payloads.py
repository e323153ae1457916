"""What Temporal's payloads say: bodies in base64 with their encoding beside them, and values where they are JSON.

A payload that is plain JSON and says nothing else becomes its value. A payload of any other encoding, and one whose
body only claims to be JSON, keeps its metadata as text where it is text, and its body as bytes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from sealbook.cli.importing import strict
from sealbook.journal.records.cbor import DEPTH_MAX

ENCODING = "encoding"
JSON = "json/plain"
NULL = "binary/null"

Refuse = Callable[[str], Exception]


def decoded(value: Any, refuse: Refuse, depth: int) -> Any:
    """The value with every payload in it decoded. `depth` counts the containers that will stand around it.

    `refuse` makes the error for a payload whose base64 is broken.
    """
    if isinstance(value, list):
        return [decoded(item, refuse, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"payloads"} and isinstance(value["payloads"], list):
        return [decoded(item, refuse, depth + 1) for item in value["payloads"]]
    if _is_payload(value):
        return _payload(value, refuse, depth)
    return {name: decoded(item, refuse, depth + 1) for name, item in value.items()}


def _is_payload(value: dict[str, Any]) -> bool:
    metadata = value.get("metadata")
    return (
        isinstance(metadata, dict)
        and isinstance(metadata.get(ENCODING), str)
        and all(isinstance(item, str) for item in metadata.values())
        and isinstance(value.get("data", ""), str)
    )


def _payload(payload: dict[str, Any], refuse: Refuse, depth: int) -> Any:
    metadata = {name: _text_or_bytes(_base64(item, refuse)) for name, item in payload["metadata"].items()}
    body = _base64(payload.get("data", ""), refuse)
    others = {name: item for name, item in payload.items() if name not in ("metadata", "data")}
    alone = len(metadata) == 1 and not others
    if metadata[ENCODING] == NULL and not body and alone:
        return None
    if metadata[ENCODING] == JSON:
        try:
            value = strict.loads(body, "payload")
            strict.digest(value, "payload")  # refuses lone surrogates
        except strict.DamagedDocument:
            return {**others, "metadata": metadata, "data": body}
        if depth + strict.depth(value) < DEPTH_MAX - 2:
            return value if alone else {**others, "metadata": metadata, "value": value}
    return {**others, "metadata": metadata, "data": body}


def _base64(text: str, refuse: Refuse) -> bytes:
    # Protocol Buffers' JSON mapping: readers accept the standard and the URL-safe alphabet, with or without padding.
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except binascii.Error:
        raise refuse("a payload is no base64") from None


def _text_or_bytes(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
