"""docs/witness.md, run as it stands: every line of its ```sh blocks, in one shell, with witnesses that listen."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from project import ROOT

pytestmark = pytest.mark.slow

DOCUMENT = ROOT / "docs" / "witness.md"
AICS = Path(os.environ.get("SEALBOOK_INTEROP") or ROOT / "build" / "interop") / "aics" / "bin"
COMMAND_SECONDS_MAX = 60
PORTS = ("8081", "8082", "8083")  # as the document has them; here they are whichever are free

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
EXIT = re.compile(r"  # exit (\d+)$")
LISTENS = re.compile(r"(?:listens at|listening on) http://127\.0\.0\.1:\d+")

# The third witness where aics-witness is not installed: one of ours, as the document says.
IN_ITS_PLACE = {
    "aics-witness init": "sealbook keys gen --witness w3.example.com --keys w3.keys > w3.vkey",
    "aics-witness add-log": "true",
    "aics-witness serve": "sealbook witness serve --key w3.example.com --keys w3.keys --state w3.state --logs logs.txt"
    " --listen 127.0.0.1:8083 2>> w3.log &",
}


@dataclass(frozen=True)
class Step:
    """A command of the document, and how it is told to end."""

    command: str
    exit_code: int

    @property
    def stays(self) -> bool:
        return self.command.endswith(" &")


def steps() -> list[Step]:
    found = []
    for block in BLOCK.findall(DOCUMENT.read_text(encoding="utf-8")):
        for line in block.splitlines():
            expected = EXIT.search(line)
            found.append(Step(EXIT.sub("", line), int(expected[1]) if expected else 0))
    return found


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
def opened_shell(folder: Path) -> Iterator[Shell]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SEALBOOK_")}
    path = os.pathsep.join([sysconfig.get_path("scripts"), str(AICS), os.environ["PATH"]])
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


def free_ports(count: int) -> list[str]:
    """Ports that were free just now."""
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [str(each.getsockname()[1]) for each in opened]
    finally:
        for each in opened:
            each.close()


def adapted(command: str, ports: dict[str, str]) -> str:
    """The command on these ports, and without the other party's program where it is not installed."""
    if not (AICS / "aics-witness").exists():
        command = next((ours for theirs, ours in IN_ITS_PLACE.items() if command.startswith(theirs)), command)
    return re.sub(r"127\.0\.0\.1:(\d+)", lambda found: f"127.0.0.1:{ports[found[1]]}", command)


@dataclass(frozen=True)
class Done:
    """A step as it went."""

    step: Step
    exit_code: int
    printed: str


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """The document's steps, as far as they went as they are told: after one that did not there is no other."""
    for module in ("starlette", "hypercorn", "httpx2"):
        pytest.importorskip(module, reason="the extras `serve` and `witness` are not installed")
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    done: list[Done] = []
    with opened_shell(tmp_path_factory.mktemp("session")) as shell:
        for step in steps():
            done.append(Done(step, *shell.run(adapted(step.command, ports), stays=step.stays)))
            print(f"$ {step.command}\n{done[-1].printed}")
            if done[-1].exit_code != step.exit_code:
                break
    return done


def told(session: list[Done], verb: str) -> list[str]:
    """What the commands that begin so have printed, one after the other."""
    return [each.printed for each in session if each.step.command.startswith(verb)]


def test_every_command_of_the_document_ends_as_it_is_told(session: list[Done]) -> None:
    last = session[-1]
    assert last.exit_code == last.step.exit_code, f"{last.step.command}\n{last.printed}"
    assert [each.step for each in session] == steps()


def test_what_is_published_is_told_with_its_witnesses(session: list[Done]) -> None:
    first, down, still_down, both_keys, new_key, *refused, at_last = told(session, "sealbook log publish")
    everybody = "is published, cosigned by w1, w2, w3"
    assert f"size 1 {everybody}" in first
    assert "size 3 is published, cosigned by w1, w3" in down and ": w2: " in down
    assert "size 6 is published, cosigned by w1, w3" in still_down and ": w2: " in still_down
    assert f"size 6 {everybody}" in both_keys
    assert f"size 7 {everybody}" in new_key and f"size 7 {everybody}" in at_last
    restarted, caught_up = told(session, "sealbook witness submit")
    assert f"size 1 {everybody}" in restarted and f"size 6 {everybody}" in caught_up
    assert len(refused) == 3


def test_an_older_copy_is_refused_with_the_size_that_had_been_signed_or_cosigned(session: list[Done]) -> None:
    *_, by_the_key, by_witnesses, once_more, _ = told(session, "sealbook log publish")
    assert "size 1 is not signed, because size 7 had been signed" in by_the_key
    for printed in (by_witnesses, once_more):
        assert printed.count("the witness remembers a size beyond ours: 7, ours is 1") == 3
    stopped = told(session, "sealbook witness status")[2]
    assert "STOPPED" in stopped and stopped.count("(evidence: keys/witnesses/") == 3


def test_the_auditor_counts_the_witnesses_and_refuses_what_is_older(session: list[Done]) -> None:
    first, old_proof, new_proof, older = told(session, "sealbook verify --proof")
    for printed in (first, old_proof, new_proof):
        assert "the run is whole and sealed" in printed and "cosigned by: w1, w2, w3" in printed
    assert "size 1, one of size 7 was seen before" in older


def test_the_third_witness_is_another_partys(session: list[Done]) -> None:
    if not (AICS / "aics-witness").exists():
        pytest.skip(f"no aics-witness in {AICS}, one of ours took its part: python tools/interop.py aics")
    assert "cosigned example.com/journal: size 0 -> 1" in told(session, "sealbook log publish")[0]
