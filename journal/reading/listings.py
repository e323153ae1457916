"""Answer questions from one snapshot: records in pages, standings, and every listing.

A page is read, the snapshot is closed, and the next page goes on after the last position: nothing here is carried out
to a caller's loop. Whatever is unreadable or foreign is `Corrupt`, named by its key; nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sealbook.indexes import activity, case, outcome, source, waiting
from sealbook.indexes.packing import read_u64, text, u64
from sealbook.indexes.registry import rows as index_rows
from sealbook.indexes.standing import Standing
from sealbook.journal.deciding.leases import remaining_ms
from sealbook.journal.engine.port import Moment, Place, Row, Snapshot
from sealbook.journal.errors import Corrupt, InvalidCursor, InvalidName
from sealbook.journal.records.chain import GENESIS, Head
from sealbook.journal.records.names import check_run
from sealbook.journal.records.record import Record, read_record, says_it_is
from sealbook.journal.records.versions import Upcaster
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import arrivals_between, arrivals_of, record_place
from sealbook.journal.schema.standings import read_standing, stored_standing, stored_standings
from sealbook.journal.schema.tables import EffectRow, LeaseRow, TenantRow

T = TypeVar("T")

NAMED = {"case": case.TABLE, "source": source.TABLE, "outcome": outcome.TABLE}  # whose rows begin with a name
CASE_ROWS = 100  # of the case index per scan, at most: each speaks of up to 64 records


class Page(list[T], Generic[T]):
    """Items of a listing, and `next`: the cursor to pass as `after=` for what follows, None when nothing does."""

    def __init__(self, items: Iterable[T] = (), next: str | None = None) -> None:
        super().__init__(items)
        self.next = next


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A page before its cursor is sealed: `last` is the position of the last item, None when nothing follows it."""

    items: list[T]
    last: bytes | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that waits. `until` is microseconds since 1970, None when it waits for an event alone."""

    run: str
    seq: int
    until: int | None
    awaiting: Any
    case: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A run whose lease expired without being released. `expired_at` is unix milliseconds."""

    run: str
    owner: str
    epoch: int
    expired_at: int


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of a run, by its latest attempt. `end_seq` is None while it is in doubt."""

    run: str
    key: bytes
    name: str | None
    attempt: int
    recovery: str
    status: str
    start_seq: int
    end_seq: int | None

    @property
    def in_doubt(self) -> bool:
        """Whether the latest attempt was started and its end is not recorded."""
        return self.end_seq is None


# --- records ------------------------------------------------------------------------------------------------------


def head(snapshot: Snapshot, tenant: str, run: str) -> Head:
    """The end of the run's chain; seq 0 and zero bytes for a run without records."""
    standing = stored_standing(snapshot, tenant, run)
    return Head(0, GENESIS) if standing is None else Head(standing.records, standing.head)


def run_records(snapshot: Snapshot, upcaster: Upcaster, tenant: str, run: str, start: int, limit: int) -> Part[Record]:
    """At most `limit` records of the run from seq `start` on, each checked against its hash and its neighbour's."""
    standing = stored_standing(snapshot, tenant, run)
    start = max(1, start)
    if standing is None or limit < 1 or start > standing.records:
        return Part([], None)
    last = min(standing.records, start + limit - 1)
    arrivals = arrivals_between(snapshot.get_many, standing, start, last)
    values = snapshot.get_many([record_place(tenant, arrival) for arrival in arrivals])
    records: list[Record] = []
    prev = None
    for seq, arrival, value in zip(range(start, last + 1), arrivals, values, strict=True):
        record = read_record(tenant, run, seq, arrival, value, upcaster)
        if prev is not None and record.prev != prev:
            raise Corrupt("the record does not follow the one before it", run, seq)
        records.append(record)
        prev = record.hash
    if last == standing.records and prev != standing.head:
        raise Corrupt("the run's state does not agree with its last record", run, last)
    return Part(records, u64(last) if last < standing.records else None)


