"""The engine over LMDB, and the only module that speaks to LMDB.

What LMDB does when it is not treated with respect, and what is done here about it:

- Its wait for the write lock can be neither interrupted nor timed out: `flock(writer.lock)` is taken first, with a
  deadline. A transaction begins and ends in one function on one thread.
- A replaced lock file lets two writers in, and acknowledged commits vanish: both lock files are compared before every
  commit. Closing any descriptor of lock.mdb in a process drops LMDB's locks in it: it is only ever `stat`ed.
- A file goes on after its name is gone: commits to a data file that was replaced vanish, so it is compared as well.
- A failed commit may have happened: the environment is opened anew and our own rows are looked for.
- Changing the map's size kills the read transactions of the process: they are waited for.
- A fork inherits everything: an engine in a child refuses every call, and touches nothing of the parent's.
- A file that ends early, or that is no LMDB file, kills the process: it is examined before LMDB sees it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import lmdb

from sealbook.journal import events
from sealbook.journal.engine import datafile
from sealbook.journal.engine import folder as store_folder
from sealbook.journal.engine.port import (
    DURABLE,
    NOT_WRITTEN,
    UNDECIDED,
    Applied,
    Clock,
    Place,
    Row,
    Snapshot,
    Traits,
    Unknown,
    Work,
    Writes,
)
from sealbook.journal.errors import (
    Busy,
    Closed,
    Corrupt,
    EngineFailed,
    OpenedBeforeFork,
    ReadOnly,
    SealbookError,
    StoreFull,
    WrongFormat,
)
from sealbook.journal.threads.turns import Gate

ENGINE_FORMAT: Final = datafile.DATA_FORMAT
LIB_VERSION: Final = 0  # LMDB 0.9, whatever the wheel or the environment prefers
KEY_BYTES_MAX: Final = 511  # compiled into LMDB
VALUE_BYTES_MAX: Final = 2**31 - 1  # what a py-lmdb call takes; the journal's own limits are far below
READERS_MAX: Final = 1024
TABLES_MAX: Final = 128
MAP_BYTES_START: Final = 1 << 30  # address space, not disk; it doubles when it is used up
MAP_BYTES_MIN: Final = 1 << 20  # room for all tables while they are empty
MAP_BYTES_MAX: Final = 1 << 46  # 64 TiB: half of what a process can address
LOCK_BYTES: Final = 64 * (READERS_MAX + 8)  # one cache line per reader, and LMDB's header
LOCK_TIMEOUT: Final = 5.0  # seconds

STORE_PLACE: Final = ("store", b"store")  # the row that a creation commits

_T = TypeVar("_T")
_Handles = Mapping[str, Any]  # a table's name -> LMDB's handle for it

_FORKED: Final = "the store was opened before this process was forked: open it anew here"


class _Progress:
    """How far a write has come: the note for an exception that a signal handler raises on the way."""

    __slots__ = ("stage",)

    def __init__(self) -> None:
        self.stage = NOT_WRITTEN


class _Stale(Exception):
    """The environment has failed and must be opened anew."""


class _TablesChanged(Exception):
    """The store has tables that this process has no handle for yet."""


class _TablesMissing(Exception):
    """The writes need tables that the store does not have yet."""

    def __init__(self, names: set[str]) -> None:
        self.names = names


class _CommitFailed(Exception):
    """The commit raised; whether it happened is to be found out."""

    def __init__(self, cause: lmdb.Error, writes: Writes, answers: Any) -> None:
        self.cause, self.writes, self.answers = cause, writes, answers


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
        self._pid = os.getpid()
        self._closed = False
        self._stale = False  # the environment has failed and must be opened anew
        self._turn = Gate()  # owned by the one thread that writes
        self._gate = Gate()  # used by transactions, owned by whoever replaces or resizes the map
        self._map_bytes = map_bytes_start
        self._handles: _Handles = {}
        self._env: Any = None
        self._writer_lock: store_folder.WriterLock | None = None
        self._lock_path = str(folder / store_folder.LOCK)
        self._lock_identity: tuple[int, int] | None = None
        self._data_path = str(folder / store_folder.DATA)
        self._data_identity: tuple[int, int] | None = None
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
            with _OPENING[0]:
                _create(folder, identity_text, store_value, lock_timeout, tables, map_bytes_start)
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
        with _OPENING[0]:
            store_folder.refuse_all_but_a_store(folder)
            _refuse_open_twice(folder)
            engine._identity_text = store_folder.read_identity(folder)
            try:
                engine._start(set(tables))
            except BaseException:
                engine._let_go()
                raise
            _ENGINES.add(engine)
        return engine

    def _start(self, tables: set[str]) -> None:
        if self._readonly:
            self._open_environment()
            return
        self._writer_lock = store_folder.WriterLock(self._folder)
        self._in_turn(time.monotonic() + self._lock_timeout, lambda: self._start_writing(tables))

    def _start_writing(self, tables: set[str]) -> None:
        self._open_environment()
        self._make_tables(tables)

    def _open_environment(self) -> None:
        """Examine the data file, then map it. A writer holds the writer's lock."""
        data = self._folder / store_folder.DATA
        self.refuse_replaced()
        _refuse_unfit(data)
        store_folder.allocate_lock_file(self._folder, LOCK_BYTES, readonly=self._readonly)
        try:
            self._env = _mapped(self._folder, max(self._map_bytes, _comfortable(data)), readonly=self._readonly)
            self._clear_dead_readers()
            self._handles = self._tables()
        except lmdb.Error as error:
            raise _opening_failed(error, self._folder, readonly=self._readonly) from error
        self._data_identity = _identity(str(data))
        self._lock_identity = _identity(self._lock_path)

    def _tables(self) -> _Handles:
        """Alone: a handle for every table. A writer holds the writer's lock, because LMDB takes its own for them."""
        while True:
            try:
                return {name.decode(): self._env.open_db(name, create=False) for name in self._table_names()}
            except lmdb.MapResizedError:
                self._resize(0)
            except (lmdb.IncompatibleError, UnicodeDecodeError) as error:
                raise Corrupt(f"{self._folder / store_folder.DATA} has a row that is no table's: {error}") from error

    def _table_names(self) -> list[bytes]:
        txn = self._env.begin()
        try:
            return list(txn.cursor().iternext(keys=True, values=False))
        finally:
            txn.abort()
            del txn

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
        self._must_be_usable()
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
                self._gate.leave(user, None)

    def write(self, work: Work) -> Applied | Unknown:
        """Run `work` under the store's write lock and commit what it returns, durably, as one transaction."""
        self._must_be_usable()
        if self._readonly:
            raise ReadOnly
        deadline = time.monotonic() + self._lock_timeout
        progress = _Progress()
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
        self._must_be_usable()
        if self._writer_lock is not None:
            self._writer_lock.give_way()

    def refuse_replaced(self) -> None:
        """Raise `EngineFailed` when another data file, or none, stands where this one was opened."""
        if self._data_identity not in (None, _identity(self._data_path)):
            events.say("data.replaced", store=str(self._folder), path=self._data_path)
            raise EngineFailed(
                f"the data file {self._data_path} was replaced while the store was open, and what is read and written"
                " now would not be in it: nothing was written, open the store again"
            )

    def measures(self) -> dict[str, int]:
        """`map_bytes`: what the file may grow to before the map must; `used_bytes`: of the file, its free pages too."""
        user = object()
        try:
            self._gate.enter(user)
            if self._env is None or os.getpid() != self._pid:
                return {}
            info, page_bytes = self._env.info(), self._env.stat()["psize"]
        finally:
            self._gate.leave(user, None)
            self._gate.wake()
        return {"map_bytes": info["map_size"], "used_bytes": (info["last_pgno"] + 1) * page_bytes}

    def pages(self) -> dict[str, int]:
        """Where the file's pages are: `pages` in all, `free_pages`, `page_bytes`, `file_bytes`, and `pages.<table>`.

        `pages.` is the table of tables and the two meta pages. The list of free pages counts as free.
        """
        with self.snapshot() as view:
            assert isinstance(view, _View)
            return view.pages(self._env.info()["last_pgno"] + 1, (self._folder / store_folder.DATA).stat().st_size)

    def copy_to(self, folder: Path) -> None:
        """Write the data file as one snapshot has it, compacted and durable, into this folder, which has none."""
        self._must_be_usable()
        user = object()
        try:
            self._gate.enter(user)
            self._must_be_usable()
            if self._env is None or self._stale:
                raise EngineFailed(f"{self._folder} must be opened anew: it cannot be copied as it is")
            self._env.copy(str(folder), compact=True)
        except lmdb.Error as error:
            raise _failed(error) from error
        finally:
            self._gate.leave(user, None)
            self._gate.wake()
        with store_folder.told(f"cannot keep {folder}"):
            store_folder.make_private(folder / store_folder.DATA)

    def close(self) -> None:
        """Free the store, after running snapshots and writes of other threads. Closing twice is harmless."""
        if os.getpid() != self._pid:
            raise OpenedBeforeFork(_FORKED)
        self._closed = True
        owner = object()
        try:
            self._turn.claim(owner, None)
            self._gate.claim(owner, None, beside_own=True)
            self._let_go()
        finally:
            try:
                self._gate.release(owner, None)
            finally:
                self._turn.release(owner, None)

    # --- who may do what, and when --------------------------------------------------------------------------------

    def _must_be_usable(self) -> None:
        if os.getpid() != self._pid:
            raise OpenedBeforeFork(_FORKED)
        if self._closed:
            raise Closed

    def _in_turn(self, deadline: float, job: Callable[[], _T]) -> _T:
        """Do the job as the one writer, among the threads first and then among the processes."""
        assert self._writer_lock is not None
        descriptor = self._writer_lock.descriptor
        owner = object()
        has_turn = False
        try:
            if not self._turn.claim(owner, deadline):
                self._say_busy("thread")
                raise Busy("another thread is writing")
            has_turn = True
            self._must_be_usable()
            try:
                self._writer_lock.acquire(deadline, self._must_be_usable)
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

    def _alone(self, job: Callable[[], _T]) -> _T:
        """Do the job with no transaction of this process open."""
        owner = object()
        try:
            if not self._gate.claim(owner, time.monotonic() + self._lock_timeout):
                raise Busy("a snapshot of this process is still open, and the map cannot change under it")
            self._must_be_usable()
            return job()
        finally:
            self._gate.release(owner, None)
            self._gate.wake()

    def _let_go(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None
        if self._writer_lock is not None:
            self._writer_lock.close()

    # --- transactions ---------------------------------------------------------------------------------------------

    def _entered(self, user: object) -> _View:
        """Come in through the gate as `user`, with a view to read from."""
        tried: set[type[Exception]] = set()
        while True:
            try:
                self._gate.enter(user)
                self._must_be_usable()
                return self._begun(write=False)
            except (lmdb.Error, _Stale, _TablesChanged) as error:
                self._gate.leave(user, None)
                self._remedy(error, tried, writing=False)

    def _begun(self, *, write: bool) -> _View:
        """A new transaction's view, in which every table is known. Called by users of the gate."""
        if self._stale:
            raise _Stale
        handles = self._handles
        txn = self._env.begin(write=write)
        try:
            if txn.stat()["entries"] > len(handles):
                raise _TablesChanged
            return _View(txn, handles, self._pid, txn.id() - write)
        except BaseException:
            txn.abort()
            del txn
            raise

    def _written(self, work: Work, progress: _Progress) -> Applied | Unknown:
        """Under the writer's lock: try until the write is in, or cannot be."""
        tried: set[type[Exception]] = set()
        while True:
            try:
                return self._attempt(work, progress)
            except _CommitFailed as failed:
                return self._settled(failed, progress)
            except lmdb.MapFullError:
                self._alone(self._grow)
            except _TablesMissing as missing:
                self._make_tables(missing.names)
            except (lmdb.Error, _Stale, _TablesChanged) as error:
                self._remedy(error, tried, writing=True)

    def _attempt(self, work: Work, progress: _Progress) -> Applied:
        """One transaction, begun and ended here, on this thread."""
        user = object()
        view: _View | None = None
        txn: Any = None
        txn_id = None
        try:
            self._gate.enter(user)
            view = self._begun(write=True)
            txn = view.txn
            writes, answers = work(view, self._clock())
            if not writes:
                return Applied(answers)
            view.put(writes)
            self._refuse_replaced_files()
            txn_id = txn.id()
            try:
                txn.commit()
            except lmdb.MapFullError:
                raise
            except lmdb.Error as error:
                progress.stage = UNDECIDED
                raise _CommitFailed(error, writes, answers) from error
            progress.stage = DURABLE
            return Applied(answers)
        except BaseException as error:
            # A signal handler raised around the commit. We hold the writer's lock, so the last id tells whose it is.
            if txn_id is not None and not isinstance(error, (lmdb.Error, _CommitFailed)):
                progress.stage = UNDECIDED
                txn.abort()
                progress.stage = DURABLE if self._env.info()["last_txnid"] >= txn_id else NOT_WRITTEN
            raise
        finally:
            try:
                if view is not None and txn is not None:
                    view.txn = None
                    txn.abort()  # after a commit this does nothing
            finally:
                self._gate.leave(user, None)
                self._gate.wake()

    def _refuse_replaced_files(self) -> None:
        lock = self._writer_lock
        assert lock is not None
        for path, identity in ((self._lock_path, self._lock_identity), (lock.path, lock.identity)):
            if _identity(path) != identity:
                events.say("lock.replaced", store=str(self._folder), path=path)
                raise EngineFailed(
                    f"the lock file {path} was replaced while the store was open, another writer may be at work:"
                    " nothing was written, open the store again"
                )
        self.refuse_replaced()

    # --- what to do about trouble ---------------------------------------------------------------------------------

    def _remedy(self, error: Exception, tried: set[type[Exception]], *, writing: bool) -> None:
        """Make a second try of what raised `error` worth while, or raise the error that a caller understands."""
        if isinstance(error, lmdb.MapResizedError):
            self._alone(self._adopt_map)
        elif type(error) in tried and not isinstance(error, _TablesChanged):
            if isinstance(error, lmdb.ReadersFullError):
                places = self._env.info()["max_readers"]  # what the lock file has room for, whoever made it
                raise Busy(f"all {places} places for readers that {self._lock_path} has are taken") from error
            raise _failed(error) from error
        elif isinstance(error, lmdb.ReadersFullError):
            self._free_dead_readers()
        elif isinstance(error, (_Stale, _TablesChanged, lmdb.PanicError)):
            refresh = self._learn_tables if isinstance(error, _TablesChanged) else self._reopen
            try:
                if writing or self._readonly:
                    self._alone(refresh)
                else:
                    self._in_turn(time.monotonic() + self._lock_timeout, lambda: self._alone(refresh))
            except lmdb.Error as trouble:
                raise _failed(trouble) from trouble
        else:
            raise _failed(error) from error
        tried.add(type(error))

    def _free_dead_readers(self) -> None:
        user = object()
        try:
            self._gate.enter(user)
            self._must_be_usable()
            if not self._stale:
                self._clear_dead_readers()
        finally:
            self._gate.leave(user, None)

    def _clear_dead_readers(self) -> None:
        """Free the places that processes had when they died: their snapshots keep old pages from being used again."""
        if readers := self._env.reader_check():
            events.say("readers.cleared", store=str(self._folder), readers=readers)

    def _adopt_map(self) -> None:
        """Alone: another process has let the map grow, so take its size."""
        if not self._stale:
            self._resize(0)

    def _learn_tables(self) -> None:
        """Alone, and a writer under the writer's lock: another process has made tables, so take handles for them."""
        if not self._stale:
            self._handles = self._tables()

    def _reopen(self) -> None:
        """Alone, and a writer under the writer's lock: close the environment and open it again."""
        self._stale = True
        if self._env is not None:
            self._env.close()
            self._env = None
        self._open_environment()
        self._stale = False
        events.say("store.reopened", store=str(self._folder))

    def _grow(self) -> None:
        """Alone, under the writer's lock: double the map. Pages that dead readers pin are freed first."""
        self._clear_dead_readers()
        before = self._env.info()["map_size"]
        if before * 2 > MAP_BYTES_MAX:
            raise StoreFull(f"the store has reached {before} bytes, more than a process can map")
        self._resize(before * 2)
        self._map_bytes = before * 2
        events.say("store.grew", store=str(self._folder), bytes_before=before, bytes=before * 2)

    def _resize(self, map_bytes: int) -> None:
        try:
            self._env.set_mapsize(map_bytes)
        except lmdb.Error as error:
            # LMDB has let go of the old map and has no new one: nothing but closing is safe now.
            self._stale = True
            self._env.close()
            self._env = None
            raise StoreFull(f"no address space for the store's map ({error}): raise its limit (ulimit -v)") from error

    def _make_tables(self, names: Iterable[str]) -> None:
        """Under the writer's lock: make those of these tables that are not there, in a transaction of their own."""
        while missing := sorted(set(names) - self._handles.keys()):
            try:
                self._alone(lambda: self._commit_tables(missing))
            except lmdb.MapFullError:
                self._alone(self._grow)
            except lmdb.MapResizedError:
                self._alone(self._adopt_map)
            except lmdb.Error as error:
                self._stale = True
                raise _failed(error) from error

    def _commit_tables(self, names: Sequence[str]) -> None:
        txn = self._env.begin(write=True)
        try:
            for name in names:
                self._env.open_db(name.encode(), txn=txn)
            txn.commit()
        finally:
            txn.abort()
        self._handles = self._tables()

    def _settled(self, failed: _CommitFailed, progress: _Progress) -> Applied | Unknown:
        """A commit has raised. Still under the writer's lock, so that only we can have written: look what is there."""
        try:
            if fatal := self._has_panicked():
                self._alone(self._reopen)
            stands = self._stands(failed.writes)
            if stands or fatal:
                self._confirm()
        except (SealbookError, lmdb.Error, _Stale, _TablesChanged, OSError) as error:
            self._stale = True
            failed.cause.add_note(f"afterwards the store could not be examined: {error}")
            return Unknown(failed.cause)
        events.say("commit.resolved", store=str(self._folder), written=stands)
        if stands:
            progress.stage = DURABLE
            return Applied(failed.answers)
        progress.stage = NOT_WRITTEN
        if getattr(failed.cause, "code", 0) == errno.EIO:
            # LMDB calls a write that came up short an I/O error, and on a full disk the first one does.
            store_folder.refuse_full(self._folder, _bytes_needed(failed.writes))
        raise _failed(failed.cause) from failed.cause

    def _has_panicked(self) -> bool:
        """Whether LMDB refuses everything until the environment is opened anew, because a meta page was not written."""
        try:
            self._looked_at(lambda view: None)
        except lmdb.PanicError:
            return True
        return False

    def _stands(self, writes: Writes) -> bool:
        """Whether every row is as these writes leave it."""
        places = list(writes.puts)
        gone = [place for place in writes.deletes if place not in writes.puts]
        found = self._looked_at(lambda view: view.get_many([*places, *gone]))
        return found == [*writes.puts.values(), *(None for _ in gone)]

    def _confirm(self) -> None:
        """Commit once more, changing nothing: what is read now is durable when this has succeeded.

        A sync alone would not do: after a failed write the kernel may call the page clean without its having reached
        the disk. A commit writes the other meta page.
        """

        def confirm(view: _View) -> None:
            value = view.get_many([STORE_PLACE])[0]
            if value is None:
                raise Corrupt("the row that names the store is not there", table=STORE_PLACE[0], key=STORE_PLACE[1])
            view.put(Writes(puts={STORE_PLACE: value}))
            self._refuse_replaced_files()
            view.txn.commit()

        self._looked_at(confirm, write=True)

    def _looked_at(self, look: Callable[[_View], _T], *, write: bool = False) -> _T:
        """What `look` finds in a transaction of its own."""
        user = object()
        view = None
        try:
            self._gate.enter(user)
            view = self._begun(write=write)
            return look(view)
        finally:
            try:
                if view is not None:
                    view.end()
            finally:
                self._gate.leave(user, None)
                self._gate.wake()

    # --- fork -----------------------------------------------------------------------------------------------------

    def _hold_for_fork(self) -> object | None:
        """In the parent, before a fork: wait for transactions to end, so that the child inherits none.

        None when that cannot be: the forking thread is in one itself, or another thread's does not end.
        """
        owner = object()
        if self._closed or os.getpid() != self._pid or self._gate.used_by_this_thread():
            return None
        if self._gate.claim(owner, time.monotonic() + self._lock_timeout):
            return owner
        self._gate.release(owner, None)
        return None

    def _forget_in_child(self, *, clean: bool) -> None:
        """In the child: let go of what was inherited, and of nothing that the parent has."""
        if self._writer_lock is not None:
            self._writer_lock.close()
        env, self._env = self._env, None
        if env is None:
            return
        if clean:
            env.close()
            return
        # A transaction of the parent's is open in it: closing it would end that one in the shared reader table, and
        # might wait for ever. Keep it from ever being closed.
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(env))


