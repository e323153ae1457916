"""`import` brings files in whole, says what became of each, and goes on after a damaged one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sealbook.cli.main import cli

Import = Callable[..., Result]
Call = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, shared: Path) -> Path:
    """Some recorded runs, under short names."""
    data = shared / "data"
    for name, source in (
        ("java.json", "temporal-sdk-java/simpleHistory1.json"),
        ("python.json", "temporal-sdk-python/tools-workflow-history.json"),
        ("marshmallow.traj", "swe-agent/marshmallow-code__marshmallow-1867.traj"),
        ("mini.traj.json", "mini-swe-agent/local.traj.json"),
    ):
        shutil.copy(data / source, tmp_path / name)
    return tmp_path


@pytest.fixture
def bring(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Import:
    monkeypatch.chdir(folder)
    return lambda *args: CliRunner().invoke(cli, ["-D", "s", *args], prog_name="sealbook", catch_exceptions=False)


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_files_are_imported_into_a_store_that_is_created_for_them(bring: Import) -> None:
    result = bring("import", "--format", "temporal", "java.json", "python.json")
    assert result.exit_code == 0
    first, second, total = result.stdout.splitlines()
    assert first.startswith("java.json: run ")
    assert second.startswith("python.json: run ")
    assert total.startswith("2 files: 2 new, 0 extended, 0 imported already, 0 refused; ")
    assert bring("import", "--format", "traj", "marshmallow.traj", "mini.traj.json").exit_code == 0
    runs = {run["run"]: run for run in objects(bring("runs", "-o", "json"))}
    assert {"marshmallow", "mini"} < set(runs)
    assert runs["marshmallow"]["sealed"] is True
    assert bring("verify").exit_code == 0


def test_the_format_is_guessed_when_it_is_left_out(bring: Import) -> None:
    files = ["java.json", "python.json", "marshmallow.traj", "mini.traj.json"]
    results = objects(bring("import", "-o", "json", *files))
    assert [(item["file"], item["result"]) for item in results] == [(file, "new") for file in files]


def test_importing_again_writes_nothing_and_says_so(bring: Import) -> None:
    bring("import", "java.json")
    before = objects(bring("show", "-o", "json"))
    again = bring("import", "java.json")
    assert (again.exit_code, "imported already, as run" in again.stdout) == (0, True)
    [item] = objects(bring("import", "-o", "json", "java.json"))
    assert (item["result"], item["records"], item["known"]) == ("unchanged", 0, before[-1]["seq"])
    assert objects(bring("show", "-o", "json")) == before


def test_a_longer_copy_appends_what_is_new(bring: Import, folder: Path) -> None:
    whole = json.loads((folder / "python.json").read_text())
    count = len(whole["events"])
    (folder / "short.json").write_text(json.dumps({**whole, "events": whole["events"][: count - 2]}))
    bring("import", "short.json")
    result = bring("import", "python.json")
    assert f"2 more records, {count - 2} were there" in result.stdout


def test_damaged_files_are_reported_and_the_others_are_imported(bring: Import, folder: Path) -> None:
    (folder / "cut.json").write_bytes((folder / "java.json").read_bytes()[:-40])
    (folder / "other.json").write_text('{"neither": 1}')
    result = bring("import", "cut.json", "other.json", "java.json")
    assert result.exit_code == 5
    lines = result.stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("sealbook: cut.json: is not JSON")
    assert all(line.endswith("nothing of it was imported") for line in lines)
    assert "1 new, 0 extended, 0 imported already, 2 refused" in result.stdout
    assert len(objects(bring("runs", "-o", "json"))) == 1


def test_a_refused_file_is_an_object_too(bring: Import, folder: Path) -> None:
    (folder / "cut.json").write_text("{")
    result = bring("import", "-o", "json", "cut.json", "java.json")
    assert result.exit_code == 5
    refused, taken = objects(result)
    assert (refused["result"], refused["run"]) == ("refused", None)
    assert "is not JSON" in refused["error"]
    assert taken["error"] is None


def test_what_is_neither_format_is_told_both(bring: Import, folder: Path) -> None:
    for text in ('{"neither": 1}', "7"):
        (folder / "other.json").write_text(text)
        told = bring("import", "other.json").stderr
        assert "neither a Temporal history" in told and "nor a trajectory" in told


def test_no_store_is_created_when_no_file_could_be_read(bring: Import, folder: Path) -> None:
    (folder / "cut.json").write_text("{")
    assert bring("import", "cut.json").exit_code == 5
    assert not (folder / "s").exists()
    assert bring("import", "cut.json", "mini.traj.json").exit_code == 5
    assert len(objects(bring("runs", "-o", "json"))) == 1


@pytest.mark.parametrize("missing", ["gone.json", "."])
def test_a_file_that_is_missing_is_a_usage_error_and_nothing_is_imported(
    bring: Import, folder: Path, missing: str
) -> None:
    result = bring("import", "mini.traj.json", missing)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"'{missing}'" in result.stderr
    assert not (folder / "s").exists()


def test_one_record_is_one_record(bring: Import, folder: Path) -> None:
    whole = json.loads((folder / "python.json").read_text())
    (folder / "short.json").write_text(json.dumps({**whole, "events": whole["events"][:-1]}))
    bring("import", "short.json")
    assert " 1 more record, 22 were there" in bring("import", "python.json").stdout


def test_the_wrong_format_is_refused(bring: Import) -> None:
    result = bring("import", "--format", "temporal", "mini.traj.json")
    assert result.exit_code == 5
    assert "is no Temporal history" in result.stderr


def test_quiet_says_nothing_but_what_went_wrong(bring: Import, folder: Path) -> None:
    (folder / "cut.json").write_text("{")
    result = bring("-q", "import", "java.json", "cut.json")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (5, "", 1)


def test_another_history_under_the_same_name_is_renamed_and_told(bring: Import, folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "mini.traj.json").write_text('[{"role": "system", "content": "another one"}]')
    bring("import", "mini.traj.json")
    result = bring("import", "a/mini.traj.json")
    assert "run mini~" in result.stdout
    assert "a different history has the name mini" in result.stdout


def test_what_a_store_exported_itself_is_refused_unless_it_is_asked_for(call: Call, tmp_path: Path) -> None:
    lines = tmp_path / "own.jsonl"
    lines.write_text(call("export", "--format", "jsonl", "--to", "-").stdout)
    before = call("runs", "-o", "json").stdout
    for tenant in ("default", "acme"):
        result = call("--tenant", tenant, "import", str(lines))
        assert result.exit_code == 5
        assert "already here" in result.stderr and "--again" in result.stderr
    assert call("runs", "-o", "json").stdout == before
    assert call("import", "--again", str(lines)).exit_code == 0
    assert call("runs", "-o", "json").stdout != before
    assert call("-D", str(tmp_path / "other"), "import", str(lines)).exit_code == 0


def test_standard_input_is_imported(call: Call, tmp_path: Path) -> None:
    line = '{"run": "r", "kind": "Note", "data": {}}'
    assert call("-D", str(tmp_path / "new"), "import", "-", input=line).exit_code == 0
    assert "r" in call("-D", str(tmp_path / "new"), "runs").stdout
