"""`export`, `bundle` and `restore`, as an auditor types them: evidence, where no store is."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bundling import fault_of, said
from click.testing import CliRunner, Result
from damaging import killed_at
from project import ROOT
from published_log import log_signer, publish, witness_signer

from sealbook.cli.main import cli
from sealbook.journal import Journal, entries
from sealbook.journal.bundle.container import ContainerWriter
from sealbook.journal.records.signatures import Ed25519Signer

Run = Callable[..., Result]


@pytest.fixture
def auditor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program in a folder where no store is."""
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")

    def run(*args: str) -> Result:
        result = CliRunner().invoke(cli, args, prog_name="sealbook")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def evidence(call: Run, tmp_path: Path) -> Path:
    path = tmp_path / "evidence"
    assert call("export", "--to", str(path)).exit_code == 0
    return path


def printed(result: Result) -> Any:
    return json.loads(result.stdout)


# --- export ----------------------------------------------------------------------------------------------------------


def test_a_bundle_is_written_and_said_to_be(call: Run, tmp_path: Path) -> None:
    path = tmp_path / "b"
    result = call("export", "--to", str(path), "-o", "json")
    assert result.exit_code == 0
    told = printed(result)
    assert (told["what"], told["tenants"], told["runs"], told["records"]) == ("tenant", 1, 7, 15)
    assert path.read_bytes()[-32:].hex() == told["digest"]
    assert said(path.read_bytes()) == ("sound", 0)


@pytest.mark.parametrize(
    ("options", "what", "runs"),
    [
        (["--all-tenants"], "store", 8),
        (["--run", "order-42", "--run", "order-45"], "runs", 2),
        (["--case", "case-7"], "cases", 2),
        (["--since", "2026-11-29T08:00:05Z", "--until", "2026-11-29T08:00:06Z"], "span", 2),
        (["--compress", "lzma"], "tenant", 7),
        (["--compress", "plain"], "tenant", 7),
    ],
)
def test_what_is_selected_is_what_the_bundle_holds(
    call: Run, tmp_path: Path, options: list[str], what: str, runs: int
) -> None:
    told = printed(call("export", *options, "--to", str(tmp_path / "b"), "-o", "json"))
    assert (told["what"], told["runs"]) == (what, runs)
    assert said((tmp_path / "b").read_bytes()) == ("sound", 0)


def test_two_selections_at_once_are_a_mistake(call: Run, tmp_path: Path) -> None:
    assert call("export", "--run", "order-42", "--all-tenants", "--to", str(tmp_path / "b")).exit_code == 2
    assert not (tmp_path / "b").exists()


