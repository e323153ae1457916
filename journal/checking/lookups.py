"""Find the records of each run for a check, and name the rows of `journal` that no run leads to.

A run's records are read along the lookup (`lookup`) as far as it leads to records that say they are the run's. From
there on the journal itself is searched for the run, so that a damaged lookup hides no record, and is found by what the
records say it should be. Searches are few, because each reads the whole journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile

from sealbook.indexes.packing import read_u64, text, u64
from sealbook.indexes.standing import BLOCK_RECORDS, Standing
from sealbook.journal.checking.audit import CheckAudit
from sealbook.journal.checking.records import decoded
from sealbook.journal.engine.port import Row
from sealbook.journal.errors import Corrupt, Refused, UnknownVersion
from sealbook.journal.records import names as ids
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.record import names, says_it_is
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import arrivals_between, record_place
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import check_names, rows_of

FoundRecord = tuple[int, int, bytes | None]  # seq, arrival and row of a record; no row where the lookup leads to none
Derive = Callable[[str, str], None]  # (tenant, run)

PAGE_RECORDS = 100  # records per read: each may be 4 MiB
SEARCHES_MAX = 16  # runs that the whole journal is searched for


class Trace:
    """The records of one run, in order, in pages. `suspect` says that its lookup does not lead to all of them."""

    def __init__(self, audit: CheckAudit, tenant: str, run: str, standing: Standing | None, *, suspect: bool) -> None:
        self._audit, self._tenant, self._run = audit, tenant, run
        self._standing = None if suspect else standing
        self._has_none = standing is None and not suspect and audit.states_count_all
        self._seq = self._arrival = 0  # of the last record that was found
        self.lost = False  # whether there may be records that were not searched for

    def pages(self) -> Iterator[list[FoundRecord]]:
        """The records along the lookup, and from where it leads astray those that a search finds."""
        if self._has_none:
            return
        for page in self._looked_up():
            kept = list(takewhile(self._is_sound, page))
            if kept:
                self._seq, self._arrival = kept[-1][:2]
                yield kept
            if len(kept) < len(page):
                break
        if self._standing is None or not 0 < self._seq == self._standing.records:
            yield from self._searched()

    def _looked_up(self) -> Iterator[list[FoundRecord]]:
        """The records that the lookup leads to, up to a block of it that is missing or damaged."""
        standing, get_many = self._standing, self._audit.snapshot.get_many
        for first in range(1, 1 + (0 if standing is None else standing.records), BLOCK_RECORDS):
            assert standing is not None
            last = min(first + BLOCK_RECORDS - 1, standing.records)
            try:
                arrivals = arrivals_between(get_many, standing, first, last)
            except Corrupt:
                return
            values = get_many([record_place(self._tenant, arrival) for arrival in arrivals])
            yield list(zip(range(first, last + 1), arrivals, values, strict=True))

    def _is_sound(self, found: FoundRecord) -> bool:
        """Whether the lookup leads here rightly, as far as can be told: to a row that is not another record's, or to a
        number that was given and whose record is gone."""
        seq, arrival, value = found
        if value is None:
            return 1 <= arrival <= arrivals_counted(self._audit, self._tenant)
        return names(value, self._tenant, self._run, seq) or not self._is_anothers(seq, arrival, value)

    def _is_anothers(self, seq: int, arrival: int, value: bytes) -> bool:
        """Whether the row is undamaged and stands where another record belongs."""
        named = _named(self._tenant, says_it_is(value))
        if named is None or named == (self._run, seq):
            return False
        row = decode_row(value, *named)
        if row.arrival != arrival or chain_hash(row.prev, row.body) != row.hash:
            return False
        return named[0] == self._run or self._audit.arrival_of(self._tenant, *named) in (arrival, None)

    def _searched(self) -> Iterator[list[FoundRecord]]:
        key = tables.run_key(self._tenant, self._run)
        if len(self._audit.searched) >= SEARCHES_MAX:
            self.lost = True
            self._audit.lost_runs.add(key)
            return
        self._audit.searched.add(key)
        name, seq = self._run.encode(), self._seq
        for page in _pages(self._audit, text(self._tenant), self._arrival + 1):
            found: list[FoundRecord] = []
            for row_key, value in page:
                says = says_it_is(value) if name in value else None
                named = None if says is None else _named(self._tenant, says)
                if named is not None and named[0] == self._run and named[1] > seq:
                    seq = named[1]
                    found.append((seq, read_u64(row_key, len(row_key) - 8), value))
            if found:
                yield found


def arrivals_counted(audit: CheckAudit, tenant: str) -> int:
    """How many arrivals the tenant's row says were given; without a sound row, a bound of it."""
    row = audit.tenant_row(tenant)
    return audit.arrival_bound if row is None else row.arrivals


