"""Who signs: key names, key IDs, verifier keys as text, and what signs with their private halves (C2SP signed-note).

    verifier key    <name>+<key ID, 8 hex digits>+<base64 of algorithm byte and public key>
    private key     PRIVATE+KEY+<name>+<key ID>+<base64 of algorithm byte and 32-byte seed>
    key ID          SHA-256(name || 0x0A || algorithm byte || public key)[:4]

A key is known by its name and its key ID together. The key ID only selects: it is short, and anybody can make another
key with the same one, which then fails to verify. Two algorithms have key IDs of their own: ECDSA takes the hash of
the public key alone, an RFC 6962 log has its 32-byte log ID in the public key's place.

`cryptography` is imported where a signature is made or checked, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import sha256
from typing import Self

from sealbook.merkle.encoding import base64_text, check_lines, parse_base64
from sealbook.merkle.errors import Malformed, VerificationError, shown

KEY_ID_BYTES = 4
SEED_BYTES = 32  # Ed25519 (RFC 8032) and ML-DSA (FIPS 204) alike
NAME_BYTES_MAX = 255  # an ML-DSA cosignature carries the cosigner's name under one length byte
ED25519_PUBLIC_KEY_BYTES = 32
ED25519_SIGNATURE_BYTES = 64
MLDSA44_PUBLIC_KEY_BYTES = 1312
MLDSA44_SIGNATURE_BYTES = 2420

PRIVATE_KEY_PREFIX = "PRIVATE+KEY+"

# The DER of a P-256 public key up to its 64 bytes of coordinates: id-ecPublicKey, prime256v1, an uncompressed point.
_P256_PREFIX = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
_P256_PUBLIC_KEY_BYTES = len(_P256_PREFIX) + 64
assert _P256_PREFIX[1] + 2 == _P256_PUBLIC_KEY_BYTES

_KEY_ID = re.compile(r"[0-9a-f]{8}")
_SPACE_OR_PLUS = re.compile(r"[\s+]")  # \s is what str.isspace() is true of

# Edwards25519 (RFC 8032 section 5.1): -x^2 + y^2 = 1 + d x^2 y^2 modulo p.
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
# The y of a point of order 8. Points of order 1, 2, 4 and 8 are those whose y is 1, -1, 0, or plus or minus this one.
_Y_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER_Y = frozenset({0, 1, _P - 1, _Y_ORDER_8, _P - _Y_ORDER_8})


class Algorithm(IntEnum):
    """What a key signs and how: the byte that the key ID commits to."""

    ED25519 = 0x01  # over the note's text
    ECDSA = 0x02  # P-256 over the note's text; only read (Rekor v1)
    ED25519_COSIGNATURE = 0x04  # with a timestamp, over a checkpoint
    RFC6962_TREE_HEAD = 0x05  # P-256 over RFC 6962's TreeHeadSignature; only read (static-ct)
    MLDSA44_COSIGNATURE = 0x06  # ML-DSA-44, with a timestamp, over a checkpoint or a subtree


COSIGNING = frozenset({Algorithm.ED25519_COSIGNATURE, Algorithm.MLDSA44_COSIGNATURE})
"""The algorithms of witnesses."""

LOG_SIGNING = frozenset(
    {Algorithm.ED25519, Algorithm.ECDSA, Algorithm.RFC6962_TREE_HEAD, Algorithm.MLDSA44_COSIGNATURE}
)
"""The algorithms of logs. An Ed25519 cosignature is none of them: it does not commit to the name of who signs."""

_SEEDED = frozenset({Algorithm.ED25519, Algorithm.ED25519_COSIGNATURE, Algorithm.MLDSA44_COSIGNATURE})


def check_key_name(name: str) -> None:
    """signed-note: "Key names MUST be non-empty and MUST NOT contain any Unicode spaces or plus (U+002B)
    characters." """
    if not name:
        raise Malformed("key name is empty")
    if _SPACE_OR_PLUS.search(name):
        raise Malformed(f"key name has a space or a plus: {shown(name)}")
    check_lines("key name", name)
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Malformed(f"key name is not UTF-8: {shown(name)}") from error


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with the name and the purpose it stands for. Only one that could have signed can be made."""

    name: str
    algorithm: Algorithm
    public_key: bytes
    key_id: bytes = field(init=False, repr=False, compare=False)
    """The four bytes that, with the name, select this key. Worked out once: every line is held to them."""

    def __post_init__(self) -> None:
        check_key_name(self.name)
        if len(self.name.encode("utf-8")) > NAME_BYTES_MAX:
            raise Malformed(f"verifier key: name is 1 to {NAME_BYTES_MAX} bytes, not {shown(self.name)}")
        _check_public_key(self.algorithm, self.public_key)
        object.__setattr__(self, "key_id", _key_id(self.name, self.algorithm, self.public_key))

    def __str__(self) -> str:
        """The key as text."""
        return f"{self.id}+{base64_text(bytes([self.algorithm]) + self.public_key)}"

    @property
    def id(self) -> str:
        """Name and key ID as text, short enough for a message."""
        return f"{self.name}+{self.key_id.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key that `text` states. Raises `Malformed` for anything that `str()` does not write."""
        parts = text.split("+", 2)  # at the first two: base64 may hold a plus
        if len(parts) != 3:
            raise Malformed("verifier key: <name>+<key ID>+<key> expected")
        name, key_id, encoded = parts
        if not _KEY_ID.fullmatch(key_id):
            raise Malformed(f"verifier key: key ID is 8 lowercase hexadecimal digits, not {shown(key_id)}")
        data = parse_base64("verifier key: key", encoded)
        key = cls(name, _algorithm(data), data[1:])
        if key.key_id.hex() != key_id:
            raise Malformed(f"verifier key: key ID of {shown(name)} is {key.key_id.hex()}, not {key_id}")
        return key

    def check(self, message: bytes, signature: bytes) -> None:
        """The signature is this key's, over exactly this message. Raises `VerificationError` if it is not."""
        from cryptography.exceptions import InvalidSignature

        try:
            _check_signature(self.algorithm, self.public_key, message, signature)
        except (InvalidSignature, ValueError) as error:
            raise VerificationError(f"signature of {self.id} does not verify") from error


