"""Group commit: what many callers ask at the same time is decided in order and made durable by one transaction.

Callers stand in one queue, and the writer's own thread serves it: it takes as many tickets as one transaction may hold,
has them decided and committed, and gives every one its answer. The thread starts with the first request and ends with
the writer. Callers in threads wait for their answer; event loops are told.

Rule 1: that thread alone takes tickets and commits. No signal handler runs on it, so a commit is never struck half way.
Rule 2: a signal handler may strike a caller between any two steps of Python. Joining the queue, and being taken or
withdrawn, are one call of C each: a struck caller's ticket is withdrawn, or its transaction has taken it.
Rule 3: no caller waits without looking: where the thread has died, another one is started.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from sealbook.journal import events
from sealbook.journal.deciding import requests
from sealbook.journal.deciding.batch import decide_over
from sealbook.journal.deciding.overlay import Overlay
from sealbook.journal.deciding.recent import Recent
from sealbook.journal.engine.port import NOT_WRITTEN, Moment, Snapshot, Work, Writes
from sealbook.journal.errors import (
    Busy,
    Closed,
    CommitUnknown,
    IndexStale,
    OpenedBeforeFork,
    ReadOnly,
    SealbookError,
)
from sealbook.journal.schema.setting import Setting
from sealbook.journal.threads.wakeups import Bell
from sealbook.journal.writing.statistics import Statistics

ENTRIES_MAX: Final = 1000  # in one transaction
BYTES_MAX: Final = 16 * 2**20  # of encoded data in one transaction
LOOK_SECONDS: Final = 1.0  # how often a waiting caller looks whether the writer's thread lives
GATHERING_SHARE: Final = 0.5  # of the last transaction's time, for which the thread waits at most for others to come
GATHERING_SECONDS_MAX: Final = 0.002
GATHERING_PAUSE: Final = 0.00005  # seconds between two looks

# What says nothing of any single request: to try each of a failed batch alone would be in vain.
_OF_ALL = (Busy, Closed, CommitUnknown, IndexStale, OpenedBeforeFork, ReadOnly)
_NONE: Final = object()
_TAKEN: Final = object()  # the fate of a ticket that a transaction has taken


class Home(Protocol):
    """An event loop whose tasks wait for answers."""

    def finished(self, tickets: Sequence[Ticket]) -> None:
        """Called from the writer's thread, once per transaction, with all the answered tickets of this home.

        What it raises is lost: others wait to be told.
        """
        ...


class Ticket:
    """One request in the queue, and its answer once it has one."""

    __slots__ = ("_answer", "_fate", "_told", "asked_at", "entries", "home", "payload_bytes", "request", "tenant")

    def __init__(self, tenant: str, request: requests.Request, home: Home | None) -> None:
        self.tenant, self.request, self.home = tenant, request, home
        self.entries, self.payload_bytes = _measured(request)
        self.asked_at = time.perf_counter()
        self._fate: dict[None, object] = {}
        self._answer: Any = _NONE
        self._told: Any = None  # a lock, where a thread waits for the answer: free once it is known
        if home is None:
            self._told = threading.Lock()
            self._told.acquire()

    @property
    def answered(self) -> bool:
        """Whether the answer is known."""
        return self._answer is not _NONE

    def is_for(self, fate: object) -> bool:
        """Whether it is for this fate, to be taken into a transaction or withdrawn: the first that asks has it."""
        return self._fate.setdefault(None, fate) is fate

    @property
    def withdrawn(self) -> bool:
        """Whether nothing of it is or will be written."""
        return self._fate.get(None, _TAKEN) is not _TAKEN

    def answer(self, answer: Any) -> None:
        """Give it its answer, or the error that is one, and wake the thread that waits for it."""
        self._answer = answer
        if self._told is not None:
            self._told.release()

    def wait(self, seconds: float) -> bool:
        """Wait so long for the answer; whether it is known."""
        return bool(self._told.acquire(timeout=seconds))

    def result(self) -> Any:
        """The answer, or the error that it is, raised."""
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


class Writer:
    """The one writer of an open journal. `submit` and `enlist` may be called from any thread."""

    def __init__(
        self,
        write: Callable[[Work], Any],
        give_way: Callable[[], None],
        setting: Setting,
        statistics: Statistics,
        moved: Callable[[], None],
    ) -> None:
        """`moved` is called whenever something was, or may have been, written, before the answers are given."""
        self._write, self._give_way, self._moved = write, give_way, moved
        self._setting, self._statistics = setting, statistics
        self._recent = Recent()
        self._queue: dict[Ticket, None] = {}  # in order of arrival, until they are answered
        self._expected = 1  # how many may be about to ask, by what the last transaction met
        self._last_seconds = 0.0
        self._closed = False
        self.pid = os.getpid()  # the process whose writer it is
        self._work_is_there = Bell()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    @property
    def queue(self) -> int:
        """How many requests have no answer yet."""
        return sum(not (ticket.answered or ticket.withdrawn) for ticket in list(self._queue))

    def submit(self, tenant: str, request: requests.Request) -> Any:
        """Have the request decided and committed; its answer, or its refusal raised.

        Raises besides what the request's rules refuse: `Busy`, `Closed`, `CommitUnknown`, and what the engine fails of.
        """
        if threading.current_thread() is self._thread:  # a signer, an upcaster or a clock that writes
            raise Busy("a write cannot be asked for within a write of the same journal")
        ticket = self._enter(Ticket(tenant, request, None))
        try:
            while not ticket.wait(LOOK_SECONDS):
                self._need_thread()
                if sys.is_finalizing():  # no other thread runs any more
                    raise Closed
        except BaseException:  # a signal handler's: its caller does not wait for an answer any more
            self.withdraw(ticket)
            raise
        return ticket.result()

    def enlist(self, tenant: str, request: requests.Request, home: Home) -> Ticket:
        """Hand the request over and return at once; `home.finished` is called with the ticket once it is answered."""
        return self._enter(Ticket(tenant, request, home))

    def withdraw(self, ticket: Ticket) -> bool:
        """Take the ticket back, so that nothing of it is written; False when a transaction has taken it already."""
        if not ticket.is_for(object()):
            return False
        self._work_is_there.ring(self)  # so that it leaves the queue
        return True

    def close(self) -> None:
        """Let nobody in any more, and return when everybody in the queue has an answer. Closing twice is harmless."""
        self._closed = True
        if os.getpid() != self.pid:
            return
        while (thread := self._thread) is not None and thread.is_alive() and not sys.is_finalizing():
            self._work_is_there.ring(self)
            if thread is threading.current_thread():  # it closes itself, and ends when it has answered
                return
            thread.join(LOOK_SECONDS)

    # --- the queue ---------------------------------------------------------------------------------------------------

    def _enter(self, ticket: Ticket) -> Ticket:
        """Let the ticket join the queue, for the thread to take."""
        self._must_be_open()
        self._need_thread()
        try:
            self._queue[ticket] = None
            self._work_is_there.ring(self)
            if self._closed and self.withdraw(ticket):  # while this one came, and nobody would answer it any more
                raise Closed
            return ticket
        except BaseException:  # a signal handler's, too: whoever gets it will not wait for an answer
            self.withdraw(ticket)
            raise

    def _must_be_open(self) -> None:
        if os.getpid() != self.pid:
            raise OpenedBeforeFork("the store was opened before this process was forked: open it anew here")
        if self._closed:
            raise Closed

    def _need_thread(self) -> None:
        """Start the writer's thread, unless there is one. One that dies says so itself."""
        if self._thread is None:
            self._start_thread()

    def _start_thread(self) -> None:
        with self._starting:
            if self._thread is None:
                bell = self._work_is_there
                mine = weakref.ref(self, lambda _: bell.ring())
                thread = threading.Thread(target=_serve, args=(mine, bell), name="sealbook-writer", daemon=True)
                thread.start()
                self._thread = thread

    @property
    def _is_needed(self) -> bool:
        return not self._closed or bool(self._queue)

    # --- one transaction ---------------------------------------------------------------------------------------------

    def _serve_all(self) -> None:
        """Called by the writer's thread: commit what is in the queue, transaction by transaction."""
        while self._queue:
            self._gather()
            if batch := self._taken():
                start = time.perf_counter()
                self._commit(batch)
                self._last_seconds = time.perf_counter() - start
            self._leave()
            if self._queue:
                with suppress(Exception):  # a courtesy, and no part of any answer: the next write meets what is wrong
                    self._give_way()

    def _leave(self) -> None:
        """Let the answered leave the queue, and the withdrawn."""
        for ticket in list(self._queue):
            if ticket.answered or ticket.withdrawn:
                self._queue.pop(ticket, None)

    def _gather(self) -> None:
        """Wait a little while fewer ask than were there a moment ago: callers answered together often ask again.

        That costs them less than a transaction without them would. A lone caller does not wait.
        """
        if len(self._queue) >= self._expected:
            return
        end = time.perf_counter() + min(self._last_seconds * GATHERING_SHARE, GATHERING_SECONDS_MAX)
        while len(self._queue) < self._expected and time.perf_counter() < end:
            time.sleep(GATHERING_PAUSE)

    def _taken(self) -> list[Ticket]:
        """The tickets of the next transaction. When they are too many, each run's first one comes before any second."""
        queue = [ticket for ticket in list(self._queue) if not ticket.answered]
        if sum(ticket.entries for ticket in queue) > ENTRIES_MAX:
            turns: Counter[object] = Counter()
            order = []
            for ticket in queue:
                run = (ticket.tenant, getattr(ticket.request, "run", None))
                order.append(turns[run])
                turns[run] += 1
            queue = [ticket for _, ticket in sorted(zip(order, queue, strict=True), key=lambda item: item[0])]
        batch: list[Ticket] = []
        entries = payload_bytes = 0
        for ticket in queue:
            entries, payload_bytes = entries + ticket.entries, payload_bytes + ticket.payload_bytes
            if batch and (entries > ENTRIES_MAX or payload_bytes > BYTES_MAX):
                break
            if ticket.is_for(_TAKEN):
                batch.append(ticket)
        return batch

    def _commit(self, batch: Sequence[Ticket]) -> None:
        """Decide and commit these, and answer them."""
        decided: tuple[Overlay, int | None] | None = None

        def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Sequence[Any]]:
            nonlocal decided
            decided = None
            overlay = Overlay(snapshot, self._recent.known(snapshot))
            answers = decide_over(overlay, [(ticket.tenant, ticket.request) for ticket in batch], moment, self._setting)
            writes = overlay.writes()
            decided = overlay, snapshot.version if writes else None
            return writes, answers

        start = time.perf_counter()
        try:
            answers: Sequence[Any] = self._write(work)
        except BaseException as error:  # a signer's too, whatever it raises
            self._refuse(batch, _unknown(error) if decided is not None and _may_have_written(error) else error)
            return
        assert decided is not None
        overlay, version = decided
        if version is not None:
            self._recent.learn(version, overlay.left())
        refused = self._statistics.committed(batch, answers, start, time.perf_counter(), wrote=version is not None)
        if version is not None:
            self._moved()
        self._answer(batch, answers)
        if not refused and not overlay.takeovers:
            return
        with suppress(Exception):  # a host's own log must not end the thread
            for ticket, refusal in refused:
                events.tell(ticket.tenant, refusal)
            for (tenant, run), (epoch_before, epoch) in overlay.takeovers.items():
                events.say("lease.taken_over", tenant=tenant, run=run, epoch_before=epoch_before, epoch=epoch)

    def _refuse(self, batch: Sequence[Ticket], error: BaseException) -> None:
        """Answer these with the error, unless one of them alone may be at fault: then each is tried for itself."""
        if len(batch) > 1 and not isinstance(error, _OF_ALL):
            for ticket in batch:
                self._commit([ticket])
            return
        self._statistics.failed(batch, error)
        if isinstance(error, CommitUnknown):
            self._moved()
        self._answer(batch, [error] * len(batch))
        with suppress(Exception):
            _tell(batch, error)

    def _answer(self, batch: Sequence[Ticket], answers: Sequence[Any]) -> None:
        """Give the answers, and wake the threads and loops that wait for them."""
        self._expected = min(len(self._queue), ENTRIES_MAX)  # these, and those that came meanwhile
        homes: dict[Home, list[Ticket]] = {}
        given: set[int] = set()
        for ticket, answer in zip(batch, answers, strict=True):
            if isinstance(answer, BaseException):
                answer = _copied(answer) if id(answer) in given else answer
                given.add(id(answer))
            ticket.answer(answer)
            if ticket.home is not None:
                homes.setdefault(ticket.home, []).append(ticket)
        for home, tickets in homes.items():
            with suppress(Exception):
                home.finished(tickets)


