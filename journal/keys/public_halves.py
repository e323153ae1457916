"""A key's public half as text, what it says of the key, and which files a key has.

<name>-<16 hex>/        one folder per key name, 0700: the name as far as a file system takes it, and its hash
  lock                  whoever signs for the name, or changes its keys, holds it
  serving.lock          of a witness: the one process that serves under the name holds it
  <8 hex>.pem           private half, 0600: PKCS#8 in PEM, under a passphrase or not
  <8 hex>.pem.published what the key has signed (`published`)
  <8 hex>.pub           public half, the text below

sealbook key 1          what it is, and the version of this text
purpose     log         record, log or witness
name        <name>      of a log's key: the log's origin
algorithm   ed25519     or ml-dsa-44
public      <text>      verifier key of a log or witness (C2SP signed-note), public key of a record signer in hex
signer      <64 hex>    id of a record signer, as it stands in records
tenant      <tenant>    of a log's key: whose log it is, where that was said
generation  <number>    1, 2, 3 … of the keys of one name and algorithm
created     <instant>
state       active      or retired: it signs no more
signed      no          or yes: a signature may have left
bound       <32 hex>    of a witness's key: the state that remembers what it signs, from the first start on
check       <16 hex>    8 bytes of BLAKE3 of the lines above: it finds damage, not forgery
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from blake3 import blake3

from sealbook.journal.errors import Corrupt, Refused, UnknownVersion, shown
from sealbook.journal.records import instants
from sealbook.journal.records.signatures import signer_id
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.keys import Algorithm, VerifierKey

TEXT_VERSION = 1
PUBLISHED_PATTERN = "*.pem.published"
KEYS_REMEMBERED = 4096  # some kilobytes each

_SLUG_CHARACTERS_MAX = 60


class Purpose(StrEnum):
    """What a key is for. It serves no other purpose."""

    RECORD = "record"
    LOG = "log"
    WITNESS = "witness"


class KeyState(StrEnum):
    """Whether a key signs."""

    ACTIVE = "active"
    RETIRED = "retired"


ALGORITHMS = {
    Purpose.RECORD: (Algorithm.ED25519,),
    Purpose.LOG: (Algorithm.ED25519,),
    Purpose.WITNESS: (Algorithm.ED25519_COSIGNATURE, Algorithm.MLDSA44_COSIGNATURE),
}
"""The algorithms of each purpose, the common one first."""

_WORDS = {
    Algorithm.ED25519: "ed25519",
    Algorithm.ED25519_COSIGNATURE: "ed25519",
    Algorithm.MLDSA44_COSIGNATURE: "ml-dsa-44",
}


@dataclass(eq=False)
class KeyRefused(Refused):
    """The key cannot be used, made or handed out in this way."""

    key: str
    reason: str

    def __str__(self) -> str:
        return f"key {shown(self.key)}: {self.reason}"


@dataclass(eq=False)
class WrongPassphrase(KeyRefused):
    """The private half is under a passphrase, and this is not it, or none was given."""


@lru_cache(KEYS_REMEMBERED)  # each time it is made, its point is checked to be on the curve
def _verifier(name: str, algorithm: Algorithm, public_key: bytes) -> VerifierKey:
    return VerifierKey(name, algorithm, public_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The public half of a key, and where the key stands. `created` is unix milliseconds."""

    purpose: Purpose
    name: str
    algorithm: Algorithm
    public_key: bytes
    tenant: str | None
    generation: int
    created: int
    state: KeyState
    signed: bool
    bound: str | None = None

    @property
    def verifier(self) -> VerifierKey:
        """The verifier key of a log's or witness's key."""
        return _verifier(self.name, self.algorithm, self.public_key)

    @property
    def signer_id(self) -> bytes | None:
        """What names a record signer in records; None for a key of another purpose."""
        return signer_id(self.public_key) if self.purpose is Purpose.RECORD else None

    @property
    def short_id(self) -> str:
        """Eight hexadecimal digits: the key ID of C2SP signed-note, or the first of the signer's id."""
        signer = self.signer_id
        return self.verifier.key_id.hex() if signer is None else signer.hex()[:8]

    @property
    def id(self) -> str:
        """Name and short id, which select one key of a ring."""
        return f"{self.name}+{self.short_id}"

    @property
    def algorithm_word(self) -> str:
        """The algorithm as people write it."""
        return _WORDS[self.algorithm]

    @property
    def public_text(self) -> str:
        """What others are given: the verifier key, or the public key in hex."""
        return self.public_key.hex() if self.purpose is Purpose.RECORD else str(self.verifier)

    def encode(self) -> bytes:
        """The text of the public half."""
        items = [
            ("purpose", str(self.purpose)),
            ("name", self.name),
            ("algorithm", self.algorithm_word),
            ("public", self.public_text),
            *([] if self.signer_id is None else [("signer", self.signer_id.hex())]),
            *([] if self.tenant is None else [("tenant", self.tenant)]),
            ("generation", str(self.generation)),
            ("created", instants.of_millis(self.created)),
            ("state", str(self.state)),
            ("signed", "yes" if self.signed else "no"),
            *([] if self.bound is None else [("bound", self.bound)]),
        ]
        lines = f"sealbook key {TEXT_VERSION}\n" + "".join(f"{name:12}{value}\n" for name, value in items)
        return f"{lines}{'check':12}{blake3(lines.encode()).hexdigest(8)}\n".encode()

    @classmethod
    @lru_cache(KEYS_REMEMBERED)  # a log that signs reads its public halves each time, and they hardly ever change
    def parse(cls, data: bytes, where: str) -> Key:
        """The key that a public half states. `Corrupt` for anything that `encode()` does not write."""
        version = re.match(rb"sealbook key (\d{1,9})\n", data)
        if version and int(version[1]) > TEXT_VERSION:
            raise UnknownVersion(f"{where}: a newer build wrote this key")
        try:
            values = dict(line.split(maxsplit=1) for line in data.decode().split("\n")[1:-1])
            key = cls._of(values)
        except (KeyError, ValueError, OverflowError, VerificationError) as error:
            raise Corrupt(f"{where} is damaged: it is not the public half of a key") from error
        if key.encode() != data:
            raise Corrupt(f"{where} is damaged: its text or its checksum is not what it must be")
        return key

    @classmethod
    def _of(cls, values: dict[str, str]) -> Key:
        purpose = Purpose(values["purpose"])
        if purpose is Purpose.RECORD:
            verifier = VerifierKey(values["name"], Algorithm.ED25519, bytes.fromhex(values["public"]))
        else:
            verifier = VerifierKey.parse(values["public"])
        if verifier.algorithm not in ALGORITHMS[purpose]:
            raise ValueError(f"{verifier.algorithm.name} is no algorithm of a {purpose} key")
        return cls(
            purpose=purpose,
            name=verifier.name,
            algorithm=verifier.algorithm,
            public_key=verifier.public_key,
            tenant=values.get("tenant"),
            generation=int(values["generation"]),
            created=instants.parse(values["created"]) // 1000,
            state=KeyState(values["state"]),
            signed={"yes": True, "no": False}[values["signed"]],
            bound=values.get("bound"),
        )


# --- places ----------------------------------------------------------------------------------------------


def name_folder(folder: Path, name: str) -> Path:
    """Where the keys of this name stand."""
    slug = re.sub(r"[^A-Za-z0-9-]+", "_", name)[:_SLUG_CHARACTERS_MAX]
    return folder / f"{slug}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def private_path(folder: Path, key: Key) -> Path:
    """The file of the key's private half."""
    return name_folder(folder, key.name) / f"{key.short_id}.pem"


def public_path(folder: Path, key: Key) -> Path:
    """The file of the key's public half."""
    return name_folder(folder, key.name) / f"{key.short_id}.pub"


def published_path(private: Path) -> Path:
    """The file that says what the key of this private half has signed."""
    return private.with_name(f"{private.name}.published")
