"""One execution of a run's body under one lease: what it knows of the run, and how it asks the store.

`Session` is what all verbs of a leased run share. `effects` and `rules` add the verbs.
"""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom
from typing import Any

from sealbook.journal.deciding import requests
from sealbook.journal.engine.port import Clock
from sealbook.journal.errors import Fenced
from sealbook.journal.records.entries import Entry
from sealbook.journal.records.record import Record
from sealbook.journal.running.arguments import STEP
from sealbook.journal.running.holding import Hold
from sealbook.journal.running.needs import Read, Rule, Submit
from sealbook.journal.running.replay import Replay

PAGE_RECORDS = 1000

draw = SystemRandom().random


class Session:
    """The lease, the recorded steps and the effects under way of one block.

    `lineage` is the store's; `strand` names the thread or task that asks; `chance` draws from [0, 1).
    """

    def __init__(
        self,
        hold: Hold,
        lineage: bytes,
        *,
        clock: Clock,
        strand: Callable[[], object],
        case: str | None = None,
        chance: Callable[[], float] = draw,
    ) -> None:
        self.hold = hold
        self._lineage = lineage
        self._clock = clock
        self._strand = strand
        self._chance = chance
        self._case = case
        self._replay = Replay(hold.run)
        self._open: set[bytes] = set()  # the effects under way
        self._concluding = False  # a conclusion is being recorded, behind which no end of an effect could stand
        self._home: object = None  # the strand that opened the run

    # --- the block -----------------------------------------------------------------------------------------------

    def enter(self) -> Rule[None]:
        """Take the lease, unless the run is sealed, and read what it has recorded. `LeaseHeld`."""
        self._home = self._strand()
        yield from self.hold.take()
        try:
            yield from self._read_back()
        except GeneratorExit:
            raise
        except BaseException:  # a cancellation too: nothing was begun under the lease
            yield from self.hold.give_back()
            raise

    def leave(self, *, clean: bool) -> Rule[None]:
        """End the block: release the lease after a clean end, leave everything as a crash would after any other.

        An end is not clean while an effect is under way in a thread or task that outlives the block.
        """
        self.hold.over = True
        if clean and not self._open:
            yield from self.hold.give_back()

    def _read_back(self) -> Rule[None]:
        after: str | None = None
        while True:
            page = yield _page_of_records(self.hold.run, after)
            for record in page:
                self._replay.add(record)
            if self.hold.sealed:
                self.hold.last = page[-1]
            after = page.next
            if after is None:
                break
        self._case = self._case or self._replay.case

    # --- inside --------------------------------------------------------------------------------------------------

    def _in_order(self) -> bool:
        """Whether this question has its place among the others: no effect is under way, and no other task asks."""
        return not self._open and self._strand() == self._home

    def _marked(self, entry: Entry, in_order: bool) -> Entry:
        return Entry(entry.kind, {**entry.data, **self._place(in_order)}, self._case)

    def _place(self, in_order: bool) -> dict[str, Any]:
        """What marks a new step: the number after the last one in order, or 0."""
        return {STEP: self._replay.place + 1 if in_order else 0}

    def _read(self, seq: int) -> Rule[list[Record]]:
        page: list[Record] = yield Read(lambda tenant: tenant.read(self.hold.run, start=seq, limit=1))
        return page

    def _append(self, made: list[Entry], *, ends: bool = False) -> Rule[list[Record]]:
        return (yield from self._submit(requests.append(self.hold.run, made, epoch=self.hold.epoch), ends=ends))

    def _submit(self, request: requests.Append, *, ends: bool = False) -> Rule[list[Record]]:
        """Have the entries recorded, and fold the records into what is known of the run."""
        records: list[Record] = yield from self._ask(request, ends=ends)
        for record in records:
            self._replay.add(record, live=True)
        return records

    def _ask(self, request: requests.Request, *, ends: bool = False) -> Rule[Any]:
        """The store's answer. When it says that the epoch is fenced, the lease is lost."""
        try:
            return (yield Submit(request, ends))
        except Fenced as error:
            self.hold.lose(error)
            raise


def _page_of_records(run: str, after: str | None) -> Read:
    return Read(lambda tenant: tenant.read(run, limit=PAGE_RECORDS, after=after))
