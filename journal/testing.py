"""What an engine's author needs: a conformance suite over the engine port, a clock to move, and raw access to rows.

>>> from sealbook.journal.engine.memory import MemoryEngine
>>> report = conformance(lambda clock: MemoryEngine(clock=clock))
>>> report.ok
True

The suite needs no test framework. Each check gets a fresh, empty engine, first for the port alone and then with a
store over it; every violation is collected, and a suite that ran no check has failed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sealbook.journal.deciding import requests
from sealbook.journal.engine.port import Applied, Clock, Engine, Moment, Place, Row, Snapshot, Writes
from sealbook.journal.errors import (
    Closed,
    Corrupt,
    DuplicateAdmission,
    DuplicateEffect,
    EffectNotStarted,
    EffectSettled,
    Fenced,
    InvalidInput,
    InvalidName,
    LeaseHeld,
    LeaseNotHeld,
    NotConcluded,
    Refused,
    RunSealed,
    UnknownVersion,
)
from sealbook.journal.records import entries
from sealbook.journal.records.body import BODY_BYTES_MAX
from sealbook.journal.records.chain import GENESIS, Head, chain_hash
from sealbook.journal.records.entries import EffectKey, Entry
from sealbook.journal.records.record import Record, says_it_is
from sealbook.journal.records.row import decode_row, encode_row
from sealbook.journal.records.signatures import Ed25519Signer, verify_signature
from sealbook.journal.schema import tables
from sealbook.journal.store.verbs import Journal, Tenant
from sealbook.merkle.verify import verify_consistency, verify_inclusion

# --- fakes ----------------------------------------------------------------------------------------------------------


class ManualClock:
    """A clock that stands still until the test moves it: wall time, boot time and boot apart."""

    def __init__(self, *, wall_ms: int = 1_800_000_000_000, boot_ms: int = 1_000_000, boot: int = 1) -> None:
        self.wall_ms = wall_ms
        self.boot_ms = boot_ms
        self.boot_id = boot.to_bytes(16, "big")

    def __call__(self) -> Moment:
        return Moment(self.wall_ms, self.boot_ms, self.boot_id)

    def advance(self, seconds: float) -> None:
        """Let time pass: both clocks move."""
        self.wall_ms += int(seconds * 1000)
        self.boot_ms += int(seconds * 1000)

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or NTP does; boot time knows nothing of it."""
        self.wall_ms += int(seconds * 1000)

    def reboot(self, *, down_seconds: float = 0, boot: int | None = None) -> None:
        """Start the machine anew: another boot id, and boot time from 0."""
        self.wall_ms += int(down_seconds * 1000)
        self.boot_ms = 0
        self.boot_id = (int.from_bytes(self.boot_id, "big") + 1 if boot is None else boot).to_bytes(16, "big")


class SwitchableUpcaster:
    """An upcaster whose current versions the test sets. Each step adds the member `lifted` with the version reached."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}

    def current_version(self, kind: str) -> int:
        """What the test set, otherwise 1."""
        return self.versions.get(kind, 1)

    def upcast(self, kind: str, version: int, data: dict[str, Any]) -> dict[str, Any] | None:
        """The data with `lifted`, from any older version."""
        return {**data, "lifted": self.current_version(kind)}


# --- raw rows -------------------------------------------------------------------------------------------------------


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
    """Replace a record's body and keep its hash; nothing happens when there is no such record (behaviour A32)."""
    row = record_rows(engine, tenant, run).get(seq)
    if row is not None:
        key, value = row
        tamper(engine, tables.JOURNAL, key, encode_row(decode_row(value, run, seq)._replace(body=body)))


def delete_records(engine: Engine, tenant: str, run: str) -> int:
    """Remove a run's records and leave everything else, its leaf in the log included; how many there were (A33)."""
    found = record_rows(engine, tenant, run)
    for key, _ in found.values():
        tamper(engine, tables.JOURNAL, key, None)
    return len(found)


# --- the report -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Violation:
    """A check that an engine does not pass, and what it found."""

    check: str
    what: str

    def __str__(self) -> str:
        return f"{self.check}: {self.what}"


