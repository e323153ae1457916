"""Hold a store's logs to what was signed of them: kept checkpoints, adoptions, and checkpoints from outside.

A kept checkpoint that was signed and that the tree no longer gives shows that the log was rewritten after it was
signed. Signatures are not verified here: whose keys to trust is not in the store.

A checkpoint that was seen elsewhere shows what a store alone cannot: that the log which others saw is the beginning of
this one. It must be of a log of the store (else: another log), of a size that the log has (else: it shrank), with the
root that the log had at that size (else: it is not the same log, only longer). Each is a constraint of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from sealbook.journal.checking.audit import CheckAudit, leaf_in, names_of_number
from sealbook.journal.deciding.log import adoption, leaves
from sealbook.journal.deciding.log import checkpoints as publishing
from sealbook.journal.engine.port import Place
from sealbook.journal.errors import Corrupt
from sealbook.journal.records import names
from sealbook.journal.records.trust import Outside
from sealbook.journal.schema import origins, tables
from sealbook.journal.schema.tables import CheckpointRow, CheckpointState, TenantRow, rows_of
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafType, adopted_leaf
from sealbook.merkle.errors import shown

# --- that the store keeps --------------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """What a tenant's checkpoints add up to: the members of its row that count them."""

    checkpoints: int
    signed: int
    published: int


NOTHING_KEPT = Kept(0, -1, -1)


def check_checkpoints(audit: CheckAudit, sizes: dict[str, int]) -> dict[str, Kept]:
    """Check every kept checkpoint against its tenant's log of `sizes`; what they add up to, by tenant."""
    kept: dict[str, Kept] = {}
    first: dict[str, Checkpoint] = {}  # that was signed, by tenant
    for (tenant, size), key, value in audit.rows(tables.CHECKPOINTS, names_of_number):
        place: Place = (tables.CHECKPOINTS, key)
        state = CheckpointState.PENDING
        try:
            row = CheckpointRow.decode(place, value)
            assert row is not None
            state = row.state
            checkpoint = publishing.read_row(place, size, row).checkpoint
            if size > sizes.get(tenant, 0):
                what = f"the log has {sizes.get(tenant, 0)} leaves, and {size} were signed"
                audit.found(what, tenant=tenant, place=place)
            elif tree.root(size, leaves.snapshot_reader(tenant, audit.snapshot)) != checkpoint.root:
                audit.found("the log has another root than was signed", tenant=tenant, place=place)
            if state is not CheckpointState.PENDING:
                named = first.setdefault(tenant, checkpoint)
                if named.origin != checkpoint.origin:
                    what = (
                        f"the checkpoint is of {checkpoint.origin}, and that of size {named.size} is of {named.origin}"
                    )
                    audit.found(what, tenant=tenant, place=place)
        except Corrupt as error:
            if error.table == tables.CHECKPOINTS:  # a node's damage is reported where the log is built again
                audit.found(error.what, tenant=tenant, place=place)
        before = kept.get(tenant, NOTHING_KEPT)
        kept[tenant] = Kept(
            before.checkpoints + 1,
            max(before.signed, size) if state >= CheckpointState.SIGNED else before.signed,
            max(before.published, size) if state >= CheckpointState.WITHOUT_QUORUM else before.published,
        )
    for key, value in rows_of(audit.snapshot, tables.TENANTS):
        _name_the_missing(audit, key.decode(errors="replace"), value)
    return kept


def _name_the_missing(audit: CheckAudit, tenant: str, value: bytes) -> None:
    """The largest checkpoints that a tenant's row counts must be there."""
    try:
        row = TenantRow.decode(tenant, value)
    except Corrupt:
        return  # reported where the rows of tenants are checked
    for size in {row.signed, row.published} - {-1}:
        place: Place = (tables.CHECKPOINTS, tables.number_key(tenant, size))
        if audit.snapshot.get_many([place]) == [None]:
            audit.found("the checkpoint is missing", tenant=tenant, place=place)


# --- of logs that were adopted ---------------------------------------------------------------------------------------


def check_adoptions(audit: CheckAudit) -> None:
    """Claim the first leaf of each log that adopted another one, and compare the rows of `origins`."""
    expected: dict[bytes, bytes] = {}
    for tenant, tally in audit.tallies.items():
        if tally.adopted is None:
            continue
        first, value = tally.adopted
        expected[tenant.encode()] = value
        place: Place = (tables.LEAVES, tables.number_key(tenant, 0))
        if audit.snapshot.get_many([place]) == [first.encode()]:
            tally.claim(0)
        else:
            audit.found("the first leaf is not the one that adopts the old log", tenant=tenant, place=place)
    for key, value in rows_of(audit.snapshot, tables.ORIGINS):
        place = (tables.ORIGINS, key)
        derived = expected.pop(key, None)
        if derived is None:
            if not _is_unsure(audit, key):
                audit.found("no record gives the log this origin", place=place)
        elif derived != value:
            audit.found("the origin is not the one that the record says", tenant=key.decode(), place=place)
    for key in expected:
        audit.found("the row is missing", tenant=key.decode(), place=(tables.ORIGINS, key))


