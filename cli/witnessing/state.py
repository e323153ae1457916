"""What a witness remembers, and the one transaction in which it decides and makes its decisions durable.

    table      key                                     value
    store      "store"                                 id of the state 16, check            `binding` writes it
    keys       SHA-256 of a verifier key's text        the text, check                      `binding` writes them
    states     SHA-256 of the origin                   time:u64be note, check               `WitnessState`
    disabled   SHA-256 of the origin                   the origin, check
    evidence   SHA-256 of the origin  class:u8         `Evidence`, check
               at:u64be  digest 16

A check is 8 bytes of BLAKE3 over table, key and value: it finds damage, not forgery.

tlog-witness: "The witness MUST perform the above check and persist the new checkpoint atomically", and before it
answers. So all that a decision reads is read in the transaction that writes what was decided, LMDB has one writer among
all processes, and no byte of an answer leaves before the commit has returned. When it fails, or its outcome was not
learnt, none leaves at all; nothing is remembered outside of the tables, so that the next decision reads anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from sealbook.cli.witnessing.cosigner import Cosigner
from sealbook.journal.engine.port import Applied, Engine, Moment, Place, Retry, Snapshot, Work, Writes
from sealbook.journal.errors import CommitUnknown, Corrupt, EngineFailed, NotFound
from sealbook.journal.schema.tables import CHECKSUM_BYTES, checksum
from sealbook.merkle.cosignature import TIMESTAMP_BYTES
from sealbook.merkle.errors import Malformed
from sealbook.merkle.keys import NoteSigner
from sealbook.merkle.witness import (
    TEXT_MEDIA_TYPE,
    Answer,
    Cosigning,
    Evidence,
    Submission,
    WitnessState,
    decide,
    origin_key,
)

STORE: Final = "store"
KEYS: Final = "keys"
STATES: Final = "states"
DISABLED: Final = "disabled"
EVIDENCE: Final = "evidence"
TABLES: Final = (STORE, KEYS, STATES, DISABLED, EVIDENCE)

TRIES_MAX: Final = 3  # of a transaction that an engine asks to repeat

TWO_ROOTS: Final = b"\0"  # proves by itself that the log has two histories
SUSPICION: Final = b"\1"  # somebody sent a signed checkpoint with a proof that does not hold: perhaps not the log
EVIDENCE_PER_CLASS_MAX: Final = 16  # of one log; a request is at most 128 KiB
_DIGEST_BYTES: Final = 16
_PAGE: Final = 8  # rows; those of evidence are large


@dataclass(frozen=True, slots=True)
class Decision:
    """What is answered to a submission, once it is durable, and the evidence that was kept of it."""

    submission: Submission
    answer: Answer
    evidence: Evidence | None = None

    @property
    def cosigned(self) -> bool:
        """Whether the answer has cosignatures."""
        return self.answer.status == 200


class StateStore:
    """The state of one witness, on an engine. All of it may be called from any thread.

    Made by `binding.open_state`, which holds state and keys to each other; without it two states might serve one key.
    """

    def __init__(self, engine: Engine, cosigner: Cosigner | None = None) -> None:
        self._engine = engine
        self._cosigner = cosigner

    def close(self) -> None:
        """Free the state."""
        self._engine.close()

    def __enter__(self) -> StateStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def decide(self, submissions: Sequence[Submission]) -> list[Decision]:
        """The decisions on these submissions, each made against those before it, durable when this returns.

        Any exception, whatever it is, means that nothing may be answered with a signature.
        """
        assert self._cosigner is not None, "this state was opened to be read"
        signers = self._cosigner.signers
        decisions: list[Decision] = self._written(
            lambda snapshot, moment: _decided(snapshot, moment, submissions, signers)
        )
        if any(decision.cosigned for decision in decisions):
            # Before a signature leaves, the key is known to have signed: without this state it then signs no more.
            self._cosigner.mark_signed()
        return decisions

    def note(self, key: bytes) -> bytes | None:
        """The last cosigned checkpoint of the log with this `origin_key`, as a note; None if it never was."""
        with self._engine.snapshot() as snapshot:
            # Committed state alone is served: what is being decided may still fail to become durable.
            value = _value(snapshot, (STATES, key))
        return None if value is None else _read_state(value, key, None).note

    def states(self) -> Iterator[WitnessState]:
        """Every log's state, in no order that means anything."""
        for key, value in self._rows(STATES, b""):
            yield _read_state(value, key, None)

    def evidence(self, origin: str | None = None) -> Iterator[Evidence]:
        """What was kept against a log, or against any: proof before suspicion, the oldest first."""
        for key, value in self._rows(EVIDENCE, b"" if origin is None else origin_key(origin)):
            try:
                yield Evidence.decode(value)
            except Malformed as error:
                raise Corrupt(str(error), table=EVIDENCE, key=key) from error

    def disable(self, origin: str) -> None:
        """Cosign no more for this log, whatever a log list says, until it is enabled."""
        place = (DISABLED, origin_key(origin))
        self._written(lambda snapshot, moment: (Writes({place: with_check(place, origin.encode())}), None))

    def enable(self, origin: str) -> None:
        """Undo `disable`. `NotFound` when the log is not disabled."""
        place = (DISABLED, origin_key(origin))

        def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, None]:
            if snapshot.get_many([place])[0] is None:
                raise NotFound("disabled log", origin)
            return Writes(deletes={place}), None

        self._written(work)

    def disabled(self) -> list[str]:
        """The origins of the logs that are disabled."""
        return sorted(value.decode() for _, value in self._rows(DISABLED, b""))

    def _rows(self, table: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        lo = prefix
        while True:
            with self._engine.snapshot() as snapshot:
                page = snapshot.scan(table, lo, None, _PAGE)
            for key, value in page:
                if not key.startswith(prefix):
                    return
                yield key, checked((table, key), value)
            if len(page) < _PAGE:
                return
            lo = page[-1][0] + b"\0"

    def _written(self, work: Work) -> Any:
        return written(self._engine, work)


def written(engine: Engine, work: Work) -> Any:
    """What `work` answers, once its writes are durable. `CommitUnknown` when that was not learnt."""
    for _ in range(TRIES_MAX):
        match engine.write(work):
            case Applied(answers):
                return answers
            case Retry(reason):
                failure = EngineFailed(f"nothing was written: {reason}")
            case unknown:
                raise CommitUnknown(
                    f"whether the decision is durable was not learnt: {unknown.cause}"
                ) from unknown.cause
    raise failure


def with_check(place: Place, content: bytes) -> bytes:
    """The value of a row: its content and the check."""
    return content + checksum(place, content)


def checked(place: Place, value: bytes) -> bytes:
    """The content of a row. `Corrupt` when its check does not match."""
    content, check = value[:-CHECKSUM_BYTES], value[-CHECKSUM_BYTES:]
    if checksum(place, content) != check:
        raise Corrupt("a row of the witness's state is damaged", table=place[0], key=place[1])
    return content


def _value(snapshot: Snapshot, place: Place) -> bytes | None:
    value = snapshot.get_many([place])[0]
    return None if value is None else checked(place, value)


def _read_state(content: bytes, key: bytes, origin: str | None) -> WitnessState:
    """The state in a row; that of the log `origin`, if it is named."""
    try:
        stated = content[TIMESTAMP_BYTES:].split(b"\n", 1)[0].decode() if origin is None else origin
        if origin_key(stated) != key:
            raise Malformed("a state stands under another log's key")
        return WitnessState.decode(content, origin=stated)
    except (Malformed, UnicodeDecodeError) as error:
        raise Corrupt(f"a row of the witness's state is damaged: {error}", table=STATES, key=key) from error


# --- one transaction --------------------------------------------------------------------------------------------------


def _decided(
    snapshot: Snapshot, moment: Moment, submissions: Sequence[Submission], signers: Sequence[NoteSigner]
) -> tuple[Writes, list[Decision]]:
    """Each submission in its order, against the tables and what was decided before it in this transaction."""
    batch = _Batch(snapshot)
    now = moment.wall_ms // 1000
    decisions = [_one(batch, submission, signers, now) for submission in submissions]
    return Writes(batch.puts, deletes=batch.deletes), decisions


def _one(batch: _Batch, submission: Submission, signers: Sequence[NoteSigner], now: int) -> Decision:
    origin = submission.checkpoint.origin
    try:
        # A disabled log stays disabled, however often a list that names it is read.
        if batch.is_disabled(origin):
            return Decision(submission, Answer(404, TEXT_MEDIA_TYPE, b"this log is not cosigned for\n"))
        outcome = decide(submission, batch.state(origin), signers, now=now)
    except Corrupt:
        # One log's row is damaged. The others' are not, and must not wait for it.
        return Decision(submission, Answer(500, TEXT_MEDIA_TYPE, b"the state of this log is damaged\n"))
    if isinstance(outcome, Cosigning):
        batch.put_state(outcome.state)
        return Decision(submission, outcome.answer)
    kept = outcome.evidence is not None and batch.keep(outcome.evidence, submission)
    return Decision(submission, outcome.answer(), outcome.evidence if kept else None)


@dataclass
class _Batch:
    """The tables as they are with what was decided so far."""

    snapshot: Snapshot
    puts: dict[Place, bytes] = field(default_factory=dict)
    deletes: set[Place] = field(default_factory=set)
    states: dict[str, WitnessState | None] = field(default_factory=dict)
    evidence: dict[bytes, list[bytes]] = field(default_factory=dict)
    """Keys of the evidence under a prefix, the oldest first."""

    def is_disabled(self, origin: str) -> bool:
        return _value(self.snapshot, (DISABLED, origin_key(origin))) is not None

    def state(self, origin: str) -> WitnessState | None:
        if origin not in self.states:
            key = origin_key(origin)
            content = _value(self.snapshot, (STATES, key))
            self.states[origin] = None if content is None else _read_state(content, key, origin)
        return self.states[origin]

    def put_state(self, state: WitnessState) -> None:
        place = (STATES, origin_key(state.checkpoint.origin))
        self.states[state.checkpoint.origin] = state
        self.puts[place] = with_check(place, state.encode())

    def keep(self, evidence: Evidence, submission: Submission) -> bool:
        """Keep it, unless it is known or there is enough of it.

        Two roots of one size convict the log for ever, so the first such pairs stay. Anybody can send an old checkpoint
        with a proof that does not hold, so of those the newest stay, and they cannot displace the others.
        """
        held = submission.log.initial if (state := self.state(evidence.origin)) is None else state.checkpoint
        stated = submission.checkpoint
        two_roots = held is not None and held.size == stated.size and held.root != stated.root
        prefix = origin_key(evidence.origin) + (TWO_ROOTS if two_roots else SUSPICION)
        digest = sha256(submission.note.text.encode() + bytes([submission.coherent])).digest()[:_DIGEST_BYTES]
        keys = self._evidence_keys(prefix)
        if any(key.endswith(digest) for key in keys):
            return False
        if len(keys) >= EVIDENCE_PER_CLASS_MAX:
            if two_roots:
                return False
            self._drop((EVIDENCE, keys.pop(0)))
        place = (EVIDENCE, prefix + evidence.at.to_bytes(8) + digest)
        keys.append(place[1])
        keys.sort()
        self.puts[place] = with_check(place, evidence.encode())
        return True

    def _evidence_keys(self, prefix: bytes) -> list[bytes]:
        if prefix not in self.evidence:
            page = self.snapshot.scan(EVIDENCE, prefix, prefix + b"\xff" * 25, EVIDENCE_PER_CLASS_MAX)
            self.evidence[prefix] = [key for key, _ in page]
        return self.evidence[prefix]

    def _drop(self, place: Place) -> None:
        with suppress(KeyError):
            del self.puts[place]
            return
        self.deletes.add(place)
