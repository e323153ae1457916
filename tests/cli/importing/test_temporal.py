"""Temporal histories become runs, event by event, and nothing that they say is lost."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sealbook.cli.importing import strict, temporal
from sealbook.cli.importing.history import Cancel, History
from sealbook.cli.importing.payloads import decoded
from sealbook.cli.importing.strict import DamagedDocument
from sealbook.journal import requests
from sealbook.journal.records.entries import EffectKey, Entry

T0 = "2026-01-02T03:04:05.123456789Z"


def event(number: int, kind: str, time: str | None = T0, **attributes: Any) -> dict[str, Any]:
    short = temporal._short(kind)
    return {
        "eventId": str(number),
        "eventTime": time,
        "eventType": kind,
        "taskId": "77",
        f"{short[0].lower()}{short[1:]}EventAttributes": attributes,
    }


def started(**attributes: Any) -> dict[str, Any]:
    return event(1, "WorkflowExecutionStarted", **{"originalExecutionRunId": "run-1", "workflowId": "wf", **attributes})


def read(*events: dict[str, Any]) -> History:
    return temporal.read(json.dumps({"events": events}).encode(), "h.json")


def records(*events: dict[str, Any]) -> list[Entry]:
    """What the events after the start become."""
    history = read(started(), *events)
    return [entry for segment in history.segments for entry in segment.entries][1:]


def payloads(value: Any) -> dict[str, Any]:
    data = base64.b64encode(json.dumps(value).encode()).decode()
    return {"payloads": [{"metadata": {"encoding": base64.b64encode(b"json/plain").decode()}, "data": data}]}


def published(shared: Path) -> list[Path]:
    files = sorted((shared / "data").glob("temporal-*/*.json"))
    if not files:
        pytest.skip(f"no Temporal histories under {shared / 'data'}")
    return files


def leaves(value: Any) -> Iterator[Any]:
    """Every scalar inside a value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


# --- published histories ------------------------------------------------------------------------------


def test_every_published_history_is_read_and_each_event_has_its_record(shared: Path) -> None:
    for file in published(shared):
        history = temporal.read(file.read_bytes(), file.name)
        raw = json.loads(file.read_bytes())["events"]
        told = [entry.data["event_id"] for segment in history.segments for entry in segment.entries]
        assert sorted(set(told)) == list(range(1, len(raw) + 1)), file.name
        markers = sum(item["eventType"].replace("_", "").lower().endswith("markerrecorded") for item in raw)
        assert history.records == len(raw) + markers, file.name


def test_no_attribute_of_a_published_history_is_lost(shared: Path) -> None:
    for file in published(shared):
        history = temporal.read(file.read_bytes(), file.name)
        kept: dict[int, list[Any]] = {}
        for segment in history.segments:
            for entry in segment.entries:
                kept.setdefault(entry.data["event_id"], []).extend(leaves(dict(entry.data)))
        for number, raw in enumerate(json.loads(file.read_bytes())["events"], start=1):
            del raw["eventId"]
            says = decoded(raw, ValueError, 2)
            missing = [leaf for leaf in leaves(says) if leaf not in kept[number]]
            assert missing == [], f"{file.name} event {number}"


def test_every_published_history_makes_entries_that_the_store_takes(shared: Path) -> None:
    for file in published(shared):
        history = temporal.read(file.read_bytes(), file.name)
        for segment in history.segments_as(history.run):
            requests.acquire(history.run, owner=segment.owner, ttl=60)
            requests.append(history.run, segment.entries)


def test_published_runs_get_the_names_and_cases_that_their_histories_state(shared: Path) -> None:
    histories = {file.name: temporal.read(file.read_bytes(), file.name) for file in published(shared)}
    nexus = histories["testCancelNexusOperationHistory.json"]
    assert nexus.run == "2aec1250-ce66-4ab3-b752-e32927656872"
    assert nexus.segments[0].entries[0].case == "3bda23dc-e416-4131-8f3a-683cdd295369"
    assert nexus.admission_id(nexus.run) == f"3bda23dc-e416-4131-8f3a-683cdd295369/{nexus.run}"
    sample = histories["sampleHistory.json"]
    document = json.loads((shared / "data" / "temporal-sdk-go" / "sampleHistory.json").read_bytes())
    assert sample.run == f"history-{strict.digest(document, '')[:16]}"
    assert sample.segments[0].entries[0].case is None
    assert sample.admission_id(sample.run) == sample.run
    twins = [histories["complexHistory1.json"], histories["testChildWorkflowRetryHistory.json"]]
    assert twins[0].run == twins[1].run
    assert twins[0].run_with_digest() != twins[1].run_with_digest()


