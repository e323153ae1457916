"""What a caller may ask the store to write, as values: checked, encoded and measured before any lock is taken.

Every constructor refuses bad input by name. A request holds its own randomness, so that deciding it is pure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sealbook.indexes.standing import EffectStatus, Facts
from sealbook.journal.errors import InvalidEntry, InvalidInput, InvalidName, TooLarge, shown
from sealbook.journal.records import cbor, instants, names
from sealbook.journal.records.body import BODY_BYTES_MAX, SALT_BYTES
from sealbook.journal.records.chain import GENESIS, Head
from sealbook.journal.records.entries import DISPOSITIONS, EFFECT_KEY_BYTES, RECOVERIES, Entry
from sealbook.journal.schema.tables import CheckpointState
from sealbook.merkle.checkpoint import Checkpoint

BASES = ("asserted", "authenticated", "connected")
EFFECT_KINDS = frozenset({"EffectStarted", "EffectDone", "EffectFailed", "EffectReconciled"})
REASON_BYTES_MAX = 64 * 1024


class Prepared(NamedTuple):
    """An entry that has been checked: its encoded data, and the members that the rule reads from it.

    `until` is microseconds since 1970. `plain` is the data as a reader will get it back.
    """

    kind: str
    case: str | None
    effect: bytes | None
    attempt: int | None
    data: bytes
    plain: dict[str, Any]
    source: str | None = None
    id: str | None = None
    outcome: str | None = None
    until: int | None = None
    recovery: str = "ask"
    disposition: str | None = None

    def facts(
        self,
        seq: int,
        arrival: int,
        epoch: int,
        at: int,
        record_hash: bytes,
        before: EffectStatus | None,
        after: EffectStatus | None,
    ) -> Facts:
        """What moves the standing when the entry becomes this record, and its effect goes from `before` to `after`."""
        return Facts(
            seq,
            arrival,
            epoch,
            at,
            self.kind,
            record_hash,
            self.case,
            self.source,
            self.outcome,
            self.until,
            before,
            after,
        )


_salts: dict[int, list[bytes]] = {}  # by process, so that a forked child does not have its parent's


def _salt() -> bytes:
    """Fresh randomness, drawn for 64 requests at a time: each draw lets another thread have the interpreter."""
    process = os.getpid()
    ready = _salts.get(process)
    if ready is None:
        _salts.clear()
        ready = _salts[process] = []
    while True:
        try:
            return ready.pop()
        except IndexError:  # never filled yet, used up, or taken by another thread a moment ago
            drawn = os.urandom(SALT_BYTES * 64)
            ready += [drawn[start : start + SALT_BYTES] for start in range(0, len(drawn), SALT_BYTES)]


class Append(NamedTuple):
    """Append entries to a run. Within a group, `epoch` None is the epoch that the group itself acquired."""

    run: str
    entries: tuple[Prepared, ...]
    epoch: int | None
    after: Head | None
    seal: bool
    salt: bytes


@dataclass(frozen=True, slots=True)
class Acquire:
    """Take a run's lease when nobody holds it."""

    run: str
    owner: str
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Renew:
    """Extend a live lease that this owner holds under this epoch."""

    run: str
    owner: str
    epoch: int
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Release:
    """Give a lease back. Within a group, `epoch` None is the epoch that the group itself acquired."""

    run: str
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Seal:
    """Bring a concluded run's head into the log and freeze the run."""

    run: str
    epoch: int | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """Bring an open run's head into the log."""

    run: str


@dataclass(frozen=True, slots=True)
class AnchorOpen:
    """Bring the heads of all open runs that have moved into the log, under one leaf."""


@dataclass(frozen=True, slots=True)
class GatherHeads:
    """Bring what every tenant's log has come to into the store log, which is known by this origin."""

    origin: str


@dataclass(frozen=True, slots=True)
class RequestCancel:
    """Record that somebody wants a run to stop."""

    run: str
    actor: str
    reason: str
    basis: str
    salt: bytes = field(default_factory=_salt)


@dataclass(frozen=True, slots=True)
class ForceLease:
    """Fence whoever holds a run's lease, and leave it free."""

    run: str
    actor: str
    reason: str
    salt: bytes = field(default_factory=_salt)


@dataclass(frozen=True, slots=True)
class KeepCheckpoint:
    """Keep a checkpoint of the tenant's log, and how far it has come. `note` is the signed note, empty before."""

    checkpoint: Checkpoint
    state: CheckpointState
    note: bytes


