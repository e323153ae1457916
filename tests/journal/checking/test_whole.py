"""What `check` finds: any changed byte, any added or missing row, and histories that the rules never admit."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest
from effort import sample
from tampering import (
    all_rows,
    change,
    changed,
    engine_of,
    flipped,
    forge,
    forge_leaf,
    long_store,
    random_history,
    record_place,
    rich_store,
    rows,
)

from sealbook.indexes import INDEX_TABLES
from sealbook.indexes.packing import text, u64
from sealbook.journal import CheckReport, Ed25519Signer, Finding, Journal, NotFound, entries
from sealbook.journal.checking.report import FINDINGS_MAX
from sealbook.journal.deciding.log.adoption import origin_value
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.lmdb import LmdbEngine
from sealbook.journal.engine.port import Place
from sealbook.journal.records.entries import EffectKey
from sealbook.journal.records.row import decode_row
from sealbook.journal.records.signatures import signed_message, signer_id
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import CheckpointRow, CheckpointState, LeaseRow, StoreRow, TenantRow
from sealbook.journal.testing import record_rows
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafType
from sealbook.merkle.keys import Algorithm, NoteSigner
from sealbook.merkle.note import Note, sign_text
from sealbook.merkle.tree import Node


@pytest.fixture(scope="module")
def store() -> Journal:
    return rich_store()


@pytest.fixture(scope="module")
def stores(store: Journal) -> dict[str, Journal]:
    return {"rich": store, "long": long_store()}


STORED = [
    *(("rich", table) for table in tables.TABLES if table != tables.ARRIVALS),
    *(("long", table) for table in (tables.ARRIVALS, tables.STATE, "cases")),
]


def names(report: CheckReport, place: Place) -> bool:
    """Whether a finding names the row."""
    return any((each.table, each.key) == place for each in report.damaged)


def found(report: CheckReport) -> list[str]:
    return [str(finding) for finding in report.findings]


# --- nothing to find -------------------------------------------------------------------------------------------------


def test_a_sound_store_has_no_findings_and_says_how_much_was_checked(store: Journal) -> None:
    report = store.check()
    assert found(report) == []
    assert report.ok and report.damaged == ()
    held = {table: rows(engine_of(store), table) for table in tables.TABLES}
    assert (report.tenants, report.runs) == (3, len(held["state"]))
    assert (report.records, report.leaves, report.effects) == tuple(map(len, (held[t] for t in COUNTED)))
    assert report.bytes == sum(map(len, held["journal"].values()))
    assert report.index_rows == sum(len(held[table]) for table in INDEX_TABLES)
    assert report.signatures == 2


COUNTED = ("journal", "leaves", "effects")


def test_the_rich_store_has_rows_in_every_table(store: Journal) -> None:
    assert [table for table in tables.TABLES if not rows(engine_of(store), table)] == [tables.ARRIVALS]


def test_what_a_store_alone_cannot_show_is_listed(store: Journal) -> None:
    listed = " ".join(store.check().not_checked)
    for what in ("completeness and age", "older copy", "order between runs", "signatures", "lease rows", "times"):
        assert what in listed


def test_an_empty_store_is_sound() -> None:
    report = Journal.in_memory().check()
    assert report.ok and (report.tenants, report.runs, report.records) == (0, 0, 0)


def test_the_progress_ends_with_all_records(store: Journal) -> None:
    told: list[tuple[int, int]] = []
    store.check(progress=lambda done, total: told.append((done, total)))
    count = len(rows(engine_of(store), "journal"))
    assert told[-1] == (count, count)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(first, first + 50) for first in range(0, 250, 50)], ids=str)
def test_random_histories_are_sound(seeds: range) -> None:
    records = 0
    for seed in seeds:
        journal = random_history(seed)
        report = journal.check()
        assert found(report) == [], f"seed {seed}"
        for tenant, run in map(tables.split_run_key, rows(engine_of(journal), "state")):
            one = journal.tenant(tenant).verify(run)
            assert found(one) == [], f"seed {seed}, {tenant} {run}"
        records += report.records
    assert records > 200


def test_leases_without_records_and_a_clock_that_steps_back_are_sound(store: Journal) -> None:
    assert store.tenant("beta").lease("leased only") is not None
    times = [record.at for record in store.tenant("beta").history()]
    assert times != sorted(times)
    assert store.check().ok


# --- one change ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("which", "table"), STORED)
def test_any_byte_changed_in_any_row_is_found_and_named(stores: dict[str, Journal], which: str, table: str) -> None:
    store, engine = stores[which], engine_of(stores[which])
    for key, value in rows(engine, table).items():
        for position in sample(range(len(value))):
            with changed(engine, {(table, key): flipped(value, position)}):
                report = store.check()
            assert names(report, (table, key)), f"key {key!r}, byte {position}: {found(report)}"


@pytest.mark.slow
@pytest.mark.parametrize(("which", "table"), STORED)
def test_any_byte_changed_in_any_key_is_found_as_a_missing_and_an_added_row(
    stores: dict[str, Journal], which: str, table: str
) -> None:
    store, engine = stores[which], engine_of(stores[which])
    held = rows(engine, table)
    for key, value in held.items():
        for position in sample(range(len(key))):
            moved = flipped(key, position)
            if moved in held:
                continue
            with changed(engine, {(table, key): None, (table, moved): value}):
                report = store.check()
            where = f"key {key!r}, byte {position}: {found(report)}"
            if table == tables.LEASES:  # the row that is gone was never forced: only the added one can be seen
                assert names(report, (table, moved)), where
                continue
            assert names(report, (table, key)), where
            assert names(report, (table, moved)), where


@pytest.mark.parametrize(("which", "table"), [stored for stored in STORED if stored[1] != tables.LEASES])
def test_any_missing_row_is_found_and_named(stores: dict[str, Journal], which: str, table: str) -> None:
    store, engine = stores[which], engine_of(stores[which])
    for key in rows(engine, table):
        with changed(engine, {(table, key): None}):
            report = store.check()
        assert names(report, (table, key)), f"key {key!r}: {found(report)}"


def test_a_missing_lease_row_is_found_where_an_operator_forced_it(store: Journal) -> None:
    place = (tables.LEASES, tables.run_key("acme", "wait"))
    with changed(engine_of(store), {place: None}):
        assert names(store.check(), place)


def plausible_rows(store: Journal) -> dict[str, tuple[bytes, bytes]]:
    """One row per table that looks right by itself."""
    engine = engine_of(store)
    done, quit_ = tables.run_key("acme", "done/1"), tables.run_key("beta", "quit")
    leased = (tables.LEASES, done)
    earlier = (tables.CHECKPOINTS, tables.number_key("acme", 0))
    signer = Ed25519Signer(bytes(32))
    state, leaf = rows(engine, "state")[done], rows(engine, "leaves")[tables.number_key("acme", 0)]
    another = next(key for key in rows(engine, "heads") if not key.startswith(b"beta"))
    activity = text("acme") + u64(3) + b"done/1"
    return {
        "store": (b"store2", rows(engine, "store")[b"store"]),
        "tenants": (b"gamma", TenantRow(0, 0).encode()),
        "journal": (tables.number_key("acme", 12), rows(engine, "journal")[tables.number_key("acme", 4)]),
        "arrivals": (tables.block_key("acme", "done/1", 0), b"".join(map(u64, range(1, 65)))),
        "leases": (done, LeaseRow("w9", 7, 1, 1, bytes(16)).encode(leased)),
        "state": (tables.run_key("acme", "other"), state),
        "effects": (tables.effect_key("beta", "quit", bytes(32)), next(iter(rows(engine, "effects").values()))),
        "admissions": (text("beta") + bytes(32), b"quit"),
        "cancels": (quit_, u64(2)),
        "leaves": (tables.number_key("acme", 4), leaf),
        "positions": (tables.position_key("beta", "quit", 0), b""),
        "nodes": (tables.node_place("acme", Node(0, 4))[1], bytes(32)),
        "batches": (tables.batch_key("acme", 3, 1), rows(engine, "batches")[tables.batch_key("acme", 2, 1)]),
        "batched": (tables.position_key("acme", "done/1", 2), bytes(4)),
        "origins": (b"beta", origin_value(1, "elsewhere/2")),
        "heads": (text("beta") + another[-8:], b""),
        "checkpoints": (earlier[1], CheckpointRow(CheckpointState.PENDING, b"sealbook/acme\n0\n").encode(earlier)),
        "signers": (signer_id(signer.public_key), b"\1" + signer.public_key),
        "activity": (activity, b""),
        "cases": (text("acme") + text("case-8") + text("done/1") + u64(0), u64(1)),
        "outcome": (text("acme") + text("failed") + u64(4), b"done/1"),
        "source": (text("acme") + text("mail") + u64(0) + b"done/1", b""),
        "waiting": (text("acme") + u64(2**63) + b"done/1", b""),
    }


@pytest.mark.parametrize("table", tables.TABLES)
def test_an_added_row_that_looks_right_is_found_and_named(store: Journal, table: str) -> None:
    key, value = plausible_rows(store)[table]
    with changed(engine_of(store), {(table, key): value}):
        report = store.check()
    assert names(report, (table, key)), found(report)


def test_one_damaged_row_hides_no_other(store: Journal) -> None:
    engine = engine_of(store)
    record = record_place(engine, "acme", "done/1", 2)
    others: list[Place] = [
        (tables.STATE, tables.run_key("beta", "failed")),
        (tables.LEAVES, tables.number_key("beta", 1)),
        (tables.LEASES, tables.run_key("acme", "wait")),
        (tables.STORE, b"store"),
    ]
    held = all_rows(engine)
    with changed(engine, {place: flipped(held[place], 20 % len(held[place])) for place in [record, *others]}):
        report = store.check()
    assert [place for place in [record, *others] if not names(report, place)] == []
    assert any("1 run whose records cannot all be read" in line for line in report.not_checked)


def hold_garbage_to_be_found(store: Journal, seed: int, rounds: int) -> None:
    chance, engine = random.Random(seed), engine_of(store)
    held = all_rows(engine)
    places, values = list(held), list(held.values())
    for round_ in range(rounds):
        changes: dict[Place, bytes | None] = {}
        for _ in range(chance.choice([1, 2, 4, 10])):
            value = chance.choice([chance.randbytes(chance.choice([0, 1, 8, 16, 33, 90, 219])), chance.choice(values)])
            long = chance.choice(places)[1].replace(b"\0", b"n" * 470 + b"\0", 1)[:511]
            key = chance.choice([chance.randbytes(chance.choice([1, 9, 41, 511])), long, chance.choice(places)[1]])
            place = chance.choice([chance.choice(places), (chance.choice(tables.TABLES), key)])
            if value != held.get(place):
                changes[place] = value
        with changed(engine, changes):
            report = store.check()
            for run in ("quit", "failed"):
                with contextlib.suppress(NotFound):
                    store.tenant("beta").verify(run)
        assert bool(report.damaged) == bool(changes), f"seed {seed}, round {round_}: {changes}"


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_garbage_anywhere_are_found_and_never_stop_the_check(store: Journal, seed: int) -> None:
    hold_garbage_to_be_found(store, seed, rounds=50)


def test_a_changed_byte_of_a_body_is_one_finding(store: Journal) -> None:
    place = record_place(engine_of(store), "beta", "failed", 4)
    value = all_rows(engine_of(store))[place]
    with changed(engine_of(store), {place: flipped(value, len(value) - 1)}):
        assert [(each.tenant, each.run, each.seq) for each in store.check().findings] == [("beta", "failed", 4)]


# --- what is gone ----------------------------------------------------------------------------------------------------


EVERYTHING_ELSE = tuple(table for table in tables.TABLES if table != "leaves")


@pytest.mark.parametrize(
    "also",
    [
        (),
        ("state",),
        ("state", "positions"),
        ("state", "positions", "arrivals"),
        tuple(set(tables.TABLES) - {"leaves"}),
    ],
    ids=lambda also: "+".join(sorted(also)) or "records",
)
def test_a_sealed_run_whose_records_are_gone_is_found(store: Journal, also: tuple[str, ...]) -> None:
    engine = engine_of(store)
    gone: dict[Place, bytes | None] = {}
    for (table, row_key), value in all_rows(engine).items():
        own = b"quit" in row_key or value.startswith(b"quit") or (table == "journal" and b"dquit" in value)
        if own and table in ("journal", *also) and table not in ("nodes", "store"):
            gone[table, row_key] = None
    with changed(engine, gone):
        report = store.check()
    assert names(report, (tables.LEAVES, tables.number_key("beta", 2))) or any(
        each.run == "quit" and "gone" in each.what and "sealed" in each.what for each in report.damaged
    ), found(report)


def test_a_record_cut_off_the_end_of_a_run_is_found_also_beside_another_damaged_one(store: Journal) -> None:
    engine = engine_of(store)
    last, second = [record_place(engine, "acme", "done/1", seq) for seq in (4, 2)]
    with changed(engine, {last: None, second: flipped(all_rows(engine)[second], 90)}):
        report = store.check()
    assert names(report, last) and names(report, second)


def test_a_missing_or_damaged_store_row_does_not_stop_the_check(store: Journal) -> None:
    with changed(engine_of(store), {tables.STORE_PLACE: None}):
        report = store.check()
    assert names(report, tables.STORE_PLACE) and report.records == len(rows(engine_of(store), "journal"))


def test_the_store_row_of_another_store_is_found(store: Journal) -> None:
    with changed(engine_of(store), {tables.STORE_PLACE: rows(engine_of(rich_store()), "store")[b"store"]}):
        assert names(store.check(), tables.STORE_PLACE)


def test_a_log_that_was_rewritten_after_it_was_signed_is_found(store: Journal) -> None:
    beta = store.tenant("beta")
    signed = Checkpoint(beta.origin, beta.checkpoint().size, bytes(32))
    place = (tables.CHECKPOINTS, tables.number_key("beta", signed.size))
    signer = NoteSigner.from_seed(beta.origin, Algorithm.ED25519, bytes(32))
    note = Note(signed.text(), (sign_text(signed.text(), signer),))
    with changed(engine_of(store), {place: CheckpointRow(CheckpointState.PUBLISHED, note.encode()).encode(place)}):
        assert names(store.check(), place)


def test_rows_of_a_tenant_without_a_tenants_row_are_checked_all_the_same(store: Journal) -> None:
    engine = engine_of(store)
    place = record_place(engine, "beta", "quit", 1)
    with changed(engine, {(tables.TENANTS, b"beta"): None, place: flipped(all_rows(engine)[place], 100)}):
        report = store.check()
    assert names(report, place) and names(report, (tables.TENANTS, b"beta"))


def test_the_leaf_that_must_anchor_a_conclusion_which_leaves_the_run_open_is_missed(store: Journal) -> None:
    engine = engine_of(store)
    place = (tables.POSITIONS, tables.position_key("beta", "failed", 0))
    leaf = (tables.LEAVES, tables.number_key("beta", 0))
    with changed(engine, {place: None, leaf: None}):
        report = store.check()
    assert any((each.run, each.seq, each.table) == ("failed", 3, "leaves") for each in report.damaged), found(report)


def test_findings_beyond_the_limit_are_counted() -> None:
    journal = Journal.in_memory()
    journal.tenant().append("r", [entries.note(str(number)) for number in range(FINDINGS_MAX + 5)], epoch=1)
    engine = engine_of(journal)
    change(engine, {("journal", key): flipped(value, 60) for key, value in rows(engine, "journal").items()})
    report = journal.check()
    assert len(report.findings) == FINDINGS_MAX and report.findings_more == 5
    assert not report.ok


def test_a_run_that_is_gone_with_all_its_rows_leaves_a_gap_in_the_arrivals() -> None:
    journal = Journal.in_memory()
    for run in ("gone", "kept"):
        journal.tenant().append(run, [entries.note(case="c")], epoch=1)
    held = all_rows(engine_of(journal))
    change(
        engine_of(journal), {(t, key): None for (t, key), value in held.items() if b"gone" in key or b"gone" in value}
    )
    report = journal.check()
    assert names(report, (tables.JOURNAL, tables.number_key("default", 1)))
    assert names(report, (tables.TENANTS, b"default"))


# --- histories that no rule admits -----------------------------------------------------------------------------------

KEY = bytes(EffectKey("charge"))
MAIL = bytes(EffectKey("mail"))

AGAIN = {"effect": MAIL, "attempt": 3, "epoch": 2}

FORGERIES: list[tuple[str, str, str, dict[str, Any], dict[str, Any], str]] = [
    ("acme", "done/1", "Note", {}, {}, "it takes no more records|nothing may follow"),
    (
        "beta",
        "failed",
        "EffectStarted",
        {"name": "x"},
        {"effect": MAIL, "attempt": 3, "epoch": 2},
        "has attempt 2 already",
    ),
    ("beta", "failed", "EffectDone", {}, {"effect": MAIL, "attempt": 2, "epoch": 2}, "has ended already"),
    ("beta", "failed", "EffectDone", {}, {"effect": KEY, "attempt": 1, "epoch": 2}, "was never started"),
    ("beta", "failed", "EffectStarted", {}, {"effect": KEY, "attempt": 2, "epoch": 2}, "the attempt of effect"),
    ("beta", "failed", "EffectStarted", {}, {"effect": KEY, "epoch": 2}, "attempt None: is missing"),
    ("beta", "failed", "EffectStarted", {"recovery": 7}, {"effect": KEY, "attempt": 1, "epoch": 2}, "recovery"),
    ("beta", "failed", "EffectDone", {}, {"epoch": 2}, "needs an effect key"),
    ("beta", "failed", "Note", {}, {"epoch": 1}, "is below that of the record before"),
    ("beta", "new", "Note", {}, {"epoch": 0}, "none that a lease was ever issued with"),
    ("beta", "failed", "RunAdmitted", {}, {"epoch": 2}, "stands at seq 1 only"),
    ("beta", "failed", "RunSuspended", {"until": "soon"}, {"epoch": 2}, "RFC 3339"),
    ("beta", "failed", "RunConcluded", {"outcome": "Done!"}, {"epoch": 2}, "outcome"),
    ("beta", "new", "RunAdmitted", {"source": "s"}, {}, "both source and id"),
    ("beta", "new", "Note", {}, {"journal": bytes(16)}, "another store's lineage"),
    ("beta", "failed", "Note", {}, {"epoch": 2, "signer": bytes(32)}, "signer and signature"),
    ("beta", "failed", "Note", {}, {"epoch": 2, "body": b"\xa0"}, "is no record"),
    ("acme", "~tenant", "Note", {}, {"epoch": 5}, "its own run under"),
    ("acme", "~tenant", "CancelRequested", {"run": "wait"}, {"epoch": 0}, "is no cancel request"),
    ("acme", "~tenant", "LeaseForced", {"run": "wait", "epoch_before": 2, "epoch": 2}, {"epoch": 0}, "must be above"),
]


@pytest.mark.parametrize(
    ("tenant", "run", "kind", "data", "members", "says"), FORGERIES, ids=[forgery[-1][:30] for forgery in FORGERIES]
)
def test_a_chained_record_that_no_rule_admits_is_found_at_its_seq(
    tenant: str, run: str, kind: str, data: dict[str, Any], members: dict[str, Any], says: str
) -> None:
    journal = rich_store()
    seq = forge(journal, tenant, run, kind, data, **members)
    [*_, key] = [key for key in rows(engine_of(journal), "journal") if key.startswith(text(tenant))]
    report = journal.check()
    whose = (run, seq) if "body" not in members else (None, None)
    place = [each for each in report.damaged if (each.run, each.seq, each.key) == (*whose, key)]
    assert any(part in each.what for each in place for part in says.split("|")), found(report)


@pytest.mark.parametrize(
    ("tenant", "run", "kind", "seq", "says"),
    [
        ("acme", "wait", LeafType.SEAL, 2, "seals a run that had not ended"),
        ("beta", "failed", LeafType.SEAL, 7, "follows another one"),
        ("beta", "failed", LeafType.ANCHOR, 4, "follows another one"),
        ("beta", "quit", LeafType.SEAL, 2, "follows another one"),
        ("acme", "ended", LeafType.ANCHOR, 1, "anchor of a run that had ended"),
    ],
)
def test_a_leaf_that_stands_in_the_tree_against_the_rules_is_found(
    tenant: str, run: str, kind: LeafType, seq: int, says: str
) -> None:
    journal = rich_store()
    journal.tenant("acme").append("ended", [entries.concluded("completed")], epoch=1)
    place = forge_leaf(journal, tenant, run, kind, seq)
    report = journal.check()
    assert names(report, place) and any(says in each.what for each in report.damaged), found(report)


def test_a_lease_below_the_epoch_of_the_last_record_is_found(store: Journal) -> None:
    place = (tables.LEASES, tables.run_key("beta", "failed"))
    for epoch, sound in ((1, False), (2, True)):
        with changed(engine_of(store), {place: LeaseRow("w", epoch, 1, 1, bytes(16)).encode(place)}):
            assert names(store.check(), place) is not sound


def test_a_forced_lease_needs_a_lease_row_with_at_least_its_epoch() -> None:
    journal = rich_store()
    forge(journal, "acme", "~tenant", "LeaseForced", {"run": "wait", "epoch_before": 2, "epoch": 9}, epoch=0)
    assert names(journal.check(), (tables.LEASES, tables.run_key("acme", "wait")))


def test_a_body_that_is_not_in_its_one_encoding_is_found() -> None:
    journal = rich_store()
    value = record_rows(engine_of(journal), "beta", "quit")[2][1]
    body = decode_row(value, "quit", 2).body
    seq = forge(journal, "beta", "quit", "RunConcluded", body=body.replace(b"\x63seq\x02", b"\x63seq\x18\x03"))
    assert any(each.seq == seq and "canonical" in each.what for each in journal.check().damaged)


def test_a_second_request_to_cancel_a_run_is_found() -> None:
    journal = rich_store()
    act = {"run": "wait", "actor": "x", "reason": "", "basis": "asserted"}
    forge(journal, "acme", "~tenant", "CancelRequested", act, epoch=0)
    assert names(journal.check(), (tables.CANCELS, tables.run_key("acme", "wait")))


def test_an_operator_act_that_this_build_does_not_know_is_listed_as_not_checked() -> None:
    journal = rich_store()
    forge(journal, "acme", "~tenant", "HoldPlaced", {}, epoch=0)
    assert any("HoldPlaced" in line for line in journal.check().not_checked)


def test_a_record_of_a_newer_version_is_reported_and_is_no_damage() -> None:
    journal = rich_store()
    seq = forge(journal, "beta", "failed", "Note", {}, v=2, epoch=2)
    report = journal.check()
    assert [(each.run, each.seq, each.newer) for each in report.findings] == [("failed", seq, True)]
    assert not report.ok and report.damaged == ()


@pytest.mark.parametrize("version", [1, 2])
def test_a_record_that_does_not_follow_its_neighbour_is_damage_in_every_version(version: int) -> None:
    journal = rich_store()
    seq = forge(journal, "beta", "failed", "Note", {}, epoch=2, v=version, prev=bytes(32))
    assert any((each.run, each.seq) == ("failed", seq) and "follow" in each.what for each in journal.check().damaged)


def test_a_signature_by_another_key_is_found(store: Journal) -> None:
    engine = engine_of(store)
    place = record_place(engine, "acme", "done/1", 2)
    value = all_rows(engine)[place]
    row = decode_row(value, "done/1", 2)
    assert row.signature is not None
    forged = value.replace(row.signature, Ed25519Signer(bytes(32)).sign(signed_message(row.hash)))
    with changed(engine, {place: forged}):
        report = store.check()
    assert names(report, place) and "signature" in report.findings[0].what


# --- indexes that are being rebuilt ----------------------------------------------------------------------------------


def test_stale_indexes_are_not_compared_and_listed_as_not_checked(store: Journal) -> None:
    engine = engine_of(store)
    row = StoreRow.decode(rows(engine, "store")[b"store"])
    stale = StoreRow(
        row.store_id, row.lineage_id, row.format, row.engine_format, row.restoration, row.index_version, b"rebuild!"
    )
    dropped: dict[Place, bytes | None] = {("activity", key): None for key in rows(engine, "activity")}
    with changed(engine, {tables.STORE_PLACE: stale.encode(), **dropped}):
        report = store.check()
    assert report.ok and report.index_rows == 0
    assert any("stale" in line for line in report.not_checked)


# --- one run ---------------------------------------------------------------------------------------------------------


def test_every_run_of_a_sound_store_verifies(store: Journal) -> None:
    for tenant, run in map(tables.split_run_key, rows(engine_of(store), "state")):
        report = store.tenant(tenant).verify(run)
        assert found(report) == [] and report.records > 0 and report.runs == 1
    assert any("other runs" in line for line in report.not_checked)


@pytest.mark.parametrize("run", ["nobody", "leased only"])
def test_a_run_without_records_cannot_be_verified(store: Journal, run: str) -> None:
    with pytest.raises(NotFound):
        store.tenant("beta").verify(run)


def test_verifying_one_run_finds_each_changed_row_that_is_its_own(store: Journal) -> None:
    engine = engine_of(store)
    key = tables.run_key("beta", "failed")
    records = {key for key, _ in record_rows(engine, "beta", "failed").values()}
    own = {
        (table, row_key): value
        for (table, row_key), value in all_rows(engine).items()
        if (row_key in records if table == "journal" else row_key == key or row_key.startswith(key + b"\0"))
        or (value == b"failed" and table != "admissions")
    }
    assert {table for table, _ in own} >= {"journal", "state", "effects", "positions", "outcome"}
    for place, value in own.items():
        with changed(engine, {place: flipped(value, len(value) // 2) if value else b"x"}):
            assert names(store.tenant("beta").verify("failed"), place), place


def test_verifying_one_run_finds_a_leaf_that_its_log_does_not_hold(store: Journal) -> None:
    engine = engine_of(store)
    places = {
        (tables.LEAVES, tables.number_key("beta", 2)): "quit",
        tables.node_place("beta", Node(0, 2)): "quit",
        tables.node_place("beta", Node(1, 0)): "failed",
    }
    for place, run in places.items():
        for value in (None, flipped(all_rows(engine)[place], 25)):
            with changed(engine, {place: value}):
                assert not store.tenant("beta").verify(run).ok, place


def test_verifying_one_run_finds_a_cancellation_that_nobody_asked_for(store: Journal) -> None:
    place = (tables.CANCELS, tables.run_key("beta", "quit"))
    with changed(engine_of(store), {place: u64(1)}):
        assert names(store.tenant("beta").verify("quit"), place)


# --- on disk ---------------------------------------------------------------------------------------------------------


def test_the_store_on_disk_is_checked_alike(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "agents.sealbook", create=True, clock=system_clock) as journal:
        tenant = journal.tenant()
        tenant.append(
            "r", [entries.admitted(source="s", id="1", case="c"), entries.concluded("done")], epoch=1, seal=True
        )
        tenant.append("open", [entries.suspended(awaiting="mail")], epoch=1)
        engine = engine_of(journal)
        assert found(journal.check()) == []
        for place, value in all_rows(engine).items():
            if value:
                with changed(engine, {place: flipped(value, len(value) // 2)}):
                    assert names(journal.check(), place), place
            with changed(engine, {place: None}):
                assert names(journal.check(), place), place
        assert journal.check().ok


def test_rows_of_garbage_on_disk_never_stop_the_check(tmp_path: Path) -> None:
    engine = LmdbEngine.create(
        tmp_path / "garbage.sealbook", identity_text=b"", store_value=b"", clock=system_clock, lock_timeout=5
    )
    change(engine, {tables.STORE_PLACE: None})
    with rich_store(engine) as journal:
        hold_garbage_to_be_found(journal, 1, rounds=40)


# --- how findings read -----------------------------------------------------------------------------------------------


def test_a_finding_reads_as_one_line_that_names_its_place() -> None:
    finding = Finding("acme", "r", 3, "journal", tables.number_key("acme", 5), "the record is missing")
    assert str(finding).startswith("tenant acme, run r, record 3, table journal key acme/000000")
    assert str(Finding(None, None, None, None, None, "x")) == "x"
