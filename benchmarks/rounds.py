"""How it is timed: contenders in turn, round after round, and what the rounds say when they are put together.

Whoever is compared takes turns in rounds of a few calls, so that a noisy moment of the machine meets all of them. A
round counts by the median of its calls, or by their mean where rare and long calls belong to the cost; a ratio is the
median of the rounds' ratios.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the stores are and how long is measured."""

    small: int = 10_000
    large: int = 1_000_000
    rounds: int = 60
    starts: int = 10


QUICK = Scale(small=4_000, large=40_000, rounds=12, starts=3)


def turns(names: Sequence[str], rounds: int) -> Iterator[str]:
    """Everybody once in each round. Who begins changes from round to round."""
    for number in range(rounds):
        first = number % len(names)
        yield from [*names[first:], *names[:first]]


def in_rounds(contenders: Mapping[str, Call], rounds: int, calls: int, *, mean: bool = False) -> dict[str, list[float]]:
    """For each contender, the seconds of one call in each round."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for name in turns(list(contenders), rounds):
        took = [timed(contenders[name]) for _ in range(calls)]
        found[name].append(statistics.fmean(took) if mean else statistics.median(took))
    return found


def timed(call: Call) -> float:
    """The seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def cpu(call: Call) -> float:
    """The seconds of CPU that this process spends on one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def rate(seconds: Sequence[float], things: int = 1) -> str:
    """So many things in these seconds, by the median, as people read it."""
    return f"{things / statistics.median(seconds):,.0f}/s"


def micros(seconds: Sequence[float]) -> str:
    """The median in microseconds, as people read it."""
    return f"{statistics.median(seconds) * 1e6:,.0f} us"


def say(text: str) -> None:
    """Tell a waiting person what is being done."""
    print(f"... {text}", file=sys.stderr, flush=True)
