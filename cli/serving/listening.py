"""Where a server of ours is reached and when it ends: its socket, its URL, what hypercorn is told, and the signals."""

from __future__ import annotations

import signal
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hypercorn.config import Config

CONNECTIONS_WAITING_MAX: Final = 128  # not yet accepted


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes one that is free. `OSError` when it cannot."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.create_server(address[:2], family=family, backlog=CONNECTIONS_WAITING_MAX)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url(listener: socket.socket) -> str:
    """Where the socket is reached, without a slash at the end."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family is socket.AF_INET6 else f"http://{host}:{port}"


def config() -> Config:
    """What hypercorn is told by every server here."""
    from hypercorn.config import Config

    config = Config()
    config.include_server_header = False
    config.accesslog = None  # who asked for what is nobody's business
    return config


async def until_signalled(
    *, hangup: Callable[[], Awaitable[None]] | None = None, ready: Callable[[], None] = lambda: None
) -> None:
    """Return at SIGINT or SIGTERM. At each SIGHUP call `hangup`, where there is one. `ready` is called once the signals
    are waited for."""
    import trio

    numbers = [signal.SIGINT, signal.SIGTERM] if hangup is None else [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    with trio.open_signal_receiver(*numbers) as signals:
        ready()
        async for number in signals:
            if hangup is None or number != signal.SIGHUP:
                return
            await hangup()
