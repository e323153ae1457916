"""What is printed about the program is the program: docs/cli.md, every help, every example in it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from project import ROOT
from published_log import log_signer, publish, signed_note

from sealbook.cli import docs
from sealbook.cli.ground.options import Verb, VerbGroup
from sealbook.cli.main import cli
from sealbook.journal import Journal
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.checkpoint import Checkpoint

COMMANDS = {path: (command, text) for path, command, text in docs.commands()}
LEAVES = {path: command for path, (command, _) in COMMANDS.items() if not isinstance(command, click.Group)}
EXAMPLES = {  # what each help shows that no other does: a group without examples of its own shows its verbs'
    path: command.own_examples if isinstance(command, VerbGroup) else getattr(command, "examples", ())
    for path, (command, _) in COMMANDS.items()
}
ENDLESS = ("show -f", "log serve", "--every")  # until Ctrl-C: these have tests of their own
QUOTED, FOR_A_SHELL = re.compile(r"'[^']*'"), re.compile(r"[^\w ./:=+,@%-]")
OVER_THE_NETWORK = (  # and these need a witness that runs, or has run: tests/cli/witness and tests/cli/publishing
    "sealbook witness serve",
    "sealbook witness evidence",
    "sealbook witness disable",
    "sealbook witness enable",
    "sealbook witness submit",
    "sealbook witness resolve",
)
OF_WHAT_IS_PUBLIC = (
    "sealbook verify",
    "sealbook audit",
    "sealbook log proof",
    "sealbook log tiles",
    "sealbook log monitor",
    "sealbook log adopt",
)


def test_the_page_is_what_the_program_says() -> None:
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == docs.page(), (
        "docs/cli.md is stale: python -m sealbook.cli.docs > docs/cli.md"
    )


def test_the_module_prints_the_page() -> None:
    printed = subprocess.run(
        [sys.executable, "-P", "-m", "sealbook.cli.docs"], capture_output=True, text=True, check=True
    )
    assert printed.stdout == docs.page()


@pytest.mark.parametrize("path", LEAVES)
def test_every_verb_has_an_example_in_its_help(path: str) -> None:
    command = LEAVES[path]
    assert isinstance(command, Verb)
    assert command.examples
    assert all(f"{path.removeprefix('sealbook')}" in example for example in command.examples)
    assert all(option.help for option in command.params if isinstance(option, click.Option))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_help_ends_in_examples(path: str) -> None:
    command, text = COMMANDS[path]
    assert isinstance(command, Verb | VerbGroup)
    _, _, shown = text.partition("\nExamples:\n")
    assert [line.strip() for line in shown.splitlines()] == list(command.examples) != []


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in COMMANDS if EXAMPLES[path] and path not in OVER_THE_NETWORK])
def test_every_example_works(
    path: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if path == "sealbook import":
        data = request.getfixturevalue("shared") / "data"
        shutil.copytree(data / "temporal-sdk-go", tmp_path / "histories")
        shutil.copytree(data / "swe-agent", tmp_path / "trajectories")
        shutil.copytree(data / "otlp-json", tmp_path / "traces")
        shutil.copytree(data / "github-webhooks", tmp_path / "webhooks")
        shutil.copy(data / "systemd-journal-export" / "multiple-boots.export", tmp_path / "boots.export")
    if path in OF_WHAT_IS_PUBLIC:
        go_public(store, tmp_path)
    if path == "sealbook health":  # to which a lease of nine years is a warning
        force = ["lease", "force", "order-47", "--actor", "ada", "--reason", "worker-1 is gone"]
        assert CliRunner().invoke(cli, ["-D", str(store), *force]).exit_code == 0
    if path.startswith(("sealbook bundle", "sealbook restore")):
        make_bundles(store, tmp_path)
    if path in ("sealbook backup verify", "sealbook recover"):
        assert CliRunner().invoke(cli, ["-D", str(store), "backup", "--to", f"{tmp_path}/agents.backup"]).exit_code == 0
    keys = tmp_path / "ring"
    if path != "sealbook keys gen":
        make_keys(path, keys, store, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts"), prepend=os.pathsep)
    monkeypatch.setenv("SEALBOOK_DIR", str(store))
    monkeypatch.setenv("SEALBOOK_KEYS", str(keys))
    for example in EXAMPLES[path]:
        if not any(part in example for part in ENDLESS):
            exit_code, complaint = done(example)
            assert exit_code == 0, f"{example}\n{complaint}"


def done(example: str) -> tuple[int, str]:
    """Run it, in this process unless a shell has something to do; the exit code and what was complained of."""
    program, *args = shlex.split(example)
    if program == "sealbook" and not FOR_A_SHELL.search(QUOTED.sub("", example)):
        result = CliRunner().invoke(cli, args, prog_name=program)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stderr
    finished = subprocess.run(
        ["bash", "-o", "pipefail", "-c", example],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return finished.returncode, finished.stderr


def make_keys(path: str, keys: Path, store: Path, folder: Path) -> None:
    """Fill the ring that the examples use; for those of `import`, another one, whose keys are exported."""
    ring = folder / "another ring" if path == "sealbook keys import" else keys
    origin = ("--origin", "example.com/journal") if path.startswith("sealbook keys") else ()
    run_keys(store, ring, "gen", "--record", "worker-1")
    run_keys(store, ring, "gen", "--log", *origin)
    if path == "sealbook witness list":
        _, _, add = LEAVES["sealbook witness add"].examples[0].partition("witness ")  # type: ignore[attr-defined]
        result = CliRunner().invoke(cli, ["-D", str(store), "witness", *add.split()], env={"SEALBOOK_KEYS": str(ring)})
        assert result.exit_code == 0, result.output
    if path == "sealbook log adopt":
        lost = Checkpoint("sealbook/acme", 99, bytes(32))
        Keyring(ring).sign_checkpoint(lost, consistent=lambda published: True)
    if ring != keys:
        run_keys(store, ring, "export", "worker-1", "--private", "--to", str(folder / "worker-1.pem"))
        run_keys(store, ring, "export", "example.com/journal", "--private", "--to", str(folder / "log.pem"))


def run_keys(store: Path, ring: Path, *args: str) -> None:
    result = CliRunner().invoke(cli, ["-D", str(store), "keys", *args], env={"SEALBOOK_KEYS": str(ring)})
    assert result.exit_code == 0, result.output


def make_bundles(store: Path, folder: Path) -> None:
    """Export the bundles that the examples name, and what an auditor brings besides."""
    go_public(store, folder)
    for name, args in (
        ("evidence", ["export"]),
        ("everything", ["export", "--all-tenants"]),
        ("default", ["export"]),
        ("acme", ["--tenant", "acme", "export"]),
    ):
        target = ["--to", str(folder / f"{name}.sealbook-bundle")]
        assert CliRunner().invoke(cli, ["-D", str(store), *args, *target]).exit_code == 0
    (folder / "signers.txt").write_text("# nobody signs here\n")


def go_public(store: Path, folder: Path) -> None:
    """Publish the log and the store log, and put the files in the folder that the examples name."""
    with Journal.open(store, store_origin="example.com/store") as journal:
        journal.store_log.gather()
        publish(journal.store_log)
        tenant = journal.tenant()
        (folder / "signed.txt").write_bytes(publish(tenant))
        (folder / "last.txt").write_bytes(signed_note(Checkpoint(tenant.origin, 99, bytes(32))))
        (folder / "policy.txt").write_text(f"log {log_signer(tenant.origin).key}\nquorum none\n")
    for name in ("seen-in-march.txt", "seen-in-may.txt"):
        shutil.copy(folder / "signed.txt", folder / name)
    for args in (
        ("log", "tiles", "--to", f"{folder}/tiles"),
        ("log", "proof", "order-45", "-o", "tlog-proof", "--to", f"{folder}/order-45.tlog-proof"),
        ("run", "order-45", "-o", "records", "--to", f"{folder}/order-45.records"),
    ):
        assert CliRunner().invoke(cli, ["-D", str(store), *args]).exit_code == 0
