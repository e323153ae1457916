"""`runs`, `effects` and `info` say where things stand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sealbook.journal import EffectKey, Journal, Moment, entries

Call = Callable[..., Result]

RUN_MEMBERS = {
    *("tenant", "run", "case", "source", "records", "arrival", "outcome", "waiting_until", "updated_at", "epoch"),
    *("owner", "sealed", "log_index", "effects"),
}


def objects(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def names(call: Call, *args: str) -> list[str]:
    return [run["run"] for run in objects(call("runs", "-o", "json", *args))]


def test_every_run_is_listed_by_name_without_the_stores_own(call: Call) -> None:
    assert names(call) == [f"order-{number}" for number in range(42, 48)]
    assert names(call, "--all")[-1] == "~tenant"


def test_there_is_no_default_limit(store: Path, call: Call) -> None:
    with Journal.open(store) as journal:
        tenant = journal.tenant("many")
        for number in range(150):
            tenant.append(f"r{number:03}", [entries.note()], epoch=1)
    assert len(names(lambda *args: call("--tenant", "many", *args))) == 150
    assert len(names(lambda *args: call("--tenant", "many", *args), "--limit", "120")) == 120
    assert names(lambda *args: call("--tenant", "many", *args), "--recent")[0] == "r149"


def test_a_run_has_its_members_with_their_types(call: Call) -> None:
    by_name = {run["run"]: run for run in objects(call("runs", "-o", "json"))}
    assert all(run.keys() >= RUN_MEMBERS for run in by_name.values())
    doubtful, waits, sealed = by_name["order-42"], by_name["order-43"], by_name["order-45"]
    assert doubtful["effects"] == {"started": 2, "done": 1, "failed": 0, "in_doubt": 1}
    assert (doubtful["case"], doubtful["source"], doubtful["records"], doubtful["arrival"]) == ("case-7", "shop", 5, 14)
    assert (doubtful["owner"], doubtful["sealed"], doubtful["log_index"], doubtful["outcome"]) == (
        None,
        False,
        None,
        None,
    )
    assert waits["waiting_until"] == "2030-01-01T00:00:00.000001Z"
    assert doubtful["waiting_until"] is None
    assert (sealed["sealed"], sealed["log_index"], sealed["outcome"]) == (True, 0, "completed")
    assert by_name["order-47"]["owner"] == "worker-1"
    assert doubtful["updated_at"].endswith("Z")


def test_filters_name_the_runs_that_they_say(call: Call) -> None:
    assert names(call, "--outcome", "completed") == ["order-45", "order-44"]
    assert names(call, "--outcome", "failed") == ["order-46"]
    assert names(call, "--source", "mail") == ["order-44"]
    assert names(call, "--waiting") == ["order-43"]
    assert names(call, "--case", "case-7") == ["order-42", "order-45"]
    assert names(call, "--source", "shop", "--outcome", "failed", "--recent") == ["order-46"]
    assert names(call, "--recent", "--limit", "1") == ["order-42"]
    assert names(call, "--abandoned") == []
    assert names(call, "--outcome", "unheard-of") == []


def test_an_expired_lease_makes_its_run_abandoned(store: Path, call: Call) -> None:
    long_ago = Moment(wall_ms=1_000_000, boot_ms=1_000_000, boot_id=b"another boot 000")
    with Journal.open(store, clock=lambda: long_ago) as journal:
        lease = journal.tenant().acquire("order-43", owner="gone", ttl=1)
        journal.tenant().append("order-43", [entries.note()], lease=lease)
    assert names(call, "--abandoned") == ["order-43"]


def test_the_table_has_headings_and_says_how_each_run_stands(call: Call) -> None:
    heading, *rows = call("runs").stdout.splitlines()
    assert heading.split() == ["RUN", "RECORDS", "STANDING", "EFFECTS", "EPOCH", "OWNER", "UPDATED", "CASE"]
    standing = heading.index("STANDING")
    words = [row[standing:].split("  ")[0] for row in rows]
    assert words == [
        "open",
        "waiting until 2030-01-01T00:00:00.000001Z",
        "completed",
        "completed, sealed",
        "failed",
        "open",
    ]
    assert "2: 1 in doubt" in rows[0]


def test_effects_are_listed_by_run_and_start(call: Call) -> None:
    effects = objects(call("effects", "-o", "json"))
    assert [(effect["run"], effect["name"], effect["status"], effect["in_doubt"]) for effect in effects] == [
        ("order-42", "reserve", "done", False),
        ("order-42", "charge", "started", True),
    ]
    assert effects[1] == {
        "tenant": "default",
        "run": "order-42",
        "effect": EffectKey("order-42", "charge").hex(),
        "name": "charge",
        "attempt": 1,
        "recovery": "ask",
        "status": "started",
        "in_doubt": True,
        "start_seq": 4,
        "end_seq": None,
    }
    assert objects(call("effects", "order-42", "-o", "json")) == effects
    assert objects(call("effects", "--in-doubt", "-o", "json")) == effects[1:]
    assert objects(call("effects", "order-43", "-o", "json")) == []
    assert call("effects", "nobody").exit_code == 4
    assert "in doubt" in call("effects").stdout


def test_info_says_what_the_store_is(call: Call) -> None:
    [info] = objects(call("info", "-o", "json"))
    assert info["tenant_names"] == ["acme", "default"]
    assert info["records"] == 16
    assert info["bytes"] > 0
    [names] = [line for line in call("info").stdout.splitlines() if line.startswith("tenant names ")]
    assert names.endswith("  acme, default")


def test_reindex_builds_the_rows_again(call: Call) -> None:
    before = objects(call("runs", "-o", "json"))
    assert call("reindex").exit_code == 0
    assert objects(call("reindex", "-o", "json"))[0]["rows"] > 0
    assert objects(call("runs", "-o", "json")) == before


@pytest.mark.parametrize("verb", ["runs", "show", "effects", "info", "verify", "reindex"])
def test_a_verb_needs_a_store(tmp_path: Path, call: Call, verb: str) -> None:
    result = call("-D", str(tmp_path / "none"), verb)
    assert result.exit_code == 6
    assert result.stderr.endswith("run `sealbook init`, or name another folder with -D\n")
    assert not (tmp_path / "none").exists()


def test_init_creates_a_store_once(tmp_path: Path, call: Call) -> None:
    folder = str(tmp_path / "new")
    assert call("-D", folder, "init").stdout == f"{folder}: created\n"
    again = call("-D", folder, "init")
    assert (again.exit_code, again.stdout) == (0, f"{folder}: is a store already\n")
    assert call("-D", folder, "-q", "init").stdout == ""
    assert call("-D", folder, "runs").stdout == ""


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, call: Call) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "love.txt").write_text("dear")
    for verb in ("init", "runs"):
        result = call("-D", str(tmp_path / "letters"), verb)
        assert result.exit_code == 6
        assert result.stderr.count("\n") == 1


def test_a_store_of_a_newer_format_is_no_damage(store: Path, call: Call) -> None:
    identity = store / "SEALBOOK"
    identity.write_bytes(identity.read_bytes().replace(b"sealbook 1\n", b"sealbook 9\n", 1))
    for verb in ("runs", "verify"):
        result = call(verb)
        assert result.exit_code == 6
        assert "newer build" in result.stderr
        assert result.stderr.count("\n") == 1


def test_runs_in_doubt_and_runs_since_an_instant(call: Call) -> None:
    assert names(call, "--in-doubt") == ["order-42"]
    assert names(call, "--since", "2026-11-29T08:00:08Z") == ["order-42", "order-47"]
    assert names(call, "--since", "2026-11-29 08:00:08", "--source", "shop", "--in-doubt") == ["order-42"]
    assert names(call, "--since", "2027-01-01") == []
    assert call("runs", "--since", "whenever").exit_code == 2


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("name", ["order-42", "order-43", "order-44", "order-45", "order-46", "order-47"]),
        ("recent", ["order-42", "order-47", "order-46", "order-45", "order-44", "order-43"]),
        ("admitted", ["order-42", "order-43", "order-44", "order-45", "order-46", "order-47"]),
        ("records", ["order-47", "order-43", "order-44", "order-45", "order-46", "order-42"]),
        ("in-doubt", ["order-43", "order-44", "order-45", "order-46", "order-47", "order-42"]),
    ],
)
def test_runs_are_sorted_as_is_asked_and_the_other_way_round(call: Call, sort: str, expected: list[str]) -> None:
    assert names(call, "--sort", sort) == expected
    assert names(call, "--sort", sort, "--limit", "2") == expected[:2]
    reverse = names(call, "--sort", sort, "--reverse")
    assert reverse[:1] == expected[-1:] or sort == "records"
    assert sorted(reverse) == sorted(expected)
    assert names(call, "--sort", sort, "--reverse", "--limit", "3") == reverse[:3]


def test_a_filter_keeps_its_own_order_until_another_is_asked_for(call: Call) -> None:
    assert names(call, "--outcome", "completed") == ["order-45", "order-44"]
    assert names(call, "--outcome", "completed", "--sort", "name") == ["order-44", "order-45"]
    assert names(call, "--source", "shop", "--sort", "records", "--limit", "1") == ["order-47"]
    assert call("runs", "--recent", "--sort", "name").exit_code == 2


def test_effects_that_failed_and_effects_by_name(store: Path, call: Call) -> None:
    keys = [EffectKey("order-43", name) for name in ("charge", "charge-tip", "ship")]
    with Journal.open(store) as journal:
        for key, name in zip(keys, ("charge", "charge-tip", "ship"), strict=True):
            journal.tenant().append("order-43", [entries.effect_started(key, name=name)], epoch=1)
        journal.tenant().append("order-43", [entries.effect_failed(keys[1])], epoch=1)
        journal.tenant().append("order-43", [entries.effect_reconciled(keys[2], disposition="did-not-happen")], epoch=1)

    def listed(*args: str) -> list[str]:
        return [effect["name"] for effect in objects(call("effects", *args, "-o", "json"))]

    assert listed("--failed") == ["charge-tip", "ship"]
    assert listed("--failed", "--in-doubt", "order-43") == ["charge", "charge-tip", "ship"]
    assert listed("--name", "charge*") == ["charge", "charge", "charge-tip"]
    assert listed("--name", "charge", "--name", "reserve", "order-42") == ["reserve", "charge"]
    assert listed("--name", "nothing") == []
