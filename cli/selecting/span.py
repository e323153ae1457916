"""Where a span of time lies among records that stand in the order of their arrival, without reading them all.

The store stamps a record's instant in the transaction that gives it its arrival, so instants rise with arrivals unless
a clock is set back. The rule for `--since` and `--until` rests on that, and says how far:

1. The bounds are found by halving, and MARGIN records beyond each of them are looked at as well: a clock that was wrong
   for no more records than that hides nothing near the bound.
2. PROBES records, spread evenly, are looked at first. If two of all that were looked at contradict each other over more
   than MARGIN records, a clock was set back for long, and every record is looked at.
3. Every record that is looked at is taken by its own instant alone.

So a record can be missed only if its clock was wrong further than MARGIN records from the bound, for a stretch that no
probe met. `--scan` looks at every record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

MARGIN = 1000
PROBES = 32


def bounds(at: Callable[[int], int], count: int, since: int | None, until: int | None) -> tuple[int, int]:
    """The first and the last of records 1 to `count` that have to be looked at; `at` tells a record's instant.

    Instants are of any one unit, both ends inclusive. The last is below the first when none has to be.
    """
    if count == 0 or (since is None and until is None):
        return 1, count
    seen: dict[int, int] = {}

    def instant(number: int) -> int:
        if number not in seen:
            seen[number] = at(number)
        return seen[number]

    for probe in range(PROBES + 1):
        instant(1 + probe * (count - 1) // PROBES)
    numbers = range(1, count + 1)
    first = 1 if since is None else 1 + bisect_left(numbers, since, key=instant)
    last = count if until is None else bisect_left(numbers, until + 1, key=instant)
    if _contradict(sorted(seen.items())):
        return 1, count
    return max(1, first - MARGIN), min(count, last + MARGIN)


def _contradict(seen: list[tuple[int, int]]) -> bool:
    """Whether a record is earlier than one that arrived more than MARGIN records before it."""
    return any(
        later < earlier
        for place, (before, earlier) in enumerate(seen)
        for after, later in seen[place + 1 :]
        if after - before > MARGIN
    )
