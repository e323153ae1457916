"""The engine over LMDB in a hostile world: other processes, full disks, media that cannot be written, forks."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.lmdb import LmdbEngine
from sealbook.journal.engine.port import Applied, Moment, Snapshot, Writes
from sealbook.journal.errors import Busy, Closed, EngineFailed, OpenedBeforeFork, StoreFull

Store = Any  # the fixtures' types, see conftest.py
Child = Any
Start = Any

MIB = 1 << 20
TINY = 64 * 1024  # the engine rounds it up to what the file needs

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount, or become somebody else")

# A process that takes the writer's lock by being in the middle of a write, and says so.
HOLD = """
engine = opened()
def work(snapshot, moment):
    say("holding")
    sys.stdin.readline()
    return Writes(puts={("t", b"held"): b"v"}), None
engine.write(work)
say("done")
sys.stdin.readline()
"""


# --- the map ------------------------------------------------------------------------------------------------------


def test_the_map_grows_by_itself_and_work_is_called_again(store: Store) -> None:
    engine = store.create(map_bytes_start=TINY)
    calls = 0

    def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        nonlocal calls
        calls += 1
        return Writes(puts={("t", b"%d" % n): bytes(MIB) for n in range(9)}), "answer"

    assert engine.write(work) == Applied("answer")
    assert calls > 1
    assert store.get(engine, b"8") == bytes(MIB)
    engine.close()
    assert store.get(store.open(map_bytes_start=TINY), b"8") == bytes(MIB)


def test_growth_waits_for_the_snapshots_of_this_process(store: Store) -> None:
    engine = store.create(map_bytes_start=TINY)
    store.put(engine, b"before")
    writer = threading.Thread(target=store.put, args=(engine, b"large", bytes(5 * MIB)))
    with engine.snapshot() as snapshot:
        writer.start()
        writer.join(0.1)
        assert writer.is_alive()
        assert snapshot.get_many([("t", b"before"), ("t", b"large")]) == [b"v", None]
    writer.join()
    assert store.get(engine, b"large") == bytes(5 * MIB)


def test_a_snapshot_that_never_ends_makes_growth_busy_not_deadly(store: Store) -> None:
    engine = store.create(map_bytes_start=TINY, lock_timeout=0.1)
    store.put(engine, b"before")
    with engine.snapshot() as snapshot:
        with pytest.raises(Busy, match="snapshot"):
            store.put(engine, b"large", bytes(5 * MIB))
        assert snapshot.get_many([("t", b"before"), ("t", b"large")]) == [b"v", None]
    store.put(engine, b"large", bytes(5 * MIB))
    assert store.get(engine, b"large") == bytes(5 * MIB)


def test_another_process_may_grow_the_map(store: Store, child: Child) -> None:
    store.create(map_bytes_start=TINY).close()
    engine = store.open(map_bytes_start=TINY)
    reader_code = "put(created(map_bytes_start=65536), sys.argv[2].encode(), bytes(9 << 20))"
    with engine.snapshot() as snapshot:
        assert child(reader_code, "one").returncode == 0
        assert snapshot.get_many([("t", b"one")]) == [None]
    assert store.get(engine, b"one") == bytes(9 * MIB)  # a reader takes the new size
    assert child(reader_code, "two").returncode == 0
    store.put(engine, b"three")  # and so does a writer
    assert [len(store.get(engine, key)) for key in (b"one", b"two", b"three")] == [9 * MIB, 9 * MIB, 1]


def test_two_writers_that_fill_the_map_together_lose_nothing(store: Store, start: Start) -> None:
    """Only who holds the writer's lock makes the map larger, and the other takes it over as it finds it."""
    rounds = 100
    code = """
engine = created(map_bytes_start=65536)
say("ready")
sys.stdin.readline()
for n in range(int(sys.argv[3])):
    put(engine, f"{sys.argv[2]}-{n:03}".encode(), bytes([n]) * 100_000)
say(engine.measures()["map_bytes"])
"""
    store.create(map_bytes_start=TINY).close()
    writers = [start(code, name, rounds) for name in ("a", "b")]
    assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * 2
    for writer in writers:
        writer.stdin.write("go\n")
    grown = [int(writer.stdout.readline()) for writer in writers]
    assert max(grown) > 16 * MIB  # it has doubled many times
    engine = store.open()
    with engine.snapshot() as snapshot:
        assert snapshot.count("t") == 2 * rounds
        for name in ("a", "b"):
            places = [("t", f"{name}-{n:03}".encode()) for n in range(rounds)]
            assert snapshot.get_many(places) == [bytes([n]) * 100_000 for n in range(rounds)]
    store.put(engine, b"after")


