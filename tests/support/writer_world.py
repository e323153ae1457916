"""An engine whose commits can be held up and made to fail, an end of an event loop, and threads that ask the writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sealbook.journal import Journal, entries, requests
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Applied, Moment, Place, Snapshot, Work, Writes
from sealbook.journal.writing.writer import Ticket

TENANT = "acme"


def note(run: str, text: str = "x", epoch: int = 1) -> requests.Request:
    return requests.append(run, [entries.note(text)], epoch=epoch)


class Slow(MemoryEngine):
    """An engine whose commits can be held up, counted and made to fail."""

    def __init__(self) -> None:
        super().__init__(clock=system_clock)
        self.commits: list[int] = []  # rows put by each
        self.held: threading.Event | None = None  # while it is not set, a commit that has begun waits
        self.began = threading.Event()
        self.failures: list[BaseException] = []  # raised by the next commits, instead of writing
        self.after: BaseException | None = None  # raised once by the next commit, after writing
        self.ways_given = 0
        self.read: list[Place] = []

    def write(self, work: Work) -> Applied:
        def observed(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
            writes, answers = work(_Counted(snapshot, self.read), moment)
            self.commits.append(len(writes.puts))
            return writes, answers

        self.began.set()
        if self.held is not None:
            assert self.held.wait(30)
        if self.failures:
            super().write(lambda snapshot, moment: (Writes(), observed(snapshot, moment)[1]))
            raise self.failures.pop(0)
        applied = super().write(observed)
        if self.after is not None:
            error, self.after = self.after, None
            raise error
        return applied

    def give_way(self) -> None:
        self.ways_given += 1


class _Counted:
    def __init__(self, snapshot: Snapshot, read: list[Place]) -> None:
        self._snapshot, self._read = snapshot, read
        self.version = snapshot.version
        self.scan, self.count = snapshot.scan, snapshot.count

    def get_many(self, places: Sequence[Place]) -> list[bytes | None]:
        self._read += places
        return self._snapshot.get_many(places)


class Loop:
    """An event loop's end of the writer, without a loop."""

    def __init__(self) -> None:
        self.calls: list[list[Ticket]] = []
        self.called = threading.Semaphore(0)

    def finished(self, tickets: Sequence[Ticket]) -> None:
        self.calls.append(list(tickets))
        self.called.release()

    def wait(self, tickets: int) -> None:
        while sum(map(len, self.calls)) < tickets:
            assert self.called.acquire(timeout=30)


@contextmanager
def held(engine: Slow) -> Iterator[threading.Event]:
    """Hold every commit from its beginning until the event is set, at the latest at the end of the block."""
    engine.held = event = threading.Event()
    try:
        yield event
    finally:
        event.set()
        engine.held = None


def calling(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A thread that makes the call, and where its answer or error will be."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)  # one that waits for ever must not keep the tests from ending
    thread.start()
    return thread, found


def queued(journal: Journal, count: int) -> None:
    """Wait until so many tickets stand in the queue."""
    look = threading.Event()
    for _ in range(3000):
        if len(journal.view.writer._queue) >= count:
            return
        look.wait(0.01)
    raise AssertionError(f"{len(journal.view.writer._queue)} tickets, not {count}")


def asked_together(journal: Journal, engine: Slow, asked: Sequence[requests.Request]) -> list[Any]:
    """The answers to requests that all stood in the queue while an earlier one was being committed."""
    engine.began.clear()
    with held(engine) as go:
        first, _ = calling(lambda: journal.view.writer.submit(TENANT, note("first")))
        assert engine.began.wait(30)
        callers = []
        for number, request in enumerate(asked, 2):
            callers.append(calling(lambda request=request: journal.view.writer.submit(TENANT, request)))  # type: ignore[misc]
            queued(journal, number)
        go.set()
        for thread in (first, *(thread for thread, _ in callers)):
            thread.join(30)
    return [answer for _, [answer] in callers]