# --- row by row ---------------------------------------------------------------------------------------------


def test_the_first_event_admits_the_run_under_its_workflow() -> None:
    history = read(started(workflowType={"name": "Order"}, parentWorkflowExecution={"runId": "parent-1"}))
    (admission,) = history.segments_as(history.run)[0].entries
    assert (history.run, admission.kind, admission.case) == ("run-1", "RunAdmitted", "wf")
    assert admission.data["source"] == "temporal"
    assert admission.data["id"] == "wf/run-1"
    assert admission.data["parent"] == "parent-1"
    assert admission.data["pins"] == {"workflow_type": "Order"}
    assert admission.data["event_time"] == T0
    assert admission.data["attributes"]["workflowId"] == "wf"
    assert admission.data["event"] == {"taskId": "77"}


def test_names_that_a_run_or_a_case_cannot_have_are_replaced_and_reported() -> None:
    history = read(started(originalExecutionRunId="~x", workflowId="w" * 200))
    assert history.run.startswith("_x~")
    case = history.segments[0].entries[0].case
    assert case is not None and len(case) == 128
    assert len(history.remarks) == 2
    assert history.segments[0].entries[0].data["attributes"]["workflowId"] == "w" * 200


def test_workflow_tasks_are_turns() -> None:
    kinds = [
        entry.kind
        for entry in records(
            event(2, "WorkflowTaskScheduled"),
            event(3, "EVENT_TYPE_WORKFLOW_TASK_STARTED", identity="w1"),
            event(4, "WorkflowTaskCompleted"),
            event(5, "EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT"),
            event(6, "WorkflowTaskFailed"),
        )
    ]
    assert kinds == ["TurnScheduled", "TurnStarted", "TurnCompleted", "TurnTimedOut", "TurnFailed"]


@pytest.mark.parametrize("death", ["WorkflowTaskFailed", "WorkflowTaskTimedOut", "EVENT_TYPE_WORKFLOW_TASK_FAILED"])
def test_a_worker_that_died_ends_its_segment_and_the_next_one_owns_what_follows(death: str) -> None:
    history = read(
        started(),
        event(2, "WorkflowTaskScheduled"),
        event(3, "WorkflowTaskStarted", identity="w1"),
        event(4, death),
        event(5, "WorkflowTaskScheduled"),
        event(6, "WorkflowTaskStarted", identity="w2"),
        event(7, "WorkflowTaskCompleted", identity="w2"),
    )
    assert [(segment.owner, len(segment.entries)) for segment in history.segments] == [("w1", 4), ("w2", 3)]


def test_another_identity_alone_begins_no_segment_and_a_missing_one_is_temporals() -> None:
    changed = read(
        started(), event(2, "WorkflowTaskStarted", identity="a"), event(3, "WorkflowTaskStarted", identity="b")
    )
    assert [segment.owner for segment in changed.segments] == ["a"]
    dead = read(started(), event(2, "WorkflowTaskFailed"), event(3, "WorkflowTaskScheduled"))
    assert [segment.owner for segment in dead.segments] == ["temporal", "temporal"]


STARTS = [
    ("ActivityTaskScheduled", {"activityType": {"name": "pay"}}, "activity", "pay", "scheduledEventId"),
    ("NexusOperationScheduled", {"operation": "pay"}, "nexus", "pay", "scheduledEventId"),
    (
        "StartChildWorkflowExecutionInitiated",
        {"workflowType": {"name": "Pay"}},
        "child",
        "Pay",
        "initiatedEventId",
    ),
    ("SignalExternalWorkflowExecutionInitiated", {"signalName": "go"}, "signal", "go", "initiatedEventId"),
    ("RequestCancelExternalWorkflowExecutionInitiated", {}, "cancel", "cancel", "initiatedEventId"),
]


@pytest.mark.parametrize(("kind", "attributes", "effect", "name", "link"), STARTS)
def test_each_start_and_each_of_its_ends_meet_in_one_effect(
    kind: str, attributes: dict[str, Any], effect: str, name: str, link: str
) -> None:
    ends = [(end, done) for end, (of, done) in temporal.EFFECT_ENDS.items() if of == effect]
    assert len(ends) >= 2
    for end, done in ends:
        start, finish = records(event(2, kind, **attributes), event(3, end, **{link: "2"}))
        key = EffectKey("temporal", effect, "2")
        assert (start.kind, start.effect, start.data["name"]) == ("EffectStarted", key, name)
        assert start.data["recovery"] == "ask"
        assert (finish.kind, finish.effect) == ("EffectDone" if done else "EffectFailed", key)
        assert start.case == finish.case == "wf"


