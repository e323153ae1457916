"""`append`, `lease`, `cancel`, `seal` and `anchor` write, or refuse in one line and write nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sealbook.journal import EffectKey, Journal, entries

Call = Callable[..., Result]


def answer(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    [line] = result.stdout.splitlines()
    value: dict[str, Any] = json.loads(line)
    return value


def refused(result: Result, code: int, *parts: str) -> None:
    assert result.exit_code == code, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("sealbook: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr[:-1].isprintable()
    for part in parts:
        assert part in result.stderr


def records(store: Path) -> int:
    with Journal.open(store, readonly=True) as journal:
        return int(journal.info()["records"])


# --- append -------------------------------------------------------------------------------------------------------


def test_one_entry_is_appended_under_a_lease_of_its_own(call: Call) -> None:
    text = (
        '{"kind": "Note", "data": {"text": "hi", "big": 18446744073709551615, "raw": {"$bytes": "AAE="}}, "case": "c"}'
    )
    record = answer(call("append", "new", "--owner", "script", "-o", "json", text))
    assert (record["run"], record["seq"], record["epoch"], record["case"]) == ("new", 1, 1, "c")
    assert record["data"] == {"text": "hi", "big": 2**64 - 1, "raw": {"$bytes": "AAE="}}
    assert answer(call("lease", "show", "new", "-o", "json"))["owner"] is None


def test_the_entry_may_come_from_standard_input(call: Call) -> None:
    for args in (["-"], []):
        result = call("append", "new", "--owner", "script", *args, input='{"kind": "Note"}')
        assert result.exit_code == 0
        assert "Note" in result.stdout
    refused(call("append", "new", "--owner", "script", input=""), 2, "the entry: is not JSON")


def test_an_effect_is_named_by_its_digits_or_its_parts(call: Call) -> None:
    key = EffectKey("order-42", "charge").hex()
    done = {"kind": "EffectDone", "effect": ["order-42", "charge"], "data": {"result": "ok"}}
    record = answer(call("append", "order-42", "--epoch", "1", "-o", "json", json.dumps(done)))
    assert record["effect"] == key
    start = {"kind": "EffectStarted", "effect": key, "data": {"name": "charge"}, "attempt": 2}
    refused(call("append", "order-42", "--epoch", "1", json.dumps(start)), 5, "order-42", "`sealbook effects order-42`")


def test_after_makes_a_repetition_harmless(call: Call, store: Path) -> None:
    with Journal.open(store, readonly=True) as journal:
        head = journal.tenant().head("order-42")
    args = ("append", "order-42", "--epoch", "1", "--after", f"{head.seq}:{head.hash.hex()}", "-o", "json")
    first = answer(call(*args, '{"kind": "Note", "data": {"n": 1}}'))
    again = call(*args, '{"kind": "Note", "data": {"n": 1}}')
    assert answer(again) == first
    assert "stood already" in again.stderr
    assert call("-q", *args, '{"kind": "Note", "data": {"n": 1}}').stderr == ""
    refused(call(*args, '{"kind": "Note", "data": {"n": 2}}'), 5, "the head has moved to record 6")


def test_a_conclusion_is_sealed_in_its_own_transaction(call: Call) -> None:
    conclusion = '{"kind": "RunConcluded", "data": {"outcome": "completed"}}'
    assert call("append", "order-42", "--owner", "script", "--seal", conclusion).exit_code == 0
    assert answer(call("log", "proof", "order-42", "-o", "json"))["leaf_kind"] == "seal"
    refused(call("append", "order-42", "--epoch", "2", '{"kind": "Note"}'), 5, "order-42 is sealed (completed)")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("{} {}", "is not JSON: Extra data"),
        ("[]", "must be a JSON object"),
        ('"Note"', "must be a JSON object"),
        ("{}", "the entry's kind: must be text"),
        ('{"kind": 1}', "the entry's kind: must be text"),
        ('{"kind": "note"}', "kind 'note'"),
        ('{"kind": "Note\\u001b[2J"}', "\\x1b[2J"),
        ('{"kind": "Note", "at": 5}', "has unknown members: 'at'"),
        ('{"kind": "Note", "kind": "Note"}', "has the member 'kind' twice"),
        ('{"kind": "Note", "data": []}', "the entry's data: must be an object"),
        ('{"kind": "Note", "data": {"$bytes": "AA=="}}', "the entry's data: must be an object of members"),
        ('{"kind": "Note", "data": {"$bytes": "!!"}}', "the entry's data: holds no base64"),
        ('{"kind": "No', "is not JSON: Unterminated string starting at line 1 column 10"),
        ('{"kind": "Note", "data": {"x": NaN}}', "holds NaN, which is not JSON"),
        ('{"kind": "Note", "data": {"x": -Infinity}}', "which is not JSON"),
        ('{"kind": "Note", "data": {"x": 1e999}}', "beyond every float"),
        ('{"kind": "Note", "data": {"x": 18446744073709551616}}', "holds an integer outside"),
        ('{"kind": "Note", "data": {"x": "\\ud800"}}', "lone surrogate"),
        ('{"kind": "Note", "data": {"\\ud800": 1}}', "lone surrogate"),
        ('{"kind": "Note", "case": "\\ud800"}', "lone surrogate"),
        ('{"kind": "Note", "case": ""}', "is empty"),
        ('{"kind": "Note", "case": "e\\u0301"}', "is not NFC"),
        ('{"kind": "Note", "case": "a\\u0000b"}', "control character"),
        ('{"kind": "Note", "case": 7}', "must be text"),
        ('{"kind": "Note", "data": {"$x": 1}}', "write $$x"),
        ('{"kind": "Note", "data": {"x": {"$bytes": "?"}}}', "holds no base64"),
        ('{"kind": "Note", "data": {"x": {"$bytes": "AAF="}}}', "not the one base64 spelling"),
        ('{"kind": "Note", "data": {"x": {"$bytes": "AA==", "y": 1}}}', "and nothing besides"),
        ('{"kind": "Note", "attempt": 1}', "needs an effect"),
        ('{"kind": "EffectStarted", "data": {"name": "x"}}', "needs an effect key"),
        ('{"kind": "EffectStarted", "effect": "abc"}', "must be 64 hex digits"),
        ('{"kind": "EffectStarted", "effect": []}', "needs at least one part"),
        ('{"kind": "EffectStarted", "effect": [1]}', "must be text"),
        ('{"kind": "EffectStarted", "effect": ["\\ud800"]}', "lone surrogate"),
        ('{"kind": "EffectStarted", "effect": {}}', "must be 64 hex digits or a list"),
        ('{"kind": "RunSuspended", "data": {"until": "2026-11-29T08:00:00"}}', "must be an RFC 3339 instant"),
        ('{"kind": "RunConcluded", "data": {"outcome": "Not An Outcome"}}', "outcome"),
        ('{"kind": "Note", "data": {"x": ' + "[" * 61 + "]" * 61 + "}}", "nested deeper"),
        ('{"kind": "Note", "data": {"x": ' + "[" * 100_000, "nested deeper"),
        ('{"kind": "Note", "data": {"x": "' + "y" * (5 << 20) + '"}}', "the limit is 4194304"),
    ],
    ids=lambda value: value[:48],
)
def test_an_entry_that_is_none_is_refused_and_nothing_is_written(call: Call, store: Path, text: str, part: str) -> None:
    before = records(store)
    refused(call("append", "order-42", "--epoch", "1", input=text), 2, part)
    assert records(store) == before


@pytest.mark.parametrize(
    ("args", "code", "part"),
    [
        (("order-42", "--epoch", "-1"), 2, "-1 must be from 0"),
        (("order-42", "--epoch", "9"), 5, "epoch 9 is fenced"),
        (("order-42", "--epoch", str(2**53)), 2, "must be from 0 to 9007199254740991"),
        (("order-47", "--epoch", "2"), 5, "`sealbook lease show order-47`"),
        (("order-47", "--owner", "me"), 5, "'worker-1' holds the lease"),
        (("order-45", "--epoch", "1"), 5, "is sealed"),
        (("order-44", "--epoch", "1"), 5, "nothing may follow"),
        (("~tenant", "--epoch", "0"), 2, "written by the store alone"),
        (("", "--epoch", "1"), 2, "is empty"),
        (("x" * 600, "--epoch", "1"), 2, "is 600 bytes of UTF-8, the limit is 128"),
        (("e\u0301", "--epoch", "1"), 2, "is not NFC"),
        (("order-42", "--epoch", "1", "--seal"), 2, "is a Note, and --seal takes a RunConcluded"),
        (("order-42", "--owner", "me", "--ttl", "0"), 2, "ttl 0.0"),
        (("order-42", "--owner", "me", "--ttl", "nan"), 2, "ttl nan"),
    ],
)
def test_an_append_that_breaks_a_rule_is_refused(call: Call, store: Path, args: Any, code: int, part: str) -> None:
    before = records(store)
    refused(call("append", *args, '{"kind": "Note"}'), code, part)
    assert records(store) == before


# --- leases -------------------------------------------------------------------------------------------------------


def test_a_lease_is_acquired_renewed_and_released(call: Call) -> None:
    taken = answer(call("lease", "acquire", "order-42", "--owner", "me", "--ttl", "30", "-o", "json"))
    assert list(taken) == ["tenant", "run", "owner", "epoch", "expires_at"]
    assert (taken["owner"], taken["epoch"]) == ("me", 2)
    again = answer(call("lease", "renew", "order-42", "--owner", "me", "--epoch", "2", "--ttl", "60", "-o", "json"))
    assert again["expires_at"] > taken["expires_at"]
    assert answer(call("lease", "show", "order-42", "-o", "json")) == again
    freed = answer(call("lease", "release", "order-42", "--epoch", "2", "-o", "json"))
    assert (freed["owner"], freed["epoch"], freed["expires_at"]) == (None, 2, None)
    assert call("lease", "show", "order-42").stdout == "order-42: free, epoch 2\n"


def test_releasing_a_lease_of_somebody_else_leaves_it_alone(call: Call) -> None:
    result = call("lease", "release", "order-47", "--epoch", "7", "-o", "json")
    assert answer(result)["owner"] == "worker-1"
    assert "was left alone" in result.stderr
    assert call("lease", "release", "order-45", "--epoch", "1").exit_code == 0


def test_a_forced_lease_is_free_and_the_act_is_recorded(call: Call) -> None:
    lease = answer(call("lease", "force", "order-47", "--actor", "ada", "--reason", "gone", "-o", "json"))
    assert (lease["owner"], lease["epoch"]) == (None, 2)
    assert "LeaseForced" in call("show", "-n", "1").stdout
    assert call("lease", "force", "nobody", "--actor", "ada", "--reason", "x").exit_code == 4


@pytest.mark.parametrize("ttl", ["0", "0.5", "-1", "inf", "nan", "1e300"])
def test_a_lease_of_no_or_endless_time_is_a_usage_error(call: Call, ttl: str) -> None:
    refused(call("lease", "acquire", "order-42", "--owner", "me", "--ttl", ttl), 2, "ttl", "at least 1 second")


def test_lease_refusals_name_the_run_and_what_to_do(call: Call) -> None:
    refused(call("lease", "acquire", "order-47", "--owner", "me", "--ttl", "5"), 5, "'worker-1' holds the lease")
    refused(call("lease", "acquire", "order-45", "--owner", "me", "--ttl", "5"), 5, "is sealed")
    refused(call("lease", "renew", "order-42", "--owner", "me", "--epoch", "1", "--ttl", "5"), 5, "has no lease")
    refused(call("lease", "renew", "order-42", "--owner", "me", "--epoch", "1", "--ttl", "5"), 5, "lease acquire")
    refused(call("lease", "renew", "order-77", "--owner", "me", "--epoch", "1", "--ttl", "5"), 4, "no run 'order-77'")
    refused(call("lease", "release", "order-77", "--epoch", "1"), 4, "no run 'order-77'")
    refused(call("lease", "show", "order-45"), 4, "no lease of run 'order-45'")
    refused(call("lease", "force", "order-47", "--actor", " ", "--reason", "x"), 2, "is blank")


# --- reconcile ----------------------------------------------------------------------------------------------------

CHARGE = EffectKey("order-42", "charge")


def test_what_somebody_found_out_about_an_effect_in_doubt_is_recorded(call: Call, store: Path) -> None:
    args = ("--landed", "--result", '{"receipt": 7}', "--evidence", '"the ledger"', "--owner", "ada")
    record = answer(call("reconcile", "order-42", CHARGE.hex()[:8].upper(), *args, "-o", "json"))
    assert (record["kind"], record["effect"], record["attempt"]) == ("EffectReconciled", CHARGE.hex(), 1)
    assert record["data"] == {"disposition": "landed", "result": {"receipt": 7}, "evidence": "the ledger"}
    assert record["case"] == "case-7"
    assert answer(call("lease", "show", "order-42", "-o", "json"))["owner"] is None
    with Journal.open(store) as journal, journal.tenant().leased("order-42", owner="w") as run:
        assert run.effect("charge", print, key=CHARGE) == {"receipt": 7}


def test_what_did_not_happen_may_be_attempted_again(call: Call, store: Path) -> None:
    shown = call("reconcile", "order-42", CHARGE.hex(), "--did-not-happen", "--owner", "ada")
    assert shown.exit_code == 0
    assert "did-not-happen" in shown.stdout
    with Journal.open(store) as journal, journal.tenant().leased("order-42", owner="w") as run:
        assert run.effect("charge", lambda: "charged", key=CHARGE) == "charged"


def test_a_reconciliation_that_is_not_plain_is_refused_and_writes_nothing(call: Call, store: Path) -> None:
    before = records(store)
    key = CHARGE.hex()[:8]
    landed = ("--landed", "--owner", "ada")
    refused(call("reconcile", "order-42", key, "--owner", "ada"), 2, "--landed or --did-not-happen")
    refused(call("reconcile", "order-42", key, "--did-not-happen", "--result", "1", "--owner", "ada"), 2, "--result")
    refused(call("reconcile", "order-42", key, *landed, "--result", "{"), 2, "--result: is not JSON")
    refused(call("reconcile", "order-42", "ffff", *landed), 4, "no effect 'ffff'", "`sealbook effects RUN`")
    refused(call("reconcile", "order-42", "", *landed), 2, "'' is no key of an effect")
    refused(call("reconcile", "order-42", "the charge", *landed), 2, "'the charge' is no key of an effect")
    refused(call("reconcile", "order-42", "charge", *landed), 2, f"is the name of an effect: give its key, {key}")
    reserve = EffectKey("order-42", "reserve").hex()
    refused(call("reconcile", "order-42", reserve, *landed), 5, "has ended already (done, record 3)")
    refused(call("reconcile", "nowhere", key, *landed), 4, "run 'nowhere'")
    refused(call("--tenant", "nobody", "reconcile", "order-42", key, *landed), 4, "tenant 'nobody'")
    assert records(store) == before


def test_an_effect_is_reconciled_once_and_the_refusal_names_the_record(call: Call) -> None:
    landed = ("reconcile", "order-42", CHARGE.hex(), "--landed", "--owner", "ada", "-o", "json")
    seq = answer(call(*landed))["seq"]
    refused(call(*landed), 5, f"has ended already (landed, record {seq})")


def test_digits_that_several_effects_in_doubt_share_are_too_few(call: Call, store: Path) -> None:
    keys = [key for number in range(40) if (key := EffectKey(str(number))).hex().startswith("9")][:1]
    with Journal.open(store) as journal:
        journal.tenant().append("order-42", [entries.effect_started(key, name="n") for key in keys], epoch=1)
    refused(call("reconcile", "order-42", "9", "--landed", "--owner", "ada"), 2, "2 effects in doubt", "more digits")


def test_an_effect_of_a_run_that_somebody_executes_is_not_reconciled_behind_its_back(call: Call, store: Path) -> None:
    call("lease", "acquire", "order-42", "--owner", "worker-1", "--ttl", "30")
    refused(call("reconcile", "order-42", CHARGE.hex(), "--landed", "--owner", "ada"), 5, "'worker-1' holds the lease")


# --- cancel, seal, anchor -----------------------------------------------------------------------------------------


def test_the_first_request_to_cancel_stands(call: Call) -> None:
    first = answer(call("cancel", "order-42", "--actor", "bob", "--reason", "late", "-o", "json"))
    assert (first["status"], first["actor"], first["basis"]) == ("recorded", "bob", "asserted")
    second = answer(call("cancel", "order-42", "--actor", "eve", "-o", "json"))
    assert (second["status"], second["actor"], second["at"]) == ("already-requested", "bob", first["at"])
    assert "requested already, by bob" in call("cancel", "order-42", "--actor", "eve").stdout
    ended = answer(call("cancel", "order-45", "--actor", "eve", "-o", "json"))
    assert (ended["status"], ended["outcome"], ended["actor"]) == ("concluded", "completed", None)
    assert "has no records yet" in call("cancel", "later", "--actor", "eve").stdout
    assert "request is recorded" in call("cancel", "order-46", "--actor", "eve").stdout
    refused(call("cancel", "order-43", "--actor", "ada", "--basis", "rumour"), 2, "basis 'rumour'")


def test_a_request_to_cancel_an_unknown_run_stands_and_is_remarked(call: Call) -> None:
    result = call("cancel", "order-88", "--actor", "ada")
    assert result.exit_code == 0
    assert "unknown run order-88" in result.stderr


def test_a_tenant_without_records_is_remarked_where_others_have_some(call: Call, tmp_path: Path) -> None:
    new = ("-D", str(tmp_path / "new"))
    call(*new, "init")
    note = ("append", "r", "--owner", "w", '{"kind": "Note"}')
    assert call(*new, "--tenant", "acme", *note).stderr == ""
    remark = "has no records; this store has: acme"
    assert f"tenant default {remark}" in call(*new, "show").stderr
    assert f"tenant default {remark}" in call(*new, "runs").stderr
    assert f"tenant acmee {remark}" in call(*new, "--tenant", "acmee", *note).stderr
    assert "has no records" not in call(*new, "--tenant", "acmee", *note).stderr
    lease = ("lease", "acquire", "r", "--owner", "w", "--ttl", "5")
    assert "tenant other has no records; this store has: acme, acmee" in call(*new, "--tenant", "other", *lease).stderr
    assert call(*new, "-q", "show").stderr == ""


def test_a_concluded_run_is_sealed_once(call: Call) -> None:
    leaf = answer(call("seal", "order-44", "-o", "json"))
    assert (leaf["leaf_kind"], leaf["index"], leaf["seq"]) == ("seal", 2, 2)
    assert answer(call("seal", "order-44", "-o", "json")) == leaf
    assert call("seal", "order-44").stdout == "order-44: seal of record 2 at log position 2\n"
    refused(call("seal", "order-42"), 5, "cannot be sealed", "`sealbook run order-42`")
    refused(call("seal", "order-45", "--outcome", "failed"), 5, "the outcome is 'completed', not 'failed'")
    refused(call("seal", "nobody"), 4, "no run 'nobody'")
    refused(call("seal", "order-47", "--epoch", "5"), 5, "is fenced")


def test_an_open_run_is_anchored_once_per_head(call: Call) -> None:
    leaf = answer(call("anchor", "order-42", "-o", "json"))
    assert (leaf["leaf_kind"], leaf["index"], leaf["seq"]) == ("anchor", 2, 5)
    assert answer(call("anchor", "order-42", "-o", "json")) == leaf
    assert answer(call("log", "proof", "order-42", "-o", "json"))["leaf_kind"] == "anchor"
    refused(call("anchor", "order-44"), 5, "seal it")
    refused(call("anchor", "nobody"), 4, "no run 'nobody'")


# --- all open runs under one leaf -----------------------------------------------------------------------------------


def test_all_open_runs_are_anchored_under_one_leaf_per_tenant(call: Call) -> None:
    lines = [json.loads(line) for line in call("anchor", "--open", "-o", "json").stdout.splitlines()]
    assert [(line["tenant"], line["leaf_kind"], line["index"], line["runs"]) for line in lines] == [
        ("acme", "anchor-batch", 0, 1),
        ("default", "anchor-batch", 2, 5),
    ]
    proof = answer(call("log", "proof", "order-42", "-o", "json"))
    assert (proof["leaf_kind"], proof["index"], proof["seq"]) == ("anchor-batch", 2, 5)
    assert list(proof)[-1] == "inner" and list(proof["inner"]) == ["index", "size", "proof", "entry"]
    assert proof["inner"]["entry"] in call("log", "proof", "order-42").stdout
    nothing = call("anchor", "--open")
    assert (nothing.exit_code, nothing.stdout) == (0, "") and "no open run has moved" in nothing.stderr


def test_one_tenant_is_anchored_alone_when_it_is_named(call: Call) -> None:
    result = call("--tenant", "acme", "anchor", "--open")
    assert result.stdout == "acme: anchor of 1 open run up to arrival 1 at log position 0\n"


@pytest.mark.parametrize(
    "args", [(), ("order-42", "--open"), ("order-42", "--every", "10m"), ("--open", "--every", "0s")]
)
def test_an_anchor_of_nothing_or_of_both_is_a_usage_error(call: Call, args: tuple[str, ...]) -> None:
    refused(call("anchor", *args), 2)


def test_a_run_and_all_open_runs_exclude_each_other_in_words(call: Call) -> None:
    refused(call("anchor", "order-42", "--open"), 2, "RUN and --open exclude each other")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_anchoring_again_and_again_ends_when_it_is_told_to(store: Path, number: int) -> None:
    args = [sys.executable, "-P", "-m", "sealbook.cli", "-D", str(store), "anchor", "--open", "--every", "1d"]
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "anchor of 1 open run " in process.stdout.readline()
        assert "anchor of 5 open runs" in process.stdout.readline()
        process.send_signal(number)
        assert process.wait(timeout=60) == 0