class ConformanceFailed(Exception):
    """The engine does not conform, or nothing was checked."""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """How many checks ran, and every violation that they found."""

    checks: int
    violations: list[Violation] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether checks ran and none found a violation."""
        return self.checks > 0 and not self.violations

    def __str__(self) -> str:
        if self.checks == 0:
            return "no check ran: nothing is known of this engine"
        lines = [f"{self.checks} checks, {len(self.violations)} violations", *map(str, self.violations)]
        return "\n  ".join(lines)

    def demand(self) -> ConformanceReport:
        """This report; `ConformanceFailed` when it is not ok."""
        if not self.ok:
            raise ConformanceFailed(str(self))
        return self


MakeEngine = Callable[[Clock], Engine]


def conformance(make_engine: MakeEngine, checks: Sequence[Check] | None = None) -> ConformanceReport:
    """Run every check (or these) over engines from `make_engine`, which returns a fresh, empty one for each call.

    The engine must read its moments from the clock that it is given.
    """
    ran, violations = 0, []
    for check in CHECKS if checks is None else checks:
        ran += 1
        clock = ManualClock()
        try:
            engine = make_engine(clock)
            try:
                check(Bench(engine, clock))
            finally:
                engine.close()
        except Exception as error:
            what = str(error) if isinstance(error, Violated) else f"{type(error).__name__}: {error}"
            violations.append(Violation(check.__name__, what))
    return ConformanceReport(ran, violations)


# --- what checks are written with -----------------------------------------------------------------------------------


class Violated(Exception):
    """Something that a conforming engine never does."""


def expect(holds: bool, what: str) -> None:
    """Go on only when this holds."""
    if not holds:
        raise Violated(what)


def expect_equal(found: object, expected: object, what: str) -> None:
    """Go on only when both are equal."""
    expect(found == expected, f"{what}: found {found!r:.200}, expected {expected!r:.200}")


@contextmanager
def expect_raises(kind: type[BaseException], what: str) -> Iterator[list[Any]]:
    """Go on only when the block raises this very kind; the list then holds the error."""
    caught: list[Any] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
        return
    raise Violated(f"{what}: {kind.__name__} was expected, nothing was raised")


class Bench:
    """One engine, its clock, and on demand a store over it."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self.engine = engine
        self.clock = clock
        self.upcaster = SwitchableUpcaster()
        self._journal: Journal | None = None

    @property
    def journal(self) -> Journal:
        """The store over the engine, made when it is first asked for."""
        if self._journal is None:
            self._journal = Journal.over(self.engine, clock=self.clock, upcaster=self.upcaster)
        return self._journal

    @property
    def acme(self) -> Tenant:
        """The tenant that most checks speak of."""
        return self.journal.tenant("acme")

    def signing(self, seed: bytes) -> Journal:
        """A store over the engine that signs, instead of the plain one."""
        self._journal = Journal.over(self.engine, clock=self.clock, signer=Ed25519Signer(seed))
        return self._journal

    def put(self, table: str, items: dict[bytes, bytes]) -> None:
        """Put rows straight into the engine."""
        self.write({(table, key): value for key, value in items.items()})

    def write(
        self, puts: dict[Place, bytes], absent: Iterable[Place] = (), deletes: Iterable[Place] = (), answer: Any = None
    ) -> Any:
        """Write through the port; its answers."""
        outcome = self.engine.write(
            lambda snapshot, moment: (Writes(dict(puts), frozenset(absent), frozenset(deletes)), answer)
        )
        expect(isinstance(outcome, Applied), f"an uncontended write must be Applied, not {outcome!r}")
        assert isinstance(outcome, Applied)
        return outcome.answers

    def rows(self, table: str) -> list[Row]:
        """Every row of a table."""
        return rows(self.engine, table)

    def scan(self, table: str, lo: bytes, hi: bytes | None, limit: int, reverse: bool = False) -> list[bytes]:
        """The keys of one page."""
        with self.engine.snapshot() as snapshot:
            return [key for key, _ in snapshot.scan(table, lo, hi, limit, reverse)]

    def expect_unchanged(self, action: Callable[[], Any], kind: type[Refused]) -> Any:
        """The action is refused so, and leaves every row of every table as it was."""
        assert self.journal is not None  # made before its rows are looked at
        before = all_rows(self.engine)
        with expect_raises(kind, "a refusal") as caught:
            action()
        expect_equal(all_rows(self.engine), before, "rows after a refusal")
        return caught[0]

    def run(self, run: str, *more: Entry, source: str | None = None, tenant: Tenant | None = None) -> list[Record]:
        """A run with an admission and these entries, under epoch 1 without a lease."""
        id_ = None if source is None else run
        batch = [entries.admitted(source=source, id=id_), *more]
        return (tenant or self.acme).append(run, batch, epoch=1)

    def sealed(self, run: str, outcome: str = "done", tenant: Tenant | None = None) -> None:
        """A run that concluded and was sealed."""
        (tenant or self.acme).append(run, [entries.admitted(), entries.concluded(outcome)], epoch=1, seal=True)


Check = Callable[[Bench], None]
CHECKS: list[Check] = []


def registered(check: Check) -> Check:
    """A check of the suite."""
    CHECKS.append(check)
    return check


def in_pages(listing: Callable[..., Any], *args: Any, size: int = 2, **options: Any) -> list[Any]:
    """Every item of a listing, read in pages of `size`."""
    items: list[Any] = []
    after = None
    for _ in range(10_000):
        page = listing(*args, limit=size, after=after, **options)
        items += page
        after = page.next
        if after is None:
            return items
    raise Violated("a listing that never ends")


# --- the port -------------------------------------------------------------------------------------------------------

A_TABLE, OTHER_TABLE = tables.CANCELS, tables.SIGNERS  # any two: an engine knows nothing of their meaning


@registered
def a_fresh_engine_is_empty(bench: Bench) -> None:
    with bench.engine.snapshot() as snapshot:
        for table in tables.TABLES:
            expect_equal(snapshot.count(table), 0, f"rows of {table}")
            expect_equal(snapshot.scan(table, b"", None, 10), [], f"a page of {table}")


@registered
def what_was_put_is_read_back_in_the_order_asked(bench: Bench) -> None:
    bench.put(A_TABLE, {b"a": b"1", b"b": b"", b"c": b"\0\xff"})
    with bench.engine.snapshot() as snapshot:
        found = snapshot.get_many([(A_TABLE, key) for key in (b"c", b"nothing", b"a", b"b", b"c")])
    expect_equal(found, [b"\0\xff", None, b"1", b"", b"\0\xff"], "get_many")
    with bench.engine.snapshot() as snapshot:
        expect_equal(snapshot.get_many([]), [], "get_many of nothing")


@registered
def tables_are_apart(bench: Bench) -> None:
    bench.put(A_TABLE, {b"k": b"1"})
    bench.put(OTHER_TABLE, {b"k": b"2", b"l": b"3"})
    expect_equal(bench.rows(A_TABLE), [(b"k", b"1")], "the first table")
    expect_equal(bench.rows(OTHER_TABLE), [(b"k", b"2"), (b"l", b"3")], "the second table")


@registered
def a_scan_includes_lo_and_excludes_hi(bench: Bench) -> None:
    bench.put(A_TABLE, {bytes([number]): b"" for number in range(1, 10)})
    expect_equal(bench.scan(A_TABLE, b"\3", b"\6", 100), [b"\3", b"\4", b"\5"], "forward")
    expect_equal(bench.scan(A_TABLE, b"\3", b"\6", 100, True), [b"\5", b"\4", b"\3"], "reverse")
    expect_equal(bench.scan(A_TABLE, b"\3", b"\3", 100), [], "lo = hi")
    expect_equal(bench.scan(A_TABLE, b"\6", b"\3", 100), [], "lo > hi")
    expect_equal(bench.scan(A_TABLE, b"\6", b"\3", 100, True), [], "lo > hi in reverse")
    expect_equal(bench.scan(A_TABLE, b"\x03\0", b"\5\0", 100), [b"\4", b"\5"], "bounds that are no keys")
    expect_equal(bench.scan(A_TABLE, b"\x03\0", b"\5\0", 100, True), [b"\5", b"\4"], "such bounds in reverse")


