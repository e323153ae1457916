"""What is readable of a damaged store becomes a new one, and what was lost is told exactly."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from damaging import flip, killed_at, on_disk, overwrite, stored
from published_log import publish, signed_note
from tampering import engine_of, forge, long_store, random_history, rich_store

from sealbook.journal import (
    Busy,
    Corrupt,
    EngineFailed,
    Fenced,
    InvalidInput,
    Journal,
    StoreMissing,
    UnknownVersion,
    entries,
)
from sealbook.journal.copies.salvage.recovering import LostRun, RecoveredTenant, Recovery, recover
from sealbook.journal.deciding.acts import restoration_of
from sealbook.journal.records.names import OPERATOR_RUN, RESTORATION
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import tables
from sealbook.journal.testing import ManualClock
from sealbook.merkle import Checkpoint

SEEDS = range(20261129, 20261129 + 6)
PAGE = 4096


def recovered(folder: Path, target: Path, **more: Any) -> Recovery:
    return recover(folder, target, actor="ada", reason="bad sectors", **more)


def checked(target: Path) -> Journal:
    """The recovered store, which passes its check."""
    with Journal.open(target, readonly=True) as journal:
        assert journal.check().findings == ()
    return Journal.open(target)


def hashes(journal: Journal, tenant: str) -> dict[str, list[bytes]]:
    """The hashes of every run of the tenant, but for what a restore adds."""
    found: dict[str, list[bytes]] = {}
    with engine_of(journal).snapshot() as snapshot:
        for _, value in snapshot.scan(tables.JOURNAL, f"{tenant}\0".encode(), f"{tenant}\1".encode(), 100_000):
            row = decode_row(value, None, None)
            if b"hRestored" not in row.body:
                run = row.body.split(b"crun", 1)[1]
                length = run[0] & 0x1F if run[0] < 0x78 else run[1]
                start = 1 if run[0] < 0x78 else 2
                found.setdefault(run[start : start + length].decode(), []).append(row.hash)
    return found


def of(found: Recovery, tenant: str) -> RecoveredTenant:
    return next(each for each in found.tenants if each.tenant == tenant)


def record_at(folder: Path, tenant: str, arrival: int) -> Any:
    return next(row for row in stored(folder, tables.JOURNAL) if row.key == tables.number_key(tenant, arrival))


def small_store() -> Journal:
    """Runs a and b, turn by turn: arrivals 1 to 8; b concludes, and is sealed; a is anchored before and after that."""
    journal = Journal.in_memory(clock=ManualClock())
    acme = journal.tenant("acme")
    for number in range(3):
        for run in ("a", "b"):
            acme.append(run, [entries.note(f"{run} {number}")], epoch=1)
    acme.anchor("a")
    acme.append("b", [entries.concluded("completed")], epoch=1, seal=True)
    acme.append("a", [entries.note("last")], epoch=1)
    acme.anchor("a")
    return journal


# --- nothing is lost -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [rich_store, long_store, *[lambda seed=seed: random_history(seed) for seed in SEEDS]])
def test_of_a_whole_store_nothing_is_lost(make: Any, tmp_path: Path) -> None:
    journal: Journal = make()
    folder = on_disk(journal, tmp_path / "s")
    found = recovered(folder, tmp_path / "r")
    assert found.whole and [tenant.tenant for tenant in found.tenants] == journal.tenants()
    with checked(tmp_path / "r") as again:
        assert again.view.setting.identity.lineage_id == journal.view.setting.identity.lineage_id
        for name in journal.tenants():
            one, other = journal.tenant(name), again.tenant(name)
            assert hashes(again, name) == hashes(journal, name)
            assert (other.checkpoint().size, other.checkpoint().root) == (one.checkpoint().size, one.checkpoint().root)
            assert other.published_checkpoint() == one.published_checkpoint()


def test_the_tenants_own_run_says_that_it_was_recovered_and_what_was_lost(tmp_path: Path) -> None:
    folder = on_disk(small_store(), tmp_path / "s")
    flip(folder, record_at(folder, "acme", 8), 100)
    recovered(folder, tmp_path / "r")
    with checked(tmp_path / "r") as again:
        act = restoration_of(again.tenant("acme").read(OPERATOR_RUN)[-1])
    assert (act.actor, act.reason, act.records) == ("ada", "recovered, 1 records lost: bad sectors", 7)


def test_an_empty_store_is_recovered_as_an_empty_one(tmp_path: Path) -> None:
    Journal.open(tmp_path / "s", create=True).close()
    assert recovered(tmp_path / "s", tmp_path / "r").whole
    with checked(tmp_path / "r") as again:
        assert again.tenants() == []


def test_epochs_go_on_above_those_of_leases_that_no_record_was_written_under(tmp_path: Path) -> None:
    clock = ManualClock()
    recovered(on_disk(small_store(), tmp_path / "s"), tmp_path / "once")
    with Journal.open(tmp_path / "once", clock=clock) as once:
        lease = once.tenant("acme").acquire("new", owner="w", ttl=30)
        assert lease.epoch == RESTORATION + 1
    for row in stored(tmp_path / "once", tables.JOURNAL):
        if b"hRestored" in row.value:
            flip(tmp_path / "once", row, 60)
    assert recovered(tmp_path / "once", tmp_path / "twice").restoration == 2
    with checked(tmp_path / "twice") as twice, pytest.raises(Fenced):
        twice.tenant("acme").append("new", [entries.note("n")], lease=lease)


# --- records ---------------------------------------------------------------------------------------------------------


def test_a_run_is_kept_up_to_its_first_damaged_record_and_the_others_are_whole(tmp_path: Path) -> None:
    journal = small_store()
    folder = on_disk(journal, tmp_path / "s")
    flip(folder, record_at(folder, "acme", 3), 120)  # a's second record
    found = recovered(folder, tmp_path / "r")
    before, after = hashes(journal, "acme"), of(found, "acme")
    assert found.remarks == ()
    assert after.lost_runs == (LostRun("a", 1, 4),)
    assert after.lost_arrivals == ((3, 3), (5, 5), (8, 8))
    assert (after.records, after.lost_records, after.lost_nameless, after.loose) == (5, 3, 0, 0)
    with checked(tmp_path / "r") as again:
        assert hashes(again, "acme") == {"a": before["a"][:1], "b": before["b"]}
        assert [record.arrival for record in again.tenant("acme").read("b")] == [2, 3, 4, 5]


def test_what_a_lost_page_held_is_told_by_arrival_and_by_run(tmp_path: Path) -> None:
    journal = Journal.in_memory()
    for number in range(60):
        journal.tenant("acme").append(f"run-{number % 7}", [entries.note("x" * 200)], epoch=1)
    folder = on_disk(journal, tmp_path / "s")
    rows = stored(folder, tables.JOURNAL)
    page = rows[20].offset // PAGE
    gone = {tables.split_number_key(row.key)[1] for row in rows if row.offset // PAGE == page}
    overwrite(folder, page * PAGE, bytes(PAGE))
    found = recovered(folder, tmp_path / "r")
    after, before = of(found, "acme"), hashes(journal, "acme")
    assert (page, tables.JOURNAL) in {(fault.page, fault.table) for fault in found.faults}
    lost = {arrival for first, last in after.lost_arrivals for arrival in range(first, last + 1)}
    assert gone <= lost
    with checked(tmp_path / "r") as again:
        kept = hashes(again, "acme")
    assert sum(map(len, kept.values())) == 60 - len(lost) == after.records
    assert {run.run: (run.kept, run.known) for run in after.lost_runs} == {
        run: (len(kept.get(run, [])), len(all_)) for run, all_ in before.items() if len(kept.get(run, [])) < len(all_)
    }
    assert all(all_[: len(kept.get(run, []))] == kept.get(run, []) for run, all_ in before.items())


def test_records_that_nothing_tells_the_run_of_are_counted(tmp_path: Path) -> None:
    folder = on_disk(small_store(), tmp_path / "s")
    flip(folder, record_at(folder, "acme", 7), 100)
    for row in stored(folder, tables.STATE):
        flip(folder, row, 0)
    after = of(recovered(folder, tmp_path / "r"), "acme")
    assert (after.lost_arrivals, after.lost_runs, after.lost_nameless) == (((7, 7),), (), 1)


def test_a_record_of_a_commit_that_never_was_is_not_found_again(tmp_path: Path) -> None:
    folder = on_disk(small_store(), tmp_path / "s")
    metas, old = (folder / "data.mdb").read_bytes()[: 2 * PAGE], record_at(folder, "acme", 8)
    with Journal.open(folder) as journal:
        journal.tenant("acme").append("a", [entries.note("its last page was not written")], epoch=1)
    assert record_at(folder, "acme", 9).offset // PAGE != old.offset // PAGE
    overwrite(folder, 0, metas)
    assert len(stored(folder, tables.JOURNAL)) == 8
    overwrite(folder, old.offset // PAGE * PAGE, bytes(PAGE))
    after = of(recovered(folder, tmp_path / "r"), "acme")
    assert (after.records, after.loose, after.lost_arrivals) == (8, 8, ())
    checked(tmp_path / "r").close()


def test_a_signed_record_is_kept_if_its_signature_is_that_of_its_signer(tmp_path: Path) -> None:
    folder = on_disk(rich_store(), tmp_path / "s")
    whole = of(recovered(folder, tmp_path / "r"), "acme")
    assert whole.lost_runs == ()
    [signer] = stored(folder, tables.SIGNERS)
    flip(folder, signer, 5)
    after = of(recovered(folder, tmp_path / "r2"), "acme")
    assert ("done/1", 1) in {(run.run, run.kept) for run in after.lost_runs}
    checked(tmp_path / "r2").close()


def test_a_record_that_proves_itself_and_breaks_a_rule_ends_its_run(tmp_path: Path) -> None:
    journal = small_store()
    seq = forge(journal, "acme", "a", "EffectDone", {}, effect=bytes(32), attempt=1)
    folder = on_disk(journal, tmp_path / "s")
    found = recovered(folder, tmp_path / "r")
    assert seq == 5 and found.remarks == ("tenant acme run a ends before record 5, which breaks a rule of the store",)
    assert of(found, "acme").lost_runs == (LostRun("a", 4, 5),)
    checked(tmp_path / "r").close()


def test_a_store_of_a_newer_version_is_not_cut_down_to_what_this_build_reads(tmp_path: Path) -> None:
    journal = small_store()
    forge(journal, "acme", "a", "Note", {}, v=2)
    folder = on_disk(journal, tmp_path / "s")
    with pytest.raises(UnknownVersion):
        recovered(folder, tmp_path / "r")
    assert not (tmp_path / "r").exists()


# --- the log ---------------------------------------------------------------------------------------------------------


def test_a_log_is_kept_up_to_its_first_lost_leaf_and_what_follows_enters_again(tmp_path: Path) -> None:
    journal = small_store()
    folder = on_disk(journal, tmp_path / "s")
    leaf = next(row for row in stored(folder, tables.LEAVES) if row.key == tables.number_key("acme", 1))
    flip(folder, leaf, 60)
    after = of(recovered(folder, tmp_path / "r"), "acme")
    assert after.lost_arrivals == () and not after.whole
    assert (after.log.known, after.log.agreed, after.log.size, after.log.lost) == (3, 1, 2, ((1, 1),))
    with checked(tmp_path / "r") as again:
        acme, before = again.tenant("acme"), journal.tenant("acme").leaf_entries(0, 10)
        assert acme.leaf_entries(0, 10) == [before[0], before[2]]
        standing = acme.standing("b")
        assert standing is not None and not standing.sealed
        acme.force_lease("b", actor="ops", reason="its seal was lost")
        acme.seal("b", lease=acme.acquire("b", owner="ops", ttl=30))


def test_leaves_of_lost_records_are_left_out_and_those_of_others_enter(tmp_path: Path) -> None:
    folder = on_disk(small_store(), tmp_path / "s")
    flip(folder, record_at(folder, "acme", 1), 90)  # a's first record: all of a is lost, and with it leaves 0 and 2
    after = of(recovered(folder, tmp_path / "r"), "acme")
    assert (after.log.known, after.log.agreed, after.log.size) == (3, 0, 1)
    assert after.log.lost == ((0, 0), (2, 2))
    with checked(tmp_path / "r") as again:
        standing = again.tenant("acme").standing("b")
        assert standing is not None and standing.sealed


def test_an_anchor_batch_whose_records_have_other_arrivals_is_left_out(tmp_path: Path) -> None:
    journal = small_store()
    acme = journal.tenant("acme")
    acme.append("c", [entries.note("c")], epoch=1)
    acme.anchor_open()
    folder = on_disk(journal, tmp_path / "s")
    assert of(recovered(folder, tmp_path / "whole"), "acme").whole
    flip(folder, record_at(folder, "acme", 2), 90)  # b's first record: a and c are whole, and numbered anew
    after = of(recovered(folder, tmp_path / "r"), "acme")
    assert after.log.lost == ((1, 1), (3, 3)) and (after.log.agreed, after.log.size) == (1, 2)
    checked(tmp_path / "r").close()


def test_a_conclusion_that_leaves_its_run_open_is_anchored_anew(tmp_path: Path) -> None:
    journal = Journal.in_memory()
    acme = journal.tenant("acme")
    acme.append("a", [entries.note("n"), entries.concluded("failed")], epoch=1)
    acme.append("a", [entries.note("again")], epoch=1)
    folder = on_disk(journal, tmp_path / "s")
    [leaf] = stored(folder, tables.LEAVES)
    flip(folder, leaf, 40)
    after = of(recovered(folder, tmp_path / "r"), "acme")
    assert (after.log.agreed, after.log.size, after.log.lost) == (0, 1, ((0, 0),))
    with checked(tmp_path / "r") as again:
        assert again.tenant("acme").leaf_entries(0, 9) == acme.leaf_entries(0, 9)


def test_a_checkpoint_is_kept_if_the_log_leads_to_it_else_offered_for_adoption(tmp_path: Path) -> None:
    journal = small_store()
    acme = journal.tenant("acme")
    early = publish(acme)
    acme.append("a", [entries.note("n")], epoch=1)
    acme.anchor("a")
    late = publish(acme)
    folder = on_disk(journal, tmp_path / "s")
    last = next(row for row in stored(folder, tables.LEAVES) if row.key == tables.number_key("acme", 3))
    flip(folder, last, 30)
    after = of(recovered(folder, tmp_path / "r"), "acme")
    assert [note.size for note in after.log.notes] == [3] and after.log.notes_known == 2
    assert (after.must_adopt, after.log.signed, after.log.signed_note) == (True, 4, late)
    with checked(tmp_path / "r") as again:
        tenant = again.tenant("acme")
        assert tenant.published_checkpoint() == early
        adopted = tenant.adopt_log("elsewhere/acme", late, actor="ada")
        assert (adopted.origin, adopted.old.size) == ("elsewhere/acme", 4)
        assert publish(tenant).startswith(b"elsewhere/acme\n")
    with Journal.open(tmp_path / "r", readonly=True) as again:
        assert again.check().findings == ()


def test_a_log_that_went_on_under_another_origin_is_recovered_with_it(tmp_path: Path) -> None:
    journal = small_store()
    acme = journal.tenant("acme")
    acme.adopt_log("elsewhere", signed_note(Checkpoint(acme.origin, 9, bytes(32))), actor="ada")
    folder = on_disk(journal, tmp_path / "s")
    [origin] = stored(folder, tables.ORIGINS)
    flip(folder, origin, 9)
    after = of(recovered(folder, tmp_path / "r"), "acme")
    assert after.origin == "elsewhere" and after.log.agreed == after.log.known == 4
    first = next(row for row in stored(folder, tables.LEAVES) if row.key == tables.number_key("acme", 0))
    flip(folder, first, 20)  # the act says what it was
    after = of(recovered(folder, tmp_path / "r1"), "acme")
    assert after.log.agreed == 0 and after.log.lost == ((0, 0),) and after.log.size == 4
    checked(tmp_path / "r1").close()
    overwrite(folder, first.offset, first.value)
    act = next(row for row in stored(folder, tables.JOURNAL) if b"jLogAdopted" in row.value)
    flip(folder, act, 90)
    after = of(recovered(folder, tmp_path / "r2"), "acme")
    assert after.log.agreed == 0 and after.log.lost == ((0, 0),) and after.origin != "elsewhere"
    checked(tmp_path / "r2").close()


# --- any damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20261129, 20261129 + 60))
def test_whatever_the_damage_what_is_recovered_is_a_beginning_of_what_was(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    journal = rich_store()
    folder = on_disk(journal, tmp_path / "s")
    data = bytearray((folder / "data.mdb").read_bytes())
    for _ in range(chance.choice([1, 1, 3])):
        page = chance.randrange(len(data) // PAGE)
        match chance.randrange(3):
            case 0:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            case 1:
                data[page * PAGE : (page + 1) * PAGE] = chance.choice([bytes(PAGE), chance.randbytes(PAGE)])
            case _:
                del data[max(4 * PAGE, chance.randrange(len(data))) :]
    (folder / "data.mdb").write_bytes(data)
    try:
        found = recovered(folder, tmp_path / "r")
    except Corrupt:
        found = None
    assert (found is None) == (not (tmp_path / "r").exists())
    if found is None:
        return
    with checked(tmp_path / "r") as again:
        for name in again.tenants():
            before, after = hashes(journal, name), hashes(again, name)
            assert all(before[run][: len(kept)] == kept for run, kept in after.items())
            assert of(found, name).records == sum(map(len, after.values()))
            agreed = of(found, name).log.agreed
            was, now = (each.tenant(name).leaf_entries(0, agreed) if agreed else [] for each in (journal, again))
            assert was == now and len(now) == agreed
            lost = {run.run: run.kept for run in of(found, name).lost_runs}
            assert all(
                lost.get(run, len(all_)) == len(after.get(run, [])) for run, all_ in before.items() if run in lost
            )
    assert (folder / "data.mdb").read_bytes() == data


def test_a_store_without_the_file_that_says_whose_it_is_is_recovered(tmp_path: Path) -> None:
    journal = small_store()
    folder = on_disk(journal, tmp_path / "s")
    (folder / "SEALBOOK").unlink()
    found = recovered(folder, tmp_path / "r")
    assert not found.whole and found.remarks[0].startswith("SEALBOOK cannot be read")
    [store] = stored(folder, tables.STORE)
    flip(folder, store, 20)
    recovered(folder, tmp_path / "r2")
    for target in ("r", "r2"):
        with checked(tmp_path / target) as again:
            assert again.view.setting.identity.lineage_id == journal.view.setting.identity.lineage_id


# --- the two places --------------------------------------------------------------------------------------------------


def test_nothing_is_recovered_in_place_or_over_anything(tmp_path: Path) -> None:
    folder = on_disk(small_store(), tmp_path / "s")
    for target in (folder, tmp_path):
        with pytest.raises(InvalidInput):
            recovered(folder, target)
    with pytest.raises(StoreMissing, match="nothing to recover"):
        recovered(tmp_path / "nothing", tmp_path / "r")
    with pytest.raises(EngineFailed, match="make that folder first"):
        recovered(folder, tmp_path / "nothing" / "r")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


def test_a_store_that_is_being_written_to_is_left_to_its_writer(tmp_path: Path) -> None:
    folder = on_disk(small_store(), tmp_path / "s")
    with (folder / "writer.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Busy):
            recovered(folder, tmp_path / "r")


def test_a_killed_recovery_leaves_the_source_and_a_whole_store_or_none(tmp_path: Path) -> None:
    folder = on_disk(small_store(), tmp_path / "s")
    flip(folder, record_at(folder, "acme", 3), 120)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    kills = 0
    for number in range(100):
        target = tmp_path / f"r{number}"
        killed = killed_at(number, partial(recovered, folder, target))
        kills += killed
        if not target.exists():
            recovered(folder, target)
        with checked(target) as again:
            assert len(again.tenant("acme").read("b")) == 4
        assert not target.with_name(f"{target.name}.restoring").exists()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        shutil.rmtree(target)
        if not killed:
            break
    assert kills >= 8


def test_nothing_is_recovered_into_the_store_that_it_comes_from(tmp_path: Path) -> None:
    Journal.open(tmp_path / "s", create=True).close()
    before = set(os.listdir(tmp_path / "s"))
    with pytest.raises(InvalidInput, match="lies inside the store"):
        recover(tmp_path / "s", tmp_path / "s" / "x", actor="ada")
    assert set(os.listdir(tmp_path / "s")) == before
