r"""Show text of strangers so that it can neither move a terminal nor pretend to be other text.

Names and data come from whoever wrote to the journal. Control characters, escape sequences, direction and other
invisible format characters, lone surrogates, unassigned and private characters, and every space but the plain one are
shown as Python writes them; so is the backslash, so that what is shown has one reading.

>>> safe("paid\x1b[2J\u202e")
'paid\\x1b[2J\\u202e'
"""

from __future__ import annotations

import unicodedata

_SHORT = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def safe(text: str) -> str:
    """The text with everything escaped that does not print as itself."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_shown, text))


def line(text: str) -> str:
    """The same for a line that is ours but quotes strangers: backslashes stand, since their text is quoted already."""
    if text.isprintable():
        return text
    return "".join(character if character == "\\" else _shown(character) for character in text)


def _shown(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character.isprintable():
        return character
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def width(text: str) -> int:
    """How many columns a terminal gives to text that is safe."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, columns: int) -> str:
    """The text, followed by spaces up to this many columns."""
    return text + " " * (columns - width(text))


def cut(text: str, columns_max: int) -> str:
    """The text, or as much of it as fits, with `...` for the rest."""
    if width(text) <= columns_max:
        return text
    room, kept = columns_max - 3, 0
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept += 1
    return f"{text[:kept]}..."
