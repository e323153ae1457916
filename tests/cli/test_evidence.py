"""What a bundle discloses, claims and leaves out, over the command line; and what a killed export leaves behind."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from bundling import content_of, said
from click.testing import CliRunner, Result

from sealbook.cli.main import cli
from sealbook.journal import Journal, entries
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring

ORIGIN = "example.com/agents"


def program(*args: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [str(arg) for arg in args], prog_name="sealbook")
    assert result.exit_code == code, result.output
    return result


def verdict(*args: object, code: int = 0) -> Any:
    return json.loads(program("bundle", "verify", *args, "-o", "json", code=code).stdout)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a store `s` of signed records, whose log is published, and with the keys `keys`."""
    ring = Keyring(tmp_path / "keys")
    ring.generate(Purpose.RECORD, "worker-1", created=1_795_939_200_000)
    ring.generate(Purpose.RECORD, "worker-2", created=1_795_939_200_000)
    with Journal.open(tmp_path / "s", create=True, origin=ORIGIN, signer=ring.record_signer("worker-1")) as journal:
        for run in ("wanted", "private-matter"):
            journal.tenant().append(run, [entries.concluded("completed")], epoch=1, seal=True)
    at_store = ("-D", tmp_path / "s", "--origin", ORIGIN)
    keys = ("--keys", tmp_path / "keys")
    log = program(*at_store, "keys", "gen", "--log", *keys).stdout
    program("keys", "gen", "--log", "--origin", "elsewhere", "--exact", *keys)
    witness = program("keys", "gen", "--witness", "w.example", "--keys", tmp_path / "w.keys").stdout
    program("witness", "add", "w", witness.strip(), "http://127.0.0.1:1", "--optional", *keys)
    (tmp_path / "policy").write_text(f"log {log.strip()}\nwitness w {witness.strip()}\nquorum none\n")
    (tmp_path / "signers").write_text(ring.named("worker-1")[0].public_key.hex() + "\n")
    program(*at_store, "log", "publish", "--once", *keys)
    return tmp_path


def exported(desk: Path, *args: object) -> Path:
    program("-D", desk / "s", "--origin", ORIGIN, "export", *args, "--to", desk / "b")
    return desk / "b"


# --- keys ------------------------------------------------------------------------------------------------------------


def test_keys_are_the_exporters_claim_until_the_auditor_brings_the_same(desk: Path) -> None:
    path = exported(desk, "--run", "wanted", "--keys", desk / "keys")
    assert said(path.read_bytes()) == ("sound", 0)
    told = verdict(path)
    found = {(key["purpose"], key["name"]): key for key in told["keys"]}
    assert set(found) == {("log", ORIGIN), ("record", "worker-1"), ("witness", "w.example")}
    assert {key["brought"] for key in told["keys"]} == {False}
    assert "whose the keys are that the bundle names: 3 of 3 are its exporter's word alone" in told["not_checked"]
    [record] = [json.loads(line) for line in program("bundle", "show", path, "-o", "json").stdout.splitlines()]
    assert found["record", "worker-1"]["signer"] == record["signature"]["signer"]
    brought = verdict(path, "--policy", desk / "policy", "--keys", desk / "signers")
    assert {key["brought"] for key in brought["keys"]} == {True}
    assert not [line for line in brought["not_checked"] if "key" in line]
    plain = program("bundle", "verify", path, "--keys", desk / "signers").stdout
    assert "key: record worker-1: " in plain and ": brought by you too" in plain
    assert f"key: log {ORIGIN}: {ORIGIN}+" in plain and ": claimed by the exporter, not trusted" in plain


def test_a_claimed_key_vouches_for_nothing(desk: Path) -> None:
    path = exported(desk, "--keys", desk / "keys")
    (desk / "signers").write_text(f"{'11' * 32}\n")
    told = verdict(path, "--keys", desk / "signers", code=3)
    assert {finding["section"] for finding in told["findings"]} == {"signer"}


def test_without_keys_none_are_named(desk: Path) -> None:
    assert verdict(exported(desk))["keys"] == []
    result = CliRunner().invoke(
        cli, ["-D", str(desk / "s"), "export", "--format", "jsonl", "--keys", str(desk), "--to", "-"]
    )
    assert result.exit_code == 2 and "--keys is for bundles" in result.output


def test_a_record_without_a_signature_is_a_finding_where_all_must_be_signed(desk: Path) -> None:
    with Journal.open(desk / "s", origin=ORIGIN) as journal:
        journal.tenant().append("unsigned", [entries.note("n")], epoch=1)
    path = exported(desk)
    assert verdict(path)["sound"]
    [finding] = verdict(path, "--require-signatures", code=3)["findings"]
    assert (finding["run"], finding["seq"], finding["what"]) == ("unsigned", 1, "the record is not signed")


# --- what is disclosed, and what is left out -------------------------------------------------------------------------


def test_a_disclosure_proves_its_runs_and_says_nothing_of_the_others(desk: Path) -> None:
    path = exported(desk, "--run", "wanted")
    told = verdict(path, "--policy", desk / "policy")
    assert (told["runs"], told["proven"]) == (1, 1)
    assert {"other-runs", "other-leaves", "other-tenants"} <= set(told["left_out"])
    assert [line for line in told["not_checked"] if line.startswith("completeness: other runs")]
    content = content_of(path.read_bytes())
    assert b"wanted" in content and b"private-matter" not in content
    program("-D", desk / "again", "restore", path, "--actor", "ada", code=5)


def test_the_store_log_is_left_out_and_said_to_be(desk: Path) -> None:
    at_store = ("-D", desk / "s", "--origin", ORIGIN, "--store-origin", "example.com/store")
    program(*at_store, "log", "gather")
    program(*at_store, "export", "--all-tenants", "--to", desk / "b")
    assert "store-log" in verdict(desk / "b")["left_out"]
    assert b"example.com/store" not in content_of((desk / "b").read_bytes())
    restored = program("-D", desk / "again", "restore", desk / "b", "--actor", "ada").stdout
    assert "not carried: the store log" in restored


# --- an export that was cut off --------------------------------------------------------------------------------------


def test_what_a_killed_export_left_is_gone_after_the_next_one(desk: Path) -> None:
    rest, written = desk / ".b.1.new", desk / ".b.2.new"
    rest.write_bytes(exported(desk, "--format", "jsonl").read_bytes()[:-100])
    with written.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # as an export that is still at it holds it
        assert exported(desk, "--format", "jsonl").read_bytes().count(b"\n") == 2
        assert not rest.exists() and written.exists()
