"""What an auditor asks of a bundle, without a store and without a network: is it whole, whose is it, what is in it?

Everything is told: every fault that reading can go on from, the one that ends it, and what was not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from sealbook.journal.bundle import frames
from sealbook.journal.bundle.faults import CONTENT, Damaged, Fault
from sealbook.journal.bundle.frames import ClaimedKey, Header, KeptNote, Proof, TenantPart, Totals
from sealbook.journal.bundle.part import SignerKey
from sealbook.journal.bundle.reader import Bundle, Item
from sealbook.journal.bundle.records import Believed
from sealbook.journal.records.trust import NOTHING_BROUGHT, Outside, Trust
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.policy import Policy

PROGRESS_ITEMS = 1000


@dataclass(frozen=True, slots=True)
class Claim:
    """A key that the bundle names. `brought` says that the auditor has the same key, for the same purpose, from
    elsewhere; any other is its exporter's word alone, and nothing is checked with it."""

    key: ClaimedKey
    brought: bool


@dataclass(slots=True)
class Verdict:
    """What reading the whole bundle showed. What was not reached is None: `digest` and `totals` stand at the end.

    `made_at` is unix milliseconds, by the clock of the exporter; `codec` is `plain`, `zlib` or `lzma`.

    `newer` counts the records of a newer version, `signed` those with a signature that is their signer's, `proven` the
    runs that were shown by a proof to stand in the log.
    """

    header: Header | None = None
    totals: Totals | None = None
    digest: bytes | None = None
    made_at: int | None = None
    codec: str | None = None
    newer: int = 0
    signed: int = 0
    proven: int = 0
    claims: list[Claim] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with what could be checked."""
        return not self.faults


def verify(
    stream: BinaryIO,
    trust: Trust = NOTHING_BROUGHT,
    *,
    policy: Policy | None = None,
    age_seconds_max: int | None = None,
    now: int = 0,
    progress: Callable[[], None] | None = None,
) -> Verdict:
    """Read the bundle to its end, or to where it cannot be read on. `WrongFormat`, `UnknownVersion`: not ours.

    The last signed checkpoint of each log must meet the policy. With an age its quorum must have cosigned within so
    many seconds before `now`, which is POSIX seconds. `progress` is called now and then, with the stream where reading
    has come to.
    """
    verdict = Verdict()
    try:
        bundle = Bundle(stream, tell=verdict.faults.append, outside=trust.checkpoints)
    except Damaged as error:  # not even how it is written can be read
        verdict.faults.append(error.fault)
        return verdict
    verdict.made_at, verdict.codec = bundle.preamble.made_at, bundle.preamble.codec.name.lower()
    checks = _Verification(trust, policy, age_seconds_max, now, verdict)
    try:
        for number, item in enumerate(bundle.items()):
            checks.check(item)
            if progress is not None and number % PROGRESS_ITEMS == 0:
                progress()
    except Damaged as error:
        verdict.faults.append(error.fault)
    verdict.digest, verdict.newer, verdict.signed = bundle.digest, bundle.newer, bundle.signed
    for outside in trust.checkpoints:
        if outside.source not in bundle.matched and verdict.digest is not None:
            checks.unmatched(outside)
    verdict.not_checked += checks.open_questions()
    return verdict


class _Verification:
    """What is asked of each item beyond what the reader asks."""

    def __init__(
        self, trust: Trust, policy: Policy | None, age_seconds_max: int | None, now: int, verdict: Verdict
    ) -> None:
        self._trust, self._policy, self._age_seconds_max, self._now = trust, policy, age_seconds_max, now
        self._verdict = verdict
        self._part: TenantPart | None = None
        self._note: KeptNote | None = None
        self._origins: set[str] = set()
        self._unproven = 0
        self._loose = 0  # leaves above the last signed checkpoint
        self._unsigned_logs = 0
        self._proofs = self._runs = 0

    def check(self, item: Item) -> None:
        """One item, in its order."""
        value, verdict = item.value, self._verdict
        match value:
            case Header():
                verdict.header = value
            case ClaimedKey():
                verdict.claims.append(Claim(value, self._brought(value)))
            case TenantPart():
                self._part, self._note = value, None
                self._origins.add(value.origin)
            case SignerKey():
                if not self._trust.trusts(value.id):
                    self._fault(item, f"records are signed with a key that was not given: {value.public_key.hex()}")
            case KeptNote():
                if value.state > 0:
                    self._note = value
            case Believed():
                self._runs += value.seq == 1
                if value.signer is None and self._trust.signatures_required:
                    self._fault(item, "the record is not signed", value.run, value.seq)
            case Proof():
                self._proofs += 1
            case frames.Counts():
                self._end(item)
            case Totals():
                verdict.totals = value
                verdict.proven = self._proofs

    def unmatched(self, outside: Outside) -> None:
        """A checkpoint that no log of the bundle was compared with."""
        checkpoint = outside.checkpoint
        if checkpoint.origin in self._origins:
            self._verdict.not_checked.append(
                f"{outside.source}: the proofs lead to another size than its {checkpoint.size}, so it was not compared"
            )
        else:
            what = f"{outside.source} is of the log {checkpoint.origin}, which the bundle does not hold"
            self._verdict.faults.append(Fault(what, "tenant", CONTENT, 0))

    def open_questions(self) -> Iterator[str]:
        """What this verification leaves open, one line each."""
        verdict, trust = self._verdict, self._trust
        header = verdict.header
        if header is None:
            return
        if not header.whole:
            yield "completeness: other runs, and records after an anchor, would not be missed"
        if not trust.checkpoints:
            yield "whether this is the log that others saw: no --checkpoint"
        if self._policy is None:
            yield "who signed the checkpoints: no --policy"
        elif self._age_seconds_max is None:
            yield "how old the checkpoints are: no --max-age"
        if self._unsigned_logs:
            yield f"logs without a signed checkpoint: {self._unsigned_logs}"
        if self._loose:
            yield f"leaves above the last signed checkpoint of their log: {self._loose}"
        if not header.whole and self._runs > self._proofs:
            yield f"runs without a proof: {self._runs - self._proofs}, no leaf of theirs is in the log that was proven"
        if verdict.signed and trust.public_keys is None:
            yield f"whose the signatures of {verdict.signed} records are: no --keys"
        if unknown := sum(not claim.brought for claim in verdict.claims):
            known = len(verdict.claims)
            yield f"whose the keys are that the bundle names: {unknown} of {known} are its exporter's word alone"
        if verdict.newer:
            yield f"what {verdict.newer} records say: they are of a newer version"
        yield "times: they are the clocks of the machines that wrote"

    def _end(self, item: Item) -> None:
        part, note, policy = self._part, self._note, self._policy
        assert part is not None
        if note is None:
            self._unsigned_logs += part.size > 0
            if policy is not None and part.size > 0:
                self._fault(item, "the policy cannot be met: no checkpoint of the log is signed")
            return
        self._loose += part.size - note.size
        if policy is None:
            return
        try:
            signed = policy.open(note.note)
            if self._age_seconds_max is not None:
                policy.check_freshness(signed.cosignatures, now=self._now, age_seconds_max=self._age_seconds_max)
        except VerificationError as error:
            self._fault(item, f"the checkpoint of size {note.size} does not meet the policy: {error}")

    def _brought(self, key: ClaimedKey) -> bool:
        """Whether the auditor has the same key from elsewhere, for the same purpose."""
        if key.purpose == "record":
            return key.public in (self._trust.public_keys or ())
        policy = self._policy
        members = () if policy is None else policy.logs if key.purpose == "log" else policy.witnesses
        known = {(member.key.name, member.key.algorithm, member.key.public_key) for member in members}
        return (key.name, key.algorithm, key.public) in known

    def _fault(self, item: Item, what: str, run: str | None = None, seq: int | None = None) -> None:
        self._verdict.faults.append(Fault(what, frames.NAMES[item.kind], CONTENT, item.offset, item.tenant, run, seq))
