"""A tenant's checkpoints on their way out: pending, signed, cosigned, published.

A checkpoint is a promise, and a promise must not be forgotten or taken back:

- Rule 1: leaves, tree nodes and the checkpoint to be signed are durable before any signature leaves. The key's own
  `.published` file, outside the store, holds the promise too (`published`).
- Rule 2: a signed checkpoint is kept; lines are added to it and never dropped.
- Rule 3: what is kept must be what the tree gives: another root at that size is `Corrupt`.
- Rule 4: the published size never goes back.
- Rule 5: all checkpoints of a log are signed under one name: to go on under another one is `adoption`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sealbook.indexes.packing import text
from sealbook.journal.deciding.log import leaves
from sealbook.journal.deciding.log.promises import Consistent, PublishedAhead
from sealbook.journal.deciding.overlay import Overlay
from sealbook.journal.deciding.requests import KeepCheckpoint
from sealbook.journal.engine.port import Place, Snapshot
from sealbook.journal.errors import Corrupt, InvalidInput
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import CheckpointRow, CheckpointState, TenantRow
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.keys import SignatureLine
from sealbook.merkle.note import Note
from sealbook.merkle.verify import verify_consistency

Sign = Callable[[Checkpoint, Consistent], Sequence[SignatureLine]]
"""Signs a checkpoint once it is promised: `Keyring.sign_checkpoint`, or a device that keeps the same promise."""


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A checkpoint that the store keeps. `note` has every line that was collected; None while it is pending."""

    checkpoint: Checkpoint
    state: CheckpointState
    note: Note | None

    @property
    def published(self) -> bool:
        """Whether it may be handed out."""
        return self.state >= CheckpointState.WITHOUT_QUORUM

    @property
    def without_quorum(self) -> bool:
        """Whether it was published although its witnesses did not suffice."""
        return self.state is CheckpointState.WITHOUT_QUORUM


# --- the rule ------------------------------------------------------------------------------------------------------


def keep(overlay: Overlay, tenant: str, request: KeepCheckpoint) -> KeptCheckpoint:
    """Decide how the checkpoint's row stands after this request, and write it."""
    wanted, counts = request.checkpoint, overlay.tenant(tenant)
    if wanted.size > counts.leaves:
        raise InvalidInput("size", wanted.size, f"exceeds the log's size, {counts.leaves}")
    root = tree.root(wanted.size, leaves.node_reader(tenant, overlay.get))
    place: Place = (tables.CHECKPOINTS, tables.number_key(tenant, wanted.size))
    if root != wanted.root:
        raise Corrupt(f"the log of {wanted.size} leaves has another root than its checkpoint", None, None, *place)
    row = CheckpointRow.decode(place, overlay.get(place))
    kept = None if row is None else read_row(place, wanted.size, row)
    _check_same_origin(kept, wanted.origin)
    check_origin(overlay, tenant, wanted.origin)
    state = request.state if kept is None else max(kept.state, request.state)
    published = state >= CheckpointState.WITHOUT_QUORUM
    if published and wanted.size < counts.published:
        raise PublishedAhead(wanted.origin, wanted.size, counts.published)
    note = _merged(kept, request)
    moved = CheckpointRow(state, wanted.text().encode() if note is None else note.encode())
    if row is None:
        overlay.insert(place, moved.encode(place))
    elif row != moved:
        overlay.put(place, moved.encode(place))
    after = counts._replace(
        checkpoints=counts.checkpoints + (row is None),
        signed=max(counts.signed, wanted.size) if state >= CheckpointState.SIGNED else counts.signed,
        published=wanted.size if published else counts.published,
    )
    if after != counts:
        overlay.set_tenant(tenant, after)
    return KeptCheckpoint(wanted, state, note)


def check_origin(overlay: Overlay, tenant: str, origin: str) -> None:
    """`InvalidInput` when the log was signed under another origin (Rule 5).

    The largest that was signed tells, since all are under one. A row that is missing is `latest`'s to report."""
    size = overlay.tenant(tenant).signed
    place: Place = (tables.CHECKPOINTS, tables.number_key(tenant, max(size, 0)))
    row = CheckpointRow.decode(place, overlay.get(place)) if size >= 0 else None
    _check_same_origin(None if row is None else read_row(place, size, row), origin)


