"""How a store stands, asked as a monitoring probe asks: counts and ages against limits, the worst of which decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sealbook.cli.screen.words import counted, span
from sealbook.cli.selecting.paging import pages
from sealbook.journal.operating.held_leases import Held, held
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed
from sealbook.merkle.note import Note

if TYPE_CHECKING:
    from sealbook.indexes.standing import Standing
    from sealbook.journal import Tenant
    from sealbook.journal.reading.listings import Abandoned

OK, WARNING, CRITICAL = 0, 1, 2
WORDS = {OK: "OK", WARNING: "WARNING", CRITICAL: "CRITICAL"}
LEASE_LONG_SECONDS = 3600  # workers renew their leases long before: so far ahead stands a slip, or a wrong clock
PAGE_LEAVES = PAGE_SIZES = 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """What is at most tolerated; None where nothing was said. Ages are seconds."""

    in_doubt: int | None = None
    waiting_age: int | None = None
    abandoned: int | None = None
    unwitnessed_age: int | None = None
    lease_ahead: int | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """One question's answer: `value` as a number of `unit` (None when there is none), the limit, and what of it is.
    `tenant` and `run` are of the first or worst case that `what` names."""

    name: str
    value: int | None
    unit: str
    limit: int | None
    state: int
    what: str
    tenant: str | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """All answers. `error` is why the store could not be read."""

    measures: tuple[Measure, ...] = ()
    error: str | None = None

    @property
    def state(self) -> int:
        """The worst of them."""
        return CRITICAL if self.error is not None else max((each.state for each in self.measures), default=OK)


@dataclass(frozen=True, slots=True)
class _Place:
    """A run of a tenant."""

    tenant: str
    run: str

    def __str__(self) -> str:
        return f"run {self.run} of tenant {self.tenant}"


@dataclass(slots=True)
class _Sums:
    """What all tenants' runs come to. Instants are unix milliseconds, None for none."""

    in_doubt: int = 0
    in_doubt_place: _Place | None = None
    in_doubt_for_good: int = 0
    waiting: int = 0
    waiting_since: int | None = None
    waiting_place: _Place | None = None
    overdue: int = 0
    abandoned: int = 0
    abandoned_place: _Place | None = None
    unwitnessed: int = 0
    unwitnessed_since: int | None = None
    unwitnessed_log: str | None = None
    held: int = 0
    held_longest: Held | None = None
    held_before_boot: Held | None = None
    open_leaves: list[tuple[str, int]] = field(default_factory=list)


def probe(tenants: Sequence[Tenant], limits: Limits, *, now_ms: int) -> Health:
    """Ask everything of these tenants."""
    sums = _Sums()
    for tenant in tenants:
        published = _witnessed_size(tenant)
        size = tenant.checkpoint().size
        if size > published:
            sums.unwitnessed += size - published
            _batches(sums, tenant, published)
        for standing in _runs(tenant):
            _run(sums, tenant, standing, published, now_ms)
        for item in _abandoned(tenant):
            sums.abandoned += 1
            sums.abandoned_place = sums.abandoned_place or _Place(tenant.name, item.run)
        _leases(sums, held(tenant))
    return Health(tuple(_measures(sums, limits, now_ms)))


def _runs(tenant: Tenant) -> Iterator[Standing]:
    return pages(lambda after, limit: tenant.runs(after=after, limit=limit))


def _abandoned(tenant: Tenant) -> Iterator[Abandoned]:
    return pages(lambda after, limit: tenant.abandoned(after=after, limit=limit))


def unreadable(error: str) -> Health:
    """The health of a store that cannot be read."""
    return Health(error=error)


def _run(sums: _Sums, tenant: Tenant, standing: Standing, published: int, now_ms: int) -> None:
    place = _Place(tenant.name, standing.run)
    if standing.sealed or standing.final:  # nothing may follow, so nobody can settle them
        sums.in_doubt_for_good += standing.effects_in_doubt
    elif standing.effects_in_doubt:
        sums.in_doubt += standing.effects_in_doubt
        sums.in_doubt_place = sums.in_doubt_place or place
    if standing.waiting:
        sums.waiting += 1
        due = None if standing.until is None else standing.until // 1000
        since = standing.updated_at if due is None else due
        if since <= now_ms:
            sums.overdue += due is not None
            if sums.waiting_since is None or since < sums.waiting_since:
                sums.waiting_since, sums.waiting_place = since, place
    if standing.highest_leaf is not None and standing.highest_leaf >= published:
        _unwitnessed(sums, tenant, _leaf_at(tenant, standing))


def _leaf_at(tenant: Tenant, standing: Standing) -> int:
    """When the record was written that the run's highest leaf attests."""
    seq = standing.highest_leaf_seq
    if seq is None or seq == standing.records:
        return standing.updated_at
    return tenant.read(standing.run, start=seq, limit=1)[0].at


def _batches(sums: _Sums, tenant: Tenant, published: int) -> None:
    """The anchor batches that no witness has seen: the first of them is the oldest."""
    index = published
    while page := tenant.leaf_entries(index, PAGE_LEAVES):
        for data in page:
            try:
                entry = LeafEntry.decode(data)
            except Malformed:
                continue
            if entry.type is LeafType.ANCHOR_BATCH:
                _unwitnessed(sums, tenant, tenant.history(start=entry.seq, limit=1)[0].at)
                return
        index += len(page)


