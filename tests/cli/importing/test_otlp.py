"""A trace becomes a run: its root span begins and ends it, its generative spans are effects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sealbook.cli.importing import apply, otlp
from sealbook.cli.importing.strict import DamagedDocument
from sealbook.journal import Journal

TRACE = "5B8EFFF798038103D269B633813FC60C"


def span(id: str, start: int, end: int | None, **members: Any) -> dict[str, Any]:
    found = {"traceId": TRACE, "spanId": id, "name": id, "startTimeUnixNano": str(start)}
    return found | ({} if end is None else {"endTimeUnixNano": str(end)}) | members


def attributes(**members: str) -> list[dict[str, Any]]:
    return [{"key": name.replace("__", "."), "value": {"stringValue": value}} for name, value in members.items()]


def document(*spans: dict[str, Any]) -> bytes:
    resource = {"attributes": attributes(service__name="agent")}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}).encode()


TOOL = attributes(gen_ai__operation__name="execute_tool", gen_ai__tool__name="search")


def kinds(text: bytes) -> list[str]:
    [history] = otlp.read(text, "f")
    return [entry.kind for segment in history.segments for entry in segment.entries]


def test_a_recorded_trace_is_a_run(shared: Path) -> None:
    [history] = otlp.read((shared / "data" / "otlp-json" / "trace.json").read_bytes(), "trace.json")
    assert history.run == f"trace-{TRACE.lower()}"
    first, last = history.segments[0].entries
    assert first.data["span"]["attributes"] == {"my.span.attr": "some value"}
    assert first.data["span"]["resource"]["attributes"] == {"service.name": "my.service"}
    assert first.data["span"]["startTimeUnixNano"] == 1_544_712_660_000_000_000
    assert (last.kind, last.data["outcome"]) == ("RunConcluded", "completed")


def test_records_stand_in_the_order_of_the_spans_times() -> None:
    text = document(
        span("late", 30, 40, parentSpanId="root", attributes=TOOL),
        span("root", 10, 50),
        span("early", 20, 35, parentSpanId="root"),
    )
    assert kinds(text) == [
        "RunAdmitted",
        "otlp.SpanStarted",
        "EffectStarted",
        "otlp.SpanEnded",
        "EffectDone",
        "RunConcluded",
    ]


def test_an_error_status_fails_its_effect_and_its_run() -> None:
    failed = {"status": {"code": 2, "message": "no"}}
    text = document(span("a", 2, 3, parentSpanId="root", attributes=TOOL, **failed), span("root", 1, 4, **failed))
    [history] = otlp.read(text, "f")
    assert [entry.kind for entry in history.segments[0].entries][2:] == ["EffectFailed", "RunConcluded"]
    assert history.outcome == "failed"


def test_a_span_that_has_not_ended_leaves_its_effect_in_doubt_and_its_run_open() -> None:
    text = document(span("a", 2, None, parentSpanId="root", attributes=TOOL), span("root", 1, None))
    tenant = Journal.in_memory().tenant()
    apply.apply_all(tenant, otlp.read(text, "f"))
    standing = tenant.standing(f"trace-{TRACE.lower()}")
    assert standing is not None and standing.outcome is None and standing.effects_in_doubt == 1
    [effect] = tenant.effects(standing.run)
    assert effect.name == "execute_tool search"


def test_values_become_what_they_stand_for() -> None:
    value = {
        "kvlistValue": {
            "values": [
                {"key": "n", "value": {"intValue": "9007199254740993"}},
                {"key": "b", "value": {"bytesValue": "AAE="}},
                {"key": "l", "value": {"arrayValue": {"values": [{"boolValue": True}, {"doubleValue": 0.5}]}}},
            ]
        }
    }
    [history] = otlp.read(document(span("root", 1, 2, attributes=[{"key": "x", "value": value}])), "f")
    assert history.segments[0].entries[0].data["span"]["attributes"]["x"] == {
        "n": 9007199254740993,
        "b": b"\0\1",
        "l": [True, 0.5],
    }


def test_attributes_of_one_name_stay_a_list() -> None:
    twice = [{"key": "x", "value": {"stringValue": "1"}}] * 2
    [history] = otlp.read(document(span("root", 1, 2, attributes=twice)), "f")
    assert history.segments[0].entries[0].data["span"]["attributes"] == twice


def test_a_conversation_is_the_case_and_each_trace_a_run() -> None:
    other = span("root", 1, 2, traceId="ff", attributes=attributes(gen_ai__conversation__id="case-7"))
    text = document(span("root", 1, 2)) + b"\n" + document(other)
    first, second = otlp.read(text, "f")
    assert (first.run, second.run) == (f"trace-{TRACE.lower()}", "trace-ff")
    assert second.segments[0].entries[0].case == "case-7"


def test_the_same_traces_again_write_nothing() -> None:
    text, tenant = document(span("root", 1, 2)), Journal.in_memory().tenant()
    assert [done.result for done in apply.apply_all(tenant, otlp.read(text, "f"))] == ["new"]
    assert [done.result for done in apply.apply_all(tenant, otlp.read(text, "f"))] == ["unchanged"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b'{"resourceSpans": 7}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [7]}]}]}',
        document(span("", 1, 2)),
        document(span("a", 1, 2), span("a", 1, 2)),
        document(span("a", 1, 2, parentSpanId="b"), span("b", 1, 2, parentSpanId="a")),
        document(span("a", 1, 2) | {"startTimeUnixNano": "soon"}),
        document(span("a", 1, 2, attributes=[{"key": "x", "value": {"bytesValue": "?"}}])),
        document(span("a", 1, 2)) + b"\n{",
    ],
)
def test_what_is_no_trace_is_damaged(text: bytes) -> None:
    with pytest.raises(DamagedDocument):
        otlp.read(text, "f")
