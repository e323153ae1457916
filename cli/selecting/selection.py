"""What is wanted of a tenant's records, as one value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealbook.cli.selecting import globs, grep
from sealbook.cli.selecting.matches import Group

if TYPE_CHECKING:
    from sealbook.journal import Record


@dataclass(frozen=True, slots=True)
class Selection:
    """What to print: records that pass all of these. None is no condition, and nothing where many may be given.

    `runs` and `kinds` are names or globs, any of which will do. Instants are microseconds since 1970, both inclusive.
    `first` is the arrival to begin at. `scan` looks at every record for the instants, whatever the clocks did.
    """

    run: str | None = None
    case: str | None = None
    kinds: frozenset[str] = frozenset()
    since: int | None = None
    until: int | None = None
    runs: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    levels: range | None = None
    pattern: re.Pattern[str] | None = None
    first: int = 1
    scan: bool = False

    def takes(self, record: Record) -> bool:
        """Whether the record is wanted as far as it tells by itself, so without `groups` and `levels`."""
        return (
            (self.run is None or record.run == self.run)
            and (self.case is None or record.case == self.case)
            and (not self.kinds or globs.meant(record.kind, self.kinds))
            and (not self.runs or globs.meant(record.run, self.runs))
            and (self.since is None or record.at * 1000 >= self.since)
            and (self.until is None or record.at * 1000 <= self.until)
            and record.arrival >= self.first
            and (self.pattern is None or grep.found(self.pattern, record))
        )
