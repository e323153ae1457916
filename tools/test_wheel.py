"""Test the built wheel: install it in clean environments and run the suite there, on every Python this machine has.

Of the interpreters from 3.11 to 3.14 that really start, the oldest and the newest run the whole suite, and the newest
the long suites from end to end (`tests/support/effort.py`). Those between them run what `make quick` runs. The tests
come from the checkout, the packages only from the wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / "build" / "wheel-venv"
TESTS = ROOT / "tests"
EVERYTHING: list[str | Path] = [TESTS]
ON_ALL_PROCESSORS = ["--numprocesses=auto", "--dist=worksteal"]
QUICK: list[str | Path] = ["-m", "not slow and not process", *EVERYTHING]
SUPPORTED = [(3, minor) for minor in range(11, 15)]
Version = tuple[int, int]


def main(dist: Path) -> int:
    [wheel] = dist.glob("*.whl")
    mine = sys.version_info[:2]
    others = {version: python for version in SUPPORTED if version != mine and (python := find(version))}
    pythons = {mine: Path(sys.executable), **others}

    for version in sorted(pythons):
        _environment(wheel, pythons[version], version)
        ends = version in (min(pythons), max(pythons))
        finished = _suite(version, EVERYTHING if ends else QUICK, whole=version == max(pythons))
        print(f"the suite on the wheel, Python {_name(version)}\n{finished.stdout}", flush=True)
        if finished.returncode:
            sys.exit(f"the suite failed on Python {_name(version)} with exit code {finished.returncode}")
    tested = [_name(version) for version in sorted(pythons)]
    absent = [_name(version) for version in SUPPORTED if version not in pythons]
    print(f"the wheel passes on Python {', '.join(tested)}; not on this machine: {', '.join(absent) or 'none'}")
    return 0


def find(version: Version) -> Path | None:
    """An interpreter of this version that starts: on PATH, or among those that pyenv keeps."""
    return next((python for python in _candidates(version) if _starts(python, version)), None)


def _candidates(version: Version) -> Iterator[Path]:
    name = f"python{_name(version)}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder and (Path(folder) / name).exists():
            yield Path(folder) / name
    yield from sorted(pyenv.glob(f"versions/*/bin/{name}"), reverse=True)


def _starts(python: Path, version: Version) -> bool:
    # A name on PATH proves nothing: pyenv's shims exist for versions that are not selected, and refuse to run.
    probe = f"import sys, venv, ssl; sys.exit(sys.version_info[:2] != {version})"
    return subprocess.run([python, "-c", probe], capture_output=True, check=False).returncode == 0


def _inside(version: Version) -> Path:
    return ENVIRONMENTS / _name(version) / "bin" / "python"


def _environment(wheel: Path, python: Path, version: Version) -> None:
    """A clean environment that holds the wheel and what the tests need."""
    _quietly(python, "-m", "venv", "--clear", "--without-pip", ENVIRONMENTS / _name(version))
    _quietly(sys.executable, "-m", "pip", "--python", _inside(version), "install", "--quiet", wheel, "--group", "test")


def _suite(version: Version, arguments: Sequence[str | Path], *, whole: bool) -> subprocess.CompletedProcess[str]:
    # -P keeps the checkout off the module path; test_packaging.py asserts that the wheel is what it imported.
    outside = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    return subprocess.run(
        [_inside(version), "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *ON_ALL_PROCESSORS, *arguments],
        cwd=ROOT,
        env=outside | {"SEALBOOK_TEST_INSTALL": "wheel", "SEALBOOK_TEST_WHOLE": str(int(whole))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _quietly(*command: str | Path) -> None:
    _run(ROOT / "tools" / "quietly", *command)


def _run(*command: str | Path) -> None:
    finished = subprocess.run(command, cwd=ROOT, check=False)
    if finished.returncode:
        sys.exit(f"failed with exit code {finished.returncode}: {' '.join(map(str, command))}")


def _name(version: Version) -> str:
    return ".".join(map(str, version))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
