"""What a log makes of witnesses' answers: which lines it takes, when it tries again, and when it must stop (C2SP
tlog-witness; the exchange itself is `witness`).

    200                                      the lines that verify over exactly our text     `Cosigned`
    409 with a size we can prove from        try again from there, TRIES_MAX times           `Stale`
    409 with a size beyond ours              our log was put back, or its key is misused     `Alarm` AHEAD
    409 with a size below one it cosigned    the witness was put back                        `Alarm` WENT_BACKWARDS
    409 with our size as old and new size    it has another root there                       `Alarm` FORKED
    409 without a size                       it has another root there, some answer so       `Alarm` SIZE_UNKNOWN
    422                                      our tree does not extend what it cosigned       `Alarm` PROOF_REFUSED
    anything else                            not onboarded, broken, busy: try later          `Unavailable`

After an `Alarm` nothing more is published and nothing retried before a person has looked. Witnesses in service answer
one and the same fault with 400, 403, 404 or 500, so nothing hangs on which of them it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import check_timestamp
from sealbook.merkle.encoding import parse_decimal, parse_utf8
from sealbook.merkle.errors import Malformed, VerificationError, shown
from sealbook.merkle.keys import COSIGNING, SignatureLine, VerifierKey
from sealbook.merkle.note import SIGNATURE_LINES_MAX, Note, Signature, verify_line
from sealbook.merkle.tree import Reader, consistency_proof
from sealbook.merkle.witness import SIZE_MEDIA_TYPE, AddCheckpoint, Answer, Evidence

TRIES_MAX = 3  # requests for one checkpoint to one witness; each after the first from the size of a 409
ANSWER_BYTES_MAX = SIGNATURE_LINES_MAX * 4096  # a line of ML-DSA-44 with a long name is below 4 KiB


@dataclass(frozen=True, slots=True)
class Cosigned:
    """The cosignatures to keep, at least one, and why other lines of the answer were dropped."""

    signatures: tuple[Signature, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stale:
    """The witness remembers this size: build the proof from there and try again."""

    size: int


class AlarmKind(Enum):
    """How log and witness contradict each other."""

    AHEAD = "the witness remembers a size beyond ours"
    WENT_BACKWARDS = "the witness remembers less than it cosigned"
    FORKED = "the witness remembers another root at our size"
    SIZE_UNKNOWN = "the witness refuses our size and names none"
    PROOF_REFUSED = "the witness refuses our proof"


@dataclass(frozen=True, slots=True)
class Alarm:
    """Stop publishing, keep the evidence, call a person."""

    kind: AlarmKind
    evidence: Evidence
    size: int | None = None
    """What the witness says it remembers, if it says so."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No cosignature this time, and nothing that speaks against the log: try later, and wait for nobody."""

    status: int
    reason: str


Outcome = Cosigned | Stale | Alarm | Unavailable


def add_checkpoint(note: Note, log_keys: Collection[VerifierKey], *, old_size: int, read: Reader) -> AddCheckpoint:
    """The request for a checkpoint of ours to a witness that remembers `old_size`. It carries the log's own lines only:
    witnesses limit the body, some to 10 KiB."""
    size = Checkpoint.parse(note.text).size
    proof = consistency_proof(old_size=old_size, new_size=size, read=read)
    return AddCheckpoint(old_size, tuple(proof), note.of(log_keys).encode())


def read_answer(
    request: AddCheckpoint, answer: Answer, *, keys: Collection[VerifierKey], cosigned_size: int, now: int
) -> Outcome:
    """What the witness with these keys says to our request. `cosigned_size` is the largest size of ours that we hold
    its cosignature of, 0 if none; `now` is POSIX seconds."""
    checkpoint = Checkpoint.parse(Note.parse(request.checkpoint).text)
    if answer.status == 200:
        return _read_lines(checkpoint, answer, keys, now)
    if answer.status == 409:
        return _read_conflict(request, checkpoint, answer, cosigned_size, now)
    if answer.status == 422:
        return _alarm(AlarmKind.PROOF_REFUSED, request, checkpoint, answer, now)
    return Unavailable(answer.status, _said(answer.body))


