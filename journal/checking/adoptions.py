"""Hold each log's first leaf, and its origin, to the last record of `~tenant` that says that it adopted another log."""

from __future__ import annotations

from sealbook.journal.checking.audit import Audit
from sealbook.journal.engine.port import Place
from sealbook.journal.records import names
from sealbook.journal.schema import tables


def check_adoptions(audit: Audit) -> None:
    """Claim the first leaf of each log that adopted another one, and compare the rows of `origins`."""
    expected: dict[bytes, bytes] = {}
    for tenant, tally in audit.tallies.items():
        if tally.adopted is None:
            continue
        first, value = tally.adopted
        expected[tenant.encode()] = value
        place: Place = (tables.LEAVES, tables.number_key(tenant, 0))
        if audit.snapshot.get_many([place]) == [first.encode()]:
            tally.claim(0)
        else:
            audit.found("the first leaf is not the one that adopts the old log", tenant=tenant, place=place)
    for key, value in audit.walk(tables.ORIGINS):
        place = (tables.ORIGINS, key)
        derived = expected.pop(key, None)
        if derived is None:
            if not _is_unsure(audit, key):
                audit.found("no record gives the log this origin", place=place)
        elif derived != value:
            audit.found("the origin is not the one that the record says", tenant=key.decode(), place=place)
    for key in expected:
        audit.found("the row is missing", tenant=key.decode(), place=(tables.ORIGINS, key))


def _is_unsure(audit: Audit, key: bytes) -> bool:
    """Whether the tenant's own run cannot be read, so that what it says is not known."""
    return key + b"\0" + names.OPERATOR_RUN.encode() in audit.unsure
