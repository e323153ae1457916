"""How often a log may ask: a number of requests in each day of UTC.

Only requests that the log signed are counted. Others cost nothing that lasts, and anybody could use up a log's number
with them. Who has a checkpoint of the log can still send it again: nothing in a request says who asks. The counts live
in memory: a restart forgets them, which harms nobody.
"""

from __future__ import annotations

DAY_SECONDS = 86_400


class Rates:
    """The requests of each log on its last day. Called from one thread."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int]] = {}  # origin: (day, requests on it)

    def wait(self, origin: str, requests_per_day_max: int, *, now: int) -> int:
        """Count a request at `now`, POSIX seconds. 0 if it may be answered, else the seconds until one may be."""
        day = now // DAY_SECONDS
        counted_day, count = self._counts.get(origin, (day, 0))
        if counted_day != day:
            count = 0
        if count >= requests_per_day_max:
            return (day + 1) * DAY_SECONDS - now
        self._counts[origin] = day, count + 1
        return 0