def test_input_result_and_failure_move_to_the_members_that_effects_have() -> None:
    first, done, second, failed = records(
        event(2, "ActivityTaskScheduled", activityType={"name": "a"}, input=payloads({"cents": 5})),
        event(3, "ActivityTaskCompleted", scheduledEventId=2, result=payloads("paid")),
        event(4, "ActivityTaskScheduled", activityType={"name": "a"}),
        event(5, "ActivityTaskFailed", scheduledEventId="4", failure={"message": "no"}, retryState="MAX"),
    )
    assert first.data["args"] == [{"cents": 5}]
    assert first.data["attributes"] == {"activityType": {"name": "a"}}
    assert done.data["result"] == ["paid"]
    assert "args" not in second.data
    assert failed.data["error"] == {"message": "no"}
    assert failed.data["attributes"] == {"scheduledEventId": "4", "retryState": "MAX"}


def test_a_report_that_an_effect_is_under_way_is_no_effect_record() -> None:
    for kind, name in [
        ("ActivityTaskStarted", "temporal.ActivityStarted"),
        ("EVENT_TYPE_NEXUS_OPERATION_STARTED", "temporal.NexusOperationStarted"),
        ("ChildWorkflowExecutionStarted", "temporal.ChildWorkflowExecutionStarted"),
    ]:
        (record,) = records(event(2, kind, scheduledEventId="9", attempt=3))
        assert (record.kind, record.effect, record.attempt) == (name, None, None)
        assert record.data["attributes"]["attempt"] == 3


def test_an_end_that_names_only_the_started_event_is_found_by_it() -> None:
    *_, end = records(
        event(2, "ActivityTaskScheduled", activityType={"name": "a"}),
        event(3, "ActivityTaskStarted", scheduledEventId="2"),
        event(4, "ActivityTaskCompleted", startedEventId="3"),
    )
    assert (end.kind, end.effect) == ("EffectDone", EffectKey("temporal", "activity", "2"))


def test_an_end_without_a_start_and_a_second_end_are_imported_uninterpreted() -> None:
    stray, _, first, second = records(
        event(2, "ActivityTaskCompleted", scheduledEventId="99"),
        event(3, "ActivityTaskScheduled", activityType={"name": "a"}),
        event(4, "ActivityTaskTimedOut", scheduledEventId="3"),
        event(5, "ActivityTaskCompleted", scheduledEventId="3"),
    )
    assert (stray.kind, stray.effect, stray.data["kind"]) == ("Imported", None, "ActivityTaskCompleted")
    assert stray.data["reason"] == "the effect that it ends has no start in this history"
    assert first.kind == "EffectFailed"
    assert first.data["error"] == "ActivityTaskTimedOut"
    assert (second.kind, second.data["reason"]) == ("Imported", "the effect that it ends has ended before")


def test_an_end_of_another_kind_than_the_start_with_its_number_ends_nothing() -> None:
    _, end = records(
        event(2, "ActivityTaskScheduled", activityType={"name": "a"}),
        event(3, "NexusOperationCompleted", scheduledEventId="2"),
    )
    assert end.kind == "Imported"


@pytest.mark.parametrize(
    ("timeout", "until"),
    [
        ("86400s", "2026-01-03T03:04:05.123456Z"),
        ("1.5s", "2026-01-02T03:04:06.623456Z"),
        ("0.000000999s", "2026-01-02T03:04:05.123456Z"),
        ("0s", "2026-01-02T03:04:05.123456Z"),
        ("315576000000s", None),
        (None, None),
    ],
)
def test_a_timer_suspends_the_run_until_it_is_due(timeout: str | None, until: str | None) -> None:
    (suspension,) = records(event(2, "TimerStarted", timerId="t", startToFireTimeout=timeout))
    assert suspension.kind == "RunSuspended"
    assert suspension.data.get("until") == until
    assert suspension.data["awaiting"] == {"timer": "t"}
    requests.prepare(suspension)


def test_a_timer_without_a_time_waits_for_no_instant() -> None:
    (suspension,) = records(event(2, "TimerStarted", None, timerId="t", startToFireTimeout="5s"))
    assert "until" not in suspension.data
    assert "event_time" not in suspension.data


