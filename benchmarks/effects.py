"""`effect()` of a leased run around a function that does nothing, beside the two appends that it must make."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from benchmarks import peers, workload
from benchmarks.rounds import Scale, in_rounds, rate, ratio, say
from benchmarks.stores import fill
from benchmarks.table import Row
from benchmarks.workload import EPOCH, TENANT, TTL_SECONDS
from sealbook.journal import EffectKey, Journal, entries

CALLS = 5
ARGUMENTS = {"card": "4711", "cents": 1999, "currency": "EUR", "note": "x" * 200}


def effects(folder: Path, scale: Scale) -> list[Row]:
    """One caller; both runs grow alike, and the two entries say what the effect's records say."""
    say(f"an effect around a no-op, in a store of {scale.small:,} records")
    floor = peers.Floor(folder / "floor")
    with Journal.open(folder / "effects.sealbook", create=True) as journal:
        tenant = journal.tenant(TENANT)
        fresh = fill(tenant, scale.small)
        bare = workload.run_name(fresh)
        tenant.acquire(bare, owner="worker-1", ttl=TTL_SECONDS)
        pairs = iter([_entries(number) for number in range(scale.rounds * CALLS)])
        numbers = count()

        def append_both() -> None:
            for entry in next(pairs):
                tenant.append(bare, [entry], epoch=EPOCH)

        with tenant.leased(workload.run_name(fresh + 1), owner="worker-1", ttl=TTL_SECONDS) as run:
            took = in_rounds(
                {
                    "effect": lambda: run.effect("charge-card", _nothing, ARGUMENTS, key=_key(next(numbers))),
                    "bare": append_both,
                    "floor": floor.write,
                },
                scale.rounds,
                CALLS,
            )
    floor.close()
    what, ours, two = "cost of effect() around a no-op", took["effect"], took["bare"]
    peer = "two bare appends of ours, of a start and an end that say the same"
    return [
        Row(what, peer, rate(ours), rate(two), ratio(ours, two), at_most=2.2),
        Row(what, floor.settings, rate(ours), rate(took["floor"]), ratio(ours, took["floor"])),
    ]


def _nothing(arguments: object) -> None:
    pass


def _key(number: int) -> tuple[str, ...]:
    return "charge-card", str(number)


def _entries(number: int) -> list[entries.Entry]:
    key = EffectKey(*_key(number))
    start = entries.effect_started(key, name="charge-card", args=[ARGUMENTS])
    return [start, entries.effect_done(key, result=None)]
