"""Requests are checked by name, and bring their own randomness: no two the same, here or in a forked child."""

from __future__ import annotations

import os
import threading
from enum import StrEnum

import pytest

from sealbook.journal import Head, InvalidEntry, InvalidInput, entries, requests
from sealbook.journal.records.entries import Entry


def salts(count: int) -> list[bytes]:
    return [requests.append("r", [entries.note("x")], epoch=1).salt for _ in range(count)]


def test_no_two_requests_have_the_same_salt() -> None:
    found = salts(1000)
    assert len(set(found)) == 1000
    assert {len(salt) for salt in found} == {32}


def test_threads_do_not_share_a_salt() -> None:
    found: list[list[bytes]] = []
    threads = [threading.Thread(target=lambda: found.append(salts(500))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({salt for part in found for salt in part}) == 8 * 500


def test_a_forked_child_does_not_have_its_parents_salts() -> None:
    salts(1)  # so that there are some in stock
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, b"".join(salts(64)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reader, 64 * 32)
    os.close(reader)
    os.close(writer)
    assert len(theirs) == 64 * 32
    assert not {theirs[start : start + 32] for start in range(0, len(theirs), 32)} & set(salts(64))


class Kind(StrEnum):
    """Kinds as a program may name them."""

    ADMITTED = "RunAdmitted"
    STARTED = "EffectStarted"
    CONCLUDED = "RunConcluded"
    RECONCILED = "EffectReconciled"


def test_a_kind_that_is_a_member_of_an_enumeration_is_read_as_its_text() -> None:
    """Or the store would act on records whose members nobody has checked, and honour no admission key."""
    key = bytes(32)
    [admitted, started, concluded] = requests.append(
        "r",
        [
            Entry(Kind.ADMITTED, {"source": "shop", "id": "42"}),
            Entry(Kind.STARTED, {"recovery": "retry"}, effect=key),
            Entry(Kind.CONCLUDED, {"outcome": "completed"}),
        ],
        epoch=1,
    ).entries
    assert {type(entry.kind) for entry in (admitted, started, concluded)} == {str}
    assert (admitted.source, admitted.id) == ("shop", "42")
    assert started.recovery == "retry"
    assert concluded.outcome == "completed"
    for wrong in (
        Entry(Kind.STARTED, {}),
        Entry(Kind.CONCLUDED, {"outcome": "NOT ONE"}),
        Entry(Kind.ADMITTED, {"source": "shop"}),
        Entry(Kind.RECONCILED, {"disposition": "perhaps"}, effect=key),
    ):
        with pytest.raises(InvalidEntry):
            requests.append("r", [wrong], epoch=1)


@pytest.mark.parametrize(
    "after",
    [
        Head(-1, bytes(32)),
        Head(True, bytes(32)),
        Head(2**63, bytes(32)),
        Head("1", bytes(32)),  # type: ignore[arg-type]
        Head(1.0, bytes(32)),  # type: ignore[arg-type]
        Head(1, b"short"),
        Head(1, "x" * 32),  # type: ignore[arg-type]
        Head(1, None),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_a_head_that_no_run_can_have_is_refused_by_name(after: Head) -> None:
    with pytest.raises(InvalidInput, match="after"):
        requests.append("r", [entries.note("x")], epoch=1, after=after)
