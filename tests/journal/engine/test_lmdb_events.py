"""What an operator hears of the storage: each event where it happens, and none in vain."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import Any

import lmdb
import pytest

from sealbook.journal.engine.port import Applied, Moment, Snapshot, Unknown, Writes
from sealbook.journal.errors import Busy, EngineFailed, StoreFull

Store = Any  # the fixtures' types, see conftest.py
Start = Any
Heard = Any

MIB = 1 << 20

READ = """
import lmdb
env = lmdb.open(path, max_dbs=9, readonly=True)
txn = env.begin()
say("reading")
sys.stdin.readline()
"""


class Faulty:
    """LMDB's environment, whose next transactions behave as the test says."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.begins: list[Callable[[], None]] = []  # called by the next `begin`s
        self.commits: list[Callable[[Any], None]] = []  # called by the next commits, in their stead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, *args: Any, **options: Any) -> Any:
        if self.begins:
            self.begins.pop(0)()
        txn = self._env.begin(*args, **options)
        return FaultyTxn(self, txn) if options.get("write") else txn


class FaultyTxn:
    def __init__(self, env: Faulty, txn: Any) -> None:
        self._env, self._txn = env, txn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._txn, name)

    def commit(self) -> None:
        self._env.commits.pop(0)(self._txn) if self._env.commits else self._txn.commit()


def faulty(engine: Any) -> Faulty:
    engine._environment.env = env = Faulty(engine._environment.env)
    return env


class DiskFailed(lmdb.Error):
    """A commit's error, as the system calls it."""

    def __init__(self, code: int) -> None:
        super().__init__("mdb_txn_commit")
        self.__dict__["code"] = code


def fill(engine: Any, mib: int) -> None:
    engine.write(lambda snapshot, moment: (Writes(puts={("t", b"%d" % n): bytes(MIB) for n in range(mib)}), None))


def told(heard: Heard) -> list[dict[str, Any]]:
    """The events without the store, which is named in all of them."""
    return [{name: value for name, value in event.items() if name != "store"} for event in heard]


def test_an_undisturbed_life_makes_no_event(store: Store, heard: Heard) -> None:
    engine = store.create(tables=["t"])
    store.put(engine, b"k")
    engine.close()
    assert store.get(store.open(), b"k") == b"v"
    assert heard == []


def test_growth_is_heard_of_with_both_sizes(store: Store, heard: Heard) -> None:
    engine = store.create(map_bytes_start=4 * MIB, tables=["t"])
    fill(engine, 6)
    grew = {"event": "store.grew", "log_level": "info", "store": str(store.folder)}
    assert heard == [{**grew, "bytes_before": 4 * MIB, "bytes": 8 * MIB}]
    assert engine.measures()["map_bytes"] == 8 * MIB
    assert 6 * MIB < engine.measures()["used_bytes"] < 8 * MIB
    engine.close()
    assert engine.measures() == {}


def test_giving_up_on_another_thread_or_process_is_heard_of(store: Store, start: Start, heard: Heard) -> None:
    engine = store.create(tables=["t"], lock_timeout=0.05)
    inside, leave = threading.Event(), threading.Event()

    def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, None]:
        inside.set()
        assert leave.wait(30)
        return Writes(), None

    thread = threading.Thread(target=engine.write, args=(work,))
    thread.start()
    assert inside.wait(30)
    with pytest.raises(Busy):
        store.put(engine, b"k")
    leave.set()
    thread.join()
    holder = start('engine = opened()\nengine.write(lambda s, m: (say("holding"), sys.stdin.readline()))')
    assert holder.stdout.readline() == "holding\n"
    with pytest.raises(Busy):
        store.put(engine, b"k")
    busy = {"event": "writer.busy", "log_level": "warning", "seconds": 0.05}
    assert told(heard) == [{**busy, "held_by": "thread"}, {**busy, "held_by": "process"}]


@pytest.mark.parametrize("written", [True, False])
def test_a_commit_that_failed_and_was_looked_up_is_heard_of(store: Store, heard: Heard, written: bool) -> None:
    engine = store.create(tables=["t"])

    def fails(txn: Any) -> None:
        if written:
            txn.commit()
        raise DiskFailed(errno.EIO)

    faulty(engine).commits = [fails]
    if written:
        store.put(engine, b"k")
    else:
        with pytest.raises(EngineFailed):
            store.put(engine, b"k")
    assert (store.get(engine, b"k") == b"v") is written
    assert told(heard) == [{"event": "commit.resolved", "log_level": "warning", "written": written}]


def test_a_commit_that_cannot_be_looked_up_is_not_called_resolved(store: Store, heard: Heard) -> None:
    engine = store.create(tables=["t"])
    env = faulty(engine)

    def fails(txn: Any) -> None:
        env.begins = [broken] * 9
        raise DiskFailed(errno.EIO)

    def broken() -> None:
        raise lmdb.PanicError("MDB_PANIC")

    env.commits = [fails]
    engine._environment.open = broken  # nor can the store be opened anew
    assert isinstance(engine.write(lambda s, m: (Writes(puts={("t", b"k"): b"v"}), None)), Unknown)
    assert told(heard) == []


def test_a_store_that_was_opened_anew_is_heard_of(store: Store, heard: Heard) -> None:
    engine = store.create(tables=["t"])

    def panics() -> None:
        raise lmdb.PanicError("MDB_PANIC")

    faulty(engine).begins = [panics]
    assert engine.write(lambda s, m: (Writes(puts={("t", b"k"): b"v"}), 1)) == Applied(1)
    assert told(heard) == [{"event": "store.reopened", "log_level": "warning"}]


def test_a_full_store_is_heard_of(store: Store, heard: Heard) -> None:
    engine = store.create(tables=["t"])

    def full(txn: Any) -> None:
        raise DiskFailed(errno.ENOSPC)

    faulty(engine).commits = [full]
    with pytest.raises(StoreFull) as refused:
        store.put(engine, b"k")
    assert told(heard)[-1] == {"event": "store.full", "log_level": "error", "reason": refused.value.what}


def test_a_lock_file_that_was_replaced_is_heard_of(store: Store, heard: Heard) -> None:
    engine = store.create(tables=["t"])
    (store.folder / "writer.lock").unlink()
    with pytest.raises(EngineFailed):
        store.put(engine, b"k")
    [event] = told(heard)
    assert event == {"event": "lock.replaced", "log_level": "error", "path": str(store.folder / "writer.lock")}


def test_a_data_file_that_was_replaced_is_heard_of(store: Store, heard: Heard) -> None:
    engine = store.create(tables=["t"])
    (store.folder / "data.mdb").unlink()
    with pytest.raises(EngineFailed):
        store.put(engine, b"k")
    [event] = told(heard)
    assert event == {"event": "data.replaced", "log_level": "error", "path": str(store.folder / "data.mdb")}


def test_places_of_readers_that_died_are_heard_of_when_they_are_freed(store: Store, start: Start, heard: Heard) -> None:
    engine = store.create(map_bytes_start=4 * MIB, tables=["t"])
    reader = start(READ)
    assert reader.stdout.readline() == "reading\n"
    reader.kill()
    reader.wait()
    fill(engine, 6)
    cleared, grew = told(heard)
    assert cleared == {"event": "readers.cleared", "log_level": "info", "readers": 1}
    assert grew["event"] == "store.grew"
