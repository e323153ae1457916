"""Hold each leaf of the tenants' logs to the record that it attests, without deriving the runs."""

from __future__ import annotations

from sealbook.indexes.standing import Standing
from sealbook.journal.checking.audit import PAGE_ROWS, Audit
from sealbook.journal.errors import Corrupt, Refused, UnknownVersion
from sealbook.journal.records.names import OPERATOR_RUN
from sealbook.journal.records.record import decode_record
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import check_names
from sealbook.merkle.entry import LeafEntry
from sealbook.merkle.errors import Malformed


def read_acts(audit: Audit) -> None:
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


def check_leaves(audit: Audit) -> None:
    """Claim every leaf that a run accounts for: it has the run's tag, and the hash of a record of the run."""
    page: list[tuple[str, str, int, bytes]] = []
    for key, _ in audit.walk(tables.POSITIONS):
        try:
            tenant, run, index = tables.split_position_key(key)
            check_names(tenant, run)
        except (ValueError, Refused) as error:
            audit.found(f"the row's key is damaged: {error}", place=(tables.POSITIONS, key))
            continue
        page.append((tenant, run, index, key))
        if len(page) == PAGE_ROWS:
            _check_page(audit, page)
            page = []
    _check_page(audit, page)


def _check_page(audit: Audit, page: list[tuple[str, str, int, bytes]]) -> None:
    leaves = audit.snapshot.get_many(
        [(tables.LEAVES, tables.number_key(tenant, index)) for tenant, _, index, _ in page]
    )
    states = audit.snapshot.get_many([(tables.STATE, tables.run_key(tenant, run)) for tenant, run, _, _ in page])
    for (tenant, run, index, key), value, state in zip(page, leaves, states, strict=True):
        try:
            standing = read_standing(tenant, run, state)
        except Corrupt:
            continue  # reported where the states were checked
        place = (tables.LEAVES, tables.number_key(tenant, index))
        if standing is None:
            audit.found("the leaf attests a run that has no state", tenant=tenant, run=run, place=(tables.STATE, key))
            continue
        try:
            entry = None if value is None else LeafEntry.decode(value)
        except Malformed:
            continue  # reported where the log is built again
        if entry is None or entry.run_tag != standing.run_tag:
            continue  # as nobody claims the leaf, it is found where the log is built again
        fault = _fault(audit, standing, entry)
        if fault is not None:
            audit.found(fault, tenant=tenant, run=run, seq=entry.seq, place=place)
        if index <= audit.leaf_index_max:
            audit.tally(tenant).claim(index)


def _fault(audit: Audit, standing: Standing, entry: LeafEntry) -> str | None:
    found = audit.find(standing.tenant, standing.run, entry.seq)
    if found is None:
        arrival = audit.arrival_of(standing.tenant, standing.run, entry.seq)
        return f"the leaf attests record {entry.seq}, which the run does not have" if arrival is None else None
    row = decode_row(found[1], standing.run, entry.seq)
    return None if row.hash == entry.head else "the leaf attests another hash than the record's"
