"""A leased run's lease: taken at the beginning, renewed while the block lasts, given back at a clean end alone."""

from __future__ import annotations

from typing import Any

import pytest
from run_faces import Face, Heart

from sealbook.journal import (
    Busy,
    Closed,
    Concluded,
    EngineFailed,
    Fenced,
    InvalidInput,
    InvalidName,
    Journal,
    LeaseHeld,
    LeaseNotHeld,
    RunSealed,
    Tenant,
    entries,
    requests,
)
from sealbook.journal.testing import ManualClock


class Broken(Exception):
    """What a body may raise."""


class Refusing:
    """A store that refuses renewals with these errors, one each, and then none."""

    def __init__(self, journal: Journal, patch: pytest.MonkeyPatch, *errors: Exception) -> None:
        self.errors = list(errors)
        self.renewals = 0
        write = journal.view.write

        def refusing(work: Any) -> Any:
            if self.errors:
                raise self.errors.pop(0)
            return write(work)

        patch.setattr(journal.view.writer, "_write", refusing, raising=True)


def renewals_of(acme: Tenant, clock: ManualClock) -> int | None:
    """How many ms of its lease the run has left."""
    lease = acme.lease("r")
    return None if lease is None or lease.expires_at is None else lease.expires_at - clock.wall_ms


def test_a_clean_end_releases_the_lease(face: Face, acme: Tenant) -> None:
    async def program() -> None:
        async with face.leased(acme, "r", owner="worker-1") as run:
            held = acme.lease("r")
            assert held == run.lease
            assert held is not None
            assert (held.owner, held.epoch, run.epoch, run.name) == ("worker-1", 1, 1, "r")

    face.run(program)
    after = acme.lease("r")
    assert after is not None
    assert (after.owner, after.epoch) == (None, 1)


@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_any_other_end_leaves_what_a_crash_would_leave(face: Face, acme: Tenant, error: type[BaseException]) -> None:
    if error is GeneratorExit and face.name != "threads":
        pytest.skip("closes the test's own coroutine there")

    async def program() -> None:
        async with face.leased(acme, "r"):
            raise error

    with pytest.raises(error):
        face.run(program)
    left = acme.lease("r")
    assert left is not None
    assert left.owner == "w"


def test_a_run_that_somebody_holds_is_refused_at_the_entry(face: Face, acme: Tenant) -> None:
    acme.acquire("r", owner="other", ttl=30)
    entered = []

    async def program() -> None:
        async with face.leased(acme, "r"):
            entered.append(1)

    with pytest.raises(LeaseHeld):
        face.run(program)
    assert entered == []


def test_a_run_that_is_being_executed_is_refused_to_its_own_owner_too(face: Face, acme: Tenant) -> None:
    async def program() -> None:
        async with face.leased(acme, "r", owner="me") as run:
            with pytest.raises(LeaseHeld):
                async with face.leased(acme, "r", owner="me"):
                    raise AssertionError
            await run.note("still mine")

    face.run(program)
    assert len(acme.read("r")) == 1


@pytest.mark.parametrize(
    ("run", "options", "error"),
    [
        ("", {}, InvalidName),
        ("~tenant", {}, InvalidName),
        ("r", {"owner": ""}, InvalidName),
        ("r", {"ttl": 1.999}, InvalidInput),
        ("r", {"ttl": float("inf")}, InvalidInput),
    ],
)
def test_a_bad_argument_is_refused(
    face: Face, acme: Tenant, run: str, options: dict[str, Any], error: type[Exception]
) -> None:
    async def program() -> None:
        async with face.leased(acme, run, **options):
            raise AssertionError

    with pytest.raises(error):
        face.run(program)


def test_the_lease_is_renewed_three_times_in_its_time_to_live(face: Face, acme: Tenant, clock: ManualClock) -> None:
    async def program() -> None:
        heart = Heart(face)
        async with face.leased(acme, "r", ttl=30, heart=heart) as run:
            for _ in range(10):
                clock.advance(10)
                await heart.beat()
                assert renewals_of(acme, clock) == 30_000
                assert run.lease == acme.lease("r")
            await run.note("still here, after 100 seconds")
        assert set(heart.pauses) == {10}

    face.run(program)


