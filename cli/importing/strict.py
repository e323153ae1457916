"""Read one JSON text of someone else's strictly, and give it one spelling.

Refused are: bytes that are no UTF-8, repeated member names, NaN and infinities, integers beyond 64 bits, lone
surrogates, and nesting deeper than a record can hold. One byte order mark at the start is passed over, as RFC 8259
section 8.1 allows. Every refusal is `Damaged` and names the file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, NoReturn

from sealbook.journal.errors import InvalidInput, shown
from sealbook.journal.records.cbor import DEPTH_MAX, INTEGER_MAX, INTEGER_MIN

JSON_DEPTH_MAX = 60  # leaves room for the members that a record wraps around what was in the file
INTEGER_DIGITS_MAX = 20  # of 2**64 - 1; longer ones are refused unread, since int() takes quadratic time

assert JSON_DEPTH_MAX < DEPTH_MAX
assert len(str(INTEGER_MAX)) == INTEGER_DIGITS_MAX


@dataclass(eq=False)
class DamagedDocument(InvalidInput):
    """A file that cannot be imported. `value` is its name, `where` the event, step or message that is to blame."""

    where: str | None = None

    def __str__(self) -> str:
        name = str(self.value) if str(self.value).isprintable() else shown(self.value)
        place = "" if self.where is None else f"{self.where}: "
        return f"{name}: {place}{self.reason}"


def damaged(name: str, reason: str, where: str | None = None) -> DamagedDocument:
    """The refusal of the file of this name."""
    return DamagedDocument("file", name, reason, where)


def loads(text: bytes, name: str) -> Any:
    """The value of a JSON text; `Damaged` when it is not exactly one."""
    try:
        characters = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise damaged(name, f"byte {error.start} is no UTF-8") from None
    hooks = _Hooks(name)
    try:
        value = json.loads(
            characters,
            object_pairs_hook=hooks.members,
            parse_int=hooks.integer,
            parse_float=hooks.number,
            parse_constant=hooks.constant,
        )
    except json.JSONDecodeError as error:
        raise damaged(
            name, f"is not JSON: {error.msg.removesuffix(' at')} at line {error.lineno} column {error.colno}"
        ) from None
    except RecursionError:
        raise damaged(name, f"is nested deeper than {JSON_DEPTH_MAX} levels") from None
    if depth(value) > JSON_DEPTH_MAX:
        raise damaged(name, f"is nested deeper than {JSON_DEPTH_MAX} levels")
    return value


def digest(value: Any, name: str) -> str:
    """SHA-256, in hex, of the canonical JSON of a value: members sorted by name, no spaces, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        return hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:
        raise damaged(name, "holds a lone surrogate, which UTF-8 cannot carry") from None


def depth(value: Any) -> int:
    """How many containers stand inside one another, the value itself counted. It does not recurse."""
    levels = 0
    level = [value] if isinstance(value, dict | list) else []
    while level and levels <= DEPTH_MAX:
        levels += 1
        inner = (container.values() if isinstance(container, dict) else container for container in level)
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
    return levels


class _Hooks:
    """What the JSON reader asks for each object and number of one file."""

    def __init__(self, name: str) -> None:
        self.name = name

    def members(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
            raise damaged(self.name, f"an object has the member {shown(twice)} twice")
        return value

    def integer(self, digits: str) -> int:
        value = int(digits) if len(digits.lstrip("-")) <= INTEGER_DIGITS_MAX else INTEGER_MAX + 1
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise damaged(self.name, f"holds an integer outside -2**63 to 2**64 - 1 ({digits[:24]})")
        return value

    def number(self, digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise damaged(self.name, f"holds a number beyond every float ({digits[:24]})")
        return value

    def constant(self, word: str) -> NoReturn:
        raise damaged(self.name, f"holds {word}, which is not JSON")
