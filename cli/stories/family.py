"""Which run came from which: by the parent or the origin of the fork that a run's first record names.

No index knows it, so every run's first record is read. What a record names is a claim of whoever wrote it: the run may
be missing, or the claims may go in a circle, and both are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealbook.cli.selecting.paging import pages

if TYPE_CHECKING:
    from sealbook.indexes.standing import Standing
    from sealbook.journal import Record, Tenant


@dataclass(frozen=True, slots=True)
class Descent:
    """The run that a run came from, and how: as its `child`, or `forked` from it at record `seq`, if that is told."""

    run: str
    how: str
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One run of a family as it is shown: `depth` steps below the oldest; no standing for one that is not there."""

    run: str
    depth: int
    descent: Descent | None
    standing: Standing | None
    circular: bool = False


def descent(first: Record) -> Descent | None:
    """What a run's first record says of where the run came from."""
    if first.kind != "RunAdmitted":
        return None
    parent, forked = first.data.get("parent"), first.data.get("forked_from")
    if isinstance(parent, str):
        return Descent(parent, "child")
    if isinstance(forked, str):
        return Descent(forked, "forked")
    if isinstance(forked, dict) and isinstance(forked.get("run"), str):
        seq = forked.get("seq")
        return Descent(forked["run"], "forked", seq if type(seq) is int else None)
    return None


def family(tenant: Tenant, run: str) -> Iterator[Member]:
    """The runs that the run came from, oldest first, and all that came from the oldest, each below its own."""
    descents, children = _descents(tenant)
    oldest, seen = run, {run}
    while oldest in descents and descents[oldest].run not in seen:
        oldest = descents[oldest].run
        seen.add(oldest)
    shown: set[str] = set()
    waiting = [(oldest, 0)]
    while waiting:
        name, depth = waiting.pop()
        circular = name in shown
        shown.add(name)
        yield Member(name, depth, descents.get(name), _standing(tenant, name), circular)
        if not circular:
            waiting += [(child, depth + 1) for child in reversed(children.get(name, ()))]


def _descents(tenant: Tenant) -> tuple[dict[str, Descent], dict[str, list[str]]]:
    descents: dict[str, Descent] = {}
    children: dict[str, list[str]] = {}
    for standing in pages(lambda after, limit: tenant.runs(after=after, limit=limit)):
        found = descent(tenant.read(standing.run, limit=1)[0])
        if found is not None:
            descents[standing.run] = found
            children.setdefault(found.run, []).append(standing.run)
    return descents, children


def _standing(tenant: Tenant, run: str) -> Standing | None:
    """Where the run stands; None also for what can be no run's name."""
    from sealbook.journal import InvalidName

    try:
        return tenant.standing(run)
    except InvalidName:
        return None
