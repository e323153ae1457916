"""Derive one run again from its record bytes, and compare every row of the run with what it should be.

The records stream by once (`retrace` finds them, `rechain` folds them). A run with a record that is missing, unreadable
or newer cannot be folded: its records are reported, and the rows that the fold would have given are left out
(`Audit.unsure`), so that one damaged byte does not look like ten.
"""

from __future__ import annotations

from dataclasses import dataclass

from sealbook.indexes.packing import read_u64
from sealbook.indexes.registry import rows as index_rows
from sealbook.indexes.standing import Standing, pack, with_leaf
from sealbook.journal.checking.anchors import Batched, BatchEntry
from sealbook.journal.checking.audit import Audit
from sealbook.journal.checking.chains import Chain
from sealbook.journal.checking.findings import Finding
from sealbook.journal.checking.lookups import SEARCHES_MAX, Trace
from sealbook.journal.engine.port import Row
from sealbook.journal.errors import Corrupt
from sealbook.journal.schema import tables
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import EffectRow, LeaseRow
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed
from sealbook.merkle.hashing import leaf_hash
from sealbook.merkle.tree import Node


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The rows that are stored under one run, beside its records. `suspect` says that its lookup is known not to lead
    to all of them."""

    tenant: str
    run: str
    key: bytes
    state: bytes | None
    lease: bytes | None
    positions: list[Row]
    batched: list[Row]
    effects: list[Row]
    suspect: bool = False


@dataclass(frozen=True, slots=True)
class Derived:
    """What the records say: the standing (None when they cannot be folded), and the leaves and the entries of anchor
    batches that hold, by position."""

    standing: Standing | None
    leaves: list[tuple[int, LeafEntry]]
    batched: list[BatchEntry]


# --- one run -----------------------------------------------------------------------------------------------------


def derive(audit: Audit, stored: StoredRun) -> Derived:
    """Check everything that stands under the run."""
    tenant, run = stored.tenant, stored.run
    standing = _read_state(audit, stored)
    leaves = _Leaves(audit, stored, standing)
    batched = Batched(audit, tenant, run, stored.batched)
    chain = Chain(audit, tenant, run, leaves.seqs | batched.seqs)
    trace = Trace(audit, tenant, run, standing, suspect=stored.suspect)
    for page in trace.pages():
        chain.page(page)
    _check_end(audit, stored, chain, standing, lost=trace.lost)
    if not chain.records:
        leaves.check_orphans(standing)
        if standing is None:
            batched.check_orphans()
            for key, _ in stored.effects:
                audit.found("the effect belongs to no record", tenant=tenant, run=run, place=(tables.EFFECTS, key))
        _check_lease(audit, stored, None)
        return Derived(None, [], [])
    audit.runs += 1
    held = leaves.check(chain, standing)
    seal = next((index for index, entry in held if entry.type is LeafType.SEAL), None)
    entries = batched.check(chain.heads, intact=chain.intact, tag=leaves.tag(chain, standing), seal=seal)
    if not chain.intact:
        if stored.state is None:
            audit.found("the row is missing", tenant=tenant, run=run, place=(tables.STATE, stored.key))
        _check_lease(audit, stored, None)
        return Derived(None, held, entries)
    derived = chain.standing
    assert derived is not None
    for index, entry in held:
        derived = with_leaf(derived, index=index, seq=entry.seq, sealing=entry.type is LeafType.SEAL)
    _check_state(audit, stored, derived, standing)
    _check_effects(audit, stored, chain.effects)
    if audit.indexed:
        for table, key, value in index_rows(derived):
            audit.expect(table, key, value, tenant, run)
    _check_lease(audit, stored, derived)
    return Derived(derived, held, entries)


def _read_state(audit: Audit, stored: StoredRun) -> Standing | None:
    try:
        return read_standing(stored.tenant, stored.run, stored.state)
    except Corrupt as error:
        audit.found(error.what, tenant=stored.tenant, run=stored.run, place=(tables.STATE, stored.key))
        return None


def _check_end(audit: Audit, stored: StoredRun, chain: Chain, standing: Standing | None, *, lost: bool) -> None:
    """Records that the state counts and that do not stand at the end of the chain. A state whose head is the last
    record's counts wrongly itself."""
    counted = 0 if standing is None else standing.records
    if standing is not None and chain.records and chain.last_hash == standing.head:
        counted = chain.seq
    if lost:
        what = f"the lookup does not lead to the run's records, and {SEARCHES_MAX} runs were searched for already"
        chain.fault(chain.seq + 1, what)
        counted = 0
    chain.end(counted, sealed=standing is not None and standing.sealed)
    if standing is not None and not lost and not chain.records:
        place = (tables.STATE, stored.key)
        audit.found("the state of a run without records", tenant=stored.tenant, run=stored.run, place=place)


