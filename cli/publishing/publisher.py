"""From signed to published, for one log. A turn is

    1  the largest checkpoint that was promised goes to the witnesses, unless its quorum is met and a quorum has
       cosigned since this publisher began: so what witnesses know is known before anything new is signed, and a
       checkpoint that waits for its quorum is retried at its size
    2  the log as it stands is signed, when it has grown, and goes to the witnesses
    3  cosignatures that verify are kept; when they make the quorum, the checkpoint is published

tlog-witness's clients, C1 to C6. An alarm ends the turn: what was cosigned is kept, nothing is published, and no turn
does anything before a person has resolved it. Without a quorum nothing is published either, unless the publisher is
told to fail open. Every step is durable before the next: a turn may be cut off anywhere, and the next one goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

import trio

from sealbook.cli.publishing import signing
from sealbook.cli.publishing.client import Clock, CosignatureRequest, Transport, names_of
from sealbook.cli.publishing.memory import FAILURE_CHARACTERS_MAX, Charge, KnownWitness, Memory, Stopped
from sealbook.cli.publishing.policy_file import Address, addresses
from sealbook.cli.publishing.rounds import Report, run_round
from sealbook.cli.publishing.signing import LogSigner
from sealbook.journal.deciding.log.checkpoints import KeptCheckpoint
from sealbook.journal.schema.tables import CheckpointState
from sealbook.journal.store.logs import Log
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.keys import VerifierKey
from sealbook.merkle.note import Note, Signature, verify_line
from sealbook.merkle.policy import Policy
from sealbook.merkle.witness_client import Alarm, Cosigned, Unavailable

BACKOFF_SECONDS_FIRST: Final = 30  # after the first failure of a witness, twice that after the second, and so on
BACKOFF_SECONDS_MAX: Final = 3600

NOBODY = Policy((), (), (), None)
"""The policy of a log that is published by its own signature alone."""


class PublishingState(Enum):
    """How a turn ended."""

    EMPTY = "the log has no leaf yet"
    UNCHANGED = "nothing to do"
    PUBLISHED = "published"
    WITHOUT_QUORUM = "published without its quorum"
    WAITING = "the quorum is not met"
    STOPPED = "publishing is stopped"


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn did. `size` is that of the checkpoint it ended with; `cosigners` are the policy's names of those that
    have cosigned it, `failures` by name what else witnesses said this time."""

    origin: str
    state: PublishingState
    size: int = 0
    cosigners: tuple[str, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    unsigned: int | None = None
    """The log's size, when it has grown and was not signed because the quorum does not answer."""
    stop: Stopped | None = None


@dataclass(frozen=True, slots=True)
class PublishingRules:
    """How a log is published."""

    policy: Policy = NOBODY
    fail_open: bool = False
    refresh_seconds: int | None = None
    """Cosignatures that are older are asked for anew."""
    patient: bool = True
    """Witnesses that failed are left alone for a while; otherwise everybody is asked, always."""


@dataclass(eq=False)
class Publisher:
    """Publishes one log. Keep it between turns: it knows which witnesses it has heard from."""

    log: Log
    signer: LogSigner
    memory: Memory
    transport: Transport
    clock: Clock
    _begun: bool = field(default=False, init=False)
    """What was signed before has been brought to the witnesses."""
    _answered: set[VerifierKey] = field(default_factory=set, init=False)
    """The witnesses that have cosigned since this publisher began."""

    async def turn(self, rules: PublishingRules) -> Turn:
        """Sign, submit and publish, as far as it goes now.

        Raises what the ring and the store refuse (`PublishedAhead`, `PublishedDiffers`, `NotFound` for a log without a
        key), `Busy` while another process publishes this log, and `Corrupt`.
        """
        holding = self.memory.held()
        await trio.to_thread.run_sync(holding.__enter__)
        try:
            return await self._turn(rules)
        finally:
            holding.__exit__(None, None, None)

    async def _turn(self, rules: PublishingRules) -> Turn:
        stop = self.memory.stopped()
        if stop is not None:
            return Turn(self.log.origin, PublishingState.STOPPED, stop=stop)
        head, kept = self.log.checkpoint(), self.log.signed_checkpoint()
        signing.check_not_behind(self.log, head, kept, self.signer, self.memory.known())
        if kept is None and head.size == 0:
            return Turn(self.log.origin, PublishingState.EMPTY)
        promised = signing.promised_size(kept, self.signer)
        if promised is not None and promised < head.size:
            turn = await self._confirmed(promised, kept, rules)
            if turn is not None:
                return turn if turn.state is PublishingState.STOPPED else replace(turn, unsigned=head.size)
        if kept is None or kept.checkpoint != head or not signing.signed(kept, self.signer.keys()):
            kept = await trio.to_thread.run_sync(self.log.sign_checkpoint, self.signer.sign)
        return await self._submitted(kept, rules)

    async def _confirmed(self, size: int, kept: KeptCheckpoint | None, rules: PublishingRules) -> Turn | None:
        """Step 1 at this size; the turn's end when nothing newer may be signed. `kept` is the largest that the store
        has signed."""
        needless = rules.fail_open or rules.policy.satisfied(())
        settled = kept is not None and kept.checkpoint.size == size and kept.state is CheckpointState.PUBLISHED
        if (needless or settled) and self._begun and (needless or self._heard(rules)):
            return None
        kept = await trio.to_thread.run_sync(lambda: self.log.sign_checkpoint(self.signer.sign, size=size))
        turn = await self._submitted(kept, rules, anew=True)
        if turn.state is PublishingState.STOPPED:
            return turn
        self._begun = True
        if turn.state is not PublishingState.WAITING and (needless or self._heard(rules)):
            return None
        return replace(turn, state=PublishingState.WAITING)

    def _heard(self, rules: PublishingRules) -> bool:
        """A quorum has cosigned since this publisher began, and none of it knew more than we do."""
        return rules.policy.satisfied(self._answered)

    async def _submitted(self, kept: KeptCheckpoint, rules: PublishingRules, *, anew: bool = False) -> Turn:
        """Steps 2 and 3 for a signed checkpoint; with `anew`, cosignatures from before this publisher began are asked
        for once more."""
        assert kept.note is not None
        held, before = verified(kept.note, rules.policy), self.memory.known()
        fresh = {key: held[key] for key in held if key in self._answered} if anew else held
        due = [
            (address, before.get(address.url, KnownWitness()))
            for address in addresses(rules.policy)
            if self._is_due(address, fresh, before.get(address.url, KnownWitness()), rules)
        ]
        asked = CosignatureRequest(kept.note, self.signer.keys(), self.log.tree_nodes)
        reports = await run_round(
            asked, due, transport=self.transport, clock=self.clock, enough=lambda keys: self._enough(keys, rules, held)
        )
        kept, stop = await trio.to_thread.run_sync(self._remembered, kept, reports, before)
        assert kept.note is not None
        held = verified(kept.note, rules.policy)
        turn = Turn(
            self.log.origin,
            PublishingState.UNCHANGED,
            kept.checkpoint.size,
            tuple(witness.name for witness in rules.policy.witnesses if witness.key in held),
            _failures(reports),
            stop=stop,
        )
        if stop is not None:
            return replace(turn, state=PublishingState.STOPPED)
        self._answered.update(key for report in reports for key in _cosigning_keys(report))
        return replace(turn, state=await self._published(kept, held, rules, asked=bool(reports)))

    async def _published(
        self, kept: KeptCheckpoint, held: Mapping[VerifierKey, Signature], rules: PublishingRules, *, asked: bool
    ) -> PublishingState:
        """Publish what may be published."""
        met, size = rules.policy.satisfied(held), kept.checkpoint.size
        if met and kept.state is CheckpointState.PUBLISHED:
            return PublishingState.PUBLISHED if asked else PublishingState.UNCHANGED
        if not met and not rules.fail_open:
            return PublishingState.WAITING
        if not met and kept.published:
            return PublishingState.WITHOUT_QUORUM
        await trio.to_thread.run_sync(lambda: self.log.publish_checkpoint(size, without_quorum=not met))
        return PublishingState.PUBLISHED if met else PublishingState.WITHOUT_QUORUM

    def _is_due(
        self, address: Address, held: Mapping[VerifierKey, Signature], known: KnownWitness, rules: PublishingRules
    ) -> bool:
        """Whether the witness is to be asked: its cosignature is missing or too old, and it was not out just now."""
        if not rules.patient:
            return True
        now = self.clock()
        if known.failed_at is not None and known.failures and known.failed_at <= now < _retry_at(known):
            return False
        times = [held[key].timestamp or 0 for key in address.keys if key in held]
        if len(times) < len(address.keys):
            return True
        return rules.refresh_seconds is not None and min(times) + rules.refresh_seconds <= now

    def _enough(
        self, keys: Collection[VerifierKey], rules: PublishingRules, held: Mapping[VerifierKey, Signature]
    ) -> bool:
        return rules.policy.quorum is not None and rules.policy.satisfied({*keys, *held})

    def _remembered(
        self, kept: KeptCheckpoint, reports: Sequence[Report], before: Mapping[str, KnownWitness]
    ) -> tuple[KeptCheckpoint, Stopped | None]:
        """Keep what the witnesses said: cosignatures first, then what is known of them, then alarms."""
        size, now = kept.checkpoint.size, self.clock()
        lines = [
            signature.line
            for report in reports
            if isinstance(report.heard.outcome, Cosigned)
            for signature in report.heard.outcome.signatures
        ]
        if lines:
            kept = self.log.keep_cosignatures(size, lines)
        self.memory.keep({**before, **{report.address.url: _known(report, size, now) for report in reports}})
        charges = list(self._charges(reports))
        return kept, self.memory.stop(charges, at=now) if charges else None

    def _charges(self, reports: Sequence[Report]) -> Iterator[Charge]:
        for report in reports:
            outcome = report.heard.outcome
            if isinstance(outcome, Alarm):
                note = self._cosigned_note(report)
                yield self.memory.charge(report.address.url, outcome, cosigned=note, served=report.heard.served)

    def _cosigned_note(self, report: Report) -> bytes:
        """Our note at the largest size that the witness cosigned, with its line: it convicts one that went back."""
        kept = self.log.signed_checkpoint(report.known.cosigned) if report.known.cosigned else None
        return b"" if kept is None or kept.note is None else kept.note.encode()


def verified(note: Note, policy: Policy) -> dict[VerifierKey, Signature]:
    """The policy's witnesses whose cosignature the note has. A line that does not verify counts for nothing."""
    found: dict[VerifierKey, Signature] = {}
    for witness in policy.witnesses:
        for line in note.lines:
            if line.is_of(witness.key):
                with suppress(VerificationError):
                    found[witness.key] = verify_line(witness.key, note.text, line)
    return found


def _retry_at(known: KnownWitness) -> int:
    """When a witness that failed is asked again."""
    assert known.failed_at is not None
    return known.failed_at + min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_FIRST << min(known.failures - 1, 16))