def records_at(snapshot: Snapshot, upcaster: Upcaster, tenant: str, places: Sequence[tuple[str, int]]) -> list[Record]:
    """The records at these (run, seq); `Corrupt` for one that is missing, since something names it."""
    runs = list(dict.fromkeys(run for run, _ in places))
    found = dict(zip(runs, stored_standings(snapshot, tenant, runs), strict=True))
    arrivals = arrivals_of(snapshot.get_many, found, places)
    values = snapshot.get_many([record_place(tenant, arrival) for arrival in arrivals])
    return [
        read_record(tenant, run, seq, arrival, value, upcaster)
        for (run, seq), arrival, value in zip(places, arrivals, values, strict=True)
    ]


def history(
    snapshot: Snapshot, upcaster: Upcaster, tenant: str, start: int | None, limit: int, reverse: bool
) -> Part[Record]:
    """Records of all runs in arrival order from arrival `start` on, or backwards from it. Arrivals have no gaps."""
    counts = TenantRow.decode(tenant, snapshot.get_many([(tables.TENANTS, tenant.encode())])[0])
    prefix = text(tenant)
    lo, hi = prefix, tables.prefix_end(prefix)
    if start is not None:
        lo, hi = (prefix, prefix + u64(start + 1)) if reverse else (prefix + u64(start), hi)
    page, more = _scan(snapshot, tables.JOURNAL, lo, hi, limit, reverse)
    if reverse:
        expected = range(counts.arrivals if start is None else min(start, counts.arrivals), 0, -1)
    else:
        expected = range(1 if start is None else max(1, start), counts.arrivals + 1)
    if len(page) != max(0, min(limit, len(expected))) or more != (limit < len(expected) and limit > 0):
        what = f"records are missing or surplus: the tenant's row counts {counts.arrivals}"
        raise Corrupt(what, None, None, tables.JOURNAL, page[-1][0] if page else lo)
    records = []
    for arrival, (key, value) in zip(expected, page, strict=False):
        place = (tables.JOURNAL, prefix + u64(arrival))
        if key != place[1]:
            raise Corrupt("the record is missing", None, None, *place)
        try:
            records.append(read_record(tenant, None, None, arrival, value, upcaster))
        except Corrupt as error:
            if error.run is None:
                error.run, error.seq = _whose(snapshot, tenant, arrival, value)
                error.table, error.key = place
            raise
    return Part(records, u64(records[-1].arrival) if more else None)


def _whose(snapshot: Snapshot, tenant: str, arrival: int, value: bytes) -> tuple[str | None, int | None]:
    """(run, seq) of a damaged row, when the lookup bears out what the row says that it is."""
    match says_it_is(value):
        case (_, str() as run, int() as seq):
            try:
                found = {run: stored_standing(snapshot, tenant, check_run(run))}
                if arrivals_of(snapshot.get_many, found, [(run, seq)]) == [arrival]:
                    return run, seq
            except (Corrupt, InvalidName):
                pass
    return None, None


# --- standings ----------------------------------------------------------------------------------------------------


def standings(snapshot: Snapshot, tenant: str, runs: Sequence[str]) -> list[Standing | None]:
    """Where these runs stand, lease included; None for a run without records."""
    keys = [tables.run_key(tenant, run) for run in runs]
    places: list[Place] = [(table, key) for table in (tables.STATE, tables.LEASES) for key in keys]
    values = snapshot.get_many(places)
    states, leases = values[: len(runs)], values[len(runs) :]
    found = []
    for run, key, state, lease in zip(runs, keys, states, leases, strict=True):
        standing = read_standing(tenant, run, state)
        row = LeaseRow.decode((tables.LEASES, key), run, lease)
        found.append(standing if standing is None or row is None else _leased(standing, row))
    return found


def _leased(standing: Standing, row: LeaseRow) -> Standing:
    return standing._replace(
        epoch=max(row.epoch, standing.epoch),
        owner=row.owner or None,
        expires_at=row.wall_expiry if row.owner else None,
    )


