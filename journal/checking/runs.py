"""Derive one run again from its record bytes, and compare every row of the run with what it should be.

The records stream by once (`lookups` finds them, `chains` folds them). A run with a record that is missing, unreadable
or newer cannot be folded: its records are reported, and the rows that the fold would have given are left out
(`CheckAudit.unsure`), so that one damaged byte does not look like ten.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter

from sealbook.indexes.registry import rows as index_rows
from sealbook.indexes.standing import Standing, pack, with_leaf
from sealbook.journal.checking.anchors import BatchEntry, RunEntries
from sealbook.journal.checking.audit import CheckAudit
from sealbook.journal.checking.chains import RunChain
from sealbook.journal.checking.leaves import RunLeaves
from sealbook.journal.checking.lookups import SEARCHES_MAX, Trace
from sealbook.journal.engine.port import Row
from sealbook.journal.errors import Corrupt
from sealbook.journal.schema import tables
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import PAGE_ROWS, EffectRow, LeaseRow, check_names
from sealbook.merkle.entry import LeafEntry, LeafType

# The tables whose keys begin with tenant 00 run: how many bytes of a key follow the run, None where none do.
TAIL_BYTES = {
    tables.ARRIVALS: 8,
    tables.STATE: None,
    tables.LEASES: None,
    tables.POSITIONS: 8,
    tables.BATCHED: 8,
    tables.EFFECTS: 32,
}


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The rows that are stored under one run, beside its records. `suspect` says that its lookup is known not to lead
    to all of them, `only_leased` that nothing but a lease row stands there."""

    tenant: str
    run: str
    state: bytes | None = None
    lease: bytes | None = None
    positions: tuple[Row, ...] = ()
    batched: tuple[Row, ...] = ()
    effects: tuple[Row, ...] = ()
    suspect: bool = False
    only_leased: bool = False

    @property
    def key(self) -> bytes:
        """Its key in `state` and `leases`."""
        return tables.run_key(self.tenant, self.run)


@dataclass(frozen=True, slots=True)
class Derived:
    """What the records say: the leaves and the entries of anchor batches that hold, by position."""

    leaves: list[tuple[int, LeafEntry]]
    batched: list[BatchEntry]


# --- what is stored --------------------------------------------------------------------------------------------------


def stored_runs(
    audit: CheckAudit, suspects: frozenset[bytes] = frozenset(), only: bytes | None = None
) -> Iterator[StoredRun]:
    """Every run that has a row in these tables, or the one with the key `only`, in the order of their keys.

    The rows of the lookup are passed over here: they are read where they are followed (`lookups`).
    """
    merged = heapq.merge(*(_lane(audit, table, only) for table in TAIL_BYTES), key=itemgetter(0))
    for key, lane in groupby(merged, itemgetter(0)):
        rows: dict[str, list[Row]] = defaultdict(list)
        for _, table, row in lane:
            rows[table] += [] if table == tables.ARRIVALS else [row]
        only_leased = rows.keys() == {tables.LEASES}
        states, leases = rows[tables.STATE], rows[tables.LEASES]
        yield StoredRun(
            *tables.split_run_key(key),
            state=states[0][1] if states else None,
            lease=leases[0][1] if leases else None,
            positions=tuple(rows[tables.POSITIONS]),
            batched=tuple(rows[tables.BATCHED]),
            effects=tuple(rows[tables.EFFECTS]),
            suspect=key in suspects,
            only_leased=only_leased,
        )


def _lane(audit: CheckAudit, table: str, only: bytes | None) -> Iterator[tuple[bytes, str, Row]]:
    """(key of its run, table, row) of every row of the table; a key that is none of the table's is a finding."""
    tail_bytes = TAIL_BYTES[table]
    lo, hi = b"", None
    if only is not None:
        lo, hi = (only, only + b"\0") if tail_bytes is None else (only + b"\0", only + b"\1")

    def run_of(key: bytes) -> bytes:
        names = tables.split_run_key(key) if tail_bytes is None else tables.split_tail_key(key, tail_bytes)
        check_names(*names[:2])
        return key if tail_bytes is None else key[: -tail_bytes - 1]

    run: bytes | None = None
    while page := audit.snapshot.scan(table, lo, hi, PAGE_ROWS):
        for row in page:
            key = row[0]
            length = None if run is None or tail_bytes is None else len(run) + 1 + tail_bytes
            if run is None or len(key) != length or not key.startswith(run + b"\0"):
                run = audit.names_in(table, key, run_of)
            if run is not None:
                yield run, table, row
        lo = page[-1][0] + b"\0"


# --- one run -----------------------------------------------------------------------------------------------------


def derive(audit: CheckAudit, stored: StoredRun) -> Derived:
    """Check everything that stands under the run."""
    return _Derivation(audit, stored).check()


