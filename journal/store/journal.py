"""`Journal`: open a store, find its tenants, check it, close it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from sealbook.journal import events
from sealbook.journal.checking import whole
from sealbook.journal.checking.audit import CheckAudit
from sealbook.journal.checking.quick import Elsewhere
from sealbook.journal.checking.records import Range, Swept, sweep_range
from sealbook.journal.checking.report import CheckReport, Level
from sealbook.journal.checking.whole import CheckOptions
from sealbook.journal.deciding.log import adoption
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Clock, Engine, Moment, Snapshot, Writes
from sealbook.journal.errors import (
    InvalidInput,
    WrongFormat,
)
from sealbook.journal.records import names as ids
from sealbook.journal.records.signatures import Signer, check_signer
from sealbook.journal.records.trust import NOTHING_BROUGHT, Trust
from sealbook.journal.records.versions import IdentityUpcaster, Upcaster
from sealbook.journal.schema import tables
from sealbook.journal.schema.identity import check_store_row, new_identity, parse_identity
from sealbook.journal.schema.origins import DEFAULT_TENANT, check_origin, check_store_origin
from sealbook.journal.schema.setting import Setting
from sealbook.journal.schema.tables import StoreRow
from sealbook.journal.store import reindexing
from sealbook.journal.store.logs import StoreLog
from sealbook.journal.store.tenant import Tenant
from sealbook.journal.store.view import View

DEFAULT_ORIGIN = "sealbook"
LOCK_TIMEOUT_S = 5.0


class Journal:
    """An open store. Thread-safe; a context manager that closes it.

    Open one with `Journal.open` or `Journal.in_memory`; one process opens a store once and shares the journal. One that
    is forgotten instead of closed frees what it holds when it is collected, with a `ResourceWarning`, as a file does.
    """

    def __init__(
        self, engine: Engine, setting: Setting, clock: Clock, origin: str, store_origin: str | None = None
    ) -> None:
        origin = check_origin(origin)
        if store_origin is not None:
            with engine.snapshot() as snapshot:
                store_origin = check_store_origin(store_origin, origin, adoption.adopted_origins(snapshot))
        if setting.signer is not None:
            check_signer(setting.signer)
        self.view = View(engine, setting, clock, origin, store_origin)  # for the library's other rooms

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        readonly: bool = False,
        signer: Signer | None = None,
        clock: Clock | None = None,
        origin: str = DEFAULT_ORIGIN,
        store_origin: str | None = None,
        upcaster: Upcaster | None = None,
        reindex: bool = False,
        lock_timeout: float = LOCK_TIMEOUT_S,
    ) -> Journal:
        """Open the store at `path`, a folder such as `agents.sealbook`.

        Without `create` a missing store is `StoreMissing`. `lock_timeout` is how many seconds a write waits for
        writers in other processes before it is `Busy`. `origin` is the base name of the tenants' logs, `store_origin`
        the name of the store log, where one is kept. `reindex` rebuilds stale indexes while opening.

        Raises `StoreMissing`, `WrongFormat`, `UnknownVersion`, `Corrupt`, `StoreFull`, `EngineFailed`, `Busy`, or
        `OriginsCoincide` when the store log's name is that of a tenant's log, or one of the two begins with the other.
        """
        from sealbook.journal.engine.lmdb import ENGINE_FORMAT, LmdbEngine

        clock = clock or system_clock
        folder = _folder(path)
        if create and readonly:
            raise InvalidInput("create", create, "a journal that is opened for reading only cannot be created")
        if create:
            fresh = new_identity(ENGINE_FORMAT)
            engine = LmdbEngine.create(
                folder,
                identity_text=fresh.encode(),
                store_value=fresh.store_row().encode(),
                clock=clock,
                lock_timeout=lock_timeout,
                tables=tables.TABLES,
            )
        else:
            engine = LmdbEngine.open(
                folder, readonly=readonly, clock=clock, lock_timeout=lock_timeout, tables=tables.TABLES
            )
        try:
            identity = parse_identity(engine.identity_text, engine.engine_format)
            setting = Setting(identity, signer, upcaster or IdentityUpcaster())
            journal = cls(engine, setting, clock, origin, store_origin)
            check_store_row(identity, journal.view.store_row())
            if reindex and not journal.view.store_row().index_current:
                journal.reindex()
        except BaseException:
            engine.close()
            raise
        journal.view.unclosed = folder
        return journal

    @classmethod
    def in_memory(
        cls,
        *,
        signer: Signer | None = None,
        clock: Clock | None = None,
        origin: str = DEFAULT_ORIGIN,
        store_origin: str | None = None,
        upcaster: Upcaster | None = None,
    ) -> Journal:
        """A new store in memory, gone when it is closed. It needs no file system at all."""
        return cls.over(
            MemoryEngine(clock=clock or system_clock),
            signer=signer,
            clock=clock,
            origin=origin,
            store_origin=store_origin,
            upcaster=upcaster,
        )

    @classmethod
    def over(
        cls,
        engine: Engine,
        *,
        signer: Signer | None = None,
        clock: Clock | None = None,
        origin: str = DEFAULT_ORIGIN,
        store_origin: str | None = None,
        upcaster: Upcaster | None = None,
    ) -> Journal:
        """A new store over an empty engine of your own: any that keeps the port (`sealbook.journal.engine.port`)."""
        identity = new_identity(engine_format=0)
        setting = Setting(identity, signer, upcaster or IdentityUpcaster())
        journal = cls(engine, setting, clock or system_clock, origin, store_origin)

        def create(snapshot: Snapshot, moment: Moment) -> tuple[Writes, None]:
            if snapshot.count(tables.STORE):
                raise WrongFormat("the engine holds a store already")
            return Writes({tables.STORE_PLACE: identity.store_row().encode()}, {tables.STORE_PLACE}), None

        journal.view.write(create)
        return journal

    @property
    def origin(self) -> str:
        """The base name of the tenants' logs."""
        return self.view.origin

    @property
    def store_origin(self) -> str | None:
        """The name of the store log; None where none is kept."""
        return self.view.store_origin

    @property
    def store_log(self) -> StoreLog:
        """The log of all tenants' logs. `InvalidInput` when the journal was opened without a `store_origin`."""
        if self.view.store_origin is None:
            raise InvalidInput("store origin", None, "is needed: open the journal with store_origin=")
        return StoreLog(self.view, self.view.store_origin)

    @property
    def store_id(self) -> bytes:
        """The 16 bytes that name this store and no other."""
        return self.view.setting.identity.store_id

    @property
    def readonly(self) -> bool:
        """Whether every write is refused with `ReadOnly`."""
        return self.view.engine.readonly

    def tenant(self, name: str = DEFAULT_TENANT) -> Tenant:
        """The tenant's part of the store. It comes into being with its first record; `InvalidName` for a bad name."""
        return Tenant(self.view, ids.check_tenant(name))

    def tenants(self) -> list[str]:
        """The names of all tenants that have a record or an act, in order."""
        return self.view.tenants()

    def check(
        self,
        *,
        progress: Callable[[int, int], None] | None = None,
        level: Level = Level.DEEP,
        trust: Trust = NOTHING_BROUGHT,
        elsewhere: Elsewhere | None = None,
    ) -> CheckReport:
        """Derive everything again from the record bytes of all tenants, and report every difference.

        A level below `DEEP` looks at less and is faster; the report says what it left out. `trust` is what an auditor
        brings. `progress` is called now and then with (records checked, records in all). `elsewhere` has ranges of
        records swept by others (`check_range` of a journal of theirs), at levels below `DEEP`.
        """
        asked = CheckOptions(level, trust, self.view.origin, self.view.store_origin, progress, elsewhere)
        with self.view.snapshot() as snapshot:
            return whole.check_store(snapshot, self.view.setting, asked)

    def check_range(self, wanted: Range, trust: Trust = NOTHING_BROUGHT) -> Swept:
        """Check a range of a tenant's records by itself, for a check that another process is doing."""
        with self.view.snapshot() as snapshot:
            return sweep_range(CheckAudit(snapshot, self.view.setting, indexed=True, trust=trust), wanted)

    def reindex(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Drop the indexes and build them again in pages; returns how many rows they have.

        Meanwhile, and after a rebuild that was cut short, listings and writers get `IndexStale`.
        """
        rows = reindexing.reindex(self.view.write, progress=progress)
        events.say("index.rebuilt", rows=rows)
        return rows

    def info(self) -> dict[str, Any]:
        """What the store is and how much it holds: ids, formats, index state, rows per table."""
        identity = self.view.setting.identity
        with self.view.snapshot() as snapshot:
            row = StoreRow.decode(snapshot.get_many([tables.STORE_PLACE])[0])
            counts = {table: snapshot.count(table) for table in tables.TABLES}
            [store_log] = snapshot.get_many([(tables.TENANTS, ids.STORE_LOG.encode())])
        return {
            "store": identity.store_id.hex(),
            "lineage": identity.lineage_id.hex(),
            "format": identity.format,
            "engine_format": identity.engine_format,
            "index_version": row.index_version,
            "index_current": row.index_current,
            "restoration": row.restoration,
            "origin": self.view.origin,
            "store_origin": self.view.store_origin,
            "tenants": counts[tables.TENANTS] - (store_log is not None),
            "runs": counts[tables.STATE],
            "records": counts[tables.JOURNAL],
            "leaves": counts[tables.LEAVES],
            "rows": counts,
        }

    def statistics(self) -> dict[str, Any]:
        """What this open journal has done so far, and how it stands; docs/logging.md says what each number counts."""
        return self.view.statistics.as_json(queue=self.view.writer.queue, storage=self.view.engine.measures())

    def close(self) -> None:
        """Close the store, once every write that was handed in has its answer. Closing twice is harmless; any other
        verb afterwards is `Closed`."""
        self.view.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _folder(path: str | os.PathLike[str]) -> Path:
    """The folder's path; `InvalidInput` for one that the file system, or LMDB, cannot be given."""
    folder = Path(path)
    try:
        if b"\0" not in str(folder).encode():
            return folder
    except UnicodeEncodeError:
        pass
    raise InvalidInput("path", str(folder), "must be UTF-8 without NUL")
