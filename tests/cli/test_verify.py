"""`verify` says what it means, how much it checked, what it found and what it could not check."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from published_log import log_signer, signed_note
from store_files import change, flip

from sealbook.cli.auditing.verdict import ANCHORED, MEANING
from sealbook.journal import Ed25519Signer, Journal, entries
from sealbook.journal.engine.port import Place
from sealbook.journal.records.versions import IdentityUpcaster
from sealbook.journal.schema import tables
from sealbook.merkle.checkpoint import Checkpoint

Call = Callable[..., Result]
Program = Callable[..., "subprocess.CompletedProcess[str]"]


RECORD_3: Place = (tables.JOURNAL, tables.number_key("default", 3))  # of the run order-42


def report(result: Result, code: int) -> dict[str, Any]:
    assert result.exit_code == code, result.stderr
    [line] = result.stdout.splitlines()
    answer: dict[str, Any] = json.loads(line)
    return answer


def test_a_whole_store_is_consistent_and_the_first_line_says_what_that_means(call: Call) -> None:
    result = call("verify")
    assert result.exit_code == 0
    first, second, *others = result.stdout.splitlines()
    assert first == MEANING
    assert second.startswith("checked: 2 tenants, 8 runs, 16 records, ")
    assert "2 leaves" in second
    assert others
    assert all(line.startswith("not checked: ") for line in others)


def test_strict_fails_because_no_store_can_show_everything(call: Call) -> None:
    assert call("verify", "--strict").exit_code == 1


def test_the_report_as_json(call: Call) -> None:
    answer = report(call("verify", "-o", "json"), 0)
    members = ["consistent", "meaning", "level", "checked", "agreed", "findings", "findings_more"]
    members += ["findings_of_others", "not_checked"]
    assert list(answer) == members
    assert answer["consistent"] is True
    assert set(answer["checked"]) == {
        *("tenants", "runs", "records", "bytes", "leaves", "effects", "index_rows", "signatures"),
    }
    assert answer["findings"] == []


def test_a_changed_byte_of_a_record_is_located(store: Path, call: Call) -> None:
    flip(store, RECORD_3, at=-20)
    result = call("verify")
    assert result.exit_code == 3
    assert result.stdout.startswith("NOT consistent: ")
    assert "tenant default, run order-42, record 3" in result.stdout
    findings = report(call("verify", "-o", "json"), 3)["findings"]
    assert ("default", "order-42", 3) in [(found["tenant"], found["run"], found["seq"]) for found in findings]


def test_a_changed_row_is_located_by_its_table_and_key(store: Path, call: Call) -> None:
    place = (tables.EFFECTS, tables.effect_key("default", "order-42", bytes(32)))
    change(store, place, b"surplus")
    result = call("verify")
    assert result.exit_code == 3
    [line] = [line for line in result.stdout.splitlines() if "table effects" in line]
    assert "default/order-42/" in line
    assert place[1].hex() in line
    [found] = report(call("verify", "-o", "json"), 3)["findings"]
    assert (found["table"], found["key"]) == (place[0], place[1].hex())


def test_a_run_is_verified_by_name(store: Path, call: Call) -> None:
    flip(store, RECORD_3, at=-20)
    assert call("verify", "order-43", "order-45").exit_code == 0
    assert call("verify", "order-43", "order-42").exit_code == 3
    assert call("verify", "nobody").exit_code == 4
    assert call("verify", "x" * 200).exit_code == 2


def test_a_tenant_that_is_named_is_the_only_one_told_of(store: Path, call: Call) -> None:
    flip(store, RECORD_3, at=-20)
    elsewhere = call("-q", "--tenant", "acme", "verify")
    assert elsewhere.exit_code == 3
    assert "internally consistent" not in elsewhere.stdout
    assert "NOT consistent" in elsewhere.stdout
    assert "of other tenants, not told here" in elsewhere.stdout
    assert "order-42" not in elsewhere.output
    told = json.loads(call("--tenant", "acme", "verify", "-o", "json").stdout)
    assert (told["consistent"], told["findings"], told["findings_of_others"] > 0) == (False, [], True)
    assert call("--tenant", "default", "verify").exit_code == 3
    assert call("--tenant", "nobody", "verify").exit_code == 4
    assert call("verify", env={"SEALBOOK_TENANT": "acme"}).exit_code == 3


def test_a_tenant_whose_own_row_is_gone_is_damage_and_no_unknown_tenant(store: Path, call: Call) -> None:
    change(store, (tables.TENANTS, b"acme"), None)
    result = call("--tenant", "acme", "verify")
    assert result.exit_code == 3
    assert "tenant acme" in result.stdout


def test_a_record_of_a_newer_version_is_no_tampering(store: Path, call: Call) -> None:
    class Newer(IdentityUpcaster):
        def current_version(self, kind: str) -> int:
            return 2 if kind == "Invented" else 1

    with Journal.open(store, upcaster=Newer()) as journal:
        journal.tenant().append("order-42", [entries.entry("Invented")], epoch=1)
    answer = report(call("verify", "-o", "json"), 1)
    assert answer["consistent"] is True
    assert [(found["run"], found["seq"], found["newer"]) for found in answer["findings"]] == [("order-42", 6, True)]
    assert "newer: tenant default, run order-42, record 6" in call("verify").stdout
    shown = call("show", "--run", "order-42")
    assert (shown.exit_code, shown.stderr.count("\n")) == (1, 1)


def test_a_damaged_record_stops_a_reader_with_its_place(store: Path, call: Call) -> None:
    flip(store, RECORD_3, at=-20)
    for args in (("show",), ("run", "order-42")):
        result = call(*args)
        assert result.exit_code == 3
        assert "order-42 record 3" in result.stderr
        assert "`sealbook verify`" in result.stderr
        assert result.stderr.count("\n") == 1


def test_names_in_findings_cannot_move_the_terminal(store: Path, call: Call) -> None:
    change(store, (tables.EFFECTS, b"default\0\x1b[2J\xe2\x80\xae\0" + bytes(32)), b"x")
    result = call("verify")
    assert result.exit_code == 3
    assert all(line.isprintable() for line in result.stdout.splitlines())


def test_a_store_whose_data_is_gone_is_damage(store: Path, call: Call) -> None:
    (store / "data.mdb").unlink()
    result = call("verify")
    assert result.exit_code == 3
    assert result.stderr.count("\n") == 1


def test_two_stores_mixed_up_are_damage(store: Path, call: Call, tmp_path: Path) -> None:
    Journal.open(tmp_path / "other", create=True).close()
    shutil.copy(tmp_path / "other" / "SEALBOOK", store / "SEALBOOK")
    assert call("verify").exit_code == 3


@pytest.mark.parametrize("color", ["always", "never"])
def test_findings_are_red(store: Path, call: Call, color: str) -> None:
    flip(store, RECORD_3, at=-20)
    assert ("\x1b[31m" in call("--color", color, "verify").stdout) is (color == "always")


# --- levels, and what an auditor brings ------------------------------------------------------------------------------


def test_a_level_says_what_it_left_out(call: Call) -> None:
    for level, left in (("structure", 4), ("chain", 3), ("signatures", 2), ("log", 1), ("deep", 0)):
        answer = report(call("verify", "--level", level, "-o", "json"), 0)
        assert answer["level"] == level
        assert len([line for line in answer["not_checked"] if ": level " in line]) == left


def test_a_level_finds_what_it_looks_at(store: Path, call: Call) -> None:
    flip(store, RECORD_3, at=-20)
    assert call("verify", "--level", "structure").exit_code == 0
    [found] = report(call("verify", "--level", "chain", "-o", "json"), 3)["findings"]
    assert (found["tenant"], found["run"], found["seq"]) == ("default", "order-42", 3)
    assert found["means"].startswith("this record, or that it stands here, cannot be believed")


def test_every_finding_says_what_it_means_once_per_kind(store: Path, call: Call) -> None:
    for arrival in (3, 5):
        flip(store, (tables.JOURNAL, tables.number_key("default", arrival)), at=-20)
    lines = call("verify").stdout.splitlines()
    assert len([line for line in lines if "record, or that it stands here" in line]) == 1
    assert lines[2].startswith("  this means: ")


def test_several_processes_come_to_the_same_as_one(store: Path, program: Program) -> None:
    flip(store, RECORD_3, at=-20)
    one = program("verify", "--level", "signatures", "-o", "json")
    two = program("verify", "--level", "signatures", "--jobs", "2", "-o", "json")
    assert (one.returncode, one.stdout) == (two.returncode, two.stdout)
    assert one.returncode == 3


def test_progress_as_json_goes_to_standard_error_and_ends_with_all(call: Call) -> None:
    result = call("-q", "verify", "--level", "chain", "--progress=json")
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert (lines[-1]["done"], lines[-1]["total"], lines[-1]["remaining"]) == (16, 16, 0.0)
    assert all(line["what"] == "verifying" for line in lines)
    assert call("verify", "--progress=none").stderr == ""


def test_an_outside_checkpoint_that_agrees_changes_what_the_answer_means(
    store: Path, call: Call, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    seen.write_text(call("log", "checkpoint").stdout)
    result = call("verify", "--checkpoint", str(seen))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == ANCHORED
    assert f"agrees: checkpoint {seen}: sealbook of size 2" in result.stdout
    assert "without an outside checkpoint, an older copy" not in result.stdout


def test_an_older_copy_that_was_put_back_is_found_by_what_was_seen_outside(
    store: Path, call: Call, tmp_path: Path
) -> None:
    older, seen = tmp_path / "older", tmp_path / "seen"
    shutil.copytree(store, older)
    with Journal.open(store) as journal:
        journal.tenant().append("new", [entries.concluded("completed")], epoch=1, seal=True)
    seen.write_text(call("log", "checkpoint").stdout)
    for level in ("log", "deep"):
        assert call("-D", str(older), "verify", "--level", level).exit_code == 0
        result = call("-D", str(older), "verify", "--level", level, "--checkpoint", str(seen))
        assert result.exit_code == 3
        assert "tenant default: checkpoint" in result.stdout
        assert "the log shrank: it has 2 leaves, and 3 were seen" in result.stdout


def test_a_checkpoint_the_policy_rejects_is_a_finding_and_constrains_nothing(
    store: Path, call: Call, tmp_path: Path
) -> None:
    forged, policy = tmp_path / "forged", tmp_path / "policy"
    forged.write_bytes(signed_note(Checkpoint("sealbook", 1, bytes(32)), signer=log_signer("sealbook", seed=9)))
    policy.write_text(f"log {log_signer('sealbook').key}\nquorum none\n")
    answer = report(call("verify", "--checkpoint", str(forged), "--policy", str(policy), "-o", "json"), 3)
    [finding] = answer["findings"]
    assert finding["what"].startswith(f"checkpoint {forged}: the policy does not accept it: ")


def test_keys_that_were_given_and_records_that_must_be_signed(store: Path, call: Call, tmp_path: Path) -> None:
    ada = Ed25519Signer(bytes(32))
    with Journal.open(store, signer=ada) as journal:
        journal.tenant("signed").append("r", [entries.note()], epoch=1)
    ours, others = tmp_path / "ours", tmp_path / "others"
    ours.write_text(f"# ada\n{ada.public_key.hex()}\n")
    others.write_text("# nobody\n")
    assert call("verify", "--keys", str(ours)).exit_code == 0
    result = call("verify", "--keys", str(others), "--level", "signatures")
    assert result.exit_code == 3
    assert "tenant signed, run r, record 1" in result.stdout
    assert call("--tenant", "signed", "verify", "r", "--require-signatures").exit_code == 0
    assert call("verify", "order-42", "--require-signatures").exit_code == 3


@pytest.mark.parametrize(
    "args",
    [
        ("order-42", "--level", "chain"),
        ("order-42", "--jobs", "2"),
        ("--jobs", "2"),
        ("--max-age", "1d"),
        ("--level", "thorough"),
        ("--sealed",),
    ],
)
def test_options_that_do_not_go_together_are_a_usage_error(call: Call, args: tuple[str, ...]) -> None:
    assert call("verify", *args).exit_code == 2


def test_a_file_of_the_auditors_own_that_is_none_of_its_kind_is_a_usage_error(call: Call, tmp_path: Path) -> None:
    letter = tmp_path / "letter"
    letter.write_text("dear auditor")
    for option in ("--checkpoint", "--policy", "--keys"):
        result = call("verify", option, str(letter))
        assert result.exit_code == 2
        assert str(letter) in result.stderr
