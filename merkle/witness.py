"""The add-checkpoint exchange as bytes, and a witness's decision about a request (C2SP tlog-witness). The log's side of
the exchange is `witness_client`.

    request     old <decimal>\\n
                <base64 hash>\\n           0 to 63: the consistency proof from the old size on
                \\n
                <the signed checkpoint, to the end>

    answer      200 and signature lines, or a refusal; a 409 tells the size that the witness remembers

What is checked, in this order, and what is answered when it does not hold. `read_request` does 1 to 3, which need no
state and may run anywhere; `decide` does 4 to 7 and must run where the state is read and written.

    1  the body and its checkpoint are well-formed                                      400
    2  the origin is configured                                                         404
    3  a trusted key signed, each of its lines verifies, and it has one line            403
    4  the old size does not exceed the checkpoint's                                    400
    5  the old size is that of the last cosigned checkpoint, 0 if there is none         409 and the size
    6  the empty tree has its root; the old checkpoint is a prefix of the new one       422
    7  the clock has not gone back behind the last cosignature                          503
       then the new state is made durable, and only then                                200

`decide` answers the new state together with the 200, since each is wrong without the other: whoever gives the answer
before the state is durable may later cosign another tree of the same size. One transaction reads the state, calls
`decide` and writes; when its commit fails or is unknown, nothing of the answer may leave.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Self

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import TIMESTAMP_BYTES, TIMESTAMP_MAX, cosign
from sealbook.merkle.encoding import base64_text, parse_base64, parse_decimal, parse_hash, parse_utf8
from sealbook.merkle.errors import Malformed, VerificationError, shown
from sealbook.merkle.hashing import EMPTY_ROOT, HASH_BYTES, PROOF_HASHES_MAX, SIZE_MAX
from sealbook.merkle.keys import COSIGNING, Algorithm, NoteSigner, VerifierKey
from sealbook.merkle.note import Note, lines_text, open_note
from sealbook.merkle.verify import verify_consistency

REQUEST_BYTES_MAX = 128 * 1024  # 16 lines of ML-DSA-44 and 63 hashes are under 64 KiB
assert 16 * 3_600 + PROOF_HASHES_MAX * 45 < 64 * 1024 < REQUEST_BYTES_MAX

SIZE_MEDIA_TYPE = "text/x.tlog.size"
TEXT_MEDIA_TYPE = "text/plain; charset=utf-8"

_LOG_ALGORITHMS = frozenset({Algorithm.ED25519, Algorithm.MLDSA44_COSIGNATURE})  # as witnesses in service take them


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """A request: the signed checkpoint, and the proof that it extends the log's first `old_size` leaves."""

    old_size: int
    proof: tuple[bytes, ...]
    checkpoint: bytes

    def __post_init__(self) -> None:
        if not 0 <= self.old_size <= SIZE_MAX:
            raise Malformed(f"request: old size is 0 to {SIZE_MAX}, not {shown(self.old_size)}")
        # "The client MUST NOT send more than 63 consistency proof lines."
        if len(self.proof) > PROOF_HASHES_MAX:
            raise Malformed(f"request: at most {PROOF_HASHES_MAX} proof lines, not {len(self.proof)}")
        if any(len(value) != HASH_BYTES for value in self.proof):
            raise Malformed(f"request: every proof line has {HASH_BYTES} bytes")

    def encode(self) -> bytes:
        """The body of the request."""
        lines = [f"old {self.old_size}", *(base64_text(value) for value in self.proof), ""]
        return "".join(f"{line}\n" for line in lines).encode() + self.checkpoint

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """The request that the body is; its checkpoint is not looked into. Raises `Malformed`."""
        if len(body) > REQUEST_BYTES_MAX:
            raise Malformed(f"request: at most {REQUEST_BYTES_MAX} bytes, not {len(body)}")
        # No line before the checkpoint is empty, so the first empty line is where it begins.
        head, separator, checkpoint = body.partition(b"\n\n")
        if not separator:
            raise Malformed("request: no empty line before the checkpoint")
        old, *hashes = parse_utf8("request", head).split("\n")
        # "The old size line MUST consist of the string `old`, a single space (0x20), and the tree size"
        if not old.startswith("old "):
            raise Malformed(f"request: the first line is the old size, not {shown(old)}")
        old_size = parse_decimal("request: old size", old.removeprefix("old "))
        return cls(old_size, tuple(parse_hash("request: proof line", line) for line in hashes), checkpoint)


