"""An effect of a leased run: recorded before it acts, handed back afterwards, and never called on a guess."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from run_faces import Face

from sealbook.journal import (
    DidNotHappen,
    DuplicateEffect,
    EffectKey,
    Fenced,
    InDoubt,
    InvalidEntry,
    InvalidInput,
    Journal,
    KeyRequired,
    Landed,
    Mismatch,
    RecordedFailure,
    Tenant,
    entries,
    reconcile,
)
from sealbook.journal.testing import ManualClock

KEY = EffectKey("charge", "42")


class Crash(BaseException):
    """The process dies: nothing of the body's own handles it."""


class CardDeclined(Exception):
    """What a payment function may raise."""


class World:
    """What the effects act upon, and how often they did."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.dies = False

    def charge(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((*args, *sorted(kwargs.items())))
        if self.dies:
            raise Crash
        return {"receipt": len(self.calls)}


@pytest.fixture
def world() -> World:
    return World()


def kinds(acme: Tenant, run: str = "r") -> list[str]:
    return [record.kind for record in acme.read(run)]


def die_in(
    face: Face, acme: Tenant, world: World, *, key: Any = KEY, recovery: Any = "ask", args: tuple[Any, ...] = ()
) -> None:
    """Execute a run that dies in its only effect, and let the lease be anybody's."""
    world.dies = True

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            await run.effect("charge", world.charge, *args, key=key, recovery=recovery)

    with pytest.raises(Crash):
        face.run(program)
    world.dies = False
    free(acme)


def free(acme: Tenant) -> None:
    acme.force_lease("r", actor="ann", reason="it died")


def again(face: Face, acme: Tenant, world: World, *args: Any, **options: Any) -> Any:
    """Execute the run that does one effect; what the effect answers."""

    async def program() -> Any:
        async with face.leased(acme, "r") as run:
            return await run.effect("charge", world.charge, *args, **options)

    return face.run(program)


def test_a_start_is_durable_before_the_call_and_the_end_after_it(face: Face, acme: Tenant) -> None:
    seen: list[list[str]] = []

    async def program() -> Any:
        async with face.leased(acme, "r") as run:
            answer = await run.effect("charge", lambda: seen.append(kinds(acme)), key=KEY)
            seen.append(kinds(acme))
            return answer

    assert face.run(program) is None
    assert seen == [["EffectStarted"], ["EffectStarted", "EffectDone"]]
    assert acme.effect("r", KEY).status == "done"  # type: ignore[union-attr]


def test_an_effect_that_is_done_is_answered_without_a_call(face: Face, acme: Tenant, world: World) -> None:
    first = again(face, acme, world, 42, key=KEY)
    assert again(face, acme, world, 42, key=KEY) == first == {"receipt": 1}
    assert world.calls == [(42,)]
    assert kinds(acme) == ["EffectStarted", "EffectDone"]


def test_the_nth_call_of_a_name_is_one_effect(face: Face, acme: Tenant, world: World) -> None:
    async def program() -> list[Any]:
        async with face.leased(acme, "r") as run:
            return [await run.effect("charge", world.charge, cents) for cents in (1, 1, 2)]

    assert face.run(program) == face.run(program) == [{"receipt": 1}, {"receipt": 2}, {"receipt": 3}]
    assert world.calls == [(1,), (1,), (2,)]
    assert [record.data["body_call"] for record in acme.read("r") if record.kind == "EffectStarted"] == [1, 2, 3]


def test_a_key_may_be_given_by_its_parts(face: Face, acme: Tenant, world: World) -> None:
    again(face, acme, world, key=("charge", "42"))
    assert again(face, acme, world, key=KEY) == {"receipt": 1}
    assert len(world.calls) == 1


def test_a_key_asked_for_twice_in_one_block_is_one_effect(face: Face, acme: Tenant, world: World) -> None:
    async def program() -> list[Any]:
        async with face.leased(acme, "r") as run:
            first = await run.effect("charge", world.charge, 1, key=KEY)
            first["receipt"] = "changed by the body"
            return [await run.effect("charge", world.charge, 1, key=KEY) for _ in range(2)]

    assert face.run(program) == face.run(program) == [{"receipt": 1}] * 2
    assert len(world.calls) == 1


