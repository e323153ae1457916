"""Commits that fail, are interrupted, or die: what is said about them is what is so."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sealbook.journal.engine.port import DURABLE, NOT_WRITTEN, Moment, Snapshot, Writes

Store = Any  # the fixtures' types, see conftest.py
Child = Any
Start = Any


# --- signals ------------------------------------------------------------------------------------------------------


class Interrupted(BaseException):
    """What the handler of these tests raises, as `KeyboardInterrupt` would be."""


@contextmanager
def raising() -> Iterator[None]:
    def handler(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    gc.disable()  # what is raised in a callback of the collector's is lost, and complained of
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()


def stands(store: Store, engine: Any, key: bytes) -> bool:
    return store.get(engine, key) is not None


def test_a_signal_during_work_leaves_nothing_and_says_so(store: Store, child: Child) -> None:
    engine = store.create(tables=["t"])

    def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        os.kill(os.getpid(), signal.SIGALRM)
        return Writes(puts={("t", b"k"): b"v"}), None

    with raising(), pytest.raises(Interrupted) as caught:
        engine.write(work)
    assert caught.value.__notes__ == [NOT_WRITTEN]
    assert not stands(store, engine, b"k")
    # While the exception and its frames live: nothing is held, here or elsewhere.
    assert child("put(opened(lock_timeout=0.1), b'elsewhere')").returncode == 0
    store.put(engine, b"here")


def test_a_signal_during_the_commit_comes_after_it_and_says_that_the_write_stands(store: Store, child: Child) -> None:
    store.create(tables=["t"]).close()
    code = """
class Interrupted(BaseException):
    pass
def handler(number, frame):
    raise Interrupted
signal.signal(signal.SIGALRM, handler)
engine = opened()
try:
    put(engine, b"k")
except Interrupted as error:
    say(error.__notes__)
    say(get(engine, b"k"))
    put(engine, b"next")
    say(get(engine, b"next"))
"""
    result = child(code, prefix=inject("fdatasync", "signal=SIGALRM:when=1"))  # it comes as the first sync begins
    assert result.stdout.splitlines() == [repr([DURABLE]), "b'v'", "b'v'"], result.stderr


def test_signals_at_any_moment_of_a_write_hold_nothing_and_tell_the_truth(store: Store) -> None:
    """Signals are aimed at every part of a write; after each, the note is right and the next write works at once."""
    engine = store.create(tables=["t"], lock_timeout=0.5)
    value = bytes(20_000)
    notes: dict[str, int] = {NOT_WRITTEN: 0, DURABLE: 0}
    with raising():
        for n in range(300):
            key = b"%d" % n
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00001 + (n % 60) * 0.00002)
                store.put(engine, key, value)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted as error:
                signal.setitimer(signal.ITIMER_REAL, 0)
                for note in getattr(error, "__notes__", []):  # none when it came before or after the write
                    notes[note] += 1
                    assert stands(store, engine, key) == (note == DURABLE)
                store.put(engine, b"after", key)
    print(notes)
    assert notes[NOT_WRITTEN]
    assert engine._environment.gate._users == engine._environment.gate._claims == engine._turn._claims == {}


def test_a_signal_while_waiting_for_the_lock_gives_up_the_wait(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = store.create(tables=["t"], lock_timeout=60.0)
    holder = start(
        """
def work(snapshot, moment):
    say("holding")
    sys.stdin.readline()
    return Writes(), None
opened().write(work)
"""
    )
    assert holder.stdout.readline() == "holding\n"
    with monkeypatch.context() as patch:
        patch.setattr("sealbook.journal.engine.lmdb.folder.time.sleep", lambda _: signal.raise_signal(signal.SIGALRM))
        with raising(), pytest.raises(Interrupted) as caught:
            store.put(engine, b"k")
    assert caught.value.__notes__ == [NOT_WRITTEN]
    holder.kill()
    holder.wait()
    store.put(engine, b"k")


# --- commits that fail ------------------------------------------------------------------------------------------------

WRITE_THREE = """
engine = opened()
put(engine, b"first")
say("started")
for key in (b"A", b"B", b"C"):
    try:
        outcome = put(engine, key)
        said = "unknown" if isinstance(outcome, Unknown) else "applied"
    except errors.SealbookError as error:
        said = type(error).__name__
    say(said)
