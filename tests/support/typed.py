"""A document that is one terminal session: its ```sh blocks, typed line by line into one shell, and what came of it."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

COMMAND_SECONDS_MAX = 300  # until a command is given up as hanging

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
HERE = "<<'END'"  # up to a line that says END, the lines that follow are the command's input
EXIT = re.compile(r"  # exit (\d+)$")
LISTENS = re.compile(r"(?:listens at|listening on) http://127\.0\.0\.1:\d+")


@dataclass(frozen=True)
class Step:
    """A command of the document, and how it is told to end."""

    command: str
    exit_code: int

    @property
    def stays(self) -> bool:
        return self.command.endswith(" &")


@dataclass(frozen=True)
class Done:
    """A step as it went."""

    step: Step
    exit_code: int
    printed: str


def steps(document: Path) -> list[Step]:
    found = []
    for block in BLOCK.findall(document.read_text(encoding="utf-8")):
        lines = iter(block.splitlines())
        for line in lines:
            expected = EXIT.search(line)
            command = EXIT.sub("", line)
            if command.endswith(HERE):
                command = "\n".join([command, *iter(lines.__next__, "END"), "END"])
            found.append(Step(command, int(expected[1]) if expected else 0))
    return found


def played(document: Path, folder: Path, adapted: Callable[[str], str], *, programs: Sequence[Path] = ()) -> list[Done]:
    """The document's steps, as far as they went as they are told: after one that did not there is no other.

    `adapted` makes of a command what is typed here. `programs` are folders that commands are looked for in first.
    """
    done: list[Done] = []
    with opened_shell(folder, programs) as shell:
        for step in steps(document):
            done.append(Done(step, *shell.run(adapted(step.command), stays=step.stays)))
            print(f"$ {step.command}\n{done[-1].printed}")
            if done[-1].exit_code != step.exit_code:
                break
    return done


def told(session: list[Done], verb: str) -> list[str]:
    """What the commands that begin so have printed, one after the other."""
    return [each.printed for each in session if each.step.command.startswith(verb)]


@dataclass
class Shell:
    """One shell that is typed into. What it starts in the background writes to the same terminal."""

    process: subprocess.Popen[bytes]
    _pending: bytes = field(default=b"", init=False)

    def run(self, command: str, *, stays: bool) -> tuple[int, str]:
        """The command's exit code and what was printed meanwhile; one that stays has said that it listens."""
        assert self.process.stdin is not None
        self.process.stdin.write(f'{command}\necho "done:$?:"\n'.encode())
        self.process.stdin.flush()
        deadline = time.monotonic() + COMMAND_SECONDS_MAX
        printed: list[str] = []
        ended, listens = None, not stays
        while ended is None or not listens:
            line = self._line(deadline, command)
            if code := re.search(r"done:(\d+):$", line):
                ended = int(code[1])
                line = line[: code.start()]
            listens = listens or LISTENS.search(line) is not None
            printed.append(line)
        return ended, "\n".join(printed)

    def _line(self, deadline: float, command: str) -> str:
        assert self.process.stdout is not None
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no end within {COMMAND_SECONDS_MAX} s: {command}\n{self._pending.decode()}"
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, f"the shell ended: {command}"
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode()


@contextmanager
def opened_shell(folder: Path, programs: Sequence[Path] = ()) -> Iterator[Shell]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SEALBOOK_")}
    path = os.pathsep.join([sysconfig.get_path("scripts"), *map(str, programs), os.environ["PATH"]])
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc"],
        cwd=folder,
        env=kept | {"PATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            yield Shell(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the shell and what it started
