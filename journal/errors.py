"""Every error of the journal, sorted by what the caller does next.

- `Refused`: nothing was written; the caller decides what to do.
- `Corrupt`: stored bytes contradict themselves; stop, check, restore.
- `EngineFailed`: the storage could not do it; `maybe_written` says whether the write may have happened.
- `UnknownVersion`: a newer build wrote this; upgrade. It is never reported as tampering.

Errors carry their values as attributes. The text names the run alone; the tenant is the attribute `tenant`,
 which the verb that raises fills in.
`next_step` says what the caller does next, as a value of the class, and `hint` names the situation where it needs more.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

MISMATCH_CHARACTERS_MAX = 160  # of each side: two of them are a line that people can still read


class NextStep(enum.StrEnum):
    """What a caller does about an error: one for each class of errors."""

    FIX = "fix the call"
    """The call itself is wrong, whatever the store holds."""
    DECIDE = "decide"
    """The store's state refuses the request: read it, and decide."""
    RETRY = "retry"
    """Nothing is wrong with the request: make it again later."""
    REOPEN = "open another journal"
    """This journal is of no more use here: open one that is."""
    LOOK = "look at the world"
    """What happened is not known: find out before anything is repeated."""
    REPAIR = "repair the storage"
    """The storage could not do it: make room, or mend what it says."""
    RESTORE = "stop, check, restore"
    """Stored bytes contradict themselves."""
    UPGRADE = "upgrade"
    """A newer build wrote this."""


class Hint(enum.Enum):
    """A situation that the class of an error does not tell by itself."""

    UNREADABLE = enum.auto()
    """The store's files cannot be read at all."""
    FILE_MODES = enum.auto()
    """The store's files, or their medium, may not be written."""
    NEVER_LEASED = enum.auto()
    """The run has no lease to renew or to give back."""


class SealbookError(Exception):
    """The root of every error that the journal raises on purpose."""

    next_step: ClassVar[NextStep] = NextStep.DECIDE
    tenant: str | None = None
    hint: Hint | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuilt, (type(self), dict(self.__dict__)))


E = TypeVar("E", bound=SealbookError)


def _rebuilt(cls: type[SealbookError], values: dict[str, Any]) -> SealbookError:
    error = cls.__new__(cls)
    error.__dict__.update(values)
    return error


def hinted(error: E, hint: Hint) -> E:
    """The error, which was met in that situation."""
    error.hint = hint
    return error


def shown(value: object, characters_max: int = 60) -> str:
    """The value as it may stand in an error of one line: quoted, escaped, and cut when it is long."""
    try:
        text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    except Exception:  # an integer of more digits than Python prints, or a foreign __repr__ that fails
        text = f"<{type(value).__name__}>"
    return text if len(text) <= characters_max else f"{text[:characters_max]}… ({len(text)} characters)"


def printable(name: str) -> str:
    """A name within a text of one line: what would move the terminal or the line is escaped."""
    return name if name.isprintable() else ascii(name)[1:-1]


# --- Refused: nothing was written -----------------------------------------------------------------


class Refused(SealbookError):
    """The request breaks a rule. Nothing was written."""


@dataclass(eq=False)
class InvalidName(Refused):
    """A tenant, run, case, admission source or id, actor or owner that is not a legal name."""

    next_step: ClassVar[NextStep] = NextStep.FIX

    what: str
    value: object
    reason: str

    def __str__(self) -> str:
        return f"{self.what} {shown(self.value)} {self.reason}"


@dataclass(eq=False)
class InvalidEntry(Refused):
    """An entry that cannot become a record: a value that CBOR or the kind's schema does not take."""

    next_step: ClassVar[NextStep] = NextStep.FIX

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(eq=False)
class InvalidInput(Refused):
    """An argument outside its range."""

    next_step: ClassVar[NextStep] = NextStep.FIX

    what: str
    value: object
    reason: str

    def __str__(self) -> str:
        return f"{self.what} {shown(self.value)}: {self.reason}"


