"""Signed notes: a text and the signature lines under it, and checkpoints as such notes (C2SP signed-note).

    <text, ends with a newline; may have empty lines>
    <empty line: the last one of the note>
    — <key name> <base64 of key ID and signature>      one line or more

What `open_note` promises:

- Rule 1: a line of an unknown key is ignored, even if its name or its key ID alone is that of a known key.
- Rule 2: a line of a known key must verify; one that does not rejects the whole note.
- Rule 3: a note under which no known key has a line is rejected.
- Rule 4: a known key counts once, however many lines it has. Each of them is held to Rule 2, where x/mod checks only
  the first and C2SP issue 257 would refuse all: no reader then takes a line for good that another one refused.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import verify_cosignature
from sealbook.merkle.encoding import check_lines, parse_utf8
from sealbook.merkle.errors import Malformed, VerificationError, shown
from sealbook.merkle.keys import COSIGNING, LOG_SIGNING, Algorithm, NoteSigner, SignatureLine, VerifierKey

NOTE_BYTES_MAX = 1_000_000  # 100 lines of ML-DSA-44 are a third of it
SIGNATURE_LINES_MAX = 100  # as in golang.org/x/mod; signed-note: "MUST accept at least up to 16 signatures"
assert SIGNATURE_LINES_MAX * 3_600 < NOTE_BYTES_MAX / 2


@dataclass(frozen=True, slots=True)
class Note:
    """A text and its signature lines, none of them verified. Only a note that has its bytes can be made."""

    text: str
    lines: tuple[SignatureLine, ...]

    def __post_init__(self) -> None:
        check_lines("note", self.text)
        if not self.text.endswith("\n"):
            raise Malformed("note: the text ends with a newline")
        if not 1 <= len(self.lines) <= SIGNATURE_LINES_MAX:
            raise Malformed(f"note: 1 to {SIGNATURE_LINES_MAX} signature lines, not {len(self.lines)}")
        try:
            length = len(self.text.encode()) + len("\n") + sum(line.bytes_length for line in self.lines)
        except UnicodeEncodeError as error:
            raise Malformed("note: not UTF-8") from error
        if length > NOTE_BYTES_MAX:
            raise Malformed(f"note: at most {NOTE_BYTES_MAX} bytes, not {length}")

    def encode(self) -> bytes:
        """The bytes of the note."""
        return f"{self.text}\n{lines_text(self.lines)}".encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The note that `data` is. Raises `Malformed` for anything that `encode()` does not write."""
        if len(data) > NOTE_BYTES_MAX:
            raise Malformed(f"note: at most {NOTE_BYTES_MAX} bytes, not {len(data)}")
        message = parse_utf8("note", data)
        check_lines("note", message)
        # signed-note: "the text is separated from the signatures by the last empty line in the note"
        text, separator, block = message.rpartition("\n\n")
        if not separator:
            raise Malformed("note: no empty line before the signatures")
        return cls(text + "\n", parse_lines(block))

    def of(self, keys: Collection[VerifierKey]) -> Self:
        """The note with the lines of these keys only, verified or not: what a log submits, what a witness keeps."""
        return type(self)(self.text, tuple(line for line in self.lines if any(line.is_of(key) for key in keys)))

    def adding(self, lines: Iterable[SignatureLine]) -> Self:
        """The note with these lines as well. A line takes the place of an earlier one of the same key."""
        merged = {(line.name, line.key_id): line for line in (*self.lines, *lines)}
        return type(self)(self.text, tuple(merged.values()))


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature line that verified, the key it is of, and the POSIX seconds it states if it is a cosignature."""

    key: VerifierKey
    line: SignatureLine
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint that its log signed, with every signature that verified and the note as it was read."""

    checkpoint: Checkpoint
    note: Note
    log_signatures: tuple[Signature, ...]
    cosignatures: tuple[Signature, ...]


def lines_text(lines: Iterable[SignatureLine]) -> str:
    """The lines as they stand under a note and in a witness's answer."""
    return "".join(f"{line}\n" for line in lines)


def parse_lines(block: str) -> tuple[SignatureLine, ...]:
    """The signature lines of a block, each with its newline."""
    if not block.endswith("\n"):
        raise Malformed("note: signature lines, each with its newline, expected")
    lines = block.removesuffix("\n").split("\n")
    if len(lines) > SIGNATURE_LINES_MAX:
        raise Malformed(f"note: at most {SIGNATURE_LINES_MAX} signature lines, not {len(lines)}")
    return tuple(SignatureLine.parse(line) for line in lines)


