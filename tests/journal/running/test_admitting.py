"""Admission: a message creates one run, whoever delivers it, how often, and how many at once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from run_faces import Face

from sealbook.journal import (
    Fresh,
    InFlight,
    InvalidEntry,
    InvalidName,
    Journal,
    LeaseHeld,
    Replayed,
    Tenant,
    entries,
)

PROCESSES = 4
MESSAGES = 25
DELIVERER = f"""
import sys
from sealbook.journal import Journal
with Journal.open(sys.argv[1], lock_timeout=60) as journal:
    print("ready", flush=True)
    sys.stdin.readline()
    acme = journal.tenant("acme")
    for number in range({MESSAGES}):
        answer = acme.admit("shop", str(number))
        print(type(answer).__name__, number, answer.run)
"""


def admit(face: Face, acme: Tenant, id: str = "42", **options: Any) -> Any:
    return face.run(partial(face.admit, acme, "shop", id, **options))


def test_a_message_creates_a_run_once(face: Face, acme: Tenant) -> None:
    first = admit(face, acme, case="case-7", data={"total": 3})
    assert isinstance(first, Fresh)
    assert admit(face, acme) == InFlight(first.run)
    assert acme.admitted_as("shop", "42") == first.run
    [record] = acme.read(first.run)
    assert (record.kind, record.case) == ("RunAdmitted", "case-7")
    assert record.data == {"source": "shop", "id": "42", "total": 3}
    assert isinstance(admit(face, acme, "43"), Fresh)
    assert len(acme.runs()) == 2


def test_the_run_may_be_given_a_name(face: Face, acme: Tenant) -> None:
    assert admit(face, acme, run="order-42") == Fresh("order-42")
    assert admit(face, acme, run="order-43") == InFlight("order-42")
    assert [standing.run for standing in acme.runs()] == ["order-42"]


def test_the_run_that_was_created_is_free_to_be_leased(face: Face, acme: Tenant) -> None:
    admit(face, acme, run="r")

    async def program() -> int:
        async with face.leased(acme, "r") as run:
            assert await face.admit(acme, "shop", "42") == InFlight("r")
            await run.note("begun")
            epoch: int = run.epoch
            return epoch

    assert face.run(program) == 2


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        (entries.suspended(awaiting="approval"), None),
        (entries.concluded("failed"), "failed"),
        (entries.concluded("completed"), "completed"),
    ],
)
def test_a_run_that_rests_is_replayed(face: Face, acme: Tenant, last: Any, outcome: str | None) -> None:
    admit(face, acme, run="r")
    acme.append("r", [last], epoch=1)
    assert admit(face, acme) == Replayed("r", outcome)
    if outcome == "completed":
        acme.seal("r")
        assert admit(face, acme) == Replayed("r", "completed")
    else:
        acme.append("r", [entries.entry("Progress")], epoch=1)
        assert admit(face, acme) == InFlight("r")


def test_a_run_that_exists_for_other_reasons_is_not_taken(face: Face, acme: Tenant) -> None:
    acme.append("r", [entries.note("by hand")], epoch=1)
    with pytest.raises(InvalidEntry):
        admit(face, acme, run="r")
    acme.acquire("leased", owner="other", ttl=30)
    with pytest.raises(LeaseHeld):
        admit(face, acme, run="leased")
    assert acme.admitted_as("shop", "42") is None
    lease = acme.lease("r")
    assert lease is None


@pytest.mark.parametrize(("source", "id"), [("", "42"), ("shop", ""), ("sh\0op", "42"), ("shop", "x" * 257)])
def test_a_bad_admission_key_is_refused(face: Face, acme: Tenant, source: str, id: str) -> None:
    with pytest.raises(InvalidName):
        face.run(partial(face.admit, acme, source, id))
    assert acme.runs() == []


def test_of_many_who_deliver_a_message_at_once_one_creates_the_run(face: Face, acme: Tenant) -> None:
    answers: list[Any] = []

    async def deliver(run: str | None) -> None:
        answers.append(await face.admit(acme, "shop", "42", run=run))

    async def program() -> None:
        await face.side_by_side(*[partial(deliver, run) for run in (None, "r", "r", None)])

    face.run(program)
    assert Counter(type(answer) for answer in answers) == {Fresh: 1, InFlight: 3}
    assert len({answer.run for answer in answers}) == 1


def test_of_many_processes_one_creates_each_run(tmp_path: Path) -> None:
    path = tmp_path / "agents.sealbook"
    Journal.open(path, create=True).close()
    command = [sys.executable, "-c", DELIVERER, str(path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [line.split() for process in processes for line in process.communicate(timeout=120)[0].splitlines()]
    assert [process.returncode for process in processes] == [0] * PROCESSES
    assert Counter(word for word, _, _ in answers) == {"Fresh": MESSAGES, "InFlight": MESSAGES * (PROCESSES - 1)}
    assert len({(number, run) for _, number, run in answers}) == MESSAGES
    with Journal.open(path) as journal:
        assert len(journal.tenant("acme").runs()) == MESSAGES
        assert journal.check().ok