@dataclass(eq=False)
class InvalidCursor(Refused):
    """A cursor that is malformed, or that another tenant, store or listing issued."""

    next_step: ClassVar[NextStep] = NextStep.FIX

    reason: str

    def __str__(self) -> str:
        return f"cursor refused: {self.reason}; start again without a cursor"


@dataclass(eq=False)
class TooLarge(Refused):
    """A record whose body is longer than the limit. Sizes are bytes."""

    next_step: ClassVar[NextStep] = NextStep.FIX

    size: int
    size_max: int

    def __str__(self) -> str:
        return f"the record would be {self.size} bytes, the limit is {self.size_max}: keep large values elsewhere"


@dataclass(eq=False)
class Fenced(Refused):
    """The caller's epoch is not the current one: another owner has taken over, or the epoch was never issued.

    `reason` is how a leased run learned that its lease is lost, which may be before anybody has taken over.
    """

    run: str
    held: int
    current: int
    reason: str = ""

    def __str__(self) -> str:
        why = self.reason or f"the current epoch is {self.current}"
        return f"{printable(self.run)}: epoch {self.held} is fenced, {why}: acquire the lease anew"


@dataclass(eq=False)
class LeaseHeld(Refused):
    """The run's lease is live. `remaining_ms` is what is left of it."""

    run: str
    owner: str
    epoch: int
    remaining_ms: int

    def __str__(self) -> str:
        return (
            f"{printable(self.run)}: {shown(self.owner)} holds the lease under epoch {self.epoch}"
            f" for {self.remaining_ms / 1000:g} s more: wait, or force it"
        )


@dataclass(eq=False)
class LeaseNotHeld(Refused):
    """A renewal of a lease that this owner does not hold under this epoch, or that has expired."""

    run: str
    owner: str
    epoch: int
    reason: str

    def __str__(self) -> str:
        run = printable(self.run)
        return f"{run}: {shown(self.owner)} does not hold the lease under epoch {self.epoch}: {self.reason}"


@dataclass(eq=False)
class RunSealed(Refused):
    """The run is sealed: its head stands in the log and it takes no more records and no lease."""

    run: str
    outcome: str

    def __str__(self) -> str:
        return f"{printable(self.run)} is sealed ({self.outcome}): it takes no more records"


@dataclass(eq=False)
class Concluded(Refused):
    """The run's conclusion is final (its outcome seals), so nothing may follow it."""

    run: str
    outcome: str

    def __str__(self) -> str:
        return f"{printable(self.run)} has concluded ({self.outcome}): seal it, nothing may follow"


@dataclass(eq=False)
class NotConcluded(Refused):
    """A seal of a run whose last record is no conclusion, or one whose outcome does not seal."""

    run: str
    last_kind: str | None
    outcome: str | None

    def __str__(self) -> str:
        if self.outcome is not None:
            run = printable(self.run)
            return f"{run} concluded as {self.outcome}, which leaves it open for resumption: it cannot be sealed"
        return f"{printable(self.run)} ends in {self.last_kind or 'nothing'}, not in RunConcluded: it cannot be sealed"


@dataclass(eq=False)
class DuplicateEffect(Refused):
    """The effect already has a recorded start whose attempt does not allow another one."""

    run: str
    effect: str
    attempt: int
    status: str

    def __str__(self) -> str:
        return f"{printable(self.run)}: effect {self.effect[:16]}… has attempt {self.attempt} already ({self.status})"


@dataclass(eq=False)
class EffectNotStarted(Refused):
    """An end for an effect that has no recorded start."""

    run: str
    effect: str

    def __str__(self) -> str:
        return f"{printable(self.run)}: effect {self.effect[:16]}… was never started"


@dataclass(eq=False)
class EffectSettled(Refused):
    """An end for an effect whose latest attempt has ended already; `seq` is the record of that, where it is known."""

    run: str
    effect: str
    attempt: int
    status: str
    seq: int | None = None

    def __str__(self) -> str:
        run = printable(self.run)
        how = self.status if self.seq is None else f"{self.status}, record {self.seq}"
        return f"{run}: attempt {self.attempt} of effect {self.effect[:16]}… has ended already ({how})"


