"""`run` tells a run's story: epochs, attempts and gaps, waits, how it ended, what attests it; and its family."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from published_log import publish
from store_files import flip

from sealbook.journal import Ed25519Signer, EffectKey, Journal, Moment, entries
from sealbook.journal.schema.tables import LEAVES, number_key

Call = Callable[..., Result]
START_MS = 1_795_939_200_000  # 2026-11-29T08:00:00Z
CHARGE = EffectKey("r", "charge")


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.ms = START_MS

    def __call__(self) -> Moment:
        return Moment(wall_ms=self.ms, boot_ms=self.ms - START_MS, boot_id=bytes(15) + b"\1")

    def passed(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


@pytest.fixture
def told(store: Path, call: Call) -> Callable[..., list[str]]:
    """The lines of `run RUN`."""

    def run(*args: str) -> list[str]:
        result = call("run", *args)
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()

    return run


Told = Callable[..., list[str]]


def restless(store: Path, *, signer: Ed25519Signer | None = None) -> None:
    """A run that is taken over, retries an effect, waits for three days, and ends."""
    clock = Clock()
    with Journal.open(store, clock=clock, signer=signer) as journal:
        tenant = journal.tenant()
        start = entries.effect_started(CHARGE, name="charge", recovery="retry")
        tenant.append("r", [entries.admitted(source="shop", id="r"), start], epoch=1)
        clock.passed(300)
        tenant.append("r", [start], epoch=2)
        clock.passed(1.25)
        tenant.append("r", [entries.effect_failed(CHARGE, error="declined")], epoch=2)
        clock.passed(10)
        tenant.append("r", [start, entries.effect_done(CHARGE)], epoch=2)
        tenant.append("r", [entries.suspended(until="2026-12-01T00:00:00Z")], epoch=2)
        clock.passed(3600)
        tenant.append("r", [entries.note("still waiting")], epoch=2)
        clock.passed(3 * 86_400)
        tenant.append("r", [entries.entry("Approved")], epoch=2)
        tenant.append("r", [entries.concluded("completed")], epoch=2, seal=True)


def test_a_remark_about_an_effect_does_not_end_its_attempt(store: Path, told: Told) -> None:
    with Journal.open(store) as journal:
        made = [entries.effect_started(CHARGE, name="charge"), entries.entry("Note", {"text": "slow"}, effect=CHARGE)]
        journal.tenant().append("r", made, epoch=1)
    [row] = [line for line in told("r") if line.startswith(CHARGE.hex()[:8])]
    assert "in doubt" in row
    assert "1, -" in row
    with Journal.open(store) as journal:
        journal.tenant().append("r", [entries.effect_reconciled(CHARGE, disposition="landed")], epoch=1)
    [row] = [line for line in told("r") if line.startswith(CHARGE.hex()[:8])]
    assert "landed" in row
    assert "1, 3" in row


def test_epochs_and_takeovers_are_told(store: Path, told: Told) -> None:
    restless(store)
    lines = told("r")
    assert "epochs     1 (records 1 to 2), 2 (records 3 to 10): 1 takeover" in lines
    [takeover] = [at for at, line in enumerate(lines) if "epoch 2 takes over from epoch 1" in line]
    assert lines[takeover - 1].endswith("5min without a record")
    assert "  3  EffectStarted" in lines[takeover + 1]


def test_every_attempt_of_an_effect_is_told_with_the_gap_before_it(store: Path, told: Told) -> None:
    restless(store)
    rows = [line.split() for line in told("r") if " charge " in line and " retry " in line]
    assert [row[2:] for row in rows] == [
        ["1", "no", "end", "recorded", "retry", "2,", "-", "-", "-"],
        ["2", "failed", "retry", "3,", "4", "1.250s", "5min"],
        ["3", "done", "retry", "5,", "6", "0s", "10s"],
    ]


def test_a_wait_is_one_line_with_its_length_and_its_instant(store: Path, told: Told) -> None:
    restless(store)
    lines = told("r")
    [wait] = [at for at, line in enumerate(lines) if "waited" in line]
    assert lines[wait].strip() == "~ waited 3d 1h, until 2026-12-01T00:00:00Z"
    assert "Approved" in lines[wait + 1]


def test_how_it_ended_and_what_attests_it_is_told(store: Path, told: Told) -> None:
    restless(store, signer=Ed25519Signer(bytes(32)))
    header = dict(line.split("  ", 1) for line in told("r") if "  " in line and not line.startswith(" "))
    header = {name.strip(): text.strip() for name, text in header.items()}
    assert header["concluded"] == "completed by record 10, 2026-12-02T09:05:11.250Z"
    assert header["leaf"] == "seal of record 10 at log position 2"
    assert header["proof"].startswith("holds, to root ")
    assert header["proof"].endswith("of size 3; no published checkpoint covers it")
    assert header["signed"].startswith("10 of 10 records, by ")
    with Journal.open(store) as journal:
        publish(journal.tenant())
    assert any(line.endswith("of size 3; published up to 3") for line in told("r"))


def test_a_leaf_that_the_log_does_not_hold_ends_the_story_with_an_integrity_failure(store: Path, call: Call) -> None:
    flip(store, (LEAVES, number_key("default", 0)))
    assert call("run", "order-45").exit_code == 3


def test_a_run_in_an_anchor_batch_is_proved_through_it(store: Path, call: Call, told: Told) -> None:
    assert call("anchor", "--open").exit_code == 0
    assert any(line.startswith("leaf       anchor-batch of record 1 at log position") for line in told("order-47"))


def test_a_clock_that_went_back_is_told(store: Path, told: Told) -> None:
    clock = Clock()
    with Journal.open(store, clock=clock) as journal:
        journal.tenant().append("back", [entries.note("x")], epoch=1)
        clock.passed(-5)
        journal.tenant().append("back", [entries.note("y")], epoch=1)
    assert any(line.strip() == "~ the clock went back by 5s" for line in told("back"))


def test_strangers_text_cannot_move_the_terminal(store: Path, told: Told) -> None:
    evil = "\x1b[2J\u202e\r\n"
    with Journal.open(store) as journal:
        key = EffectKey("evil")
        start = entries.entry("EffectStarted", {"name": evil, "args": evil}, effect=key)
        journal.tenant().append("evil", [entries.admitted(parent=evil, data={evil: evil}), start], epoch=1)
    for args in (("evil",), ("evil", "--tree")):
        assert all(line.isprintable() for line in told(*args))


# --- families --------------------------------------------------------------------------------------------------------


def family(store: Path) -> None:
    with Journal.open(store) as journal:
        append = journal.tenant().append
        append("plan", [entries.admitted()], epoch=1)
        append("step-1", [entries.admitted(parent="plan")], epoch=1)
        append("step-2", [entries.admitted(parent="plan"), entries.concluded("completed")], epoch=1)
        append("step-1a", [entries.admitted(parent="step-1")], epoch=1)
        append("retry", [entries.admitted(forked_from={"run": "step-2", "seq": 1})], epoch=1)
        append("orphan", [entries.admitted(parent="long gone")], epoch=1)
        append("egg", [entries.admitted(parent="hen")], epoch=1)
        append("hen", [entries.admitted(parent="egg")], epoch=1)


@pytest.mark.parametrize("run", ["plan", "step-1a", "retry"])
def test_a_family_is_told_from_its_oldest_run_whichever_was_asked_for(store: Path, told: Told, run: str) -> None:
    family(store)
    names = [line.replace("└─", "").split()[0] for line in told(run, "--tree")]
    assert names == ["plan", "step-1", "step-1a", "step-2", "retry"]
    assert told(run, "--tree")[-1].endswith("forked at record 1")


def test_a_parent_that_is_not_there_is_said_to_be_missing(store: Path, told: Told) -> None:
    family(store)
    assert told("orphan", "--tree") == ["long gone  not in this store", "└─ orphan  open  1 record"]


def test_runs_that_name_each_other_in_a_circle_are_told_once(store: Path, told: Told) -> None:
    family(store)
    lines = told("egg", "--tree")
    assert len(lines) == 3
    assert lines[-1].endswith("named again: the records go in a circle")


def test_a_family_as_json_has_one_object_per_run(store: Path, call: Call) -> None:
    family(store)
    members = [json.loads(line) for line in call("run", "step-1", "--tree", "-o", "json").stdout.splitlines()]
    assert [(each["run"], each["depth"], each["came_from"], each["how"]) for each in members] == [
        ("plan", 0, None, None),
        ("step-1", 1, "plan", "child"),
        ("step-1a", 2, "step-1", "child"),
        ("step-2", 1, "plan", "child"),
        ("retry", 2, "step-2", "forked"),
    ]


def test_a_tree_has_no_records_and_needs_a_run(store: Path, call: Call) -> None:
    assert call("run", "order-42", "--tree", "-o", "records").exit_code == 2
    assert call("run", "nobody", "--tree").exit_code == 4
