"""Cosignatures: the signed messages to the byte, and which timestamps are taken."""

from __future__ import annotations

import pytest

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import (
    TIMESTAMP_AHEAD_SECONDS_MAX,
    TIMESTAMP_MAX,
    check_timestamp,
    cosign,
    cosign_subtree,
    ed25519_message,
    mldsa44_message,
    verify_cosignature,
    verify_subtree_cosignature,
)
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.keys import Algorithm, NoteSigner

ED25519 = NoteSigner.from_seed("w.example/a", Algorithm.ED25519_COSIGNATURE, b"\x03" * 32)
MLDSA44 = NoteSigner.from_seed("w.example/b", Algorithm.MLDSA44_COSIGNATURE, b"\x04" * 32)
LOG = NoteSigner.from_seed("example.com/log", Algorithm.ED25519, b"\x01" * 32)
ROOT = bytes(range(32))
TEXT = Checkpoint("example.com/log", 5, ROOT).text()
OTHER_TEXT = Checkpoint("example.com/log", 6, ROOT).text()


def test_the_ed25519_message_is_two_lines_and_the_text() -> None:
    # The example of tlog-cosignature.
    text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    assert ed25519_message(text, 1679315147) == b"cosignature/v1\ntime 1679315147\n" + text.encode()


def test_the_mldsa44_message_is_laid_out_as_tls_does() -> None:
    message = mldsa44_message(cosigner="w", timestamp=258, origin="lög", start=0, end=5, root=ROOT)
    assert message == (
        b"subtree/v1\n\0" + b"\x01w" + b"\0\0\0\0\0\0\x01\x02" + b"\x04l\xc3\xb6g" + bytes(8) + b"\0" * 7 + b"\5" + ROOT
    )
    longest = mldsa44_message(cosigner="w" * 255, timestamp=0, origin="l" * 255, start=4, end=6, root=ROOT)
    assert len(longest) == 12 + 256 + 8 + 256 + 8 + 8 + 32


@pytest.mark.parametrize("signer", [ED25519, MLDSA44])
def test_a_cosignature_verifies_over_its_text_and_time_and_no_other(signer: NoteSigner) -> None:
    line = cosign(TEXT, 1234, signer)
    assert verify_cosignature(signer.key, TEXT, line.signature) == 1234
    later = (1235).to_bytes(8) + line.signature[8:]
    for text, signature in ((OTHER_TEXT, line.signature), (TEXT, later)):
        with pytest.raises(VerificationError, match="does not verify"):
            verify_cosignature(signer.key, text, signature)


@pytest.mark.parametrize("signer", [ED25519, MLDSA44])
def test_a_cosignature_of_another_length_is_refused(signer: NoteSigner) -> None:
    signature = cosign(TEXT, 1234, signer).signature
    for wrong in (signature[:-1], signature + b"\0", signature[:8], b"\0"):
        with pytest.raises(VerificationError, match="bytes, not"):
            verify_cosignature(signer.key, TEXT, wrong)


def test_an_mldsa44_cosignature_names_its_cosigner_and_an_ed25519_one_does_not() -> None:
    for signer, algorithm, seed in ((ED25519, 4, b"\x03"), (MLDSA44, 6, b"\x04")):
        renamed = NoteSigner.from_seed("w.example/renamed", Algorithm(algorithm), seed * 32).key
        signature = cosign(TEXT, 1234, signer).signature
        if algorithm == 4:
            assert verify_cosignature(renamed, TEXT, signature) == 1234
        else:
            with pytest.raises(VerificationError, match="does not verify"):
                verify_cosignature(renamed, TEXT, signature)


@pytest.mark.parametrize("signer", [ED25519, MLDSA44])
def test_a_checkpoint_is_not_cosigned_at_time_0_or_beyond_the_last_one(signer: NoteSigner) -> None:
    for timestamp in (0, -1, TIMESTAMP_MAX + 1):
        with pytest.raises(Malformed, match="timestamp"):
            cosign(TEXT, timestamp, signer)
    assert verify_cosignature(signer.key, TEXT, cosign(TEXT, TIMESTAMP_MAX, signer).signature) == TIMESTAMP_MAX
    beyond = (TIMESTAMP_MAX + 1).to_bytes(8) + cosign(TEXT, 1, signer).signature[8:]
    with pytest.raises(Malformed, match="timestamp"):
        verify_cosignature(signer.key, TEXT, beyond)


