"""Serve a log's tiles over HTTP, read-only: the paths, headers and answers of tlog-tiles, and nothing else.

    GET, HEAD  /checkpoint       text/plain, kept for a few seconds
    GET, HEAD  /tile/...         application/octet-stream, immutable
    anything else                404, or 405 for another method

A path is looked up only if it is one that a tile has, so no other file of the folder can be asked for.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from sealbook.cli.serving import listening
from sealbook.merkle.tiles import CHECKPOINT_MEDIA_TYPE, CHECKPOINT_PATH, TILE_MEDIA_TYPE

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from sealbook.cli.serving.tiles import Folder

# tlog-tiles: checkpoints change, tiles never do: "the log SHOULD set Cache-Control ... immutable".
CHECKPOINT_CACHING = "public, max-age=2"
TILE_CACHING = "public, max-age=31536000, immutable"
MISSING_CACHING = "no-store"  # a partial tile that is not there yet may be there a second later

READ_SECONDS_MAX = 10  # for a whole request
IDLE_SECONDS_MAX = 15  # between two requests of a connection
REQUEST_BYTES_MAX = 8 * 1024  # request line and headers


def application(folder: Folder) -> Starlette:
    """The application that serves these tiles."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import Response
    from starlette.routing import Route

    # Not a coroutine: starlette calls it in a thread, where reading files holds up nobody.
    def answer(request: Request) -> Response:
        path = request.scope["path"].removeprefix("/")
        data = folder.find(path)
        if data is None:
            return Response(status_code=404, headers=_headers(MISSING_CACHING))
        if path == CHECKPOINT_PATH:
            headers = _headers(CHECKPOINT_CACHING) | {"content-type": CHECKPOINT_MEDIA_TYPE}
        else:
            headers = _headers(TILE_CACHING) | {"content-type": TILE_MEDIA_TYPE}
        return Response(data, headers=headers)

    async def refuse(request: Request, error: Exception) -> Response:
        """Another method. Its body is not read: nothing else can follow on that connection."""
        assert isinstance(error, HTTPException)
        headers = {**(error.headers or {}), "connection": "close"}
        return Response(f"{error.detail}\n", error.status_code, headers, media_type="text/plain")

    return Starlette(
        routes=[Route("/{path:path}", answer, methods=["GET"])], exception_handlers={HTTPException: refuse}
    )


def _headers(caching: str) -> dict[str, str]:
    return {"cache-control": caching, "x-content-type-options": "nosniff"}


def serve(app: Starlette, listener: socket.socket, *, ready: Callable[[], None] = lambda: None) -> None:
    """Serve the application until SIGTERM or SIGINT; what is being answered then is answered."""
    import trio

    from sealbook.cli.serving import connections

    config = listening.config()
    config.errorlog = logging.getLogger("sealbook.tile_server")
    config.read_timeout = READ_SECONDS_MAX
    config.keep_alive_timeout = IDLE_SECONDS_MAX
    config.h11_max_incomplete_size = REQUEST_BYTES_MAX

    async def stopped() -> None:
        await listening.until_signalled(ready=ready)

    trio.run(connections.serve, app, config, listener, stopped)
