"""Where the project's own files stand, for the tests that read the project instead of running it."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("merkle", "indexes", "journal", "cli")
"""The four source folders; `journal/` is installed as `sealbook.journal`, and so on."""


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def sources(*parts: str) -> list[Path]:
    """Every module of these parts, of all four unless some are named."""
    return sorted(path for part in parts or PARTS for path in (ROOT / part).rglob("*.py"))


def module_name(source: Path) -> str:
    """`journal/engine/port.py` is `sealbook.journal.engine.port`."""
    return ".".join(("sealbook", *source.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


@cache
def tree_of(source: Path) -> ast.Module:
    return ast.parse(source.read_text(encoding="utf-8"), filename=str(source))


def names_used(source: Path) -> Iterator[tuple[int, str]]:
    """Each dotted name the module uses, with its line, as its imports spell it out: `from os import environ as e; e`
    is `os.environ`, and so is the import itself."""
    tree = tree_of(source)
    meaning: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                meaning[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                meaning[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (name := _dotted(node)):
            first, _, rest = name.partition(".")
            if first in meaning:
                yield node.lineno, f"{meaning[first]}.{rest}"


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return None
