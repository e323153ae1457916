"""Anchor batches: one leaf for the heads of all open runs that have moved, and the proofs that lead through it.

- Rule 1: a batch has one entry per run, an anchor of its head: open runs whose last record is above the highest
  arrival that the last batch covered. A run that has concluded for good is left to its seal.
- Rule 2: it covers the highest arrival of these records. Runs that move after it are above that.
- Rule 3: a head is recomputed from its record before it is attested.

An open run of which no record is above the last batch costs nothing; ten thousand that have moved cost one leaf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sealbook.indexes import activity
from sealbook.indexes.packing import text, u64
from sealbook.indexes.standing import Standing
from sealbook.journal.deciding.log import leaves as seals
from sealbook.journal.deciding.log.leaves import InclusionProof
from sealbook.journal.deciding.overlay import Overlay
from sealbook.journal.engine.port import Place, Snapshot
from sealbook.journal.errors import Corrupt, InvalidInput
from sealbook.journal.records.names import OPERATOR_RUN
from sealbook.journal.schema import tables
from sealbook.journal.schema.standings import read_standing
from sealbook.journal.schema.tables import BatchRow
from sealbook.merkle import tree
from sealbook.merkle.anchor_batch import InnerProof, batch_leaf, inner_proof
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed
from sealbook.merkle.tree import Node

BATCH_RUNS_MAX = 65536  # in one transaction; whoever anchors goes on until nothing is left
PAGE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class AnchorBatch:
    """What the log says of many open runs: the leaf at `index` attests the heads of `runs` runs, whose highest
    arrival is `arrival`. `root` is the root over their entries. `more` says that further runs wait for another one."""

    index: int
    runs: int
    arrival: int
    root: bytes
    more: bool


# --- the rule ------------------------------------------------------------------------------------------------------


def anchor_open(overlay: Overlay, tenant: str, runs_max: int = BATCH_RUNS_MAX) -> AnchorBatch | None:
    """Append the leaf of the next batch; None when no open run has moved since the last one."""
    covered = _covered(overlay, tenant)
    waiting = sorted(_moved(overlay, tenant, covered, runs_max + activity.BLOCK), key=_last_arrival)
    taken = waiting[:runs_max]
    if not taken:
        return None
    rows: list[BatchRow] = []
    for standing in taken:
        overlay.check_head(standing)
        rows.append(BatchRow(_entry(standing), standing.run))
    rows.sort(key=lambda row: row.entry.encode())
    leaf = batch_leaf([row.entry for row in rows], covered=taken[-1].last_arrival)
    index = append_batch(overlay, tenant, leaf, rows)
    return AnchorBatch(index, len(rows), leaf.seq, leaf.run_tag, more=len(waiting) > len(taken))


def append_batch(overlay: Overlay, tenant: str, leaf: LeafEntry, rows: Sequence[BatchRow]) -> int:
    """Append the leaf of a batch with these entries, which are in their order; its log position."""
    index = seals.append_entry(overlay, tenant, leaf)
    overlay.set_tenant(tenant, overlay.tenant(tenant)._replace(batch=index))
    for number, row in enumerate(rows):
        overlay.insert((tables.BATCHES, tables.batch_key(tenant, index, number)), row.encode())
        place = (tables.BATCHED, tables.position_key(tenant, row.run, index))
        overlay.insert(place, number.to_bytes(tables.BATCH_NUMBER_BYTES))
    return index


def _covered(overlay: Overlay, tenant: str) -> int:
    """The highest arrival that the last batch covered; 0 before the first."""
    index = overlay.tenant(tenant).batch
    if index < 0:
        return 0
    place: Place = (tables.LEAVES, tables.number_key(tenant, index))
    return read_batch_leaf(place, overlay.get(place)).seq


def _moved(overlay: Overlay, tenant: str, covered: int, wanted: int) -> Iterator[Standing]:
    """By Rule 1. Blocks of the activity index come in the order of arrivals, so with `wanted` runs at hand all but
    the last block's are the earliest ones."""
    named = overlay.moved_runs(tenant) | {OPERATOR_RUN}
    for run in sorted(named):
        standing = overlay.standing(tenant, run)
        if standing is not None and _is_open(standing, covered):
            yield standing
    prefix = text(tenant)
    lo, hi = prefix + u64(covered // activity.BLOCK), tables.prefix_end(prefix)
    found = 0
    while found < wanted and (page := overlay.stored_rows(activity.TABLE, lo, hi, PAGE_ROWS)):
        runs = [run for key, _ in page if (run := _run_of(key, len(prefix) + 8)) not in named]
        states = overlay.stored_values([(tables.STATE, prefix + run.encode()) for run in runs])
        for run, state in zip(runs, states, strict=True):
            standing = read_standing(tenant, run, state)
            if standing is not None and _is_open(standing, covered):
                found += 1
                yield standing
        lo = page[-1][0] + b"\0"


def _run_of(key: bytes, at: int) -> str:
    """The run that a row of the activity index names."""
    try:
        return key[at:].decode()
    except UnicodeDecodeError as error:
        raise Corrupt("the activity row names no run", None, None, activity.TABLE, key) from error


def _is_open(standing: Standing, covered: int) -> bool:
    return not standing.sealed and not standing.final and standing.last_arrival > covered


def _last_arrival(standing: Standing) -> int:
    return standing.last_arrival


def _entry(standing: Standing) -> LeafEntry:
    return LeafEntry(LeafType.ANCHOR, standing.run_tag, standing.records, standing.head)


# --- reading -------------------------------------------------------------------------------------------------------


def inclusion(snapshot: Snapshot, standing: Standing, size: int | None) -> InclusionProof | None:
    """The proof of the run's highest leaf below `size`, by default the log's, be it its own or a batch's."""
    leaves = seals.log_size(snapshot, standing.tenant)
    size = leaves if size is None else size
    if size > leaves:
        raise InvalidInput("size", size, f"exceeds the log's size, {leaves}")
    own = seals.own_inclusion(snapshot, standing, size)
    batched = _highest_batch(snapshot, standing, size)
    if batched is None or (own is not None and own.index > batched[0]):
        return own
    return _through_batch(snapshot, standing, size, *batched)


def _highest_batch(snapshot: Snapshot, standing: Standing, size: int) -> tuple[int, int] | None:
    """(index, number) of the run's entry in the highest batch below `size` that has one."""
    tenant, run = standing.tenant, standing.run
    lo, hi = tables.position_key(tenant, run, 0), tables.position_key(tenant, run, size)
    page = snapshot.scan(tables.BATCHED, lo, hi, 1, reverse=True)
    if not page:
        return None
    key, value = page[0]
    try:
        index = tables.split_position_key(key)[2]
    except ValueError as error:
        raise Corrupt(
            f"the row that names an anchor batch is damaged: {error}", run, None, tables.BATCHED, key
        ) from error
    if len(value) != tables.BATCH_NUMBER_BYTES:
        raise Corrupt("the row that names an anchor batch is damaged", run, None, tables.BATCHED, key)
    return index, int.from_bytes(value)


def _through_batch(snapshot: Snapshot, standing: Standing, size: int, index: int, number: int) -> InclusionProof:
    tenant, run = standing.tenant, standing.run
    inner, row = batch_path(snapshot, tenant, index, number)
    if row.run != run or row.entry.run_tag != standing.run_tag:
        key = tables.batch_key(tenant, index, number)
        raise Corrupt("the entry of the anchor batch is another run's", run, None, tables.BATCHES, key)
    read = seals.snapshot_reader(tenant, snapshot)
    return InclusionProof(
        run=run,
        leaf_kind="anchor-batch",
        index=index,
        size=size,
        seq=row.entry.seq,
        head=row.entry.head,
        leaf_data=inner.leaf.encode(),
        leaf_hash=inner.leaf.hash(),
        proof=list(tree.inclusion_proof(index=index, size=size, read=read)),
        root=tree.root(size, read),
        inner=inner,
        inner_entry=row.entry.encode(),
    )


def batch_path(snapshot: Snapshot, tenant: str, index: int, number: int) -> tuple[InnerProof, BatchRow]:
    """The path from entry `number` of the batch at leaf `index`, and the entry's row; `Corrupt` when the entries are
    not those that the leaf attests."""
    place: Place = (tables.LEAVES, tables.number_key(tenant, index))
    value, node = snapshot.get_many([place, tables.node_place(tenant, Node(0, index))])
    leaf = read_batch_leaf(place, value)
    if leaf.hash() != node:  # the arrival, which the entries do not give
        raise Corrupt("the anchor batch's leaf is not the one that the log was built with", None, None, *place)
    rows = list(batch_rows(snapshot, tenant, index))
    entries = [row.entry for row in rows]
    try:
        given = batch_leaf(entries, covered=leaf.seq)
    except Malformed as error:
        raise Corrupt(f"the anchor batch is damaged: {error}", None, None, *place) from error
    if given != leaf or not 0 <= number < len(rows):
        raise Corrupt("the entries of the anchor batch do not give its leaf", None, None, *place)
    return inner_proof(leaf, entries, number), rows[number]


def batch_rows(snapshot: Snapshot, tenant: str, index: int) -> Iterator[BatchRow]:
    """The entries of the batch at leaf `index`, in their order."""
    lo, hi = tables.number_key(tenant, index), tables.number_key(tenant, index + 1)
    number = 0
    while page := snapshot.scan(tables.BATCHES, lo, hi, PAGE_ROWS):
        for key, value in page:
            place: Place = (tables.BATCHES, key)
            if key != tables.batch_key(tenant, index, number):
                raise Corrupt(f"entry {number} of the anchor batch is missing", None, None, *place)
            yield read_batch_row(place, value)
            number += 1
        lo = page[-1][0] + b"\0"


def read_batch_row(place: Place, value: bytes) -> BatchRow:
    """The entry of a batch that a row holds; `Corrupt` when it holds none."""
    try:
        return BatchRow.decode(value)
    except ValueError as error:
        raise Corrupt(f"the entry of the anchor batch is damaged: {error}", None, None, *place) from error


def read_batch_leaf(place: Place, value: bytes | None) -> LeafEntry:
    """The leaf of an anchor batch; `Corrupt` when there is none."""
    if value is None:
        raise Corrupt("the anchor batch's leaf is missing", None, None, *place)
    try:
        leaf = LeafEntry.decode(value)
    except Malformed as error:
        raise Corrupt(f"the anchor batch's leaf is damaged: {error}", None, None, *place) from error
    if leaf.type is not LeafType.ANCHOR_BATCH:
        raise Corrupt("the leaf is that of no anchor batch", None, None, *place)
    return leaf