def test_the_last_renewal_comes_before_the_end_of_the_block(face: Face, acme: Tenant, clock: ManualClock) -> None:
    hearts: list[Heart] = []

    async def program() -> None:
        heart = Heart(face)
        hearts.append(heart)
        async with face.leased(acme, "r", heart=heart):
            await heart.beat()
            raise Broken

    with pytest.raises(Broken):
        face.run(program)
    assert len(hearts[0].pauses) == 2
    clock.advance(29.999)
    with pytest.raises(LeaseHeld):
        acme.acquire("r", owner="other", ttl=30)
    clock.advance(0.001)
    acme.acquire("r", owner="other", ttl=30)


def test_a_lost_lease_stops_the_body_at_its_next_verb(face: Face, acme: Tenant) -> None:
    called: list[str] = []

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            await run.note("mine")
            acme.force_lease("r", actor="ann", reason="looks dead")
            await run.effect("charge", called.append, "charged")

    with pytest.raises(Fenced) as caught:
        face.run(program)
    assert (caught.value.run, caught.value.held, caught.value.current) == ("r", 1, 2)
    assert called == []
    assert [record.kind for record in acme.read("r")] == ["Note"]


@pytest.mark.parametrize(
    "verb", ["note", "snapshot", "now", "random", "suspend", "resume", "conclude", "cancel_requested"]
)
def test_every_verb_is_refused_once_the_lease_is_lost(face: Face, acme: Tenant, verb: str) -> None:
    arguments = {"snapshot": ["s"], "conclude": ["completed"]}.get(verb, [])

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            acme.force_lease("r", actor="ann", reason="looks dead")
            with pytest.raises(Fenced):
                await run.note("first")
            acme.append("r", [entries.suspended()], epoch=2)  # so that there is something to resume
            await (run.cancel_requested if verb == "cancel_requested" else getattr(run, verb)(*arguments))

    with pytest.raises(Fenced):
        face.run(program)
    assert [record.kind for record in acme.read("r")] == ["RunSuspended"]


def test_a_renewal_that_is_refused_stops_the_body(face: Face, acme: Tenant) -> None:
    async def program() -> None:
        heart = Heart(face)
        async with face.leased(acme, "r", heart=heart) as run:
            acme.force_lease("r", actor="ann", reason="looks dead")
            await heart.last_beat(run)
            await run.note("too late")

    with pytest.raises(Fenced, match="the current epoch is 2") as caught:
        face.run(program)
    assert (caught.value.held, caught.value.current) == (1, 2)
    assert acme.read("r") == []


