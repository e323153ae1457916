"""Where the records of a run stand in `journal`: the arrival of each, by its seq.

    up to the last full block of 64 records    a row of `arrivals` per block, written once, when the block fills
    the records after it                       at the end of the run's state row, which every append writes anyway

Whoever looks up has the run's standing already, and so knows which of the two has the answer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from sealbook.indexes.standing import BLOCK_RECORDS, Standing
from sealbook.journal.engine.port import Place
from sealbook.journal.errors import Corrupt
from sealbook.journal.schema import tables

GetMany = Callable[[Sequence[Place]], Sequence[bytes | None]]

BLOCK_BYTES = 8 * BLOCK_RECORDS


def block_of(seq: int) -> int:
    """The block that the record belongs to: block b has the records 64 × b + 1 to 64 × b + 64."""
    return (seq - 1) // BLOCK_RECORDS


def block_place(tenant: str, run: str, block: int) -> Place:
    """Where the arrivals of a full block stand."""
    return tables.ARRIVALS, tables.block_key(tenant, run, block)


def record_place(tenant: str, arrival: int) -> Place:
    """Where the record with this arrival stands."""
    return tables.JOURNAL, tables.number_key(tenant, arrival)


def arrivals_between(get_many: GetMany, standing: Standing, first: int, last: int) -> tuple[int, ...]:
    """The arrivals of the run's records `first` to `last`, which the standing counts; `Corrupt` without their rows."""
    full, end = standing.records // BLOCK_RECORDS, block_of(last) + 1
    places = [block_place(standing.tenant, standing.run, block) for block in range(block_of(first), min(full, end))]
    parts = [_block(standing.run, place, value) for place, value in zip(places, get_many(places), strict=True)]
    if end > full:
        parts.append(standing.recent_arrivals)
    found: tuple[int, ...] = struct.unpack_from(
        f">{last - first + 1}Q", b"".join(parts), (first - 1) % BLOCK_RECORDS * 8
    )
    return found


def arrivals_of(
    get_many: GetMany, standings: Mapping[str, Standing | None], places: Sequence[tuple[str, int]]
) -> list[int]:
    """The arrivals of these (run, seq); `Corrupt` for a record that its run's state does not count."""
    blocks: dict[Place, bytes] = {}
    for run, seq in places:
        standing = standings[run]
        if standing is None or not 1 <= seq <= standing.records:
            raise Corrupt("the record is missing: the run's state does not count it", run, seq)
        if block_of(seq) < standing.records // BLOCK_RECORDS:
            blocks[block_place(standing.tenant, run, block_of(seq))] = b""
    for place, value in zip(blocks, get_many(list(blocks)), strict=True):
        blocks[place] = _block(tables.split_position_key(place[1])[1], place, value)
    found = []
    for run, seq in places:
        standing = standings[run]
        assert standing is not None
        stored = blocks.get(block_place(standing.tenant, run, block_of(seq)), standing.recent_arrivals)
        start = (seq - 1) % BLOCK_RECORDS * 8
        found.append(int.from_bytes(stored[start : start + 8]))
    return found


def _block(run: str, place: Place, value: bytes | None) -> bytes:
    if value is None or len(value) != BLOCK_BYTES:
        raise Corrupt("the arrivals of a block of records are missing or damaged", run, None, *place)
    return value
