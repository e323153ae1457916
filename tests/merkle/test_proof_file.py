"""Proof files: what is read, and in which order a proof is refused."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import cosign
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.hashing import EMPTY_ROOT, PROOF_HASHES_MAX, leaf_hash
from sealbook.merkle.keys import Algorithm, NoteSigner
from sealbook.merkle.note import Note, sign_text
from sealbook.merkle.policy import Policy, PolicyLog, PolicyWitness
from sealbook.merkle.proof_file import HEADER, ProofFile, check_not_rolled_back, verify_proof_file
from sealbook.merkle.tree import consistency_proof, inclusion_proof, root

ORIGIN = "example.com/log"
LOG = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x01" * 32)
WITNESS = NoteSigner.from_seed("w.example", Algorithm.ED25519_COSIGNATURE, b"\x03" * 32)
POLICY = Policy((PolicyLog(LOG.key),), (PolicyWitness("w", WITNESS.key),), (), "w")
HASH = b64encode(bytes(32)).decode()


def test_a_file_is_laid_out_as_the_specification_has_it() -> None:
    file = ProofFile(73894, (bytes(32), b"\x01" * 32), b"checkpoint\n", b"extra")
    assert file.encode() == (
        f"{HEADER}\nextra ZXh0cmE=\nindex 73894\n{HASH}\n{b64encode(bytes([1]) * 32).decode()}\n\ncheckpoint\n".encode()
    )
    assert ProofFile.parse(file.encode()) == file


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.integers(0, 2**63 - 1),
    st.lists(st.binary(min_size=32, max_size=32), max_size=5),
    st.binary(min_size=1, max_size=40) | st.none(),
    st.sampled_from(["a\n", "a\n\nb\n", "\n", "é\n"]),
)
def test_every_file_that_can_be_made_is_read_as_it_was_written(
    index: int, proof: list[bytes], extra: bytes | None, checkpoint: str
) -> None:
    file = ProofFile(index, tuple(proof), checkpoint.encode(), extra)
    assert ProofFile.parse(file.encode()) == file


def lines(*, header: str = HEADER, extra: str = "", index: str = "index 5\n", proof: str = f"{HASH}\n") -> bytes:
    return f"{header}\n{extra}{index}{proof}\ncheckpoint\n".encode()


MALFORMED = {
    "nothing": b"",
    "no header": lines(header="index 5"),
    "a later version": lines(header="c2sp.org/tlog-proof@v2"),
    "a space after the header": lines(header=HEADER + " "),
    "a carriage return after the header": lines(header=HEADER + "\r"),
    "a byte order mark": b"\xef\xbb\xbf" + lines(),
    "extra without a value": lines(extra="extra\n"),
    "empty extra data": lines(extra="extra \n"),
    "extra without padding": lines(extra="extra YQ\n"),
    "extra with stray bits": lines(extra="extra YR==\n"),
    "extra for URLs": lines(extra="extra -_8=\n"),
    "extra twice": lines(extra="extra YQ==\nextra YQ==\n"),
    "extra after the index": lines(index="index 5\nextra YQ==\n"),
    "no index": lines(index=""),
    "index twice": lines(index="index 5\nindex 5\n"),
    "an index with a sign": lines(index="index +5\n"),
    "an index below 0": lines(index="index -5\n"),
    "an index with a zero before it": lines(index="index 05\n"),
    "an index with an underscore": lines(index="index 1_0\n"),
    "an index of another script": lines(index="index ٥\n"),
    "an index of 2**63": lines(index=f"index {2**63}\n"),
    "an index of 20 digits": lines(index=f"index {10**19}\n"),
    "two spaces before the index": lines(index="index  5\n"),
    "a space after the index": lines(index="index 5 \n"),
    "a hash of 31 bytes": lines(proof=b64encode(bytes(31)).decode() + "\n"),
    "a hash of 33 bytes": lines(proof=b64encode(bytes(33)).decode() + "\n"),
    "a hash with stray bits": lines(proof=HASH[:-2] + "B=\n"),
    "a hash with a space before it": lines(proof=f" {HASH}\n"),
    "64 hashes": lines(proof=f"{HASH}\n" * 64),
    "no empty line": f"{HEADER}\nindex 5\n{HASH}\ncheckpoint\n".encode(),
    "no checkpoint": f"{HEADER}\nindex 5\n{HASH}\n\n".encode(),
    "no newline at the end": lines()[:-1],
    "carriage returns": lines().replace(b"\n", b"\r\n"),
    "a NUL in the checkpoint": lines()[:-1] + b"\0\n",
    "a byte that is no UTF-8 in the checkpoint": lines()[:-1] + b"\xff\n",
    "a byte that is no UTF-8 before it": lines(index="").replace(HEADER.encode(), b"\xff"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_refused(name: str) -> None:
    with pytest.raises(Malformed) as caught:
        ProofFile.parse(MALFORMED[name])
    assert str(caught.value).isprintable(), "the error stays on one line"


def test_the_file_that_the_malformed_ones_are_made_from_is_read() -> None:
    assert ProofFile.parse(lines(extra="extra YQ==\n")) == ProofFile(5, (bytes(32),), b"checkpoint\n", b"a")
    assert len(ProofFile.parse(lines(proof=f"{HASH}\n" * PROOF_HASHES_MAX)).proof) == PROOF_HASHES_MAX


def test_a_file_that_is_too_long_is_refused() -> None:
    with pytest.raises(Malformed, match="at most 2000000 bytes"):
        ProofFile.parse(b"\n" * 2_000_001)
    with pytest.raises(Malformed, match="at most 2000000 bytes"):
        ProofFile(0, (), b"c\n", bytes(1_600_000))


# --- Verification ---------------------------------------------------------------------------------------------------


def proof_file(tree: Any, index: int, *signers: NoteSigner, size: int | None = None) -> ProofFile:
    size = tree.size if size is None else size
    text = Checkpoint(ORIGIN, size, root(size, tree.read)).text()
    signed = [
        sign_text(text, signer) if signer.key.algorithm is Algorithm.ED25519 else cosign(text, 1000, signer)
        for signer in signers
    ]
    path = inclusion_proof(index=index, size=size, read=tree.read)
    return ProofFile(index, tuple(path), Note(text, tuple(signed)).encode())


def leaf(index: int) -> Any:
    return leaf_hash(index.to_bytes(8))


def test_a_leaf_is_proved_to_be_in_a_witnessed_tree(grow: Any) -> None:
    tree = grow(13)
    for index in range(13):
        file = ProofFile.parse(proof_file(tree, index, LOG, WITNESS).encode())
        signed = verify_proof_file(file, leaf=leaf(index), policy=POLICY, origin=ORIGIN)
        assert (signed.checkpoint.size, len(signed.cosignatures)) == (13, 1)


def test_another_leaf_index_path_or_root_is_refused(grow: Any) -> None:
    tree = grow(13)
    file = proof_file(tree, 5, LOG, WITNESS)
    flipped = (bytes([file.proof[0][0] ^ 1]) + file.proof[0][1:], *file.proof[1:])
    swapped = (file.proof[1], file.proof[0], *file.proof[2:])
    for index, proof, number in (
        (5, file.proof, 6),
        (4, file.proof, 5),
        (5 + 16, file.proof, 5),
        (13, file.proof, 5),
        (5, file.proof[:-1], 5),
        (5, (*file.proof, bytes(32)), 5),
        (5, flipped, 5),
        (5, swapped, 5),
    ):
        with pytest.raises(VerificationError):
            verify_proof_file(ProofFile(index, proof, file.checkpoint), leaf=leaf(number), policy=POLICY)


def test_signatures_are_checked_before_the_path_and_the_log_before_the_quorum(grow: Any) -> None:
    tree = grow(13)
    for signers, message in (((WITNESS,), "no key of the log signed"), ((LOG,), "quorum w is not met")):
        # The path is wrong as well: what is reported is what fails first.
        with pytest.raises(VerificationError, match=message):
            verify_proof_file(proof_file(tree, 5, *signers), leaf=leaf(6), policy=POLICY)
    file = proof_file(tree, 5, LOG, WITNESS)
    with pytest.raises(VerificationError, match=r"not of 'example\.com/other'"):
        verify_proof_file(file, leaf=leaf(6), policy=POLICY, origin="example.com/other")
    with pytest.raises(VerificationError, match="leads to root"):
        verify_proof_file(file, leaf=leaf(6), policy=POLICY)


def test_a_stored_digest_is_no_leaf(grow: Any) -> None:
    file = proof_file(grow(13), 5, LOG, WITNESS)
    with pytest.raises(TypeError, match="LeafHash"):
        verify_proof_file(file, leaf=bytes(leaf(5)), policy=POLICY)  # type: ignore[arg-type]


def test_extra_data_changes_nothing_that_is_verified(grow: Any) -> None:
    file = proof_file(grow(13), 5, LOG, WITNESS)
    with_extra = ProofFile(file.index, file.proof, file.checkpoint, b"anything")
    assert verify_proof_file(with_extra, leaf=leaf(5), policy=POLICY) == verify_proof_file(
        file, leaf=leaf(5), policy=POLICY
    )


def test_an_older_or_forked_checkpoint_than_the_last_one_seen_is_refused(grow: Any) -> None:
    tree = grow(13)
    at = {size: Checkpoint(ORIGIN, size, root(size, tree.read)) for size in range(14)}
    forked = Checkpoint(ORIGIN, 9, bytes(32))
    check_not_rolled_back(at[9], at[9])
    check_not_rolled_back(at[13], at[9])
    check_not_rolled_back(at[13], at[0], [])
    proof = consistency_proof(old_size=9, new_size=13, read=tree.read)
    check_not_rolled_back(at[13], at[9], proof)
    for accepted, seen, given_proof, message in (
        (at[8], at[9], None, "one of size 9 was seen before"),
        (forked, at[9], None, "two checkpoints of size 9"),
        (at[13], forked, proof, "old root"),
        (at[13], at[9], [], "is empty"),
        (Checkpoint("other", 13, at[13].root), at[9], None, "seen was one of"),
        (Checkpoint(ORIGIN, 0, EMPTY_ROOT), at[1], None, "one of size 1"),
    ):
        with pytest.raises(VerificationError, match=message):
            check_not_rolled_back(accepted, seen, given_proof)
