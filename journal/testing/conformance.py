"""Run checks over fresh engines, and report every violation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sealbook.journal.engine.port import Applied, Clock, Engine, Place, Row, Writes
from sealbook.journal.testing.fakes import ManualClock
from sealbook.journal.testing.rows import rows


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
    """One engine and its clock: what a check of the port is given."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self.engine = engine
        self.clock = clock

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


Check = Callable[[Bench], None]


def run_checks(make_engine: MakeEngine, checks: Iterable[Check]) -> ConformanceReport:
    """Run these checks over engines from `make_engine`, which returns a fresh, empty one for each call.

    The engine must read its moments from the clock that it is given.
    """
    ran, violations = 0, []
    for check in checks:
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
