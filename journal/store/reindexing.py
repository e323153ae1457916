"""Drop the indexes and build them again, in pages, while readers of chains go on.

1. The store row is marked with the eight random bytes of this rebuild: from here on writers and listings get
   `IndexStale`, so that nothing moves underneath.
2. The rows of every index table are deleted, a page per transaction.
3. They are built again from the state rows and, for cases, from the records, a page per transaction.
4. The store row is marked current.

Every page first looks whether the store row still carries this rebuild's mark. A rebuild that was cut short leaves
its mark behind, and the next one begins anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from sealbook.indexes import case as case_index
from sealbook.indexes.registry import INDEX_TABLES
from sealbook.indexes.registry import rows as index_rows
from sealbook.journal.engine.port import Moment, Place, Row, Snapshot, Work, Writes
from sealbook.journal.errors import Busy, Corrupt, InvalidName, SealbookError
from sealbook.journal.records import cbor
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.names import check_case, check_run, check_tenant
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import INDEX_VERSION, NO_REBUILD, StoreRow

Progress = Callable[[int, int], None]  # (rows read, rows to read)
Write = Callable[[Work], Any]
Page = Callable[[Snapshot], tuple[Writes, Any]]

PAGE_ROWS = 2000  # index rows that one transaction deletes or puts
STATES_PER_PAGE = PAGE_ROWS // 4  # a run has at most four index rows
SCAN_RECORDS = 100  # per scan: each may be 4 MiB


def reindex(write: Write, *, progress: Progress | None = None) -> int:
    """Rebuild every index through `write`, which commits what a work returns; how many rows the indexes have then.

    `Corrupt` names a state row or record that cannot be read, and `Busy` says that another rebuild took over: the
    store then stays stale.
    """
    rebuild = os.urandom(len(NO_REBUILD))
    total = write(lambda snapshot, moment: _begin(snapshot, rebuild))

    def page(work: Page) -> Any:
        def guarded(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
            if _store_row(snapshot).rebuild != rebuild:
                raise Busy("another reindex took over")
            return work(snapshot)

        return write(guarded)

    for table in INDEX_TABLES:
        while page(partial(_drop, table=table)):
            pass
    built = done = 0
    for build in (_from_states, _from_records):
        lo: bytes | None = b""
        while lo is not None:
            lo, read, made = page(partial(build, lo=lo))
            built, done = built + made, done + read
            if progress is not None:
                progress(done, total)
    page(_finish)
    return built


def _store_row(snapshot: Snapshot) -> StoreRow:
    return StoreRow.decode(snapshot.get_many([tables.STORE_PLACE])[0])


def _begin(snapshot: Snapshot, rebuild: bytes) -> tuple[Writes, int]:
    """Mark the store; answer with how many rows there are to read."""
    marked = replace(_store_row(snapshot), rebuild=rebuild)
    total = snapshot.count(tables.STATE) + snapshot.count(tables.JOURNAL)
    return Writes({tables.STORE_PLACE: marked.encode()}), total


def _finish(snapshot: Snapshot) -> tuple[Writes, None]:
    current = replace(_store_row(snapshot), rebuild=NO_REBUILD, index_version=INDEX_VERSION)
    return Writes({tables.STORE_PLACE: current.encode()}), None


def _drop(snapshot: Snapshot, table: str) -> tuple[Writes, int]:
    """Delete the next rows of the table; answer with how many there were."""
    keys = [key for key, _ in snapshot.scan(table, b"", None, PAGE_ROWS)]
    return Writes(deletes={(table, key) for key in keys}), len(keys)


Built = tuple[Writes, tuple[bytes | None, int, int]]  # what to write; where to go on, rows read, rows made


def _from_states(snapshot: Snapshot, lo: bytes) -> Built:
    """The rows of the next runs from their standings."""
    page = snapshot.scan(tables.STATE, lo, None, STATES_PER_PAGE)
    puts: dict[Place, bytes] = {}
    for key, value in page:
        tenant, run = _names(key)
        with _naming(tenant):
            standing = read_standing(tenant, run, value)
        puts.update({(table, row_key): row_value for table, row_key, row_value in index_rows(standing)})
    return Writes(puts, set(puts)), (_after(page, STATES_PER_PAGE), len(page), len(puts))


def _from_records(snapshot: Snapshot, lo: bytes) -> Built:
    """The rows of the next records from the cases that they belong to."""
    puts: dict[Place, bytes] = {}
    absent: set[Place] = set()
    after: bytes | None = lo
    read = 0
    while after is not None and read < PAGE_ROWS:
        page = snapshot.scan(tables.JOURNAL, after, None, SCAN_RECORDS)
        for key, value in page:
            tenant = _tenant(key)
            with _naming(tenant):
                name, run, seq = _case_of((tables.JOURNAL, key), value)
            if name is None:
                continue
            place = case_index.place(tenant, name, run, seq)
            if place not in puts and (stored := snapshot.get_many([place])[0]) is not None:
                puts[place] = stored  # an earlier page has begun this row
            elif place not in puts:
                absent.add(place)
            puts[place] = case_index.with_record(puts.get(place), seq)
        after, read = _after(page, SCAN_RECORDS), read + len(page)
    return Writes(puts, absent), (after, read, len(absent))


def _names(key: bytes) -> tuple[str, str]:
    """The legal tenant and run that a key of a state row names; `Corrupt` when it names none."""
    try:
        tenant, run = tables.split_run_key(key)
        return check_tenant(tenant), check_run(run)
    except (ValueError, InvalidName) as error:
        raise Corrupt(f"the row's key is damaged: {error}", None, None, tables.STATE, key) from error


def _tenant(key: bytes) -> str:
    """The legal tenant that a record's key names; `Corrupt` when it names none."""
    try:
        return check_tenant(tables.split_number_key(key)[0])
    except (ValueError, InvalidName) as error:
        raise Corrupt(f"the row's key is damaged: {error}", None, None, tables.JOURNAL, key) from error


def _case_of(place: Place, value: bytes) -> tuple[str | None, str, int]:
    """(case, run, seq) of a record, whatever its version: the envelope is the same in all of them."""
    run = seq = None
    try:
        row = decode_row(value, None, None)
        if chain_hash(row.prev, row.body) != row.hash:
            raise ValueError("the hash does not cover the record's bytes")
        body = cbor.decode(row.body)
        if not isinstance(body, dict) or type(body.get("seq")) is not int or not 1 <= body["seq"] < 2**63:
            raise ValueError("the body is no record")
        run, seq, name = check_run(body.get("run")), body["seq"], body.get("case")
        return None if name is None else check_case(name), run, seq
    except (ValueError, InvalidName, Corrupt) as error:
        what = error.what if isinstance(error, Corrupt) else str(error)
        raise Corrupt(what, run, seq, *place) from error


def _after(page: Sequence[Row], limit: int) -> bytes | None:
    """Where the next page begins; None after the last one."""
    return page[-1][0] + b"\0" if len(page) == limit else None


@contextmanager
def _naming(tenant: str) -> Iterator[None]:
    """Errors name the run alone; the tenant is their attribute."""
    try:
        yield
    except SealbookError as error:
        error.tenant = tenant
        raise
