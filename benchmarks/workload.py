"""What is appended: runs of 50 mixed entries, the same ones for a seed on every machine.

Of the 50 records of a run the first is `RunAdmitted` with an admission key and a source, every 16th suspends the run
until an instant, the last concludes it, and the others in turn start an effect and end it. Every record belongs to one
of 97 cases. A record has 13 members, its data's counted: about 400 bytes as JSON, 350 as CBOR. At any time
64 runs are active and picked in turn: the first entry of each, then the second of each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

from sealbook.journal import EffectKey, entries
from sealbook.journal import requests as ask
from sealbook.journal.records.entries import Entry

SEED = 20261129
TENANT = "acme"
RUN_RECORDS = 50
ACTIVE_RUNS = 64
CASES = 97
SUSPENDS_EVERY = 16
SOURCES = ("shop", "mail", "desk", "cron", "api")
OUTCOMES = (*("completed",) * 9, "failed")
EPOCH = 1  # of the one lease that each run is given
TTL_SECONDS = 10 * 365 * 86_400

Step = tuple[str, Entry]  # (run, its next entry)

_TEXT = "the order of this customer was checked against stock price and credit before it went on"


def _phrases() -> list[str]:
    chance = random.Random(SEED)
    return [" ".join(chance.choices(_TEXT.split(), k=14))[:64].ljust(64, ".") for _ in range(1009)]


_PHRASES = _phrases()


def run_name(number: int) -> str:
    """The name of a run. Names are spread over the key space, as names that carry a random part are."""
    return f"order-{blake2b(number.to_bytes(8, 'big'), digest_size=6).hexdigest()}"


def entry_at(number: int, position: int, records: int = RUN_RECORDS) -> Entry:
    """Entry `position` (from 1) of this run, which is concluded by entry `records`."""
    case = f"case-{number % CASES:03}"
    phrase = _PHRASES[(number * 31 + position) % len(_PHRASES)]
    facts = {
        "model": "planner-4",
        "tokens": 900 + number * 7 % 400,
        "note": phrase,
        "trace": f"{number:012x}{position:04x}",
    }
    if position == 1:
        source = SOURCES[number % len(SOURCES)]
        return entries.admitted(source=source, id=f"ticket-{number:09}", case=case, data=facts)
    if position == records:
        return entries.concluded(OUTCOMES[number % len(OUTCOMES)], case=case, data=facts)
    if position % SUSPENDS_EVERY == 0:
        until = f"2031-{1 + number % 12:02}-{1 + position % 28:02}T08:30:00Z"
        return entries.suspended(until=until, awaiting="approval", case=case, data=facts)
    step = position - 2 - position // SUSPENDS_EVERY  # among the run's effect records, from 0
    key = _effect_key(number, step // 2)
    if step % 2 == 0:
        return entries.effect_started(key, name="charge-card", args=facts, recovery="reconcile", case=case)
    return entries.effect_done(key, result=facts, case=case)


def _effect_key(number: int, effect: int) -> EffectKey:
    return EffectKey("charge-card", str(number), str(effect))


def in_turn(runs: Sequence[int], last: Callable[[int], int] = lambda number: RUN_RECORDS) -> Iterator[Step]:
    """Entries 1 to `last` of each of these runs, 64 runs in turn before the next 64."""
    for start in range(0, len(runs), ACTIVE_RUNS):
        active = [(number, run_name(number), last(number)) for number in runs[start : start + ACTIVE_RUNS]]
        for position in range(1, RUN_RECORDS + 1):
            for number, name, end in active:
                if position <= end:
                    yield name, entry_at(number, position)


def acquire(run: str) -> ask.Request:
    """The request for the one lease of a run."""
    return ask.acquire(run, owner="worker-1", ttl=TTL_SECONDS)


def append(step: Step) -> ask.Append:
    """The request that appends this one entry."""
    run, entry = step
    return ask.append(run, [entry], epoch=EPOCH)


def long_batches(runs: Sequence[int], batch: int, records: int) -> Iterator[tuple[str, list[Entry]]]:
    """Runs of `records` entries each, in batches of one run each, runs in turn."""
    for start in range(1, records, batch):
        for number in runs:
            yield run_name(number), [entry_at(number, start + step, records) for step in range(batch)]
