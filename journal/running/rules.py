"""The verbs of a leased run: what a body may do, in which order it is recorded, and what a replay hands back.

Rule 1: an effect's start is durable before its function is called, and its end is recorded after.
Rule 2: what was recorded is handed back; the world is asked once.
Rule 3: a body that asks for something else than it asked for before is refused (`Mismatch`), before it is recorded.
Rule 4: while an effect is under way nothing is named by its place (`KeyRequired`), because tasks take no turns.
Rule 5: nothing is begun once the lease is lost (`Fenced`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sealbook.indexes.standing import Standing, seals
from sealbook.journal.deciding import requests
from sealbook.journal.errors import InvalidInput, KeyRequired
from sealbook.journal.reading.listings import Effect
from sealbook.journal.records import entries, instants
from sealbook.journal.records.entries import Entry
from sealbook.journal.records.record import Record
from sealbook.journal.running import arguments, failures
from sealbook.journal.running.arguments import AskedStep, Key
from sealbook.journal.running.effects import Effects
from sealbook.journal.running.needs import Read, Rule
from sealbook.journal.running.replay import Step
from sealbook.journal.running.session import PAGE_RECORDS

UNIX = datetime(1970, 1, 1, tzinfo=UTC)
NAMED_MAX = 3  # of the effects that keep a run from being sealed, so many are named: a line must stay readable


@dataclass(frozen=True, slots=True)
class Resumption:
    """The end of a wait. `event` is what `resume` was given; None when the instant came or the run just went on."""

    event: Any = None


class RunRules(Effects):
    """Every verb of a leased run, as a rule for a face to carry out."""

    # --- remarks and readings ------------------------------------------------------------------------------------

    def note(self, text: str | None, data: Mapping[str, Any] | None) -> Rule[None]:
        """Record a remark. It does not end a wait. A replay does not write it again."""
        members = arguments.check_own(data)
        yield from self._plain(entries.note(text, data=members))

    def snapshot(self, state: Any) -> Rule[None]:
        """Record what the run has come to, for people and for tools: a value that a record can hold."""
        yield from self._plain(entries.entry("Snapshot", {"state": state}))

    def now(self, key: Key | None) -> Rule[datetime]:
        """The instant at which the store records that it was asked, in UTC, to the millisecond; recorded, so that a
        replay sees the same. With `key` it may be asked while an effect is under way."""
        record = yield from self._reading("ClockRead", {}, key)
        return UNIX + timedelta(milliseconds=record.at)

    def random(self, key: Key | None) -> Rule[float]:
        """A number from 0 up to 1, drawn by the system; recorded, so that a replay sees the same."""
        record = yield from self._reading("RandomDrawn", {"value": self._chance()}, key)
        return float(record.data["value"])

    def _reading(self, kind: str, data: dict[str, Any], key: Key | None) -> Rule[Record]:
        self.hold.check()
        if key is None and self._open:
            raise KeyRequired(self.hold.run, kind)
        digest = None if key is None else arguments.key_of(key)
        in_order = key is None or self._in_order()
        step = self._replay.take(AskedStep(kind, key=digest), in_order=in_order)
        if step is not None:
            return step.record
        marks = self._place(in_order)
        if digest is not None:
            marks["key"] = digest
        [record] = yield from self._append([entries.entry(kind, data | marks, case=self._case)])
        return record

    def _plain(self, entry: Entry) -> Rule[None]:
        """A step that only has content: written, unless it is recorded already."""
        self.hold.check()
        in_order = self._in_order()
        if self._replay.take(AskedStep(entry.kind, dict(entry.data)), in_order=in_order) is None:
            yield from self._append([self._marked(entry, in_order)])

    # --- waiting, cancelling, ending -----------------------------------------------------------------------------

    def suspend(self, until: datetime | str | None, awaiting: Any) -> Rule[Resumption | None]:
        """Record that the run waits, until an instant, for an event, or both; then leave the block.

        None means that the run waits now. When the body comes here again, in a later block, and the wait is over,
        because it was resumed, went on or its instant has come, the answer is a `Resumption`, and the body goes on.
        While it waits, any step but a note ends the wait. So it is refused while an effect of the run is under way
        (`InvalidInput`), whose end would be such a step.
        """
        self.hold.check()
        self._must_be_quiet("suspension", awaiting if until is None else until)
        entry = entries.suspended(until=until, awaiting=awaiting)
        asked = AskedStep(entry.kind, dict(entry.data))
        step = self._replay.take(asked, in_order=True)
        if step is None:
            yield from self._append([self._marked(entry, True)])
            return None
        if step.over is None:
            if not self._due(step):
                return None
            yield from self._append([entries.entry("RunResumed", case=self._case)])
        return Resumption(step.over.data.get("event") if step.over is not None else None)

    def _must_be_quiet(self, what: str, value: object) -> None:
        if self._open:
            raise InvalidInput(what, value, "must wait until the run's effects that are under way have ended")

    def resume(self, event: Any) -> Rule[bool]:
        """Record that the wait is over, with the event that ended it; True. A run that does not wait is left alone."""
        self.hold.check()
        if self._replay.wait is None:
            return False
        data = {} if event is None else {"event": event}
        yield from self._append([entries.entry("RunResumed", data, case=self._case)])
        return True

    def _due(self, step: Step) -> bool:
        until = step.record.data.get("until")
        return until is not None and instants.parse(until) <= self._clock().wall_ms * 1000

    def cancel_requested(self) -> Rule[bool]:
        """Whether somebody has asked for the run to be cancelled; the first time that it is so is recorded.

        A replay answers as it was at each place: only where the recorded steps end is the store asked.
        """
        self.hold.check()
        next_seq, seen = self._replay.next_seq(), self._replay.cancel_seen
        if seen is not None and (next_seq is None or next_seq > seen):
            return True
        if seen is not None or self.hold.sealed or (next_seq is not None and self._in_order()):
            return False
        if (yield Read(lambda tenant: tenant.cancellation(self.hold.run))) is None:
            return False
        yield from self._append([entries.entry("CancelSeen", case=self._case)])
        return True

    def conclude(self, outcome: str, seal: bool | None, data: Mapping[str, Any] | None) -> Rule[None]:
        """Record how the run ended. An outcome that seals does so in the same transaction, unless `seal` is False.

        Every outcome seals but `failed`, `exhausted`, `quarantined` and `withheld`, which leave the run open: a later
        block goes on from its recorded steps. A conclusion that is recorded already is not written again; its seal is
        made up for. While an effect is under way it is refused (`InvalidInput`): that one's end could not be recorded.

        An outcome that seals is refused while an effect of the run is in doubt (`InDoubt`, which names them), also with
        `seal` False: nothing follows such an outcome, so nobody could settle them any more. Execute an effect that has
        a recovery again, have a human look (`sealbook reconcile`), or choose an outcome that leaves the run open.
        """
        self.hold.check()
        self._must_be_quiet("conclusion", outcome)
        entry = entries.concluded(outcome, data=arguments.check_own(data))
        self._concluding = True
        try:
            yield from self._must_be_settled(outcome)
            yield from self._conclude(entry, outcome, seal)
        finally:
            self._concluding = False

    def _must_be_settled(self, outcome: str) -> Rule[None]:
        """Refuse to seal away what is in doubt, as the store knows it: others may have started or settled effects."""
        if not isinstance(outcome, str) or not seals(outcome):
            return
        standing: Standing | None = yield Read(lambda tenant: tenant.standing(self.hold.run))
        if standing is None or not standing.effects_in_doubt or standing.final:
            return
        named = yield from self._named_in_doubt()
        if not named:  # settled between the two looks
            return
        names = ", ".join(_of_effect(effect) for effect in named)
        if more := standing.effects_in_doubt - len(named):
            names += f" and {more} more"
        why = f"{outcome!r} would seal the run for good, 'failed' would leave it open; what is in doubt: {names}"
        raise self._in_doubt(named[0].key, named[0].attempt, failures.cut(why))

    def _named_in_doubt(self) -> Rule[list[Effect]]:
        """The first effects in doubt, in the order of their keys."""
        named: list[Effect] = []
        after: str | None = None
        while True:
            page = yield _page_of_effects(self.hold.run, after)
            named += [effect for effect in page if effect.in_doubt]
            after = page.next
            if after is None or len(named) >= NAMED_MAX:
                return named[:NAMED_MAX]

    def _conclude(self, entry: Entry, outcome: str, seal: bool | None) -> Rule[None]:
        sealing = seals(outcome) if seal is None and isinstance(outcome, str) else bool(seal)
        step = self._replay.take(AskedStep(entry.kind, dict(entry.data)), in_order=True)
        if step is not None and not sealing:
            return
        before, self.hold.sealing = self.hold.sealing, sealing or self.hold.sealing
        try:
            if step is not None:
                yield from self._ask(requests.seal(self.hold.run, epoch=self.hold.epoch, outcome=outcome))
            else:
                made = [self._marked(entry, True)]
                yield from self._submit(requests.append(self.hold.run, made, epoch=self.hold.epoch, seal=sealing))
        except BaseException:
            self.hold.sealing = before
            raise


def _of_effect(effect: Effect) -> str:
    """The effect as the refusal names it, and how it is settled unless a human must look."""
    name = effect.name or f"{effect.key.hex()[:16]}…"
    return name if effect.recovery == "ask" else f"{name}, which {effect.recovery} settles when it is executed again"


def _page_of_effects(run: str, after: str | None) -> Read:
    return Read(lambda tenant: tenant.effects(run, limit=PAGE_RECORDS, after=after))
