"""The threaded face: a thread that renews, verbs from several threads, and one lock between them."""

from __future__ import annotations

import inspect
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from project import ROOT

from sealbook.journal import (
    EffectKey,
    InvalidInput,
    Journal,
    Landed,
    LeasedRun,
    LeaseHeld,
    OpenedBeforeFork,
    Tenant,
    entries,
    reconcile,
)
from sealbook.journal.aio.leased import AsyncLeasedRun
from sealbook.journal.running.rules import RunRules

KEY = EffectKey("charge", "42")


def keepers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("sealbook-lease-")]


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_the_renewing_thread_ends_with_the_block_however_it_ends(
    acme: Tenant, error: type[BaseException] | None
) -> None:
    def block() -> None:
        with acme.leased("r", owner="w"):
            [keeper] = keepers()
            assert (keeper.name, keeper.daemon) == ("sealbook-lease-r", True)
            if error is not None:
                raise error

    if error is None:
        block()
    else:
        with pytest.raises(error):
            block()
    assert keepers() == []


def test_no_thread_is_started_for_a_run_that_is_refused(acme: Tenant) -> None:
    acme.acquire("r", owner="another", ttl=30)
    with pytest.raises(LeaseHeld), acme.leased("r", owner="w"):
        raise AssertionError
    assert keepers() == []