@dataclass(frozen=True, slots=True)
class AdoptLog:
    """Let the tenant's log go on as `origin`, from the last known checkpoint of its old one. `note` is that one as it
    was signed."""

    origin: str
    old: Checkpoint
    note: bytes
    actor: str
    reason: str
    salt: bytes = field(default_factory=_salt)


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that enter whole or not at all."""

    requests: tuple[Request, ...]


Request = (
    Append
    | Acquire
    | Renew
    | Release
    | Seal
    | Anchor
    | AnchorOpen
    | GatherHeads
    | RequestCancel
    | ForceLease
    | KeepCheckpoint
    | AdoptLog
    | Group
)


def append(
    run: str,
    entries: Iterable[Entry],
    *,
    epoch: int | None = None,
    after: Head | None = None,
    seal: bool = False,
) -> Append:
    """Append these entries under this epoch; with `after`, only to that head; with `seal`, seal the conclusion."""
    if isinstance(entries, Entry):
        raise InvalidInput("entries", entries, "must be a list of entries, not one entry")
    prepared = tuple([prepare(entry, index) for index, entry in enumerate(entries)])
    return Append(names.check_own_run(run), prepared, _epoch_or_none(epoch), _head_or_none(after), bool(seal), _salt())


def acquire(run: str, *, owner: str, ttl: float) -> Acquire:
    """Acquire the run's lease for `ttl` seconds."""
    ttl_ms = names.check_ttl(ttl)
    return Acquire(names.check_own_run(run), names.check_owner(owner), ttl_ms)


def renew(run: str, *, owner: str, epoch: int, ttl: float) -> Renew:
    """Renew the run's lease so that it ends `ttl` seconds from now."""
    ttl_ms = names.check_ttl(ttl)
    return Renew(names.check_own_run(run), names.check_owner(owner), names.check_epoch(epoch), ttl_ms)


def release(run: str, *, epoch: int | None = None) -> Release:
    """Release the run's lease if it stands under this epoch."""
    return Release(names.check_own_run(run), _epoch_or_none(epoch))


def seal(run: str, *, epoch: int | None = None, outcome: str | None = None) -> Seal:
    """Seal the run; `outcome`, where given, must be that of its conclusion."""
    return Seal(
        names.check_own_run(run), _epoch_or_none(epoch), None if outcome is None else names.check_outcome(outcome)
    )


def anchor(run: str) -> Anchor:
    """Anchor the run's head."""
    return Anchor(names.check_run(run))


def anchor_open() -> AnchorOpen:
    """Anchor every open run that has moved."""
    return AnchorOpen()


def request_cancel(run: str, *, actor: str, reason: str = "", basis: str = "asserted") -> RequestCancel:
    """Ask for the run to be cancelled. `basis` says how the actor is known: authenticated, asserted or connected."""
    if basis not in BASES:
        raise InvalidInput("basis", basis, f"must be one of {', '.join(BASES)}")
    return RequestCancel(names.check_own_run(run), names.check_actor(actor), _reason(reason), basis)


def force_lease(run: str, *, actor: str, reason: str) -> ForceLease:
    """Fence the run's current owner."""
    return ForceLease(names.check_own_run(run), names.check_actor(actor), _reason(reason))


def adopt_log(origin: str, old: Checkpoint, note: bytes, *, actor: str, reason: str) -> AdoptLog:
    """Adopt the old log's checkpoint; the caller has verified the note and checked the origin."""
    return AdoptLog(origin, old, note, names.check_actor(actor), _reason(reason))


def group(requests: Sequence[Request]) -> Group:
    """Requests that enter whole or not at all, in order."""
    if any(isinstance(request, Group) for request in requests):
        raise InvalidInput("group", len(requests), "must not hold another group")
    return Group(tuple(requests))


def _head_or_none(after: object) -> Head | None:
    if after is None:
        return None
    if not isinstance(after, Head):
        raise InvalidInput("after", after, "must be a Head, as head() returns it")
    names.check_size("after", after.seq)
    if not isinstance(after.hash, bytes) or len(after.hash) != len(GENESIS):
        raise InvalidInput("after", after, f"must have a hash of {len(GENESIS)} bytes")
    return after


def _epoch_or_none(epoch: int | None) -> int | None:
    return None if epoch is None else names.check_epoch(epoch)


def _reason(reason: object) -> str:
    if not isinstance(reason, str):
        raise InvalidInput("reason", reason, "must be text")
    try:
        size = len(reason.encode())
    except UnicodeEncodeError:
        raise InvalidInput("reason", reason, "holds a lone surrogate") from None
    if size > REASON_BYTES_MAX:
        raise TooLarge(size, REASON_BYTES_MAX)
    return reason


# --- entries ---------------------------------------------------------------------------------------------------