def sign_text(text: str, signer: NoteSigner) -> SignatureLine:
    """The signer's line under a note with this text. Cosignatures are `cosignature.cosign`'s: they have a time."""
    if signer.key.algorithm is not Algorithm.ED25519:
        raise ValueError(f"{signer.key.id} does not sign plain notes: {signer.key.algorithm.name}")
    return SignatureLine(signer.key.name, signer.key.key_id, signer.sign(text.encode()))


def verify_line(key: VerifierKey, text: str, line: SignatureLine) -> Signature:
    """The line is the key's signature of this text. Raises `VerificationError` if it is not."""
    if not line.is_of(key):
        raise VerificationError(f"signature line of {shown(line.name)} is not of {key.id}")
    if key.algorithm in COSIGNING:
        return Signature(key, line, verify_cosignature(key, text, line.signature))
    if key.algorithm is Algorithm.RFC6962_TREE_HEAD:
        _verify_tree_head(key, text, line.signature)
    else:
        key.check(text.encode(), line.signature)
    return Signature(key, line, None)


def open_note(note: Note, keys: Iterable[VerifierKey]) -> tuple[Signature, ...]:
    """The signatures of the known keys, in the note's order. Raises `VerificationError` by Rules 2 and 3."""
    known = _by_id(keys)
    verified: dict[VerifierKey, Signature] = {}
    for line in note.lines:
        # "Verifiers MUST ignore signatures from unknown keys, even if they share a name or ID (but not both) with a
        # known key."
        key = known.get((line.name, line.key_id))
        if key is None:
            continue
        # "If the key name and ID match a known key, verifiers MUST verify the signature. If a signature from a known
        # key fails to verify, clients SHOULD reject the whole note."
        signature = verify_line(key, note.text, line)
        verified.setdefault(key, signature)
    # "If no signature from a known key verifies successfully, clients MUST reject the note."
    if not verified:
        raise VerificationError(f"no known key signed the note: {shown(note.text)}")
    return tuple(verified.values())


def open_checkpoint(
    data: bytes, *, origin: str, log_keys: Sequence[VerifierKey], cosigner_keys: Sequence[VerifierKey] = ()
) -> SignedCheckpoint:
    """The checkpoint of the log `origin`, signed by at least one of its keys. Cosignatures of the cosigners' keys are
    verified as well; whether they suffice is a policy's question.

    A key's name SHOULD be the origin and is not required to be: that of sum.golang.org is not."""
    for key in log_keys:
        if key.algorithm not in LOG_SIGNING:
            raise ValueError(f"{key.id} is no log's key: {key.algorithm.name}")
    note = Note.parse(data)
    checkpoint = Checkpoint.parse(note.text)
    if checkpoint.origin != origin:
        raise VerificationError(f"checkpoint is of {shown(checkpoint.origin)}, not of {shown(origin)}")
    signatures = open_note(note, dict.fromkeys([*log_keys, *cosigner_keys]))
    by_log = tuple(signature for signature in signatures if signature.key in log_keys)
    if not by_log:
        raise VerificationError(f"no key of the log signed the checkpoint of {shown(origin)}")
    by_cosigners = tuple(signature for signature in signatures if signature.key in cosigner_keys)
    return SignedCheckpoint(checkpoint, note, by_log, by_cosigners)


def _by_id(keys: Iterable[VerifierKey]) -> dict[tuple[str, bytes], VerifierKey]:
    known: dict[tuple[str, bytes], VerifierKey] = {}
    for key in keys:
        # Two keys that one line could be of: which one would count would depend on their order.
        if known.setdefault((key.name, key.key_id), key) is not key:
            raise VerificationError(f"two keys are known as {key.id}")
    return known


def _verify_tree_head(key: VerifierKey, text: str, signature: bytes) -> None:
    """static-ct-api: the signature is a timestamp in milliseconds and RFC 6962's `TreeHeadSignature` as TLS's
    `digitally-signed`: SHA-256 (4), ECDSA (3), and the DER signature under its length."""
    checkpoint = Checkpoint.parse(text)
    timestamp, algorithms, length = signature[:8], signature[8:10], signature[10:12]
    value = signature[12:]
    if algorithms != b"\x04\x03" or int.from_bytes(length) != len(value):
        raise VerificationError(f"signature of {key.id} is no TreeHeadSignature of SHA-256 and ECDSA")
    # "digitally-signed struct { Version version; SignatureType signature_type = tree_hash; uint64 timestamp; uint64
    # tree_size; opaque sha256_root_hash[32]; } TreeHeadSignature;"
    message = b"\x00\x01" + timestamp + struct.pack(">Q", checkpoint.size) + checkpoint.root
    key.check(message, value)
