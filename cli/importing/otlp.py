"""Read traces in OTLP/JSON, as an OpenTelemetry collector writes them to files: each trace is the history of one run.

| in the file | record |
|---|---|
| the root span, with its resource and scope | `RunAdmitted`; run = `trace-` and the trace id |
| a span with `gen_ai.operation.name` | `EffectStarted`, and `EffectDone` or `EffectFailed` where it ended |
| any other span | `otlp.SpanStarted`, and `otlp.SpanEnded` where it ended |
| the end of the root span | `RunConcluded`: `failed` for an error status, else `completed` |

The root is the span without a parent in the file that began first. Records stand in the order of the spans' own times,
a start before an end. `gen_ai.conversation.id` is the case. Attributes become members where no name stands twice.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from sealbook.cli.importing import documents, strict
from sealbook.cli.importing.history import History, Segment, legal
from sealbook.cli.importing.strict import damaged
from sealbook.journal import entries
from sealbook.journal.records.entries import EffectKey, Entry
from sealbook.journal.records.names import CASE_BYTES_MAX, RUN_BYTES_MAX

SOURCE = "otlp"
OPERATION = "gen_ai.operation.name"
CONVERSATION = "gen_ai.conversation.id"
NAMED_BY = ("gen_ai.tool.name", "gen_ai.request.model", "gen_ai.agent.name")  # what an operation is done with
ERROR = (2, "STATUS_CODE_ERROR")
TIMES = ("startTimeUnixNano", "endTimeUnixNano")

Span = dict[str, Any]


def read(text: bytes, name: str) -> list[History]:
    """The histories that this file holds, by trace id; `Damaged` when it holds none."""
    traces: dict[str, list[Span]] = {}
    for document in documents.read(text, name):
        for span in _spans(document, name):
            traces.setdefault(_id(span, "traceId", name), []).append(span)
    if not traces:
        raise damaged(name, "holds no span")
    return [_history(trace, spans, name) for trace, spans in sorted(traces.items())]


def _spans(document: Any, name: str) -> Iterator[Span]:
    """The spans, each with the resource and the scope that it stands under, attributes and times made plain."""
    for resource in _objects(document, "resourceSpans", name):
        for scope in _objects(resource, "scopeSpans", name):
            for span in _objects(scope, "spans", name):
                plain = {**span, **{time: _nanoseconds(span.get(time), name) for time in TIMES}}
                for member, value in (("resource", resource.get("resource")), ("scope", scope.get("scope"))):
                    if value is not None:
                        plain[member] = value
                yield {member: _plain(value, name) for member, value in plain.items() if value is not None}


def _history(trace: str, spans: list[Span], name: str) -> History:
    ids = {_id(span, "spanId", name) for span in spans}
    if len(ids) != len(spans):
        raise damaged(name, "has two spans of one id", f"trace {trace}")
    spans.sort(key=lambda span: (span.get(TIMES[0], 0), _id(span, "spanId", name)))
    root = next((span for span in spans if str(span.get("parentSpanId", "")).lower() not in ids), None)
    if root is None:
        raise damaged(name, "has no root: every span names a parent that is there", f"trace {trace}")
    steps = [step for span in spans if span is not root for step in _steps(trace, span, name)]
    steps.sort(key=lambda step: step[:2])
    conversation = _attribute(root, CONVERSATION)
    case = legal(conversation, CASE_BYTES_MAX) if isinstance(conversation, str) and conversation else None
    ended = root.get(TIMES[1])
    start = {member: value for member, value in root.items() if ended is None or member not in _ENDS}
    records = [entries.admitted(case=case, data={"span": start}), *(entry for _, _, entry in steps)]
    if ended is not None:
        outcome = "failed" if _failed(root) else "completed"
        records.append(entries.concluded(outcome, data={"span": _end(root)}))
    digest = strict.digest({"trace": trace, "spans": [_digestible(span) for span in spans]}, name)
    return History(legal(f"trace-{trace}", RUN_BYTES_MAX, run=True), digest, SOURCE, (Segment(SOURCE, tuple(records)),))


_ENDS = frozenset({TIMES[1], "status", "events", "droppedEventsCount"})


def _steps(trace: str, span: Span, name: str) -> Iterator[tuple[int, int, Entry]]:
    """(time, order among equals, entry) of a span's start and of its end."""
    ended = span.get(TIMES[1])
    start = {member: value for member, value in span.items() if member not in _ENDS}
    operation = _attribute(span, OPERATION)
    key = EffectKey(SOURCE, trace, _id(span, "spanId", name))
    if isinstance(operation, str):
        named = next((value for by in NAMED_BY if isinstance(value := _attribute(span, by), str)), None)
        word = operation if named is None else f"{operation} {named}"
        yield span.get(TIMES[0], 0), 0, entries.effect_started(key, name=word, data={"span": start})
        if ended is not None and _failed(span):
            yield ended, 1, entries.effect_failed(key, data={"span": _end(span)})
        elif ended is not None:
            yield ended, 1, entries.effect_done(key, data={"span": _end(span)})
        return
    yield span.get(TIMES[0], 0), 0, entries.entry("otlp.SpanStarted", {"span": start})
    if ended is not None:
        yield ended, 1, entries.entry("otlp.SpanEnded", {"span": _end(span)})


