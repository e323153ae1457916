"""The faces are one: the same verbs with the same parameters, and to each call the same answer or refusal."""

from __future__ import annotations

import inspect
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from event_loops import Loop
from published_log import log_signer, signed_note, witness_signer

from sealbook.journal import Closed, EffectKey, Journal, Level, SealbookError, Tenant, entries, requests
from sealbook.journal.aio.faces import AsyncJournal, AsyncStoreLog, AsyncTenant
from sealbook.journal.checking.records import Range
from sealbook.journal.store.logs import StoreLog
from sealbook.journal.testing import ManualClock
from sealbook.merkle import Checkpoint
from sealbook.merkle.cosignature import cosign
from sealbook.merkle.note import Note, sign_text
from sealbook.merkle.tree import Node

KEY = EffectKey("charge", "42")
ROOT = bytes(range(32))

FACES = [(Journal, AsyncJournal), (Tenant, AsyncTenant), (StoreLog, AsyncStoreLog)]
RENAMED = {"close": "aclose"}
OPENING = {"open", "in_memory", "over"}
NOT_AWAITED = OPENING | {"tenant", "store_log", "origin", "store_origin", "store_id", "readonly"}
CONTEXTS = {"leased", "follow"}  # not awaited, but entered or iterated over: tested apart


def public(face: type) -> set[str]:
    return {name for name in dir(face) if not name.startswith("_")}


def verbs(face: type) -> set[str]:
    """The names of a synchronous class that are awaited on its asynchronous faces."""
    return public(face) - CONTEXTS - (NOT_AWAITED if face is Journal else set())


# --- the same verbs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("plain", "face"), FACES, ids=lambda cls: cls.__name__)
def test_every_verb_has_an_awaited_one_of_its_name_and_no_other_exists(plain: type, face: type) -> None:
    assert {RENAMED.get(name, name) for name in public(plain)} == public(face) | ({"name"} & public(plain))


@pytest.mark.parametrize(("plain", "face"), FACES, ids=lambda cls: cls.__name__)
def test_every_awaited_verb_has_the_signature_and_promise_of_its_synchronous_one(plain: type, face: type) -> None:
    for name in verbs(plain) - set(RENAMED):
        verb, awaited = getattr(plain, name), getattr(face, name)
        assert inspect.iscoroutinefunction(awaited), name
        if not isinstance(verb, property):
            assert inspect.signature(awaited) == inspect.signature(verb), name
            assert inspect.getdoc(awaited) == inspect.getdoc(verb), name


@pytest.mark.parametrize("name", sorted(OPENING))
def test_a_face_is_opened_with_the_parameters_of_a_journal(loop: Loop, name: str) -> None:
    assert inspect.signature(getattr(loop.face, name)) == inspect.signature(getattr(Journal, name))
    assert inspect.getdoc(getattr(loop.face, name)) == inspect.getdoc(getattr(Journal, name))


def test_the_library_loads_an_event_loop_only_for_the_face_that_is_asked_for() -> None:
    def loaded(names: str) -> set[str]:
        code = f"import sys; from sealbook.journal import {names}; print(*({{'trio', 'asyncio'}} & set(sys.modules)))"
        run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
        return set(run.stdout.split())

    assert loaded("Journal, AsyncTenant") == set()
    assert loaded("AsyncioJournal") == {"asyncio"}
    assert "trio" in loaded("TrioJournal")


# --- the same answers -------------------------------------------------------------------------------------------------


class Call(NamedTuple):
    of: str
    verb: str
    args: tuple[Any, ...]
    options: dict[str, Any]


class Refusal(NamedTuple):
    kind: type[Exception]
    text: str
    tenant: str | None


class Player:
    """Plays one script on one face, and keeps every call with its answer."""

    def __init__(self, things: dict[str, Any]) -> None:
        self.things = things
        self.calls: list[Call] = []
        self.answers: list[tuple[str, Any]] = []

    async def __call__(self, of: str, verb: str, *args: Any, **options: Any) -> Any:
        call = Call(of, verb, args, options)
        answer = await self.answer(call)
        self.calls.append(call)
        self.answers.append((f"{of}.{verb}", answer))
        return answer

    async def answer(self, call: Call) -> Any:
        """The answer; for a refusal, what it is, what it says, and whose it is."""
        try:
            answer = getattr(self.things[call.of], call.verb)
            if callable(answer):
                answer = answer(*call.args, **call.options)
            if inspect.isawaitable(answer):
                answer = await answer
        except (SealbookError, TypeError) as error:
            return Refusal(type(error), str(error), getattr(error, "tenant", None))
        return answer


