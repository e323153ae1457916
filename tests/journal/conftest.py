"""A store in memory, its engine and its clock, for the tests of the journal's rules."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest

from sealbook.journal import Journal, Tenant
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(clock: ManualClock) -> MemoryEngine:
    return MemoryEngine(clock=clock, call_work_twice=True)


@pytest.fixture
def journal(engine: MemoryEngine, clock: ManualClock) -> Journal:
    return Journal.over(engine, clock=clock)


@pytest.fixture
def acme(journal: Journal) -> Tenant:
    return journal.tenant("acme")


Heard = list[MutableMapping[str, Any]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """The events that a host hears that has configured structlog: their members, `event` and `log_level`."""
    import structlog.testing

    with structlog.testing.capture_logs() as events:
        yield events