def test_a_renewal_that_fails_is_tried_again_until_the_lease_is_about_to_expire(
    face: Face, acme: Tenant, journal: Journal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        heart = Heart(face)
        async with face.leased(acme, "r", ttl=30, heart=heart) as run:
            Refusing(
                journal, monkeypatch, Busy("the writer"), EngineFailed("the disk"), OSError(), *[Busy("again")] * 9
            )
            clock.advance(10)
            await heart.beat()
            for _ in range(6):  # up to 25 s
                clock.advance(2.5)
                await heart.beat()
            assert heart.pauses == [10] + [2.5] * 7
            clock.advance(2.5)
            await heart.last_beat(run)
            await run.note("too late")

    with pytest.raises(Fenced, match="it could not be renewed") as caught:
        face.run(program)
    assert (caught.value.held, caught.value.current) == (1, 1)


def test_a_renewal_that_succeeds_at_last_keeps_the_lease(
    face: Face, acme: Tenant, journal: Journal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        heart = Heart(face)
        async with face.leased(acme, "r", ttl=30, heart=heart) as run:
            Refusing(journal, monkeypatch, Busy("the writer"))
            clock.advance(10)
            await heart.beat()
            clock.advance(2.5)
            await heart.beat()
            assert renewals_of(acme, clock) == 30_000
            clock.advance(29)
            await run.note("in time")
            assert heart.pauses == [10, 2.5, 10]

    face.run(program)


def test_a_body_that_slept_past_the_expiry_is_stopped_before_anybody_has_taken_over(
    face: Face, acme: Tenant, clock: ManualClock
) -> None:
    async def program() -> None:
        async with face.leased(acme, "r", ttl=30, heart=Heart(face)) as run:
            clock.advance(30)
            await run.note("the machine was suspended")

    with pytest.raises(Fenced, match="its lease expired before it was renewed"):
        face.run(program)
    assert acme.read("r") == []


def test_the_end_of_an_effect_is_recorded_after_the_expiry_until_another_takes_over(
    face: Face, acme: Tenant, clock: ManualClock
) -> None:
    async def program() -> None:
        async with face.leased(acme, "r", ttl=30, heart=Heart(face)) as run:
            assert await run.effect("think", lambda: clock.advance(31)) is None
            await run.note("too late")

    with pytest.raises(Fenced):
        face.run(program)
    assert [record.kind for record in acme.read("r")] == ["EffectStarted", "EffectDone"]


def test_the_end_of_an_effect_is_refused_once_somebody_has_taken_over(
    face: Face, acme: Tenant, clock: ManualClock
) -> None:
    def think() -> None:
        clock.advance(31)
        acme.acquire("r", owner="other", ttl=30)

    async def program() -> None:
        async with face.leased(acme, "r", ttl=30, heart=Heart(face)) as run:
            await run.effect("think", think)

    with pytest.raises(Fenced) as caught:
        face.run(program)
    assert (caught.value.held, caught.value.current) == (1, 2)
    assert [record.kind for record in acme.read("r")] == ["EffectStarted"]
    assert acme.standing("r").effects_in_doubt == 1  # type: ignore[union-attr]


def test_no_step_of_the_wall_clock_loses_the_lease(face: Face, acme: Tenant, clock: ManualClock) -> None:
    async def program() -> None:
        async with face.leased(acme, "r", heart=Heart(face)) as run:
            clock.step_wall(86_400)
            await run.note("forward")
            clock.step_wall(-2 * 86_400)
            await run.note("back")

    face.run(program)
    assert len(acme.read("r")) == 2


def test_a_closed_journal_ends_the_renewals(face: Face, acme: Tenant, journal: Journal) -> None:
    if face.name != "threads":
        pytest.skip("a face waits for its verbs before its journal is closed")

    async def program() -> None:
        heart = Heart(face)
        async with face.leased(acme, "r", heart=heart) as run:
            journal.close()
            await heart.last_beat(run)
            await run.note("too late")

    with pytest.raises((Fenced, Closed)):
        face.run(program)


def test_a_verb_outside_of_the_block_is_refused(face: Face, acme: Tenant) -> None:
    async def program() -> None:
        async with face.leased(acme, "r") as run:
            pass
        with pytest.raises(LeaseNotHeld):
            await run.note("too late")

    face.run(program)
    assert acme.read("r") == []


def test_sealing_the_run_ends_its_lease_and_the_renewals_with_it(face: Face, acme: Tenant) -> None:
    async def program() -> None:
        heart = Heart(face)
        async with face.leased(acme, "r", heart=heart) as run:
            await run.conclude("completed")
            assert acme.lease("r") is None
            await heart.beat()
            with pytest.raises(RunSealed):
                await run.note("after")

    face.run(program)
    assert acme.standing("r").sealed  # type: ignore[union-attr]


def test_a_conclusion_that_is_left_unsealed_keeps_the_lease(face: Face, acme: Tenant) -> None:
    async def program() -> None:
        async with face.leased(acme, "r") as run:
            await run.conclude("completed", seal=False)
            with pytest.raises(Concluded):
                await run.note("after")

    face.run(program)
    lease = acme.lease("r")
    assert lease is not None
    assert lease.owner is None


def test_nothing_is_held_when_the_records_cannot_be_read(
    face: Face, acme: Tenant, engine: Any, journal: Journal
) -> None:
    from sealbook.journal import Corrupt
    from sealbook.journal.testing import tamper_body

    acme.append("r", [entries.note("x")], epoch=1)
    tamper_body(engine, "acme", "r", 1, b"\xa0")

    async def program() -> None:
        async with face.leased(acme, "r"):
            raise AssertionError

    with pytest.raises(Corrupt):
        face.run(program)
    lease = acme.lease("r")
    assert lease is not None
    assert lease.owner is None


def test_a_renewal_request_asks_for_the_whole_time_to_live() -> None:
    request = requests.renew("r", owner="w", epoch=1, ttl=30)
    assert request.ttl_ms == 30_000
