"""Asks aics-tlog, as JSON on standard input, about checkpoints, proofs and tiles, and lets it sign and write tiles.

It runs in the environment of aics-tlog, where nothing of ours is installed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import aics_tlog  # type: ignore[import-not-found]  # it is not installed where types are checked
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def main() -> None:
    question = json.load(sys.stdin)
    json.dump({name: WORK[name](value) for name, value in question.items()}, sys.stdout)


def verify(value: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint under a log's key and those of witnesses."""
    note = aics_tlog.parse_note(value["note"])
    keys = [aics_tlog.parse_vkey(text) for text in value["witnesses"]]
    found = aics_tlog.verify_checkpoint(
        note, aics_tlog.parse_vkey(value["log"]), keys, len(keys), expected_origin=value["origin"]
    )
    root = None if found.root is None else found.root.hex()
    return {"ok": found.ok, "size": found.size, "root": root, "witnesses": found.witnesses, "error": found.error}


def inclusions(value: dict[str, Any]) -> list[bool]:
    """Whether each proof leads to the root."""
    return [
        aics_tlog.verify_inclusion(
            aics_tlog.leaf_hash(bytes.fromhex(each["leaf"])),
            each["index"],
            value["size"],
            [bytes.fromhex(item) for item in each["proof"]],
            bytes.fromhex(value["root"]),
        )
        for each in value["inclusions"]
    ]


def consistency(value: dict[str, Any]) -> bool:
    """Whether the larger log begins with the smaller one."""
    proof = [bytes.fromhex(item) for item in value["proof"]]
    roots = (bytes.fromhex(value["old_root"]), bytes.fromhex(value["new_root"]))
    return bool(aics_tlog.verify_consistency(value["old"], value["new"], *roots, proof))


def read_tiles(value: dict[str, Any]) -> dict[str, Any]:
    """What a folder of tiles says: the root, entries, proofs."""
    reader = aics_tlog.FileSystemTileReader(value["folder"])
    size = value["size"]
    return {
        "root": aics_tlog.tree_root_from_tiles(reader, size).hex(),
        "entries": [aics_tlog.read_entry(reader, index, size).hex() for index in value["indexes"]],
        "proofs": [
            [item.hex() for item in aics_tlog.inclusion_proof_from_tiles(reader, index, size)]
            for index in value["indexes"]
        ],
        "consistency": [item.hex() for item in aics_tlog.consistency_proof_from_tiles(reader, value["old"], size)],
    }


def write_tiles(value: dict[str, Any]) -> dict[str, str]:
    """Tiles of these leaves, and a signed and cosigned checkpoint of them."""
    leaves = [bytes.fromhex(leaf) for leaf in value["leaves"]]
    aics_tlog.tiles.write_tiles(leaves, value["folder"])
    root = aics_tlog.MerkleTree(leaves).root()
    checkpoint = aics_tlog.Checkpoint(value["origin"], len(leaves), root)
    note = aics_tlog.sign_checkpoint(checkpoint, _key(1), value["origin"])
    _, line = aics_tlog.sign_cosignature(_key(2), value["cosigner"], value["at"], value["origin"], len(leaves), root)
    return {
        "note": aics_tlog.Note(note.text, (*note.signatures, line)).serialise(),
        "log": aics_tlog.format_vkey(aics_tlog.vkey_from_ed25519(value["origin"], _key(1).public_key())),
        "cosigner": aics_tlog.format_vkey(aics_tlog.cosignature_vkey(value["cosigner"], _key(2).public_key())),
    }


def submit(value: dict[str, Any]) -> dict[str, Any]:
    """A log's conversation with a witness, led by the client of aics-witness: each note in turn, or why not."""
    from aics_witness.feeder import (  # type: ignore[import-not-found]  # as above
        FeederError,
        WitnessClient,
        merge_cosignatures,
    )

    def proof(old: int, new: int) -> list[bytes]:
        return [bytes.fromhex(item) for item in value["proofs"][f"{old},{new}"]]

    answers = []
    with WitnessClient(value["url"], value["witness"], max_attempts=1) as client:
        for note in value["notes"]:
            try:
                answers.append(merge_cosignatures(note, client.submit(note, proof)).decode())
            except FeederError as error:
                answers.append(type(error).__name__)
        # One that remembers nothing begins at size 0 and is told where the witness stands.
        with WitnessClient(value["url"], value["witness"], max_attempts=1) as other:
            last = value["notes"][value["caught_up"]]
            answers.append(merge_cosignatures(last, other.submit(last, proof)).decode())
    return {"notes": answers}


def _key(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


WORK = {
    "verify": verify,
    "inclusions": inclusions,
    "consistency": consistency,
    "read_tiles": read_tiles,
    "write_tiles": write_tiles,
    "submit": submit,
}

main()
