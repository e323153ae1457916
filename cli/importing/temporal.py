"""Read a Temporal workflow history, in either spelling of its event names, as the history of one run.

| event | record |
|---|---|
| WorkflowExecutionStarted | `RunAdmitted`; run = originalExecutionRunId, case = workflowId |
| WorkflowTaskScheduled, Started, Completed, Failed, TimedOut | `TurnScheduled`, `TurnStarted`, … |
| ActivityTaskScheduled, NexusOperationScheduled, StartChildWorkflowExecutionInitiated | `EffectStarted` |
| SignalExternal…Initiated, RequestCancelExternal…Initiated | `EffectStarted` |
| their ends (`EFFECT_ENDS`) | `EffectDone`, `EffectFailed` |
| ActivityTaskStarted | `temporal.ActivityStarted`, uninterpreted |
| NexusOperationStarted, ChildWorkflowExecutionStarted | `temporal.…` of the same name, uninterpreted |
| TimerStarted; TimerFired, TimerCanceled | `RunSuspended` until event time + timeout; `RunResumed` |
| WorkflowExecutionSignaled, …UpdateAccepted; …UpdateCompleted | `EventReceived`; `EventAnswered` |
| WorkflowExecutionCancelRequested | `CancelRequested` of `~tenant`, and a `Note` that keeps what the event says |
| MarkerRecorded of a side effect or a local activity | `EffectStarted` and its end in one batch |
| MarkerRecorded of a version, a patch or anything else | `Note` |
| WorkflowExecutionCompleted, Failed, Canceled, TimedOut, Terminated, ContinuedAsNew | `RunConcluded` |
| any other event, an end without a start, a second end | `Imported`, with the event's kind and the reason |

What an event says stands in its record's data: `event_id`, `event_type` as it was spelled, `event_time`, its
`attributes`, and under `event` every other member of it. An effect's input moves from the attributes to `args`, a
result to `result`, a failure to `error`. Event times never become the record's `at`.

A workflow task that failed or timed out means that the worker died: what follows is a new segment, which becomes
the next epoch. A segment's owner is the identity that starts its first workflow task. Another identity alone begins
no segment, because one worker may poll under several: its sticky queue has an identity of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from sealbook.cli.importing import payloads, strict
from sealbook.cli.importing.history import Cancel, History, Segment, legal, unnamed_run
from sealbook.cli.importing.strict import DamagedDocument, damaged
from sealbook.journal import entries
from sealbook.journal.records import instants
from sealbook.journal.records.entries import EffectKey, Entry
from sealbook.journal.records.names import ACTOR_BYTES_MAX, CASE_BYTES_MAX, RUN_BYTES_MAX

SOURCE = "temporal"
STRANGER = "temporal"  # who acted where the history gives no identity
ATTRIBUTES_DEPTH = 2  # the containers around an attribute in a record: its data, and `attributes`

STARTED = "WorkflowExecutionStarted"
TURNS = MappingProxyType(
    {
        "WorkflowTaskScheduled": "TurnScheduled",
        "WorkflowTaskStarted": "TurnStarted",
        "WorkflowTaskCompleted": "TurnCompleted",
        "WorkflowTaskFailed": "TurnFailed",
        "WorkflowTaskTimedOut": "TurnTimedOut",
    }
)
WORKER_DIED = frozenset({"WorkflowTaskFailed", "WorkflowTaskTimedOut"})

# event -> (kind of effect, where its attributes have the effect's name)
EFFECT_STARTS = MappingProxyType(
    {
        "ActivityTaskScheduled": ("activity", ("activityType", "name")),
        "NexusOperationScheduled": ("nexus", ("operation",)),
        "StartChildWorkflowExecutionInitiated": ("child", ("workflowType", "name")),
        "SignalExternalWorkflowExecutionInitiated": ("signal", ("signalName",)),
        "RequestCancelExternalWorkflowExecutionInitiated": ("cancel", ()),
    }
)
# event -> (kind of effect, whether it was done)
EFFECT_ENDS = MappingProxyType(
    {
        "ActivityTaskCompleted": ("activity", True),
        "ActivityTaskFailed": ("activity", False),
        "ActivityTaskTimedOut": ("activity", False),
        "ActivityTaskCanceled": ("activity", False),
        "NexusOperationCompleted": ("nexus", True),
        "NexusOperationFailed": ("nexus", False),
        "NexusOperationTimedOut": ("nexus", False),
        "NexusOperationCanceled": ("nexus", False),
        "ChildWorkflowExecutionCompleted": ("child", True),
        "ChildWorkflowExecutionFailed": ("child", False),
        "ChildWorkflowExecutionTimedOut": ("child", False),
        "ChildWorkflowExecutionCanceled": ("child", False),
        "ChildWorkflowExecutionTerminated": ("child", False),
        "StartChildWorkflowExecutionFailed": ("child", False),
        "ExternalWorkflowExecutionSignaled": ("signal", True),
        "SignalExternalWorkflowExecutionFailed": ("signal", False),
        "ExternalWorkflowExecutionCancelRequested": ("cancel", True),
        "RequestCancelExternalWorkflowExecutionFailed": ("cancel", False),
    }
)
# Reports that an effect is under way elsewhere: no effect record, but an end may name them as its start.
UNDER_WAY = MappingProxyType(
    {
        "ActivityTaskStarted": "temporal.ActivityStarted",
        "NexusOperationStarted": "temporal.NexusOperationStarted",
        "ChildWorkflowExecutionStarted": "temporal.ChildWorkflowExecutionStarted",
    }
)
EVENTS = MappingProxyType(
    {
        "WorkflowExecutionSignaled": "EventReceived",
        "WorkflowExecutionUpdateAccepted": "EventReceived",
        "WorkflowExecutionUpdateCompleted": "EventAnswered",
    }
)
TIMER_ENDS = frozenset({"TimerFired", "TimerCanceled"})
OUTCOMES = MappingProxyType(
    {
        "WorkflowExecutionCompleted": "completed",
        "WorkflowExecutionFailed": "failed",
        "WorkflowExecutionCanceled": "canceled",
        "WorkflowExecutionTimedOut": "timed-out",
        "WorkflowExecutionTerminated": "terminated",
        "WorkflowExecutionContinuedAsNew": "continued-as-new",
    }
)
# Markers that stand for something done outside the workflow's own code; versions and patches do nothing outside.
EFFECT_MARKERS = frozenset({"SideEffect", "MutableSideEffect", "LocalActivity", "core_local_activity"})

_DURATION = re.compile(r"(-?)(\d{1,18})(?:\.(\d{1,9}))?s", re.ASCII)


def read(text: bytes, name: str) -> History:
    """The history that this file holds; `Damaged` names the file and the event when it holds none.

    A history begins with WorkflowExecutionStarted, counts its events 1, 2, 3 …, and nothing follows its conclusion.
    """
    document = strict.loads(text, name)
    digest = strict.digest(document, name)
    events = _events(document, name)
    reader = _Reader(events[0])
    for event in events:
        reader.take(event)
    return reader.history(digest)


# --- Events ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One event: its number, its type in the short spelling, and what it says."""

    file: str
    id: int
    type: str
    spelled: str
    time: str | None
    attributes: Mapping[str, Any]
    others: Mapping[str, Any]

    def damaged(self, reason: str) -> DamagedDocument:
        """The refusal of the file because of this event."""
        return damaged(self.file, reason, f"event {self.id} ({self.spelled})")

    def text(self, *path: str) -> str | None:
        """The text at this path of the attributes; None where it is missing or empty."""
        value: Any = self.attributes
        for member in path:
            if not isinstance(value, Mapping):
                raise self.damaged(f"{'.'.join(path)} is no text")
            value = value.get(member)
            if value is None:
                return None
        if not isinstance(value, str):
            raise self.damaged(f"{'.'.join(path)} is no text")
        return value or None

    def number(self, member: str) -> int | None:
        """The event number that this attribute holds; None where it is missing or 0, which names no event."""
        value = self.attributes.get(member)
        if value is None:
            return None
        number = _event_number(value)
        if number is None:
            raise self.damaged(f"{member} is no event number")
        return number or None

    def data(self, *moved: str) -> dict[str, Any]:
        """What a record keeps of the event, without the attributes that have moved to members of their own."""
        kept = {name: value for name, value in self.attributes.items() if name not in moved or value is None}
        data: dict[str, Any] = {"event_id": self.id, "event_type": self.spelled}
        if self.time is not None:
            data["event_time"] = self.time
        if kept:
            data["attributes"] = kept
        if self.others:
            data["event"] = dict(self.others)
        return data


