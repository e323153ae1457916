"""A backup is whole and checked or not there, is of this store and goes on from what it was, and leaves no trace."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from damaging import killed_at, on_disk, stored
from published_log import publish, signed_note
from tampering import change, engine_of, rich_store

from sealbook.journal import (
    Busy,
    Corrupt,
    Fenced,
    InvalidInput,
    Journal,
    NotFound,
    StoreFull,
    UnknownVersion,
    WrongFormat,
    entries,
)
from sealbook.journal.copies.backup import BackedUp, backup, generation_folder, read_manifest, verify_backup
from sealbook.journal.copies.salvage.recovering import recover
from sealbook.journal.deciding.log.promises import PublishedAhead
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.journal.records.names import RESTORATION
from sealbook.journal.schema import tables
from sealbook.journal.testing import ManualClock
from sealbook.merkle import Checkpoint

MADE_AT = 1_795_939_200_000
WRITER = """
import sys
from sealbook.journal import Journal, entries
with Journal.open(sys.argv[1]) as journal:
    acme = journal.tenant("acme")
    print("writing", flush=True)
    for number in range(1_000_000):
        acme.append(f"run-{number % 5}", [entries.note("x" * 500) for _ in range(20)], epoch=1)
        acme.anchor(f"run-{number % 5}")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return on_disk(rich_store(), tmp_path / "s")


def backed_up(folder: Path, path: Path, made_at: int = MADE_AT) -> BackedUp:
    with Journal.open(folder, readonly=True) as journal:
        return backup(journal, path, made_at=made_at)


def sound(path: Path) -> bool:
    return verify_backup(path).report.findings == ()


def tree(path: Path) -> dict[str, bytes | int]:
    """Every file below, and every folder's mode."""
    return {
        str(each.relative_to(path)): each.read_bytes() if each.is_file() else each.stat().st_mode
        for each in path.rglob("*")
    }


def read_folder(path: Path) -> Path:
    return generation_folder(path, read_manifest(path).generation)


def append(folder: Path, run: str = "more") -> None:
    with Journal.open(folder) as journal:
        journal.tenant("acme").append(run, [entries.note("n")], epoch=1)


# --- making one ------------------------------------------------------------------------------------------------------


def test_a_backup_holds_all_that_the_store_has(folder: Path, tmp_path: Path) -> None:
    done = backed_up(folder, tmp_path / "b")
    assert done.copied and sound(tmp_path / "b")
    wanted = {(row.table, row.key, row.value) for row in stored(folder, *tables.TABLES)}
    assert {(row.table, row.key, row.value) for row in stored(done.folder, *tables.TABLES)} == wanted
    assert (done.folder / "SEALBOOK").read_bytes() == (folder / "SEALBOOK").read_bytes()
    with Journal.open(folder, readonly=True) as journal:
        assert done.manifest.store == journal.store_id
        for tenant in done.manifest.tenants:
            checkpoint = journal.tenant(tenant.tenant).checkpoint()
            assert (tenant.size, tenant.root) == (checkpoint.size, checkpoint.root)
            assert tenant.bytes > tenant.records * 100


def test_a_backup_is_its_owners_alone_whatever_the_umask(folder: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        backed_up(folder, tmp_path / "b")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / "b", *(tmp_path / "b").rglob("*")]}
    files = {"BACKUP", "SEALBOOK", "data.mdb", "lock"}
    assert modes == {"b": 0o700, "store-1": 0o700} | dict.fromkeys(files, 0o600)


def test_101_a_store_that_is_written_to_by_another_process_is_copied_whole(tmp_path: Path) -> None:
    Journal.open(tmp_path / "s", create=True).close()
    writer = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "s"], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None and writer.stdout.readline() == b"writing\n"
        seen = [0]
        while len(seen) < 6 or seen[-1] == seen[1]:
            assert writer.poll() is None
            backed_up(tmp_path / "s", tmp_path / "b")
            assert sound(tmp_path / "b")
            seen.append(sum(tenant.records for tenant in read_manifest(tmp_path / "b").tenants))
        assert seen == sorted(seen)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    copies = {row.key: row.value for row in stored(read_folder(tmp_path / "b"), tables.JOURNAL)}
    assert copies.items() <= {row.key: row.value for row in stored(tmp_path / "s", tables.JOURNAL)}.items()
    assert len(copies) == seen[-1]


def test_a_store_that_has_had_no_commit_since_is_not_copied_again(folder: Path, tmp_path: Path) -> None:
    backed_up(folder, tmp_path / "b")
    before = tree(tmp_path / "b")
    again = backed_up(folder, tmp_path / "b", MADE_AT + 1)
    assert (again.copied, again.manifest.made_at) == (False, MADE_AT)
    assert tree(tmp_path / "b") == before


