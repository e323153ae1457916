"""`verify` says what it means, how much it checked, what it found and what it could not check."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sealbook.cli.commands.verify import MEANING
from sealbook.journal import Journal, entries, tables
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.lmdb import LmdbEngine
from sealbook.journal.engine.port import Place, Writes
from sealbook.journal.record import IdentityUpcaster

Call = Callable[..., Result]


def change(store: Path, place: Place, value: bytes | None) -> None:
    """Write past every rule, straight into the table."""
    engine = LmdbEngine.open(store, readonly=False, clock=system_clock)
    writes = Writes(deletes={place}) if value is None else Writes({place: value})
    engine.write(lambda snapshot, moment: (writes, None))
    engine.close()


def value(store: Path, place: Place) -> bytes:
    engine = LmdbEngine.open(store, readonly=True, clock=system_clock)
    with engine.snapshot() as snapshot:
        [found] = snapshot.get_many([place])
    engine.close()
    assert found is not None
    return found


def record_place(run: str, seq: int, tenant: str = "default") -> Place:
    return tables.JOURNAL, tables.record_key(tenant, run, seq)


def flip(store: Path, place: Place, at: int = -1) -> None:
    """Change one byte of the row."""
    changed = bytearray(value(store, place))
    changed[at] ^= 1
    change(store, place, bytes(changed))


def report(result: Result, code: int) -> dict[str, Any]:
    assert result.exit_code == code, result.stderr
    [line] = result.stdout.splitlines()
    answer: dict[str, Any] = json.loads(line)
    return answer


def test_a_whole_store_is_consistent_and_the_first_line_says_what_that_means(call: Call) -> None:
    result = call("verify")
    assert result.exit_code == 0
    first, second, *others = result.stdout.splitlines()
    assert first == MEANING
    assert second.startswith("checked: 2 tenants, 8 runs, 16 records, ")
    assert "2 leaves" in second
    assert others
    assert all(line.startswith("not checked: ") for line in others)


def test_strict_fails_because_no_store_can_show_everything(call: Call) -> None:
    assert call("verify", "--strict").exit_code == 1


def test_the_report_as_json(call: Call) -> None:
    answer = report(call("verify", "-o", "json"), 0)
    assert list(answer) == ["consistent", "meaning", "checked", "findings", "findings_more", "not_checked"]
    assert answer["consistent"] is True
    assert set(answer["checked"]) == {
        *("tenants", "runs", "records", "bytes", "leaves", "effects", "index_rows", "signatures"),
    }
    assert answer["findings"] == []


def test_a_changed_byte_of_a_record_is_located(store: Path, call: Call) -> None:
    flip(store, record_place("order-42", 3), at=-20)
    result = call("verify")
    assert result.exit_code == 3
    assert result.stdout.startswith("NOT consistent: ")
    assert "tenant default, run order-42, record 3" in result.stdout
    findings = report(call("verify", "-o", "json"), 3)["findings"]
    assert ("default", "order-42", 3) in [(found["tenant"], found["run"], found["seq"]) for found in findings]


def test_a_changed_row_is_located_by_its_table_and_key(store: Path, call: Call) -> None:
    place = (tables.EFFECTS, tables.effect_key("default", "order-42", bytes(32)))
    change(store, place, b"surplus")
    result = call("verify")
    assert result.exit_code == 3
    [line] = [line for line in result.stdout.splitlines() if "table effects" in line]
    assert "default/order-42/" in line
    assert place[1].hex() in line
    [found] = report(call("verify", "-o", "json"), 3)["findings"]
    assert (found["table"], found["key"]) == (place[0], place[1].hex())


def test_a_run_is_verified_by_name(store: Path, call: Call) -> None:
    flip(store, record_place("order-42", 3), at=-20)
    assert call("verify", "order-43", "order-45").exit_code == 0
    assert call("verify", "order-43", "order-42").exit_code == 3
    assert call("verify", "nobody").exit_code == 4
    assert call("verify", "x" * 200).exit_code == 5


def test_a_tenant_that_is_named_is_the_only_one_told_of(store: Path, call: Call) -> None:
    flip(store, record_place("order-42", 3), at=-20)
    elsewhere = call("--tenant", "acme", "verify")
    assert elsewhere.exit_code == 0
    assert "findings of other tenants are not told" in elsewhere.stderr
    assert call("--tenant", "default", "verify").exit_code == 3
    assert call("--tenant", "nobody", "verify").exit_code == 4
    assert call("verify", env={"SEALBOOK_TENANT": "acme"}).exit_code == 3


def test_a_tenant_whose_own_row_is_gone_is_damage_and_no_unknown_tenant(store: Path, call: Call) -> None:
    change(store, (tables.TENANTS, b"acme"), None)
    result = call("--tenant", "acme", "verify")
    assert result.exit_code == 3
    assert "tenant acme" in result.stdout


def test_a_record_of_a_newer_version_is_no_tampering(store: Path, call: Call) -> None:
    class Newer(IdentityUpcaster):
        def current_version(self, kind: str) -> int:
            return 2 if kind == "Invented" else 1

    with Journal.open(store, upcaster=Newer()) as journal:
        journal.tenant().append("order-42", [entries.entry("Invented")], epoch=1)
    answer = report(call("verify", "-o", "json"), 1)
    assert answer["consistent"] is True
    assert [(found["run"], found["seq"], found["newer"]) for found in answer["findings"]] == [("order-42", 6, True)]
    assert "newer: tenant default, run order-42, record 6" in call("verify").stdout
    shown = call("show", "--run", "order-42")
    assert (shown.exit_code, shown.stderr.count("\n")) == (1, 1)


def test_a_damaged_record_stops_a_reader_with_its_place(store: Path, call: Call) -> None:
    flip(store, record_place("order-42", 3), at=-20)
    for args in (("show",), ("run", "order-42")):
        result = call(*args)
        assert result.exit_code == 3
        assert "order-42 record 3" in result.stderr
        assert "`sealbook verify`" in result.stderr
        assert result.stderr.count("\n") == 1


def test_names_in_findings_cannot_move_the_terminal(store: Path, call: Call) -> None:
    change(store, (tables.EFFECTS, b"default\0\x1b[2J\xe2\x80\xae\0" + bytes(32)), b"x")
    result = call("verify")
    assert result.exit_code == 3
    assert all(line.isprintable() for line in result.stdout.splitlines())


def test_a_store_whose_data_is_gone_is_damage(store: Path, call: Call) -> None:
    (store / "data.mdb").unlink()
    result = call("verify")
    assert result.exit_code == 3
    assert result.stderr.count("\n") == 1


def test_two_stores_mixed_up_are_damage(store: Path, call: Call, tmp_path: Path) -> None:
    Journal.open(tmp_path / "other", create=True).close()
    shutil.copy(tmp_path / "other" / "SEALBOOK", store / "SEALBOOK")
    assert call("verify").exit_code == 3


@pytest.mark.parametrize("color", ["always", "never"])
def test_findings_are_red(store: Path, call: Call, color: str) -> None:
    flip(store, record_place("order-42", 3), at=-20)
    assert ("\x1b[31m" in call("--color", color, "verify").stdout) is (color == "always")
