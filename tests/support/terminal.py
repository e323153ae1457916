"""The real program in a terminal of its own: what it shows can be waited for, and keys can be typed."""

from __future__ import annotations

import codecs
import os
import pty
import select
import sys
from pathlib import Path
from typing import Self

UNWANTED = ("NO_COLOR", "FORCE_COLOR", "PAGER", "JOURNAL_PAGER", "LESS", "SEALBOOK_DIR", "SEALBOOK_TENANT")
PATIENCE_S = 60  # until a test is given up as hanging


class Terminal:
    """A terminal with the program in it, which has it for all three of its files."""

    def __init__(self, store: Path, *args: str, **env: str) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
        environment = {**kept, "TERM": "xterm", "COLUMNS": "100", "LINES": "24", **env}
        self.received = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a character may come in two parts
        self._child, self._descriptor = pty.fork()
        if self._child == 0:
            command = [sys.executable, "-P", "-m", "sealbook.cli", "-D", str(store), *args]
            os.execve(sys.executable, command, environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._descriptor)  # whoever still runs in it is hung up on

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._descriptor, keys.encode())

    def wait_for(self, text: str) -> None:
        """Return once the terminal has received this."""
        while text not in self.received:
            assert self._read(), f"ended without {text!r}:\n{self.received}"

    def end(self) -> int:
        """Wait until the program ends; its exit code."""
        while self._read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])

    def _read(self) -> bool:
        """Receive what comes next; whether anything came before the other side was closed."""
        ready, _, _ = select.select([self._descriptor], [], [], PATIENCE_S)
        assert ready, f"nothing came:\n{self.received}"
        try:
            part = os.read(self._descriptor, 65536)
        except OSError:  # the terminal's other end is closed
            return False
        self.received += self._decoder.decode(part)
        return bool(part)
