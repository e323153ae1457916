"""What clients do to the connections of a witness, whatever they say: none holds it up, none is kept for ever."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from witness_world import ORIGIN, PATIENCE_S, GrowingLog, Running

Serve = Callable[..., Running]

HEAD = b"POST /add-checkpoint HTTP/1.1\r\nhost: w\r\n"
LOOK = HEAD.replace(b"POST /add-checkpoint", b"GET /" + b"0" * 64 + b"/checkpoint")
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and empty settings


@contextmanager
def connected(witness: Running) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", witness.port), timeout=PATIENCE_S) as client:
        yield client


def until_closed(client: socket.socket) -> bytes:
    """All that comes until the witness closes the connection."""
    received = b""
    try:
        while part := client.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


def answers(witness: Running) -> bool:
    """Whether it answers who asks. An impatient witness leaves one that is slow, as any is on a slow machine: so that
    one asks again."""
    for _ in range(100):
        try:
            return witness.get(ORIGIN).status == 404
        except (OSError, http.client.HTTPException):
            witness.close()
    return False


def posted(body: bytes) -> bytes:
    return HEAD + b"content-length: %d\r\n\r\n" % len(body) + body


def statuses(received: bytes) -> list[int]:
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize(
    "sent", [b"", b"POST /add-ch", HEAD, HTTP2], ids=["nothing", "a word", "half a head", "HTTP/2"]
)
def test_who_says_nothing_more_is_left(serve: Serve, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    from sealbook.cli.witnessing import server

    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", 0.2)
    witness = serve()
    with connected(witness) as client:
        client.sendall(sent)
        assert statuses(until_closed(client)) == []
    assert answers(witness)


def test_many_who_say_nothing_are_in_nobody_s_way(serve: Serve, log: GrowingLog) -> None:
    witness = serve()
    idle = [socket.create_connection(("127.0.0.1", witness.port), timeout=PATIENCE_S) for _ in range(200)]
    assert witness.post(log.request(0, 3)).status == 200
    for client in idle:
        client.close()
    assert witness.post(log.request(3, 4)).status == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEAD + b"x: " + b"y" * 200_000 + b"\r\n\r\n", 431),
        (HEAD + b"x: y\r\n" * 20_000 + b"\r\n", 431),
        (HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nold 0\n", 400),
        (HEAD + b"content-length: -5\r\n\r\nold 0\n", 400),
        (HEAD + b"content-length: ten\r\n\r\nold 0\n", 400),
        (HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (HEAD + b"transfer-encoding: chunked\r\ncontent-length: 6\r\n\r\n0\r\n\r\n", 400),
        (LOOK + b"transfer-encoding: chunked\r\ncontent-length: 6\r\n\r\n0\r\n\r\n", 400),
        (b"\0\1\2\3 rubbish\r\n\r\n", 400),
    ],
    ids=[
        "a long header",
        "many headers",
        "two lengths",
        "a negative length",
        "a word as length",
        "no chunk",
        "another encoding",
        "a length and chunks",
        "a length and chunks where no body is",
        "no HTTP",
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_closed(
    serve: Serve, log: GrowingLog, sent: bytes, status: int
) -> None:
    witness = serve()
    with connected(witness) as client:
        with suppress(ConnectionError):  # it may have hung up before the end
            client.sendall(sent)
        assert statuses(until_closed(client)) == [status]
    assert witness.post(log.request(0, 3)).status == 200


def test_an_old_client_is_answered_and_its_connection_closed(serve: Serve, log: GrowingLog) -> None:
    witness = serve()
    with connected(witness) as client:
        client.sendall(posted(log.request(0, 3)).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert statuses(until_closed(client)) == [200]


@pytest.mark.parametrize(
    "path", [b"/add-checkpoint/", b"//add-checkpoint", b"/add-checkpoint%2f", b"/./add-checkpoint"]
)
def test_a_path_that_is_almost_right_leads_nowhere(serve: Serve, path: bytes) -> None:
    witness = serve()
    with connected(witness) as client:
        client.sendall(HEAD.replace(b"/add-checkpoint", path) + b"connection: close\r\ncontent-length: 0\r\n\r\n")
        assert statuses(until_closed(client)) == [404]


def test_a_path_may_be_percent_encoded(serve: Serve, log: GrowingLog) -> None:
    witness = serve()
    assert witness.post(log.request(0, 3), "/add%2Dcheckpoint").status == 200


def test_requests_sent_without_waiting_are_answered_in_their_order(serve: Serve, log: GrowingLog) -> None:
    witness = serve()
    last = posted(log.request(4, 4)).replace(HEAD, HEAD + b"connection: close\r\n")
    with connected(witness) as client:
        client.sendall(posted(log.request(0, 3)) + posted(log.request(3, 4)) + posted(log.request(3, 5)) + last)
        assert statuses(until_closed(client)) == [200, 200, 409, 200]


def test_a_client_that_asks_whether_it_may_go_on_is_told_so(serve: Serve, log: GrowingLog) -> None:
    witness = serve()
    body = log.request(0, 3)
    with connected(witness) as client:
        client.sendall(HEAD + b"connection: close\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(body))
        assert client.recv(65536).startswith(b"HTTP/1.1 100 ")
        client.sendall(body)
        assert statuses(until_closed(client)) == [200]
