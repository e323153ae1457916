"""Check a store without deriving its runs: sweep its records, and hold what counts them to them.

One snapshot, so that a store which is being written to is checked as it stood at one moment. Ranges of records may be
swept elsewhere, by other processes with snapshots of their own: a record never changes.

A sweep sees that each record follows the one before it; that the last one is still there, only what counts it can tell:
the state of its run, and the tenant's row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from sealbook.indexes.packing import read_u64, text
from sealbook.indexes.standing import Standing
from sealbook.journal.checking.audit import CheckAudit, names_of_run, pages_of
from sealbook.journal.checking.records import Range, Swept, add_swept, sweep
from sealbook.journal.checking.report import Level
from sealbook.journal.engine.port import Snapshot
from sealbook.journal.errors import Corrupt, Refused
from sealbook.journal.records import names
from sealbook.journal.records.record import says_it_is
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import record_place
from sealbook.journal.schema.standings import read_standing

Progress = Callable[[int, int], None]  # (records checked, records in all)
Elsewhere = Callable[[Sequence[Range]], Iterable[Swept]]
"""Has ranges swept by others, and hands back what each found, as it is known."""

RANGE_RECORDS = 20_000


def check_records(audit: CheckAudit, level: Level, progress: Progress | None, elsewhere: Elsewhere | None) -> None:
    """Sweep all records and hold them to what counts them."""
    ranges = list(_ranges(audit, level, split=elsewhere is not None))
    total, done = audit.snapshot.count(tables.JOURNAL), 0

    def checked(records: int) -> None:
        nonlocal done
        done += records
        if progress is not None:
            progress(done, total)

    if elsewhere is not None:
        for found in elsewhere(ranges):
            add_swept(audit, found)
            checked(found.records)
    else:
        for each in ranges:
            sweep(audit, each, checked=checked)
    counted: dict[str, int] = {}
    for page in pages_of(_standings(audit)):
        _check_ends(audit, level, page)
        for standing in page:
            counted[standing.tenant] = counted.get(standing.tenant, 0) + standing.records
    for tenant in sorted(counted.keys() | audit.tallies.keys()):
        _check_count(audit, tenant, counted.get(tenant, 0))


def _ranges(audit: CheckAudit, level: Level, *, split: bool) -> Iterator[Range]:
    for tenant in _tenants_of(audit.snapshot):
        audit.tally(tenant)  # so that its log is built again, be all of its records gone
        row = audit.tenant_row(tenant)
        last = max(_arrivals_reached(audit.snapshot, tenant), 0 if row is None else row.arrivals)
        size = RANGE_RECORDS if split and last <= audit.arrival_bound else max(last, 1)
        for first in range(1, last + 1, size):
            yield Range(tenant, first, min(first + size - 1, last), level)


def _tenants_of(snapshot: Snapshot) -> Iterator[str]:
    """Every tenant that a record or a tenant's row names, in order."""
    found = set()
    for table in (tables.JOURNAL, tables.TENANTS):
        lo = b""
        while page := snapshot.scan(table, lo, None, 1):
            name = page[0][0].partition(b"\0")[0]
            lo = (tables.prefix_end(name + b"\0") if table == tables.JOURNAL else name + b"\0") or b""
            try:
                found.add(names.check_tenant(name.decode(errors="replace")))
            except Refused:
                continue  # a check of all rows names it
    yield from sorted(found)


def _arrivals_reached(snapshot: Snapshot, tenant: str) -> int:
    """The highest arrival that a record of the tenant stands under."""
    prefix = text(tenant)
    page = snapshot.scan(tables.JOURNAL, prefix, tables.prefix_end(prefix), 1, reverse=True)
    return read_u64(page[0][0], len(prefix)) if page and len(page[0][0]) == len(prefix) + 8 else 0


# --- the ends of chains ----------------------------------------------------------------------------------------------


def _standings(audit: CheckAudit) -> Iterator[Standing]:
    """What every state row says that can be read."""
    for (tenant, run), key, value in audit.rows(tables.STATE, names_of_run):
        try:
            standing = read_standing(tenant, run, value)
        except Corrupt as error:
            audit.found(error.what, tenant=tenant, run=run, place=(tables.STATE, key))
            continue
        assert standing is not None
        audit.runs += 1
        yield standing


def _check_ends(audit: CheckAudit, level: Level, page: list[Standing]) -> None:
    """Hold each state to the last record of its run."""
    places = [record_place(standing.tenant, standing.last_arrival) for standing in page]
    for standing, place, value in zip(page, places, audit.snapshot.get_many(places), strict=True):
        fault = _fault(standing, level, value)
        if fault is not None and not audit.findings.names(*place):
            audit.found(fault, tenant=standing.tenant, run=standing.run, seq=standing.records, place=place)


def _fault(standing: Standing, level: Level, value: bytes | None) -> str | None:
    if value is None:
        return f"the run's last record is missing: its state counts {standing.records}"
    if level < Level.CHAIN:
        return None
    says = says_it_is(value)
    if says is None:
        return "the run's last record cannot be read"
    if says != (standing.tenant, standing.run, standing.records):
        return f"the run's state says that this is its last record, number {standing.records}, and it is another one"
    if decode_row(value, standing.run, standing.records).hash != standing.head:
        return "the run's state has another head than its last record"
    return None


def _check_count(audit: CheckAudit, tenant: str, counted: int) -> None:
    """The states of the tenant's runs count its records; the tenant's row counts them too."""
    records, place = audit.tally(tenant).records, (tables.TENANTS, tenant.encode())
    row = audit.tenant_row(tenant)
    if row is None:
        audit.found("the tenant's row is damaged", tenant=tenant, place=place)
    elif records != counted and row.arrivals == records:
        what = f"the states of its runs count {counted} records, there are {records}: level deep names them"
        audit.found(what, tenant=tenant, place=place)
    elif row.arrivals < records:
        audit.found(f"the row counts {row.arrivals} records, there are {records}", tenant=tenant, place=place)
