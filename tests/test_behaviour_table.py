"""Hold tests/behaviour.md to the suite: each test that it names exists, and each rule that is due stands there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from project import ROOT, tree_of

pytestmark = pytest.mark.slow  # page and tests are the same for every interpreter

PAGE = ROOT / "tests" / "behaviour.md"
ROW = re.compile(r"^\| ([ABP]?\d+) \| [^|]+ \| (.+) \|$", re.M)
NODE = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
# What answers a row that no test of this suite does: a decision, with or without its clause, or another part.
DECISION = re.compile(r"\bD(\d+)\b|\b(?:Audit|Lifecycle|Log|Plane|Runtime)\b")
# The rules of the log and of records that the journal's first part covers.
P_COVERED = {f"P{number}" for number in (2, 3, 14, *range(18, 27), 31, 32, *range(35, 48), *range(100, 109))}
# The reports on names, encoding, order, misuse, indexes, pages, disks, time, crashes, proofs, callers and migration.
KINDS_COVERED = {"KEY", "ENC", "ORD", "API", "IDX", "PAG", "DSK", "TZ", "CRA", "PRF", "CON", "CLK", "CLI", "MIG"}
# Those of them of which every report is a test: none waits for another part, and no decision stands in for one.
KINDS_TESTED = {"API", "CRA", "PRF", "CON", "CLK", "CLI", "TZ", "PAG", "MIG"}


def rows(text: str) -> dict[str, str]:
    """Each row of the page's tables: its number -> what answers it."""
    return {found[1]: found[2] for found in ROW.finditer(text)}


def page() -> dict[str, str]:
    return rows(PAGE.read_text(encoding="utf-8"))


def defined_in(path: Path) -> set[str]:
    return {node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_exists() -> None:
    named = set(NODE.findall(PAGE.read_text(encoding="utf-8")))
    assert len(named) > 150
    missing = [
        f"{file}::{name}"
        for file, name in sorted(named)
        if not (ROOT / file).is_file() or name not in defined_in(ROOT / file)
    ]
    assert missing == []


def test_every_row_names_a_test_or_a_decision() -> None:
    unanswered = [row for row, answer in page().items() if not NODE.search(answer) and not DECISION.search(answer)]
    assert unanswered == []


def test_no_row_stands_twice() -> None:
    found = [match[1] for match in ROW.finditer(PAGE.read_text(encoding="utf-8"))]
    assert len(found) == len(set(found)) > 150


def test_only_decisions_that_exist_answer_a_row() -> None:
    numbers = {int(number) for answer in page().values() for number in re.findall(r"\bD(\d+)\b", answer)}
    assert numbers <= set(range(1, 27))


def test_every_rule_of_the_specification_stands_on_the_page(shared: Path) -> None:
    specification = (shared / "spec" / "behaviour.md").read_text(encoding="utf-8")
    rules = set(re.findall(r"^\| ([AP]\d+) \|", specification, re.M))
    due = {rule for rule in rules if rule.startswith("A") or rule in P_COVERED}
    assert len(due) > 120
    assert sorted(due - page().keys()) == []
    assert sorted(row for row in page() if row[0] in "AP" and row not in rules) == []


def reports_of(shared: Path, kinds: set[str]) -> set[str]:
    """The numbers of the reports of these kinds."""
    reports = re.findall(r"^\| (\d+) \| ([A-Z]+) \|", (shared / "spec" / "field-reports.md").read_text("utf-8"), re.M)
    return {number for number, kind in reports if kind in kinds}


def test_every_report_of_the_kinds_that_concern_the_journal_stands_on_the_page(shared: Path) -> None:
    due = reports_of(shared, KINDS_COVERED)
    assert len(due) > 20
    assert sorted(due - page().keys(), key=int) == []


def test_every_report_of_a_kind_that_no_other_part_has_is_a_test(shared: Path) -> None:
    due = reports_of(shared, KINDS_TESTED)
    assert len(due) > 25
    assert sorted((number for number in due if not NODE.search(page().get(number, ""))), key=int) == []


@pytest.mark.parametrize("row", ["| A1 | x | nothing |", "| A1 | x | `tests/nowhere.py` |"])
def test_a_row_without_an_answer_would_be_noticed(row: str) -> None:
    [answer] = rows(row).values()
    assert not NODE.search(answer)
    assert not DECISION.search(answer)
