"""What is remembered of recent runs: it spares reading, and changes no answer and no row."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sealbook.journal import EffectKey, IdentityUpcaster, SealbookError, entries, requests
from sealbook.journal.deciding import recent
from sealbook.journal.deciding.appending import Appended
from sealbook.journal.deciding.batch import decide
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Writes
from sealbook.journal.records.chain import GENESIS, Head
from sealbook.journal.records.names import STORE_LOG
from sealbook.journal.records.signatures import Ed25519Signer
from sealbook.journal.schema import tables
from sealbook.journal.schema.identity import Identity
from sealbook.journal.schema.setting import Setting
from sealbook.journal.testing import ManualClock, all_rows
from sealbook.journal.writing.statistics import Statistics
from sealbook.journal.writing.writer import Ticket, Writer

IDENTITY = Identity(bytes(16), bytes(16), bytes(32), 1, 0)
KEYS = [EffectKey(str(number)) for number in range(3)]
Asked = tuple[str, requests.Request]


def store(clock: ManualClock) -> MemoryEngine:
    """An engine with a store row and nothing else."""
    engine = MemoryEngine(clock=clock)
    engine.write(lambda snapshot, moment: (Writes({tables.STORE_PLACE: IDENTITY.store_row().encode()}), None))
    return engine


def writer_of(engine: MemoryEngine, setting: Setting) -> Writer:
    return Writer(lambda work: engine.write(work).answers, engine.give_way, setting, Statistics(), lambda: None)


class History:
    """Requests by chance, also those that were asked before, after heads that the runs had."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._heads: dict[tuple[str, str], list[Head]] = {}
        self._asked: list[Asked] = []

    def request(self) -> Asked:
        chance = self._chance
        tenant, run, epoch = chance.choice(["acme", "acme", "other"]), f"r{chance.randrange(4)}", chance.randrange(1, 4)
        if self._asked and chance.random() < 0.15:
            return chance.choice(self._asked)
        if chance.random() < 0.05:
            return STORE_LOG, requests.GatherHeads("example.com/store")
        possible: list[requests.Request] = [
            *[self._append(tenant, run, epoch)] * 6,
            requests.acquire(run, owner="w", ttl=10),
            requests.renew(run, owner="w", epoch=epoch, ttl=10),
            requests.release(run, epoch=epoch),
            requests.seal(run, epoch=chance.choice([None, epoch])),
            requests.anchor(run),
            requests.anchor_open(),
            requests.request_cancel(run, actor="ann"),
            requests.force_lease(run, actor="ann", reason="x"),
            requests.group([requests.acquire(run, owner="w", ttl=10), requests.append(run, [entries.note("g")])]),
            requests.group([requests.anchor(run), requests.append(run, [entries.note("g")], epoch=epoch)]),
        ]
        asked = tenant, chance.choice(possible)
        self._asked.append(asked)
        return asked

    def _append(self, tenant: str, run: str, epoch: int) -> requests.Request:
        chance = self._chance
        heads = self._heads.get((tenant, run), [Head(0, GENESIS)])
        made = [
            chance.choice(
                [
                    entries.note("x", case=chance.choice(["c", None])),
                    entries.effect_started(chance.choice(KEYS), name="n", recovery="retry"),
                ]
            )
            for _ in range(chance.choice([1, 1, 2, 62, 64, 65]))  # over the borders of blocks of arrivals
        ]
        if chance.random() < 0.1:
            made.append(entries.concluded(chance.choice(["failed", "done"])))
        after = chance.choice([None, heads[-1], heads[-1], chance.choice(heads)])
        return requests.append(run, made, epoch=epoch, after=after, seal=chance.random() < 0.1)

    def learn(self, asked: Asked, answer: Any) -> None:
        if isinstance(answer, Appended) and answer:
            last = answer[-1]
            heads = self._heads.setdefault((asked[0], last.run), [Head(0, GENESIS)])
            heads.append(Head(last.seq, last.hash))


def comparable(answer: Any) -> Any:
    """An answer without identity: errors by their kind and values."""
    return (type(answer).__name__, str(answer)) if isinstance(answer, SealbookError) else answer


@pytest.mark.parametrize("seed", range(12))
def test_two_writers_that_remember_do_what_nobody_who_remembers_does(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take turns at one store, as two processes do, and one of them asks more, so that it has much to remember.
    Beside it each request is decided alone, from the rows."""
    chance, clock = random.Random(seed), ManualClock()
    monkeypatch.setattr(recent, "RUNS_MAX", chance.choice([1, 1, 2, 4096]))
    setting = Setting(IDENTITY, Ed25519Signer(bytes(32)) if seed % 3 == 0 else None, IdentityUpcaster())
    together, alone = store(clock), store(clock)
    writers = [writer_of(together, setting) for _ in range(2)]
    history = History(chance)
    kinds = set()
    for round_ in range(40):
        batch = [history.request() for _ in range(chance.choice([1, 1, 2, 5, 15]))]
        tickets = [Ticket(tenant, request, None) for tenant, request in batch]
        chance.choice([*writers[:1] * 8, *writers])._commit(tickets)
        for asked, ticket in zip(batch, tickets, strict=True):
            [expected] = alone.write(lambda view, moment, asked=asked: decide([asked], view, moment, setting)).answers  # type: ignore[misc]
            assert comparable(ticket._answer) == comparable(expected), f"seed {seed}, round {round_}"
            history.learn(asked, expected)
            kinds.add(type(expected).__name__)
        assert all_rows(together) == all_rows(alone), f"seed {seed}, round {round_}"
        clock.advance(chance.choice([0, 1, 11]))
    assert len(kinds) > 5  # records, leases, leaves and several refusals were among them
