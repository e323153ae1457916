"""Raw rows of an engine: read them all, and change them behind the back of the store over it."""

from __future__ import annotations

from sealbook.journal.engine.port import Engine, Row, Snapshot, Writes
from sealbook.journal.records.record import says_it_is
from sealbook.journal.records.row import decode_row, encode_row
from sealbook.journal.schema import tables


def rows(engine: Engine, table: str) -> list[Row]:
    """Every row of a table in key order."""
    with engine.snapshot() as snapshot:
        return _rows(snapshot, table)


def all_rows(engine: Engine) -> dict[str, list[Row]]:
    """Every row of every table, from one snapshot: what a refused request must leave as it was."""
    with engine.snapshot() as snapshot:
        return {table: _rows(snapshot, table) for table in tables.TABLES}


def _rows(snapshot: Snapshot, table: str) -> list[Row]:
    found: list[Row] = []
    lo = b""
    while page := snapshot.scan(table, lo, None, 1000):
        found += page
        lo = page[-1][0] + b"\0"
    return found


def tamper(engine: Engine, table: str, key: bytes, value: bytes | None) -> None:
    """Put another value, or with None remove the row, past every rule."""
    place = (table, key)
    engine.write(lambda snapshot, moment: (Writes(deletes={place}) if value is None else Writes({place: value}), None))


def record_rows(engine: Engine, tenant: str, run: str) -> dict[int, Row]:
    """The rows of `journal` that say they are of this run, by the seq that they state."""
    found: dict[int, Row] = {}
    for row in rows(engine, tables.JOURNAL):
        match says_it_is(row[1]):
            case (says_tenant, says_run, int() as seq) if (says_tenant, says_run) == (tenant, run):
                found[seq] = row
    return found


def tamper_body(engine: Engine, tenant: str, run: str, seq: int, body: bytes) -> None:
    """Replace a record's body and keep its hash; nothing happens when there is no such record."""
    row = record_rows(engine, tenant, run).get(seq)
    if row is not None:
        key, value = row
        tamper(engine, tables.JOURNAL, key, encode_row(decode_row(value, run, seq)._replace(body=body)))


def delete_records(engine: Engine, tenant: str, run: str) -> int:
    """Remove a run's records and leave everything else, its leaf in the log included; how many there were."""
    found = record_rows(engine, tenant, run)
    for key, _ in found.values():
        tamper(engine, tables.JOURNAL, key, None)
    return len(found)
