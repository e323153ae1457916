"""A leased run in an event loop: what a cancellation leaves, and how a body is stopped whose lease is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from crash_world import World, awaited_body, check, finish
from event_loops import Loop
from run_faces import FACES, Face, Heart

from sealbook.journal import EffectKey, Fenced, InDoubt, Journal, entries
from sealbook.journal.aio import leased as awaited
from sealbook.journal.aio.faces import AsyncTenant

KEY = EffectKey("charge", "42")


def face_of(loop: Loop) -> Face:
    [face] = [face for face in FACES if face.name == loop.name]
    return face


def test_an_effect_whose_call_is_cancelled_is_left_in_doubt(loop: Loop, journal: Journal) -> None:
    acme = journal.tenant("acme")
    seen: list[BaseException] = []

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            begun = face_of(loop).event()

            async def charge() -> None:
                begun.set()
                await loop.forever()

            async def body() -> None:
                try:
                    async with face.tenant("acme").leased("r", owner="w") as run:
                        await run.effect("charge", charge, key=KEY)
                except BaseException as error:
                    seen.append(error)
                    raise

            cancel = start(body)
            await begun.wait()
            cancel()

    loop.run(main)
    assert [type(error) for error in seen] == [loop.cancelled]
    assert [record.kind for record in acme.read("r")] == ["EffectStarted"]
    left = acme.lease("r")
    assert left is not None
    assert left.owner == "w"
    acme.force_lease("r", actor="ann", reason="cancelled")

    async def again() -> None:
        async with loop.face(journal) as face, face.tenant("acme").leased("r", owner="w") as run:
            await run.effect("charge", lambda: 1, key=KEY)

    with pytest.raises(InDoubt):
        loop.run(again)


@pytest.mark.parametrize("fails", [False, True], ids=["done", "failed"])
def test_the_end_of_an_effect_is_recorded_also_when_its_caller_was_cancelled(
    loop: Loop, journal: Journal, fails: bool
) -> None:
    acme = journal.tenant("acme")
    cancels: list[Callable[[], object]] = []
    seen: list[Any] = []

    def charge() -> int:
        cancels[0]()
        if fails:
            raise ValueError("declined")
        return 7

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:

            async def body() -> None:
                async with face.tenant("acme").leased("r", owner="w") as run:
                    try:
                        seen.append(await run.effect("charge", charge, key=KEY))
                    except ValueError as error:
                        seen.append(str(error))
                    try:
                        await loop.settle()
                        seen.append("went on")
                    except BaseException as error:
                        seen.append(type(error))
                        raise

            cancels.append(start(body))

    loop.run(main)
    assert seen == ["declined" if fails else 7, loop.cancelled]
    assert [record.kind for record in acme.read("r")] == ["EffectStarted", "EffectFailed" if fails else "EffectDone"]


def test_a_block_that_is_cancelled_before_its_body_has_begun_gives_the_lease_back(
    loop: Loop, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = journal.tenant("acme")
    cancels: list[Callable[[], object]] = []
    begun: list[str] = []
    submit = AsyncTenant._submit

    async def cancelling(tenant: AsyncTenant, request: Any) -> Any:
        answer = await submit(tenant, request)
        cancels[0]()
        return answer

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:

            async def body() -> None:
                async with face.tenant("acme").leased("r", owner="w"):
                    begun.append("body")

            monkeypatch.setattr(AsyncTenant, "_submit", cancelling)
            cancels.append(start(body))

    loop.run(main)
    assert begun == []
    left = acme.lease("r")
    assert left is not None
    assert (left.epoch, left.owner) == (1, None)


def test_a_body_that_waits_is_cancelled_when_its_lease_is_lost(loop: Loop, journal: Journal) -> None:
    acme = journal.tenant("acme")
    seen: list[BaseException] = []

    async def main() -> None:
        heart = Heart(face_of(loop))
        async with loop.face(journal) as face:
            block = awaited.leased(face.tenant("acme"), "r", owner="w", ttl=30, case=None, pause=heart.pause)

            async def think() -> None:
                acme.force_lease("r", actor="ann", reason="looks dead")
                await heart._let_go()
                await loop.forever()

            async with block as run:
                try:
                    await run.effect("think", think, key=KEY)
                except BaseException as error:
                    seen.append(error)
                    raise

    with pytest.raises(Fenced, match="the current epoch is 2"):
        loop.run(main)
    assert [type(error) for error in seen] == [loop.cancelled]
    assert [record.kind for record in acme.read("r")] == ["EffectStarted"]


def test_a_body_that_ended_before_it_was_told_has_ended(loop: Loop, journal: Journal) -> None:
    acme = journal.tenant("acme")

    async def main() -> str:
        async with loop.face(journal) as face:
            async with face.tenant("acme").leased("r", owner="w") as run:
                await run.note("all done")
                run._rules.hold.lose(Fenced("r", 1, 2))
            await loop.turn()
            return "went on"

    assert loop.run(main) == "went on"
    assert len(acme.read("r")) == 1


def test_a_cancellation_from_outside_stays_one_when_the_lease_is_lost_too(loop: Loop, journal: Journal) -> None:
    seen: list[BaseException] = []

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            begun = face_of(loop).event()
            runs: list[Any] = []

            async def body() -> None:
                try:
                    async with face.tenant("acme").leased("r", owner="w") as run:
                        runs.append(run)
                        begun.set()
                        await loop.forever()
                except BaseException as error:
                    seen.append(error)
                    raise

            cancel = start(body)
            await begun.wait()
            cancel()
            runs[0]._rules.hold.lose(Fenced("r", 1, 2))

    loop.run(main)
    assert [type(error) for error in seen] == [loop.cancelled]


def test_a_question_must_be_awaited(loop: Loop, journal: Journal) -> None:
    journal.tenant("acme").append("r", [entries.note("x")], epoch=1)

    async def main() -> None:
        async with loop.face(journal) as face, face.tenant("acme").leased("r", owner="w") as run:
            with pytest.raises(TypeError, match="await it"):
                bool(run.cancel_requested)
            assert await run.cancel_requested is False

    loop.run(main)


def test_the_same_run_is_executed_by_one_face_and_replayed_by_another(loop: Loop, journal: Journal) -> None:
    acme = journal.tenant("acme")
    with acme.leased("r", owner="thread") as run:
        first = [run.now(), run.random(), run.effect("charge", lambda: "receipt")]
        run.suspend(awaiting="approval")

    async def main() -> list[Any]:
        async with loop.face(journal) as face, face.tenant("acme").leased("r", owner="task") as run:
            found = [await run.now(), await run.random(), await run.effect("charge", lambda: 1 / 0)]
            await run.resume("yes")
            answer = await run.suspend(awaiting="approval")
            assert answer is not None
            assert answer.event == "yes"
            await run.conclude("completed")
            return found

    assert loop.run(main) == first
    assert journal.check().ok


CANCELS_MAX = 60  # more than a body has needs


@pytest.mark.parametrize("during", [False, True], ids=["before", "during"])
def test_a_run_that_is_cancelled_anywhere_comes_to_the_same_end(
    loop: Loop, during: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancel the body at each thing that is done for it, as it begins or while it is done."""
    perform = awaited.AsyncLeasedRun._perform

    def cancelled_at(number: int) -> int:
        """How many things were done for a run that is cancelled at this one."""
        world, journal, done = World(), Journal.in_memory(), 0
        cancels: list[Callable[[], object]] = []

        async def main() -> None:
            async with loop.face(journal) as face, loop.tasks() as start:

                async def soon() -> None:
                    await loop.turn()
                    cancels[0]()

                async def cancelling(self: Any, need: Any) -> Any:
                    nonlocal done
                    done += 1
                    if done == number:
                        start(soon) if during else cancels[0]()
                    return await perform(self, need)

                async def execute() -> None:
                    async with face.tenant("acme").leased("r", owner="w") as run:
                        await awaited_body(run, world, loop.turn)

                monkeypatch.setattr(awaited.AsyncLeasedRun, "_perform", cancelling)
                cancels.append(start(execute))

        loop.run(main)
        finish(journal.tenant("acme"), world)
        check(journal, world, 1)
        return done

    assert any(cancelled_at(number) < number for number in range(1, CANCELS_MAX))
