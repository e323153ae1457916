"""What an operator hears of, what no event carries, and that nobody hears anything who has not asked."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from project import ROOT, sources, tree_of
from tampering import change, record_place

from sealbook.journal import (
    CommitUnknown,
    Corrupt,
    Fenced,
    Journal,
    RunSealed,
    Tenant,
    entries,
    events,
    requests,
)
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Unknown, Work
from sealbook.journal.testing import ManualClock

Heard = Any  # the fixtures' types, see conftest.py


# --- which events there are -----------------------------------------------------------------------------------------


def spoken() -> Iterator[tuple[str, list[str | None]]]:
    """Every `say("name", member=…)` in the sources of the journal: the name, and its members in order."""
    for source in sources("journal"):
        for node in ast.walk(tree_of(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("say", "events.say"):
                [name] = node.args
                assert isinstance(name, ast.Constant), source
                yield str(name.value), [keyword.arg for keyword in node.keywords]


def test_every_event_is_said_somewhere_with_exactly_its_members() -> None:
    said = list(spoken())
    assert {name for name, _ in said} == set(events.EVENTS)
    for name, members in said:
        assert members == list(events.EVENTS[name].members), name


def test_the_page_for_operators_has_every_event_with_its_level_and_members() -> None:
    page = (ROOT / "docs" / "logging.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z_.]+)` \| (\w+) \| ([^|]*) \| ([^|]+) \| ([^|]+) \|$", page, flags=re.MULTILINE)
    listed = {name: (level, re.findall(r"`(\w+)`", members)) for name, level, members, _, _ in rows}
    assert listed == {name: (event.level, list(event.members)) for name, event in events.EVENTS.items()}


def test_every_level_is_one_of_structlogs() -> None:
    logger = structlog.get_logger()
    assert all(hasattr(logger, event.level) for event in events.EVENTS.values())


# --- who hears them -------------------------------------------------------------------------------------------------


def test_whoever_has_not_configured_structlog_hears_nothing_and_does_not_load_it() -> None:
    code = """
import sys
from sealbook.journal import Fenced, Journal, entries
journal = Journal.in_memory()
def refused():
    try:
        journal.tenant().append("r", [entries.note("x")], epoch=9)
    except Fenced:
        return
    raise SystemExit(1)
