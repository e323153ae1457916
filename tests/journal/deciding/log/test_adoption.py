"""A log that goes on under a new origin: its first leaf, what moves, what is refused, and who follows it."""

from __future__ import annotations

import random

import pytest
from published_log import publish, signed_note
from tampering import all_rows, change, engine_of, forge, random_history
from whole_journal import journal_of

from sealbook.journal import Busy, Corrupt, InvalidInput, Journal, Tenant, entries, requests
from sealbook.journal.deciding.acts import log_adoption_of
from sealbook.journal.schema import tables
from sealbook.journal.schema.origins import OriginsCoincide
from sealbook.merkle import EMPTY_ROOT, Checkpoint, LeafEntry, check_run_rules, tree, verify_inclusion
from sealbook.merkle.entry import adopted_leaf
from sealbook.merkle.monitor import check_handed_over

ROOT = bytes(range(32))


@pytest.fixture
def acme() -> Tenant:
    tenant = Journal.in_memory(origin="example.com/log").tenant("acme")
    tenant.append("open", [entries.note("n")], epoch=1)
    tenant.anchor("open")
    tenant.append("done", [entries.concluded("completed")], epoch=1, seal=True)
    tenant.append("open", [entries.note("n")], epoch=1)
    tenant.anchor_open()
    return tenant


def last(tenant: Tenant, size: int = 9, root: bytes = ROOT) -> bytes:
    """A checkpoint of the tenant's log that the store does not reach."""
    return signed_note(Checkpoint(tenant.origin, size, root))


def logged(tenant: Tenant) -> list[LeafEntry]:
    return [LeafEntry.decode(data) for data in tenant.leaf_entries(0, 1000)]


# --- what an adoption does -------------------------------------------------------------------------------------------


def test_the_first_leaf_states_the_old_checkpoint_and_the_stores_leaves_follow(acme: Tenant) -> None:
    old, before = Checkpoint(acme.origin, 9, ROOT), logged(acme)
    adopted = acme.adopt_log("example.com/log-2/acme", last(acme), actor="ada", reason="restored")
    assert (adopted.origin, adopted.size, adopted.old) == ("example.com/log-2/acme", 4, old)
    assert logged(acme) == [adopted_leaf(old.origin, 9, ROOT), *before]
    check_run_rules(logged(acme))
    check_handed_over(logged(acme)[0], old)
    checkpoint = acme.checkpoint()
    assert (checkpoint.origin, checkpoint.size) == ("example.com/log-2/acme", 4)
    assert journal_of(acme).check().ok


def test_every_proof_holds_in_the_new_log(acme: Tenant) -> None:
    acme.adopt_log("elsewhere", last(acme), actor="ada")
    for run, index in (("open", 3), ("done", 2)):
        proof = acme.inclusion_proof(run)
        assert proof is not None and proof.index == index
        verify_inclusion(leaf=proof.leaf_hash, index=index, size=4, proof=proof.proof, root=acme.checkpoint().root)
        assert acme.verify(run).ok
    direct = acme.inclusion_proof("open", size=3)
    assert direct is not None and (direct.leaf_kind, direct.index) == ("anchor", 1)
    assert acme.log_positions(["open", "done"]) == [None, 2]


def test_the_log_goes_on_and_can_be_signed_and_published(acme: Tenant) -> None:
    publish(acme)
    acme.adopt_log("elsewhere", last(acme), actor="ada")
    assert acme.signed_checkpoint() is None and acme.published_checkpoint() is None
    acme.append("more", [entries.concluded("completed")], epoch=1, seal=True)
    batch = acme.anchor_open()
    assert batch is not None and batch.runs == 1  # the run of operator acts: the act itself
    assert publish(acme).startswith(b"elsewhere\n6\n")
    assert journal_of(acme).check().ok


def test_the_act_is_recorded_with_the_checkpoint_as_it_was_signed(acme: Tenant) -> None:
    note, old_origin = last(acme), acme.origin
    acme.adopt_log("elsewhere", note, actor="ada", reason="restored")
    [record] = acme.read("~tenant")
    assert record.kind == "LogAdopted"
    assert record.data == {
        "origin": "elsewhere",
        "old_origin": old_origin,
        "old_size": 9,
        "old_root": ROOT,
        "old_checkpoint": note.decode(),
        "actor": "ada",
        "reason": "restored",
    }


def test_a_log_may_go_on_again_and_its_first_leaf_gives_way(acme: Tenant) -> None:
    before = logged(acme)
    acme.adopt_log("second", last(acme), actor="ada")
    acme.adopt_log("third", last(acme, 12), actor="ada")
    assert logged(acme) == [adopted_leaf("second", 12, ROOT), *before]
    assert (acme.origin, acme.log_positions(["done"])) == ("third", [2])
    assert journal_of(acme).check().ok


def test_other_tenants_are_left_alone(acme: Tenant) -> None:
    other = journal_of(acme).tenant("acme2")
    other.append("done", [entries.concluded("completed")], epoch=1, seal=True)
    publish(other)
    engine = engine_of(journal_of(acme))
    before = {place: value for place, value in all_rows(engine).items() if place[1].startswith(b"acme2")}
    acme.adopt_log("elsewhere", last(acme), actor="ada")
    assert {place: value for place, value in all_rows(engine).items() if place[1].startswith(b"acme2")} == before
    assert other.origin == "example.com/log/acme2"


def test_an_empty_log_may_go_on(acme: Tenant) -> None:
    new = journal_of(acme).tenant("new")
    new.adopt_log("elsewhere", last(new), actor="ada")
    assert (new.origin, new.checkpoint().size) == ("elsewhere", 1)
    assert journal_of(acme).check().ok


