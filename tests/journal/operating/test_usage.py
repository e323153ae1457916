"""Bytes are counted once each: by table, by tenant, and as the pages of the data file."""

from __future__ import annotations

from pathlib import Path

import pytest
from damaging import on_disk
from tampering import all_rows, engine_of, long_store, rich_store

from sealbook.journal import Journal
from sealbook.journal.operating.usage import usage
from sealbook.journal.schema import tables


@pytest.mark.parametrize("make", [rich_store, long_store])
def test_every_row_is_counted_once_by_table_and_once_by_tenant(make: object) -> None:
    journal: Journal = make()  # type: ignore[operator]
    used, rows = usage(journal), all_rows(engine_of(journal))
    assert used.total.rows == len(rows)
    assert used.total.key_bytes == sum(len(key) for _, key in rows)
    assert used.total.value_bytes == sum(len(value) for value in rows.values())
    for table, count in used.tables.items():
        assert count.bytes == sum(len(key) + len(value) for (of, key), value in rows.items() if of == table)
    assert sum(used.tenant(name).bytes for name in used.tenants) == used.total.bytes
    assert set(used.tenants) == {"", *journal.tenants()}


def test_what_is_no_tenants_is_the_stores_own() -> None:
    own = usage(rich_store()).tenants[""]
    assert {tables.STORE, tables.SIGNERS} <= own.keys()
    assert tables.JOURNAL not in own and own[tables.LEAVES].rows > 0  # the store log's


def test_every_page_of_the_file_is_a_tables_or_free(tmp_path: Path) -> None:
    folder = on_disk(rich_store(), tmp_path / "s")
    with Journal.open(folder, readonly=True) as journal:
        storage = usage(journal).storage
        of_tables = sum(count for name, count in storage.items() if name.startswith("pages."))
        assert of_tables + storage["free_pages"] == storage["pages"]
        assert storage["file_bytes"] == (folder / "data.mdb").stat().st_size
        assert storage["pages.journal"] >= 1 and storage["page_bytes"] == 4096


def test_progress_is_told_up_to_the_last_row() -> None:
    told: list[tuple[int, int]] = []
    used = usage(long_store(), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (used.total.rows, used.total.rows) and told == sorted(told)


def test_a_store_in_memory_has_rows_and_no_pages() -> None:
    assert usage(rich_store()).storage == {}
