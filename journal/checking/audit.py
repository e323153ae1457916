"""One check under way: its snapshot, what it found and counted so far, and the rows that it has yet to look up.

What more than one part of a check needs stands here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from sealbook.indexes.packing import u64
from sealbook.indexes.standing import Standing
from sealbook.journal.checking.report import Finding, Findings
from sealbook.journal.deciding import acts
from sealbook.journal.deciding.acts import cancellation_of, log_adoption_of
from sealbook.journal.deciding.log import adoption
from sealbook.journal.engine.port import Place, Snapshot
from sealbook.journal.errors import Corrupt, Refused
from sealbook.journal.records.names import OPERATOR_RUN, check_log, check_own_run
from sealbook.journal.records.record import Record, says_it_is
from sealbook.journal.records.signatures import signed_message
from sealbook.journal.records.trust import NOTHING_BROUGHT, Trust
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import arrivals_of, record_place
from sealbook.journal.schema.setting import Setting
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import PAGE_ROWS, LeaseRow, TenantRow, check_names, rows_of, signer_fault
from sealbook.merkle.entry import LeafEntry
from sealbook.merkle.errors import Malformed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

T = TypeVar("T")

PENDING_MAX = 1000  # rows that are expected and not yet looked up


@dataclass(slots=True)
class TenantTally:
    """What a tenant's runs add up to. `claimed` has one bit per leaf that a run accounts for."""

    records: int = 0
    lost: int = 0  # records that a run leads to and that are not there
    arrival_max: int = 0
    claimed: bytearray = field(default_factory=bytearray)
    reached: bytearray = field(default_factory=bytearray)  # one bit per arrival whose record a run leads to
    batch: int = -1  # the log position of the last anchor batch
    adopted: tuple[LeafEntry, bytes] | None = None  # by the last LogAdopted: the log's first leaf, the row of `origins`
    adoptions: dict[int, LeafEntry] = field(default_factory=dict)  # by the seq of each LogAdopted: that first leaf
    gathered: int = 0  # the size of the log's last head in the store log

    def claim(self, index: int) -> None:
        """The leaf at this log position is accounted for."""
        _mark(self.claimed, index)

    def is_claimed(self, index: int) -> bool:
        """Whether a run accounts for the leaf."""
        return _is_marked(self.claimed, index)

    def is_reached(self, arrival: int) -> bool:
        """Whether a run leads to the record with this arrival."""
        return _is_marked(self.reached, arrival)


