"""What an open journal counts."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from project import ROOT

from sealbook.journal import CommitUnknown, Fenced, Journal, StoreFull, Tenant, entries, requests
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Applied, Unknown, Work
from sealbook.journal.testing import ManualClock
from sealbook.journal.writing.statistics import BOUNDS, MILLISECONDS, Histogram, Statistics
from sealbook.journal.writing.writer import ENTRIES_MAX, Ticket


def tickets(count: int, *, asked_at: float = 0.0, texts: int = 1) -> list[Ticket]:
    found = []
    for number in range(count):
        ticket = Ticket("t", requests.append(f"r{number}", [entries.note("x")] * texts, epoch=1), None)
        ticket.asked_at = asked_at
        found.append(ticket)
    return found


def numbers(statistics: Statistics) -> dict[str, Any]:
    return statistics.as_json(queue=0, storage={})


# --- histograms -----------------------------------------------------------------------------------------------------


def test_a_histogram_says_how_many_values_were_at_most_each_bound() -> None:
    histogram = Histogram((1, 2, 4))
    for value in (0, 1, 1.5, 2, 3, 4, 5, 100):
        histogram.add(value)
    assert histogram.as_json() == {"count": 8, "sum": 116.5, "at_most": {"1": 2, "2": 4, "4": 6}}


def test_a_histogram_without_values_is_zero() -> None:
    assert Histogram((1, 2)).as_json() == {"count": 0, "sum": 0.0, "at_most": {"1": 0, "2": 0}}


def test_the_bounds_are_in_order_and_reach_beyond_a_full_batch() -> None:
    for bounds in (BOUNDS, MILLISECONDS):
        assert list(bounds) == sorted(set(bounds))
    assert BOUNDS[-1] >= ENTRIES_MAX


# --- transactions ---------------------------------------------------------------------------------------------------


def test_a_transaction_counts_once_and_its_requests_each() -> None:
    statistics = Statistics()
    assert statistics.committed(tickets(3, texts=2), [None] * 3, 0.0, 0.003, wrote=True) == []
    statistics.committed(tickets(1), [None], 0.0, 0.1, wrote=True)
    found = numbers(statistics)
    assert (found["commits"], found["requests"], found["entries"]) == (2, 4, 7)
    assert found["payload_bytes"] == 7 * len(requests.append("r", [entries.note("x")], epoch=1).entries[0].data)
    assert (found["batch_requests"]["count"], found["batch_requests"]["sum"]) == (2, 4)
    assert (found["batch_requests"]["at_most"]["2"], found["batch_requests"]["at_most"]["4"]) == (1, 2)
    assert found["commit_milliseconds"]["at_most"]["4"] == 1
    assert found["commit_milliseconds"]["sum"] == pytest.approx(103)


def test_waiting_is_from_handing_in_to_the_beginning_of_the_transaction() -> None:
    statistics = Statistics()
    batch = [*tickets(1, asked_at=10.0), *tickets(1, asked_at=10.1)]
    statistics.committed(batch, [None, None], 10.11, 99.0, wrote=True)
    found = numbers(statistics)["waiting_milliseconds"]
    assert (found["count"], found["at_most"]["16"], found["at_most"]["128"]) == (2, 1, 2)
    assert found["sum"] == pytest.approx(120)


def test_refusals_are_counted_by_kind_and_handed_back_and_bring_no_entries() -> None:
    statistics = Statistics()
    batch, fenced = tickets(3), Fenced("r1", 2, 1)
    assert statistics.committed(batch, [None, fenced, None], 0.0, 0.0, wrote=True) == [(batch[1], fenced)]
    found = numbers(statistics)
    assert (found["refusals"], found["requests"], found["entries"]) == ({"Fenced": 1}, 3, 2)


def test_a_transaction_that_wrote_nothing_is_no_commit() -> None:
    statistics = Statistics()
    statistics.committed(tickets(1), [Fenced("r", 2, 1)], 0.0, 0.0, wrote=False)
    found = numbers(statistics)
    assert (found["commits"], found["requests"], found["batch_requests"]["count"]) == (0, 1, 0)
    assert found["commit_milliseconds"]["count"] == 0
    assert found["waiting_milliseconds"]["count"] == 1


# --- of a journal -----------------------------------------------------------------------------------------------------


def test_a_new_journal_has_done_nothing() -> None:
    found = Journal.in_memory().statistics()
    assert (found["commits"], found["requests"], found["queue"], found["refusals"]) == (0, 0, 0, {})


def test_what_was_handed_out_does_not_change_when_the_journal_goes_on(journal: Journal, acme: Tenant) -> None:
    with pytest.raises(Fenced):
        acme.append("r", [entries.note("x")], epoch=9)
    before, again = journal.statistics(), journal.statistics()
    with pytest.raises(Fenced):
        acme.append("r", [entries.note("x")], epoch=9)
    assert before == again
    assert journal.statistics()["refusals"] == {"Fenced": 2}


class Failing(MemoryEngine):
    """An engine whose next writes end as the test says."""

    outcomes: list[Unknown | Exception]

    def write(self, work: Work) -> Any:
        applied: Applied = super().write(work)
        if not (outcomes := getattr(self, "outcomes", [])):
            return applied
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def test_requests_of_a_transaction_that_failed_are_counted_by_what_they_were_told() -> None:
    engine = Failing(clock=ManualClock())
    journal = Journal.over(engine)
    engine.outcomes = [StoreFull("full"), Unknown(OSError("gone"))]
    for error in (StoreFull, CommitUnknown):
        with pytest.raises(error):
            journal.tenant().append("r", [entries.note("x")], epoch=1)
    found = journal.statistics()
    assert found["refusals"] == {"StoreFull": 1, "CommitUnknown": 1}
    assert (found["requests"], found["commits"], found["entries"]) == (2, 0, 0)


class Held(MemoryEngine):
    """An engine whose writes wait until the test lets them go on."""

    def __init__(self) -> None:
        super().__init__(clock=ManualClock())
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def write(self, work: Work) -> Applied:
        self.inside.set()
        assert self.go_on.wait(30)
        return super().write(work)


def test_the_queue_is_what_has_no_answer_yet() -> None:
    engine = Held()
    journal = Journal.over(engine)
    engine.inside.clear()
    engine.go_on.clear()
    thread = threading.Thread(target=lambda: journal.tenant().append("r", [entries.note("x")], epoch=1))
    thread.start()
    assert engine.inside.wait(30)
    assert journal.statistics()["queue"] == 1
    engine.go_on.set()
    thread.join(30)
    assert journal.statistics()["queue"] == 0


def test_the_page_for_operators_has_every_member(journal: Journal) -> None:
    page = (ROOT / "docs" / "logging.md").read_text(encoding="utf-8").partition("## Statistics")[2]
    listed = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", page.partition("## Prometheus")[0], flags=re.MULTILINE)
    assert listed == list(journal.statistics())
