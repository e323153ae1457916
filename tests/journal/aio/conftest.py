"""A store for each engine, and each event loop to use it from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from event_loops import LOOPS, HeldWriter, Loop

from sealbook.journal import Journal


@pytest.fixture(params=LOOPS, ids=lambda loop: loop.name)
def loop(request: pytest.FixtureRequest) -> Loop:
    loop: Loop = request.param
    return loop


@pytest.fixture(params=["memory", "lmdb"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "memory":
        opened = Journal.in_memory()
    else:
        opened = Journal.open(tmp_path / "agents.sealbook", create=True)
    with opened:
        yield opened


@pytest.fixture
def held(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldWriter]:
    writer = HeldWriter(journal, monkeypatch)
    yield writer
    writer.drain()
