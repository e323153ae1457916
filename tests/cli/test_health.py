"""`health` answers a monitoring system: 0 ok, 1 warning, 2 critical, and says why."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from published_log import log_signer, publish
from store_files import change

from sealbook.journal import Journal, Moment, entries, tables
from sealbook.merkle.note import sign_text

Call = Callable[..., Result]


def measures(call: Call, *args: str, code: int) -> dict[str, dict[str, Any]]:
    result = call("health", *args, "-o", "json")
    assert result.exit_code == code, result.output
    return {each["name"]: each for each in json.loads(result.stdout)["measures"]}


def at(seconds: float) -> Callable[[], Moment]:
    """A clock that stands so many seconds from now."""
    wall_ms = time.time_ns() // 1_000_000 + int(seconds * 1000)
    return lambda: Moment(wall_ms=wall_ms, boot_ms=1_000_000, boot_id=b"another boot 000")


def test_a_store_in_which_nothing_is_remarkable_is_ok(tmp_path: Path, call: Call) -> None:
    folder = str(tmp_path / "quiet")
    assert call("-D", folder, "init").exit_code == 0
    result = call("-D", folder, "health")
    assert result.exit_code == 0
    assert all(line.startswith("OK: ") for line in result.stdout.splitlines())


def test_an_effect_in_doubt_is_a_warning_until_a_limit_says_more(call: Call) -> None:
    assert call("health").stdout.splitlines()[0] == "WARNING: 1 effect in doubt, the first in run order-42"
    assert measures(call, code=1)["in_doubt"]["state"] == "warning"
    assert measures(call, "--max-in-doubt", "1", code=0)["in_doubt"]["state"] == "ok"
    assert measures(call, "--max-in-doubt", "0", code=2)["in_doubt"]["state"] == "critical"


def test_the_worst_answer_comes_first_and_decides(store: Path, call: Call) -> None:
    with Journal.open(store, clock=at(-3600)) as journal:
        lease = journal.tenant().acquire("order-46", owner="gone", ttl=5)
        journal.tenant().append("order-46", [entries.note()], lease=lease)
    result = call("health", "--max-abandoned", "0")
    assert result.exit_code == 2
    words = [line.partition(":")[0] for line in result.stdout.splitlines()]
    assert words == ["CRITICAL", "WARNING", "OK", "OK"]
    assert result.stdout.startswith("CRITICAL: 1 abandoned run, the first in run order-46 (at most 0)")
    assert measures(call, "--max-in-doubt", "9", code=1)["abandoned"]["state"] == "warning"


def test_a_run_that_waits_too_long_is_critical_and_one_that_is_overdue_a_warning(store: Path, call: Call) -> None:
    quiet = ("--max-in-doubt", "9")
    assert measures(call, *quiet, "--max-waiting-age", "1s", code=0)["waiting_age"]["value"] is None
    with Journal.open(store, clock=at(-7200)) as journal:
        journal.tenant().append("event", [entries.suspended(awaiting="a call")], epoch=1)
    waits = measures(call, *quiet, code=0)["waiting_age"]
    assert 7200 <= waits["value"] < 7300
    measures(call, *quiet, "--max-waiting-age", "3h", code=0)
    measures(call, *quiet, "--max-waiting-age", "1h", code=2)
    with Journal.open(store, clock=at(-7200)) as journal:
        journal.tenant().append("instant", [entries.suspended(until="2026-01-01T00:00:00Z")], epoch=1)
    assert "1 past their instant" in measures(call, *quiet, code=1)["waiting_age"]["what"]


def test_leaves_that_no_published_checkpoint_covers_have_an_age(store: Path, call: Call) -> None:
    with Journal.open(store) as journal:
        publish(journal.tenant())
    assert measures(call, code=1)["unwitnessed_age"]["value"] is None
    with Journal.open(store, clock=at(-3600)) as journal:
        journal.tenant().append("late", [entries.concluded("completed")], epoch=1, seal=True)
    limits = ("--max-in-doubt", "9", "--max-unwitnessed-age")
    late = measures(call, *limits, "2h", code=0)["unwitnessed_age"]
    assert 3600 <= late["value"] < 3700
    assert late["what"].startswith("1 leaf that no published checkpoint covers, the oldest for 1h")
    measures(call, *limits, "30m", code=2)
    with Journal.open(store) as journal:
        log, signer = journal.tenant(), log_signer("sealbook")
        log.sign_checkpoint(lambda checkpoint, consistent: [sign_text(checkpoint.text(), signer)])
        log.publish_checkpoint(log.checkpoint().size, without_quorum=True)
    assert measures(call, *limits, "30m", code=2)["unwitnessed_age"]["state"] == "critical"


def test_an_anchor_batch_counts_from_its_newest_record(store: Path, call: Call) -> None:
    with Journal.open(store, clock=at(-3600)) as journal:
        publish(journal.tenant())
        journal.tenant().append("batched", [entries.note()], epoch=1)
        journal.tenant().anchor_open()
    assert 3600 <= measures(call, "--max-in-doubt", "9", code=0)["unwitnessed_age"]["value"] < 3700


def test_a_tenant_that_is_named_is_the_only_one_asked_about(call: Call) -> None:
    assert call("--tenant", "acme", "health").exit_code == 0


@pytest.mark.parametrize("limit", ["-1", "x"])
def test_a_limit_that_is_none_is_a_usage_error(call: Call, limit: str) -> None:
    assert call("health", "--max-in-doubt", limit).exit_code == 2


def test_a_store_that_cannot_be_read_is_critical(store: Path, call: Call, tmp_path: Path) -> None:
    missing = call("-D", str(tmp_path / "none"), "health")
    assert (missing.exit_code, missing.stdout.startswith("CRITICAL: no store at")) == (2, True)
    change(store, (tables.STATE, tables.run_key("default", "order-42")), b"damaged")
    damaged = call("health")
    assert (damaged.exit_code, damaged.stdout.count("\n")) == (2, 1)
    assert "order-42" in damaged.stdout


def test_a_tenant_that_is_not_there_is_critical(call: Call) -> None:
    result = call("--tenant", "nosuch", "health")
    assert result.exit_code == 2
    assert "no tenant 'nosuch'" in result.stdout
