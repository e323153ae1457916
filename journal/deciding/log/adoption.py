"""A log that goes on under a new origin, because under the old one more had been published than the store has.

After an older copy of the store was put back, its log is shorter than the one that outsiders hold, or has other
leaves: under the same origin nothing can be signed any more. Adoption begins the tenant's tree anew, in one
transaction:

- Rule 1: the first leaf states the last known checkpoint of the old origin; the store's own leaves follow in their
  order. Where the old log had itself begun so, its first leaf gives way.
- Rule 2: a log that can still be extended is not given up, and neither is one that signed more than is adopted.
- Rule 3: checkpoints of the old origin go, as they are none of this tree. The record of the act, `LogAdopted` in
  `~tenant`, keeps the one that was adopted, signatures included.
- Rule 4: no other log has, or could come to have, the new origin.

The tenant's origin is from then on the one in table `origins`, which is a fold of these records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sealbook.indexes.packing import read_u64, text, u64
from sealbook.journal.deciding.log import leaves as seals
from sealbook.journal.deciding.overlay import Overlay
from sealbook.journal.deciding.requests import AdoptLog
from sealbook.journal.engine.port import Row, Snapshot
from sealbook.journal.errors import Busy, Corrupt, InvalidInput, Refused
from sealbook.journal.records import names
from sealbook.journal.records.record import Record
from sealbook.journal.schema import tables
from sealbook.journal.schema.origins import DEFAULT_TENANT, OriginsCoincide, check_origin
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LEAF_PREFIX, LeafType, adopted_leaf
from sealbook.merkle.hashing import LeafHash, leaf_hash

PAGE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class AdoptedLog:
    """What an adoption did: the log is `origin` now, of `size` leaves, and its first leaf states `old`."""

    origin: str
    size: int
    old: Checkpoint


# --- the rule ------------------------------------------------------------------------------------------------------


def begin_anew(overlay: Overlay, tenant: str, request: AdoptLog) -> dict[str, Any]:
    """Build the tenant's tree again behind its new first leaf; the data of the record that the act leaves."""
    if overlay.touched(tenant):
        raise Busy("the log is being written to")
    try:
        return _begun_anew(overlay, tenant, request)
    except (ValueError, IndexError, struct.error) as error:
        raise Corrupt(f"a row of the log is damaged: {error}") from error


def _begun_anew(overlay: Overlay, tenant: str, request: AdoptLog) -> dict[str, Any]:
    old = request.old
    _check_given_up(overlay, tenant, old)
    counts = overlay.tenant(tenant)
    first = adopted_leaf(old.origin, old.size, old.root)
    leaves = [value for _, value in _pages(overlay, tables.LEAVES, text(tenant))]
    if len(leaves) != counts.leaves:
        raise Corrupt(f"the log has {len(leaves)} leaves, not {counts.leaves}", None, None, tables.LEAVES, text(tenant))
    again = bool(leaves) and leaves[0][len(LEAF_PREFIX)] == LeafType.ADOPTED_LOG
    kept = leaves[1:] if again else leaves
    _put_tree(overlay, tenant, [first.encode(), *kept])
    if not again:
        _move_up(overlay, tenant)
    for key, _ in _pages(overlay, tables.CHECKPOINTS, text(tenant)):
        _delete(overlay, tables.CHECKPOINTS, [key])
    shift = 0 if again else 1
    overlay.set_tenant(
        tenant,
        counts._replace(
            leaves=len(kept) + 1,
            checkpoints=0,
            signed=-1,
            published=-1,
            batch=counts.batch if counts.batch < 0 else counts.batch + shift,
            gathered=0,  # the store log knows the new log under a tag of its own
        ),
    )
    return {
        "origin": request.origin,
        "old_origin": old.origin,
        "old_size": old.size,
        "old_root": old.root,
        "old_checkpoint": request.note.decode(),
        "reason": request.reason,
        "actor": request.actor,
    }


def remember(overlay: Overlay, record: Record) -> None:
    """Let the tenant's origin be the one that this record of the act names."""
    overlay.put((tables.ORIGINS, record.tenant.encode()), origin_value(record.seq, record.data["origin"]))


def _check_given_up(overlay: Overlay, tenant: str, old: Checkpoint) -> None:
    """By Rule 2."""
    counts = overlay.tenant(tenant)
    if old.size < 1:
        raise InvalidInput("old checkpoint", old.size, "is of an empty log, which can be extended")
    if old.size < counts.signed:
        raise InvalidInput("old checkpoint", old.size, f"is not the last one: size {counts.signed} was signed")
    if old.size <= counts.leaves and tree.root(old.size, seals.node_reader(tenant, overlay.get)) == old.root:
        raise InvalidInput("old checkpoint", old.size, "is one that the log extends: there is nothing to adopt")


