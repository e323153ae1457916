"""A run that is opened again: what was recorded is handed back in order, and a body that has changed is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from run_faces import Face

from sealbook.journal import (
    Concluded,
    EffectKey,
    InvalidEntry,
    InvalidInput,
    Journal,
    Mismatch,
    NotConcluded,
    Resumption,
    Tenant,
    entries,
)
from sealbook.journal.testing import ManualClock

Body = Callable[[Any], Awaitable[Any]]

KEY = EffectKey("charge", "42")
NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)


class Crash(Exception):
    """Ends a block as a crash would."""


def execute(face: Face, acme: Tenant, body: Body, **options: Any) -> Any:
    """Execute the run `r` with this body, to a clean end."""

    async def program() -> Any:
        async with face.leased(acme, "r", **options) as run:
            return await body(run)

    return face.run(program)


def kinds(acme: Tenant) -> list[str]:
    return [record.kind for record in acme.read("r")]


# --- in order -------------------------------------------------------------------------------------------------------


def test_a_replay_writes_nothing_and_calls_nothing_until_it_has_caught_up(face: Face, acme: Tenant) -> None:
    called: list[str] = []
    steps = 3

    async def body(run: Any) -> list[Any]:
        seen = [await run.now(), await run.random(), await run.effect("charge", called.append, "charge")]
        await run.note("charged", data={"cents": 1200})
        await run.snapshot({"charged": True})
        for number in range(3, steps):
            await run.effect("more", called.append, number)
        return seen

    first = execute(face, acme, body)
    before = acme.head("r")
    assert execute(face, acme, body) == first
    assert acme.head("r") == before
    steps = 5
    assert execute(face, acme, body) == first
    assert called == ["charge", 3, 4]
    assert [record.data["body_step"] for record in acme.read("r") if "body_step" in record.data] == [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
    ]


Step = Callable[[Any], Awaitable[Any]]
STEPS: dict[str, Step] = {
    "charge(1)": lambda run: run.effect("charge", lambda cents: cents, 1),
    "charge(2)": lambda run: run.effect("charge", lambda cents: cents, 2),
    "refund(1)": lambda run: run.effect("refund", lambda cents: cents, 1),
    "keyed charge(1)": lambda run: run.effect("charge", lambda cents: cents, 1, key=KEY),
    "Note(text='a')": lambda run: run.note("a"),
    "Note(text='b')": lambda run: run.note("b"),
    "Note(more=1, text='a')": lambda run: run.note("a", data={"more": 1}),
    "Note(name='x', text='a')": lambda run: run.note("a", data={"name": "x"}),
    "Note(name='y', text='a')": lambda run: run.note("a", data={"name": "y"}),
    "Snapshot(state='a')": lambda run: run.snapshot("a"),
    "ClockRead()": lambda run: run.now(),
    "RandomDrawn()": lambda run: run.random(),
    "RunSuspended(awaiting='a')": lambda run: run.suspend(awaiting="a"),
    "RunConcluded(outcome='failed')": lambda run: run.conclude("failed"),
}
OPEN_ENDED = "RunConcluded(outcome='failed')"  # gives way to whatever else is asked for


@pytest.mark.parametrize("recorded", [name for name in STEPS if name != OPEN_ENDED])
def test_a_changed_body_is_a_mismatch_that_names_the_first_step_it_departs_from(
    face: Face, acme: Tenant, recorded: str
) -> None:
    async def first(run: Any) -> None:
        await run.note("begun")
        await STEPS[recorded](run)

    execute(face, acme, first)
    head = acme.head("r")
    for asked, step in STEPS.items():
        if asked == recorded:
            continue

        async def second(run: Any, step: Step = step) -> None:
            await run.note("begun")
            await step(run)

        with pytest.raises(Mismatch) as caught:
            execute(face, acme, second)
        assert caught.value.seq == 2
        assert caught.value.what == "step 2 (record 2)"
        if {recorded, asked} == {"keyed charge(1)", "charge(1)"}:
            by_key = f"charge(1) by key {KEY.hex()[:16]}…"
            assert {caught.value.recorded, caught.value.stated} == {by_key, "charge(1) by its place"}
        else:
            assert caught.value.recorded == recorded.removeprefix("keyed ")
            assert caught.value.stated == asked.removeprefix("keyed ")
        assert acme.head("r") == head
        acme.force_lease("r", actor="ann", reason="again")


def test_a_step_that_is_left_out_is_a_mismatch_at_the_one_after_it(face: Face, acme: Tenant) -> None:
    async def first(run: Any) -> None:
        for text in "abc":
            await run.note(text)

    async def second(run: Any) -> None:
        for text in "ac":
            await run.note(text)

    execute(face, acme, first)
    with pytest.raises(Mismatch) as caught:
        execute(face, acme, second)
    assert caught.value.seq == 2


def test_a_new_keyed_effect_in_the_middle_is_a_mismatch_too(face: Face, acme: Tenant) -> None:
    called: list[str] = []

    async def body(run: Any, names: str) -> None:
        for name in names:
            await run.effect(name, called.append, name, key=(name,))

    execute(face, acme, lambda run: body(run, "ac"))
    with pytest.raises(Mismatch) as caught:
        execute(face, acme, lambda run: body(run, "abc"))
    assert (caught.value.seq, called) == (3, ["a", "c"])


def test_a_body_that_stops_early_is_no_mismatch(face: Face, acme: Tenant) -> None:
    execute(face, acme, lambda run: run.note("a"))

    async def nothing(run: Any) -> None:
        pass

    execute(face, acme, nothing)
    assert kinds(acme) == ["Note"]


def test_what_others_write_into_the_run_is_no_step(face: Face, acme: Tenant) -> None:
    async def body(run: Any) -> Any:
        await run.note("a")
        return await run.effect("charge", lambda: "receipt")

    def meddle() -> None:
        epoch = acme.standing("r").epoch if acme.standing("r") else 1  # type: ignore[union-attr]
        acme.append("r", [entries.note("a"), entries.entry("acme.Plan", {"n": 1})], epoch=epoch)
        acme.request_cancel("r", actor="ann")
        acme.anchor("r")

    meddle()
    execute(face, acme, body)
    meddle()
    execute(face, acme, body)
    assert kinds(acme) == ["Note", "acme.Plan", "Note", "EffectStarted", "EffectDone", "Note", "acme.Plan"]


def test_a_note_of_others_with_a_member_called_step_is_no_step(face: Face, acme: Tenant) -> None:
    acme.append("r", [entries.note("x", data={"step": 1})], epoch=1)
    execute(face, acme, lambda run: run.effect("charge", lambda: 1))
    execute(face, acme, lambda run: run.effect("charge", lambda: 1 / 0))


def test_a_note_of_others_is_not_taken_for_one_of_the_body(face: Face, acme: Tenant) -> None:
    acme.append("r", [entries.note("half way")], epoch=1)

    async def body(run: Any) -> None:
        async def work() -> None:
            await run.note("half way")

        await run.effect("work", work)

    execute(face, acme, body)
    assert kinds(acme) == ["Note", "EffectStarted", "Note", "EffectDone"]


def test_an_effect_that_others_have_recorded_is_found_by_its_key(face: Face, acme: Tenant) -> None:
    start = entries.effect_started(KEY, name="charge", args={"cents": 42})
    acme.append("r", [start, entries.effect_done(KEY, result="receipt")], epoch=1)
    answer = execute(face, acme, lambda run: run.effect("charge", lambda cents: 1 / 0, 42, key=KEY))
    assert answer == "receipt"
    with pytest.raises(Mismatch):
        execute(face, acme, lambda run: run.effect("refund", lambda cents: 1 / 0, 42, key=KEY))


def test_a_run_of_many_pages_is_read_back_whole(face: Face, acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sealbook.journal.running.session.PAGE_RECORDS", 3)

    async def body(run: Any) -> list[Any]:
        return [await run.effect("n", lambda n: n, n) for n in range(10)]

    assert execute(face, acme, body) == list(range(10))
    assert execute(face, acme, body) == list(range(10))
    assert len(acme.read("r")) == 20


def test_records_belong_to_the_case_of_the_run_or_to_that_of_the_block(face: Face, acme: Tenant) -> None:
    acme.append("r", [entries.admitted(case="case-7")], epoch=1)
    execute(face, acme, lambda run: run.effect("charge", lambda: 1))

    async def more(run: Any) -> None:
        await run.effect("charge", lambda: 1)
        await run.note("x")

    execute(face, acme, more, case="case-8")
    assert [record.case for record in acme.read("r")] == ["case-7", "case-7", "case-7", "case-8"]


@pytest.mark.parametrize("member", ["body_step", "body_call"])
def test_the_members_that_mark_a_step_are_not_the_callers(face: Face, acme: Tenant, member: str) -> None:
    with pytest.raises(InvalidInput, match=member):
        execute(face, acme, lambda run: run.note("x", data={member: 1}))
    assert kinds(acme) == []


# --- readings -------------------------------------------------------------------------------------------------------


def test_a_clock_reading_is_the_instant_that_the_store_stamped(face: Face, acme: Tenant, clock: ManualClock) -> None:
    clock.wall_ms = 1_800_014_400_123
    first = execute(face, acme, lambda run: run.now())
    assert first == datetime(2027, 1, 15, 12, 0, 0, 123_000, tzinfo=UTC)
    clock.advance(3600)
    assert execute(face, acme, lambda run: run.now()) == first


def test_draws_differ_and_are_replayed(face: Face, acme: Tenant) -> None:
    async def body(run: Any) -> list[float]:
        return [await run.random() for _ in range(5)]

    drawn = execute(face, acme, body)
    assert len(set(drawn)) == 5
    assert all(0 <= value < 1 for value in drawn)
    assert execute(face, acme, body) == drawn


def test_a_keyed_reading_is_found_by_its_key(face: Face, acme: Tenant, clock: ManualClock) -> None:
    async def work(run: Any, names: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def task(name: str) -> None:
            clock.advance(1)
            found[name] = (await run.now(key=("now", name)), await run.random(key=("random", name)))

        await face.side_by_side(*[partial(task, name) for name in names])
        return found

    first = execute(face, acme, lambda run: work(run, "abc"))
    assert len({drawn for _, drawn in first.values()}) == 3
    second = execute(face, acme, lambda run: work(run, "cab"))
    assert second == first


# --- waiting --------------------------------------------------------------------------------------------------------


async def approval(run: Any) -> Any:
    await run.note("asked")
    answer = await run.suspend(awaiting={"approval": "ada"})
    if answer is None:
        return "waits"
    await run.note("went on")
    return answer


def test_a_run_waits_until_it_is_resumed_and_is_handed_the_event(face: Face, acme: Tenant) -> None:
    assert execute(face, acme, approval) == "waits"
    assert [wait.awaiting for wait in acme.waiting()] == [{"approval": "ada"}]
    assert execute(face, acme, approval) == "waits"
    assert kinds(acme) == ["Note", "RunSuspended"]

    async def resumed(run: Any) -> Any:
        assert await run.resume({"approved": True}) is True
        assert await run.resume("a second event") is False
        return await approval(run)

    assert execute(face, acme, resumed) == Resumption({"approved": True})
    assert acme.waiting() == []
    assert execute(face, acme, approval) == Resumption({"approved": True})
    assert kinds(acme) == ["Note", "RunSuspended", "RunResumed", "Note"]


def test_a_note_does_not_end_a_wait_and_any_other_step_does(face: Face, acme: Tenant) -> None:
    execute(face, acme, approval)
    acme.append("r", [entries.note("reminded")], epoch=1)
    assert execute(face, acme, approval) == "waits"
    acme.append("r", [entries.entry("acme.Approved", {"by": "ada"})], epoch=2)
    assert execute(face, acme, approval) == Resumption(None)


def test_resuming_a_run_that_does_not_wait_writes_nothing(face: Face, acme: Tenant) -> None:
    assert execute(face, acme, lambda run: run.resume("event")) is False
    assert kinds(acme) == []


@pytest.mark.parametrize("form", [str, lambda instant: instant])
def test_a_wait_is_over_when_its_instant_has_come(
    face: Face, acme: Tenant, clock: ManualClock, form: Callable[[datetime], Any]
) -> None:
    clock.wall_ms = int((NOON - timedelta(hours=1)).timestamp() * 1000)
    until = NOON if form is not str else "2027-01-15T12:00:00Z"

    async def body(run: Any) -> Any:
        return await run.suspend(until=until)

    assert execute(face, acme, body) is None
    clock.advance(3599)
    assert execute(face, acme, body) is None
    clock.advance(1)
    assert execute(face, acme, body) == Resumption(None)
    assert execute(face, acme, body) == Resumption(None)
    assert kinds(acme) == ["RunSuspended", "RunResumed"]


def test_two_waits_are_each_answered_by_their_own_event(face: Face, acme: Tenant) -> None:
    async def body(run: Any, event: Any = None) -> list[Any]:
        if event is not None:
            await run.resume(event)
        found = [await run.suspend(awaiting="first")]
        if found[0] is not None:
            found.append(await run.suspend(awaiting="second"))
        return [answer and answer.event for answer in found]

    assert execute(face, acme, body) == [None]
    assert execute(face, acme, lambda run: body(run, 1)) == [1, None]
    assert execute(face, acme, lambda run: body(run, 2)) == [1, 2]
    assert execute(face, acme, body) == [1, 2]


# --- cancelling -----------------------------------------------------------------------------------------------------


async def polling(run: Any) -> list[Any]:
    found: list[Any] = []
    for name in "abc":
        found.append(await run.cancel_requested)
        if found[-1]:
            await run.effect("clean up", lambda: None)
            break
        await run.effect(name, lambda: None)
    return found


def test_a_request_for_cancellation_is_seen_and_replayed_where_it_was_seen(face: Face, acme: Tenant) -> None:
    async def first(run: Any) -> None:
        assert await run.cancel_requested is False
        await run.effect("a", lambda: None)
        acme.request_cancel("r", actor="ann")
        assert await run.cancel_requested is True
        assert await run.cancel_requested is True
        raise Crash

    with pytest.raises(Crash):
        execute(face, acme, first)
    assert kinds(acme) == ["EffectStarted", "EffectDone", "CancelSeen"]
    acme.force_lease("r", actor="ann", reason="again")
    assert execute(face, acme, polling) == [False, True]
    assert execute(face, acme, polling) == [False, True]


def test_a_request_that_came_later_is_not_seen_before_the_replay_is_over(face: Face, acme: Tenant) -> None:
    async def first(run: Any) -> None:
        for name in "ab":
            assert await run.cancel_requested is False
            await run.effect(name, lambda: None)

    execute(face, acme, first)
    acme.request_cancel("r", actor="ann")
    assert execute(face, acme, polling) == [False, False, True]
    assert kinds(acme)[4:] == ["CancelSeen", "EffectStarted", "EffectDone"]


def test_a_run_cancelled_while_it_waits_does_not_go_on_as_if_answered(face: Face, acme: Tenant) -> None:
    dies = True

    async def body(run: Any) -> str:
        if await run.suspend(awaiting="approval") is None:
            if not await run.cancel_requested:
                return "waits"
            if dies:
                raise Crash
            await run.conclude("cancelled")
            return "cancelled"
        return "went on"

    assert execute(face, acme, body) == "waits"
    acme.request_cancel("r", actor="ann")
    with pytest.raises(Crash):
        execute(face, acme, body)
    acme.force_lease("r", actor="ann", reason="it died")
    dies = False
    assert execute(face, acme, body) == "cancelled"
    assert kinds(acme) == ["RunSuspended", "CancelSeen", "RunConcluded"]


# --- conclusions ----------------------------------------------------------------------------------------------------


def test_an_outcome_that_seals_seals_the_run_at_once(face: Face, acme: Tenant, journal: Journal) -> None:
    execute(face, acme, lambda run: run.conclude("completed", data={"total": 3}))
    [record] = acme.read("r")
    assert record.data == {"outcome": "completed", "total": 3, "body_step": 1}
    assert acme.log_positions(["r"]) == [0]
    assert journal.check().ok


def test_a_conclusion_whose_seal_is_missing_gets_it_and_nothing_else(face: Face, acme: Tenant) -> None:
    execute(face, acme, lambda run: run.conclude("completed", seal=False))
    assert acme.log_positions(["r"]) == [None]
    execute(face, acme, lambda run: run.conclude("completed"))
    assert kinds(acme) == ["RunConcluded"]
    assert acme.log_positions(["r"]) == [0]


def test_an_outcome_that_leaves_the_run_open_is_written_once(face: Face, acme: Tenant) -> None:
    for _ in range(2):
        execute(face, acme, lambda run: run.conclude("exhausted"))
    assert kinds(acme) == ["RunConcluded"]
    lease = acme.lease("r")
    assert lease is not None
    assert lease.owner is None


def test_a_run_that_was_left_open_goes_on_from_its_recorded_steps(face: Face, acme: Tenant) -> None:
    called: list[int] = []

    async def body(run: Any, budget: int) -> None:
        for number in range(3):
            if number == budget:
                await run.conclude("exhausted")
                return
            await run.effect("step", called.append, number)
        await run.conclude("completed")

    for budget in (1, 2, 2, 3):
        execute(face, acme, partial(body, budget=budget))
    assert called == [0, 1, 2]
    outcomes = [record.data["outcome"] for record in acme.read("r") if record.kind == "RunConcluded"]
    assert outcomes == ["exhausted", "exhausted", "completed"]


def test_sealing_an_outcome_that_does_not_seal_is_refused_and_the_run_goes_on(face: Face, acme: Tenant) -> None:
    async def body(run: Any) -> None:
        with pytest.raises(NotConcluded):
            await run.conclude("failed", seal=True)
        with pytest.raises(InvalidEntry):
            await run.conclude("No Outcome")
        await run.note("still here")

    execute(face, acme, body)
    assert kinds(acme) == ["Note"]


def test_nothing_follows_a_conclusion_that_seals(face: Face, acme: Tenant) -> None:
    async def body(run: Any) -> None:
        await run.conclude("completed", seal=False)
        await run.note("after")

    with pytest.raises(Concluded):
        execute(face, acme, body)


def test_a_snapshot_is_a_value_that_a_record_can_hold(face: Face, acme: Tenant) -> None:
    with pytest.raises(InvalidEntry):
        execute(face, acme, lambda run: run.snapshot(object()))
    assert kinds(acme) == []