def test_what_is_handed_back_is_what_a_reader_gets(face: Face, acme: Tenant) -> None:
    async def program() -> Any:
        async with face.leased(acme, "r") as run:
            return await run.effect("list", lambda: (1, (2,)), key=KEY)

    assert face.run(program) == face.run(program) == [1, [2]]


def test_an_interrupt_leaves_an_effect_in_doubt_and_ask_calls_nothing(face: Face, acme: Tenant, world: World) -> None:
    die_in(face, acme, world)
    assert kinds(acme) == ["EffectStarted"]
    with pytest.raises(InDoubt) as caught:
        again(face, acme, world, key=KEY)
    assert (caught.value.run, caught.value.effect, caught.value.attempt) == ("r", KEY.hex(), 1)
    assert len(world.calls) == 1
    assert kinds(acme) == ["EffectStarted"]


@pytest.mark.parametrize("recovery", ["retry", "idempotent"])
def test_these_recoveries_call_again_in_a_new_attempt(face: Face, acme: Tenant, world: World, recovery: str) -> None:
    die_in(face, acme, world, recovery=recovery)
    assert again(face, acme, world, key=KEY, recovery=recovery) == {"receipt": 2}
    assert [(record.kind, record.attempt) for record in acme.read("r")] == [
        ("EffectStarted", 1),
        ("EffectStarted", 2),
        ("EffectDone", 2),
    ]


@pytest.mark.parametrize(("declared", "now"), [("ask", "retry"), ("retry", "ask"), ("idempotent", "retry")])
def test_only_the_recovery_that_was_declared_calls_again(
    face: Face, acme: Tenant, world: World, declared: str, now: str
) -> None:
    die_in(face, acme, world, recovery=declared)
    with pytest.raises(InDoubt):
        again(face, acme, world, key=KEY, recovery=now)
    assert len(world.calls) == 1


def test_an_idempotent_effect_is_handed_the_same_key_in_every_attempt(face: Face, acme: Tenant, world: World) -> None:
    die_in(face, acme, world, recovery="idempotent")
    again(face, acme, world, key=KEY, recovery="idempotent")
    [first], [second] = world.calls
    assert first == second
    assert first[0] == "idempotency_key"
    assert bytes.fromhex(first[1]) != KEY


def test_a_check_that_finds_the_effect_settles_it_without_a_call(face: Face, acme: Tenant, world: World) -> None:
    asked: list[Any] = []

    def find(cents: int) -> Landed:
        asked.append(cents)
        return Landed({"receipt": "found"}, evidence="ledger line 7")

    die_in(face, acme, world, recovery=reconcile(find), args=(42,))
    for _ in range(2):
        assert again(face, acme, world, 42, key=KEY, recovery=reconcile(find)) == {"receipt": "found"}
    assert (asked, len(world.calls)) == ([42], 1)
    looked = acme.read("r")[-1]
    assert (looked.kind, looked.data["disposition"]) == ("EffectReconciled", "landed")
    assert looked.data["evidence"] == "ledger line 7"


@pytest.mark.parametrize("answer", [DidNotHappen(), DidNotHappen])
def test_a_check_that_finds_nothing_lets_the_effect_be_attempted_again(
    face: Face, acme: Tenant, world: World, answer: Any
) -> None:
    recovery = reconcile(lambda: answer)
    die_in(face, acme, world, recovery=recovery)
    assert again(face, acme, world, key=KEY, recovery=recovery) == {"receipt": 2}
    assert kinds(acme) == ["EffectStarted", "EffectReconciled", "EffectStarted", "EffectDone"]


