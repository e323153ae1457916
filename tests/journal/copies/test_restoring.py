"""A restored store is the one that was exported: the same bytes in the same order, and all that derives from them."""

from __future__ import annotations

import fcntl
import io
import os
from functools import partial
from pathlib import Path
from typing import Any

import cbor2
import pytest
from bundling import bundle_of, framed, frames_of, rehashed, said
from damaging import killed_at
from tampering import all_rows, engine_of, long_store, random_history, rich_store, rows

from sealbook.indexes.registry import INDEX_TABLES
from sealbook.journal import (
    Busy,
    Fenced,
    InvalidInput,
    Journal,
    LeaseHeld,
    RestoredRun,
    UnknownVersion,
    WrongFormat,
    entries,
)
from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.faults import Damaged
from sealbook.journal.copies.restoring import ITEMS_MAX, RestoredTenant, check, restore
from sealbook.journal.deciding.acts import restoration_of
from sealbook.journal.engine.lmdb import LmdbEngine
from sealbook.journal.exporting.question import Question
from sealbook.journal.records.cbor import encode_map
from sealbook.journal.records.names import OPERATOR_RUN, RESTORATION
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables
from sealbook.journal.testing import ManualClock

SEEDS = range(20261129, 20261129 + 8)


def restored(folder: Path, *bundles: bytes, clock: Any = None) -> list[RestoredTenant]:
    return restore([io.BytesIO(data) for data in bundles], folder, actor="ada", reason="disk lost", clock=clock)


def derived(journal: Journal, tenant: str) -> dict[tuple[str, bytes], bytes]:
    """All rows of the tenant but those that a restore makes anew: leases, admissions, and the operator's own run."""
    prefix, found = f"{tenant}\0".encode(), {}
    operator = prefix + OPERATOR_RUN.encode()
    left_out = {tables.STORE, tables.LEASES, tables.ADMISSIONS, tables.TENANTS, tables.HEADS}
    for (table, key), value in all_rows(engine_of(journal)).items():
        if table in left_out or not key.startswith(prefix) or key.startswith(operator):
            continue
        if table == tables.JOURNAL and decode_row(value, None, None).body.find(b"hRestored") >= 0:
            continue
        if table in INDEX_TABLES and key.endswith(OPERATOR_RUN.encode()):
            continue
        found[table, key] = value
    return found


@pytest.mark.parametrize("make", [rich_store, long_store, *[lambda seed=seed: random_history(seed) for seed in SEEDS]])
def test_a_restored_store_is_what_was_exported_and_passes_its_check(make: Any, tmp_path: Path) -> None:
    journal: Journal = make()
    restored(tmp_path / "s", bundle_of(journal, Question("store")))
    with Journal.open(tmp_path / "s") as again:
        report = again.check()
        assert report.findings == ()
        assert [line for line in report.not_checked if "Restored" in line] == []
        assert again.tenants() == journal.tenants()
        for name in journal.tenants():
            one, other = journal.tenant(name), again.tenant(name)
            assert derived(again, name) == derived(journal, name)
            assert (other.checkpoint().size, other.checkpoint().root) == (one.checkpoint().size, one.checkpoint().root)
            assert other.published_checkpoint() == one.published_checkpoint()
            for standing in one.runs(limit=1000):
                assert other.admitted_as("shop", "42") == one.admitted_as("shop", "42")
                assert other.cancellation(standing.run) == one.cancellation(standing.run)


def test_what_is_exported_again_differs_in_the_restores_record_and_counts_alone(tmp_path: Path) -> None:
    journal = rich_store()
    before = bundle_of(journal, Question("store"))
    restored(tmp_path / "s", before)
    with Journal.open(tmp_path / "s", origin=journal.origin) as again:
        after = bundle_of(again, Question("store"))
    one = [(frame.kind, frame.payload) for frame in frames_of(before)]
    other = [(frame.kind, frame.payload) for frame in frames_of(after)]
    new = [frame for frame in other if frame not in one]
    acts = [payload for kind, payload in new if kind == fr.RECORD]
    assert len(acts) == 3 and all(b"hRestored" in payload for payload in acts)
    assert {kind for kind, _ in new} == {fr.TENANT, fr.RECORD, fr.END, fr.END_OF_ALL}
    kept = [frame for frame in other if frame not in new]
    assert kept == [frame for frame in one if frame in kept]
    assert len(kept) == len(one) - 2 * 3 - 1  # each tenant's beginning and end, and the end of all


