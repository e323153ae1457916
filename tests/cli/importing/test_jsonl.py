"""Records as lines of JSON become records again, new ones that say what the old ones were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sealbook.cli.importing import apply, jsonl, otlp
from sealbook.cli.importing.strict import DamagedDocument
from sealbook.cli.records import members, objects
from sealbook.cli.selecting import exporting
from sealbook.cli.selecting.selection import Selection
from sealbook.journal import EffectKey, Journal, Refused, entries

KEY = EffectKey("charge")


@pytest.fixture
def source() -> Journal:
    journal = Journal.in_memory()
    tenant = journal.tenant("acme")
    first = [entries.admitted(source="shop", id="42", case="case-7"), entries.effect_started(KEY, name="charge")]
    tenant.append("order/42", first, lease=tenant.acquire("order/42", owner="w", ttl=30))
    tenant.force_lease("order/42", actor="ops", reason="stuck")
    lease = tenant.acquire("order/42", owner="w2", ttl=30)
    done = entries.effect_done(KEY, result=b"\0\1", data={"$odd": 1})
    tenant.append("order/42", [done, entries.concluded("completed")], lease=lease, seal=True)
    tenant.append("open", [entries.note("no admission")], epoch=1)
    return journal


def lines(source: Journal) -> bytes:
    return b"".join(exporting.jsonl(source.tenant("acme"), [Selection()]))


def test_what_was_exported_is_imported_under_new_hashes(source: Journal) -> None:
    tenant = Journal.in_memory().tenant()
    done = apply.apply_all(tenant, jsonl.read(lines(source), "f"))
    assert [(each.run, each.result) for each in done] == [("open", "new"), ("order/42", "new")]
    assert done[0].remarks == ("1 record of the store's own runs: left out",)
    old, new = source.tenant("acme").read("order/42"), tenant.read("order/42")
    assert [(r.kind, r.case, r.effect) for r in new] == [(r.kind, r.case, r.effect) for r in old]
    assert [r.data["original"]["hash"] for r in new] == [r.hash.hex() for r in old]
    assert new[0].data["original"]["id"] == "42"
    assert new[2].data["result"] == b"\0\1" and new[2].data["$odd"] == 1
    assert new[0].epoch < new[2].epoch
    assert tenant.read("open")[0].kind == "RunAdmitted"
    standing = tenant.standing("order/42")
    assert standing is not None and standing.sealed
    assert {each.result for each in apply.apply_all(tenant, jsonl.read(lines(source), "f"))} == {"unchanged"}


def test_a_value_left_out_in_print_is_refused_with_what_prints_it(source: Journal) -> None:
    source.tenant("acme").append("long", [entries.note("x" * 9999)], epoch=1)
    printed = "".join(
        objects.text(members.of_json(record, (), everything=False)) + "\n" for record in source.tenant("acme").history()
    )
    with pytest.raises(Refused, match=r"data\.text: was left out when it was printed: `sealbook show -a"):
        jsonl.read(printed.encode(), "f")


def test_a_file_enters_whole_or_not_at_all(source: Journal) -> None:
    tenant = Journal.in_memory().tenant()
    broken = json.dumps({"run": "zz", "kind": "EffectDone", "effect": KEY.hex()}).encode()
    with pytest.raises(Refused):
        apply.apply_all(tenant, jsonl.read(lines(source) + broken + b"\n", "f"))
    assert tenant.runs() == []


@pytest.mark.parametrize(
    "line",
    [
        [],
        {},
        {"run": "a"},
        {"run": 7, "kind": "Note"},
        {"run": "~tenant", "kind": "Note"},
        {"run": "a", "kind": "Note", "data": [1]},
        {"run": "a", "kind": "Note", "data": {"$x": 1}},
        {"run": "a", "kind": "Note", "effect": "zz"},
    ],
)
def test_what_is_no_record_is_damaged(line: Any) -> None:
    with pytest.raises(DamagedDocument):
        jsonl.read(json.dumps(line).encode(), "f")


def test_a_trace_tells_a_run_as_other_tools_see_it(source: Journal) -> None:
    [order, opened] = map(json.loads, exporting.otlp(source.tenant("acme"), [Selection()]))
    root, effect = order["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (root["name"], root["status"], effect["name"], effect["status"]) == (
        "order/42",
        {"code": 1},
        "charge",
        {"code": 1},
    )
    assert effect["parentSpanId"] == root["spanId"] and effect["traceId"] == root["traceId"]
    assert int(root["startTimeUnixNano"]) <= int(effect["startTimeUnixNano"]) <= int(effect["endTimeUnixNano"])
    assert [event["name"] for event in root["events"]] == ["RunAdmitted", "RunConcluded"]
    assert "endTimeUnixNano" not in opened["resourceSpans"][0]["scopeSpans"][0]["spans"][0]


def test_our_traces_are_read_as_any_others(source: Journal) -> None:
    text = b"".join(exporting.otlp(source.tenant("acme"), [Selection(run="order/42")]))
    [history] = otlp.read(text, "f")
    assert [entry.kind for entry in history.segments[0].entries] == [
        "RunAdmitted",
        "EffectStarted",
        "EffectDone",
        "RunConcluded",
    ]
    assert history.segments[0].entries[0].case == "case-7"
