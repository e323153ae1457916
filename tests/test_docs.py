"""Run what the project prints: the examples of README.md, of docs/*.md and of every docstring.

In README.md and docs/*.md, all blocks of one document run in order, in one empty folder:

- ```python runs in one namespace per document, or as a doctest if it begins with `>>>`;
- ```console runs each command that begins with `$ sealbook` (a backslash at the end of a line continues it); it must
  exit with 0, or with N if the command ends in `# exit N`. Other commands and the output shown are for the reader.

Code that should be read and not run stands in a block of another language, ```text for one.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import subprocess
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from project import ROOT, module_name, pyproject, sources, tree_of

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCTEST_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMMAND_SECONDS_MAX = 300  # `show -f` without an end would hold up the suite for ever

BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>python|console) *\n(?P<text>.*?)^(?P=indent)``` *$", re.M | re.S)
EXIT = re.compile(r"#\s*exit (\d+)\s*$")


class Block(NamedTuple):
    language: str
    line: int
    text: str


class Command(NamedTuple):
    text: str
    exit_code: int


def blocks(text: str) -> Iterator[Block]:
    for found in BLOCK.finditer(text):
        indent = found["indent"]
        lines = [line.removeprefix(indent) for line in found["text"].splitlines(keepends=True)]
        yield Block(found["language"], text.count("\n", 0, found.start("text")) + 1, "".join(lines))


def commands(text: str) -> Iterator[Command]:
    for line in re.sub(r"\\\n(> )?", "", text).splitlines():
        if line.startswith("$ sealbook "):
            expected = EXIT.search(line)
            yield Command(line.removeprefix("$ "), int(expected[1]) if expected else 0)


def runnable(document: Path) -> bool:
    return any(
        block.language == "python" or any(commands(block.text))
        for block in blocks(document.read_text(encoding="utf-8"))
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "document", [document for document in DOCUMENTS if runnable(document)], ids=lambda document: document.name
)
def test_the_examples_of_the_document_run(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    text = document.read_text(encoding="utf-8")
    folder = tmp_path / "here"
    folder.mkdir()
    if "../shared/" in text:  # as if the folder were a checkout, with the published data beside it
        (tmp_path / "shared").symlink_to(request.getfixturevalue("shared"))
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("SEALBOOK_")]:
        monkeypatch.delenv(name)
    module = types.ModuleType("document_example")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks(text):
        if block.language == "console":
            for command in commands(block.text):
                run_command(command, f"{document}:{block.line}")
        elif block.text.lstrip().startswith(">>>"):
            run_doctest(block, document, module)
        else:
            source = "\n" * (block.line - 1) + block.text  # so that a traceback names the document's own line
            exec(compile(source, document, "exec"), module.__dict__)


README = ROOT / "README.md"
README_LINES_MAX = 150


def test_the_readme_is_short_and_its_links_lead_somewhere_from_the_package_index_too() -> None:
    text = README.read_text(encoding="utf-8")
    repository = pyproject()["project"]["urls"]["Repository"]
    assert text.count("\n") < README_LINES_MAX
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [link for link in links if not link.startswith(f"{repository}/")] == []
    paths = [re.sub(r"^/(blob|tree)/main/", "", link.removeprefix(repository)) for link in links]
    assert [path for path in paths if not (ROOT / path).exists()] == []


PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_to_a_file_and_to_a_heading_of_it(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if not link.startswith("https://"):
            path, _, heading = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (heading and heading not in anchors(target.read_text(encoding="utf-8"))):
                broken.append(link)
    assert broken == []


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *``` *$", "", text, flags=re.M | re.S))


def anchors(text: str) -> set[str]:
    """The names by which the headings of a page are linked to, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+?) *$", re.sub(r"^ *```.*?^ *``` *$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("number", range(2))
def test_each_python_block_of_the_readme_runs_alone(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    python = [block for block in blocks(README.read_text(encoding="utf-8")) if block.language == "python"]
    assert len(python) == 2
    exec(compile("\n" * (python[number].line - 1) + python[number].text, README, "exec"), {"__name__": "readme"})


def run_command(command: Command, where: str) -> None:
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    finished = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.text],
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    assert finished.returncode == command.exit_code, f"{where}: {command.text}\n{finished.stdout}"


def run_doctest(block: Block, document: Path, module: types.ModuleType) -> None:
    example = doctest.DocTestParser().get_doctest(block.text, {}, document.name, str(document), block.line - 1)
    example.globs = module.__dict__
    printed: list[str] = []
    doctest.DocTestRunner(optionflags=DOCTEST_OPTIONS).run(example, out=printed.append, clear_globs=False)
    assert not printed, "".join(printed)


def has_examples(source: Path) -> bool:
    if ">>> " not in source.read_text(encoding="utf-8"):
        return False
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(tree_of(source)) if isinstance(node, documented))
    return any(">>> " in (ast.get_docstring(node) or "") for node in nodes)


@pytest.mark.parametrize("source", [source for source in sources() if has_examples(source)], ids=module_name)
def test_the_examples_of_the_docstrings_run(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(module_name(source))
    monkeypatch.chdir(tmp_path)
    results = doctest.testmod(module, optionflags=DOCTEST_OPTIONS)
    assert results.failed == 0, capsys.readouterr().out
    assert results.attempted > 0


def test_a_document_is_read_as_it_is_shown() -> None:
    text = """
1. In a list:
   ```python
   x = 1
   ```

```console
$ ls
$ sealbook -D s show \\
>   -n 10
1 shown
$ sealbook -D s verify  # exit 3
```

```text
x = 2
```
"""
    python, console = blocks(text)
    assert python == Block("python", 4, "x = 1\n")
    assert console.line == 8
    assert list(commands(console.text)) == [
        Command("sealbook -D s show   -n 10", 0),
        Command("sealbook -D s verify  # exit 3", 3),
    ]