@dataclass(frozen=True, slots=True)
class Answer:
    """A witness's answer, as HTTP carries it."""

    status: int
    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Evidence:
    """What may show that a log or a witness broke its promise: the request, and the note that speaks against it. Kept
    for the operator, who judges it."""

    reason: str
    origin: str
    at: int
    """POSIX seconds."""
    held: bytes
    """The note we held: a witness's last cosigned one, a log's newest. Empty if there was none."""
    request: bytes
    answer: bytes = b""
    """What the witness answered, where a log keeps the evidence."""

    def encode(self) -> bytes:
        """The evidence as one JSON object, its bytes in base64."""
        members = {
            "reason": self.reason,
            "origin": self.origin,
            "at": self.at,
            "held": base64_text(self.held),
            "request": base64_text(self.request),
            "answer": base64_text(self.answer),
        }
        return json.dumps(members).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The evidence that `encode` wrote."""
        try:
            members = json.loads(data)
            texts = {name: parse_base64(f"evidence: {name}", members[name]) for name in ("held", "request", "answer")}
            return cls(members["reason"], members["origin"], members["at"], **texts)
        except (KeyError, TypeError, ValueError) as error:
            raise Malformed(f"evidence: not as it was written: {shown(data)}") from error


@dataclass(frozen=True, slots=True)
class TrustedLog:
    """A log that the witness cosigns for: its origin, the keys of which any one may sign (several during a rotation),
    and, if pinned, the checkpoint that its history must begin with instead of with whatever comes first."""

    origin: str
    keys: tuple[VerifierKey, ...]
    initial: Checkpoint | None = None

    def __post_init__(self) -> None:
        Checkpoint(self.origin, 0, EMPTY_ROOT)  # an origin that a checkpoint can have
        if not self.keys:
            raise ValueError(f"log {self.origin} has no key")
        for key in self.keys:
            if key.algorithm not in _LOG_ALGORITHMS:
                raise ValueError(f"{key.id} is no log's key: {key.algorithm.name}")
        if len({(key.name, key.key_id) for key in self.keys}) != len(self.keys):
            raise ValueError(f"log {self.origin} has two keys of one name and key ID")
        if self.initial is not None and self.initial.origin != self.origin:
            raise ValueError(f"the first checkpoint of log {self.origin} is of {self.initial.origin}")


def check_trust(signers: Collection[NoteSigner], logs: Collection[TrustedLog]) -> None:
    """A witness with these keys may cosign for these logs. Raises `ValueError` when a key or a name would serve two
    purposes: an Ed25519 cosignature names neither its cosigner nor what else the key is for."""
    if not signers:
        raise ValueError("a witness has at least one key")
    own = [signer.key for signer in signers]
    for key in own:
        if key.algorithm not in COSIGNING:
            raise ValueError(f"{key.id} is no witness's key: {key.algorithm.name}")
    if len({key.public_key for key in own}) != len(own):
        raise ValueError("the witness has one key under two names")
    if len({log.origin for log in logs}) != len(logs):
        raise ValueError("an origin is configured twice")
    for log in logs:
        if any(key.name in {log.origin, *(other.name for other in log.keys)} for key in own):
            raise ValueError(f"log {log.origin} has the witness's own name")
        if any(key.public_key in {other.public_key for other in log.keys} for key in own):
            raise ValueError(f"log {log.origin} has the witness's own key")


class Objection(Enum):
    """Why a request is refused. The value is the HTTP status."""

    def __init__(self, status: int, _: str) -> None:
        self.status = status

    MALFORMED = 400, "malformed"
    UNKNOWN_ORIGIN = 404, "unknown origin"
    UNSIGNED = 403, "unsigned"
    SHRANK = 400, "shrank"
    STALE = 409, "stale"
    INCOHERENT = 422, "incoherent"  # an empty tree with another root than the empty one
    FORKED = 422, "forked"  # another root at the remembered size; 409 before July 2026
    PROOF_MISSING = 422, "proof missing"
    INCONSISTENT = 422, "inconsistent"
    CLOCK = 503, "clock"


INTEGRITY = frozenset({Objection.SHRANK, Objection.FORKED, Objection.INCONSISTENT})
"""Objections that no retry removes: the log is not the one that was cosigned, only longer."""

_PROOF_OBJECTIONS = frozenset({Objection.INCOHERENT, Objection.FORKED, Objection.PROOF_MISSING, Objection.INCONSISTENT})
assert all(objection.status == 422 for objection in _PROOF_OBJECTIONS)


@dataclass(frozen=True, slots=True)
class Refusal:
    """No cosignature: why, in words and for the client's program, and what the operator should keep."""

    objection: Objection
    text: str
    size: int | None = None
    """The remembered size, for the 409."""
    evidence: Evidence | None = None

    def answer(self) -> Answer:
        """The refusal as it is sent."""
        if self.size is not None:
            # "The response body MUST consist of the tree size of the latest cosigned checkpoint in decimal, followed by
            # a newline (U+000A). The response MUST have a `Content-Type` of `text/x.tlog.size`."
            return Answer(self.objection.status, SIZE_MEDIA_TYPE, f"{self.size}\n".encode())
        return Answer(self.objection.status, TEXT_MEDIA_TYPE, f"{self.text}\n".encode())


