"""SQLite with a group commit of its own: a thread that takes whatever is waiting and commits it as one transaction.

Callers are threads, or tasks of trio that are woken once per transaction: as much as Sealbook does for them.
"""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from typing import Any

import trio

from benchmarks.peers import Sqlite
from sealbook.journal import requests as ask

ENTRIES_MAX = 1000


class SharingSqlite:
    """The peer `Sqlite` behind a queue and one writing thread."""

    settings = (
        "SQLite, WAL, synchronous=FULL, same tables, indexes, checks and chain,"
        " group commit by one thread, a savepoint per request"
    )

    def __init__(self, path: Path) -> None:
        self._queue: deque[_Asked] = deque()
        self._work = threading.Semaphore(0)
        self._ready = threading.Event()
        self._database: Sqlite | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, args=(path,), daemon=True)
        self._thread.start()
        self._ready.wait()

    def acquire(self, runs: list[str]) -> None:
        """Lease these runs to one owner, in one transaction."""
        self._by_thread(_Asked(runs))

    def fill(self, requests: list[ask.Append]) -> None:
        """Append many in one transaction, as a store is filled. Not part of what is timed."""
        self._by_thread(_Asked(requests))

    def append(self, request: ask.Append) -> Any:
        """Append from a thread, and wait until it is durable."""
        return self._by_thread(_Asked([request]))

    async def append_from_task(self, request: ask.Append) -> Any:
        """Append from a task of trio, and wait until it is durable."""
        asked = _Asked([request])
        asked.task, asked.token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()
        self._queue.append(asked)
        self._work.release()
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        return asked.result()

    def close(self) -> None:
        """End the thread and close the database."""
        self._closing = True
        self._work.release()
        self._thread.join()

    def _by_thread(self, asked: _Asked) -> Any:
        asked.bell = threading.Lock()
        asked.bell.acquire()
        self._queue.append(asked)
        self._work.release()
        asked.bell.acquire()
        return asked.result()

    def _run(self, path: Path) -> None:
        database = Sqlite(path)
        self._ready.set()
        while not self._closing:
            self._work.acquire()
            batch: list[_Asked] = []
            while self._queue and len(batch) < ENTRIES_MAX:
                batch.append(self._queue.popleft())
            if batch:
                try:
                    _commit(database, batch)
                except Exception as error:
                    for asked in batch:
                        asked.error = error
                _answer(batch)
        database.close()


def _commit(database: Sqlite, batch: list[_Asked]) -> None:
    leases = [run for asked in batch for run in asked.what if isinstance(run, str)]
    if leases:
        database.acquire(leases)
    requests = [request for asked in batch for request in asked.what if isinstance(request, ask.Append)]
    if requests:
        answers = iter(database.append(requests, apart=True))
        for asked in batch:
            asked.answer = [next(answers) for request in asked.what if isinstance(request, ask.Append)]


def _answer(batch: list[_Asked]) -> None:
    tasks = [asked.task for asked in batch if asked.bell is None]
    for asked in batch:
        if asked.bell is not None:
            asked.bell.release()
    if tasks:
        token = next(asked.token for asked in batch if asked.bell is None)
        token.run_sync_soon(_wake, tasks)


class _Asked:
    """What a caller waits for."""

    __slots__ = ("answer", "bell", "error", "task", "token", "what")

    def __init__(self, what: Any) -> None:
        self.what = what
        self.answer: Any = None
        self.error: Exception | None = None
        self.bell: threading.Lock | None = None
        self.task: Any = None
        self.token: Any = None

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.answer


def _wake(tasks: list[Any]) -> None:
    for task in tasks:
        trio.lowlevel.reschedule(task)
