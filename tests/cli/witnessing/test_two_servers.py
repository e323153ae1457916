"""Two witnesses out of one state, by mistake or beside each other: they decide as one."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import witness_world
from witness_world import NAME, PATIENCE_S, Got, GrowingLog, asked

from sealbook.cli.witnessing.binding import read_state
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.witness import origin_key


@pytest.fixture
def ports(tmp_path: Path, log: GrowingLog) -> Iterator[list[int]]:
    """Two processes that serve one witness."""
    pytest.importorskip("starlette", reason="the extra `serve` is not installed")
    pytest.importorskip("hypercorn", reason="the extra `serve` is not installed")
    Keyring(tmp_path / "keys").generate(Purpose.WITNESS, NAME, created=0)
    (tmp_path / "logs.txt").write_text("logs/v0\n" + log.entry())
    command, pipe = [sys.executable, witness_world.__file__.replace("_world", "_nursery")], subprocess.PIPE
    asks = "\t".join(str(tmp_path / name) for name in ("keys", "state", "logs.txt")) + "\t\t0\n"
    with ExitStack() as stack:
        found = []
        for _ in range(2):
            nursery = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
            assert nursery.stdin is not None and nursery.stdout is not None
            stack.callback(nursery.kill)
            nursery.stdin.write(asks)
            nursery.stdin.flush()
            process, port = map(int, nursery.stdout.readline().split())
            stack.callback(witness_world.kill, process)
            found.append(port)
        yield found


def test_of_12_growths_to_two_servers_at_once_one_is_200_and_eleven_are_409(
    ports: list[int], log: GrowingLog, fork: GrowingLog, tmp_path: Path
) -> None:
    connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S) for port in ports * 6]
    assert asked(connections[0], "POST", "/add-checkpoint", log.request(0, 5)).status == 200
    assert asked(connections[1], "POST", "/add-checkpoint", log.request(0, 6)).body == b"5\n"
    barrier = threading.Barrier(len(connections))
    answers: dict[int, Got] = {}

    def ask(number: int) -> None:
        tree = (log, fork)[number % 3 == 0]
        barrier.wait(PATIENCE_S)
        answers[number] = asked(connections[number], "POST", "/add-checkpoint", tree.request(5, 6 + number))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    for connection in connections:
        connection.close()
    assert sorted(got.status for got in answers.values()) == [200] + [409] * 11
    (winner,) = [6 + number for number, got in answers.items() if got.status == 200]
    with read_state(tmp_path / "state") as state:
        note = state.note(origin_key(log.origin))
    assert note is not None and note.splitlines()[1] == b"%d" % winner