def things(journal: Any) -> dict[str, Any]:
    return {"journal": journal, "acme": journal.tenant("acme"), "store log": journal.store_log}


async def play(call: Player) -> None:
    """Every verb at least once with an answer, and with a refusal where there is one."""
    lease = await call("acme", "acquire", "r", owner="w", ttl=30)
    await call("acme", "acquire", "r", owner="v", ttl=30)
    await call("acme", "acquire", "r", owner="v", ttl=0)
    lease = await call("acme", "renew", lease, ttl=60)
    await call("acme", "renew", "no lease", ttl=60)
    admitted = entries.admitted(source="shop", id="42", case="case-7")
    await call("acme", "append", "r", [admitted, entries.effect_started(KEY, name="charge")], lease=lease)
    await call("acme", "append", "r", [entries.effect_started(KEY, name="charge")], epoch=lease.epoch)
    await call("acme", "append", "r", [entries.note("x")])
    await call("acme", "append", "r", [entries.note("x")], epoch=9)
    await call("acme", "append", "r", [], epoch=9)
    await call("acme", "append", "", [entries.note("x")], epoch=1)
    await call("acme", "append", "r", [entries.note("x")], epoch=lease.epoch, after=await call("acme", "head", "r"))
    await call("acme", "append", "r", [entries.suspended(awaiting="a letter")], lease=lease)
    await call("acme", "waiting")
    await call("acme", "anchor", "r")
    await call("acme", "anchor", "unknown")
    await call("acme", "release", lease)
    await call("acme", "release", None)
    await call("acme", "anchor_open")
    await call("acme", "admit", "shop", "43", run="admitted", data={"from": "a letter"})
    await call("acme", "admit", "shop", "43", run="another")
    await call("acme", "admit", "", "43")
    await call("acme", "acquire", "left", owner="w", ttl=1)
    await call("acme", "append", "left", [entries.note("x")], epoch=1)
    clock.advance(60)
    await call("acme", "abandoned")
    await call("acme", "force_lease", "left", actor="ann", reason="gone")
    await call("acme", "force_lease", "left", actor="", reason="gone")
    await call("acme", "request_cancel", "left", actor="ann", reason="late")
    await call("acme", "request_cancel", "left", actor="ann", basis="guessed")
    await call("acme", "cancellation", "left")
    await call("acme", "cancellation", "")
    done: list[Any] = [
        requests.acquire("done", owner="w", ttl=30),
        requests.append("done", [entries.concluded("completed")]),
    ]
    await call("acme", "group", done)
    await call("acme", "group", [requests.group(done)])
    await call("acme", "seal", "r")
    await call("acme", "seal", "done", epoch=1, outcome="completed")
    await call("acme", "append", "done", [entries.note("x")], epoch=1)
    for limit in (2, 101):
        page = await call("acme", "read", "r", limit=limit)
        await call("acme", "read", "r", start=2, limit=limit, after=page.next)
        await call("acme", "history", limit=limit, reverse=True)
        await call("acme", "runs", limit=limit, all=True)
        await call("acme", "effects", "r", limit=limit)
        await call("acme", "recent", limit=limit)
        await call("acme", "recent_from", "shop", limit=limit)
        await call("acme", "names", "case", limit=limit)
        await call("acme", "by_outcome", "completed", limit=limit)
        await call("acme", "case_history", "case-7", limit=limit)
    await call("acme", "read", "r", after="forged")
    await call("acme", "read", "r", limit="many")
    await call("acme", "read", "r", limits=1)
    await call("acme", "count_by_outcome", "completed")
    await call("acme", "standing", "r")
    await call("acme", "effect", "r", KEY)
    await call("acme", "effect", "r", b"short")
    await call("acme", "lease", "left")
    await call("acme", "admitted_as", "shop", "42")
    await call("acme", "admitted_as", "", "42")
    await call("acme", "verify", "r")
    await call("acme", "verify", "unknown")
    await play_the_logs(call)
    await call("journal", "tenants")
    await call("journal", "info")
    await call("journal", "check")
    await call("journal", "check_range", Range("acme", 1, 2, Level.CHAIN))
    await call("journal", "reindex")


