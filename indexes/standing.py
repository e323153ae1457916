"""Where a run stands, and how a record moves it.

`advance` is a fold: a standing is what the run's records, taken in order, make of it. The moves per kind:

| kind | outcome | wait | effects |
|---|---|---|---|
| RunAdmitted | | ends | |
| EffectStarted, EffectDone, EffectFailed, EffectReconciled | | ends | counted by the key's latest attempt |
| RunSuspended | | begins | |
| RunConcluded | becomes this one | ends | |
| Note | | stays | |
| any other | | ends | |

An outcome stays until the next conclusion: a run that failed and was resumed is still listed under
`failed` until it concludes again. `concluded` says whether the last record is the conclusion.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import NamedTuple

from sealbook.indexes.packing import u64

BLOCK_RECORDS = 64  # records of a run whose arrivals stand in one row of table `arrivals`
SEALING_EXCEPTIONS = frozenset({"failed", "exhausted", "quarantined", "withheld"})


def seals(outcome: str) -> bool:
    """Whether a conclusion with this outcome ends the run for good. Unknown names do."""
    return outcome not in SEALING_EXCEPTIONS


class EffectStatus(enum.IntEnum):
    """How the latest attempt of an effect stands."""

    STARTED = 1
    DONE = 2
    FAILED = 3
    LANDED = 4  # reconciled: it did happen
    DID_NOT_HAPPEN = 5  # reconciled: it did not

    @property
    def word(self) -> str:
        """The status as people and JSON read it."""
        return self.name.lower().replace("_", "-")


DONE = frozenset({EffectStatus.DONE, EffectStatus.LANDED})
FAILED = frozenset({EffectStatus.FAILED, EffectStatus.DID_NOT_HAPPEN})


class Facts(NamedTuple):
    """What a record says that moves a standing. A named tuple, because one is made for every record.

    `until` is microseconds since 1970 for a `RunSuspended` with an instant. `effect_before` and `effect_after` are
    the status of the record's effect before and after it; both None for a record that is no effect record.
    """

    seq: int
    arrival: int
    epoch: int
    at: int
    kind: str
    hash: bytes
    case: str | None = None
    source: str | None = None
    outcome: str | None = None
    until: int | None = None
    effect_before: EffectStatus | None = None
    effect_after: EffectStatus | None = None


class Standing(NamedTuple):
    """Where a run stands now. A named tuple, because each append makes two of them.

    Instants are unix milliseconds, save `until`, which is microseconds since 1970. `owner` and `expires_at` come
    from the lease row, their only home; a stored standing has neither. `epoch` is the highest one known: that of
    the last record, or the lease's. `recent_arrivals` are the arrivals of the records after the last full block of
    64, u64be each: where the store finds them.
    """

    tenant: str
    run: str
    records: int
    head: bytes
    epoch: int
    first_arrival: int
    last_arrival: int
    admitted_at: int | None
    updated_at: int
    case: str | None
    source: str | None
    last_kind: str
    outcome: str | None
    outcome_arrival: int | None
    waiting_seq: int | None  # the RunSuspended that the run waits under
    until: int | None
    effects_started: int
    effects_done: int
    effects_failed: int
    run_tag: bytes
    highest_leaf: int | None
    highest_leaf_seq: int | None
    seal: int | None  # the log position of the run's seal
    recent_arrivals: bytes
    owner: str | None = None
    expires_at: int | None = None

    @property
    def effects_in_doubt(self) -> int:
        """Effects that were started and whose end is not recorded, whatever the lease."""
        return self.effects_started - self.effects_done - self.effects_failed

    @property
    def sealed(self) -> bool:
        """Whether the run's head stands in the log as a seal."""
        return self.seal is not None

    @property
    def waiting(self) -> bool:
        """Whether the run waits under its last suspension."""
        return self.waiting_seq is not None

    @property
    def concluded(self) -> bool:
        """Whether the last record is the run's conclusion."""
        return self.last_kind == "RunConcluded"

    @property
    def final(self) -> bool:
        """Whether the run has concluded with an outcome that seals, so that nothing may follow."""
        return self.concluded and self.outcome is not None and seals(self.outcome)