def test_the_tenants_own_run_says_which_bundle_it_was_built_from(tmp_path: Path) -> None:
    journal = rich_store()
    data = bundle_of(journal, Question("tenant", "acme"))
    [tenant] = restored(tmp_path / "s", data)
    with Journal.open(tmp_path / "s") as again:
        act = again.tenant("acme").read(OPERATOR_RUN, limit=100)[-1]
    said = restoration_of(act)
    assert (said.digest, said.actor, said.reason) == (data[-32:], "ada", "disk lost")
    assert (said.records, said.size, said.root) == (tenant.records, tenant.size, tenant.root)
    assert act.epoch == RESTORATION and said.restoration == 1


def test_epochs_go_on_above_history_and_whoever_wrote_before_is_fenced(tmp_path: Path) -> None:
    clock = ManualClock()
    journal = Journal.in_memory(clock=clock)
    tenant = journal.tenant("t")
    lease = tenant.acquire("a", owner="w1", ttl=30)
    tenant.append("a", [entries.note("1")], lease=lease)
    tenant.append("never leased", [entries.note("1")], epoch=1)
    restored(tmp_path / "s", bundle_of(journal, Question("tenant", "t")), clock=clock)
    with Journal.open(tmp_path / "s", clock=clock) as again:
        tenant = again.tenant("t")
        for run, epoch in (("a", lease.epoch), ("never leased", 1), ("never leased", 2)):
            with pytest.raises(Fenced):
                tenant.append(run, [entries.note("2")], epoch=epoch)
        for run in ("a", "never leased", "new"):
            if run != "new":
                assert tenant.force_lease(run, actor="ada", reason="looked into").epoch == RESTORATION + 1
            taken = tenant.acquire(run, owner="w2", ttl=30)
            assert taken.epoch > RESTORATION
            tenant.append(run, [entries.note("2")], lease=taken)
        again_exported = bundle_of(again, Question("store"))
    restored(tmp_path / "twice", again_exported, clock=clock)
    with Journal.open(tmp_path / "twice", clock=clock) as twice:
        assert twice.tenant("t").force_lease("a", actor="ada", reason="again").epoch == 2 * RESTORATION + 1
        assert twice.info()["restoration"] == 2
        assert twice.check().findings == ()


def test_an_open_run_of_a_restored_store_takes_nothing_until_an_operator_acts(tmp_path: Path) -> None:
    journal = rich_store()
    acme = journal.tenant("acme")
    with pytest.raises(LeaseHeld):
        acme.acquire("wait", owner="w3", ttl=30)
    tenants = {tenant.tenant: tenant for tenant in restored(tmp_path / "s", bundle_of(journal, Question("store")))}
    assert [tenants[name].awaiting for name in ("acme", "beta", "third")] == [1, 1, 1]
    with Journal.open(tmp_path / "s") as again:
        acme = again.tenant("acme")
        started = [entries.effect_started(entries.EffectKey("x"), name="x")]
        with pytest.raises(RestoredRun):
            acme.acquire("wait", owner="w3", ttl=30)
        with pytest.raises(RestoredRun):
            acme.append("wait", started, epoch=RESTORATION)
        acme.force_lease("wait", actor="ada", reason="nothing happened meanwhile")
        acme.append("wait", started, lease=acme.acquire("wait", owner="w3", ttl=30))
        acme.acquire("not yet", owner="w3", ttl=30)  # it has no records: there is nothing to find out
        assert acme.read(OPERATOR_RUN, limit=100)[-1].kind == "LeaseForced"
        assert again.check().findings == ()


def test_a_run_that_had_concluded_is_sealed_without_an_operator(tmp_path: Path) -> None:
    journal = Journal.in_memory(clock=ManualClock())
    journal.tenant("t").append("a", [entries.concluded("completed")], epoch=1)
    restored(tmp_path / "s", bundle_of(journal, Question("tenant", "t")))
    with Journal.open(tmp_path / "s") as again:
        assert again.tenant("t").seal("a").index == 0
        assert again.check().findings == ()


def test_a_run_goes_on_where_it_stood(tmp_path: Path) -> None:
    journal = Journal.in_memory(clock=ManualClock())
    key = entries.EffectKey("charge")
    first = [entries.admitted(source="shop", id="1"), entries.effect_started(key, name="charge")]
    journal.tenant("t").append("a", first, epoch=1)
    restored(tmp_path / "s", bundle_of(journal, Question("tenant", "t")))
    with Journal.open(tmp_path / "s") as again:
        tenant = again.tenant("t")
        effect = tenant.effect("a", key)
        assert effect is not None and effect.in_doubt
        tenant.force_lease("a", actor="ada", reason="it was charged")
        lease = tenant.acquire("a", owner="w", ttl=30)
        tenant.append("a", [entries.effect_done(key), entries.concluded("completed")], lease=lease, seal=True)
        assert tenant.admitted_as("shop", "1") == "a"
        assert again.check().findings == ()