@dataclass(frozen=True, slots=True)
class Submission:
    """A request that passed checks 1 to 3: of a known log, signed by it."""

    body: bytes
    request: AddCheckpoint
    log: TrustedLog
    checkpoint: Checkpoint
    coherent: bool
    """False if the tree is empty and its stated root, which `checkpoint` cannot have, is another than the empty one."""
    note: Note
    """The checkpoint's text with the log's verified lines, and no others."""


@dataclass(frozen=True, slots=True)
class WitnessState:
    """What a witness remembers of a log: the last checkpoint it cosigned, as a note with the log's lines and its own,
    and the time of its last cosignature. The whole note, since a size and a root alone convict nobody."""

    checkpoint: Checkpoint
    timestamp: int
    note: bytes

    def encode(self) -> bytes:
        """The state as bytes: the timestamp as eight big-endian bytes, and the note."""
        return self.timestamp.to_bytes(TIMESTAMP_BYTES) + self.note

    @classmethod
    def decode(cls, data: bytes, *, origin: str) -> Self:
        """The state that `encode` wrote for the log `origin`. The signatures are not checked."""
        timestamp, note = int.from_bytes(data[:TIMESTAMP_BYTES]), data[TIMESTAMP_BYTES:]
        if not 1 <= timestamp <= TIMESTAMP_MAX:
            raise Malformed(f"witness state: timestamp is 1 to {TIMESTAMP_MAX}, not {timestamp}")
        checkpoint = Checkpoint.parse(Note.parse(note).text)
        if checkpoint.origin != origin:
            raise Malformed(f"witness state: of {shown(checkpoint.origin)}, not of {shown(origin)}")
        return cls(checkpoint, timestamp, note)


@dataclass(frozen=True, slots=True)
class Cosigning:
    """The state to make durable, and the answer to give when it is."""

    state: WitnessState
    answer: Answer


def origin_key(origin: str) -> bytes:
    """The 32 bytes under which a witness keeps a log's state. Their hex names the log in the monitoring URL."""
    return sha256(origin.encode()).digest()


def read_request(body: bytes, logs: Mapping[str, TrustedLog]) -> Submission | Refusal:
    """Checks 1 to 3: what needs no state. `logs` is by origin."""
    try:
        request = AddCheckpoint.parse(body)
        note = Note.parse(request.checkpoint)
        checkpoint, coherent = _stated(note.text)
    except Malformed as error:
        return Refusal(Objection.MALFORMED, str(error))
    # "If the checkpoint origin is unknown, the witness MUST respond with a "404 Not Found" HTTP status code."
    log = logs.get(checkpoint.origin)
    if log is None:
        return Refusal(Objection.UNKNOWN_ORIGIN, f"no log {shown(checkpoint.origin)} is known here")
    # "The witness MUST verify the checkpoint signature against the public key(s) it trusts for the checkpoint origin,
    # and it MUST ignore signatures from unknown keys. […] If none of the signatures verify against a trusted public
    # key, the witness MUST respond with a "403 Forbidden" HTTP status code."
    try:
        signatures = open_note(note, log.keys)
    except VerificationError as error:
        return Refusal(Objection.UNSIGNED, str(error))
    # What is kept and served has these lines only: an unknown line may bear the witness's own name and key ID.
    by_log = note.of(log.keys)
    if len(by_log.lines) != len(signatures):
        return Refusal(Objection.UNSIGNED, "a key of the log has two signature lines")
    return Submission(body, request, log, checkpoint, coherent, by_log)


