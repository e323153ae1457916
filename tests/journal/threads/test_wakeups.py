"""Who is told that the store has moved, when, and what it costs while nothing happens."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterator

import pytest

from sealbook.journal.errors import EngineFailed
from sealbook.journal.threads.wakeups import Bell, Pulse


class Store:
    """The version of a store that other processes write to, and how often it was looked at."""

    def __init__(self) -> None:
        self.version = 7
        self.fails = False
        self.looks = threading.Semaphore(0)

    def look(self) -> int:
        self.looks.release()
        if self.fails:
            raise EngineFailed("the storage failed")
        return self.version

    def was_looked_at(self, times: int) -> None:
        for _ in range(times):
            assert self.looks.acquire(timeout=30)


class Listener:
    def __init__(self) -> None:
        self.rings = threading.Semaphore(0)

    def ring(self) -> None:
        self.rings.release()

    def was_rung(self) -> None:
        assert self.rings.acquire(timeout=30)

    @property
    def silent(self) -> bool:
        return not self.rings.acquire(blocking=False)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def pulse(store: Store) -> Iterator[Pulse]:
    pulse = Pulse(store.look, shared=True)
    yield pulse
    pulse.close()


def test_a_beat_rings_everybody_who_hangs_and_nobody_else() -> None:
    pulse = Pulse(lambda: 0, shared=False)
    one, two = Listener(), Listener()
    pulse.hang(one.ring)
    pulse.hang(two.ring)
    pulse.take_down(two.ring)
    pulse.take_down(two.ring)
    pulse.beat()
    one.was_rung()
    assert one.silent
    assert two.silent


def test_another_process_is_noticed_by_the_version_and_told_once(pulse: Pulse, store: Store) -> None:
    listener = Listener()
    pulse.hang(listener.ring)
    listener.was_rung()  # what was committed before the first look
    store.was_looked_at(3)
    assert listener.silent
    store.version = 8
    listener.was_rung()
    store.was_looked_at(3)
    assert listener.silent


def test_however_many_wait_one_thread_looks(pulse: Pulse, store: Store) -> None:
    before = set(threading.enumerate())
    listeners = [Listener() for _ in range(50)]
    for listener in listeners:
        pulse.hang(listener.ring)
    assert set(threading.enumerate()) - before == {pulse._thread}
    store.version = 8
    for listener in listeners:
        listener.was_rung()


class Parking(Bell):
    """Tells that somebody waits at it for as long as it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.parked = threading.Semaphore(0)

    def wait(self, seconds: float | None = None) -> object:
        assert seconds is None
        self.parked.release()
        return super().wait()


def test_nobody_looks_while_nobody_waits(pulse: Pulse, store: Store) -> None:
    pulse._wanted = parking = Parking()
    listener = Listener()
    pulse.hang(listener.ring)
    listener.was_rung()
    pulse.take_down(listener.ring)
    assert parking.parked.acquire(timeout=30)
    store.version = 8
    pulse.hang(listener.ring)
    listener.was_rung()


def test_a_store_of_this_process_alone_is_not_looked_at(store: Store) -> None:
    pulse = Pulse(store.look, shared=False)
    before = set(threading.enumerate())
    pulse.hang(Listener().ring)
    assert set(threading.enumerate()) <= before
    pulse.close()


def test_a_store_that_cannot_be_read_is_for_those_who_wait_to_find_out(pulse: Pulse, store: Store) -> None:
    store.fails = True
    listener = Listener()
    pulse.hang(listener.ring)
    listener.was_rung()
    listener.was_rung()
    store.fails = False
    store.version = 9
    listener.was_rung()


def test_closing_ends_the_looking_and_may_be_done_twice(store: Store) -> None:
    before = set(threading.enumerate())
    waiting, idle = Pulse(store.look, shared=True), Pulse(store.look, shared=True)
    waiting.hang(Listener().ring)
    listener = Listener()
    idle.hang(listener.ring)
    listener.was_rung()
    idle.take_down(listener.ring)
    for pulse in (waiting, idle, Pulse(store.look, shared=True)):
        pulse.close()
        pulse.close()
        pulse.hang(Listener().ring)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("waits", [True, False])
def test_the_looking_ends_with_a_pulse_that_nobody_has_closed(store: Store, waits: bool) -> None:
    pulse = Pulse(store.look, shared=True)
    listener = Listener()
    pulse.hang(listener.ring)
    listener.was_rung()
    if not waits:
        pulse.take_down(listener.ring)
    thread, known = pulse._thread, weakref.ref(pulse)
    assert thread is not None
    del pulse
    for _ in range(100):  # the thread may have been about to let go of it
        gc.collect()
        thread.join(0.05)
        if not thread.is_alive():
            break
    assert not thread.is_alive()
    assert known() is None


def test_a_forked_child_closes_without_waiting_for_a_thread_that_it_does_not_have(pulse: Pulse) -> None:
    pulse.hang(Listener().ring)
    child = os.fork()
    if child == 0:
        pulse.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_bell_that_nobody_rings_is_waited_for_as_long_as_was_said() -> None:
    bell = Bell()
    bell.wait(0)
    bell.ring()
    bell.wait(0)
    assert bell._rung.empty()


def test_a_bell_that_was_rung_several_times_wakes_once() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    bell.wait()
    later = threading.Timer(0, bell.ring)
    later.start()
    bell.wait()  # waits for the timer: the two rings before are used up
    later.join()
    assert bell._rung.empty()
