"""Stores in children: other processes that write to a store, hold it, or die over it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.lmdb import LmdbEngine
from sealbook.journal.engine.port import Applied, Work, Writes

# What every child begins with. Its arguments are the store's folder, and then the test's own.
PRELUDE = """
import os, signal, sys, threading, time
from sealbook.journal import errors
from sealbook.journal.engine.lmdb import folder as store_folder
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.lmdb import LmdbEngine
from sealbook.journal.engine.port import Applied, Unknown, Writes

path = sys.argv[1]

def opened(readonly=False, **more):
    return LmdbEngine.open(path, readonly=readonly, clock=system_clock, **more)

def created(**more):
    return LmdbEngine.create(path, identity_text=b"who", store_value=b"store", clock=system_clock, **more)

def put(engine, key, value=b"v", table="t"):
    return engine.write(lambda snapshot, moment: (Writes(puts={(table, key): value}), None))

def get(engine, key, table="t"):
    with engine.snapshot() as snapshot:
        return snapshot.get_many([(table, key)])[0]

def say(*words):
    print(*words, flush=True)
"""

Child = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., "subprocess.Popen[str]"]


def _command(folder: Path, code: str, args: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-P", "-c", PRELUDE + code, str(folder), *map(str, args)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the test's store stands."""
    return tmp_path / "agents.sealbook"


@pytest.fixture
def child(folder: Path) -> Child:
    """Run this code in a process of its own over the store; what it printed and how it ended."""

    def run(code: str, *args: object, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            more.pop("prefix", []) + _command(more.pop("at", folder), code, args),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **more,
        )

    return run


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start this code in a process of its own; it is killed at the test's end."""
    running: list[subprocess.Popen[str]] = []

    def begin(code: str, *args: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            _command(folder, code, args), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]


class Store:
    """One store and the engines a test opened on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engines: list[LmdbEngine] = []

    def create(self, **more: Any) -> LmdbEngine:
        return self._kept(
            LmdbEngine.create(self.folder, identity_text=b"who", store_value=b"store", clock=system_clock, **more)
        )

    def open(self, **more: Any) -> LmdbEngine:
        return self._kept(LmdbEngine.open(self.folder, clock=system_clock, **{"readonly": False, **more}))

    def _kept(self, engine: LmdbEngine) -> LmdbEngine:
        self.engines.append(engine)
        return engine

    def put(self, engine: LmdbEngine, key: bytes, value: bytes = b"v", table: str = "t") -> None:
        assert isinstance(engine.write(put_work({(table, key): value})), Applied)

    def get(self, engine: LmdbEngine, key: bytes, table: str = "t") -> bytes | None:
        with engine.snapshot() as snapshot:
            return snapshot.get_many([(table, key)])[0]


def put_work(puts: dict[tuple[str, bytes], bytes]) -> Work:
    return lambda snapshot, moment: (Writes(puts=puts), None)


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    """The store at `folder`, and short ways to use it."""
    made = Store(folder)
    yield made
    for engine in made.engines:
        engine.close()
