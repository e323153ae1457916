"""A cursor names a record, and a history that is not the one it was taken from is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tampering import change, engine_of, record_place

from sealbook.cli.records import cursors
from sealbook.cli.records.cursors import Cursor
from sealbook.journal import Corrupt, InvalidCursor, Journal, entries


@pytest.fixture
def journal() -> Journal:
    journal = Journal.in_memory()
    journal.tenant().append("Zoë/1;=", [entries.note(str(number)) for number in range(3)], epoch=1)
    return journal


def test_a_cursor_is_read_as_it_was_written(journal: Journal) -> None:
    for record in journal.tenant().history():
        cursor = Cursor.of(record)
        assert str(cursor).isascii()
        assert Cursor.parse(str(cursor)) == cursor
        cursor.check(journal.tenant())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text + " ",
        lambda text: text.replace("a=2", "a=0"),
        lambda text: text.replace("a=2", "a=٢"),
        lambda text: text[:-1] + "\n",
        lambda text: text.replace("h=", "h=0"),
    ],
)
def test_a_text_that_is_no_cursor_is_refused(journal: Journal, spoil: Callable[[str], str]) -> None:
    text = str(Cursor.of(journal.tenant().history()[1]))
    with pytest.raises(InvalidCursor):
        Cursor.parse(spoil(text))


def test_a_cursor_of_another_tenant_is_refused(journal: Journal) -> None:
    cursor = Cursor.of(journal.tenant().history()[0])
    with pytest.raises(InvalidCursor, match="tenant default"):
        cursor.check(journal.tenant("acme"))


@pytest.mark.parametrize("member", [{"hash": "00" * 32}, {"run": "another"}, {"seq": 3}, {"arrival": 1}])
def test_a_history_that_was_rewritten_is_noticed(journal: Journal, member: dict[str, Any]) -> None:
    record = Cursor.of(journal.tenant().history()[1])
    other = Cursor(*(member.get(name, getattr(record, name)) for name in ("tenant", "arrival", "seq", "hash", "run")))
    with pytest.raises(Corrupt, match="rewritten"):
        other.check(journal.tenant())


def test_a_history_that_was_cut_short_is_noticed(journal: Journal) -> None:
    record = Cursor.of(journal.tenant().history()[2])
    older = Cursor("default", 4, 4, record.hash, record.run)
    with pytest.raises(Corrupt, match="cut short"):
        older.check(journal.tenant())


def test_a_record_that_is_damaged_is_noticed(journal: Journal) -> None:
    cursor = Cursor.of(journal.tenant().history()[1])
    change(engine_of(journal), {record_place(engine_of(journal), "default", cursor.run, 2): b"rubbish"})
    with pytest.raises(Corrupt):
        cursor.check(journal.tenant())


def test_a_file_keeps_a_cursor_and_none_before_there_is_one(journal: Journal, tmp_path: Path) -> None:
    file = tmp_path / "cursor"
    assert cursors.read_file(file) is None
    file.write_bytes(b"")
    assert cursors.read_file(file) is None
    for record in journal.tenant().history():
        cursors.write_file(file, Cursor.of(record))
        assert cursors.read_file(file) == Cursor.of(record)
    assert [path.name for path in tmp_path.iterdir()] == ["cursor"]
    file.write_bytes(b"\xff" * 10_000)
    with pytest.raises(InvalidCursor):
        cursors.read_file(file)
