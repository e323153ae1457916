"""Hold each row of guarantees.py to the sources and to the suite; `make mutants` then shows that its test bites."""

from __future__ import annotations

import ast
import runpy
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest
from project import PARTS, ROOT

if TYPE_CHECKING:
    from tests.guarantees import Guarantee

GUARANTEES: list[Guarantee] = runpy.run_path(str(ROOT / "tests" / "guarantees.py"))["GUARANTEES"]

pytestmark = pytest.mark.slow  # sources are the same for every interpreter


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def program_of(file: str) -> str:
    return ast.dump(ast.parse(text_of(file)))


@cache
def functions_of(file: str) -> frozenset[str]:
    body = ast.parse(text_of(file)).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_there_are_guarantees() -> None:
    assert GUARANTEES


def test_each_promise_and_each_mutation_is_listed_once() -> None:
    assert [promise for promise, count in Counter(row.promise for row in GUARANTEES).items() if count > 1] == []
    mutations = Counter((row.file, row.line, row.mutation) for row in GUARANTEES)
    assert [mutation for mutation, count in mutations.items() if count > 1] == []


def test_the_line_that_enforces_each_stands_once_in_its_file() -> None:
    assert {row.file.partition("/")[0] for row in GUARANTEES} <= set(PARTS)
    assert [(row.file, row.line) for row in GUARANTEES if text_of(row.file).count(row.line) != 1] == []


def test_each_mutation_changes_the_program() -> None:
    mutated = {row.promise: text_of(row.file).replace(row.line, row.mutation) for row in GUARANTEES}
    same = [row.promise for row in GUARANTEES if ast.dump(ast.parse(mutated[row.promise])) == program_of(row.file)]
    assert same == []


def test_the_test_that_must_fail_exists() -> None:
    named = [(row.test, *row.test.partition("::")[::2]) for row in GUARANTEES]
    assert [test for test, path, name in named if name.partition("[")[0] not in functions_of(path)] == []
