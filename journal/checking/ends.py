"""Hold the ends of chains to what is counted: each run's state to its last record, each tenant's row to its records.

A sweep sees that each record follows the one before it; that the last one is still there, only what counts it can tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from sealbook.indexes.packing import read_u64, text
from sealbook.indexes.standing import Standing
from sealbook.journal.checking.audit import PAGE_ROWS, Audit
from sealbook.journal.checking.levels import Level
from sealbook.journal.engine.port import Snapshot
from sealbook.journal.errors import Corrupt, Refused
from sealbook.journal.records import names
from sealbook.journal.records.record import says_it_is
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import record_place
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import TenantRow, check_names


def tenants_of(snapshot: Snapshot) -> Iterator[str]:
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
                continue  # `Ends.check_keys` names it
    yield from sorted(found)


def arrivals_of(snapshot: Snapshot, tenant: str) -> tuple[int, int | None]:
    """How many arrivals the tenant's records reach, and how many its row counts; None for a row that is damaged."""
    prefix = text(tenant)
    page = snapshot.scan(tables.JOURNAL, prefix, tables.prefix_end(prefix), 1, reverse=True)
    reached = read_u64(page[0][0], len(prefix)) if page and len(page[0][0]) == len(prefix) + 8 else 0
    try:
        counted = TenantRow.decode(tenant, snapshot.get_many([(tables.TENANTS, tenant.encode())])[0]).arrivals
    except Corrupt:
        return reached, None
    return reached, counted


def check_ends(audit: Audit, level: Level) -> int:
    """Check every state row against the last record of its run; how many of the runs are not sealed."""
    counted: dict[str, int] = {}
    unsealed = 0
    page: list[Standing] = []
    for key, value in audit.walk(tables.STATE):
        try:
            tenant, run = tables.split_run_key(key)
            check_names(tenant, run)
        except (ValueError, Refused) as error:
            audit.found(f"the row's key is damaged: {error}", place=(tables.STATE, key))
            continue
        try:
            standing = read_standing(tenant, run, value)
        except Corrupt as error:
            audit.found(error.what, tenant=tenant, run=run, place=(tables.STATE, key))
            continue
        assert standing is not None
        audit.runs += 1
        unsealed += not standing.sealed
        counted[tenant] = counted.get(tenant, 0) + standing.records
        page.append(standing)
        if len(page) == PAGE_ROWS:
            _check_page(audit, level, page)
            page = []
    _check_page(audit, level, page)
    for tenant in sorted(counted.keys() | audit.tallies.keys()):
        _check_count(audit, tenant, counted.get(tenant, 0))
    return unsealed


def _check_page(audit: Audit, level: Level, page: list[Standing]) -> None:
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


def _check_count(audit: Audit, tenant: str, counted: int) -> None:
    """The states of the tenant's runs count its records; the tenant's row counts them too."""
    records, place = audit.tally(tenant).records, (tables.TENANTS, tenant.encode())
    row = arrivals_of(audit.snapshot, tenant)[1]
    if row is None:
        audit.found("the tenant's row is damaged", tenant=tenant, place=place)
    elif records != counted and row == records:
        what = f"the states of its runs count {counted} records, there are {records}: level deep names them"
        audit.found(what, tenant=tenant, place=place)
    elif row < records:
        audit.found(f"the row counts {row} records, there are {records}", tenant=tenant, place=place)
