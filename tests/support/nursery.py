"""What the programs have in common that bring up children to be killed, each at a mark of its way.

Such a program has one thread, as whoever forks should, and imports everything before the first child.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass


def bring_up(work: Callable[[list[str]], None]) -> None:
    """Have one child after the other do the work with the words of a line, but for its last two, until the input ends.

    Those are the mark at which the child kills itself, and how often it gets there first. `gone` follows each child.
    """
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            *words, mark, number = line.removesuffix("\n").split("\t")
            marks.fatal, marks.left = mark, int(number)
            try:
                work(words)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(1)
        os.waitpid(process, 0)
        say("gone")


def say(line: str) -> None:
    """One line, whole or not at all: whoever says it may be killed at any moment."""
    os.write(1, f"{line}\n".encode())


@dataclass
class Marks:
    """Tells how far a child has got, and ends it at one of these points."""

    fatal: str = ""
    left: int = 0

    def reach(self, mark: str) -> None:
        say(mark)
        if mark == self.fatal:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


marks = Marks()
