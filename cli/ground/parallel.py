"""Check ranges of a store's records side by side, each in a process that opens the store for itself.

The processes are started anew and not forked: nothing that this one has open is theirs. One that damaged pages kill is
`Corrupt`, as it is for a single reader (`isolation`).
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sealbook.journal import Journal
    from sealbook.journal.checking.records import Range, Swept
    from sealbook.journal.records.trust import Trust

JOBS_MAX = 64

_opened: list[Journal] = []  # in a process of the pool: the store, for as long as the process lives


def sweeper(folder: Path, trust: Trust, jobs: int) -> Callable[[Sequence[Range]], Iterable[Swept]] | None:
    """What has ranges swept by so many processes; None where one suffices, which is then the caller's own."""
    if jobs == 1:
        return None

    def sweep(ranges: Sequence[Range]) -> Iterator[Swept]:
        from sealbook.journal import Corrupt

        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(jobs, len(ranges) or 1), context, _open, (folder,)) as pool:
            try:
                for finished in as_completed([pool.submit(_sweep, each, trust) for each in ranges]):
                    yield finished.result()
            except BrokenProcessPool as error:
                raise Corrupt(
                    f"{folder}: a process that checked records was killed: the data file's pages are damaged, or the"
                    " system ended it"
                ) from error

    return sweep


def _open(folder: Path) -> None:
    from sealbook.journal import Journal

    _opened.append(Journal.open(folder, readonly=True))


def _sweep(wanted: Range, trust: Trust) -> Swept:
    return _opened[0].check_range(wanted, trust)
