"""Derive a store again from its record bytes and report every difference: the whole store, or one run of it.

One snapshot, one pass. The tables whose keys begin with the run are walked side by side, run by run (`rederive`), and
its records are found along the lookup (`retrace`); the rows that records lead to elsewhere are looked up as they are
met. Then each tenant's log is built again (`relog`), and tables that hold more rows than were looked up are walked to
name the surplus (`surplus`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sealbook.indexes.registry import INDEX_TABLES
from sealbook.journal.checking.adoptions import check_adoptions
from sealbook.journal.checking.anchors import check_batches, check_surplus
from sealbook.journal.checking.audit import PAGE_ROWS, Audit
from sealbook.journal.checking.checkpoints import NOTHING_KEPT, Kept, check_checkpoints
from sealbook.journal.checking.findings import CheckReport, Finding
from sealbook.journal.checking.levels import Level, beyond
from sealbook.journal.checking.lookups import name_strays, suspects
from sealbook.journal.checking.quick import Elsewhere, Progress, check_logs, check_records, hold_outside
from sealbook.journal.checking.runs import StoredRun, derive
from sealbook.journal.checking.store_log import check_heads
from sealbook.journal.checking.surplus import Surplus
from sealbook.journal.checking.trees import Logs, check_inclusion
from sealbook.journal.engine.port import Row, Snapshot
from sealbook.journal.errors import Corrupt, NotFound, Refused
from sealbook.journal.records.names import STORE_LOG
from sealbook.journal.records.trust import NOTHING_BROUGHT, Trust
from sealbook.journal.schema import tables
from sealbook.journal.schema.identity import check_store_row
from sealbook.journal.schema.setting import Setting
from sealbook.journal.schema.tables import StoreRow, TenantRow, check_names, signer_fault

__all__ = ["CheckReport", "Finding", "check_run", "check_store"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a check is asked: how deep it goes, what the auditor brings, under which origins the logs are known; whom to
    tell of progress, and who sweeps ranges of records elsewhere, at a level below `deep`."""

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


def check_store(snapshot: Snapshot, setting: Setting, asked: Asked = Asked()) -> CheckReport:
    """Check what the snapshot holds, as deep as is asked. Damage is in the report; only a failing engine raises."""
    row, fault = _store_row(snapshot, setting)
    audit = Audit(snapshot, setting, indexed=row is None or row.index_current, trust=asked.trust)
    if fault is not None:
        audit.found(fault, place=tables.STORE_PLACE)
    if asked.level is Level.DEEP:
        sizes = _derive_all(audit, asked.progress)
    else:
        check_records(audit, asked.level, asked.progress, asked.elsewhere)
        sizes = check_logs(audit) if asked.level >= Level.LOG else {}
        if asked.level >= Level.SIGNATURES:
            _check_signers(audit)
    agreed: list[str] = []
    more: list[str] = []
    if asked.level >= Level.LOG:
        agreed, more = hold_outside(audit, asked.base, asked.store_origin, sizes)
    tenants = sizes.keys() - {STORE_LOG} if asked.level >= Level.LOG else audit.tallies.keys()
    report = _report(audit, asked, tuple(more), sum(sizes.values()), len(tenants))
    return replace(report, agreed=tuple(agreed))


def _derive_all(audit: Audit, progress: Progress | None) -> dict[str, int]:
    """Derive everything again; the sizes of the logs."""
    _check_runs(audit, progress)
    name_strays(audit, lambda tenant, run: _derive_from_records(audit, tenant, run))
    audit.flush()
    check_batches(audit)
    check_adoptions(audit)
    check_heads(audit)
    sizes = Logs(audit).check()
    audit.flush()
    Surplus(audit, sizes).check()
    check_surplus(audit)
    _check_tenants(audit, sizes, check_checkpoints(audit, sizes))
    _check_signers(audit)
    for key, _ in audit.walk(tables.STORE):
        if key != tables.STORE_PLACE[1]:
            audit.found("the row belongs to nothing", place=(tables.STORE, key))
    return sizes


