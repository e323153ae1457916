"""Counts and lengths of time in words, for people.

>>> counted(1, "record"), counted(2, "leaf", "leaves")
('1 record', '2 leaves')
>>> sized(999), sized(4096), sized(163_840_000)
('999 B', '4.0 KiB', '156.2 MiB')
"""

from __future__ import annotations


def counted(count: int, word: str, words: str | None = None) -> str:
    """The count and its word, in the plural unless it is one; `words` where the plural is not made with an s."""
    return f"{count} {word if count == 1 else words or f'{word}s'}"


def sized(count: int) -> str:
    """So many bytes, to one digit behind the point."""
    size, units = float(count), ("B", "KiB", "MiB", "GiB", "TiB")
    unit = 0
    while size >= 1024 and unit + 1 < len(units):
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {units[unit]}" if unit else f"{count} B"


def span(millis: int) -> str:
    """A length of time as people say it, by its two largest units: `3d 4h`, `1.250s`."""
    seconds, rest = divmod(max(millis, 0), 1000)
    if seconds < 60:
        return f"{seconds}.{rest:03d}s" if rest else f"{seconds}s"
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
