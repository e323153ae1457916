"""Witnesses in memory that decide as real ones do, whatever else may answer in their place, and a log to publish."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from sealbook.cli.publishing.client import Clock, Transport, Unreachable
from sealbook.cli.publishing.memory import Memory
from sealbook.cli.publishing.policy_file import Address
from sealbook.cli.publishing.publisher import Publisher, PublishingRules
from sealbook.cli.publishing.signing import LogSigner
from sealbook.journal import Journal, Tenant, entries
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.keys import Algorithm, NoteSigner, VerifierKey
from sealbook.merkle.policy import Policy, PolicyGroup, PolicyWitness
from sealbook.merkle.witness import (
    AddCheckpoint,
    Answer,
    Refusal,
    Submission,
    TrustedLog,
    WitnessState,
    decide,
    origin_key,
    read_request,
)

NOW = 1_795_939_200  # 2026-11-29T08:00:00Z
BASE = "example.com/log"

GROWING, PROMISED, SIGNED, ASKING, ANSWERED = MARKS = ("growing", "promised", "signed", "asking", "answered")
"""How far a publisher that is to be killed has got in its turn: nothing is promised yet; its key has promised what the
store does not keep as signed; it does; a witness is being asked; it has answered and nothing is kept of that."""


def refused(status: int, body: bytes = b"no\n", media_type: str = "text/plain") -> Answer:
    return Answer(status, media_type, body)


Script = Callable[[bytes], Awaitable[Answer]]


@dataclass
class Witness:
    """A witness for one log, with one key or more. `script` answers in its place, where there is one."""

    name: str
    log: TrustedLog
    signers: tuple[NoteSigner, ...]
    now: int = NOW
    state: WitnessState | None = None
    down: bool = False
    script: Script | None = None
    requests: list[AddCheckpoint] = field(default_factory=list)
    serves: bool = True

    @property
    def url(self) -> str:
        return f"http://{self.name}"

    @property
    def address(self) -> Address:
        names = tuple(f"{self.name}-{number}" if number else self.name for number, _ in enumerate(self.signers))
        return Address(self.url, names, tuple(signer.key for signer in self.signers))

    @property
    def size(self) -> int:
        return 0 if self.state is None else self.state.checkpoint.size

    async def post(self, body: bytes) -> Answer:
        self.requests.append(AddCheckpoint.parse(body))
        if self.down:
            raise Unreachable("connection refused")
        if self.script is not None:
            return await self.script(body)
        return self.decide(body)

    def decide(self, body: bytes) -> Answer:
        submission = read_request(body, {self.log.origin: self.log})
        if isinstance(submission, Refusal):
            return submission.answer()
        assert isinstance(submission, Submission)
        outcome = decide(submission, self.state, self.signers, now=self.now)
        if isinstance(outcome, Refusal):
            return outcome.answer()
        self.state = outcome.state
        return outcome.answer

    def get(self, path: str) -> Answer:
        if self.down:
            raise Unreachable("connection refused")
        if self.state is None or not self.serves or path != f"{origin_key(self.log.origin).hex()}/checkpoint":
            return refused(404)
        return Answer(200, "text/plain; charset=utf-8", self.state.note)


def witness(name: str, log: TrustedLog, *, both: bool = False) -> Witness:
    signers = [NoteSigner.from_seed(name, Algorithm.ED25519_COSIGNATURE, name.encode().ljust(32, b"\1"))]
    if both:
        signers.append(NoteSigner.from_seed(name, Algorithm.MLDSA44_COSIGNATURE, name.encode().ljust(32, b"\2")))
    return Witness(name, log, tuple(signers))


def over(witnesses: Iterable[Witness]) -> Transport:
    """A transport that reaches these witnesses and no other address."""
    by_url = {each.url: each for each in witnesses}

    async def ask(url: str, body: bytes | None) -> Answer:
        base, _, path = url.removeprefix("http://").partition("/")
        found = by_url.get(f"http://{base}")
        if found is None:
            raise Unreachable(f"no such host {base}")
        if body is None:
            return found.get(path)
        assert path == "add-checkpoint"
        return await found.post(body)

    return ask


def policy(*witnesses: Witness, quorum: int, optional: tuple[Witness, ...] = ()) -> Policy:
    """So many of these witnesses' keys must cosign; those of the optional ones are collected."""
    listed = [
        PolicyWitness(name, key, each.url)
        for each in (*witnesses, *optional)
        for name, key in zip(each.address.names, each.address.keys, strict=True)
    ]
    members = tuple(name for each in witnesses for name in each.address.names)
    return Policy((), tuple(listed), (PolicyGroup("q", quorum, members),), "q")


@dataclass
class World:
    """A tenant's log, its keys, and a clock that stands still unless it is moved."""

    folder: Path
    journal: Journal
    now: int = NOW

    def __post_init__(self) -> None:
        self.ring = Keyring(self.folder / "keys")
        if not self.ring.named(BASE):
            self.ring.generate(Purpose.LOG, BASE, created=0, tenant="default")

    @property
    def tenant(self) -> Tenant:
        return self.journal.tenant()

    @property
    def memory(self) -> Memory:
        return Memory(self.ring.folder, BASE, lock_timeout=0)

    @property
    def clock(self) -> Clock:
        return lambda: self.now

    @property
    def keys(self) -> tuple[VerifierKey, ...]:
        return LogSigner(self.ring, BASE).keys()

    @property
    def trusted(self) -> TrustedLog:
        return TrustedLog(BASE, self.keys)

    def grow(self, leaves: int, *, word: str = "run") -> None:
        size = self.tenant.checkpoint().size
        for number in range(size, size + leaves):
            self.tenant.append(f"{word}-{number}", [entries.admitted(), entries.concluded("ok")], epoch=1, seal=True)

    def publisher(self, *witnesses: Witness) -> Publisher:
        return Publisher(self.tenant, LogSigner(self.ring, BASE), self.memory, over(witnesses), self.clock)

    def published(self) -> int | None:
        """The size that outsiders get."""
        sizes = self.tenant.published_sizes(0)
        return sizes[-1] if sizes else None

    def witness(self, name: str, *, both: bool = False) -> Witness:
        return witness(name, self.trusted, both=both)


def rules(
    found: Policy, *, fail_open: bool = False, refresh: int | None = None, patient: bool = True
) -> PublishingRules:
    return PublishingRules(found, fail_open=fail_open, refresh_seconds=refresh, patient=patient)
