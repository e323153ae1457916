"""Anchor batches that were built by the rules of trees, and say what the chains do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tampering import all_rows, change, engine_of, rows
from whole_journal import journal_of

from sealbook.journal import Journal, Tenant, entries
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import BatchRow
from sealbook.merkle import tree
from sealbook.merkle.anchor_batch import batch_leaf
from sealbook.merkle.entry import LeafEntry, LeafType


@pytest.fixture
def acme() -> Tenant:
    """Run `open` of three records, the second one in a batch; `done`, which has ended; `sealed`."""
    tenant = Journal.in_memory().tenant("acme")
    for _ in range(2):
        tenant.append("open", [entries.note("n")], epoch=1)
    tenant.anchor_open()
    tenant.append("open", [entries.note("n")], epoch=1)
    tenant.append("done", [entries.note("n"), entries.concluded("completed")], epoch=1)
    tenant.append("sealed", [entries.note("n"), entries.concluded("completed")], epoch=1, seal=True)
    return tenant


def anchor_of(tenant: Tenant, run: str, seq: int) -> LeafEntry:
    """What an anchor of this record says."""
    standing = tenant.standing(run)
    assert standing is not None
    [record] = tenant.read(run, start=seq, limit=1)
    return LeafEntry(LeafType.ANCHOR, standing.run_tag, seq, record.hash)


def forge_batch(tenant: Tenant, run: str, entry: LeafEntry, covered: int) -> None:
    """Append the leaf of a batch of this one entry, with everything that leads to it."""
    engine = engine_of(journal_of(tenant))
    counts = tables.TenantRow.decode("acme", rows(engine, tables.TENANTS)[b"acme"])
    index, leaf, stored = counts.leaves, batch_leaf([entry], covered=covered), all_rows(engine)
    added = tree.added(
        index, [leaf.hash()], lambda wanted: [stored[tables.node_place("acme", node)] for node in wanted]
    )
    change(
        engine,
        {
            (tables.LEAVES, tables.number_key("acme", index)): leaf.encode(),
            **{tables.node_place("acme", node): value for node, value in added},
            (tables.BATCHES, tables.batch_key("acme", index, 0)): BatchRow(entry, run).encode(),
            (tables.BATCHED, tables.position_key("acme", run, index)): bytes(tables.BATCH_NUMBER_BYTES),
            (tables.TENANTS, b"acme"): counts._replace(leaves=index + 1, batch=index).encode(),
        },
    )


def told(tenant: Tenant) -> str:
    return "\n".join(finding.what for finding in journal_of(tenant).check().damaged)


def test_a_batch_that_says_what_the_chains_say_is_sound(acme: Tenant) -> None:
    forge_batch(acme, "open", anchor_of(acme, "open", 3), covered=3)
    assert told(acme) == ""


@pytest.mark.parametrize(
    ("run", "seq", "changes", "covered", "says"),
    [
        ("open", 3, {"head": bytes(32)}, 3, "the entry attests another hash than the record's"),
        ("open", 3, {"seq": 4}, 3, "the entry attests record 4, which the run does not have"),
        ("open", 3, {"run_tag": bytes(32)}, 3, "the entry of the anchor batch is no anchor of the run"),
        ("open", 2, {}, 2, "the entry follows that of another anchor batch, at record 2"),
        ("open", 2, {}, 2, "the anchor batch covers arrival 2, and one before it covers 2"),
        ("open", 3, {}, 2, "the entries of the anchor batch do not give its leaf"),
        ("open", 3, {}, 5, "the entries of the anchor batch do not give its leaf"),
        ("done", 2, {}, 5, "the entry anchors a run that had ended"),
        ("sealed", 1, {}, 6, "the anchor batch follows the run's seal"),
    ],
)
def test_a_batch_that_says_what_the_chains_do_not_is_found(
    acme: Tenant, run: str, seq: int, changes: dict[str, bytes | int], covered: int, says: str
) -> None:
    entry = replace(anchor_of(acme, run, seq), **changes)  # type: ignore[arg-type]  # its members, as named above
    forge_batch(acme, run, entry, covered)
    assert says in told(acme)
