"""The writer's lock among processes: who waits is seen, and let in."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sealbook.journal.engine.lmdb.folder import PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN, SEALBOOK, WriterLock
from sealbook.journal.errors import Busy


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / SEALBOOK).write_bytes(b"")
    return tmp_path


@pytest.fixture
def locks(store: Path) -> Iterator[tuple[WriterLock, WriterLock]]:
    """Two processes' worth of locks: `flock` belongs to the open file, so that one process can play both."""
    one, other = WriterLock(store), WriterLock(store)
    yield one, other
    one.close()
    other.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("sealbook.journal.engine.lmdb.folder.time.sleep", found.append)
    return found


def now() -> float:
    return time.monotonic()


def test_one_holds_the_lock_and_the_other_is_refused_at_its_deadline(locks: tuple[WriterLock, WriterLock]) -> None:
    one, other = locks
    one.acquire(now() + 5, lambda: None)
    with pytest.raises(Busy, match="another process is writing"):
        other.acquire(now() - 1, lambda: None)
    fcntl.flock(one.descriptor, fcntl.LOCK_UN)
    other.acquire(now() + 5, lambda: None)


def test_nobody_is_given_way_to_when_nobody_waits(locks: tuple[WriterLock, WriterLock], pauses: list[float]) -> None:
    locks[0].give_way()
    assert pauses == []


def test_whoever_waits_is_given_way_to_until_it_has_the_lock(
    locks: tuple[WriterLock, WriterLock], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = locks
    one.acquire(now() + 5, lambda: None)
    waited: list[float] = []

    def pause_of_the_waiting(seconds: float) -> None:
        """The other waits; the first has ended its write and gives way, and its pause is the other's next try."""
        monkeypatch.setattr("sealbook.journal.engine.lmdb.folder.time.sleep", pause_of_the_giving)
        fcntl.flock(one.descriptor, fcntl.LOCK_UN)
        one.give_way()

    def pause_of_the_giving(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("sealbook.journal.engine.lmdb.folder.time.sleep", pause_of_the_waiting)
    other.acquire(now() + 5, lambda: None)
    assert waited == [PAUSE_SECONDS_MIN] * round(PAUSE_SECONDS_MAX / PAUSE_SECONDS_MIN)  # for one longest pause
    monkeypatch.setattr("sealbook.journal.engine.lmdb.folder.time.sleep", waited.append)
    waited.clear()
    one.give_way()  # the other has the lock by now and waits no more
    assert waited == []


def test_a_store_that_is_being_created_can_be_waited_for(tmp_path: Path, pauses: list[float]) -> None:
    one, other = WriterLock(tmp_path), WriterLock(tmp_path)
    one.acquire(now() + 5, lambda: None)
    with pytest.raises(Busy):
        other.acquire(now() - 1, lambda: None)
    one.give_way()
    assert pauses == []
    one.close()
    other.close()


def test_the_waiting_may_give_up_between_two_tries(locks: tuple[WriterLock, WriterLock], pauses: list[float]) -> None:
    one, other = locks
    one.acquire(now() + 5, lambda: None)

    def still_wanted() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        other.acquire(now() + 5, still_wanted)
    one.give_way()
    assert pauses == [PAUSE_SECONDS_MIN]  # the other's one; it has left the waiting