@registered
def a_scan_without_hi_runs_to_the_end(bench: Bench) -> None:
    bench.put(A_TABLE, {b"a": b"", b"b": b"", b"\xff\xff": b""})
    expect_equal(bench.scan(A_TABLE, b"b", None, 10), [b"b", b"\xff\xff"], "forward")
    expect_equal(bench.scan(A_TABLE, b"b", None, 10, True), [b"\xff\xff", b"b"], "reverse")
    expect_equal(bench.scan(A_TABLE, b"\xff\xff\0", None, 10, True), [], "beyond the end")


@registered
def a_page_holds_at_most_limit_rows(bench: Bench) -> None:
    keys = [number.to_bytes(2, "big") for number in range(300)]
    bench.put(A_TABLE, dict.fromkeys(keys, b"v"))
    for limit in (0, 1, 2, 299, 300, 301):
        expect_equal(bench.scan(A_TABLE, b"", None, limit), keys[:limit], f"limit {limit}")
        expect_equal(bench.scan(A_TABLE, b"", None, limit, True), keys[::-1][:limit], f"limit {limit} in reverse")


@registered
def keys_sort_as_bytes(bench: Bench) -> None:
    keys = [b"\0", b"\0\0", b"\0\1", b"\1", b"a", b"a\0", b"a\0b", b"aa", b"\x7f", b"\x80", b"\xff", b"\xff\0"]
    for key in reversed(keys):
        bench.put(A_TABLE, {key: key})
    expect_equal([key for key, _ in bench.rows(A_TABLE)], sorted(keys), "order")


@registered
def the_longest_key_and_value_fit(bench: Bench) -> None:
    traits = bench.engine.traits
    expect(traits.key_bytes_max >= 511, f"keys of 511 bytes must fit, this engine takes {traits.key_bytes_max}")
    size = BODY_BYTES_MAX + 1024
    expect(traits.value_bytes_max >= size, f"values of {size} bytes must fit, this engine takes less")
    long_key = b"k" * 511
    bench.put(A_TABLE, {long_key: b"v" * size, long_key[:-1]: b"w"})
    expect_equal(bench.rows(A_TABLE), [(long_key[:-1], b"w"), (long_key, b"v" * size)], "rows")


@registered
def a_put_replaces_and_a_delete_removes(bench: Bench) -> None:
    bench.put(A_TABLE, {b"a": b"1", b"b": b"2", b"c": b"3"})
    bench.write({(A_TABLE, b"a"): b"other"}, deletes=[(A_TABLE, b"b")])
    expect_equal(bench.rows(A_TABLE), [(b"a", b"other"), (b"c", b"3")], "rows")
    with bench.engine.snapshot() as snapshot:
        expect_equal(snapshot.count(A_TABLE), 2, "count")
        expect_equal(snapshot.get_many([(A_TABLE, b"b")]), [None], "the deleted row")


@registered
def a_row_that_must_be_absent_is_refused_when_it_is_there(bench: Bench) -> None:
    bench.put(A_TABLE, {b"a": b"1"})
    place: Place = (A_TABLE, b"a")
    with expect_raises(Corrupt, "a put over a row that must be absent"):
        bench.write({(OTHER_TABLE, b"x"): b"", place: b"2", (OTHER_TABLE, b"y"): b""}, absent=[place])
    expect_equal(bench.rows(A_TABLE), [(b"a", b"1")], "the row")
    expect_equal(bench.rows(OTHER_TABLE), [], "what was put beside it")
    bench.write({(A_TABLE, b"b"): b"2"}, absent=[(A_TABLE, b"b")])
    expect_equal(bench.rows(A_TABLE), [(b"a", b"1"), (b"b", b"2")], "rows after a put that may be made")


@registered
def a_delete_of_a_row_that_is_not_there_is_refused(bench: Bench) -> None:
    with expect_raises(Corrupt, "a delete of a missing row"):
        bench.write({(OTHER_TABLE, b"x"): b""}, deletes=[(A_TABLE, b"missing")])
    expect_equal(bench.rows(OTHER_TABLE), [], "what was put beside it")


@registered
def an_exception_in_work_leaves_everything_and_is_raised_on(bench: Bench) -> None:
    bench.put(A_TABLE, {b"a": b"1"})

    def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        raise ZeroDivisionError

    with expect_raises(ZeroDivisionError, "work that raises"):
        bench.engine.write(work)
    expect_equal(bench.rows(A_TABLE), [(b"a", b"1")], "rows")
    bench.put(A_TABLE, {b"b": b"2"})
    expect_equal(bench.rows(A_TABLE), [(b"a", b"1"), (b"b", b"2")], "rows after the next write")


@registered
def work_sees_everything_committed_and_nothing_of_its_own(bench: Bench) -> None:
    def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        [value] = snapshot.get_many([(A_TABLE, b"n")])
        count = 0 if value is None else int(value)
        scanned = snapshot.scan(A_TABLE, b"", None, 10)
        expect_equal(len(scanned), 0 if value is None else 1, "rows that work scans")
        return Writes({(A_TABLE, b"n"): str(count + 1).encode()}), count

    for number in range(5):
        outcome = bench.engine.write(work)
        expect(isinstance(outcome, Applied) and outcome.answers == number, f"call {number} answered {outcome!r}")
    expect_equal(bench.rows(A_TABLE), [(b"n", b"5")], "rows")


@registered
def the_version_grows_by_one_with_each_commit_that_writes(bench: Bench) -> None:
    seen: list[int] = []

    def version(writes: Writes) -> int:
        def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
            return writes, snapshot.version

        outcome = bench.engine.write(work)
        assert isinstance(outcome, Applied)
        return int(outcome.answers)

    for value in (b"1", b"1", b"2"):
        seen.append(version(Writes({(A_TABLE, b"a"): value})))
    expect_equal(seen, [seen[0], seen[0] + 1, seen[0] + 2], "the versions that three writers found")
    expect_equal(version(Writes()), seen[0] + 3, "the version after them")
    expect_equal(version(Writes()), seen[0] + 3, "the version after a transaction that wrote nothing")
    with bench.engine.snapshot() as snapshot:
        expect_equal(snapshot.version, seen[0] + 3, "the version that a reader finds")
    with expect_raises(Corrupt, "a delete of a missing row"):
        bench.write({}, deletes=[(A_TABLE, b"missing")])
    expect_equal(version(Writes()), seen[0] + 3, "the version after a refused write")


