"""`backup` and `recover` on the command line: what they say, their exit codes, and a store that kills its readers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from damaging import flip, overwrite, stored

from sealbook.journal import Journal, entries
from sealbook.journal.schema import tables

PAGE = 4096
Call = Callable[..., Result]
Program = Callable[..., "subprocess.CompletedProcess[str]"]


def ruin(store: Path) -> None:
    """Let the table of records lead outside of the file: whoever reads it through a map dies."""
    for page in {found.offset // PAGE for found in stored(store, tables.JOURNAL)}:
        data = (store / "data.mdb").read_bytes()[page * PAGE : (page + 1) * PAGE]
        overwrite(store, page * PAGE + 16, b"\xff\x7f" * ((int.from_bytes(data[12:14], "little") - 16) // 2))


def test_a_backup_says_what_it_carries_and_that_keys_live_elsewhere(call: Call, tmp_path: Path) -> None:
    result = call("backup", "--to", str(tmp_path / "b"))
    assert result.exit_code == 0 and result.stdout.startswith("backed up and checked\n")
    assert "the store's secret" in result.stderr and "it does not carry keys" in result.stderr
    assert call("backup", "--to", str(tmp_path / "b")).stdout.startswith("nothing was committed since")
    assert call("backup", "verify", str(tmp_path / "b")).exit_code == 0


def test_a_backup_is_refused_where_something_else_stands(call: Call, store: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("mine")
    assert call("backup", "--to", str(tmp_path / "mine")).exit_code == 5
    assert call("backup", "--to", str(store)).exit_code == 5
    assert call("backup", "verify", str(tmp_path / "mine")).exit_code == 4


def test_an_older_copy_put_back_is_an_integrity_failure_and_the_backup_stays(
    call: Call, store: Path, tmp_path: Path
) -> None:
    shutil.copytree(store, tmp_path / "yesterday")
    with Journal.open(store) as journal:
        journal.tenant().append("more", [entries.note("n")], epoch=1)
    assert call("backup", "--to", str(tmp_path / "b")).exit_code == 0
    result = call("-D", str(tmp_path / "yesterday"), "backup", "--to", str(tmp_path / "b"))
    assert result.exit_code == 3 and "does not go on from what the backup holds" in result.stderr
    assert call("backup", "verify", str(tmp_path / "b")).exit_code == 0


def test_options_of_a_backup_stand_where_they_belong(call: Call, tmp_path: Path) -> None:
    assert call("backup").exit_code == 2
    for options in (("--to", str(tmp_path)), ("-o", "json")):
        assert call("backup", *options, "verify", str(tmp_path)).exit_code == 2


def test_a_store_that_kills_its_readers_is_an_answer_and_leaves_the_backup(
    program: Program, store: Path, tmp_path: Path
) -> None:
    target = str(tmp_path / "b")
    assert program("backup", "--to", target).returncode == 0
    with Journal.open(store) as journal:
        journal.tenant().append("more", [entries.note("n")], epoch=1)
    ruin(store)
    result = program("backup", "--to", target)
    assert result.returncode == 3 and "reading it killed the reader" in result.stderr
    assert program("backup", "verify", target).returncode == 0


def test_a_store_that_kills_its_readers_is_recovered_as_far_as_it_goes(
    program: Program, store: Path, tmp_path: Path
) -> None:
    with Journal.open(store) as journal:
        for number in range(40):
            journal.tenant("beta").append(f"run-{number}", [entries.note("x" * 300)], epoch=1)
    journal_rows = stored(store, tables.JOURNAL)
    page = next(row.offset // PAGE for row in journal_rows if row.key == tables.number_key("beta", 20))
    overwrite(store, page * PAGE + 12, b"\xff\xff\x00\x00")
    result = program("recover", str(store), str(tmp_path / "r"), "--actor", "ada", "-o", "json")
    assert result.returncode == 1, result.stderr
    told = json.loads(result.stdout)
    beta = next(tenant for tenant in told["tenants"] if tenant["tenant"] == "beta")
    assert beta["records"] + beta["lost_records"] == 40 and beta["lost_records"] > 0
    assert told["verdict"]["consistent"] and told["unreadable"][0]["page"] == page
    assert program("-D", str(tmp_path / "r"), "verify").returncode == 0


def test_what_was_lost_is_told_to_people_line_by_line(call: Call, store: Path, tmp_path: Path) -> None:
    row = next(row for row in stored(store, tables.JOURNAL) if row.key == tables.number_key("default", 2))
    flip(store, row, 100)
    result = call("recover", str(store), str(tmp_path / "r"), "--actor", "ada")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "  lost: records 2 to 5 of run order-42" in lines
    assert any(line.startswith("  lost: 4 records, by arrival 2 to 4, ") for line in lines)
    assert any(line.startswith("not believed: 1 row") for line in lines)
    assert any(line.startswith("not carried: keys") for line in lines)


def test_a_backup_is_brought_back_whole(call: Call, tmp_path: Path) -> None:
    call("backup", "--to", str(tmp_path / "b"))
    result = call("recover", str(tmp_path / "b"), str(tmp_path / "r"), "--actor", "ada")
    assert result.exit_code == 0 and "lost" not in result.stdout
    before, after = (
        json.loads(call(*where, "info", "-o", "json").stdout) for where in ((), ("-D", str(tmp_path / "r")))
    )
    assert (after["lineage"], after["restoration"]) == (before["lineage"], before["restoration"] + 1)
    assert call("recover", str(tmp_path / "b"), str(tmp_path / "r"), "--actor", "ada").exit_code == 5


def test_what_recover_refuses_is_told_in_its_own_words(call: Call, store: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    taken = call("recover", str(store), str(tmp_path / "taken"), "--actor", "ada")
    assert taken.exit_code == 5
    assert "a store is built where nothing stands" in taken.stderr and "restore" not in taken.stderr
    empty = call("recover", str(tmp_path / "taken"), str(tmp_path / "r"), "--actor", "ada")
    assert empty.exit_code == 6
    assert empty.stderr.endswith("has no data.mdb: there is nothing to recover\n")


def test_where_nothing_can_be_believed_nothing_is_made(call: Call, store: Path, tmp_path: Path) -> None:
    (store / "data.mdb").write_bytes(bytes(8 * PAGE))
    result = call("recover", str(store), str(tmp_path / "r"), "--actor", "ada")
    assert result.exit_code == 3 and not (tmp_path / "r").exists()


def test_the_bytes_are_told_by_table_and_by_tenant(call: Call) -> None:
    text = call("du").stdout
    assert "journal" in text and "acme" in text and "(the store itself)" in text and "free pages" in text
    told: dict[str, Any] = json.loads(call("du", "-o", "json").stdout)
    assert sum(table["rows"] for table in told["tables"]) == told["rows"]
    assert sum(tenant["rows"] for tenant in told["tenants"]) == told["rows"]
    pages = told["pages"] - told["free_pages"]
    assert told["overhead_bytes"] == pages * told["page_bytes"] - told["key_bytes"] - told["value_bytes"] > 0
    one = call("--tenant", "acme", "du").stdout
    assert one.startswith("TABLE of acme") and "cases" not in one
    assert call("--tenant", "nobody", "du").exit_code == 4


@pytest.mark.parametrize("size", [0, 100])
def test_an_empty_data_file_is_said_to_be_empty(call: Call, store: Path, tmp_path: Path, size: int) -> None:
    os.truncate(store / "data.mdb", size)
    result = call("recover", str(store), str(tmp_path / "r"), "--actor", "ada")
    assert result.exit_code == 6
    assert result.stderr == f"sealbook: {store / 'data.mdb'} is empty: nothing can be recovered\n"
    assert not (tmp_path / "r").exists()


def test_a_store_that_cannot_be_read_is_told_of_with_what_salvages_it(call: Call, store: Path, tmp_path: Path) -> None:
    data = (store / "data.mdb").read_bytes()
    (store / "data.mdb").write_bytes(bytes(8192) + data[8192:])
    assert "`sealbook recover SRC DST`" in call("show").stderr
    (store / "data.mdb").write_bytes(data[: 3 * 4096])
    assert "`sealbook recover SRC DST`" in call("show").stderr
    (store / "data.mdb").write_bytes(data)
    (store / "SEALBOOK").unlink()
    assert "`sealbook recover SRC DST`" in call("show").stderr
    (store / "data.mdb").unlink()
    assert "recover" not in call("show").stderr
