"""The real program in a terminal and without one: pager, colours, following, interruption, readers that go away."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from terminal import Terminal

from sealbook.journal import Journal, entries

Program = Callable[..., "subprocess.CompletedProcess[str]"]

CONTROL_C = "\x03"


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A pager that keeps its arguments and what it is given, and shows nothing."""
    script = tmp_path / "less"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat > {tmp_path}/paged\n')
    script.chmod(0o700)
    return script


def shown(store: Path, *args: str, **env: str) -> tuple[int, str]:
    with Terminal(store, *args, **env) as terminal:
        return terminal.end(), terminal.received


def test_a_terminal_gets_a_pager_and_colours(store: Path, pager: Path, tmp_path: Path) -> None:
    assert shown(store, "show", JOURNAL_PAGER=str(pager)) == (0, "")
    paged = (tmp_path / "paged").read_text()
    assert paged.count("\n") == 15
    assert "\x1b[31m" in paged
    assert (tmp_path / "arguments").read_text() == "\n"
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert shown(store, "show", PATH=path) == (0, "")
    assert (tmp_path / "arguments").read_text() == "-FRSXMK\n"
    assert shown(store, "show", "-e", PATH=path) == (0, "")
    assert (tmp_path / "arguments").read_text() == "-FRSXMK +G\n"


@pytest.mark.skipif(shutil.which("less") is None, reason="no less here")
def test_the_usual_pager_shows_a_screen_and_leaves_when_it_is_told_to(store: Path) -> None:
    with Journal.open(store) as journal:
        journal.tenant().append("long", [entries.note(f"note {number:03d}") for number in range(200)], epoch=1)
    with Terminal(store, "show", "-u", "long") as terminal:
        terminal.wait_for("note 010")
        terminal.type("q")
        assert terminal.end() == 0
        assert "note 190" not in terminal.received
    with Terminal(store, "show", "-u", "long", "-e") as terminal:
        terminal.wait_for("note 199")
        terminal.type("q")
        assert terminal.end() == 0


def test_no_pager_is_wanted_before_or_after_the_verb(store: Path, pager: Path, tmp_path: Path) -> None:
    for args in (["show", "--no-pager"], ["--no-pager", "show"]):
        code, received = shown(store, *args, JOURNAL_PAGER=str(pager))
        assert code == 0
        assert received.count("\n") == 15
    code, received = shown(store, "show", JOURNAL_PAGER="cat", PAGER=str(pager))
    assert (code, received.count("\n")) == (0, 15)
    assert not (tmp_path / "paged").exists()


def test_colours_are_for_terminals_unless_the_environment_says_otherwise(store: Path, program: Program) -> None:
    assert "\x1b[" in shown(store, "show", "--no-pager")[1]
    assert "\x1b" not in shown(store, "show", "--no-pager", NO_COLOR="1")[1]
    assert "\x1b" not in shown(store, "show", "--no-pager", TERM="dumb")[1]
    assert "\x1b" not in program("show").stdout
    assert "\x1b[" in program("show", env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b" not in program("show", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout


def test_a_terminal_receives_nothing_that_it_acts_on_but_our_colours(store: Path) -> None:
    evil = entries.entry("Note", {"text": "\x1b[2J\x1b]0;x\x07\r\u202e\x9b1m"}, case="k\u2066")
    with Journal.open(store) as journal:
        journal.tenant().append("r\u202e", [evil], epoch=1)
    for form in ("short", "verbose", "cat", "json", "with-run"):
        code, received = shown(store, "show", "-n", "3", "-o", form, "--no-pager")
        for ours in ("\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[0m", "\r\n"):
            received = received.replace(ours, "")
        assert code == 0
        assert received.isprintable()


@pytest.mark.parametrize("form", ["export", "cbor-seq"])
def test_bytes_as_they_are_are_refused_to_a_terminal_and_to_nobody_else(
    store: Path, program: Program, form: str, tmp_path: Path
) -> None:
    code, received = shown(store, "show", "-o", form)
    assert code == 2
    assert "on which a terminal acts" in received
    with (tmp_path / "out").open("wb") as file:
        assert program("show", "-o", form, stdout=file).returncode == 0
    assert (tmp_path / "out").stat().st_size > 1000


def test_lines_are_cut_to_the_terminal_when_they_may_not_be_full(store: Path) -> None:
    with Journal.open(store) as journal:
        journal.tenant().append("long", [entries.note("word " * 100)], epoch=1)
    _, received = shown(store, "show", "--no-pager", "--no-full", "-n", "1", NO_COLOR="1", COLUMNS="70")
    assert len(received.rstrip()) == 70
    assert received.rstrip().endswith("...")


def test_what_is_followed_appears_until_the_interruption(store: Path) -> None:
    with Terminal(store, "show", "-f", "-n", "1", "-g", "unclear|later", NO_COLOR="1") as terminal:
        terminal.wait_for("still unclear\r\n")
        with Journal.open(store) as journal:
            journal.tenant().append("order-42", [entries.note("something else"), entries.note("and later")], epoch=1)
        terminal.wait_for("and later\r\n")
        terminal.type(CONTROL_C)
        assert terminal.end() == 130
        assert "something else" not in terminal.received
        assert "Traceback" not in terminal.received


def test_a_cursor_file_follows_what_was_handed_over(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "read-so-far"
    with Terminal(store, "show", "-f", "--cursor-file", str(file), "-n", "1", NO_COLOR="1") as terminal:
        terminal.wait_for("the customer called")
        with Journal.open(store) as journal:
            journal.tenant().append("order-42", [entries.note("it goes on")], epoch=1)
        terminal.wait_for("it goes on")
        with Journal.open(store) as journal:
            journal.tenant().append("order-42", [entries.note("and on")], epoch=1)
        terminal.wait_for("and on")
        terminal.type(CONTROL_C)
        assert terminal.end() == 130
    with Terminal(store, "show", "--cursor-file", str(file), "--no-pager", NO_COLOR="1") as terminal:
        assert terminal.end() == 0
        assert "it goes on" not in terminal.received


def test_93_a_reader_that_goes_away_is_met_quietly_in_every_format(store: Path, tmp_path: Path) -> None:
    with Journal.open(store) as journal:
        # more than a pipe holds, so that the program is still writing when its reader has gone
        journal.tenant().append("long", [entries.note("x" * 2000) for _ in range(300)], epoch=1)
    for form in ("verbose", "cat", "export", "cbor-seq"):
        script = (
            f'{sys.executable} -P -m sealbook.cli -D "{store}" show -o {form} --cursor-file {tmp_path}/{form}'
            " | head -c 100 >/dev/null; echo ${PIPESTATUS[0]}"
        )
        finished = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        assert (finished.stdout, finished.stderr) == ("141\n", "")
        assert not (tmp_path / form).exists()  # nobody has read up to there


def test_an_interruption_without_a_terminal_is_quiet_too(store: Path) -> None:
    command = [sys.executable, "-P", "-m", "sealbook.cli", "-D", str(store), "show", "-f", "-n", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        assert "the customer called" in following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 130
        assert following.stderr.read() == ""
