"""A burst is all its appends, and nothing but them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.callers import (
    Burst,
    Shares,
    Supply,
    appending,
    appending_from_tasks,
    by_tasks,
    by_threads,
    runs_needed,
)
from benchmarks.stores import lease
from benchmarks.workload import RUN_RECORDS, TENANT, run_name
from sealbook.journal import Journal

CALLERS = 5
RUNS = range(CALLERS * 2)


def of_threads(journal: Journal, shares: Shares) -> Burst:
    return by_threads(appending(journal.tenant(TENANT)), shares)


def of_tasks(journal: Journal, shares: Shares) -> Burst:
    return by_tasks(appending_from_tasks(journal), shares)


@pytest.mark.parametrize("burst", [of_threads, of_tasks])
def test_a_burst_appends_every_entry_of_every_caller(burst: Callable[[Journal, Shares], Burst]) -> None:
    with Journal.in_memory() as journal:
        tenant = journal.tenant(TENANT)
        lease(tenant, RUNS)
        supply = Supply(RUNS, CALLERS)
        found = [burst(journal, supply.take(each)) for each in (3, RUN_RECORDS)]
        counts = [tenant.head(run_name(number)).seq for number in RUNS]
    assert [one.appends for one in found] == [len(one.each) for one in found] == [3 * CALLERS, RUN_RECORDS * CALLERS]
    assert counts == [RUN_RECORDS] * CALLERS + [3] * CALLERS


def test_a_caller_that_fails_makes_no_burst() -> None:
    def fail(step: object) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        by_threads(fail, Supply(RUNS, CALLERS).take(1))


def test_too_few_runs_are_refused_before_anything_is_timed() -> None:
    supply = Supply(RUNS, CALLERS)
    with pytest.raises(AssertionError, match="too few runs"):
        supply.take(2 * RUN_RECORDS + 1)


def test_the_runs_that_are_set_aside_are_enough() -> None:
    needed = runs_needed(CALLERS, RUN_RECORDS + 1)
    assert [len(share) for share in Supply(range(needed), CALLERS).take(RUN_RECORDS + 1)] == [51] * CALLERS
