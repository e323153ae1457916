"""`Journal` and `Tenant`: the public verbs, and the only place that opens transactions.

A verb that reads takes one snapshot for one answer. A verb that writes hands one request to the engine, which decides
it under the store's write lock and commits it durably before the verb returns.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from sealbook.indexes.standing import Standing
from sealbook.journal import events
from sealbook.journal.checking import whole
from sealbook.journal.checking.audit import Audit
from sealbook.journal.checking.levels import Level
from sealbook.journal.checking.quick import Elsewhere
from sealbook.journal.checking.records import Range, Swept, swept
from sealbook.journal.checking.whole import Asked, CheckReport
from sealbook.journal.deciding import leases
from sealbook.journal.deciding import requests as ask
from sealbook.journal.deciding.acts import Cancellation, cancellation_of
from sealbook.journal.deciding.appending import Appended, read_holder
from sealbook.journal.deciding.leases import Lease
from sealbook.journal.deciding.log import adoption, anchors
from sealbook.journal.deciding.log.adoption import AdoptedLog
from sealbook.journal.deciding.log.anchors import AnchorBatch
from sealbook.journal.deciding.log.leaves import InclusionProof, Leaf
from sealbook.journal.deciding.operator_acts import CancelAnswer
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Applied, Clock, Engine, Moment, Place, Snapshot, Unknown, Work, Writes
from sealbook.journal.errors import (
    Busy,
    CommitUnknown,
    IndexStale,
    InvalidInput,
    ReadOnly,
    WrongFormat,
)
from sealbook.journal.reading import cursors, listings
from sealbook.journal.reading.following import Follower, Following, Source
from sealbook.journal.reading.listings import Abandoned, Effect, Page, Part, Waiting
from sealbook.journal.records import names as ids
from sealbook.journal.records.chain import Head
from sealbook.journal.records.entries import EFFECT_KEY_BYTES, Entry
from sealbook.journal.records.names import LIMIT_DEFAULT
from sealbook.journal.records.record import Record
from sealbook.journal.records.signatures import Signer, check_signer
from sealbook.journal.records.trust import NOTHING_BROUGHT, Trust
from sealbook.journal.records.versions import IdentityUpcaster, Upcaster
from sealbook.journal.schema import tables
from sealbook.journal.schema.identity import check_store_row, new_identity, parse_identity
from sealbook.journal.schema.origins import DEFAULT_TENANT, check_origin, check_store_origin, tenant_origin
from sealbook.journal.schema.setting import Setting
from sealbook.journal.schema.standings import known_standing
from sealbook.journal.schema.tables import LeaseRow, StoreRow
from sealbook.journal.store import reindexing
from sealbook.journal.store.logs import Log, StoreLog
from sealbook.journal.threads.wakeups import Pulse
from sealbook.journal.writing.statistics import Statistics
from sealbook.journal.writing.writer import Writer
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed
from sealbook.merkle.note import Note

if TYPE_CHECKING:
    from sealbook.journal.running.admitting import Admission
    from sealbook.journal.running.leased import LeasedRun

T = TypeVar("T")

DEFAULT_ORIGIN = "sealbook"
LOCK_TIMEOUT_S = 5.0
RETRIES_MAX = 8


class Journal:
    """An open store. Thread-safe; a context manager that closes it.

    Open one with `Journal.open` or `Journal.in_memory`; one process opens a store once and shares the journal. One that
    is forgotten instead of closed frees what it holds when it is collected, with a `ResourceWarning`, as a file does.
    """

    _unclosed: Path | None = None  # the store's folder, while somebody must close it

    def __init__(
        self, engine: Engine, setting: Setting, clock: Clock, origin: str, store_origin: str | None = None
    ) -> None:
        origin = check_origin(origin)
        if store_origin is not None:
            with engine.snapshot() as snapshot:
                store_origin = check_store_origin(store_origin, origin, adoption.adopted_origins(snapshot))
        if setting.signer is not None:
            check_signer(setting.signer)
        self._engine = engine
        self._setting = setting
        self._clock = clock
        self._origin = origin
        self._store_origin = store_origin
        self._statistics = Statistics()
        self._pulse = Pulse(self._version, shared=engine.traits.shared)
        self._writer = Writer(self._write, engine.give_way, setting, self._statistics, self._pulse.beat)

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
            check_store_row(identity, journal._store_row())
            if reindex and not journal._store_row().index_current:
                journal.reindex()
        except BaseException:
            engine.close()
            raise
        journal._unclosed = folder
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

        journal._write(create)
        return journal

    @property
    def origin(self) -> str:
        """The base name of the tenants' logs."""
        return self._origin

    @property
    def store_origin(self) -> str | None:
        """The name of the store log; None where none is kept."""
        return self._store_origin

    @property
    def store_log(self) -> StoreLog:
        """The log of all tenants' logs. `InvalidInput` when the journal was opened without a `store_origin`."""
        if self._store_origin is None:
            raise InvalidInput("store origin", None, "is needed: open the journal with store_origin=")
        return StoreLog(self, self._store_origin)

    @property
    def store_id(self) -> bytes:
        """The 16 bytes that name this store and no other."""
        return self._setting.identity.store_id

    @property
    def readonly(self) -> bool:
        """Whether every write is refused with `ReadOnly`."""
        return self._engine.readonly

    def tenant(self, name: str = DEFAULT_TENANT) -> Tenant:
        """The tenant's part of the store. It comes into being with its first record; `InvalidName` for a bad name."""
        return Tenant(self, ids.check_tenant(name))

    def tenants(self) -> list[str]:
        """The names of all tenants that have a record or an act, in order."""
        with self._snapshot() as snapshot:
            names: list[str] = []
            lo = b""
            while page := snapshot.scan(tables.TENANTS, lo, None, 1000):
                names += [key.decode(errors="replace") for key, _ in page]
                lo = page[-1][0] + b"\0"
            return [name for name in names if name != ids.STORE_LOG]

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
        asked = Asked(level, trust, self._origin, self._store_origin, progress, elsewhere)
        with self._snapshot() as snapshot:
            return whole.check_store(snapshot, self._setting, asked)

    def check_range(self, wanted: Range, trust: Trust = NOTHING_BROUGHT) -> Swept:
        """Check a range of a tenant's records by itself, for a check that another process is doing."""
        with self._snapshot() as snapshot:
            return swept(Audit(snapshot, self._setting, indexed=True, trust=trust), wanted)

    def reindex(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Drop the indexes and build them again in pages; returns how many rows they have.

        Meanwhile, and after a rebuild that was cut short, listings and writers get `IndexStale`.
        """
        rows = reindexing.reindex(self._write, progress=progress)
        events.say("index.rebuilt", rows=rows)
        return rows

    def info(self) -> dict[str, Any]:
        """What the store is and how much it holds: ids, formats, index state, rows per table."""
        identity = self._setting.identity
        with self._snapshot() as snapshot:
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
            "origin": self._origin,
            "store_origin": self._store_origin,
            "tenants": counts[tables.TENANTS] - (store_log is not None),
            "runs": counts[tables.STATE],
            "records": counts[tables.JOURNAL],
            "leaves": counts[tables.LEAVES],
            "rows": counts,
        }

    def statistics(self) -> dict[str, Any]:
        """What this open journal has done so far, and how it stands; docs/logging.md says what each number counts."""
        return self._statistics.as_json(queue=self._writer.queue, storage=self._engine.measures())

    def close(self) -> None:
        """Close the store, once every write that was handed in has its answer. Closing twice is harmless; any other
        verb afterwards is `Closed`."""
        self._unclosed = None
        self._writer.close()
        self._pulse.close()
        self._engine.close()
        self._pulse.beat()  # whoever follows sees that it is closed

    def __del__(self) -> None:
        if self._unclosed is not None and os.getpid() == self._writer.pid:  # a forked child has nothing to close
            warnings.warn(f"unclosed journal {str(self._unclosed)!r}", ResourceWarning, source=self, stacklevel=2)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the one way in and the one way out ------------------------------------------------------------------------

    @contextmanager
    def _snapshot(self) -> Iterator[Snapshot]:
        with self._engine.snapshot() as snapshot:
            yield snapshot

    def _version(self) -> int:
        """Which commit there is to see, for whoever follows; `EngineFailed` when another store stands here by now."""
        with self._engine.snapshot() as snapshot:
            self._engine.refuse_replaced()  # who only reads would wait for ever
            return snapshot.version

    def _store_row(self) -> StoreRow:
        with self._snapshot() as snapshot:
            return StoreRow.decode(snapshot.get_many([tables.STORE_PLACE])[0])

    def _write(self, work: Work) -> Any:
        """Commit what `work` returns, durably, and return its answers."""
        if self._engine.readonly:
            raise ReadOnly
        reason = ""
        for _ in range(RETRIES_MAX):
            result = self._engine.write(work)
            if isinstance(result, Applied):
                return result.answers
            if isinstance(result, Unknown):
                raise CommitUnknown(f"whether the commit took effect is unknown: {result.cause}") from result.cause
            reason = result.reason
        raise Busy(f"the engine kept asking to try again ({reason})")

    def _submit(self, tenant: str, request: ask.Request) -> Any:
        """Have one request decided and committed; raise its refusal."""
        return self._writer.submit(tenant, request)


def _folder(path: str | os.PathLike[str]) -> Path:
    """The folder's path; `InvalidInput` for one that the file system, or LMDB, cannot be given."""
    folder = Path(path)
    try:
        if b"\0" not in str(folder).encode():
            return folder
    except UnicodeEncodeError:
        pass
    raise InvalidInput("path", str(folder), "must be UTF-8 without NUL")


class Tenant(Log):
    """One tenant's runs, records and log. Every verb speaks of this tenant alone."""

    def __repr__(self) -> str:
        return f"Tenant({self.name!r})"

    # --- writing ---------------------------------------------------------------------------------------------------

    def append(
        self,
        run: str,
        entries: Iterable[Entry],
        *,
        lease: Lease | None = None,
        epoch: int | None = None,
        after: Head | None = None,
        seal: bool = False,
    ) -> Appended:
        """Append entries to the run, whole or not at all, durably; the records that they became.

        The epoch is `lease`'s or `epoch`. With `after`, the run's head must be that one: `Conflict` when it has
        moved, or the records themselves with `replayed` True when these very entries already follow it. With `seal`,
        the batch must end in a conclusion that seals, and the run is sealed in the same transaction. No entries: an
        empty answer, and no transaction.

        Raises `Fenced`, `RunSealed`, `Concluded`, `Conflict`, `DuplicateEffect`, `EffectNotStarted`,
        `EffectSettled`, `DuplicateAdmission`, `NotConcluded`, `Mismatch`, `InvalidName`, `InvalidEntry`,
        `InvalidInput`, `TooLarge`, `Busy`, `IndexStale`, `StoreFull`, `CommitUnknown`.
        """
        request = ask.append(run, entries, epoch=self._epoch(run, lease, epoch), after=after, seal=seal)
        if request.epoch is None:
            raise InvalidInput("epoch", None, "is needed: pass lease= or epoch=")
        if not request.entries:
            return Appended()
        answer: Appended = self._submit(request)
        return answer

    def acquire(self, run: str, *, owner: str, ttl: float) -> Lease:
        """Take the run's lease for `ttl` seconds (at least 1) under a new epoch, which fences every earlier one.

        `LeaseHeld` while a lease is live, also for its own owner; `RunSealed`.
        """
        lease: Lease = self._submit(ask.acquire(run, owner=owner, ttl=ttl))
        return lease

    def renew(self, lease: Lease, *, ttl: float) -> Lease:
        """Extend a live lease to `ttl` seconds from now; `LeaseNotHeld` when it was lost, released or has expired."""
        self._own(lease)
        renewed: Lease = self._submit(ask.renew(lease.run, owner=lease.owner or "", epoch=lease.epoch, ttl=ttl))
        return renewed

    def release(self, lease: Lease) -> None:
        """Give the lease back, so that others need not wait. A lease that is not ours any more is left alone."""
        self._own(lease)
        self._submit(ask.release(lease.run, epoch=lease.epoch))

    def force_lease(self, run: str, *, actor: str, reason: str) -> Lease:
        """Fence the run's owner and leave the lease free; recorded in `~tenant`. `NotFound`, `RunSealed`."""
        lease: Lease = self._submit(ask.force_lease(run, actor=actor, reason=reason))
        return lease

    def request_cancel(self, run: str, *, actor: str, reason: str = "", basis: str = "asserted") -> CancelAnswer:
        """Record in `~tenant` that somebody wants the run to stop. The first request stands (behaviour D18)."""
        answer: CancelAnswer = self._submit(ask.request_cancel(run, actor=actor, reason=reason, basis=basis))
        return answer

    def seal(
        self, run: str, *, lease: Lease | None = None, epoch: int | None = None, outcome: str | None = None
    ) -> Leaf:
        """Bring the concluded run's head into the log and freeze the run; answers with its leaf, also the second time.

        Without lease or epoch the run must not be leased to anybody. `Fenced`, `LeaseHeld`, `NotConcluded`,
        `NotFound`, `Mismatch` when `outcome` is not the recorded one.
        """
        leaf: Leaf = self._submit(ask.seal(run, epoch=self._epoch(run, lease, epoch), outcome=outcome))
        return leaf

    def anchor(self, run: str) -> Leaf:
        """Bring an open run's head into the log, unless its leaf is there already. `Concluded`, `NotFound`."""
        leaf: Leaf = self._submit(ask.anchor(run))
        return leaf

    def anchor_open(self) -> AnchorBatch | None:
        """Bring the heads of all open runs that have moved since the last time into the log, under one leaf.

        None when none has moved. Call it again while the answer says that there are `more`.
        """
        batch: AnchorBatch | None = self._submit(ask.anchor_open())
        return batch

    def group(self, requests: Sequence[ask.Request]) -> list[Any]:
        """Requests (of `sealbook.journal.deciding.requests`) that enter whole or not at all; their answers."""
        answers: list[Any] = self._submit(ask.group(requests))
        return answers

    def leased(self, run: str, *, owner: str, ttl: float = 30.0, case: str | None = None) -> LeasedRun:
        """A block under the run's lease, renewed in the background: `with tenant.leased(run, owner=…) as run:`.

        `ttl` is seconds, at least 2. The block's records belong to `case`, or to the case that the run was admitted
        for. `LeaseHeld` is raised when the block is entered. A run that is sealed has no lease: what it has recorded is
        handed back, and whatever is new is refused (`RunSealed`).
        """
        from sealbook.journal.running.leased import LeasedRun

        return LeasedRun(self, run, owner=owner, ttl=ttl, case=case)

    def admit(
        self,
        source: str,
        id: str,
        *,
        run: str | None = None,
        case: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> Admission:
        """Admit the message `id` from `source`: create a run for it, once, whoever delivers it and however often.

        `Fresh` has the run that was created, of this name or a new one; `InFlight` the run that was created before and
        has not come to rest; `Replayed` the one that rests, concluded or waiting (behaviour P37).
        """
        from sealbook.journal.running.leased import admit

        return admit(self, source, id, run=run, case=case, data=data)

    # --- records and runs ------------------------------------------------------------------------------------------

    def read(self, run: str, *, start: int = 1, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Record]:
        """At most `limit` records of the run from seq `start` on, verified; empty for an unknown run.

        `Corrupt` for a record that is missing, damaged or does not follow its neighbour.
        """
        ids.check_run(run)
        start = ids.check_size("start", start)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Record]:
            first = start if position is None else int.from_bytes(position, "big") + 1
            return listings.run_records(snapshot, self._upcaster, self.name, run, first, limit)

        return self._page(("read", run), after, limit, page)

    def history(
        self, *, start: int | None = None, limit: int = LIMIT_DEFAULT, after: str | None = None, reverse: bool = False
    ) -> Page[Record]:
        """Records of all runs in arrival order, from arrival `start` on; with `reverse`, from it (or the end) back."""
        start = None if start is None else ids.check_size("start", start)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Record]:
            first = start
            if position is not None:
                first = int.from_bytes(position, "big") + (-1 if reverse else 1)
            return listings.history(snapshot, self._upcaster, self.name, first, limit, reverse)

        return self._page(("history", str(reverse)), after, limit, page)

    def follow(
        self, run: str | None = None, *, case: str | None = None, after: str | None = None, from_now: bool = False
    ) -> Following:
        """Records in the order of their arrival, and then those that come, whichever process commits them.

        All records of the tenant, its operators' acts among them, or those of one run, and of one case among these.
        It begins with the first, with what follows the cursor `after`, or with `from_now` behind the last one there is
        now. What this process commits is handed out at once, what another one does within a tenth of a second.

        `InvalidCursor` when `after` was issued for another run, case, tenant or store. The iteration raises `Corrupt`
        when the record that was read last is gone, or is another one: the history was rewritten or cut short, or an
        older copy of the store was put back. It raises `Closed` when the journal is closed, and what reading raises.
        """
        if after is not None and from_now:
            raise InvalidInput("from_now", from_now, "cannot be combined with a cursor, which says where to go on")
        run = None if run is None else ids.check_run(run)
        case = None if case is None else ids.check_case(case)
        source = Source(self._reading, self._journal._version, self._upcaster, self._secret, self.name, run, case)
        last = source.newest() if from_now else None
        if after is not None:
            with self._named():
                last = source.unseal(after)
        return Following(Follower(source, last), self._journal._pulse)

    def head(self, run: str) -> Head:
        """The end of the run's chain: seq 0 and zero bytes for an unknown run."""
        ids.check_run(run)
        with self._reading() as snapshot:
            return listings.head(snapshot, self.name, run)

    def standing(self, run: str) -> Standing | None:
        """Where the run stands, its lease included; None for a run without records."""
        ids.check_run(run)
        with self._reading() as snapshot:
            return listings.standings(snapshot, self.name, [run])[0]

    def effects(self, run: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Effect]:
        """The run's effects in the order of their keys, each by its latest attempt."""
        ids.check_run(run)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Effect]:
            return listings.effects(snapshot, self._upcaster, self.name, run, position, limit)

        return self._page(("effects", run), after, limit, page)

    def effect(self, run: str, key: bytes) -> Effect | None:
        """One effect of the run; None when it was never started."""
        ids.check_run(run)
        if not isinstance(key, bytes) or len(key) != EFFECT_KEY_BYTES:
            raise InvalidInput("effect key", key, f"must be an EffectKey ({EFFECT_KEY_BYTES} bytes)")
        with self._reading() as snapshot:
            return listings.effect(snapshot, self._upcaster, self.name, run, key)

    def lease(self, run: str) -> Lease | None:
        """The run's lease as it is recorded, expired or not; None for one never leased, or sealed."""
        ids.check_run(run)
        place: Place = (tables.LEASES, tables.run_key(self.name, run))
        with self._reading() as snapshot:
            row = LeaseRow.decode(place, run, snapshot.get_many([place])[0])
            return None if row is None else leases.granted(self.name, run, row)

    def runs(
        self, *, limit: int = LIMIT_DEFAULT, after: str | None = None, prefix: str = "", all: bool = False
    ) -> Page[Standing]:
        """Runs by name, those that begin with `prefix`; with `all` also the store's own (`~tenant`)."""
        if prefix:
            ids.check_run(prefix)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Standing]:
            return listings.runs(snapshot, self.name, position, limit, prefix, all)

        return self._page(("runs", prefix, str(all)), after, limit, page)

    def admitted_as(self, source: str, id: str) -> str | None:
        """The run that this admission key created; None when it was never honoured."""
        key = tables.admission_key(self.name, self._secret, ids.check_source(source), ids.check_admission_id(id))
        with self._reading() as snapshot:
            value = snapshot.get_many([(tables.ADMISSIONS, key)])[0]
            return None if value is None else read_holder(key, value)

    def cancellation(self, run: str) -> Cancellation | None:
        """The request that the run be cancelled; None when nobody asked."""
        ids.check_run(run)
        with self._reading() as snapshot:
            value = snapshot.get_many([(tables.CANCELS, tables.run_key(self.name, run))])[0]
            if value is None:
                return None
            place = (ids.OPERATOR_RUN, int.from_bytes(value, "big"))
            [record] = listings.records_at(snapshot, self._upcaster, self.name, [place])
            return cancellation_of(record)

    # --- listings over the indexes ---------------------------------------------------------------------------------

    def waiting(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Waiting]:
        """Suspended runs, soonest instant first; those that wait for an event alone last."""

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Waiting]:
            return listings.waiting_runs(snapshot, self._upcaster, self.name, position, limit)

        return self._page(("waiting",), after, limit, page, indexed=True)

    def by_outcome(self, outcome: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Standing]:
        """Runs whose last conclusion had this outcome, newest first."""
        ids.check_outcome(outcome)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Standing]:
            return listings.by_outcome(snapshot, self.name, outcome, position, limit)

        return self._page(("by_outcome", outcome), after, limit, page, indexed=True)

    def count_by_outcome(self, outcome: str) -> int:
        """How many runs `by_outcome` lists in all."""
        ids.check_outcome(outcome)
        with self._reading(indexed=True) as snapshot:
            return listings.count_by_outcome(snapshot, self.name, outcome)

    def recent(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Standing]:
        """Runs by their last record, newest first. A run that moves between two pages appears again at the top."""

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Standing]:
            return listings.by_activity(snapshot, self.name, None, position, limit)

        return self._page(("recent",), after, limit, page, indexed=True)

    def recent_from(self, source: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Standing]:
        """The same for the runs that one source admitted."""
        ids.check_source(source)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Standing]:
            return listings.by_activity(snapshot, self.name, source, position, limit)

        return self._page(("recent_from", source), after, limit, page, indexed=True)

    def case_history(self, case: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Record]:
        """Every record of the case, whichever run wrote it, by run and seq."""
        ids.check_case(case)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Record]:
            return listings.case_records(snapshot, self._upcaster, self.name, case, position, limit)

        return self._page(("case_history", case), after, limit, page, indexed=True)

    def names(self, index: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[str]:
        """The names that there are of `case`, `source` or `outcome`, in the order of their bytes."""
        if index not in listings.NAMED:
            raise InvalidInput("index", index, f"is none of {', '.join(listings.NAMED)}")

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[str]:
            return listings.names(snapshot, self.name, index, position, limit)

        return self._page(("names", index), after, limit, page, indexed=True)

    def abandoned(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Abandoned]:
        """Open runs whose lease expired without being released, oldest expiry first."""
        moment = self._journal._clock()

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Abandoned]:
            return listings.abandoned(snapshot, moment, self.name, position, limit)

        return self._page(("abandoned",), after, limit, page)

    # --- the log ---------------------------------------------------------------------------------------------------

    def _origin_in(self, snapshot: Snapshot) -> str:
        """The base, or base/tenant for all but `default` (A24); the new one for a log that went on under another."""
        return adoption.adopted_origin(snapshot, self.name) or tenant_origin(self._journal.origin, self.name)

    def adopt_log(self, origin: str, old_checkpoint: bytes, *, actor: str, reason: str = "") -> AdoptedLog:
        """Let the log go on under a new origin, from the last known checkpoint of the old one, a signed note.

        For a log that cannot be extended any more, because more was published than the store has: its first leaf
        states that checkpoint, and its own leaves follow. The caller has verified the note's signature. Recorded in
        `~tenant`. `InvalidInput` when the log can still be extended, or the checkpoint is of another log;
        `OriginsCoincide` when another log has the origin, or could come to have it.
        """
        try:
            old = Checkpoint.parse(Note.parse(old_checkpoint).text)
        except Malformed as error:
            raise InvalidInput("old checkpoint", old_checkpoint, str(error)) from error
        if old.origin != self.origin:
            raise InvalidInput("old checkpoint", old.origin, f"is of another log than {self.origin}")
        taken = {name: self._journal.tenant(name).origin for name in {*self._journal.tenants(), self.name}}
        adoption.check_free(origin, self._journal.origin, self.name, taken)
        if self._journal.store_origin is not None:
            check_store_origin(self._journal.store_origin, self._journal.origin, {self.name: origin})
        adopted: AdoptedLog = self._submit(ask.adopt_log(origin, old, old_checkpoint, actor=actor, reason=reason))
        return adopted

    def inclusion_proof(self, run: str, size: int | None = None) -> InclusionProof | None:
        """The proof of the run's highest leaf in the log, its own or an anchor batch's, or of that below `size`.

        None when the run has no leaf below that size; `NotFound` for an unknown run; `InvalidInput` for a size that
        the log has not reached. It proves presence, never that no newer leaf exists.
        """
        ids.check_run(run)
        size = None if size is None else ids.check_size("size", size)
        with self._reading() as snapshot:
            standing = known_standing(snapshot, self.name, run)
            return anchors.inclusion(snapshot, standing, size)

    def log_positions(self, runs: Sequence[str]) -> list[int | None]:
        """The log position of each run's seal, None for a run that is not sealed, in one pass."""
        names = [ids.check_run(run) for run in runs]
        with self._reading() as snapshot:
            found = listings.standings(snapshot, self.name, names)
            return [None if standing is None else standing.seal for standing in found]

    def verify(self, run: str, *, trust: Trust = NOTHING_BROUGHT) -> CheckReport:
        """Derive one run again from its record bytes, down to its leaves in the log. `NotFound` for an unknown run.

        Of `trust` the keys and signatures count; outside checkpoints are for the whole store (`Journal.check`).
        """
        ids.check_run(run)
        with self._reading() as snapshot:
            return whole.check_run(snapshot, self._journal._setting, self.name, run, trust)

    # --- inside ----------------------------------------------------------------------------------------------------

    @property
    def _upcaster(self) -> Upcaster:
        return self._journal._setting.upcaster

    @property
    def _secret(self) -> bytes:
        return self._journal._setting.identity.secret

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

    @contextmanager
    def _reading(self, *, indexed: bool = False) -> Iterator[Snapshot]:
        with self._named(), self._journal._snapshot() as snapshot:
            if indexed and not StoreRow.decode(snapshot.get_many([tables.STORE_PLACE])[0]).index_current:
                raise IndexStale
            yield snapshot

    def _epoch(self, run: str, lease: Lease | None, epoch: int | None) -> int | None:
        if lease is None:
            return epoch
        self._own(lease)
        if lease.run != run:
            raise InvalidInput("lease", lease.run, f"is that of another run than {run}")
        if epoch is not None and epoch != lease.epoch:
            raise InvalidInput("epoch", epoch, f"is not that of the lease, {lease.epoch}")
        return lease.epoch

    def _own(self, lease: Lease) -> None:
        if not isinstance(lease, Lease):
            raise InvalidInput("lease", lease, "must be a Lease, as acquire() returns it")
        if lease.tenant != self.name:
            raise InvalidInput("lease", lease.run, f"is that of another tenant than {self.name}")
