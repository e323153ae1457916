"""Let a verb do its work in a forked child, so that what kills a reader of damaged pages is an answer, not a crash.

LMDB trusts the pages of its data file: one that is damaged can lead a reader outside of the file, which is a SIGBUS or
a SIGSEGV, or into an assertion of LMDB, which is a SIGABRT. No check of ours comes before that, so the reader is a
process of its own.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from sealbook.cli.screen.output import is_terminal

KILLERS = (signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT)
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\r\x1b[K\x1b[?25h"  # a bar of progress hides it, and its process did not live to show it again


def code_of_child(folder: Path) -> int | None:
    """Fork. In the child None: it does the work and ends the process with its exit code. In the parent that code, once
    the child has ended; `Corrupt` when damaged pages killed it. Nothing of the store may be open yet."""
    sys.stdout.flush()
    sys.stderr.flush()
    with ExitStack() as parent:
        with _held_back():  # until each has its handlers: a signal in between would end the parent, and leave the child
            child = os.fork()
            if child == 0:
                _silence_libraries()
                _interrupt_once()
                return None
            parent.enter_context(_passing_on(child))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        return code
    if -code not in KILLERS:
        return 128 - code  # as a shell tells it
    from sealbook.journal.errors import Corrupt, Hint, hinted

    if is_terminal(sys.stderr):
        sys.stderr.write(_SHOW_CURSOR)
    name = signal.Signals(-code).name
    error = Corrupt(
        f"{folder}: the data file's pages are damaged: reading it killed the reader ({name}):"
        " stop writing, restore from a copy"
    )
    raise hinted(error, Hint.UNREADABLE)


def _silence_libraries() -> None:
    """Keep standard error for this program's own lines: what LMDB and faulthandler print when they die goes nowhere."""
    faulthandler.disable()
    own = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    sys.stderr = open(  # noqa: SIM115  # it lives as long as the process
        own, "w", buffering=1, encoding=sys.stderr.encoding, errors="backslashreplace"
    )


def _interrupt_once() -> None:
    """A terminal's Ctrl-C comes twice, from the terminal and from the parent. The second must not meet the clean-up."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)


@contextmanager
def _held_back() -> Iterator[None]:
    """Signals that ask for an end wait until the block is left."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _passing_on(child: int) -> Iterator[None]:
    """Whoever asks the parent to end means the child, whose end is then the parent's."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        os.kill(child, number)

    before = {number: signal.getsignal(number) for number in _PASSED_ON}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
