"""A sealed run that is executed again: it has no lease, is handed back as it is recorded, and takes nothing new."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from run_faces import Face, Heart

from sealbook.journal import (
    EffectKey,
    InDoubt,
    Journal,
    Mismatch,
    RecordedFailure,
    RunSealed,
    Tenant,
    entries,
)
from sealbook.journal.testing import ManualClock

Body = Callable[[Any], Awaitable[Any]]


class Declined(Exception):
    """What a payment function raises."""


def execute(face: Face, acme: Tenant, body: Body) -> Any:
    async def program() -> Any:
        async with face.leased(acme, "r") as run:
            return await body(run)

    return face.run(program)


async def nothing_new(run: Any) -> list[Any]:
    """A body with a step of every kind."""
    found: list[Any] = [await run.resume("yes"), await run.now(), await run.random(), await run.now(key="later")]
    found.append(await run.effect("charge", abs, -1200))
    found.append(await run.effect("mail", abs, -1, key="mail", recovery="retry"))
    found.append(await run.effect("mail", abs, -1, key="mail", recovery="retry"))
    await run.note("charged")
    await run.snapshot({"charged": True})
    found.append(await run.cancel_requested)
    await run.conclude("completed")
    return found


def test_it_hands_back_every_step_and_concluding_alike_again_does_nothing(
    face: Face, acme: Tenant, journal: Journal
) -> None:
    first = execute(face, acme, nothing_new)
    before = journal.statistics()["commits"], acme.head("r")
    for _ in range(2):
        assert execute(face, acme, nothing_new) == first
    assert (journal.statistics()["commits"], acme.head("r")) == before
    assert acme.lease("r") is None
    assert journal.check().ok


NEW: dict[str, Body] = {
    "note": lambda run: run.note("more"),
    "snapshot": lambda run: run.snapshot(1),
    "now": lambda run: run.now(),
    "random": lambda run: run.random(),
    "effect": lambda run: run.effect("charge", pytest.fail, "it was called"),
    "keyed effect": lambda run: run.effect("charge", pytest.fail, "it was called", key="new"),
    "suspend": lambda run: run.suspend(awaiting="ada"),
    "conclude": lambda run: run.conclude("completed", data={"twice": True}),
    "conclude otherwise": lambda run: run.conclude("failed"),
}


@pytest.mark.parametrize("verb", NEW)
def test_whatever_is_new_is_refused_again_and_again_and_nothing_is_called(face: Face, acme: Tenant, verb: str) -> None:
    async def concluded(run: Any) -> None:
        await run.conclude("completed")

    async def more(run: Any) -> None:
        await run.conclude("completed")
        for _ in range(2):
            with pytest.raises(RunSealed, match="completed"):
                await NEW[verb](run)

    execute(face, acme, concluded)
    execute(face, acme, more)
    assert len(acme.read("r")) == 1


def test_a_refused_conclusion_does_not_lose_a_lease_that_the_seal_has_ended(
    face: Face, acme: Tenant, clock: ManualClock
) -> None:
    async def body(run: Any) -> None:
        await run.conclude("completed")
        with pytest.raises(RunSealed):
            await run.conclude("failed")
        clock.advance(60)
        with pytest.raises(RunSealed):
            await run.note("more")

    execute(face, acme, body)
    execute(face, acme, body)


def test_another_end_than_the_recorded_one_is_a_mismatch(face: Face, acme: Tenant) -> None:
    execute(face, acme, lambda run: run.conclude("completed"))
    with pytest.raises(Mismatch, match="cancelled"):
        execute(face, acme, lambda run: run.conclude("cancelled"))


def test_a_run_that_others_have_sealed_is_entered_and_takes_nothing(face: Face, acme: Tenant) -> None:
    acme.append("r", [entries.concluded("completed")], epoch=1, seal=True)
    with pytest.raises(RunSealed):
        execute(face, acme, lambda run: run.note("more"))
    with pytest.raises(RunSealed):
        acme.acquire("r", owner="w", ttl=30)


def test_a_failure_upon_which_the_run_was_concluded_is_handed_back(face: Face, acme: Tenant) -> None:
    calls: list[str] = []

    def decline() -> None:
        calls.append("charge")
        raise Declined("no funds")

    async def body(run: Any) -> str:
        try:
            await run.effect("charge", decline)
        except Declined as failure:
            await run.conclude("cancelled")
            return type(failure).__mro__[1].__name__
        raise AssertionError

    assert execute(face, acme, body) == "Exception"
    assert execute(face, acme, body) == RecordedFailure.__name__
    assert calls == ["charge"]
    assert [record.kind for record in acme.read("r")] == ["EffectStarted", "EffectFailed", "RunConcluded"]


def test_a_failure_behind_a_conclusion_whose_seal_is_missing_is_handed_back_too(face: Face, acme: Tenant) -> None:
    calls: list[str] = []

    def decline() -> None:
        calls.append("charge")
        raise Declined("no funds")

    def body(seal: bool) -> Body:
        async def body(run: Any) -> None:
            with pytest.raises(Declined):
                await run.effect("charge", decline)
            await run.conclude("cancelled", seal=seal)

        return body

    execute(face, acme, body(seal=False))
    execute(face, acme, body(seal=True))
    assert calls == ["charge"]
    assert acme.log_positions(["r"]) == [0]


def test_a_run_whose_seal_was_made_up_for_under_a_later_epoch_is_no_lost_lease(face: Face, acme: Tenant) -> None:
    execute(face, acme, lambda run: run.conclude("completed", seal=False))

    async def more(run: Any) -> None:
        await run.conclude("completed")
        await run.note("more")

    with pytest.raises(RunSealed):
        execute(face, acme, more)
    assert acme.log_positions(["r"]) == [0]
    with pytest.raises(RunSealed):
        execute(face, acme, more)


def test_what_was_sealed_in_doubt_stays_in_doubt_and_is_never_called(face: Face, acme: Tenant) -> None:
    starts = [entries.effect_started(EffectKey(name), name=name, recovery=name) for name in ("ask", "retry")]
    acme.append("r", [*starts, entries.concluded("completed")], epoch=1, seal=True)

    async def body(run: Any) -> None:
        with pytest.raises(InDoubt):
            await run.effect("ask", pytest.fail, key="ask")
        with pytest.raises(RunSealed):
            await run.effect("retry", pytest.fail, key="retry", recovery="retry")

    execute(face, acme, body)


def test_a_request_to_cancel_that_nobody_saw_is_not_seen_afterwards(face: Face, acme: Tenant) -> None:
    async def body(run: Any) -> bool:
        await run.conclude("completed")
        return False if acme.cancellation("r") is None else await run.cancel_requested

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            acme.request_cancel("r", actor="ada", reason="too late")
            await run.conclude("completed")

    face.run(program)
    assert execute(face, acme, body) is False


def test_it_has_no_lease_and_the_epoch_of_its_last_record_and_nobody_renews(face: Face, acme: Tenant) -> None:
    async def first(run: Any) -> int:
        await run.conclude("completed")
        epoch: int = run.epoch
        return epoch

    acme.acquire("r", owner="earlier", ttl=30)
    acme.force_lease("r", actor="ann", reason="it died")
    epoch = execute(face, acme, first)

    async def program() -> None:
        heart = Heart(face)
        async with face.leased(acme, "r", heart=heart) as run:
            assert (run.lease, run.epoch) == (None, epoch)
            assert heart.pauses == []

    assert epoch > 1
    face.run(program)
