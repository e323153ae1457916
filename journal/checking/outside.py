"""Hold a store's logs to checkpoints from outside: each is a constraint of its own (behaviour P55, P58, B19).

A checkpoint that was seen elsewhere shows what a store alone cannot: that the log which others saw is the beginning of
this one. It must be of a log of the store (else: another log), of a size that the log has (else: it shrank), with the
root that the log had at that size (else: it is not the same log, only longer).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sealbook.journal.checking.audit import Audit
from sealbook.journal.deciding.log import adoption, leaves
from sealbook.journal.errors import Corrupt
from sealbook.journal.records import names
from sealbook.journal.records.trust import Outside
from sealbook.journal.schema import origins, tables
from sealbook.merkle import tree
from sealbook.merkle.entry import LeafEntry, LeafType, adopted_leaf
from sealbook.merkle.errors import Malformed, shown


def origins_of(audit: Audit, base: str, store_origin: str | None) -> dict[str, str]:
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


def hold(audit: Audit, logs: Mapping[str, str], sizes: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Compare every checkpoint that the auditor brought. `logs` are names by origin, `sizes` the logs' own.

    Answers with a line for each checkpoint that agreed, and with what could not be checked.
    """
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


def _before_adoption(audit: Audit, logs: Mapping[str, str], outside: Outside) -> str | None:
    """A checkpoint of no log of the store: a finding, unless it is of one that a log of the store went on from. Then
    what could not be checked, or None."""
    checkpoint, where = outside.checkpoint, f"checkpoint {outside.source}"
    for name in logs.values():
        [value] = audit.snapshot.get_many([(tables.LEAVES, tables.number_key(name, 0))])
        try:
            first = None if value is None else LeafEntry.decode(value)
        except Malformed:
            continue
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
