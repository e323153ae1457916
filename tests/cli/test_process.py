"""The program as a process: exit codes, pipes, terminals, locales, full disks, closed files, signals."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sealbook.journal import Journal, Moment, entries

PAGE_BYTES = 4096
UNWANTED = ("NO_COLOR", "FORCE_COLOR", "PAGER", "JOURNAL_PAGER")

Program = Callable[..., "subprocess.CompletedProcess[str]"]


def test_exit_codes_reach_the_shell(program: Program, store: Path, tmp_path: Path) -> None:
    assert program("runs").returncode == 0
    assert program("verify", "--strict").returncode == 1
    assert program("shwo").returncode == 2
    assert program("run", "nobody").returncode == 4
    assert program("lease", "acquire", "order-47", "--owner", "x", "--ttl", "5").returncode == 5
    assert program("-D", str(tmp_path / "none"), "runs").returncode == 6
    (store / "data.mdb").write_bytes(b"")
    assert program("runs").returncode == 3


def test_a_reader_that_goes_away_is_met_quietly(store: Path) -> None:
    with Journal.open(store) as journal:
        # more than a pipe holds, so that the program is still writing when its reader has gone
        journal.tenant().append("long", [entries.note("x" * 2000) for _ in range(300)], epoch=1)
    script = (
        f'{sys.executable} -P -m sealbook.cli -D "{store}" show -o json | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}'
    )
    finished = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert finished.stdout == "141\n"
    assert finished.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("args", [["show"], ["runs", "-o", "json"], ["verify"], ["--help"], ["info"], ["show", "-h"]])
def test_a_full_disk_is_one_line_and_no_success(program: Program, args: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        finished = program(*args, stdout=full, stderr=subprocess.PIPE)
    assert finished.returncode == 6
    assert finished.stderr.startswith("sealbook: the output cannot be written: No space left on device")
    assert finished.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("args", "stands"),
    [
        (["append", "order-42", "--epoch", "1", '{"kind": "Note"}'], "record 6 of order-42 was written"),
        (["lease", "acquire", "order-42", "--owner", "o", "--ttl", "5"], "the lease of order-42 was taken"),
        (["cancel", "order-42", "--actor", "ada"], "order-42: the request is recorded"),
        (["seal", "order-44"], "order-44 stands in the log at position 2"),
        (["anchor", "order-42"], "order-42 stands in the log at position 2"),
    ],
)
def test_what_was_committed_stands_although_it_cannot_be_told(program: Program, args: list[str], stands: str) -> None:
    with Path("/dev/full").open("w") as full:
        finished = program(*args, stdout=full, stderr=subprocess.PIPE)
    assert finished.returncode == 6
    assert finished.stderr == f"sealbook: {stands}, but the output cannot be written: No space left on device\n"


def test_a_folder_whose_name_is_no_utf_8_is_refused_and_not_created(program: Program, tmp_path: Path) -> None:
    finished = program("-D", b"u\xff", "init", cwd=tmp_path)
    assert finished.returncode == 2
    assert "'u\\udcff' is no name of UTF-8" in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["agents.sealbook"]


@pytest.mark.slow
def test_damaged_pages_are_an_integrity_failure_whatever_they_do_to_their_reader(
    program: Program, tmp_path: Path
) -> None:
    store = tmp_path / "pages"
    with Journal.open(store, create=True) as journal:
        for number in range(40):
            journal.tenant().append(f"run-{number}", [entries.note("x" * 400)], epoch=1)
    whole = (store / "data.mdb").read_bytes()
    killed = 0
    for page in range(2, len(whole) // PAGE_BYTES, len(whole) // PAGE_BYTES // 8):
        at = page * PAGE_BYTES + 16  # the first offset of a row within the page: now it leads out of it
        (store / "data.mdb").write_bytes(whole[:at] + b"\xf0\xff" + whole[at + 2 :])
        finished = program("-D", str(store), "verify")
        assert finished.returncode in (0, 3), (page, finished)
        if "killed the reader (SIG" in finished.stderr:
            killed += 1
            assert finished.returncode == 3
            assert finished.stderr.startswith(f"sealbook: {store}: the data file's pages are damaged: ")
            assert finished.stderr.count("\n") == 1
            if killed == 1:
                meet_damaged_pages(program, store)
    assert killed


def meet_damaged_pages(program: Program, store: Path) -> None:
    """No verb that checks or watches over a store ends by a signal, be its reader one process or several."""
    assert program("-D", str(store), "audit").returncode == 3
    sweep = program("-D", str(store), "verify", "--level", "chain", "--jobs", "2")
    assert sweep.returncode in (0, 3), sweep
    probe = program("-D", str(store), "health")
    assert probe.returncode in (0, 1, 2), probe
    assert probe.returncode < 2 or probe.stdout.startswith("CRITICAL: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_ends_a_verification_ends_its_reader(number: signal.Signals) -> None:
    code = (
        "import pathlib, sys, time\n"
        "from sealbook.cli.ground import isolation\n"
        "ended = isolation.code_of_child(pathlib.Path('s'))\n"
        "if ended is None:\n"
        "    print('reading', flush=True)\n"
        "    try:\n"
        "        time.sleep(600)\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
        "sys.exit(ended)\n"
    )
    with subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True) as verification:
        assert verification.stdout is not None
        assert verification.stdout.readline() == "reading\n"
        verification.send_signal(number)
        assert verification.stdout.read() == ""  # the reader has gone: it held the other end
        assert verification.wait(60) == 128 + number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_right_after_the_fork_leaves_no_reader_behind(number: signal.Signals) -> None:
    code = (
        "import os, pathlib, sys, time\n"
        "from sealbook.cli.ground import isolation\n"
        "fork = os.fork\n"
        "def struck():\n"
        "    child = fork()\n"
        "    if child:\n"
        f"        os.kill(os.getpid(), {int(number)})\n"
        "    return child\n"
        "os.fork = struck\n"
        "ended = isolation.code_of_child(pathlib.Path('s'))\n"
        "if ended is None:\n"
        "    try:\n"
        "        time.sleep(600)\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
        "sys.exit(ended)\n"
    )
    with subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True) as verification:
        assert verification.stdout is not None
        # The parent's end says that the child has ended: it waits for it.
        assert verification.wait(60) == 128 + number
        assert verification.stdout.read() == ""


def test_closed_standard_files_are_survived_and_never_become_the_store(program: Program, store: Path) -> None:
    unwritten = "the output cannot be written: Bad file descriptor\n"
    committed = f"record 6 of order-42 was written, but {unwritten}"
    note = 'append order-42 --epoch 1 \'{"kind": "Note"}\''
    for args, closed, code, told in (
        ("show", ">&-", 6, unwritten),
        ("--version", ">&-", 6, unwritten),
        (note, ">&-", 6, committed),
        ("show", "<&- >&- 2>&-", 6, ""),
        ("show", "<&-", 0, ""),
        (note, "<&-", 0, ""),
        ("-q verify -h", "2>&-", 0, ""),
    ):
        script = f'{sys.executable} -P -m sealbook.cli -D "{store}" {args} {closed}'
        finished = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        assert (finished.returncode, finished.stderr) == (code, f"sealbook: {told}" if told else ""), (args, closed)
    assert program("verify").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}],
)
def test_every_character_is_printed_in_every_locale(program: Program, store: Path, env: dict[str, str]) -> None:
    with Journal.open(store) as journal:
        journal.tenant().append("注文-é", [entries.note("Zoë \u202e")], epoch=1)
    for args in (["show"], ["runs"], ["run", "-h"], ["runs", "-o", "json"], ["effects"], ["info"]):
        finished = program(*args, env=env)
        assert (finished.returncode, finished.stderr) == (0, "")
    runs = [json.loads(line)["run"] for line in program("runs", "-o", "json", env=env).stdout.splitlines()]
    assert "注文-é" in runs


def test_a_name_that_is_no_text_is_refused(program: Program) -> None:
    finished = program("run", b"\xff\xfe")
    assert finished.returncode == 2
    assert finished.stderr == "sealbook: run '\\udcff\\udcfe' holds a lone surrogate, which UTF-8 cannot carry\n"


def test_following_is_by_position_whatever_clocks_say_until_it_is_interrupted(store: Path) -> None:
    command = [sys.executable, "-P", "-m", "sealbook.cli", "-D", str(store), "show", "-f", "-n", "2", "-o", "json"]
    far = Moment(wall_ms=4_102_444_800_000, boot_ms=1, boot_id=bytes(16))  # 2100
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        try:
            first = [json.loads(following.stdout.readline())["arrival"] for _ in range(2)]
            with Journal.open(store, clock=lambda: far) as journal:
                journal.tenant().append("order-42", [entries.note("one"), entries.note("two")], epoch=1)
            came = [json.loads(following.stdout.readline())["data"]["text"] for _ in range(2)]
            with Journal.open(store) as journal:
                journal.tenant().append("order-42", [entries.note("three")], epoch=1)
            came.append(json.loads(following.stdout.readline())["data"]["text"])
            following.send_signal(signal.SIGINT)
            following.wait(60)
        finally:
            following.kill()
        assert (first, came) == ([14, 15], ["one", "two", "three"])
        assert following.returncode == 130
        assert following.stdout.read() == ""
        assert following.stderr.read() == ""


def test_following_ends_when_its_reader_has_gone_although_nothing_new_comes(store: Path) -> None:
    command = [sys.executable, "-P", "-m", "sealbook.cli", "-D", str(store), "show", "-f", "-n", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        try:
            assert following.stdout.readline()
            following.stdout.close()
            assert following.wait(60) == 141
            assert following.stderr.read() == ""
        finally:
            following.kill()


def on_a_terminal(store: Path, *args: str, **env: str) -> tuple[int, str]:
    """Run the program with a terminal for all three of its files; its exit code and what the terminal received."""
    environment = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    environment |= {"TERM": "xterm", "COLUMNS": "200", **env}
    child, terminal = pty.fork()
    if child == 0:
        command = [sys.executable, "-P", "-m", "sealbook.cli", "-D", str(store), *args]
        os.execve(sys.executable, command, environment)
    received = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the terminal's other end is closed
            break
        if not part:
            break
        received += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), received.decode()


def test_a_terminal_gets_colours_and_nobody_else_does(store: Path, program: Program) -> None:
    code, received = on_a_terminal(store, "--no-pager", "runs")
    assert code == 0
    assert "\x1b[1mRUN" in received
    assert "\x1b" not in on_a_terminal(store, "--no-pager", "runs", NO_COLOR="1")[1]
    assert "\x1b" not in on_a_terminal(store, "--no-pager", "runs", TERM="dumb")[1]
    assert "\x1b" not in program("runs").stdout


def test_listings_are_paged_on_a_terminal(store: Path, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\n")
    pager.chmod(0o700)
    for args in (["runs"], ["show"], ["case", "case-7"], ["effects"], ["run", "order-42"]):
        assert on_a_terminal(store, *args, JOURNAL_PAGER=str(pager), PAGER="false") == (0, "")
        assert "order-42" in (tmp_path / "paged").read_text()
        (tmp_path / "paged").unlink()
    assert on_a_terminal(store, "runs", PAGER=str(pager), JOURNAL_PAGER="")[1]
    assert on_a_terminal(store, "runs", PAGER=str(pager)) == (0, "")
    assert "\x1b" in (tmp_path / "paged").read_text()
    (tmp_path / "paged").unlink()
    assert on_a_terminal(store, "--no-pager", "runs", PAGER=str(pager))[1]
    assert on_a_terminal(store, "log", "head", PAGER=str(pager))[1]
    assert not (tmp_path / "paged").exists()


def test_a_pager_that_is_missing_or_leaves_early_is_no_failure(store: Path) -> None:
    code, received = on_a_terminal(store, "runs", PAGER="/no/such/pager")
    assert code == 0
    assert "order-42" in received
    assert on_a_terminal(store, "show", PAGER="true") == (0, "")


def test_progress_is_shown_on_a_terminal_alone(store: Path, program: Program) -> None:
    code, received = on_a_terminal(store, "verify")
    assert code == 0
    assert "verifying" in received
    assert "verifying" not in on_a_terminal(store, "-q", "verify")[1]
    assert program("verify").stderr == ""


def test_two_writers_take_turns(program: Program, store: Path) -> None:
    command = [sys.executable, "-P", "-m", "sealbook.cli", "-D", str(store), "append", "order-42", "--epoch", "1"]
    writers = [subprocess.Popen([*command, '{"kind": "Note"}'], stdout=subprocess.PIPE) for _ in range(3)]
    assert [writer.communicate() and writer.returncode for writer in writers] == [0, 0, 0]
    assert json.loads(program("show", "-n", "1", "-o", "json").stdout)["seq"] == 8
