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
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import publishing_world
import pytest
from effort import share
from publishing_world import BASE, MARKS, Witness, witness

from sealbook.cli.publishing import policy_file
from sealbook.cli.publishing.memory import Memory
from sealbook.cli.publishing.publisher import verified
from sealbook.cli.publishing.signing import LogSigner
from sealbook.journal import Journal, Tenant
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.note import Note, open_checkpoint
from sealbook.merkle.verify import verify_consistency
from sealbook.merkle.witness import TrustedLog

pytestmark = pytest.mark.slow

SEED = 20261129
KILLS = share(300)
KILLS_PER_PHASE_MIN = share(15)
EVENTS_MAX = 30  # marks, requests, decisions and turns before a publisher is killed: about two turns
AIMED_MAX = 3  # times that a publisher gets to the mark at which it is killed, where it is
PATIENCE_S = 60  # until a publisher is given up as hanging
HASHES_MAX = 8000  # a few milliseconds between the last event and the kill


@dataclass
class Cosigner:
    """A witness over HTTP, in this process, which is not killed. It has decided as real ones do, one at a time."""

    witness: Witness
    happened: threading.Semaphore
    cosigned: set[Checkpoint] = field(default_factory=set)
    """Since somebody looked."""
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
class Life:
    """The last mark that a publisher got to, and how its turns ended."""

    mark: str = ""
    turns: list[str] = field(default_factory=list)


@dataclass
class Place:
    """Where the publisher that is killed keeps its things, its witnesses, and the program that brings it up."""

    folder: Path
    cosigners: tuple[Cosigner, Cosigner]
    happened: threading.Semaphore
    nursery: subprocess.Popen[str]

    def run_and_kill(self, chance: random.Random, *, events: int = 0, mark: str = "", passes: int = 0) -> Life:
        """A publisher, which is killed after so many events or a bit later, or else at that mark."""
        assert self.nursery.stdin is not None and self.nursery.stdout is not None
        self.nursery.stdin.write(f"{self.folder}\t{chance.randrange(2**32)}\t{mark}\t{passes}\n")
        self.nursery.stdin.flush()
        told = self.nursery.stdout.readline()
        assert told.rstrip("\n").isdigit(), "the publisher starts on what the last kill left"
        while self.happened.acquire(blocking=False):
            pass
        life = Life()
        reader = threading.Thread(target=self._read, args=(life,))
        reader.start()
        try:
            for _ in range(events):
                assert self.happened.acquire(timeout=PATIENCE_S), f"the publisher goes on: {life}"
            for _ in range(chance.randrange(HASHES_MAX) if events else 0):
                hashlib.sha256(b"").digest()
        finally:
            if events:
                with suppress(ProcessLookupError):
                    os.kill(int(told), signal.SIGKILL)
            reader.join(PATIENCE_S)
            assert not reader.is_alive(), life
        return life

    def _read(self, life: Life) -> None:
        assert self.nursery.stdout is not None
        for line in self.nursery.stdout:
            word = line.rstrip("\n")
            if word == "gone":
                return
            if word in MARKS:
                life.mark = word
            else:
                life.turns.append(word)
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
    command = [sys.executable, publishing_world.__file__.replace("publishing_world", "publisher_nursery")]
    # Nobody speaks TLS here, and each publisher would read all of the system's certificates.
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    environment["SSL_CERT_DIR"] = str(tmp_path)
    with ExitStack() as stack:
        for number, cosigner in enumerate((one, two)):
            url = stack.enter_context(cosigner.served())
            vkey = str(cosigner.witness.signers[0].key)
            policy_file.add_witness(
                policy_file.default_path(ring.folder), f"w{number}", vkey, url, threshold=None, optional=False
            )
        pipe = subprocess.PIPE
        nursery = stack.enter_context(subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True))
        stack.callback(nursery.kill)
        yield Place(tmp_path, (one, two), happened, nursery)