@dataclass(frozen=True, slots=True)
class SignatureLine:
    """One line under a note: who signed, and what the algorithm put there. Knowing the key is another matter."""

    name: str
    key_id: bytes
    signature: bytes

    PREFIX = "\N{EM DASH} "

    def __post_init__(self) -> None:
        check_key_name(self.name)
        if len(self.key_id) != KEY_ID_BYTES or not self.signature:
            raise Malformed(f"signature line of {shown(self.name)}: a key ID of 4 bytes and a signature expected")

    def __str__(self) -> str:
        """The line, without its newline."""
        return f"{self.PREFIX}{self.name} {base64_text(self.key_id + self.signature)}"

    @property
    def bytes_length(self) -> int:
        """How many bytes the line takes under a note, its newline included."""
        base64_length = -(-(KEY_ID_BYTES + len(self.signature)) // 3) * 4
        return len(self.PREFIX.encode()) + len(self.name.encode()) + len(" ") + base64_length + len("\n")

    @classmethod
    def parse(cls, line: str) -> Self:
        """The line, given without its newline. Raises `Malformed` for anything that `str()` does not write."""
        if not line.startswith(cls.PREFIX):
            raise Malformed("signature line: em dash and space expected at its beginning")
        name, _, encoded = line.removeprefix(cls.PREFIX).partition(" ")
        data = parse_base64("signature line: signature", encoded)
        return cls(name, data[:KEY_ID_BYTES], data[KEY_ID_BYTES:])

    def is_of(self, key: VerifierKey) -> bool:
        """signed-note: "The tuple of key name and key ID uniquely identifies the key that performed the signature"."""
        return self.name == key.name and self.key_id == key.key_id


@dataclass(frozen=True, slots=True)
class NoteSigner:
    """A verifier key and the function that signs with its private half, wherever that half is kept."""

    key: VerifierKey
    sign: Callable[[bytes], bytes] = field(repr=False, compare=False)

    @classmethod
    def from_seed(cls, name: str, algorithm: Algorithm, seed: bytes) -> Self:
        """The signer whose private half is made of the 32 bytes of `seed`. ML-DSA signatures are randomised by
        `cryptography`; those of Ed25519 depend on key and message alone."""
        if algorithm not in _SEEDED:
            raise ValueError(f"no signer for algorithm {algorithm.name}: such keys are only read")
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a seed has {SEED_BYTES} bytes, not {len(seed)}")
        public_key, sign = _private_half(algorithm, seed)
        return cls(VerifierKey(name, algorithm, public_key), sign)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The signer that a private key states. Raises `Malformed`, which never shows the text, for any other."""
        parts = text.removeprefix(PRIVATE_KEY_PREFIX).split("+", 2)
        if not text.startswith(PRIVATE_KEY_PREFIX) or len(parts) != 3:
            raise Malformed(f"private key: {PRIVATE_KEY_PREFIX}<name>+<key ID>+<key> expected")
        name, key_id, encoded = parts
        try:
            data = parse_base64("private key", encoded)
        except Malformed:
            raise Malformed("private key: the key is not canonical base64") from None
        algorithm = _algorithm(data)
        if algorithm not in _SEEDED or len(data) != 1 + SEED_BYTES:
            raise Malformed(f"private key: a seed of {SEED_BYTES} bytes for Ed25519 or ML-DSA-44 expected")
        signer = cls.from_seed(name, algorithm, data[1:])
        if signer.key.key_id.hex() != key_id:
            raise Malformed(f"private key: key ID of {shown(name)} is {signer.key.key_id.hex()}, not {shown(key_id)}")
        return signer


def private_key_text(key: VerifierKey, seed: bytes) -> str:
    """The private key as text, as `NoteSigner.parse` reads it. A secret."""
    if NoteSigner.from_seed(key.name, key.algorithm, seed).key != key:
        raise ValueError(f"the seed is not that of {key.id}")
    return f"{PRIVATE_KEY_PREFIX}{key.id}+{base64_text(bytes([key.algorithm]) + seed)}"


def _algorithm(data: bytes) -> Algorithm:
    try:
        return Algorithm(data[0])
    except (IndexError, ValueError):
        raise Malformed(f"key: algorithm 0x{data[:1].hex()} is not one that is read here") from None


def _key_id(name: str, algorithm: Algorithm, public_key: bytes) -> bytes:
    match algorithm:
        case Algorithm.ECDSA:
            committed = public_key
        case Algorithm.RFC6962_TREE_HEAD:
            # RFC 6962 section 3.2: "The SHA-256 hash of the log's public key"
            log_id = sha256(public_key).digest()
            committed = name.encode() + b"\n" + bytes([algorithm]) + log_id
        case _:
            committed = name.encode() + b"\n" + bytes([algorithm]) + public_key
    return sha256(committed).digest()[:KEY_ID_BYTES]


def _check_public_key(algorithm: Algorithm, public_key: bytes) -> None:
    match algorithm:
        case Algorithm.ED25519 | Algorithm.ED25519_COSIGNATURE:
            _check_ed25519_public_key(public_key)
        case Algorithm.ECDSA | Algorithm.RFC6962_TREE_HEAD:
            if len(public_key) != _P256_PUBLIC_KEY_BYTES or not public_key.startswith(_P256_PREFIX):
                raise Malformed("verifier key: the DER of a P-256 public key expected")
        case Algorithm.MLDSA44_COSIGNATURE:
            if len(public_key) != MLDSA44_PUBLIC_KEY_BYTES:
                raise Malformed(f"verifier key: ML-DSA-44 has {MLDSA44_PUBLIC_KEY_BYTES} bytes, not {len(public_key)}")


def _check_ed25519_public_key(public_key: bytes) -> None:
    """One encoding per point, and no point of small order, under which one signature may hold for many messages."""
    if len(public_key) != ED25519_PUBLIC_KEY_BYTES:
        raise Malformed(f"verifier key: Ed25519 has {ED25519_PUBLIC_KEY_BYTES} bytes, not {len(public_key)}")
    y = int.from_bytes(public_key, "little") & (1 << 255) - 1  # the top bit is the sign of x
    # RFC 8032 section 5.1.3: "If the resulting value is >= p, decoding fails."
    if y >= _P:
        raise Malformed(f"verifier key: not a canonical Ed25519 key: {public_key.hex()}")
    if y in _SMALL_ORDER_Y:
        raise Malformed(f"verifier key: an Ed25519 key of small order: {public_key.hex()}")
    # "… no square root exists modulo p, and decoding fails": x^2 = (y^2 - 1) / (d y^2 + 1) is a square or is not.
    x_squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P)
    if pow(x_squared, (_P - 1) // 2, _P) != 1:
        raise Malformed(f"verifier key: not a point of Ed25519's curve: {public_key.hex()}")


def _check_signature(algorithm: Algorithm, public_key: bytes, message: bytes, signature: bytes) -> None:
    match algorithm:
        case Algorithm.ED25519 | Algorithm.ED25519_COSIGNATURE:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
        case Algorithm.ECDSA | Algorithm.RFC6962_TREE_HEAD:
            from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
            from cryptography.hazmat.primitives.hashes import SHA256

            point = public_key[len(_P256_PREFIX) - 1 :]  # from the byte 04 on
            key = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
            key.verify(signature, message, ECDSA(SHA256()))
        case Algorithm.MLDSA44_COSIGNATURE:
            from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey

            MLDSA44PublicKey.from_public_bytes(public_key).verify(signature, message)


def _private_half(algorithm: Algorithm, seed: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    if algorithm is Algorithm.MLDSA44_COSIGNATURE:
        from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

        mldsa = MLDSA44PrivateKey.from_seed_bytes(seed)
        return mldsa.public_key().public_bytes_raw(), mldsa.sign
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    ed25519 = Ed25519PrivateKey.from_private_bytes(seed)
    return ed25519.public_key().public_bytes_raw(), ed25519.sign
