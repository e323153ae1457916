"""Records for other tools: as lines of JSON, or as traces in OTLP/JSON. Neither is evidence: a bundle is.

jsonl    one record per line, as `show -o json` prints it
otlp     one document per line and run: the run is the root span, each attempt of an effect a span below it, and every
         other record an event of the root. Trace and span ids are the beginnings of record hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sealbook.cli.records import objects
from sealbook.cli.selecting.records import records
from sealbook.cli.selecting.selection import Selection
from sealbook.journal import Record, Tenant

TRACE_BYTES, SPAN_BYTES = 16, 8
NANOSECONDS = 1_000_000  # in a millisecond
OK, ERROR = 1, 2
ENDS = frozenset({"EffectDone", "EffectFailed", "EffectReconciled"})


def jsonl(tenant: Tenant, selections: Sequence[Selection]) -> Iterator[bytes]:
    """The records of each selection, in the order of their arrival."""
    for selection in selections:
        for record in records(tenant, selection):
            yield objects.text(objects.record(record)).encode() + b"\n"


def otlp(tenant: Tenant, selections: Sequence[Selection]) -> Iterator[bytes]:
    """The trace of each run that has a record of the selections, whole."""
    runs = dict.fromkeys(record.run for selection in selections for record in records(tenant, selection))
    for run in runs:
        if run.startswith("~"):
            continue  # acts of operators are no run of an agent
        resource = {"attributes": _attributes({"service.name": tenant.name})}
        scope = {"scope": {"name": "sealbook"}, "spans": _spans(list(records(tenant, Selection(run=run))))}
        document = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
        yield objects.text(document).encode() + b"\n"


def _spans(chain: Sequence[Record]) -> list[dict[str, Any]]:
    """The root span, and one per attempt of an effect."""
    first, last = chain[0], chain[-1]
    trace, root_id = first.hash[:TRACE_BYTES].hex(), first.hash[:SPAN_BYTES].hex()
    root = _span(trace, root_id, first.run, first)
    if first.case is not None:
        root["attributes"] += _attributes({"gen_ai.conversation.id": first.case})
    open_: dict[bytes, dict[str, Any]] = {}
    spans, events = [root], []
    for record in chain:
        if record.kind == "EffectStarted" and record.effect is not None:
            name = record.data.get("name")
            span = _span(trace, record.hash[:SPAN_BYTES].hex(), name if isinstance(name, str) else "effect", record)
            span["parentSpanId"] = root_id
            span["attributes"] += _attributes(
                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": span["name"]}
            )
            open_[record.effect] = span
            spans.append(span)
        elif record.kind in ENDS and record.effect in open_:
            _end(open_.pop(record.effect), record, _effect_code(record))
        else:
            events.append(_event(record))
    root["events"] = events
    if last.kind == "RunConcluded":
        _end(root, last, OK if last.data.get("outcome") == "completed" else ERROR)
    return spans


def _span(trace: str, span: str, name: str, record: Record) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": span,
        "name": name,
        "kind": 1,  # internal
        "startTimeUnixNano": str(record.at * NANOSECONDS),
        "attributes": _attributes(_facts(record)),
    }


def _end(span: dict[str, Any], record: Record, code: int) -> None:
    """Let the span end with this record: not before it began, though the clock may have been set back meanwhile."""
    ended = max(record.at * NANOSECONDS, int(span["startTimeUnixNano"]))
    span["endTimeUnixNano"] = str(ended)
    span["status"] = {"code": code}
    span["attributes"] += _attributes({"sealbook.end.seq": record.seq, "sealbook.end.kind": record.kind})


def _effect_code(record: Record) -> int:
    failed = record.kind == "EffectFailed" or record.data.get("disposition") == "did-not-happen"
    return ERROR if failed else OK


def _event(record: Record) -> dict[str, Any]:
    return {
        "timeUnixNano": str(record.at * NANOSECONDS),
        "name": record.kind,
        "attributes": _attributes(_facts(record)),
    }


def _facts(record: Record) -> dict[str, Any]:
    return {
        "sealbook.run": record.run,
        "sealbook.seq": record.seq,
        "sealbook.hash": record.hash.hex(),
        "sealbook.data": objects.text(objects.data(record.data)),
    }


def _attributes(members: dict[str, Any]) -> list[dict[str, Any]]:
    """OTLP's key-value list of texts and numbers; 64-bit integers are text in Protocol Buffers' JSON mapping."""
    return [
        {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for name, value in members.items()
    ]
