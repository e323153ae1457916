"""A witness that is killed at any moment has cosigned one history, and remembers all that it answered."""

from __future__ import annotations

import hashlib
import http.client
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import witness_world
from witness_world import LEAVES, NAME, SHARED_LEAVES, GrowingLog, asked

from sealbook.cli.witness.binding import read_state
from sealbook.journal.keyring import Keyring, Purpose
from sealbook.merkle.keys import VerifierKey
from sealbook.merkle.note import open_checkpoint, parse_lines, verify_line
from sealbook.merkle.witness import origin_key

SEED = 20261129
KILLS = 30
KILLS_PER_LOG = 3
REQUESTS_MAX = 25  # sent to a server before it is killed
HASHES_MAX = 2000  # about a millisecond between the last of them and the kill


@dataclass
class Place:
    """Where the witness that is killed keeps its things, and the program that brings it up."""

    folder: Path
    key: VerifierKey
    nursery: subprocess.Popen[str]

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @contextmanager
    def served(self) -> Iterator[tuple[int, int]]:
        """The witness's process and its port."""
        assert self.nursery.stdin is not None and self.nursery.stdout is not None
        self.nursery.stdin.write(f"{self.folder / 'keys'}\t{self.state}\t{self.folder / 'logs.txt'}\n")
        self.nursery.stdin.flush()
        told = self.nursery.stdout.readline()
        assert told != "gone\n", "the witness starts on the state that the last kill left"
        process, port = map(int, told.split())
        try:
            yield process, port
        finally:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            assert self.nursery.stdout.readline() == "gone\n"


@dataclass
class Client:
    """Submits one branch of a log, over and over, until the connection breaks."""

    tree: GrowingLog
    port: int
    chance: random.Random
    sent: threading.Semaphore
    answered: list[tuple[int, bytes]] = field(default_factory=list)
    """Sizes that were cosigned, with the lines."""
    unexpected: list[int] = field(default_factory=list)

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        old = 0
        try:
            while True:
                size = min(LEAVES, old + self.chance.choice((0, 1, 1, 2)))
                self.sent.release()
                got = asked(connection, "POST", "/add-checkpoint", self.tree.request(old, max(size, 1)))
                if got.status == 200:
                    old = max(size, 1)
                    self.answered.append((old, got.body))
                elif got.status == 409:
                    old = int(got.body)
                elif got.status != 422:
                    self.unexpected.append(got.status)
        except (OSError, http.client.HTTPException):
            connection.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    pytest.importorskip("starlette", reason="the extra `serve` is not installed")
    pytest.importorskip("hypercorn", reason="the extra `serve` is not installed")
    key = Keyring(tmp_path / "keys").generate(Purpose.WITNESS, NAME, created=0)
    command, pipe = [sys.executable, witness_world.__file__.replace("_world", "_nursery")], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as nursery:
        yield Place(tmp_path, key.verifier, nursery)


def branches(number: int) -> tuple[GrowingLog, GrowingLog]:
    origin = f"log{number}.example"
    return GrowingLog(origin, seed=number + 1), GrowingLog(origin, seed=number + 1, forked=True)


def run_and_kill(place: Place, trees: tuple[GrowingLog, GrowingLog], chance: random.Random) -> list[Client]:
    """Two clients, each with a branch of its own, until the server is killed under them."""
    sent = threading.Semaphore(0)
    with place.served() as (process, port):
        clients = [Client(tree, port, random.Random(chance.random()), sent) for tree in trees]
        threads = [threading.Thread(target=client.run) for client in clients]
        for thread in threads:
            thread.start()
        for _ in range(chance.randrange(1, REQUESTS_MAX)):
            assert sent.acquire(timeout=20)
        for _ in range(chance.randrange(HASHES_MAX)):
            hashlib.sha256(b"").digest()
        os.kill(process, signal.SIGKILL)
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    return clients


def test_no_kill_leaves_two_histories_cosigned_or_an_answer_forgotten(place: Place) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    logs = [branches(number) for number in range(KILLS // KILLS_PER_LOG)]
    (place.folder / "logs.txt").write_text("logs/v0\n" + "".join(tree.entry() for tree, _ in logs))
    answers = 0
    for trees in logs:
        cosigned: set[tuple[int, bytes]] = set()  # size and root
        for _ in range(KILLS_PER_LOG):
            clients = run_and_kill(place, trees, chance)
            for client in clients:
                assert client.unexpected == []
                for size, lines in client.answered:
                    (line,) = parse_lines(lines.decode())
                    verify_line(place.key, client.tree.checkpoint(size).text(), line)
                    cosigned.add((size, client.tree.checkpoint(size).root))
                answers += len(client.answered)
            with read_state(place.state) as state:
                note = state.note(origin_key(trees[0].origin))
            if note is None:
                assert cosigned == set()
                continue
            kept = open_checkpoint(
                note, origin=trees[0].origin, log_keys=[trees[0].signer.key], cosigner_keys=[place.key]
            )
            assert len(kept.cosignatures) == 1
            cosigned.add((kept.checkpoint.size, kept.checkpoint.root))
            assert kept.checkpoint.size == max(size for size, _ in cosigned), "what was answered is remembered"
        one_history = [
            all(root == tree.checkpoint(size).root for size, root in cosigned if size > SHARED_LEAVES) for tree in trees
        ]
        assert any(one_history), "all that was cosigned is of one branch"
    print(f"{answers} answers")
    assert answers > KILLS, "the servers were killed in the middle of work"
