"""The store log: what is gathered into it and when, what is proven through it, and what `check` holds it to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from blake3 import blake3
from published_log import publish, signed_note
from tampering import all_rows, change, changed, engine_of, flipped, rows

from sealbook.journal import Corrupt, GatheredHead, InvalidInput, InvalidName, Journal, NotFound, Tenant, entries
from sealbook.journal.deciding.log.promises import Consistent, PublishedAhead, PublishedDiffers
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Place
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.journal.records.chain import tenant_tag
from sealbook.journal.records.names import STORE_LOG
from sealbook.journal.schema import tables
from sealbook.journal.schema.origins import OriginsCoincide
from sealbook.journal.schema.tables import TenantRow
from sealbook.journal.testing import ManualClock
from sealbook.merkle import Checkpoint, LeafEntry, check_run_rules, tree, verify_inclusion
from sealbook.merkle.keys import SignatureLine
from sealbook.merkle.tenant_head import TenantHead

BASE, STORE_ORIGIN = "example.com/log", "example.com/store"


@pytest.fixture
def journal() -> Journal:
    return Journal.in_memory(origin=BASE, store_origin=STORE_ORIGIN)


def seal(tenant: Tenant, *runs: str) -> None:
    for run in runs:
        tenant.append(run, [entries.concluded("completed")], epoch=1, seal=True)


def heads(journal: Journal) -> list[TenantHead]:
    return [TenantHead.decode(data) for data in journal.store_log.leaf_entries(0, 1000)]


def lineage(journal: Journal) -> bytes:
    return journal.view.setting.identity.lineage_id


# --- what is gathered ------------------------------------------------------------------------------------------------


def test_each_tenant_gets_one_leaf_that_says_what_its_log_has_come_to(journal: Journal) -> None:
    acme, beta = journal.tenant("acme"), journal.tenant("beta")
    seal(acme, "a", "b", "c")
    seal(beta, "a")
    gathered = journal.store_log.gather()
    assert {head.tenant: (head.size, head.root) for head in gathered} == {
        "acme": (3, acme.checkpoint().root),
        "beta": (1, beta.checkpoint().root),
    }
    assert [head.index for head in gathered] == [0, 1]
    assert [(head.size, head.root) for head in heads(journal)] == [(head.size, head.root) for head in gathered]
    checkpoint = journal.store_log.checkpoint()
    assert (checkpoint.origin, checkpoint.size) == (STORE_ORIGIN, 2)
    nodes = dict(tree.added(0, [head.hash() for head in heads(journal)], lambda wanted: []))
    assert checkpoint.root == tree.root(2, lambda wanted: [nodes[node] for node in wanted])
    assert journal.check().ok


def test_nothing_is_gathered_when_no_log_has_grown(journal: Journal) -> None:
    assert journal.store_log.gather() == []
    acme = journal.tenant("acme")
    acme.append("open", [entries.note("n")], epoch=1)
    assert journal.store_log.gather() == []
    acme.anchor("open")
    assert len(journal.store_log.gather()) == 1
    before = all_rows(engine_of(journal))
    assert journal.store_log.gather() == []
    assert all_rows(engine_of(journal)) == before


def test_a_log_that_has_grown_gets_a_larger_head_and_the_others_none(journal: Journal) -> None:
    acme, beta = journal.tenant("acme"), journal.tenant("beta")
    seal(acme, "a")
    seal(beta, "a")
    journal.store_log.gather()
    seal(acme, "b", "c")
    assert journal.store_log.gather() == [GatheredHead("acme", 2, 3, acme.checkpoint().root)]
    assert journal.store_log.head("acme") == (2, heads(journal)[2])
    assert journal.store_log.head("beta", 2) == journal.store_log.head("beta")
    check_run_rules(heads(journal))
    assert journal.check().ok


def test_the_store_log_needs_no_tenant(journal: Journal) -> None:
    assert journal.store_log.checkpoint() == Checkpoint(STORE_ORIGIN, 0, journal.tenant("none").checkpoint().root)
    assert journal.store_log.head("acme") is None and journal.store_log.tags() == {}
    publish(journal.store_log)
    assert journal.check().ok and journal.tenants() == []


def test_the_store_log_is_no_tenant(journal: Journal) -> None:
    seal(journal.tenant("acme"), "a")
    journal.store_log.gather()
    assert journal.tenants() == ["acme"]
    assert (journal.info()["tenants"], journal.info()["store_origin"]) == (1, STORE_ORIGIN)
    assert journal.check().tenants == 1
    with pytest.raises(InvalidName):
        journal.tenant(STORE_LOG)
    with pytest.raises(InvalidName):
        journal.store_log.head(STORE_LOG)


def test_a_tag_is_made_of_the_stores_lineage_and_tells_no_name(journal: Journal) -> None:
    seal(journal.tenant("acme"), "a")
    journal.store_log.gather()
    [head] = heads(journal)
    message = lineage(journal) + (4).to_bytes(8) + b"acme" + bytes(8)
    assert head.tag == blake3(message, derive_key_context="sealbook 2026 tenant tag v1").digest()
    assert journal.store_log.tags() == {head.tag: "acme"}
    other = Journal.in_memory(origin=BASE, store_origin=STORE_ORIGIN)
    seal(other.tenant("acme"), "a")
    other.store_log.gather()
    assert heads(other)[0].tag != head.tag


def test_heads_that_are_gathered_together_stand_in_the_order_of_their_tags(journal: Journal) -> None:
    for number in range(20):
        seal(journal.tenant(f"tenant-{number}"), "a")
    journal.store_log.gather()
    tags = [head.tag for head in heads(journal)]
    assert tags == sorted(tags) and len(set(tags)) == 20


def test_a_log_that_went_on_under_a_new_origin_has_another_tag(journal: Journal) -> None:
    acme = journal.tenant("acme")
    seal(acme, "a", "b")
    journal.store_log.gather()
    for number, origin in enumerate(("elsewhere", "elsewhere/again"), 1):
        acme.adopt_log(origin, signed_note(Checkpoint(acme.origin, 9, bytes(32))), actor="ada")
        [gathered] = journal.store_log.gather()
        assert (gathered.size, gathered.root) == (3, acme.checkpoint().root)
        assert heads(journal)[-1].tag == tenant_tag(lineage(journal), "acme", number)
        assert journal.check().ok
    seal(acme, "c")
    assert [head.size for head in journal.store_log.gather()] == [4]
    check_run_rules(heads(journal))
    assert journal.check().ok


def test_a_log_that_is_shorter_than_its_head_gets_none(journal: Journal) -> None:
    acme = journal.tenant("acme")
    seal(acme, "a")
    journal.store_log.gather()
    row = TenantRow.decode("acme", rows(engine_of(journal), tables.TENANTS)[b"acme"])
    change(engine_of(journal), {(tables.TENANTS, b"acme"): row._replace(gathered=2).encode()})
    with pytest.raises(Corrupt, match="has 1 leaves, and its last head says 2"):
        journal.store_log.gather()


def test_gathering_is_decided_again_to_the_same_rows() -> None:
    clock = ManualClock()
    engine = MemoryEngine(clock=clock, call_work_twice=True)
    journal = Journal.over(engine, clock=clock, store_origin=STORE_ORIGIN)
    seal(journal.tenant("acme"), "a")
    assert [head.index for head in journal.store_log.gather()] == [0]
    assert journal.store_log.gather() == []
    assert journal.check().ok


# --- its name --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [BASE, f"{BASE}/acme", f"{BASE}/", f"{BASE}-heads", "example.com", "example.com/lo", "e"],
)
def test_a_name_that_a_tenants_log_has_or_that_extends_or_begins_it_is_refused(tmp_path: Path, origin: str) -> None:
    with pytest.raises(OriginsCoincide, match="the store log and tenant default"):
        Journal.in_memory(origin=BASE, store_origin=origin)
    Journal.open(tmp_path / "s", create=True).close()
    with pytest.raises(OriginsCoincide):
        Journal.open(tmp_path / "s", origin=BASE, store_origin=origin)
    Journal.open(tmp_path / "s", origin=BASE, store_origin="example.com/store").close()


@pytest.mark.parametrize("origin", ["", "a\nb", "a b", "a" * 1000])
def test_a_name_that_no_checkpoint_may_carry_is_refused(origin: str) -> None:
    with pytest.raises(InvalidInput, match="origin"):
        Journal.in_memory(origin=BASE, store_origin=origin)


@pytest.mark.parametrize("origin", [STORE_ORIGIN, f"{STORE_ORIGIN}/acme", "example.com/st"])
def test_no_log_goes_on_under_the_store_logs_name(tmp_path: Path, origin: str) -> None:
    with Journal.open(tmp_path / "s", create=True, origin=BASE, store_origin=STORE_ORIGIN) as journal:
        acme = journal.tenant("acme")
        note = signed_note(Checkpoint(acme.origin, 9, bytes(32)))
        with pytest.raises(OriginsCoincide, match="the store log and tenant acme"):
            acme.adopt_log(origin, note, actor="ada")
    with Journal.open(tmp_path / "s", origin=BASE) as journal:
        journal.tenant("acme").adopt_log(origin, note, actor="ada")
    with pytest.raises(OriginsCoincide, match="the store log and tenant acme"):
        Journal.open(tmp_path / "s", origin=BASE, store_origin=STORE_ORIGIN)


def test_a_journal_without_a_store_origin_has_no_store_log() -> None:
    journal = Journal.in_memory()
    assert journal.store_origin is None
    with pytest.raises(InvalidInput, match="store origin"):
        _ = journal.store_log


# --- what is proven through it ---------------------------------------------------------------------------------------


def test_a_run_is_in_the_store_log_by_two_paths(journal: Journal) -> None:
    acme, beta = journal.tenant("acme"), journal.tenant("beta")
    seal(acme, *(f"r{number}" for number in range(7)))
    seal(beta, "b")
    journal.store_log.gather()
    seal(acme, "later")
    proof = journal.store_log.inclusion_proof("acme", "r3")
    assert proof is not None
    assert (proof.inner.index, proof.inner.size, proof.head.head.size, proof.size) == (3, 7, 7, 2)
    proof.head.verify(proof.inner.leaf_hash)
    verify_inclusion(
        leaf=proof.head.head.hash(), index=proof.index, size=proof.size, proof=proof.proof, root=proof.root
    )
    assert proof.root == journal.store_log.checkpoint().root
    assert journal.store_log.inclusion_proof("acme", "later") is None
    journal.store_log.gather()
    newer, older = (journal.store_log.inclusion_proof("acme", "r3", size) for size in (None, 2))
    assert older == proof
    assert newer is not None and (newer.head.head.size, newer.index, newer.size) == (8, 2, 3)


def test_a_run_of_an_anchor_batch_is_in_the_store_log_by_three_paths(journal: Journal) -> None:
    acme = journal.tenant("acme")
    acme.append("open", [entries.note("n")], epoch=1)
    acme.anchor_open()
    journal.store_log.gather()
    proof = journal.store_log.inclusion_proof("acme", "open")
    assert proof is not None and proof.head.batch is not None and proof.inner.inner_entry is not None
    proof.head.batch.verify(LeafEntry.decode(proof.inner.inner_entry))
    proof.head.verify(proof.head.batch.leaf.hash())


def test_what_the_store_log_does_not_reach_is_refused(journal: Journal) -> None:
    seal(journal.tenant("acme"), "a")
    journal.store_log.gather()
    with pytest.raises(NotFound):
        journal.store_log.inclusion_proof("acme", "unknown")
    with pytest.raises(InvalidInput, match="exceeds the log's size, 1"):
        journal.store_log.inclusion_proof("acme", "a", 2)
    assert journal.store_log.inclusion_proof("acme", "a", 0) is None


def test_a_head_of_a_log_under_its_old_origin_proves_nothing_of_the_new_tree(journal: Journal) -> None:
    acme = journal.tenant("acme")
    seal(acme, "a")
    journal.store_log.gather()
    acme.adopt_log("elsewhere", signed_note(Checkpoint(acme.origin, 9, bytes(32))), actor="ada")
    assert journal.store_log.inclusion_proof("acme", "a") is None
    journal.store_log.gather()
    proof = journal.store_log.inclusion_proof("acme", "a")
    assert proof is not None and proof.head.adoption == 1


# --- an older copy ---------------------------------------------------------------------------------------------------


def test_an_older_copy_of_the_store_signs_no_store_log_that_differs(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys")
    ring.generate(Purpose.LOG, STORE_ORIGIN, created=0)

    def sign(checkpoint: Checkpoint, consistent: Consistent) -> list[SignatureLine]:
        return ring.sign_checkpoint(checkpoint, consistent=consistent)

    store, copy = tmp_path / "s", tmp_path / "copy"
    with Journal.open(store, create=True, origin=BASE, store_origin=STORE_ORIGIN) as journal:
        seal(journal.tenant("acme"), "a")
        journal.store_log.gather()
    copy.mkdir()
    for name in ("SEALBOOK", "data.mdb"):
        (copy / name).write_bytes((store / name).read_bytes())
    with Journal.open(store, origin=BASE, store_origin=STORE_ORIGIN) as journal:
        seal(journal.tenant("acme"), "b")
        journal.store_log.gather()
        journal.store_log.sign_checkpoint(sign)
    with Journal.open(copy, origin=BASE, store_origin=STORE_ORIGIN) as journal:
        log = journal.store_log
        with pytest.raises(PublishedAhead, match="size 1 is not signed, because size 2 had been signed"):
            log.sign_checkpoint(sign)
        seal(journal.tenant("acme"), "another")
        log.gather()
        with pytest.raises(PublishedDiffers, match="size 2 had been signed under another root"):
            log.sign_checkpoint(sign)
        seal(journal.tenant("acme"), "and more")
        log.gather()
        with pytest.raises(PublishedDiffers, match="does not begin with it"):
            log.sign_checkpoint(sign)


def test_a_signature_that_was_cut_off_leaves_what_was_gathered(journal: Journal) -> None:
    seal(journal.tenant("acme"), "a")
    journal.store_log.gather()

    def killed(checkpoint: Checkpoint, consistent: object) -> list[object]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        journal.store_log.sign_checkpoint(killed)  # type: ignore[arg-type]
    assert journal.store_log.gather() == []
    publish(journal.store_log)
    assert journal.store_log.published_sizes(0) == [1] and journal.check().ok


# --- what check finds ------------------------------------------------------------------------------------------------


def append_leaf(journal: Journal, head: TenantHead, tenant: str | None) -> Place:
    """Append a leaf to the store log that its tree agrees with, and say that it is the tenant's."""
    engine = engine_of(journal)
    held = rows(engine, tables.NODES)
    counts = TenantRow.decode(STORE_LOG, rows(engine, tables.TENANTS)[STORE_LOG.encode()])
    index = counts.leaves

    def read(wanted: Sequence[tree.Node]) -> list[bytes]:
        return [held[tables.node_place(STORE_LOG, node)[1]] for node in wanted]

    place = (tables.LEAVES, tables.number_key(STORE_LOG, index))
    changes: dict[Place, bytes | None] = {
        place: head.encode(),
        (tables.TENANTS, STORE_LOG.encode()): counts._replace(leaves=index + 1).encode(),
        **{tables.node_place(STORE_LOG, node): hash_ for node, hash_ in tree.added(index, [head.hash()], read)},
    }
    if tenant is not None:
        theirs = TenantRow.decode(tenant, rows(engine, tables.TENANTS)[tenant.encode()])
        changes[tables.HEADS, tables.number_key(tenant, index)] = b""
        changes[tables.TENANTS, tenant.encode()] = theirs._replace(gathered=head.size).encode()
    change(engine, changes)
    return place


