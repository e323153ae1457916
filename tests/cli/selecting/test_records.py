"""Records are selected in arrival order, whichever way they are read."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from sealbook.cli.selecting import paging
from sealbook.cli.selecting.records import newest, records
from sealbook.cli.selecting.selection import Selection
from sealbook.journal import Journal, Record, Tenant, entries

RUNS, CASES, SEED, RECORDS = ("a", "b", "c", "d"), (None, "x", "y"), 20261129, 300


@pytest.fixture(scope="module")
def tenant() -> Iterator[Tenant]:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    with Journal.in_memory() as journal:
        tenant = journal.tenant()
        for number in range(RECORDS):
            kind = chance.choice(["Note", "Thought"])
            tenant.append(chance.choice(RUNS), [entries.entry(kind, {"n": number}, case=chance.choice(CASES))], epoch=1)
        yield tenant


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "PAGE_MAX", 7)
    monkeypatch.setattr(paging, "MERGED_PAGE", 3)


SELECTIONS = [
    Selection(),
    Selection(run="a"),
    Selection(case="x"),
    Selection(kinds=frozenset({"Note"})),
    Selection(run="b", case="y", kinds=frozenset({"Thought"})),
    Selection(run="nobody"),
    Selection(case="nothing"),
]


def everything(tenant: Tenant) -> list[Record]:
    return list(tenant.history(limit=RECORDS))


@pytest.mark.parametrize("wanted", SELECTIONS, ids=str)
def test_a_selection_is_the_history_filtered(tenant: Tenant, wanted: Selection) -> None:
    expected = [record for record in everything(tenant) if wanted.takes(record)]
    assert list(records(tenant, wanted)) == expected
    assert list(records(tenant, wanted, reverse=True)) == expected[::-1]
    assert newest(tenant, wanted, 5) == expected[-5:]
    assert list(records(tenant, wanted, limit=5)) == expected[:5]
    assert list(records(tenant, wanted, limit=0)) == []


def test_the_newest_records_are_read_without_the_others(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = tenant.history

    def history(**arguments: int) -> object:
        asked.append(arguments["limit"])
        return real(**arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(paging, "PAGE_MAX", 1000)
    monkeypatch.setattr(tenant, "history", history)
    assert [record.arrival for record in newest(tenant, Selection(), 3)] == [RECORDS - 2, RECORDS - 1, RECORDS]
    assert asked == [3]


def test_instants_are_inclusive_at_both_ends(tenant: Tenant) -> None:
    record = everything(tenant)[7]
    at = record.at * 1000
    assert Selection(since=at, until=at).takes(record)
    assert not Selection(since=at + 1).takes(record)
    assert not Selection(until=at - 1).takes(record)
