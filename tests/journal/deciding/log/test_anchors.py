"""Anchor batches: which runs they cover, what is proven through them, and what `check` holds them to."""

from __future__ import annotations

import random

import pytest
from tampering import change, engine_of, flipped, record_place, rows
from whole_journal import journal_of

from sealbook.journal import Corrupt, Journal, Tenant, entries, requests
from sealbook.journal.deciding.log.anchors import anchor_open
from sealbook.journal.deciding.overlay import Overlay
from sealbook.journal.schema import tables
from sealbook.merkle import LeafEntry, LeafType, verify_inclusion
from sealbook.merkle.anchor_batch import InnerProof
from sealbook.merkle.tree import Node


@pytest.fixture
def acme() -> Tenant:
    return Journal.in_memory().tenant("acme")


def note(tenant: Tenant, *runs: str) -> None:
    for run in runs:
        tenant.append(run, [entries.note("n")], epoch=1)


def hold(tenant: Tenant, run: str, seq: int, index: int) -> None:
    """The proof of the run's highest leaf leads over two paths to the root, and is of this record."""
    proof = tenant.inclusion_proof(run)
    assert proof is not None and proof.inner is not None and proof.inner_entry is not None
    standing = tenant.standing(run)
    assert standing is not None
    entry = LeafEntry.decode(proof.inner_entry)
    assert (proof.leaf_kind, proof.index, entry.seq) == ("anchor-batch", index, seq)
    assert (entry.type, entry.run_tag, entry.head) == (LeafType.ANCHOR, standing.run_tag, proof.head)
    InnerProof.parse(proof.inner.encode()).verify(entry)
    leaf = proof.inner.leaf.hash()
    assert proof.leaf_data == proof.inner.leaf.encode() and proof.leaf_hash == leaf
    verify_inclusion(leaf=leaf, index=proof.index, size=proof.size, proof=proof.proof, root=proof.root)
    assert proof.root == tenant.checkpoint().root


# --- which runs --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_thousand_open_runs_cost_one_leaf() -> None:
    journal = Journal.in_memory()
    acme = journal.tenant("acme")
    for start in range(0, 10_000, 500):
        runs = range(start, start + 500)
        acme.group([requests.append(f"r{number}", [entries.note("n")], epoch=1) for number in runs])
    batch = acme.anchor_open()
    assert batch is not None
    assert (batch.index, batch.runs, batch.arrival, batch.more) == (0, 10_000, 10_000, False)
    assert acme.checkpoint().size == 1
    hold(acme, "r77", 1, 0)


def test_nothing_is_anchored_when_no_open_run_has_moved(acme: Tenant) -> None:
    assert acme.anchor_open() is None
    note(acme, "a")
    assert acme.anchor_open() is not None
    assert acme.anchor_open() is None
    acme.append("sealed", [entries.concluded("completed")], epoch=1, seal=True)
    assert acme.anchor_open() is None
    assert acme.checkpoint().size == 2


def test_a_batch_has_the_runs_that_moved_since_the_last_one_alone(acme: Tenant) -> None:
    note(acme, "a", "b", "c")
    first = acme.anchor_open()
    note(acme, "b")
    second = acme.anchor_open()
    assert first is not None and second is not None
    assert (first.runs, first.arrival, second.runs, second.arrival) == (3, 3, 1, 4)
    hold(acme, "a", 1, 0)
    hold(acme, "b", 2, 1)


def test_a_run_that_has_concluded_for_good_is_left_to_its_seal(acme: Tenant) -> None:
    note(acme, "open")
    acme.append("done", [entries.concluded("completed")], epoch=1)
    acme.append("resumable", [entries.concluded("failed")], epoch=1)
    batch = acme.anchor_open()
    assert batch is not None and batch.runs == 2
    assert acme.inclusion_proof("done") is None
    hold(acme, "resumable", 1, batch.index)


def test_operator_acts_are_covered(acme: Tenant) -> None:
    acme.request_cancel("later", actor="ops")
    batch = acme.anchor_open()
    assert batch is not None and batch.runs == 1
    hold(acme, "~tenant", 1, 0)


def test_tenants_are_apart(acme: Tenant) -> None:
    other = journal_of(acme).tenant("acme2")
    note(acme, "a")
    note(other, "a", "b")
    batch = acme.anchor_open()
    assert batch is not None and batch.runs == 1
    assert other.checkpoint().size == 0


