"""What an open journal has done so far, in numbers: how many commits, how large, how long they took, what was refused.

Counted by the one thread that commits; a copy is handed out. Nothing here names a tenant or a run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from sealbook.journal.errors import SealbookError

BOUNDS: Final = tuple(2**power for power in range(11))  # of requests per commit: 1, 2, 4 … 1,024
MILLISECONDS: Final = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # of one commit


class Counted(Protocol):
    """What is counted of one request."""

    @property
    def asked_at(self) -> float:
        """When it was asked, in seconds of `time.perf_counter`."""
        ...

    @property
    def entries(self) -> int:
        """How many entries it has."""
        ...

    @property
    def payload_bytes(self) -> int:
        """How many bytes their data have."""
        ...


Asker = TypeVar("Asker", bound=Counted)


class Histogram:
    """How many values were at most each bound, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)  # one for each bound, and one for what lies above all
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def as_json(self) -> dict[str, Any]:
        """`count`, `sum`, and `at_most`: bound -> how many values were at most that."""
        counts, running = list(self.counts), 0  # a copy made in one call of C: the counting goes on
        below = {}
        for bound, count in zip(self.bounds, counts, strict=False):
            running += count
            below[str(bound)] = running
        return {"count": sum(counts), "sum": self.sum, "at_most": below}


class Statistics:
    """The counts of one open journal."""

    def __init__(self) -> None:
        self.commits = 0
        self.requests = 0
        self.entries = 0
        self.payload_bytes = 0
        self.refusals: Counter[str] = Counter()
        self.batch_requests = Histogram(BOUNDS)
        self.waiting_milliseconds = Histogram(MILLISECONDS)
        self.commit_milliseconds = Histogram(MILLISECONDS)

    def committed(
        self, batch: Sequence[Asker], answers: Sequence[Any], begun: float, ended: float, *, wrote: bool
    ) -> list[tuple[Asker, SealbookError]]:
        """Count one transaction, from `begun` to `ended` in seconds of `time.perf_counter`; what it refused."""
        refused: list[tuple[Asker, SealbookError]] = []
        wait = self.waiting_milliseconds.add
        for ticket, answer in zip(batch, answers, strict=True):
            wait((begun - ticket.asked_at) * 1000)
            if isinstance(answer, SealbookError):
                refused.append((ticket, answer))
                self.refusals[type(answer).__name__] += 1
            else:
                self.entries += ticket.entries
                self.payload_bytes += ticket.payload_bytes
        self.requests += len(batch)
        if wrote:
            self.commits += 1
            self.batch_requests.add(len(batch))
            self.commit_milliseconds.add((ended - begun) * 1000)
        return refused

    def failed(self, batch: Sequence[Counted], error: BaseException) -> None:
        """Count the requests of a transaction that failed as a whole, each as refused with this error."""
        self.requests += len(batch)
        self.refusals[type(error).__name__] += len(batch)

    def as_json(self, *, queue: int, storage: Mapping[str, int]) -> dict[str, Any]:
        """All of it, as plain values, with how many requests have no answer yet, and the storage's own numbers."""
        return {
            "commits": self.commits,
            "requests": self.requests,
            "entries": self.entries,
            "payload_bytes": self.payload_bytes,
            "refusals": dict(self.refusals),
            "queue": queue,
            "storage": dict(storage),
            "batch_requests": self.batch_requests.as_json(),
            "waiting_milliseconds": self.waiting_milliseconds.as_json(),
            "commit_milliseconds": self.commit_milliseconds.as_json(),
        }
