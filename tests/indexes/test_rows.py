"""The rows that each index holds for a standing, and the difference that the store writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.indexes import activity, case, outcome, rows, source, waiting
from sealbook.indexes.registry import INDEX_TABLES
from sealbook.indexes.standing import EffectStatus, Facts, Standing, advance

Fold = Callable[..., Standing]


def u64(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_a_concluded_run_stands_under_its_outcome_by_the_arrival_of_its_conclusion(fold: Fold) -> None:
    assert outcome.rows(fold("Note")) == []
    standing = fold(("RunConcluded", {"outcome": "failed"}), "Note")
    assert outcome.rows(standing) == [("outcome", b"acme\0failed\0" + u64(10), b"r")]


def test_a_waiting_run_stands_under_its_instant_and_one_without_an_instant_last(fold: Fold) -> None:
    assert waiting.rows(fold("Note")) == []
    assert waiting.rows(fold(("RunSuspended", {"until": 5}))) == [("waiting", b"acme\0" + u64(2**63 + 5) + b"r", b"")]
    assert waiting.rows(fold(("RunSuspended", {"until": -5}))) == [("waiting", b"acme\0" + u64(2**63 - 5) + b"r", b"")]
    assert waiting.rows(fold("RunSuspended")) == [("waiting", b"acme\0" + b"\xff" * 8 + b"r", b"")]


def test_every_run_stands_under_the_block_of_its_last_arrival(fold: Fold) -> None:
    assert activity.rows(fold("Note")) == [("activity", b"acme\0" + u64(0) + b"r", b"")]
    later = fold("Note")._replace(last_arrival=256 * 7 + 255)
    assert activity.rows(later) == [("activity", b"acme\0" + u64(7) + b"r", b"")]


def test_a_run_with_a_source_stands_under_it_by_the_same_block(fold: Fold) -> None:
    assert source.rows(fold("Note")) == []
    standing = fold("Note")._replace(source="shop", last_arrival=512)
    assert source.rows(standing) == [("source", b"acme\0shop\0" + u64(2) + b"r", b"")]


def test_a_record_with_a_case_stands_under_it() -> None:
    assert case.place("acme", "c/7", "r", 3) == ("cases", b"acme\0c/7\0r\0" + u64(0))
    value = case.with_record(case.with_record(None, 3), 64)
    assert value == u64(1 << 2 | 1 << 63) == case.with_record(value, 3)
    assert list(case.seqs(0, value)) == [3, 64]


def test_each_64_records_of_a_run_have_a_row_of_their_own_in_a_case() -> None:
    blocks = [case.split_key(case.place("acme", "c", "r", seq)[1])[3] for seq in (1, 64, 65, 128, 129, 2**62)]
    assert blocks == [0, 0, 1, 1, 2, 2**56 - 1]
    assert list(case.seqs(2, u64(1 | 1 << 63))) == [129, 192]


@pytest.mark.parametrize("value", [b"", bytes(7), bytes(9), bytes(8)], ids=repr)
def test_a_value_that_speaks_of_no_record_of_a_case_is_a_value_error(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"no record|64 bits"):
        case.seqs(0, value)


@pytest.mark.parametrize("key", [b"", u64(0), b"acme\0c\0" + u64(0), b"acme\0c\0r" + u64(0), b"a\0c\0\xff\0" + u64(0)])
def test_a_key_that_names_no_case_and_run_is_a_value_error(key: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        case.split_key(key)


def test_the_stores_own_runs_and_runs_without_records_stand_in_no_index(fold: Fold) -> None:
    standing = fold(("RunConcluded", {"outcome": "failed"}), "RunSuspended")._replace(run="~tenant", source="s")
    assert rows(standing) == frozenset()
    assert rows(None) == frozenset()
    assert len(rows(standing._replace(run="r"))) == 4


def test_every_row_is_of_a_known_table(fold: Fold) -> None:
    standing = fold(("RunConcluded", {"outcome": "failed"}), "RunSuspended")._replace(source="s")
    assert {table for table, _, _ in rows(standing)} == set(INDEX_TABLES) - {case.TABLE}


KINDS = ["RunAdmitted", "Note", "EffectStarted", "RunSuspended", "RunConcluded", "Anything"]
records = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(1, 400),
        st.sampled_from(["failed", "exhausted", "done"]),
        st.none() | st.integers(-(2**60), 2**60),
        st.sampled_from([None, "shop"]),
    ),
    min_size=1,
    max_size=12,
)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(records)
def test_moving_rows_step_by_step_ends_where_building_them_anew_does(history: list[Any]) -> None:
    kept: set[tuple[str, bytes, bytes]] = set()
    standing: Standing | None = None
    arrival = 0
    for seq, (kind, step, name, until, from_source) in enumerate(history, 1):
        arrival += step
        made = Facts(
            seq=seq,
            arrival=arrival,
            epoch=1,
            at=0,
            kind=kind,
            hash=bytes(32),
            source=from_source,
            outcome=name if kind == "RunConcluded" else None,
            until=until if kind == "RunSuspended" else None,
            effect_after=EffectStatus.STARTED if kind == "EffectStarted" else None,
        )
        after = advance(standing, made, tenant="acme", run="r", run_tag=bytes(32))
        gone, new = rows(standing) - rows(after), rows(after) - rows(standing)
        assert gone <= kept
        assert not new & kept
        kept = (kept - gone) | new
        standing = after
    assert kept == rows(standing)
    assert len({table for table, _, _ in kept}) == len(kept)  # at most one row per index
