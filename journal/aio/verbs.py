"""How a synchronous verb becomes an awaited one of the same name, parameters, docstring and errors.

A verb that writes is built in the caller's task and committed by the writer. A verb that reads is answered in the
caller's task when it is short, and in a worker thread when it may be long.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from sealbook.journal.aio.host import Host
from sealbook.journal.deciding import requests
from sealbook.journal.errors import SealbookError
from sealbook.journal.records.names import LIMIT_DEFAULT
from sealbook.journal.store.asking import answer_without_asking
from sealbook.journal.writing.writer import Writer

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

INLINE_ITEMS_MAX: Final = LIMIT_DEFAULT  # of a page that is read in the caller's task


class Face(ABC):
    """What every face has: the synchronous thing that it speaks for, and where it may be used."""

    @property
    @abstractmethod
    def _sync(self) -> Any:
        """The journal, tenant or log whose verbs these are."""

    @abstractmethod
    def _ready(self) -> Host:
        """The host, for a caller who may use this face: `Closed`, `WrongLoop` or `OpenedBeforeFork` for all others."""


class WritingFace(Face):
    """A face whose verbs hand requests to the writer."""

    name: str
    _asking: Any  # whose methods make the requests of its verbs

    @property
    @abstractmethod
    def _writer(self) -> Writer:
        """The one writer of the open journal."""

    async def _submit(self, request: requests.Request) -> Any:
        """Have one request decided and committed; raise its refusal."""
        host = self._ready()
        await host.enter()
        try:
            return await self._hand_over(host, request)
        finally:
            host.leave()

    async def _hand_over(self, host: Host, request: requests.Request) -> Any:
        try:
            return await host.committed(self._writer, self.name, request)
        except SealbookError as error:
            error.tenant = self.name  # as the synchronous verbs do
            raise


def written(
    verb: Callable[Concatenate[S, P], T], ask: Callable[Concatenate[Any, P], requests.Request]
) -> Callable[Concatenate[WritingFace, P], Coroutine[Any, Any, T]]:
    """A verb that hands in one request, which `ask` makes of its arguments.

    It is checked and encoded before anything is awaited with it in hand.
    """

    @wraps(verb)
    async def awaited(self: WritingFace, /, *args: P.args, **kwargs: P.kwargs) -> T:
        host = self._ready()
        await host.enter()
        try:
            request = ask(self._asking, *args, **kwargs)
            answer: Any = answer_without_asking(request)
            return await self._hand_over(host, request) if answer is None else answer  # type: ignore[no-any-return]
        finally:
            host.leave()

    return awaited


def short(verb: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Face, P], Coroutine[Any, Any, T]]:
    """A verb that reads a few rows of the mapped file."""

    @wraps(verb)
    async def awaited(self: Face, /, *args: P.args, **kwargs: P.kwargs) -> T:
        await self._ready().checkpoint()
        return verb(self._sync, *args, **kwargs)

    return awaited


def long(verb: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Face, P], Coroutine[Any, Any, T]]:
    """A verb that reads much, or that does several things one after the other. Callables that it is given are called
    in its worker thread."""

    @wraps(verb)
    async def awaited(self: Face, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await _in_thread(self, partial(verb, self._sync, *args, **kwargs))

    return awaited


def paged(verb: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Face, P], Coroutine[Any, Any, T]]:
    """A listing: short up to `INLINE_ITEMS_MAX` items, long beyond."""

    @wraps(verb)
    async def awaited(self: Face, /, *args: P.args, **kwargs: P.kwargs) -> T:
        limit = kwargs.get("limit", LIMIT_DEFAULT)
        if isinstance(limit, int) and limit > INLINE_ITEMS_MAX:
            return await _in_thread(self, partial(verb, self._sync, *args, **kwargs))
        await self._ready().checkpoint()
        return verb(self._sync, *args, **kwargs)

    return awaited


async def _in_thread(face: Face, call: Callable[[], T]) -> T:
    host = face._ready()
    await host.enter()
    try:
        return await host.in_thread(call)
    finally:
        host.leave()
