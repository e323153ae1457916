"""Names for runs, and segments without the records that a run has already."""

from __future__ import annotations

import hashlib

import pytest

from sealbook.cli.importing.history import Cancel, History, Segment, legal, stem, tail
from sealbook.journal import entries
from sealbook.journal.records import names


def a_history(run: str, prefix: str = "") -> History:
    segment = Segment("w", (entries.admitted(case="c"), entries.note("a")))
    return History(run, "0123456789abcdef" * 4, "temporal", (segment,), prefix)


def test_a_legal_name_stays_as_it_is() -> None:
    assert legal("order/42 é", 128) == "order/42 é"


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("~own", "_own~"),
        ("a\0b\x85c", "a_b_c~"),
        ("e\u0301", "\u00e9~"),
        ("", "_~"),
        ("\ud800", "\\ud800~"),
        ("é" * 100, "é" * 59 + "~"),
        ("x" * 129, "x" * 119 + "~"),
    ],
)
def test_a_name_that_is_not_legal_becomes_one_that_ends_in_its_digest(text: str, beginning: str) -> None:
    name = legal(text, names.RUN_BYTES_MAX, run=True)
    assert names.check_own_run(name) == name
    assert name[:-8] == beginning
    assert name[-8:] == hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def test_two_names_that_differ_only_in_what_is_not_legal_stay_two() -> None:
    assert legal("a\0", 128) != legal("a\x01", 128)


def test_the_admission_key_ends_in_the_name_that_the_run_gets() -> None:
    history = a_history("run-1", "order-7/")
    first = history.segments_as("run-1~01234567")[0].entries[0]
    assert first.data == {"source": "temporal", "id": "order-7/run-1~01234567"}
    assert first.case == "c"


def test_an_admission_id_that_would_be_too_long_is_cut_to_its_limit() -> None:
    history = a_history("r" * 128, "w" * 128 + "/")
    assert names.check_admission_id(history.admission_id(history.run)) == history.admission_id(history.run)


def test_a_name_that_is_taken_goes_on_with_the_digest() -> None:
    assert a_history("run-1").run_with_digest() == "run-1~01234567"
    assert a_history("r" * 128).run_with_digest() == "r" * 119 + "~01234567"


def test_a_tail_keeps_owners_and_the_cancel_requests_that_stand_in_it() -> None:
    notes = [entries.note(str(number)) for number in range(5)]
    first = Segment("a", tuple(notes[:2]), (Cancel(1, "ann", ""),))
    second = Segment("b", tuple(notes[2:]), (Cancel(1, "bob", ""), Cancel(3, "cyd", "")))
    assert tail([first, second], 0) == (first, second)
    assert tail([first, second], 1) == (Segment("a", (notes[1],)), second)
    assert tail([first, second], 3) == (Segment("b", tuple(notes[3:]), (Cancel(2, "cyd", ""),)),)
    assert tail([first, second], 5) == ()


@pytest.mark.parametrize(
    ("name", "run"),
    [("a/b.traj", "b"), ("b.traj.json", "b"), ("b.json", "b"), ("b", "b"), (".traj", ".traj"), ("a.b.traj", "a.b")],
)
def test_a_files_run_is_its_name_without_the_ending(name: str, run: str) -> None:
    assert stem(name, (".traj.json", ".traj", ".json")) == run