# --- what a transaction offers ------------------------------------------------------------------------------------


class _View:
    """A transaction, as a snapshot to read from; the writer also puts through it. Dead after `end`."""

    __slots__ = ("_handles", "_pid", "txn", "version")

    def __init__(self, txn: Any, handles: _Handles, pid: int, version: int) -> None:
        self.txn, self._handles, self._pid, self.version = txn, handles, pid, version

    def get_many(self, places: Sequence[Place]) -> list[bytes | None]:
        get, handle_of = self._live().get, self._handles.get
        found: list[bytes | None] = []
        try:
            for table, key in places:
                handle = handle_of(table)
                found.append(None if handle is None or not key else get(key, None, handle))
        except lmdb.Error as error:
            raise _failed(error) from error
        return found

    def scan(self, table: str, lo: bytes, hi: bytes | None, limit: int, reverse: bool = False) -> list[Row]:
        txn, handle = self._live(), self._handles.get(table)
        if handle is None or limit <= 0:
            return []
        try:
            cursor = txn.cursor(handle)
            return _page_down(cursor, lo, hi, limit) if reverse else _page_up(cursor, lo, hi, limit)
        except lmdb.Error as error:
            raise _failed(error) from error

    def count(self, table: str) -> int:
        txn, handle = self._live(), self._handles.get(table)
        try:
            return 0 if handle is None else int(txn.stat(handle)["entries"])
        except lmdb.Error as error:
            raise _failed(error) from error

    def pages(self, pages: int, file_bytes: int) -> dict[str, int]:
        """How many of so many pages each table has, and how many none has."""
        txn = self._live()
        stats = {"": txn.stat()} | {name: txn.stat(handle) for name, handle in self._handles.items()}
        used = {
            name: stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] + 2 * (name == "")
            for name, stat in stats.items()
        }
        return {
            "page_bytes": stats[""]["psize"],
            "file_bytes": file_bytes,
            "pages": pages,
            "free_pages": max(0, pages - sum(used.values())),
            **{f"pages.{name}": count for name, count in used.items()},
        }

    def put(self, writes: Writes) -> None:
        """Put and delete, in key order, as one pass over each table; `Corrupt` where a row contradicts the writes."""
        handles, txn = self._handles, self._live()
        put, puts, absent = txn.put, writes.puts, writes.absent
        if missing := {table for table, _ in puts} - handles.keys():
            raise _TablesMissing(missing)
        for place in sorted(writes.deletes):
            table, key = place
            if table not in handles or not txn.delete(key, b"", handles[table]):
                raise Corrupt("the row to remove is not there", table=table, key=key)
        for place in sorted(puts):
            table, key = place
            try:
                done = put(key, puts[place], True, place not in absent, False, handles[table])
            except lmdb.BadValsizeError as error:
                raise AssertionError(f"table {table}: a key of {len(key)} bytes") from error
            if not done:
                raise Corrupt("a row stands where none may be", table=table, key=key)

    def end(self) -> None:
        """Abort what is not committed, and free the reader's slot. In a forked child the parent's is left alone."""
        txn, self.txn = self.txn, None
        if txn is not None and os.getpid() == self._pid:
            txn.abort()

    def _live(self) -> Any:
        if os.getpid() != self._pid:
            raise OpenedBeforeFork(_FORKED)
        assert self.txn is not None, "a snapshot is not carried out of its block"
        return self.txn