def test_a_timer_that_fires_or_is_canceled_resumes_the_run() -> None:
    for kind in ("TimerFired", "EVENT_TYPE_TIMER_CANCELED"):
        _, resumed, stray = records(
            event(2, "TimerStarted", startToFireTimeout="1s"),
            event(3, kind, startedEventId="2"),
            event(4, kind, startedEventId="77"),
        )
        assert (resumed.kind, stray.kind) == ("RunResumed", "Imported")


def test_signals_and_updates_are_events_received_and_answered() -> None:
    kinds = [
        entry.kind
        for entry in records(
            event(2, "WorkflowExecutionSignaled", signalName="go"),
            event(3, "WorkflowExecutionUpdateAccepted"),
            event(4, "EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED"),
        )
    ]
    assert kinds == ["EventReceived", "EventReceived", "EventAnswered"]


def test_a_cancel_request_is_one_act_and_one_note_that_ends_no_wait() -> None:
    history = read(
        started(),
        event(2, "TimerStarted", startToFireTimeout="9s"),
        event(3, "WorkflowExecutionCancelRequested", identity="ann", cause="too late", externalInitiatedEventId="5"),
        event(4, "EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED"),
    )
    (segment,) = history.segments
    assert [entry.kind for entry in segment.entries[2:]] == ["Note", "Note"]
    assert segment.entries[2].data["attributes"]["externalInitiatedEventId"] == "5"
    assert segment.cancels == (
        Cancel(3, "ann", "too late"),
        Cancel(4, "temporal", "the workflow's cancellation was requested"),
    )


def test_a_side_effect_and_a_local_activity_start_and_end_in_one_event() -> None:
    start, end, again, failed, core, core_end = records(
        event(2, "MarkerRecorded", markerName="SideEffect", details={"data": payloads(7)}),
        event(
            3,
            "MarkerRecorded",
            markerName="LocalActivity",
            details={"type": payloads("pay"), "input": payloads(1)},
            failure={"message": "no"},
        ),
        event(
            4,
            "MarkerRecorded",
            markerName="core_local_activity",
            details={"data": payloads({"activity_type": "ship"}), "result": payloads("ok")},
        ),
    )
    assert (start.kind, end.kind, start.effect) == ("EffectStarted", "EffectDone", end.effect)
    assert (start.data["name"], end.data["result"]) == ("SideEffect", [7])
    assert (again.data["name"], failed.kind, failed.data["error"]) == ("pay", "EffectFailed", {"message": "no"})
    assert again.data["attributes"]["details"] == {"type": ["pay"], "input": [1]}
    assert (core.data["name"], core_end.data["result"]) == ("ship", ["ok"])


def test_any_other_marker_is_a_note() -> None:
    (version,) = records(event(2, "MarkerRecorded", markerName="Version", details={"change": payloads("c1")}))
    assert version.kind == "Note"
    assert version.data["attributes"]["details"] == {"change": ["c1"]}


@pytest.mark.parametrize(
    ("kind", "outcome", "seal"),
    [
        ("WorkflowExecutionCompleted", "completed", True),
        ("WorkflowExecutionFailed", "failed", False),
        ("EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED", "canceled", True),
        ("WorkflowExecutionTimedOut", "timed-out", True),
        ("WorkflowExecutionTerminated", "terminated", True),
        ("EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW", "continued-as-new", True),
    ],
)
def test_the_end_of_a_workflow_concludes_the_run_and_seals_it_where_it_may(kind: str, outcome: str, seal: bool) -> None:
    history = read(started(), event(2, kind, result=payloads("r"), failure={"message": "m"}))
    assert (history.outcome, history.seal) == (outcome, seal)
    data = history.segments[0].entries[-1].data
    assert (data["result"], data["error"]) == (["r"], {"message": "m"})


def test_an_unknown_event_is_imported_with_its_kind_and_data() -> None:
    unknown, bare = records(
        event(2, "EVENT_TYPE_BRAND_NEW", answer=42), {"eventId": "3", "eventType": "Unknown", "workerMayIgnore": True}
    )
    assert (unknown.kind, unknown.data["kind"]) == ("Imported", "BrandNew")
    assert unknown.data["event_type"] == "EVENT_TYPE_BRAND_NEW"
    assert unknown.data["attributes"] == {"answer": 42}
    assert (bare.kind, bare.data["event"]) == ("Imported", {"workerMayIgnore": True})


def test_a_second_start_is_imported() -> None:
    (again,) = records(event(2, "WorkflowExecutionStarted"))
    assert (again.kind, again.data["reason"]) == ("Imported", "the run was admitted before")


