"""`reindex` gives the indexes back byte for byte, can be cut short anywhere, and refuses what it cannot read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tampering import all_rows, change, changed, engine_of, flipped, forge, random_history, rich_store, rows

from sealbook.indexes import INDEX_TABLES
from sealbook.indexes.packing import text, u64
from sealbook.journal import Busy, Corrupt, IndexStale, Journal, entries
from sealbook.journal.engine.port import Place, Work
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import INDEX_VERSION, NO_REBUILD, StoreRow
from sealbook.journal.store import reindexing

LISTINGS: dict[str, Callable[[Journal], Any]] = {
    "waiting": lambda journal: journal.tenant("acme").waiting(),
    "by_outcome": lambda journal: journal.tenant("acme").by_outcome("completed"),
    "count_by_outcome": lambda journal: journal.tenant("acme").count_by_outcome("completed"),
    "recent": lambda journal: journal.tenant("acme").recent(),
    "recent_from": lambda journal: journal.tenant("acme").recent_from("shop"),
    "names": lambda journal: journal.tenant("acme").names("case"),
    "case_history": lambda journal: journal.tenant("acme").case_history("case-7"),
}
WRITERS: dict[str, Callable[[Journal], Any]] = {
    "append": lambda journal: journal.tenant("acme").append("new", [entries.note()], epoch=1),
    "acquire": lambda journal: journal.tenant("acme").acquire("new", owner="w", ttl=5),
    "request_cancel": lambda journal: journal.tenant("acme").request_cancel("wait", actor="ops"),
    "anchor": lambda journal: journal.tenant("acme").anchor("wait"),
}


class Killed(Exception):
    """The process died before this transaction."""


def index_rows(journal: Journal) -> int:
    return sum(len(rows(engine_of(journal), table)) for table in INDEX_TABLES)


def store_row(journal: Journal) -> StoreRow:
    return StoreRow.decode(rows(engine_of(journal), tables.STORE)[b"store"])


def killed_after(journal: Journal, pages: int) -> bool:
    """Rebuild, and die before the transaction that follows this many; whether it came to that."""
    left = pages

    def write(work: Work) -> Any:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1
        return journal.view.write(work)

    try:
        reindexing.reindex(write)
    except Killed:
        return True
    return False


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reindexing, "PAGE_ROWS", 3)
    monkeypatch.setattr(reindexing, "STATES_PER_PAGE", 2)
    monkeypatch.setattr(reindexing, "SCAN_RECORDS", 2)


def test_a_rebuild_of_sound_indexes_changes_no_byte() -> None:
    journal = rich_store()
    before = all_rows(engine_of(journal))
    assert journal.reindex() == index_rows(journal)
    assert all_rows(engine_of(journal)) == before


@pytest.mark.parametrize("seed", range(20))
def test_dropped_indexes_come_back_byte_for_byte(seed: int, small_pages: None) -> None:
    journal = random_history(seed, steps=60)
    engine = engine_of(journal)
    before = all_rows(engine)
    change(engine, {place: None for place in before if place[0] in INDEX_TABLES})
    assert journal.reindex() == index_rows(journal)
    assert all_rows(engine) == before


def test_rows_that_belong_to_nothing_are_gone_afterwards() -> None:
    journal = rich_store()
    before = all_rows(engine_of(journal))
    change(engine_of(journal), {(table, b"acme\0nonsense"): b"x" for table in INDEX_TABLES})
    journal.reindex()
    assert all_rows(engine_of(journal)) == before


def test_no_transaction_touches_more_rows_than_a_page(small_pages: None) -> None:
    journal = rich_store()
    sizes: list[int] = []

    def write(work: Work) -> Any:
        with engine_of(journal).snapshot() as snapshot:
            writes, _ = work(snapshot, journal.view.clock())
        sizes.append(len(writes.puts) + len(writes.deletes))
        return journal.view.write(work)

    made = reindexing.reindex(write)
    assert made > 3 * reindexing.PAGE_ROWS
    assert max(sizes) <= 4 * reindexing.STATES_PER_PAGE


def test_the_progress_ends_with_all_rows(small_pages: None) -> None:
    journal = rich_store()
    told: list[tuple[int, int]] = []
    journal.reindex(progress=lambda done, total: told.append((done, total)))
    total = sum(len(rows(engine_of(journal), table)) for table in (tables.STATE, tables.JOURNAL))
    assert told[-1] == (total, total) and told == sorted(told)


def test_a_rebuild_that_dies_leaves_the_indexes_stale_and_the_next_one_finishes(small_pages: None) -> None:
    journal = rich_store()
    before = all_rows(engine_of(journal))
    assert killed_after(journal, 0)
    assert store_row(journal).index_current
    pages = 1
    while killed_after(journal, pages):
        assert not store_row(journal).index_current, f"after {pages} transactions"
        with pytest.raises(IndexStale):
            journal.tenant("acme").recent()
        if pages % 3 == 0:
            journal.reindex()
            assert all_rows(engine_of(journal)) == before, f"after {pages} transactions"
        pages += 1
    assert pages > 20
    assert all_rows(engine_of(journal)) == before


@pytest.mark.parametrize("verb", [*LISTINGS, *WRITERS])
def test_listings_and_writers_are_refused_until_it_ends(verb: str) -> None:
    journal = rich_store()
    assert killed_after(journal, 2)
    with pytest.raises(IndexStale):
        (LISTINGS | WRITERS)[verb](journal)
    journal.reindex()
    (LISTINGS | WRITERS)[verb](journal)


def test_chains_stay_readable_meanwhile() -> None:
    journal = rich_store()
    assert killed_after(journal, 2)
    acme = journal.tenant("acme")
    assert [record.seq for record in acme.read("done/1")] == [1, 2, 3, 4]
    assert acme.verify("done/1").ok and journal.check().ok


def test_a_rebuild_that_another_one_took_over_is_busy_and_changes_nothing_more() -> None:
    journal = rich_store()
    before = all_rows(engine_of(journal))
    calls = 0

    def write(work: Work) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            journal.reindex()
        return journal.view.write(work)

    with pytest.raises(Busy, match="another reindex took over"):
        reindexing.reindex(write)
    assert all_rows(engine_of(journal)) == before


def test_an_older_index_version_is_current_afterwards() -> None:
    journal = rich_store()
    row = store_row(journal)
    older = StoreRow(row.store_id, row.lineage_id, row.format, row.engine_format, 0, INDEX_VERSION - 1, NO_REBUILD)
    change(engine_of(journal), {tables.STORE_PLACE: older.encode()})
    with pytest.raises(IndexStale):
        journal.tenant("acme").recent()
    journal.reindex()
    assert store_row(journal) == row


@pytest.mark.parametrize(
    ("place", "position"),
    [
        ((tables.STATE, tables.run_key("acme", "wait")), 0),
        ((tables.JOURNAL, tables.number_key("acme", 6)), 150),
    ],
    ids=["state", "journal"],
)
def test_a_row_that_cannot_be_read_is_named_and_the_store_stays_stale(place: Place, position: int) -> None:
    journal = rich_store()
    engine = engine_of(journal)
    with changed(engine, {place: flipped(all_rows(engine)[place], position)}):
        with pytest.raises(Corrupt) as caught:
            journal.reindex()
        assert (caught.value.tenant, caught.value.table, caught.value.key) == ("acme", *place)
        assert not store_row(journal).index_current
    journal.reindex()
    assert journal.check().ok


@pytest.mark.parametrize("table", [tables.STATE, tables.JOURNAL])
def test_a_row_under_a_key_that_is_none_is_named(table: str) -> None:
    journal = rich_store()
    change(engine_of(journal), {(table, b"acme"): b"x"})
    with pytest.raises(Corrupt) as caught:
        journal.reindex()
    assert (caught.value.table, caught.value.key) == (table, b"acme")


@pytest.mark.parametrize("case", [7, "a\nb"])
def test_a_record_whose_case_is_no_name_is_corrupt(case: Any) -> None:
    journal = rich_store()
    seq = forge(journal, "acme", "wait", "Note", case=case)
    with pytest.raises(Corrupt) as caught:
        journal.reindex()
    assert caught.value.seq == seq


def test_records_of_a_newer_version_keep_their_cases() -> None:
    journal = rich_store()
    seq = forge(journal, "acme", "wait", "Note", v=9, case="case-9")
    journal.reindex()
    key = text("acme") + text("case-9") + text("wait") + u64(0)
    assert rows(engine_of(journal), "cases")[key] == u64(1 << seq - 1)


def test_opening_with_reindex_rebuilds_what_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "agents.sealbook"
    with Journal.open(path, create=True) as journal:
        journal.tenant().append("r", [entries.admitted(source="s", id="1", case="c")], epoch=1)
        before = all_rows(engine_of(journal))
        assert killed_after(journal, 4)
    with Journal.open(path) as journal, pytest.raises(IndexStale):
        journal.tenant().recent()
    with Journal.open(path, reindex=True) as journal:
        assert [standing.run for standing in journal.tenant().recent()] == ["r"]
        assert all_rows(engine_of(journal)) == before