def grown(journal: Journal) -> tuple[bytes, bytes]:
    """A store whose tenant acme has a head of size 2 and one leaf more; its tag, and the root of three leaves."""
    acme = journal.tenant("acme")
    seal(acme, "a", "b")
    journal.store_log.gather()
    seal(acme, "c")
    return heads(journal)[0].tag, acme.checkpoint().root


@pytest.mark.parametrize(
    ("size", "root", "what"),
    [
        (3, bytes(32), "another root than the tenant's log had"),
        (4, bytes(32), "size 4, which the tenant's log never had"),
        (2, None, "size 2 follows one of size 2"),
        (1, None, "size 1 follows one of size 2"),
    ],
)
def test_a_head_that_is_not_what_the_log_was_is_found(
    journal: Journal, size: int, root: bytes | None, what: str
) -> None:
    tag, now = grown(journal)
    place = append_leaf(journal, TenantHead(tag, size, root or now), "acme")
    report = journal.check()
    [finding] = [found for found in report.findings if (found.table, found.key) == place]
    assert what in finding.what and finding.tenant == "acme"


def test_a_head_as_it_should_be_is_not(journal: Journal) -> None:
    tag, now = grown(journal)
    append_leaf(journal, TenantHead(tag, 3, now), "acme")
    assert journal.check().ok


