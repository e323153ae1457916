"""A log that went public through the command line, and parties that are asked about it in JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from published_log import publish, witness_signer

from sealbook.cli.main import cli
from sealbook.journal import Journal, entries
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry
from sealbook.merkle.keys import Algorithm
from sealbook.merkle.proof_file import ProofFile
from sealbook.merkle.tree import Node

SIZES = (3, 260, 300)  # published one after another: across the first full tile
WITNESSES = (witness_signer("w1.example"), witness_signer("w2.example", Algorithm.MLDSA44_COSIGNATURE))


@dataclass(frozen=True)
class Public:
    """What outsiders have of the log: the folder of tiles, the signed checkpoints, and proof files."""

    origin: str
    tiles: Path
    notes: dict[int, bytes]
    checkpoints: dict[int, Checkpoint]
    proofs: dict[int, ProofFile]  # by index, in the log of the largest size
    leaves: tuple[bytes, ...]
    nodes: dict[Node, bytes]
    records: dict[int, bytes]  # the files of the runs that have proof files

    @property
    def size(self) -> int:
        return len(self.leaves)

    @property
    def root(self) -> bytes:
        return self.checkpoints[self.size].root

    @property
    def note(self) -> bytes:
        return self.notes[self.size]

    def read(self, nodes: Sequence[Node]) -> list[bytes]:
        return [self.nodes[node] for node in nodes]

    def consistency(self, old: int) -> list[bytes]:
        return tree.consistency_proof(old_size=old, new_size=self.size, read=self.read)

    def proof_file(self, index: int, note: bytes) -> bytes:
        """The proof file with another checkpoint of the same text, as one with more cosignatures."""
        return ProofFile(index, self.proofs[index].proof, note).encode()

    def inclusions(self) -> list[dict[str, Any]]:
        """The proofs of the proof files, as parties are asked about them."""
        return [
            {"index": index, "leaf": self.leaves[index].hex(), "proof": [value.hex() for value in file.proof]}
            for index, file in self.proofs.items()
        ]


def go_public(folder: Path) -> Public:
    """A tenant's log of 300 sealed runs, published at three sizes with `log tiles` and `log proof`."""
    store, tiles = folder / "s", folder / "tiles"
    notes: dict[int, bytes] = {}
    checkpoints: dict[int, Checkpoint] = {}
    proofs: dict[int, ProofFile] = {}
    records: dict[int, bytes] = {}

    def run(*args: str) -> None:
        result = CliRunner().invoke(cli, ["-D", str(store), "--tenant", "acme", "--origin", "example.com", *args])
        assert result.exit_code == 0, result.output

    done = 0
    for size in SIZES:
        with Journal.open(store, create=done == 0, origin="example.com") as journal:
            tenant = journal.tenant("acme")
            while done < size:
                concluded = [entries.admitted(), entries.concluded("completed")]
                tenant.append(f"run-{done}", concluded, epoch=1, seal=True)
                done += 1
            checkpoints[size] = tenant.checkpoint()
            leaves = tenant.leaf_entries(0, size)
            notes[size] = publish(tenant, *WITNESSES)
        run("log", "tiles", "--to", str(tiles))
    for index in (0, 1, 128, 255, 256, 299):
        target = folder / f"{index}.tlog-proof"
        run("log", "proof", f"run-{index}", "-o", "tlog-proof", "--to", str(target))
        proofs[index] = ProofFile.parse(target.read_bytes())
        assert proofs[index].index == index
        run("run", f"run-{index}", "-o", "records", "--to", str(target))
        records[index] = target.read_bytes()
    hashes = [LeafEntry.decode(leaf).hash() for leaf in leaves]
    nodes = dict(tree.added(0, hashes, lambda _: []))
    return Public("example.com/acme", tiles, notes, checkpoints, proofs, tuple(leaves), nodes, records)


Ask = Callable[[dict[str, Any]], dict[str, Any]]


def asking(command: list[str], env: dict[str, str] | None = None) -> Ask:
    """A party that is asked in JSON on its standard input and answers in JSON."""

    def ask(question: dict[str, Any]) -> dict[str, Any]:
        done = subprocess.run(
            command, input=json.dumps(question), capture_output=True, text=True, timeout=300, check=False, env=env
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return ask