def _put_tree(overlay: Overlay, tenant: str, leaves: list[bytes]) -> None:
    for index, value in enumerate(leaves):
        overlay.put((tables.LEAVES, tables.number_key(tenant, index)), value)
    hashes: list[LeafHash] = [leaf_hash(value) for value in leaves]
    for node, hash_ in tree.added(0, hashes, lambda wanted: []):
        overlay.put(tables.node_place(tenant, node), hash_)


def _move_up(overlay: Overlay, tenant: str) -> None:
    """Every leaf stands one position higher than before: move what names positions."""
    prefix = text(tenant)
    for table in (tables.POSITIONS, tables.BATCHED):
        pages = _pages(overlay, table, prefix)
        _replace(overlay, table, [(key, _moved(key, len(key) - 8), value) for key, value in pages])
    pages = _pages(overlay, tables.BATCHES, prefix)
    _replace(overlay, tables.BATCHES, [(key, _moved(key, len(prefix)), value) for key, value in pages])
    for key, _ in _pages(overlay, tables.STATE, prefix):
        standing = overlay.standing(tenant, key[len(prefix) :].decode())
        if standing is None or standing.highest_leaf is None:
            continue
        seal = None if standing.seal is None else standing.seal + 1
        overlay.set_standing(standing._replace(highest_leaf=standing.highest_leaf + 1, seal=seal))


def _moved(key: bytes, at: int) -> bytes:
    """The key with the position that stands in it counted up."""
    return key[:at] + u64(read_u64(key, at) + 1) + key[at + 8 :]


def _replace(overlay: Overlay, table: str, rows: list[tuple[bytes, bytes, bytes]]) -> None:
    """Let each value stand under its new key instead of its old one."""
    new = {key: value for _, key, value in rows}
    _delete(overlay, table, [old for old, _, _ in rows if old not in new])
    for key, value in new.items():
        overlay.put((table, key), value)


def _delete(overlay: Overlay, table: str, keys: Iterable[bytes]) -> None:
    for key in keys:
        if overlay.get((table, key)) is not None:
            overlay.delete((table, key))


def _pages(overlay: Overlay, table: str, prefix: bytes) -> Iterator[Row]:
    lo, hi = prefix, tables.prefix_end(prefix)
    while page := overlay.stored_rows(table, lo, hi, PAGE_ROWS):
        yield from page
        lo = page[-1][0] + b"\0"


# --- origins -------------------------------------------------------------------------------------------------------


def origin_value(seq: int, origin: str) -> bytes:
    """The row that says which origin a tenant's log has, and which record of `~tenant` says so."""
    return u64(seq) + origin.encode()


def adopted_origin(snapshot: Snapshot, tenant: str) -> str | None:
    """The origin that the tenant's log goes on under; None when it has its first one."""
    place = (tables.ORIGINS, tenant.encode())
    [value] = snapshot.get_many([place])
    if value is None:
        return None
    try:
        return check_origin(value[8:].decode())
    except (UnicodeDecodeError, InvalidInput) as error:
        raise Corrupt("the row names no origin", None, None, *place) from error


def adopted_origins(snapshot: Snapshot) -> dict[str, str]:
    """The origins under which tenants' logs went on, by tenant."""
    found: dict[str, str] = {}
    for key, _ in tables.rows_of(snapshot, tables.ORIGINS):
        tenant = key.decode(errors="replace")
        origin = adopted_origin(snapshot, tenant)
        if origin is not None:
            found[tenant] = origin
    return found


def adoption_of(tenant: str, value: bytes | None) -> int:
    """Which adoption the tenant's row of `origins` is of: the seq of its record in `~tenant`, 0 without a row."""
    if value is None:
        return 0
    if len(value) <= 8:
        raise Corrupt("the row names no origin", None, None, tables.ORIGINS, tenant.encode())
    return read_u64(value, 0)


def check_free(origin: str, base: str, tenant: str, taken: dict[str, str]) -> None:
    """By Rule 4: `taken` are the origins of all tenants' logs, by tenant."""
    check_origin(origin)
    for other, theirs in taken.items():
        if theirs == origin:
            whose = "the one that it goes on from" if other == tenant else f"tenant {other}"
            raise OriginsCoincide(origin, f"the log that goes on of tenant {tenant}", whose)
    named = DEFAULT_TENANT if origin == base else origin.removeprefix(f"{base}/")
    if named != origin and _is_tenant(named):
        raise OriginsCoincide(origin, f"the log that goes on of tenant {tenant}", f"a tenant {named}")


def _is_tenant(name: str) -> bool:
    try:
        names.check_tenant(name)
    except Refused:
        return False
    return True
