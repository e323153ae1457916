"""The engine itself: one writer at a time, snapshots beside it, and what is done when either fails."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import lmdb

from sealbook.journal import events
from sealbook.journal.engine.lmdb import datafile, forks
from sealbook.journal.engine.lmdb import folder as store_folder
from sealbook.journal.engine.lmdb.creation import create_files
from sealbook.journal.engine.lmdb.environment import Environment, StaleEnvironment, TablesChanged
from sealbook.journal.engine.lmdb.failures import failure_of
from sealbook.journal.engine.lmdb.outcome import CommitFailed, WriteProgress, settled
from sealbook.journal.engine.lmdb.views import FORKED, EngineView, TablesMissing
from sealbook.journal.engine.port import (
    DURABLE,
    NOT_WRITTEN,
    UNDECIDED,
    Applied,
    Clock,
    Snapshot,
    Traits,
    Unknown,
    Work,
)
from sealbook.journal.errors import (
    Busy,
    EngineFailed,
    OpenedBeforeFork,
    ReadOnly,
    SealbookError,
    StoreFull,
)
from sealbook.journal.threads.turns import Gate

ENGINE_FORMAT: Final = datafile.DATA_FORMAT
KEY_BYTES_MAX: Final = 511  # compiled into LMDB
VALUE_BYTES_MAX: Final = 2**31 - 1  # what a py-lmdb call takes; the journal's own limits are far below
MAP_BYTES_START: Final = 1 << 30  # address space, not disk; it doubles when it is used up
LOCK_TIMEOUT: Final = 5.0  # seconds


_T = TypeVar("_T")


class LmdbEngine:
    """A store on disk. Made by `create` or `open`; all of it may be called from any thread."""

    def __init__(
        self,
        folder: Path,
        *,
        readonly: bool,
        clock: Clock,
        lock_timeout: float,
        map_bytes_start: int,
    ) -> None:
        """Not for callers: see `create` and `open`."""
        self._folder = folder
        self._readonly = readonly
        self._clock = clock
        self._lock_timeout = lock_timeout
        self._environment = Environment(
            folder, readonly=readonly, lock_timeout=lock_timeout, map_bytes_start=map_bytes_start
        )
        self._turn = Gate()  # owned by the one thread that writes
        self._identity_text = b""

    # --- opening --------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        identity_text: bytes,
        store_value: bytes,
        clock: Clock,
        lock_timeout: float = LOCK_TIMEOUT,
        tables: Iterable[str] = (),
        map_bytes_start: int = MAP_BYTES_START,
    ) -> LmdbEngine:
        """Create the store and open it. One that stands there already is opened as it is.

        `identity_text` becomes SEALBOOK, `store_value` the row `STORE_PLACE`. Of two processes that create at once
        one does, and the other opens what it made.
        """
        folder = Path(path)
        store_folder.make(folder)
        if not store_folder.is_complete(folder):
            with forks.OPENING[0]:
                create_files(folder, identity_text, store_value, lock_timeout, tables, map_bytes_start)
        return cls.open(
            path,
            readonly=False,
            clock=clock,
            lock_timeout=lock_timeout,
            tables=tables,
            map_bytes_start=map_bytes_start,
        )

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        readonly: bool,
        clock: Clock,
        lock_timeout: float = LOCK_TIMEOUT,
        tables: Iterable[str] = (),
        map_bytes_start: int = MAP_BYTES_START,
    ) -> LmdbEngine:
        """Open a store that exists. `tables` are made if they are not there (and the store may be written)."""
        folder = Path(path)
        engine = cls(
            folder,
            readonly=readonly,
            clock=clock,
            lock_timeout=lock_timeout,
            map_bytes_start=map_bytes_start,
        )
        with forks.OPENING[0]:
            store_folder.refuse_all_but_a_store(folder)
            forks.refuse_open_twice(folder)
            engine._identity_text = store_folder.read_identity(folder)
            try:
                engine._start(set(tables))
            except BaseException:
                engine._let_go()
                raise
            forks.ENVIRONMENTS.add(engine._environment)
        return engine

    def _start(self, tables: set[str]) -> None:
        if self._readonly:
            self._environment.open()
            return
        self._environment.writer_lock = store_folder.WriterLock(self._folder)
        self._in_turn(time.monotonic() + self._lock_timeout, lambda: self._start_writing(tables))

    def _start_writing(self, tables: set[str]) -> None:
        self._environment.open()
        self._environment.make_tables(tables)

    # --- the port -------------------------------------------------------------------------------------------------

    @property
    def traits(self) -> Traits:
        """What this engine can hold."""
        return Traits(shared=True, key_bytes_max=KEY_BYTES_MAX, value_bytes_max=VALUE_BYTES_MAX)

    @property
    def readonly(self) -> bool:
        """Whether `write` is refused."""
        return self._readonly

    @property
    def identity_text(self) -> bytes:
        """The bytes of SEALBOOK as they were when the store was opened."""
        return self._identity_text

    @property
    def engine_format(self) -> int:
        """LMDB's data format, to be stored and compared: a build with another one cannot read the file."""
        return ENGINE_FORMAT

    @property
    def path(self) -> Path:
        """The store's folder."""
        return self._folder

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """A consistent view, for the length of a `with` block on one thread.

        Should a signal handler raise at the very moment the block is left, the view ends with that exception.
        """
        self._environment.must_be_usable()
        user = object()
        view = None
        try:
            view = self._entered(user)
            yield view
        finally:
            try:
                if view is not None:
                    view.end()
            finally:
                self._environment.gate.leave(user, None)

    def write(self, work: Work) -> Applied | Unknown:
        """Run `work` under the store's write lock and commit what it returns, durably, as one transaction."""
        self._environment.must_be_usable()
        if self._readonly:
            raise ReadOnly
        deadline = time.monotonic() + self._lock_timeout
        progress = WriteProgress()
        try:
            return self._in_turn(deadline, lambda: self._written(work, progress))
        except SealbookError as error:
            if isinstance(error, StoreFull):
                events.say("store.full", store=str(self._folder), reason=error.what)
            raise
        except BaseException as error:
            error.add_note(progress.stage)
            raise

    def give_way(self) -> None:
        """Let other processes that wait to write go first: for a few milliseconds at most."""
        self._environment.must_be_usable()
        if self._environment.writer_lock is not None:
            self._environment.writer_lock.give_way()

    def refuse_replaced(self) -> None:
        """Raise `EngineFailed` when another data file, or none, stands where this one was opened."""
        self._environment.refuse_replaced()

    def measures(self) -> dict[str, int]:
        """`map_bytes`: what the file may grow to before the map must; `used_bytes`: of the file, its free pages too."""
        user = object()
        try:
            self._environment.gate.enter(user)
            if self._environment.env is None or os.getpid() != self._environment.pid:
                return {}
            info, page_bytes = self._environment.env.info(), self._environment.env.stat()["psize"]
        finally:
            self._environment.gate.leave(user, None)
            self._environment.gate.wake()
        return {"map_bytes": info["map_size"], "used_bytes": (info["last_pgno"] + 1) * page_bytes}

    def pages(self) -> dict[str, int]:
        """Where the file's pages are: `pages` in all, `free_pages`, `page_bytes`, `file_bytes`, and `pages.<table>`.

        `pages.` is the table of tables and the two meta pages. The list of free pages counts as free.
        """
        with self.snapshot() as view:
            assert isinstance(view, EngineView)
            return view.pages(
                self._environment.env.info()["last_pgno"] + 1, (self._folder / store_folder.DATA).stat().st_size
            )

    def copy_to(self, folder: Path) -> None:
        """Write the data file as one snapshot has it, compacted and durable, into this folder, which has none."""
        self._environment.must_be_usable()
        user = object()
        try:
            self._environment.gate.enter(user)
            self._environment.must_be_usable()
            if self._environment.env is None or self._environment.stale:
                raise EngineFailed(f"{self._folder} must be opened anew: it cannot be copied as it is")
            self._environment.env.copy(str(folder), compact=True)
        except lmdb.Error as error:
            raise failure_of(error) from error
        finally:
            self._environment.gate.leave(user, None)
            self._environment.gate.wake()
        with store_folder.told(f"cannot keep {folder}"):
            store_folder.make_private(folder / store_folder.DATA)

    def close(self) -> None:
        """Free the store, after running snapshots and writes of other threads. Closing twice is harmless."""
        if os.getpid() != self._environment.pid:
            raise OpenedBeforeFork(FORKED)
        self._environment.closed = True
        owner = object()
        try:
            self._turn.claim(owner, None)
            self._environment.gate.claim(owner, None, beside_own=True)
            self._let_go()
        finally:
            try:
                self._environment.gate.release(owner, None)
            finally:
                self._turn.release(owner, None)

    # --- who may do what, and when --------------------------------------------------------------------------------

    def _in_turn(self, deadline: float, job: Callable[[], _T]) -> _T:
        """Do the job as the one writer, among the threads first and then among the processes."""
        assert self._environment.writer_lock is not None
        descriptor = self._environment.writer_lock.descriptor
        owner = object()
        has_turn = False
        try:
            if not self._turn.claim(owner, deadline):
                self._say_busy("thread")
                raise Busy("another thread is writing")
            has_turn = True
            self._environment.must_be_usable()
            try:
                self._environment.writer_lock.acquire(deadline, self._environment.must_be_usable)
            except Busy:
                self._say_busy("process")
                raise
            return job()
        finally:
            try:
                if has_turn:
                    fcntl.flock(descriptor, fcntl.LOCK_UN)  # harmless when the lock was not taken
            finally:
                self._turn.release(owner, None)
                self._turn.wake()

    def _say_busy(self, held_by: str) -> None:
        events.say("writer.busy", store=str(self._folder), held_by=held_by, seconds=self._lock_timeout)

    def _let_go(self) -> None:
        if self._environment.env is not None:
            self._environment.env.close()
            self._environment.env = None
        if self._environment.writer_lock is not None:
            self._environment.writer_lock.close()

    # --- transactions ---------------------------------------------------------------------------------------------

    def _entered(self, user: object) -> EngineView:
        """Come in through the gate as `user`, with a view to read from."""
        tried: set[type[Exception]] = set()
        while True:
            try:
                self._environment.gate.enter(user)
                self._environment.must_be_usable()
                return self._environment.begin(write=False)
            except (lmdb.Error, StaleEnvironment, TablesChanged) as error:
                self._environment.gate.leave(user, None)
                self._remedy(error, tried, writing=False)

    def _written(self, work: Work, progress: WriteProgress) -> Applied | Unknown:
        """Under the writer's lock: try until the write is in, or cannot be."""
        tried: set[type[Exception]] = set()
        while True:
            try:
                return self._attempt(work, progress)
            except CommitFailed as failed:
                return settled(self._environment, failed, progress)
            except lmdb.MapFullError:
                self._environment.alone(self._environment.grow)
            except TablesMissing as missing:
                self._environment.make_tables(missing.names)
            except (lmdb.Error, StaleEnvironment, TablesChanged) as error:
                self._remedy(error, tried, writing=True)

    def _attempt(self, work: Work, progress: WriteProgress) -> Applied:
        """One transaction, begun and ended here, on this thread."""
        user = object()
        view: EngineView | None = None
        txn: Any = None
        txn_id = None
        try:
            self._environment.gate.enter(user)
            view = self._environment.begin(write=True)
            txn = view.txn
            writes, answers = work(view, self._clock())
            if not writes:
                return Applied(answers)
            view.put(writes)
            self._environment.refuse_replaced_files()
            txn_id = txn.id()
            try:
                txn.commit()
            except lmdb.MapFullError:
                raise
            except lmdb.Error as error:
                progress.stage = UNDECIDED
                raise CommitFailed(error, writes, answers) from error
            progress.stage = DURABLE
            return Applied(answers)
        except BaseException as error:
            # A signal handler raised around the commit. We hold the writer's lock, so the last id tells whose it is.
            if txn_id is not None and not isinstance(error, (lmdb.Error, CommitFailed)):
                progress.stage = UNDECIDED
                txn.abort()
                progress.stage = DURABLE if self._environment.env.info()["last_txnid"] >= txn_id else NOT_WRITTEN
            raise
        finally:
            try:
                if view is not None and txn is not None:
                    view.txn = None
                    txn.abort()  # after a commit this does nothing
            finally:
                self._environment.gate.leave(user, None)
                self._environment.gate.wake()

    # --- what to do about trouble ---------------------------------------------------------------------------------

    def _remedy(self, error: Exception, tried: set[type[Exception]], *, writing: bool) -> None:
        """Make a second try of what raised `error` worth while, or raise the error that a caller understands."""
        if isinstance(error, lmdb.MapResizedError):
            self._environment.alone(self._environment.adopt_map)
        elif type(error) in tried and not isinstance(error, TablesChanged):
            if isinstance(error, lmdb.ReadersFullError):
                places = self._environment.env.info()["max_readers"]  # what the lock file has room for, whoever made it
                raise Busy(
                    f"all {places} places for readers that {self._environment.lock_path} has are taken"
                ) from error
            raise failure_of(error) from error
        elif isinstance(error, lmdb.ReadersFullError):
            self._environment.free_dead_readers()
        elif isinstance(error, (StaleEnvironment, TablesChanged, lmdb.PanicError)):
            refresh = self._environment.learn_tables if isinstance(error, TablesChanged) else self._environment.reopen
            try:
                if writing or self._readonly:
                    self._environment.alone(refresh)
                else:
                    self._in_turn(time.monotonic() + self._lock_timeout, lambda: self._environment.alone(refresh))
            except lmdb.Error as trouble:
                raise failure_of(trouble) from trouble
        else:
            raise failure_of(error) from error
        tried.add(type(error))


# --- what a transaction offers ------------------------------------------------------------------------------------


# --- files --------------------------------------------------------------------------------------------------------

# --- errors -------------------------------------------------------------------------------------------------------
