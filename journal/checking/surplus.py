"""Name the rows that nothing in the journal leads to.

Rows that records lead to are looked up as the records are met, and counted when they are as the records say. A table
that holds more than that is walked here, and each of its rows asked for the record or run that it stands for.
"""

from __future__ import annotations

from sealbook.indexes import case, outcome, source
from sealbook.indexes.registry import INDEX_TABLES
from sealbook.indexes.registry import rows as index_rows
from sealbook.indexes.standing import BLOCK_RECORDS, Standing
from sealbook.journal.checking.audit import Audit
from sealbook.journal.checking.store_log import head_stands
from sealbook.journal.deciding.acts import CANCEL_REQUESTED
from sealbook.journal.deciding.requests import read_members
from sealbook.journal.errors import Corrupt, NotFound, Refused, SealbookError
from sealbook.journal.records import names
from sealbook.journal.records.names import OPERATOR_RUN
from sealbook.journal.records.record import Record, read_record
from sealbook.journal.schema import tables
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import check_names


class Surplus:
    """The rows of tables that were only looked up: walked where a table has more rows than agreed with the records."""

    def __init__(self, audit: Audit, sizes: dict[str, int]) -> None:
        self._audit, self._snapshot, self._sizes = audit, audit.snapshot, sizes

    def check(self) -> None:
        """Name every row that no record leads to."""
        sound = {
            tables.ARRIVALS: self._block_stands,
            tables.ADMISSIONS: self._admission_stands,
            tables.CANCELS: self.cancel_stands,
            tables.NODES: self._node_stands,
            tables.HEADS: self._head_stands,
        }
        if self._audit.indexed:
            sound |= dict.fromkeys(INDEX_TABLES, self._index_row_stands) | {case.TABLE: self._case_stands}
        for table, stands in sound.items():
            if self._audit.agreed[table] != self._snapshot.count(table):
                for key, value in self._audit.walk(table):
                    if not stands(table, key, value):
                        self._audit.found("nothing in the journal leads to this row", place=(table, key))

    def _block_stands(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether the run has so many records that this block of them is full."""
        try:
            tenant, run, block = tables.split_position_key(key)
            owner = tables.run_key(tenant, run)
            if owner in self._audit.unsure:
                return True
            standing = self._standing(owner)
        except (ValueError, Refused, Corrupt):
            return False
        return standing is not None and block < standing.records // BLOCK_RECORDS

    def _admission_stands(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether the run that holds the admission key was admitted with it."""
        try:
            tenant, run = tables.split_run_key(key[:-32] + value)
            if self._is_unsure(tenant, run):
                return True
            record = self._record(tenant, run, 1)
            members = read_members(record.kind, record.data, record.effect)
        except (ValueError, SealbookError):
            return False
        secret = self._audit.setting.identity.secret
        return "source" in members and key == tables.admission_key(tenant, secret, members["source"], members["id"])

    def cancel_stands(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether a record of the tenant's own run asks for this cancellation."""
        try:
            tenant, run = tables.split_run_key(key)
            if len(value) != 8:
                return False
            if self._is_unsure(tenant, OPERATOR_RUN):
                return True
            record = self._record(tenant, OPERATOR_RUN, int.from_bytes(value, "big"))
        except (ValueError, SealbookError):
            return False
        return record.kind == CANCEL_REQUESTED and record.data.get("run") == run

    def _node_stands(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether the tenant's tree has this node."""
        tenant, _, rest = key.partition(b"\0")
        if len(rest) != 9:
            return False
        level, index = rest[0], int.from_bytes(rest[1:], "big")
        size = self._sizes.get(tenant.decode(errors="replace"), 0)
        return index + 1 <= size >> level

    def _head_stands(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether the store log has that head of the tenant's log."""
        try:
            names.check_tenant(tables.split_number_key(key)[0])
        except (ValueError, Refused):
            return False
        return head_stands(self._audit, key)

    def _index_row_stands(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether the run that the row names stands so that it has this row."""
        owner = _index_owner(table, key, value)
        if owner in self._audit.unsure:
            return True
        try:
            standing = self._standing(owner)
        except (ValueError, Refused, Corrupt):
            return False
        return (table, key, value) in index_rows(standing)

    def _case_stands(self, table: str, key: bytes, value: bytes) -> bool:
        """Whether every record that the row speaks of belongs to that case."""
        try:
            tenant, name, run, block = case.split_key(key)
            seqs = case.seqs(block, value)
            return self._is_unsure(tenant, run) or all(self._record(tenant, run, seq).case == name for seq in seqs)
        except (ValueError, SealbookError):
            return False

    # --- what they look at

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