@pytest.mark.parametrize("seeds", [range(20), range(20, 40)], ids=str)
def test_random_stores_are_sound_after_an_adoption_and_go_on(seeds: range) -> None:
    for seed in seeds:
        journal = random_history(seed)
        chance = random.Random(seed)
        for name in journal.tenants():
            tenant = journal.tenant(name)
            for turn in range(chance.choice([1, 2])):
                tenant.adopt_log(f"elsewhere/{turn}/{name}", last(tenant, 10_000 + turn), actor="ada")
                tenant.append(f"new {turn}", [entries.concluded("completed")], epoch=1, seal=True)
                tenant.anchor_open()
        assert [str(finding) for finding in journal.check().findings] == [], f"seed {seed}"


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_log_that_can_be_extended_is_not_given_up(acme: Tenant) -> None:
    with pytest.raises(InvalidInput, match="is one that the log extends"):
        acme.adopt_log("elsewhere", publish(acme), actor="ada")
    with pytest.raises(InvalidInput, match="is not the last one: size 3 was signed"):
        acme.adopt_log("elsewhere", last(acme, 2), actor="ada")
    acme.adopt_log("elsewhere", last(acme, 3), actor="ada")  # another root: the log was forked
    assert acme.checkpoint().size == 4


@pytest.mark.parametrize(
    "origin", ["example.com/log", "example.com/log/acme", "example.com/log/other", "example.com/log/new-one"]
)
def test_an_origin_that_another_log_has_or_could_have_is_refused(acme: Tenant, origin: str) -> None:
    journal_of(acme).tenant("other").append("r", [entries.note("n")], epoch=1)
    with pytest.raises(OriginsCoincide):
        acme.adopt_log(origin, last(acme), actor="ada")
    other = journal_of(acme).tenant("other")
    other.adopt_log("elsewhere", last(other), actor="ada")
    with pytest.raises(OriginsCoincide, match="tenant other"):
        acme.adopt_log("elsewhere", last(acme), actor="ada")


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        (signed_note(Checkpoint("example.com/log/other", 9, ROOT)), "is of another log than"),
        (b"example.com/log/acme\n9\n", "old checkpoint"),
        (signed_note(Checkpoint("example.com/log/acme", 0, EMPTY_ROOT)), "is of an empty log"),
    ],
)
def test_what_is_no_checkpoint_of_the_log_is_refused(acme: Tenant, note: bytes, reason: str) -> None:
    before = all_rows(engine_of(journal_of(acme)))
    with pytest.raises(InvalidInput, match=reason):
        acme.adopt_log("elsewhere", note, actor="ada")
    assert all_rows(engine_of(journal_of(acme))) == before


def test_an_adoption_stands_alone_in_its_commit(acme: Tenant) -> None:
    note = last(acme)
    old = Checkpoint(acme.origin, 9, ROOT)
    before = all_rows(engine_of(journal_of(acme)))
    with pytest.raises(Busy):
        acme.group(
            [
                requests.append("open", [entries.note("n")], epoch=1),
                requests.adopt_log("elsewhere", old, note, actor="ada", reason=""),
            ]
        )
    assert all_rows(engine_of(journal_of(acme))) == before


# --- what check holds it to ------------------------------------------------------------------------------------------


def test_an_act_that_states_no_checkpoint_is_found(acme: Tenant) -> None:
    acme.adopt_log("elsewhere", last(acme), actor="ada")
    forge(journal_of(acme), "acme", "~tenant", "LogAdopted", {"origin": "x"}, epoch=0)
    assert any("is no adoption of a log" in finding.what for finding in journal_of(acme).check().damaged)


def test_an_origin_that_is_not_the_records_is_found(acme: Tenant) -> None:
    acme.adopt_log("elsewhere", last(acme), actor="ada")
    place = (tables.ORIGINS, b"acme")
    change(engine_of(journal_of(acme)), {place: all_rows(engine_of(journal_of(acme)))[place][:8] + b"another"})
    [finding] = journal_of(acme).check().damaged
    assert (finding.table, finding.what) == (tables.ORIGINS, "the origin is not the one that the record says")


def test_a_first_leaf_that_adopts_something_else_is_found(acme: Tenant) -> None:
    engine, place = engine_of(journal_of(acme)), (tables.LEAVES, tables.number_key("acme", 0))
    acme.adopt_log("elsewhere", last(acme), actor="ada")
    leaf = adopted_leaf("example.com/log/acme", 8, ROOT)
    hashes = [leaf.hash(), *(each.hash() for each in logged(acme)[1:])]
    nodes = {tables.node_place("acme", node): value for node, value in tree.added(0, hashes, lambda wanted: [])}
    change(engine, {place: leaf.encode(), **nodes})
    whats = {finding.what for finding in journal_of(acme).check().damaged}
    assert "the first leaf is not the one that adopts the old log" in whats


def test_what_an_act_says_is_read_back(acme: Tenant) -> None:
    acme.adopt_log("elsewhere", last(acme), actor="ada")
    [record] = acme.read("~tenant")
    assert log_adoption_of(record) == ("elsewhere", logged(acme)[0])
    for name, value in (("old_size", 8), ("old_root", bytes(32)), ("old_origin", "x"), ("old_checkpoint", 7)):
        with pytest.raises(Corrupt, match="is no adoption of a log"):
            log_adoption_of(record._replace(data={**record.data, name: value}))