def advance(standing: Standing | None, facts: Facts, *, tenant: str, run: str, run_tag: bytes) -> Standing:
    """The standing after this record; None is a run that has no record yet."""
    if standing is None:
        standing = Standing(
            tenant=tenant,
            run=run,
            records=0,
            head=bytes(32),
            epoch=0,
            first_arrival=facts.arrival,
            last_arrival=0,
            admitted_at=None,
            updated_at=0,
            case=None,
            source=None,
            last_kind="",
            outcome=None,
            outcome_arrival=None,
            waiting_seq=None,
            until=None,
            effects_started=0,
            effects_done=0,
            effects_failed=0,
            run_tag=run_tag,
            highest_leaf=None,
            highest_leaf_seq=None,
            seal=None,
            recent_arrivals=b"",
        )
    assert facts.seq == standing.records + 1
    kind, before, after = facts.kind, facts.effect_before, facts.effect_after
    suspended, concluded, note = kind == "RunSuspended", kind == "RunConcluded", kind == "Note"
    return Standing(
        tenant,
        run,
        facts.seq,
        facts.hash,
        facts.epoch,
        standing.first_arrival,
        facts.arrival,
        facts.at if kind == "RunAdmitted" and standing.admitted_at is None else standing.admitted_at,
        facts.at,
        facts.case if standing.case is None else standing.case,
        facts.source if standing.source is None else standing.source,
        kind,
        facts.outcome if concluded else standing.outcome,
        facts.arrival if concluded else standing.outcome_arrival,
        facts.seq if suspended else standing.waiting_seq if note else None,
        facts.until if suspended else standing.until if note else None,
        standing.effects_started + (before is None and after is not None),
        standing.effects_done + (after in DONE) - (before in DONE),
        standing.effects_failed + (after in FAILED) - (before in FAILED),
        standing.run_tag,
        standing.highest_leaf,
        standing.highest_leaf_seq,
        standing.seal,
        standing.recent_arrivals + u64(facts.arrival) if facts.seq % BLOCK_RECORDS else b"",
    )


def with_leaf(standing: Standing, *, index: int, seq: int, sealing: bool) -> Standing:
    """The standing once the leaf at log position `index` attests the run's head at `seq`."""
    seal = index if sealing else standing.seal
    return standing._replace(highest_leaf=index, highest_leaf_seq=seq, seal=seal)


# --- the stored form ----------------------------------------------------------------------------------------------
#
#   u8 layout (2)
#   15 × i64le: records epoch first_arrival last_arrival updated_at admitted_at outcome_arrival waiting_seq until
#               effects started, done, failed; highest_leaf highest_leaf_seq seal
#   head 32 | run tag 32
#   4 × u16le: the lengths in bytes of last kind, outcome, case, source (0: none), then these texts
#   (records modulo 64) × u64be: the arrivals of the records after the last full block
#
# A number that may be missing is stored as the least i64.

_MISSING = -(2**63)
_NUMBERS = struct.Struct("<B15q32s32s4H")
_LAYOUT = 2


def pack(standing: Standing) -> bytes:
    """The bytes of a standing's state row. Owner and expiry stay out: their home is the lease row."""
    texts = [text.encode() if text else b"" for text in _texts(standing)]
    numbers = (
        standing.records,
        standing.epoch,
        standing.first_arrival,
        standing.last_arrival,
        standing.updated_at,
        standing.admitted_at,
        standing.outcome_arrival,
        standing.waiting_seq,
        standing.until,
        standing.effects_started,
        standing.effects_done,
        standing.effects_failed,
        standing.highest_leaf,
        standing.highest_leaf_seq,
        standing.seal,
    )
    return _NUMBERS.pack(
        _LAYOUT,
        *[_MISSING if number is None else number for number in numbers],
        standing.head,
        standing.run_tag,
        *map(len, texts),
    ) + b"".join((*texts, standing.recent_arrivals))


def unpack(tenant: str, run: str, value: bytes) -> Standing:
    """The standing that a state row holds; ValueError when the bytes are no such row."""
    if len(value) < _NUMBERS.size:
        raise ValueError("the state row is too short")
    fields = _NUMBERS.unpack_from(value)
    if fields[0] != _LAYOUT:
        raise ValueError(f"the state row has layout {fields[0]}")
    numbers, head, tag, lengths = fields[1:16], fields[16], fields[17], fields[18:]
    if len(value) != _NUMBERS.size + sum(lengths) + 8 * (numbers[0] % BLOCK_RECORDS):
        raise ValueError("the state row's texts and arrivals do not fill it")
    if min(numbers[:4]) < 0:
        raise ValueError("the state row counts less than nothing")
    texts: list[str | None] = []
    offset = _NUMBERS.size
    for length in lengths:
        texts.append(value[offset : offset + length].decode() or None)  # UnicodeDecodeError is a ValueError
        offset += length
    last_kind, outcome, case, source = texts
    records, epoch, first, last, updated = numbers[:5]
    admitted, concluded, waiting, until = _or_none(numbers[5:9])
    started, done, failed = numbers[9:12]
    leaf, seq, seal = _or_none(numbers[12:])
    return Standing(
        tenant,
        run,
        records,
        head,
        epoch,
        first,
        last,
        admitted,
        updated,
        case,
        source,
        last_kind or "",
        outcome,
        concluded,
        waiting,
        until,
        started,
        done,
        failed,
        tag,
        leaf,
        seq,
        seal,
        value[offset:],
    )


def _texts(standing: Standing) -> tuple[str | None, ...]:
    return standing.last_kind, standing.outcome, standing.case, standing.source


def _or_none(numbers: Sequence[int]) -> list[int | None]:
    return [None if number == _MISSING else number for number in numbers]