def _serve(whose: weakref.ref[Writer], work_is_there: Bell) -> None:
    """The writer's own thread. It ends with the writer, also with one that was collected without being closed."""
    writer = whose()
    while writer is not None and writer._is_needed:
        try:
            writer._serve_all()
        except BaseException:
            writer._thread = None
            raise
        writer = None  # while nobody asks, the thread keeps nothing alive
        ringer = work_is_there.wait(None)
        writer = whose()
        del ringer  # it was kept until here, so that what is asked is answered though the asker forgets the writer


def _may_have_written(error: BaseException) -> bool:
    """Whether the write may stand although it ended so. An error of ours says so itself; an engine notes its stage."""
    return not isinstance(error, SealbookError) and NOT_WRITTEN not in getattr(error, "__notes__", ())


def _unknown(error: BaseException) -> CommitUnknown:
    unknown = CommitUnknown(f"the commit ended in {type(error).__name__}, and what became of it is unknown: {error}")
    unknown.__cause__ = error
    return unknown


def _tell(batch: Sequence[Ticket], error: BaseException) -> None:
    """What an operator should hear of a transaction that failed as a whole."""
    if isinstance(error, CommitUnknown):
        events.say("commit.unknown", requests=len(batch))
    else:
        events.tell(batch[0].tenant, error)


def _measured(request: requests.Request) -> tuple[int, int]:
    """(entries, bytes of their data) of a request."""
    if isinstance(request, requests.Append):
        return len(request.entries), sum([len(entry.data) for entry in request.entries])
    if isinstance(request, requests.Group):
        parts = [_measured(part) for part in request.requests]
        return sum(entries for entries, _ in parts), sum(size for _, size in parts)
    return 1, 0


def _copied(error: BaseException) -> BaseException:
    """The same error for another caller, who will raise it on a thread of its own."""
    copy = type(error).__new__(type(error))
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy
