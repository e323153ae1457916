"""Name the rows that nothing in the journal leads to.

Rows that records lead to are looked up as the records are met, and counted when they are as the records say. A table
that holds more than that is walked here, and each of its rows asked for the record or run that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable

from sealbook.indexes import case, outcome, source
from sealbook.indexes.registry import INDEX_TABLES
from sealbook.indexes.registry import rows as index_rows
from sealbook.indexes.standing import BLOCK_RECORDS, Standing
from sealbook.journal.checking.audit import CheckAudit
from sealbook.journal.checking.store_log import head_stands
from sealbook.journal.deciding.requests import read_members
from sealbook.journal.errors import Corrupt, NotFound, Refused, UnknownVersion
from sealbook.journal.records import names
from sealbook.journal.records.names import OPERATOR_RUN
from sealbook.journal.records.record import Record, read_record
from sealbook.journal.schema import tables
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import check_names, rows_of

Rule = Callable[[str, bytes, bytes], bool]  # (table, key, value): whether something leads to the row


def check_surplus(audit: CheckAudit, sizes: dict[str, int]) -> None:
    """Name every row that no record leads to, in tables with more rows than agreed. `sizes` are those of the logs."""
    rows = _Rows(audit, sizes)
    rules: dict[str, Rule] = {
        tables.ARRIVALS: rows.is_block,
        tables.ADMISSIONS: rows.is_admission,
        tables.CANCELS: rows.is_cancel,
        tables.NODES: rows.is_node,
        tables.HEADS: rows.is_head,
    }
    if audit.indexed:
        rules |= dict.fromkeys(INDEX_TABLES, rows.is_index_row) | {case.TABLE: rows.is_case}
    for table, rule in rules.items():
        if audit.agreed[table] != audit.snapshot.count(table):
            for key, value in rows_of(audit.snapshot, table):
                if not _holds(rule, table, key, value):
                    audit.found("nothing in the journal leads to this row", place=(table, key))


def is_cancellation(audit: CheckAudit, key: bytes, value: bytes) -> bool:
    """Whether a record asks for the cancellation that this row of `cancels` says."""
    return _holds(_Rows(audit, {}).is_cancel, tables.CANCELS, key, value)


def _holds(rule: Rule, table: str, key: bytes, value: bytes) -> bool:
    """Whether the rule holds of the row; it does not where what the row names is missing or cannot be read."""
    try:
        return rule(table, key, value)
    except (ValueError, Refused, Corrupt, UnknownVersion):
        return False


class _Rows:
    """The rule of each table."""

    def __init__(self, audit: CheckAudit, sizes: dict[str, int]) -> None:
        self._audit, self._snapshot, self._sizes = audit, audit.snapshot, sizes

    def is_block(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether the run has so many records that this block of them is full."""
        tenant, run, block = tables.split_position_key(key)
        owner = tables.run_key(tenant, run)
        if owner in self._audit.unsure:
            return True
        standing = self._standing(owner)
        return standing is not None and block < standing.records // BLOCK_RECORDS

    def is_admission(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether the run that holds the admission key was admitted with it."""
        tenant, run = tables.split_run_key(key[:-32] + value)
        if self._is_unsure(tenant, run):
            return True
        record = self._record(tenant, run, 1)
        members = read_members(record.kind, record.data, record.effect)
        secret = self._audit.setting.identity.secret
        return "source" in members and key == tables.admission_key(tenant, secret, members["source"], members["id"])

    def is_cancel(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether a record of the tenant's own run asks for this cancellation."""
        tenant, run = tables.split_run_key(key)
        if len(value) != 8:
            return False
        if self._is_unsure(tenant, OPERATOR_RUN):
            return True
        record = self._record(tenant, OPERATOR_RUN, int.from_bytes(value))
        return record.kind == "CancelRequested" and record.data.get("run") == run

    def is_node(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether the tenant's tree has this node."""
        tenant, _, rest = key.partition(b"\0")
        size = self._sizes.get(tenant.decode(errors="replace"), 0)
        return len(rest) == 9 and int.from_bytes(rest[1:]) + 1 <= size >> rest[0]

    def is_head(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether the store log has that head of the tenant's log."""
        names.check_tenant(tables.split_number_key(key)[0])
        return head_stands(self._audit, key)

    def is_index_row(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether the run that the row names stands so that it has this row."""
        owner = _index_owner(table, key, value)
        if owner in self._audit.unsure:
            return True
        standing = self._standing(owner)
        return (table, key, value) in index_rows(standing)

    def is_case(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether every record that the row speaks of belongs to that case."""
        tenant, name, run, block = case.split_key(key)
        seqs = case.seqs(block, value)
        return self._is_unsure(tenant, run) or all(self._record(tenant, run, seq).case == name for seq in seqs)

    def _is_unsure(self, tenant: str, run: str) -> bool:
        return tables.run_key(tenant, run) in self._audit.unsure

    def _standing(self, owner: bytes) -> Standing | None:
        """Where the run stands by its records, or by its state row when that has been found to agree."""
        tenant, run = tables.split_run_key(owner)
        standing = self._audit.corrected.get(owner)
        if standing is None:
            standing = read_standing(tenant, names.check_run(run), self._snapshot.get_many([(tables.STATE, owner)])[0])
        return standing

    def _record(self, tenant: str, run: str, seq: int) -> Record:
        """A record that has been checked already; `NotFound` when it is not there."""
        check_names(tenant, run)
        found = self._audit.find(tenant, run, seq)
        if found is None:
            raise NotFound("record", seq)
        return read_record(tenant, run, seq, *found, self._audit.setting.upcaster)


def _index_owner(table: str, key: bytes, value: bytes) -> bytes:
    """The key of the run that a row of an index over standings names."""
    tenant, _, rest = key.partition(b"\0")
    if table == outcome.TABLE:
        return tenant + b"\0" + value
    if table == source.TABLE:
        rest = rest.partition(b"\0")[2]
    return tenant + b"\0" + rest[8:]