def check_run(
    snapshot: Snapshot, setting: Setting, tenant: str, run: str, trust: Trust = NOTHING_BROUGHT
) -> CheckReport:
    """Check one run, and that the log holds its leaves. `NotFound` when nothing says that the run has records."""
    row, fault = _store_row(snapshot, setting)
    audit = Audit(snapshot, setting, indexed=row is None or row.index_current, trust=trust)
    if fault is not None:
        audit.found(fault, place=tables.STORE_PLACE)
    key = tables.run_key(tenant, run)
    lanes = _Lanes(audit, key)
    if lanes.next_run() is None or lanes.only_leased():
        raise NotFound("run", run)
    derived = derive(audit, lanes.take(key))
    [cancel] = snapshot.get_many([(tables.CANCELS, key)])
    if cancel is not None and not Surplus(audit, {}).cancel_stands(tables.CANCELS, key, cancel):
        audit.found("no record asks for this cancellation", tenant=tenant, run=run, place=(tables.CANCELS, key))
    audit.flush()
    check_inclusion(audit, tenant, run, derived.leaves, derived.batched)
    others = [
        "other runs, the rest of the log, requests to cancel this run, and rows that no record of this run leads to",
        "whether there are records of this run that its state does not count",
    ]
    if len(derived.batched) > 1:
        others.append(f"whether {len(derived.batched) - 1} earlier anchor batches of the run give their leaves")
    return _report(audit, Asked(trust=trust), tuple(others), len(derived.leaves) + len(derived.batched), 1)


def _store_row(snapshot: Snapshot, setting: Setting) -> tuple[StoreRow | None, str | None]:
    """The store row, or why it cannot be believed."""
    try:
        row = StoreRow.decode(snapshot.get_many([tables.STORE_PLACE])[0])
        check_store_row(setting.identity, row)
    except Corrupt as error:
        return None, error.what
    return row, None


def _report(audit: Audit, asked: Asked, also_not_checked: tuple[str, ...], leaves: int, tenants: int) -> CheckReport:
    not_checked = [*_never_checked(asked), *also_not_checked, *beyond(asked.level)]
    if asked.level is Level.DEEP and not audit.indexed:
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
        level=asked.level,
    )


def _never_checked(asked: Asked) -> Iterator[str]:
    """What a store alone can never show, less what the auditor brought."""
    trust = asked.trust
    if not trust.checkpoints:
        yield UNANCHORED
    else:
        yield AFTER_ANCHORS
    yield "the order between runs: no hash covers an arrival"
    if trust.public_keys is None:
        yield "whether signatures are those of people whom you trust: only their arithmetic is checked"
    yield from NEVER_CHECKED


# --- run by run --------------------------------------------------------------------------------------------------


def _check_runs(audit: Audit, progress: Progress | None) -> None:
    suspected = suspects(audit)
    lanes = _Lanes(audit)
    total, told = audit.snapshot.count(tables.JOURNAL), 0
    while (key := lanes.next_run()) is not None:
        derive(audit, lanes.take(key, suspect=key in suspected))
        if progress is not None and audit.records - told >= PAGE_ROWS:
            told = audit.records
            progress(told, total)
    if progress is not None:
        progress(audit.records, total)


def _derive_from_records(audit: Audit, tenant: str, run: str) -> None:
    """Derive a run of which nothing but records is stored."""
    derive(audit, StoredRun(tenant, run, tables.run_key(tenant, run), None, None, [], [], [], suspect=True))


