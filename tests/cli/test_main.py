"""The program as a whole: its verbs, its help, what it loads, and how it meets a wrong command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sealbook.cli.commands import info
from sealbook.cli.main import VERBS, cli


def test_help_loads_neither_the_journal_nor_any_engine() -> None:
    heavy = {"lmdb", "rich", "cryptography", "trio", "structlog", "blake3", "cbor2", "sealbook.journal"}
    code = (
        "import sys\nfrom sealbook.cli.main import cli\n"
        "try: cli.main(['--help'])\nexcept SystemExit as e: assert e.code == 0\n"
        f"print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert finished.stderr == "[]\n"
    assert all(verb in finished.stdout for verb in VERBS)


def test_the_help_of_a_verb_loads_that_verb_alone() -> None:
    code = (
        "import sys\nfrom sealbook.cli.main import cli\n"
        "try: cli.main(['anchor', '--help'])\nexcept SystemExit: pass\n"
        "print(sorted(m.rpartition('.')[2] for m in sys.modules if m.startswith('sealbook.cli.commands.')), "
        "'lmdb' in sys.modules, file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert finished.stderr == "['anchor', 'seal'] False\n"


def test_every_module_of_commands_is_a_verb_or_in_the_folder_of_its_verb() -> None:
    import sealbook.cli.commands as package

    folders = [Path(folder) for folder in package.__path__]
    files = [path.relative_to(folder) for folder in folders for path in folder.rglob("*.py")]
    modules = {".".join(path.with_suffix("").parts) for path in files if path.stem != "__init__"}
    verbs = {module for module, _ in VERBS.values()}
    assert verbs <= modules
    assert {module.partition(".")[0] for module in modules} == {module.partition(".")[0] for module in verbs}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_that_begins_with_a_sentence(verb: str) -> None:
    result = CliRunner().invoke(cli, [verb, "--help"])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: cli {verb}")


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["shwo"], "there is no verb 'shwo': did you mean show? (see `sealbook --help`)"),
        (["zzz"], "there is no verb 'zzz' (see `sealbook --help`)"),
        (["log", "hed"], "(see `sealbook log --help`)"),
        (["show", "--bad"], "No such option"),
        (["show", "-o", "xml"], "Invalid value for '-o'"),
        (["show", "-n", "ten"], "'ten' is neither a number nor `all`"),
        (["show", "--since", "soon"], "'soon' names no instant: it is neither RFC 3339 such as 2026-11-29T08:30:00Z"),
        (["show", "--since", "2026-03-29T02:30 Europe/Berlin"], "it was set forward over it"),
        (["show", "--until", "2026-02-30T00:00:00Z"], "'2026-02-30T00:00:00Z' names no instant"),
        (["show", "-f", "-r"], "--follow prints what comes"),
        (["run"], "Missing argument 'RUN'"),
        (["append", "r", "{}"], "pass either --epoch"),
        (["append", "r", "{}", "--epoch", "1", "--owner", "o"], "pass either --epoch"),
        (["append", "r", "{}", "--epoch", "1", "--after", "1:abc"], "'1:abc' is no SEQ:HASH"),
        (["lease", "acquire", "r", "--owner", "o", "--ttl", "long"], "'long' is not a valid float"),
        (["log", "consistency", "one"], "'one' is not a valid integer"),
        (["import"], "Missing argument 'FILE...'"),
        (["init", "-D", "zz"], "-D stands before the verb (see `sealbook init --help`)"),
        (["log", "head", "--tenant", "acme"], "--tenant stands before the verb (see `sealbook log head --help`)"),
        (["show", "-q"], "-q stands before the verb"),
        (["-D", "", "init"], "it is empty: name a folder"),
        (["-D", "a\0b", "init"], "'a\\x00b' is no name of UTF-8 without NUL"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(args: list[str], line: str) -> None:
    result = CliRunner().invoke(cli, args, prog_name="sealbook")
    assert result.exit_code == 2
    assert result.stderr.startswith("sealbook: ")
    assert line in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_no_verb_at_all_prints_the_help_and_exits_with_2() -> None:
    result = CliRunner().invoke(cli, [], prog_name="sealbook")
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: sealbook")


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert CliRunner().invoke(cli, ["--version"]).stdout == f"sealbook {version('sealbook')}\n"


def test_the_environment_stands_in_for_folder_tenant_and_origin(store: Path) -> None:
    env = {"SEALBOOK_DIR": str(store), "SEALBOOK_TENANT": "acme", "SEALBOOK_ORIGIN": "example.com/log"}
    result = CliRunner().invoke(cli, ["log", "checkpoint"], env=env)
    assert result.stdout.startswith("example.com/log/acme\n0\n")


def test_options_win_over_the_environment(store: Path, tmp_path: Path) -> None:
    env = {"SEALBOOK_DIR": str(tmp_path / "none"), "SEALBOOK_TENANT": "nobody"}
    result = CliRunner().invoke(cli, ["-D", str(store), "--tenant", "acme", "runs", "-o", "json"], env=env)
    assert '"run": "a"' in result.stdout


def test_a_fault_of_the_program_itself_is_not_dressed_up_as_an_error_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(**options: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(info.command, "callback", broken)
    result = CliRunner().invoke(cli, ["info"])
    assert isinstance(result.exception, ZeroDivisionError)


def test_a_store_whose_folder_cannot_be_made_is_told_of_with_the_folder_that_lacks(tmp_path: Path) -> None:
    lacking = tmp_path / "a"
    result = CliRunner().invoke(cli, ["-D", str(lacking / "b"), "init"], prog_name="sealbook")
    assert (result.exit_code, result.stderr) == (6, f"sealbook: {lacking} does not exist: make that folder first\n")
    result = CliRunner().invoke(cli, ["-D", "/proc/sealbook", "init"], prog_name="sealbook")
    assert (result.exit_code, "does not exist" in result.stderr) == (6, False)
    assert "cannot create /proc/sealbook" in result.stderr
