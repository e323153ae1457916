"""Fixtures that every test may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of published vectors and recorded runs: $SEALBOOK_SHARED, or `shared` beside the repository."""
    folder = Path(os.environ.get("SEALBOOK_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    if not folder.is_dir():
        pytest.skip(f"no shared folder at {folder}: set SEALBOOK_SHARED")
    return folder


@pytest.fixture(autouse=True)
def _logging_as_it_comes() -> Iterator[None]:
    """No test leaves a configured structlog behind, which would print what the library says in later ones."""
    yield
    if (structlog := sys.modules.get("structlog")) is not None:
        structlog.reset_defaults()