class _Lanes:
    """The tables whose keys begin with tenant 00 run, side by side: of the whole store, or of one run."""

    def __init__(self, audit: Audit, only: bytes | None = None) -> None:
        self._blocks = _Lane(audit, tables.ARRIVALS, 8, only)
        self._states = _Lane(audit, tables.STATE, None, only)
        self._leases = _Lane(audit, tables.LEASES, None, only)
        self._positions = _Lane(audit, tables.POSITIONS, 8, only)
        self._batched = _Lane(audit, tables.BATCHED, 8, only)
        self._effects = _Lane(audit, tables.EFFECTS, 32, only)
        self._all = (self._blocks, self._states, self._leases, self._positions, self._batched, self._effects)

    def next_run(self) -> bytes | None:
        """The key of the next run that has a row in any of the tables."""
        return min((lane.run for lane in self._all if lane.run is not None), default=None)

    def only_leased(self) -> bool:
        """Whether nothing but a lease row stands under the next run."""
        return all(lane.run is None for lane in self._all if lane is not self._leases)

    def take(self, key: bytes, *, suspect: bool = False) -> StoredRun:
        """The rows of this run; those of the lookup are read again where they are followed (`retrace`)."""
        tenant, run = tables.split_run_key(key)
        for _ in self._blocks.rows(key):
            pass
        states, leases = [list(lane.rows(key)) for lane in (self._states, self._leases)]
        return StoredRun(
            tenant,
            run,
            key,
            states[0][1] if states else None,
            leases[0][1] if leases else None,
            list(self._positions.rows(key)),
            list(self._batched.rows(key)),
            list(self._effects.rows(key)),
            suspect,
        )


class _Lane:
    """The rows of one table in key order, handed out run by run. `run` is the key of the run whose row is next."""

    def __init__(self, audit: Audit, table: str, tail_bytes: int | None, only: bytes | None) -> None:
        self._audit, self._table, self._tail_bytes = audit, table, tail_bytes
        self._length = 0 if tail_bytes is None else tail_bytes + 1
        self._prefix = b""  # of the run that `run` names, up to its tail
        lo, hi = (b"", None) if only is None else (only, only + b"\0")
        if only is not None and tail_bytes is not None:
            lo, hi = only + b"\0", only + b"\1"
        self._rows: Iterator[Row] = iter(())
        self._lo, self._hi = lo, hi
        self._row: Row = (b"", b"")
        self.run: bytes | None = None
        self._advance()

    def rows(self, run: bytes) -> Iterator[Row]:
        """The rows of this run, when they are next."""
        while self.run == run:
            row = self._row
            self._advance()
            yield row

    def _advance(self) -> None:
        """Step to the next row whose key is one of this table; the others are findings."""
        while True:
            row = next(self._rows, None)
            if row is None:
                page = self._audit.snapshot.scan(self._table, self._lo, self._hi, PAGE_ROWS)
                if not page:
                    self.run = None
                    return
                self._lo, self._rows = page[-1][0] + b"\0", iter(page)
                continue
            self._row = row
            key = row[0]
            if self._same_run(key):
                return
            try:
                tail_bytes = self._tail_bytes
                names = tables.split_run_key(key) if tail_bytes is None else tables.split_tail_key(key, tail_bytes)
                check_names(*names[:2])
            except (ValueError, Refused) as error:
                self._audit.found(f"the row's key is damaged: {error}", place=(self._table, key))
                continue
            self.run = key[: len(key) - self._length]
            self._prefix = self.run + b"\0"
            return

    def _same_run(self, key: bytes) -> bool:
        """Whether the key is that of another row of the run before, which need not be taken apart again."""
        if self._tail_bytes is None or self.run is None:
            return False
        return len(key) == len(self._prefix) + self._tail_bytes and key.startswith(self._prefix)


# --- tenants and signers -----------------------------------------------------------------------------------------


def _check_tenants(audit: Audit, sizes: dict[str, int], kept: dict[str, Kept]) -> None:
    """Each tenant's counts, against its records, its log and its checkpoints."""
    missing = {}
    for tenant in {**audit.tallies, **kept}:
        tally, counted = audit.tally(tenant), kept.get(tenant, NOTHING_KEPT)
        records, size = tally.records + tally.lost, sizes.get(tenant, 0)
        row = TenantRow(records, size, *counted, batch=tally.batch, gathered=tally.gathered)
        if row != TenantRow():
            missing[tenant.encode()] = row
    for key, value in audit.walk(tables.TENANTS):
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


def _check_signers(audit: Audit) -> None:
    """Each public key, against its name; and that a record uses it, as far as records can be read."""
    for key, value in audit.walk(tables.SIGNERS):
        fault = signer_fault(key, value)
        if fault is None and not audit.signers.used(key) and not audit.unsure:
            fault = "no record is signed with this key"
        if fault is not None:
            audit.found(fault, place=(tables.SIGNERS, key))
