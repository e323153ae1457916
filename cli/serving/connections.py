"""The connections of a server of ours: how many there may be, how long each may keep us waiting, and their end.

hypercorn speaks HTTP on each of them. What it sends it sends for as long as it takes, whatever it is told meanwhile: a
client that asks and never reads would hold its connection for ever, and keep the server from stopping. So here

- a client that does not take what it is sent is left after SEND_SECONDS_MAX;
- there are never so many connections that no file could be opened any more: one too many is closed unanswered;
- a client that has left keeps no connection;
- a request whose body has a length and comes in chunks is refused, and nothing may follow it;
- whatever goes wrong on one connection ends that one.
"""

from __future__ import annotations

import resource
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.events import Event, Updated
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

if TYPE_CHECKING:
    from hypercorn.config import Config
    from starlette.applications import Starlette
    from starlette.types import Receive, Scope, Send

log = structlog.get_logger("sealbook.server")

SEND_SECONDS_MAX: Final = 10.0  # to take some hundred bytes of an answer, or a part of a larger one
GRACE_SECONDS_MAX: Final = 3.0  # for those who are being answered when the server stops
FILES_KEPT: Final = 64  # descriptors for everything else: the store, the keys, what is read anew


async def serve(
    application: Starlette, config: Config, listener: socket.socket, stop: Callable[[], Awaitable[None]]
) -> None:
    """Serve whoever connects to `listener` until `stop` returns; those who are being answered are answered first.

    It returns at most GRACE_SECONDS_MAX and SEND_SECONDS_MAX later. The listener is closed.
    """
    connections = _Connections(ASGIWrapper(cast(Any, _OneLength(application))), config)
    listening = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
    async with trio.open_nursery() as serving:
        async with listening, trio.open_nursery() as accepting:
            accept = partial(trio.serve_listeners, handler_nursery=serving)
            accepting.start_soon(accept, connections.handle, [listening])
            await stop()
            accepting.cancel_scope.cancel()
        await connections.context.terminated.set()
        serving.cancel_scope.deadline = trio.current_time() + GRACE_SECONDS_MAX


def connections_max() -> int:
    """How many connections leave FILES_KEPT descriptors of those that the process may have."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else max(1, files - FILES_KEPT)


@dataclass(eq=False)
class _Connections:
    """Those that are open."""

    application: ASGIWrapper
    config: Config
    context: WorkerContext = field(default_factory=lambda: WorkerContext(None))
    _open: int = 0

    async def handle(self, stream: trio.SocketStream) -> None:
        """One connection, from its beginning to its end."""
        if self._open >= connections_max():
            await trio.aclose_forcefully(stream)
            return
        self._open += 1
        try:
            await _Connection(
                self.application, self.config, self.context, ConnectionState({}), cast(Any, _Stream(stream))
            )
        except Exception as error:
            log.error("server.connection_failed", error=str(error), kind=type(error).__name__)
        finally:
            self._open -= 1
            await trio.aclose_forcefully(stream)


class _Connection(TCPServer):
    """A connection that ends when its client has left. hypercorn's own waits for the next request of one that has left
    as long as for that of one that is silent, and keeps its descriptor meanwhile."""

    _left = False

    async def _read_data(self) -> None:
        await super()._read_data()
        self._left = True
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        """What hypercorn's protocol wants of the connection."""
        if not (self._left and isinstance(event, Updated)):  # an answer that ends now begins no new wait
            await super().protocol_send(event)


class _OneLength:
    """The application, for requests that say in one way where they end.

    RFC 9112 section 6.3: one that says it twice "might indicate an attempt to perform request smuggling", past a proxy
    that goes by the other way, and the connection must end with it. h11 goes by the chunks and goes on.
    """

    def __init__(self, application: Starlette) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope.get("headers", ())}
        if not names.issuperset({b"transfer-encoding", b"content-length"}):
            await self._application(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": b"a body has a length or comes in chunks, not both\n"})


class _Stream:
    """A connection's bytes, as hypercorn reads and writes them."""

    def __init__(self, inner: trio.SocketStream) -> None:
        self._inner = inner
        self.socket = inner.socket

    async def send_all(self, data: bytes) -> None:
        """Send, to a client that takes it."""
        with trio.move_on_after(SEND_SECONDS_MAX):
            await self._inner.send_all(data)
            return
        await trio.aclose_forcefully(self._inner)
        raise trio.BrokenResourceError("the client does not take what it is sent")

    async def receive_some(self, bytes_max: int) -> bytes:
        """What the client has sent; empty at the end."""
        return await self._inner.receive_some(bytes_max)

    async def send_eof(self) -> None:
        """Nothing more is sent."""
        await self._inner.send_eof()

    async def aclose(self) -> None:
        """The end."""
        await self._inner.aclose()
