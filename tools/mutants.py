"""Prove the rows of tests/guarantees.py: break each guarantee on purpose and see its one test fail.

A row's mutation is made in a copy of the source folders, which stands first on the module path as `sealbook/` and so
hides the installed packages from the test and from every process that the test starts. A row is

- killed: its test fails on the copy with the mutation (pytest's exit code 1, and not from a broken fixture),
- survived: its test passes there, or is skipped: nobody would notice if the line broke,
- wrong: the row does not fit the project, its test cannot be collected or hangs, or fails without any mutation.

The exit code is 0 when there are rows and every one is killed, 1 otherwise.
"""

from __future__ import annotations

import argparse
import ast
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.guarantees import Guarantee

PARTS = ("merkle", "indexes", "journal", "cli")
TEST_SECONDS_MAX = 300  # a mutation may loop for ever
PASSED, FAILED = 0, 1  # pytest's exit codes; all others mean that it could not do its work

KILLED, SURVIVED, WRONG = "killed", "SURVIVED", "WRONG"


class Verdict(NamedTuple):
    row: Guarantee
    word: str
    why: str


class Outcome(NamedTuple):
    code: int
    output: str


def main() -> int:
    arguments = _arguments()
    root: Path = arguments.root.resolve()
    every: list[Guarantee] = runpy.run_path(str(root / "tests" / "guarantees.py"))["GUARANTEES"]
    rows = [row for row in every if arguments.only in f"{row.promise} {row.file} {row.test}"]
    if not rows:
        print("no rows to prove: nothing was shown", file=sys.stderr)
        return 1
    width = max(len(row.promise) for row in rows)
    counts = {KILLED: 0, SURVIVED: 0, WRONG: 0}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        sound = _sound(root, sorted({row.test for row in rows}), pool)
        for verdict in pool.map(lambda row: judge(root, row, sound[row.test]), rows):
            counts[verdict.word] += 1
            print(f"{verdict.row.promise:<{width}}  {verdict.word:<8}  {verdict.row.file}", flush=True)
            if verdict.why:
                print("    " + verdict.why.strip().replace("\n", "\n    "))
    print(f"{len(rows)} mutants: {counts[KILLED]} killed, {counts[SURVIVED]} survived, {counts[WRONG]} wrong")
    return 0 if counts[KILLED] == len(rows) else 1


def judge(root: Path, row: Guarantee, unmutated: Outcome) -> Verdict:
    if unmutated.code != PASSED:
        return Verdict(row, WRONG, f"without any mutation {row.test} does not pass:\n{unmutated.output}")
    try:
        mutated = _mutate(root, row)
    except (OSError, SyntaxError, ValueError) as error:
        return Verdict(row, WRONG, str(error))
    with _copy_of_sources(root) as copy:
        (copy / "sealbook" / row.file).write_text(mutated, encoding="utf-8")
        run = _pytest(root, copy, [row.test])
    if run.code == PASSED:
        return Verdict(row, SURVIVED, f"{row.test} does not notice this mutation of {row.line.strip()!r}")
    if run.code == FAILED and "\nFAILED " in run.output:
        return Verdict(row, KILLED, "")
    return Verdict(row, WRONG, f"{row.test} could not be run:\n{run.output}")


def _sound(root: Path, tests: list[str], pool: ThreadPoolExecutor) -> dict[str, Outcome]:
    """How each test goes on an unmutated copy: in one process if all pass, else each for itself."""
    with _copy_of_sources(root) as copy:
        _assert_hidden(root, copy)
        together = _pytest(root, copy, tests)
        if together.code == PASSED:
            return dict.fromkeys(tests, together)
        return dict(zip(tests, pool.map(lambda test: _pytest(root, copy, [test]), tests), strict=True))


def _mutate(root: Path, row: Guarantee) -> str:
    if row.file.partition("/")[0] not in PARTS:
        raise ValueError(f"{row.file} lies in none of {', '.join(PARTS)}")
    text = (root / row.file).read_text(encoding="utf-8")
    if (count := text.count(row.line)) != 1:
        raise ValueError(f"{row.line!r} stands {count} times in {row.file}, not once")
    mutated = text.replace(row.line, row.mutation)
    if ast.dump(ast.parse(mutated)) == ast.dump(ast.parse(text)):
        raise ValueError(f"{row.mutation!r} changes nothing in {row.file}")
    return mutated


@contextmanager
def _copy_of_sources(root: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sealbook-mutant-") as folder:
        for part in PARTS:
            if (root / part).is_dir():
                ignore = shutil.ignore_patterns("__pycache__")
                shutil.copytree(root / part, Path(folder) / "sealbook" / part, ignore=ignore)
        yield Path(folder)


def _assert_hidden(root: Path, copy: Path) -> None:
    """If the copy did not hide the installed packages, every mutant would survive, or worse, none would be tried."""
    for part in (part for part in PARTS if (root / part).is_dir()):
        program = f"from importlib.util import find_spec; print(find_spec('sealbook.{part}').origin)"
        command = [sys.executable, "-P", "-c", program]
        found = subprocess.run(command, env=_environment(copy), capture_output=True, text=True, check=True).stdout
        assert Path(found.strip()) == copy / "sealbook" / part / "__init__.py", found


def _pytest(root: Path, copy: Path, tests: list[str]) -> Outcome:
    options = ["-x", "-q", "-rfE", "--no-header", "--tb=short", "-p", "no:cacheprovider"]
    command = [sys.executable, "-P", "-m", "pytest", *options, *tests]
    try:
        finished = subprocess.run(
            command,
            cwd=root,
            env=_environment(copy),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TEST_SECONDS_MAX * len(tests),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(-1, f"no end after {TEST_SECONDS_MAX} seconds")
    return Outcome(finished.returncode, finished.stdout)


def _environment(copy: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "SEALBOOK_TEST_WHOLE": "1"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Break each guarantee on purpose: its test must then fail.")
    parser.add_argument("only", nargs="?", default="", help="rows whose promise, file or test contains this text")
    parser.add_argument("--jobs", type=int, default=2, help="mutants tried at the same time")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the project")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