def test_several_bundles_of_one_store_make_one_store(tmp_path: Path) -> None:
    journal = rich_store()
    parts = [bundle_of(journal, Question("tenant", name)) for name in ("beta", "acme")]
    assert [tenant.tenant for tenant in restored(tmp_path / "s", *parts)] == ["beta", "acme"]
    with Journal.open(tmp_path / "s") as again:
        assert again.tenants() == ["acme", "beta"]
        assert again.check().findings == ()


def test_more_than_one_transaction_holds_comes_out_the_same(tmp_path: Path) -> None:
    journal = Journal.in_memory(clock=ManualClock())
    tenant = journal.tenant("t")
    for number in range(ITEMS_MAX + 100):
        tenant.append(f"r{number}", [entries.note("n")], epoch=1)
    tenant.append("r0", [entries.note("n")] * 150, epoch=1)
    tenant.anchor_open()  # more entries than one transaction has items: they are not parted from their leaf
    restored(tmp_path / "s", bundle_of(journal, Question("tenant", "t")))
    with Journal.open(tmp_path / "s") as again:
        assert derived(again, "t") == derived(journal, "t")
        assert again.check().findings == ()


def test_a_checkpoint_that_was_about_to_be_signed_is_carried_as_that(tmp_path: Path) -> None:
    journal = rich_store()
    third = journal.tenant("third")

    def unreachable(checkpoint: Any, consistent: Any) -> Any:
        raise OSError("the device is away")

    with pytest.raises(OSError, match="away"):
        third.sign_checkpoint(unreachable)
    data = bundle_of(journal, Question("store"))
    assert said(data) == ("sound", 0)
    restored(tmp_path / "s", data)
    with Journal.open(tmp_path / "s") as again:
        assert derived(again, "third") == derived(journal, "third")
        assert again.check().findings == ()


# --- refusals, before anything is written ----------------------------------------------------------------------------


def refused(folder: Path, kind: type[Exception], *bundles: bytes) -> str:
    before = sorted(path.name for path in folder.parent.iterdir())
    with pytest.raises(kind) as caught:
        restored(folder, *bundles)
    assert sorted(path.name for path in folder.parent.iterdir()) == before
    return str(caught.value)


def test_a_second_restore_is_refused(tmp_path: Path) -> None:
    data = bundle_of(rich_store(), Question("store"))
    restored(tmp_path / "s", data)
    before = {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()}
    assert "holds something already" in refused(tmp_path / "s", InvalidInput, data)
    assert {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()} == before


def test_a_selection_is_no_store(tmp_path: Path) -> None:
    data = bundle_of(rich_store(), Question("runs", "acme", ("wait",)))
    assert "selected runs" in refused(tmp_path / "s", InvalidInput, data)


def test_a_bundle_that_was_cut_off_damaged_or_is_none_is_refused(tmp_path: Path) -> None:
    data = bundle_of(rich_store(), Question("store"))
    assert "incomplete" in refused(tmp_path / "s", Damaged, data[:-1])
    assert "incomplete" in refused(tmp_path / "s", Damaged, data[:-52])
    refused(tmp_path / "s", Damaged, data[:1000] + bytes([data[1000] ^ 1]) + data[1001:])
    refused(tmp_path / "s", WrongFormat, b"something else")


def test_the_last_of_several_bundles_is_checked_before_the_first_is_written(tmp_path: Path) -> None:
    journal = rich_store()
    one, other = (bundle_of(journal, Question("tenant", name)) for name in ("acme", "beta"))
    refused(tmp_path / "s", Damaged, one, other[:-1])


def test_bundles_of_two_lineages_or_twice_of_one_tenant_are_refused(tmp_path: Path) -> None:
    one, other = (
        bundle_of(rich_store(), Question("tenant", "acme")),
        bundle_of(rich_store(), Question("tenant", "beta")),
    )
    assert "different lineages" in refused(tmp_path / "s", InvalidInput, one, other)
    assert "two of them hold" in refused(tmp_path / "s", InvalidInput, one, one)


