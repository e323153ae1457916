"""The connections of any server of ours: who does not read is left, one too many is closed, and a stop is a stop."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
import trio

from sealbook.cli.serving import listening

connections = pytest.importorskip("sealbook.cli.serving.connections", reason="the extra `serve` is not installed")

PATIENCE_S = 60
GET = b"GET / HTTP/1.1\r\nhost: s\r\n\r\n"
LAST = GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")


@contextmanager
def served() -> Iterator[tuple[int, Callable[[], None]]]:
    """A server that answers `/`, in a thread: its port, and what stops it and waits for its end."""
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    application = Starlette(routes=[Route("/", lambda request: PlainTextResponse("x" * 4096))])
    listener = listening.listening("127.0.0.1", 0)
    port: int = listener.getsockname()[1]
    stopping: list[Callable[[], None]] = []
    ready = threading.Event()

    async def main() -> None:
        stop, token = trio.Event(), trio.lowlevel.current_trio_token()
        stopping.append(lambda: token.run_sync_soon(stop.set))
        ready.set()
        config = listening.config()
        config.keep_alive_timeout = 3600
        await connections.serve(application, config, listener, stop.wait)

    thread = threading.Thread(target=lambda: trio.run(main), name="server")
    thread.start()
    assert ready.wait(PATIENCE_S)

    def stop() -> None:
        if thread.is_alive():
            stopping[0]()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the server stops"

    try:
        yield port, stop
    finally:
        stop()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def until_closed(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    received = b""
    while part := client.recv(65536):
        received += part
    return received


def answered(port: int) -> bool:
    """Whether who asks and reads is answered, once those who have left are gone."""
    for _ in range(100):
        with suppress(ConnectionError), connected(port) as client:
            client.sendall(LAST)
            if until_closed(client).startswith(b"HTTP/1.1 200 "):
                return True
    return False


def ask_without_end(client: socket.socket) -> None:
    """Ask and never read: far more than the buffers of both sides hold."""
    while True:
        client.sendall(GET * 1000)


@pytest.mark.slow
def test_who_asks_and_never_reads_is_left_and_the_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SEND_SECONDS_MAX", 0.2)
    with served() as (port, _), connected(port) as client:
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            ask_without_end(client)
        assert answered(port)


@pytest.mark.slow
def test_who_asks_and_never_reads_does_not_keep_the_server_from_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SEND_SECONDS_MAX", 5.0)
    monkeypatch.setattr(connections, "GRACE_SECONDS_MAX", 0.1)
    with served() as (port, stop), connected(port) as client:
        client.settimeout(1.0)
        with pytest.raises(TimeoutError):  # the server takes no more requests: it waits for its answers to be taken
            ask_without_end(client)
        stop()


def test_one_connection_too_many_is_closed_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "connections_max", lambda: 2)
    with served() as (port, _):
        with connected(port) as first, connected(port) as second, connected(port) as third:
            assert until_closed(third) == b""
            for client in (first, second):
                client.sendall(LAST)
                assert until_closed(client).startswith(b"HTTP/1.1 200 ")
        assert answered(port)


@pytest.mark.parametrize("said", [b"", GET, GET[:9]], ids=["nothing", "a request", "a word"])
def test_who_has_left_keeps_no_connection(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(connections, "connections_max", lambda: 1)
    with served() as (port, _):
        for _ in range(3):
            assert answered(port)
            for _ in range(100):  # until one is let in, who leaves without a word
                with suppress(ConnectionError), connected(port) as client:
                    client.sendall(said)
                    if said != GET or client.recv(65536):
                        break
        assert answered(port)


def test_so_many_connections_may_be_open_that_files_can_still_be(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = connections.resource.RLIM_INFINITY
    for files, expected in ((1024, 1024 - connections.FILES_KEPT), (10, 1), (unlimited, sys.maxsize)):
        monkeypatch.setattr("resource.getrlimit", lambda which, files=files: (files, files))
        assert connections.connections_max() == expected


def test_nothing_follows_a_request_that_says_twice_where_it_ends() -> None:
    """Past a proxy that goes by the length, what stands behind the last chunk would be answered to somebody else."""
    twice = GET.replace(b"\r\n\r\n", b"\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n")
    with served() as (port, _):
        with connected(port) as client:
            client.sendall(twice)
            received = until_closed(client)
        assert received.startswith(b"HTTP/1.1 400 ") and b"not both" in received
        assert answered(port)


def test_what_goes_wrong_on_one_connection_ends_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(connections._Connection):  # type: ignore[misc, name-defined]
        async def run(self) -> None:
            raise RuntimeError("a bug")

    with served() as (port, _):
        with monkeypatch.context() as patched:
            patched.setattr(connections, "_Connection", Failing)
            with connected(port) as client:
                assert until_closed(client) == b""
        assert answered(port)
