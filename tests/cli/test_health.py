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

from sealbook.journal import EffectKey, Journal, Moment, entries
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.schema import tables
from sealbook.merkle.note import sign_text

Call = Callable[..., Result]


LEASED = ("--max-lease-ahead", "3650d")  # order-47 has a lease of nine years, of another boot


def measures(call: Call, *args: str, code: int) -> dict[str, dict[str, Any]]:
    before = args[:2] if args[:1] == ("-D",) else ()
    result = call(*before, "health", *args[len(before) :], "-o", "json")
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
    assert call("health", *LEASED).stdout.splitlines()[0] == (
        "WARNING: 1 effect in doubt, the first in run order-42 of tenant default"
    )
    assert measures(call, code=1)["in_doubt"]["state"] == "warning"
    assert measures(call, *LEASED, "--max-in-doubt", "1", code=0)["in_doubt"]["state"] == "ok"
    assert measures(call, "--max-in-doubt", "0", code=2)["in_doubt"]["state"] == "critical"


def test_a_run_is_named_with_its_tenant_in_words_and_in_json(tmp_path: Path, call: Call) -> None:
    store = ("-D", str(tmp_path / "two"))
    started = entries.effect_started(EffectKey("a"), name="a")
    with Journal.open(tmp_path / "two", create=True, clock=at(-3600)) as journal:
        journal.tenant("shop").append("a", [entries.admitted()], epoch=1)
        tenant = journal.tenant("acme")
        lease = tenant.acquire("a", owner="w", ttl=5)
        tenant.append("a", [started, entries.suspended(until="2020-01-01T00:00:00Z")], lease=lease)
    found = measures(call, *store, code=1)
    for name in ("in_doubt", "abandoned", "waiting_age"):
        assert (found[name]["tenant"], found[name]["run"]) == ("acme", "a")
        assert "run a of tenant acme" in found[name]["what"]


def test_an_effect_in_doubt_that_nothing_can_settle_is_told_and_never_critical(tmp_path: Path, call: Call) -> None:
    with Journal.open(tmp_path / "ended", create=True) as journal:
        started = entries.effect_started(EffectKey("a"), name="a")
        journal.tenant().append("a", [started, entries.concluded("completed")], epoch=1, seal=True)
    found = measures(call, "-D", str(tmp_path / "ended"), "--max-in-doubt", "0", code=0)["in_doubt"]
    assert (found["state"], found["value"], found["run"]) == ("ok", 0, None)
    assert "1 more of runs that have ended for good" in found["what"]


def test_the_worst_answer_comes_first_and_decides(store: Path, call: Call) -> None:
    with Journal.open(store, clock=at(-3600)) as journal:
        lease = journal.tenant().acquire("order-46", owner="gone", ttl=5)
        journal.tenant().append("order-46", [entries.note()], lease=lease)
    result = call("health", *LEASED, "--max-abandoned", "0")
    assert result.exit_code == 2
    words = [line.partition(":")[0] for line in result.stdout.splitlines()]
    assert words == ["CRITICAL", "WARNING", "OK", "OK", "OK"]
    assert result.stdout.startswith(
        "CRITICAL: 1 abandoned run, the first in run order-46 of tenant default (at most 0)"
    )
    assert measures(call, "--max-in-doubt", "9", code=1)["abandoned"]["state"] == "warning"


def test_a_run_that_waits_too_long_is_critical_and_one_that_is_overdue_a_warning(store: Path, call: Call) -> None:
    quiet = (*LEASED, "--max-in-doubt", "9")
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
    limits = (*LEASED, "--max-in-doubt", "9", "--max-unwitnessed-age")
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
    assert 3600 <= measures(call, *LEASED, "--max-in-doubt", "9", code=0)["unwitnessed_age"]["value"] < 3700


def test_a_tenant_that_is_named_is_the_only_one_asked_about(call: Call) -> None:
    assert call("--tenant", "acme", "health").exit_code == 0


def on_boot(boot: bytes, seconds: float = 0) -> Callable[[], Moment]:
    """The system's clocks so many seconds on, on a boot of this name or, for none, on this one."""
    now = system_clock()
    ms = int(seconds * 1000)
    return lambda: Moment(now.wall_ms + ms, now.boot_ms + ms, boot or now.boot_id)


def test_45_a_lease_that_closes_its_run_for_long_is_a_warning(tmp_path: Path, call: Call) -> None:
    store = ("-D", str(tmp_path / "leases"))
    with Journal.open(tmp_path / "leases", create=True, clock=on_boot(b"")) as journal:
        journal.tenant().append("r", [entries.note()], epoch=1)
        journal.tenant().acquire("r", owner="w", ttl=3000)
    assert measures(call, *store, code=0)["lease_ahead"]["state"] == "ok"
    with Journal.open(tmp_path / "leases", clock=on_boot(b"")) as journal:
        journal.tenant().acquire("long", owner="w", ttl=7200)
    found = measures(call, *store, code=1)["lease_ahead"]
    assert (found["state"], found["what"].startswith("2 leases held, the longest for 1h 59m")) == ("warning", True)
    assert found["what"].endswith("more: run long of tenant default")
    measures(call, *store, "--max-lease-ahead", "3h", code=0)
    measures(call, *store, "--max-lease-ahead", "1h", code=2)


def test_45_a_lease_that_an_earlier_boot_granted_is_a_warning_however_short(tmp_path: Path, call: Call) -> None:
    with Journal.open(tmp_path / "leases", create=True, clock=on_boot(b"the boot before.", 600)) as journal:
        journal.tenant().append("r", [entries.note()], epoch=1)
        journal.tenant().acquire("r", owner="w", ttl=20)
    store = ("-D", str(tmp_path / "leases"))
    assert "so nobody is left to use it: run r" in measures(call, *store, code=1)["lease_ahead"]["what"]
    assert call(*store, "lease", "force", "r", "--actor", "ada", "--reason", "the clock was set back").exit_code == 0
    assert measures(call, *store, code=0)["lease_ahead"]["value"] is None


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