def _cosigning_keys(report: Report) -> tuple[VerifierKey, ...]:
    outcome = report.heard.outcome
    return tuple(signature.key for signature in outcome.signatures) if isinstance(outcome, Cosigned) else ()


def _failure(report: Report) -> str | None:
    """What a witness said instead of cosigning with each of its keys; None if it did."""
    outcome = report.heard.outcome
    if isinstance(outcome, Alarm):
        return outcome.evidence.reason
    if isinstance(outcome, Unavailable):
        return outcome.reason if outcome.status in (0, 200) else f"{outcome.status}: {outcome.reason}"
    missing = set(report.address.keys) - set(_cosigning_keys(report))
    assert isinstance(outcome, Cosigned)
    if not missing:
        return None
    names = ", ".join(names_of(missing, report.address))
    return "; ".join([f"no cosignature of {names}", *outcome.dropped])


def _failures(reports: Sequence[Report]) -> dict[str, str]:
    failures: dict[str, str] = {}
    for report in reports:
        failure = _failure(report)
        if failure is not None:
            failures[", ".join(report.address.names)] = failure[:FAILURE_CHARACTERS_MAX]
    return failures


def _known(report: Report, size: int, now: int) -> KnownWitness:
    """What is known of a witness after it was asked for this size."""
    before, outcome, failure = report.known, report.heard.outcome, _failure(report)
    after = replace(before, size=report.heard.size)
    if isinstance(outcome, Cosigned):
        times = [signature.timestamp or 0 for signature in outcome.signatures]
        after = replace(after, cosigned=max(size, before.cosigned), cosigned_at=max(times), failures=0, failed_at=None)
    if failure is None:
        return replace(after, failure=None)
    return replace(after, failures=after.failures + 1, failed_at=now, failure=failure[:FAILURE_CHARACTERS_MAX])
