"""Wherever the wanted records are read, they are those of the history that are wanted, in its order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from sealbook.cli.selecting import candidates, matches, paging, span
from sealbook.cli.selecting.records import Sieve, newest, records
from sealbook.cli.selecting.selection import Selection
from sealbook.journal import Journal, Moment, Record, Tenant, entries

SEED, RUNS, STEPS = 20261129, 12, 260


class Clock:
    """Goes on by up to three seconds, and is set back by ten every now and then."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.at = chance, 1_795_939_200_000

    def __call__(self) -> Moment:
        self.at += self.chance.randrange(3000)
        if self.chance.random() < 0.02:
            self.at -= 10_000
        return Moment(wall_ms=self.at, boot_ms=1, boot_id=bytes(16))


@pytest.fixture(scope="module")
def tenant() -> Iterator[Tenant]:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    with Journal.in_memory(clock=Clock(chance)) as journal:
        tenant = journal.tenant()
        for number in range(RUNS):
            admitted = entries.admitted(source=chance.choice(["shop", "mail"]), id=str(number))
            tenant.append(f"{'ab'[number % 2]}-{number}", [admitted], epoch=1)
        for number in range(STEPS):
            run = f"{'ab'[number % 2]}-{chance.randrange(RUNS) // 2 * 2 + number % 2}"
            case = chance.choice([None, "x", "y"])
            entry = chance.choice(
                [
                    entries.entry("Note", {"n": number}, case=case),
                    entries.entry("Thought", {"n": number}, case=case),
                    entries.concluded(chance.choice(["failed", "exhausted"]), case=case),
                ]
            )
            tenant.append(run, [entry], epoch=1)
        yield tenant


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "PAGE_MAX", 7)
    monkeypatch.setattr(paging, "MERGED_PAGE", 3)
    monkeypatch.setattr(span, "MARGIN", 20)


WORDS = [
    "RUN=a-0 RUN=b-1",
    "RUN=a-0 + CASE=x",
    "CASE=x CASE=y",
    "CASE=x KIND=Note",
    "RUN=a-0 CASE=x",
    "OUTCOME=failed",
    "OUTCOME=failed OUTCOME=exhausted SOURCE=mail",
    "SOURCE=shop KIND=RunConcluded",
    "SOURCE=shop + OUTCOME=exhausted + RUN=b-3",
    "SOURCE=shop + KIND=Thought",
    "KIND=Note DATA.n=7 + SEQ=2",
    "RUN=nobody",
    "OUTCOME=completed",
]


def expected(tenant: Tenant, wanted: Selection) -> list[Record]:
    """The whole history, each record asked."""
    sieve = Sieve(tenant, wanted)
    return [record for record in tenant.history(limit=1000) if sieve.takes(record)]


def check(tenant: Tenant, wanted: Selection) -> int:
    found = expected(tenant, wanted)
    assert list(records(tenant, wanted)) == found, wanted
    assert list(records(tenant, wanted, reverse=True)) == found[::-1], wanted
    assert newest(tenant, wanted, 5) == found[-5:], wanted
    assert list(records(tenant, wanted, limit=5)) == found[:5], wanted
    return len(found)


@pytest.mark.parametrize("words", WORDS)
def test_matches_are_answered_as_the_history_would_answer_them(tenant: Tenant, words: str) -> None:
    found = check(tenant, Selection(groups=matches.parse(words.split())))
    assert (found > 0) == (words not in ("RUN=nobody", "OUTCOME=completed"))


@pytest.mark.parametrize("runs", [("a-*",), ("a-0", "b-1"), ("a-0", "b-?"), ("*-1[01]",), ("[!a]-*",), ("c*",), ("*",)])
def test_runs_may_be_named_or_meant(tenant: Tenant, runs: tuple[str, ...]) -> None:
    assert (check(tenant, Selection(runs=runs)) > 0) == (runs != ("c*",))
    check(tenant, Selection(runs=runs, groups=matches.parse(["RUN=b-1", "CASE=x", "+", "SOURCE=shop"])))


