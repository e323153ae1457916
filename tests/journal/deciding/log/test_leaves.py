"""The tenant's log: seals, anchors, checkpoints and proofs, held against a Merkle tree written as the RFC writes it."""

from __future__ import annotations

import hashlib
import random

import pytest
from refusals import refused_without_a_trace

from sealbook.journal import (
    Concluded,
    Corrupt,
    Fenced,
    InvalidInput,
    Journal,
    LeaseHeld,
    NotConcluded,
    NotFound,
    Tenant,
    entries,
)
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.records.chain import run_tag
from sealbook.journal.schema import tables
from sealbook.journal.testing import ManualClock, all_rows, delete_records, rows, tamper
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.tree import Node
from sealbook.merkle.verify import verify_consistency, verify_inclusion

SEALING = ["done", "cancelled", "x"]
LEFT_OPEN = ["failed", "exhausted", "quarantined", "withheld"]


def naive_root(leaves: list[bytes]) -> bytes:
    """RFC 6962 section 2.1, as it is written."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\1" + naive_root(leaves[:split]) + naive_root(leaves[split:])).digest()


def entry(kind: int, tag: bytes, seq: int, head: bytes) -> bytes:
    """A leaf entry, as DESIGN section 4 draws it."""
    return b"sealbook/leaf/v1\0" + bytes([kind]) + tag + seq.to_bytes(8, "big") + head


def sealed(acme: Tenant, run: str, outcome: str = "done") -> bytes:
    """Seal a new run; the leaf entry that it must have."""
    made = acme.append(run, [entries.admitted(), entries.concluded(outcome)], epoch=1, seal=True)
    return entry(1, run_tag(made[0].salt or b"", acme.name, run), 2, made[-1].hash)


def anchored(acme: Tenant, run: str) -> bytes:
    """Append to a run and anchor it; the leaf entry that it must have."""
    [record] = acme.append(run, [entries.note("x")], epoch=1)
    acme.anchor(run)
    return entry(2, run_tag(acme.read(run)[0].salt or b"", acme.name, run), record.seq, record.hash)


# --- seal (A48, A92 to A96, B1, D3, D7, D22) ------------------------------------------------------------------------


def test_an_unknown_run_and_one_without_records_are_not_sealed(acme: Tenant, engine: MemoryEngine) -> None:
    refused_without_a_trace(engine, NotFound, acme.seal, "nobody")
    refused_without_a_trace(engine, NotFound, acme.seal, "nobody", epoch=9)
    lease = acme.acquire("r", owner="w", ttl=10)
    refused_without_a_trace(engine, Fenced, acme.seal, "r", epoch=9)
    refused_without_a_trace(engine, NotConcluded, acme.seal, "r")
    error = refused_without_a_trace(engine, NotConcluded, acme.seal, "r", lease=lease)
    assert (error.last_kind, error.outcome) == (None, None)


@pytest.mark.parametrize(
    "last", [entries.admitted(), entries.note("x"), entries.suspended(), entries.entry("RunEnded")]
)
def test_a_run_whose_last_record_is_no_conclusion_is_not_sealed(
    acme: Tenant, engine: MemoryEngine, last: entries.Entry
) -> None:
    acme.append("r", [last], epoch=1)
    error = refused_without_a_trace(engine, NotConcluded, acme.seal, "r")
    assert error.last_kind == last.kind
    assert last.kind in str(error)


def test_a_run_that_went_on_after_a_conclusion_is_not_sealed(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.concluded("failed")], epoch=1)
    acme.append("r", [entries.note("again")], epoch=1)
    error = refused_without_a_trace(engine, NotConcluded, acme.seal, "r")
    assert (error.last_kind, error.outcome) == ("Note", None)


@pytest.mark.parametrize("outcome", LEFT_OPEN)
def test_four_outcomes_leave_a_run_open_and_anchor_its_conclusion(
    acme: Tenant, engine: MemoryEngine, outcome: str
) -> None:
    """Behaviour D11."""
    made = acme.append("r", [entries.admitted(), entries.concluded(outcome)], epoch=1)
    standing = acme.standing("r")
    assert standing is not None
    assert (standing.highest_leaf, standing.highest_leaf_seq, standing.sealed) == (0, 2, False)
    assert rows(engine, tables.LEAVES)[0][1] == entry(2, standing.run_tag, 2, made[-1].hash)
    error = refused_without_a_trace(engine, NotConcluded, acme.seal, "r")
    assert error.outcome == outcome
    assert "resumption" in str(error)


@pytest.mark.parametrize("outcome", SEALING)
def test_every_other_outcome_seals_and_is_not_anchored_before(acme: Tenant, outcome: str) -> None:
    made = acme.append("r", [entries.admitted(), entries.concluded(outcome)], epoch=1)
    assert acme.checkpoint().size == 0
    leaf = acme.seal("r")
    assert (leaf.run, leaf.index, leaf.kind, leaf.seq, leaf.head) == ("r", 0, "seal", 2, made[-1].hash)
    standing = acme.standing("r")
    assert standing is not None
    assert (standing.seal, standing.highest_leaf) == (0, 0)


def test_the_first_seal_wins_and_later_ones_answer_with_it(
    acme: Tenant, engine: MemoryEngine, clock: ManualClock
) -> None:
    lease = acme.acquire("r", owner="w", ttl=10)
    acme.append("r", [entries.admitted(), entries.concluded("done")], lease=lease)
    first = acme.seal("r", lease=lease)
    sealed(acme, "other")
    before = all_rows(engine)
    clock.advance(100)
    for again in (acme.seal("r"), acme.seal("r", lease=lease), acme.seal("r", epoch=99)):
        assert again == first
    assert all_rows(engine) == before


def test_a_seal_is_fenced(acme: Tenant, engine: MemoryEngine, clock: ManualClock) -> None:
    first = acme.acquire("r", owner="a", ttl=10)
    acme.append("r", [entries.admitted(), entries.concluded("done")], lease=first)
    refused_without_a_trace(engine, LeaseHeld, acme.seal, "r")
    clock.advance(10)
    second = acme.acquire("r", owner="b", ttl=10)
    for epoch in (first.epoch, second.epoch + 1):
        refused_without_a_trace(engine, Fenced, acme.seal, "r", epoch=epoch)
    assert acme.seal("r", lease=second).index == 0


def test_a_run_that_nobody_holds_is_sealed_by_anybody(acme: Tenant, clock: ManualClock) -> None:
    for run in ("released", "expired", "never"):
        if run != "never":
            lease = acme.acquire(run, owner="w", ttl=10)
            acme.append(run, [entries.admitted(), entries.concluded("done")], lease=lease)
            if run == "released":
                acme.release(lease)
            else:
                clock.advance(10)
        else:
            acme.append(run, [entries.admitted(), entries.concluded("done")], epoch=1)
        assert acme.seal(run).kind == "seal"
        assert acme.lease(run) is None


def test_a_seal_touches_no_outcome_row(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.admitted(), entries.concluded("done")], epoch=1)
    before = rows(engine, "outcome")
    acme.seal("r")
    assert rows(engine, "outcome") == before
    assert [standing.run for standing in acme.by_outcome("done")] == ["r"]


def test_positions_are_dense_per_tenant_and_tenants_never_interleave(journal: Journal) -> None:
    tenants = [journal.tenant(name) for name in ("a", "b", "c")]
    for number in range(5):
        for tenant in tenants[: 1 + number % 3]:
            sealed(tenant, f"r{number}")
    for tenant, size in zip(tenants, (5, 3, 1), strict=True):
        assert tenant.checkpoint().size == size
        positions = [position for position in tenant.log_positions([f"r{n}" for n in range(5)]) if position is not None]
        assert positions == list(range(size))


# --- anchors (D12, D25) ---------------------------------------------------------------------------------------------


def test_an_anchor_attests_an_open_run_and_needs_no_lease(acme: Tenant) -> None:
    lease = acme.acquire("r", owner="w", ttl=10)
    [record] = acme.append("r", [entries.admitted()], lease=lease)
    leaf = acme.anchor("r")
    assert (leaf.kind, leaf.index, leaf.seq, leaf.head) == ("anchor", 0, 1, record.hash)
    assert acme.lease("r") == lease
    acme.append("r", [entries.note("x")], lease=lease)


def test_an_unmoved_head_is_anchored_once(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.admitted()], epoch=1)
    leaf = acme.anchor("r")
    before = all_rows(engine)
    assert acme.anchor("r") == leaf
    assert all_rows(engine) == before
    acme.append("r", [entries.note("x")], epoch=1)
    assert (acme.anchor("r").index, acme.anchor("r").seq) == (1, 2)


def test_a_conclusion_that_left_a_run_open_is_anchored_already(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.admitted(), entries.concluded("failed")], epoch=1)
    before = all_rows(engine)
    assert acme.anchor("r").index == 0
    assert all_rows(engine) == before


def test_a_run_that_must_be_sealed_is_not_anchored(acme: Tenant, engine: MemoryEngine) -> None:
    refused_without_a_trace(engine, NotFound, acme.anchor, "nobody")
    acme.acquire("leased", owner="w", ttl=10)
    refused_without_a_trace(engine, NotFound, acme.anchor, "leased")
    acme.append("r", [entries.admitted(), entries.concluded("done")], epoch=1)
    refused_without_a_trace(engine, Concluded, acme.anchor, "r")


def test_a_sealed_runs_anchor_is_answered_with_the_seal(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.admitted()], epoch=1)
    acme.anchor("r")
    acme.append("r", [entries.concluded("done")], epoch=1)
    leaf = acme.seal("r")
    before = all_rows(engine)
    assert acme.anchor("r") == leaf
    assert all_rows(engine) == before


def test_the_tenants_own_run_is_anchored_like_any_open_one(acme: Tenant) -> None:
    acme.request_cancel("r", actor="ann")
    assert acme.anchor("~tenant").index == 0
    assert acme.inclusion_proof("~tenant") is not None


# --- the tree (A108 to A112, D6, D12, D15) --------------------------------------------------------------------------


def test_a_checkpoint_is_origin_size_and_root_over_the_leaf_entries(acme: Tenant) -> None:
    leaves: list[bytes] = []
    assert acme.checkpoint() == Checkpoint("sealbook/acme", 0, hashlib.sha256(b"").digest())
    for number in range(20):
        leaves.append(sealed(acme, f"s{number}") if number % 3 else anchored(acme, f"a{number % 2}"))
        assert acme.checkpoint() == Checkpoint("sealbook/acme", number + 1, naive_root(leaves))


def test_leaves_are_stored_as_they_were_made_and_every_complete_subtree_with_them(
    acme: Tenant, engine: MemoryEngine
) -> None:
    leaves = [sealed(acme, f"r{number}") for number in range(13)]
    assert [value for _, value in rows(engine, tables.LEAVES)] == leaves
    assert all(len(leaf) == 90 for leaf in leaves)
    assert len(rows(engine, tables.NODES)) == 2 * 13 - (13).bit_count()


@pytest.mark.parametrize("seed", [3, 11])
def test_a_runs_highest_leaf_is_proved_at_every_size(acme: Tenant, seed: int) -> None:
    """Behaviour D12: at an older size the answer is the highest leaf below it, with its type and seq."""
    chance = random.Random(seed)
    leaves: list[bytes] = []
    history: list[tuple[str, int]] = []  # of each leaf: run, seq
    for number in range(25):
        run = f"a{chance.randrange(3)}" if chance.random() < 0.7 else f"s{number}"
        leaves.append(anchored(acme, run) if run.startswith("a") else sealed(acme, run))
        history.append((run, int.from_bytes(leaves[-1][50:58], "big")))
    assert any(run.startswith("a") for run, _ in history)
    for size in range(len(leaves) + 1):
        root = naive_root(leaves[:size])
        for run in {run for run, _ in history}:
            proof = acme.inclusion_proof(run, size)
            below = [index for index in range(size) if history[index][0] == run]
            if not below:
                assert proof is None, f"seed {seed}"
                continue
            assert proof is not None
            assert (proof.index, proof.seq, proof.size) == (below[-1], history[below[-1]][1], size), f"seed {seed}"
            assert proof.leaf_kind == ("anchor" if run.startswith("a") else "seal")
            assert (proof.leaf_data, proof.root) == (leaves[below[-1]], root)
            assert proof.leaf_hash == hashlib.sha256(b"\0" + proof.leaf_data).digest()
            verify_inclusion(leaf=proof.leaf_hash, index=proof.index, size=size, proof=proof.proof, root=root)


def test_the_log_grows_consistently_from_every_size(acme: Tenant) -> None:
    roots = [acme.checkpoint().root]
    for number in range(17):
        sealed(acme, f"r{number}")
        roots.append(acme.checkpoint().root)
    for old in range(18):
        proof = acme.consistency_proof(old)
        assert (proof.old, proof.new, proof.old_root, proof.new_root) == (old, 17, roots[old], roots[17])
        if old in (0, 17):
            assert proof.proof == []
        if old:
            verify_consistency(old_size=old, new_size=17, old_root=roots[old], new_root=roots[17], proof=proof.proof)
        else:
            with pytest.raises(VerificationError, match="old size is 0"):
                verify_consistency(old_size=0, new_size=17, old_root=roots[0], new_root=roots[17], proof=proof.proof)


@pytest.mark.parametrize("size", [2, 3, 2**63 - 1])
def test_a_size_that_the_log_has_not_reached_is_refused(acme: Tenant, size: int) -> None:
    sealed(acme, "r")
    with pytest.raises(InvalidInput, match="exceeds the log's size, 1"):
        acme.consistency_proof(size)
    with pytest.raises(InvalidInput, match="exceeds the log's size, 1"):
        acme.inclusion_proof("r", size)


@pytest.mark.parametrize("size", [-1, 2**63, 2**64, True, 1.0, "1"])
def test_a_size_is_a_number(acme: Tenant, size: int) -> None:
    sealed(acme, "r")
    with pytest.raises(InvalidInput):
        acme.consistency_proof(size)
    with pytest.raises(InvalidInput):
        acme.inclusion_proof("r", size)


def test_a_run_without_a_leaf_has_no_proof(acme: Tenant) -> None:
    acme.append("r", [entries.admitted()], epoch=1)
    assert acme.inclusion_proof("r") is None
    assert acme.inclusion_proof("r", 0) is None


def test_positions_are_those_of_seals_in_the_order_asked(acme: Tenant) -> None:
    acme.append("open", [entries.admitted()], epoch=1)
    acme.anchor("open")
    for run in ("b", "a"):
        sealed(acme, run)
    assert acme.log_positions(["a", "open", "b", "nobody", "a"]) == [2, None, 1, None, 2]
    assert acme.log_positions([]) == []


def test_a_leaf_stays_in_the_log_when_its_run_is_gone(acme: Tenant, engine: MemoryEngine) -> None:
    """Behaviour D15: never skipped, never renumbered."""
    leaves = [sealed(acme, run) for run in ("a", "b", "c")]
    delete_records(engine, "acme", "b")
    assert acme.checkpoint().root == naive_root(leaves)
    assert acme.log_positions(["a", "b", "c"]) == [0, 1, 2]
    with pytest.raises(Corrupt):
        acme.read("b")


def test_leaves_are_read_in_pages_by_their_numbers(acme: Tenant, engine: MemoryEngine) -> None:
    leaves = [sealed(acme, f"r{number}") for number in range(5)]
    for start in range(7):
        for limit in range(7):
            assert acme.leaf_entries(start, limit) == leaves[start : start + limit]
    for bad in (-1, True, 2**63):
        with pytest.raises(InvalidInput):
            acme.leaf_entries(bad, 1)
        with pytest.raises(InvalidInput):
            acme.leaf_entries(0, bad)
    for index in range(5):
        key = tables.number_key("acme", index)
        tamper(engine, tables.LEAVES, key, None)
        with pytest.raises(Corrupt):
            acme.leaf_entries(0, 5)
        tamper(engine, tables.LEAVES, tables.number_key("acme", 5), b"planted")
        with pytest.raises(Corrupt):
            acme.leaf_entries(0, 6)
        tamper(engine, tables.LEAVES, tables.number_key("acme", 5), None)
        tamper(engine, tables.LEAVES, key, leaves[index])


def test_nodes_are_read_in_the_order_asked(acme: Tenant) -> None:
    leaves = [sealed(acme, f"r{number}") for number in range(5)]
    nodes = [Node(2, 0), Node(0, 4), Node(1, 1)]
    assert list(acme.tree_nodes(nodes)) == [naive_root(leaves[:4]), naive_root(leaves[4:]), naive_root(leaves[2:4])]
    assert list(acme.tree_nodes([])) == []


def test_a_missing_or_damaged_leaf_or_node_is_corrupt_and_named(acme: Tenant, engine: MemoryEngine) -> None:
    for run in ("a", "b", "c"):
        sealed(acme, run)
    leaf = tables.number_key("acme", 1)
    stored = dict(rows(engine, tables.LEAVES))[leaf]
    other = dict(rows(engine, tables.LEAVES))[tables.number_key("acme", 0)]
    for value in (None, b"", stored[:-1], stored[:17] + b"\3" + stored[18:], stored[:17] + b"\7" + stored[18:], other):
        tamper(engine, tables.LEAVES, leaf, value)
        for verb in (lambda: acme.inclusion_proof("b"), lambda: acme.seal("b")):
            with pytest.raises(Corrupt) as caught:
                verb()
            assert (caught.value.table, caught.value.key) == (tables.LEAVES, leaf)
        tamper(engine, tables.LEAVES, leaf, stored)
    for key, node in rows(engine, tables.NODES):
        tamper(engine, tables.NODES, key, node[:-1])
        with pytest.raises(Corrupt) as caught:
            [acme.consistency_proof(size) for size in range(1, 4)]
        assert (caught.value.table, caught.value.key) == (tables.NODES, key)
        tamper(engine, tables.NODES, key, node)


def test_time_plays_no_part_in_the_log(acme: Tenant, clock: ManualClock) -> None:
    leaves = []
    for number in range(4):
        clock.step_wall(-86_400)
        leaves.append(sealed(acme, f"r{number}"))
    assert acme.checkpoint().root == naive_root(leaves)
    assert acme.log_positions([f"r{number}" for number in range(4)]) == [0, 1, 2, 3]