async def play_the_logs(call: Player) -> None:
    await call("store log", "gather")
    await call("store log", "head", "acme")
    await call("store log", "tags")
    await call("store log", "inclusion_proof", "acme", "done")
    await call("acme", "inclusion_proof", "done")
    await call("acme", "inclusion_proof", "unknown")
    await call("acme", "log_positions", ["done", "r"])
    for log in ("acme", "store log"):
        origin = await call(log, "origin")
        size = (await call(log, "checkpoint")).size
        signer = log_signer(origin)
        await call(log, "sign_checkpoint", lambda checkpoint, _, signer=signer: [sign_text(checkpoint.text(), signer)])
        await call(log, "sign_checkpoint", lambda checkpoint, consistent: [], size=size + 1)
        kept = await call(log, "signed_checkpoint")
        line = cosign(Note.parse(kept.note.encode()).text, 1_795_939_200, witness_signer("w.example.com"))
        await call(log, "keep_cosignatures", size, [line])
        await call(log, "keep_cosignatures", size + 1, [line])
        await call(log, "publish_checkpoint", size, without_quorum=True)
        await call(log, "publish_checkpoint", size + 1)
        await call(log, "published_checkpoint")
        await call(log, "published_sizes", 0)
        await call(log, "consistency_proof", 1)
        await call(log, "consistency_proof", size + 1)
        await call(log, "leaf_entries", 0, 10)
        await call(log, "tree_nodes", [Node(0, 0)])
    old = signed_note(Checkpoint(await call("acme", "origin"), 99, ROOT))
    await call("acme", "adopt_log", "elsewhere.example", old, actor="ann")
    await call("acme", "adopt_log", "elsewhere.example", b"no note", actor="ann")


clock = ManualClock()


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Start time and chance anew, so that two stores become the same bytes."""

    def start_anew() -> None:
        monkeypatch.setattr(os, "urandom", random.Random(20261129).randbytes)
        monkeypatch.setattr(requests, "_salts", {})  # those that were drawn ahead
        clock.__init__()  # type: ignore[misc]

    return start_anew


def played_in_order(loop: Loop | None) -> Player:
    """The script as it was answered on this loop's face, or on the synchronous one."""
    options: dict[str, Any] = {"clock": clock, "store_origin": "all.example"}

    async def asynchronous() -> Player:
        assert loop is not None
        async with loop.face.in_memory(**options) as journal:
            player = Player(things(journal))
            await play(player)
        return player

    if loop is not None:
        player: Player = loop.run(asynchronous)
        return player
    with Journal.in_memory(**options) as journal:
        player = Player(things(journal))
        without_waiting(play(player))
    return player


def without_waiting(coroutine: Any) -> None:
    """Run a coroutine that awaits nothing which waits."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_the_script_tries_every_verb() -> None:
    tried = {"Journal": "journal", "Tenant": "acme", "StoreLog": "store log"}
    calls = played_in_order(None).calls
    for plain, _ in FACES:
        done = {call.verb for call in calls if call.of == tried[plain.__name__]}
        assert done == verbs(plain) - set(RENAMED) - {"statistics", "name"}


def test_every_verb_gives_the_answers_and_refusals_of_the_synchronous_one(
    loop: Loop, fixed: Callable[[], None]
) -> None:
    fixed()
    expected = played_in_order(None).answers
    fixed()
    given = played_in_order(loop).answers
    for (name, ours), (_, theirs) in zip(given, expected, strict=True):
        assert ours == theirs, name
    assert len(given) > 100


def test_after_closing_every_verb_is_closed(loop: Loop) -> None:
    player = played_in_order(loop)
    answered = [call for call, (_, answer) in zip(player.calls, player.answers, strict=True) if not refused(answer)]

    async def again() -> list[Any]:
        return [await player.answer(call) for call in answered]

    assert [refusal.kind for refusal in loop.run(again)] == [Closed] * len(answered)
    assert {(call.of, call.verb) for call in answered} == {(call.of, call.verb) for call in player.calls}


def refused(answer: Any) -> bool:
    return isinstance(answer, Refusal)


def test_statistics_count_what_a_face_has_written(loop: Loop) -> None:
    async def main() -> Any:
        async with loop.face.in_memory() as journal:
            await journal.tenant("acme").append("r", [entries.note("x")], epoch=1)
            return await journal.statistics()

    assert loop.run(main)["entries"] == 1


def test_the_plain_values_are_those_of_the_journal(loop: Loop) -> None:
    async def main() -> None:
        async with loop.face(journal) as face:
            for name in ("origin", "store_origin", "store_id", "readonly"):
                assert getattr(face, name) == getattr(journal, name)
            assert face.tenant().name == journal.tenant().name == "default"

    with Journal.in_memory(store_origin="all.example") as journal:
        loop.run(main)
