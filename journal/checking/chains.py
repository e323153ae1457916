"""Fold the records of one run again: their chain, the rules that admitted them, and what they make of the run.

The records stream by once, in their order. What they say of rows elsewhere is looked up as they are met; a record that
is missing, unreadable or newer ends the fold, and its run is `unsure`, so that one damaged byte does not look like ten.
"""

from __future__ import annotations

from sealbook.indexes import case as case_index
from sealbook.indexes.packing import u64
from sealbook.indexes.standing import EffectStatus, Standing, advance, seals
from sealbook.journal.checking.audit import CheckAudit
from sealbook.journal.checking.lookups import FoundRecord
from sealbook.journal.checking.records import NOT_BEHIND, decoded, lineage_fault, misplaced
from sealbook.journal.deciding.admission import check_open, check_place, move_effect
from sealbook.journal.deciding.requests import EFFECT_KINDS, Prepared, read_members
from sealbook.journal.engine.port import Place
from sealbook.journal.errors import Corrupt, InvalidInput, Refused, UnknownVersion
from sealbook.journal.records.chain import GENESIS, run_tag
from sealbook.journal.records.names import OPERATOR_RUN, RESTORATION
from sealbook.journal.records.record import Record
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import BLOCK_BYTES, block_of, block_place
from sealbook.journal.schema.tables import EffectRow

ARRIVAL_MAX = 2**63 - 1  # what a state row can hold