def runs(
    snapshot: Snapshot, tenant: str, position: bytes | None, limit: int, begins: str, store_runs: bool
) -> Part[Standing]:
    """Runs by name, those whose name begins with `begins`; the store's own (`~`) only when asked for."""
    prefix = text(tenant)
    lo = prefix + max(begins.encode(), b"" if position is None else position + b"\0")
    hi = (prefix + begins.encode() + b"\xff") if begins else tables.prefix_end(prefix)
    names: list[str] = []
    while len(names) <= limit:
        page = snapshot.scan(tables.STATE, lo, hi, limit + 1)
        found = (_run_name(key, prefix) for key, _ in page)
        names += [name for name in found if store_runs or not name.startswith("~")]
        if len(page) <= limit:
            break
        lo = page[-1][0] + b"\0"
    kept = names[:limit]
    items = _present(tenant, kept, standings(snapshot, tenant, kept), tables.STATE)
    return Part(items, kept[-1].encode() if len(names) > limit and kept else None)


def _run_name(key: bytes, prefix: bytes) -> str:
    try:
        return key[len(prefix) :].decode()
    except UnicodeDecodeError as error:
        raise Corrupt("the key names no run", None, None, tables.STATE, key) from error


def _present(tenant: str, names: Sequence[str], found: Sequence[Standing | None], table: str) -> list[Standing]:
    items = []
    for name, standing in zip(names, found, strict=True):
        if standing is None:
            raise Corrupt(f"a row of {table} names a run without records", name)
        items.append(standing)
    return items


# --- indexes ------------------------------------------------------------------------------------------------------


def by_outcome(snapshot: Snapshot, tenant: str, name: str, position: bytes | None, limit: int) -> Part[Standing]:
    """Runs whose last conclusion had this outcome, newest conclusion first."""
    prefix = outcome.prefix(tenant, name)
    hi = tables.prefix_end(prefix) if position is None else prefix + position
    page, more = _scan(snapshot, outcome.TABLE, prefix, hi, limit, reverse=True)
    found = _indexed(snapshot, tenant, outcome.TABLE, page, lambda key, value: value)
    return Part(found, page[-1][0][len(prefix) :] if more else None)


def count_by_outcome(snapshot: Snapshot, tenant: str, name: str) -> int:
    """How many runs `by_outcome` lists in all: counted in pages, never from a counter."""
    prefix = outcome.prefix(tenant, name)
    lo, hi, count = prefix, tables.prefix_end(prefix), 0
    while page := snapshot.scan(outcome.TABLE, lo, hi, 1000):
        if any(len(key) != len(prefix) + 8 for key, _ in page):
            raise Corrupt("a row of the outcome index is damaged", None, None, outcome.TABLE, page[0][0])
        count += len(page)
        lo = page[-1][0] + b"\0"
    return count


def waiting_runs(
    snapshot: Snapshot, upcaster: Upcaster, tenant: str, position: bytes | None, limit: int
) -> Part[Waiting]:
    """Suspended runs, soonest `until` first, those without an instant last."""
    prefix = text(tenant)
    lo = prefix if position is None else prefix + position + b"\0"
    page, more = _scan(snapshot, waiting.TABLE, lo, tables.prefix_end(prefix), limit)
    found = _indexed(snapshot, tenant, waiting.TABLE, page, lambda key, value: key[len(prefix) + 8 :])
    records = records_at(snapshot, upcaster, tenant, [(item.run, item.waiting_seq or 0) for item in found])
    items = []
    for standing, record in zip(found, records, strict=True):
        if record.kind != "RunSuspended":
            raise Corrupt("the run waits under a record that is no suspension", record.run, record.seq)
        awaiting = record.data.get("awaiting")
        items.append(Waiting(record.run, record.seq, standing.until, awaiting, record.case, record.at))
    return Part(items, page[-1][0][len(prefix) :] if more else None)


