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
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import witness_world
from effort import share
from witness_world import LEAVES, MARKS, NAME, PATIENCE_S, SHARED_LEAVES, GrowingLog, asked

from sealbook.cli.witnessing.binding import read_state
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.keys import VerifierKey
from sealbook.merkle.note import open_checkpoint, parse_lines, verify_line
from sealbook.merkle.witness import origin_key

pytestmark = pytest.mark.slow

SEED = 20261129
KILLS = share(300)
KILLS_PER_LOG = 3
KILLS_PER_PHASE_MIN = share(15)
REQUESTS_MAX = 16  # sent to a server before it is killed
AIMED_MAX = 8  # times that a server gets to the mark at which it is killed, where it is
HASHES_MAX = 2000  # about a millisecond between the last of them and the kill


@dataclass
class Life:
    """The last mark that a witness got to, and the clients that it had."""

    mark: str = ""
    clients: list[Client] = field(default_factory=list)


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
    def served(self, life: Life, mark: str, passes: int) -> Iterator[tuple[int, int]]:
        """The witness's process and its port; it is gone at the end."""
        assert self.nursery.stdin is not None and self.nursery.stdout is not None
        words = (self.folder / "keys", self.state, self.folder / "logs.txt", mark, passes)
        self.nursery.stdin.write("\t".join(map(str, words)) + "\n")
        self.nursery.stdin.flush()
        told = self.nursery.stdout.readline()
        assert told.rstrip("\n") not in ("", "gone"), "the witness starts on the state that the last kill left"
        process, port = map(int, told.split())
        try:
            yield process, port
        finally:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            while (word := self.nursery.stdout.readline().rstrip("\n")) not in ("gone", ""):
                life.mark = word


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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
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
        try:
            yield Place(tmp_path, key.verifier, nursery)
        finally:
            nursery.kill()


def branches(number: int) -> tuple[GrowingLog, GrowingLog]:
    origin = f"log{number}.example"
    return GrowingLog(origin, seed=number + 1), GrowingLog(origin, seed=number + 1, forked=True)


def run_and_kill(
    place: Place,
    trees: tuple[GrowingLog, GrowingLog],
    chance: random.Random,
    *,
    requests: int = 0,
    mark: str = "",
    passes: int = 0,
) -> Life:
    """Two clients, each with a branch of its own, until the server is killed under them: after so many requests or a
    bit later, or else at that mark."""
    sent = threading.Semaphore(0)
    life = Life()
    with place.served(life, mark, passes) as (process, port):
        life.clients = [Client(tree, port, random.Random(chance.random()), sent) for tree in trees]
        threads = [threading.Thread(target=client.run) for client in life.clients]
        for thread in threads:
            thread.start()
        for _ in range(requests):
            assert sent.acquire(timeout=PATIENCE_S)
        for _ in range(chance.randrange(HASHES_MAX) if requests else 0):
            hashlib.sha256(b"").digest()
        if requests:
            os.kill(process, signal.SIGKILL)
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
    return life


def remembered(place: Place, origin: str, key: VerifierKey) -> tuple[int, bytes] | None:
    """Size and root of what the state says was cosigned last."""
    with read_state(place.state) as state:
        note = state.note(origin_key(origin))
    if note is None:
        return None
    kept = open_checkpoint(note, origin=origin, log_keys=[key], cosigner_keys=[place.key])
    assert len(kept.cosignatures) == 1
    return kept.checkpoint.size, kept.checkpoint.root


def test_no_kill_leaves_two_histories_cosigned_or_an_answer_forgotten(place: Place) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    logs = [branches(number) for number in range(KILLS // KILLS_PER_LOG)]
    answers, phases = 0, Counter[str]()
    last: dict[str, tuple[int, bytes] | None] = {}
    for trees in logs:
        origin, key = trees[0].origin, trees[0].signer.key
        (place.folder / "logs.txt").write_text("logs/v0\n" + trees[0].entry())
        cosigned: set[tuple[int, bytes]] = set()  # size and root
        for _ in range(KILLS_PER_LOG):
            if chance.random() < 0.5:
                life = run_and_kill(place, trees, chance, requests=chance.randrange(1, REQUESTS_MAX))
            else:
                mark = chance.choice(MARKS)
                life = run_and_kill(place, trees, chance, mark=mark, passes=chance.randrange(1, AIMED_MAX))
                assert life.mark == mark
            phases[life.mark] += 1
            for client in life.clients:
                assert client.unexpected == []
                for size, lines in client.answered:
                    (line,) = parse_lines(lines.decode())
                    verify_line(place.key, client.tree.checkpoint(size).text(), line)
                    cosigned.add((size, client.tree.checkpoint(size).root))
                answers += len(client.answered)
            last[origin] = held = remembered(place, origin, key)
            if held is None:
                assert cosigned == set()
                continue
            cosigned.add(held)
            assert held[0] == max(size for size, _ in cosigned), "what was answered is remembered"
        one_history = [
            all(root == tree.checkpoint(size).root for size, root in cosigned if size > SHARED_LEAVES) for tree in trees
        ]
        assert any(one_history), "all that was cosigned is of one branch"
    for trees in logs:
        assert remembered(place, trees[0].origin, trees[0].signer.key) == last[trees[0].origin], "and stays remembered"
    print(f"killed when {dict(phases)}; {answers} answers")
    assert min(phases[mark] for mark in MARKS) >= KILLS_PER_PHASE_MIN, "kills hit every phase"
    assert answers > KILLS, "the servers were killed in the middle of work"
