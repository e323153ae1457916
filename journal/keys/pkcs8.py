"""A key's private half as it is kept: PKCS#8 in PEM, under a passphrase or not, and the line of the Go tools.

Errors show the name that they are given and nothing of the key.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, encodebytes

from sealbook.journal.errors import Corrupt, shown
from sealbook.journal.keys.public_halves import KeyRefused, WrongPassphrase
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.keys import PRIVATE_KEY_PREFIX, SEED_BYTES, Algorithm, NoteSigner

# OWASP's number for PBKDF2 with HMAC-SHA-256 (2023). What `cryptography` writes by itself has 2,048 rounds, which
# hardly slow down anybody who guesses passphrases; it reads any number.
PBKDF2_ROUNDS = 600_000
SALT_BYTES = 16
IV_BYTES = 16


def encode(algorithm: Algorithm, seed: bytes, passphrase: bytes | None, salt: bytes, iv: bytes) -> bytes:
    """The private half as PEM: PKCS#8, under the passphrase if there is one (PBES2 of RFC 8018, section 6.2)."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

    if algorithm is Algorithm.MLDSA44_COSIGNATURE:
        private: Ed25519PrivateKey | MLDSA44PrivateKey = MLDSA44PrivateKey.from_seed_bytes(seed)
    else:
        private = Ed25519PrivateKey.from_private_bytes(seed)
    encoding = serialization.Encoding.PEM if passphrase is None else serialization.Encoding.DER
    data = private.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return data if passphrase is None else _encrypted_pem(data, passphrase, salt, iv)


def is_protected(pem: bytes) -> bool:
    """Whether the private half is under a passphrase."""
    return b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in pem


def decode(pem: bytes, passphrase: bytes | None, name: str) -> tuple[bytes, bool]:
    """The 32-byte seed of a private half, and whether it is one of ML-DSA-44. A passphrase that is not needed is not
    looked at."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    protected = is_protected(pem)
    if protected and not passphrase:
        raise WrongPassphrase(name, "its private half is under a passphrase, and none was given")
    try:
        private = load_pem_private_key(pem, passphrase if protected else None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        if protected:
            raise WrongPassphrase(name, "the passphrase does not open its private half") from error
        raise Corrupt(f"key {shown(name)}: its private half is damaged: it is no PKCS#8 key in PEM") from error
    if not isinstance(private, Ed25519PrivateKey | MLDSA44PrivateKey):
        raise KeyRefused(name, "its private half is of neither Ed25519 nor ML-DSA-44")
    return private.private_bytes_raw(), isinstance(private, MLDSA44PrivateKey)


def decode_note_line(text: str, name: str) -> tuple[bytes, Algorithm]:
    """The seed and the algorithm of a private key as the Go tools write it: `PRIVATE+KEY+<name>+…`."""
    try:
        signer = NoteSigner.parse(text)
    except (VerificationError, ValueError) as error:
        raise KeyRefused(name, f"it is no private key that begins with {PRIVATE_KEY_PREFIX}") from error
    if signer.key.name != name:
        raise KeyRefused(name, f"the private key says that it is {shown(signer.key.name)}'s")
    return _last_bytes(text), signer.key.algorithm


def _last_bytes(text: str) -> bytes:
    return b64decode(text.removeprefix(PRIVATE_KEY_PREFIX).split("+", 2)[2])[-SEED_BYTES:]


def _encrypted_pem(data: bytes, passphrase: bytes, salt: bytes, iv: bytes) -> bytes:
    """RFC 5958's EncryptedPrivateKeyInfo: PBES2 with PBKDF2-HMAC-SHA-256 and AES-256-CBC, which OpenSSL reads."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    secret = hashlib.pbkdf2_hmac("sha256", passphrase, salt, PBKDF2_ROUNDS, 32)
    padder = PKCS7(128).padder()
    padded = padder.update(data) + padder.finalize()
    encryptor = Cipher(algorithms.AES256(secret), modes.CBC(iv)).encryptor()
    encrypted = encryptor.update(padded) + encryptor.finalize()
    rounds = _der(0x02, PBKDF2_ROUNDS.to_bytes(PBKDF2_ROUNDS.bit_length() // 8 + 1))
    prf = _der(0x30, _object_id("2a864886f70d0209"), b"\x05\x00")  # hmacWithSHA256
    derivation = _der(0x30, _object_id("2a864886f70d01050c"), _der(0x30, _der(0x04, salt), rounds, prf))  # PBKDF2
    scheme = _der(0x30, _object_id("60864801650304012a"), _der(0x04, iv))  # aes256-CBC
    method = _der(0x30, _object_id("2a864886f70d01050d"), _der(0x30, derivation, scheme))  # PBES2
    lines = encodebytes(_der(0x30, method, _der(0x04, encrypted)))
    return b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n" + lines + b"-----END ENCRYPTED PRIVATE KEY-----\n"


def _object_id(encoded: str) -> bytes:
    return _der(0x06, bytes.fromhex(encoded))


def _der(tag: int, *parts: bytes) -> bytes:
    """One DER element. Our longest has 200 bytes."""
    content = b"".join(parts)
    assert len(content) < 256
    length = bytes([len(content)]) if len(content) < 128 else bytes([0x81, len(content)])
    return bytes([tag]) + length + content
