"""Group commit: what many callers ask at the same time is decided in order and made durable by one transaction.

Callers stand in one queue. The thread whose ticket is first leads: it takes as many tickets as one transaction may
hold, has them decided and committed, and gives every one its answer; then the next in the queue leads. So a lone
caller commits on its own thread and waits for nobody. Event loops do not block, so the writer's own thread, started
when the first of them comes, leads in their stead.

Rule 1: one thread leads at a time, because the first ticket alone leads, and is the last of its transaction to leave.
Rule 2: a signal handler may raise between any two steps of Python. Joining and leaving the queue, and being taken or
withdrawn, are one call of C each; a leader's tickets stay in the queue until they are answered; what a leader was kept
from telling, the next one tells; and whoever waits looks now and then whether it is first.
"""

from __future__ import annotations

import os
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
from sealbook.journal.engine.port import DURABLE, NOT_WRITTEN, STAGES, UNDECIDED, Moment, Snapshot, Work, Writes
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
LOOK_SECONDS: Final = 0.02  # how often the waiting look for themselves
GATHERING_SHARE: Final = 0.5  # of the last transaction's time, for which a leader waits at most for others to come
GATHERING_SECONDS_MAX: Final = 0.002
GATHERING_PAUSE: Final = 0.00005  # seconds between two looks

# What says nothing of any single request: to try each of a failed batch alone would be in vain.
_OF_ALL = (Busy, Closed, CommitUnknown, IndexStale, OpenedBeforeFork, ReadOnly)
_NONE: Final = object()
_TAKEN: Final = object()  # the fate of a ticket that a transaction has taken


class Home(Protocol):
    """An event loop whose tasks wait for answers."""

    def finished(self, tickets: Sequence[Ticket]) -> None:
        """Called from whichever thread committed, once per transaction, with all the answered tickets of this home.

        Once more with the same tickets when a signal came meanwhile. What it raises is lost: others wait to be told.
        """
        ...


class Ticket:
    """One request in the queue, and its answer once it has one."""

    __slots__ = ("_answer", "_fate", "_wake", "asked_at", "entries", "home", "payload_bytes", "request", "tenant")

    def __init__(self, tenant: str, request: requests.Request, home: Home | None) -> None:
        self.tenant, self.request, self.home = tenant, request, home
        self.entries, self.payload_bytes = _measured(request)
        self.asked_at = time.perf_counter()
        self._fate: dict[None, object] = {}
        self._answer: Any = _NONE
        self._wake: Callable[[], object] | None = None

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

    def result(self) -> Any:
        """The answer, or the error that it is, raised."""
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


