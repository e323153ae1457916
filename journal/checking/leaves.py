"""Hold each leaf of the tenants' logs to the record that it attests: run by run, or without deriving the runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sealbook.indexes.packing import read_u64
from sealbook.indexes.standing import Standing
from sealbook.journal.checking.audit import CheckAudit, leaf_in, names_of_position, pages_of
from sealbook.journal.checking.chains import RunChain
from sealbook.journal.checking.report import Finding
from sealbook.journal.engine.port import Row
from sealbook.journal.errors import Corrupt, UnknownVersion
from sealbook.journal.records.names import OPERATOR_RUN
from sealbook.journal.records.record import decode_record
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables
from sealbook.journal.schema.standings import read_standing
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.hashing import leaf_hash
from sealbook.merkle.tree import Node

ANOTHER_HASH = "the leaf attests another hash than the record's"

# --- run by run ------------------------------------------------------------------------------------------------------


class RunLeaves:
    """The leaves that the run's position rows name (and the one that its state names), against the chain."""

    def __init__(
        self, audit: CheckAudit, tenant: str, run: str, positions: Sequence[Row], standing: Standing | None
    ) -> None:
        self._audit, self._tenant, self._run, self._positions = audit, tenant, run, positions
        self._found, self._standing = partial(audit.found, tenant=tenant, run=run), standing
        indexes = [read_u64(key, len(key) - 8) for key, _ in positions]
        self._unnamed: int | None = None  # the leaf that the state names and no position row does
        highest = None if standing is None else standing.highest_leaf
        if highest is not None and highest not in indexes and 0 <= highest <= audit.leaf_index_max:
            self._unnamed = highest
            indexes.append(highest)
        indexes.sort()
        values = audit.snapshot.get_many([(tables.LEAVES, tables.number_key(tenant, index)) for index in indexes])
        self._entries = [(index, leaf_in(value)) for index, value in zip(indexes, values, strict=True)]
        self.seqs = frozenset(entry.seq for _, entry in self._entries if entry is not None)

    def check(self, chain: RunChain) -> list[tuple[int, LeafEntry]]:
        """Report each leaf that the chain does not bear out; answer with those that hold, by position."""
        for key, value in self._positions:
            if value:
                self._found("the row has a value", place=(tables.POSITIONS, key))
        tag = self.tag(chain)
        held: list[tuple[int, LeafEntry]] = []
        for index, entry in self._entries:
            if entry is None or (tag is not None and entry.run_tag != tag):
                if index != self._unnamed:
                    self._foreign(index)
                continue
            if index == self._unnamed:
                self._found("the row is missing", place=self._position(index))
            fault = self._fault(entry, chain, held[-1][1] if held else None)
            if fault is not None:
                self._found(fault, seq=entry.seq, place=(tables.LEAVES, tables.number_key(self._tenant, index)))
                continue
            self._claim(index)
            held.append((index, entry))
        if chain.intact:
            anchored = {entry.seq for _, entry in held}
            for seq in chain.resumable:
                if seq not in anchored:
                    what = "no leaf anchors this conclusion, which leaves the run open"
                    self._audit.findings.add(Finding(self._tenant, self._run, seq, tables.LEAVES, None, what))
        return held

    def tag(self, chain: RunChain) -> bytes | None:
        """The run's tag, from its first record or else from its state."""
        return chain.tag if chain.tag is not None else None if self._standing is None else self._standing.run_tag

    def check_orphans(self) -> None:
        """The positions of a run without records."""
        if self._standing is None:
            for key, _ in self._positions:
                self._found("the leaf attests a run that has no records", place=(tables.POSITIONS, key))
            return
        for index, entry in self._entries:  # that the records are gone has been said: the leaf is the run's
            if entry is not None and entry.run_tag == self._standing.run_tag:
                self._claim(index)

    def _claim(self, index: int) -> None:
        if index <= self._audit.leaf_index_max:
            self._audit.tally(self._tenant).claim(index)

    def _position(self, index: int) -> tuple[str, bytes]:
        return tables.POSITIONS, tables.position_key(self._tenant, self._run, index)

    def _foreign(self, index: int) -> None:
        """The position row and the leaf do not belong together: the stored leaf hash says which of them was changed."""
        leaf = (tables.LEAVES, tables.number_key(self._tenant, index))
        value, hash_ = self._audit.snapshot.get_many([leaf, tables.node_place(self._tenant, Node(0, index))])
        if hash_ is None or (value is not None and leaf_hash(value) == hash_):
            self._found("the leaf there attests another run, or none", place=self._position(index))
        else:
            self._found("the leaf is missing" if value is None else "the leaf is damaged", place=leaf)

    def _fault(self, entry: LeafEntry, chain: RunChain, earlier: LeafEntry | None) -> str | None:
        if earlier is not None and (earlier.type is LeafType.SEAL or entry.seq <= earlier.seq):
            return f"the leaf follows another one of the run, at record {earlier.seq}"
        if entry.seq not in chain.heads:
            return _no_record(entry) if chain.intact else None
        head, final = chain.heads[entry.seq]
        if entry.head != head:
            return ANOTHER_HASH
        if final is not None and final != (entry.type is LeafType.SEAL):
            return (
                "the leaf is an anchor of a run that had ended" if final else "the leaf seals a run that had not ended"
            )
        return None


