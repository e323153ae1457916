"""A batch of requests, decided in order over one snapshot: each as if it had been committed alone, or not at all."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sealbook.journal import EffectKey, Fenced, IdentityUpcaster, Refused, SealbookError, entries, requests
from sealbook.journal.deciding.batch import decide
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Writes
from sealbook.journal.schema import tables
from sealbook.journal.schema.identity import Identity
from sealbook.journal.schema.setting import Setting
from sealbook.journal.testing import ManualClock, all_rows

IDENTITY = Identity(bytes(16), bytes(16), bytes(32), 1, 0)
SETTING = Setting(IDENTITY, None, IdentityUpcaster())
KEYS = [EffectKey(str(number)) for number in range(3)]
Asked = tuple[str, requests.Request]


@pytest.fixture
def empty(clock: ManualClock) -> MemoryEngine:
    """An engine with a store row and nothing else."""
    engine = MemoryEngine(clock=clock)
    engine.write(lambda snapshot, moment: (Writes({tables.STORE_PLACE: IDENTITY.store_row().encode()}), None))
    return engine


def committed(engine: MemoryEngine, batch: list[Asked]) -> list[Any]:
    """Commit the batch in one transaction; its answers."""
    answers: list[Any] = engine.write(lambda snapshot, moment: decide(batch, snapshot, moment, SETTING)).answers
    return answers


def comparable(answer: Any) -> Any:
    """An answer without identity: errors by their kind and values."""
    if isinstance(answer, SealbookError):
        return type(answer).__name__, str(answer)
    return answer


def test_each_request_sees_what_those_before_it_did(empty: MemoryEngine) -> None:
    lease, made, more, leaf, none = committed(
        empty,
        [
            ("acme", requests.acquire("r", owner="w", ttl=10)),
            ("acme", requests.append("r", [entries.admitted()], epoch=1)),
            ("acme", requests.append("r", [entries.concluded("done")], epoch=1)),
            ("acme", requests.seal("r", epoch=1)),
            ("acme", requests.release("r", epoch=1)),
        ],
    )
    assert (lease.epoch, made[0].seq, more[0].seq, leaf.index, none) == (1, 1, 2, 0, None)
    assert more[0].prev == made[0].hash


def test_a_refused_request_in_the_middle_leaves_the_others_standing(empty: MemoryEngine) -> None:
    start = entries.effect_started(KEYS[0], name="n")
    first, refused, second = committed(
        empty,
        [
            ("acme", requests.append("r", [entries.note("a")], epoch=1)),
            ("acme", requests.append("r", [entries.admitted(source="s", id="1"), start], epoch=1)),
            ("acme", requests.append("r", [start], epoch=1)),
        ],
    )
    assert isinstance(refused, Refused)
    assert [record.arrival for record in [*first, *second]] == [1, 2]
    assert all_rows(empty)[tables.ADMISSIONS] == []


def test_a_group_that_is_refused_takes_back_what_its_parts_had_done(empty: MemoryEngine) -> None:
    group = requests.group(
        [
            requests.acquire("r", owner="w", ttl=10),
            requests.append(
                "r", [entries.admitted(source="s", id="1", case="c"), entries.concluded("done")], seal=True
            ),
            requests.request_cancel("s", actor="ann"),
            requests.append("s", [entries.note("x")], epoch=9),
        ]
    )
    before = all_rows(empty)
    [answer] = committed(empty, [("acme", group)])
    assert isinstance(answer, Fenced)
    assert all_rows(empty) == before


def chance_request(chance: random.Random, number: int) -> Asked:
    """Some request or other, sensible or not."""
    run, epoch = f"r{chance.randrange(3)}", chance.randrange(1, 4)
    entry = chance.choice(
        [
            entries.note("x", case=chance.choice(["c", None])),
            entries.admitted(source="s", id=str(chance.randrange(4))),
            entries.effect_started(chance.choice(KEYS), name="n", recovery=chance.choice(["ask", "retry"])),
            entries.effect_done(chance.choice(KEYS)),
            entries.effect_failed(chance.choice(KEYS)),
            entries.suspended(awaiting=number),
            entries.concluded(chance.choice(["failed", "failed", "exhausted", "done"])),
        ]
    )
    append = requests.append(run, [entry] * chance.choice([1, 1, 1, 2]), epoch=epoch, seal=chance.random() < 0.1)
    possible: list[requests.Request] = [
        *[append] * 6,
        requests.acquire(run, owner="w", ttl=10),
        requests.renew(run, owner="w", epoch=epoch, ttl=10),
        requests.release(run, epoch=epoch),
        requests.seal(run, epoch=chance.choice([None, epoch])),
        requests.anchor(run),
        requests.request_cancel(run, actor="ann"),
        requests.force_lease(run, actor="ann", reason="x"),
        requests.group(
            [
                requests.anchor(run),
                requests.append(run, [entries.note("a"), entry], epoch=epoch),
                requests.release(run, epoch=epoch),
            ]
        ),
    ]
    return chance.choice(["acme", "acme", "other"]), chance.choice(possible)


@pytest.mark.parametrize("seed", range(12))
def test_a_batch_does_what_its_requests_do_one_by_one(empty: MemoryEngine, clock: ManualClock, seed: int) -> None:
    """Two ways to the same state: every answer and every row of every table agree."""
    alone = MemoryEngine(clock=clock)
    alone.write(lambda snapshot, moment: (Writes({tables.STORE_PLACE: IDENTITY.store_row().encode()}), None))
    chance = random.Random(seed)
    kinds = set()
    for round_ in range(12):
        batch = [chance_request(chance, number) for number in range(chance.randrange(1, 30))]
        together = committed(empty, batch)
        one_by_one = [answer for asked in batch for answer in committed(alone, [asked])]
        found, expected = list(map(comparable, together)), list(map(comparable, one_by_one))
        assert found == expected, f"seed {seed}, round {round_}"
        assert all_rows(empty) == all_rows(alone), f"seed {seed}, round {round_}"
        kinds |= {type(answer).__name__ for answer in together}
        clock.advance(chance.choice([0, 1, 11]))
    assert len(kinds) > 5  # records, leases and several refusals were among them


@pytest.mark.parametrize("seed", range(4))
def test_deciding_is_pure(empty: MemoryEngine, seed: int) -> None:
    chance = random.Random(seed)
    batch = [chance_request(chance, number) for number in range(40)]
    moment = ManualClock()()
    with empty.snapshot() as snapshot:
        (writes, answers), (again, others) = (decide(batch, snapshot, moment, SETTING) for _ in range(2))
    assert (dict(writes.puts), set(writes.absent), set(writes.deletes)) == (
        dict(again.puts),
        set(again.absent),
        set(again.deletes),
    )
    assert list(map(comparable, answers)) == list(map(comparable, others))


def test_what_comes_and_goes_within_one_batch_is_never_written(empty: MemoryEngine) -> None:
    committed(
        empty,
        [
            ("acme", requests.acquire("r", owner="w", ttl=10)),
            ("acme", requests.append("r", [entries.suspended(awaiting="x")], epoch=1)),
            ("acme", requests.append("r", [entries.concluded("done")], epoch=1, seal=True)),
        ],
    )
    found = all_rows(empty)
    assert (found["waiting"], found[tables.LEASES]) == ([], [])
    assert len(found["outcome"]) == 1