@dataclass
class Outsiders:
    """All that anybody has ever got of the log: what witnesses cosigned, and what was published, by size."""

    place: Place
    published: dict[int, bytes] = field(default_factory=dict)
    roots: dict[int, bytes] = field(default_factory=dict)

    def look(self) -> int:
        """Take what is new, hold it to what was there before and to the store as it stands; the size last signed."""
        ring = Keyring(self.place.folder / "keys")
        assert Memory(ring.folder, BASE).stopped() is None
        with Journal.open(self.place.folder / "store", readonly=True, origin=BASE) as journal:
            tenant = journal.tenant()
            for size in tenant.published_sizes(max(self.published, default=0), 1000):
                self.published[size] = self._published_root(tenant, size)
                self._see(tenant, Checkpoint(BASE, size, self.published[size]))
            for cosigner in self.place.cosigners:
                while cosigner.cosigned:
                    self._see(tenant, cosigner.cosigned.pop())
            latest, signed = tenant.published_checkpoint(), tenant.signed_checkpoint()
        size = 0 if latest is None else Checkpoint.parse(Note.parse(latest).text).size
        assert size == max(self.published, default=0), "the latest one that was published is handed out"
        return 0 if signed is None else signed.checkpoint.size

    def compare(self) -> None:
        """All of it is one history, each two of its checkpoints, and all that was published can still be had."""
        with Journal.open(self.place.folder / "store", readonly=True, origin=BASE) as journal:
            tenant = journal.tenant()
            assert tenant.published_sizes(0, 10_000) == sorted(self.published)
            for size, root in self.published.items():
                assert self._published_root(tenant, size) == root == self.roots[size]
            for old, new in pairwise(sorted(self.roots)):  # consistency is transitive
                proof = tree.consistency_proof(old_size=old, new_size=new, read=tenant.tree_nodes)
                verify_consistency(
                    old_size=old, new_size=new, old_root=self.roots[old], new_root=self.roots[new], proof=proof
                )
            assert journal.check().findings == ()

    def _see(self, tenant: Tenant, found: Checkpoint) -> None:
        assert self.roots.setdefault(found.size, found.root) == found.root, f"two roots of size {found.size}"
        assert found.size <= tenant.checkpoint().size, "what was cosigned is in the store"
        assert found.root == tree.root(found.size, tenant.tree_nodes), "and begins the log as it stands"

    def _published_root(self, tenant: Tenant, size: int) -> bytes:
        ring = Keyring(self.place.folder / "keys")
        policy = policy_file.required(policy_file.default_path(ring.folder))
        kept = tenant.signed_checkpoint(size)
        assert kept is not None and kept.note is not None
        cosigners = [each.witness.signers[0].key for each in self.place.cosigners]
        keys = LogSigner(ring, BASE).keys()
        opened = open_checkpoint(kept.note.encode(), origin=BASE, log_keys=keys, cosigner_keys=cosigners)
        assert policy.satisfied(verified(kept.note, policy)), f"size {size} was published without its quorum"
        return opened.checkpoint.root


def test_no_kill_leaves_two_histories_cosigned_or_a_published_one_lost(place: Place) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    outsiders = Outsiders(place)
    phases: Counter[str] = Counter()
    halfway = turns = 0
    for _ in range(KILLS):
        if chance.random() < 0.5:
            life = place.run_and_kill(chance, events=chance.randrange(1, EVENTS_MAX))
        else:
            mark = chance.choice(MARKS)
            life = place.run_and_kill(chance, mark=mark, passes=chance.randrange(1, AIMED_MAX))
            assert life.mark == mark
        assert all(turn.startswith("PUBLISHED ") for turn in life.turns), life
        signed = outsiders.look()
        assert {int(turn.split()[1]) for turn in life.turns} <= outsiders.published.keys(), "what was told of is there"
        phases[life.mark] += 1
        turns += len(life.turns)
        halfway += signed not in outsiders.published
    assert [each.refused for each in place.cosigners] == [[], []]
    print(f"killed when {dict(phases)}; {turns} turns, {halfway} kills left one signed and not published")
    assert min(phases[mark] for mark in MARKS) >= KILLS_PER_PHASE_MIN, "kills hit every phase"
    assert turns and halfway

    place.run_and_kill(chance, events=EVENTS_MAX)
    outsiders.look()
    outsiders.compare()
