"""Admission: may the message that asks for a run create one, or has it done so before?

A message is named by its source and its id there. A tenant honours such a key once, whoever delivers it again and how
many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sealbook.indexes.standing import Standing
from sealbook.journal.deciding import requests
from sealbook.journal.errors import Refused
from sealbook.journal.records import entries
from sealbook.journal.running.needs import Read, Rule, Submit

ADMITTER = "admission"  # owner of the lease under which a run is admitted; released in the same transaction
ADMITTER_TTL_S = 1.0


@dataclass(frozen=True, slots=True)
class Fresh:
    """The message has created this run, just now: execute it."""

    run: str


@dataclass(frozen=True, slots=True)
class InFlight:
    """The message had created this run before, and the run has not come to rest: somebody executes it, or has died."""

    run: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """The message had created this run before, and the run rests: it has concluded, or waits (`outcome` None)."""

    run: str
    outcome: str | None


Admission = Fresh | Replayed | InFlight


def admit(
    source: str,
    id: str,
    *,
    run: str | None = None,
    case: str | None = None,
    data: Mapping[str, Any] | None = None,
    new_run: Callable[[], str] = lambda: f"run-{uuid4().hex}",
) -> Rule[Admission]:
    """Admit the message: create its run, or say what became of the one that it created before.

    Of many who deliver one message at once, one is answered `Fresh`.
    """
    run = new_run() if run is None else run
    creation = requests.group(
        [
            requests.acquire(run, owner=ADMITTER, ttl=ADMITTER_TTL_S),
            requests.append(run, [entries.admitted(source=source, id=id, case=case, data=data)]),
            requests.release(run),
        ]
    )
    holder: str | None = yield Read(lambda tenant: tenant.admitted_as(source, id))
    if holder is None:
        try:
            yield Submit(creation)
        except Refused:  # as a rule because another was faster; then it has the key by now
            holder = yield Read(lambda tenant: tenant.admitted_as(source, id))
            if holder is None:
                raise
        else:
            return Fresh(run)
    standing: Standing | None = yield Read(lambda tenant: tenant.standing(holder))
    if standing is not None and standing.concluded:
        return Replayed(holder, standing.outcome)
    return Replayed(holder, None) if standing is not None and standing.waiting else InFlight(holder)
