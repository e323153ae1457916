"""No published vector is left out: each file, and each member of it, is named by a test module that reads it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from project import ROOT, tree_of

pytestmark = pytest.mark.slow  # vectors and tests are the same for every interpreter

PROSE = {"source", "body_source", "tree"}
"""Members that say where the values come from."""
WHOLE_FOLDERS = {"merkle-probes": "tests/merkle/test_published_vectors.py"}
"""Read file by file with `rglob`, their number asserted, all members with one function."""


@cache
def strings_of(module: Path) -> frozenset[str]:
    """Every text that stands in a test module."""
    return frozenset(
        node.value for node in ast.walk(tree_of(module)) if isinstance(node, ast.Constant) and type(node.value) is str
    )


def readers_of(name: str) -> Iterator[frozenset[str]]:
    """The texts of each test module that names this file of the vectors."""
    for module in sorted((ROOT / "tests").rglob("test_*.py")):
        found = strings_of(module)
        if any(text == name or text == f"vectors/{name}" for text in found):
            yield found


@pytest.fixture(scope="module")
def files(shared: Path) -> dict[str, Path]:
    folder = shared / "vectors"
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_file_of_vectors_is_read_by_a_test(files: dict[str, Path]) -> None:
    assert len(files) > 150
    unread = [
        name
        for name in files
        if name != "README.md" and name.partition("/")[0] not in WHOLE_FOLDERS and not list(readers_of(name))
    ]
    assert unread == []


def test_every_member_of_a_file_is_read_with_it(files: dict[str, Path]) -> None:
    unread = []
    for name, path in files.items():
        if name == "README.md" or name.partition("/")[0] in WHOLE_FOLDERS:
            continue
        members: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        read = {text for found in readers_of(name) for text in found}
        unread += [f"{name}: {member}" for member in members if member not in PROSE | read]
    assert unread == []


def test_of_a_folder_that_is_read_whole_every_file_is_of_the_kind_that_is_read(files: dict[str, Path]) -> None:
    for folder, module in WHOLE_FOLDERS.items():
        inside = [name for name in files if name.partition("/")[0] == folder]
        assert inside
        assert [name for name in inside if not name.endswith(".json")] == []
        read = strings_of(ROOT / module)
        assert f"vectors/{folder}" in read
        inputs = {member for name in inside for member in json.loads(files[name].read_text("utf-8"))} - {"desc"}
        assert sorted(inputs - read) == []