@pytest.mark.parametrize(
    "commit",
    [
        lambda acme: acme.append("new", [entries.note("n")], epoch=1),
        lambda acme: acme.acquire("new", owner="w", ttl=30),
        lambda acme: acme.anchor("wait"),
        publish,
        lambda acme: acme.request_cancel("new", actor="ops"),
    ],
)
def test_whatever_was_committed_since_is_copied(commit: Any, folder: Path, tmp_path: Path) -> None:
    backed_up(folder, tmp_path / "b")
    with Journal.open(folder) as journal:
        commit(journal.tenant("acme"))
    again = backed_up(folder, tmp_path / "b")
    assert again.copied and again.manifest.generation == 2 and sound(tmp_path / "b")
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["BACKUP", "lock", "store-2"]


def test_a_lost_copy_is_made_again_though_nothing_was_committed(folder: Path, tmp_path: Path) -> None:
    done = backed_up(folder, tmp_path / "b")
    (done.folder / "data.mdb").unlink()
    assert backed_up(folder, tmp_path / "b").copied and sound(tmp_path / "b")


def test_a_store_in_memory_has_nothing_to_copy(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        backup(Journal.in_memory(), tmp_path / "b", made_at=MADE_AT)
    assert not (tmp_path / "b").exists()


# --- what is never written over --------------------------------------------------------------------------------------


def test_nothing_but_a_backup_of_this_store_is_written_over(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_bytes(b"mine")
    (tmp_path / "like").mkdir()
    (tmp_path / "like" / "store-1").mkdir()
    other = on_disk(rich_store(), tmp_path / "other")
    backed_up(other, tmp_path / "of another")
    for path in (tmp_path / "file", tmp_path / "mine", tmp_path / "like", folder, tmp_path / "of another"):
        before = tree(path)
        with pytest.raises(InvalidInput):
            backed_up(folder, path)
        assert tree(path) == before


def test_a_backup_whose_manifest_is_damaged_or_newer_is_left_alone(folder: Path, tmp_path: Path) -> None:
    backed_up(folder, tmp_path / "b")
    manifest = tmp_path / "b" / "BACKUP"
    text = manifest.read_bytes()
    append(folder)
    for changed, error in (
        (text.replace(b'"records": ', b'"records": 1'), Corrupt),
        (text[:-40], Corrupt),
        (text.replace(b'"v": 1', b'"v": 2'), UnknownVersion),
    ):
        manifest.write_bytes(changed)
        before = tree(tmp_path / "b")
        for use in (lambda: backed_up(folder, tmp_path / "b"), lambda: verify_backup(tmp_path / "b")):
            with pytest.raises(error):
                use()
        assert tree(tmp_path / "b") == before


def test_an_older_copy_of_the_store_never_takes_the_place_of_a_newer_backup(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "yesterday")
    append(folder)
    backed_up(folder, tmp_path / "b")
    before = tree(tmp_path / "b")
    with pytest.raises(Corrupt, match="does not go on from what the backup holds"):
        backed_up(tmp_path / "yesterday", tmp_path / "b")
    append(tmp_path / "yesterday", "another")  # as many records as the backup, and another one at the end
    with pytest.raises(Corrupt, match="it has another one there"):
        backed_up(tmp_path / "yesterday", tmp_path / "b")
    assert tree(tmp_path / "b") == before


def test_another_log_never_takes_the_place_of_the_one_that_was_backed_up(folder: Path, tmp_path: Path) -> None:
    append(folder)
    shutil.copytree(folder, tmp_path / "fork")
    for path, run in ((folder, "more"), (tmp_path / "fork", "wait")):
        with Journal.open(path) as journal:
            journal.tenant("acme").anchor(run)
    backed_up(folder, tmp_path / "b")
    with pytest.raises(Corrupt, match="leaves that this one does not begin with"):
        backed_up(tmp_path / "fork", tmp_path / "b")


def test_a_log_that_went_on_under_another_origin_is_backed_up(folder: Path, tmp_path: Path) -> None:
    backed_up(folder, tmp_path / "b")
    with Journal.open(folder) as journal:
        beta = journal.tenant("beta")
        beta.adopt_log("elsewhere/beta", signed_note(Checkpoint(beta.origin, 9, bytes(32))), actor="ada")
    assert backed_up(folder, tmp_path / "b").copied and sound(tmp_path / "b")


def test_a_damaged_store_never_takes_the_place_of_a_sound_backup(folder: Path, tmp_path: Path) -> None:
    backed_up(folder, tmp_path / "b")
    before = tree(tmp_path / "b")
    with Journal.open(folder) as journal:
        change(engine_of(journal), {(tables.JOURNAL, tables.number_key("acme", 3)): None})
        journal.tenant("acme").append("more", [entries.note("n")], epoch=1)
    with pytest.raises(Corrupt, match="the store is damaged, the backup stays as it was"):
        backed_up(folder, tmp_path / "b")
    assert tree(tmp_path / "b") == before
    with pytest.raises(Corrupt, match="the store is damaged, no backup was made"):
        backed_up(folder, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("made", [True, False])
def test_a_backup_that_never_came_to_be_leaves_no_folder_that_was_not_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    def full(path: Path, data: bytes) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sealbook.journal.copies.backup._write", full)
    if made:
        (tmp_path / "b").mkdir()
    with pytest.raises(StoreFull):
        backed_up(folder, tmp_path / "b")
    assert (tmp_path / "b").exists() == made


def test_two_backups_into_one_place_do_not_mix(folder: Path, tmp_path: Path) -> None:
    backed_up(folder, tmp_path / "b")
    with (tmp_path / "b" / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for use in (lambda: backed_up(folder, tmp_path / "b"), lambda: verify_backup(tmp_path / "b")):
            with pytest.raises(Busy):
                use()


def test_a_killed_backup_leaves_the_old_one_or_the_new_one_and_runs_again(folder: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "first", tmp_path / "second"):
        if path.name == "second":
            backed_up(folder, path)
            append(folder)
        kills = 0
        for number in range(100):
            here = tmp_path / f"{path.name}-{number}"
            if path.exists():
                shutil.copytree(path, here)
            killed = killed_at(number, partial(backed_up, folder, here, MADE_AT + 1))
            kills += killed
            try:
                assert sound(here)
            except NotFound:
                assert path.name == "first"
            assert backed_up(folder, here).manifest.made_at in (MADE_AT, MADE_AT + 1)
            assert sound(here) and len(list(here.glob("store-*"))) == 1
            shutil.rmtree(here)
            if not killed:
                break
        assert kills >= 6
        with Journal.open(folder, readonly=True) as journal:
            assert journal.check().findings == ()


# --- verifying one ---------------------------------------------------------------------------------------------------


def test_a_backup_that_was_changed_at_any_byte_is_found_out(folder: Path, tmp_path: Path) -> None:
    done = backed_up(folder, tmp_path / "b")
    for path in (tmp_path / "b" / "BACKUP", done.folder / "SEALBOOK", done.folder / "data.mdb"):
        data = path.read_bytes()
        for at in range(0, len(data), max(1, len(data) // 40)):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            with pytest.raises((Corrupt, UnknownVersion, WrongFormat)):
                verify_backup(tmp_path / "b")
        for changed in (data[:-1], data + b"\n", b""):
            path.write_bytes(changed)
            with pytest.raises((Corrupt, WrongFormat)):
                verify_backup(tmp_path / "b")
        path.write_bytes(data)
    assert sound(tmp_path / "b")
    (done.folder / "data.mdb").unlink()
    with pytest.raises(Corrupt, match="has lost"):
        verify_backup(tmp_path / "b")


def test_where_no_backup_is_none_is_found(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotFound):
            verify_backup(path)


def test_to_verify_a_backup_leaves_it_as_it_was(folder: Path, tmp_path: Path) -> None:
    backed_up(folder, tmp_path / "b")
    before = tree(tmp_path / "b")
    assert sound(tmp_path / "b")
    assert tree(tmp_path / "b") == before


# --- bringing one back -----------------------------------------------------------------------------------------------


def test_a_backup_that_is_recovered_issues_no_epoch_a_second_time(tmp_path: Path) -> None:
    clock = ManualClock()
    with Journal.open(tmp_path / "s", create=True, clock=clock) as journal:
        acme = journal.tenant("acme")
        acme.append("r", [entries.note("1")], lease=acme.acquire("r", owner="w1", ttl=1))
        done = backup(journal, tmp_path / "b", made_at=MADE_AT)
        clock.advance(2)
        late = acme.acquire("r", owner="w2", ttl=30)
    found = recover(done.folder, tmp_path / "r", actor="ada", clock=clock)
    assert found.whole
    with Journal.open(tmp_path / "r", clock=clock) as again:
        tenant = again.tenant("acme")
        with pytest.raises(Fenced):
            tenant.append("r", [entries.note("2")], lease=late)
        tenant.force_lease("r", actor="ops", reason="brought back")
        assert tenant.acquire("r", owner="w3", ttl=30).epoch > RESTORATION > late.epoch
        assert again.check().findings == ()


def test_a_key_signs_no_less_than_it_has_signed_when_an_older_backup_is_brought_back(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys")
    ring.generate(Purpose.LOG, "sealbook/acme", created=MADE_AT)

    def sign(checkpoint: Checkpoint, consistent: Any) -> Any:
        return ring.sign_checkpoint(checkpoint, consistent=consistent)

    with Journal.open(tmp_path / "s", create=True) as journal:
        acme = journal.tenant("acme")
        acme.append("r", [entries.note("1")], epoch=1)
        acme.anchor("r")
        done = backup(journal, tmp_path / "b", made_at=MADE_AT)
        acme.append("r", [entries.note("2")], epoch=1)
        acme.anchor("r")
        acme.sign_checkpoint(sign)
    assert recover(done.folder, tmp_path / "r", actor="ada").whole
    with Journal.open(tmp_path / "r") as again, pytest.raises(PublishedAhead):
        again.tenant("acme").sign_checkpoint(sign)


def test_a_backup_does_not_lie_inside_its_store(folder: Path) -> None:
    before = set(os.listdir(folder))
    with pytest.raises(InvalidInput, match="lies inside the store"):
        backed_up(folder, folder / "b")
    assert set(os.listdir(folder)) == before
