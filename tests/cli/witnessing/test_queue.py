"""Submissions wait, are decided together, and are answered when that has returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import trio
from witness_world import PATIENCE_S, GrowingLog

from sealbook.cli.witnessing import queue as queue_module
from sealbook.cli.witnessing.queue import Queue
from sealbook.cli.witnessing.state import Decision
from sealbook.merkle.witness import Answer, Submission

ASKING = 12


class Deciding:
    """Answers each submission with its size, and remembers which were decided together."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, submissions: Sequence[Submission]) -> list[Decision]:
        self.batches.append([submission.checkpoint.size for submission in submissions])
        return [Decision(each, Answer(200, "text/plain", b"%d" % each.checkpoint.size)) for each in submissions]


def answered(decide: Deciding, submissions: Sequence[Submission], steps: Callable[[int], int]) -> dict[int, bytes]:
    """What each got. `steps` is how many turns of the loop go by before number n has been read and waits."""
    got: dict[int, bytes] = {}
    queue = Queue(decide)

    async def ask(number: int) -> None:
        for _ in range(steps(number)):
            await trio.lowlevel.checkpoint()
        submission = submissions[number]
        got[submission.checkpoint.size] = (await queue.answer(submission)).body

    async def main() -> None:
        async with trio.open_nursery() as serving:
            serving.start_soon(queue.run)
            async with trio.open_nursery() as asking:
                for number in range(len(submissions)):
                    asking.start_soon(ask, number)
            serving.cancel_scope.cancel()

    trio.run(main)
    return got


def growths(log: GrowingLog, count: int = ASKING) -> list[Submission]:
    return [log.submission(0, size) for size in range(1, count + 1)]


def test_requests_that_are_arriving_share_one_commit(log: GrowingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "GATHERING_SECONDS_MAX", PATIENCE_S)
    decide = Deciding()
    got = answered(decide, growths(log), steps=lambda number: 5 * number)
    assert decide.batches == [list(range(1, ASKING + 1))], "in the order in which they came to wait"
    assert got == {size: b"%d" % size for size in range(1, ASKING + 1)}


def test_nobody_waits_without_end_for_others_who_are_arriving(log: GrowingLog) -> None:
    decide = Deciding()
    queue = Queue(decide)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(queue.run)
            nursery.start_soon(busy)
            with trio.fail_after(PATIENCE_S):
                assert (await queue.answer(log.submission(0, 3))).status == 200
            nursery.cancel_scope.cancel()

    async def busy() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    trio.run(main)
    assert decide.batches == [[3]]


def test_a_commit_takes_so_many_and_the_others_the_next(log: GrowingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "BATCH_MAX", 5)
    decide = Deciding()
    got = answered(decide, growths(log), steps=lambda number: 0)
    assert sorted(map(len, decide.batches)) == [2, 5, 5]
    assert len(got) == ASKING


def test_who_comes_when_too_many_wait_is_asked_to_come_again(log: GrowingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "WAITING_MAX", 10)
    decide = Deciding()
    got = answered(decide, growths(log), steps=lambda number: 0)
    assert sorted(got.values()).count(b"too many requests are waiting\n") == ASKING - 10
    assert sum(map(len, decide.batches)) == 10