def _page_up(cursor: Any, lo: bytes, hi: bytes | None, limit: int) -> list[Row]:
    page: list[Row] = []
    if cursor.set_range(lo) if lo else cursor.first():
        for row in cursor.iternext():
            if hi is not None and row[0] >= hi:
                break
            page.append(row)
            if len(page) == limit:
                break
    return page


def _page_down(cursor: Any, lo: bytes, hi: bytes | None, limit: int) -> list[Row]:
    page: list[Row] = []
    if hi is None:
        found = cursor.last()
    elif not hi:
        found = False
    else:
        found = cursor.prev() if cursor.set_range(hi) else cursor.last()
    if found:
        for row in cursor.iterprev():
            if row[0] < lo:
                break
            page.append(row)
            if len(page) == limit:
                break
    return page


# --- files --------------------------------------------------------------------------------------------------------


def _create(
    folder: Path,
    identity_text: bytes,
    store_value: bytes,
    lock_timeout: float,
    tables: Iterable[str],
    map_bytes_start: int,
) -> None:
    """Make the files of a store, under its writer's lock, unless another process has just done so."""
    lock = store_folder.WriterLock(folder)
    try:
        lock.acquire(time.monotonic() + lock_timeout, lambda: None)
        if store_folder.is_complete(folder):
            return
        _refuse_records(folder)
        store_folder.start_creation(folder, identity_text)
        store_folder.allocate_lock_file(folder, LOCK_BYTES, readonly=False)
        try:
            _commit_first(folder, store_value, {STORE_PLACE[0], *tables}, max(map_bytes_start, MAP_BYTES_MIN))
        except lmdb.Error as error:
            raise _opening_failed(error, folder, readonly=False) from error
        store_folder.finish_creation(folder)
    finally:
        fcntl.flock(lock.descriptor, fcntl.LOCK_UN)  # closing would not free it while a forked child has it, too
        lock.close()


