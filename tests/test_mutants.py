"""The tool behind `make mutants`, tried on a project of one function: it must tell every verdict apart."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT

SOURCE = '''"""A leap year has 366 days."""


def days(year):
    if year % 4 == 0:
        return 366
    return 365
'''

TESTS = """import pytest
from sealbook.merkle import days


def test_leap_years_are_longer():
    assert days(2024) == 366


def test_a_year_has_days():
    assert days(2023) > 0


@pytest.mark.skip
def test_nothing():
    assert days(2024) == 0


@pytest.fixture
def leap():
    assert days(2024) == 366


def test_with_a_fixture(leap):
    pass


def test_that_fails_anyway():
    assert days(2024) == 0
"""


LONGER = "test_leap_years_are_longer"

ROWS = {
    "its test notices": ("% 4 == 0", "% 4 == 1", LONGER, "killed"),
    "its test notices nothing": ("% 4 == 0", "% 4 == 2", "test_a_year_has_days", "SURVIVED"),
    "its test is skipped": ("% 4 == 0", "% 4 == 3", "test_nothing", "SURVIVED"),
    "the line stands twice": ("return", "yield", LONGER, "WRONG"),
    "the line is not there": ("return 364", "return 1", LONGER, "WRONG"),
    "the mutation changes nothing": ("return 366", "return 366  # yes", LONGER, "WRONG"),
    "the mutation does not compile": ("return 366", "return (", LONGER, "WRONG"),
    "the test cannot be collected": ("def days", "def dies", LONGER, "WRONG"),
    "the test is not there": ("return 366", "return 1", "test_that_is_gone", "WRONG"),
    "only a fixture of the test fails": ("return 366", "return 2", "test_with_a_fixture", "WRONG"),
    "the test fails without the mutation": ("return 366", "return 3", "test_that_fails_anyway", "WRONG"),
}
"""What is true of a row: line, mutation, test, and the verdict."""


def mutants(project: Path, rows: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the tool over a project with these rows of ROWS."""
    (project / "merkle").mkdir()
    (project / "merkle" / "__init__.py").write_text(SOURCE)
    (project / "tests").mkdir()
    (project / "tests" / "test_days.py").write_text(TESTS)
    (project / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    definition = (ROOT / "tests" / "guarantees.py").read_text(encoding="utf-8").partition("GUARANTEES:")[0]
    guarantees = [
        f"Guarantee({promise=}, file='merkle/__init__.py', {line=}, {mutation=}, test='tests/test_days.py::{test}')"
        for promise in rows
        for line, mutation, test, _ in [ROWS[promise]]
    ]
    (project / "tests" / "guarantees.py").write_text(f"{definition}GUARANTEES = [{', '.join(guarantees)}]\n")
    command = [sys.executable, str(ROOT / "tools" / "mutants.py"), "--root", str(project)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_each_row_gets_its_verdict(tmp_path: Path) -> None:
    finished = mutants(tmp_path, list(ROWS))
    verdicts = dict(re.findall(r"^(\S.*?)  +(killed|SURVIVED|WRONG)", finished.stdout, flags=re.MULTILINE))
    assert verdicts == {promise: verdict for promise, (_, _, _, verdict) in ROWS.items()}
    assert "11 mutants: 1 killed, 2 survived, 8 wrong" in finished.stdout
    assert finished.returncode == 1


@pytest.mark.slow
def test_when_every_mutant_is_killed_the_guarantees_are_proved(tmp_path: Path) -> None:
    finished = mutants(tmp_path, ["its test notices"])
    assert "1 mutants: 1 killed" in finished.stdout
    assert finished.returncode == 0


def test_no_rows_are_no_proof(tmp_path: Path) -> None:
    finished = mutants(tmp_path, [])
    assert "no rows" in finished.stderr
    assert finished.returncode == 1
