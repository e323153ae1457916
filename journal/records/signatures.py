"""Who made a record: signers, what they sign, and whether a signature holds."""

from __future__ import annotations

import hashlib
from typing import Protocol

from sealbook.journal.errors import InvalidInput

SIGNATURE_DOMAIN = b"sealbook/record/v1\0"
_PROBE = b"sealbook/probe/v1\0"  # no record's signature covers it
ED25519 = 1  # the algorithm byte of a signer id
SIGNER_BYTES = 32
SIGNATURE_BYTES = 64


class Signer(Protocol):
    """Whoever signs records: an Ed25519 key, or a device that holds one."""

    @property
    def public_key(self) -> bytes:
        """The 32 raw bytes of the public key."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The 64-byte Ed25519 signature of the message."""
        ...


def signer_id(public_key: bytes) -> bytes:
    """The name of a signer: SHA-256 of the algorithm byte and the public key."""
    return hashlib.sha256(bytes([ED25519]) + public_key).digest()


def signed_message(record_hash: bytes) -> bytes:
    """What a record's signature covers."""
    return SIGNATURE_DOMAIN + record_hash


class Ed25519Signer:
    """A signer that holds its private key in memory: the 32-byte seed of an Ed25519 key."""

    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_key: bytes = self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature of the message."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"Ed25519Signer(public_key={self.public_key.hex()})"


def check_signer(signer: Signer) -> None:
    """Have the signer sign something that is no record, once: `InvalidInput` when its signature is not its key's.

    A signer that is broken later writes what `check` then finds.
    """
    try:
        public_key = signer.public_key
        if not isinstance(public_key, bytes) or len(public_key) != 32:
            raise InvalidInput("signer", public_key, "must have an Ed25519 public key of 32 bytes")
        if not _is_signature(public_key, _PROBE, signer.sign(_PROBE)):
            raise InvalidInput("signer", public_key.hex(), "makes signatures that are not those of its public key")
    except (AttributeError, TypeError) as error:
        raise InvalidInput("signer", signer, f"is no signer: {error}") from error


def verify_signature(public_key: bytes, record_hash: bytes, signature: bytes) -> bool:
    """Whether the signature is that of this key over this record's hash."""
    return _is_signature(public_key, signed_message(record_hash), signature)


def _is_signature(public_key: bytes, message: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
