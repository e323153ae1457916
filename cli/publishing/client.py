"""One conversation with one witness: the request, the catch-up after a 409, and what came out of it.

    we     POST <url>/add-checkpoint      the checkpoint, and the proof from the size that we remember
    it     409 <size>                     another size: at most TRIES_MAX requests in all
    it     200 <lines>, or a refusal      `merkle.witness_client` says what each means

The bytes go through a transport that is handed in, so that nothing here needs a network.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

import trio

from sealbook.cli.publishing.policy_file import Address
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.keys import VerifierKey
from sealbook.merkle.note import Note
from sealbook.merkle.tree import Reader
from sealbook.merkle.witness import Answer, origin_key
from sealbook.merkle.witness_client import (
    TRIES_MAX,
    Alarm,
    Outcome,
    Stale,
    Unavailable,
    add_checkpoint,
    read_answer,
)

RETRY_PAUSE_SECONDS = 0.2  # before the second request, twice that before the third
SERVED_BYTES_MAX = 128 * 1024  # of the note that a witness serves, kept as evidence

Transport = Callable[[str, bytes | None], Awaitable[Answer]]
"""Posts the body to the URL, or gets the URL when there is no body, and answers what came back: no redirect followed,
no more of the body read than the limit of an answer. Raises `Unreachable`."""

Clock = Callable[[], int]
"""Now, in POSIX seconds."""


class Unreachable(Exception):
    """No answer came back, or what came back was no HTTP."""


@dataclass(frozen=True, slots=True)
class Asked:
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
    asked: Asked, address: Address, *, size: int, cosigned_size: int, transport: Transport, clock: Clock
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
            return Heard(outcome, known, await _served(asked, address, transport))
        return Heard(outcome, old if isinstance(outcome, Unavailable) else ours)
    return Heard(Unavailable(409, f"another size after each of {TRIES_MAX} requests"), old)


async def _served(asked: Asked, address: Address, transport: Transport) -> bytes:
    """The note of our log that the witness serves, if it does: signed by us, it shows what was signed elsewhere."""
    try:
        answer = await transport(f"{address.url}/{origin_key(asked.checkpoint.origin).hex()}/checkpoint", None)
        if answer.status != 200 or len(answer.body) > SERVED_BYTES_MAX:
            return b""
        Checkpoint.parse(Note.parse(answer.body).text)
    except (Unreachable, VerificationError):
        return b""
    return answer.body


def names_of(keys: Collection[VerifierKey], address: Address) -> tuple[str, ...]:
    """The policy's names of these keys of the address."""
    return tuple(name for name, key in zip(address.names, address.keys, strict=True) if key in keys)