def test_records_of_a_newer_version_are_not_restored(tmp_path: Path) -> None:
    class Newer:
        def current_version(self, kind: str) -> int:
            return 2

        def upcast(self, kind: str, version: int, data: dict[str, Any]) -> dict[str, Any] | None:
            return None

    journal = Journal.in_memory(clock=ManualClock(), upcaster=Newer())
    journal.tenant("t").append("a", [entries.note("n")], epoch=1)
    refused(tmp_path / "s", UnknownVersion, bundle_of(journal, Question("tenant", "t")))


def one_record_bundle(kind: str, data: dict[str, Any], run: str = "a", **members: Any) -> bytes:
    """A bundle with one record, which nothing but its own hash bears out."""
    journal = Journal.in_memory(clock=ManualClock())
    journal.tenant("t").append("a", [entries.note("n")], epoch=1)
    whole: list[Any] = list(frames_of(bundle_of(journal, Question("tenant", "t"))))
    index = next(at for at, frame in enumerate(whole) if frame.kind == fr.RECORD)
    body = cbor2.loads(decode_row(whole[index].payload, None, None).body)
    whole[index] = rehashed(whole[index], encode_map(body | {"kind": kind, "data": data, "run": run} | members, "b")[0])
    return framed(whole)


def test_acts_that_this_build_does_not_know_are_not_restored(tmp_path: Path) -> None:
    data = one_record_bundle("RunErased", {}, run=OPERATOR_RUN, epoch=0)
    assert "does not know what RunErased changed" in refused(tmp_path / "s", UnknownVersion, data)


@pytest.mark.parametrize(
    ("kind", "data", "members"),
    [
        ("EffectDone", {}, {"effect": bytes(32), "attempt": 1}),
        ("EffectStarted", {}, {"effect": bytes(32)}),
        ("EffectStarted", {"recovery": "?"}, {"effect": bytes(32), "attempt": 1}),
        ("RunConcluded", {"outcome": 7}, {}),
        ("RunAdmitted", {"source": "shop"}, {}),
        ("CancelRequested", {}, {"run": OPERATOR_RUN, "epoch": 0}),
        ("Restored", {}, {"run": OPERATOR_RUN, "epoch": 0}),
        ("LogAdopted", {}, {"run": OPERATOR_RUN, "epoch": 0}),
    ],
)
def test_a_record_that_breaks_a_rule_ends_the_restore_with_its_place(
    kind: str, data: dict[str, Any], members: dict[str, Any], tmp_path: Path
) -> None:
    run = members.pop("run", "a")
    text = refused(tmp_path / "s", Damaged, one_record_bundle(kind, data, run, **members))
    assert "it breaks a rule" in text and f"run {run} record 1" in text


def test_two_restores_of_one_place_do_not_meet(tmp_path: Path) -> None:
    building = tmp_path / "s.restoring"
    building.mkdir()
    held = os.open(building, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Busy):
            restored(tmp_path / "s", bundle_of(rich_store(), Question("store")))
    finally:
        os.close(held)
    assert not (tmp_path / "s").exists()


def test_an_empty_bundle_makes_an_empty_store(tmp_path: Path) -> None:
    assert restored(tmp_path / "s", bundle_of(Journal.in_memory(), Question("store"))) == []
    with Journal.open(tmp_path / "s") as again:
        assert again.tenants() == [] and again.info()["restoration"] == 1


def test_a_dry_run_says_what_there_is() -> None:
    journal = rich_store()
    checked = check([io.BytesIO(bundle_of(journal, Question("store")))])
    assert checked.records == len(rows(engine_of(journal), tables.JOURNAL))


# --- killed ----------------------------------------------------------------------------------------------------------


RESTORE_STEPS = ((os, "fsync"), (Path, "rename"), (Path, "unlink"), (LmdbEngine, "write"))


def test_a_restore_that_is_killed_leaves_a_whole_store_or_none_and_runs_again(tmp_path: Path) -> None:
    journal = rich_store()
    data = bundle_of(journal, Question("store"))
    kills = 0
    for number in range(100):
        folder = tmp_path / f"s{number}"
        killed = killed_at(number, partial(restored, folder, data), RESTORE_STEPS)
        kills += killed
        if not folder.exists():
            restored(folder, data)
        with Journal.open(folder) as again:
            assert again.check().findings == ()
            assert sorted(again.tenants()) == sorted(journal.tenants())
            for name in journal.tenants():
                assert again.tenant(name).checkpoint().root == journal.tenant(name).checkpoint().root
        assert not folder.with_name(f"{folder.name}.restoring").exists()
        if not killed:
            break
    assert kills >= 8
