"""Names that stand for many: `*` any characters, `?` one, `[a-c]` one of these, `[!a-c]` one of the others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

_CHARACTERS = "*?["
_GLOB = re.compile(r"[*?]|\[!?.[^\]]*\]", re.DOTALL)  # a [ that nothing closes stands for itself


def is_glob(name: str) -> bool:
    """Whether the name stands for many."""
    return _GLOB.search(name) is not None


def beginning(glob: str) -> str:
    """What every name begins with that the glob stands for."""
    return glob[: min((glob.find(character) for character in _CHARACTERS if character in glob), default=len(glob))]


def meant(name: str, globs: Iterable[str]) -> bool:
    """Whether one of these, names or globs, stands for the name; one that looks like a glob stands for itself too."""
    return any(name == glob or fnmatchcase(name, glob) for glob in globs)
