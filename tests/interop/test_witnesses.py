"""One conversation between log and witness, held four times: their witness and ours, asked by their client and by ours.

A log grows three times, one client falls behind and catches up, a fork is refused, and an auditor counts what was
collected.
"""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from published_log import log_signer, signed_note
from went_public import SIZES, Ask, Public

from sealbook.cli.main import cli
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import check_timestamp
from sealbook.merkle.keys import VerifierKey
from sealbook.merkle.note import Note, open_checkpoint
from sealbook.merkle.witness import Answer
from sealbook.merkle.witness_client import Alarm, Cosigned, Stale, add_checkpoint, read_answer

OURS = "ours.example/w"
THEIRS = "aics.example/w"


@dataclass(frozen=True)
class Witness:
    """A witness that runs: where, and the key that it cosigns with."""

    port: int
    key: VerifierKey

    def ask(self, body: bytes) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/add-checkpoint", body)
            response = connection.getresponse()
            return Answer(response.status, response.getheader("content-type") or "", response.read())
        finally:
            connection.close()


@contextmanager
def _running(command: list[str], pipe: str) -> Iterator[int]:
    """The port that a program says it listens at, on its standard output or error."""
    with subprocess.Popen(command, **{pipe: subprocess.PIPE}, text=True) as process:  # type: ignore[call-overload]
        try:
            found = (
                re.search(r"(?:listens at|listening on) http://127\.0\.0\.1:(\d+)", line)
                for line in getattr(process, pipe)
            )
            port = next((int(each[1]) for each in found if each), None)
            assert port is not None, "the witness ended before it listened"
            yield port
        finally:
            process.kill()


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@contextmanager
def _theirs(program: str, folder: Path, public: Public) -> Iterator[Witness]:
    config = str(folder / "witness.json")
    said = _said(program, "init", "--config", config, "--name", THEIRS, "--listen", "127.0.0.1:0")
    match = re.search(rf"{re.escape(THEIRS)}\+[0-9a-f]{{8}}\+[A-Za-z0-9+/=]+", said)
    assert match, said
    log_key = str(log_signer(public.origin).key)
    _said(program, "add-log", "--config", config, "--origin", public.origin, "--vkey", log_key)
    with _running([program, "serve", "--config", config], "stderr") as port:
        yield Witness(port, VerifierKey.parse(match[0]))


@contextmanager
def _ours(folder: Path, public: Public) -> Iterator[Witness]:
    pytest.importorskip("starlette", reason="the extra `serve` is not installed")
    pytest.importorskip("hypercorn", reason="the extra `serve` is not installed")
    program = [sys.executable, "-P", "-m", "sealbook.cli"]
    keys = ["--keys", str(folder / "keys")]
    _said(*program, "keys", "gen", "--witness", OURS, *keys)
    said = _said(*program, "keys", "show", OURS, *keys)
    match = re.search(rf"{re.escape(OURS)}\+[0-9a-f]{{8}}\+[A-Za-z0-9+/=]+", said)
    assert match, said
    logs = folder / "logs.txt"
    logs.write_text(f"logs/v0\nvkey {log_signer(public.origin).key}\nqpd 86400\ncontact nobody\n")
    where = ["--state", str(folder / "state"), "--logs", str(logs), *keys]
    with _running([*program, "witness", "serve", *where, "--key", OURS, "--listen", "127.0.0.1:0"], "stdout") as port:
        yield Witness(port, VerifierKey.parse(match[0]))


@pytest.fixture(params=["aics-witness", "sealbook"])
def witness(request: pytest.FixtureRequest, public: Public, tmp_path: Path) -> Iterator[Witness]:
    """Each witness in turn. It knows our log."""
    if request.param == "sealbook":
        with _ours(tmp_path, public) as running:
            yield running
    else:
        program = str(request.getfixturevalue("aics_folder") / "aics-witness")
        with _theirs(program, tmp_path, public) as running:
            yield running


def test_our_client_is_cosigned_as_the_log_grows_and_an_auditor_counts_it(
    witness: Witness, public: Public, tmp_path: Path
) -> None:
    log_keys, keys = [log_signer(public.origin).key], [witness.key]
    old = 0
    for size in SIZES:
        request = add_checkpoint(Note.parse(public.notes[size]), log_keys, old_size=old, read=public.read)
        answer = witness.ask(request.encode())
        outcome = read_answer(request, answer, keys=keys, cosigned_size=old, now=int(time.time()))
        assert isinstance(outcome, Cosigned), outcome
        [signature] = outcome.signatures
        old = size
    behind = add_checkpoint(Note.parse(public.note), log_keys, old_size=SIZES[0], read=public.read)
    answer = witness.ask(behind.encode())
    outcome = read_answer(behind, answer, keys=keys, cosigned_size=SIZES[0], now=int(time.time()))
    assert outcome == Stale(public.size)

    cosigned = Note.parse(public.note).of(log_keys).adding([signature.line])
    (tmp_path / "p").write_bytes(public.proof_file(256, cosigned.encode()))
    (tmp_path / "r").write_bytes(public.records[256])
    (tmp_path / "policy").write_text(f"log {log_keys[0]}\nwitness w {witness.key} http://127.0.0.1\nquorum w\n")
    args = ("--proof", str(tmp_path / "p"), "--records", str(tmp_path / "r"), "--policy", str(tmp_path / "policy"))
    result = CliRunner().invoke(cli, ["verify", *args, "--max-age", "1h", "--sealed"])
    assert result.exit_code == 0, result.output
    assert "cosigned by: w\n" in result.output


def test_a_fork_is_refused_and_alarms_our_client(witness: Witness, public: Public) -> None:
    log_keys = [log_signer(public.origin).key]
    first = add_checkpoint(Note.parse(public.note), log_keys, old_size=0, read=public.read)
    assert witness.ask(first.encode()).status == 200
    fork = Checkpoint(public.origin, public.size, bytes(32))
    request = add_checkpoint(Note.parse(signed_note(fork)), log_keys, old_size=public.size, read=public.read)
    answer = witness.ask(request.encode())
    outcome = read_answer(request, answer, keys=[witness.key], cosigned_size=public.size, now=int(time.time()))
    assert isinstance(outcome, Alarm), outcome


def test_their_client_is_cosigned_and_catches_up(witness: Witness, public: Public, aics: Ask) -> None:
    fork = signed_note(Checkpoint(public.origin, public.size, bytes(32)))
    log_key = log_signer(public.origin).key
    notes = [*(Note.parse(public.notes[size]).of([log_key]).encode().decode() for size in SIZES), fork.decode()]
    value = {
        "url": f"http://127.0.0.1:{witness.port}",
        "witness": str(witness.key),
        "notes": notes,
        "proofs": {
            f"{old},{new}": [
                item.hex() for item in tree.consistency_proof(old_size=old, new_size=new, read=public.read)
            ]
            for old in (0, *SIZES)
            for new in SIZES
            if old <= new
        },
        "caught_up": SIZES.index(public.size),
    }
    *grown, forked, caught_up = aics({"submit": value})["submit"]["notes"]
    assert forked == "WitnessRejected"
    for size, note in zip((*SIZES, public.size), (*grown, caught_up), strict=True):
        opened = open_checkpoint(note.encode(), origin=public.origin, log_keys=[log_key], cosigner_keys=[witness.key])
        assert opened.checkpoint == public.checkpoints[size]
        [signature] = opened.cosignatures
        assert signature.timestamp is not None
        check_timestamp(signature.timestamp, now=int(time.time()), age_seconds_max=600)
