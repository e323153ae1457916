"""One round: every witness is asked at the same time, none waits for another, and all have answered or been left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from sealbook.cli.publishing.client import Clock, CosignatureRequest, Heard, Transport, converse
from sealbook.cli.publishing.memory import KnownWitness
from sealbook.cli.publishing.policy_file import Address
from sealbook.merkle.keys import VerifierKey
from sealbook.merkle.witness_client import Cosigned, Unavailable

CONVERSATION_SECONDS_MAX: Final = 30.0  # with one witness, catch-up included
SURPLUS_SECONDS_MAX: Final = 5.0  # for those that are still out when the quorum is met
assert SURPLUS_SECONDS_MAX < CONVERSATION_SECONDS_MAX


@dataclass(frozen=True, slots=True)
class Report:
    """What came of asking one witness."""

    address: Address
    known: KnownWitness
    """What was known of it before."""
    heard: Heard


async def run_round(
    asked: CosignatureRequest,
    witnesses: Sequence[tuple[Address, KnownWitness]],
    *,
    transport: Transport,
    clock: Clock,
    enough: Callable[[Collection[VerifierKey]], bool] = lambda keys: False,
    seconds_max: float = CONVERSATION_SECONDS_MAX,
) -> list[Report]:
    """Ask all of them. `enough` says whether the cosignatures of these keys make the quorum."""
    reports: dict[str, Report] = {}
    cosigned: set[VerifierKey] = set()
    failed: list[Exception] = []

    async def ask(address: Address, known: KnownWitness) -> None:
        try:
            heard = await converse(
                asked,
                address,
                size=known.size,
                cosigned_size=known.cosigned,
                transport=transport,
                clock=clock,
            )
        except Exception as error:  # ours, not the witness's: the store could not prove, or a bug
            failed.append(error)
            scope.cancel()
            return
        reports[address.url] = Report(address, known, heard)
        if isinstance(heard.outcome, Cosigned):
            cosigned.update(signature.key for signature in heard.outcome.signatures)
            if enough(cosigned):
                scope.deadline = min(scope.deadline, trio.current_time() + SURPLUS_SECONDS_MAX)

    with trio.move_on_after(seconds_max) as scope:
        async with trio.open_nursery() as nursery:
            for address, known in witnesses:
                nursery.start_soon(ask, address, known)
    if failed:
        raise failed[0]
    for address, known in witnesses:
        left = Heard(Unavailable(0, "it took too long"), known.size)
        reports.setdefault(address.url, Report(address, known, left))
    return [reports[address.url] for address, _ in witnesses]
