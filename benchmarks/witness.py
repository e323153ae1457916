"""How fast a witness answers updates, beside the same server answering an empty POST: `python benchmarks/witness.py`.

Sixteen clients over loopback, each with a connection that is kept, a log of its own and one request under way. An
update is the signed checkpoint of a log that has grown by one leaf, with the proof from the size before; all of them
are made beforehand. The empty POST goes to the same endpoint, which refuses it as malformed. Rounds of both alternate,
and the medians are compared: what else the machine does then weighs on both.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from sealbook.journal.keyring import Keyring, Purpose
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.hashing import leaf_hash
from sealbook.merkle.keys import Algorithm, Signer
from sealbook.merkle.note import Note, sign_text
from sealbook.merkle.tree import Node, added, consistency_proof, root
from sealbook.merkle.witness import AddCheckpoint

CLIENTS = 16
SIZE = 100_000  # of each log when it is first seen
NAME = "witness.example"
EMPTY = b"POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: 0\r\n\r\n"


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=150, help="of each client in each round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(measure(Path(place), options.rounds, options.requests)))


def measure(place: Path, rounds: int, requests: int) -> dict[str, object]:
    """Requests per second of both kinds, and their ratio."""
    signers = [
        Signer.from_seed(f"log{number}.example", Algorithm.ED25519, bytes([number + 1]) * 32)
        for number in range(CLIENTS)
    ]
    Keyring(place / "keys").generate(Purpose.WITNESS, NAME, created=0)
    entries = [f"vkey {signer.key}\nqpd 2147483647\ncontact none\n" for signer in signers]
    (place / "logs").write_text("logs/v0\n" + "".join(entries))
    updates = _updates(signers, rounds * requests)
    command = [sys.executable, "-m", "sealbook.cli", "witness", "serve", "--state", str(place / "state")]
    command += ["--keys", str(place / "keys"), "--key", NAME, "--logs", str(place / "logs"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        try:
            clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(CLIENTS)]
            for client, own in zip(clients, updates, strict=True):
                _ask(client, own[0], 200)
            empty, update = [], []
            for number in range(rounds):
                first = 1 + number * requests
                empty.append(_rate(clients, [[EMPTY] * requests] * CLIENTS, 400))
                update.append(_rate(clients, [own[first : first + requests] for own in updates], 200))
            for client in clients:
                client.close()
        finally:
            server.terminate()
    rates = statistics.median(empty), statistics.median(update)
    return {"empty_per_s": round(rates[0]), "updates_per_s": round(rates[1]), "ratio": round(rates[1] / rates[0], 3)}


def _updates(signers: Sequence[Signer], count: int) -> list[list[bytes]]:
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


def _rate(clients: Sequence[socket.socket], requests: Sequence[Sequence[bytes]], status: int) -> float:
    """Answers per second over all clients."""

    def run(client: socket.socket, own: Sequence[bytes]) -> None:
        for request in own:
            _ask(client, request, status)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(clients, requests, strict=True)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(map(len, requests)) / (time.perf_counter() - begun)


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


if __name__ == "__main__":
    main()
