"""Logs that grow and fork, a witness that answers them over loopback in a thread of this process, and its client."""

from __future__ import annotations

import http.client
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sealbook.cli.witnessing.loglist import LogFile
from sealbook.cli.witnessing.state import StateStore
from sealbook.journal.engine.port import Clock
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.hashing import leaf_hash
from sealbook.merkle.keys import Algorithm, NoteSigner
from sealbook.merkle.note import Note, sign_text
from sealbook.merkle.tree import Node, added, consistency_proof, root
from sealbook.merkle.witness import AddCheckpoint, Submission, TrustedLog, origin_key, read_request

ORIGIN = "example.com/log"
NAME = "witness.example"
WITNESS = NoteSigner.from_seed(NAME, Algorithm.ED25519_COSIGNATURE, b"\x03" * 32)
LATTICE = NoteSigner.from_seed(NAME, Algorithm.MLDSA44_COSIGNATURE, b"\x04" * 32)
STRANGER = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x09" * 32)
SHARED_LEAVES = 5  # of a log and its fork
LEAVES = 40
PATIENCE_S = 60  # until a test is given up as hanging

RECEIVED, DECIDED, COMMITTED, ANSWERED = MARKS = ("received", "decided", "committed", "answered")
"""How far a witness that is to be killed has got: requests are read; they are decided and not durable; they are durable
and nobody knows that the key has signed; their answers are about to leave or have left."""


class GrowingLog:
    """A log of 40 leaves, all of whose checkpoints it can sign and prove; a fork has other leaves after the fifth."""

    def __init__(self, origin: str = ORIGIN, *, seed: int = 1, forked: bool = False) -> None:
        self.origin = origin
        self.signer = NoteSigner.from_seed(origin, Algorithm.ED25519, bytes([seed]) * 32)
        self._nodes: dict[Node, bytes] = {}
        words = [b"%d" % number for number in range(LEAVES)]
        if forked:
            words[SHARED_LEAVES:] = [b"fork " + word for word in words[SHARED_LEAVES:]]
        self._nodes.update(added(0, [leaf_hash(word) for word in words], self._read))

    def _read(self, nodes: Sequence[Node]) -> list[bytes]:
        return [self._nodes[node] for node in nodes]

    @property
    def trusted(self) -> TrustedLog:
        return TrustedLog(self.origin, (self.signer.key,))

    def checkpoint(self, size: int) -> Checkpoint:
        return Checkpoint(self.origin, size, root(size, self._read))

    def note(self, size: int, *signers: NoteSigner) -> bytes:
        text = self.checkpoint(size).text()
        return Note(text, tuple(sign_text(text, signer) for signer in signers or (self.signer,))).encode()

    def proof(self, old: int, size: int) -> tuple[bytes, ...]:
        return tuple(consistency_proof(old_size=old, new_size=size, read=self._read))

    def request(self, old: int, size: int, *signers: NoteSigner) -> bytes:
        proof = self.proof(old, size) if old <= size else ()
        return AddCheckpoint(old, proof, self.note(size, *signers)).encode()

    def submission(self, old: int, size: int) -> Submission:
        read = read_request(self.request(old, size), {self.origin: self.trusted})
        assert isinstance(read, Submission)
        return read

    def entry(self, qpd: int = 1_000_000, signer: NoteSigner | None = None) -> str:
        key = (signer or self.signer).key
        origin = "" if key.name == self.origin else f"origin {self.origin}\n"
        return f"vkey {key}\n{origin}qpd {qpd}\ncontact nobody (at) {self.origin}\n"


@dataclass(frozen=True)
class Got:
    """An HTTP answer."""

    status: int
    media_type: str
    body: bytes
    headers: dict[str, str] = field(compare=False)


@dataclass
class Running:
    """A witness that is being served, and a client of it that keeps its connection."""

    port: int
    logs: Path
    state: StateStore

    def __post_init__(self) -> None:
        self._kept = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def post(self, body: bytes, path: str = "/add-checkpoint") -> Got:
        return self.ask("POST", path, body)

    def get(self, origin: str) -> Got:
        return self.ask("GET", f"/{origin_key(origin).hex()}/checkpoint")

    def ask(self, method: str, path: str, body: bytes | None = None) -> Got:
        return asked(self._kept, method, path, body)

    def close(self) -> None:
        self._kept.close()


def asked(connection: http.client.HTTPConnection, method: str, path: str, body: object = None, **more: object) -> Got:
    connection.request(method, path, body, **more)  # type: ignore[arg-type]
    response = connection.getresponse()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Got(response.status, headers.get("content-type", ""), response.read(), headers)


@contextmanager
def served(state: StateStore, log_file: LogFile, clock: Clock, **limits: float) -> Iterator[int]:
    """The port where this witness is served."""
    import trio

    from sealbook.cli.serving.listening import listening
    from sealbook.cli.witnessing.server import Server

    server = Server(state, log_file, clock, **limits)
    listener = listening("127.0.0.1", 0)
    port: int = listener.getsockname()[1]
    stopping: list[Callable[[], None]] = []
    ready = threading.Event()

    async def main() -> None:
        stop, token = trio.Event(), trio.lowlevel.current_trio_token()
        stopping.append(lambda: token.run_sync_soon(stop.set))
        ready.set()
        await server.serve(listener, stop.wait)

    thread = threading.Thread(target=lambda: trio.run(main), name="witness")
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield port
    finally:
        stopping[0]()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the server stops"


def kill(process: int) -> None:
    """End it, if it has not ended."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
