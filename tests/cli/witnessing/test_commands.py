"""`witness serve` as a process, and what its operator does beside it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from witness_world import NAME, ORIGIN, PATIENCE_S, Got, GrowingLog, asked

from sealbook.cli.main import cli
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring


@dataclass
class Witness:
    """A witness's files, and the program run on them."""

    folder: Path

    def args(self, *more: str) -> list[str]:
        keys, logs = self.folder / "keys", self.folder / "logs.txt"
        where = {"--state": str(self.folder / "state"), "--keys": str(keys), "--logs": str(logs)}
        options = {**where, "--key": NAME, "--listen": "127.0.0.1:0"}
        given = [word for name, value in options.items() if name not in more for word in (name, value)]
        return ["witness", "serve", *given, *more]

    @contextmanager
    def process(self, *more: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
        command = [sys.executable, "-P", "-m", "sealbook.cli", *self.args(*more)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment()) as process:
            assert process.stdout is not None
            try:
                line = process.stdout.readline()
                assert line.startswith(f"{NAME} listens at http://127.0.0.1:"), process.stderr and process.stderr.read()
                yield process, int(line.rsplit(":", 1)[1])
            finally:
                process.kill()


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SEALBOOK_")}


def posted(port: int, body: bytes) -> Got:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        return asked(connection, "POST", "/add-checkpoint", body)
    finally:
        connection.close()


@pytest.fixture
def witness(tmp_path: Path, log: GrowingLog) -> Witness:
    pytest.importorskip("starlette", reason="the extra `serve` is not installed")
    pytest.importorskip("hypercorn", reason="the extra `serve` is not installed")
    Keyring(tmp_path / "keys").generate(Purpose.WITNESS, NAME, created=0)
    (tmp_path / "logs.txt").write_text("logs/v0\n" + log.entry())
    return Witness(tmp_path)


Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Run the program in this process."""

    def ran(*args: str) -> Result:
        result = CliRunner().invoke(cli, args, prog_name="sealbook")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return ran


def test_a_witness_goes_on_after_a_restart_and_its_operator_looks_in(
    witness: Witness, run: Run, log: GrowingLog, fork: GrowingLog, other: GrowingLog
) -> None:
    state = str(witness.folder / "state")
    with witness.process() as (process, port):
        assert posted(port, log.request(0, 9)).status == 200
        assert posted(port, fork.request(9, 9)).status == 422
        found = run("witness", "evidence", "--state", state)
        assert found.exit_code == 0
        assert found.stdout.endswith(f"Z  {ORIGIN}  two roots at size 9\n")
        (told,) = run("witness", "evidence", "--state", state, "--origin", ORIGIN, "-o", "json").stdout.splitlines()
        assert json.loads(told)["reason"] == "two roots at size 9"
        assert run("witness", "evidence", "--state", state, "--origin", other.origin).stdout == ""
        assert run("witness", "disable", ORIGIN, "--state", state).exit_code == 0
        assert posted(port, log.request(9, 10)).status == 404
        assert run("witness", "enable", ORIGIN, "--state", state).exit_code == 0
        assert run("witness", "enable", ORIGIN, "--state", state).exit_code == 4
        process.send_signal(signal.SIGTERM)
        _, events = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    assert {json.loads(line)["event"] for line in events.splitlines()} == {"witness.decided", "witness.evidence"}
    assert "127.0.0.1" not in events
    with witness.process() as (process, port):
        assert posted(port, log.request(0, 9)).body == b"9\n"
        assert posted(port, log.request(9, 10)).status == 200
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0


def test_a_second_server_of_one_state_is_refused_until_the_first_has_ended(
    witness: Witness, run: Run, log: GrowingLog
) -> None:
    with witness.process() as (process, port):
        refused = run(*witness.args())
        assert (refused.exit_code, refused.stdout) == (5, "")
        assert "another `witness serve` runs with it" in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert posted(port, log.request(0, 3)).status == 200
        process.kill()
        process.wait(PATIENCE_S)
        with witness.process() as (_, again):
            assert posted(again, log.request(3, 4)).status == 200


def test_a_second_server_with_a_key_that_never_signed_is_refused_on_any_state(
    witness: Witness, run: Run, log: GrowingLog
) -> None:
    other = [str(witness.folder / "other") if word.endswith("/state") else word for word in witness.args()]
    with witness.process() as (process, port):
        refused = run(*other)
        assert (refused.exit_code, refused.stdout) == (5, "")
        assert "another `witness serve` runs with it" in refused.stderr
        assert not (witness.folder / "other").exists()
        assert posted(port, log.request(0, 3)).status == 200
        process.kill()
        process.wait(PATIENCE_S)
    refused = run(*other)
    assert (refused.exit_code, refused.stdout) == (5, "")
    assert not (witness.folder / "other").exists()


def test_of_servers_on_as_many_states_that_start_at_once_with_one_key_one_serves(witness: Witness) -> None:
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        started = []
        for number in range(4):
            words = [str(witness.folder / f"s{number}") if word.endswith("/state") else word for word in witness.args()]
            command = [sys.executable, "-P", "-m", "sealbook.cli", *words]
            process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment())
            stack.enter_context(process)
            stack.callback(process.kill)
            started.append(process)
        told = []
        for process in started:
            assert process.stdout is not None
            told.append(process.stdout.readline())
        serving = [process for process, line in zip(started, told, strict=True) if line]
        assert len(serving) == 1
        assert [process.wait(PATIENCE_S) for process in started if process not in serving] == [5, 5, 5]
        assert len(list(witness.folder.glob("s?"))) == 1


def test_what_cannot_listen_leaves_no_state(witness: Witness, run: Run) -> None:
    words = ["nosuch.invalid:8080" if word == "127.0.0.1:0" else word for word in witness.args()]
    refused = run(*words)
    assert refused.exit_code == 6, refused.stderr
    assert not (witness.folder / "state").exists()


def test_sighup_takes_the_list_anew(witness: Witness, log: GrowingLog, other: GrowingLog) -> None:
    with witness.process() as (process, port):
        assert posted(port, other.request(0, 3)).status == 404
        (witness.folder / "logs.txt").write_text("logs/v0\n" + log.entry() + other.entry())
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        told = json.loads(process.stderr.readline())
        assert (told["event"], told["logs"]) == ("witness.logs_taken", 2)
        assert posted(port, other.request(0, 3)).status == 200


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_that_comes_with_the_first_word_is_understood(witness: Witness, number: signal.Signals) -> None:
    for _ in range(3):  # it was a race
        with witness.process() as (process, _):
            process.send_signal(number)
            if number == signal.SIGHUP:
                assert process.stderr is not None
                assert json.loads(process.stderr.readline())["event"] == "witness.logs_taken"
                process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0


def test_a_witness_whose_word_nobody_reads_says_so_in_a_line(witness: Witness) -> None:
    command = [sys.executable, "-P", "-m", "sealbook.cli", *witness.args()]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), timeout=PATIENCE_S, check=False
        )
    assert (ended.returncode, ended.stderr.count("\n")) == (6, 1)
    assert "the output cannot be written" in ended.stderr


def test_a_witness_without_its_state_refuses_to_start(witness: Witness, run: Run, log: GrowingLog) -> None:
    with witness.process() as (_, port):
        assert posted(port, log.request(0, 3)).status == 200
    shutil.rmtree(witness.folder / "state")
    for more in ([], ["--new-state"]):
        refused = run(*witness.args(*more))
        assert refused.exit_code == 5
        assert "has signed" in refused.stderr


def test_a_log_never_cosigned_may_be_mistyped_and_is_disabled_only_on_request(
    witness: Witness, run: Run, log: GrowingLog
) -> None:
    state = str(witness.folder / "state")
    with witness.process() as (_, port):
        assert posted(port, log.request(0, 3)).status == 200
    known, mistyped = (run("witness", "disable", name, "--state", state) for name in (ORIGIN, f"{ORIGIN}s"))
    assert (known.exit_code, known.stderr) == (0, "")
    assert (mistyped.exit_code, mistyped.stderr) == (
        4,
        f"sealbook: no cosigned checkpoint of '{ORIGIN}s': it may be mistyped; --unseen disables it all the same\n",
    )
    assert run("witness", "enable", f"{ORIGIN}s", "--state", state).exit_code == 4, "nothing was disabled"
    assert run("witness", "disable", "--unseen", f"{ORIGIN}s", "--state", state).exit_code == 0
    assert run("witness", "enable", f"{ORIGIN}s", "--state", state).exit_code == 0


def test_a_first_checkpoint_or_a_folder_that_is_not_there_is_said_in_a_line(witness: Witness, run: Run) -> None:
    pinned = witness.folder / "pinned"
    pinned.write_text("no checkpoint\n")
    refused = run(*witness.args("--initial", str(pinned)))
    assert refused.exit_code == 2
    assert str(pinned) in refused.stderr and len(refused.stderr.splitlines()) == 1
    args = [
        str(witness.folder / "nowhere" / "state") if arg == str(witness.folder / "state") else arg
        for arg in witness.args()
    ]
    missing = run(*args)
    assert missing.exit_code == 6
    assert "nowhere does not exist" in missing.stderr and "sealbook init" not in missing.stderr


def test_a_bad_list_and_a_bad_address_are_refused(witness: Witness, run: Run) -> None:
    assert run(*witness.args("--listen", "here")).exit_code == 2
    (witness.folder / "logs.txt").write_text("logs/v1\n")
    refused = run(*witness.args())
    assert refused.exit_code == 2
    assert "logs.txt line 1" in refused.stderr
    (witness.folder / "logs.txt").unlink()
    assert run(*witness.args()).exit_code == 2
    assert not (witness.folder / "state").exists()


def test_an_address_that_is_taken_is_said_in_one_line(witness: Witness, run: Run) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = run(*witness.args("--listen", f"127.0.0.1:{taken.getsockname()[1]}"))
    assert refused.exit_code == 6
    assert len(refused.stderr.splitlines()) == 1


def test_a_key_that_is_not_there_is_not_found(witness: Witness, run: Run) -> None:
    refused = run(*witness.args("--key", "nobody.example"))
    assert refused.exit_code == 4
    assert "no witness key 'nobody.example': `sealbook keys gen --witness NAME` makes one" in refused.stderr


def test_the_extra_that_is_missing_is_named(witness: Witness, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("sealbook.cli.witnessing.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypercorn", None)
    monkeypatch.setitem(sys.modules, "hypercorn.config", None)
    refused = run(*witness.args())
    assert refused.exit_code == 2
    assert "pip install '.[serve]'" in refused.stderr