def test_what_the_same_commit_moved_is_covered(acme: Tenant) -> None:
    note(acme, "a")
    acme.group(
        [
            requests.append("a", [entries.note("n")], epoch=1),
            requests.append("new", [entries.note("n")], epoch=1),
            requests.anchor_open(),
            requests.append("a", [entries.note("n")], epoch=1),
        ]
    )
    hold(acme, "a", 2, 0)
    hold(acme, "new", 1, 0)
    again = acme.anchor_open()
    assert again is not None and (again.runs, again.arrival) == (1, 4)
    assert journal_of(acme).check().ok


@pytest.mark.parametrize("seed", range(3))
def test_more_runs_than_one_batch_takes_are_covered_by_those_after_it(acme: Tenant, seed: int) -> None:
    """However the runs were moved, the earliest arrivals come first, so that none is passed over."""
    chance = random.Random(seed)
    for _ in range(12):
        acme.group([requests.append(f"r{chance.randrange(150)}", [entries.note("n")], epoch=1) for _ in range(60)])
    engine, covered, taken = engine_of(journal_of(acme)), 0, set[str]()
    with engine.snapshot() as snapshot:
        overlay = Overlay(snapshot)
        while (batch := anchor_open(overlay, "acme", runs_max=40)) is not None:
            overlay.enter()
            assert covered < batch.arrival and batch.runs <= 40, f"seed {seed}"
            covered = batch.arrival
        written = overlay.writes().puts
    for (table, key), value in written.items():
        if table == tables.BATCHED:
            taken.add(tables.split_position_key(key)[1])
            assert len(value) == 4
    assert taken == {standing.run for standing in acme.runs(limit=1000)}, f"seed {seed}"


# --- proofs --------------------------------------------------------------------------------------------------------


def test_the_highest_leaf_is_the_answer_be_it_the_runs_own_or_a_batchs(acme: Tenant) -> None:
    note(acme, "a", "b")
    acme.anchor("a")
    acme.anchor_open()
    note(acme, "a")
    acme.anchor("a")
    kinds = [
        proof and (proof.leaf_kind, proof.index, proof.seq) for proof in map(acme.inclusion_proof, "aaaa", range(4))
    ]
    assert kinds == [None, ("anchor", 0, 1), ("anchor-batch", 1, 1), ("anchor", 2, 2)]
    acme.append("a", [entries.concluded("completed")], epoch=1, seal=True)
    sealed = acme.inclusion_proof("a")
    assert sealed is not None and (sealed.leaf_kind, sealed.inner) == ("seal", None)
    hold(acme, "b", 1, 1)


def test_a_batch_does_not_move_a_runs_own_leaf(acme: Tenant) -> None:
    note(acme, "a")
    own = acme.anchor("a")
    acme.anchor_open()
    assert acme.anchor("a") == own


# --- damage --------------------------------------------------------------------------------------------------------


def test_a_head_is_recomputed_before_it_is_attested(acme: Tenant) -> None:
    note(acme, "a", "b")
    engine = engine_of(journal_of(acme))
    _, key = record_place(engine, "acme", "b", 1)
    value = rows(engine, tables.JOURNAL)[key]
    change(engine, {(tables.JOURNAL, key): flipped(value, len(value) - 1)})
    with pytest.raises(Corrupt, match="the hash does not cover"):
        acme.anchor_open()
    assert acme.checkpoint().size == 0


@pytest.mark.parametrize("table", [tables.BATCHES, tables.BATCHED, tables.LEAVES])
def test_a_proof_through_rows_that_were_changed_is_refused(acme: Tenant, table: str) -> None:
    note(acme, "a", "b", "c")
    acme.anchor_open()
    engine = engine_of(journal_of(acme))
    for key, value in rows(engine, table).items():
        if table == tables.BATCHED and key != tables.position_key("acme", "a", 0):
            continue
        for position in range(len(value)):
            if table == tables.BATCHES and position >= 90 and value[90:] != b"a":
                continue  # the name of another run, which is in no proof of this one
            change(engine, {(table, key): flipped(value, position)})
            with pytest.raises(Corrupt):
                acme.inclusion_proof("a")
        change(engine, {(table, key): value})


def test_one_run_is_verified_down_to_the_newest_batch_that_has_it(acme: Tenant) -> None:
    note(acme, "a", "b")
    acme.anchor_open()
    note(acme, "a")
    acme.anchor_open()
    report = acme.verify("a")
    assert report.ok and report.leaves == 2
    assert any("1 earlier anchor batches" in line for line in report.not_checked)
    engine = engine_of(journal_of(acme))
    place = (tables.NODES, tables.node_place("acme", Node(0, 0))[1])
    change(engine, {place: bytes(32)})
    assert [finding.what for finding in acme.verify("a").damaged] != []
