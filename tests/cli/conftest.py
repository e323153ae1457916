"""A store with a little of everything, and ways to run the program on it: in this process, or as a process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sealbook.cli.main import cli
from sealbook.journal import EffectKey, Journal, Moment, entries

START_MS = 1_795_939_200_000  # 2026-11-29T08:00:00Z
RESERVE, CHARGE = EffectKey("order-42", "reserve"), EffectKey("order-42", "charge")
YEAR_S = 365 * 86_400.0


@dataclass
class Steps:
    """A clock that goes on by one second each time it is asked, on a boot of its own."""

    at: int = START_MS

    def __call__(self) -> Moment:
        self.at += 1000
        return Moment(wall_ms=self.at, boot_ms=self.at - START_MS, boot_id=bytes(15) + b"\1")


def fill(folder: Path) -> None:
    """Runs order-42 (an effect in doubt), 43 (waits), 44 (concluded), 45 (sealed), 46 (failed), 47 (leased); acme."""
    with Journal.open(folder, create=True, clock=Steps()) as journal:
        tenant = journal.tenant()
        append = tenant.append
        first = [
            entries.admitted(source="shop", id="42", case="case-7"),
            entries.effect_started(RESERVE, name="reserve", args={"items": 1}),
            entries.effect_done(RESERVE, result="ok"),
            entries.effect_started(CHARGE, name="charge", args={"cents": 1200}),
        ]
        append("order-42", first, epoch=1)
        append("order-43", [entries.admitted(source="shop", id="43")], epoch=1)
        waits = entries.suspended(until="2030-01-01T00:00:00.000001Z", awaiting={"approval": "ada"})
        append("order-43", [waits], epoch=1)
        append("order-44", [entries.admitted(source="mail", id="44"), entries.concluded("completed")], epoch=1)
        last = [entries.admitted(source="shop", id="45", case="case-7"), entries.concluded("completed")]
        append("order-45", last, epoch=1, seal=True)
        append("order-46", [entries.admitted(source="shop", id="46"), entries.concluded("failed")], epoch=1)
        lease = tenant.acquire("order-47", owner="worker-1", ttl=9 * YEAR_S)
        append("order-47", [entries.admitted(source="shop", id="47")], lease=lease)
        append("order-42", [entries.note("still unclear", case="case-7")], epoch=1)
        tenant.request_cancel("order-43", actor="ada", reason="the customer called")
        journal.tenant("acme").append("a", [entries.admitted()], epoch=1)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled") / "s"
    fill(folder)
    return folder


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    """A copy of the filled store, to do with as the test pleases."""
    return Path(shutil.copytree(filled, tmp_path / "agents.sealbook"))


Call = Callable[..., Result]


def on(store: Path, args: Sequence[str | bytes]) -> list[str]:
    """The options that name the store, unless the arguments name one."""
    return [] if "-D" in args else ["-D", str(store)]


@pytest.fixture
def call(store: Path) -> Call:
    """Run the program in this process on the store."""

    def run(*args: str, input: str | bytes | None = None, env: dict[str, str] | None = None) -> Result:
        words = [*on(store, args), *args]
        result = CliRunner().invoke(cli, words, input=input, env=env, prog_name="sealbook")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


Program = Callable[..., "subprocess.CompletedProcess[str]"]


def environment(**more: str) -> dict[str, str]:
    """The environment without what would change what the program does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SEALBOOK_")}
    for name in ("NO_COLOR", "FORCE_COLOR", "PAGER", "JOURNAL_PAGER"):
        kept.pop(name, None)
    return kept | more


@pytest.fixture
def program(store: Path) -> Program:
    """Run the program as a process of its own on the store."""

    def run(*args: str | bytes, env: dict[str, str] | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "sealbook.cli", *on(store, args), *args]
        more.setdefault("capture_output", "stdout" not in more)
        return subprocess.run(command, text=True, env=environment(**(env or {})), timeout=300, check=False, **more)

    return run