refused()
assert "structlog" not in sys.modules
import structlog
refused()
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
refused()
"""
    ended = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == ""
    assert ended.stderr.count("run.fenced") == 1


def test_logging_that_fails_changes_nothing(acme: Tenant) -> None:
    def fails(*args: Any) -> Any:
        raise RuntimeError("the disk of the logs is full")

    structlog.configure(processors=[fails])
    with pytest.raises(Fenced):
        acme.append("r", [entries.note("x")], epoch=9)
    assert len(acme.append("r", [entries.note("x")], epoch=1)) == 1


def test_events_go_to_the_logger_of_the_journal() -> None:
    made: list[tuple[Any, ...]] = []

    def factory(*args: Any) -> Any:
        made.append(args)
        return structlog.ReturnLogger()

    structlog.configure(logger_factory=factory)
    events.say("index.rebuilt", rows=1)
    assert made == [("sealbook.journal",)]


# --- the journal's events --------------------------------------------------------------------------------------------


def test_a_fenced_writer_is_heard_of_once_and_other_refusals_are_not(acme: Tenant, heard: Heard) -> None:
    acme.append("r", [entries.admitted(), entries.concluded("completed")], epoch=1, seal=True)
    with pytest.raises(RunSealed):
        acme.append("r", [entries.note("x")], epoch=1)
    with pytest.raises(Fenced):
        acme.append("s", [entries.note("secret")], epoch=9)
    with pytest.raises(Fenced):
        acme.group([requests.append("t", [entries.note("x")], epoch=1), requests.append("s", [], epoch=1), _stale()])
    fenced = {"event": "run.fenced", "log_level": "warning", "tenant": "acme"}
    assert heard == [
        {**fenced, "run": "s", "epoch": 9, "current": 1},
        {**fenced, "run": "s", "epoch": 7, "current": 1},
    ]


def _stale() -> requests.Request:
    return requests.append("s", [entries.note("x")], epoch=7)


def test_a_lease_that_is_taken_over_is_heard_of_once_it_is_durable(
    acme: Tenant, clock: ManualClock, heard: Heard
) -> None:
    acme.acquire("r", owner="dead-worker", ttl=30)
    released = acme.acquire("s", owner="w", ttl=30)
    acme.release(released)
    clock.advance(31)
    with pytest.raises(Fenced):
        acme.group([requests.acquire("r", owner="next", ttl=30), _stale()])
    assert [event["event"] for event in heard] == ["run.fenced"]
    heard.clear()
    acme.acquire("s", owner="next", ttl=30)
    acme.acquire("r", owner="next", ttl=30)
    acme.append("r", [entries.note("x")], epoch=2)
    taken = {"event": "lease.taken_over", "log_level": "warning", "tenant": "acme", "run": "r"}
    assert heard == [{**taken, "epoch_before": 1, "epoch": 2}]


def test_damage_is_heard_of_whoever_meets_it_once(acme: Tenant, engine: MemoryEngine, heard: Heard) -> None:
    acme.append("r", [entries.note("x"), entries.note("y")], epoch=1)
    change(engine, {record_place(engine, "acme", "r", 1): b"rubbish"})
    corrupt = {"event": "store.corrupt", "log_level": "error", "tenant": "acme"}
    for look in (lambda: acme.read("r"), acme.history, acme.follow("r").take):
        heard.clear()
        with pytest.raises(Corrupt):
            look()
        assert [{name: event[name] for name in corrupt} for event in heard] == [corrupt]
    assert heard[0].keys() == {*corrupt, "run", "seq", "table"}


def test_damage_that_a_write_meets_is_heard_of(acme: Tenant, engine: MemoryEngine, heard: Heard) -> None:
    acme.append("r", [entries.note("x")], epoch=1)
    with engine.snapshot() as snapshot:
        [(key, _)] = snapshot.scan("state", b"acme\0", None, 1)
    change(engine, {("state", key): b"rubbish"})
    with pytest.raises(Corrupt):
        acme.append("r", [entries.note("y")], epoch=1)
    assert [(event["event"], event["run"]) for event in heard] == [("store.corrupt", "r")]


def test_a_running_body_that_loses_its_lease_is_heard_of_once(acme: Tenant, heard: Heard) -> None:
    def body() -> None:
        with acme.leased("r", owner="w", ttl=30) as run:
            acme.force_lease("r", actor="ada", reason="looks dead")
            with pytest.raises(Fenced):
                run.note("x")
            run.note("x")

    with pytest.raises(Fenced):
        body()
    [lost] = [event for event in heard if event["event"] == "lease.lost"]
    assert (lost["tenant"], lost["run"], lost["epoch"], lost["current"]) == ("acme", "r", 1, 2)


def test_a_rebuilt_index_is_heard_of(journal: Journal, acme: Tenant, heard: Heard) -> None:
    acme.append("r", [entries.note("x")], epoch=1)
    rows = journal.reindex()
    assert heard == [{"event": "index.rebuilt", "log_level": "info", "rows": rows}]


class Lost(MemoryEngine):
    """An engine whose commits end in nobody knows what."""

    def write(self, work: Work) -> Any:
        applied = super().write(work)
        return applied if self._version == 1 else Unknown(OSError("the power failed"))


def test_a_commit_of_unknown_outcome_is_heard_of(heard: Heard) -> None:
    journal = Journal.over(Lost(clock=ManualClock()))
    with pytest.raises(CommitUnknown):
        journal.tenant().append("r", [entries.note("x")], epoch=1)
    assert heard == [{"event": "commit.unknown", "log_level": "error", "requests": 1}]


def test_no_event_carries_a_payload_an_owner_a_case_or_an_effect(
    acme: Tenant, clock: ManualClock, engine: MemoryEngine, heard: Heard
) -> None:
    secret = "geheim"
    acme.acquire("r", owner=secret, ttl=30)
    clock.advance(31)
    acme.acquire("r", owner=secret * 2, ttl=30)
    with pytest.raises(Fenced):
        acme.append("r", [entries.entry("Thing", {secret: secret}, case=secret)], epoch=1)
    acme.append("r", [entries.admitted(source=secret, id=secret, case=secret)], epoch=2)
    change(engine, {record_place(engine, "acme", "r", 1): secret.encode()})
    with pytest.raises(Corrupt):
        acme.read("r")
    assert len(heard) == 3
    assert secret not in repr(heard)
