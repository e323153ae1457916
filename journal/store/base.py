"""What all verbs of a tenant have in common: the open store, the tenant, one snapshot for each answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sealbook.journal import events
from sealbook.journal.deciding import requests as ask
from sealbook.journal.engine.port import Snapshot
from sealbook.journal.errors import (
    IndexStale,
    SealbookError,
)
from sealbook.journal.reading import cursors
from sealbook.journal.reading.listings import Page, Part
from sealbook.journal.records import names as ids
from sealbook.journal.records.versions import Upcaster
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import StoreRow
from sealbook.journal.store.view import View

T = TypeVar("T")


class Verbs:
    """Verbs that speak of one tenant, or of the store log, over an open store."""

    def __init__(self, view: View, name: str) -> None:
        """Not for callers: see `Journal.tenant` and `Journal.store_log`."""
        self.view = view
        self.name = name

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors name the run alone; the tenant is their attribute."""
        try:
            yield
        except SealbookError as error:
            error.tenant = self.name
            events.tell(self.name, error)
            raise

    @contextmanager
    def _reading(self, *, indexed: bool = False) -> Iterator[Snapshot]:
        with self._named(), self.view.snapshot() as snapshot:
            if indexed and not StoreRow.decode(snapshot.get_many([tables.STORE_PLACE])[0]).index_current:
                raise IndexStale
            yield snapshot

    def _submit(self, request: ask.Request) -> Any:
        return self.view.submit(self.name, request)

    def _page(
        self,
        listing: tuple[str, ...],
        after: str | None,
        limit: int,
        read: Callable[[Snapshot, bytes | None, int], Part[T]],
        *,
        indexed: bool = False,
    ) -> Page[T]:
        """One page of a listing, from one snapshot, with the cursor for the next."""
        ids.check_limit(limit)
        with self._reading(indexed=indexed) as snapshot:
            position = None if after is None else cursors.decode(self._secret, self.name, listing, after)
            if limit == 0:
                return Page((), after)
            part = read(snapshot, position, limit)
        if part.last is None:
            return Page(part.items)
        return Page(part.items, cursors.encode(self._secret, self.name, listing, part.last))

    @property
    def _upcaster(self) -> Upcaster:
        return self.view.setting.upcaster

    @property
    def _secret(self) -> bytes:
        return self.view.setting.identity.secret
