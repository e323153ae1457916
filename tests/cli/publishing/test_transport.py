"""HTTP as it comes: redirects, endless bodies, nonsense, nobody there; over loopback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from sealbook.cli.publishing import transport
from sealbook.cli.publishing.client import Unreachable
from sealbook.merkle.witness import Answer
from sealbook.merkle.witness_client import ANSWER_BYTES_MAX

pytest.importorskip("httpx2", reason="the extra `witness` is not installed")

Serve = Callable[[trio.SocketStream], Awaitable[None]]


def exchange(serve: Serve, body: bytes | None = b"body\n", path: str = "/add-checkpoint") -> Answer:
    """What the transport makes of a server that does this with each connection."""

    async def main() -> Answer:
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(trio.serve_tcp, serve, 0)
            port = listeners[0].socket.getsockname()[1]
            try:
                async with transport.http() as ask:
                    return await ask(f"http://127.0.0.1:{port}{path}", body)
            finally:
                nursery.cancel_scope.cancel()
        raise AssertionError

    try:
        return trio.run(main)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


def saying(data: bytes, seen: list[bytes] | None = None) -> Serve:
    async def serve(stream: trio.SocketStream) -> None:
        received = await stream.receive_some(65536)
        if seen is not None:
            seen.append(bytes(received))
        await stream.send_all(data)
        await stream.aclose()

    return serve


def head(status: str, *fields: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "connection: close", "", ""]).encode()


def test_a_post_carries_the_body_and_brings_back_status_type_and_body() -> None:
    seen: list[bytes] = []
    answer = exchange(
        saying(head("409 Conflict", "content-type: text/x.tlog.size", "content-length: 2") + b"9\n", seen)
    )
    assert answer == Answer(409, "text/x.tlog.size", b"9\n")
    assert seen[0].startswith(b"POST /add-checkpoint HTTP/1.1\r\n")
    assert b"accept-encoding: identity" in seen[0].lower()


def test_a_get_has_no_body() -> None:
    seen: list[bytes] = []
    answer = exchange(saying(head("200 OK", "content-length: 0"), seen), None, "/x/checkpoint")
    assert answer == Answer(200, "", b"")
    assert seen[0].startswith(b"GET /x/checkpoint HTTP/1.1\r\n")


def test_a_redirect_is_an_answer_and_not_followed() -> None:
    seen: list[bytes] = []
    answer = exchange(saying(head("307 Temporary Redirect", "location: /elsewhere", "content-length: 0"), seen))
    assert (answer.status, len(seen)) == (307, 1)


def test_an_endless_body_is_read_up_to_the_limit() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(65536)
        await stream.send_all(head("200 OK"))
        try:
            while True:
                await stream.send_all(b"x" * 65536)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    assert len(exchange(serve).body) == ANSWER_BYTES_MAX + 1


def test_a_compressed_body_is_not_unpacked() -> None:
    bomb = b"\x1f\x8b" + b"\0" * 20
    fields = ("content-encoding: gzip", f"content-length: {len(bomb)}")
    assert exchange(saying(head("200 OK", *fields) + bomb)).body == bomb


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x00\xff" * 200,
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        head("200 OK", "content-length: 100") + b"short",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1_000_000 + b"\r\n\r\n",
    ],
    ids=["nothing", "ssh", "garbage", "status", "length", "short", "header"],
)
def test_what_is_no_http_is_unreachable(data: bytes) -> None:
    with pytest.raises(Unreachable):
        exchange(saying(data))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/add-checkpoint", "http://[::1", "http://a b/", "nothing", "http://\ud800/", "ftp://x/"]
)
def test_nobody_there_is_unreachable(url: str) -> None:
    async def main() -> Answer:
        async with transport.http() as ask:
            return await ask(url, b"")

    with pytest.raises(Unreachable):
        trio.run(main)
