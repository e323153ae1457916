"""For authors of engines: a conformance suite over the port, a clock to move, raw rows.

>>> from sealbook.journal.engine.memory import MemoryEngine
>>> report = conformance(lambda clock: MemoryEngine(clock=clock))
>>> report.ok
True

The suite needs no test framework. Each check gets a fresh, empty engine; every violation is collected, and a suite that
ran no check has failed.
"""

from __future__ import annotations

from sealbook.journal.testing.conformance import (
    Bench,
    Check,
    ConformanceFailed,
    ConformanceReport,
    MakeEngine,
    Violation,
)
from sealbook.journal.testing.fakes import ManualClock, SwitchableUpcaster
from sealbook.journal.testing.port_checks import CHECKS, conformance
from sealbook.journal.testing.rows import all_rows, delete_records, record_rows, rows, tamper, tamper_body

__all__ = [
    "CHECKS",
    "Bench",
    "Check",
    "ConformanceFailed",
    "ConformanceReport",
    "MakeEngine",
    "ManualClock",
    "SwitchableUpcaster",
    "Violation",
    "all_rows",
    "conformance",
    "delete_records",
    "record_rows",
    "rows",
    "tamper",
    "tamper_body",
]
