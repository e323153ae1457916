"""Check the records of a tenant in the order of their arrival: one sweep over `journal`, in memory that stays flat.

- Rule 1: arrivals run on without gaps, and each row says the arrival that it stands under.
- Rule 2: a record's hash covers its bytes, which are a record of this tenant in its one encoding.
- Rule 3: a record follows the one before it in its run; the first one begins a chain of this store's lineage.
- Rule 4: where signatures are checked, each is that of its signer's key, as the auditor's trust demands.

Only Rule 1 is held at level `structure`. The ends of the last `HEADS_MAX` runs are remembered; the record before one of
another run is looked up. So any range of arrivals can be checked by itself, and several side by side: a record never
changes, whatever is appended meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sealbook.indexes.packing import read_u64, text, u64
from sealbook.journal.checking.audit import Audit
from sealbook.journal.checking.chains import JOURNAL_MEMBER
from sealbook.journal.checking.findings import FINDINGS_MAX, Finding
from sealbook.journal.checking.levels import Level
from sealbook.journal.errors import Corrupt, Refused, UnknownVersion
from sealbook.journal.records.chain import GENESIS
from sealbook.journal.records.record import Record, decode_record, says_it_is
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import record_place
from sealbook.journal.schema.tables import check_names

HEADS_MAX = 50_000  # runs whose ends are remembered, at some 300 bytes each
PAGE_RECORDS = 100  # records per read: each may be 4 MiB


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


def sweep(audit: Audit, wanted: Range, *, told: Callable[[int], None] | None = None) -> None:
    """Check the range; `told` hears after each page how many of its records were checked."""
    _Sweep(audit, wanted).run(told)


def swept(audit: Audit, wanted: Range) -> Swept:
    """Check the range alone; what that came to, as a value that another process can hand back."""
    sweep(audit, wanted)
    findings, more = audit.findings.all(), audit.findings.more
    return Swept(wanted.tenant, audit.records, audit.signers.ids(), findings, more, audit.signatures, audit.bytes)


def take(audit: Audit, found: Swept) -> None:
    """Take in what was found elsewhere."""
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

    def __init__(self, audit: Audit, wanted: Range) -> None:
        self._audit, self._wanted = audit, wanted
        self._heads: dict[str, tuple[int, bytes | None]] = {}  # run -> seq and hash of its last record met
        self._unnamed: dict[int, tuple[str, bool]] = {}  # arrival -> what is wrong there, and whether it is newer
        self._first_end = JOURNAL_MEMBER + audit.setting.identity.lineage_id

    def run(self, told: Callable[[int], None] | None) -> None:
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
            if told is not None:
                told(len(page))
        if expected <= wanted.last:
            self._gap(expected, wanted.last + 1)
        self._name()

    def _gap(self, first: int, end: int) -> None:
        more = "" if end == first + 1 else f", and the {end - first - 1} that arrived after it"
        self._unnamed.setdefault(first, (f"the record is missing{more}", False))

    def _row(self, arrival: int, value: bytes) -> None:
        """Hold one record to the rules; one that breaks them is remembered as its run's last, as far as it says so."""
        audit, tenant = self._audit, self._wanted.tenant
        try:
            row = decode_row(value, None, None)
            if row.arrival != arrival:
                raise Corrupt(f"the record stands under arrival {arrival}, its row says {row.arrival}")
            if self._wanted.level < Level.CHAIN:
                return
            record = decode_record(row, tenant=tenant, run=None, seq=None, upcaster=audit.setting.upcaster, strict=True)
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
                self._found(record, "the record begins the run's chain a second time" if known else NO_GENESIS)
            elif not record.body.endswith(self._first_end):
                self._found(record, "the first record names another store's lineage")
        elif known is None or known[0] != seq - 1:
            self._look_up(record, known)
        elif known[1] is not None and record.prev != known[1]:
            self._found(record, "the record does not follow the one before it")
        heads[run] = seq, record.hash
        if len(heads) > HEADS_MAX:
            del heads[next(iter(heads))]

    def _look_up(self, record: Record, known: tuple[int, bytes | None] | None) -> None:
        """The record before this one is none that is remembered."""
        audit, tenant, run, seq = self._audit, record.tenant, record.run, record.seq
        if known is not None and known[0] >= seq:
            self._found(record, f"the record follows record {known[0]} of its run")
            return
        before = audit.find(tenant, run, seq - 1)
        if before is None:
            arrival = audit.arrival_of(tenant, run, seq - 1)
            if arrival is None or not self._is_told(arrival):
                self._found(record, "the record before it is missing")
        elif decode_row(before[1], run, seq - 1).hash != record.prev or before[0] >= record.arrival:
            self._found(record, "the record does not follow the one before it")

    def _is_told(self, arrival: int) -> bool:
        """Whether something is known to be wrong with the record of this arrival, be it by whoever checks its range."""
        wanted = self._wanted
        if not wanted.first <= arrival <= wanted.last:
            return True
        return arrival in self._unnamed or self._audit.findings.names(*record_place(wanted.tenant, arrival))

    def _found(self, record: Record, what: str) -> None:
        self._audit.found(what, tenant=record.tenant, run=record.run, seq=record.seq, arrival=record.arrival)

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


def owners(audit: Audit, tenant: str, arrivals: set[int]) -> dict[int, tuple[str | None, int | None]]:
    """The run and seq of the records with these arrivals, as the lookup has them: two tables are walked for it."""
    from sealbook.indexes.standing import BLOCK_RECORDS
    from sealbook.journal.schema.standings import read_standing

    found: dict[int, tuple[str | None, int | None]] = {}

    def see(run: str, before: int, block: bytes) -> None:
        for offset in range(0, len(block) - 7, 8):
            if (arrival := read_u64(block, offset)) in arrivals:
                found[arrival] = run, before + offset // 8 + 1

    for key, value in audit.walk(tables.ARRIVALS, text(tenant)):
        try:
            _, run, number = tables.split_position_key(key)
        except ValueError:
            continue
        see(run, number * BLOCK_RECORDS, value)
    for key, value in audit.walk(tables.STATE, text(tenant)):
        try:
            run = tables.split_run_key(key)[1]
            standing = read_standing(tenant, run, value)
        except (ValueError, Corrupt):
            continue
        if standing is not None:
            see(run, standing.records // BLOCK_RECORDS * BLOCK_RECORDS, standing.recent_arrivals)
    return found
