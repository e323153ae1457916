"""What reads a bundle reaches no storage and no network, however far one follows its imports."""

from __future__ import annotations

import ast
from pathlib import Path

from project import ROOT

FORBIDDEN = (
    "sealbook.journal.engine",
    "sealbook.journal.store.view",
    "sealbook.journal.deciding.overlay",
    "sealbook.cli",
)
OUTSIDE = {"lmdb", "trio", "asyncio", "socket", "ssl", "http", "httpx2", "urllib", "subprocess", "click"}


def file_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split(".")[1:])
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)


def imports(path: Path) -> set[str]:
    """The modules that a file imports when it is loaded."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{name.name}" for name in node.names}
            found |= {module if file_of(module) else node.module for module in inner}
    return found


def test_the_readers_of_bundles_know_neither_storage_nor_network() -> None:
    todo = [f"sealbook.journal.bundle.{path.stem}" for path in (ROOT / "journal" / "bundle").glob("[a-z]*.py")]
    assert len(todo) >= 7
    seen: set[str] = set()
    while todo:
        module = todo.pop()
        path = file_of(module) if module.startswith("sealbook.") else None
        if module in seen or path is None:
            seen.add(module)
            continue
        seen.add(module)
        todo += imports(path)
    assert "sealbook.merkle.verify" in seen
    assert [module for module in sorted(seen) if module.startswith(FORBIDDEN)] == []
    assert {module.partition(".")[0] for module in seen} & OUTSIDE == set()