def prepare(entry: Entry, index: int = 0) -> Prepared:
    """The entry, checked and encoded. Bytes are those of this moment: later changes to the data change nothing.

    Raises `InvalidEntry`, `InvalidName` or `TooLarge`, naming the entry by its index in the batch.
    """
    where = f"entry {index}"
    if not isinstance(entry, Entry):
        raise InvalidEntry(where, f"is {type(entry).__name__}: make it with sealbook.journal.records.entries")
    kind = entry.kind
    check = _CHECKS.get(kind) if type(kind) is str else None
    if check is None:
        kind = names.check_kind(kind)
        check = _CHECKS.get(kind)  # it was a member of an enumeration, say
    case = None if entry.case is None else names.check_case(entry.case)
    effect = None if entry.effect is None else _effect(entry.effect, where)
    attempt = None if entry.attempt is None else _attempt(entry.attempt, effect, where)
    if not isinstance(entry.data, dict | Mapping):  # a dict is told at once, any other map by a slow search
        raise InvalidEntry(f"{where} data", "must be a map")
    data, plain = cbor.encode_map(entry.data, f"{where} data")
    if len(data) > BODY_BYTES_MAX:
        raise TooLarge(len(data), BODY_BYTES_MAX)
    if check is None:
        return Prepared(kind, case, effect, attempt, data, plain)
    return Prepared(kind, case, effect, attempt, data, plain, **check(plain, effect, where))


def prepare_trusted(kind: str, data: dict[str, Any]) -> Prepared:
    """An entry of the store's own making, for the run of operator acts."""
    encoded, plain = cbor.encode_map(data, kind)
    return Prepared(kind, None, None, None, encoded, plain)


def _effect(effect: object, where: str) -> bytes:
    if not isinstance(effect, bytes) or len(effect) != EFFECT_KEY_BYTES:
        raise InvalidEntry(f"{where} effect", f"must be an EffectKey ({EFFECT_KEY_BYTES} bytes), not {shown(effect)}")
    return bytes(effect)


def _attempt(attempt: object, effect: bytes | None, where: str) -> int:
    if isinstance(attempt, bool) or not isinstance(attempt, int) or not 1 <= attempt < 2**63:
        raise InvalidEntry(f"{where} attempt", f"must be a number from 1, not {shown(attempt)}")
    if effect is None:
        raise InvalidEntry(f"{where} attempt", "needs an effect that it is an attempt of")
    return attempt


# What the store reads from the data of the kinds that it acts on, type-checked. Other members are free.


def read_admitted(data: dict[str, Any], effect: bytes | None, where: str) -> dict[str, Any]:
    """The admission key of a RunAdmitted: source and id, both or neither."""
    source, id = data.get("source"), data.get("id")
    if source is None and id is None:
        return {}
    if source is None or id is None:
        raise InvalidEntry(where, "an admission key needs both source and id")
    return {"source": names.check_source(source), "id": names.check_admission_id(id)}


def read_started(data: dict[str, Any], effect: bytes | None, where: str) -> dict[str, Any]:
    """The recovery that an EffectStarted declares; `ask` unless it says otherwise."""
    _need_effect(effect, where)
    recovery = data.get("recovery", "ask")
    if recovery not in RECOVERIES:
        raise InvalidEntry(f"{where} recovery", f"must be one of {', '.join(RECOVERIES)}, not {shown(recovery)}")
    return {"recovery": recovery}


def read_ended(data: dict[str, Any], effect: bytes | None, where: str) -> dict[str, Any]:
    """An EffectDone or EffectFailed: nothing but its effect."""
    _need_effect(effect, where)
    return {}


def read_reconciled(data: dict[str, Any], effect: bytes | None, where: str) -> dict[str, Any]:
    """What an EffectReconciled found."""
    _need_effect(effect, where)
    disposition = data.get("disposition")
    if disposition not in DISPOSITIONS:
        raise InvalidEntry(
            f"{where} disposition", f"must be one of {', '.join(DISPOSITIONS)}, not {shown(disposition)}"
        )
    return {"disposition": disposition}


def read_suspended(data: dict[str, Any], effect: bytes | None, where: str) -> dict[str, Any]:
    """The instant that a RunSuspended waits for, if it names one."""
    until = data.get("until")
    if until is None:
        return {}
    try:
        return {"until": instants.parse(until)}
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidEntry(f"{where} until", f"must be an RFC 3339 instant: {error}") from None


def read_concluded(data: dict[str, Any], effect: bytes | None, where: str) -> dict[str, Any]:
    """The outcome of a RunConcluded."""
    try:
        return {"outcome": names.check_outcome(data.get("outcome"))}
    except InvalidName as error:
        raise InvalidEntry(f"{where} outcome", f"{error.reason}, not {shown(error.value)}") from None


def _need_effect(effect: bytes | None, where: str) -> None:
    if effect is None:
        raise InvalidEntry(where, "needs an effect key")


_CHECKS = {
    "RunAdmitted": read_admitted,
    "EffectStarted": read_started,
    "EffectDone": read_ended,
    "EffectFailed": read_ended,
    "EffectReconciled": read_reconciled,
    "RunSuspended": read_suspended,
    "RunConcluded": read_concluded,
}


def read_members(kind: str, data: dict[str, Any], effect: bytes | None) -> dict[str, Any]:
    """The members of a stored record that the store acts on, by the same rules that admitted them."""
    check = _CHECKS.get(kind)
    return {} if check is None else check(data, effect, kind)
