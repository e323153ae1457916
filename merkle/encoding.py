"""How numbers, bytes and text are written in the transparency formats, read strictly: one text for one value.

Whether a reader must refuse base64 with stray bits is still discussed (C2SP issue 348), some readers take numbers with
a sign or leading zeros, and readers that disagree split a quorum. So nothing is read here that we would not write.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64

from sealbook.merkle.errors import Malformed, shown
from sealbook.merkle.hashing import HASH_BYTES, SIZE_MAX

# ASCII digits only, at most as many as SIZE_MAX has: int() alone would take "+3", "1_0" and Arabic digits.
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
assert len(str(SIZE_MAX)) == 19


def base64_text(data: bytes) -> str:
    """The base64 of RFC 4648 section 4, padded."""
    return b2a_base64(data, newline=False).decode()


def parse_base64(what: str, text: str) -> bytes:
    """The bytes that `text` is the base64 of. Raises `Malformed`, which names `what`, for any other text."""
    try:
        data = a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise Malformed(f"{what} is not base64") from error
    # Decoders let through bits after the last byte that the encoder leaves 0.
    if base64_text(data) != text:
        raise Malformed(f"{what} is not canonical base64")
    return data


def parse_hash(what: str, text: str) -> bytes:
    """The 32-byte hash that `text` is the base64 of."""
    value = parse_base64(what, text)
    if len(value) != HASH_BYTES:
        raise Malformed(f"{what} has {len(value)} bytes, not {HASH_BYTES}")
    return value


def parse_decimal(what: str, text: str) -> int:
    """The number from 0 to 2**63 - 1 that `text` is, in plain decimal without leading zeros."""
    if not _DECIMAL.fullmatch(text) or int(text) > SIZE_MAX:
        raise Malformed(f"{what} is a plain decimal number up to {SIZE_MAX}, not {shown(text)}")
    return int(text)


def parse_utf8(what: str, data: bytes) -> str:
    """The text that `data` is the UTF-8 of."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"{what} is not UTF-8: {error.reason} at byte {error.start}") from error


def check_lines(what: str, text: str) -> None:
    """signed-note: "Signed notes MUST be valid UTF-8 and MUST NOT contain any ASCII control characters (those below
    U+0020) other than newline." """
    if found := _CONTROL.search(text):
        raise Malformed(f"{what} has the control character {found[0]!a} at character {found.start()}")
