"""Checkpoints: the text that states a log's origin, size and root, as witnesses sign it (C2SP tlog-checkpoint).

    <origin>\\n
    <size, decimal>\\n
    <root, base64>\\n

Strict both ways: there is one text for one checkpoint, and no other text is read. Extension lines, which the format
allows and advises against, are refused, as most witnesses refuse them.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Self

from sealbook.merkle.encoding import base64_text, parse_base64, parse_decimal, parse_utf8
from sealbook.merkle.errors import Malformed, shown
from sealbook.merkle.hashing import EMPTY_ROOT, HASH_BYTES, SIZE_MAX

ORIGIN_BYTES_MAX = 255  # an ML-DSA cosignature carries the origin under one length byte

_LINE_BREAKING = frozenset({"Cc", "Zl", "Zp"})  # control characters, line and paragraph separators


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A log's origin, size and root. Only a checkpoint that has a text can be made; any other is `Malformed`.

    An origin is 1 to 255 bytes of UTF-8 without control characters and line separators. The format says that it SHOULD
    have no spaces and no `+`; those of real logs do ("go.sum database tree"), so they are read.
    """

    origin: str
    size: int
    root: bytes

    def __post_init__(self) -> None:
        _check_origin(self.origin)
        if not isinstance(self.size, int) or isinstance(self.size, bool) or not 0 <= self.size <= SIZE_MAX:
            raise Malformed(f"checkpoint: size is 0 to {SIZE_MAX}, not {shown(self.size)}")
        if not isinstance(self.root, bytes) or len(self.root) != HASH_BYTES:
            raise Malformed(f"checkpoint: root is {HASH_BYTES} bytes, not {shown(self.root)}")
        # A witness that remembered another root at size 0 would refuse every later checkpoint.
        if self.size == 0 and self.root != EMPTY_ROOT:
            raise Malformed(f"checkpoint: size 0 has the empty tree's root, not {self.root.hex()}")

    def text(self) -> str:
        """The three lines that are signed."""
        return f"{self.origin}\n{self.size}\n{base64_text(self.root)}\n"

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """The checkpoint that the three lines state. Raises `Malformed` for anything that `text()` does not write."""
        lines = (text if isinstance(text, str) else parse_utf8("checkpoint: text", text)).split("\n")
        if len(lines) != 4 or lines[3] != "":
            raise Malformed("checkpoint: three lines, each with its newline, expected")
        origin, size, root, _ = lines
        return cls(origin, parse_decimal("checkpoint: size", size), parse_base64("checkpoint: root", root))


def _check_origin(origin: str) -> None:
    if not isinstance(origin, str):
        raise Malformed(f"checkpoint: origin is text, not {shown(origin)}")
    try:
        length = len(origin.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise Malformed(f"checkpoint: origin is not UTF-8: {shown(origin)}") from error
    if not 1 <= length <= ORIGIN_BYTES_MAX:
        raise Malformed(f"checkpoint: origin is 1 to {ORIGIN_BYTES_MAX} bytes, not {length}")
    # None of them is printable, and hardly an origin has any other unprintable character.
    if not origin.isprintable() and any(unicodedata.category(character) in _LINE_BREAKING for character in origin):
        raise Malformed(f"checkpoint: origin has a control character: {shown(origin)}")
