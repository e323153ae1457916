"""The conversation's transport: HTTP by httpx2 on trio, held to limits of time and size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from importlib.util import find_spec

import trio

from sealbook.cli.publishing.client import Transport, Unreachable
from sealbook.journal.errors import EngineFailed
from sealbook.merkle.witness import TEXT_MEDIA_TYPE, Answer
from sealbook.merkle.witness_client import ANSWER_BYTES_MAX

SECONDS_MAX = 15.0  # to connect, to send, and between any two parts of an answer


class ClientMissing(EngineFailed):
    """The HTTP client is not installed."""


def check_installed() -> None:
    """`ClientMissing` when no witness can be asked for want of the client."""
    try:
        if find_spec("httpx2") is not None:
            return
    except ValueError:
        pass
    raise ClientMissing("httpx2 is not installed: `pip install '.[witness]'` in a checkout brings it")


@asynccontextmanager
async def http() -> AsyncIterator[Transport]:
    """A transport over HTTP. Connections are kept while it is open; the client is loaded with the first."""
    opened: list[Transport] = []
    async with AsyncExitStack() as stack:

        async def ask(url: str, body: bytes | None) -> Answer:
            if not opened:
                check_installed()
                opened.append(await stack.enter_async_context(_client()))
            return await opened[0](url, body)

        yield ask


@asynccontextmanager
async def _client() -> AsyncIterator[Transport]:
    import httpx2

    headers = {"user-agent": f"sealbook/{version('sealbook')}", "accept-encoding": "identity"}
    async with httpx2.AsyncClient(timeout=SECONDS_MAX, follow_redirects=False, headers=headers) as client:

        async def ask(url: str, body: bytes | None) -> Answer:
            method, kind = ("GET", {}) if body is None else ("POST", {"content-type": TEXT_MEDIA_TYPE})
            try:
                async with client.stream(method, url, content=body, headers=kind) as response:
                    received = bytearray()
                    with trio.CancelScope() as reading:
                        async for part in response.aiter_raw():
                            received += part
                            if len(received) > ANSWER_BYTES_MAX:
                                reading.cancel()  # the rest is not read: it may have no end
                    media_type = response.headers.get("content-type", "")
                    return Answer(response.status_code, media_type, bytes(received[: ANSWER_BYTES_MAX + 1]))
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
                raise Unreachable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error

        yield ask
