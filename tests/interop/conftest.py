"""The log that went public, and the other parties, each of which may be absent here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from went_public import Ask, Public, asking, go_public

PEERS = Path(__file__).parent / "peers"


@pytest.fixture(scope="session")
def public(tmp_path_factory: pytest.TempPathFactory) -> Public:
    """A tenant's log of 300 sealed runs, published at three sizes."""
    return go_public(tmp_path_factory.mktemp("public"))


@pytest.fixture(scope="session")
def interop() -> Path:
    """The folder that tools/interop.py fills: $SEALBOOK_INTEROP, or build/interop of the repository."""
    return Path(os.environ.get("SEALBOOK_INTEROP") or Path(__file__).resolve().parents[2] / "build" / "interop")


@pytest.fixture(scope="session")
def sigstore(interop: Path) -> Ask:
    """npm's @sigstore/verify."""
    program, modules = shutil.which("node"), interop / "node" / "node_modules"
    if program is None or not (modules / "@sigstore" / "verify").is_dir():
        pytest.skip(f"no node, or no @sigstore/verify in {modules}: python tools/interop.py node")
    return asking([program, str(PEERS / "sigstore.js")], {**os.environ, "NODE_PATH": str(modules)})


@pytest.fixture(scope="session")
def gosumdb(interop: Path, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """golang.org/x/mod/sumdb, built into a small program."""
    installed = interop / "go" / "go" / "bin" / "go"
    program = str(installed) if installed.exists() else shutil.which("go")
    gopath = interop / "gopath"
    if program is None or not gopath.is_dir():
        pytest.skip(f"no Go toolchain, or no golang.org/x/mod in {gopath}: python tools/interop.py go")
    binary = tmp_path_factory.mktemp("gosumdb") / "gosumdb"
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GO")},
        "GOPATH": str(gopath),
        "GOCACHE": str(interop / "gocache"),
        "GO111MODULE": "off",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
    }
    built = subprocess.run(
        [program, "build", "-o", str(binary), str(PEERS / "gosumdb.go")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=env,
    )
    assert built.returncode == 0, built.stderr
    return asking([str(binary)])


@pytest.fixture(scope="session")
def aics_folder(interop: Path) -> Path:
    """The `bin` of the environment of aics-tlog and aics-witness."""
    folder = interop / "aics" / "bin"
    if not (folder / "aics-witness").exists():
        pytest.skip(f"no aics-witness in {folder}, which needs Python 3.12: python tools/interop.py aics")
    return folder


@pytest.fixture(scope="session")
def aics(aics_folder: Path) -> Ask:
    """aics-tlog."""
    return asking([str(aics_folder / "python"), "-P", str(PEERS / "aics.py")])
