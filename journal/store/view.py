"""What the verbs, and other rooms, use of an open store: a snapshot, one request, one write, and its setting."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sealbook.journal.deciding import requests as ask
from sealbook.journal.engine.port import Applied, Clock, Engine, Snapshot, Unknown, Work
from sealbook.journal.errors import (
    Busy,
    CommitUnknown,
    ReadOnly,
    SealbookError,
)
from sealbook.journal.records import names as ids
from sealbook.journal.schema import tables
from sealbook.journal.schema.setting import Setting
from sealbook.journal.schema.tables import StoreRow
from sealbook.journal.threads.wakeups import Pulse
from sealbook.journal.writing.statistics import Statistics
from sealbook.journal.writing.writer import Writer

RETRIES_MAX = 8


class View:
    """An open store: its engine, its setting, its one writer, and what the verbs have in common.

    One that is forgotten instead of closed frees what it holds when it is collected, with a `ResourceWarning`.
    """

    unclosed: Path | None = None  # the store's folder, while somebody must close it

    def __init__(self, engine: Engine, setting: Setting, clock: Clock, origin: str, store_origin: str | None) -> None:
        self.engine = engine
        self.setting = setting
        self.clock = clock
        self.origin = origin
        self.store_origin = store_origin
        self.statistics = Statistics()
        self.wakeups = Pulse(self.version, shared=engine.traits.shared)
        self.writer = Writer(self.write, engine.give_way, setting, self.statistics, self.wakeups.beat)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The store as it is now, for the length of a `with` block."""
        with self.engine.snapshot() as snapshot:
            yield snapshot

    def version(self) -> int:
        """Which commit there is to see, for whoever follows; `EngineFailed` when another store stands here by now."""
        with self.engine.snapshot() as snapshot:
            self.engine.refuse_replaced()  # who only reads would wait for ever
            return snapshot.version

    def store_row(self) -> StoreRow:
        """The row that says what the store is."""
        with self.snapshot() as snapshot:
            return StoreRow.decode(snapshot.get_many([tables.STORE_PLACE])[0])

    def write(self, work: Work) -> Any:
        """Commit what `work` returns, durably, and return its answers."""
        if self.engine.readonly:
            raise ReadOnly
        reason = ""
        for _ in range(RETRIES_MAX):
            result = self.engine.write(work)
            if isinstance(result, Applied):
                return result.answers
            if isinstance(result, Unknown):
                raise CommitUnknown(f"whether the commit took effect is unknown: {result.cause}") from result.cause
            reason = result.reason
        raise Busy(f"the engine kept asking to try again ({reason})")

    def submit(self, tenant: str, request: ask.Request) -> Any:
        """Have one request decided and committed; raise its refusal, with the tenant as its attribute."""
        try:
            return self.writer.submit(tenant, request)
        except SealbookError as error:
            error.tenant = tenant
            raise

    def tenants(self) -> list[str]:
        """The names of all tenants that have a record or an act, in order."""
        with self.snapshot() as snapshot:
            names = [key.decode(errors="replace") for key, _ in tables.rows_of(snapshot, tables.TENANTS)]
            return [name for name in names if name != ids.STORE_LOG]

    def close(self) -> None:
        """Close the store, once every write that was handed in has its answer. Closing twice is harmless."""
        self.unclosed = None
        self.writer.close()
        self.wakeups.close()
        self.engine.close()
        self.wakeups.beat()  # whoever follows sees that it is closed

    def __del__(self) -> None:
        if self.unclosed is not None and os.getpid() == self.writer.pid:  # a forked child has nothing to close
            warnings.warn(f"unclosed journal {str(self.unclosed)!r}", ResourceWarning, source=self, stacklevel=2)
