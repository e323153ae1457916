"""How fast a witness answers updates, beside the same server answering an empty POST.

Sixteen clients over loopback, each with a connection that is kept, a log of its own and one request under way. An
update is the signed checkpoint of a log that has grown by one leaf, with the proof from the size before; all of them
are made beforehand. The empty POST goes to the same endpoint, which refuses it as malformed. Short rounds of both
alternate, and the ratio is the median of theirs: what else the machine does then weighs on both.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.rounds import Scale, rate, ratio, say
from benchmarks.table import Row
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.hashing import leaf_hash
from sealbook.merkle.keys import Algorithm, NoteSigner
from sealbook.merkle.note import Note, sign_text
from sealbook.merkle.tree import Node, added, consistency_proof, root
from sealbook.merkle.witness import AddCheckpoint

CLIENTS = 16
REQUESTS = 60  # of each client in a round
SIZE = 100_000  # of each log when it is first seen
NAME = "witness.example"
EMPTY = b"POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: 0\r\n\r\n"


def witness_server(folder: Path, scale: Scale) -> list[Row]:
    """Updates answered by a witness in a process of its own, beside empty requests that it refuses."""
    say(f"a witness and {CLIENTS} clients")
    rounds = max(3, scale.rounds // 4)
    signers = [
        NoteSigner.from_seed(f"log{number}.example", Algorithm.ED25519, bytes([number + 1]) * 32)
        for number in range(CLIENTS)
    ]
    Keyring(folder / "witness-keys").generate(Purpose.WITNESS, NAME, created=0)
    listed = [f"vkey {signer.key}\nqpd 2147483647\ncontact none\n" for signer in signers]
    (folder / "logs").write_text("logs/v0\n" + "".join(listed))
    updates = _updates(signers, rounds * REQUESTS)
    with _serving(folder) as port:
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(CLIENTS)]
        for client, own in zip(clients, updates, strict=True):
            _ask(client, own[0], 200)
        empty, update = [], []
        for first in range(1, rounds * REQUESTS, REQUESTS):
            empty.append(_seconds(clients, [[EMPTY] * REQUESTS] * CLIENTS, 400))
            update.append(_seconds(clients, [own[first : first + REQUESTS] for own in updates], 200))
        for client in clients:
            client.close()
    return [
        Row(
            f"updates answered by a witness, {CLIENTS} clients",
            "empty POSTs refused by the same server",
            rate(update, CLIENTS * REQUESTS),
            rate(empty, CLIENTS * REQUESTS),
            ratio(empty, update),
            at_least=0.4,
        )
    ]


@contextmanager
def _serving(folder: Path) -> Iterator[int]:
    """The port of the witness whose keys and log list stand in this folder."""
    command = [sys.executable, "-m", "sealbook.cli", "witness", "serve", "--state", str(folder / "state")]
    command += ["--keys", str(folder / "witness-keys"), "--key", NAME, "--logs", str(folder / "logs")]
    command += ["--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline().rsplit(":", 1)[1])
        finally:
            server.terminate()


def _updates(signers: Sequence[NoteSigner], count: int) -> list[list[bytes]]:
    """For each log its requests in order: the first one, and `count` that grow by a leaf."""
    stored: dict[Node, bytes] = {}

    def read(nodes: Sequence[Node]) -> list[bytes]:
        return [stored[node] for node in nodes]

    stored.update(added(0, [leaf_hash(b"%d" % number) for number in range(SIZE + count)], read))
    requests: list[list[bytes]] = [[] for _ in signers]
    old = 0
    for size in range(SIZE, SIZE + count + 1):
        proof = tuple(consistency_proof(old_size=old, new_size=size, read=read))
        head = root(size, read)
        for signer, own in zip(signers, requests, strict=True):
            text = Checkpoint(signer.key.name, size, head).text()
            body = AddCheckpoint(old, proof, Note(text, (sign_text(text, signer),)).encode()).encode()
            own.append(b"POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        old = size
    return requests


def _seconds(clients: Sequence[socket.socket], requests: Sequence[Sequence[bytes]], status: int) -> float:
    """How long it takes until all clients have all their answers."""

    def run(client: socket.socket, own: Sequence[bytes]) -> None:
        for request in own:
            _ask(client, request, status)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(clients, requests, strict=True)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begun


def _ask(client: socket.socket, request: bytes, status: int) -> None:
    """Send a request and read its whole answer."""
    client.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += client.recv(65536)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += client.recv(65536)
    if int(head.split()[1]) != status:
        raise SystemExit(f"status {status} expected, not {head!r} {body!r}")