def test_a_leaf_that_is_no_tenants_head_is_found(journal: Journal) -> None:
    _, now = grown(journal)
    place = append_leaf(journal, TenantHead(bytes(32), 3, now), None)
    assert [(found.table, found.key) for found in journal.check().findings] == [place]


def test_a_missing_row_that_names_a_head_is_found(journal: Journal) -> None:
    grown(journal)
    place = (tables.HEADS, tables.number_key("acme", 0))
    with changed(engine_of(journal), {place: None}):
        assert [(found.table, found.key) for found in journal.check().findings] == [place]


@pytest.mark.parametrize("damage", [None, b"", b"damaged"])
def test_a_damaged_head_is_one_finding(journal: Journal, damage: bytes | None) -> None:
    grown(journal)
    place = (tables.LEAVES, tables.number_key(STORE_LOG, 0))
    with changed(engine_of(journal), {place: damage}):
        assert [(found.table, found.key) for found in journal.check().findings] == [place]


def test_a_tag_is_not_blamed_where_the_acts_that_gave_it_cannot_be_read(journal: Journal) -> None:
    acme = journal.tenant("acme")
    seal(acme, "a")
    acme.adopt_log("elsewhere", signed_note(Checkpoint(acme.origin, 9, bytes(32))), actor="ada")
    journal.store_log.gather()
    [act] = [key for key, value in rows(engine_of(journal), tables.JOURNAL).items() if b"LogAdopted" in value]
    change(engine_of(journal), {(tables.JOURNAL, act): b"damaged"})
    report = journal.check()
    place = (tables.LEAVES, tables.number_key(STORE_LOG, 0))
    assert report.damaged and place not in [(found.table, found.key) for found in report.findings]
    assert tables.HEADS not in [found.table for found in report.findings]


