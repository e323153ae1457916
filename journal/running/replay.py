"""What a run has recorded so far, as the steps of its body, and which of them the body has asked for again.

A record is a step of the body when its data has the member `body_step`, which only a leased run writes. Steps in order
have numbers from 1, and the body must ask for them in that order again. A step made while an effect was under way, or
away from the task that opened the run, has no place among the others: its number is 0, and its key or content finds it.

| kind | a step? | what a replay does with it |
|---|---|---|
| `EffectStarted` | yes; one without it is found by its key | hands back the end, or lets the recovery decide |
| `EffectDone`, `EffectFailed`, `EffectReconciled` | the end of one | |
| `ClockRead`, `RandomDrawn` | yes | hands back what was read |
| `Note`, `Snapshot` | yes; a note about an effect says why it is in doubt | is not written again |
| `RunSuspended` | yes | goes on if the wait is over, else waits on |
| `RunConcluded` | yes | is not written again; one that leaves the run open gives way to whatever else is asked |
| `RunResumed`, `CancelSeen` | no | answers a suspension, and a question for cancellation, by its place |
| any other, and all without `body_step` | no | nothing: others may write to a run |

A failure is handed back if after it an effect was started, the run suspended, or concluded with an outcome that seals,
because the body acted upon it.
Otherwise the effect is attempted again, and the steps recorded after the failure are set aside.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blake3 import blake3

from sealbook.indexes.standing import FAILED, EffectStatus, seals
from sealbook.journal.deciding.admission import SETTLED_AS
from sealbook.journal.errors import Mismatch
from sealbook.journal.records.record import Record
from sealbook.journal.running.arguments import CALL, STEP, AskedStep, encode, same, told

MARKS = frozenset({STEP})  # members of a step that its content leaves out,
MARKS_OF_START = frozenset({STEP, CALL, "name", "recovery"})  # and of an effect's start
KEYED = frozenset({"ClockRead", "RandomDrawn"})
SOFT = KEYED | {"Note", "Snapshot", "RunConcluded"}  # steps that nothing outside of the run has seen
STILL = frozenset({"Note", "CancelSeen"})  # what a body may record and wait on


@dataclass(slots=True, eq=False)
class Step:
    """One step: the record that began it, and for an effect its latest attempt and how that stands.

    `place` is its number among the steps in order, 0 for none. `doubt` is what a note says of an attempt that has no
    end. `over` is the record that ended a suspension. `taken`: the body has asked for it; `handed`: and was answered
    once, so that its records' data need not be kept any longer.
    """

    record: Record
    place: int
    attempt: int = 0
    recovery: str = "ask"
    status: EffectStatus | None = None
    end: Record | None = None
    doubt: str = ""
    over: Record | None = None
    taken: bool = False
    handed: bool = False

    @property
    def kind(self) -> str:
        """The kind of the record that began it."""
        return self.record.kind

    @property
    def content(self) -> dict[str, Any]:
        """What the body asked for, without the marks of its place; of a reading or a draw, that is nothing."""
        if self.kind in KEYED:
            return {}
        marks = MARKS_OF_START if self.kind == "EffectStarted" else MARKS
        return {member: value for member, value in self.record.data.items() if member not in marks}

    @property
    def own_key(self) -> bytes | None:
        """The key that the body gave it; None for one that its place names."""
        return None if CALL in self.record.data else self.record.effect or self.record.data.get("key")

    @property
    def gives_way(self) -> bool:
        """Whether it is a conclusion that left the run open."""
        return self.kind == "RunConcluded" and not seals(str(self.record.data.get("outcome")))

    def __str__(self) -> str:
        name = {} if self.kind != "EffectStarted" else {"name": self.record.data.get("name")}
        return told(self.kind, self.content | name)


class Replay:
    """The steps of one run: folded from its records, added to while it goes on, and taken as the body asks for them."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._in_order: deque[Step] = deque()  # those with a place that the body has not asked for
        self._apart: dict[tuple[str, bytes], deque[Step]] = {}  # those without key and place, by their content
        self._by_key: dict[tuple[str, bytes], deque[Step]] = {}  # those with a key, of each kind
        self._effects: dict[bytes, Step] = {}  # each effect's last step
        self._calls: Counter[str] = Counter()  # the highest number of a positional call, by name
        self._acted = 0  # the seq of the last record by which the body acted: a start, a suspension, an end for good
        self.place = 0  # of the last step in order
        self.wait: Step | None = None  # the suspension under which the run waits
        self.cancel_seen: int | None = None  # the seq at which the body learnt of a request for cancellation
        self.case: str | None = None

    # --- folding -------------------------------------------------------------------------------------------------

    def add(self, record: Record, *, live: bool = False) -> Step | None:
        """Fold in the run's next record; the step that it began or ended. `live`: the body asks for it just now."""
        step = None
        match record.kind:
            case "RunAdmitted":
                self.case = record.case
            case "EffectStarted":
                step = self._started(record, live)
            case "EffectDone" | "EffectFailed" | "EffectReconciled":
                step = self._ended(record)
            case "CancelSeen":
                self.cancel_seen = record.seq
            case "Note" if record.effect is not None:
                self._remark(record.effect, record)
            case "Note" | "Snapshot" | "ClockRead" | "RandomDrawn" | "RunConcluded" | "RunSuspended":
                step = self._plain(record, live)
        if record.kind not in STILL and self.wait is not None:
            self.wait.over, self.wait = record, None
        if record.kind == "RunSuspended":
            self.wait, self._acted = step or Step(record, 0, taken=True), record.seq
        if record.kind == "RunConcluded" and seals(str(record.data.get("outcome"))):
            self._acted = record.seq
        return step

    def _started(self, record: Record, live: bool) -> Step:
        assert record.effect is not None and record.attempt is not None
        step = self._effects.get(record.effect)
        if step is not None and self._goes_on(step, record):
            self.set_aside(step)
            step.end = None
        else:
            step = self._place(record, record.effect, live)
            self._effects[record.effect] = step
        step.attempt, step.status, step.doubt = record.attempt, EffectStatus.STARTED, ""
        step.recovery = str(record.data.get("recovery", "ask"))
        self._acted = record.seq
        name, call = record.data.get("name"), record.data.get(CALL)
        if isinstance(name, str) and isinstance(call, int):
            self._calls[name] = max(self._calls[name], call)
        return step

    def _goes_on(self, step: Step, record: Record) -> bool:
        """Whether a new attempt is made for the same question of the body as the one before it."""
        if step.status is EffectStatus.FAILED and step.end is not None:
            return record.epoch != step.end.epoch and not self.acted_upon(step)
        return True  # one in doubt was repeated, or one that did not happen

    def _ended(self, record: Record) -> Step | None:
        step = self._effects.get(record.effect or b"")
        if step is not None:
            step.end = record._replace(body=b"") if not step.taken else record._replace(body=b"", data={})
            step.status = SETTLED_AS[record.kind, record.data.get("disposition")]
        return step

    def _remark(self, effect: bytes, record: Record) -> None:
        """A note about an attempt: why it is in doubt."""
        step, text = self._effects.get(effect), record.data.get("text")
        if step is not None and record.attempt == step.attempt and isinstance(text, str):
            step.doubt = text

    def _plain(self, record: Record, live: bool) -> Step | None:
        if STEP not in record.data:
            return None
        key = record.data.get("key")
        return self._place(record, key if isinstance(key, bytes) and record.kind in KEYED else None, live)

    def _place(self, record: Record, key: bytes | None, live: bool) -> Step:
        found = record.data.get(STEP)
        step = Step(record._replace(body=b""), found if isinstance(found, int) else 0, taken=live)
        if step.place:
            self.place = step.place
        if live:  # what a body asks for twice is read again: a long run must not grow in memory with its arguments
            step.record = step.record._replace(data={STEP: found})
            return step
        if step.place:
            self._drop_conclusion()
            self._in_order.append(step)
        if key is not None:
            self._by_key.setdefault((step.kind, key), deque()).append(step)
        elif not step.place:
            self._apart.setdefault((step.kind, encode(step.content)), deque()).append(step)
        return step

    def _drop_conclusion(self) -> None:
        """A conclusion that left the run open is no step any more once the run went on."""
        if self._in_order and self._in_order[-1].kind == "RunConcluded":
            self._in_order.pop()

    # --- asking --------------------------------------------------------------------------------------------------

    def acted_upon(self, step: Step) -> bool:
        """Whether the run went on by acting after this step ended."""
        return step.end is not None and self._acted > step.end.seq

    def set_aside(self, step: Step) -> None:
        """Forget the notes and readings in order that follow a failed step, which is now attempted again."""
        if step.status in FAILED and step.place:
            while (last := self._in_order and self._in_order[-1]) and self._softly_after(last, step):
                self._in_order.pop().taken = True
            self.place = max(step.place, *(kept.place for kept in self._in_order), 0)

    def _softly_after(self, last: Step, step: Step) -> bool:
        return last.kind in SOFT and last.record.seq > step.record.seq

    def effect(self, key: bytes) -> Step | None:
        """The last step of the effect of this key."""
        return self._effects.get(key)

    def next_call(self, name: str) -> int:
        """The number of the next positional call of this name that no record has."""
        return self._calls[name] + 1

    def take(self, asked: AskedStep, *, in_order: bool) -> Step | None:
        """The recorded step that the body asks for, which is then taken; None when it is a new one.

        `in_order`: the question has its place among the others. `Mismatch` names the first step that it departs from.
        """
        if asked.key is not None:
            step = self._keyed(asked, in_order)
        elif in_order:
            step = self._head(asked)
        else:
            step = self._alike(asked)
        if step is not None and not step.taken:
            self.check(step, asked)
            step.taken = True
        return step

    def check(self, step: Step, asked: AskedStep) -> None:
        """Raise `Mismatch` unless the body asks for what is recorded. Of a start that others wrote, the name counts."""
        name = step.record.data.get("name") if asked.kind == "EffectStarted" else None
        other_name = isinstance(name, str) and name != asked.name
        if other_name or (STEP in step.record.data and not _same(asked, step)):
            raise self._mismatch(step, asked)

    def _keyed(self, asked: AskedStep, in_order: bool) -> Step | None:
        assert asked.key is not None
        step = _next(self._by_key.get((asked.kind, asked.key)))
        if step is None and asked.kind == "EffectStarted" and asked.key in self._effects:
            return self._effects[asked.key]  # asked for before: it has an answer, and no place of its own
        if in_order and (step is None or step.place):
            head = self._first(asked)
            if head is not step:
                raise self._mismatch(head, asked)
        return step

    def _head(self, asked: AskedStep) -> Step | None:
        head = self._first(asked)
        if head is None:
            return None
        fits = head.kind == asked.kind and (head.kind != "EffectStarted" or CALL in head.record.data)
        if not fits or (head.kind in KEYED and "key" in head.record.data):
            raise self._mismatch(head, asked)
        return head

    def _alike(self, asked: AskedStep) -> Step | None:
        """A step of this very content, without a place or first in order: one task may have hopped between threads."""
        step = _next(self._apart.get((asked.kind, encode(asked.data))))
        if step is None and (head := self._first(asked)) is not None:
            step = head if head.kind == asked.kind and _same(asked, head) else None
        return step

    def _first(self, asked: AskedStep) -> Step | None:
        """The first step in order that was not asked for yet."""
        while self._in_order:
            head = self._in_order[0]
            if not head.taken and (not head.gives_way or (asked.kind == head.kind and _same(asked, head))):
                return head
            self._in_order.popleft()
        return None

    def next_seq(self) -> int | None:
        """The seq of the first step in order that was not asked for yet; None when the replay is over."""
        return next((step.record.seq for step in self._in_order if not step.taken and not step.gives_way), None)

    def _mismatch(self, step: Step | None, asked: AskedStep) -> Mismatch:
        assert step is not None
        where = f"record {step.record.seq}" if not step.place else f"step {step.place} (record {step.record.seq})"
        stated, recorded = str(asked), str(step)
        if stated == recorded and _same(asked, step):  # they differ in how they are named
            stated, recorded = f"{stated} {_named(asked.key)}", f"{recorded} {_named(step.own_key)}"
        elif stated == recorded:  # they were cut to the same text, and their digests tell them apart
            stated, recorded = f"{stated} {_digest(asked.data)}", f"{recorded} {_digest(step.content)}"
        return Mismatch(self._run, where, stated, recorded, step.record.seq)


def _next(steps: deque[Step] | None) -> Step | None:
    """The first of these steps that the body has not asked for."""
    while steps:
        if not steps[0].taken:
            return steps[0]
        steps.popleft()
    return None


def _same(asked: AskedStep, step: Step) -> bool:
    return same(asked.data, step.content)


def _named(key: bytes | None) -> str:
    return "by its place" if key is None else f"by key {key.hex()[:16]}…"


def _digest(data: Mapping[str, Any]) -> str:
    return blake3(encode(data)).hexdigest()[:16]
