"""tlog-scales: what the command line published, read from its folder; and its tiles, read by ours.

Every kind of signature, and trees of many sizes, are compared in tests/merkle/test_published_notes.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from published_log import log_signer
from went_public import SIZES, WITNESSES, Public

from sealbook.cli.serving.tiles import FolderOfTiles
from sealbook.merkle import tree
from sealbook.merkle.hashing import leaf_hash
from sealbook.merkle.note import open_checkpoint
from sealbook.merkle.tiles import EntryBundle, HashTile, decode_bundle, tile_reader
from sealbook.merkle.verify import verify_inclusion

ABSENT = "tlog-scales is not installed"


def test_it_verifies_our_checkpoints_and_cosignatures(public: Public) -> None:
    tlog = pytest.importorskip("tlog_scales.tlog", reason=ABSENT)
    signing = pytest.importorskip("tlog_scales.signing", reason=ABSENT)
    for size, note in public.notes.items():
        theirs = tlog.Checkpoint.from_text(note.decode())
        assert (theirs.origin, theirs.size, theirs.root_hash) == (public.origin, size, public.checkpoints[size].root)
        for signer in (log_signer(public.origin), *WITNESSES):
            theirs.verify(signing.Vkey.from_string(str(signer.key)))


def test_it_finds_our_roots_entries_and_proofs_in_our_folder(public: Public) -> None:
    backend = pytest.importorskip("tlog_scales.backend", reason=ABSENT)
    reader = pytest.importorskip("tlog_scales.reader", reason=ABSENT)
    theirs = reader.TilesReader(backend.LocalBackend(public.tiles))
    assert theirs.get_checkpoint().serialize().encode() == public.note
    for size in SIZES:
        theirs.set_size(size)
        assert theirs.calculate_root_hash() == public.checkpoints[size].root
    for old in SIZES[:-1]:
        assert theirs.get_consistency_proof(old, public.size).node_hashes == public.consistency(old)
    for index, file in public.proofs.items():
        assert theirs.get_entry(index) == public.leaves[index]
        assert theirs.get_inclusion_proof(index, public.size).node_hashes == list(file.proof)


def test_it_accepts_our_proofs_and_refuses_damaged_ones(public: Public) -> None:
    tlog = pytest.importorskip("tlog_scales.tlog", reason=ABSENT)
    for index, file in public.proofs.items():
        leaf = leaf_hash(public.leaves[index])
        tlog.InclusionProof(index, public.size, list(file.proof)).check(leaf, public.root)
        with pytest.raises(tlog.InclusionProofInvalid):
            tlog.InclusionProof(index, public.size, [bytes(32), *file.proof[1:]]).check(leaf, public.root)


def test_we_read_its_folder(public: Public, tmp_path: Path) -> None:
    writer = pytest.importorskip("tlog_scales.writer", reason=ABSENT)
    signing = pytest.importorskip("tlog_scales.signing", reason=ABSENT)
    signer = signing.PlainEd25519Signer(public.origin, b"\x01" * 32)
    theirs = writer.TilesWriter.create(tmp_path / "log", public.origin)
    for leaf in public.leaves:
        theirs.add_leaf(leaf)
    theirs.commit([signer])
    folder = FolderOfTiles(tmp_path / "log")

    def found(place: HashTile | EntryBundle) -> bytes:
        data = folder.find(place.path())
        assert data is not None
        return data

    def fetch(wanted: Sequence[HashTile]) -> list[bytes]:
        return [found(tile) for tile in wanted]

    note = folder.find("checkpoint")
    assert note is not None
    checkpoint = open_checkpoint(note, origin=public.origin, log_keys=[log_signer(public.origin).key]).checkpoint
    assert checkpoint == public.checkpoints[public.size]
    read = tile_reader(checkpoint.size, fetch)
    assert tree.root(checkpoint.size, read) == checkpoint.root
    bundle = EntryBundle(1, checkpoint.size - 256)
    assert decode_bundle(bundle, found(bundle)) == list(public.leaves[256:])
    for index in public.proofs:
        proof = theirs.reader.get_inclusion_proof(index, checkpoint.size).node_hashes
        leaf = leaf_hash(public.leaves[index])
        verify_inclusion(leaf=leaf, index=index, size=checkpoint.size, proof=proof, root=checkpoint.root)