def test_members_of_the_file_beside_its_events_are_kept_with_the_admission() -> None:
    history = temporal.read(json.dumps({"events": [started()], "namespace": "n"}).encode(), "h.json")
    assert history.segments[0].entries[0].data["event"] == {"taskId": "77", "file": {"namespace": "n"}}


def test_both_spellings_of_a_history_make_the_same_records_but_for_the_spelling() -> None:
    names = ["WorkflowTaskScheduled", "ActivityTaskScheduled", "TimerStarted", "WorkflowExecutionCompleted"]
    spelled = ["WORKFLOW_TASK_SCHEDULED", "ACTIVITY_TASK_SCHEDULED", "TIMER_STARTED", "WORKFLOW_EXECUTION_COMPLETED"]
    short = records(*(event(number, name) for number, name in enumerate(names, start=2)))
    long = records(*(event(number, f"EVENT_TYPE_{name}") for number, name in enumerate(spelled, start=2)))
    for one, other in zip(short, long, strict=True):
        assert (one.kind, one.effect) == (other.kind, other.effect)
        assert {**one.data, "event_type": ""} == {**other.data, "event_type": ""}


# --- damage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"events": [', "is not JSON"),
        (b"[]", "is no Temporal history"),
        (b'{"history": []}', "is no Temporal history"),
        (b'{"events": {}}', "is no Temporal history"),
        (b'{"events": []}', "holds no events"),
        (b'{"events": [7]}', "event 1: is no object"),
        (b'{"events": [{"eventId": "x", "eventType": "a"}]}', "event 1: has eventId 'x'"),
        (b'{"events": [{"eventId": true, "eventType": "a"}]}', "event 1: has eventId True"),
        (b'{"events": [{"eventId": 1}]}', "event 1: its eventType is no text"),
        (b'{"events": [{"eventId": 1, "eventType": "TimerFired"}]}', "a history begins with WorkflowExecutionStarted"),
    ],
)
def test_a_file_that_is_no_history_is_refused_with_its_name_and_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(DamagedDocument) as refusal:
        temporal.read(text, "h.json")
    assert str(refusal.value).startswith("h.json: ")
    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([event(3, "TimerStarted")], "event 2: has eventId '3': events are missing, repeated or out of order"),
        ([event(1, "TimerStarted")], "event 2: has eventId '1'"),
        ([event(2, "TimerStarted", "yesterday")], "event 2: its eventTime 'yesterday' is no RFC 3339 instant"),
        ([{**event(2, "TimerStarted"), "eventTime": 5}], "event 2: its eventTime 5 is no RFC 3339 instant"),
        ([event(2, "TimerStarted", startToFireTimeout="soon")], "startToFireTimeout 'soon' is no duration"),
        ([event(2, "TimerStarted", startToFireTimeout="-5s")], "startToFireTimeout '-5s' is no duration"),
        ([event(2, "TimerStarted", startToFireTimeout=5)], "startToFireTimeout is no text"),
        ([event(2, "ActivityTaskCompleted", scheduledEventId="two")], "scheduledEventId is no event number"),
        ([event(2, "ActivityTaskScheduled", activityType="pay")], "activityType.name is no text"),
        ([event(2, "WorkflowTaskStarted", identity=5)], "identity is no text"),
        ([event(2, "MarkerRecorded", markerName="SideEffect", details=[1])], "details are no object"),
        ([{**event(2, "TimerFired"), "timerFiredEventAttributes": []}], "its timerFiredEventAttributes are no object"),
        (
            [event(2, "WorkflowExecutionSignaled", input={"metadata": {"encoding": "%"}})],
            "event 2 (WorkflowExecutionSignaled): a payload is no base64",
        ),
        (
            [event(2, "WorkflowExecutionFailed"), event(3, "TimerStarted")],
            "event 3 (TimerStarted): it follows the run's conclusion, event 2",
        ),
    ],
)
def test_a_damaged_event_refuses_the_file_and_is_named(events: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(DamagedDocument) as refusal:
        read(started(), *events)
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_event_in_a_published_history_is_damage(shared: Path) -> None:
    document = json.loads(published(shared)[0].read_bytes())
    del document["events"][4]
    with pytest.raises(DamagedDocument, match="event 5: has eventId"):
        temporal.read(json.dumps(document).encode(), "h.json")


def test_every_beginning_of_a_published_file_is_refused_or_is_a_whole_history(shared: Path) -> None:
    text = published(shared)[1].read_bytes()
    for size in range(0, len(text) - 1, 97):
        with pytest.raises(DamagedDocument):
            temporal.read(text[:size], "h.json")
