"""Cosignatures: what a witness signs about a checkpoint, to the byte, and when a timestamp is sane (C2SP
tlog-cosignature).

A cosignature says: as of this time, the largest consistent tree that I have seen for this origin has this root. In the
note it is a signature line whose signature is a timestamp, POSIX seconds as eight big-endian bytes, and then the
signature over

    Ed25519      cosignature/v1\\n
                 time <decimal>\\n
                 <the checkpoint's text>

    ML-DSA-44    offset  bytes  what
                      0     12  "subtree/v1", a newline and a zero byte
                     12  1 + n  the cosigner's name, under its length
                             8  timestamp
                         1 + n  the log's origin, under its length
                             8  start: 0 for a checkpoint
                             8  end: the checkpoint's size
                            32  root of the leaves from start up to and without end

The Ed25519 message does not name its cosigner, so that key must never serve a second name or purpose.
"""

from __future__ import annotations

import struct

from sealbook.merkle.checkpoint import ORIGIN_BYTES_MAX, Checkpoint
from sealbook.merkle.errors import Malformed, VerificationError, shown
from sealbook.merkle.hashing import HASH_BYTES, SIZE_MAX
from sealbook.merkle.keys import (
    COSIGNING,
    ED25519_SIGNATURE_BYTES,
    MLDSA44_SIGNATURE_BYTES,
    NAME_BYTES_MAX,
    Algorithm,
    NoteSigner,
    SignatureLine,
    VerifierKey,
)

TIMESTAMP_MAX = 2**63 - 1  # tlog-cosignature: "It MUST NOT exceed 2^63 - 1"
TIMESTAMP_AHEAD_SECONDS_MAX = 300  # how far a witness's clock may run before ours
TIMESTAMP_BYTES = 8

_SUBTREE_LABEL = b"subtree/v1\n\0"
assert len(_SUBTREE_LABEL) == 12
assert NAME_BYTES_MAX == ORIGIN_BYTES_MAX == 2**8 - 1

_SIGNATURE_BYTES = {
    Algorithm.ED25519_COSIGNATURE: ED25519_SIGNATURE_BYTES,
    Algorithm.MLDSA44_COSIGNATURE: MLDSA44_SIGNATURE_BYTES,
}
assert _SIGNATURE_BYTES.keys() == COSIGNING


def ed25519_message(text: str, timestamp: int) -> bytes:
    """What an Ed25519 cosignature signs: two lines and the checkpoint's whole text."""
    _check_timestamp(timestamp)
    return f"cosignature/v1\ntime {timestamp}\n{text}".encode()


def mldsa44_message(*, cosigner: str, timestamp: int, origin: str, start: int, end: int, root: bytes) -> bytes:
    """What an ML-DSA-44 cosignature signs about the leaves from `start` up to and without `end`."""
    _check_timestamp(timestamp)
    # "If start is not zero, timestamp MUST be zero."
    if start != 0 and timestamp != 0:
        raise Malformed(f"cosignature: a subtree that starts at {start} has timestamp 0, not {timestamp}")
    _check_subtree(start, end)
    if len(root) != HASH_BYTES:
        raise Malformed(f"cosignature: root is {HASH_BYTES} bytes, not {len(root)}")
    return b"".join(
        [
            _SUBTREE_LABEL,
            _under_length("cosigner's name", cosigner),
            struct.pack(">Q", timestamp),
            _under_length("origin", origin),
            struct.pack(">QQ", start, end),
            root,
        ]
    )


def cosign(text: str, timestamp: int, signer: NoteSigner) -> SignatureLine:
    """The signer's cosignature of the checkpoint with this text. Whether it may be given is decided in `witness`."""
    checkpoint = Checkpoint.parse(text)
    if timestamp == 0:
        raise Malformed("cosignature: a checkpoint is cosigned at a time, not at timestamp 0")
    return _line(signer, timestamp, _message(signer.key, checkpoint, timestamp))


def verify_cosignature(key: VerifierKey, text: str, signature: bytes) -> int:
    """The timestamp of the key's cosignature of the checkpoint with this text. `signature` is what follows the key ID.
    The timestamp is as signed: whether it is sane, `check_timestamp` says."""
    timestamp, value = _parted(key, signature)
    key.check(_message(key, Checkpoint.parse(text), timestamp), value)
    return timestamp


def cosign_subtree(*, origin: str, start: int, end: int, root: bytes, signer: NoteSigner) -> SignatureLine:
    """The signer's ML-DSA-44 cosignature, without a time, of the leaves from `start` up to and without `end`."""
    return _line(signer, 0, _subtree_message(signer.key, origin, start, end, root))


