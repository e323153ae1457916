"""Proof files: a leaf's number, its path and a signed checkpoint, for who verifies offline (C2SP tlog-proof).

    c2sp.org/tlog-proof@v1\\n
    extra <base64>\\n            may be missing; nothing vouches for it
    index <decimal>\\n
    <base64 hash>\\n             the leaf's sibling first; none or more
    \\n
    <the signed checkpoint, to the end>

The file does not say which leaf it is for. Whoever verifies builds the leaf from the records in hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.encoding import base64_text, check_lines, parse_base64, parse_decimal, parse_hash, parse_utf8
from sealbook.merkle.errors import Malformed, VerificationError, shown
from sealbook.merkle.hashing import HASH_BYTES, PROOF_HASHES_MAX, SIZE_MAX, LeafHash
from sealbook.merkle.note import NOTE_BYTES_MAX, SignedCheckpoint
from sealbook.merkle.policy import Policy
from sealbook.merkle.verify import verify_consistency, verify_inclusion

HEADER = "c2sp.org/tlog-proof@v1"
PROOF_FILE_BYTES_MAX = 2 * NOTE_BYTES_MAX  # as much again for index, path and extra as for the checkpoint


@dataclass(frozen=True, slots=True)
class ProofFile:
    """What a `.tlog-proof` file holds, none of it verified. Only one that has its bytes can be made."""

    index: int
    proof: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.index <= SIZE_MAX:
            raise Malformed(f"proof file: index is 0 to {SIZE_MAX}, not {shown(self.index)}")
        if len(self.proof) > PROOF_HASHES_MAX:
            raise Malformed(f"proof file: at most {PROOF_HASHES_MAX} hashes, not {len(self.proof)}")
        if any(len(value) != HASH_BYTES for value in self.proof):
            raise Malformed(f"proof file: every hash has {HASH_BYTES} bytes")
        if not self.checkpoint.endswith(b"\n"):
            raise Malformed("proof file: the checkpoint ends with a newline")
        check_lines("proof file", parse_utf8("proof file", self.checkpoint))
        # "If no extra data is present, this line is omitted."
        if self.extra == b"":
            raise Malformed("proof file: extra data is there and empty")
        if len(self.encode()) > PROOF_FILE_BYTES_MAX:
            raise Malformed(f"proof file: at most {PROOF_FILE_BYTES_MAX} bytes")

    def encode(self) -> bytes:
        """The bytes of the file."""
        lines = [
            HEADER,
            *([] if self.extra is None else [f"extra {base64_text(self.extra)}"]),
            f"index {self.index}",
            *(base64_text(value) for value in self.proof),
            "",
        ]
        return "".join(f"{line}\n" for line in lines).encode() + self.checkpoint

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """What the file holds. Raises `Malformed` for anything that `encode()` does not write."""
        if len(data) > PROOF_FILE_BYTES_MAX:
            raise Malformed(f"proof file: at most {PROOF_FILE_BYTES_MAX} bytes, not {len(data)}")
        # No line of the proof is empty, so the first empty line is where the checkpoint begins.
        head, separator, checkpoint = data.partition(b"\n\n")
        if not separator:
            raise Malformed("proof file: no empty line before the checkpoint")
        lines = parse_utf8("proof file", head).split("\n")
        # "The first line MUST be the string `c2sp.org/tlog-proof@v1`."
        if lines.pop(0) != HEADER:
            raise Malformed(f"proof file: the first line is not {HEADER}")
        extra = None
        # "The second line MAY start with the string `extra` followed by a space (U+0020) and base64-encoded opaque
        # extra data."
        if lines and lines[0].startswith("extra "):
            extra = parse_base64("proof file: extra data", lines.pop(0).removeprefix("extra "))
        # "The next line MUST start with the string `index` followed by a space (U+0020)"
        if not lines or not lines[0].startswith("index "):
            raise Malformed("proof file: no index line")
        index = parse_decimal("proof file: index", lines.pop(0).removeprefix("index "))
        return cls(index, tuple(parse_hash("proof file: hash", line) for line in lines), checkpoint, extra)


def verify_proof_file(
    file: ProofFile, *, leaf: LeafHash, policy: Policy, origin: str | None = None
) -> SignedCheckpoint:
    """The leaf is in a log that the policy knows (`origin`, where one is given), in a tree that enough witnesses saw.
    Answers the checkpoint that shows it. Raises `VerificationError` by the first step that fails:

    1. The leaf's hash is the caller's, made from the records. A `LeafHash` is no stored digest that anybody wrote down.
    2. The checkpoint is of a known origin and signed by a key of that log.
    3. Every line of a known cosigner verifies, and the quorum is met.
    4. The path leads from the leaf to the checkpoint's root.

    Whether the checkpoint is fresh, `Policy.check_freshness` says, and whether it contradicts one accepted before,
    `check_not_rolled_back`."""
    signed = policy.open(file.checkpoint, origin=origin)
    checkpoint = signed.checkpoint
    verify_inclusion(leaf=leaf, index=file.index, size=checkpoint.size, proof=file.proof, root=checkpoint.root)
    return signed


def check_not_rolled_back(accepted: Checkpoint, seen: Checkpoint, proof: Sequence[bytes] | None = None) -> None:
    """The checkpoint now `accepted` does not contradict the last one `seen` of its origin: it is not older, and not
    another one of the same size. Where a consistency proof from the seen size is given, a longer one extends the seen
    one as well; without the proof that is not checked."""
    if accepted.origin != seen.origin:
        raise VerificationError(f"checkpoint is of {shown(accepted.origin)}, seen was one of {shown(seen.origin)}")
    if accepted.size < seen.size:
        raise VerificationError(f"checkpoint has size {accepted.size}, one of size {seen.size} was seen before")
    if accepted.size == seen.size and accepted.root != seen.root:
        raise VerificationError(
            f"two checkpoints of size {seen.size}: root {accepted.root.hex()}, seen was {seen.root.hex()}"
        )
    if proof is not None and seen.size > 0:
        verify_consistency(
            old_size=seen.size, new_size=accepted.size, old_root=seen.root, new_root=accepted.root, proof=proof
        )