@pytest.mark.parametrize("answer", [InDoubt, InDoubt(reason="no answer"), None, "landed"])
def test_a_check_that_cannot_tell_leaves_the_effect_in_doubt(
    face: Face, acme: Tenant, world: World, answer: Any
) -> None:
    def check() -> Any:
        if isinstance(answer, InDoubt):
            raise answer
        return answer

    die_in(face, acme, world, recovery=reconcile(check))
    with pytest.raises(InDoubt):
        again(face, acme, world, key=KEY, recovery=reconcile(check))
    assert kinds(acme) == ["EffectStarted", *(["Note"] if isinstance(answer, InDoubt) else [])]
    assert len(world.calls) == 1


def test_a_check_that_fails_raises_its_error_and_settles_nothing(face: Face, acme: Tenant, world: World) -> None:
    die_in(face, acme, world, recovery=reconcile(lambda: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        again(face, acme, world, key=KEY, recovery=reconcile(lambda: 1 / 0))
    assert kinds(acme) == ["EffectStarted"]


def test_what_a_human_has_reconciled_is_believed(face: Face, acme: Tenant, world: World) -> None:
    die_in(face, acme, world)
    looked = entries.effect_reconciled(KEY, disposition="landed", data={"result": {"receipt": 9}})
    acme.append("r", [looked], epoch=2)
    assert again(face, acme, world, key=KEY) == {"receipt": 9}
    assert len(world.calls) == 1


# --- failures -------------------------------------------------------------------------------------------------------


def decline(cents: int) -> None:
    raise CardDeclined(f"{cents} cents: no")


def test_an_exception_is_recorded_as_a_failure_and_raised_on(face: Face, acme: Tenant) -> None:
    async def program() -> None:
        async with face.leased(acme, "r") as run:
            await run.effect("charge", decline, 42, key=KEY)

    with pytest.raises(CardDeclined, match="42 cents: no"):
        face.run(program)
    failed = acme.read("r")[-1]
    assert failed.kind == "EffectFailed"
    assert failed.data["error"] == {"type": f"{__name__}.CardDeclined", "message": "42 cents: no"}


def test_a_failed_effect_is_attempted_again_when_the_run_did_not_act_upon_it(
    face: Face, acme: Tenant, world: World
) -> None:
    functions = [decline, world.charge]

    async def program() -> Any:
        async with face.leased(acme, "r") as run:
            try:
                answer = await run.effect("charge", functions.pop(0), 42)
            except CardDeclined:
                await run.note("declined: somebody look")
                await run.conclude("failed")
                return None
            await run.note("charged")
            return answer

    assert face.run(program) is None
    assert face.run(program) == {"receipt": 1}
    assert [(record.kind, record.attempt) for record in acme.read("r") if record.effect] == [
        ("EffectStarted", 1),
        ("EffectFailed", 1),
        ("EffectStarted", 2),
        ("EffectDone", 2),
    ]
    functions += [decline]
    assert face.run(program) == {"receipt": 1}  # and the second attempt is what a replay hands back


def test_a_failure_that_the_run_acted_upon_is_handed_back_as_what_it_was(face: Face, acme: Tenant) -> None:
    called: list[str] = []

    def fail() -> None:
        called.append("fail")
        raise CardDeclined("no")

    async def program() -> Any:
        async with face.leased(acme, "r") as run:
            try:
                await run.effect("charge", fail)
            except CardDeclined as error:
                await run.effect("mail", called.append, "mail")
                return error

    first = face.run(program)
    second = face.run(program)
    assert called == ["fail", "mail"]
    assert type(first) is CardDeclined
    assert isinstance(second, RecordedFailure)
    assert (second.run, second.attempt, second.message) == ("r", 1, "no")
    assert "no" in str(second)


def test_a_loop_that_tries_again_is_replayed_try_by_try(face: Face, acme: Tenant) -> None:
    tries: list[int] = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise CardDeclined("busy")
        return "charged"

    async def program(key: EffectKey | None) -> list[str]:
        answers: list[str] = []
        async with face.leased(acme, "keyed" if key else "by place") as run:
            while "charged" not in answers:
                try:
                    answers.append(await run.effect("charge", flaky, key=key))
                except CardDeclined:
                    answers.append("declined")
            await run.note(",".join(answers))
        return answers

    for key in (KEY, None):
        tries.clear()
        for _ in range(3):
            assert face.run(partial(program, key)) == ["declined", "declined", "charged"]
        assert len(tries) == 3


def test_a_function_that_cannot_tell_leaves_its_effect_in_doubt(face: Face, acme: Tenant) -> None:
    def ask_the_bank() -> None:
        raise InDoubt(reason="timed out")

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            await run.effect("charge", ask_the_bank, key=KEY)

    with pytest.raises(InDoubt, match="timed out") as caught:
        face.run(program)
    assert (caught.value.run, caught.value.effect, caught.value.attempt) == ("r", KEY.hex(), 1)
    assert kinds(acme) == ["EffectStarted", "Note"]


def test_why_an_effect_is_in_doubt_is_recorded_once_and_told_again(face: Face, acme: Tenant) -> None:
    def ask_the_bank() -> None:
        raise InDoubt(reason="timed out")

    for recovery in ("ask", "ask", reconcile(ask_the_bank)):
        with pytest.raises(InDoubt) as caught:
            face.run(partial(once, face, acme, ask_the_bank, recovery))
        assert caught.value.reason == "timed out"
        free(acme)
    assert kinds(acme) == ["EffectStarted", "Note"]
    note = acme.read("r")[1]
    assert (note.effect, note.attempt, note.data) == (KEY, 1, {"text": "timed out"})


@pytest.mark.parametrize(
    ("reason", "told"), [(None, ""), ("", ""), (503, "503"), ("\ud800", "\\ud800"), ("x" * 3000, "x" * 1999 + "…")]
)
def test_any_reason_for_a_doubt_is_told_as_text(face: Face, acme: Tenant, reason: Any, told: str) -> None:
    def ask_the_bank() -> None:
        raise InDoubt(reason=reason)

    with pytest.raises(InDoubt) as caught:
        face.run(partial(once, face, acme, ask_the_bank))
    assert caught.value.reason == told
    assert [record.data["text"] for record in acme.read("r")[1:]] == ([told] if told else [])


async def once(face: Face, acme: Tenant, fn: Any, recovery: Any = "ask") -> Any:
    async with face.leased(acme, "r") as run:
        return await run.effect("charge", fn, key=KEY, recovery=recovery)


def test_a_note_about_an_earlier_attempt_says_nothing_of_the_next_one(face: Face, acme: Tenant, world: World) -> None:
    def ask_the_bank() -> None:
        raise InDoubt(reason="timed out")

    with pytest.raises(InDoubt):
        face.run(partial(once, face, acme, ask_the_bank))
    free(acme)
    acme.append("r", [entries.effect_reconciled(KEY, disposition="did-not-happen")], epoch=2)
    die_in(face, acme, world)
    with pytest.raises(InDoubt) as caught:
        again(face, acme, world, key=KEY)
    assert (caught.value.attempt, caught.value.reason) == (2, "")


def test_a_wait_is_not_ended_by_a_doubt(face: Face, acme: Tenant) -> None:
    doubts = iter(("first", "second"))

    def ask_the_bank() -> None:
        raise InDoubt(reason=next(doubts))

    async def program() -> Any:
        async with face.leased(acme, "r") as run:
            with pytest.raises(InDoubt):
                await run.effect("charge", ask_the_bank, key=KEY, recovery=reconcile(ask_the_bank))
            return await run.suspend(awaiting="a human")

    assert face.run(program) is None
    assert face.run(program) is None
    assert kinds(acme) == ["EffectStarted", "Note", "RunSuspended", "Note"]
    assert [wait.run for wait in acme.waiting()] == ["r"]


def test_an_effect_in_doubt_is_an_event_and_the_error_names_what_a_human_does(
    face: Face, acme: Tenant, world: World, heard: list[Any]
) -> None:
    die_in(face, acme, world)
    with pytest.raises(InDoubt, match="sealbook reconcile"):
        again(face, acme, world, key=KEY)
    [event] = [event for event in heard if event["event"] == "effect.in_doubt"]
    assert event == {"event": "effect.in_doubt", "log_level": "warning", "tenant": "acme", "run": "r", "attempt": 1}


def test_a_function_stopped_by_a_lost_lease_leaves_its_effect_in_doubt(
    face: Face, acme: Tenant, clock: ManualClock
) -> None:
    async def program() -> None:
        async with face.leased(acme, "r") as run:

            async def charge() -> None:
                clock.advance(31)
                await run.note("charged")

            await run.effect("charge", charge, key=KEY)

    with pytest.raises(Fenced):
        face.run(program)
    assert kinds(acme) == ["EffectStarted"]
    with pytest.raises(InDoubt):
        face.run(program)


def test_a_fence_that_is_not_this_runs_is_a_failure_like_any_other(face: Face, acme: Tenant) -> None:
    def write_elsewhere() -> None:
        acme.append("another", [entries.note("late")], epoch=7)

    acme.acquire("another", owner="somebody", ttl=30)
    with pytest.raises(Fenced):
        face.run(partial(once, face, acme, write_elsewhere))
    assert kinds(acme) == ["EffectStarted", "EffectFailed"]


@pytest.mark.parametrize("declared", ["ask", "retry"])
def test_a_recovery_that_the_start_does_not_declare_is_said_to_be_why(
    face: Face, acme: Tenant, world: World, declared: str
) -> None:
    die_in(face, acme, world, recovery=declared)
    with pytest.raises(InDoubt, match=f"its start declares '{declared}', not 'idempotent'"):
        again(face, acme, world, key=KEY, recovery="idempotent")
    assert kinds(acme) == ["EffectStarted"]


def test_a_stop_iteration_of_a_function_is_the_error_that_it_is_in_a_generator(face: Face, acme: Tenant) -> None:
    caught: list[BaseException] = []

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            try:
                await run.effect("find", lambda: next(iter(())), key=KEY)
            except RuntimeError as error:
                caught.append(error)
            await run.effect("go on", lambda: None)

    face.run(program)
    face.run(program)
    assert [isinstance(error, RecordedFailure) for error in caught] == [False, True]
    assert acme.read("r")[1].data["error"]["type"] == "RuntimeError"


def test_a_result_that_cannot_be_recorded_leaves_the_effect_in_doubt_and_says_so(face: Face, acme: Tenant) -> None:
    async def program() -> None:
        async with face.leased(acme, "r") as run:
            await run.effect("connect", object, key=KEY)

    with pytest.raises(InDoubt, match="its result cannot be recorded") as caught:
        face.run(program)
    assert isinstance(caught.value.__cause__, InvalidEntry)
    assert kinds(acme) == ["EffectStarted", "Note"]
    assert acme.read("r")[1].data["text"] == caught.value.reason


# --- arguments ------------------------------------------------------------------------------------------------------


def test_other_arguments_are_a_mismatch_that_shows_both(face: Face, acme: Tenant, world: World) -> None:
    again(face, acme, world, 42, key=KEY, currency="EUR")
    with pytest.raises(Mismatch) as caught:
        again(face, acme, world, 43, key=KEY, currency="EUR")
    assert caught.value.recorded == "charge(42, currency='EUR')"
    assert caught.value.stated == "charge(43, currency='EUR')"
    assert caught.value.seq == 1
    assert "42" in str(caught.value)
    assert "43" in str(caught.value)


@pytest.mark.parametrize(("first", "second"), [(1, True), (1, 1.0), ("1", 1), ([1], [1, None])])
def test_arguments_are_compared_as_they_are_recorded(
    face: Face, acme: Tenant, world: World, first: Any, second: Any
) -> None:
    again(face, acme, world, first, key=KEY)
    free(acme)
    with pytest.raises(Mismatch):
        again(face, acme, world, second, key=KEY)


def test_long_arguments_are_recorded_by_their_digest(face: Face, acme: Tenant, world: World) -> None:
    text = "x" * 5000
    again(face, acme, world, text, key=KEY)
    start = acme.read("r")[0].data
    assert "args" not in start
    assert len(start["args_digest"]) == 32
    assert start["args_bytes"] > 5000
    assert again(face, acme, world, text, key=KEY) == {"receipt": 1}
    with pytest.raises(Mismatch) as caught:
        again(face, acme, world, "x" * 4999 + "y", key=KEY)
    assert caught.value.stated != caught.value.recorded
    assert start["args_digest"].hex()[:16] in str(caught.value)


def test_arguments_longer_than_a_record_are_recorded_by_their_digest(face: Face, acme: Tenant, world: World) -> None:
    assert again(face, acme, world, bytes(5 * 2**20), key=KEY) == {"receipt": 1}
    assert acme.read("r")[0].data["args_bytes"] > 5 * 2**20


@pytest.mark.parametrize("wrong", [object(), {1: 2}, float("nan")])
def test_arguments_that_cannot_be_recorded_are_refused_before_anything_is_called(
    face: Face, acme: Tenant, world: World, wrong: Any
) -> None:
    with pytest.raises(InvalidEntry):
        again(face, acme, world, wrong, key=KEY)
    assert world.calls == []
    assert kinds(acme) == []


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("", {}),
        (7, {}),
        ("x" * 257, {}),
        ("\ud800", {}),
        ("charge", {"recovery": "reconcile"}),
        ("charge", {"recovery": None}),
        ("charge", {"key": b"short"}),
        ("charge", {"key": ()}),
        ("charge", {"key": 7}),
    ],
)
def test_a_bad_argument_is_refused_before_anything_is_called(
    face: Face, acme: Tenant, world: World, name: Any, options: dict[str, Any]
) -> None:
    async def program() -> None:
        async with face.leased(acme, "r") as run:
            await run.effect(name, world.charge, **options)

    with pytest.raises(InvalidInput):
        face.run(program)
    assert world.calls == []
    assert kinds(acme) == []


