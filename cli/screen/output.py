"""Where a command prints: plain or coloured, straight to standard output or through a pager.

Colours and pagers are for terminals alone. The line that is printed is safe already (`rendering.safe`): nothing is
escaped here, and only the colours of this module are added.
"""

from __future__ import annotations

import errno
import os
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

PAGER = (
    "less -FRSXMK"  # journalctl's: leaves at the end of less than a screen, lets colours through, scrolls long lines
)

_SGR = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}


class Output:
    """An open output. `colored` says whether `paint` does anything, `terminal` whether a person is looking."""

    def __init__(self, stream: IO[str], *, colored: bool, terminal: bool) -> None:
        self._stream = stream
        self.colored = colored
        self.terminal = terminal

    def line(self, text: str = "") -> None:
        """Print one line."""
        self._stream.write(f"{text}\n")

    def text(self, text: str) -> None:
        """Print text as it is."""
        self._stream.write(text)

    def raw(self, content: bytes) -> None:
        """Print bytes as they are, after all text before them."""
        self._stream.flush()
        self._stream.buffer.write(content)  # type: ignore[attr-defined]  # of every text file over a file of the system's

    def flush(self) -> None:
        """Hand over what is buffered, for readers that follow."""
        self._stream.flush()

    def wait(self, seconds: float) -> None:
        """Let time pass; `BrokenPipeError` as soon as the reader has gone, which nothing else tells who only waits."""
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError):  # no file of the system's
            time.sleep(seconds)
            return
        poll = select.poll()
        poll.register(descriptor, 0)  # what is met without being asked for: the error and the end of the other side
        if any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(seconds * 1000)):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def paint(self, text: str, *styles: str) -> str:
        """The text in these styles, where the output is coloured."""
        if not self.colored or not styles or not text:
            return text
        return f"\x1b[{';'.join(_SGR[style] for style in styles)}m{text}\x1b[0m"


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether a person looks at this stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def colored(choice: str, stream: IO[str] | None) -> bool:
    """Whether to colour: as `--color` says, else NO_COLOR, else FORCE_COLOR, else on a terminal that is not dumb."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


@contextmanager
def opened(*, color: str, paged: bool, at_end: bool = False) -> Iterator[Output]:
    """Standard output, or on a terminal a pager that it goes through if `paged`; `at_end` is for less alone."""
    terminal = is_terminal(sys.stdout)
    command = _pager() if paged and terminal else []
    if at_end and command and os.path.basename(command[0]) == "less":
        command.append("+G")
    pager = _started(command) if command else None
    if pager is None:
        output = Output(sys.stdout, colored=colored(color, sys.stdout), terminal=terminal)
        yield output
        output.flush()
        return
    assert pager.stdin is not None
    try:
        yield Output(pager.stdin, colored=colored(color, sys.stdout), terminal=True)
    except BrokenPipeError:
        pass  # its user has seen enough
    finally:
        with suppress(BrokenPipeError):
            pager.stdin.close()
        _wait(pager)


def _pager() -> list[str]:
    for name in ("JOURNAL_PAGER", "PAGER"):
        if name in os.environ:
            command = shlex.split(os.environ[name])
            return [] if command == ["cat"] else command
    return shlex.split(PAGER)


def _started(command: list[str]) -> subprocess.Popen[str] | None:
    """The running pager; None where there is none by that name."""
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return None


def _wait(pager: subprocess.Popen[str]) -> None:
    """Until the pager ends. Ctrl-C is for the pager, not for us."""
    while True:
        try:
            pager.wait()
            return
        except KeyboardInterrupt:
            continue