def _refuse_records(folder: Path) -> None:
    """Refuse to clear away more than an unfinished creation leaves: the store row, and tables without a row."""
    data = folder / store_folder.DATA
    try:
        datafile.refuse_truncated(data)
    except (FileNotFoundError, datafile.NotLmdb, datafile.Damaged):
        return  # cut short before its first commit, or too large for that, which `start_creation` refuses
    store_folder.allocate_lock_file(folder, LOCK_BYTES, readonly=False)
    try:
        env = _mapped(folder, _comfortable(data), readonly=False)
        try:
            with env.begin() as txn:
                names = list(txn.cursor().iternext(keys=True, values=False))
            handles = {name: env.open_db(name, create=False) for name in names}
            with env.begin() as txn:
                filled = [name for name, handle in handles.items() if txn.stat(handle)["entries"]]
        finally:
            env.close()
    except lmdb.Error as error:
        raise Corrupt(f"{data} cannot be told from a store: {error}: move it away") from error
    if set(filled) - {STORE_PLACE[0].encode()}:
        raise Corrupt(
            f"{data} holds more than an unfinished creation does: move it away or restore {store_folder.SEALBOOK}"
        )


def _commit_first(folder: Path, store_value: bytes, tables: set[str], map_bytes: int) -> None:
    env = _mapped(folder, map_bytes, readonly=False)
    try:
        with env.begin(write=True) as txn:
            handles = {name: env.open_db(name.encode(), txn=txn) for name in sorted(tables)}
            table, key = STORE_PLACE
            txn.put(key, store_value, db=handles[table])
    finally:
        env.close()