def _events(document: Any, name: str) -> list[HistoryEvent]:
    if not isinstance(document, dict) or not isinstance(document.get("events"), list):
        raise damaged(name, "is no Temporal history: it needs an object with a list `events`")
    events = [_event(raw, number, name) for number, raw in enumerate(document["events"], start=1)]
    if not events:
        raise damaged(name, "holds no events")
    if events[0].type != STARTED:
        raise events[0].damaged(f"a history begins with {STARTED}")
    for event, following in pairwise(events):
        if event.type in OUTCOMES:
            raise following.damaged(f"it follows the run's conclusion, event {event.id}")
    others = {member: value for member, value in document.items() if member != "events"}
    if others:
        events[0] = replace(events[0], others={**events[0].others, "file": others})
    return events


def _event(raw: Any, number: int, name: str) -> HistoryEvent:
    where = f"event {number}"
    if not isinstance(raw, dict):
        raise damaged(name, "is no object", where)
    if _event_number(raw.get("eventId")) != number:
        raise damaged(name, f"has eventId {raw.get('eventId')!r}: events are missing, repeated or out of order", where)
    spelled = raw.get("eventType")
    if not isinstance(spelled, str) or not spelled:
        raise damaged(name, "its eventType is no text", where)
    kind = _short(spelled)
    time = raw.get("eventTime")
    if time is not None:
        _micros(time, name, where)
    attributes_name = _attributes_name(kind, raw)
    attributes = raw.get(attributes_name)
    if attributes is None:
        attributes = {}
    if not isinstance(attributes, dict):
        raise damaged(name, f"its {attributes_name} are no object", where)
    rest = {
        member: value
        for member, value in raw.items()
        if member not in ("eventId", "eventType", "eventTime", attributes_name)
    }

    def refuse(reason: str) -> DamagedDocument:
        return damaged(name, reason, f"{where} ({spelled})")

    return HistoryEvent(
        name,
        number,
        kind,
        spelled,
        time,
        {member: payloads.decoded(value, refuse, ATTRIBUTES_DEPTH) for member, value in attributes.items()},
        {member: payloads.decoded(value, refuse, ATTRIBUTES_DEPTH) for member, value in rest.items()},
    )