def _no_record(entry: LeafEntry) -> str:
    return f"the leaf attests record {entry.seq}, which the run does not have"


# --- without deriving the runs ---------------------------------------------------------------------------------------


def read_acts(audit: CheckAudit) -> None:
    """Read each tenant's operator acts, since an adoption decides what the log begins with."""
    for tenant in list(audit.tallies):
        key = tables.run_key(tenant, OPERATOR_RUN)
        try:
            standing = read_standing(tenant, OPERATOR_RUN, audit.snapshot.get_many([(tables.STATE, key)])[0])
        except Corrupt:
            audit.unsure.add(key)  # reported where the states were checked
            continue
        for seq in range(1, 1 + (0 if standing is None else standing.records)):
            found = audit.find(tenant, OPERATOR_RUN, seq)
            try:
                if found is None:
                    raise Corrupt("the record is missing", OPERATOR_RUN, seq)
                row, upcaster = decode_row(found[1], OPERATOR_RUN, seq), audit.setting.upcaster
                audit.act(decode_record(row, tenant=tenant, run=OPERATOR_RUN, seq=seq, upcaster=upcaster))
            except (Corrupt, UnknownVersion):
                audit.unsure.add(key)  # reported by the sweep
                break


def check_leaves(audit: CheckAudit) -> None:
    """Claim every leaf that a run accounts for: it has the run's tag, and the hash of a record of the run."""
    for page in pages_of(audit.rows(tables.POSITIONS, names_of_position)):
        places = [(tables.LEAVES, tables.number_key(tenant, index)) for (tenant, _, index), *_ in page]
        leaves = audit.snapshot.get_many(places)
        states = audit.snapshot.get_many([(tables.STATE, tables.run_key(tenant, run)) for (tenant, run, _), *_ in page])
        for ((tenant, run, index), key, _), place, leaf, state in zip(page, places, leaves, states, strict=True):
            try:
                standing = read_standing(tenant, run, state)
            except Corrupt:
                continue  # reported where the states were checked
            if standing is None:
                what = "the leaf attests a run that has no state"
                audit.found(what, tenant=tenant, run=run, place=(tables.STATE, key))
                continue
            entry = leaf_in(leaf)
            if entry is None or entry.run_tag != standing.run_tag:
                continue  # as no run claims the leaf, it is found where the log is built again
            fault = _stored_fault(audit, standing, entry)
            if fault is not None:
                audit.found(fault, tenant=tenant, run=run, seq=entry.seq, place=place)
            if index <= audit.leaf_index_max:
                audit.tally(tenant).claim(index)


def _stored_fault(audit: CheckAudit, standing: Standing, entry: LeafEntry) -> str | None:
    found = audit.find(standing.tenant, standing.run, entry.seq)
    if found is None:
        arrival = audit.arrival_of(standing.tenant, standing.run, entry.seq)
        return _no_record(entry) if arrival is None else None
    row = decode_row(found[1], standing.run, entry.seq)
    return None if row.hash == entry.head else ANOTHER_HASH