FOREIGN_READER = """
import lmdb
env = lmdb.open(path, max_readers=3, max_dbs=99, create=False)
say(env.info()["max_readers"])
sys.stdin.readline()
"""


def test_the_first_opener_does_not_limit_readers_and_the_refusal_says_how_many_may(store: Store, start: Start) -> None:
    store.create(tables=["t"]).close()
    (store.folder / "lock.mdb").unlink()
    first = start(FOREIGN_READER)
    assert first.stdout.readline() == "3\n"
    engine = store.open()
    with contextlib.ExitStack() as snapshots:
        for _ in range(1000):
            snapshots.enter_context(engine.snapshot())
        count = engine._environment.env.max_readers()
        for _ in range(1000, count):
            snapshots.enter_context(engine.snapshot())
        refusal = f"all {count} places for readers that {store.folder / 'lock.mdb'} has are taken"
        with pytest.raises(Busy, match=re.escape(refusal)):
            snapshots.enter_context(engine.snapshot())
    with engine.snapshot() as snapshot:
        assert snapshot.count("t") == 0


def test_another_process_may_make_tables(store: Store, child: Child) -> None:
    store.create(tables=["t"]).close()
    writer, later = store.open(), "put(opened(), b'k', b'theirs', sys.argv[2])"
    assert child(later, "new1").returncode == 0
    assert store.get(writer, b"k", "new1") == b"theirs"
    assert child(later, "new2").returncode == 0
    store.put(writer, b"mine", b"v", "new2")
    assert [store.get(writer, key, "new2") for key in (b"k", b"mine")] == [b"theirs", b"v"]
    writer.close()
    reader = store.open(readonly=True)
    assert child(later, "new3").returncode == 0
    assert store.get(reader, b"k", "new3") == b"theirs"


def test_the_map_may_grow_once_more_while_handles_for_new_tables_are_taken(store: Store, child: Child) -> None:
    store.create(tables=["t"], map_bytes_start=TINY).close()
    engine = store.open(map_bytes_start=TINY)
    assert child("put(opened(map_bytes_start=65536), b'k', bytes(9 << 20), 'new')").returncode == 0
    engine._environment.alone(engine._environment.learn_tables)
    assert store.get(engine, b"k", "new") == bytes(9 * MIB)


def test_no_address_space_to_grow_is_a_full_store_and_the_engine_lives_on(child: Child) -> None:
    code = """
import resource
engine = created(map_bytes_start=64 << 20)
put(engine, b"small")
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (24 << 20), resource.RLIM_INFINITY))
value = bytes(1 << 20)
try:
    engine.write(lambda s, m: (Writes(puts={("t", b"%d" % n): value for n in range(70)}), None))
except errors.StoreFull as error:
    say(error)
say(get(engine, b"small"), get(engine, b"1"))
put(engine, b"more")
say(get(engine, b"more"))
"""
    result = child(code)
    assert result.returncode == 0, (result.returncode, result.stderr)
    first, *rest = result.stdout.splitlines()
    assert "ulimit -v" in first
    assert rest == ["b'v' None", "b'v'"]


def test_no_address_space_to_open_is_a_full_store(store: Store, child: Child) -> None:
    store.create().close()
    code = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (600 << 20, resource.RLIM_INFINITY))
try:
    opened()
except errors.StoreFull as error:
    say(error)
