"""Bring a history into a tenant: find the run that it belongs to, and append what that run does not have yet.

Every file is one group, so it enters whole or not at all. A history that the tenant has already writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sealbook.cli.importing import traj
from sealbook.cli.importing.history import SUFFIX_HEX, UNNAMED_PREFIX, History, Original, Segment, tail
from sealbook.journal import requests
from sealbook.journal.errors import InvalidInput, InvalidName, Refused
from sealbook.journal.records.cbor import encode_map
from sealbook.journal.records.chain import GENESIS, Head
from sealbook.journal.records.entries import Entry
from sealbook.journal.records.record import Record
from sealbook.journal.store.journal import Journal
from sealbook.journal.store.tenant import Tenant

LEASE_TTL_S = 60  # each lease ends within the group that takes it; no other process ever sees one live
PAGE_RECORDS_MIN = 4  # of the first page: most runs that are looked at are other ones, and differ at once
PAGE_RECORDS_MAX = 1_000
PAGE_RUNS_MAX = 1_000
ATTEMPTS_MAX = 3  # of a file whose run another writer moves between our reading and our group


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of one history.

    `run` is the run that holds it, `records` how many were appended, `known` how many the run had already.
    `renamed_from` is the name that a different history has taken. `remarks` are those of the history.
    """

    run: str
    records: int
    known: int
    result: Literal["new", "extended", "unchanged"]
    renamed_from: str | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a history goes: its run, that run's head, and how many of the history's records the run has."""

    run: str
    head: Head
    known: int


def apply(tenant: Tenant, history: History) -> Imported:
    """Import a history, or raise what the store refuses it with; then nothing was written."""
    [imported] = apply_all(tenant, [history])
    return imported


def apply_all(tenant: Tenant, histories: Sequence[History]) -> list[Imported]:
    """Import the histories of one file, all or none: what the store refuses one with is raised for them all.

    A run that somebody holds a lease on takes no import (`LeaseHeld`), unless it has the whole history already.
    """
    for _ in range(ATTEMPTS_MAX - 1):
        places = [find(tenant, history) for history in histories]
        try:
            return _bring(tenant, histories, places)
        except Refused:
            if all(tenant.head(place.run) == place.head for place in places):
                raise
    return _bring(tenant, histories, [find(tenant, history) for history in histories])


def refuse_own(journal: Journal, histories: Iterable[History]) -> None:
    """`InvalidInput` where a history was printed from this very store, which has its records already."""
    for history in histories:
        if history.original is not None and _stands(journal, history.original):
            reason = "its records are this store's own, and already here: --again imports them once more, as a copy"
            raise InvalidInput("run", history.original.run, reason)


def _stands(journal: Journal, original: Original) -> bool:
    try:
        found = journal.tenant(original.tenant).read(original.run, start=original.seq, limit=1)
    except InvalidName:
        return False  # no name of ours
    return bool(found) and found[0].seq == original.seq and found[0].hash.hex() == original.hash


def find(tenant: Tenant, history: History) -> Place:
    """The run for this history: one that has it or a beginning of it, else a free name.

    A run of the history's own name is tried first. When that one belongs to a different history, runs whose name goes
    on with `~` come next, where this history or an earlier, shorter copy of it may stand, then the name with the
    digest. A history without a run id is looked for among all such: a shorter copy of it has another name.
    """
    own = _place(tenant, history, history.run)
    if own is not None and (own.head.seq or not history.unnamed):
        return own
    earlier = _earlier_copy(tenant, history)
    if earlier is not None:
        return earlier
    if own is not None:
        return own
    for digits in (SUFFIX_HEX, 2 * SUFFIX_HEX, len(history.digest)):
        suffixed = _place(tenant, history, history.run_with_digest(digits))
        if suffixed is not None:
            return suffixed
    raise AssertionError("two different histories of one SHA-256")


def _earlier_copy(tenant: Tenant, history: History) -> Place | None:
    prefix = UNNAMED_PREFIX if history.unnamed else history.run_with_digest().removesuffix(history.digest[:SUFFIX_HEX])
    for run in _runs(tenant, prefix):
        place = _place(tenant, history, run)
        if place is not None:
            return place
    return None


def _runs(tenant: Tenant, prefix: str) -> Iterator[str]:
    page = tenant.runs(prefix=prefix, limit=PAGE_RUNS_MAX)
    while True:
        for standing in page:
            yield standing.run
        if page.next is None:
            return
        page = tenant.runs(prefix=prefix, limit=PAGE_RUNS_MAX, after=page.next)


# --- comparing -----------------------------------------------------------------------------------------------


def _place(tenant: Tenant, history: History, run: str) -> Place | None:
    """Where in this run the history goes on; None when the run belongs to a different history."""
    planned = (entry for segment in history.segments_as(run) for entry in segment.entries)
    known = 0
    head = Head(0, GENESIS)
    entry = next(planned, None)
    for record in _records(tenant, run):
        if entry is None:
            break  # the run has gone on since
        head = Head(record.seq, record.hash)
        if _same(record, entry) or _is_progress(entry):
            known += 1
            entry = next(planned, None)
        elif not _is_progress(record):
            return None
    return Place(run, head, known)


def _records(tenant: Tenant, run: str) -> Iterator[Record]:
    start, limit = 1, PAGE_RECORDS_MIN
    while page := tenant.read(run, start=start, limit=limit):
        yield from page
        start, limit = page[-1].seq + 1, PAGE_RECORDS_MAX


def _same(record: Record, entry: Entry) -> bool:
    """Whether the record is what the entry would become. Encodings are compared: 1, 1.0 and True are three values."""
    return (
        record.kind == entry.kind
        and record.case == entry.case
        and record.effect == entry.effect
        and encode_map(record.data, "record")[0] == encode_map(entry.data, "entry")[0]
    )


def _is_progress(record: Record | Entry) -> bool:
    """Whether it says how far a run had come when its file was written: longer and shorter copies lack it."""
    return record.kind == "Imported" and record.data.get("kind") == traj.PROGRESS


# --- writing -------------------------------------------------------------------------------------------------


def _bring(tenant: Tenant, histories: Sequence[History], places: Sequence[Place]) -> list[Imported]:
    steps: list[requests.Request] = []
    for history, place in zip(histories, places, strict=True):
        if history.records > place.known:
            steps += _steps(place, tail(history.segments_as(place.run), place.known), history.seal)
    if steps:
        tenant.group(steps)
    return [_imported(history, place) for history, place in zip(histories, places, strict=True)]


def _imported(history: History, place: Place) -> Imported:
    renamed_from = None if place.run == history.run or history.unnamed else history.run
    missing = history.records - place.known
    result: Literal["new", "extended", "unchanged"] = (
        "unchanged" if not missing else "new" if not place.head.seq else "extended"
    )
    return Imported(place.run, missing, place.known, result, renamed_from, history.remarks)


def _steps(place: Place, segments: Iterable[Segment], seal: bool) -> Iterator[requests.Request]:
    """The requests of one group: per segment a lease, what its owner wrote, and the lease given back."""
    after: Head | None = place.head
    segments = tuple(segments)
    for segment in segments:
        yield requests.acquire(place.run, owner=segment.owner, ttl=LEASE_TTL_S)
        sealing = seal and segment is segments[-1]
        start = 0
        for cancel in segment.cancels:
            if start < cancel.position:
                yield requests.append(place.run, segment.entries[start : cancel.position], after=after)
                start, after = cancel.position, None
            yield requests.request_cancel(place.run, actor=cancel.actor, reason=cancel.reason)
        if start < len(segment.entries):
            yield requests.append(place.run, segment.entries[start:], after=after, seal=sealing)
            after = None
        if not sealing:
            yield requests.release(place.run)