@registered
def giving_way_changes_nothing(bench: Bench) -> None:
    bench.put(A_TABLE, {b"a": b"1"})
    bench.engine.give_way()
    bench.put(A_TABLE, {b"b": b"2"})
    expect_equal(bench.rows(A_TABLE), [(b"a", b"1"), (b"b", b"2")], "rows")


@registered
def measures_are_numbers_by_name_until_the_engine_is_closed(bench: Bench) -> None:
    bench.put(A_TABLE, {b"a": b"1"})
    for name, value in bench.engine.measures().items():
        expect(name.isidentifier() and isinstance(value, int) and value >= 0, f"the measure {name!r} is {value!r}")
    bench.engine.close()
    expect_equal(dict(bench.engine.measures()), {}, "the measures of a closed engine")


@registered
def answers_of_work_that_writes_nothing_come_back(bench: Bench) -> None:
    expect_equal(bench.write({}, answer="read"), "read", "answers")


@registered
def the_moment_is_read_from_the_clock_for_each_write(bench: Bench) -> None:
    seen: list[Moment] = []

    def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        return Writes(), moment

    for _ in range(2):
        outcome = bench.engine.write(work)
        assert isinstance(outcome, Applied)
        seen.append(outcome.answers)
        expect_equal(seen[-1], bench.clock(), "the moment")
        bench.clock.advance(7)
        bench.clock.reboot()
    expect(seen[0] != seen[1], "the moment does not move with the clock")


@registered
def a_snapshot_does_not_see_later_writes(bench: Bench) -> None:
    bench.put(A_TABLE, {b"a": b"old"})
    written = threading.Event()

    def write() -> None:
        bench.put(A_TABLE, {b"a": b"new", b"b": b"new"})
        written.set()

    thread = threading.Thread(target=write, daemon=True)
    with bench.engine.snapshot() as snapshot:
        first = snapshot.scan(A_TABLE, b"", None, 10)
        thread.start()
        written.wait(0.05)  # an engine may also make the writer wait until the snapshot has ended
        expect_equal(snapshot.scan(A_TABLE, b"", None, 10), first, "the same scan in one snapshot")
        expect_equal(snapshot.get_many([(A_TABLE, b"a"), (A_TABLE, b"b")]), [b"old", None], "get_many")
        expect_equal(snapshot.count(A_TABLE), 1, "count")
    thread.join(30)
    expect_equal(bench.rows(A_TABLE), [(b"a", b"new"), (b"b", b"new")], "a later snapshot")


