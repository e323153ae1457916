"""Requests that arrive together share one commit: while one is under way, those that come wait for the next.

One task takes all that wait, in the order of their arrival, and hands them to the one who decides, in a thread. Nobody
gets an answer before that has returned; when it fails, nobody of that batch gets a cosignature.

Before it takes them it lets everything else go on that can: requests that are arriving join in, those of clients who
were just answered too. Otherwise every other commit would serve one half of the clients while the other half is being
read, and the two threads would take the interpreter from each other. Nobody waits for what has not arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
import trio
from trio.testing import wait_all_tasks_blocked

from sealbook.cli.witnessing.state import Decision
from sealbook.journal.errors import Busy, SealbookError
from sealbook.merkle.witness import TEXT_MEDIA_TYPE, Answer, Submission

log = structlog.get_logger("sealbook.witness")

BATCH_MAX = 256  # requests in one commit
WAITING_MAX = 4096  # requests in memory, each of at most 128 KiB; later ones are asked to come again
GATHERING_SECONDS_MAX = 0.01  # that those who wait, wait for others who are arriving: without end, where many ask
assert BATCH_MAX <= WAITING_MAX

Decide = Callable[[Sequence[Submission]], list[Decision]]


@dataclass(eq=False, slots=True)
class _Waiting:
    """A submission, and its answer once there is one."""

    submission: Submission
    answered: trio.Event = field(default_factory=trio.Event)
    answer: Answer | None = None


class Queue:
    """Where submissions wait. `run` is the task that serves them."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._waiting: deque[_Waiting] = deque()
        self._wanted = trio.Event()

    async def answer(self, submission: Submission) -> Answer:
        """The answer, once what it says is durable."""
        if len(self._waiting) >= WAITING_MAX:
            return Answer(503, TEXT_MEDIA_TYPE, b"too many requests are waiting\n")
        waiting = _Waiting(submission)
        self._waiting.append(waiting)
        self._wanted.set()
        await waiting.answered.wait()
        assert waiting.answer is not None
        return waiting.answer

    async def run(self) -> None:
        """Serve, until cancelled: what is then being decided is decided first."""
        while True:
            await self._wanted.wait()
            with trio.move_on_after(GATHERING_SECONDS_MAX):
                await wait_all_tasks_blocked()
            batch = [self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))]
            if not self._waiting:
                self._wanted = trio.Event()
            if batch:
                await self._serve(batch)

    async def _serve(self, batch: list[_Waiting]) -> None:
        submissions = [waiting.submission for waiting in batch]
        try:
            answers = _told(await trio.to_thread.run_sync(self._decide, submissions))
        except Exception as error:  # whatever went wrong: what was decided may not be durable
            log.error("witness.commit_failed", error=str(error), kind=type(error).__name__, requests=len(batch))
            answers = [_failure(error)] * len(batch)
        for waiting, answer in zip(batch, answers, strict=True):
            waiting.answer = answer
            waiting.answered.set()


def _told(decisions: list[Decision]) -> list[Answer]:
    """The answers; what was decided is told to the operator."""
    cosigned = {
        decision.submission.checkpoint.origin: decision.submission.checkpoint.size
        for decision in decisions
        if decision.cosigned
    }
    refused = sum(not decision.cosigned for decision in decisions)
    log.info("witness.decided", cosigned=cosigned, refused=refused)
    for decision in decisions:
        if decision.evidence is not None:
            log.warning("witness.evidence", origin=decision.evidence.origin, reason=decision.evidence.reason)
    return [decision.answer for decision in decisions]


def _failure(error: Exception) -> Answer:
    """No cosignature, and nothing about the inside of the server."""
    if isinstance(error, Busy):
        return Answer(503, TEXT_MEDIA_TYPE, b"the state is busy\n")
    told = b"the decision could not be made durable\n" if isinstance(error, SealbookError) else b"internal error\n"
    return Answer(500, TEXT_MEDIA_TYPE, told)