def _check_state(audit: Audit, stored: StoredRun, derived: Standing, standing: Standing | None) -> None:
    """Every byte of the state row is derived, so it is compared as bytes; the words then say which fields differ."""
    if stored.state == pack(derived):
        return
    audit.corrected[stored.key] = derived
    what = "the row is missing"
    if stored.state is not None and standing is not None:
        names = (name for name in Standing._fields if getattr(standing, name) != getattr(derived, name))
        what = f"the state is not what the records say: {', '.join(names) or 'its encoding'}"
    audit.found(what, tenant=stored.tenant, run=stored.run, place=(tables.STATE, stored.key))


def _check_effects(audit: Audit, stored: StoredRun, effects: dict[bytes, EffectRow]) -> None:
    tenant, run = stored.tenant, stored.run
    missing = dict(effects)
    for key, value in stored.effects:
        row = missing.pop(key[-32:], None)
        if row is None:
            audit.found("no record started this effect", tenant=tenant, run=run, place=(tables.EFFECTS, key))
        elif row.encode() != value:
            what = "the effect is not what the records say"
            audit.found(what, tenant=tenant, run=run, place=(tables.EFFECTS, key))
        else:
            audit.effects += 1
    for effect, row in missing.items():
        place = (tables.EFFECTS, tables.effect_key(tenant, run, effect))
        audit.found("the effect's row is missing", tenant=tenant, run=run, seq=row.start_seq, place=place)


def _check_lease(audit: Audit, stored: StoredRun, derived: Standing | None) -> None:
    place = (tables.LEASES, stored.key)
    try:
        row = LeaseRow.decode(place, stored.run, stored.lease)
    except Corrupt as error:
        audit.found(error.what, tenant=stored.tenant, run=stored.run, place=place)
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
        audit.found(fault, tenant=stored.tenant, run=stored.run, place=place)


# --- the run's leaves --------------------------------------------------------------------------------------------