def _check_same_origin(kept: KeptCheckpoint | None, origin: str) -> None:
    if kept is None or kept.state is CheckpointState.PENDING or kept.checkpoint.origin == origin:
        return
    size, name = kept.checkpoint.size, kept.checkpoint.origin
    raise InvalidInput("origin", origin, f"is not {name}, under which size {size} was signed")


def _merged(kept: KeptCheckpoint | None, request: KeepCheckpoint) -> Note | None:
    """The note with the lines of both; a line takes the place of an earlier one of the same key."""
    before = None if kept is None else kept.note
    if not request.note:
        return before
    note = Note.parse(request.note)
    assert note.text == request.checkpoint.text()
    return note if before is None else before.adding(note.lines)


# --- reading -------------------------------------------------------------------------------------------------------


def read_row(place: Place, size: int, row: CheckpointRow) -> KeptCheckpoint:
    """What the row of this size holds; `Corrupt` when it is no checkpoint of that size."""
    try:
        if row.state is CheckpointState.PENDING:
            note, checkpoint = None, Checkpoint.parse(row.note)
        else:
            note = Note.parse(row.note)
            checkpoint = Checkpoint.parse(note.text)
    except Malformed as error:
        raise Corrupt(f"the checkpoint's row is damaged: {error}", None, None, *place) from error
    if checkpoint.size != size:
        raise Corrupt(f"the checkpoint's row holds one of size {checkpoint.size}", None, None, *place)
    return KeptCheckpoint(checkpoint, row.state, note)


def kept_at(snapshot: Snapshot, tenant: str, size: int) -> KeptCheckpoint | None:
    """The checkpoint that is kept for this size."""
    place: Place = (tables.CHECKPOINTS, tables.number_key(tenant, size))
    row = CheckpointRow.decode(place, snapshot.get_many([place])[0])
    return None if row is None else read_row(place, size, row)


def latest(snapshot: Snapshot, tenant: str, *, published: bool) -> KeptCheckpoint | None:
    """The largest checkpoint that was signed, or published; None when there is none."""
    counts = TenantRow.decode(tenant, snapshot.get_many([(tables.TENANTS, tenant.encode())])[0])
    size = counts.published if published else counts.signed
    if size < 0:
        return None
    kept = kept_at(snapshot, tenant, size)
    if kept is None:
        raise Corrupt("the checkpoint is missing", None, None, tables.CHECKPOINTS, tables.number_key(tenant, size))
    return kept


def published_sizes(snapshot: Snapshot, tenant: str, above: int, limit: int) -> list[int]:
    """The next sizes that were published, at most `limit` of them, smallest first."""
    lo = tables.number_key(tenant, above + 1)
    sizes: list[int] = []
    while len(sizes) < limit and (page := snapshot.scan(tables.CHECKPOINTS, lo, tables.prefix_end(text(tenant)), 1000)):
        for key, value in page:
            row = CheckpointRow.decode((tables.CHECKPOINTS, key), value)
            if row is not None and row.state >= CheckpointState.WITHOUT_QUORUM:
                sizes.append(tables.split_number_key(key)[1])
        lo = page[-1][0] + b"\0"
    return sizes[:limit]


def begins_with(snapshot: Snapshot, tenant: str, checkpoint: Checkpoint, published: Checkpoint) -> bool:
    """Whether the log of `checkpoint` begins with what was published, shown by a consistency proof."""
    read = leaves.snapshot_reader(tenant, snapshot)
    try:
        verify_consistency(
            old_size=published.size,
            new_size=checkpoint.size,
            old_root=published.root,
            new_root=checkpoint.root,
            proof=list(tree.consistency_proof(old_size=published.size, new_size=checkpoint.size, read=read)),
        )
    except (VerificationError, ValueError):
        return False
    return True
