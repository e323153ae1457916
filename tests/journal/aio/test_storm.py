"""Many tasks of several processes in one store, in any weather: kills, takeovers, cancellations, clocks that jump."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import storm
from effort import WHOLE
from storm_judge import Verdict
from storm_process import STORE, WORLD

from sealbook.journal import Journal

SEED = 20261129
SECONDS_SHORT, SECONDS_LONG = 5, 60
PATIENCE_SECONDS = 600  # for which a storm may last, with all that it waits for
# What a short storm must have met, however slow the machine is: it lasts until it has.
MET = {
    "killed": 3,
    "taken over": 5,
    "cancelled": 10,
    "stepped-clock": 10,
    "fresh": 5,
    "told": 100,
    "absent": 5,
    "charge called": 10,
    "doubt": 2,
    "think called again": 2,
    "ship called again": 2,
    "book called": 5,
    "looked and seen": 1,
    "looked and not seen": 1,
}
LONGER = 5  # times as much of everything
WHOLE_ONLY = [pytest.mark.slow, pytest.mark.skipif(not WHOLE, reason="`make check` runs it: SEALBOOK_TEST_WHOLE=1")]


@pytest.mark.parametrize(
    ("seconds", "times"),
    [(SECONDS_SHORT, 1), pytest.param(SECONDS_LONG, LONGER, marks=WHOLE_ONLY)],
    ids=["short", "long"],
)
def test_a_storm_over_one_store_deceives_nobody(tmp_path: Path, seconds: int, times: int) -> None:
    print(f"seed {SEED}")
    Journal.open(tmp_path / STORE, create=True).close()
    (tmp_path / WORLD).mkdir()
    least = {what: count * times for what, count in MET.items()}
    command = [sys.executable, storm.__file__, str(tmp_path), str(seconds), str(SEED), json.dumps(least)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    met = json.loads(done.stdout)
    print(met)
    assert Verdict(tmp_path).faults == []
    assert {what: met.get(what, 0) for what, count in least.items() if met.get(what, 0) < count} == {}