def test_what_is_not_there_leaves_no_file(call: Run, tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir()
    path = str(tmp_path / "desk" / "b")
    assert call("export", "--run", "nothing", "--to", path).exit_code == 4
    assert call("--tenant", "nobody", "export", "--to", path).exit_code == 4
    assert list((tmp_path / "desk").iterdir()) == []


def test_what_was_exported_is_its_owners_alone_unless_it_replaces_a_file_that_is_not(call: Run, tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        for verb in (
            ("export", "--to"),
            ("export", "--format", "jsonl", "--to"),
            ("run", "order-42", "-o", "records", "--to"),
        ):
            path = tmp_path / "-".join(verb)
            assert call(*verb, str(path)).exit_code == 0
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            path.chmod(0o640)
            assert call(*verb, str(path)).exit_code == 0
            assert stat.S_IMODE(path.stat().st_mode) == 0o640
    finally:
        os.umask(umask)


@pytest.mark.parametrize("form", ["bundle", "jsonl", "otlp"])
def test_a_span_in_which_nothing_lies_is_remarked_upon(call: Run, tmp_path: Path, form: str) -> None:
    args = ("export", "--format", form, "--to", str(tmp_path / "b"), "--since")
    empty = call(*args, "2099-01-01")
    assert empty.exit_code == 0
    assert "no record lies between --since and --until" in empty.stderr
    assert "no record lies" not in call(*args, "2026-11-29").stderr
    assert call("-q", *args, "2099-01-01").stderr == ""


def test_a_missing_folder_is_named_and_not_the_file_that_is_written_meanwhile(call: Run, tmp_path: Path) -> None:
    result = call("export", "--to", str(tmp_path / "none" / "b"))
    assert result.exit_code == 6
    assert result.stderr == f"sealbook: {tmp_path / 'none'}: No such file or directory\n"


def test_a_bundle_can_go_to_standard_output_and_what_is_said_of_it_does_not(store: Path) -> None:
    command = [sys.executable, "-m", "sealbook.cli", "-D", str(store), "export", "--to", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert said(done.stdout) == ("sound", 0)
    assert b"records, digest" in done.stderr


# --- bundle verify ---------------------------------------------------------------------------------------------------


def test_a_sound_bundle_says_what_it_proves_and_what_was_not_checked(auditor: Run, evidence: Path) -> None:
    result = auditor("bundle", "verify", str(evidence))
    assert result.exit_code == 0
    assert "sound: the records, leaves and checkpoints of the bundle agree with each other" in result.stdout
    assert "left out: leases, other-tenants, secret, store-log" in result.stdout
    assert "not checked: whether this is the log that others saw: no --checkpoint" in result.stdout


def test_under_strict_anything_that_was_not_checked_counts(auditor: Run, evidence: Path) -> None:
    assert auditor("bundle", "verify", str(evidence), "--strict").exit_code == 1


def test_a_selection_says_that_it_does_not_prove_completeness(call: Run, auditor: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "b")
    assert call("export", "--run", "order-45", "--to", path).exit_code == 0
    result = auditor("bundle", "verify", path)
    assert result.exit_code == 0
    assert "that no other run does, a selection does not show" in result.stdout
    assert "not checked: completeness: other runs, and records after an anchor, would not be missed" in result.stdout


def test_damage_is_located_and_is_exit_code_3(auditor: Run, evidence: Path) -> None:
    data = evidence.read_bytes()
    evidence.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    result = auditor("bundle", "verify", str(evidence), "-o", "json")
    assert result.exit_code == 3
    [finding] = printed(result)["findings"]
    assert (finding["section"], finding["where"], finding["offset"]) == ("block 0", "file", 40)
    assert printed(result)["digest"] is None


def test_a_bundle_that_was_cut_off_is_called_incomplete(auditor: Run, evidence: Path) -> None:
    evidence.write_bytes(evidence.read_bytes()[:-10])
    result = auditor("bundle", "verify", str(evidence))
    assert result.exit_code == 3
    assert "evidence: incomplete" in result.stdout
    assert "incomplete" in fault_of(evidence.read_bytes())


def test_every_fault_of_a_bundle_names_its_file(auditor: Run, evidence: Path, tmp_path: Path) -> None:
    short, other = tmp_path / "short", tmp_path / "other"
    short.write_bytes(evidence.read_bytes()[:-1])
    other.write_text("no bundle")
    for args in (("bundle", "list", "F"), ("bundle", "show", "F"), ("-D", "s", "restore", "F", "--actor", "ada")):
        for path, code in ((short, 3), (other, 6)):
            result = auditor(*(str(path) if word == "F" else word for word in args))
            assert result.exit_code == code
            assert result.stderr.startswith(f"sealbook: {path}: ")
    assert not Path("s").exists()


def test_a_selection_that_shall_be_restored_is_refused_by_its_name(call: Run, auditor: Run, tmp_path: Path) -> None:
    call("export", "--run", "order-42", "--to", str(tmp_path / "two"))
    refused = auditor("-D", "s", "restore", "../two", "--actor", "ada")
    assert refused.exit_code == 5
    assert refused.stderr.startswith("sealbook: bundle '../two': holds selected runs")


def test_an_auditors_file_of_the_wrong_kind_is_a_usage_error(call: Run, auditor: Run, evidence: Path) -> None:
    for verb in (("bundle", "verify", str(evidence)), ("verify",), ("audit",)):
        for option in ("--checkpoint", "--policy", "--keys"):
            result = (auditor if verb[0] == "bundle" else call)(*verb, option, str(evidence))
            assert (result.exit_code, result.stdout) == (2, "")
            assert result.stderr.startswith(f"sealbook: {evidence}: ")
            assert "--help" not in result.stderr
        result = (auditor if verb[0] == "bundle" else call)(*verb, "--policy", str(evidence), "--max-age", "soon")
        assert result.exit_code == 2


def test_what_is_no_bundle_is_not_called_damaged(auditor: Run, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("something else")
    assert auditor("bundle", "verify", str(tmp_path / "other")).exit_code == 6


def test_every_outside_checkpoint_must_agree(call: Run, auditor: Run, evidence: Path, tmp_path: Path) -> None:
    good, forked, foreign = tmp_path / "good", tmp_path / "forked", tmp_path / "foreign"
    good.write_text(call("log", "checkpoint").stdout)
    lines = good.read_text().splitlines()
    forked.write_text(f"{lines[0]}\n1\n{'A' * 43}=\n")
    foreign.write_text(f"elsewhere\n1\n{'A' * 43}=\n")
    assert auditor("bundle", "verify", str(evidence), "--checkpoint", str(good)).exit_code == 0
    for other, what in ((forked, "its root is another one"), (foreign, "which the bundle does not hold")):
        both = ["--checkpoint", str(good), "--checkpoint", str(other)]
        result = auditor("bundle", "verify", str(evidence), *both)
        assert result.exit_code == 3
        assert what in result.stdout


def test_a_policy_that_nobody_signed_for_is_not_met(auditor: Run, evidence: Path, tmp_path: Path) -> None:
    from sealbook.merkle.keys import Algorithm, NoteSigner

    key = NoteSigner.from_seed("sealbook", Algorithm.ED25519, bytes(32)).key
    (tmp_path / "policy").write_text(f"log {key}\nquorum none\n")
    result = auditor("bundle", "verify", str(evidence), "--policy", str(tmp_path / "policy"))
    assert result.exit_code == 3
    assert "no checkpoint of the log is signed" in result.stdout


def test_a_quorum_of_long_ago_is_not_fresh(store: Path, auditor: Run, tmp_path: Path) -> None:
    witness = witness_signer("w.example")
    with Journal.open(store) as journal:
        publish(journal.tenant(), witness)
    path, policy = str(tmp_path / "b"), tmp_path / "policy"
    policy.write_text(f"log {log_signer('sealbook').key}\nwitness w {witness.key}\nquorum w\n")
    assert auditor("-D", str(store), "export", "--to", path).exit_code == 0
    verify = ("bundle", "verify", path, "--policy", str(policy))
    assert auditor(*verify).exit_code == 0
    assert auditor(*verify, "--max-age", "36500d").exit_code == 0
    stale = auditor(*verify, "--max-age", "0")
    assert stale.exit_code == 3 and "is not fresh" in stale.stdout
    assert auditor(*verify, "--max-age", "soon").exit_code == 2
    assert auditor("bundle", "verify", path, "--max-age", "1d").exit_code == 2


def test_only_the_signers_that_were_given_count(auditor: Run, tmp_path: Path) -> None:
    signer = Ed25519Signer(bytes(range(32)))
    with Journal.open(tmp_path / "signed", create=True, signer=signer) as journal:
        journal.tenant().append("a", [entries.note("n")], epoch=1)
    path, keys = str(tmp_path / "b"), tmp_path / "keys"
    assert auditor("-D", str(tmp_path / "signed"), "export", "--to", path).exit_code == 0
    keys.write_text(f"# ours\n{signer.public_key.hex()}\n")
    assert auditor("bundle", "verify", path, "--keys", str(keys)).exit_code == 0
    keys.write_text(f"{bytes(31).hex()}ff\n")
    result = auditor("bundle", "verify", path, "--keys", str(keys))
    assert result.exit_code == 3 and "a key that was not given" in result.stdout
    keys.write_text("no key\n")
    assert auditor("bundle", "verify", path, "--keys", str(keys)).exit_code == 2


# --- bundle list, bundle show ----------------------------------------------------------------------------------------


def test_the_runs_of_a_bundle_are_listed(auditor: Run, evidence: Path) -> None:
    result = auditor("bundle", "list", str(evidence), "-o", "json")
    runs = {run["run"]: run for run in map(json.loads, result.stdout.splitlines())}
    assert list(runs) == sorted(runs)
    assert (runs["order-45"]["records"], runs["order-45"]["outcome"], runs["order-45"]["leaf"]) == (
        2,
        "completed",
        "seal 0",
    )
    assert runs["order-42"]["leaf"] is None and runs["~tenant"]["records"] == 1
    assert "order-46" in auditor("bundle", "list", str(evidence)).stdout


def test_records_are_shown_as_those_of_a_store_are(call: Run, auditor: Run, evidence: Path) -> None:
    from_store = call("show", "-n", "all", "-o", "json").stdout
    assert auditor("bundle", "show", str(evidence), "-o", "json").stdout == from_store
    one = auditor("bundle", "show", str(evidence), "--run", "order-45")
    assert [line.split()[3] for line in one.stdout.splitlines()] == ["RunAdmitted", "RunConcluded"]


def test_a_run_that_the_bundle_does_not_have_is_not_found(auditor: Run, evidence: Path) -> None:
    result = auditor("bundle", "show", str(evidence), "--run", "order-45", "--run", "nobody")
    assert (result.exit_code, "order-45" in result.stdout) == (4, True)
    assert result.stderr == f"sealbook: no record in {evidence} of run 'nobody'\n"
    assert auditor("bundle", "show", str(evidence), "--run", "").exit_code == 2


def test_a_large_record_is_shown_with_what_was_left_out_unless_all_is_asked_for(auditor: Run, tmp_path: Path) -> None:
    store, path = str(tmp_path / "large"), str(tmp_path / "b")
    with Journal.open(store, create=True) as journal:
        data = {"outcome": "completed", "x": "y" * 70_000}
        journal.tenant().append("a", [entries.note("n", data=data)], epoch=1)
    assert auditor("-D", store, "export", "--to", path).exit_code == 0
    shown = printed(auditor("bundle", "show", path, "-o", "json"))["data"]
    assert "x" not in shown and "bytes in all, hash" in shown["…"]
    assert printed(auditor("bundle", "show", path, "-a", "-o", "json"))["data"]["x"] == "y" * 70_000


def test_text_of_a_bundle_moves_no_terminal(auditor: Run, tmp_path: Path) -> None:
    store, path = str(tmp_path / "odd"), str(tmp_path / "b")
    with Journal.open(store, create=True) as journal:
        journal.tenant().append("a", [entries.note("\x1b[2Jgone", case="\N{RIGHT-TO-LEFT OVERRIDE}c")], epoch=1)
    assert auditor("-D", store, "export", "--to", path).exit_code == 0
    for verb in ("show", "list", "verify"):
        assert "\x1b" not in auditor("bundle", verb, path).stdout


def test_93_a_reader_that_goes_away_ends_it_quietly(auditor: Run, tmp_path: Path) -> None:
    store, path = str(tmp_path / "long"), str(tmp_path / "b")
    with Journal.open(store, create=True) as journal:
        journal.tenant().append("a", [entries.note("x" * 100)] * 2000, epoch=1)
    assert auditor("-D", store, "export", "--to", path).exit_code == 0
    for verb in ("show", "verify"):
        command = [sys.executable, "-m", "sealbook.cli", "--no-pager", "bundle", verb, path, "-o", "json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == ""
        assert process.returncode == (141 if verb == "show" else 0)


def test_progress_is_told_as_far_as_the_file_has_been_read(evidence: Path) -> None:
    from sealbook.journal.bundle import verify

    seen: list[int] = []
    with evidence.open("rb") as stream:
        assert verify(stream, progress=lambda: seen.append(stream.tell())).sound
    assert len(seen) == 1 and 0 < seen[0] <= evidence.stat().st_size


# --- restore ---------------------------------------------------------------------------------------------------------


def test_a_store_is_restored_and_says_what_was_not_carried(auditor: Run, evidence: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "again")
    result = auditor("-D", store, "restore", str(evidence), "--actor", "ada", "--reason", "disk lost")
    assert result.exit_code == 0
    assert "default: 15 records, 2 leaves, root" in result.stdout
    assert "not carried: leases" in result.stdout
    assert auditor("-D", store, "verify").exit_code == 0
    assert "Restored" in auditor("-D", store, "show", "--run", "~tenant").stdout
    assert auditor("-D", store, "restore", str(evidence), "--actor", "ada").exit_code == 5


def test_a_dry_run_writes_nothing(auditor: Run, evidence: Path, tmp_path: Path) -> None:
    store = tmp_path / "again"
    result = auditor("-D", str(store), "restore", str(evidence), "--actor", "ada", "--dry-run")
    assert result.exit_code == 0
    assert "15 records could be restored; nothing was written" in result.stderr
    assert not store.exists()


def test_a_damaged_bundle_is_exit_code_3_and_leaves_nothing(auditor: Run, evidence: Path, tmp_path: Path) -> None:
    evidence.write_bytes(evidence.read_bytes()[:-1])
    assert auditor("-D", str(tmp_path / "again"), "restore", str(evidence), "--actor", "ada").exit_code == 3
    assert list(tmp_path.glob("again*")) == []


# --- killed ----------------------------------------------------------------------------------------------------------


EXPORT_STEPS = (
    *((os, name) for name in ("open", "fsync")),
    *((Path, name) for name in ("replace", "unlink")),
    *((ContainerWriter, name) for name in ("write", "_block")),
)


def exported(store: Path, target: Path) -> None:
    result = CliRunner().invoke(cli, ["-D", str(store), "export", "--to", str(target)])
    assert result.exit_code == 0, result.output


def large(folder: Path) -> Path:
    """A store whose bundle has many blocks."""
    with Journal.open(folder, create=True) as journal:
        for number in range(8):
            data = {"x": os.urandom(50_000)}
            journal.tenant().append(f"run-{number}", [entries.note("n", data=data)] * 2, epoch=1)
    return folder


def test_a_killed_export_is_resumed_and_gives_the_bytes_of_an_undisturbed_one(
    auditor: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = large(tmp_path / "large")
    monkeypatch.setattr(time, "time_ns", lambda: 1_795_939_200_000_000_000)
    before = (store / "data.mdb").read_bytes()
    target, rest = tmp_path / "evidence", tmp_path / "evidence.partial"
    exported(store, target)
    whole, kills, incomplete = target.read_bytes(), 0, 0
    for number in range(200):
        target.unlink(missing_ok=True)
        killed = killed_at(number, partial(exported, store, target), EXPORT_STEPS)
        kills += killed
        if not target.exists() and rest.exists() and rest.stat().st_size:
            incomplete += said(rest.read_bytes())[0] == "file"
            assert whole.startswith(rest.read_bytes())
        if killed:
            exported(store, target)
        assert target.read_bytes() == whole
        assert [path.name for path in tmp_path.glob("*evidence*")] == ["evidence"]
        if not killed:
            break
    assert kills > 20 and incomplete > 10
    assert (store / "data.mdb").read_bytes() == before
    assert auditor("-D", str(store), "verify").exit_code == 0


def test_a_full_disk_cuts_an_export_off_and_with_space_again_it_goes_on(auditor: Run, tmp_path: Path) -> None:
    store, target = large(tmp_path / "large"), tmp_path / "b"
    command = [sys.executable, "-m", "sealbook.cli", "-D", str(store), "export", "--to", str(target)]
    limit = 500_000

    def no_larger_file() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    full = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=no_larger_file)
    rest = tmp_path / "b.partial"
    assert (full.returncode, target.exists(), rest.stat().st_size) == (6, False, limit)
    assert "cannot be written: File too large: make room" in full.stderr
    begun = rest.read_bytes()
    assert said(begun)[0] == "file"
    with Journal.open(store) as journal:
        journal.tenant().append("meanwhile", [entries.note("n")], epoch=1)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.startswith("sealbook: going on with the export that was begun at 20")
    assert "records stand already" in done.stderr and "8 runs, 16 records" in done.stdout
    assert target.read_bytes().startswith(begun[:400_000])
    assert said(target.read_bytes()) == ("sound", 0)
    assert sorted(path.name for path in tmp_path.glob("b*")) == ["b"]


def test_what_cannot_be_gone_on_with_is_refused_until_it_is_begun_anew(auditor: Run, tmp_path: Path) -> None:
    store, target = large(tmp_path / "large"), tmp_path / "b"
    failing = killed_at(9, partial(exported, store, target), ((ContainerWriter, "_block"),))
    assert failing and not target.exists()
    export = ("-D", str(store), "export", "--to", str(target))
    refused = auditor(*export, "--run", "run-1")
    assert (refused.exit_code, target.exists()) == (5, False)
    assert "b.partial cannot be gone on with: it is of another question: tenant default; zlib" in refused.stderr
    assert "repeat that export, or begin anew with --restart" in refused.stderr
    assert printed(auditor(*export, "--run", "run-1", "--restart", "-o", "json"))["resumed"] is False
    assert killed_at(9, partial(exported, store, target), ((ContainerWriter, "_block"),))
    assert printed(auditor(*export, "-o", "json"))["resumed"] is True
    assert said(target.read_bytes()) == ("sound", 0)


@pytest.mark.parametrize("options", [["--to", "-"], ["--format", "jsonl", "--to", "b"]])
def test_only_a_bundle_that_goes_to_a_file_can_be_begun_anew(call: Run, options: list[str]) -> None:
    result = call("export", "--restart", *options)
    assert result.exit_code == 2 and "--restart is for bundles that go to a file" in result.stderr


# --- the second reader -----------------------------------------------------------------------------------------------


def test_the_second_reader_needs_nothing_of_ours_and_at_most_500_lines() -> None:
    text = (ROOT / "tools" / "verify_bundle.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 500
    assert "import sealbook" not in text and "from sealbook" not in text


def test_the_second_reader_is_a_program(evidence: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "verify_bundle.py"), str(evidence)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("sound: ")) == (0, True)
    evidence.write_bytes(evidence.read_bytes()[:-1])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("damaged: byte ")) == (3, True)


def test_a_bundle_is_read_from_standard_input(call: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "b"
    assert call("export", "--to", str(path)).exit_code == 0
    for verb in ("verify", "list", "show"):
        assert call("bundle", verb, "-", input=path.read_bytes()).exit_code == 0
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    assert call("bundle", "verify", "-", input=bytes(data)).exit_code == 3
