"""Fixtures that every test may use."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: at any time somebody waits for a flush."""
    return (os.cpu_count() or 1) + 1


def pytest_configure() -> None:
    """Whoever runs the tests in the background has SIGINT ignored, and so would the programs that they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


STARTS_PROCESSES = ("subprocess", "os.fork", "multiprocessing", "ProcessPoolExecutor")  # as sources name it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `process` what writes to a disk, through a temporary folder, or stands where processes are started."""
    starts: dict[Path, bool] = {}
    for item in items:
        if item.path not in starts:
            source = item.path.read_text(encoding="utf-8")
            starts[item.path] = any(name in source for name in STARTS_PROCESSES)
        fixtures: list[str] = getattr(item, "fixturenames", [])
        if starts[item.path] or not {"tmp_path", "tmp_path_factory"}.isdisjoint(fixtures):
            item.add_marker(pytest.mark.process)


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
