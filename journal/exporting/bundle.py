"""Write a bundle of a store: whole tenants as they stand, or selected runs with their proofs.

- Rule 1: what is exported is bounded once, in one snapshot, by each tenant's last arrival and the size of its log. What
  is written meanwhile stays out; nothing that is in a bundle can change afterwards, so it is read in pages.
- Rule 2: a record that its hash does not cover, or that is not in its one encoding, ends the export: a bundle never
  passes damage on.
- Rule 3: the same question to the same store gives the same bytes, save for the time in the preamble.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import Codec, ContainerWriter, Preamble
from sealbook.journal.bundle.frames import ClaimedKey, Header, KeptNote, TenantPart, Totals
from sealbook.journal.deciding.log import checkpoints, leaves
from sealbook.journal.engine.port import Row, Snapshot
from sealbook.journal.errors import Busy, Corrupt, InvalidInput, NotFound
from sealbook.journal.exporting.parts import FrameWriter, Progress, kept_note
from sealbook.journal.exporting.question import Bound, Plan, Question, digest_of_keys
from sealbook.journal.exporting.resuming import BegunBundle
from sealbook.journal.records import names as ids
from sealbook.journal.records.row import decode_row
from sealbook.journal.records.signatures import signer_id
from sealbook.journal.schema import lookup, tables
from sealbook.journal.schema.tables import TenantRow
from sealbook.merkle import tree

if TYPE_CHECKING:
    from sealbook.journal.store.journal import Journal

WHOLE_LEFT_OUT = ("leases", "secret", "store-log")
NOTES_MAX = 100  # that are read at once: each may be a megabyte
SELECTED_LEFT_OUT = ("leases", "other-leaves", "other-runs", "other-tenants", "secret", "store-log")


@dataclass(frozen=True, slots=True)
class Exported:
    """What became of an export: what the bundle holds, and the digest over all of it."""

    totals: Totals
    digest: bytes


def export(
    journal: Journal,
    stream: BinaryIO,
    question: Question,
    *,
    made_at: int,
    codec: Codec = Codec.ZLIB,
    keys: Sequence[ClaimedKey] = (),
    progress: Progress | None = None,
) -> Exported:
    """Write the bundle to the stream. `made_at` is unix milliseconds.

    Of `keys` those enter that the bundle's reader may meet: of the exported logs, of the store's record signers, and of
    witnesses. They are a claim, and nothing is checked with them.

    `NotFound`: a run, case or tenant that was asked for is not there. `Corrupt`: the store cannot be believed. `Busy`:
    a log went on under a new origin meanwhile. Whatever is raised, what was written is no whole bundle.
    """
    plan = plan_export(journal, question, made_at=made_at, codec=codec, keys=keys)
    return write_bundle(journal, stream, plan, progress=progress)


def plan_export(
    journal: Journal, question: Question, *, made_at: int, codec: Codec = Codec.ZLIB, keys: Sequence[ClaimedKey] = ()
) -> Plan:
    """What that export writes, by Rule 1. Raises what `export` does before its first byte."""
    question = normalized(question)
    bounds = _bounds(journal, question)
    claimed = _claimed(journal, keys, {bound.stated.origin for bound in bounds})
    store = journal.view.setting.identity.store_id
    return Plan(store, question, codec, made_at, digest_of_keys(keys), tuple(claimed), tuple(bounds))


def write_bundle(journal: Journal, stream: BinaryIO, plan: Plan, *, progress: Progress | None = None) -> Exported:
    """Write the bundle of this plan, from its first byte."""
    writer = ContainerWriter(stream, Preamble(plan.codec, plan.made_at))
    return _write(journal, plan, writer, BegunBundle(journal, plan), progress)


def resume_bundle(
    journal: Journal, stream: BinaryIO, begun: BegunBundle, *, progress: Progress | None = None
) -> Exported:
    """Write the rest of a bundle whose beginning was read from this stream; what follows its last full block is cut
    off. `Differs`: the store does not go on so. It may have written blocks by then."""
    plan = begun.plan
    stream.seek(begun.mark.offset)
    stream.truncate()
    writer = ContainerWriter(stream, Preamble(plan.codec, plan.made_at), begun.mark)
    return _write(journal, plan, writer, begun, progress)


def _write(
    journal: Journal, plan: Plan, writer: ContainerWriter, begun: BegunBundle, progress: Progress | None
) -> Exported:
    out = FrameWriter(writer, progress, plan.records, begun.frames, bytes(begun.rest), begun.records)
    for kind, payload in _head(journal, plan):
        out.put(kind, payload)
    totals = Totals(keys=len(plan.claimed))
    for number, bound in enumerate(plan.bounds):
        counts = begun.put_ended_part(number, out)
        if counts is None:
            part = begun.part_to_write(number)
            try:
                counts = part.write(out)
            finally:
                part.close()
            _check_unmoved(journal, bound)
        totals = totals.plus(counts)
    out.put(fr.END_OF_ALL, fr.encode_map(totals))
    return Exported(totals, writer.finish())


def _head(journal: Journal, plan: Plan) -> Iterator[tuple[int, bytes]]:
    """The frames before those of the first tenant."""
    question = plan.question
    left_out = WHOLE_LEFT_OUT if question.what == "store" else ("other-tenants", *WHOLE_LEFT_OUT)
    header = Header(
        question.what,
        journal.view.setting.identity.lineage_id,
        len(question.names),
        question.since,
        question.until,
        tuple(sorted(left_out if question.what in fr.WHOLE else SELECTED_LEFT_OUT)),
    )
    yield fr.HEADER, fr.encode_map(header)
    for name in question.names:
        yield fr.ASKED, name.encode()
    for payload in plan.claimed:
        yield fr.KEY, payload


def normalized(question: Question) -> Question:
    """The same question with its names in their order, each once, and with none where none are asked for."""
    return replace(question, names=tuple(_names(question)))


def _names(question: Question) -> list[str]:
    check = {"runs": ids.check_run, "cases": ids.check_case}.get(question.what)
    if check is None:
        return []
    if not question.names:
        raise InvalidInput(question.what, 0, "must be named")
    return sorted({check(name) for name in question.names}, key=str.encode)


def _claimed(journal: Journal, keys: Sequence[ClaimedKey], origins: set[str]) -> list[bytes]:
    """The frames of the keys that have to do with what is exported, in their order, each once."""
    wanted = []
    with journal.view.snapshot() as snapshot:
        for key in keys:
            if key.purpose == "record":
                [known] = snapshot.get_many([(tables.SIGNERS, signer_id(key.public))])
                if known is None:
                    continue
            if key.purpose != "log" or key.name in origins:
                wanted.append(fr.encode_map(key))
    found = sorted(set(wanted))
    if len(found) > fr.KEYS_MAX:
        raise InvalidInput("keys", len(found), f"are more than the {fr.KEYS_MAX} that a bundle names")
    return found


# --- what bounds an export -------------------------------------------------------------------------------------------


def _bounds(journal: Journal, question: Question) -> list[Bound]:
    names = sorted(journal.tenants()) if question.what == "store" else [ids.check_tenant(question.tenant)]
    bounds = []
    with journal.view.snapshot() as snapshot:
        for name in names:
            [value] = snapshot.get_many([(tables.TENANTS, name.encode())])
            if value is None:
                raise NotFound("tenant", name)
            bounds.append(_bound(journal, snapshot, name, TenantRow.decode(name, value), question.what in fr.WHOLE))
    return bounds


def _bound(journal: Journal, snapshot: Snapshot, name: str, row: TenantRow, whole: bool) -> Bound:
    origin = journal.tenant(name)._origin_in(snapshot)
    read = leaves.snapshot_reader(name, snapshot)
    size, root, kept = row.leaves, tree.root(row.leaves, read), None
    stated = TenantPart(name, origin, row.arrivals, size, root)
    if not whole:
        latest = checkpoints.latest(snapshot, name, published=True) or checkpoints.latest(
            snapshot, name, published=False
        )
        if latest is not None and latest.note is not None:
            checkpoint = latest.checkpoint
            kept = KeptNote(checkpoint.size, latest.state, latest.note.encode())
            if tree.root(checkpoint.size, read) != checkpoint.root:
                raise Corrupt(f"the log of {checkpoint.size} leaves has another root than its checkpoint")
            stated = TenantPart(name, origin, row.arrivals, checkpoint.size, checkpoint.root)
    last = b""
    if row.arrivals:
        [value] = snapshot.get_many([lookup.record_place(name, row.arrivals)])
        if value is None:
            raise Corrupt("the record is missing", None, None, *lookup.record_place(name, row.arrivals))
        last = decode_row(value, None, None).hash
    notes_from = max(row.published, 0)
    notes = tuple(map(kept_note, _note_rows(snapshot, name, notes_from, size))) if whole else ()
    return Bound(stated, kept, size, root, last, notes_from, notes)


def _note_rows(snapshot: Snapshot, name: str, least: int, most: int) -> Iterator[Row]:
    lo, hi = tables.number_key(name, least), tables.number_key(name, most + 1)
    while page := snapshot.scan(tables.CHECKPOINTS, lo, hi, NOTES_MAX):
        yield from page
        lo = page[-1][0] + b"\0"


def _check_unmoved(journal: Journal, bound: Bound) -> None:
    """A log that goes on under a new origin has all its leaves moved: what was read is then of two logs."""
    name = bound.stated.tenant
    with journal.view.snapshot() as snapshot:
        origin = journal.tenant(name)._origin_in(snapshot)
        root = tree.root(bound.size, leaves.snapshot_reader(name, snapshot))
    if (origin, root) != (bound.stated.origin, bound.root):
        raise Busy(f"the log of tenant {name} went on under another origin meanwhile: export again")