"""


def needs_strace(command: list[str]) -> list[str]:
    if shutil.which("strace") is None or subprocess.call(["strace", "-qq", "-o", "/dev/null", "true"]) != 0:
        pytest.skip("strace is not there, or may not trace")
    return command


def inject(call: str, fault: str) -> list[str]:
    return needs_strace(
        ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{fault}"]
    )


@pytest.mark.slow
@pytest.mark.parametrize(("error", "kind"), [("ENOSPC", "StoreFull"), ("EDQUOT", "StoreFull"), ("EIO", "EngineFailed")])
@pytest.mark.parametrize("nth", range(3, 9))
def test_a_write_that_fails_once_is_told_as_it_is(store: Store, child: Child, error: str, kind: str, nth: int) -> None:
    """The nth `pwrite64` of the process fails: a data page or the meta page, of one of the commits."""
    store.create(tables=["t"]).close()
    check_told(store, child(WRITE_THREE, prefix=inject("pwrite64", f"error={error}:when={nth}")), kind)


@pytest.mark.parametrize("nth", range(2, 5))
def test_a_sync_that_fails_once_is_told_as_it_is(store: Store, child: Child, nth: int) -> None:
    store.create(tables=["t"]).close()
    check_told(store, child(WRITE_THREE, prefix=inject("fdatasync", f"error=EIO:when={nth}")), "EngineFailed")


@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
def test_writes_that_fail_for_good_are_told_as_they_are(store: Store, child: Child, call: str) -> None:
    store.create(tables=["t"]).close()
    check_told(store, child(WRITE_THREE, prefix=inject(call, "error=EIO:when=5+")), "EngineFailed")


def check_told(store: Store, result: Any, kind: str) -> None:
    """An acknowledged row is there, a refused one is not, and the child lived to tell."""
    assert result.returncode == 0 or "started" not in result.stdout, (result.returncode, result.stderr)
    told = result.stdout.splitlines()[1:]
    assert set(told) <= {"applied", "unknown", kind}
    engine = store.open()
    for key, said in zip((b"A", b"B", b"C"), told, strict=False):
        if said != "unknown":
            assert (store.get(engine, key) is not None) == (said == "applied"), (key, told)


SHIM = r"""
/* The nth write of a meta page (the only short one) to data.mdb happens, and is then reported as failed with EIO. So
   are the writes and syncs of data.mdb after it, without their happening, until FAILS have failed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int metas, failing;
static int is_data(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    return n > 8 && !memcmp(path + n - 8, "data.mdb", 8);
}
static int fails(void) {
    if (failing <= 0) return 0;
    failing--;
    errno = EIO;
    return 1;
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    if (is_data(fd)) {
        if (fails()) return -1;
        if (size < 512 && ++metas == atoi(getenv("NTH"))) {
            real(fd, data, size, at);
            failing = atoi(getenv("FAILS"));
            fails();
            return -1;
        }
    }
    return real(fd, data, size, at);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }
int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    return is_data(fd) && fails() ? -1 : real(fd);
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make the faults with")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-w", "-o", folder / "shim.so", folder / "shim.c", "-ldl"], check=True
    )
    return folder / "shim.so"


def told_by(child: Child, shim: Path, *, nth: int, fails: int) -> tuple[Any, list[str]]:
    result = child(WRITE_THREE, env={**os.environ, "LD_PRELOAD": str(shim), "NTH": str(nth), "FAILS": str(fails)})
    assert result.returncode == 0, result.stderr
    started, *told = result.stdout.splitlines()
    assert started == "started"
    return result, told


@pytest.mark.parametrize("nth", [2, 3, 4])
def test_a_commit_that_lmdb_took_back_is_refused_and_the_next_one_works(
    store: Store, child: Child, shim: Path, nth: int
) -> None:
    """LMDB puts the old meta page back when writing the new one fails, and refuses everything from then on."""
    store.create(tables=["t"]).close()
    result, told = told_by(child, shim, nth=nth, fails=1)
    assert told == ["EngineFailed" if n == nth else "applied" for n in (2, 3, 4)]
    check_told(store, result, "EngineFailed")


@pytest.mark.parametrize("nth", [2, 3, 4])
def test_a_commit_that_happened_and_was_reported_as_failed_is_found(
    store: Store, child: Child, shim: Path, nth: int
) -> None:
    """Here LMDB cannot put the old meta page back either: the commit stands, and looking tells."""
    store.create(tables=["t"]).close()
    result, told = told_by(child, shim, nth=nth, fails=2)
    assert told == ["applied", "applied", "applied"]
    check_told(store, result, "EngineFailed")


def test_a_commit_whose_outcome_cannot_be_learnt_is_unknown(store: Store, child: Child, shim: Path) -> None:
    store.create(tables=["t"]).close()
    _, told = told_by(child, shim, nth=2, fails=1_000_000)
    assert told == ["unknown", "EngineFailed", "EngineFailed"]
    engine = store.open()  # the storage is well again, and so is the store
    store.put(engine, b"D")
    assert [store.get(engine, key) for key in (b"first", b"B", b"C", b"D")] == [b"v", None, None, b"v"]


# --- kills ------------------------------------------------------------------------------------------------------------


def test_lmdb_syncs_data_and_meta_page_and_writes_through_no_map(store: Store) -> None:
    """A kill of the process alone would not show it: what was not synced survives in the kernel's cache."""
    flags = store.create(tables=["t"])._environment.env.flags()
    assert {name: flags[name] for name in ("sync", "metasync", "writemap")} == {
        "sync": True,
        "metasync": True,
        "writemap": False,
    }


@pytest.mark.slow
def test_no_acknowledged_write_is_lost_to_a_kill(store: Store, start: Start) -> None:
    """Thirty writers are killed at some moment; each says a number only after its write has returned."""
    store.create(tables=["t"]).close()
    code = """
engine = opened()
first = int(sys.argv[2])
for n in range(first, first + 10_000):
    put(engine, b"%06d" % n, b"%d" % n * 200)
    os.write(1, b"%d\\n" % n)
"""
    acknowledged: list[int] = []
    for kill in range(30):
        writer = start(code, kill * 10_000)
        said = [writer.stdout.readline() for _ in range(1 + kill % 7)]
        writer.kill()
        said += writer.stdout.read().splitlines(keepends=True)
        writer.wait()
        acknowledged += [int(line) for line in said if line.endswith("\n")]
    assert len(acknowledged) >= 30
    engine = store.open()
    with engine.snapshot() as snapshot:
        found = snapshot.get_many([("t", b"%06d" % n) for n in acknowledged])
    assert found == [b"%d" % n * 200 for n in acknowledged]


def test_a_write_is_whole_or_absent_after_a_kill(store: Store, start: Start) -> None:
    store.create(tables=["t", "u"]).close()
    code = """
engine = opened()
n = int(sys.argv[2])
while True:
    puts = {(table, b"%06d-%02d" % (n, i)): bytes(500) for i in range(20) for table in "tu"}
    engine.write(lambda snapshot, moment: (Writes(puts=puts), None))
    os.write(1, b".")
    n += 1
"""
    for kill in range(6):
        writer = start(code, kill * 1000)
        writer.stdout.read(1 + kill)
        writer.kill()
        writer.wait()
    engine = store.open()
    with engine.snapshot() as snapshot:
        assert snapshot.count("t") == snapshot.count("u")
        assert snapshot.count("t") % 20 == 0
        assert snapshot.count("t") >= 20 * sum(1 + kill for kill in range(6))