def test_only_checkpoints_are_cosigned_and_only_by_cosigners() -> None:
    for text in ("note\n", TEXT + "extension\n", TEXT[:-1]):
        with pytest.raises(Malformed):
            cosign(text, 1, ED25519)
    with pytest.raises(ValueError, match="no cosigner's key"):
        cosign(TEXT, 1, LOG)
    with pytest.raises(ValueError, match="no cosigner's key"):
        verify_cosignature(LOG.key, TEXT, bytes(72))


def test_a_subtree_is_cosigned_without_a_time() -> None:
    line = cosign_subtree(origin="example.com/log", start=4, end=6, root=ROOT, signer=MLDSA44)
    assert line.signature[:8] == bytes(8)
    verify_subtree_cosignature(MLDSA44.key, line.signature, origin="example.com/log", start=4, end=6, root=ROOT)
    for start, end in ((4, 7), (0, 6)):
        with pytest.raises(VerificationError, match="does not verify"):
            verify_subtree_cosignature(
                MLDSA44.key, line.signature, origin="example.com/log", start=start, end=end, root=ROOT
            )
    with pytest.raises(VerificationError, match="timestamp 9, not 0"):
        verify_subtree_cosignature(
            MLDSA44.key, cosign(TEXT, 9, MLDSA44).signature, origin="example.com/log", start=0, end=5, root=ROOT
        )
    with pytest.raises(ValueError, match="cannot cosign a subtree"):
        cosign_subtree(origin="example.com/log", start=4, end=6, root=ROOT, signer=ED25519)


def test_ranges_that_are_no_subtree_are_refused() -> None:
    def message(start: int, end: int, timestamp: int = 0) -> bytes:
        return mldsa44_message(cosigner="w", timestamp=timestamp, origin="o", start=start, end=end, root=ROOT)

    # The definition, written down: a multiple of the smallest power of two that is not below the length.
    for start in range(20):
        for end in range(start + 1, 20):
            power = 1
            while power < end - start:
                power *= 2
            if start % power == 0:
                message(start, end)
            else:
                with pytest.raises(Malformed, match="no subtree"):
                    message(start, end)
    for start, end in ((2, 1), (-1, 1), (0, 2**63)):
        with pytest.raises(Malformed, match="expected"):
            message(start, end)
    with pytest.raises(Malformed, match="has timestamp 0"):
        message(4, 6, timestamp=1)


def test_names_origins_and_roots_that_do_not_fit_the_message_are_refused() -> None:
    good = {"cosigner": "w", "origin": "o"}
    for member in good:
        for text in ("", "x" * 256):
            with pytest.raises(Malformed, match="1 to 255 bytes"):
                mldsa44_message(**(good | {member: text}), timestamp=0, start=0, end=1, root=ROOT)
    with pytest.raises(Malformed, match="root is 32 bytes"):
        mldsa44_message(cosigner="w", origin="o", timestamp=0, start=0, end=1, root=ROOT[:31])


def test_a_timestamp_is_neither_0_nor_ahead_nor_older_than_allowed() -> None:
    now = 1_000_000
    check_timestamp(now, now=now, age_seconds_max=0)
    check_timestamp(now + TIMESTAMP_AHEAD_SECONDS_MAX, now=now)
    check_timestamp(1, now=now)
    with pytest.raises(VerificationError, match="timestamp 0"):
        check_timestamp(0, now=now)
    with pytest.raises(VerificationError, match="301 seconds ahead"):
        check_timestamp(now + TIMESTAMP_AHEAD_SECONDS_MAX + 1, now=now)
    check_timestamp(now - 60, now=now, age_seconds_max=60)
    with pytest.raises(VerificationError, match="61 seconds old"):
        check_timestamp(now - 61, now=now, age_seconds_max=60)