"""
    assert "ulimit -v" in child(code).stdout


# --- a full disk --------------------------------------------------------------------------------------------------

FILL = """
engine = OPEN
n, refused = 0, 0
while refused < 3:
    try:
        put(engine, b"%d" % n, bytes(50000))
        n += 1
    except errors.StoreFull as error:
        refused, said = refused + 1, f"{type(error).__name__} {error}"
say(said)
say(all(get(engine, b"%d" % i) == bytes(50000) for i in range(n)), get(engine, b"%d" % n), n > 3)
"""


def limit_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MIB, resource.RLIM_INFINITY))


def test_a_file_that_may_not_grow_is_a_full_store_and_nothing_of_the_write_stands(store: Store, child: Child) -> None:
    store.create().close()
    result = child(FILL.replace("OPEN", "opened()"), preexec_fn=limit_files)
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first.startswith("StoreFull")
    assert second == "True None True"
    engine = store.open()  # and once there is room again, it goes on
    store.put(engine, b"after")
    assert store.get(engine, b"after") == b"v"


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of 2 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.call(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)]) != 0:
        pytest.skip("no small file system can be mounted here")
    yield disk
    subprocess.check_call(["umount", "-l", str(disk)])


def test_a_full_disk_refuses_writes_and_serves_readers(small_disk: Path, child: Child) -> None:
    readers = """
readers = [engine.snapshot() for _ in range(500)]
say(sum(reader.__enter__().count("t") == n for reader in readers))
os._exit(0)
"""
    result = child(FILL.replace("OPEN", "created()") + readers, at=small_disk / "s")
    assert result.returncode == 0, (result.returncode, result.stderr)
    first, second, third = result.stdout.splitlines()
    assert first.startswith("StoreFull")
    assert (second, third) == ("True None True", "500")


def test_a_store_is_not_created_on_a_full_disk_and_can_be_once_there_is_room(small_disk: Path) -> None:
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        filler.write_bytes(bytes(4 * MIB))
    with pytest.raises(StoreFull):
        LmdbEngine.create(small_disk / "s", identity_text=b"who", store_value=b"s", clock=system_clock)
    filler.unlink()
    engine = LmdbEngine.create(small_disk / "s", identity_text=b"who", store_value=b"s", clock=system_clock)
    assert engine.identity_text == b"who"
    engine.close()


# --- reading only -------------------------------------------------------------------------------------------------


def test_a_reader_sees_what_a_writer_commits_meanwhile(store: Store, start: Start) -> None:
    store.create(tables=["t"]).close()
    reader = store.open(readonly=True)
    writer = start("engine = opened()\nfor line in sys.stdin:\n    put(engine, line.strip().encode())\n    say('ok')")
    for key in ("a", "b", "c"):
        writer.stdin.write(f"{key}\n")
        assert writer.stdout.readline() == "ok\n"
        assert store.get(reader, key.encode()) == b"v"


@needs_root
@pytest.mark.parametrize("lock_file", [True, False])
def test_read_only_media_can_be_read_and_say_why_they_cannot_be_written(
    store: Store, tmp_path: Path, lock_file: bool
) -> None:
    engine = store.create()
    store.put(engine, b"k")
    engine.close()
    if not lock_file:
        (store.folder / "lock.mdb").unlink()
    medium = tmp_path / "medium"
    medium.mkdir()
    if subprocess.call(["mount", "--bind", str(store.folder), str(medium)]) != 0:
        pytest.skip("nothing can be mounted here")
    try:
        subprocess.check_call(["mount", "-o", "remount,ro,bind", str(medium)])
        reader = LmdbEngine.open(medium, readonly=True, clock=system_clock)
        assert store.get(reader, b"k") == b"v"
        reader.close()
        with pytest.raises(EngineFailed, match="readonly=True"):
            LmdbEngine.open(medium, readonly=False, clock=system_clock)
        with pytest.raises(EngineFailed, match="Read-only"):
            LmdbEngine.create(medium / "new", identity_text=b"x", store_value=b"x", clock=system_clock)
    finally:
        subprocess.check_call(["umount", "-l", str(medium)])


@needs_root
def test_another_user_is_told_what_is_missing(child: Child) -> None:
    code = """
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for readonly in (True, False):
    try:
        opened(readonly)
    except errors.EngineFailed as error:
        say(type(error).__name__, error)
