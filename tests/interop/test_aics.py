"""aics-tlog reads our notes, tiles and proofs, and we read what it writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from published_log import SIGNED_AT, log_signer
from went_public import SIZES, WITNESSES, Ask, Public

from sealbook.cli.serving.tiles import FolderOfTiles
from sealbook.merkle import tree
from sealbook.merkle.keys import VerifierKey
from sealbook.merkle.note import open_checkpoint
from sealbook.merkle.tiles import EntryBundle, HashTile, decode_bundle, tile_reader

ED25519_WITNESS = WITNESSES[0]


def test_it_verifies_our_checkpoint_with_its_witness(aics: Ask, public: Public) -> None:
    value = {
        "note": public.note.decode(),
        "log": str(log_signer(public.origin).key),
        "witnesses": [str(ED25519_WITNESS.key)],
        "origin": public.origin,
    }
    answer = aics({"verify": value})["verify"]
    assert answer == {
        "ok": True,
        "size": public.size,
        "root": public.root.hex(),
        "witnesses": [ED25519_WITNESS.key.name],
        "error": None,
    }
    changed = {**value, "note": public.note.decode().replace("\n300\n", "\n301\n")}
    assert not aics({"verify": changed})["verify"]["ok"]


def test_it_accepts_our_proofs(aics: Ask, public: Public) -> None:
    good = public.inclusions()
    damaged = [{**each, "proof": ["00" * 32, *each["proof"][1:]]} for each in good]
    value = {"size": public.size, "root": public.root.hex(), "inclusions": [*good, *damaged]}
    assert aics({"inclusions": value})["inclusions"] == [True] * len(good) + [False] * len(damaged)
    for old in SIZES[:-1]:
        proof = [value.hex() for value in public.consistency(old)]
        roots = {"old_root": public.checkpoints[old].root.hex(), "new_root": public.root.hex()}
        question = {"old": old, "new": public.size, "proof": proof, **roots}
        assert aics({"consistency": question})["consistency"] is True
        assert aics({"consistency": {**question, "old_root": "00" * 32}})["consistency"] is False


def test_it_reads_our_tiles(aics: Ask, public: Public) -> None:
    indexes = list(public.proofs)
    for size in SIZES[1:]:
        value = {"folder": str(public.tiles), "size": size, "old": 3, "indexes": [0, 1, 128, 255]}
        assert aics({"read_tiles": value})["read_tiles"]["root"] == public.checkpoints[size].root.hex()
    answer = aics({"read_tiles": {**value, "indexes": indexes}})["read_tiles"]
    assert answer["entries"] == [public.leaves[index].hex() for index in indexes]
    assert answer["proofs"] == [each["proof"] for each in public.inclusions()]
    assert answer["consistency"] == [value.hex() for value in public.consistency(3)]


def test_we_read_its_tiles_checkpoint_and_cosignature(aics: Ask, public: Public, tmp_path: Path) -> None:
    value = {
        "leaves": [leaf.hex() for leaf in public.leaves],
        "folder": str(tmp_path),
        "origin": public.origin,
        "cosigner": "aics.example/w",
        "at": SIGNED_AT,
    }
    answer = aics({"write_tiles": value})["write_tiles"]
    log_key, cosigner = VerifierKey.parse(answer["log"]), VerifierKey.parse(answer["cosigner"])
    assert log_key == log_signer(public.origin).key
    note = answer["note"].encode()
    opened = open_checkpoint(note, origin=public.origin, log_keys=[log_key], cosigner_keys=[cosigner])
    assert opened.checkpoint == public.checkpoints[public.size]
    assert [(each.key, each.timestamp) for each in opened.cosignatures] == [(cosigner, SIGNED_AT)]
    folder = FolderOfTiles(tmp_path)

    def found(place: HashTile | EntryBundle) -> bytes:
        data = folder.find(place.path())
        assert data is not None
        return data

    def fetch(wanted: Sequence[HashTile]) -> list[bytes]:
        return [found(tile) for tile in wanted]

    assert tree.root(public.size, tile_reader(public.size, fetch)) == public.root
    assert decode_bundle(EntryBundle(1, 44), found(EntryBundle(1, 44))) == list(public.leaves[256:])
