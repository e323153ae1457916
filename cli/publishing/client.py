"""One conversation with one witness: the request, the catch-up after a 409, and what came out of it.

    we     POST <url>/add-checkpoint      the checkpoint, and the proof from the size that we remember
    it     409 <size>                     another size: at most TRIES_MAX requests in all
    it     200 <lines>, or a refusal      `merkle.witness_client` says what each means

The bytes go through a transport that is handed in, so that nothing here needs a network.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace

import trio

from sealbook.cli.publishing.policy_file import Address
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.keys import VerifierKey
from sealbook.merkle.note import Note, verify_line
from sealbook.merkle.tree import Reader, root
from sealbook.merkle.witness import Answer, origin_key
from sealbook.merkle.witness_client import (
    TRIES_MAX,
    Alarm,
    AlarmKind,
    Outcome,
    Stale,
    Unavailable,
    add_checkpoint,
    read_answer,
)

RETRY_PAUSE_SECONDS = 0.2  # before the second request, twice that before the third
SERVED_SECONDS_MAX = 5.0  # to wait for the note that a witness serves, after an alarm
SERVED_BYTES_MAX = 128 * 1024  # of the note that a witness serves, kept as evidence

Transport = Callable[[str, bytes | None], Awaitable[Answer]]
"""Posts the body to the URL, or gets the URL when there is no body, and answers what came back: no redirect followed,
no more of the body read than the limit of an answer. Raises `Unreachable`."""

Clock = Callable[[], int]
"""Now, in POSIX seconds."""


class Unreachable(Exception):
    """No answer came back, or what came back was no HTTP."""


@dataclass(frozen=True, slots=True)
class CosignatureRequest:
    """A checkpoint for witnesses: our note, the keys of which lines are sent, and the log's tree."""

    note: Note
    log_keys: tuple[VerifierKey, ...]
    read: Reader

    @property
    def checkpoint(self) -> Checkpoint:
        """What the note states."""
        return Checkpoint.parse(self.note.text)


@dataclass(frozen=True, slots=True)
class Heard:
    """What a witness said in the end. `size` is what it remembers as far as we know; `served` is the note that it
    serves of our log, asked for after an alarm, empty if it serves none."""

    outcome: Outcome
    size: int
    served: bytes = b""


async def converse(
    asked: CosignatureRequest, address: Address, *, size: int, cosigned_size: int, transport: Transport, clock: Clock
) -> Heard:
    """Ask one witness to cosign. `size` is what it remembers as far as we know, `cosigned_size` the largest size that
    we hold its cosignature of."""
    ours = asked.checkpoint.size
    old = min(size, ours)
    for number in range(TRIES_MAX):
        await trio.sleep(number * RETRY_PAUSE_SECONDS)
        request = add_checkpoint(asked.note, asked.log_keys, old_size=old, read=asked.read)
        try:
            answer = await transport(f"{address.url}/add-checkpoint", request.encode())
        except Unreachable as error:
            return Heard(Unavailable(0, str(error)), old)
        outcome = read_answer(request, answer, keys=address.keys, cosigned_size=cosigned_size, now=clock())
        if isinstance(outcome, Stale):
            old = outcome.size
            continue
        if isinstance(outcome, Alarm):
            known = old if outcome.size is None else outcome.size
            # Shielded: when the round is over meanwhile, the alarm was heard all the same.
            with trio.move_on_after(SERVED_SECONDS_MAX, shield=True):
                served = await _served(asked, address, transport)
                outcome = _named(outcome, asked, served)
                return Heard(outcome, known if outcome.size is None else outcome.size, served)
            return Heard(outcome, known)
        return Heard(outcome, old if isinstance(outcome, Unavailable) else ours)
    return Heard(Unavailable(409, f"another size after each of {TRIES_MAX} requests"), old)


async def _served(asked: CosignatureRequest, address: Address, transport: Transport) -> bytes:
    """The note of our log that the witness serves, if it does: signed by us, it shows what was signed elsewhere."""
    try:
        answer = await transport(f"{address.url}/{origin_key(asked.checkpoint.origin).hex()}/checkpoint", None)
        if answer.status != 200 or len(answer.body) > SERVED_BYTES_MAX:
            return b""
        Checkpoint.parse(Note.parse(answer.body).text)
    except (Unreachable, VerificationError):
        return b""
    return answer.body


def _named(alarm: Alarm, asked: CosignatureRequest, served: bytes) -> Alarm:
    """The alarm by its right name: a witness refuses a proof that is wrong, and a fork, with the same words. It is a
    fork when what the witness serves stands under our own signature and has another root than our log at its size."""
    if alarm.kind is not AlarmKind.PROOF_REFUSED or not served:
        return alarm
    note = Note.parse(served)
    theirs = Checkpoint.parse(note.text)
    if not _is_ours(note, asked) or not 0 < theirs.size <= asked.checkpoint.size:
        return alarm
    if root(theirs.size, asked.read) == theirs.root:
        return alarm
    reason = f"the witness remembers another root at size {theirs.size}, under our own signature"
    return Alarm(AlarmKind.FORKED, replace(alarm.evidence, reason=reason), theirs.size)


def _is_ours(note: Note, asked: CosignatureRequest) -> bool:
    """Whether one of our keys signed this note of our log."""
    if Checkpoint.parse(note.text).origin != asked.checkpoint.origin:
        return False
    for key in asked.log_keys:
        for line in note.lines:
            if line.is_of(key):
                with suppress(VerificationError):
                    verify_line(key, note.text, line)
                    return True
    return False


def names_of(keys: Collection[VerifierKey], address: Address) -> tuple[str, ...]:
    """The policy's names of these keys of the address."""
    return tuple(name for name, key in zip(address.names, address.keys, strict=True) if key in keys)
