"""A witness over HTTP: tlog-witness on starlette, served by hypercorn on trio.

    POST /add-checkpoint                            a log's checkpoint -> this witness's cosignatures
    GET  /<hex of SHA-256 of the origin>/checkpoint the last checkpoint that was cosigned

Bytes are taken in here, held to their limits, and handed on; `merkle.witness` says what a request must be, `state` what
is answered. Nothing here knows who asks: no address and no body enters an event.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final

import hypercorn.config
import structlog
import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from sealbook.cli.serving import connections, listening
from sealbook.cli.witnessing.loglist import LogFile
from sealbook.cli.witnessing.queue import Queue
from sealbook.cli.witnessing.rates import Rates
from sealbook.cli.witnessing.state import StateStore
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.port import Clock
from sealbook.journal.errors import Refused
from sealbook.merkle.witness import REQUEST_BYTES_MAX, TEXT_MEDIA_TYPE, Answer, Refusal, read_request

log = structlog.get_logger("sealbook.witness")

BODY_SECONDS_MAX: Final = 30.0  # from the first byte of a request's body to its last
BODY_BYTES_DRAINED_MAX: Final = 1024 * 1024  # of a body that is too long: so that its sender sees the answer
KEEP_ALIVE_SECONDS: Final = 75  # of silence on a connection, and to send the head of a request
KEEP_ALIVE_REQUESTS_MAX: Final = 1_000_000
assert BODY_SECONDS_MAX < KEEP_ALIVE_SECONDS

_LOG = re.compile(r"[0-9a-f]{64}")
_TOO_LONG = Answer(413, TEXT_MEDIA_TYPE, f"a body has at most {REQUEST_BYTES_MAX} bytes\n".encode())


@dataclass(eq=False)
class Server:
    """One witness's endpoints. `serve` runs them."""

    state: StateStore
    logs: LogFile
    clock: Clock = system_clock
    body_seconds_max: float = BODY_SECONDS_MAX
    _rates: Rates = field(default_factory=Rates, init=False)
    _queue: Queue = field(init=False)
    _reloading: trio.Lock = field(default_factory=trio.Lock, init=False)

    def __post_init__(self) -> None:
        self._queue = Queue(self.state.decide)

    # --- running ------------------------------------------------------------------------------------------------------

    async def serve(self, listener: socket.socket, stop: Callable[[], Awaitable[None]]) -> None:
        """Serve whoever connects to `listener` until `stop` returns; those who are being answered are answered first.
        The listener is closed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._queue.run)
            await connections.serve(self.application(), _config(), listener, stop)
            nursery.cancel_scope.cancel()

    async def reload_logs(self) -> None:
        """Take the log list as its file has it now; one that is refused changes nothing."""
        async with self._reloading:
            await self._reload()

    async def _reload(self) -> None:
        try:
            logs = await trio.to_thread.run_sync(self.logs.reload)
        except (Refused, OSError) as error:
            log.error("witness.logs_refused", error=str(error))
        else:
            log.info("witness.logs_taken", logs=len(logs.trusted))

    # --- endpoints ----------------------------------------------------------------------------------------------------

    def application(self) -> Starlette:
        """The endpoints. A path that is known answers another method with 405."""
        application = Starlette(
            routes=[
                Route("/add-checkpoint", self._add_checkpoint, methods=["POST"]),
                Route("/{log}/checkpoint", self._checkpoint, methods=["GET"]),
            ],
            exception_handlers={HTTPException: self._unknown},
        )
        application.router.redirect_slashes = False  # to a host that the client has named
        return application

    async def _add_checkpoint(self, request: Request) -> Response:
        try:
            body = await self._body(request)
            return body if isinstance(body, Response) else _response(await self._answer(body))
        except ClientDisconnect:
            return _response(Answer(400, TEXT_MEDIA_TYPE, b"the body ended early\n"))  # nobody reads it
        except Exception as error:
            log.error("witness.failed", error=str(error), kind=type(error).__name__)
            return _response(Answer(500, TEXT_MEDIA_TYPE, b"internal error\n"))

    async def _answer(self, body: bytes) -> Response | Answer:
        if self.logs.changed():
            async with self._reloading:
                if self.logs.changed():
                    await self._reload()
        logs = self.logs.logs
        submission = read_request(body, logs.trusted)
        if isinstance(submission, Refusal):
            return submission.answer()
        origin = submission.checkpoint.origin
        wait = self._rates.wait(origin, logs.requests_per_day_max[origin], now=self.clock().wall_ms // 1000)
        if wait:
            return _with_header(
                Answer(429, TEXT_MEDIA_TYPE, b"this log has asked too often\n"), "retry-after", str(wait)
            )
        return await self._queue.answer(submission)

    async def _body(self, request: Request) -> bytes | Response:
        """The body, if it is short enough and comes soon enough; with its length stated, or in chunks."""
        stated = request.headers.get("content-length", "0")
        if int(stated) > BODY_BYTES_DRAINED_MAX:  # h11 has made sure that it is a number
            return _hanging_up(_TOO_LONG)
        body, drained = bytearray(), 0
        with trio.move_on_after(self.body_seconds_max):
            async with aclosing(request.stream()) as chunks:
                async for chunk in chunks:
                    drained += len(chunk)
                    if drained > BODY_BYTES_DRAINED_MAX:
                        return _hanging_up(_TOO_LONG)
                    if drained <= REQUEST_BYTES_MAX:  # no more of it is held in memory
                        body += chunk
            return bytes(body) if drained <= REQUEST_BYTES_MAX else _response(_TOO_LONG)
        return _hanging_up(Answer(408, TEXT_MEDIA_TYPE, b"the body took too long\n"))

    async def _unknown(self, request: Request, error: Exception) -> Response:
        """Another path, or another method. The body is read all the same: hypercorn hangs up on a sender that it has
        answered too soon, which may be sending its next request already."""
        assert isinstance(error, HTTPException)
        with suppress(ClientDisconnect):
            body = await self._body(request)
            if isinstance(body, Response):
                return body
        return Response(f"{error.detail}\n", error.status_code, headers=error.headers, media_type="text/plain")

    async def _checkpoint(self, request: Request) -> Response:
        key = request.path_params["log"]
        try:
            note = await trio.to_thread.run_sync(self.state.note, bytes.fromhex(key)) if _LOG.fullmatch(key) else None
        except Exception as error:
            log.error("witness.failed", error=str(error), kind=type(error).__name__)
            return _response(Answer(500, TEXT_MEDIA_TYPE, b"internal error\n"))
        # "404 if never cosigned"
        if note is None:
            return _response(Answer(404, TEXT_MEDIA_TYPE, b"no checkpoint of such a log was cosigned here\n"))
        return _response(Answer(200, TEXT_MEDIA_TYPE, note))


async def until_signalled(server: Server, *, ready: Callable[[], None]) -> None:
    """Return at SIGINT or SIGTERM; take the log list anew at each SIGHUP. `ready` is called once that holds: a signal
    that came earlier would end the process."""
    await listening.until_signalled(hangup=server.reload_logs, ready=ready)


def _response(answer: Response | Answer) -> Response:
    if isinstance(answer, Response):
        return answer
    # The media type as it is: starlette would add a charset to it.
    return Response(answer.body, answer.status, headers={"content-type": answer.media_type})


def _hanging_up(answer: Answer) -> Response:
    """What answers a sender before its body is read: nothing else can follow on that connection."""
    return _with_header(answer, "connection", "close")


def _with_header(answer: Answer, name: str, value: str) -> Response:
    response = _response(answer)
    response.headers[name] = value
    return response


def _config() -> hypercorn.config.Config:
    config = listening.config()
    config.errorlog = None
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    # hypercorn's other timeout ends with the first words of HTTP/2, after which it would wait without end.
    config.read_timeout = KEEP_ALIVE_SECONDS
    config.keep_alive_max_requests = KEEP_ALIVE_REQUESTS_MAX
    return config