"""
    with tempfile.TemporaryDirectory() as outside:  # pytest's own folders let nobody else in
        folder = Path(outside) / "s"
        LmdbEngine.create(folder, identity_text=b"who", store_value=b"s", clock=system_clock).close()
        for path in (folder.parent, folder):
            path.chmod(0o755)
        for path in folder.iterdir():
            path.chmod(0o644)
        result = child(code, at=folder)
    first, second = result.stdout.splitlines()
    assert "write permission for lock.mdb" in first
    assert "readonly=True" in second


# --- writers in other processes -----------------------------------------------------------------------------------


def test_a_writer_elsewhere_is_waited_for_and_then_it_is_busy(store: Store, start: Start) -> None:
    engine = store.create(tables=["t"], lock_timeout=0.05)
    holder = start(HOLD)
    assert holder.stdout.readline() == "holding\n"
    with pytest.raises(Busy, match="another process"):
        store.put(engine, b"k")
    assert store.get(engine, b"k") is None  # readers do not wait
    holder.stdin.write("go on\n")
    assert holder.stdout.readline() == "done\n"
    store.put(engine, b"k")
    assert [store.get(engine, key) for key in (b"k", b"held")] == [b"v", b"v"]


def test_a_writer_elsewhere_that_is_stopped_makes_busy_not_a_hang(store: Store, start: Start) -> None:
    engine = store.create(tables=["t"], lock_timeout=0.05)
    holder = start(HOLD)
    assert holder.stdout.readline() == "holding\n"
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(Busy):
        store.put(engine, b"k")


def test_a_killed_writer_frees_its_lock_and_leaves_nothing(store: Store, start: Start) -> None:
    engine = store.create(tables=["t"])
    holder = start(HOLD)
    assert holder.stdout.readline() == "holding\n"
    holder.kill()
    holder.wait()
    store.put(engine, b"k")
    assert [store.get(engine, key) for key in (b"k", b"held")] == [b"v", None]


def test_a_writer_in_another_thread_makes_busy(store: Store) -> None:
    engine = store.create(tables=["t"], lock_timeout=0.05)
    inside, leave = threading.Event(), threading.Event()

    def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        inside.set()
        leave.wait()
        return Writes(puts={("t", b"first"): b"v"}), None

    thread = threading.Thread(target=engine.write, args=(work,))
    thread.start()
    inside.wait()
    with pytest.raises(Busy, match="another thread"):
        store.put(engine, b"k")
    leave.set()
    thread.join()
    assert store.get(engine, b"first") == b"v"


def test_a_write_that_waits_while_the_store_is_closed_is_refused(store: Store, start: Start) -> None:
    engine = store.create(tables=["t"], lock_timeout=60.0)
    holder = start(HOLD)
    assert holder.stdout.readline() == "holding\n"
    caught: list[BaseException] = []

    def write() -> None:
        try:
            store.put(engine, b"k")
        except Closed as error:
            caught.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join(0.05)
    engine.close()
    thread.join()
    assert len(caught) == 1


@pytest.mark.parametrize("name", ["lock.mdb", "writer.lock"])
@pytest.mark.parametrize("again", [True, False])
def test_a_lock_file_that_was_replaced_stops_writing_until_the_store_is_opened_again(
    store: Store, name: str, again: bool
) -> None:
    engine = store.create(tables=["t"])
    store.put(engine, b"before")
    (store.folder / name).unlink()
    if again:
        (store.folder / name).touch(mode=0o600)
    for _ in range(2):
        with pytest.raises(EngineFailed, match=rf"{name}.* was replaced.*open the store again"):
            store.put(engine, b"k")
    assert store.get(engine, b"k") is None
    engine.close()
    engine = store.open()
    store.put(engine, b"k")
    assert [store.get(engine, key) for key in (b"before", b"k")] == [b"v", b"v"]


@pytest.mark.parametrize("again", [True, False])
def test_a_data_file_that_was_replaced_stops_writing_until_the_store_is_opened_again(store: Store, again: bool) -> None:
    """Whoever puts an older copy in its place while the store is open would lose every write that follows."""
    engine = store.create(tables=["t"])
    store.put(engine, b"before")
    copy = (store.folder / "data.mdb").read_bytes()
    (store.folder / "data.mdb").unlink()
    if again:
        (store.folder / "data.mdb").write_bytes(copy)
    for _ in range(2):
        with pytest.raises(EngineFailed, match=r"data.mdb was replaced.*open the store again"):
            store.put(engine, b"k")
    assert store.get(engine, b"k") is None
    engine.close()
    if again:
        engine = store.open()
        store.put(engine, b"k")
        assert [store.get(engine, key) for key in (b"before", b"k")] == [b"v", b"v"]


def test_a_data_file_that_was_replaced_is_not_opened_under_a_store_that_is_open(store: Store) -> None:
    """The storage fails, and LMDB has to be opened anew: what stands there now may be another store."""
    engine = store.create(tables=["t"])
    copy = (store.folder / "data.mdb").read_bytes()
    (store.folder / "data.mdb").unlink()
    (store.folder / "data.mdb").write_bytes(copy)
    engine._environment.stale = True
    for _ in range(2):
        with pytest.raises(EngineFailed, match=r"data.mdb was replaced.*open the store again"):
            store.get(engine, b"k")
    with pytest.raises(EngineFailed, match=r"data.mdb was replaced.*open the store again"):
        store.put(engine, b"k")


def test_a_lock_file_replaced_under_two_writers_loses_no_acknowledged_write(store: Store, start: Start) -> None:
    """Without the comparison both would write at once, and the rows of one would vanish without a word."""
    store.create(tables=["t"]).close()
    code = """
