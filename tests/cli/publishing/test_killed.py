"""A publisher that is killed at any moment has had one history cosigned, and what it published stays published."""

from __future__ import annotations

import hashlib
import http.server
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import publishing_world
import pytest
from publishing_world import BASE, Witness, witness

from sealbook.cli.publishing import policy_file
from sealbook.cli.publishing.memory import Memory
from sealbook.cli.publishing.publisher import verified
from sealbook.cli.publishing.signing import LogSigner
from sealbook.journal import Journal
from sealbook.journal.keyring import Keyring, Purpose
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.note import Note, open_checkpoint
from sealbook.merkle.witness import TrustedLog

pytestmark = pytest.mark.slow

SEED = 20261129
KILLS = 30
EVENTS_MAX = 25  # promises, requests, decisions and turns before a publisher is killed: three or four turns
HASHES_MAX = 8000  # a few milliseconds between the last of them and the kill


@dataclass
class Cosigner:
    """A witness over HTTP, in this process, which is not killed. It has decided as real ones do, one at a time."""

    witness: Witness
    happened: threading.Semaphore
    cosigned: set[Checkpoint] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)
    _one: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: bytes) -> tuple[int, str, bytes]:
        self.happened.release()
        with self._one:
            self.witness.now = int(time.time())
            answer = self.witness.decide(body)
            if answer.status == 200:
                assert self.witness.state is not None
                self.cosigned.add(self.witness.state.checkpoint)
            elif answer.status != 409:
                self.refused.append(answer.status)
        self.happened.release()
        return answer.status, answer.media_type, answer.body

    @contextmanager
    def served(self) -> Iterator[str]:
        """Its address."""
        cosigner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if len(body) < length:  # who asked was killed
                    return
                status, media_type, answer = cosigner.answer(body)
                with suppress(OSError):  # who asked may have been killed
                    self.send_response(status)
                    self.send_header("content-type", media_type)
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}"
            finally:
                server.shutdown()
                thread.join()


@dataclass
class Place:
    """Where the publisher that is killed keeps its things, its witnesses, and the program that brings it up."""

    folder: Path
    cosigners: tuple[Cosigner, Cosigner]
    happened: threading.Semaphore
    nursery: subprocess.Popen[str]

    def run_and_kill(self, chance: random.Random, events: int) -> list[str]:
        """How the turns of a publisher ended, until it was killed, which it is after so many events or a bit later."""
        assert self.nursery.stdin is not None and self.nursery.stdout is not None
        self.nursery.stdin.write(f"{self.folder}\t{chance.randrange(2**32)}\n")
        self.nursery.stdin.flush()
        told = self.nursery.stdout.readline()
        assert told != "gone\n", "the publisher starts on what the last kill left"
        while self.happened.acquire(blocking=False):
            pass
        turns: list[str] = []
        reader = threading.Thread(target=self._read, args=(turns,))
        reader.start()
        try:
            for _ in range(events):
                assert self.happened.acquire(timeout=20), f"the publisher goes on: {turns}"
            for _ in range(chance.randrange(HASHES_MAX)):
                hashlib.sha256(b"").digest()
        finally:
            with suppress(ProcessLookupError):
                os.kill(int(told), signal.SIGKILL)
            reader.join(20)
            assert not reader.is_alive()
        return turns

    def _read(self, turns: list[str]) -> None:
        assert self.nursery.stdout is not None
        for line in self.nursery.stdout:
            if line == "gone\n":
                return
            if line != "promised\n":
                turns.append(line.rstrip("\n"))
            self.happened.release()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    pytest.importorskip("httpx2", reason="the extra `witness` is not installed")
    ring = Keyring(tmp_path / "keys")
    key = ring.generate(Purpose.LOG, BASE, created=0, tenant="default")
    Journal.open(tmp_path / "store", create=True, origin=BASE).close()
    happened = threading.Semaphore(0)
    log = TrustedLog(BASE, (key.verifier,))
    one, two = (Cosigner(witness(name, log), happened) for name in ("w1.example", "w2.example"))
    command, pipe = (
        [sys.executable, publishing_world.__file__.replace("publishing_world", "publisher_nursery")],
        subprocess.PIPE,
    )
    with ExitStack() as stack:
        for number, cosigner in enumerate((one, two)):
            url = stack.enter_context(cosigner.served())
            vkey = str(cosigner.witness.signers[0].key)
            policy_file.add_witness(
                policy_file.default_path(ring.folder), f"w{number}", vkey, url, threshold=None, optional=False
            )
        nursery = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        yield Place(tmp_path, (one, two), happened, nursery)


def check(place: Place, published: dict[int, bytes]) -> tuple[int, int]:
    """The sizes signed and published, when all holds that must. `published` is what outsiders have got, and grows."""
    ring = Keyring(place.folder / "keys")
    policy = policy_file.required(policy_file.default_path(ring.folder))
    keys = LogSigner(ring, BASE).keys()
    assert Memory(ring.folder, BASE).stopped() is None
    with Journal.open(place.folder / "store", readonly=True, origin=BASE) as journal:
        tenant = journal.tenant()
        for size in tenant.published_sizes(0, 10_000):
            kept = tenant.signed_checkpoint(size)
            assert kept is not None and kept.note is not None
            opened = open_checkpoint(
                kept.note.encode(),
                origin=BASE,
                log_keys=keys,
                cosigner_keys=[each.witness.signers[0].key for each in place.cosigners],
            )
            assert policy.satisfied(verified(kept.note, policy)), f"size {size} was published without its quorum"
            assert published.setdefault(size, opened.checkpoint.root) == opened.checkpoint.root
        latest, signed = tenant.published_checkpoint(), tenant.signed_checkpoint()
        size = 0 if latest is None else Checkpoint.parse(Note.parse(latest).text).size
        assert size == max(published, default=0), "the latest one that was published is handed out"
        for found in set().union(*(each.cosigned for each in place.cosigners)):
            assert found.size <= tenant.checkpoint().size, "what was cosigned is in the store"
            assert found.root == tree.root(found.size, tenant.tree_nodes), "all of it is one history"
        return 0 if signed is None else signed.checkpoint.size, size


def test_no_kill_leaves_two_histories_cosigned_or_a_published_one_lost(place: Place) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    published: dict[int, bytes] = {}
    halfway = turns_told = 0
    for _ in range(KILLS):
        turns = place.run_and_kill(chance, chance.randrange(1, EVENTS_MAX))
        assert all(turn.startswith("PUBLISHED ") for turn in turns), turns
        signed, _ = check(place, published)
        for turn in turns:
            assert int(turn.split()[1]) in published, "what the publisher told of is published"
        turns_told += len(turns)
        halfway += signed not in published
    assert [each.refused for each in place.cosigners] == [[], []]
    print(f"{turns_told} turns, {len(published)} published, {halfway} kills left one signed and not published")
    assert turns_told and halfway, "publishers were killed in the middle of work"

    place.run_and_kill(chance, EVENTS_MAX)
    signed, latest = check(place, published)
    assert latest > 0
    with Journal.open(place.folder / "store", readonly=True, origin=BASE) as journal:
        assert journal.check().findings == ()