def _mark(bits: bytearray, number: int) -> None:
    if len(bits) <= number // 8:
        bits.extend(bytes(number // 8 + 1 - len(bits)))
    bits[number // 8] |= 1 << number % 8


def _is_marked(bits: bytearray, number: int) -> bool:
    return number // 8 < len(bits) and bool(bits[number // 8] >> number % 8 & 1)


class CheckAudit:
    """One check under way: its snapshot, what it found, what it counted, and the rows it still has to look up."""

    def __init__(self, snapshot: Snapshot, setting: Setting, *, indexed: bool, trust: Trust = NOTHING_BROUGHT) -> None:
        self.snapshot = snapshot
        self.setting = setting
        self.trust = trust
        self.indexed = indexed  # whether the index tables are current and thus to be compared
        self.findings = Findings()
        self.tallies: dict[str, TenantTally] = {}
        self.unsure: set[bytes] = set()
        self.unsound_batches: set[tuple[str, int]] = set()  # (tenant, leaf) of anchor batches that do not add up
        self.corrected: dict[bytes, Standing] = {}  # what the records say, where a state row says otherwise
        self.agreed: Counter[str] = Counter()  # rows per table that are as the records say
        self.unknown_acts: Counter[str] = Counter()
        self.searched: set[bytes] = set()  # runs that were searched for in the journal, since no lookup leads to them
        self.lost_runs: set[bytes] = set()  # and those that were not, because there were too many
        self.states_count_all = False  # whether the states count as many records as there are
        self.runs = self.records = self.bytes = self.effects = self.signatures = 0
        self.reached = 0  # records that a run leads to
        self.leaf_index_max = 2 * snapshot.count(tables.LEAVES) + 1024  # no sound leaf is above it, also with some lost
        self.arrival_bound = 2 * snapshot.count(tables.JOURNAL) + 1024  # nor a sound arrival above this
        self.signers = Signers(self)
        self._pending: list[tuple[Place, bytes, str, str | None, int | None]] = []
        self._forced: list[tuple[str, str, int, int]] = []

    def tally(self, tenant: str) -> TenantTally:
        """The tenant's sums."""
        return self.tallies.setdefault(tenant, TenantTally())

    def found(
        self,
        what: str,
        *,
        tenant: str | None = None,
        run: str | None = None,
        seq: int | None = None,
        arrival: int | None = None,
        place: Place | None = None,
        newer: bool = False,
    ) -> None:
        """Report a finding; one that names an arrival and no other row is about the record's own row."""
        if place is None and tenant is not None and arrival is not None:
            place = record_place(tenant, arrival)
        table, key = place if place is not None else (None, None)
        self.findings.add(Finding(tenant, run, seq, table, key, what, newer))

    def found_in(self, record: Record, what: str) -> None:
        """Report a finding about a record."""
        self.found(what, tenant=record.tenant, run=record.run, seq=record.seq, arrival=record.arrival)

    def reach(self, tenant: str, arrival: int) -> None:
        """A run leads to the record with this arrival."""
        tally = self.tally(tenant)
        if arrival <= self.arrival_bound and not tally.is_reached(arrival):
            _mark(tally.reached, arrival)
            self.reached += 1

    def arrival_of(self, tenant: str, run: str, seq: int) -> int | None:
        """The arrival that the lookup gives for a record; None where it gives none."""
        try:
            [state] = self.snapshot.get_many([(tables.STATE, tables.run_key(tenant, run))])
            standing = read_standing(tenant, run, state)
            return arrivals_of(self.snapshot.get_many, {run: standing}, [(run, seq)])[0]
        except Corrupt:
            return None

    def find(self, tenant: str, run: str, seq: int) -> tuple[int, bytes] | None:
        """(arrival, row) of a record, along the lookup; None where that does not lead to the very record."""
        arrival = self.arrival_of(tenant, run, seq)
        if arrival is None:
            return None
        [value] = self.snapshot.get_many([record_place(tenant, arrival)])
        return None if value is None or says_it_is(value) != (tenant, run, seq) else (arrival, value)

    def rows(self, table: str, split: Callable[[bytes], T]) -> Iterator[tuple[T, bytes, bytes]]:
        """(names, key, value) of every row of the table; a key that is none of it is a finding."""
        for key, value in rows_of(self.snapshot, table):
            names = self.names_in(table, key, split)
            if names is not None:
                yield names, key, value

    def names_in(self, table: str, key: bytes, split: Callable[[bytes], T]) -> T | None:
        """What the key names; None, and a finding, for a key that is none of the table's."""
        try:
            return split(key)
        except (ValueError, Refused) as error:
            self.found(f"the row's key is damaged: {error}", place=(table, key))
            return None

    def tenant_row(self, tenant: str) -> TenantRow | None:
        """What the tenant's row counts; None for a damaged one, which is reported where these rows are checked."""
        try:
            return TenantRow.decode(tenant, self.snapshot.get_many([(tables.TENANTS, tenant.encode())])[0])
        except Corrupt:
            return None

    def expect(
        self, table: str, key: bytes, value: bytes, tenant: str, run: str | None = None, seq: int | None = None
    ) -> None:
        """The records say that this row stands here. It is looked up later, many at once."""
        self._pending.append(((table, key), value, tenant, run, seq))
        if len(self._pending) >= PENDING_MAX:
            self._look_up()

    def flush(self) -> None:
        """Look up whatever is still pending."""
        self._look_up()
        self._check_forced()

    def _look_up(self) -> None:
        pending, self._pending = self._pending, []
        values = self.snapshot.get_many([place for place, *_ in pending])
        for (place, value, tenant, run, seq), stored in zip(pending, values, strict=True):
            if stored == value:
                self.agreed[place[0]] += 1
            else:
                what = "the row is missing" if stored is None else "the row is not what the records say"
                self.found(what, tenant=tenant, run=run, seq=seq, place=place)

    # --- operator acts ---------------------------------------------------------------------------------------------

    def act(self, record: Record) -> None:
        """What a record of `~tenant` must have left behind elsewhere."""
        tenant, seq = record.tenant, record.seq
        try:
            if record.kind == acts.CANCEL_REQUESTED:
                run = check_own_run(cancellation_of(record).run)
                self.expect(tables.CANCELS, tables.run_key(tenant, run), u64(seq), tenant, run)
            elif record.kind == acts.LEASE_FORCED:
                run, epoch = acts.forced_lease_of(record)
                self._forced.append((tenant, run, seq, epoch))
                if len(self._forced) >= PENDING_MAX:
                    self._check_forced()
            elif record.kind == acts.LOG_ADOPTED:
                origin, first = log_adoption_of(record)
                self.tally(tenant).adopted = first, adoption.origin_value(seq, origin)
                self.tally(tenant).adoptions[seq] = first
            elif record.kind == acts.RESTORED:
                acts.restoration_of(record)
            else:
                self.unknown_acts[record.kind] += 1
        except Corrupt as error:
            self.found_in(record, error.what)
        except Refused as error:
            self.found_in(record, str(error))

    def _check_forced(self) -> None:
        """A forced lease leaves a lease row with at least its epoch, until the run is sealed."""
        forced, self._forced = self._forced, []
        keys = [tables.run_key(tenant, run) for tenant, run, _, _ in forced]
        leases = self.snapshot.get_many([(tables.LEASES, key) for key in keys])
        states = self.snapshot.get_many([(tables.STATE, key) for key in keys])
        for (tenant, run, seq, epoch), key, lease, state in zip(forced, keys, leases, states, strict=True):
            place = (tables.LEASES, key)
            try:
                row, standing = LeaseRow.decode(place, run, lease), read_standing(tenant, run, state)
            except Corrupt:
                continue  # reported where the run's own rows are checked
            if row is None and (standing is None or not standing.sealed):
                what = f"the lease row is missing: record {seq} of {OPERATOR_RUN} forced it to epoch {epoch}"
                self.found(what, tenant=tenant, run=run, place=place)
            elif row is not None and row.epoch < epoch:
                what = f"the lease has epoch {row.epoch}: record {seq} of {OPERATOR_RUN} forced it to {epoch}"
                self.found(what, tenant=tenant, run=run, place=place)


class Signers:
    """The public keys of table `signers`, read once each, and the arithmetic of every signature."""

    def __init__(self, audit: CheckAudit) -> None:
        self._audit = audit
        self._keys: dict[bytes, Ed25519PublicKey | None] = {}
        self._noted: set[bytes] = set()

    def judge(self, record: Record) -> None:
        """The record must be signed as the auditor's trust demands, and its signature must be its signer's."""
        signer, signature = record.signer, record.signature
        if signer is None or signature is None:
            if self._audit.trust.signatures_required:
                self._audit.found_in(record, "the record is not signed")
            return
        if signer not in self._keys:
            self._keys[signer] = self._read(record, signer)
        key = self._keys[signer]
        if key is None:
            return
        from cryptography.exceptions import InvalidSignature

        self._audit.signatures += 1
        try:
            key.verify(signature, signed_message(record.hash))
        except InvalidSignature:
            self._audit.found_in(record, "the signature is not that of the signer's key over this record")

    def used(self, signer: bytes) -> bool:
        """Whether a record names this signer."""
        return signer in self._keys or signer in self._noted

    def ids(self) -> tuple[bytes, ...]:
        """The signers that records name."""
        return tuple({*self._keys, *self._noted})

    def note(self, signers: Iterable[bytes]) -> None:
        """Records that were checked elsewhere name these signers."""
        self._noted.update(signers)

    def _read(self, record: Record, signer: bytes) -> Ed25519PublicKey | None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        place = (tables.SIGNERS, signer)
        if not self._audit.trust.trusts(signer):
            what = "the record, and perhaps others, is signed with a key that was not given"
            self._audit.found(what, tenant=record.tenant, run=record.run, seq=record.seq, place=place)
        value = self._audit.snapshot.get_many([place])[0]
        fault = "the signer's key is missing" if value is None else signer_fault(signer, value)
        if fault is None and value is not None:
            return Ed25519PublicKey.from_public_bytes(value[1:])
        what = f"{fault}: the signatures of its records cannot be checked"
        self._audit.found(what, tenant=record.tenant, run=record.run, seq=record.seq, place=place)
        return None


# --- keys, taken apart: ValueError or `Refused` when no writer could have built them ----------------------------------


def names_of_run(key: bytes) -> tuple[str, str]:
    """(tenant, run) of a key of `state`, `leases` or `cancels`."""
    tenant, run = tables.split_run_key(key)
    check_names(tenant, run)
    return tenant, run


def names_of_position(key: bytes) -> tuple[str, str, int]:
    """(tenant, run, index) of a key of `positions` or `batched`."""
    tenant, run, index = tables.split_position_key(key)
    check_names(tenant, run)
    return tenant, run, index


def names_of_number(key: bytes) -> tuple[str, int]:
    """(tenant, number) of a key of `leaves` or `checkpoints`; the store log's are among them."""
    tenant, number = tables.split_number_key(key)
    check_log(tenant)
    return tenant, number


def leaf_in(value: bytes | None) -> LeafEntry | None:
    """The leaf entry that a row holds; None where there is no row, or a damaged one."""
    try:
        return None if value is None else LeafEntry.decode(value)
    except Malformed:
        return None


def pages_of(items: Iterable[T], size: int = PAGE_ROWS) -> Iterator[list[T]]:
    """The items, so many at a time."""
    rest = iter(items)
    while page := list(islice(rest, size)):
        yield page
