"""Hold the public names of each part to the list that users are given, docs/api.md."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys

import pytest
from project import ROOT

MODULES = ("sealbook.merkle", "sealbook.indexes", "sealbook.journal", "sealbook.journal.bundle")


def documented(module: str) -> list[str]:
    """The names of the bullets (`- `Name`: …`) under the heading (`## module`) of docs/api.md."""
    _, _, after = (ROOT / "docs" / "api.md").read_text(encoding="utf-8").partition(f"\n## {module}\n")
    section = re.split(r"^## ", after, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^- `(\w+)", section, flags=re.MULTILINE)


def constants_classes_functions(name: str) -> tuple[bool, bool, str]:
    """The order that ruff's RUF022 keeps in `__all__`."""
    return not name.isupper(), not name[0].isupper(), name


@pytest.mark.parametrize("module", MODULES)
def test_the_public_names_are_sorted_and_there(module: str) -> None:
    public = importlib.import_module(module)
    assert list(public.__all__) == sorted(set(public.__all__), key=constants_classes_functions)
    assert [name for name in public.__all__ if not hasattr(public, name)] == []


@pytest.mark.parametrize("module", MODULES)
def test_the_public_names_are_the_documented_ones(module: str) -> None:
    names = documented(module)
    assert names, f"docs/api.md has no list under ## {module}"
    assert len(names) == len(set(names))
    assert sorted(names) == sorted(importlib.import_module(module).__all__)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_class_and_function_has_a_docstring(module: str) -> None:
    public = importlib.import_module(module)
    things = {name: getattr(public, name) for name in public.__all__}
    assert [name for name, thing in things.items() if _is_code(thing) and not inspect.getdoc(thing)] == []


def _is_code(thing: object) -> bool:
    return inspect.isclass(thing) or inspect.isfunction(thing)


def test_names_bases_and_signatures_are_those_of_the_page() -> None:
    """`python tools/public_names.py > tests/public_names.txt` writes the page anew, when they change on purpose."""
    command = [sys.executable, "-P", str(ROOT / "tools" / "public_names.py")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (ROOT / "tests" / "public_names.txt").read_text(encoding="utf-8")
    assert shown.splitlines() == page.splitlines()


def test_the_page_lists_every_method_with_its_signature_and_what_it_does() -> None:
    """`python tools/public_names.py --methods` prints the section anew."""
    command = [sys.executable, "-P", str(ROOT / "tools" / "public_names.py"), "--methods"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"\n{shown.strip()}\n" in (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
