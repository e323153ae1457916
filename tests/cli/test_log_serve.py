"""`log serve`: what may be fetched, with which headers, and that nothing else can be."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result
from published_log import PublishedLog, publish

from sealbook.cli.commands.log.serve import address
from sealbook.cli.serving import listening
from sealbook.cli.serving.tiles import write_tiles
from sealbook.journal import Journal, entries
from sealbook.merkle.tiles import EntryBundle, HashTile

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("hypercorn", reason="the extra `serve` is not installed")

Call = Callable[..., Result]
IMMUTABLE = "public, max-age=31536000, immutable"


@pytest.fixture(scope="module")
def log() -> PublishedLog:
    return PublishedLog(700)


@pytest.fixture(scope="module")
def folder(log: PublishedLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "log"
    write_tiles(folder, log, log.note(300))
    write_tiles(folder, log, log.note(700))
    (folder / "secret").write_bytes(b"secret")
    (folder.parent / "outside").write_bytes(b"outside")
    (folder / "tile/0/secret").write_bytes(b"secret")
    return folder


@contextmanager
def serving(folder: Path | None, *args: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The program as a process that serves the folder, or the store, and the port that it took."""
    more = [] if folder is None else ["--dir", str(folder)]
    command = [sys.executable, "-P", "-m", "sealbook.cli", *args, "log", "serve", "--listen", "127.0.0.1:0"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SEALBOOK_")}
    with subprocess.Popen(
        [*command, *more], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=kept
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = re.search(r"at http://127\.0\.0\.1:(\d+)/", line)
            assert match, line
            yield int(match[1]), process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    with serving(folder) as (port, _):
        yield port


Answer = tuple[int, dict[str, str], bytes]


def fetch(port: int, path: str, method: str = "GET") -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.putrequest(method, path)  # the path as it is: nothing is normalised
        connection.endheaders()
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read()
    finally:
        connection.close()


def test_the_checkpoint_is_text_that_is_kept_for_seconds(port: int, log: PublishedLog) -> None:
    status, headers, body = fetch(port, "/checkpoint")
    assert (status, body) == (200, log.note(700))
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert headers["cache-control"] == "public, max-age=2"
    assert "server" not in headers


@pytest.mark.parametrize(
    "tile",
    [HashTile(0, 0), HashTile(0, 2, 188), HashTile(0, 1, 44), HashTile(1, 0, 2), EntryBundle(1), EntryBundle(2, 188)],
    ids=lambda tile: tile.path(),
)
def test_tiles_and_bundles_are_immutable_octets(port: int, folder: Path, tile: HashTile | EntryBundle) -> None:
    status, headers, body = fetch(port, f"/{tile.path()}")
    assert (status, body) == (200, (folder / tile.path()).read_bytes())
    assert headers["content-type"] == "application/octet-stream"
    assert headers["cache-control"] == IMMUTABLE
    assert headers["x-content-type-options"] == "nosniff"


def test_a_partial_tile_that_was_never_written_is_cut(port: int, log: PublishedLog) -> None:
    status, _, body = fetch(port, "/tile/0/001.p/50")
    assert (status, body) == (200, b"".join(log.nodes[node] for node in HashTile(0, 1, 50).nodes()))


def test_head_has_the_headers_of_get_and_no_body(port: int) -> None:
    status, headers, body = fetch(port, "/tile/0/000", "HEAD")
    assert (status, body) == (200, b"")
    assert (headers["content-length"], headers["cache-control"]) == ("8192", IMMUTABLE)
    assert fetch(port, "/tile/0/009", "HEAD")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_no_other_method_is_answered(port: int, method: str) -> None:
    status, headers, _ = fetch(port, "/checkpoint", method)
    assert (status, headers["connection"]) == (405, "close")


@pytest.mark.parametrize(
    "path",
    [
        *("/", "//", "/tile", "/tile/", "/tile/0", "/tile/0/", "/tile/0/000/", "/tile/entries/", "/tile/0/002.p/"),
        *("/secret", "/tile/0/secret", "/checkpoint/", "//checkpoint", "/checkpoint.new", "/tile/0/000.new"),
        *("/../outside", "/tile/../secret", "/tile/0/../../secret", "/%2e%2e/outside", "/tile/0/..%2f..%2fsecret"),
        *("/tile/0/%2e%2e/%2e%2e/secret", "/tile/..%5c..%5csecret", "/./checkpoint", "/tile//0/000", "/%00"),
        *("/tile/00/000", "/tile/0/0", "/tile/0/0000", "/tile/64/000", "/tile/0/x000/000", "/tile/0/001.p/0"),
        *("/tile/0/001.p/256", "/tile/0/001.p/044", "/tile/0/003", "/tile/0/002", "/tile/0/002.p/189", "/tile/2/000"),
        *("/tile/0/%D9%A0%D9%A0%D9%A0", "/tile/-1/000", "/tile/0/000%0a", "/tile/entries/x001/000"),
    ],
)
def test_whatever_is_no_tile_of_the_log_is_not_found(port: int, path: str) -> None:
    status, headers, body = fetch(port, path)
    assert (status, body) == (404, b"")
    assert headers["cache-control"] == "no-store"


def test_a_checkpoint_that_grows_is_served_at_once(tmp_path: Path) -> None:
    log = PublishedLog(700)
    with serving(tmp_path) as (port, _):
        assert fetch(port, "/checkpoint")[0] == 404
        for size in (5, 700):
            write_tiles(tmp_path, log, log.note(size))
            assert fetch(port, "/checkpoint")[2] == log.note(size)
        assert fetch(port, "/tile/0/000.p/5")[0] == 200


def test_the_stores_own_log_is_served_as_far_as_it_is_published(store: Path) -> None:
    with serving(None, "-D", str(store)) as (port, _):
        assert fetch(port, "/checkpoint")[0] == 404
        assert fetch(port, "/tile/0/000.p/1")[0] == 404
        with Journal.open(store) as journal:
            note = publish(journal.tenant())
            [first, second] = journal.tenant().leaf_entries(0, 2)
            tenant = journal.tenant()
            tenant.append("more", [entries.admitted(), entries.concluded("completed")], epoch=1, seal=True)
        status, headers, body = fetch(port, "/checkpoint")
        assert (status, headers["content-type"], body) == (200, "text/plain; charset=utf-8", note)
        assert fetch(port, "/tile/entries/000.p/2")[2] == b"\0\x5a" + first + b"\0\x5a" + second
        assert fetch(port, "/tile/0/000.p/3")[0] == 404


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_when_it_is_told_to(tmp_path: Path, stop: signal.Signals) -> None:
    with serving(tmp_path) as (port, process):
        assert fetch(port, "/checkpoint")[0] == 404
        process.send_signal(stop)
        assert process.wait(timeout=120) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:8080", ("::1", 8080)), ("localhost:0", ("localhost", 0))],
)
def test_an_address_is_host_and_port(text: str, expected: tuple[str, int]) -> None:
    assert address(text) == expected


@pytest.mark.parametrize(
    "text", ["", "8080", ":8080", "127.0.0.1", "::1:80", "[::1]", "127.0.0.1:65536", "h:+1", "h:٨"]
)
def test_what_is_no_address_is_a_usage_error(call: Call, tmp_path: Path, text: str) -> None:
    result = call("log", "serve", "--dir", str(tmp_path), "--listen", text)
    assert result.exit_code == 2
    assert "is no address such as" in result.stderr


def test_an_address_that_is_taken_is_named(call: Call, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = call("log", "serve", "--dir", str(tmp_path), "--listen", f"127.0.0.1:{port}")
    assert result.exit_code == 6
    assert f"cannot listen on 127.0.0.1, port {port}" in result.stderr


def test_without_the_extra_the_error_says_what_to_install(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "starlette"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    result = call("log", "serve", "--dir", str(tmp_path), "--listen", "127.0.0.1:0")
    assert result.exit_code == 2
    assert "log serve needs starlette" in result.stderr
    assert "pip install '.[serve]'" in result.stderr


def test_the_url_of_an_ipv6_address_has_brackets() -> None:
    try:
        listener = listening.listening("::1", 0)
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with listener:
        assert re.fullmatch(r"http://\[::1\]:\d+", listening.url(listener))
