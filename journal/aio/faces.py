"""The faces themselves: every verb of `Journal`, `Tenant` and `StoreLog`, and which kind of awaited verb it becomes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from sealbook.journal.aio.following import followed
from sealbook.journal.aio.host import Host
from sealbook.journal.aio.leased import AsyncLeasedRun, admit, leased
from sealbook.journal.aio.verbs import Face, WritingFace, long, paged, short, written
from sealbook.journal.deciding import requests
from sealbook.journal.errors import Closed, InvalidInput, WrongLoop
from sealbook.journal.running.admitting import Admission
from sealbook.journal.running.leased import promised_by
from sealbook.journal.schema.origins import DEFAULT_TENANT
from sealbook.journal.store.asking import Asking
from sealbook.journal.store.journal import Journal
from sealbook.journal.store.logs import Log, StoreLog
from sealbook.journal.store.tenant import Tenant
from sealbook.journal.writing.writer import Writer

P = ParamSpec("P")
J = TypeVar("J", bound="AsyncJournal")


class _Opening(Generic[P]):
    """A way to open a journal, as one to make a face that opens it so when it is entered."""

    def __init__(self, make: Callable[P, Journal]) -> None:
        self._make = make

    def __get__(self, instance: object, face: type[J]) -> Callable[P, J]:
        @wraps(self._make)
        def opening(*args: P.args, **kwargs: P.kwargs) -> J:
            return face(lambda: self._make(*args, **kwargs))

        return opening


class AsyncJournal(Face):
    """An open store in an event loop: the verbs of `Journal`, awaited. `sealbook.journal.aio` says what holds of it."""

    def __init__(self, journal: Journal | Callable[[], Journal]) -> None:
        """Speak for this journal, or for the one that this call will open."""
        if not isinstance(journal, Journal) and not callable(journal):
            raise InvalidInput("journal", journal, "must be an open Journal: for a path there is `open`")
        self._journal = journal if isinstance(journal, Journal) else None
        self._open = None if isinstance(journal, Journal) else journal
        self._host: Host | None = None
        self._closed = False

    open = _Opening(Journal.open)
    in_memory = _Opening(Journal.in_memory)
    over = _Opening(Journal.over)

    @staticmethod
    @abstractmethod
    def _new_host() -> Host:
        """The event loop that is running here."""

    async def __aenter__(self) -> Self:
        if self._host is not None:
            raise WrongLoop("it was entered already: make another face over the same journal")
        host = self._new_host()
        if self._open is not None:
            self._journal = await host.in_thread(self._open)
        self._host = host
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let nobody in any more, wait for every verb under way, and close the journal, if this face opened it.

        A cancellation waits for all that. Closing twice is harmless; any other verb afterwards is `Closed`.
        """
        if self._host is not None:
            self._host.check()
        self._closed = True
        if self._host is not None:
            await self._host.wind_up(self._close)

    def _close(self) -> None:
        if self._open is not None:
            self._sync.close()
        self._sync.view.wakeups.beat()  # whoever follows through this face sees that it is closed

    @property
    def origin(self) -> str:
        """The base name of the tenants' logs."""
        return self._sync.origin

    @property
    def store_origin(self) -> str | None:
        """The name of the store log; None where none is kept."""
        return self._sync.store_origin

    @property
    def store_log(self) -> AsyncStoreLog:
        """The log of all tenants' logs. `InvalidInput` when the journal was opened without `store_origin`."""
        return AsyncStoreLog(self, self._sync.store_log)

    @property
    def store_id(self) -> bytes:
        """The 16 bytes that name this store and no other."""
        return self._sync.store_id

    @property
    def readonly(self) -> bool:
        """Whether every write is refused with `ReadOnly`."""
        return self._sync.readonly

    def tenant(self, name: str = DEFAULT_TENANT) -> AsyncTenant:
        """The tenant's part of the store. It comes into being with its first record; `InvalidName` for a bad name."""
        return AsyncTenant(self, self._sync.tenant(name))

    tenants = long(Journal.tenants)
    check = long(Journal.check)
    check_range = long(Journal.check_range)
    reindex = long(Journal.reindex)
    info = short(Journal.info)

    @promised_by(Journal.statistics)
    async def statistics(self) -> dict[str, Any]:
        return self._sync.statistics()  # also after closing, from memory

    @property
    def _sync(self) -> Journal:
        if self._journal is None:
            raise WrongLoop("enter it first, with `async with`")
        return self._journal

    def _ready(self) -> Host:
        if self._closed:
            raise Closed
        if self._host is None:
            raise WrongLoop("enter it first, with `async with`")
        self._host.check()
        return self._host


