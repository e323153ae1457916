"""Two logs, a fork of one of them, and a witness for both that is served."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from witness_world import NAME, WITNESS, GrowingLog, Running, served

from sealbook.cli.witnessing.cosigner import Cosigner
from sealbook.cli.witnessing.loglist import LogFile
from sealbook.cli.witnessing.state import StateStore
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Engine
from sealbook.journal.testing import ManualClock
from sealbook.merkle.checkpoint import Checkpoint


@pytest.fixture(scope="session")
def log() -> GrowingLog:
    return GrowingLog()


@pytest.fixture(scope="session")
def fork() -> GrowingLog:
    return GrowingLog(forked=True)


@pytest.fixture(scope="session")
def other() -> GrowingLog:
    return GrowingLog("other.example/log", seed=2)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


Serve = Callable[..., Running]


@pytest.fixture
def serve(tmp_path: Path, clock: ManualClock, log: GrowingLog, other: GrowingLog) -> Iterator[Serve]:
    """Serve a witness for both logs; whatever is not given is as in most tests."""
    pytest.importorskip("starlette", reason="the extra `serve` is not installed")
    pytest.importorskip("hypercorn", reason="the extra `serve` is not installed")
    running: list[Running] = []
    with ExitStack() as stack:

        def start(
            engine: Engine | None = None,
            *,
            cosigner: Cosigner | None = None,
            listed: str | None = None,
            initial: Sequence[Checkpoint] = (),
            **limits: float,
        ) -> Running:
            cosigner = cosigner or Cosigner(NAME, (WITNESS,))
            state = StateStore(engine or MemoryEngine(clock=clock), cosigner)
            path = tmp_path / "logs.txt"
            path.write_text("logs/v0\n" + (log.entry() + other.entry() if listed is None else listed))
            port = stack.enter_context(served(state, LogFile(path, cosigner.signers, initial=initial), clock, **limits))
            running.append(Running(port, path, state))
            return running[-1]

        yield start
        for each in running:
            each.close()