def _mapped(folder: Path, map_bytes: int, *, readonly: bool) -> Any:
    return lmdb.open(
        str(folder),
        map_size=map_bytes,
        readonly=readonly,
        create=False,
        sync=True,
        metasync=True,
        writemap=False,
        mode=0o600,
        max_readers=READERS_MAX,
        max_dbs=TABLES_MAX,
        max_spare_txns=0,  # a spare one keeps its reader slot, which a forked child would free
        lib_version=LIB_VERSION,
    )


def _comfortable(data: Path) -> int:
    """A map size with which this file can grow for a while, in whole MiB."""
    return -(-data.stat().st_size * 5 // 4 >> 20) << 20


def _bytes_needed(writes: Writes) -> int:
    """About as much as these writes add to the file, every row on a page of its own."""
    return sum(len(value) + 8192 for value in writes.puts.values()) + 65536


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _refuse_unfit(data: Path) -> None:
    """Refuse a file that LMDB would choke on, or die of."""
    try:
        datafile.refuse_truncated(data)
    except datafile.NotLmdb as error:
        if error.data_format is not None:
            raise WrongFormat(f"cannot read {data}: {error}") from error
        raise Corrupt(f"{data} is damaged: {error}: restore it from a copy") from error
    except datafile.Damaged as error:
        raise Corrupt(f"{data} is damaged: {error}: restore it from a copy") from error
    except OSError as error:
        raise store_folder.failure(error, f"cannot read {data}") from error


# --- errors -------------------------------------------------------------------------------------------------------

_DAMAGE: Final = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    lmdb.BadChecksumError,
    lmdb.IncompatibleError,
    lmdb.BadTxnError,  # an earlier step of this transaction met the damage
)