engine = opened()
for line in sys.stdin:
    try:
        put(engine, line.strip().encode())
        say("acknowledged")
    except errors.EngineFailed as error:
        say("refused")
"""
    first = start(code)
    first.stdin.write("one\n")
    assert first.stdout.readline() == "acknowledged\n"
    (store.folder / "lock.mdb").unlink()
    second = start(code)
    acknowledged = ["one"]
    for n in range(20):
        for writer, name, answer in ((first, f"first{n}", "refused\n"), (second, f"second{n}", "acknowledged\n")):
            writer.stdin.write(f"{name}\n")
            assert writer.stdout.readline() == answer
            if answer == "acknowledged\n":
                acknowledged.append(name)
    for writer in (first, second):
        writer.stdin.close()
        writer.wait()
    engine = store.open()
    with engine.snapshot() as snapshot:
        assert sorted(key.decode() for key, _ in snapshot.scan("t", b"", None, 99)) == sorted(acknowledged)


# --- readers that died --------------------------------------------------------------------------------------------

READ_AND_WAIT = """
import lmdb
env = lmdb.open(path, max_dbs=9, readonly=True)
txns = [env.begin() for _ in range(int(sys.argv[2]))]
say("reading")
sys.stdin.readline()
"""


def test_places_of_killed_readers_are_used_again(store: Store, start: Start) -> None:
    engine = store.create(tables=["t"])
    reader = start(READ_AND_WAIT, engine._environment.env.max_readers())
    assert reader.stdout.readline() == "reading\n"
    with pytest.raises(Busy, match=f"all {engine._environment.env.max_readers()} places"), engine.snapshot():
        pass
    store.put(engine, b"k")  # a writer needs no place
    reader.kill()
    reader.wait()
    assert store.get(engine, b"k") == b"v"


def test_pages_that_killed_readers_pin_are_freed_when_the_store_is_opened(store: Store, start: Start) -> None:
    engine = store.create(tables=["t"])
    reader = start(READ_AND_WAIT, 1)
    assert reader.stdout.readline() == "reading\n"
    reader.kill()
    reader.wait()
    assert str(reader.pid) in engine._environment.env.readers()
    engine.close()
    engine = store.open()
    assert str(reader.pid) not in engine._environment.env.readers()


def test_a_snapshot_gives_its_place_back_at_once_also_after_an_exception(store: Store) -> None:
    engine = store.create(tables=["t"])
    kept: list[BaseException] = []
    for _ in range(5):
        try:
            with engine.snapshot() as snapshot:
                snapshot.count("t")
                raise ZeroDivisionError
        except ZeroDivisionError as error:
            kept.append(error)  # with its traceback, and the frames in it
    assert str(os.getpid()) not in engine._environment.env.readers()


# --- fork ---------------------------------------------------------------------------------------------------------


def forked(job: Any) -> str:
    """What `job()` returns, or the error it raises, in a forked child that ends normally otherwise."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                said = repr(job())
            except BaseException as error:
                said = type(error).__name__
            os.write(send, said.encode())
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def test_a_forked_child_is_refused_everything_and_the_parent_is_unharmed(store: Store) -> None:
    engine = store.create(tables=["t"])
    store.put(engine, b"k")
    assert forked(lambda: store.get(engine, b"k")) == OpenedBeforeFork.__name__
    assert forked(lambda: store.put(engine, b"child")) == OpenedBeforeFork.__name__
    assert forked(engine.close) == OpenedBeforeFork.__name__
    assert [store.get(engine, key) for key in (b"k", b"child")] == [b"v", None]
    store.put(engine, b"after")
    assert store.get(engine, b"after") == b"v"


