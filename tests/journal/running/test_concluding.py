"""How a run is concluded: what is in doubt is never sealed away, because nobody could settle it afterwards."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import trio
from run_faces import Face, OnTrio, Threaded

from sealbook.indexes.standing import SEALING_EXCEPTIONS
from sealbook.journal import EffectKey, InDoubt, InvalidInput, Journal, Tenant, entries
from sealbook.journal.running.needs import Need, Read, Submit

OPEN_OUTCOMES = sorted(SEALING_EXCEPTIONS)


class Gone(BaseException):
    """Stands for a cancellation: it says nothing of what the world did."""


def cut_off() -> None:
    raise Gone


def kinds(acme: Tenant) -> list[str]:
    return [record.kind for record in acme.read("r")]


def execute(
    face: Face, acme: Tenant, outcome: str, *, fn: Any = cut_off, recovery: str = "ask", seal: bool | None = None
) -> None:
    """Execute a body that makes light of what is in doubt, and concludes."""

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            with suppress(Gone, InDoubt):
                await run.effect("slow", fn, recovery=recovery)
            await run.conclude(outcome, seal=seal)

    try:
        face.run(program)
    finally:
        if acme.lease("r") is not None:
            acme.force_lease("r", actor="ann", reason="its block has ended")


def settle(acme: Tenant) -> None:
    """What a human records who has looked."""
    [effect] = acme.effects("r")
    lease = acme.acquire("r", owner="ann", ttl=30)
    acme.append("r", [entries.effect_reconciled(effect.key, disposition="landed")], lease=lease)
    acme.release(lease)


@pytest.mark.parametrize("seal", [None, True, False])
def test_an_outcome_that_seals_is_refused_as_often_as_tried_while_in_doubt(
    face: Face, acme: Tenant, journal: Journal, seal: bool | None
) -> None:
    for _ in range(2):
        with pytest.raises(InDoubt) as refusal:
            execute(face, acme, "completed", seal=seal)
        assert kinds(acme) == ["EffectStarted"]
    [effect] = acme.effects("r")
    assert (refusal.value.run, refusal.value.effect, refusal.value.attempt) == ("r", effect.key.hex(), 1)
    for part in ("slow", "'completed' would seal", "'failed'", "sealbook reconcile"):
        assert part in str(refusal.value)
    settle(acme)
    execute(face, acme, "completed")
    assert acme.log_positions(["r"]) == [0]
    assert journal.check().ok


@pytest.mark.parametrize("outcome", OPEN_OUTCOMES)
def test_an_outcome_that_leaves_the_run_open_is_taken_and_the_effect_settled_later(
    face: Face, acme: Tenant, outcome: str
) -> None:
    execute(face, acme, outcome)
    assert kinds(acme) == ["EffectStarted", "RunConcluded"]
    settle(acme)
    execute(face, acme, "completed")
    assert acme.log_positions(["r"])[0] is not None


@pytest.mark.parametrize("recovery", ["retry", "idempotent"])
def test_an_effect_with_a_recovery_is_executed_again_before_the_run_is_sealed(
    face: Face, acme: Tenant, recovery: str
) -> None:
    def cut(**options: Any) -> None:
        raise Gone

    with pytest.raises(InDoubt, match=f"slow, which {recovery} settles when it is executed again"):
        execute(face, acme, "completed", fn=cut, recovery=recovery)
    execute(face, acme, "completed", fn=lambda **options: "done", recovery=recovery)
    assert kinds(acme) == ["EffectStarted", "EffectStarted", "EffectDone", "RunConcluded"]


def test_of_many_effects_in_doubt_a_few_are_named_and_all_are_counted(face: Face, acme: Tenant) -> None:
    keys = [EffectKey(str(number)) for number in range(5)]
    acme.append("r", [entries.effect_started(key, name="mail") for key in keys], epoch=1)

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            await run.conclude("completed")

    with pytest.raises(InDoubt, match="mail, mail, mail and 2 more") as refusal:
        face.run(program)
    assert refusal.value.effect == min(keys).hex()


def test_what_somebody_has_settled_meanwhile_keeps_nobody_from_concluding(face: Face, acme: Tenant) -> None:
    async def program() -> None:
        async with face.leased(acme, "r") as run:
            with pytest.raises(Gone):
                await run.effect("slow", cut_off)
            [effect] = acme.effects("r")
            acme.append("r", [entries.effect_reconciled(effect.key, disposition="landed")], epoch=run.epoch)
            await run.conclude("completed")

    face.run(program)
    assert kinds(acme) == ["EffectStarted", "EffectReconciled", "RunConcluded"]


def answer(need: Need, tenant: Tenant) -> object:
    assert isinstance(need, Read)
    return need.ask(tenant)


def test_what_is_settled_between_the_two_looks_keeps_nobody_from_concluding(acme: Tenant) -> None:
    with acme.leased("r", owner="w") as run:
        with pytest.raises(Gone):
            run.effect("slow", cut_off)
        concluding = run._rules.conclude("completed", None, None)
        assert answer(next(concluding), acme) == acme.standing("r")
        assert answer(concluding.send(acme.standing("r")), acme) == acme.effects("r")
        acme.append("r", [entries.effect_reconciled(acme.effects("r")[0].key, disposition="landed")], epoch=run.epoch)
        assert isinstance(concluding.send(acme.effects("r")), Submit)
        concluding.close()


def test_a_recorded_final_conclusion_gets_its_seal_whatever_is_in_doubt(face: Face, acme: Tenant) -> None:
    start = entries.effect_started(EffectKey("others"), name="others")
    acme.append("r", [start, entries.concluded("completed", data={"body_step": 1})], epoch=1)

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            await run.conclude("completed")

    face.run(program)
    assert acme.log_positions(["r"]) == [0]


def test_no_effect_begins_while_a_conclusion_is_being_recorded(acme: Tenant) -> None:
    """Another thread's would be sealed away with its end missing."""
    with acme.leased("r", owner="w") as run:
        rules = run._rules
        concluding = rules.conclude("completed", None, None)
        next(concluding)
        with pytest.raises(InvalidInput, match="conclusion"):
            next(rules.effect("charge", abs, (1,), {}, ("charge",), "ask"))
        concluding.close()
        assert run.effect("charge", abs, 1, key="charge") == 1


def test_an_effect_that_a_trio_program_has_moved_on_from_is_not_sealed_away(acme: Tenant) -> None:
    face = OnTrio()

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            with trio.CancelScope() as scope:

                async def slow() -> None:
                    scope.cancel()
                    await trio.sleep_forever()

                await run.effect("slow", slow)
            await run.conclude("completed")

    with pytest.raises(InDoubt, match="slow"):
        face.run(program)
    assert kinds(acme) == ["EffectStarted"]


def test_the_threaded_face_says_it_as_an_operator_hears_it(acme: Tenant, heard: Any) -> None:
    with pytest.raises(InDoubt):
        execute(Threaded(), acme, "completed")
    assert [event["event"] for event in heard].count("effect.in_doubt") == 1