def test_the_same_key_under_another_name_is_a_mismatch(face: Face, acme: Tenant, world: World) -> None:
    again(face, acme, world, key=KEY)

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            await run.effect("refund", world.charge, key=KEY)

    with pytest.raises(Mismatch, match="refund"):
        face.run(program)
    assert len(world.calls) == 1


# --- inside of an effect --------------------------------------------------------------------------------------------


def test_a_function_may_read_the_epoch_and_the_key_of_its_effect(face: Face, acme: Tenant, journal: Journal) -> None:
    seen: list[Any] = []

    async def program() -> None:
        async with face.leased(acme, "r") as run:
            for key in (KEY, EffectKey("mail")):
                await run.effect("look", lambda: seen.append((run.epoch, run.idempotency_key)), key=key)
            with pytest.raises(InvalidInput):
                print(run.idempotency_key)

    face.run(program)
    [(epoch, charge), (_, mail)] = seen
    assert epoch == 1
    assert charge != mail
    assert len(bytes.fromhex(charge)) == 32


def test_an_effect_named_by_its_place_is_refused_while_another_is_under_way(face: Face, acme: Tenant) -> None:
    async def program() -> None:
        async with face.leased(acme, "r") as run:

            async def outer() -> str:
                with pytest.raises(KeyRequired) as caught:
                    await run.effect("inner", lambda: 1)
                assert (caught.value.run, caught.value.what) == ("r", "effect inner")
                with pytest.raises(KeyRequired):
                    await run.now()
                with pytest.raises(KeyRequired):
                    await run.random()
                inner = await run.effect("inner", lambda: "keyed", key=("inner",))
                return f"outer of {inner}"

            assert await run.effect("outer", outer) == "outer of keyed"

    face.run(program)
    face.run(program)
    assert kinds(acme) == ["EffectStarted", "EffectStarted", "EffectDone", "EffectDone"]


