"""A storm: several processes over one store, and one of them is killed again and again.

Usage: `storm.py FOLDER SECONDS SEED LEAST`, where LEAST is JSON: what is to be met, and how often.

The folder has the store already. The storm lasts so many seconds, and longer on a machine that has met less by then
than it must; its last line is what it has met.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Final

import structlog
from storm_log import Log, Tally
from storm_process import LOG, live

from sealbook.journal.engine import lmdb  # noqa: F401 - loaded before anybody is forked

PLACES: Final = 4
KILL_SECONDS: Final = (0.05, 0.6)  # between two of them
PATIENCE_SECONDS: Final = 300  # for which a storm lasts at most that meets too little
LOOKS, LOOK_SECONDS = 1200, 0.1  # at a process that was told to stop


class Storm:
    """The processes and who kills them."""

    def __init__(self, folder: Path, seed: str) -> None:
        self._folder, self._seed = folder, seed
        self._log = Log(folder / LOG)
        self._stop, self._stop_end = os.pipe()
        self._lives = 0
        self._processes = [self._born(place) for place in range(PLACES)]

    def blow(self, seconds: float, least: dict[str, int]) -> dict[str, int]:
        """Kill for so long; what was met."""
        chance = random.Random(self._seed)
        tally = Tally(self._folder / LOG)
        begun = time.monotonic()
        while (lasted := time.monotonic() - begun) < seconds or (
            tally.falls_short_of(least) and lasted < PATIENCE_SECONDS
        ):
            time.sleep(chance.uniform(*KILL_SECONDS))
            place = chance.randrange(PLACES)
            self._kill(place)
            self._log.say("killed", place)
            self._processes[place] = self._born(place)
        self._still()
        tally.falls_short_of(least)
        return dict(tally.met)

    def _born(self, place: int) -> int:
        self._lives += 1
        process = os.fork()
        if process == 0:
            try:
                os.close(self._stop_end)
                live(self._folder, f"{place}.{self._lives}", f"{self._seed}/{place}/{self._lives}", self._stop)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(1)
        return process

    def _kill(self, place: int) -> None:
        process = self._processes[place]
        os.kill(process, signal.SIGKILL)
        self._must_have_ended(os.waitpid(process, 0)[1], -signal.SIGKILL)

    def _still(self) -> None:
        """Tell everybody to stop, and see that they do."""
        os.close(self._stop_end)
        for process in self._processes:
            for _ in range(LOOKS):
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    self._must_have_ended(status, 0)
                    break
                time.sleep(LOOK_SECONDS)
            else:
                os.kill(process, signal.SIGABRT)
                sys.exit(f"process {process} hangs")

    def _must_have_ended(self, status: int, expected: int) -> None:
        if (found := os.waitstatus_to_exitcode(status)) != expected:
            sys.exit(f"a process ended with {found}, not with {expected}")


def main(folder: str, seconds: str, seed: str, least: str) -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    print(json.dumps(Storm(Path(folder), seed).blow(float(seconds), json.loads(least))))


if __name__ == "__main__":
    main(*sys.argv[1:])
