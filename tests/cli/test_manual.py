"""The manual is the program's own help, roff misreads nothing in it, and shells complete what there is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from sealbook.cli import docs, manual
from sealbook.cli.commands.completion import SHELLS, script
from sealbook.cli.main import COMPLETION, VERBS

Call = Callable[..., Result]
COMMANDS = {path: command for path, command, _ in docs.commands()}
PAGES = dict(manual.pages("1.2.3"))
SCRIPTS = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"


def environment(**more: str) -> dict[str, str]:
    """This process's environment, without what would change what the program does."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SEALBOOK_")} | more


def plain(page: str) -> str:
    """The page's words, without what is roff's."""
    text = re.sub(r"^\.\S+ ?", "", page, flags=re.M)
    for escape, character in (("\\fB", ""), ("\\fR", ""), ("\\&", ""), ("\\(dq", '"'), ("\\(ga", "`"), ("\\(aq", "'")):
        text = text.replace(escape, character)
    return " ".join(text.replace("\\-", "-").replace("\\e", "\\").split())


def test_every_verb_has_a_page() -> None:
    assert set(PAGES) == {path.replace(" ", "-") for path in COMMANDS}
    assert len(PAGES) > 40


@pytest.mark.parametrize("path", COMMANDS)
def test_a_page_says_what_the_help_says(path: str) -> None:
    command, page = COMMANDS[path], plain(PAGES[manual.name_of(path)])
    context = click.Context(command, info_name=path)
    assert " ".join((command.help or "").split()) in page
    for param in command.get_params(context):
        if record := param.get_help_record(context):
            assert all(" ".join(part.split()) in page for part in record)
    assert all(example in page for example in map(" ".join, map(str.split, command.examples)))  # type: ignore[attr-defined]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("name", PAGES)
def test_roff_has_nothing_to_say_against_a_page(name: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"], input=PAGES[name], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_a_line_that_roff_would_take_for_a_request_is_text() -> None:
    @click.command("x", help='.so /etc/passwd\n\n\'it \\fBis\\fR "quoted" -- so\n\n\b\n.nf kept\n  as it is')
    def command() -> None:
        pass

    page = manual.page("x", command, "1", ["x"])
    assert "\\&.so /etc/passwd" in page and "\\(aqit \\efBis\\efR \\(dqquoted\\(dq \\-\\- so" in page
    assert ".nf\n\\&.nf kept\n  as it is\n.fi" in page


def test_the_page_of_a_verb_is_printed_and_an_unknown_verb_is_a_usage_error(call: Call) -> None:
    assert call("man", "log", "head").stdout.startswith('.TH "SEALBOOK\\-LOG\\-HEAD" "1"')
    assert call("man").stdout.startswith('.TH "SEALBOOK" "1"')
    assert call("man", "nothing").exit_code == 2
    assert call("man", "log", "--to", "x").exit_code == 2


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_installed_pages_are_found_by_man(call: Call, tmp_path: Path) -> None:
    assert call("man", "--to", str(tmp_path / "man")).exit_code == 0
    for name in ("sealbook", "sealbook-log-head"):
        shown = subprocess.run(
            ["man", "-M", str(tmp_path / "man"), name],
            env=environment(MANPAGER="cat", LC_ALL="C.UTF-8"),
            capture_output=True,
            text=True,
            check=True,
        )
        assert name.upper() in shown.stdout or name in shown.stdout


# --- completion ------------------------------------------------------------------------------------------------------


def asked(shell: str, **variables: str) -> str:
    """What the program answers when a shell asks it."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "sealbook.cli"],
        env=environment(**{COMPLETION: f"{shell}_complete"}, **variables),
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_each_shell_is_told_the_verbs_that_begin_so() -> None:
    wanted = {verb for verb in VERBS if verb.startswith("re")}
    bash = asked("bash", COMP_WORDS="sealbook re", COMP_CWORD="1")
    zsh = asked("zsh", COMP_WORDS="sealbook re", COMP_CWORD="1")
    fish = asked("fish", COMP_WORDS="sealbook re", COMP_CWORD="re")
    assert {line.partition(",")[2] for line in bash.splitlines()} == wanted
    assert set(zsh.splitlines()[1::3]) == wanted
    assert {line.partition(",")[2].partition("\t")[0] for line in fish.splitlines()} == wanted


def test_options_and_choices_are_completed_too() -> None:
    options = asked("bash", COMP_WORDS="sealbook backup --t", COMP_CWORD="2")
    assert options.splitlines() == ["plain,--to"]
    choices = asked("bash", COMP_WORDS="sealbook completion ", COMP_CWORD="2")
    assert [line.partition(",")[2] for line in choices.splitlines()] == list(SHELLS)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_the_program_and_the_shell_takes_it(shell: str, call: Call, tmp_path: Path) -> None:
    printed = call("completion", shell).stdout
    assert printed == script(shell) and f"{COMPLETION}={shell}_complete" in printed
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(printed)
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_bash_completes_what_is_typed(tmp_path: Path) -> None:
    typed = "source <(sealbook completion bash); COMP_WORDS=(sealbook ba); COMP_CWORD=1; _sealbook_completion sealbook"
    done = subprocess.run(
        ["bash", "-c", f"{typed}; echo ${{COMPREPLY[@]}}"],
        env=environment(PATH=SCRIPTS),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("backup\n", "")