def test_a_lease_that_nobody_can_renew_is_given_back(acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    acme.append("another", [entries.note("the writer's own thread runs")], epoch=1)
    block = acme.leased("r", owner="w")
    monkeypatch.setattr(threading.Thread, "start", cannot)
    with pytest.raises(RuntimeError, match="thread"), block:
        raise AssertionError
    lease = acme.lease("r")
    assert lease is not None
    assert lease.owner is None


def test_verbs_are_called_from_several_threads_at_once(acme: Tenant, journal: Journal) -> None:
    results: dict[tuple[int, int], Any] = {}

    def work(number: int) -> None:
        for step in range(20):
            results[number, step] = run.effect("work", abs, step, key=(str(number), str(step)))
            run.note(f"{number} did {step}")

    with acme.leased("r", owner="w") as run:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        run.conclude("completed")
    assert results == {(number, step): step for number in range(4) for step in range(20)}
    standing = acme.standing("r")
    assert standing is not None
    assert (standing.records, standing.effects_done) == (4 * 20 * 3 + 1, 80)
    assert journal.check().ok


def test_one_strand_that_hops_from_thread_to_thread_is_replayed(acme: Tenant) -> None:
    called: list[str] = []

    def execute(hopping: bool) -> list[Any]:
        found: list[Any] = []

        def steps() -> None:
            found.append(run.now())
            run.note("begun")
            found.append(run.effect("a", called.append, "a"))
            found.append(run.effect("b", called.append, "b", key=("b",)))
            run.snapshot({"b": True})
            found.append(run.random())

        with acme.leased("r", owner="w") as run:
            if hopping:
                thread = threading.Thread(target=steps)
                thread.start()
                thread.join()
            else:
                steps()
        return found

    first = execute(False)
    records = acme.standing("r").records  # type: ignore[union-attr]
    assert [execute(True), execute(False), execute(True)] == [first] * 3
    assert called == ["a", "b"]
    assert acme.standing("r").records == records  # type: ignore[union-attr]


def test_a_coroutine_function_is_refused_before_anything_is_recorded(acme: Tenant) -> None:
    async def charge() -> None: ...

    with acme.leased("r", owner="w") as run, pytest.raises(InvalidInput, match="coroutine"):
        run.effect("charge", charge)
    assert acme.read("r") == []


def counting(call: Callable[..., Any], name: str, counted: Counter[str]) -> Callable[..., Any]:
    def counts(*args: Any) -> Any:
        counted[name] += 1
        return call(*args)

    return counts


def test_a_fresh_effect_is_two_commits_and_no_read(
    acme: Tenant, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with acme.leased("r", owner="w") as run:
        run.effect("a", lambda: None)
        counted: Counter[str] = Counter()
        for owner, verb in ((journal.view, "snapshot"), (journal.view.writer, "_write")):
            monkeypatch.setattr(owner, verb, counting(getattr(owner, verb), verb, counted))
        run.effect("a", lambda: None)
        run.effect("b", lambda: None, key=("b",))
        assert counted == {"_write": 4}


def test_a_forked_child_is_refused_every_verb_and_the_parent_goes_on(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "agents.sealbook", create=True) as journal:
        acme = journal.tenant("acme")
        with acme.leased("r", owner="parent") as run:
            child = os.fork()
            if child == 0:
                try:
                    run.note("from the child")
                except OpenedBeforeFork:
                    os._exit(7)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            run.note("from the parent")
        assert [record.data["text"] for record in acme.read("r")] == ["from the parent"]


def test_a_block_is_entered_once(acme: Tenant) -> None:
    block = acme.leased("r", owner="w")
    with block:
        pass
    with pytest.raises(InvalidInput, match="was entered already"), block:
        raise AssertionError
    lease = acme.lease("r")
    assert lease is not None
    assert (lease.epoch, lease.owner) == (1, None)


def test_a_coroutine_function_is_no_check_either(acme: Tenant) -> None:
    async def check() -> Landed:
        return Landed()

    with pytest.raises(InvalidInput, match="is a coroutine function"), acme.leased("r", owner="w") as run:
        run.effect("charge", lambda: None, key=KEY, recovery=reconcile(check))
    assert acme.read("r") == []


def test_a_function_that_returns_a_coroutine_has_done_nothing_and_has_failed(acme: Tenant) -> None:
    async def charge() -> None:
        raise AssertionError("nobody awaits it")

    def begin() -> Any:
        return charge()

    with pytest.raises(InvalidInput, match="returned a coroutine"), acme.leased("r", owner="w") as run:
        run.effect("charge", begin, key=KEY)
    assert [record.kind for record in acme.read("r")] == ["EffectStarted", "EffectFailed"]


def test_a_block_that_an_effect_outlives_keeps_its_lease(acme: Tenant) -> None:
    """Who took over would find the effect in doubt, while it is being called."""
    begun, go = threading.Event(), threading.Event()

    def charge() -> None:
        begun.set()
        assert go.wait(30)

    with acme.leased("r", owner="w") as run:
        thread = threading.Thread(target=lambda: run.effect("charge", charge, key=KEY))
        thread.start()
        assert begun.wait(30)
    lease = acme.lease("r")
    go.set()
    thread.join(30)
    assert lease is not None
    assert lease.owner == "w"
    assert [record.kind for record in acme.read("r")] == ["EffectStarted", "EffectDone"]


VERBS = ("effect", "note", "snapshot", "now", "random", "suspend", "resume", "conclude")


@pytest.mark.parametrize("verb", VERBS)
def test_the_faces_have_the_same_verbs_with_one_promise(verb: str) -> None:
    threaded, awaited = getattr(LeasedRun, verb), getattr(AsyncLeasedRun, verb)
    assert inspect.signature(threaded) == inspect.signature(awaited)
    assert threaded.__doc__ == awaited.__doc__ == getattr(RunRules, verb).__doc__
    assert threaded.__doc__


def test_the_faces_have_the_same_members() -> None:
    assert public(LeasedRun) == public(AsyncLeasedRun)
    for face in (LeasedRun, AsyncLeasedRun):
        assert face.cancel_requested.__doc__ == RunRules.cancel_requested.__doc__


def public(face: type) -> list[str]:
    return sorted(name for name in vars(face) if not name.startswith("_"))


@pytest.mark.parametrize("page", ["README.md", "docs/running.md", None], ids=["readme", "manual", "docstring"])
def test_the_promise_is_that_of_the_design_word_by_word(page: str | None) -> None:
    told = LeasedRun.effect.__doc__ or "" if page is None else (ROOT / page).read_text(encoding="utf-8")
    promise = " ".join(told.replace("**", "").split())
    assert (
        "We promise one recorded start per attempt, under the current epoch. We cannot recall a call already made by a "
        "process that lost its lease: `ask` calls at most once; `reconcile` at most once as far as the check can know; "
        "`retry` once or more; `idempotent` has one effect if the receiver honours the key."
    ) in promise