def verify_subtree_cosignature(
    key: VerifierKey, signature: bytes, *, origin: str, start: int, end: int, root: bytes
) -> None:
    """The signature, which follows the key ID, is the key's for these leaves. Raises `VerificationError` if not."""
    timestamp, value = _parted(key, signature)
    if timestamp != 0:
        raise VerificationError(f"subtree cosignature of {key.id} has timestamp {timestamp}, not 0")
    key.check(_subtree_message(key, origin, start, end, root), value)


def check_timestamp(timestamp: int, *, now: int, age_seconds_max: int | None = None) -> None:
    """The timestamp of a checkpoint's cosignature is sane as of `now`, all in POSIX seconds: not 0, not ahead of us by
    more than clocks differ, and, where an age is given, not older."""
    if timestamp == 0:
        raise VerificationError("cosignature has timestamp 0: it makes no claim of freshness")
    # "verifiers MAY reject cosignatures with timestamps in the future"
    if timestamp > now + TIMESTAMP_AHEAD_SECONDS_MAX:
        raise VerificationError(f"cosignature has timestamp {timestamp}, {timestamp - now} seconds ahead of {now}")
    if age_seconds_max is not None and timestamp < now - age_seconds_max:
        raise VerificationError(
            f"cosignature has timestamp {timestamp}, {now - timestamp} seconds old, the limit is {age_seconds_max}"
        )


def _message(key: VerifierKey, checkpoint: Checkpoint, timestamp: int) -> bytes:
    match key.algorithm:
        case Algorithm.ED25519_COSIGNATURE:
            return ed25519_message(checkpoint.text(), timestamp)
        case Algorithm.MLDSA44_COSIGNATURE:
            return mldsa44_message(
                cosigner=key.name,
                timestamp=timestamp,
                origin=checkpoint.origin,
                start=0,
                end=checkpoint.size,
                root=checkpoint.root,
            )
        case _:
            raise ValueError(f"{key.id} is no cosigner's key: {key.algorithm.name}")


def _subtree_message(key: VerifierKey, origin: str, start: int, end: int, root: bytes) -> bytes:
    if key.algorithm is not Algorithm.MLDSA44_COSIGNATURE:
        raise ValueError(f"{key.id} cannot cosign a subtree: {key.algorithm.name}")
    return mldsa44_message(cosigner=key.name, timestamp=0, origin=origin, start=start, end=end, root=root)


def _line(signer: NoteSigner, timestamp: int, message: bytes) -> SignatureLine:
    signature = struct.pack(">Q", timestamp) + signer.sign(message)
    return SignatureLine(signer.key.name, signer.key.key_id, signature)


def _parted(key: VerifierKey, signature: bytes) -> tuple[int, bytes]:
    """Timestamp and signature proper."""
    if key.algorithm not in COSIGNING:
        raise ValueError(f"{key.id} is no cosigner's key: {key.algorithm.name}")
    expected = TIMESTAMP_BYTES + _SIGNATURE_BYTES[key.algorithm]
    if len(signature) != expected:
        raise VerificationError(f"cosignature of {key.id} has {len(signature)} bytes, not {expected}")
    timestamp = int.from_bytes(signature[:TIMESTAMP_BYTES])
    _check_timestamp(timestamp)
    return timestamp, signature[TIMESTAMP_BYTES:]


def _check_timestamp(timestamp: int) -> None:
    if not 0 <= timestamp <= TIMESTAMP_MAX:
        raise Malformed(f"cosignature: timestamp is 0 to {TIMESTAMP_MAX}, not {shown(timestamp)}")


def _check_subtree(start: int, end: int) -> None:
    """draft-ietf-plants-merkle-tree-certs: [start, end) is a subtree when start is a multiple of the smallest power of
    two that is not below its length."""
    if not 0 <= start <= end <= SIZE_MAX:
        raise Malformed(f"cosignature: 0 <= start <= end <= {SIZE_MAX} expected, not {shown(start)} and {shown(end)}")
    if start != end and start % (1 << (end - start - 1).bit_length()) != 0:
        raise Malformed(f"cosignature: leaves {start} to {end} are no subtree")


def _under_length(what: str, text: str) -> bytes:
    data = text.encode("utf-8")
    if not 1 <= len(data) <= NAME_BYTES_MAX:
        raise Malformed(f"cosignature: {what} is 1 to {NAME_BYTES_MAX} bytes, not {len(data)}")
    return bytes([len(data)]) + data
