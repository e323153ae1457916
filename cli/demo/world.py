"""The demo's world and agent: a shop's files, three effects on them, and the worker process that has them done.

Each effect is a plain append to a file, as blind to repetition as a card terminal: done twice, it stands there twice.
The worker is told by its arguments where the store and the world are, what it is called, and whether to stop in the
middle of the charge. It tells its parent what it does, one JSON line each on standard output.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sealbook.journal import EffectKey, Journal, Lease, Tenant, entries

RUN = "order-42"
CASE = "customer-7"
CENTS = 1200
CARD = "4242"
TTL_S = 60


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One effect of the agent: what it is called, the file of the world that it adds to, and the line it adds."""

    name: str
    file: str
    line: str

    @property
    def key(self) -> EffectKey:
        """The same in every process and every attempt."""
        return EffectKey(RUN, self.name)

    def do(self, world: Path) -> str:
        """Have the effect: durably add the line. Returns what the receiver answers."""
        with (world / self.file).open("a", encoding="utf-8") as file:
            file.write(f"{self.line}\n")
            file.flush()
            os.fsync(file.fileno())
        return f"{self.file}: {self.line}"

    def times_done(self, world: Path) -> int:
        """How often the world shows it."""
        try:
            return (world / self.file).read_text(encoding="utf-8").splitlines().count(self.line)
        except FileNotFoundError:
            return 0


STEPS = (
    DemoStep("reserve", "stock.txt", f"reserved 1 book for {RUN}"),
    DemoStep("charge", "ledger.txt", f"charged {CENTS} cents to card {CARD} for {RUN}"),
    DemoStep("mail", "mails.txt", f"told {CASE} that {RUN} is paid"),
)
RESERVE, CHARGE, MAIL = STEPS

Tell = Callable[..., None]


def work(tenant: Tenant, world: Path, owner: str, tell: Tell, *, stop_after: DemoStep | None) -> None:
    """Do what the run still needs. Whoever comes second goes on where the journal says that the first one stopped."""
    lease = tenant.acquire(RUN, owner=owner, ttl=TTL_S)
    tell(event="acquired", epoch=lease.epoch)
    sys.stdin.readline()  # until the parent says go
    if not tenant.head(RUN).seq:
        tenant.append(RUN, [entries.admitted(source="shop", id="42", case=CASE)], lease=lease)
    for step in STEPS:
        _settle(tenant, lease, world, step, tell, stop=step is stop_after)
    [conclusion] = tenant.append(RUN, [entries.concluded("completed")], lease=lease, seal=True)
    tell(event="sealed", seq=conclusion.seq)


def _settle(tenant: Tenant, lease: Lease, world: Path, step: DemoStep, tell: Tell, *, stop: bool) -> None:
    known = tenant.effect(RUN, step.key)
    if known is not None and known.in_doubt:
        times = step.times_done(world)
        disposition = "landed" if times else "did-not-happen"
        evidence = {"file": step.file, "times": times}
        found = entries.effect_reconciled(step.key, disposition=disposition, evidence=evidence)
        tenant.append(RUN, [found], lease=lease)
        tell(event="reconciled", step=step.name, disposition=disposition)
        if times:
            return
    elif known is not None and known.status == "done":
        tell(event="skipped", step=step.name)
        return
    start = entries.effect_started(step.key, name=step.name, args={"line": step.line}, recovery="reconcile")
    tenant.append(RUN, [start], lease=lease)
    answer = step.do(world)
    if stop:
        tell(event="stopped", step=step.name)
        sys.stdin.read()  # until the parent kills us
    tenant.append(RUN, [entries.effect_done(step.key, result=answer)], lease=lease)
    tell(event="done", step=step.name)


def _tell(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def main(store: str, world: str, owner: str, stop: str) -> None:
    """The worker process."""
    stop_after = next((step for step in STEPS if step.name == stop), None)
    with Journal.open(store) as journal:
        work(journal.tenant(), Path(world), owner, _tell, stop_after=stop_after)


if __name__ == "__main__":
    main(*sys.argv[1:])