@pytest.mark.parametrize("seed", range(8))
def test_instants_and_cursors_bound_what_is_read_and_not_what_is_found(tenant: Tenant, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    everything = list(tenant.history(limit=1000))
    for _ in range(12):
        since, until = sorted(chance.choice(everything).at * 1000 for _ in range(2))
        wanted = Selection(
            since=chance.choice([None, since, since + 1]),
            until=chance.choice([None, until, until - 1]),
            first=chance.choice([1, chance.randrange(1, len(everything) + 2)]),
            run=chance.choice([None, None, "a-0"]),
            case=chance.choice([None, None, "x"]),
            groups=matches.parse(chance.choice(["", *WORDS]).split()),
        )
        check(tenant, wanted)


def test_a_listing_of_too_many_runs_is_left_for_the_history(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "RUNS_MAX", 3)
    for words in ("SOURCE=shop", "OUTCOME=failed KIND=RunConcluded"):
        assert check(tenant, Selection(groups=matches.parse(words.split()))) > 0
    check(tenant, Selection(runs=("a-*",)))


class Counted:
    """A tenant that counts the records it gives out."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant, self.records = tenant, 0

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._tenant, name)

        def counted(*args: Any, **options: Any) -> Any:
            answer = verb(*args, **options)
            if name in ("history", "read", "case_history"):
                self.records += len(answer)
            return answer

        return counted if callable(verb) else verb


@pytest.fixture(scope="module")
def large() -> Iterator[Tenant]:
    """20,000 records of 2,000 runs, a second apart, of which three runs failed."""
    clock = Clock(random.Random(1))
    clock.__class__ = Seconds
    with Journal.in_memory(clock=clock) as journal:
        tenant = journal.tenant()
        for number in range(2000):
            batch = [entries.admitted(source="rare" if number in (7, 1007) else "shop", id=str(number))]
            batch += [entries.note("x", case=f"case-{number % 500}")] * 8
            outcome = "failed" if number in (5, 900, 1500) else "exhausted"
            tenant.append(f"run-{number:04d}", [*batch, entries.concluded(outcome)], epoch=1)
        yield tenant


class Seconds(Clock):
    def __call__(self) -> Moment:
        self.at += 1000
        return Moment(wall_ms=self.at, boot_ms=1, boot_id=bytes(16))


SINCE = (1_795_939_200_000 + 1_990_000) * 1000  # of the last runs' records


@pytest.mark.parametrize(
    ("wanted", "count", "printed"),
    [
        (Selection(), 20, 20),
        (Selection(run="run-1000"), None, 10),
        (Selection(runs=("run-000*",)), None, 100),
        (Selection(groups=matches.parse(["RUN=run-0001", "RUN=run-1999"])), None, 20),
        (Selection(groups=matches.parse(["OUTCOME=failed"])), None, 30),
        (Selection(groups=matches.parse(["SOURCE=rare", "KIND=Note"])), None, 16),
        (Selection(groups=matches.parse(["CASE=case-3"])), None, 32),
        (Selection(groups=matches.parse(["KIND=Note"])), 20, 20),
        (Selection(since=SINCE), None, 120),
        (Selection(until=1_795_939_200_000_000 + 11_000_000), None, 100),
        (Selection(since=SINCE), 20, 20),
        (Selection(since=SINCE, groups=matches.parse(["OUTCOME=failed"])), None, 0),
    ],
    ids=lambda value: str(value) if not isinstance(value, Selection) else None,
)
def test_what_is_read_grows_with_what_is_printed_and_not_with_the_store(
    large: Tenant, monkeypatch: pytest.MonkeyPatch, wanted: Selection, count: int | None, printed: int
) -> None:
    monkeypatch.setattr(paging, "PAGE_MAX", 1000)
    monkeypatch.setattr(paging, "MERGED_PAGE", 100)
    monkeypatch.setattr(span, "MARGIN", 50)
    counted: Any = Counted(large)
    found = list(records(counted, wanted)) if count is None else newest(counted, wanted, count)
    assert len(found) == printed
    bounded = wanted.since is not None or wanted.until is not None
    looked_up = span.PROBES + 1 + 2 * 20 + 2 * span.MARGIN + paging.PAGE_MAX if bounded else 0  # the last page is whole
    assert counted.records <= 5 * printed + looked_up