def test_a_forked_child_can_open_the_store_anew(store: Store) -> None:
    engine = store.create(tables=["t"])

    def anew() -> bytes | None:
        own = LmdbEngine.open(store.folder, readonly=False, clock=system_clock)
        store.put(own, b"child")
        value: bytes | None = store.get(own, b"child")
        own.close()
        return value

    assert forked(anew) == "b'v'"
    store.put(engine, b"parent")
    assert [store.get(engine, key) for key in (b"child", b"parent")] == [b"v", b"v"]


def test_a_child_forked_inside_a_snapshot_does_not_end_the_parents(store: Store, child: Child) -> None:
    engine = store.create(tables=["t"])
    store.put(engine, b"k", b"old")

    def leave_the_block() -> None:
        context.__exit__(None, None, None)
        engine.__dict__.clear()

    context = engine.snapshot()
    snapshot = context.__enter__()
    assert forked(lambda: snapshot.get_many([("t", b"k")])) == OpenedBeforeFork.__name__
    assert forked(leave_the_block) == "None"
    readers = "import lmdb; e = lmdb.open(path, max_dbs=9); say(sys.argv[2] in e.readers())"
    assert child(readers, os.getpid()).stdout == "True\n"
    for n in range(30):  # would use the snapshot's pages again, had it lost its place
        store.put(engine, b"k", b"new%d" % n)
    assert snapshot.get_many([("t", b"k")]) == [b"old"]
    context.__exit__(None, None, None)
    assert store.get(engine, b"k") == b"new29"


def test_a_child_forked_while_a_thread_writes_leaves_that_write_alone(store: Store) -> None:
    engine = store.create(tables=["t"], lock_timeout=0.2)
    inside, leave = threading.Event(), threading.Event()

    def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        inside.set()
        leave.wait()
        return Writes(puts={("t", b"k"): b"v"}), None

    thread = threading.Thread(target=engine.write, args=(work,))
    thread.start()
    inside.wait()
    assert forked(lambda: store.put(engine, b"child")) == OpenedBeforeFork.__name__
    leave.set()
    thread.join()
    assert [store.get(engine, key) for key in (b"k", b"child")] == [b"v", None]


def test_a_child_that_outlives_a_killed_writer_does_not_keep_its_lock(store: Store, start: Start) -> None:
    engine = store.create(tables=["t"])
    code = """
def work(snapshot, moment):
    if os.fork() == 0:
        say(os.getpid())
        signal.pause()
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
opened().write(work)
"""
    writer = start(code)
    grandchild = int(writer.stdout.readline())
    try:
        writer.stdin.write("die\n")
        writer.wait()
        store.put(engine, b"k")
    finally:
        os.kill(grandchild, signal.SIGKILL)
    assert store.get(engine, b"k") == b"v"