def decide(
    submission: Submission, state: WitnessState | None, signers: Collection[NoteSigner], *, now: int
) -> Cosigning | Refusal:
    """Checks 4 to 7 against the state of the submission's log, `None` if it was never cosigned. `now` is POSIX seconds.
    Every signer cosigns."""
    assert state is None or state.checkpoint.origin == submission.checkpoint.origin
    remembered = submission.log.initial if state is None else state.checkpoint
    size = 0 if remembered is None else remembered.size
    found = _objection(submission, remembered)
    if found is not None:
        objection, text = found
        evidence = _evidence(submission, state, remembered, objection, text, now)
        return Refusal(objection, text, size if objection is Objection.STALE else None, evidence)
    # tlog-cosignature: "as of the specified time": a later statement never has an earlier time, and none has time 0.
    if not 1 <= now <= TIMESTAMP_MAX or (state is not None and now < state.timestamp):
        return Refusal(Objection.CLOCK, "the witness's clock is behind its last cosignature")
    return _cosigned(submission, signers, now)


def _objection(submission: Submission, remembered: Checkpoint | None) -> tuple[Objection, str] | None:
    """The first of checks 4 to 6 that does not hold."""
    old_size, proof, checkpoint = submission.request.old_size, submission.request.proof, submission.checkpoint
    # "The old size MUST be equal to or lower than the checkpoint size. Otherwise, the witness MUST respond with a "400
    # Bad Request" HTTP status code."
    if old_size > checkpoint.size:
        return Objection.SHRANK, f"old size {old_size} exceeds the checkpoint's, {checkpoint.size}"
    # "The witness MUST check that the old size matches the size of the latest checkpoint it cosigned for the
    # checkpoint's origin (or zero if it never cosigned a checkpoint for that origin)."
    size = 0 if remembered is None else remembered.size
    if old_size != size:
        return Objection.STALE, f"old size is {size}, not {old_size}"
    # A witness that remembered another root for the empty tree would refuse every later checkpoint.
    if not submission.coherent:
        return Objection.INCOHERENT, "size 0 has the empty tree's root"
    if remembered is None or size == 0:
        # "The proof MUST be empty if the old size is zero."
        return (Objection.INCONSISTENT, "the proof from size 0 on is empty") if proof else None
    # "If the old size matches the checkpoint size, the witness MUST check that the root hashes are also identical."
    if size == checkpoint.size and remembered.root != checkpoint.root:
        return Objection.FORKED, f"another root was cosigned at size {size}"
    if size < checkpoint.size and not proof:
        return Objection.PROOF_MISSING, f"no proof that size {checkpoint.size} extends size {size}"
    # "If the Merkle Consistency Proof doesn't verify, the witness MUST respond with a "422 Unprocessable Entity" HTTP
    # status code."
    try:
        verify_consistency(
            old_size=size,
            new_size=checkpoint.size,
            old_root=remembered.root,
            new_root=checkpoint.root,
            proof=proof,
        )
    except VerificationError as error:
        return Objection.INCONSISTENT, str(error)
    return None


def _cosigned(submission: Submission, signers: Collection[NoteSigner], now: int) -> Cosigning:
    # What is signed is written anew from the fields that were checked: had they been read wrongly, the signature would
    # not be one of the note in hand.
    text = submission.checkpoint.text()
    assert text == submission.note.text
    own = tuple(cosign(text, now, signer) for signer in signers)
    note = Note(text, submission.note.lines + own)
    # "The response body MUST be a sequence of one or more note signature lines, each starting with the `—` character
    # (U+2014) and ending with a newline character (U+000A)."
    answer = Answer(200, TEXT_MEDIA_TYPE, lines_text(own).encode())
    return Cosigning(WitnessState(submission.checkpoint, now, note.encode()), answer)


def _evidence(
    submission: Submission,
    state: WitnessState | None,
    remembered: Checkpoint | None,
    objection: Objection,
    text: str,
    now: int,
) -> Evidence | None:
    """ "If the origin is known, and the signature is valid, the witness MAY log the request even if the consistency
    proof doesn't verify […] as it might be proof of log misbehavior." A second root at the remembered size is proof,
    whatever old size the request names."""
    checkpoint = submission.checkpoint
    forked = remembered is not None and remembered.size == checkpoint.size and remembered.root != checkpoint.root
    if objection not in _PROOF_OBJECTIONS and not forked:
        return None
    reason = f"two roots at size {checkpoint.size}" if forked else text
    return Evidence(reason, checkpoint.origin, now, b"" if state is None else state.note, submission.body)


def _stated(text: str) -> tuple[Checkpoint, bool]:
    """The checkpoint that the text states, and whether it can be one. An empty tree with another root is well-formed,
    is refused by check 6 and not before, and stands here with the empty tree's root."""
    match text.split("\n"):
        case [origin, "0", root, ""] if parse_hash("checkpoint: root", root) != EMPTY_ROOT:
            return Checkpoint(origin, 0, EMPTY_ROOT), False
        case _:
            return Checkpoint.parse(text), True