def _failed(error: Exception) -> SealbookError:
    """The journal's error for one of LMDB's."""
    code = getattr(error, "code", 0)
    if isinstance(error, _DAMAGE):
        return Corrupt(f"the store's data file is damaged: {error}")
    if isinstance(error, lmdb.VersionMismatchError):
        return WrongFormat(f"another version of LMDB wrote the store: {error}")
    if isinstance(error, lmdb.ReadersFullError):
        return Busy(f"all {READERS_MAX} places for readers are taken")
    if isinstance(error, (lmdb.DiskError, lmdb.MapFullError)) or code in store_folder.FULL:
        return StoreFull(f"no room for the write, nothing was written ({error}): free some space")
    if isinstance(error, lmdb.MemoryError) or code == errno.ENOMEM:
        return StoreFull(f"no memory for the transaction ({error}): raise the process's limits (ulimit -v)")
    if isinstance(error, lmdb.PanicError):
        return Corrupt(f"the store's storage has failed and stays so: {error}")
    if code in store_folder.DENIED:
        return EngineFailed(f"the storage refuses the write ({error}): make it writable, or open it for reading only")
    return EngineFailed(f"the storage failed: {error}")


def _opening_failed(error: lmdb.Error, folder: Path, *, readonly: bool) -> SealbookError:
    code = getattr(error, "code", 0)
    if "already open in this process" in str(error):
        return EngineFailed(f"{folder} is already open in this process: share that journal, or close it first")
    if isinstance(error, lmdb.MemoryError) or code == errno.ENOMEM:
        return StoreFull(f"no address space to map {folder} ({error}): raise the process's limit (ulimit -v)")
    if isinstance(error, lmdb.LockError) or code == errno.EAGAIN:
        return EngineFailed(
            f"{folder} is locked by a process with the same number in another PID namespace ({error}):"
            " let all containers that share the store share one PID namespace"
        )
    if code in store_folder.DENIED and readonly:
        return EngineFailed(
            f"cannot open {folder} for reading ({error}): a reader needs write permission for"
            f" {store_folder.LOCK}; use the owner's account, or a copy of the store"
        )
    return _failed(error)


