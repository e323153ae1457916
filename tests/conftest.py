"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of published vectors and recorded runs: $SEALBOOK_SHARED, or `shared` beside the repository."""
    folder = Path(os.environ.get("SEALBOOK_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    if not folder.is_dir():
        pytest.skip(f"no shared folder at {folder}: set SEALBOOK_SHARED")
    return folder