class _Transaction:
    """What is being committed, how far it has come, and what is to be told of it."""

    __slots__ = ("answers", "batch", "overlay", "stage", "version")

    def __init__(self, batch: Sequence[Ticket]) -> None:
        self.batch = batch
        self.stage = NOT_WRITTEN
        self.answers: Sequence[Any] = ()
        self.version: int | None = None  # that it was decided at, if it writes anything
        self.overlay: Any = None


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
        """`moved` is called whenever something was written, after those who asked for it have their answers."""
        self._write, self._give_way, self._moved = write, give_way, moved
        self._setting, self._statistics = setting, statistics
        self._recent = Recent()
        self._queue: dict[Ticket, None] = {}  # in order of arrival; its first one leads
        self._untold: _Transaction | None = None  # the last one, until everybody has its answer
        self._expected = 1  # how many may be about to ask, by what the last transaction met
        self._last_seconds = 0.0
        self._closed = False
        self.pid = os.getpid()  # the process whose writer it is
        self._work_is_there = Bell()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._one_thread = threading.Lock()  # held by the writer's own thread as long as it lives

    @property
    def queue(self) -> int:
        """How many requests have no answer yet."""
        return sum(not (ticket.answered or ticket.withdrawn) for ticket in list(self._queue))

    def submit(self, tenant: str, request: requests.Request) -> Any:
        """Have the request decided and committed; its answer, or its refusal raised.

        Raises besides what the request's rules refuse: `Busy`, `Closed`, `CommitUnknown`, and what the engine fails of.
        """
        self._must_be_open()
        ticket = Ticket(tenant, request, None)
        try:
            self._queue[ticket] = None
            while not ticket.answered:
                if self._first() is ticket:
                    self._lead()
                else:
                    self._wait(ticket)
        finally:
            self._queue.pop(ticket, None)
            self._wake(self._first())
        return ticket.result()

    def enlist(self, tenant: str, request: requests.Request, home: Home) -> Ticket:
        """Hand the request over and return at once; `home.finished` is called with the ticket once it is answered."""
        self._must_be_open()
        if self._thread is None:
            self._start_thread()
        ticket = Ticket(tenant, request, home)
        try:
            self._queue[ticket] = None
            self._wake(ticket)
            if self._closed and self.withdraw(ticket):  # while this one came, and nobody would answer it any more
                raise Closed
            return ticket
        except BaseException:  # a signal handler's, too: whoever gets it will not wait for an answer
            self.withdraw(ticket)
            raise

    def withdraw(self, ticket: Ticket) -> bool:
        """Take the ticket back, so that nothing of it is written; False when a transaction has taken it already.

        It keeps its place in the queue until its thread has looked: that may have begun to lead for it.
        """
        if not ticket.is_for(object()):
            return False
        self._work_is_there.ring(self)
        return True

    def close(self) -> None:
        """Let nobody in any more, and return when everybody in the queue has an answer. Closing twice is harmless."""
        self._closed = True
        if os.getpid() != self.pid:
            return
        while not all(ticket.withdrawn for ticket in list(self._queue)):
            self._wake(self._first())
            time.sleep(LOOK_SECONDS / 20)
        if self._thread is not None:
            self._work_is_there.ring(self)
            self._thread.join()

    # --- the queue ---------------------------------------------------------------------------------------------------

    def _must_be_open(self) -> None:
        if os.getpid() != self.pid:
            raise OpenedBeforeFork("the store was opened before this process was forked: open it anew here")
        if self._closed:
            raise Closed

    def _first(self) -> Ticket | None:
        while True:
            try:
                return next(iter(self._queue), None)
            except RuntimeError:  # somebody came or left between the two calls
                continue

    def _wait(self, ticket: Ticket) -> None:
        """Until somebody wakes this ticket's thread, or for a short while."""
        bell = threading.Lock()
        bell.acquire()
        ticket._wake = bell.release
        if not ticket.answered and self._first() is not ticket:  # nobody rang before the bell hung there
            bell.acquire(timeout=LOOK_SECONDS)
        ticket._wake = None

    def _wake(self, ticket: Ticket | None) -> None:
        if ticket is None:
            return
        if ticket.home is not None:
            self._work_is_there.ring(self)
        elif (ring := ticket._wake) is not None:
            with suppress(RuntimeError):  # somebody else has rung already
                ring()

    def _start_thread(self) -> None:
        with self._starting:
            if self._thread is None:
                bell = self._work_is_there
                mine = weakref.ref(self, lambda _: bell.ring())
                thread = threading.Thread(
                    target=_lead_for_loops, args=(mine, bell, self._one_thread), name="sealbook-writer", daemon=True
                )
                thread.start()
                self._thread = thread

    @property
    def _thread_is_needed(self) -> bool:
        return not self._closed or bool(self._queue)

    def _lead_for_loops(self) -> float | None:
        """Lead while a ticket of an event loop is first; how long to wait for the next one, None for any time."""
        while (first := self._first()) is not None and first.home is not None:
            self._lead()
        self._wake(first)
        return LOOK_SECONDS if self._queue else None

    # --- one transaction ---------------------------------------------------------------------------------------------

    def _lead(self) -> None:
        """Called by the thread whose ticket is first: commit what is in the queue, as far as one transaction holds."""
        self._tell_untold()
        self._gather()
        batch = self._taken()
        if batch:
            start = time.perf_counter()
            self._commit(batch)
            self._last_seconds = time.perf_counter() - start
        self._leave()
        if self._queue:
            with suppress(Exception):  # a courtesy, and no part of any answer: who writes next meets what is wrong
                self._give_way()

    def _leave(self) -> None:
        """Let the answered leave the queue, and the withdrawn; the first one last, because then another one leads."""
        for ticket in reversed(list(self._queue)):
            if ticket.answered or ticket.withdrawn:
                self._queue.pop(ticket, None)

    def _gather(self) -> None:
        """Wait a little while fewer ask than were there a moment ago: who was just answered is likely to ask again.

        That costs them less than a transaction without them would. A lone caller, who met nobody, waits for nobody.
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
        """Decide and commit these, and answer them. An exception that is not an answer is a signal handler's."""
        transaction = self._untold = _Transaction(batch)

        def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Sequence[Any]]:
            overlay = Overlay(snapshot, self._recent.known(snapshot))
            answers = decide_over(overlay, [(ticket.tenant, ticket.request) for ticket in batch], moment, self._setting)
            writes = overlay.writes()
            transaction.answers, transaction.overlay = answers, overlay
            transaction.version = snapshot.version if writes else None
            transaction.stage = UNDECIDED
            return writes, answers

        start = time.perf_counter()
        try:
            self._write(work)
            transaction.stage = DURABLE
        except BaseException as error:
            transaction.stage = _stage_at(error, transaction)
            answer = isinstance(error, Exception) or threading.current_thread() is self._thread  # where no signal comes
            if answer and transaction.stage == NOT_WRITTEN:
                self._refuse(batch, error)
                return
            self._tell_untold()
            raise
        if transaction.version is not None:
            self._recent.learn(transaction.version, transaction.overlay.left())
        refused = self._statistics.committed(
            batch, transaction.answers, start, time.perf_counter(), wrote=transaction.version is not None
        )
        self._tell_untold()
        for ticket, refusal in refused:
            events.tell(ticket.tenant, refusal)
        for (tenant, run), (epoch_before, epoch) in transaction.overlay.takeovers.items():
            events.say("lease.taken_over", tenant=tenant, run=run, epoch_before=epoch_before, epoch=epoch)

    def _refuse(self, batch: Sequence[Ticket], error: BaseException) -> None:
        """Answer these with the error, unless one of them alone may be at fault: then each is tried for itself."""
        if len(batch) > 1 and not isinstance(error, _OF_ALL):
            for ticket in batch:
                self._commit([ticket])
            return
        self._statistics.failed(batch, error)
        self._answer(batch, [error] * len(batch))
        self._untold = None
        _tell(batch, error)

    def _tell_untold(self) -> None:
        """Answer the last transaction, unless nothing of it was written: then its tickets are in the queue again."""
        transaction = self._untold
        if transaction is None:
            return
        if transaction.stage == DURABLE:
            self._answer(transaction.batch, transaction.answers)
            if transaction.version is not None:
                self._moved()
        elif transaction.stage != NOT_WRITTEN:
            unknown = CommitUnknown("a signal came while the commit was under way, and what became of it is unknown")
            self._answer(transaction.batch, [unknown] * len(transaction.batch))
            _tell(transaction.batch, unknown)
        self._untold = None

    def _answer(self, batch: Sequence[Ticket], answers: Sequence[Any]) -> None:
        """Give the answers, and wake those who wait for them. It may be done again when a signal has come between."""
        self._expected = min(len(self._queue), ENTRIES_MAX)  # these, and who came meanwhile
        homes: dict[Home, list[Ticket]] = {}
        given: set[int] = set()
        for ticket, answer in zip(batch, answers, strict=True):
            if isinstance(answer, BaseException):
                answer = _copied(answer) if id(answer) in given else answer
                given.add(id(answer))
            if not ticket.answered:
                ticket._answer = answer
            if ticket.home is not None:
                homes.setdefault(ticket.home, []).append(ticket)
        for ticket in batch:
            if ticket.home is None:
                self._wake(ticket)
        for home, tickets in homes.items():
            for _ in range(2):  # a signal handler's exception, too, is lost here, and nobody may stay untold for it
                with suppress(Exception):
                    home.finished(tickets)
                    break


def _lead_for_loops(whose: weakref.ref[Writer], work_is_there: Bell, one_thread: threading.Lock) -> None:
    """The writer's own thread: it ends with the writer, also with one that nobody has closed and nobody knows any more.

    A signal may have kept its start from becoming known, and another one was started: `one_thread` lets one lead.
    """
    with one_thread:
        writer = whose()
        while writer is not None and writer._thread_is_needed:
            seconds = writer._lead_for_loops()
            if seconds is None:
                writer = None  # while nobody asks, the thread keeps nothing alive
            ringer = work_is_there.wait(seconds)
            writer = writer or whose()
            del ringer  # it was kept until here, so that what is asked is answered though the asker forgets the writer


def _stage_at(error: BaseException, transaction: _Transaction) -> str:
    """How far the write had come when it ended with this error.

    The engine notes it. Where it could not, because its part was over, an error of ours says that nothing was written.
    Any other may be a signal handler's: nothing was written if it came before everything was decided.
    """
    noted = next((note for note in getattr(error, "__notes__", ()) if note in STAGES), None)
    return noted or (NOT_WRITTEN if isinstance(error, SealbookError) else transaction.stage)


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