class RunChain:
    """The records of one run as they stream by: their chain, and the fold of what they say."""

    def __init__(self, audit: CheckAudit, tenant: str, run: str, attested: frozenset[int]) -> None:
        self._audit, self._tenant, self._run, self._attested = audit, tenant, run, attested
        self._tally = audit.tally(tenant)
        self.last_hash: bytes | None = GENESIS  # None when the last record could not be read
        self._gone: int | None = None  # the arrival of the first of the records that are missing here
        self._block = b""  # the arrivals of the block of 64 that the last record belongs to
        self._cases: dict[Place, bytes] | None = {}  # its rows of the case index, None when they cannot be known
        self.records = self.seq = self.arrival = 0
        self.intact = True  # whether every record so far could be folded
        self.standing: Standing | None = None
        self.tag: bytes | None = None
        self.effects: dict[bytes, EffectRow] = {}
        self.heads: dict[int, tuple[bytes, bool | None]] = {}  # attested seq -> (hash, whether it ends the run)
        self.resumable: list[int] = []  # conclusions that leave the run open, each of which is anchored at once

    def fault(self, seq: int, what: str, *, arrival: int | None = None, newer: bool = False) -> None:
        """A record that is missing, cannot be read or cannot be believed: what follows from it is not known."""
        self.intact, self._cases = False, None
        self._audit.unsure.add(tables.run_key(self._tenant, self._run))
        self._audit.found(what, tenant=self._tenant, run=self._run, seq=seq, arrival=arrival, newer=newer)

    def page(self, page: list[FoundRecord]) -> None:
        """The next records of the run."""
        audit = self._audit
        for seq, arrival, value in page:
            if value is None:
                self._gone = self._gone or arrival
                self._tally.lost += 1
                continue
            audit.records += 1
            audit.bytes += len(value)
            self._tally.records += 1
            self._tally.arrival_max = max(self._tally.arrival_max, arrival)
            audit.reach(self._tenant, arrival)
            self.records += 1
            self._row(seq, arrival, value)

    def end(self, counted: int, *, sealed: bool) -> None:
        """The run has no more records, and its state counts so many: what is missing is found, and the last block's
        rows are looked up."""
        if self.seq < counted:
            gone = "the record is missing" if self.records else "all records of the run are gone"
            what = f"{gone}: its state counts {counted}" + (", and the run is sealed" if sealed else "")
            self.fault(self.seq + 1, what, arrival=self._gone)
        self._end_block()

    def _row(self, seq: int, arrival: int, value: bytes) -> None:
        run, first = self._run, self.seq + 1
        if seq != first:
            what = "the record is missing" if first == seq - 1 else f"the records {first} to {seq - 1} are missing"
            self.fault(first, what, arrival=self._gone)
            self.last_hash = None
        if block_of(seq) != block_of(self.seq):
            self._end_block()
            if seq != first:
                self._cases = None  # of a block that may begin with a missing record
        self.seq, prev, self.last_hash, self._gone = seq, self.last_hash, None, None
        self.arrival = arrival
        self._block += u64(arrival)
        if not 1 <= arrival <= ARRIVAL_MAX:
            self.fault(seq, f"the record has the impossible arrival {arrival}", arrival=arrival)
            return
        record, newer = None, ""
        try:
            row = decode_row(value, run, seq)
            if row.arrival != arrival:
                self._found(misplaced(row, arrival))
            record = decoded(self._audit, row, self._tenant, run, seq)
        except Corrupt as error:
            self.fault(seq, error.what, arrival=arrival)
            return
        except UnknownVersion as error:
            newer = error.what
        if prev is not None and row.prev != prev:
            self._found(NOT_BEHIND)
        self.last_hash = row.hash
        if record is not None:
            self._record(record)
        else:
            # whole, and of a version that cannot be read here
            self.fault(seq, newer, arrival=arrival, newer=True)
        if seq in self._attested:
            self.heads[seq] = (row.hash, self.standing.final if self.intact and self.standing else None)

    def _record(self, record: Record) -> None:
        """What one whole record says of the rows that it alone decides, and then of the run."""
        audit, tenant, run, seq = self._audit, self._tenant, self._run, record.seq
        if record.salt is not None:
            self.tag = run_tag(record.salt, tenant, run)
            self._found(lineage_fault(audit, record))
        audit.signers.judge(record)
        if record.case is not None and self._cases is not None:
            place = case_index.place(tenant, record.case, run, seq)
            self._cases[place] = case_index.with_record(self._cases.get(place), seq)
        if run == OPERATOR_RUN:
            audit.act(record)
        if self.intact:
            self._move(record)

    def _move(self, record: Record) -> None:
        """Hold the record to the rules that admitted it (`admission`), and fold it. A breach is reported, and the
        record is folded for what it says."""
        standing, tenant, run, seq = self.standing, self._tenant, self._run, record.seq
        try:
            members = read_members(record.kind, record.data, record.effect)
        except Refused as error:
            self._breach(error)
            members = {}
        entry = Prepared(record.kind, record.case, record.effect, record.attempt, b"", record.data, **members)
        before = after = None
        try:
            check_open(run, standing)
            check_place(entry, seq, None)
            _check_epoch(record, standing)
            if entry.kind in EFFECT_KINDS and entry.effect is not None:
                before, after = self._effect(entry, seq)
        except Refused as error:
            self._breach(error)
        if entry.source is not None and entry.id is not None:
            key = tables.admission_key(tenant, self._audit.setting.identity.secret, entry.source, entry.id)
            self._audit.expect(tables.ADMISSIONS, key, run.encode(), tenant, run, seq)
        if entry.outcome is not None and not seals(entry.outcome):
            self.resumable.append(seq)
        facts = entry.facts(seq, self.arrival, record.epoch, record.at, record.hash, before, after)
        assert self.tag is not None  # the first record has a salt, or it was a fault
        self.standing = advance(standing, facts, tenant=tenant, run=run, run_tag=self.tag)

    def _effect(self, entry: Prepared, seq: int) -> tuple[EffectStatus | None, EffectStatus]:
        assert entry.effect is not None
        if entry.attempt is None:
            raise InvalidInput("attempt", None, "is missing: the store numbers every attempt")
        row = self.effects.get(entry.effect)
        moved = move_effect(self._run, entry, seq, row)
        self.effects[entry.effect] = moved
        return (None if row is None else row.status), moved.status

    def _breach(self, error: Refused) -> None:
        self._found(f"the record breaks a rule: {error}")

    def _found(self, what: str | None) -> None:
        """Report what is wrong with the record at hand, if anything is."""
        if what is not None:
            self._audit.found(what, tenant=self._tenant, run=self._run, seq=self.seq, arrival=self.arrival)

    def _end_block(self) -> None:
        """A block of 64 records has ended: look up its arrivals, if it is full, and its rows of the case index."""
        audit, tenant, run, block = self._audit, self._tenant, self._run, block_of(self.seq)
        if len(self._block) == BLOCK_BYTES:
            audit.expect(*block_place(tenant, run, block), self._block, tenant, run)
        if audit.indexed:
            for place, value in (self._cases or {}).items():
                audit.expect(*place, value, tenant, run)
        self._block, self._cases = b"", {}


def _check_epoch(record: Record, standing: Standing | None) -> None:
    epoch = record.epoch
    if standing is not None and epoch < standing.epoch:
        raise InvalidInput("epoch", epoch, f"is below that of the record before, {standing.epoch}")
    if record.run == OPERATOR_RUN:
        if epoch % RESTORATION:
            raise InvalidInput("epoch", epoch, "is none that the store writes its own run under")
    elif epoch < 1:
        raise InvalidInput("epoch", epoch, "is none that a lease was ever issued with")
