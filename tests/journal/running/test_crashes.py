"""A run that dies at any point, twice even, and is executed again: nothing is lost, nothing done on a guess."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from crash_world import World, body, check, finish, human

from sealbook.journal import InDoubt, Journal, LeasedRun, Tenant
from sealbook.journal.running.needs import Need, Pause

SEED = 20261129
PAIRS = 60


class Crash(BaseException):
    """The process is gone."""


class Mortal(LeasedRun):
    """A leased run that dies before or after the nth thing that it has done for it."""

    def __init__(self, *args: Any, dies_at: int | None, after: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.done = 0
        self._dies_at = dies_at
        self._after = after

    def _perform(self, need: Need) -> Any:
        if isinstance(need, Pause):
            return super()._perform(need)
        self.done += 1
        if self.done == self._dies_at and not self._after:
            raise Crash
        answer = super()._perform(need)
        if self.done == self._dies_at:
            raise Crash
        return answer


def execute(acme: Tenant, world: World, dies_at: int | None, after: bool) -> int:
    """Execute the run once, which dies there, or is in doubt; how much was done for it."""
    run = Mortal(acme, "r", owner="w", dies_at=dies_at, after=after)
    with suppress(Crash, InDoubt), run:
        body(run, world)
    return run.done


def live_through(journal: Journal, *deaths: tuple[int, bool]) -> None:
    """Execute the run, dying at these points, until it is sealed; and see that the world and the records agree."""
    acme, world = journal.tenant("acme"), World()
    for death in deaths:
        execute(acme, world, *death)
        human(acme, world)
    finish(acme, world)
    check(journal, world, len(deaths))


def points() -> list[tuple[int, bool]]:
    """Every point at which an execution may die."""
    done = execute(Journal.in_memory().tenant("acme"), World(), None, False)
    assert done > 15
    return [(number, after) for number in range(1, done + 1) for after in (False, True)]


@pytest.mark.parametrize("death", points(), ids=lambda death: f"{'after' if death[1] else 'before'}-{death[0]}")
def test_a_run_that_dies_anywhere_comes_to_the_same_end(journal: Journal, death: tuple[int, bool]) -> None:
    live_through(journal, death)


def test_a_run_that_dies_again_while_it_recovers_comes_to_the_same_end() -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    every = points()
    for _ in range(PAIRS):
        live_through(Journal.in_memory(), chance.choice(every), chance.choice(every))


KILLED = """
import os, signal, sys
from sealbook.journal import Journal
def charge():
    with open("ledger", "a") as ledger:
        ledger.write("charged\\n")
    os.kill(os.getpid(), signal.SIGKILL)
with Journal.open("agents.sealbook", create=True) as journal:
    with journal.tenant("acme").leased("r", owner="w") as run:
        run.effect("think", lambda: "thought")
        run.effect("charge", charge)
"""


def test_a_process_that_is_killed_in_a_call_leaves_its_start_and_calls_it_no_more(tmp_path: Path) -> None:
    died = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    with Journal.open(tmp_path / "agents.sealbook") as journal:
        acme = journal.tenant("acme")
        acme.force_lease("r", actor="ann", reason="killed")
        called: list[int] = []
        with acme.leased("r", owner="w") as run:
            assert run.effect("think", called.append) == "thought"
            with pytest.raises(InDoubt):
                run.effect("charge", called.append)
        assert called == []
        assert journal.check().ok
    assert (tmp_path / "ledger").read_text() == "charged\n"
