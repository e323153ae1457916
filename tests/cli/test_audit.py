"""`audit` asks everything of a whole store in one report, and goes on past what it finds."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from published_log import log_signer, publish, signed_note, witness_signer
from store_files import change, flip, value

from sealbook.journal import EffectKey, Journal, entries
from sealbook.journal.records.names import STORE_LOG
from sealbook.journal.schema import tables
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.tenant_head import TenantHead

Call = Callable[..., Result]
Program = Callable[..., "subprocess.CompletedProcess[str]"]
ORIGIN, STORE_ORIGIN = "sealbook", "example.com/store"
WITNESS, STORE_SIGNER = witness_signer("w.example"), log_signer(STORE_ORIGIN, seed=2)


def audited(call: Call, *args: str, code: int = 0) -> dict[str, Any]:
    result = call("--store-origin", STORE_ORIGIN, "audit", *args, "-o", "json")
    assert result.exit_code == code, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


@pytest.fixture
def policy(store: Path, tmp_path: Path) -> str:
    """The logs of the store, published under a witness; the policy that knows them."""
    with Journal.open(store, store_origin=STORE_ORIGIN) as journal:
        publish(journal.tenant(), WITNESS)
        journal.store_log.gather()
        publish(journal.store_log, WITNESS, signer=STORE_SIGNER)
        for name in ("x", "y"):
            journal.tenant().append(name, [entries.concluded("completed")], epoch=1, seal=True)
            publish(journal.tenant(), WITNESS)
            journal.store_log.gather()
            publish(journal.store_log, WITNESS, signer=STORE_SIGNER)
    logs = f"log {log_signer(ORIGIN).key}\nlog {STORE_SIGNER.key}\n"
    path = tmp_path / "policy.txt"
    path.write_text(f"{logs}witness w {WITNESS.key}\nquorum w\n")
    return str(path)


def test_a_sound_store_is_told_of_in_one_report(call: Call, policy: str) -> None:
    answer = audited(call, "--policy", policy)
    assert (answer["consistent"], answer["findings"]) == (True, [])
    assert answer["monitored_leaves"] == 4 + 3
    assert answer["extending_heads"] == 2
    assert answer["verified_checkpoints"] == 3 + 3
    assert [(log["origin"], log["accepted"], log["cosigned_by"], log["unwitnessed"]) for log in answer["logs"]] == [
        (ORIGIN, True, ["w"], 0),
        (STORE_ORIGIN, True, ["w"], 0),
    ]
    text = call("--store-origin", STORE_ORIGIN, "audit", "--policy", policy)
    assert text.exit_code == 0
    assert "checked: 7 leaves by a monitor's rules, 2 heads as extending the one before, 6 checkpoints" in text.stdout


def test_what_nobody_could_be_asked_is_listed(call: Call, policy: str, store: Path) -> None:
    bare = call("audit").stdout
    for line in ("no --policy", "no --store-origin", "without an outside checkpoint"):
        assert any(each.startswith("not checked: ") and line in each for each in bare.splitlines())
    with Journal.open(store) as journal:
        journal.tenant().append("z", [entries.concluded("completed")], epoch=1, seal=True)
    questions = audited(call, "--policy", policy)["not_checked"]
    assert "1 leaf of sealbook above its last published checkpoint: no witness has seen them" in questions
    assert any("no --max-age" in each for each in questions)
    assert call("audit", "--strict").exit_code == 1


def test_a_published_checkpoint_that_the_policy_does_not_accept_is_a_finding(
    call: Call, policy: str, tmp_path: Path
) -> None:
    other = witness_signer("other.example")
    (tmp_path / "other").write_text(Path(policy).read_text().replace(str(WITNESS.key), str(other.key)))
    answer = audited(call, "--policy", str(tmp_path / "other"), code=3)
    assert {finding["tenant"] for finding in answer["findings"]} == {"default", None}
    assert all("the policy does not accept it" in finding["what"] for finding in answer["findings"])
    assert answer["checked"]["records"] == 18


def test_cosignatures_that_are_too_old_are_a_finding(call: Call, policy: str) -> None:
    answer = audited(call, "--policy", policy, "--max-age", "1s", code=3)
    assert all("not fresh" in finding["what"] for finding in answer["findings"])
    assert len(answer["findings"]) == 2


def test_heads_of_a_tenants_log_that_do_not_extend_one_another_are_found(call: Call, policy: str, store: Path) -> None:
    place = (tables.LEAVES, tables.number_key(STORE_LOG, 1))
    head = TenantHead.decode(value(store, place))
    change(store, place, TenantHead(head.tag, head.size, bytes(32)).encode())
    findings = audited(call, "--policy", policy, code=3)["findings"]
    assert any(
        finding["tenant"] == "default" and "does not extend the one of size" in finding["what"] for finding in findings
    )


def test_leaves_that_break_a_monitors_rules_are_found_beside_the_rest(call: Call, store: Path) -> None:
    place = (tables.LEAVES, tables.number_key("default", 1))
    entry = LeafEntry.decode(value(store, (tables.LEAVES, tables.number_key("default", 0))))
    change(store, place, LeafEntry(LeafType.ANCHOR, entry.run_tag, entry.seq, bytes(32)).encode())
    findings = audited(call, code=3)["findings"]
    assert any("nothing may follow" in finding["what"] for finding in findings)


def test_the_audit_goes_on_past_what_it_finds(call: Call, store: Path, policy: str) -> None:
    """Behaviour B25: not the first fault alone."""
    for arrival in (3, 5, 9):
        flip(store, (tables.JOURNAL, tables.number_key("default", arrival)), at=-20)
    answer = audited(call, "--policy", policy, code=3)
    named = {(finding["run"], finding["seq"]) for finding in answer["findings"] if finding["table"] == "journal"}
    assert named == {("order-42", 3), ("order-43", 1), ("order-45", 1)}
    assert answer["extending_heads"] == 2


def test_runs_that_ended_for_good_with_an_effect_in_doubt_are_named(call: Call, store: Path) -> None:
    """Behaviour P57: not those that are open, and not those whose outcome leaves them open."""
    with Journal.open(store) as journal:
        for run, outcome in (("ended", "completed"), ("failed", "failed")):
            start = entries.effect_started(EffectKey(run), name="charge")
            journal.tenant().append(run, [start, entries.concluded(outcome)], epoch=1)
    answer = audited(call)
    assert [(each["run"], each["effects_in_doubt"]) for each in answer["undecided"]] == [("ended", 1)]
    assert answer["unadmitted"] == 2
    assert "undecided: tenant default, run ended: ended completed with 1 effect in doubt" in call("audit").stdout


def test_outside_checkpoints_are_constraints_of_an_audit_too(call: Call, store: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    with Journal.open(store) as journal:
        good.write_bytes(publish(journal.tenant()))
    bad.write_bytes(signed_note(Checkpoint(ORIGIN, 1, bytes(32))))
    assert audited(call, "--checkpoint", str(good))["agreed"] == [f"checkpoint {good}: sealbook of size 2"]
    [finding] = audited(call, "--checkpoint", str(good), "--checkpoint", str(bad), code=3)["findings"]
    assert finding["what"].startswith(f"checkpoint {bad}: the log was rewritten: ")
    assert finding["means"]


def test_a_row_that_names_no_tenant_is_a_finding_and_ends_no_audit(call: Call, store: Path) -> None:
    change(store, (tables.TENANTS, b"~odd\x1b"), bytes(4))
    for verb in ("audit", "verify"):
        result = call(verb)
        assert result.exit_code == 3
        assert all(line.isprintable() for line in result.stdout.splitlines())


def test_a_store_in_use_and_being_published_is_audited_without_a_false_alarm(
    program: Program, policy: str, store: Path, tmp_path: Path
) -> None:
    """Behaviour B43, P59: records, seals, heads and checkpoints that come while it runs are no findings."""
    done, rounds = threading.Event(), 0
    seen = tmp_path / "seen"
    seen.write_bytes(published(store))

    def write() -> None:
        nonlocal rounds
        with Journal.open(store, store_origin=STORE_ORIGIN) as journal:
            while not done.is_set():
                rounds += 1
                end = entries.concluded("completed")
                journal.tenant().append(f"more-{rounds}", [entries.note(), end], epoch=1, seal=True)
                publish(journal.tenant(), WITNESS)
                journal.store_log.gather()
                publish(journal.store_log, WITNESS, signer=STORE_SIGNER)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        trusted = ("--policy", policy, "--checkpoint", str(seen))
        while rounds <= 5:
            for args in (("audit",), ("verify",), ("verify", "--level", "log", "--jobs", "2")):
                told = program("--store-origin", STORE_ORIGIN, *args, *trusted, "-o", "json")
                assert told.returncode == 0, told.stdout + told.stderr
                answer = json.loads(told.stdout)
                assert (answer["findings"], len(answer["agreed"])) == ([], 1)
            assert writer.is_alive()
    finally:
        done.set()
        writer.join()


def published(store: Path) -> bytes:
    with Journal.open(store, readonly=True) as journal:
        note = journal.tenant().published_checkpoint()
    assert note is not None
    return note


def test_an_audit_covers_all_tenants_and_takes_none_by_name(call: Call) -> None:
    result = call("--tenant", "acme", "audit")
    assert result.exit_code == 2
    assert "covers all tenants" in result.stderr
