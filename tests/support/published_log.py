"""A log in memory, and checkpoints of it signed by a log key and cosigned by witnesses, for tests of what is public."""

from __future__ import annotations

from collections.abc import Sequence

from sealbook.journal import Log
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import cosign
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.keys import Algorithm, NoteSigner
from sealbook.merkle.note import Note, sign_text
from sealbook.merkle.tree import Node

ORIGIN = "example.com/log"
SIGNED_AT = 1_795_939_200  # 2026-11-29T08:00:00Z


def log_signer(origin: str = ORIGIN, seed: int = 1) -> NoteSigner:
    return NoteSigner.from_seed(origin, Algorithm.ED25519, bytes([seed]) * 32)


def witness_signer(name: str, algorithm: Algorithm = Algorithm.ED25519_COSIGNATURE) -> NoteSigner:
    return NoteSigner.from_seed(name, algorithm, name.encode().ljust(32, b"\0"))


def signed_note(
    checkpoint: Checkpoint, *witnesses: NoteSigner, signer: NoteSigner | None = None, at: int = SIGNED_AT
) -> bytes:
    """The checkpoint as a signed note: the log's line, and a cosignature of each witness."""
    text = checkpoint.text()
    line = sign_text(text, signer or log_signer(checkpoint.origin))
    return Note(text, (line, *(cosign(text, at, witness) for witness in witnesses))).encode()


def publish(log: Log, *witnesses: NoteSigner, at: int = SIGNED_AT, signer: NoteSigner | None = None) -> bytes:
    """Let the log as it stands be signed, cosigned and published; the note that it hands out."""
    signer = signer or log_signer(log.origin)
    kept = log.sign_checkpoint(lambda checkpoint, consistent: [sign_text(checkpoint.text(), signer)])
    text, size = kept.checkpoint.text(), kept.checkpoint.size
    if witnesses:
        log.keep_cosignatures(size, [cosign(text, at, witness) for witness in witnesses])
    log.publish_checkpoint(size)
    note = log.published_checkpoint()
    assert note is not None
    return note


class PublishedLog:
    """A log of `size` leaves. `fork` makes other leaves out of the same numbers."""

    def __init__(self, size: int = 0, *, fork: int = 0) -> None:
        self.fork = fork
        self.entries: list[bytes] = []
        self.nodes: dict[Node, bytes] = {}
        self.grow(size)

    def grow(self, size: int) -> None:
        old = len(self.entries)
        new = [
            LeafEntry(LeafType.ANCHOR, (index + 2**64 * self.fork).to_bytes(32), index + 1, bytes(32))
            for index in range(old, size)
        ]
        self.entries += [entry.encode() for entry in new]
        self.nodes.update(tree.added(old, [entry.hash() for entry in new], self.tree_nodes))

    def leaf_entries(self, start: int, limit: int) -> list[bytes]:
        return self.entries[start : start + limit]

    def tree_nodes(self, nodes: Sequence[Node]) -> list[bytes]:
        return [self.nodes[node] for node in nodes]

    def checkpoint(self, size: int | None = None, origin: str = ORIGIN) -> Checkpoint:
        size = len(self.entries) if size is None else size
        return Checkpoint(origin, size, tree.root(size, self.tree_nodes))

    def note(self, size: int | None = None, *witnesses: NoteSigner) -> bytes:
        return signed_note(self.checkpoint(size), *witnesses)