def _short(spelled: str) -> str:
    """EVENT_TYPE_TIMER_FIRED and TimerFired are two spellings of one name; the second is ours."""
    if not spelled.startswith("EVENT_TYPE_"):
        return spelled
    return "".join(word.capitalize() for word in spelled.removeprefix("EVENT_TYPE_").split("_"))


def _attributes_name(kind: str, raw: Mapping[str, Any]) -> str:
    """The member that holds the event's attributes: the one of its type, or for an unknown type the only one."""
    own = kind[0].lower() + kind[1:] + "EventAttributes"
    found = [member for member in raw if member.endswith("EventAttributes")]
    return found[0] if own not in raw and len(found) == 1 and not _is_known(kind) else own


def _is_known(kind: str) -> bool:
    tables = (TURNS, EFFECT_STARTS, EFFECT_ENDS, UNDER_WAY, EVENTS, TIMER_ENDS, OUTCOMES)
    return kind in (STARTED, "TimerStarted", "MarkerRecorded", "WorkflowExecutionCancelRequested") or any(
        kind in table for table in tables
    )


def _event_number(value: Any) -> int | None:
    """Protocol Buffers' JSON mapping writes 64-bit integers as text and readers take numbers too."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _micros(time: Any, name: str, where: str) -> int:
    try:
        return instants.parse(time)
    except (TypeError, ValueError):
        raise damaged(name, f"its eventTime {time!r} is no RFC 3339 instant", where) from None


# --- Records ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """The segment that is being filled."""

    owner: str | None = None
    entries: list[Entry] = field(default_factory=list)
    cancels: list[Cancel] = field(default_factory=list)


class _Reader:
    """Takes a history's events in order; what it has seen so far decides what the next one means."""

    def __init__(self, started: HistoryEvent) -> None:
        workflow_id = started.text("workflowId")
        self.started = started
        self.case = None if workflow_id is None else legal(workflow_id, CASE_BYTES_MAX)
        self.remarks: list[str] = []
        if self.case != workflow_id:
            self.remarks.append(f"workflowId is no legal case: {self.case} stands for it")
        self.segments: list[Segment] = []
        self.open = _Open()
        self.worker_died = False
        self.effects: dict[tuple[str, int], bool] = {}  # (kind, number of its start) -> whether it has ended
        self.started_by: dict[int, int] = {}  # number of an event of UNDER_WAY -> number of the effect's start
        self.timers: set[int] = set()

    def history(self, digest: str) -> History:
        """The whole history, after its last event."""
        self._close_segment()
        run_id = self.started.text("originalExecutionRunId")
        run = unnamed_run(digest) if run_id is None else legal(run_id, RUN_BYTES_MAX, run=True)
        if run_id is not None and run != run_id:
            self.remarks.append(f"the run id is no legal run name: {run} stands for it")
        workflow_id = self.started.text("workflowId")
        prefix = "" if workflow_id is None else f"{workflow_id}/"
        return History(run, digest, SOURCE, tuple(self.segments), prefix, tuple(self.remarks))

    def take(self, event: HistoryEvent) -> None:
        """Add what this event becomes."""
        if self.worker_died:
            self._close_segment()
        if event.type == "WorkflowTaskStarted" and self.open.owner is None:
            identity = event.text("identity")
            self.open.owner = None if identity is None else legal(identity, ACTOR_BYTES_MAX)
        self.open.entries += self._records(event)
        if event.type == "WorkflowExecutionCancelRequested":
            self.open.cancels.append(self._cancel(event))
        self.worker_died = event.type in WORKER_DIED

    def _close_segment(self) -> None:
        if self.open.entries:
            owner = self.open.owner or STRANGER
            self.segments.append(Segment(owner, tuple(self.open.entries), tuple(self.open.cancels)))
        self.open = _Open()

    def _cancel(self, event: HistoryEvent) -> Cancel:
        identity = event.text("identity") or ""
        actor = legal(identity, ACTOR_BYTES_MAX) if identity.strip() else STRANGER
        return Cancel(len(self.open.entries), actor, event.text("cause") or "the workflow's cancellation was requested")

    def _records(self, event: HistoryEvent) -> list[Entry]:
        kind = event.type
        if kind == STARTED:
            return [self._admission(event) if event.id == 1 else self._imported(event, "the run was admitted before")]
        if kind in EFFECT_STARTS:
            return [self._effect_start(event)]
        if kind in EFFECT_ENDS:
            return [self._effect_end(event)]
        if kind == "TimerStarted":
            return [self._suspension(event)]
        if kind in TIMER_ENDS:
            return [self._resumption(event)]
        if kind == "MarkerRecorded":
            return self._marker(event)
        if kind == "WorkflowExecutionCancelRequested":
            return [entries.note("the workflow's cancellation was requested", case=self.case, data=event.data())]
        if kind in OUTCOMES:
            return [self._conclusion(event)]
        if kind in UNDER_WAY:
            return [self._under_way(event)]
        name = TURNS.get(kind) or EVENTS.get(kind)
        if name is not None:
            return [entries.entry(name, event.data(), case=self.case)]
        return [self._imported(event, "an event of this kind is not interpreted")]

    def _admission(self, event: HistoryEvent) -> Entry:
        parent = event.text("parentWorkflowExecution", "runId")
        workflow_type = event.text("workflowType", "name")
        return entries.admitted(
            case=self.case,
            parent=None if parent is None else legal(parent, RUN_BYTES_MAX, run=True),
            pins=None if workflow_type is None else {"workflow_type": workflow_type},
            data=event.data(),
        )

    def _effect_start(self, event: HistoryEvent) -> Entry:
        kind, path = EFFECT_STARTS[event.type]
        self.effects[kind, event.id] = False
        return entries.effect_started(
            EffectKey(SOURCE, kind, str(event.id)),
            name=(event.text(*path) if path else None) or kind,
            args=event.attributes.get("input"),
            recovery="ask",
            case=self.case,
            data=event.data("input"),
        )

    def _under_way(self, event: HistoryEvent) -> Entry:
        number = event.number("scheduledEventId") or event.number("initiatedEventId")
        if number is not None:
            self.started_by[event.id] = number
        return entries.entry(UNDER_WAY[event.type], event.data(), case=self.case)

    def _effect_end(self, event: HistoryEvent) -> Entry:
        kind, done = EFFECT_ENDS[event.type]
        number = event.number("scheduledEventId") or event.number("initiatedEventId")
        if number is None:
            number = self.started_by.get(event.number("startedEventId") or 0, 0)
        ended = self.effects.get((kind, number))
        if ended is None:
            return self._imported(event, "the effect that it ends has no start in this history")
        if ended:
            return self._imported(event, "the effect that it ends has ended before")
        self.effects[kind, number] = True
        return self._end(EffectKey(SOURCE, kind, str(number)), event, done)

    def _end(self, key: EffectKey, event: HistoryEvent, done: bool) -> Entry:
        if done:
            result = event.attributes.get("result")
            return entries.effect_done(key, result=result, case=self.case, data=event.data("result"))
        error = event.attributes.get("failure")
        return entries.effect_failed(
            key, error=event.type if error is None else error, case=self.case, data=event.data("failure")
        )

    def _suspension(self, event: HistoryEvent) -> Entry:
        self.timers.add(event.id)
        timer = event.text("timerId")
        return entries.suspended(
            until=_due(event), awaiting={"timer": timer or str(event.id)}, case=self.case, data=event.data()
        )

    def _resumption(self, event: HistoryEvent) -> Entry:
        if event.number("startedEventId") not in self.timers:
            return self._imported(event, "its timer has no start in this history")
        return entries.entry("RunResumed", event.data(), case=self.case)

    def _marker(self, event: HistoryEvent) -> list[Entry]:
        marker = event.text("markerName")
        if marker not in EFFECT_MARKERS:
            return [entries.note(f"marker {marker}", case=self.case, data=event.data())]
        details = event.attributes.get("details") or {}
        if not isinstance(details, dict):
            raise event.damaged("details are no object")
        member = "data" if marker in ("SideEffect", "MutableSideEffect") and "result" not in details else "result"
        key = EffectKey(SOURCE, "marker", str(event.id))
        start = event.data("details", "failure")
        kept = {name: value for name, value in details.items() if name != member}
        if kept:
            start.setdefault("attributes", {})["details"] = kept
        failure = event.attributes.get("failure")
        end = {"event_id": event.id}
        return [
            entries.effect_started(
                key, name=_marker_effect(details) or str(marker), recovery="ask", case=self.case, data=start
            ),
            entries.effect_done(key, result=details.get(member), case=self.case, data=end)
            if failure is None
            else entries.effect_failed(key, error=failure, case=self.case, data=end),
        ]

    def _conclusion(self, event: HistoryEvent) -> Entry:
        data = event.data("result", "failure")
        for member, name in (("result", "result"), ("failure", "error")):
            if event.attributes.get(member) is not None:
                data[name] = event.attributes[member]
        return entries.concluded(OUTCOMES[event.type], case=self.case, data=data)

    def _imported(self, event: HistoryEvent, reason: str) -> Entry:
        return entries.entry("Imported", {"kind": event.type, "reason": reason, **event.data()}, case=self.case)


def _due(event: HistoryEvent) -> str | None:
    """When a timer is due, to the microsecond; None where the history does not say, or after the year 9999."""
    timeout = event.text("startToFireTimeout")
    if timeout is None or event.time is None:
        return None
    match = _DURATION.fullmatch(timeout)
    if match is None or match.group(1):
        raise event.damaged(f"startToFireTimeout {timeout!r} is no duration such as 1.5s")
    micros = int(match.group(2)) * 1_000_000 + int((match.group(3) or "").ljust(6, "0")[:6])
    due = instants.of_micros(instants.parse(event.time) + micros)
    return None if due.startswith("@") else due


def _marker_effect(details: Mapping[str, Any]) -> str | None:
    """The activity type of a local activity: Java's markers have it under `type`, Go's and Core's within `data`."""
    for member, names in (("type", ()), ("data", ("activity_type", "ActivityType"))):
        values = details.get(member)
        first = values[0] if isinstance(values, list) and values else values
        if isinstance(first, dict):
            first = next((first[name] for name in names if name in first), None)
        if isinstance(first, str) and first and (member == "type" or isinstance(values, list)):
            return first
    return None