def _leases(sums: _Sums, found: Sequence[Held]) -> None:
    """The live leases of a tenant, the longest first."""
    sums.held += len(found)
    for lease in found[:1]:
        if sums.held_longest is None or lease.remaining_ms > sums.held_longest.remaining_ms:
            sums.held_longest = lease
    for lease in found:
        if lease.before_this_boot and sums.held_before_boot is None:
            sums.held_before_boot = lease


def _unwitnessed(sums: _Sums, tenant: Tenant, at: int) -> None:
    if sums.unwitnessed_since is None or at < sums.unwitnessed_since:
        sums.unwitnessed_since, sums.unwitnessed_log = at, tenant.name


def _witnessed_size(tenant: Tenant) -> int:
    """Up to which size the log was published with its quorum."""
    note = tenant.published_checkpoint()
    if note is None:
        return 0
    newest = Checkpoint.parse(Note.parse(note).text).size
    if _has_quorum(tenant, newest):
        return newest
    witnessed = above = 0
    while sizes := tenant.published_sizes(above, PAGE_SIZES):
        above = sizes[-1]
        witnessed = max([witnessed, *(size for size in sizes if _has_quorum(tenant, size))])
    return witnessed


def _has_quorum(tenant: Tenant, size: int) -> bool:
    kept = tenant.signed_checkpoint(size)
    return kept is not None and kept.published and not kept.without_quorum


# --- what it comes to ------------------------------------------------------------------------------------------------


def _measures(sums: _Sums, limits: Limits, now_ms: int) -> Iterator[Measure]:
    place = sums.in_doubt_place
    doubt = f"{counted(sums.in_doubt, 'effect')} in doubt{_first(place)}"
    if sums.in_doubt_for_good:
        doubt += f"; {sums.in_doubt_for_good} more of runs that have ended for good, where nothing can settle them"
    yield _measure("in_doubt", sums.in_doubt, "effects", limits.in_doubt, sums.in_doubt > 0, doubt, place)
    place = sums.abandoned_place
    gone = f"{counted(sums.abandoned, 'abandoned run')}{_first(place)}"
    yield _measure("abandoned", sums.abandoned, "runs", limits.abandoned, sums.abandoned > 0, gone, place)
    age = _age(sums.waiting_since, now_ms)
    waits = f"{counted(sums.waiting, 'run')} waiting, {sums.overdue} past their instant"
    if age is not None:
        waits += f", the oldest for {span(age * 1000)}: {sums.waiting_place}"
    overdue = sums.overdue > 0
    yield _measure("waiting_age", age, "seconds", limits.waiting_age, overdue, waits, sums.waiting_place)
    age = _age(sums.unwitnessed_since, now_ms)
    unseen = f"{counted(sums.unwitnessed, 'leaf', 'leaves')} that no published checkpoint covers"
    if age is not None:
        unseen += f", the oldest for {span(age * 1000)}, of tenant {sums.unwitnessed_log}"
    measure = _measure("unwitnessed_age", age, "seconds", limits.unwitnessed_age, False, unseen, None)
    yield replace(measure, tenant=sums.unwitnessed_log)
    yield _lease_ahead(sums, limits.lease_ahead)


def _lease_ahead(sums: _Sums, limit: int | None) -> Measure:
    """How long a run stays closed to others though nobody may be left to use it. A lease that was granted before the
    machine started again is remarkable however short, for who held it has ended; any other when it is long."""
    what, longest, orphan = f"{counted(sums.held, 'lease')} held", sums.held_longest, sums.held_before_boot
    place = None if longest is None else _Place(longest.tenant, longest.run)
    if longest is not None:
        what += f", the longest for {span(longest.remaining_ms)} more: {place}"
    if orphan is not None:
        closed = _Place(orphan.tenant, orphan.run)
        what += f"; granted before this machine started, so nobody is left to use it: {closed}"
    ahead = None if longest is None else longest.remaining_ms // 1000
    remarkable = orphan is not None or (ahead is not None and ahead > LEASE_LONG_SECONDS)
    return _measure("lease_ahead", ahead, "seconds", limit, remarkable, what, place)


def _measure(
    name: str, value: int | None, unit: str, limit: int | None, remarkable: bool, what: str, place: _Place | None
) -> Measure:
    if limit is None:
        state = WARNING if remarkable else OK
    else:
        state = CRITICAL if value is not None and value > limit else OK
        most = span(limit * 1000) if unit == "seconds" else str(limit)
        what = f"{what} (at most {most})"
    tenant, run = (None, None) if place is None else (place.tenant, place.run)
    return Measure(name, value, unit, limit, state, what, tenant, run)


def _first(place: _Place | None) -> str:
    return "" if place is None else f", the first in {place}"


def _age(since: int | None, now_ms: int) -> int | None:
    return None if since is None else max(now_ms - since, 0) // 1000


# --- what is printed -------------------------------------------------------------------------------------------------


def as_lines(health: Health) -> list[tuple[int, str]]:
    """(state, line), the worst first."""
    if health.error is not None:
        return [(CRITICAL, f"CRITICAL: {health.error}")]
    found = sorted(health.measures, key=lambda each: -each.state)
    return [(each.state, f"{WORDS[each.state]}: {each.what}") for each in found]


def as_object(health: Health) -> dict[str, Any]:
    """The same as JSON has it."""
    return {
        "state": WORDS[health.state].lower(),
        "error": health.error,
        "measures": [
            {
                "name": each.name,
                "state": WORDS[each.state].lower(),
                "value": each.value,
                "unit": each.unit,
                "limit": each.limit,
                "what": each.what,
                "tenant": each.tenant,
                "run": each.run,
            }
            for each in health.measures
        ],
    }