def _end(span: Span) -> Span:
    return {member: value for member, value in span.items() if member in _ENDS or member == "spanId"}


def _failed(span: Span) -> bool:
    status = span.get("status")
    return isinstance(status, dict) and status.get("code") in ERROR


def _attribute(span: Span, name: str) -> Any:
    attributes = span.get("attributes")
    return attributes.get(name) if isinstance(attributes, dict) else None


# --- OTLP's own spelling -----------------------------------------------------------------------------------------


def _plain(value: Any, name: str) -> Any:
    """Key-value lists become maps, and `AnyValue`s values; whatever is spelled otherwise stays as it stands."""
    if isinstance(value, list):
        items = [item for item in value if isinstance(item, dict) and item.keys() == {"key", "value"}]
        names = {item["key"] for item in items if isinstance(item["key"], str)}
        if items and len(items) == len(value) == len(names):
            return {item["key"]: _any_value(item["value"], name) for item in items}
        return [_plain(item, name) for item in value]
    if isinstance(value, dict):
        return {member: _plain(item, name) for member, item in value.items()}
    return value


def _any_value(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or len(value) != 1:
        return _plain(value, name)
    [(kind, inner)] = value.items()
    if kind in ("stringValue", "boolValue", "doubleValue"):
        return inner
    if kind == "intValue":  # Protocol Buffers' JSON mapping writes 64-bit integers as text
        return _integer(inner, name)
    if kind == "arrayValue" and isinstance(inner, dict):
        return [_any_value(item, name) for item in inner.get("values", [])]
    if kind == "kvlistValue" and isinstance(inner, dict):
        return _plain(inner.get("values", []), name) or {}
    if kind == "bytesValue" and isinstance(inner, str):
        try:
            return base64.b64decode(inner, validate=True)
        except binascii.Error:
            raise damaged(name, "has a bytesValue that is no base64") from None
    return _plain(value, name)


def _nanoseconds(value: Any, name: str) -> int | None:
    """A time of a span; None where it has none yet."""
    number = 0 if value is None else _integer(value, name)
    return number or None


def _integer(value: Any, name: str) -> int:
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii() and len(value) <= 20:
        value = int(value)
    if type(value) is not int or not -(2**63) <= value < 2**64:
        raise damaged(name, "has an integer that is none")
    return value


def _id(span: Span, member: str, name: str) -> str:
    value = span.get(member)
    if not isinstance(value, str) or not value:
        raise damaged(name, f"has a span without a {member}")
    return value.lower()


def _objects(value: Any, member: str, name: str) -> list[dict[str, Any]]:
    items = value.get(member, []) if isinstance(value, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise damaged(name, f"is no OTLP/JSON: `{member}` is no list of objects")
    return items


def _digestible(value: Any) -> Any:
    """The value with its bytes as text, for the digest that names a history."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, dict):
        return {member: _digestible(item) for member, item in value.items()}
    return [_digestible(item) for item in value] if isinstance(value, list) else value