def by_activity(
    snapshot: Snapshot, tenant: str, source_name: str | None, position: bytes | None, limit: int
) -> Part[Standing]:
    """Runs by their last record, newest first; of one source, or of all."""
    table = activity.TABLE if source_name is None else source.TABLE
    prefix = text(tenant) if source_name is None else source.prefix(tenant, source_name)
    before = None if position is None else _u64(position)
    hi = tables.prefix_end(prefix) if before is None else prefix + u64(before // activity.BLOCK + 1)
    found: list[Standing] = []
    while len(found) <= limit:
        newest = snapshot.scan(table, prefix, hi, 1, reverse=True)
        if not newest:
            break
        block = newest[0][0][: len(prefix) + 8]
        page = snapshot.scan(table, block, newest[0][0] + b"\0", activity.BLOCK + 1)
        runs_of_block = _indexed(snapshot, tenant, table, page, lambda key, value: key[len(prefix) + 8 :])
        runs_of_block.sort(key=lambda standing: standing.last_arrival, reverse=True)
        found += [item for item in runs_of_block if before is None or item.last_arrival < before]
        hi = block
    kept = found[:limit]
    return Part(kept, u64(kept[-1].last_arrival) if len(found) > limit and kept else None)


def case_records(
    snapshot: Snapshot, upcaster: Upcaster, tenant: str, name: str, position: bytes | None, limit: int
) -> Part[Record]:
    """The records of a case, by run and seq. The position is run 00 seq:u64be."""
    prefix = case.prefix(tenant, name)
    lo, hi, given = prefix, tables.prefix_end(prefix), ("", 0)
    if position is not None:
        given = position[:-9].decode(), _u64(position[-8:])
        lo = case.place(tenant, name, *given)[1]
    places: list[tuple[str, int]] = []
    while len(places) <= limit and (page := snapshot.scan(case.TABLE, lo, hi, min(limit + 1, CASE_ROWS))):
        for key, value in page:
            try:
                _, _, run, block = case.split_key(key)
                seqs = list(case.seqs(block, value))
            except ValueError as error:
                raise Corrupt(f"a row of the case index is damaged: {error}", None, None, case.TABLE, key) from error
            places += [(run, seq) for seq in seqs if run != given[0] or seq > given[1]]
        lo = page[-1][0] + b"\0"
    kept = places[:limit]
    records = records_at(snapshot, upcaster, tenant, kept)
    for record in records:
        if record.case != name:
            place = case.place(tenant, name, record.run, record.seq)
            raise Corrupt("the record belongs to another case", record.run, record.seq, *place)
    return Part(records, text(kept[-1][0]) + u64(kept[-1][1]) if len(places) > limit and kept else None)


def names(snapshot: Snapshot, tenant: str, index: str, position: bytes | None, limit: int) -> Part[str]:
    """The cases, sources or outcomes that an index has rows of, in order: a seek for each, however many rows it has."""
    table, prefix = NAMED[index], text(tenant)
    lo, hi = prefix if position is None else prefix + position + b"\1", tables.prefix_end(prefix)
    found: list[bytes] = []
    while len(found) <= limit and (page := snapshot.scan(table, lo, hi, 1)):
        name, end, _ = page[0][0][len(prefix) :].partition(b"\0")
        if not end:
            raise Corrupt("the key has no name", None, None, table, page[0][0])
        found.append(name)
        lo = prefix + name + b"\1"  # above all rows of the name, which go on with 00, and below every later name
    try:
        items = [name.decode() for name in found[:limit]]
    except UnicodeDecodeError as error:
        raise Corrupt("a row of the index has no name in UTF-8", None, None, table, lo) from error
    return Part(items, found[limit - 1] if len(found) > limit else None)


def abandoned(snapshot: Snapshot, moment: Moment, tenant: str, position: bytes | None, limit: int) -> Part[Abandoned]:
    """Runs whose lease expired while somebody held it, oldest expiry first. It scans the tenant's lease rows."""
    prefix = text(tenant)
    lo, hi = prefix, tables.prefix_end(prefix)
    found = []
    while page := snapshot.scan(tables.LEASES, lo, hi, 1000):
        for key, value in page:
            run = _run_name(key, prefix)
            row = LeaseRow.decode((tables.LEASES, key), run, value)
            if row is not None and row.owner and not remaining_ms(row, moment):
                found.append(Abandoned(run, row.owner, row.epoch, row.wall_expiry))
        lo = page[-1][0] + b"\0"
    found.sort(key=_abandoned_position)
    if position is not None:
        found = [item for item in found if _abandoned_position(item) > position]
    kept = found[:limit]
    return Part(kept, _abandoned_position(kept[-1]) if len(found) > limit and kept else None)


def _abandoned_position(item: Abandoned) -> bytes:
    return u64(item.expired_at + 2**63) + item.run.encode()


def effects(
    snapshot: Snapshot, upcaster: Upcaster, tenant: str, run: str, position: bytes | None, limit: int
) -> Part[Effect]:
    """The run's effects by their keys, each with its latest attempt."""
    prefix = text(tenant) + text(run)
    lo = prefix if position is None else prefix + position + b"\0"
    page, more = _scan(snapshot, tables.EFFECTS, lo, tables.prefix_end(prefix), limit)
    rows: list[tuple[bytes, EffectRow]] = []
    for key, value in page:
        row = EffectRow.decode((tables.EFFECTS, key), run, value)
        if row is None or len(key) != len(prefix) + 32:
            raise Corrupt("the effect row's key is damaged", run, None, tables.EFFECTS, key)
        rows.append((key[len(prefix) :], row))
    starts = records_at(snapshot, upcaster, tenant, [(run, row.start_seq) for _, row in rows])
    items = [
        Effect(
            run,
            key,
            _name(start),
            row.attempt,
            row.recovery,
            row.status.word,
            row.start_seq,
            row.end_seq or None,
        )
        for (key, row), start in zip(rows, starts, strict=True)
    ]
    return Part(items, page[-1][0][len(prefix) :] if more else None)


def effect(snapshot: Snapshot, upcaster: Upcaster, tenant: str, run: str, key: bytes) -> Effect | None:
    """One effect of the run; None when it was never started."""
    place = (tables.EFFECTS, tables.effect_key(tenant, run, key))
    row = EffectRow.decode(place, run, snapshot.get_many([place])[0])
    if row is None:
        return None
    [start] = records_at(snapshot, upcaster, tenant, [(run, row.start_seq)])
    name = _name(start)
    return Effect(run, key, name, row.attempt, row.recovery, row.status.word, row.start_seq, row.end_seq or None)


def _name(start: Record) -> str | None:
    """The name that an effect was started under. Nothing rests on it, so it may be missing, or anything."""
    name = start.data.get("name")
    return name if isinstance(name, str) else None


# --- shared by the listings ---------------------------------------------------------------------------------------


def _scan(
    snapshot: Snapshot, table: str, lo: bytes, hi: bytes, limit: int, reverse: bool = False
) -> tuple[list[Row], bool]:
    """A page, and whether more rows follow it."""
    if limit == 0:
        return [], False
    page = snapshot.scan(table, lo, hi, limit + 1, reverse)
    return page[:limit], len(page) > limit


def _indexed(
    snapshot: Snapshot, tenant: str, table: str, page: Sequence[Row], run_of: Callable[[bytes, bytes], bytes]
) -> list[Standing]:
    """The standings that these index rows name, each of which must hold that very row."""
    try:
        names = [run_of(key, value).decode() for key, value in page]
    except UnicodeDecodeError as error:
        raise Corrupt("a row of the index names no run", None, None, table, page[0][0]) from error
    items = []
    for name, standing, (key, value) in zip(names, standings(snapshot, tenant, names), page, strict=True):
        if standing is None or (table, key, value) not in index_rows(standing):
            raise Corrupt("the index does not agree with where the run stands: reindex", name, None, table, key)
        items.append(standing)
    return items


def _u64(position: bytes) -> int:
    if len(position) != 8:
        raise InvalidCursor("it is malformed")
    return read_u64(position, 0)