class _Leaves:
    """The leaves that the run's position rows name (and the one that its state names), against the chain."""

    def __init__(self, audit: Audit, stored: StoredRun, standing: Standing | None) -> None:
        self._audit, self._stored = audit, stored
        self._entries: list[tuple[int, LeafEntry | None]] = []
        self.seqs: frozenset[int] = frozenset()
        indexes = [read_u64(key, len(key) - 8) for key, _ in stored.positions]
        self._unnamed: int | None = None  # the leaf that the state names and no position row does
        highest = None if standing is None else standing.highest_leaf
        if highest is not None and highest not in indexes and 0 <= highest <= audit.leaf_index_max:
            self._unnamed = highest
            indexes.append(highest)
        if not indexes:
            return
        places = [(tables.LEAVES, tables.number_key(stored.tenant, index)) for index in sorted(indexes)]
        for index, value in zip(sorted(indexes), audit.snapshot.get_many(places), strict=True):
            self._entries.append((index, _decoded(value)))
        self.seqs = frozenset(entry.seq for _, entry in self._entries if entry is not None)

    def check(self, chain: Chain, standing: Standing | None) -> list[tuple[int, LeafEntry]]:
        """Report each leaf that the chain does not bear out; answer with those that hold, by position."""
        audit, stored = self._audit, self._stored
        for key, value in stored.positions:
            if value:
                audit.found("the row has a value", tenant=stored.tenant, run=stored.run, place=(tables.POSITIONS, key))
        tag = self.tag(chain, standing)
        held: list[tuple[int, LeafEntry]] = []
        for index, entry in self._entries:
            if entry is None or (tag is not None and entry.run_tag != tag):
                if index != self._unnamed:
                    self._foreign(index)
                continue
            if index == self._unnamed:
                place = (tables.POSITIONS, tables.position_key(stored.tenant, stored.run, index))
                audit.found("the row is missing", tenant=stored.tenant, run=stored.run, place=place)
            fault = self._fault(entry, chain, held[-1][1] if held else None)
            if fault is not None:
                place = (tables.LEAVES, tables.number_key(stored.tenant, index))
                audit.found(fault, tenant=stored.tenant, run=stored.run, seq=entry.seq, place=place)
                continue
            if index <= audit.leaf_index_max:
                audit.tally(stored.tenant).claim(index)
            held.append((index, entry))
        if chain.intact:
            anchored = {entry.seq for _, entry in held}
            for seq in chain.resumable:
                if seq not in anchored:
                    what = "no leaf anchors this conclusion, which leaves the run open"
                    audit.findings.add(Finding(stored.tenant, stored.run, seq, tables.LEAVES, None, what))
        return held

    def tag(self, chain: Chain, standing: Standing | None) -> bytes | None:
        """The run's tag, from its first record or else from its state."""
        return chain.tag if chain.tag is not None else None if standing is None else standing.run_tag

    def check_orphans(self, standing: Standing | None) -> None:
        """The positions of a run without records."""
        audit, stored = self._audit, self._stored
        for key, _ in stored.positions:
            if standing is None:
                what = "the leaf attests a run that has no records"
                audit.found(what, tenant=stored.tenant, run=stored.run, place=(tables.POSITIONS, key))
        for index, entry in self._entries:  # that the records are gone has been said: the leaf is the run's
            if entry is not None and standing is not None and entry.run_tag == standing.run_tag:
                audit.tally(stored.tenant).claim(index)

    def _foreign(self, index: int) -> None:
        """The position row and the leaf do not belong together: the stored leaf hash says which of them was changed."""
        audit, stored = self._audit, self._stored
        leaf = (tables.LEAVES, tables.number_key(stored.tenant, index))
        node = tables.node_place(stored.tenant, Node(0, index))
        value, hash_ = audit.snapshot.get_many([leaf, node])
        if hash_ is None or (value is not None and leaf_hash(value) == hash_):
            place = (tables.POSITIONS, tables.position_key(stored.tenant, stored.run, index))
            audit.found(
                "the leaf there attests another run, or none", tenant=stored.tenant, run=stored.run, place=place
            )
        else:
            what = "the leaf is missing" if value is None else "the leaf is damaged"
            audit.found(what, tenant=stored.tenant, run=stored.run, place=leaf)

    def _fault(self, entry: LeafEntry, chain: Chain, earlier: LeafEntry | None) -> str | None:
        if earlier is not None and (earlier.type is LeafType.SEAL or entry.seq <= earlier.seq):
            return f"the leaf follows another one of the run, at record {earlier.seq}"
        if entry.seq not in chain.heads:
            return f"the leaf attests record {entry.seq}, which the run does not have" if chain.intact else None
        head, final = chain.heads[entry.seq]
        if entry.head != head:
            return "the leaf attests another hash than the record's"
        if final is not None and final != (entry.type is LeafType.SEAL):
            return (
                "the leaf is an anchor of a run that had ended" if final else "the leaf seals a run that had not ended"
            )
        return None


def _decoded(value: bytes | None) -> LeafEntry | None:
    try:
        return None if value is None else LeafEntry.decode(value)
    except Malformed:
        return None