@dataclass(eq=False)
class DuplicateAdmission(Refused):
    """The admission key has been honoured already; `holder` is the run that it created."""

    source: str
    id: str
    holder: str

    def __str__(self) -> str:
        return f"({shown(self.source)}, {shown(self.id)}) was admitted already, as run {printable(self.holder)}"


@dataclass(eq=False)
class Conflict(Refused):
    """The run's head is not the one that `after=` names. `head` is the current one."""

    run: str
    head: Any

    def __str__(self) -> str:
        return f"{printable(self.run)}: the head has moved to record {self.head.seq}: read from there and decide again"


@dataclass(eq=False)
class Mismatch(Refused):
    """What the caller states differs from what is recorded. Both are shown.

    `seq` is the record that a run's body departs from, where it is one.
    """

    next_step: ClassVar[NextStep] = NextStep.FIX

    run: str
    what: str
    stated: object
    recorded: object
    seq: int | None = None

    def __str__(self) -> str:
        recorded, stated = (shown(value, MISMATCH_CHARACTERS_MAX) for value in (self.recorded, self.stated))
        return f"{printable(self.run)}: {self.what} is {recorded}, not {stated}"


@dataclass(eq=False)
class InDoubt(Refused):
    """An effect was started and its end is not recorded: a human, or a check of the world, must decide.

    A function that cannot tell whether its effect happened raises `InDoubt(reason=…)`; its run fills in the rest.
    """

    next_step: ClassVar[NextStep] = NextStep.LOOK

    run: str = ""
    effect: str = ""
    attempt: int = 0
    reason: str = ""

    def __str__(self) -> str:
        why = f" ({printable(self.reason)})" if self.reason else ""
        effect = f"attempt {self.attempt} of effect {self.effect[:16]}…"
        run = printable(self.run)
        return f"{run}: {effect} is in doubt{why}: look whether it happened, and record that (sealbook reconcile)"


@dataclass(eq=False)
class KeyRequired(Refused):
    """A step of a run's body that only its place could name, while an effect of the run is under way.

    Tasks do not take turns in the same order twice, so such a step needs a key of its own.
    """

    next_step: ClassVar[NextStep] = NextStep.FIX

    run: str
    what: str

    def __str__(self) -> str:
        return f"{printable(self.run)}: {self.what} needs key=, because another effect of the run is under way"


@dataclass(eq=False)
class RecordedFailure(Refused):
    """An effect failed when the run was executed before, and the run went on from there: the failure is handed back.

    It is also of the recorded type, where that is an exception whose module is loaded, so that the same `except`
    catches it. `error` is the name of that type.
    """

    run: str
    effect: str
    attempt: int
    error: str
    message: str

    def __str__(self) -> str:
        effect = f"attempt {self.attempt} of effect {self.effect[:16]}…"
        what = f"{self.error}: {self.message}" if self.message else self.error
        return f"{printable(self.run)}: {effect} failed when it was recorded ({printable(what)})"


@dataclass(eq=False)
class RestoredRun(Refused):
    """The run was open when its store was exported: what it did afterwards, and with which effects, is not known.

    Nobody writes to it until an operator who knows, or can find out, forces its lease.
    """

    run: str

    def __str__(self) -> str:
        return f"{printable(self.run)}: was open when the store was restored: what it did meanwhile is not known"


@dataclass(eq=False)
class NotFound(Refused):
    """What was asked for is not in the store."""

    what: str
    value: object

    def __str__(self) -> str:
        return f"no {self.what} {shown(self.value)}"


class Closed(Refused):
    """The journal has been closed."""

    next_step: ClassVar[NextStep] = NextStep.REOPEN

    def __str__(self) -> str:
        return "the journal is closed: open it again"


@dataclass(eq=False)
class WrongLoop(Refused):
    """An asynchronous journal belongs to the event loop that enters it, and was used outside of it, or before."""

    next_step: ClassVar[NextStep] = NextStep.REOPEN

    reason: str

    def __str__(self) -> str:
        return f"the journal is not this event loop's: {self.reason}"