def test_a_log_that_was_rewritten_contradicts_its_head(journal: Journal) -> None:
    acme = journal.tenant("acme")
    seal(acme, "a")
    journal.store_log.gather()
    forked = Journal.in_memory()
    seal(forked.tenant("acme"), "a")
    ours, theirs = (engine_of(each) for each in (journal, forked))
    stolen = {place: value for place, value in all_rows(theirs).items() if place[1].startswith(b"acme\0")}
    change(ours, {place: value for place, value in stolen.items() if place[0] != tables.HEADS})
    place = (tables.LEAVES, tables.number_key(STORE_LOG, 0))
    assert place in [(found.table, found.key) for found in journal.check().findings]


def test_heads_from_before_an_adoption_are_held_to_the_tree_of_then(journal: Journal) -> None:
    acme = journal.tenant("acme")
    for run in ("a", "b", "c"):
        seal(acme, run)
        journal.store_log.gather()
    acme.adopt_log("elsewhere", signed_note(Checkpoint(acme.origin, 9, bytes(32))), actor="ada")
    journal.store_log.gather()
    seal(acme, "d")
    journal.store_log.gather()
    acme.adopt_log("third", signed_note(Checkpoint(acme.origin, 19, bytes(32))), actor="ada")
    assert journal.check().ok
    for index, head in enumerate(heads(journal)):
        place = (tables.LEAVES, tables.number_key(STORE_LOG, index))
        with changed(engine_of(journal), {place: flipped(head.encode(), 90)}):
            assert [(found.table, found.key) for found in journal.check().findings] == [place]


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_with_a_store_log_are_sound(seed: int) -> None:
    chance = random.Random(seed)
    journal = Journal.in_memory(store_origin=STORE_ORIGIN)
    for number in range(60):
        tenant = journal.tenant(chance.choice("abc"))
        verb = chance.choice(["seal", "anchor", "batch", "gather", "gather", "adopt"])
        if verb == "seal":
            seal(tenant, f"r{number}")
        elif verb == "adopt":
            if chance.random() < 0.3:
                note = signed_note(Checkpoint(tenant.origin, 1000 + number, bytes(32)))
                tenant.adopt_log(f"elsewhere/{number}", note, actor="ada")
        elif verb == "gather":
            journal.store_log.gather()
        else:
            tenant.append(f"r{number}", [entries.note("n")], epoch=1)
            tenant.anchor(f"r{number}") if verb == "anchor" else tenant.anchor_open()
    assert [str(found) for found in journal.check().findings] == [], f"seed {seed}"
    check_run_rules(heads(journal))
    assert journal.store_log.checkpoint().size > 5
