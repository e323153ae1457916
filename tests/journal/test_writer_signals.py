"""Signal handlers that raise: wherever they strike a caller, nobody waits for ever, and nothing is written twice."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from writer_world import TENANT, Loop, Slow, calling, held, note, queued

from sealbook.journal import Journal
from sealbook.journal.engine.port import NOT_WRITTEN, STAGES
from sealbook.journal.errors import Busy, CommitUnknown
from sealbook.journal.writing.writer import Ticket


@pytest.fixture
def engine() -> Slow:
    return Slow()


@pytest.fixture
def journal(engine: Slow) -> Iterator[Journal]:
    with Journal.over(engine) as journal:
        engine.commits.clear()
        engine.began.clear()
        yield journal


@pytest.mark.parametrize("stage", [None, *STAGES])
def test_what_ends_a_write_by_no_error_of_ours_deceives_nobody(
    journal: Journal, engine: Slow, stage: str | None
) -> None:
    """Where the engine noted that nothing was written, each request is tried alone; else its outcome is unknown."""
    broken = ZeroDivisionError()
    if stage is not None:
        broken.add_note(stage)
    with held(engine) as go:
        first = calling(lambda: journal.view.writer.submit(TENANT, note("first")))
        assert engine.began.wait(30)
        rest = []
        for number, run in enumerate("abc", 2):
            rest.append(calling(lambda run=run: journal.view.writer.submit(TENANT, note(run))))  # type: ignore[misc]
            queued(journal, number)
        engine.failures = [Busy("in the first")]
        if stage == NOT_WRITTEN:
            engine.failures.append(broken)
        else:
            engine.after = broken
        go.set()
        for thread, _ in (first, *rest):
            thread.join(30)
    answers = [found[0] for _, found in rest]
    if stage == NOT_WRITTEN:
        assert [answer[0].run for answer in answers] == ["a", "b", "c"]
    else:
        assert all(isinstance(answer, CommitUnknown) for answer in answers)
    assert [journal.tenant(TENANT).head(run).seq for run in "abc"] == [1, 1, 1]
    assert not journal.view.writer._queue
    assert journal.check().ok


class Interrupted(BaseException):
    """What a signal handler raises, as `KeyboardInterrupt` would be."""


class TimeIsUp(Exception):
    """An ordinary exception, as a handler of SIGALRM raises it."""


STRIKES = (
    "journal/writing/writer.py",
    "journal/deciding/recent.py",
    "journal/writing/statistics.py",
    "journal/store/view.py",
)  # where


def interrupted_at(nth: int, call: Callable[[], Any], strike: type[BaseException] = Interrupted) -> tuple[Any, bool]:
    """What the call returns or raises when a handler raises before the nth line of the writer; whether it did."""
    left = nth

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(STRIKES) or frame.f_code.co_name == "__del__":
            return None
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise strike
        return trace

    sys.settrace(trace)
    try:
        return call(), left <= 0
    except strike as error:
        return error, True
    finally:
        sys.settrace(None)


LEADING, BEHIND, LAST = "leading", "behind", "last"


def live_through(role: str, nth: int, strike: type[BaseException]) -> bool:
    """A transaction waits for two threads and two tasks more; a signal strikes one of the callers at its nth line.

    Whether it had such a line.
    """
    engine, homes = Slow(), {"task": Loop(), "another task": Loop()}
    with Journal.over(engine) as journal:
        writer = journal.view.writer
        threads: dict[str, tuple[threading.Thread, list[Any]]] = {}
        behind: dict[str, tuple[threading.Thread, list[Any]]] = {}

        def submit(run: str) -> tuple[Any, bool]:
            if run == role:
                return interrupted_at(nth, lambda: writer.submit(TENANT, note(run)), strike)
            return writer.submit(TENANT, note(run)), False

        def let_others_come() -> None:
            del writer._gather
            for run in (BEHIND, LAST):
                behind[run] = calling(lambda run=run: submit(run))  # type: ignore[misc]
                come(run, behind[run][0])
            for run, home in homes.items():
                thread, _ = calling(lambda run=run, home=home: writer.enlist(TENANT, note(run), home))  # type: ignore[misc]
                thread.join(30)

        def come(run: str, thread: threading.Thread) -> None:
            """Wait until it stands in the queue, or has gone."""
            while thread.is_alive() and all(ticket.request.run != run for ticket in list(writer._queue)):  # type: ignore[union-attr]
                thread.join(0.001)

        writer._gather = let_others_come  # type: ignore[method-assign]
        threads[LEADING] = calling(lambda: submit(LEADING))
        threads[LEADING][0].join(30)
        writer.submit(TENANT, note("after"))  # by then the others have come, whether or not the first one was struck
        threads |= behind
        answers: dict[str, Any] = {}
        struck = False
        for run, (thread, found) in threads.items():
            thread.join(30)
            answers[run], was_struck = found[0] if isinstance(found[0], tuple) else (found[0], False)
            struck = struck or was_struck
        for run, home in homes.items():
            home.wait(1)
            answers[run] = _answer_of(home.calls[0][0])
        assert writer.submit(TENANT, note("again"))[0].run == "again"
        assert not writer._queue
        for run, answer in answers.items():
            records = journal.tenant(TENANT).head(run).seq
            assert isinstance(answer, list | CommitUnknown) or run == role, (nth, run, answer)
            assert records == 1 if isinstance(answer, list) else records <= 1, (nth, run, answer, records)
        assert journal.check().ok
    return struck


def _answer_of(ticket: Ticket) -> Any:
    try:
        return ticket.result()
    except CommitUnknown as error:
        return error


@pytest.mark.slow
@pytest.mark.parametrize("strike", [Interrupted, TimeIsUp])
@pytest.mark.parametrize(("role", "least"), [(LEADING, 15), (BEHIND, 15)])
def test_a_signal_at_any_line_leaves_nobody_waiting_and_writes_nothing_twice(
    role: str, least: int, strike: type[BaseException]
) -> None:
    lines = 1
    while live_through(role, lines, strike):
        lines += 1
    assert lines > least


def test_a_signal_that_strikes_a_waiting_caller_withdraws_its_request(
    journal: Journal, engine: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def struck(ticket: Ticket, seconds: float) -> bool:
        raise Interrupted

    with held(engine) as go:
        first = calling(lambda: journal.view.writer.submit(TENANT, note("first")))
        assert engine.began.wait(30)
        with monkeypatch.context() as patch:
            patch.setattr(Ticket, "wait", struck)
            with pytest.raises(Interrupted):
                journal.view.writer.submit(TENANT, note("struck"))
        go.set()
        first[0].join(30)
    journal.view.writer.submit(TENANT, note("next"))
    assert [standing.run for standing in journal.tenant(TENANT).runs()] == ["first", "next"]


def test_a_signal_at_any_line_of_closing_can_be_followed_by_another_close() -> None:
    lines, struck = 0, True
    while struck:
        lines += 1
        engine, loop = Slow(), Loop()
        journal = Journal.over(engine)
        journal.view.writer.enlist(TENANT, note("task"), loop)
        _, struck = interrupted_at(lines, journal.close)
        journal.close()
        thread = journal.view.writer._thread
        assert thread is not None
        assert not thread.is_alive()
        loop.wait(1)
    assert lines > 8


def test_signals_at_any_moment_write_nothing_twice_on_disk(tmp_path: Path) -> None:
    """The main thread is struck again and again, while two threads and a task share its transactions."""
    told: list[str] = []
    stop = threading.Event()
    loop = Loop()

    def strike(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    def submit(text: str) -> None:
        with suppress(CommitUnknown):
            writer.submit(TENANT, note(text.partition("/")[0], text))
            told.append(text)

    def work(name: str) -> None:
        number = 0
        while not stop.is_set():
            submit(f"{name}/{number}")
            number += 1

    before = signal.signal(signal.SIGALRM, strike)
    with Journal.open(tmp_path / "agents.sealbook", create=True) as journal:
        writer = journal.view.writer
        threads = [calling(lambda name=name: work(name))[0] for name in ("one", "other")]  # type: ignore[misc]
        struck = 0
        gc.disable()  # what is raised in a callback of the collector's is lost, and complained of
        try:
            for number in range(300):
                try:
                    writer.enlist(TENANT, note("task", f"task/{number}"), loop)
                    signal.setitimer(signal.ITIMER_REAL, 0.00002 + (number % 60) * 0.00005)
                    submit(f"main/{number}")
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Interrupted:
                    struck += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            gc.enable()
            stop.set()
        for thread in threads:
            thread.join(60)
        loop.wait(300)
        assert struck
        stand: Counter[str] = Counter()
        acme = journal.tenant(TENANT)
        after: str | None = None
        while True:
            page = acme.history(limit=1000, after=after)
            stand.update(record.data["text"] for record in page)
            after = page.next
            if after is None:
                break
        assert [text for text, count in stand.items() if count > 1] == []
        assert [text for text in told if not stand[text]] == []
        assert journal.check().ok


def test_a_signal_while_a_ticket_is_handed_over_takes_it_back(engine: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Journal.over(engine).view.writer
    monkeypatch.setattr(writer, "_start_thread", lambda: None)  # nobody takes it
    lines, struck = 0, True
    while struck:
        lines += 1
        ticket, struck = interrupted_at(lines, lambda: writer.enlist(TENANT, note("run"), Loop()))
        if struck:
            assert isinstance(ticket, Interrupted)
            assert all(left.withdrawn for left in writer._queue)
    assert lines > 10
    assert writer.withdraw(ticket)
