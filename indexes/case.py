"""The case index: every record that belongs to a case, whichever run wrote it.

    cases        tenant 00 case 00 run 00 seq:u64be  ->  (empty)

The one index over records: a case's runs alone would miss what runs of other cases wrote for it.
"""

from __future__ import annotations

from sealbook.indexes.packing import text, u64

TABLE = "cases"


def rows(tenant: str, case: str | None, run: str, seq: int) -> list[tuple[str, bytes, bytes]]:
    """The record's row under its case; none for a record without one."""
    return [] if case is None else [(TABLE, prefix(tenant, case) + text(run) + u64(seq), b"")]


def prefix(tenant: str, case: str) -> bytes:
    """What the keys of all records of this case begin with."""
    return text(tenant) + text(case)
