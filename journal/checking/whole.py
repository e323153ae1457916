"""Check a store at any level, or one run of it, and report every difference.

One snapshot, one pass. At level `deep` the store is derived again from its record bytes: the tables whose keys begin
with a run are walked side by side, run by run (`runs`), and its records are found along the lookup (`lookups`); the
rows that records lead to elsewhere are looked up as they are met. Below it the records are swept as they stand
(`quick`). Then the logs are built again, and at level `deep` tables that hold more rows than were looked up are walked
to name the surplus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sealbook.indexes.registry import INDEX_TABLES
from sealbook.journal.checking.anchors import check_batches, check_surplus_entries
from sealbook.journal.checking.audit import CheckAudit
from sealbook.journal.checking.checkpoints import NOTHING_KEPT, Kept, check_adoptions, check_checkpoints, check_outside
from sealbook.journal.checking.leaves import check_leaves, read_acts
from sealbook.journal.checking.lookups import name_strays, suspects
from sealbook.journal.checking.quick import Elsewhere, Progress, check_records
from sealbook.journal.checking.report import CheckReport, Level, beyond
from sealbook.journal.checking.runs import StoredRun, derive, stored_runs
from sealbook.journal.checking.store_log import check_heads
from sealbook.journal.checking.surplus import check_surplus, is_cancellation
from sealbook.journal.checking.trees import check_inclusion, check_trees
from sealbook.journal.engine.port import Snapshot
from sealbook.journal.errors import Corrupt, NotFound
from sealbook.journal.records.names import STORE_LOG
from sealbook.journal.records.trust import NOTHING_BROUGHT, Trust
from sealbook.journal.schema import tables
from sealbook.journal.schema.identity import check_store_row
from sealbook.journal.schema.setting import Setting
from sealbook.journal.schema.tables import PAGE_ROWS, StoreRow, TenantRow, rows_of, signer_fault


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How deep a check goes, what the auditor brings, under which origins the logs are known; what is called with its
    progress, and what sweeps ranges of records elsewhere, at a level below `deep`."""

    level: Level = Level.DEEP
    trust: Trust = NOTHING_BROUGHT
    base: str = "sealbook"
    store_origin: str | None = None
    progress: Progress | None = None
    elsewhere: Elsewhere | None = None


UNANCHORED = (
    "completeness and age: without an outside checkpoint, an older copy of the store, or one cut off, looks the same"
)
AFTER_ANCHORS = "what followed the outside checkpoints, and the ends of runs that no leaf below them attests"
NEVER_CHECKED = (
    "removed lease rows: a run that was leased and has no lease row looks like one that never was",
    "forged lease rows, checkpoint signatures and store row: their checksums find damage only",
    "times: `at` is the clock of the machine that wrote",
)


def check_store(snapshot: Snapshot, setting: Setting, options: CheckOptions = CheckOptions()) -> CheckReport:
    """Check what the snapshot holds, as deep as the options say. Damage is reported; only a failing engine raises."""
    row, fault = _store_row(snapshot, setting)
    audit = CheckAudit(snapshot, setting, indexed=row is None or row.index_current, trust=options.trust)
    if fault is not None:
        audit.found(fault, place=tables.STORE_PLACE)
    deep = options.level is Level.DEEP
    if deep:
        _check_runs(audit, options.progress)
        name_strays(audit, lambda tenant, run: _derive_from_records(audit, tenant, run))
        audit.flush()
    else:
        check_records(audit, options.level, options.progress, options.elsewhere)
    sizes = _check_logs(audit, deep=deep) if options.level >= Level.LOG else {}
    if options.level >= Level.SIGNATURES:
        _check_signers(audit)
    if deep:
        for key, _ in rows_of(snapshot, tables.STORE):
            if key != tables.STORE_PLACE[1]:
                audit.found("the row belongs to nothing", place=(tables.STORE, key))
    agreed: list[str] = []
    more: list[str] = []
    if options.level >= Level.LOG:
        agreed, more = check_outside(audit, options.base, options.store_origin, sizes)
    tenants = sizes.keys() - {STORE_LOG} if options.level >= Level.LOG else audit.tallies.keys()
    report = _report(audit, options, tuple(more), sum(sizes.values()), len(tenants))
    return replace(report, agreed=tuple(agreed))


def _check_logs(audit: CheckAudit, *, deep: bool) -> dict[str, int]:
    """Build every log again from its leaves, hold these to the records and checkpoints to the logs; the logs' sizes.

    A deep check has held the leaves to the records already, and knows all of the rows that should be there.
    """
    if not deep:
        read_acts(audit)
        check_leaves(audit)
    check_batches(audit)
    check_adoptions(audit)
    check_heads(audit)
    sizes = check_trees(audit)
    audit.flush()
    if deep:
        check_surplus(audit, sizes)
        check_surplus_entries(audit)
    kept = check_checkpoints(audit, sizes)
    if deep:
        _check_tenants(audit, sizes, kept)
    return sizes