# --- all runs ------------------------------------------------------------------------------------------------------


def suspects(audit: CheckAudit) -> frozenset[bytes]:
    """The keys of runs that the journal has records of which their lookup does not lead to: a few, if there are many.

    It is looked for only where the states do not count as many records as there are.
    """
    counted = 0
    for key, value in rows_of(audit.snapshot, tables.STATE):
        try:
            standing = read_standing(*tables.split_run_key(key), value)
        except (ValueError, Corrupt):
            continue
        counted += 0 if standing is None else standing.records
    audit.states_count_all = counted == audit.snapshot.count(tables.JOURNAL)
    if audit.states_count_all:
        return frozenset()
    found: set[bytes] = set()
    for tenant, arrival, value in _records(audit):
        named = _named(tenant, says_it_is(value))
        if named is not None and audit.arrival_of(tenant, *named) != arrival:
            found.add(tables.run_key(tenant, named[0]))
        if len(found) == SEARCHES_MAX:
            break
    return frozenset(found)


def name_strays(audit: CheckAudit, derive: Derive) -> None:
    """Name every record that no run leads to, and every gap in the arrivals. A run of which nothing but records is
    left is derived from them."""
    dense = all(tally.arrival_max == tally.records for tally in audit.tallies.values())
    if dense and audit.reached == audit.snapshot.count(tables.JOURNAL):
        return
    last = ("", 0)
    for tenant, arrival, value in _records(audit, name_keys=True):
        expected = last[1] + 1 if last[0] == tenant else 1
        if arrival > expected:
            audit.found("the record is missing", tenant=tenant, place=record_place(tenant, expected))
        last = (tenant, max(arrival, expected - 1))
        if not audit.tally(tenant).is_reached(arrival):
            _name_stray(audit, derive, tenant, arrival, value)


def _name_stray(audit: CheckAudit, derive: Derive, tenant: str, arrival: int, value: bytes) -> None:
    named = _named(tenant, says_it_is(value))
    if named is None:
        audit.tally(tenant).records += 1
        audit.found("the row is no record of this tenant", tenant=tenant, arrival=arrival)
        return
    run, seq = named
    key = tables.run_key(tenant, run)
    if audit.snapshot.get_many([(tables.STATE, key)]) == [None] and key not in audit.searched | audit.lost_runs:
        derive(tenant, run)
        if audit.tally(tenant).is_reached(arrival):
            return
    audit.tally(tenant).records += 1
    fault = None if key in audit.lost_runs else "no run leads to this record"
    try:
        decoded(audit, decode_row(value, run, seq), tenant, run, seq)
    except Corrupt as error:
        fault = error.what
    except UnknownVersion:
        pass
    if fault is not None:
        audit.found(fault, tenant=tenant, run=run, seq=seq, arrival=arrival)


def _named(tenant: str, says: tuple[object, object, object] | None) -> tuple[str, int] | None:
    """(run, seq) that a row under this tenant states, when they are names that a writer could have given."""
    match says:
        case (str() as says_tenant, str() as run, int() as seq) if says_tenant == tenant and 1 <= seq < 2**63:
            try:
                check_names(tenant, run)
            except Refused:
                return None
            return run, seq
    return None


def _records(audit: CheckAudit, *, name_keys: bool = False) -> Iterator[tuple[str, int, bytes]]:
    """(tenant, arrival, row) of all of `journal`; keys that are none are passed over, and named when that is asked."""
    for page in _pages(audit, b"", 0):
        for key, value in page:
            try:
                tenant, arrival = tables.split_number_key(key)
                ids.check_tenant(tenant)
            except (ValueError, Refused) as error:
                if name_keys:
                    audit.found(f"the row's key is damaged: {error}", place=(tables.JOURNAL, key))
                continue
            yield tenant, arrival, value


def _pages(audit: CheckAudit, prefix: bytes, start: int) -> Iterator[list[Row]]:
    """The rows of `journal`, of one tenant from this arrival on, or of all."""
    lo, hi = (prefix + u64(start), tables.prefix_end(prefix)) if prefix else (b"", None)
    while page := audit.snapshot.scan(tables.JOURNAL, lo, hi, PAGE_RECORDS):
        yield page
        lo = page[-1][0] + b"\0"