def _is_unsure(audit: CheckAudit, key: bytes) -> bool:
    """Whether the tenant's own run cannot be read, so that what it says is not known."""
    return key + b"\0" + names.OPERATOR_RUN.encode() in audit.unsure


# --- from outside ----------------------------------------------------------------------------------------------------


def _origins_of(audit: CheckAudit, base: str, store_origin: str | None) -> dict[str, str]:
    """The logs of the store by their origins: the name of the tenant, or of the store log."""
    found = {}
    for tenant in audit.tallies:
        if tenant == names.STORE_LOG:
            continue
        try:
            origin = adoption.adopted_origin(audit.snapshot, tenant) or origins.tenant_origin(base, tenant)
        except Corrupt:
            continue  # reported where adoptions are checked
        found[origin] = tenant
    if store_origin is not None:
        found[store_origin] = names.STORE_LOG
    return found


def check_outside(
    audit: CheckAudit, base: str, store_origin: str | None, sizes: Mapping[str, int]
) -> tuple[list[str], list[str]]:
    """Compare every checkpoint that the auditor brought with the logs, whose origins begin with `base`; `sizes` are
    theirs by name.

    Answers with a line for each checkpoint that agreed, and with what could not be checked.
    """
    logs = _origins_of(audit, base, store_origin)
    agreed, open_questions = [], []
    held: Counter[str] = Counter()
    for outside in audit.trust.checkpoints:
        checkpoint, name = outside.checkpoint, logs.get(outside.checkpoint.origin)
        where = f"checkpoint {outside.source}"
        if name is None:
            left = _before_adoption(audit, logs, outside)
            if left is not None:
                open_questions.append(f"{where}: {left}")
            continue
        held[checkpoint.origin] += 1
        tenant = None if name == names.STORE_LOG else name
        size = sizes.get(name, 0)
        if checkpoint.size > size:
            what = f"{where}: the log shrank: it has {size} leaves, and {checkpoint.size} were seen"
            audit.found(what, tenant=tenant)
            continue
        try:
            root = tree.root(checkpoint.size, leaves.snapshot_reader(name, audit.snapshot))
        except Corrupt:
            open_questions.append(f"{where}: nodes of the log are damaged, so its root at that size is not known")
            continue
        if root != checkpoint.root:
            seen, here = checkpoint.root.hex(), root.hex()
            what = f"{where}: the log was rewritten: at size {checkpoint.size} it has root {here}, and {seen} was seen"
            audit.found(what, tenant=tenant)
        else:
            agreed.append(f"{where}: {checkpoint.origin} of size {checkpoint.size}")
    return agreed, open_questions + _unheld(logs, sizes, held)


def _unheld(logs: Mapping[str, str], sizes: Mapping[str, int], held: Mapping[str, int]) -> list[str]:
    """What stays open of logs that were held to no outside checkpoint, or to one alone."""
    lines = []
    none = sorted(origin for origin, name in logs.items() if sizes.get(name, 0) and not held.get(origin))
    if held and none:
        more = f" and {len(none) - 1} more" if len(none) > 1 else ""
        lines.append(f"completeness and age of the log {none[0]}{more}: no outside checkpoint of it was given")
    once = sorted(origin for origin, count in held.items() if count == 1)
    if once:
        more = f" and {len(once) - 1} more" if len(once) > 1 else ""
        lines.append(f"whether others were shown another log {once[0]}{more}: one outside checkpoint alone was given")
    return lines


def _before_adoption(audit: CheckAudit, logs: Mapping[str, str], outside: Outside) -> str | None:
    """A checkpoint of no log of the store: a finding, unless it is of one that a log of the store went on from. Then
    what could not be checked, or None."""
    checkpoint, where = outside.checkpoint, f"checkpoint {outside.source}"
    for name in logs.values():
        [value] = audit.snapshot.get_many([(tables.LEAVES, tables.number_key(name, 0))])
        first = leaf_in(value)
        if first is None or first.type is not LeafType.ADOPTED_LOG:
            continue
        if first.run_tag != adopted_leaf(checkpoint.origin, first.seq, first.head).run_tag:
            continue
        if checkpoint.size > first.seq:
            what = f"the log went on from size {first.seq} of {checkpoint.origin}, and {checkpoint.size} were seen"
            audit.found(f"{where}: {what}", tenant=name)
            return None
        if checkpoint.size == first.seq and checkpoint.root != first.head:
            audit.found(f"{where}: the log went on from another root than was seen", tenant=name)
            return None
        if checkpoint.size < first.seq:
            return f"the log went on from size {first.seq} of {checkpoint.origin}, whose tree is not here any more"
        return None
    known = ", ".join(shown(origin) for origin in sorted(logs)[:3]) or "none"
    opened = f"under the origin that the store was opened with (--origin), its logs are {known}"
    audit.found(f"{where}: it is of another log, {shown(checkpoint.origin)}: {opened}")
    return None