class _Derivation:
    """One run under way: what is stored of it, and what its records say."""

    def __init__(self, audit: CheckAudit, stored: StoredRun) -> None:
        self._audit, self._stored = audit, stored
        self._found = partial(audit.found, tenant=stored.tenant, run=stored.run)
        self._standing = self._read_state()
        self._leaves = RunLeaves(audit, stored.tenant, stored.run, stored.positions, self._standing)
        self._batched = RunEntries(audit, stored.tenant, stored.run, stored.batched)
        self._chain = RunChain(audit, stored.tenant, stored.run, self._leaves.seqs | self._batched.seqs)

    def check(self) -> Derived:
        audit, stored, standing, chain = self._audit, self._stored, self._standing, self._chain
        trace = Trace(audit, stored.tenant, stored.run, standing, suspect=stored.suspect)
        for page in trace.pages():
            chain.page(page)
        self._check_end(lost=trace.lost)
        if not chain.records:
            self._check_orphans()
            self._check_lease(None)
            return Derived([], [])
        audit.runs += 1
        held = self._leaves.check(chain)
        seal = next((index for index, entry in held if entry.type is LeafType.SEAL), None)
        tag = self._leaves.tag(chain)
        entries = self._batched.check(chain.heads, intact=chain.intact, tag=tag, seal=seal)
        if not chain.intact:
            if stored.state is None:
                self._found("the row is missing", place=(tables.STATE, stored.key))
            self._check_lease(None)
            return Derived(held, entries)
        derived = chain.standing
        assert derived is not None
        for index, entry in held:
            derived = with_leaf(derived, index=index, seq=entry.seq, sealing=entry.type is LeafType.SEAL)
        self._check_state(derived)
        self._check_effects(chain.effects)
        if audit.indexed:
            for table, key, value in index_rows(derived):
                audit.expect(table, key, value, stored.tenant, stored.run)
        self._check_lease(derived)
        return Derived(held, entries)

    def _read_state(self) -> Standing | None:
        stored = self._stored
        try:
            return read_standing(stored.tenant, stored.run, stored.state)
        except Corrupt as error:
            self._found(error.what, place=(tables.STATE, stored.key))
            return None

    def _check_end(self, *, lost: bool) -> None:
        """Records that the state counts and that do not stand at the end of the chain. A state whose head is the last
        record's counts wrongly itself."""
        chain, standing = self._chain, self._standing
        counted = 0 if standing is None else standing.records
        if standing is not None and chain.records and chain.last_hash == standing.head:
            counted = chain.seq
        if lost:
            what = f"the lookup does not lead to the run's records, and {SEARCHES_MAX} runs were searched for already"
            chain.fault(chain.seq + 1, what)
            counted = 0
        chain.end(counted, sealed=standing is not None and standing.sealed)
        if standing is not None and not lost and not chain.records:
            self._found("the state of a run without records", place=(tables.STATE, self._stored.key))

    def _check_orphans(self) -> None:
        """The rows of a run without records. Where a state counts them, that they are gone has been reported."""
        self._leaves.check_orphans()
        if self._standing is None:
            self._batched.check_orphans()
            for key, _ in self._stored.effects:
                self._found("the effect belongs to no record", place=(tables.EFFECTS, key))

    def _check_state(self, derived: Standing) -> None:
        """Every byte of the state row is derived, so it is compared as bytes; the words say which fields differ."""
        stored, standing = self._stored, self._standing
        if stored.state == pack(derived):
            return
        self._audit.corrected[stored.key] = derived
        what = "the row is missing"
        if stored.state is not None and standing is not None:
            names = (name for name in Standing._fields if getattr(standing, name) != getattr(derived, name))
            what = f"the state is not what the records say: {', '.join(names) or 'its encoding'}"
        self._found(what, place=(tables.STATE, stored.key))

    def _check_effects(self, effects: dict[bytes, EffectRow]) -> None:
        stored, missing = self._stored, dict(effects)
        for key, value in stored.effects:
            row = missing.pop(key[-32:], None)
            if row is None:
                self._found("no record started this effect", place=(tables.EFFECTS, key))
            elif row.encode() != value:
                self._found("the effect is not what the records say", place=(tables.EFFECTS, key))
            else:
                self._audit.effects += 1
        for effect, row in missing.items():
            place = (tables.EFFECTS, tables.effect_key(stored.tenant, stored.run, effect))
            self._found("the effect's row is missing", seq=row.start_seq, place=place)

    def _check_lease(self, derived: Standing | None) -> None:
        stored = self._stored
        place = (tables.LEASES, stored.key)
        try:
            row = LeaseRow.decode(place, stored.run, stored.lease)
        except Corrupt as error:
            self._found(error.what, place=place)
            return
        if row is None:
            return
        fault = None
        if stored.run.startswith("~"):
            fault = "the store's own run has a lease"
        elif derived is not None and derived.sealed:
            fault = "the sealed run has a lease"
        elif derived is not None and row.epoch < derived.epoch:
            fault = f"the lease has epoch {row.epoch}, the last record {derived.epoch}"
        elif row.epoch < 1:
            fault = f"the lease has epoch {row.epoch}"
        if fault is not None:
            self._found(fault, place=place)
