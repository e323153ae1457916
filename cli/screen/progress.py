"""Progress of long work, on standard error: a bar with an estimate for people, lines of JSON for programs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from sealbook.cli.screen.output import is_terminal

Report = Callable[[int, int], None]

FORMS = ("auto", "json", "none")  # auto: a bar where standard error is a terminal
JSON_SECONDS_MIN = 0.5  # between two lines


@contextmanager
def shown(what: str, *, quiet: bool = False, form: str = "auto") -> Iterator[Report | None]:
    """A function to call with (done, in all), or None where nobody would see it."""
    if form == "json":
        yield JsonLines(what, time.monotonic)
        return
    if form == "none" or quiet or not is_terminal(sys.stderr):
        yield None
        return
    bar = click.progressbar(length=1, label=what, show_pos=True, file=sys.stderr)

    def report(done: int, total: int) -> None:
        bar.length = total
        bar.update(done - bar.pos)

    with bar:
        yield report
    sys.stderr.write("\x1b[A\r\x1b[K")  # a bar that is over leaves no line behind
    sys.stderr.flush()


class JsonLines:
    """Prints how far the work is as an object per line: the first and the last call, and now and then between them."""

    def __init__(self, what: str, clock: Callable[[], float]) -> None:
        self._what, self._clock = what, clock
        self._begun = clock()
        self._told: float | None = None

    def __call__(self, done: int, total: int) -> None:
        """The work is so far; `clock` says when."""
        now = self._clock()
        if done < total and self._told is not None and now - self._told < JSON_SECONDS_MIN:
            return
        self._told, passed = now, now - self._begun
        remaining = None if not done else round(passed * max(total - done, 0) / done, 1)
        line = {"what": self._what, "done": done, "total": total, "seconds": round(passed, 1), "remaining": remaining}
        sys.stderr.write(f"{json.dumps(line)}\n")
        sys.stderr.flush()
