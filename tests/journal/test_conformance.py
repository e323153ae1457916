"""The conformance suite, over every engine there is; and that it would notice if one of them were broken."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from store_checks import STORE_CHECKS

from sealbook.journal import Corrupt
from sealbook.journal.engine.lmdb import ENGINE_FORMAT, LmdbEngine
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Clock, Engine, Row, Snapshot, Work, Writes
from sealbook.journal.schema import tables
from sealbook.journal.schema.identity import new_identity
from sealbook.journal.testing import (
    CHECKS,
    ConformanceFailed,
    ConformanceReport,
    MakeEngine,
    ManualClock,
    conformance,
    rows,
    tamper,
)


def on_disk(folder: Path) -> MakeEngine:
    """Engines in fresh folders, emptied of the store row that creating one commits."""
    numbers = itertools.count()

    def make(clock: Clock) -> Engine:
        identity = new_identity(ENGINE_FORMAT)
        engine = LmdbEngine.create(
            folder / f"{next(numbers)}.sealbook",
            identity_text=identity.encode(),
            store_value=identity.store_row().encode(),
            clock=clock,
            lock_timeout=5,
        )
        tamper(engine, *tables.STORE_PLACE, None)
        return engine

    return make


EVERY_CHECK = [*CHECKS, *STORE_CHECKS]

ENGINES: dict[str, Callable[[Path], MakeEngine]] = {
    "memory": lambda folder: lambda clock: MemoryEngine(clock=clock),
    "memory, work called twice": lambda folder: lambda clock: MemoryEngine(clock=clock, call_work_twice=True),
    "lmdb": on_disk,
}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_conforms(engine: str, tmp_path: Path) -> None:
    report = conformance(ENGINES[engine](tmp_path), EVERY_CHECK).demand()
    assert report.checks == len(EVERY_CHECK)


def test_the_suite_is_no_smaller_than_it_was() -> None:
    assert len(EVERY_CHECK) >= 79
    assert len({check.__name__ for check in EVERY_CHECK}) == len(EVERY_CHECK)
    assert conformance(lambda clock: MemoryEngine(clock=clock)).demand().checks == len(CHECKS) >= 21


def test_a_suite_that_ran_no_check_has_failed() -> None:
    report = conformance(lambda clock: MemoryEngine(clock=clock), checks=[])
    assert (report.checks, report.violations, report.ok) == (0, [], False)
    with pytest.raises(ConformanceFailed, match="no check ran"):
        report.demand()


def test_every_violation_is_collected_and_named() -> None:
    report = conformance(lambda clock: Forgetful(clock=clock), EVERY_CHECK)
    assert report.checks == len(EVERY_CHECK)
    assert len(report.violations) > 1
    with pytest.raises(ConformanceFailed, match="a_put_replaces_and_a_delete_removes"):
        report.demand()


def test_an_engine_that_cannot_be_made_is_a_violation_of_every_check() -> None:
    def make(clock: Clock) -> Engine:
        raise OSError("no device")

    report = conformance(make)
    assert len(report.violations) == report.checks == len(CHECKS)
    assert str(report.violations[0]).endswith("OSError: no device")


# --- engines that are broken on purpose -----------------------------------------------------------------------------


class Forgetful(MemoryEngine):
    """Deletes nothing."""

    def _apply(self, writes: Writes) -> None:
        super()._apply(Writes(writes.puts, writes.absent))


class LosesALaterPut(MemoryEngine):
    """Keeps the first ten puts of a transaction."""

    def _apply(self, writes: Writes) -> None:
        super()._apply(Writes(dict(list(writes.puts.items())[:10]), writes.absent, writes.deletes))


class IgnoresAbsent(MemoryEngine):
    """Writes over rows that must be absent."""

    def _check(self, writes: Writes) -> None:
        super()._check(Writes(writes.puts, frozenset(), writes.deletes))


class CountsNoCommits(MemoryEngine):
    """Shows the same version for ever."""

    def _apply(self, writes: Writes) -> None:
        super()._apply(writes)
        self._version = 0


class IgnoresMissing(MemoryEngine):
    """Takes a delete of a row that is not there for done."""

    def _check(self, writes: Writes) -> None:
        super()._check(Writes(writes.puts, writes.absent))

    def _apply(self, writes: Writes) -> None:
        there = {place for place in writes.deletes if place[1] in self._table(place[0]).rows}
        super()._apply(Writes(writes.puts, writes.absent, there))


class ChecksLate(MemoryEngine):
    """Notices damage after it has written."""

    def _check(self, writes: Writes) -> None:
        MemoryEngine._apply(self, Writes(writes.puts))
        super()._check(writes)


class CommitsAnyway(MemoryEngine):
    """Swallows what `work` raises."""

    def write(self, work: Work) -> Any:
        try:
            return super().write(work)
        except ZeroDivisionError:
            return super().write(lambda snapshot, moment: (Writes(), None))


class HasAStoppedClock(MemoryEngine):
    """Reads its clock once, when it is made."""

    def __init__(self, *, clock: Clock) -> None:
        moment = clock()
        super().__init__(clock=lambda: moment)


class MeasuresForEver(MemoryEngine):
    """Tells of a storage that it has let go of."""

    def measures(self) -> dict[str, int]:
        return {"used_bytes": 1}


class NeverCloses(MemoryEngine):
    """Answers after it was closed."""

    def close(self) -> None:
        pass


class _Bent:
    """A snapshot whose scans are bent."""

    def __init__(self, snapshot: Snapshot, bend: Callable[[Snapshot, tuple[Any, ...]], list[Row]]) -> None:
        self._snapshot, self._bend = snapshot, bend
        self.version = snapshot.version
        self.get_many = snapshot.get_many
        self.count = snapshot.count

    def scan(self, table: str, lo: bytes, hi: bytes | None, limit: int, reverse: bool = False) -> list[Row]:
        return self._bend(self._snapshot, (table, lo, hi, limit, reverse))


def bent(bend: Callable[[Snapshot, tuple[Any, ...]], list[Row]]) -> MakeEngine:
    class BentEngine(MemoryEngine):
        @contextmanager
        def snapshot(self) -> Iterator[Snapshot]:
            with super().snapshot() as snapshot:
                yield _Bent(snapshot, bend)

    return lambda clock: BentEngine(clock=clock)


def out_of_order(snapshot: Snapshot, scan: tuple[Any, ...]) -> list[Row]:
    page = snapshot.scan(*scan)
    return [*page[1:2], *page[:1], *page[2:]]


def past_the_limit(snapshot: Snapshot, scan: tuple[Any, ...]) -> list[Row]:
    table, lo, hi, limit, reverse = scan
    return snapshot.scan(table, lo, hi, limit + 1, reverse)


def hi_included(snapshot: Snapshot, scan: tuple[Any, ...]) -> list[Row]:
    table, lo, hi, limit, reverse = scan
    return snapshot.scan(table, lo, None if hi is None else hi + b"\0", limit, reverse)


def lo_excluded(snapshot: Snapshot, scan: tuple[Any, ...]) -> list[Row]:
    table, lo, hi, limit, reverse = scan
    return snapshot.scan(table, lo + b"\0", hi, limit, reverse)


def never_reversed(snapshot: Snapshot, scan: tuple[Any, ...]) -> list[Row]:
    table, lo, hi, limit, _ = scan
    return snapshot.scan(table, lo, hi, limit)


class SeesLaterWrites(MemoryEngine):
    """Its snapshots look at the live tables and keep no writer out."""

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        with super().snapshot() as snapshot:
            self._lock.release()
            try:
                yield snapshot
            finally:
                self._lock.acquire()


class LosesUpdates(MemoryEngine):
    """Once a count has come to 7, it decides on what stood there before."""

    def write(self, work: Work) -> Any:
        count = self._table(tables.CANCELS).rows
        if count.get(b"n") == b"7":
            count[b"n"] = b"6"
        return super().write(work)


BROKEN: dict[str, tuple[MakeEngine, str]] = {
    "deletes nothing": (lambda clock: Forgetful(clock=clock), "a_put_replaces_and_a_delete_removes"),
    "loses a put": (lambda clock: LosesALaterPut(clock=clock), "a_page_holds_at_most_limit_rows"),
    "ignores absent": (
        lambda clock: IgnoresAbsent(clock=clock),
        "a_row_that_must_be_absent_is_refused_when_it_is_there",
    ),
    "counts no commits": (
        lambda clock: CountsNoCommits(clock=clock),
        "the_version_grows_by_one_with_each_commit_that_writes",
    ),
    "ignores missing": (lambda clock: IgnoresMissing(clock=clock), "a_delete_of_a_row_that_is_not_there_is_refused"),
    "checks late": (lambda clock: ChecksLate(clock=clock), "a_row_that_must_be_absent_is_refused_when_it_is_there"),
    "swallows exceptions": (
        lambda clock: CommitsAnyway(clock=clock),
        "an_exception_in_work_leaves_everything_and_is_raised_on",
    ),
    "stopped clock": (
        lambda clock: HasAStoppedClock(clock=clock),
        "the_moment_is_read_from_the_clock_for_each_write",
    ),
    "measures for ever": (
        lambda clock: MeasuresForEver(clock=clock),
        "measures_are_numbers_by_name_until_the_engine_is_closed",
    ),
    "never closes": (lambda clock: NeverCloses(clock=clock), "a_closed_engine_says_so"),
    "pages out of order": (bent(out_of_order), "keys_sort_as_bytes"),
    "pages past the limit": (bent(past_the_limit), "a_page_holds_at_most_limit_rows"),
    "hi included": (bent(hi_included), "a_scan_includes_lo_and_excludes_hi"),
    "lo excluded": (bent(lo_excluded), "a_scan_includes_lo_and_excludes_hi"),
    "never reversed": (bent(never_reversed), "a_scan_includes_lo_and_excludes_hi"),
    "no isolation": (lambda clock: SeesLaterWrites(clock=clock), "a_snapshot_does_not_see_later_writes"),
    "lost updates": (lambda clock: LosesUpdates(clock=clock), "threads_lose_no_update"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_engine_is_caught(broken: str) -> None:
    make, check = BROKEN[broken]
    found = conformance(make, [known for known in EVERY_CHECK if known.__name__ == check])
    assert [violation.check for violation in found.violations] == [check]


def test_the_store_checks_alone_catch_an_engine_that_loses_rows() -> None:
    """What the port checks miss in an engine shows in the rules above it."""

    class LosesRecords(MemoryEngine):
        def _apply(self, writes: Writes) -> None:
            puts = {place: value for place, value in writes.puts.items() if place[0] != tables.JOURNAL}
            super()._apply(Writes(puts, writes.absent, writes.deletes))

    report: ConformanceReport = conformance(lambda clock: LosesRecords(clock=clock), EVERY_CHECK)
    assert "arrivals_count_on_over_runs_without_gaps" in [violation.check for violation in report.violations]


# --- the clock and the raw rows that come with it -------------------------------------------------------------------


def test_the_manual_clock_moves_wall_and_boot_time_apart(clock: ManualClock) -> None:
    start = clock()
    clock.advance(2.5)
    assert (clock().wall_ms - start.wall_ms, clock().boot_ms - start.boot_ms) == (2500, 2500)
    clock.step_wall(-10)
    assert (clock().wall_ms - start.wall_ms, clock().boot_ms - start.boot_ms) == (-7500, 2500)
    clock.reboot(down_seconds=60)
    assert clock().boot_ms == 0
    assert clock().boot_id != start.boot_id


def test_tamper_changes_and_removes_any_row(engine: MemoryEngine) -> None:
    tamper(engine, tables.CANCELS, b"k", b"v")
    assert rows(engine, tables.CANCELS) == [(b"k", b"v")]
    tamper(engine, tables.CANCELS, b"k", None)
    assert rows(engine, tables.CANCELS) == []
    with pytest.raises(Corrupt):
        tamper(engine, tables.CANCELS, b"k", None)
