"""The LMDB environment of one store in this process: opened, grown, opened anew, never changed under a transaction."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import lmdb

from sealbook.journal import events
from sealbook.journal.engine.lmdb import folder as store_folder
from sealbook.journal.engine.lmdb.creation import LOCK_BYTES
from sealbook.journal.engine.lmdb.failures import failure_of, opening_failure
from sealbook.journal.engine.lmdb.mapping import comfortable_bytes, file_identity, mapped, refuse_unfit
from sealbook.journal.engine.lmdb.views import FORKED, EngineView, Handles
from sealbook.journal.errors import (
    Busy,
    Closed,
    Corrupt,
    EngineFailed,
    OpenedBeforeFork,
    StoreFull,
)
from sealbook.journal.threads.turns import Gate

MAP_BYTES_MAX: Final = 1 << 46  # 64 TiB: half of what a process can address

_T = TypeVar("_T")


class StaleEnvironment(Exception):
    """The environment has failed and must be opened anew."""


class TablesChanged(Exception):
    """The store has tables that this process has no handle for yet."""


class Environment:
    """LMDB's environment and the handles of its tables. Transactions use the gate; whoever changes the map owns it."""

    def __init__(self, folder: Path, *, readonly: bool, lock_timeout: float, map_bytes_start: int) -> None:
        self.folder = folder
        self._readonly = readonly
        self._lock_timeout = lock_timeout
        self.pid = os.getpid()
        self.closed = False
        self.stale = False  # it has failed and must be opened anew
        self.gate = Gate()  # used by transactions, owned by whoever replaces or resizes the map
        self.map_bytes = map_bytes_start
        self.handles: Handles = {}
        self.env: Any = None
        self.writer_lock: store_folder.WriterLock | None = None
        self.lock_path = str(folder / store_folder.LOCK)
        self._lock_identity: tuple[int, int] | None = None
        self._data_path = str(folder / store_folder.DATA)
        self.data_identity: tuple[int, int] | None = None

    def open(self) -> None:
        """Examine the data file, then map it. A writer holds the writer's lock."""
        data = self.folder / store_folder.DATA
        self.refuse_replaced()
        refuse_unfit(data)
        store_folder.allocate_lock_file(self.folder, LOCK_BYTES, readonly=self._readonly)
        try:
            self.env = mapped(self.folder, max(self.map_bytes, comfortable_bytes(data)), readonly=self._readonly)
            self._clear_dead_readers()
            self.handles = self._tables()
        except lmdb.Error as error:
            raise opening_failure(error, self.folder, readonly=self._readonly) from error
        self.data_identity = file_identity(str(data))
        self._lock_identity = file_identity(self.lock_path)

    def _tables(self) -> Handles:
        """Alone: a handle for every table. A writer holds the writer's lock, because LMDB takes its own for them."""
        while True:
            try:
                return {name.decode(): self.env.open_db(name, create=False) for name in self._table_names()}
            except lmdb.MapResizedError:
                self._resize(0)
            except (lmdb.IncompatibleError, UnicodeDecodeError) as error:
                raise Corrupt(f"{self.folder / store_folder.DATA} has a row that is no table's: {error}") from error

    def _table_names(self) -> list[bytes]:
        txn = self.env.begin()
        try:
            return list(txn.cursor().iternext(keys=True, values=False))
        finally:
            txn.abort()
            del txn

    def must_be_usable(self) -> None:
        """Raise `Closed` once it is, and `OpenedBeforeFork` in a forked child."""
        if os.getpid() != self.pid:
            raise OpenedBeforeFork(FORKED)
        if self.closed:
            raise Closed

    def alone(self, job: Callable[[], _T]) -> _T:
        """Do the job with no transaction of this process open."""
        owner = object()
        try:
            if not self.gate.claim(owner, time.monotonic() + self._lock_timeout):
                raise Busy("a snapshot of this process is still open, and the map cannot change under it")
            self.must_be_usable()
            return job()
        finally:
            self.gate.release(owner, None)
            self.gate.wake()

    def begin(self, *, write: bool) -> EngineView:
        """A new transaction's view, in which every table is known. Called by users of the gate."""
        if self.stale:
            raise StaleEnvironment
        handles = self.handles
        txn = self.env.begin(write=write)
        try:
            if txn.stat()["entries"] > len(handles):
                raise TablesChanged
            return EngineView(txn, handles, self.pid, txn.id() - write)
        except BaseException:
            txn.abort()
            del txn
            raise

    def look(self, look: Callable[[EngineView], _T], *, write: bool = False) -> _T:
        """What `look` finds in a transaction of its own."""
        user = object()
        view = None
        try:
            self.gate.enter(user)
            view = self.begin(write=write)
            return look(view)
        finally:
            try:
                if view is not None:
                    view.end()
            finally:
                self.gate.leave(user, None)
                self.gate.wake()

    def free_dead_readers(self) -> None:
        """Through the gate: free the places of processes that died."""
        user = object()
        try:
            self.gate.enter(user)
            self.must_be_usable()
            if not self.stale:
                self._clear_dead_readers()
        finally:
            self.gate.leave(user, None)

    def _clear_dead_readers(self) -> None:
        """Free the places that processes had when they died: their snapshots keep old pages from being used again."""
        if readers := self.env.reader_check():
            events.say("readers.cleared", store=str(self.folder), readers=readers)

    def adopt_map(self) -> None:
        """Alone: another process has let the map grow, so take its size."""
        if not self.stale:
            self._resize(0)

    def learn_tables(self) -> None:
        """Alone, and a writer under the writer's lock: another process has made tables, so take handles for them."""
        if not self.stale:
            self.handles = self._tables()

    def reopen(self) -> None:
        """Alone, and a writer under the writer's lock: close the environment and open it again."""
        self.stale = True
        if self.env is not None:
            self.env.close()
            self.env = None
        self.open()
        self.stale = False
        events.say("store.reopened", store=str(self.folder))

    def grow(self) -> None:
        """Alone, under the writer's lock: double the map. Pages that dead readers pin are freed first."""
        self._clear_dead_readers()
        before = self.env.info()["map_size"]
        if before * 2 > MAP_BYTES_MAX:
            raise StoreFull(f"the store has reached {before} bytes, more than a process can map")
        self._resize(before * 2)
        self.map_bytes = before * 2
        events.say("store.grew", store=str(self.folder), bytes_before=before, bytes=before * 2)

    def _resize(self, map_bytes: int) -> None:
        try:
            self.env.set_mapsize(map_bytes)
        except lmdb.Error as error:
            # LMDB has let go of the old map and has no new one: nothing but closing is safe now.
            self.stale = True
            self.env.close()
            self.env = None
            raise StoreFull(f"no address space for the store's map ({error}): raise its limit (ulimit -v)") from error

    def make_tables(self, names: Iterable[str]) -> None:
        """Under the writer's lock: make those of these tables that are not there, in a transaction of their own."""
        while missing := sorted(set(names) - self.handles.keys()):
            try:
                self.alone(lambda: self._commit_tables(missing))
            except lmdb.MapFullError:
                self.alone(self.grow)
            except lmdb.MapResizedError:
                self.alone(self.adopt_map)
            except lmdb.Error as error:
                self.stale = True
                raise failure_of(error) from error

    def _commit_tables(self, names: Sequence[str]) -> None:
        txn = self.env.begin(write=True)
        try:
            for name in names:
                self.env.open_db(name.encode(), txn=txn)
            txn.commit()
        finally:
            txn.abort()
        self.handles = self._tables()

    def refuse_replaced(self) -> None:
        """Raise `EngineFailed` when another data file, or none, stands where this one was opened."""
        if self.data_identity not in (None, file_identity(self._data_path)):
            events.say("data.replaced", store=str(self.folder), path=self._data_path)
            raise EngineFailed(
                f"the data file {self._data_path} was replaced while the store was open, and what is read and written"
                " now would not be in it: nothing was written, open the store again"
            )

    def refuse_replaced_files(self) -> None:
        """Before a commit: raise `EngineFailed` unless both lock files and the data file are those that were opened."""
        lock = self.writer_lock
        assert lock is not None
        for path, identity in ((self.lock_path, self._lock_identity), (lock.path, lock.identity)):
            if file_identity(path) != identity:
                events.say("lock.replaced", store=str(self.folder), path=path)
                raise EngineFailed(
                    f"the lock file {path} was replaced while the store was open, another writer may be at work:"
                    " nothing was written, open the store again"
                )
        self.refuse_replaced()

    def hold_for_fork(self) -> object | None:
        """In the parent, before a fork: wait for transactions to end, so that the child inherits none.

        None when that cannot be: the forking thread is in one itself, or another thread's does not end.
        """
        owner = object()
        if self.closed or os.getpid() != self.pid or self.gate.used_by_this_thread():
            return None
        if self.gate.claim(owner, time.monotonic() + self._lock_timeout):
            return owner
        self.gate.release(owner, None)
        return None

    def forget_in_child(self, *, clean: bool) -> None:
        """In the child: let go of what was inherited, and of nothing that the parent has."""
        if self.writer_lock is not None:
            self.writer_lock.close()
        env, self.env = self.env, None
        if env is None:
            return
        if clean:
            env.close()
            return
        # A transaction of the parent's is open in it: closing it would end that one in the shared reader table, and
        # might wait for ever. Keep it from ever being closed.
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(env))
