"""metamorphic-log, a verifier in Rust: it opens our notes and accepts our proofs, and refuses what we refuse."""

from __future__ import annotations

from types import ModuleType

import pytest
from published_log import log_signer
from went_public import SIZES, Public

from sealbook.merkle.hashing import leaf_hash


@pytest.fixture(scope="module")
def theirs() -> ModuleType:
    module: ModuleType = pytest.importorskip("metamorphic_log", reason="metamorphic-log is not installed")
    return module


def test_it_opens_our_checkpoints(theirs: ModuleType, public: Public) -> None:
    key = str(log_signer(public.origin).key)
    for size, note in public.notes.items():
        head = theirs.checkpoint_verify(note.decode(), [key])
        assert (head.origin, head.size, head.root) == (public.origin, size, public.checkpoints[size].root)
        assert theirs.verify_signed_note(note.decode(), [key]) == 1


def test_it_refuses_another_key_and_a_changed_text(theirs: ModuleType, public: Public) -> None:
    key, other = str(log_signer(public.origin).key), str(log_signer(public.origin, 9).key)
    with pytest.raises(theirs.VerifyError):
        theirs.checkpoint_verify(public.note.decode(), [other])
    with pytest.raises(theirs.VerifyError):
        theirs.checkpoint_verify(public.note.decode().replace("\n300\n", "\n301\n"), [key])


def test_it_accepts_our_inclusion_proofs(theirs: ModuleType, public: Public) -> None:
    key = str(log_signer(public.origin).key)
    for index, file in public.proofs.items():
        leaf = leaf_hash(public.leaves[index])
        theirs.verify_inclusion(index, public.size, leaf, list(file.proof), public.root)
        theirs.checkpoint_verify_inclusion(file.checkpoint.decode(), [key], index, leaf, list(file.proof))
        for damaged in (file.proof[1:], (*file.proof, bytes(32)), (bytes(32), *file.proof[1:])):
            with pytest.raises(theirs.VerifyError):
                theirs.verify_inclusion(index, public.size, leaf, list(damaged), public.root)


def test_it_accepts_our_consistency_proofs(theirs: ModuleType, public: Public) -> None:
    key = str(log_signer(public.origin).key)
    for old in SIZES[:-1]:
        proof = public.consistency(old)
        theirs.verify_consistency(old, public.size, proof, public.checkpoints[old].root, public.root)
        older, newer = public.notes[old].decode(), public.note.decode()
        theirs.checkpoint_verify_consistency(older, newer, [key], proof)
        with pytest.raises(theirs.VerifyError):
            theirs.verify_consistency(old, public.size, proof, bytes(32), public.root)