@dataclass(eq=False)
class Busy(Refused):
    """Another process or thread holds what this request needs, and waiting took too long."""

    next_step: ClassVar[NextStep] = NextStep.RETRY

    what: str

    def __str__(self) -> str:
        return f"{self.what}: try again"


@dataclass(eq=False)
class Unfinished(Refused):
    """What an export that was cut off has left cannot be gone on with by this one. `what` is the file."""

    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what} cannot be gone on with: {self.reason}"


@dataclass(eq=False)
class ReadOnly(Refused):
    """A write through a journal that was opened with `readonly=True`."""

    next_step: ClassVar[NextStep] = NextStep.REOPEN
    hint = Hint.FILE_MODES

    def __str__(self) -> str:
        return "the journal is open for reading only: open it without readonly=True"


# --- Corrupt: stored bytes contradict themselves ------------------------------------------------------


@dataclass(eq=False)
class Corrupt(SealbookError):
    """Stored bytes contradict themselves. Where a run is to blame, `run` and `seq` say which record."""

    next_step: ClassVar[NextStep] = NextStep.RESTORE

    what: str
    run: str | None = None
    seq: int | None = None
    table: str | None = None
    key: bytes | None = None

    def __str__(self) -> str:
        run = None if self.run is None else printable(self.run)
        place = [] if run is None else [run if self.seq is None else f"{run} record {self.seq}"]
        if self.table is not None:
            place.append(f"table {self.table} key {key_text(self.key or b'')}")
        return f"{', '.join(place)}: {self.what}" if place else self.what


def key_text(key: bytes) -> str:
    """A key as people read it: its leading names as text, what follows them as hex, separated by `/`."""
    parts = []
    while b"\0" in key and (name := _name(key.partition(b"\0")[0])):
        parts.append(name)
        key = key.partition(b"\0")[2]
    return "/".join([*parts, _name(key) or key.hex()])


def _name(part: bytes) -> str:
    try:
        text = part.decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""


# --- EngineFailed: the storage could not do it -----------------------------------------------------------


@dataclass(eq=False)
class EngineFailed(SealbookError):
    """The storage failed. `maybe_written` says whether the write may have happened all the same."""

    next_step: ClassVar[NextStep] = NextStep.REPAIR

    what: str
    maybe_written: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.what


@dataclass(eq=False)
class StoreFull(EngineFailed):
    """The disk, a quota or the address space has no room for the write. Nothing was written."""


@dataclass(eq=False)
class StoreMissing(EngineFailed):
    """No store stands at this path."""

    next_step: ClassVar[NextStep] = NextStep.FIX


@dataclass(eq=False)
class WrongFormat(EngineFailed):
    """The path holds something that is not a store, or a store of a format that this build does not read."""

    next_step: ClassVar[NextStep] = NextStep.UPGRADE


@dataclass(eq=False)
class OpenedBeforeFork(EngineFailed):
    """The journal was opened before this process was forked. Open it anew in the child."""

    next_step: ClassVar[NextStep] = NextStep.REOPEN


@dataclass(eq=False)
class IndexStale(EngineFailed):
    """The indexes are being rebuilt, or a rebuild was cut short. Chains stay readable; run `reindex`."""

    next_step: ClassVar[NextStep] = NextStep.RETRY

    what: str = "the indexes are stale: run reindex (chains, verify and export work meanwhile)"


@dataclass(eq=False)
class CommitUnknown(EngineFailed):
    """The commit was sent and its outcome could not be learnt: the records may stand or not."""

    next_step: ClassVar[NextStep] = NextStep.LOOK

    maybe_written: ClassVar[bool] = True


# --- UnknownVersion ------------------------------------------------------------------------------------------


@dataclass(eq=False)
class UnknownVersion(SealbookError):
    """A newer build wrote this store or record. It is not damage: read it with that build."""

    next_step: ClassVar[NextStep] = NextStep.UPGRADE

    what: str
    run: str | None = None
    seq: int | None = None

    def __str__(self) -> str:
        place = "" if self.run is None else f"{printable(self.run)} record {self.seq}: "
        return f"{place}{self.what}"
