"""What a run's records tell when they are read one after the other: epochs, attempts of effects, waits, signatures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sealbook.cli.screen.words import span
from sealbook.journal.records import instants

if TYPE_CHECKING:
    from sealbook.journal import Record

SILENCE_MS_MIN = 60_000  # between two records, to be told as a silence

_ENDS = {"EffectDone": "done", "EffectFailed": "failed", "EffectReconciled": None}  # which says itself how


@dataclass(frozen=True, slots=True)
class Epoch:
    """The records that were written under one epoch. Instants are unix milliseconds, as they are everywhere here."""

    epoch: int
    first_seq: int
    last_seq: int
    first_at: int
    last_at: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of an effect. `gap_ms` is how long after the attempt before it began, by that one's last record."""

    effect: bytes
    name: str | None
    attempt: int
    recovery: str
    status: str
    start_seq: int
    started_at: int
    end_seq: int | None
    ended_at: int | None
    gap_ms: int | None


@dataclass(frozen=True, slots=True)
class Wait:
    """A suspension, and the record that ended it; no end where the run still waits."""

    seq: int
    since: int
    until: str | None
    ended_seq: int | None
    ended_at: int | None


@dataclass(slots=True)
class Story:
    """A run's records so far. They are added in their order."""

    epochs: list[Epoch] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    signers: Counter[bytes] = field(default_factory=Counter)
    unsigned: int = 0
    conclusion: Record | None = None
    _latest: dict[bytes, int] = field(default_factory=dict)  # effect -> the place of its latest attempt

    def add(self, record: Record) -> None:
        """The next record."""
        self._epoch(record)
        if record.signer is None:
            self.unsigned += 1
        else:
            self.signers[record.signer] += 1
        if record.kind != "Note" and self.waits and self.waits[-1].ended_seq is None:
            self.waits[-1] = replace(self.waits[-1], ended_seq=record.seq, ended_at=record.at)
        if record.kind == "RunSuspended":
            until = record.data.get("until")
            self.waits.append(Wait(record.seq, record.at, until if isinstance(until, str) else None, None, None))
        if record.kind == "RunConcluded":
            self.conclusion = record
        if record.effect is not None:
            self._effect(record, record.effect)

    @property
    def takeovers(self) -> int:
        """How often another epoch went on."""
        return max(len(self.epochs) - 1, 0)

    def _epoch(self, record: Record) -> None:
        if self.epochs and self.epochs[-1].epoch == record.epoch:
            self.epochs[-1] = replace(self.epochs[-1], last_seq=record.seq, last_at=record.at)
        else:
            self.epochs.append(Epoch(record.epoch, record.seq, record.seq, record.at, record.at))

    def _effect(self, record: Record, effect: bytes) -> None:
        place = self._latest.get(effect)
        before = None if place is None else self.attempts[place]
        if record.kind == "EffectStarted":
            name, recovery = record.data.get("name"), record.data.get("recovery", "ask")
            last = None if before is None else before.started_at if before.ended_at is None else before.ended_at
            self._latest[effect] = len(self.attempts)
            self.attempts.append(
                Attempt(
                    effect,
                    name if isinstance(name, str) else None,
                    record.attempt or 1,
                    str(recovery),
                    "started",
                    record.seq,
                    record.at,
                    None,
                    None,
                    None if last is None else record.at - last,
                )
            )
        elif record.kind in _ENDS and before is not None and place is not None and before.end_seq is None:
            status = _ENDS.get(record.kind) or str(record.data.get("disposition"))
            self.attempts[place] = replace(before, status=status, end_seq=record.seq, ended_at=record.at)


def interludes(before: Record | None, record: Record, waits: dict[int, Wait]) -> Iterator[tuple[str, str]]:
    """What happened between two records that no record tells: (`wait`, `silence` or `takeover`, words). `waits` are the
    run's by the seq that ended them."""
    if before is None:
        return
    passed = record.at - before.at
    wait = waits.get(record.seq)
    if wait is not None:
        due = "" if wait.until is None else f", until {wait.until}"
        yield "wait", f"waited {span(record.at - wait.since)}{due}"
    elif passed >= SILENCE_MS_MIN:
        yield "silence", f"{span(passed)} without a record"
    elif passed < 0:
        yield "silence", f"the clock went back by {span(-passed)}"
    if record.epoch != before.epoch:
        yield "takeover", f"epoch {record.epoch} takes over from epoch {before.epoch}"


def as_object(story: Story) -> dict[str, Any]:
    """The members that a run's story has beside those of where it stands."""
    return {
        "epochs": [
            {
                "epoch": each.epoch,
                "first_seq": each.first_seq,
                "last_seq": each.last_seq,
                "first_at": instants.of_millis(each.first_at),
                "last_at": instants.of_millis(each.last_at),
            }
            for each in story.epochs
        ],
        "attempt_list": [
            {
                "effect": each.effect.hex(),
                "name": each.name,
                "attempt": each.attempt,
                "recovery": each.recovery,
                "status": each.status,
                "start_seq": each.start_seq,
                "started_at": instants.of_millis(each.started_at),
                "end_seq": each.end_seq,
                "ended_at": None if each.ended_at is None else instants.of_millis(each.ended_at),
                "gap_ms": each.gap_ms,
            }
            for each in story.attempts
        ],
        "waits": [
            {
                "seq": each.seq,
                "since": instants.of_millis(each.since),
                "until": each.until,
                "ended_seq": each.ended_seq,
                "ended_at": None if each.ended_at is None else instants.of_millis(each.ended_at),
            }
            for each in story.waits
        ],
        "signatures": {
            "signed": sum(story.signers.values()),
            "unsigned": story.unsigned,
            "signers": [signer.hex() for signer in story.signers],
        },
    }
