"""Counts in words, for people.

>>> counted(1, "record"), counted(2, "leaf", "leaves")
('1 record', '2 leaves')
"""

from __future__ import annotations


def counted(count: int, word: str, words: str | None = None) -> str:
    """The count and its word, in the plural unless it is one; `words` where the plural is not made with an s."""
    return f"{count} {word if count == 1 else words or f'{word}s'}"