# --- which stores are open in this process ------------------------------------------------------------------------

_OPENING = [threading.Lock()]  # the one lock for opening; a forked child puts a new one in its place
_ENGINES: weakref.WeakSet[LmdbEngine] = weakref.WeakSet()
_HELD: dict[int, list[tuple[LmdbEngine, object]]] = {}  # thread that forks -> engines held still for it


def _refuse_open_twice(folder: Path) -> None:
    """Before anything of the store is touched: to open and close its lock.mdb would drop the locks of the first."""
    identity = _identity(str(folder / store_folder.DATA))
    for engine in list(_ENGINES):
        if engine._data_identity == identity and not engine._closed:
            raise EngineFailed(f"{folder} is already open in this process: share that journal, or close it first")


def _before_fork() -> None:
    held = [(engine, owner) for engine in list(_ENGINES) if (owner := engine._hold_for_fork()) is not None]
    _HELD[threading.get_ident()] = held


def _after_fork_in_parent() -> None:
    for engine, owner in _HELD.pop(threading.get_ident(), []):
        engine._gate.release(owner, None)
        engine._gate.wake()


def _after_fork_in_child() -> None:
    _OPENING[0] = threading.Lock()  # another thread of the parent may have held the old one
    held = {engine for engine, _ in _HELD.pop(threading.get_ident(), [])}
    _HELD.clear()
    for engine in list(_ENGINES):
        engine._forget_in_child(clean=engine in held)
    _ENGINES.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
