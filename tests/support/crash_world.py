"""A world that effects act upon, a body that acts upon it under every recovery, and the human who decides in doubt."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sealbook.journal import (
    AsyncLeasedRun,
    DidNotHappen,
    InDoubt,
    Journal,
    Landed,
    LeasedRun,
    Tenant,
    entries,
    reconcile,
)

WRITTEN_ONCE = ("ClockRead", "Note", "RandomDrawn", "Snapshot", "RunConcluded")


class World:
    """Where effects land: what was done, how often, and under which keys."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.keys: set[str] = set()

    def act(self, name: str) -> str:
        self.done[name] += 1
        return f"{name} is done"

    def act_once(self, name: str, idempotency_key: str) -> str:
        """A receiver that honours the key."""
        self.done[name] += idempotency_key not in self.keys
        self.keys.add(idempotency_key)
        return f"{name} is done"

    def look(self, name: str) -> Landed | DidNotHappen:
        return Landed(f"{name} is done") if self.done[name] else DidNotHappen()


def body(run: LeasedRun, world: World) -> list[Any]:
    found: list[Any] = [run.now()]
    found.append(run.effect("charge", world.act, "charge"))
    found.append(run.effect("think", world.act, "think", recovery="retry"))
    run.note("half way")
    found.append(run.effect("ship", world.act_once, "ship", recovery="idempotent"))
    found.append(run.effect("book", world.act, "book", key=("book",), recovery=reconcile(world.look)))
    found.append(run.random())
    run.snapshot({"booked": True})
    run.conclude("completed")
    return found


async def awaited_body(run: AsyncLeasedRun, world: World, turn: Any) -> None:
    """The same, awaited, by functions that wait before and after they act."""

    async def act(name: str) -> str:
        await turn()
        answer = world.act(name)
        await turn()
        return answer

    await run.now()
    await run.effect("charge", act, "charge")
    await run.effect("think", act, "think", recovery="retry")
    await run.note("half way")
    await run.effect("ship", world.act_once, "ship", recovery="idempotent")
    await run.effect("book", act, "book", key=("book",), recovery=reconcile(world.look))
    await run.random()
    await run.snapshot({"booked": True})
    await run.conclude("completed")


def human(acme: Tenant, world: World) -> None:
    """Let the lease be anybody's, and decide what is in doubt, by looking at the world."""
    if acme.lease("r") is not None:
        acme.force_lease("r", actor="ann", reason="it died")
    for effect in acme.effects("r"):
        if effect.in_doubt and effect.recovery == "ask":
            landed = world.done["charge"] > 0
            looked = entries.effect_reconciled(
                effect.key,
                disposition="landed" if landed else "did-not-happen",
                data={"result": "charge is done"} if landed else None,
            )
            acme.append("r", [looked], epoch=acme.lease("r").epoch)  # type: ignore[union-attr]


def finish(acme: Tenant, world: World) -> None:
    """Execute the run on threads until it is sealed, deciding what is in doubt."""
    for _ in range(3):
        human(acme, world)
        try:
            with acme.leased("r", owner="w") as run:
                body(run, world)
        except InDoubt:
            continue
        return


def check(journal: Journal, world: World, deaths: int) -> None:
    """See that the world and the records agree, however often the run died."""
    acme = journal.tenant("acme")
    standing = acme.standing("r")
    assert standing is not None
    assert standing.sealed
    assert (world.done["charge"], world.done["ship"], world.done["book"], len(world.keys)) == (1, 1, 1, 1)
    assert 1 <= world.done["think"] <= 1 + deaths
    kinds = Counter(record.kind for record in acme.read("r"))
    assert [kinds[kind] for kind in WRITTEN_ONCE] == [1] * len(WRITTEN_ONCE)
    assert journal.check().ok