def test_an_effect_that_is_under_way_is_not_begun_a_second_time(face: Face, acme: Tenant) -> None:
    async def program() -> None:
        async with face.leased(acme, "r") as run:

            async def outer() -> None:
                with pytest.raises(DuplicateEffect) as caught:
                    await run.effect("charge", lambda: 1, key=KEY)
                assert caught.value.status == "under way"

            await run.effect("charge", outer, key=KEY)

    face.run(program)


def test_effects_side_by_side_are_replayed_in_any_order(face: Face, acme: Tenant) -> None:
    calls: list[str] = []

    async def program(names: str) -> list[Any]:
        answers: list[Any] = []
        async with face.leased(acme, "r") as run:

            async def work(name: str) -> None:
                def call() -> str:
                    calls.append(name)
                    return name

                answers.append(await run.effect("work", call, key=("work", name)))
                await run.note(f"{name} is done")

            await face.side_by_side(*[partial(work, name) for name in names])
            await run.effect("sum", lambda: len(names))
        return sorted(answers)

    assert face.run(lambda: program("abcd")) == list("abcd")
    count = acme.standing("r").records  # type: ignore[union-attr]
    assert face.run(lambda: program("dbca")) == list("abcd")
    assert sorted(calls) == list("abcd")
    assert acme.standing("r").records == count == 4 * 3 + 2  # type: ignore[union-attr]