@registered
def threads_lose_no_update(bench: Bench) -> None:
    def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        [value] = snapshot.get_many([(A_TABLE, b"n")])
        return Writes({(A_TABLE, b"n"): str(1 if value is None else int(value) + 1).encode()}), None

    def write() -> None:
        for _ in range(10):
            while not isinstance(bench.engine.write(work), Applied):
                pass

    threads = [threading.Thread(target=write, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expect_equal(bench.rows(A_TABLE), [(b"n", b"40")], "the count")


@registered
def a_closed_engine_says_so(bench: Bench) -> None:
    bench.engine.close()
    bench.engine.close()
    with expect_raises(Closed, "a write after close"):
        bench.engine.write(lambda snapshot, moment: (Writes(), None))
    with expect_raises(Closed, "a snapshot after close"), bench.engine.snapshot():
        pass


# --- chaining (P101) ------------------------------------------------------------------------------------------------


@registered
def an_unknown_run_has_the_genesis_head_and_no_records(bench: Bench) -> None:
    expect_equal(bench.acme.head("r"), Head(0, GENESIS), "head")
    expect_equal(list(bench.acme.read("r")), [], "records")
    expect_equal(bench.acme.standing("r"), None, "standing")


@registered
def seq_runs_from_1_without_gaps_over_batches(bench: Bench) -> None:
    bench.run("r", entries.note("a"))
    bench.acme.append("r", [entries.note("b"), entries.note("c")], epoch=1)
    expect_equal([record.seq for record in bench.acme.read("r")], [1, 2, 3, 4], "seqs")
    expect_equal(bench.acme.head("r").seq, 4, "the head")


@registered
def each_record_names_the_hash_of_the_one_before(bench: Bench) -> None:
    bench.run("r", entries.note("a"), entries.note("b"))
    bench.acme.append("r", [entries.note("c")], epoch=1)
    prev = GENESIS
    for record in bench.acme.read("r"):
        expect_equal(record.prev, prev, f"prev of record {record.seq}")
        prev = record.hash
    expect_equal(bench.acme.head("r").hash, prev, "the head")


@registered
def stored_bytes_hash_to_the_stored_hash(bench: Bench) -> None:
    made = bench.run("r", entries.note("a"), entries.note("b"))
    for seq, record in enumerate(made, 1):
        row = decode_row(record_rows(bench.engine, "acme", "r")[seq][1], "r", seq)
        expect_equal(chain_hash(row.prev, row.body), row.hash, f"the hash of record {seq}")
        expect_equal((row.hash, row.body), (record.hash, record.body), f"what append returned for record {seq}")


@registered
def reading_starts_where_it_is_told(bench: Bench) -> None:
    bench.run("r", *[entries.note(str(number)) for number in range(5)])
    for start in range(1, 8):
        expect_equal([record.seq for record in bench.acme.read("r", start=start)], list(range(start, 7)), f"{start}")


@registered
def a_page_of_records_is_bounded_and_pages_reassemble_the_run(bench: Bench) -> None:
    made = bench.run("r", *[entries.note(str(number)) for number in range(8)])
    expect_equal(len(bench.acme.read("r", limit=3)), 3, "a page of 3")
    expect_equal(len(bench.acme.read("r", limit=0)), 0, "a page of 0")
    expect_equal(in_pages(bench.acme.read, "r"), made, "the records")


@registered
def a_signature_comes_back_as_it_was_made(bench: Bench) -> None:
    signer = Ed25519Signer(bytes(range(32)))
    acme = bench.signing(bytes(range(32))).tenant("acme")
    acme.append("r", [entries.admitted(), entries.note("x")], epoch=1)
    for record in acme.read("r"):
        signature = record.signature or b""
        expect(verify_signature(signer.public_key, record.hash, signature), f"signature of record {record.seq}")


@registered
def arrivals_count_on_over_runs_without_gaps(bench: Bench) -> None:
    bench.run("b")
    bench.run("a", entries.note("x"))
    bench.acme.append("b", [entries.note("y")], epoch=1)
    found = [(record.arrival, record.run) for record in in_pages(bench.acme.history)]
    expect_equal(found, [(1, "b"), (2, "a"), (3, "a"), (4, "b")], "arrivals")
    backwards = [record.arrival for record in in_pages(bench.acme.history, reverse=True)]
    expect_equal(backwards, [4, 3, 2, 1], "backwards")


@registered
def tenants_do_not_see_each_other(bench: Bench) -> None:
    bench.run("r", entries.note("mine"))
    other = bench.journal.tenant("acme2")
    expect_equal(list(other.read("r")), [], "another tenant's records")
    bench.run("r", tenant=other)
    expect_equal([len(bench.acme.read("r")), len(other.read("r"))], [2, 1], "records of one name under two tenants")
    expect_equal([len(bench.acme.runs()), len(other.runs())], [1, 1], "runs")


# --- exactly once (P102) --------------------------------------------------------------------------------------------

KEY = EffectKey("charge", "42")


def started(key: bytes = KEY, **options: Any) -> Entry:
    """The start of an effect, as the checks write it."""
    return entries.effect_started(key, name="charge", **options)


@registered
def a_second_start_of_an_effect_is_refused(bench: Bench) -> None:
    bench.run("r", started())
    error = bench.expect_unchanged(lambda: bench.acme.append("r", [started()], epoch=1), DuplicateEffect)
    expect_equal((error.effect, error.attempt), (KEY.hex(), 1), "the refusal")


@registered
def two_starts_of_an_effect_in_one_batch_are_refused(bench: Bench) -> None:
    bench.run("r")
    bench.expect_unchanged(lambda: bench.acme.append("r", [started(), started()], epoch=1), DuplicateEffect)


@registered
def the_same_effect_key_in_another_run_is_another_effect(bench: Bench) -> None:
    bench.run("a", started())
    bench.run("b", started())
    expect_equal([len(bench.acme.effects(run)) for run in "ab"], [1, 1], "effects")


@registered
def a_refused_batch_writes_nothing(bench: Bench) -> None:
    bench.run("r", started())
    batch = [entries.note("before", case="c"), started(EffectKey("other")), started(), entries.concluded("done")]
    bench.expect_unchanged(lambda: bench.acme.append("r", batch, epoch=1), DuplicateEffect)


@registered
def a_group_over_two_runs_enters_whole_or_not_at_all(bench: Bench) -> None:
    bench.run("b", started())
    parts: list[requests.Request] = [
        requests.append("a", [entries.admitted()], epoch=1),
        requests.acquire("b", owner="w", ttl=30),
        requests.append("b", [started()]),
    ]
    bench.expect_unchanged(lambda: bench.acme.group(parts), DuplicateEffect)
    bench.acme.group(parts[:2])
    expect_equal((bench.acme.head("a").seq, bench.acme.lease("b") is not None), (1, True), "the group that may enter")


@registered
def an_effect_is_started_again_only_after_its_attempt_failed(bench: Bench) -> None:
    bench.run("r", started())
    bench.acme.append("r", [entries.effect_failed(KEY, error="no"), started()], epoch=1)
    bench.acme.append("r", [entries.effect_done(KEY, result=1)], epoch=1)
    bench.expect_unchanged(lambda: bench.acme.append("r", [started()], epoch=1), DuplicateEffect)
    bench.expect_unchanged(lambda: bench.acme.append("r", [entries.effect_done(KEY)], epoch=1), EffectSettled)
    effect = bench.acme.effect("r", KEY)
    expect_equal(effect and (effect.attempt, effect.status), (2, "done"), "the effect")


@registered
def an_end_without_a_start_is_refused(bench: Bench) -> None:
    bench.run("r")
    for end in (
        entries.effect_done(KEY),
        entries.effect_failed(KEY),
        entries.effect_reconciled(KEY, disposition="landed"),
    ):
        bench.expect_unchanged(lambda end=end: bench.acme.append("r", [end], epoch=1), EffectNotStarted)  # type: ignore[misc]


@registered
def the_same_append_after_the_same_head_is_a_replay(bench: Bench) -> None:
    head = bench.acme.head("r")
    batch = [entries.admitted(source="s", id="1"), started()]
    made = bench.acme.append("r", batch, epoch=1, after=head)
    before = all_rows(bench.engine)
    again = bench.acme.append("r", batch, epoch=1, after=head)
    expect_equal((list(again), again.replayed), (list(made), True), "the second call's answer")
    expect_equal(all_rows(bench.engine), before, "rows after the replay")


# --- fencing (P103) -------------------------------------------------------------------------------------------------


@registered
def a_stale_epoch_is_fenced(bench: Bench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.acme.append("r", [entries.admitted()], lease=first)
    bench.clock.advance(11)
    second = bench.acme.acquire("r", owner="b", ttl=10)
    error = bench.expect_unchanged(lambda: bench.acme.append("r", [entries.note("x")], lease=first), Fenced)
    expect_equal((error.held, error.current), (first.epoch, second.epoch), "the refusal")


@registered
def an_epoch_from_the_future_is_fenced(bench: Bench) -> None:
    lease = bench.acme.acquire("r", owner="a", ttl=10)
    for epoch in (lease.epoch + 1, 2**53 - 1):
        bench.expect_unchanged(lambda epoch=epoch: bench.acme.append("r", [entries.note("x")], epoch=epoch), Fenced)  # type: ignore[misc]


@registered
def a_live_lease_is_not_stolen(bench: Bench) -> None:
    lease = bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.advance(9.999)
    error = bench.expect_unchanged(lambda: bench.acme.acquire("r", owner="b", ttl=10), LeaseHeld)
    expect_equal((error.owner, error.epoch, error.remaining_ms), ("a", lease.epoch, 1), "the refusal")


@registered
def an_expired_lease_is_taken_over_under_a_higher_epoch(bench: Bench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.advance(10)
    expect_equal(bench.acme.acquire("r", owner="b", ttl=10).epoch, first.epoch + 1, "the epoch")


@registered
def acquiring_never_renews(bench: Bench) -> None:
    bench.acme.acquire("r", owner="a", ttl=10)
    bench.expect_unchanged(lambda: bench.acme.acquire("r", owner="a", ttl=60), LeaseHeld)


@registered
def renewing_moves_the_expiry_and_keeps_the_epoch(bench: Bench) -> None:
    lease = bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.advance(5)
    renewed = bench.acme.renew(lease, ttl=10)
    expect_equal((renewed.epoch, renewed.expires_at), (lease.epoch, bench.clock.wall_ms + 10_000), "the lease")


@registered
def a_lost_lease_is_not_renewed(bench: Bench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.advance(10)
    bench.expect_unchanged(lambda: bench.acme.renew(first, ttl=10), LeaseNotHeld)
    second = bench.acme.acquire("r", owner="a", ttl=10)
    bench.expect_unchanged(lambda: bench.acme.renew(first, ttl=10), LeaseNotHeld)
    bench.acme.release(second)
    bench.expect_unchanged(lambda: bench.acme.renew(second, ttl=10), LeaseNotHeld)


@registered
def a_released_lease_is_free_at_once_under_a_higher_epoch(bench: Bench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.acme.release(first)
    released = bench.acme.lease("r")
    expect_equal(released and (released.owner, released.epoch), (None, first.epoch), "the released lease")
    expect_equal(bench.acme.acquire("r", owner="b", ttl=10).epoch, first.epoch + 1, "the next epoch")


@registered
def a_fenced_caller_does_not_free_the_new_lease(bench: Bench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.advance(10)
    second = bench.acme.acquire("r", owner="b", ttl=10)
    before = all_rows(bench.engine)
    bench.acme.release(first)
    expect_equal(all_rows(bench.engine), before, "rows")
    expect_equal(bench.acme.lease("r"), second, "the lease")


@registered
def a_stale_seal_is_refused(bench: Bench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.acme.append("r", [entries.admitted(), entries.concluded("done")], lease=first)
    bench.clock.advance(10)
    bench.acme.acquire("r", owner="b", ttl=10)
    bench.expect_unchanged(lambda: bench.acme.seal("r", lease=first), Fenced)


@registered
def a_lease_starts_past_every_epoch_of_the_chain(bench: Bench) -> None:
    for epoch in range(1, 8):
        bench.acme.append("r", [entries.note(str(epoch))], epoch=epoch)
    expect_equal(bench.acme.acquire("r", owner="a", ttl=10).epoch, 8, "the epoch")


@registered
def no_step_of_the_wall_clock_frees_a_live_lease(bench: Bench) -> None:
    bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.step_wall(1_000_000)
    bench.expect_unchanged(lambda: bench.acme.acquire("r", owner="b", ttl=10), LeaseHeld)
    bench.clock.step_wall(-2_000_000)
    bench.expect_unchanged(lambda: bench.acme.acquire("r", owner="b", ttl=10), LeaseHeld)


# --- indexes (P104) -------------------------------------------------------------------------------------------------


def names(standings: Iterable[Any]) -> list[str]:
    """The runs that a listing names."""
    return [standing.run for standing in standings]


@registered
def conclusions_are_listed_newest_first(bench: Bench) -> None:
    for run in "bca":
        bench.run(run, entries.concluded("failed"))
    expect_equal(names(bench.acme.by_outcome("failed")), ["a", "c", "b"], "the listing")
    expect_equal(names(bench.acme.by_outcome("failed", limit=1)), ["a"], "the newest")
    expect_equal(names(in_pages(bench.acme.by_outcome, "failed")), ["a", "c", "b"], "in pages")
    expect_equal(names(bench.acme.by_outcome("done")), [], "another outcome")


@registered
def the_count_is_that_of_the_listing(bench: Bench) -> None:
    for number in range(7):
        bench.run(f"r{number}", entries.concluded("failed"))
    expect_equal(bench.acme.count_by_outcome("failed"), 7, "the count")
    expect_equal(bench.acme.count_by_outcome("done"), 0, "the count of another outcome")


@registered
def a_new_conclusion_moves_the_run(bench: Bench) -> None:
    bench.run("a", entries.concluded("failed"))
    bench.run("b", entries.concluded("failed"))
    bench.acme.append("a", [entries.note("again"), entries.concluded("exhausted")], epoch=1)
    expect_equal(names(bench.acme.by_outcome("failed")), ["b"], "the outcome that it left")
    expect_equal(names(bench.acme.by_outcome("exhausted")), ["a"], "the outcome that it has")
    bench.acme.append("b", [entries.concluded("failed")], epoch=1)
    expect_equal(names(bench.acme.by_outcome("failed")), ["b"], "one row per run")


@registered
def a_case_lists_every_record_of_it_by_run_and_seq(bench: Bench) -> None:
    bench.run("b", entries.note("x", case="c"), entries.note("y"))
    bench.run("a", entries.note("z", case="c"), entries.note("other", case="c2"))
    bench.acme.append("b", [entries.note("w", case="c")], epoch=1)
    found = [(record.run, record.seq) for record in in_pages(bench.acme.case_history, "c")]
    expect_equal(found, [("a", 2), ("b", 2), ("b", 4)], "the case")


@registered
def recent_runs_stand_by_their_last_record(bench: Bench) -> None:
    for run in "abcde":
        bench.run(run)
    bench.acme.append("b", [entries.note("x")], epoch=1)
    expect_equal(names(bench.acme.recent()), ["b", "e", "d", "c", "a"], "the listing")
    expect_equal(names(in_pages(bench.acme.recent)), ["b", "e", "d", "c", "a"], "in pages")


@registered
def recent_runs_stay_exact_over_many_arrivals(bench: Bench) -> None:
    for number in range(6):
        bench.run(f"r{number}", *[entries.note(str(index)) for index in range(99)])
    bench.acme.append("r2", [entries.note("again")], epoch=1)
    expected = ["r2", "r5", "r4", "r3", "r1", "r0"]
    expect_equal(names(bench.acme.recent()), expected, "the listing")
    expect_equal(names(in_pages(bench.acme.recent)), expected, "in pages")


@registered
def a_source_lists_the_runs_that_it_admitted(bench: Bench) -> None:
    bench.run("a", source="shop")
    bench.run("b", source="mail")
    bench.run("c", source="shop")
    bench.run("d")
    bench.acme.append("a", [entries.note("x")], epoch=1)
    expect_equal(names(bench.acme.recent_from("shop")), ["a", "c"], "the source")
    expect_equal(names(in_pages(bench.acme.recent_from, "shop", size=1)), ["a", "c"], "in pages")
    expect_equal(names(bench.acme.recent_from("nobody")), [], "an unknown source")


@registered
def runs_are_walked_by_name_while_others_write(bench: Bench) -> None:
    for run in "bdfh":
        bench.run(run)
    first = bench.acme.runs(limit=2)
    bench.acme.append("b", [entries.note("x")], epoch=1)
    bench.run("a")
    bench.run("e")
    rest = bench.acme.runs(after=first.next)
    expect_equal(names(first) + names(rest), ["b", "d", "e", "f", "h"], "the walk")
    expect_equal(names(in_pages(bench.acme.runs)), list("abdefh"), "in pages")


@registered
def a_wait_follows_the_last_record(bench: Bench) -> None:
    bench.run("r", entries.suspended(awaiting="mail"))
    expect_equal(names(bench.acme.waiting()), ["r"], "after a suspension")
    bench.acme.append("r", [entries.note("still")], epoch=1)
    expect_equal(names(bench.acme.waiting()), ["r"], "after a note")
    bench.acme.append("r", [entries.entry("Woken")], epoch=1)
    expect_equal(names(bench.acme.waiting()), [], "after progress")
    bench.acme.append("r", [entries.suspended(), entries.concluded("failed")], epoch=1)
    expect_equal(names(bench.acme.waiting()), [], "after a conclusion in the same batch")


@registered
def waiting_runs_stand_soonest_first(bench: Bench) -> None:
    bench.run("never", entries.suspended(awaiting="mail"))
    bench.run("late", entries.suspended(until="2100-01-01T00:00:00Z"))
    bench.run("past", entries.suspended(until="1969-12-31T00:00:00Z"))
    bench.run("b", entries.suspended(until="2030-01-01T00:00:00Z"))
    bench.run("a", entries.suspended(until="2030-01-01T00:00:00Z"))
    expected = ["past", "a", "b", "late", "never"]
    expect_equal(names(bench.acme.waiting()), expected, "the listing")
    expect_equal(names(in_pages(bench.acme.waiting)), expected, "in pages")


@registered
def only_a_lease_that_ran_out_is_abandoned(bench: Bench) -> None:
    bench.acme.acquire("live", owner="w", ttl=100)
    bench.acme.release(bench.acme.acquire("released", owner="w", ttl=10))
    bench.acme.acquire("later", owner="w", ttl=20)
    first = bench.acme.acquire("first", owner="w", ttl=10)
    bench.clock.advance(30)
    expect_equal(names(bench.acme.abandoned()), ["first", "later"], "the listing")
    expect_equal(names(in_pages(bench.acme.abandoned, size=1)), ["first", "later"], "in pages")
    found = bench.acme.abandoned()[0]
    expect_equal((found.owner, found.epoch, found.expired_at), ("w", first.epoch, first.expires_at), "the first one")


# --- admission (P105) -----------------------------------------------------------------------------------------------


@registered
def an_admission_key_creates_one_run(bench: Bench) -> None:
    bench.run("a", source="shop")
    batch = [entries.admitted(source="shop", id="a")]
    error = bench.expect_unchanged(lambda: bench.acme.append("b", batch, epoch=1), DuplicateAdmission)
    expect_equal(error.holder, "a", "the holder")
    expect_equal(bench.acme.admitted_as("shop", "a"), "a", "admitted_as")


@registered
def a_lease_alone_claims_no_admission_key(bench: Bench) -> None:
    bench.acme.acquire("a", owner="w", ttl=10)
    expect_equal(bench.acme.admitted_as("shop", "a"), None, "admitted_as")


@registered
def a_refused_append_spends_no_admission_key(bench: Bench) -> None:
    batch = [entries.admitted(source="shop", id="1"), entries.effect_done(KEY)]
    bench.expect_unchanged(lambda: bench.acme.append("a", batch, epoch=1), EffectNotStarted)
    bench.acme.append("b", batch[:1], epoch=1)
    expect_equal(bench.acme.admitted_as("shop", "1"), "b", "the holder")


@registered
def an_admission_without_a_key_claims_none(bench: Bench) -> None:
    bench.run("a")
    bench.run("b")
    expect_equal(bench.rows(tables.ADMISSIONS), [], "admission rows")
    batch = [entries.admitted(source="", id="")]
    bench.expect_unchanged(lambda: bench.acme.append("c", batch, epoch=1), InvalidName)


@registered
def tenants_honour_an_admission_key_each_for_itself(bench: Bench) -> None:
    bench.run("a", source="shop")
    other = bench.journal.tenant("other")
    expect_equal(other.admitted_as("shop", "a"), None, "another tenant's answer")
    other.append("b", [entries.admitted(source="shop", id="a")], epoch=1)
    expect_equal([t.admitted_as("shop", "a") for t in (bench.acme, other)], ["a", "b"], "holders")


# --- the log (P106) -------------------------------------------------------------------------------------------------


@registered
def every_earlier_checkpoint_is_the_beginning_of_the_log(bench: Bench) -> None:
    kept = [bench.acme.checkpoint()]
    for number in range(9):
        bench.sealed(f"r{number}")
        kept.append(bench.acme.checkpoint())
    for checkpoint in kept[1:]:
        proof = bench.acme.consistency_proof(checkpoint.size)
        expect_equal(proof.old_root, checkpoint.root, f"the root at {checkpoint.size}")
        verify_consistency(
            old_size=proof.old, new_size=proof.new, old_root=checkpoint.root, new_root=kept[-1].root, proof=proof.proof
        )
    expect_equal(bench.acme.consistency_proof(0).proof, [], "the proof from 0")


@registered
def every_leaf_is_proved_at_every_size_that_holds_it(bench: Bench) -> None:
    kept = {0: bench.acme.checkpoint()}
    for number in range(7):
        bench.sealed(f"r{number}")
        kept[number + 1] = bench.acme.checkpoint()
    for number in range(7):
        for size, checkpoint in kept.items():
            proof = bench.acme.inclusion_proof(f"r{number}", size)
            if number >= size:
                expect_equal(proof, None, f"run {number} at size {size}")
                continue
            expect(proof is not None, f"run {number} has no proof at size {size}")
            assert proof is not None
            expect_equal(proof.root, checkpoint.root, f"the root at {size}")
            verify_inclusion(
                leaf=proof.leaf_hash, index=proof.index, size=size, proof=proof.proof, root=checkpoint.root
            )


@registered
def log_positions_answer_in_the_order_asked(bench: Bench) -> None:
    for run in "bac":
        bench.sealed(run)
    bench.run("open")
    expect_equal(bench.acme.log_positions(["c", "open", "a", "nobody", "b"]), [2, None, 1, None, 0], "positions")


@registered
def proofs_past_the_log_are_refused(bench: Bench) -> None:
    bench.sealed("r")
    bench.expect_unchanged(lambda: bench.acme.inclusion_proof("r", 2), InvalidInput)
    bench.expect_unchanged(lambda: bench.acme.consistency_proof(2), InvalidInput)


@registered
def only_a_concluded_run_is_sealed(bench: Bench) -> None:
    bench.run("r")
    bench.expect_unchanged(lambda: bench.acme.seal("r"), NotConcluded)
    bench.acme.append("r", [entries.concluded("failed")], epoch=1)
    bench.expect_unchanged(lambda: bench.acme.seal("r"), NotConcluded)
    bench.acme.append("r", [entries.concluded("done")], epoch=1)
    expect_equal(bench.acme.seal("r").kind, "seal", "the leaf")


@registered
def the_first_seal_stands(bench: Bench) -> None:
    bench.run("r", entries.concluded("done"))
    first = bench.acme.seal("r")
    before = all_rows(bench.engine)
    expect_equal(bench.acme.seal("r"), first, "the second seal's answer")
    expect_equal(all_rows(bench.engine), before, "rows")


@registered
def a_sealed_run_takes_nothing(bench: Bench) -> None:
    bench.sealed("r")
    head = bench.acme.head("r")
    for epoch in (1, 2):
        bench.expect_unchanged(lambda epoch=epoch: bench.acme.append("r", [entries.note()], epoch=epoch), RunSealed)  # type: ignore[misc]
    bench.expect_unchanged(lambda: bench.acme.acquire("r", owner="w", ttl=10), RunSealed)
    expect_equal(bench.acme.head("r"), head, "the head")


@registered
def an_open_run_enters_the_log_through_anchors(bench: Bench) -> None:
    made = bench.run("r")
    leaf = bench.acme.anchor("r")
    expect_equal((leaf.kind, leaf.index, leaf.head), ("anchor", 0, made[-1].hash), "the leaf")
    expect_equal(bench.acme.anchor("r"), leaf, "an unmoved head's answer")
    expect_equal(bench.acme.checkpoint().size, 1, "the log's size")


@registered
def each_tenant_has_its_own_log(bench: Bench) -> None:
    other = bench.journal.tenant("other")
    for number in range(3):
        bench.sealed(f"r{number}")
        bench.sealed(f"r{number}", tenant=other)
    runs = [f"r{number}" for number in range(3)]
    expect_equal([bench.acme.log_positions(runs), other.log_positions(runs)], [[0, 1, 2], [0, 1, 2]], "positions")


# --- cancel (P107) --------------------------------------------------------------------------------------------------


@registered
def anybody_may_ask_for_a_run_to_be_cancelled(bench: Bench) -> None:
    bench.acme.acquire("r", owner="w", ttl=10)
    bench.acme.append("r", [entries.admitted()], epoch=1)
    head = bench.acme.head("r")
    expect_equal(bench.acme.request_cancel("r", actor="ann", reason="why").status, "recorded", "the answer")
    found = bench.acme.cancellation("r")
    expect_equal(found and (found.actor, found.reason, found.basis), ("ann", "why", "asserted"), "the request")
    expect_equal(bench.acme.head("r"), head, "the run's own head")


@registered
def a_run_that_nobody_asked_about_has_no_cancellation(bench: Bench) -> None:
    bench.run("r")
    bench.acme.request_cancel("other", actor="ann")
    expect_equal(bench.acme.cancellation("r"), None, "the cancellation")


@registered
def the_first_cancel_request_stands(bench: Bench) -> None:
    bench.run("r")
    bench.acme.request_cancel("r", actor="ann", reason="first")
    before = all_rows(bench.engine)
    answer = bench.acme.request_cancel("r", actor="bob", reason="second")
    cancellation = answer.cancellation
    expect_equal((answer.status, cancellation and cancellation.actor), ("already-requested", "ann"), "the answer")
    expect_equal(all_rows(bench.engine), before, "rows")


# --- upcasting (P108) -----------------------------------------------------------------------------------------------


@registered
def older_records_are_lifted_when_they_are_read_and_stay_as_they_were_written(bench: Bench) -> None:
    [_, old] = bench.run("r", entries.note("x", case="c"))
    bench.upcaster.versions["Note"] = 3
    [lifted] = bench.acme.read("r", start=2)
    expect_equal((lifted.v, lifted.data), (1, {"text": "x", "lifted": 3}), "what read answers")
    expect_equal(bench.acme.case_history("c")[0].data, {"text": "x", "lifted": 3}, "what case_history answers")
    expect_equal((lifted.body, lifted.hash), (old.body, old.hash), "bytes and hash")
    [new] = bench.acme.append("r", [entries.note("y")], epoch=1)
    expect_equal((new.v, new.data, new.prev), (3, {"text": "y"}, old.hash), "what is written now")


@registered
def a_record_of_a_newer_version_is_not_called_damage(bench: Bench) -> None:
    bench.upcaster.versions["Note"] = 2
    bench.run("r", entries.note("x"))
    bench.upcaster.versions["Note"] = 1
    with expect_raises(UnknownVersion, "a newer record"):
        bench.acme.read("r")
