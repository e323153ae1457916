"""A log with its keys, in memory but for the keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from publishing_world import BASE, World

from sealbook.journal import Journal


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A log of three leaves."""
    with Journal.in_memory(origin=BASE) as journal:
        found = World(tmp_path, journal)
        found.grow(3)
        yield found
