"""What the processes of a storm say of themselves, in one file and one order, and what is counted of it.

Every line is written by one call, at the end of the file, and is of one width, which divides a page of memory: a
process that is killed has said it whole or not at all, and what stands further up was said before.

| line | said |
|---|---|
| `killed place` | by the storm, after it killed a process |
| `fresh run` | after the answer that this message has created the run |
| `entered run epoch` | first thing in the block of a leased run |
| `stepped run kind content` | after a step of the body has returned |
| `called run effect epoch key` | first thing in an effect's function |
| `looked run epoch seen` | last thing in the check of an effect that is reconciled |
| `answered run effect` | after `run.effect` has returned its result |
| `doubt run effect-key` | after `run.effect` has raised `InDoubt` |
| `told run seq hash text` | after an append has returned this record |
| `absent text` | after an append of this text was cancelled or refused |
| `cancelled run` | after the scope of a block was cancelled, and met it |
| `stepped-clock offset` | after the process's wall clock was set |
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

WIDTH: Final = 128
PAGE: Final = 4096
assert PAGE % WIDTH == 0


class Log:
    """The end of the file, for one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(self, *words: Any) -> None:
        line = json.dumps(words, separators=(",", ":")).encode()
        assert len(line) < WIDTH, words
        written = os.write(self._file, line.ljust(WIDTH - 1) + b"\n")
        assert written == WIDTH


class Tally:
    """What a storm has met so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._called: set[tuple[str, str]] = set()
        self.met: Counter[str] = Counter()

    def falls_short_of(self, least: dict[str, int]) -> dict[str, int]:
        """What has been met less often than this, and how often."""
        for words in self.lines():
            self._count(words)
        return {what: self.met[what] for what, count in least.items() if self.met[what] < count}

    def lines(self) -> Iterator[list[Any]]:
        """The lines that were said since the last look."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            while len(line := file.read(WIDTH)) == WIDTH:
                self._read += WIDTH
                yield json.loads(line)

    def _count(self, words: list[Any]) -> None:
        match words:
            case ["entered", _, epoch]:
                self.met["taken over"] += epoch > 1
            case ["called", run, effect, *_]:
                self.met[f"{effect} called"] += 1
                self.met[f"{effect} called again"] += (run, effect) in self._called
                self._called.add((run, effect))
            case ["looked", _, _, seen]:
                self.met["looked and seen" if seen else "looked and not seen"] += 1
            case [word, *_]:
                self.met[word] += 1
