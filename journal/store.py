"""`Journal` and `Tenant`: the public verbs, and the only place that opens transactions.

A verb that reads takes one snapshot for one answer. A verb that writes hands one request to the engine, which decides
it under the store's write lock and commits it durably before the verb returns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sealbook.indexes.standing import Standing
from sealbook.journal import adoption, anchoring, cursor, ids, publishing, reading, reindexing, seals, tables
from sealbook.journal import check as checking
from sealbook.journal import lease as leases
from sealbook.journal import requests as ask
from sealbook.journal.adoption import AdoptedLog
from sealbook.journal.anchoring import AnchorBatch
from sealbook.journal.batch import (
    Appended,
    CancelAnswer,
    Cancellation,
    Setting,
    cancellation_of,
    decide,
    read_holder,
)
from sealbook.journal.check import CheckReport
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Applied, Clock, Engine, Moment, Place, Snapshot, Unknown, Work, Writes
from sealbook.journal.entries import EFFECT_KEY_BYTES, Entry
from sealbook.journal.errors import (
    Busy,
    CommitUnknown,
    Corrupt,
    IndexStale,
    InvalidInput,
    NotFound,
    ReadOnly,
    SealbookError,
    WrongFormat,
)
from sealbook.journal.identity import check_store_row, new_identity, parse_identity
from sealbook.journal.lease import Lease
from sealbook.journal.origins import DEFAULT_TENANT, check_origin, tenant_origin
from sealbook.journal.publishing import KeptCheckpoint, Sign
from sealbook.journal.reading import Abandoned, Effect, Page, Part, Waiting
from sealbook.journal.record import Head, IdentityUpcaster, Record, Signer, Upcaster, check_signer
from sealbook.journal.seals import ConsistencyProof, InclusionProof, Leaf
from sealbook.journal.tables import CheckpointState, LeaseRow, StoreRow
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed
from sealbook.merkle.keys import SignatureLine
from sealbook.merkle.note import Note
from sealbook.merkle.tree import Node

T = TypeVar("T")

DEFAULT_ORIGIN = "sealbook"
LIMIT_DEFAULT = 100
LOCK_TIMEOUT_S = 5.0
RETRIES_MAX = 8


class Journal:
    """An open store. Thread-safe; a context manager that closes it.

    Open one with `Journal.open` or `Journal.in_memory`; one process opens a store once and shares the journal.
    """

    def __init__(self, engine: Engine, setting: Setting, clock: Clock, origin: str) -> None:
        origin = check_origin(origin)
        if setting.signer is not None:
            check_signer(setting.signer)
        self._engine = engine
        self._setting = setting
        self._clock = clock
        self._origin = origin

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
        upcaster: Upcaster | None = None,
        reindex: bool = False,
        lock_timeout: float = LOCK_TIMEOUT_S,
    ) -> Journal:
        """Open the store at `path`, a folder such as `agents.sealbook`.

        Without `create` a missing store is `StoreMissing`. `lock_timeout` is how many seconds a write waits for
        writers in other processes before it is `Busy`. `origin` is the base name of the tenants' logs. `reindex`
        rebuilds stale indexes while opening.

        Raises `StoreMissing`, `WrongFormat`, `UnknownVersion`, `Corrupt`, `StoreFull`, `EngineFailed` or `Busy`.
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
            journal = cls(engine, Setting(identity, signer, upcaster or IdentityUpcaster()), clock, origin)
            check_store_row(identity, journal._store_row())
            if reindex and not journal._store_row().index_current:
                journal.reindex()
        except BaseException:
            engine.close()
            raise
        return journal

    @classmethod
    def in_memory(
        cls,
        *,
        signer: Signer | None = None,
        clock: Clock | None = None,
        origin: str = DEFAULT_ORIGIN,
        upcaster: Upcaster | None = None,
    ) -> Journal:
        """A new store in memory, gone when it is closed. It needs no file system at all."""
        return cls.over(
            MemoryEngine(clock=clock or system_clock), signer=signer, clock=clock, origin=origin, upcaster=upcaster
        )

    @classmethod
    def over(
        cls,
        engine: Engine,
        *,
        signer: Signer | None = None,
        clock: Clock | None = None,
        origin: str = DEFAULT_ORIGIN,
        upcaster: Upcaster | None = None,
    ) -> Journal:
        """A new store over an empty engine of your own: any that keeps the port (`sealbook.journal.engine.port`)."""
        identity = new_identity(engine_format=0)
        journal = cls(engine, Setting(identity, signer, upcaster or IdentityUpcaster()), clock or system_clock, origin)

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
            return names

    def check(self, *, progress: Callable[[int, int], None] | None = None) -> CheckReport:
        """Derive everything again from the record bytes of all tenants, and report every difference.

        `progress` is called now and then with (records checked, records in all).
        """
        with self._snapshot() as snapshot:
            return checking.check_store(snapshot, self._setting, progress=progress)

    def reindex(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Drop the indexes and build them again in pages; returns how many rows they have.

        Meanwhile, and after a rebuild that was cut short, listings and writers get `IndexStale`.
        """
        return reindexing.reindex(self._write, progress=progress)

    def info(self) -> dict[str, Any]:
        """What the store is and how much it holds: ids, formats, index state, rows per table."""
        identity = self._setting.identity
        with self._snapshot() as snapshot:
            row = StoreRow.decode(snapshot.get_many([tables.STORE_PLACE])[0])
            counts = {table: snapshot.count(table) for table in tables.TABLES}
        return {
            "store": identity.store_id.hex(),
            "lineage": identity.lineage_id.hex(),
            "format": identity.format,
            "engine_format": identity.engine_format,
            "index_version": row.index_version,
            "index_current": row.index_current,
            "restoration": row.restoration,
            "origin": self._origin,
            "tenants": counts[tables.TENANTS],
            "runs": counts[tables.STATE],
            "records": counts[tables.JOURNAL],
            "leaves": counts[tables.LEAVES],
            "rows": counts,
        }

    def close(self) -> None:
        """Close the store. Closing twice is harmless; any other verb afterwards is `Closed`."""
        self._engine.close()

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
        setting = self._setting
        [answer] = self._write(lambda snapshot, moment: decide([(tenant, request)], snapshot, moment, setting))
        if isinstance(answer, SealbookError):
            raise answer
        return answer


def _folder(path: str | os.PathLike[str]) -> Path:
    """The folder's path; `InvalidInput` for one that the file system, or LMDB, cannot be given."""
    folder = Path(path)
    try:
        if b"\0" not in str(folder).encode():
            return folder
    except UnicodeEncodeError:
        pass
    raise InvalidInput("path", str(folder), "must be UTF-8 without NUL")


class Tenant:
    """One tenant's runs, records and log. Every verb speaks of this tenant alone."""

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal = journal
        self.name = name

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
        """Requests (of `sealbook.journal.requests`) that enter whole or not at all; their answers."""
        answers: list[Any] = self._submit(ask.group(requests))
        return answers

    # --- records and runs ------------------------------------------------------------------------------------------

    def read(self, run: str, *, start: int = 1, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Record]:
        """At most `limit` records of the run from seq `start` on, verified; empty for an unknown run.

        `Corrupt` for a record that is missing, damaged or does not follow its neighbour.
        """
        ids.check_run(run)
        start = ids.check_size("start", start)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Record]:
            first = start if position is None else int.from_bytes(position, "big") + 1
            return reading.run_records(snapshot, self._upcaster, self.name, run, first, limit)

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
            return reading.history(snapshot, self._upcaster, self.name, first, limit, reverse)

        return self._page(("history", str(reverse)), after, limit, page)

    def head(self, run: str) -> Head:
        """The end of the run's chain: seq 0 and zero bytes for an unknown run."""
        ids.check_run(run)
        with self._reading() as snapshot:
            return reading.head(snapshot, self.name, run)

    def standing(self, run: str) -> Standing | None:
        """Where the run stands, its lease included; None for a run without records."""
        ids.check_run(run)
        with self._reading() as snapshot:
            return reading.standings(snapshot, self.name, [run])[0]

    def effects(self, run: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Effect]:
        """The run's effects in the order of their keys, each by its latest attempt."""
        ids.check_run(run)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Effect]:
            return reading.effects(snapshot, self._upcaster, self.name, run, position, limit)

        return self._page(("effects", run), after, limit, page)

    def effect(self, run: str, key: bytes) -> Effect | None:
        """One effect of the run; None when it was never started."""
        ids.check_run(run)
        if not isinstance(key, bytes) or len(key) != EFFECT_KEY_BYTES:
            raise InvalidInput("effect key", key, f"must be an EffectKey ({EFFECT_KEY_BYTES} bytes)")
        with self._reading() as snapshot:
            return reading.effect(snapshot, self._upcaster, self.name, run, key)

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
            return reading.runs(snapshot, self.name, position, limit, prefix, all)

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
            [record] = reading.records_at(snapshot, self._upcaster, self.name, [place])
            return cancellation_of(record)

    # --- listings over the indexes ---------------------------------------------------------------------------------

    def waiting(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Waiting]:
        """Suspended runs, soonest instant first; those that wait for an event alone last."""

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Waiting]:
            return reading.waiting_runs(snapshot, self._upcaster, self.name, position, limit)

        return self._page(("waiting",), after, limit, page, indexed=True)

    def by_outcome(self, outcome: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Standing]:
        """Runs whose last conclusion had this outcome, newest first."""
        ids.check_outcome(outcome)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Standing]:
            return reading.by_outcome(snapshot, self.name, outcome, position, limit)

        return self._page(("by_outcome", outcome), after, limit, page, indexed=True)

    def count_by_outcome(self, outcome: str) -> int:
        """How many runs `by_outcome` lists in all."""
        ids.check_outcome(outcome)
        with self._reading(indexed=True) as snapshot:
            return reading.count_by_outcome(snapshot, self.name, outcome)

    def recent(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Standing]:
        """Runs by their last record, newest first. A run that moves between two pages appears again at the top."""

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Standing]:
            return reading.by_activity(snapshot, self.name, None, position, limit)

        return self._page(("recent",), after, limit, page, indexed=True)

    def recent_from(self, source: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Standing]:
        """The same for the runs that one source admitted."""
        ids.check_source(source)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Standing]:
            return reading.by_activity(snapshot, self.name, source, position, limit)

        return self._page(("recent_from", source), after, limit, page, indexed=True)

    def case_history(self, case: str, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Record]:
        """Every record of the case, whichever run wrote it, by run and seq."""
        ids.check_case(case)

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Record]:
            return reading.case_records(snapshot, self._upcaster, self.name, case, position, limit)

        return self._page(("case_history", case), after, limit, page, indexed=True)

    def abandoned(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Abandoned]:
        """Open runs whose lease expired without being released, oldest expiry first."""
        moment = self._journal._clock()

        def page(snapshot: Snapshot, position: bytes | None, limit: int) -> Part[Abandoned]:
            return reading.abandoned(snapshot, moment, self.name, position, limit)

        return self._page(("abandoned",), after, limit, page)

    # --- the log ---------------------------------------------------------------------------------------------------

    @property
    def origin(self) -> str:
        """The name of the tenant's log in every checkpoint: the base, or base/tenant for all but `default` (A24); the
        new one for a log that went on under another origin."""
        with self._reading() as snapshot:
            return self._origin_in(snapshot)

    def _origin_in(self, snapshot: Snapshot) -> str:
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
        adopted: AdoptedLog = self._submit(ask.adopt_log(origin, old, old_checkpoint, actor=actor, reason=reason))
        return adopted

    def checkpoint(self) -> Checkpoint:
        """The tenant's log as it stands: origin, size, root."""
        with self._reading() as snapshot:
            return seals.checkpoint(snapshot, self.name, self._origin_in(snapshot))

    def inclusion_proof(self, run: str, size: int | None = None) -> InclusionProof | None:
        """The proof of the run's highest leaf in the log, its own or an anchor batch's, or of that below `size`.

        None when the run has no leaf below that size; `NotFound` for an unknown run; `InvalidInput` for a size that
        the log has not reached. It proves presence, never that no newer leaf exists.
        """
        ids.check_run(run)
        size = None if size is None else ids.check_size("size", size)
        with self._reading() as snapshot:
            standing = reading.known_standing(snapshot, self.name, run)
            return anchoring.inclusion(snapshot, standing, size)

    def sign_checkpoint(self, sign: Sign) -> KeptCheckpoint:
        """Sign the log as it stands and keep the signed checkpoint; the same log is signed again with new keys only.

        `sign(checkpoint, consistent)` promises and signs: `Keyring.sign_checkpoint`. Before it is called, leaves, nodes
        and the checkpoint to be signed are durable. Raises what `sign` refuses (`PublishedAhead`,
        `PublishedDiffers`), and `Corrupt` when the log is shorter than what this store signed.
        """
        wanted = self.checkpoint()
        with self._reading() as snapshot:
            signed = publishing.latest(snapshot, self.name, published=False)
        if signed is not None and signed.checkpoint.size > wanted.size:
            raise Corrupt(f"the log has {wanted.size} leaves, and {signed.checkpoint.size} were signed")
        self._submit(ask.KeepCheckpoint(wanted, CheckpointState.PENDING, b""))

        def consistent(published: Checkpoint) -> bool:
            with self._reading() as snapshot:
                return publishing.begins_with(snapshot, self.name, wanted, published)

        lines = sign(wanted, consistent)
        return self._keep(Note(wanted.text(), tuple(lines)), CheckpointState.SIGNED)

    def keep_cosignatures(self, size: int, lines: Sequence[SignatureLine]) -> KeptCheckpoint:
        """Add lines, which the caller has verified, to the signed checkpoint of this size."""
        return self._keep(self._signed_note(size).adding(lines), CheckpointState.SIGNED)

    def publish_checkpoint(self, size: int, *, without_quorum: bool = False) -> KeptCheckpoint:
        """Let the signed checkpoint of this size be handed out. `PublishedAhead` when a larger one was."""
        state = CheckpointState.WITHOUT_QUORUM if without_quorum else CheckpointState.PUBLISHED
        return self._keep(self._signed_note(size), state)

    def signed_checkpoint(self, size: int | None = None) -> KeptCheckpoint | None:
        """The largest checkpoint that was signed, or the one of this size; None when there is none."""
        with self._reading() as snapshot:
            if size is None:
                return publishing.latest(snapshot, self.name, published=False)
            return publishing.kept_at(snapshot, self.name, ids.check_size("size", size))

    def published_checkpoint(self) -> bytes | None:
        """The latest checkpoint that was published, as the signed note that is handed out; None before the first."""
        with self._reading() as snapshot:
            kept = publishing.latest(snapshot, self.name, published=True)
        return None if kept is None or kept.note is None else kept.note.encode()

    def published_sizes(self, above: int, limit: int = LIMIT_DEFAULT) -> list[int]:
        """The sizes above this one that were published, at most `limit` of them, smallest first."""
        above, limit = ids.check_size("above", above), ids.check_limit(limit)
        with self._reading() as snapshot:
            return publishing.published_sizes(snapshot, self.name, above, limit)

    def _signed_note(self, size: int) -> Note:
        kept = self.signed_checkpoint(size)
        if kept is None or kept.note is None:
            raise NotFound("signed checkpoint of size", size)
        return kept.note

    def _keep(self, note: Note, state: CheckpointState) -> KeptCheckpoint:
        request = ask.KeepCheckpoint(Checkpoint.parse(note.text), state, note.encode())
        kept: KeptCheckpoint = self._submit(request)
        return kept

    def consistency_proof(self, old_size: int) -> ConsistencyProof:
        """The proof that the log of `old_size` leaves is the beginning of the log as it stands."""
        old_size = ids.check_size("old size", old_size)
        with self._reading() as snapshot:
            return seals.consistency(snapshot, self.name, old_size)

    def leaf_entries(self, start: int, limit: int) -> list[bytes]:
        """The entries of at most `limit` leaves of the log from number `start` on, as they are stored."""
        start, limit = ids.check_size("start", start), ids.check_limit(limit)
        with self._reading() as snapshot:
            return seals.leaf_entries(snapshot, self.name, start, limit)

    def tree_nodes(self, nodes: Sequence[Node]) -> Sequence[bytes]:
        """The hashes of these complete subtrees of the log, in their order: what `merkle.tree` computes from."""
        with self._reading() as snapshot:
            return seals.snapshot_reader(self.name, snapshot)(nodes)

    def log_positions(self, runs: Sequence[str]) -> list[int | None]:
        """The log position of each run's seal, None for a run that is not sealed, in one pass."""
        names = [ids.check_run(run) for run in runs]
        with self._reading() as snapshot:
            found = reading.standings(snapshot, self.name, names)
            return [None if standing is None else standing.seal for standing in found]

    def verify(self, run: str) -> CheckReport:
        """Derive one run again from its record bytes, down to its leaves in the log. `NotFound` for an unknown run."""
        ids.check_run(run)
        with self._reading() as snapshot:
            return checking.check_run(snapshot, self._journal._setting, self.name, run)

    # --- inside ----------------------------------------------------------------------------------------------------

    @property
    def _upcaster(self) -> Upcaster:
        return self._journal._setting.upcaster

    @property
    def _secret(self) -> bytes:
        return self._journal._setting.identity.secret

    def _submit(self, request: ask.Request) -> Any:
        try:
            return self._journal._submit(self.name, request)
        except SealbookError as error:
            error.tenant = self.name  # as `_named` does, without the cost of its context manager
            raise

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
            position = None if after is None else cursor.decode(self._secret, self.name, listing, after)
            if limit == 0:
                return Page((), after)
            part = read(snapshot, position, limit)
        if part.last is None:
            return Page(part.items)
        return Page(part.items, cursor.encode(self._secret, self.name, listing, part.last))

    @contextmanager
    def _reading(self, *, indexed: bool = False) -> Iterator[Snapshot]:
        with self._named(), self._journal._snapshot() as snapshot:
            if indexed and not StoreRow.decode(snapshot.get_many([tables.STORE_PLACE])[0]).index_current:
                raise IndexStale
            yield snapshot

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors name the run alone; the tenant is their attribute (behaviour D8)."""
        try:
            yield
        except SealbookError as error:
            error.tenant = self.name
            raise

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
