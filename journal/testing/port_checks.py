"""What the engine port demands, check by check."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from sealbook.journal.engine.port import Applied, Moment, Place, Snapshot, Writes
from sealbook.journal.errors import (
    Closed,
    Corrupt,
)
from sealbook.journal.records.body import BODY_BYTES_MAX
from sealbook.journal.schema import tables
from sealbook.journal.testing.conformance import (
    Bench,
    Check,
    ConformanceReport,
    MakeEngine,
    expect,
    expect_equal,
    expect_raises,
    run_checks,
)

CHECKS: list[Check] = []


def registered(check: Check) -> Check:
    """A check of the suite."""
    CHECKS.append(check)
    return check


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


def conformance(make_engine: MakeEngine, checks: Sequence[Check] | None = None) -> ConformanceReport:
    """Run every check of the port (or these) over engines from `make_engine`, a fresh and empty one for each.

    The engine must read its moments from the clock that it is given.
    """
    return run_checks(make_engine, CHECKS if checks is None else checks)