def check_run(
    snapshot: Snapshot, setting: Setting, tenant: str, run: str, trust: Trust = NOTHING_BROUGHT
) -> CheckReport:
    """Check one run, and that the log holds its leaves. `NotFound` when nothing says that the run has records."""
    row, fault = _store_row(snapshot, setting)
    audit = CheckAudit(snapshot, setting, indexed=row is None or row.index_current, trust=trust)
    if fault is not None:
        audit.found(fault, place=tables.STORE_PLACE)
    key = tables.run_key(tenant, run)
    stored = next(stored_runs(audit, only=key), None)
    if stored is None or stored.only_leased:
        raise NotFound("run", run)
    derived = derive(audit, stored)
    [cancel] = snapshot.get_many([(tables.CANCELS, key)])
    if cancel is not None and not is_cancellation(audit, key, cancel):
        audit.found("no record asks for this cancellation", tenant=tenant, run=run, place=(tables.CANCELS, key))
    audit.flush()
    check_inclusion(audit, tenant, run, derived.leaves, derived.batched)
    others = [
        "other runs, the rest of the log, requests to cancel this run, and rows that no record of this run leads to",
        "whether there are records of this run that its state does not count",
    ]
    if len(derived.batched) > 1:
        others.append(f"whether {len(derived.batched) - 1} earlier anchor batches of the run give their leaves")
    return _report(audit, CheckOptions(trust=trust), tuple(others), len(derived.leaves) + len(derived.batched), 1)


def _store_row(snapshot: Snapshot, setting: Setting) -> tuple[StoreRow | None, str | None]:
    """The store row, or why it cannot be believed."""
    try:
        row = StoreRow.decode(snapshot.get_many([tables.STORE_PLACE])[0])
        check_store_row(setting.identity, row)
    except Corrupt as error:
        return None, error.what
    return row, None


def _report(
    audit: CheckAudit, options: CheckOptions, also_not_checked: tuple[str, ...], leaves: int, tenants: int
) -> CheckReport:
    not_checked = [*_never_checked(options), *also_not_checked, *beyond(options.level)]
    if options.level is Level.DEEP and not audit.indexed:
        not_checked.append("the indexes: they are stale, run reindex")
    if audit.unsure:
        runs = "1 run" if len(audit.unsure) == 1 else f"{len(audit.unsure)} runs"
        not_checked.append(f"what derives from {runs} whose records cannot all be read, and keys that none would use")
    not_checked += [
        f"what {count} operator acts of kind {kind} changed: this build does not know the kind"
        for kind, count in sorted(audit.unknown_acts.items())
    ]
    return CheckReport(
        findings=audit.findings.all(),
        findings_more=audit.findings.more,
        not_checked=tuple(not_checked),
        tenants=tenants,
        runs=audit.runs,
        records=audit.records,
        bytes=audit.bytes,
        leaves=leaves,
        effects=audit.effects,
        index_rows=sum(audit.agreed[table] for table in INDEX_TABLES),
        signatures=audit.signatures,
        level=options.level,
    )


def _never_checked(options: CheckOptions) -> Iterator[str]:
    """What a store alone can never show, less what the auditor brought."""
    trust = options.trust
    if not trust.checkpoints:
        yield UNANCHORED
    else:
        yield AFTER_ANCHORS
    yield "the order between runs: no hash covers an arrival"
    if trust.public_keys is None:
        yield "whether signatures are those of people whom you trust: only their arithmetic is checked"
    yield from NEVER_CHECKED


# --- run by run --------------------------------------------------------------------------------------------------


def _check_runs(audit: CheckAudit, progress: Progress | None) -> None:
    total, last = audit.snapshot.count(tables.JOURNAL), 0
    for stored in stored_runs(audit, suspects(audit)):
        derive(audit, stored)
        if progress is not None and audit.records - last >= PAGE_ROWS:
            last = audit.records
            progress(last, total)
    if progress is not None:
        progress(audit.records, total)


def _derive_from_records(audit: CheckAudit, tenant: str, run: str) -> None:
    """Derive a run of which nothing but records is stored."""
    derive(audit, StoredRun(tenant, run, suspect=True))


# --- tenants and signers -----------------------------------------------------------------------------------------


def _check_tenants(audit: CheckAudit, sizes: dict[str, int], kept: dict[str, Kept]) -> None:
    """Each tenant's counts, against its records, its log and its checkpoints."""
    missing = {}
    for tenant in {**audit.tallies, **kept}:
        tally, counted = audit.tally(tenant), kept.get(tenant, NOTHING_KEPT)
        records, size = tally.records + tally.lost, sizes.get(tenant, 0)
        row = TenantRow(records, size, *counted, batch=tally.batch, gathered=tally.gathered)
        if row != TenantRow():
            missing[tenant.encode()] = row
    for key, value in rows_of(audit.snapshot, tables.TENANTS):
        expected, place = missing.pop(key, None), (tables.TENANTS, key)
        if expected is None:
            audit.found("the tenant has neither records nor leaves", place=place)
        elif value != expected.encode():
            what = (
                f"the counts are not those of {expected.arrivals} records, {expected.leaves} leaves and"
                f" {expected.checkpoints} checkpoints"
            )
            audit.found(what, tenant=key.decode(), place=place)
    for key in missing:
        audit.found("the tenant's row is missing", tenant=key.decode(), place=(tables.TENANTS, key))


def _check_signers(audit: CheckAudit) -> None:
    """Each public key, against its name; and that a record uses it, as far as records can be read."""
    for key, value in rows_of(audit.snapshot, tables.SIGNERS):
        fault = signer_fault(key, value)
        if fault is None and not audit.signers.used(key) and not audit.unsure:
            fault = "no record is signed with this key"
        if fault is not None:
            audit.found(fault, place=(tables.SIGNERS, key))
