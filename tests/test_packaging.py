"""Hold what is packaged to what is there, and each part to what it may touch."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from project import PARTS, ROOT, module_name, names_used, pyproject, sources, tree_of

HEAVY = {"trio", "structlog", "click", "httpx2", "starlette", "hypercorn", "prometheus_client", "pytest"}

TEST_NAME_CHARACTERS_MAX = 80

ONLY_CLI = (
    "os.environ",
    "os.environb",
    "os.getenv",
    "os.getenvb",
    "os.putenv",
    "os.path.expandvars",
    "structlog.configure",
    "structlog.configure_once",
    "logging.basicConfig",
    "logging.config",
    "urllib.request",
    "http.client",
    "http.server",
)
"""A host program's environment, logging and network belong to the host: of our parts only `cli` may take them up."""


def test_the_packages_listed_are_the_folders_that_hold_one() -> None:
    tree = sorted(module_name(source) for source in sources() if source.name == "__init__.py")
    assert sorted(pyproject()["tool"]["setuptools"]["packages"]) == tree


def test_every_module_lies_in_a_listed_package() -> None:
    packages = set(pyproject()["tool"]["setuptools"]["packages"])
    for source in sources():
        assert module_name(source.parent / "__init__.py") in packages, source


def test_the_parts_are_mapped_to_their_folders() -> None:
    folders = {f"sealbook.{part}": part for part in PARTS} | {"sealbook": "program"}
    assert pyproject()["tool"]["setuptools"]["package-dir"] == folders


def test_the_program_runs_as_a_module_under_both_of_its_names() -> None:
    shown = [
        subprocess.run(
            [sys.executable, "-P", "-m", module, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for module in ("sealbook", "sealbook.cli")
    ]
    assert shown[0].startswith("Usage: ")
    assert shown[0] == shown[1]


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_marked_as_typed(part: str) -> None:
    assert (ROOT / part / "py.typed").is_file()


def test_sealbook_itself_is_no_package() -> None:
    assert not (ROOT / "sealbook").exists()
    spec = importlib.util.find_spec("sealbook")
    assert spec is not None
    assert spec.origin is None


@pytest.mark.parametrize("part", PARTS)
def test_the_tests_import_the_packages_that_the_recipe_installed(part: str) -> None:
    """`make test` tests this checkout, `make check` the wheel: neither may test the other by accident."""
    homes = {"checkout": ROOT / part, "wheel": Path(sysconfig.get_path("purelib")) / "sealbook" / part}
    spec = importlib.util.find_spec(f"sealbook.{part}")
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).resolve().parent == homes[os.environ.get("SEALBOOK_TEST_INSTALL", "checkout")].resolve()


def test_every_module_opens_with_a_sentence() -> None:
    said = {module_name(source): ast.get_docstring(tree_of(source)) or "" for source in sources()}
    assert [module for module, docstring in said.items() if docstring.strip() in ("", "placeholder")] == []


def test_no_module_imports_relatively() -> None:
    """A module reached by two names would be two modules, with two different `Record` types."""
    relative = [
        f"{source.relative_to(ROOT)}:{node.lineno}"
        for source in sources()
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_only_cli_reads_the_environment_configures_logging_or_opens_connections() -> None:
    taken = [
        f"{source.relative_to(ROOT)}:{line}: {name}"
        for source in sources("merkle", "indexes", "journal")
        for line, name in names_used(source)
        if any(name == banned or name.startswith(f"{banned}.") for banned in ONLY_CLI)
    ]
    assert taken == []


def test_no_name_of_a_test_is_longer_than_one_reads_at_once() -> None:
    named = [
        node.name
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert [name for name in named if len(name) > TEST_NAME_CHARACTERS_MAX] == []


@pytest.mark.parametrize("module", ["sealbook.merkle", "sealbook.indexes", "sealbook.journal"])
def test_importing_the_library_loads_nothing_heavy(module: str) -> None:
    assert _loaded_by(module) & HEAVY == set()


def test_importing_the_command_line_loads_click_at_most() -> None:
    assert _loaded_by("sealbook.cli.main") & HEAVY <= {"click"}


def test_the_names_used_are_found_however_they_were_imported(tmp_path: Path) -> None:
    """The guards above see through `from` and `as`; if they did not, they would guard nothing."""
    source = tmp_path / "sly.py"
    source.write_text("import os as o\nfrom os import environ as e\nimport os.path\no.getenv('A')\nos.path.sep\n")
    assert sorted(names_used(source)) == [
        (1, "os"),
        (2, "os.environ"),
        (3, "os.path"),
        (4, "os.getenv"),
        (5, "os.path"),
        (5, "os.path.sep"),
    ]


def _loaded_by(module: str) -> set[str]:
    program = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    finished = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    return set(finished.stdout.split())