def _origin(log: Log) -> str:
    """The log's name in every checkpoint. It is read from the store: a property of the synchronous log, a verb here."""
    return log.origin


def _gathering(log: StoreLog) -> requests.GatherHeads:
    return requests.GatherHeads(log.origin)


class AsyncLog(WritingFace):
    """One Merkle log of a store: the verbs of `Log`, awaited."""

    def __init__(self, journal: AsyncJournal, log: Log) -> None:
        self.name = log.name
        self._face = journal
        self._log = log

    origin = short(_origin)
    checkpoint = short(Log.checkpoint)
    consistency_proof = short(Log.consistency_proof)
    signed_checkpoint = short(Log.signed_checkpoint)
    published_checkpoint = short(Log.published_checkpoint)
    sign_checkpoint = long(Log.sign_checkpoint)
    keep_cosignatures = long(Log.keep_cosignatures)
    publish_checkpoint = long(Log.publish_checkpoint)
    published_sizes = long(Log.published_sizes)
    leaf_entries = long(Log.leaf_entries)
    tree_nodes = long(Log.tree_nodes)

    @property
    def _sync(self) -> Any:
        return self._log

    @property
    def _writer(self) -> Writer:
        return self._log.view.writer

    def _ready(self) -> Host:
        return self._face._ready()


class AsyncTenant(AsyncLog):
    """One tenant's runs, records and log: the verbs of `Tenant`, awaited. Every verb speaks of this tenant alone."""

    def __init__(self, journal: AsyncJournal, tenant: Tenant) -> None:
        super().__init__(journal, tenant)
        self._asking = Asking(tenant.name)

    def __repr__(self) -> str:
        return f"AsyncTenant({self.name!r})"

    append = written(Tenant.append, Asking.append)
    acquire = written(Tenant.acquire, Asking.acquire)
    renew = written(Tenant.renew, Asking.renew)
    release = written(Tenant.release, Asking.release)
    force_lease = written(Tenant.force_lease, Asking.force_lease)
    request_cancel = written(Tenant.request_cancel, Asking.request_cancel)
    seal = written(Tenant.seal, Asking.seal)
    anchor = written(Tenant.anchor, Asking.anchor)
    anchor_open = written(Tenant.anchor_open, Asking.anchor_open)
    group = written(Tenant.group, Asking.group)

    @promised_by(Tenant.leased)
    def leased(
        self, run: str, *, owner: str, ttl: float = 30.0, case: str | None = None
    ) -> AbstractAsyncContextManager[AsyncLeasedRun]:
        return leased(self, run, owner=owner, ttl=ttl, case=case)

    @promised_by(Tenant.admit)
    async def admit(
        self,
        source: str,
        id: str,
        *,
        run: str | None = None,
        case: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> Admission:
        return await admit(self, source, id, run=run, case=case, data=data)

    read = paged(Tenant.read)
    history = paged(Tenant.history)
    follow = followed(Tenant.follow)
    head = short(Tenant.head)
    standing = short(Tenant.standing)
    effects = paged(Tenant.effects)
    effect = short(Tenant.effect)
    lease = short(Tenant.lease)
    runs = paged(Tenant.runs)
    admitted_as = short(Tenant.admitted_as)
    cancellation = short(Tenant.cancellation)

    waiting = paged(Tenant.waiting)
    by_outcome = paged(Tenant.by_outcome)
    count_by_outcome = long(Tenant.count_by_outcome)  # in the time that all of them take to count
    recent = paged(Tenant.recent)
    recent_from = paged(Tenant.recent_from)
    case_history = long(Tenant.case_history)  # its records lie all over the store
    names = paged(Tenant.names)
    abandoned = long(Tenant.abandoned)  # whose oldest lease expired first is known when all have been read

    adopt_log = long(Tenant.adopt_log)
    inclusion_proof = short(Tenant.inclusion_proof)
    log_positions = long(Tenant.log_positions)
    verify = long(Tenant.verify)


class AsyncStoreLog(AsyncLog):
    """The log of all tenants' logs: the verbs of `StoreLog`, awaited."""

    def __init__(self, journal: AsyncJournal, log: StoreLog) -> None:
        super().__init__(journal, log)
        self._asking = log

    def __repr__(self) -> str:
        return f"AsyncStoreLog({self._log.origin!r})"

    gather = written(StoreLog.gather, _gathering)
    tags = long(StoreLog.tags)
    head = short(StoreLog.head)
    inclusion_proof = short(StoreLog.inclusion_proof)
