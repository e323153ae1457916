"""A data file is read whatever state it is in: all of it when it is whole, and what is left when it is not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from damaging import on_disk, overwrite, stored
from tampering import all_rows, engine_of, long_store, rich_store

from sealbook.journal import Journal, entries
from sealbook.journal.copies.salvage.pages import SalvagedFile
from sealbook.journal.schema import tables

PAGE = 4096


def wide_store() -> Journal:
    """A store whose table of records has pages above its leaves, and values that have pages of their own."""
    journal = Journal.in_memory()
    for number in range(40):
        texts = ["x" * (600 * (index % 5) ** 2) for index in range(10)]
        journal.tenant("acme").append(f"run-{number}", [entries.note(text) for text in texts], epoch=1)
    return journal


@pytest.mark.parametrize("make", [rich_store, long_store, wide_store])
def test_of_a_whole_file_every_row_is_found_where_it_stands(make: object, tmp_path: Path) -> None:
    journal = make()  # type: ignore[operator]
    folder = on_disk(journal, tmp_path / "s")
    file = SalvagedFile.open(folder / "data.mdb")
    found = list(file.rows(tables.TABLES))
    assert file.faults == []
    assert {(row.table, row.key): row.value for row in found if row.table != tables.STORE} == {
        place: value for place, value in all_rows(engine_of(journal)).items() if place != tables.STORE_PLACE
    }
    assert all(file.at(row.offset, len(row.value)) == row.value for row in found)
    file.close()


def test_rows_behind_a_lost_branch_are_found_without_their_table(tmp_path: Path) -> None:
    journal = wide_store()
    folder = on_disk(journal, tmp_path / "s")
    before = {row.key: row.value for row in stored(folder, tables.JOURNAL)}
    data = (folder / "data.mdb").read_bytes()
    branches = [
        at
        for at in range(2 * PAGE, len(data), PAGE)
        if data[at + 10] == 1 and data[at : at + 8] == (at // PAGE).to_bytes(8, "little")
    ]
    assert branches
    for at in branches:
        overwrite(folder, at, bytes(PAGE))
    file = SalvagedFile.open(folder / "data.mdb")
    found = list(file.rows([tables.JOURNAL]))
    assert [fault.table for fault in file.faults] == [tables.JOURNAL]
    assert {row.table for row in found} == {None}
    assert before.items() <= {row.key: row.value for row in found}.items()
    file.close()


def test_a_file_without_meta_pages_is_read_all_the_same(tmp_path: Path) -> None:
    folder = on_disk(rich_store(), tmp_path / "s")
    before = {(row.key, row.value) for row in stored(folder, tables.JOURNAL)}
    overwrite(folder, 0, bytes(2 * PAGE))
    file = SalvagedFile.open(folder / "data.mdb")
    found = {(row.key, row.value) for row in file.rows([tables.JOURNAL])}
    assert [fault.what for fault in file.faults][:2] == ["the meta page is damaged"] * 2
    assert before <= found
    file.close()


@pytest.mark.parametrize("seed", range(20261129, 20261129 + 40))
def test_no_damage_makes_reading_fail(seed: int, tmp_path: Path) -> None:
    folder = on_disk(rich_store(), tmp_path / "s")
    data, chance = bytearray((folder / "data.mdb").read_bytes()), random.Random(seed)
    for _ in range(chance.randrange(1, 200)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    del data[chance.randrange(len(data) // 2, len(data)) :]
    (folder / "data.mdb").write_bytes(data)
    file = SalvagedFile.open(folder / "data.mdb")
    assert all(file.at(row.offset, len(row.value)) == row.value for row in file.rows(tables.TABLES))
    file.close()


def test_an_empty_file_and_one_that_is_none_have_no_rows(tmp_path: Path) -> None:
    for content in (b"", b"no data file", bytes(PAGE * 3)):
        path = tmp_path / "data.mdb"
        path.write_bytes(content)
        file = SalvagedFile.open(path)
        assert list(file.rows([tables.JOURNAL])) == []
        assert file.faults
        file.close()


def test_what_stands_in_a_large_value_is_not_taken_for_a_page(tmp_path: Path) -> None:
    other = on_disk(rich_store(), tmp_path / "other")
    [row] = [row for row in stored(other, tables.JOURNAL) if row.key == tables.number_key("beta", 1)]
    leaf = (other / "data.mdb").read_bytes()[row.offset // PAGE * PAGE :][:PAGE]
    journal = Journal.in_memory()
    journal.tenant("acme").append("r", [entries.note("x" * 5 * PAGE)], epoch=1)
    folder = on_disk(journal, tmp_path / "s")
    [large] = stored(folder, tables.JOURNAL)
    number = large.offset // PAGE + 2
    overwrite(folder, number * PAGE, number.to_bytes(8, "little") + leaf[8:])
    overwrite(folder, 0, bytes(2 * PAGE))
    file = SalvagedFile.open(folder / "data.mdb")
    keys = {found.key for found in file.rows([tables.JOURNAL])}
    assert large.key in keys and row.key not in keys
    file.close()
    overwrite(folder, large.offset - 16, bytes(16))  # without its first page it could be anything
    file = SalvagedFile.open(folder / "data.mdb")
    assert row.key in {found.key for found in file.rows([tables.JOURNAL])}
    file.close()