def test_an_argument_no_record_can_hold_is_told_with_its_effect_and_the_way_round(
    face: Face, acme: Tenant, world: World
) -> None:
    advice = "functools.partial"
    with pytest.raises(InvalidEntry, match=rf"^effect 'charge' args\[0\]: is builtin_function.*{advice}"):
        again(face, acme, world, print, "hi")
    free(acme)
    again(face, acme, world, "hi", key=KEY)
    with pytest.raises(InvalidEntry, match=rf"^effect 'charge' kwargs.file: is object.*{advice}"):
        again(face, acme, world, "hi", key=KEY, file=object())
    assert world.calls == [("hi",)]
    assert kinds(acme) == ["EffectStarted", "EffectDone"]


def test_a_run_is_not_concluded_while_an_effect_of_it_is_under_way(face: Face, acme: Tenant) -> None:
    """Its end could not be recorded any more, and it would be in doubt for good."""
    refusals: list[str] = []

    async def program() -> None:
        async with face.leased(acme, "r") as run:

            async def charge() -> str:
                with pytest.raises(InvalidInput, match="under way") as refusal:
                    await run.conclude("completed")
                refusals.append(str(refusal.value))
                return "receipt"

            await run.effect("charge", charge, key=KEY)
            await run.conclude("completed")

    face.run(program)
    assert len(refusals) == 1
    assert kinds(acme) == ["EffectStarted", "EffectDone", "RunConcluded"]


def test_a_run_does_not_begin_to_wait_while_an_effect_of_it_is_under_way(face: Face, acme: Tenant) -> None:
    """Its end would end the wait at once."""

    async def program() -> None:
        async with face.leased(acme, "r") as run:

            async def charge() -> None:
                with pytest.raises(InvalidInput, match="under way"):
                    await run.suspend(awaiting="a human")

            await run.effect("charge", charge, key=KEY)
            await run.suspend(awaiting="a human")

    face.run(program)
    assert kinds(acme) == ["EffectStarted", "EffectDone", "RunSuspended"]
    assert [wait.run for wait in acme.waiting()] == ["r"]


def test_a_key_may_be_a_text_which_is_its_only_part(face: Face, acme: Tenant, world: World) -> None:
    again(face, acme, world, key="order-42")
    assert acme.effect("r", EffectKey("order-42")) is not None
    assert again(face, acme, world, key=("order-42",)) == {"receipt": 1}


def test_an_effect_that_its_place_names_is_found_by_people_too(face: Face, acme: Tenant, world: World) -> None:
    again(face, acme, world)
    assert acme.effect("r", EffectKey("position", "charge", "1")) is not None
