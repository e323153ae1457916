"""docs/witness.md, run as it stands: every line of its ```sh blocks, in one shell, with witnesses that listen."""

from __future__ import annotations

import os
import random
import re
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from project import ROOT
from typed import Done, played, steps, told

pytestmark = pytest.mark.slow

DOCUMENT = ROOT / "docs" / "witness.md"
AICS = Path(os.environ.get("SEALBOOK_INTEROP") or ROOT / "build" / "interop") / "aics" / "bin"
PORTS = ("8081", "8082", "8083")  # as the document has them; here they are whichever are free

# The third witness where aics-witness is not installed: one of ours, as the document says.
IN_ITS_PLACE = {
    "aics-witness init": "sealbook keys gen --witness w3.example.com --keys w3.keys > w3.vkey",
    "aics-witness add-log": "true",
    "aics-witness serve": "sealbook witness serve --key w3.example.com --keys w3.keys --state w3.state --logs logs.txt"
    " --listen 127.0.0.1:8083 2>> w3.log &",
}


def free_ports(count: int) -> list[str]:
    """Ports that were free just now, and that no system gives to one who asks for any: the witnesses come and go."""
    found: list[str] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)  # Linux gives those from 32768 on, others from 49152
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if str(port) not in found:
                found.append(str(port))
    return found


def adapted(command: str, ports: dict[str, str]) -> str:
    """The command on these ports, and without the other party's program where it is not installed."""
    if not (AICS / "aics-witness").exists():
        command = next((ours for theirs, ours in IN_ITS_PLACE.items() if command.startswith(theirs)), command)
    return re.sub(r"127\.0\.0\.1:(\d+)", lambda found: f"127.0.0.1:{ports[found[1]]}", command)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    for module in ("starlette", "hypercorn", "httpx2"):
        pytest.importorskip(module, reason="the extras `serve` and `witness` are not installed")
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    folder = tmp_path_factory.mktemp("session")
    return played(DOCUMENT, folder, lambda command: adapted(command, ports), programs=[AICS])


def test_every_command_of_the_document_ends_as_it_is_told(session: list[Done]) -> None:
    last = session[-1]
    assert last.exit_code == last.step.exit_code, f"{last.step.command}\n{last.printed}"
    assert [each.step for each in session] == steps(DOCUMENT)


def test_what_is_published_is_told_with_its_witnesses(session: list[Done]) -> None:
    first, down, still_down, both_keys, new_key, *_, again, put_back, at_last, lost, adopted = told(
        session, "sealbook log publish"
    )
    everybody = "is published, cosigned by w1, w2, w3"
    assert f"size 1 {everybody}" in first
    assert "size 3 is published, cosigned by w1, w3" in down and ": w2: " in down
    assert "size 6 is published, cosigned by w1, w3" in still_down and ": w2: " in still_down
    assert f"size 6 {everybody}" in both_keys
    assert f"size 7 {everybody}" in new_key and f"size 7 {everybody}" in again
    assert "is published" not in put_back and f"size 8 {everybody}" in at_last
    assert "is published" not in lost and f"example.com/journal-2: size 2 {everybody}" in adopted
    restarted, caught_up = told(session, "sealbook witness submit")
    assert f"size 1 {everybody}" in restarted and f"size 6 {everybody}" in caught_up


def test_an_older_copy_is_refused_with_the_size_that_had_been_signed_or_cosigned(session: list[Done]) -> None:
    by_the_key, by_witnesses, once_more, _, put_back, _, lost, _ = told(session, "sealbook log publish")[5:]
    assert "size 1 is not signed, because size 7 had been signed" in by_the_key
    assert "size 1 is not signed, because size 8 had been signed" in lost
    for printed in (by_witnesses, once_more):
        assert printed.count("the witness remembers a size beyond ours: 7, ours is 1") == 3
    stopped = told(session, "sealbook witness status")[2]
    assert "STOPPED" in stopped and stopped.count("(evidence: keys/witnesses/") == 3
    assert "the witness remembers less than it cosigned: 1, ours is 7" in put_back


def test_a_log_whose_store_is_lost_goes_on_and_its_monitor_follows(session: list[Done]) -> None:
    [adopted] = told(session, "sealbook log adopt")
    assert adopted == "example.com/journal-2: 2 leaves, goes on from example.com/journal at size 8\n"
    *_, before, followed = told(session, "sealbook log monitor")
    assert "example.com/journal: size 7 to 8, every leaf checked" in before
    assert followed.splitlines() == [
        "example.com/journal-2: size 0 to 2, every leaf checked",
        "it goes on from example.com/journal, as its first leaf states",
        "7 leaves of that log are not in this one: positions 1, 2, 3, 4, 5, …",
    ]


def test_the_auditor_counts_the_witnesses_and_refuses_what_is_older(session: list[Done]) -> None:
    first, old_proof, new_proof, older = told(session, "sealbook verify --proof")
    for printed in (first, old_proof, new_proof):
        assert "the run is whole and sealed" in printed and "cosigned by: w1, w2, w3" in printed
    assert "size 1, one of size 7 was seen before" in older


def test_the_third_witness_is_another_partys(session: list[Done]) -> None:
    if not (AICS / "aics-witness").exists():
        pytest.skip(f"no aics-witness in {AICS}, one of ours took its part: python tools/interop.py aics")
    assert "cosigned example.com/journal: size 0 -> 1" in told(session, "sealbook log publish")[0]
