"""Judge a storm: what its processes were told, and what they did, beside what the store has.

The rules are written down here once more, plainly, and share nothing with the store that they judge: they know its
public face alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from storm_log import Tally
from storm_process import LOG, STORE, TENANT

from sealbook.journal import Journal, Record, Tenant

PAGE_RECORDS = 1000
EFFECT_KINDS = ("EffectStarted", "EffectDone", "EffectFailed", "EffectReconciled")
RECOVERIES = {"charge": "ask", "think": "retry", "ship": "idempotent", "book": "reconcile"}
CONTENT = {
    "Note": "text",
    "RandomDrawn": "value",
    "Snapshot": "state",
    "RunConcluded": "outcome",
}  # which member has it


class Verdict:
    """What the log and the store have, and every fault in it."""

    def __init__(self, folder: Path) -> None:
        self.faults: list[str] = []
        self.said: dict[str, list[list[Any]]] = defaultdict(list)
        for word, *rest in Tally(folder / LOG).lines():
            self.said[word].append(rest)
        with Journal.open(folder / STORE, readonly=True) as journal:
            self.faults += [f"check: {finding}" for finding in journal.check().findings]
            self.runs: dict[str, list[Record]] = defaultdict(list)
            for record in records_of(journal.tenant(TENANT)):
                self.runs[record.run].append(record)
        self._answered: dict[str, set[str]] = defaultdict(set)  # run -> effects
        for run, name in self.said["answered"]:
            self._answered[run].add(name)
        self._judge_epochs()
        self._judge_texts()
        self._judge_steps()
        self._judge_admissions()
        for run, records in self.runs.items():
            self._judge_attempts(run, records)
        self._judge_calls()
        self._judge_looks()

    def _fault(self, *words: object) -> None:
        self.faults.append(" ".join(map(str, words)))

    # --- records -----------------------------------------------------------------------------------------------------

    def _judge_epochs(self) -> None:
        """The records of an epoch stand together, and no older epoch follows a newer one."""
        for run, records in self.runs.items():
            for one, next_ in pairwise(records):
                if next_.epoch < one.epoch:
                    self._fault(run, "epoch", next_.epoch, "after", one.epoch, "at record", next_.seq)

    def _judge_texts(self) -> None:
        """What was acknowledged is there once, as it was told; what was cancelled or refused is nowhere."""
        stands = Counter(
            record.data["text"]
            for run, records in self.runs.items()
            if run.startswith(("held-", "free-"))
            for record in records
            if record.kind == "Note"
        )
        for text, count in stands.items():
            if count > 1:
                self._fault(text, "stands", count, "times")
        for run, seq, digits, text in self.said["told"]:
            records = self.runs[run]
            found = records[seq - 1] if seq <= len(records) else None
            if found is None or (found.seq, found.hash.hex()[:16], found.data.get("text")) != (seq, digits, text):
                self._fault(text, "was acknowledged as record", seq, "of", run, "and is not there")
        for (text,) in self.said["absent"]:
            if stands[text]:
                self._fault(text, "was cancelled or refused and is there")

    def _judge_steps(self) -> None:
        """Each step that a body was told of is there once, with the content that every replay was handed."""
        for run, kind, content in self.said["stepped"]:
            found = [record for record in self.runs[run] if record.kind == kind]
            if len(found) != 1:
                self._fault(run, kind, "stands", len(found), "times")
            elif kind in CONTENT and found[0].data[CONTENT[kind]] != content:
                self._fault(run, kind, "stands as", found[0].data, "and was told as", content)
        instants: dict[str, set[str]] = defaultdict(set)
        for run, kind, content in self.said["stepped"]:
            if kind == "ClockRead":
                instants[run].add(content)
        for run, told in instants.items():
            if len(told) > 1:
                self._fault(run, "was told several times of day", told)

    def _judge_admissions(self) -> None:
        """A message that was answered as fresh is so once, and its run is there."""
        for run, times in Counter(run for (run,) in self.said["fresh"]).items():
            admitted = sum(record.kind == "RunAdmitted" for record in self.runs[run])
            if (times, admitted) != (1, 1):
                self._fault(run, "was fresh", times, "times and is admitted", admitted, "times")

    # --- effects -----------------------------------------------------------------------------------------------------

    def _judge_attempts(self, run: str, records: list[Record]) -> None:
        """Another attempt starts only as the recovery of the effect allows, and each has one end at most."""
        latest: dict[bytes, tuple[str, Record, Record | None]] = {}
        for record in records:
            if record.kind not in EFFECT_KINDS:
                continue
            assert record.effect is not None
            name, start, end = latest.get(record.effect, ("", None, None))
            if record.kind != "EffectStarted":
                if start is None or end is not None or record.epoch < start.epoch:
                    self._fault(run, record.kind, "at record", record.seq, "ends nothing")
                else:
                    latest[record.effect] = name, start, record
                continue
            name = record.data["name"]
            again = start is None or (
                end.kind == "EffectFailed" or end.data.get("disposition") == "did-not-happen"
                if end is not None
                else RECOVERIES[name] in ("retry", "idempotent")
            )
            if not again:
                self._fault(run, name, "is started again at record", record.seq)
            latest[record.effect] = name, record, None
        landed = {
            name
            for name, _, end in latest.values()
            if end is not None and (end.kind == "EffectDone" or end.data.get("disposition") == "landed")
        }
        for name in self._answered[run] - landed:
            self._fault(run, name, "was answered and is not done")

    def _judge_calls(self) -> None:
        """A call has a start of its own, an end has a call, and an effect that may not be called again is not."""
        started: Counter[tuple[str, str, int]] = Counter()
        ended: set[tuple[str, str, int]] = set()
        for run, records in self.runs.items():
            names: dict[bytes | None, str] = {}
            for record in records:
                if record.kind == "EffectStarted":
                    names[record.effect] = record.data["name"]
                    started[run, record.data["name"], record.epoch] += 1
                elif record.kind in ("EffectDone", "EffectFailed"):
                    ended.add((run, names.get(record.effect, ""), record.epoch))
        calls = Counter((run, name, epoch) for run, name, epoch, _ in self.said["called"])
        for call, times in calls.items():
            if times > started[call]:
                self._fault(*call, "was called", times, "times and started", started[call], "times")
        for end in ended - calls.keys():
            self._fault(*end, "has an end and was not called")
        in_all = Counter((run, name) for run, name, _, _ in self.said["called"])
        for (run, name), times in in_all.items():
            if RECOVERIES[name] == "ask" and times > 1:
                self._fault(run, name, "was called", times, "times, and its recovery is ask")
        keys: dict[tuple[str, str], set[str]] = defaultdict(set)
        for run, name, _, key in self.said["called"]:
            keys[run, name].add(key)
        every = [key for found in keys.values() for key in found]
        if len(every) != len(set(every)) or any(len(found) > 1 for found in keys.values()):
            self._fault("idempotency keys of effects are not one each")

    def _judge_looks(self) -> None:
        """Of an effect that is reconciled: each further call was preceded by a look that saw nothing, and so says the
        record."""
        unseen = Counter((run, epoch) for run, epoch, found in self.said["looked"] if not found)
        seen = {(run, epoch) for run, epoch, found in self.said["looked"] if found}
        calls = Counter(run for run, name, _, _ in self.said["called"] if name == "book")
        for run, times in calls.items():
            looks = sum(count for (looked, _), count in unseen.items() if looked == run)
            if times > 1 + looks:
                self._fault(run, "book was called", times, "times after", looks, "looks that saw nothing")
        for run, records in self.runs.items():
            names = {record.effect: record.data["name"] for record in records if record.kind == "EffectStarted"}
            for record in records:
                if record.kind != "EffectReconciled" or names.get(record.effect) != "book":
                    continue
                if (run, record.epoch) not in (seen if record.data["disposition"] == "landed" else unseen):
                    self._fault(run, "book was reconciled at record", record.seq, "and nobody saw that")


def records_of(tenant: Tenant) -> Iterator[Record]:
    """All records of a tenant in the order of their arrival."""
    after: str | None = None
    while True:
        page = tenant.history(limit=PAGE_RECORDS, after=after)
        yield from page
        after = page.next
        if after is None:
            return
