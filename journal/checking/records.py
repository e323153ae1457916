"""Check records: the rules of each, and one sweep over a tenant's in the order of arrival, in memory that stays flat.

- Rule 1: arrivals run on without gaps, and each row says the arrival that it stands under.
- Rule 2: a record's hash covers its bytes, which are a record of this tenant in its one encoding.
- Rule 3: a record follows the one before it in its run; the first one begins a chain of this store's lineage.
- Rule 4: where signatures are checked, each is that of its signer's key, as the auditor's trust demands.

Only Rule 1 is held at level `structure`. The ends of the last `HEADS_MAX` runs are remembered; the record before one of
another run is looked up. So any range of arrivals can be checked by itself, and several side by side: a record never
changes, whatever is appended meanwhile. A check that derives runs (`chains`) holds their records to the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sealbook.indexes.packing import read_u64, text, u64
from sealbook.indexes.standing import BLOCK_RECORDS
from sealbook.journal.checking.audit import CheckAudit
from sealbook.journal.checking.report import FINDINGS_MAX, Finding, Level
from sealbook.journal.errors import Corrupt, Refused, UnknownVersion
from sealbook.journal.records.body import LINEAGE_BYTES
from sealbook.journal.records.chain import GENESIS
from sealbook.journal.records.record import Record, decode_record, says_it_is
from sealbook.journal.records.row import Row, decode_row
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import record_place
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import check_names, rows_of

HEADS_MAX = 50_000  # runs whose ends are remembered, at some 300 bytes each
PAGE_RECORDS = 100  # records per read: each may be 4 MiB


NOT_BEHIND = "the record does not follow the one before it"
# `journal` is the last member of a body in canonical order, so a first body ends in it.
JOURNAL_MEMBER = b"\x67journal" + bytes([0x40 + LINEAGE_BYTES])


# --- the rules of one record -----------------------------------------------------------------------------------------


def misplaced(row: Row, arrival: int) -> str:
    """What breaks Rule 1 where a row says another arrival than the one that it stands under."""
    return f"the record stands under arrival {arrival}, its row says {row.arrival}"


def decoded(audit: CheckAudit, row: Row, tenant: str, run: str | None = None, seq: int | None = None) -> Record:
    """By Rule 2: the record that the row holds; `Corrupt`, or `UnknownVersion` for one of a newer build."""
    return decode_record(row, tenant=tenant, run=run, seq=seq, upcaster=audit.setting.upcaster, strict=True)


def lineage_fault(audit: CheckAudit, first: Record) -> str | None:
    """By Rule 3: why this first record begins no chain of the store; None for one that does."""
    ours = first.body.endswith(JOURNAL_MEMBER + audit.setting.identity.lineage_id)
    return None if ours else "the first record names another store's lineage"


# --- a range of them -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Range:
    """The records of a tenant with arrivals `first` to `last`, to be checked at this level."""

    tenant: str
    first: int
    last: int
    level: Level


@dataclass(frozen=True, slots=True)
class Swept:
    """What the sweep of one range found and counted. `signers` are the ids that its records name."""

    tenant: str
    records: int
    signers: tuple[bytes, ...]
    findings: tuple[Finding, ...]
    findings_more: int
    signatures: int
    bytes: int


def sweep(audit: CheckAudit, wanted: Range, *, checked: Callable[[int], None] | None = None) -> None:
    """Check the range; `checked` is called after each page with the number of its records."""
    _Sweep(audit, wanted).run(checked)


def sweep_range(audit: CheckAudit, wanted: Range) -> Swept:
    """Check the range alone; what that came to, as a value that another process can hand back."""
    sweep(audit, wanted)
    findings, more = audit.findings.all(), audit.findings.more
    return Swept(wanted.tenant, audit.records, audit.signers.ids(), findings, more, audit.signatures, audit.bytes)


def add_swept(audit: CheckAudit, found: Swept) -> None:
    """Add what another check found in a range."""
    audit.records += found.records
    audit.tally(found.tenant).records += found.records
    audit.bytes += found.bytes
    audit.signatures += found.signatures
    audit.signers.note(found.signers)
    audit.findings.more += found.findings_more
    for finding in found.findings:
        audit.findings.add(finding)


class _Sweep:
    """One range under way: the ends of the runs that were met, and what has no name yet."""

    def __init__(self, audit: CheckAudit, wanted: Range) -> None:
        self._audit, self._wanted = audit, wanted
        self._heads: dict[str, tuple[int, bytes | None]] = {}  # run -> seq and hash of its last record met
        self._unnamed: dict[int, tuple[str, bool]] = {}  # arrival -> what is wrong there, and whether it is newer

    def run(self, checked: Callable[[int], None] | None) -> None:
        audit, wanted = self._audit, self._wanted
        prefix, expected = text(wanted.tenant), wanted.first
        lo, hi = prefix + u64(wanted.first), prefix + u64(wanted.last + 1)
        at, tally = len(prefix), audit.tally(wanted.tenant)
        while page := audit.snapshot.scan(tables.JOURNAL, lo, hi, PAGE_RECORDS):
            for key, value in page:
                arrival = read_u64(key, at) if len(key) == at + 8 else -1
                if arrival < 0:
                    audit.found("the row's key is damaged: it is no arrival", place=(tables.JOURNAL, key))
                    continue
                if arrival != expected:
                    self._gap(expected, arrival)
                expected = arrival + 1
                audit.records += 1
                audit.bytes += len(value)
                tally.records += 1
                self._row(arrival, value)
            lo = page[-1][0] + b"\0"
            if checked is not None:
                checked(len(page))
        if expected <= wanted.last:
            self._gap(expected, wanted.last + 1)
        self._name()

    def _gap(self, first: int, end: int) -> None:
        more = "" if end == first + 1 else f", and the {end - first - 1} that arrived after it"
        self._unnamed.setdefault(first, (f"the record is missing{more}", False))

    def _row(self, arrival: int, value: bytes) -> None:
        """Hold one record to the rules; one that breaks them is remembered as its run's last, as far as it says so."""
        audit = self._audit
        try:
            row = decode_row(value, None, None)
            if row.arrival != arrival:
                raise Corrupt(misplaced(row, arrival))
            if self._wanted.level < Level.CHAIN:
                return
            record = decoded(audit, row, self._wanted.tenant)
        except Corrupt as error:
            self._fault(arrival, value, error.what, None)
            return
        except UnknownVersion as error:
            self._fault(arrival, value, error.what, row.hash)
            return
        self._link(record)
        if self._wanted.level >= Level.SIGNATURES:
            audit.signers.judge(record)

    def _fault(self, arrival: int, value: bytes, what: str, newer: bytes | None) -> None:
        """A record that cannot be read: `newer` is the hash of one that a newer build wrote. What it says of itself is
        believed when the lookup agrees."""
        whose = self._wanted.tenant
        match says_it_is(value):
            case (str() as tenant, str() as run, int() as seq) if tenant == whose and self._leads(run, seq, arrival):
                self._heads[run] = seq, newer
                place = record_place(tenant, arrival)
                self._audit.found(what, tenant=tenant, run=run, seq=seq, place=place, newer=newer is not None)
            case _ if len(self._unnamed) < FINDINGS_MAX:
                self._unnamed[arrival] = what, newer is not None
            case _:
                self._audit.findings.more += 1

    def _leads(self, run: str, seq: int, arrival: int) -> bool:
        try:
            check_names(self._wanted.tenant, run)
        except Refused:
            return False
        return self._audit.arrival_of(self._wanted.tenant, run, seq) == arrival

    def _link(self, record: Record) -> None:
        """By Rule 3."""
        run, seq, heads = record.run, record.seq, self._heads
        known = heads.pop(run, None)
        if seq == 1:
            if record.prev != GENESIS or known is not None:
                self._audit.found_in(record, "the record begins the run's chain a second time" if known else NO_GENESIS)
            elif (fault := lineage_fault(self._audit, record)) is not None:
                self._audit.found_in(record, fault)
        elif known is None or known[0] != seq - 1:
            self._look_up(record, known)
        elif known[1] is not None and record.prev != known[1]:
            self._audit.found_in(record, NOT_BEHIND)
        heads[run] = seq, record.hash
        if len(heads) > HEADS_MAX:
            del heads[next(iter(heads))]

    def _look_up(self, record: Record, known: tuple[int, bytes | None] | None) -> None:
        """The record before this one is none that is remembered."""
        audit, tenant, run, seq = self._audit, record.tenant, record.run, record.seq
        if known is not None and known[0] >= seq:
            self._audit.found_in(record, f"the record follows record {known[0]} of its run")
            return
        before = audit.find(tenant, run, seq - 1)
        if before is None:
            arrival = audit.arrival_of(tenant, run, seq - 1)
            if arrival is None or not self._is_reported(arrival):
                self._audit.found_in(record, "the record before it is missing")
        elif decode_row(before[1], run, seq - 1).hash != record.prev or before[0] >= record.arrival:
            self._audit.found_in(record, NOT_BEHIND)

    def _is_reported(self, arrival: int) -> bool:
        """Whether a fault of the record with this arrival is reported, here or where its range is checked."""
        wanted = self._wanted
        if not wanted.first <= arrival <= wanted.last:
            return True
        return arrival in self._unnamed or self._audit.findings.names(*record_place(wanted.tenant, arrival))

    def _name(self) -> None:
        """Report what is wrong at arrivals whose rows name no run, under the run whose lookup leads there."""
        if not self._unnamed:
            return
        names = owners(self._audit, self._wanted.tenant, set(self._unnamed))
        for arrival, (what, newer) in sorted(self._unnamed.items()):
            run, seq = names.get(arrival, (None, None))
            place = record_place(self._wanted.tenant, arrival)
            self._audit.found(what, tenant=self._wanted.tenant, run=run, seq=seq, place=place, newer=newer)


NO_GENESIS = "the record begins its run's chain, and yet follows another one"


def owners(audit: CheckAudit, tenant: str, arrivals: set[int]) -> dict[int, tuple[str | None, int | None]]:
    """The run and seq of the records with these arrivals, as the lookup has them: two tables are walked for it."""
    found: dict[int, tuple[str | None, int | None]] = {}

    def see(run: str, before: int, block: bytes) -> None:
        for offset in range(0, len(block) - 7, 8):
            if (arrival := read_u64(block, offset)) in arrivals:
                found[arrival] = run, before + offset // 8 + 1

    for key, value in rows_of(audit.snapshot, tables.ARRIVALS, text(tenant)):
        try:
            _, run, number = tables.split_position_key(key)
        except ValueError:
            continue
        see(run, number * BLOCK_RECORDS, value)
    for key, value in rows_of(audit.snapshot, tables.STATE, text(tenant)):
        try:
            run = tables.split_run_key(key)[1]
            standing = read_standing(tenant, run, value)
        except (ValueError, Corrupt):
            continue
        if standing is not None:
            see(run, standing.records // BLOCK_RECORDS * BLOCK_RECORDS, standing.recent_arrivals)
    return found