def split_views(checkpoints: Iterable[Checkpoint]) -> list[tuple[Checkpoint, Checkpoint]]:
    """Every two checkpoints of one origin and size whose roots differ. Those of different sizes are
    settled by a consistency proof and by nothing else."""
    return [
        (one, other)
        for one, other in combinations(dict.fromkeys(checkpoints), 2)
        if (one.origin, one.size) == (other.origin, other.size) and one.root != other.root
    ]


def _read_lines(checkpoint: Checkpoint, answer: Answer, keys: Collection[VerifierKey], now: int) -> Outcome:
    if len(answer.body) > ANSWER_BYTES_MAX:
        return Unavailable(200, f"an answer of {len(answer.body)} bytes, the limit is {ANSWER_BYTES_MAX}")
    try:
        lines = parse_utf8("answer", answer.body).split("\n")
    except Malformed as error:
        return Unavailable(200, str(error))
    verified: dict[VerifierKey, Signature] = {}
    dropped: list[str] = []
    for line in lines:
        if not line:
            continue
        try:
            signature = _read_line(line, checkpoint, keys, now)
            verified.setdefault(signature.key, signature)
        except VerificationError as error:
            dropped.append(str(error))
    if not verified:
        return Unavailable(200, f"no cosignature in the answer: {'; '.join(dropped) or 'no line'}")
    return Cosigned(tuple(verified.values()), tuple(dropped))


def _read_line(text: str, checkpoint: Checkpoint, keys: Collection[VerifierKey], now: int) -> Signature:
    line = SignatureLine.parse(text)
    # "The client MUST ignore any cosignatures from unknown keys."
    key = next((key for key in keys if key.algorithm in COSIGNING and line.is_of(key)), None)
    if key is None:
        raise VerificationError(f"a line of an unknown key: {shown(line.name)}+{line.key_id.hex()}")
    signature = verify_line(key, checkpoint.text(), line)
    assert signature.timestamp is not None
    check_timestamp(signature.timestamp, now=now)
    return signature


def _read_conflict(
    request: AddCheckpoint, checkpoint: Checkpoint, answer: Answer, cosigned_size: int, now: int
) -> Outcome:
    size = _stated_size(answer)
    if size is None:
        return _alarm(AlarmKind.SIZE_UNKNOWN, request, checkpoint, answer, now)
    if size > checkpoint.size:
        return _alarm(AlarmKind.AHEAD, request, checkpoint, answer, now, size)
    if size < cosigned_size:
        return _alarm(AlarmKind.WENT_BACKWARDS, request, checkpoint, answer, now, size)
    if size == request.old_size == checkpoint.size:
        return _alarm(AlarmKind.FORKED, request, checkpoint, answer, now, size)
    if size == request.old_size:
        return Unavailable(409, f"the size that it asks for, {size}, is the one that we named")
    return Stale(size)


def _said(body: bytes) -> str:
    """What a refusal says of itself: its body as text, quoted and cut."""
    text = body[:ANSWER_BYTES_MAX].decode("utf-8", "backslashreplace").strip()
    return shown(text) if text else "it says no more"


def _stated_size(answer: Answer) -> int | None:
    """The size in a 409, if it is one: a decimal and a newline, under its own media type."""
    if answer.media_type.partition(";")[0].strip().lower() != SIZE_MEDIA_TYPE:
        return None
    try:
        text = parse_utf8("answer", answer.body[:64])
        return parse_decimal("size", text.removesuffix("\n")) if text.endswith("\n") else None
    except Malformed:
        return None


def _alarm(
    kind: AlarmKind, request: AddCheckpoint, checkpoint: Checkpoint, answer: Answer, now: int, size: int | None = None
) -> Alarm:
    body = answer.body[:ANSWER_BYTES_MAX]
    reason = kind.value if size is None else f"{kind.value}: {size}, ours is {checkpoint.size}"
    return Alarm(kind, Evidence(reason, checkpoint.origin, now, request.checkpoint, request.encode(), body), size)
