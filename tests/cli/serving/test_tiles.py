"""`log tiles`: a folder that leads to what was signed, at every size that was published, and never goes back."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import Result
from published_log import ORIGIN, PublishedLog, log_signer, publish, signed_note

from sealbook.cli.serving.tiles import FolderOfTiles, StoreOfTiles, check_ours, write_tiles
from sealbook.journal import InvalidInput, Journal, entries
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.tiles import EntryBundle, HashTile, decode_bundle, tile_reader
from sealbook.merkle.tree import Node

Call = Callable[..., Result]
SIZES = (0, 1, 255, 256, 257, 1000, 66_000)


@pytest.fixture(scope="module")
def log() -> PublishedLog:
    return PublishedLog(66_000)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def read_back(folder: Path, size: int) -> bytes:
    """The root of this size, computed from the folder's tiles."""

    def fetch(wanted: Sequence[HashTile]) -> list[bytes]:
        found = [FolderOfTiles(folder).find(tile.path()) for tile in wanted]
        return [data for data in found if data is not None]

    return tree.root(size, tile_reader(size, fetch))


def test_the_folder_has_the_tiles_of_every_size_that_was_published(log: PublishedLog, tmp_path: Path) -> None:
    old = 0
    for size in SIZES:
        written = write_tiles(tmp_path, log, log.note(size))
        assert (written.old_size, written.new_size) == (old, size)
        assert (tmp_path / "checkpoint").read_bytes() == log.note(size)
        old = size
    found = files(tmp_path)
    for size in SIZES[1:]:
        assert read_back(tmp_path, size) == log.checkpoint(size).root
        if size % 256:
            place = HashTile(0, size // 256, size % 256)
            assert place.path() in found
            assert EntryBundle(place.index, place.width).path() in found
    bundle = EntryBundle(257, 66_000 % 256)
    assert decode_bundle(bundle, found[bundle.path()]) == log.entries[257 * 256 :]
    assert LeafEntry.decode(decode_bundle(bundle, found[bundle.path()])[0]).seq == 257 * 256 + 1


def test_sizes_published_in_between_have_their_partial_tiles(log: PublishedLog, tmp_path: Path) -> None:
    step_by_step, at_once = tmp_path / "steps", tmp_path / "once"
    for size in (100, 250, 300, 511, 700):
        write_tiles(step_by_step, log, log.note(size))
    published = [100, 250, 300, 511, 700, 800]
    write_tiles(at_once, log, log.note(250), sizes_after=lambda size: [each for each in published if each > size])
    write_tiles(at_once, log, log.note(700), sizes_after=lambda size: [each for each in published if each > size])
    assert files(at_once) == files(step_by_step)


def test_what_is_there_is_not_written_again(log: PublishedLog, tmp_path: Path) -> None:
    write_tiles(tmp_path, log, log.note(600))
    before = {path: path.stat() for path in tmp_path.rglob("*") if path.is_file()}
    assert write_tiles(tmp_path, log, log.note(600)).files == 0
    write_tiles(tmp_path, log, log.note(1000))
    for path, stat in before.items():
        after = path.stat()
        if path.name != "checkpoint":
            assert (after.st_ino, after.st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns), path


def test_more_cosignatures_at_the_same_size_replace_the_checkpoint_alone(log: PublishedLog, tmp_path: Path) -> None:
    write_tiles(tmp_path, log, log.note(300))
    other = signed_note(log.checkpoint(300), signer=log_signer(seed=2))
    assert write_tiles(tmp_path, log, other).files == 1
    assert (tmp_path / "checkpoint").read_bytes() == other


def test_a_folder_that_holds_a_larger_log_is_refused_and_left_as_it_is(log: PublishedLog, tmp_path: Path) -> None:
    write_tiles(tmp_path, log, log.note(1000))
    before = files(tmp_path)
    with pytest.raises(VerificationError, match="holds size 1000, the published checkpoint has 999"):
        write_tiles(tmp_path, log, log.note(999))
    assert files(tmp_path) == before


@pytest.mark.parametrize("size", [700, 1000])
def test_a_folder_of_another_history_is_refused_and_left_as_it_is(log: PublishedLog, tmp_path: Path, size: int) -> None:
    write_tiles(tmp_path, log, log.note(700))
    before = files(tmp_path)
    fork = PublishedLog(1000, fork=1)
    with pytest.raises(VerificationError, match=f"not the beginning of the log of size {size}"):
        write_tiles(tmp_path, fork, fork.note(size))
    assert files(tmp_path) == before


def test_a_folder_of_another_origin_is_refused(log: PublishedLog, tmp_path: Path) -> None:
    write_tiles(tmp_path, log, log.note(10))
    other = signed_note(log.checkpoint(20, origin="example.com/other"))
    with pytest.raises(VerificationError, match=r"holds the tiles of 'example.com/log', not of 'example.com/other'"):
        write_tiles(tmp_path, log, other)


def test_a_root_that_the_tiles_do_not_lead_to_is_never_published(log: PublishedLog, tmp_path: Path) -> None:
    write_tiles(tmp_path, log, log.note(300))
    wrong = signed_note(Checkpoint(ORIGIN, 700, bytes(32)))
    with pytest.raises(VerificationError, match="the tiles of size 700 lead to root"):
        write_tiles(tmp_path, log, wrong)
    assert (tmp_path / "checkpoint").read_bytes() == log.note(300)


def test_an_entry_that_its_hash_does_not_cover_is_never_published(tmp_path: Path) -> None:
    log = PublishedLog(300)
    log.entries[280] = log.entries[279]
    with pytest.raises(VerificationError, match="leaf 280 has another entry than its hash says"):
        write_tiles(tmp_path, log, log.note())
    assert not (tmp_path / "checkpoint").exists()


def test_a_file_that_holds_something_else_is_refused(log: PublishedLog, tmp_path: Path) -> None:
    write_tiles(tmp_path, log, log.note(300))
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "tile/0/000").write_bytes(b"something else")
    with pytest.raises(VerificationError, match="000 holds something else than the log"):
        write_tiles(tmp_path, log, log.note(300))


def test_a_run_cut_short_anywhere_is_completed_by_the_next(
    log: PublishedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    write_tiles(whole, log, log.note(300))
    write_tiles(whole, log, log.note(600))
    steps = 0

    def cut(after: int) -> Callable[..., None]:
        real = os.fsync

        def fsync(descriptor: int) -> None:
            nonlocal steps
            steps += 1
            if steps > after:
                raise OSError(28, "No space left on device")
            real(descriptor)

        return fsync

    for after in range(40):
        folder = tmp_path / f"cut-{after}"
        write_tiles(folder, log, log.note(300))
        steps = 0
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", cut(after))
            try:
                write_tiles(folder, log, log.note(600))
            except OSError:
                finished = False
            else:
                finished = True
        size = 600 if (folder / "checkpoint").read_bytes() == log.note(600) else 300
        assert read_back(folder, size) == log.checkpoint(size).root
        kept = {path: path.stat().st_ino for path in (folder / "tile").rglob("*") if path.suffix != ".new"}
        write_tiles(folder, log, log.note(600))
        assert {path: path.stat().st_ino for path in kept} == kept  # what stood there was not written again
        left = {name: data for name, data in files(folder).items() if not name.endswith(".new")}
        assert left == files(whole)
        if finished:
            assert steps == after
            return
    pytest.fail("it never came to an end")


def test_the_checkpoint_takes_its_place_after_everything_else_is_durable(
    log: PublishedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        events.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).relative_to(tmp_path).as_posix()}")
        real_fsync(descriptor)

    def replace(self: Path, target: Path) -> Path:
        events.append(f"rename {Path(target).relative_to(tmp_path).as_posix()}")
        return real_replace(self, target)

    folder = tmp_path / "log"
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    write_tiles(folder, log, log.note(300))
    assert events[-3:] == ["fsync log/checkpoint.new", "rename log/checkpoint", "fsync log"]
    for event in events[:-3]:
        if event.startswith("rename "):
            name = event.removeprefix("rename ")
            assert events.index(f"fsync {name}.new") < events.index(event)
            place = Path(name).parent
            while place.as_posix() != ".":
                synced = [number for number, other in enumerate(events[:-3]) if other == f"fsync {place.as_posix()}"]
                assert synced
                assert synced[-1] > events.index(event)
                place = place.parent


def test_a_partial_tile_of_a_size_between_is_cut_from_a_wider_one(log: PublishedLog, tmp_path: Path) -> None:
    write_tiles(tmp_path, log, log.note(300))
    write_tiles(tmp_path, log, log.note(700))
    folder = FolderOfTiles(tmp_path)
    for place in (HashTile(0, 1, 7), HashTile(0, 2, 100), EntryBundle(2, 100), EntryBundle(0, 255), HashTile(1, 0, 1)):
        assert folder.find(place.path()) == StoreOfTiles(log, lambda: log.note(700)).find(place.path())
        assert folder.find(place.path()) is not None
    for place in (HashTile(0, 2, 189), HashTile(0, 2), EntryBundle(3, 1), HashTile(1, 0, 3)):
        assert folder.find(place.path()) is None


def test_the_store_has_the_tiles_up_to_the_published_size_and_no_further(log: PublishedLog) -> None:
    store = StoreOfTiles(log, lambda: log.note(300))
    assert store.find("checkpoint") == log.note(300)
    assert store.find(HashTile(0, 1, 44).path()) is not None
    assert store.find(HashTile(0, 1, 45).path()) is None
    assert store.find(HashTile(1, 0, 1).path()) == log.nodes[Node(8, 0)]
    assert store.find(EntryBundle(1, 45).path()) is None
    assert store.find("tile/0/1") is None
    nothing = StoreOfTiles(log, lambda: None)
    assert nothing.find("checkpoint") is None
    assert nothing.find(HashTile(0, 0).path()) is None


@pytest.mark.parametrize(
    ("checkpoint", "part"),
    [
        (Checkpoint("example.com/other", 0, PublishedLog().checkpoint().root), "the log is 'example.com/log'"),
        (Checkpoint(ORIGIN, 66_001, bytes(32)), "has size 66001, the log has 66000"),
        (Checkpoint(ORIGIN, 300, bytes(32)), "at size 300 the log has root"),
    ],
)
def test_a_checkpoint_that_is_not_of_this_log_is_named(log: PublishedLog, checkpoint: Checkpoint, part: str) -> None:
    with pytest.raises(VerificationError, match=part):
        check_ours(log, checkpoint, ORIGIN, len(log.entries))
    check_ours(log, log.checkpoint(300), ORIGIN, len(log.entries))


def test_the_tenant_gives_entries_and_nodes_of_its_log(store: Path) -> None:
    with Journal.open(store, readonly=True) as journal:
        tenant = journal.tenant()
        entries = tenant.leaf_entries(0, 10)
        assert tenant.leaf_entries(1, 1) == entries[1:]
        assert tenant.leaf_entries(2, 5) == []
        assert [LeafEntry.decode(entry).hash() for entry in entries] == tenant.tree_nodes([Node(0, 0), Node(0, 1)])
        assert tenant.tree_nodes([Node(1, 0)]) == [tenant.checkpoint().root]


def test_the_verb_writes_the_tiles_of_a_signed_checkpoint(call: Call, store: Path, tmp_path: Path) -> None:
    with Journal.open(store, readonly=True) as journal:
        checkpoint = journal.tenant().checkpoint()
    (tmp_path / "note").write_bytes(signed_note(checkpoint))
    target = tmp_path / "deep" / "tiles"
    result = call("log", "tiles", "--to", str(target), "--checkpoint", str(tmp_path / "note"), "-o", "json")
    assert json.loads(result.stdout) == {"folder": str(target), "old_size": 0, "new_size": 2, "files": 3}
    assert read_back(target, 2) == checkpoint.root
    again = call("log", "tiles", "--to", str(target), "--checkpoint", str(tmp_path / "note"))
    assert again.stdout == f"{target}: size 2 to 2, 0 files written\n"


def test_the_verb_refuses_the_checkpoint_of_another_log(call: Call, tmp_path: Path) -> None:
    (tmp_path / "note").write_bytes(PublishedLog(2).note())
    result = call("log", "tiles", "--to", str(tmp_path / "tiles"), "--checkpoint", str(tmp_path / "note"))
    assert result.exit_code == 3
    assert "the checkpoint is of 'example.com/log', the log is 'sealbook'" in result.stderr
    assert not (tmp_path / "tiles").exists()


def test_the_verb_writes_what_was_published_and_every_size_of_it(call: Call, store: Path, tmp_path: Path) -> None:
    target = tmp_path / "tiles"
    nothing = call("log", "tiles", "--to", str(target))
    assert nothing.exit_code == 4
    assert "no published checkpoint of log 'sealbook'" in nothing.stderr
    with Journal.open(store) as journal:
        tenant = journal.tenant()
        for number in range(3):
            publish(tenant)
            concluded = [entries.admitted(), entries.concluded("completed")]
            tenant.append(f"more-{number}", concluded, epoch=1, seal=True)
        note = tenant.published_checkpoint()
        assert tenant.published_sizes(0) == [2, 3, 4]
        assert tenant.published_sizes(2, 1) == [3]
    assert call("log", "tiles", "--to", str(target)).stdout == f"{target}: size 0 to 4, 7 files written\n"
    found = files(target)
    assert found.pop("checkpoint") == note
    assert sorted(found) == [f"tile/{level}/000.p/{width}" for level in ("0", "entries") for width in (2, 3, 4)]


def test_an_older_copy_of_the_store_is_refused_with_the_sizes(call: Call, store: Path, tmp_path: Path) -> None:
    target = tmp_path / "tiles"
    with Journal.open(store) as journal:
        publish(journal.tenant())
    copy = shutil.copytree(store, tmp_path / "copy")
    with Journal.open(store) as journal:
        tenant = journal.tenant()
        tenant.append("more", [entries.admitted(), entries.concluded("completed")], epoch=1, seal=True)
        publish(tenant)
    assert call("log", "tiles", "--to", str(target)).exit_code == 0
    shutil.rmtree(store)
    shutil.copytree(copy, store)
    result = call("log", "tiles", "--to", str(target))
    assert result.exit_code == 3
    assert "holds size 3, the published checkpoint has 2: the store is older than what was published" in result.stderr


@pytest.mark.parametrize("name", ["data.mdb", "example.com.pem", "notes.txt"])
def test_a_folder_that_holds_other_things_does_not_become_one_of_tiles(
    log: PublishedLog, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(b"not for everybody")
    with pytest.raises(InvalidInput, match=f"holds {name} and no tiles"):
        write_tiles(tmp_path, log, log.note(SIZES[0]))
    assert files(tmp_path) == {name: b"not for everybody"}


def test_an_interrupted_first_writing_is_resumed_and_other_files_may_come_later(
    log: PublishedLog, tmp_path: Path
) -> None:
    (tmp_path / "tile").mkdir()
    write_tiles(tmp_path, log, log.note(SIZES[0]))
    (tmp_path / "index.html").write_bytes(b"a page beside the tiles")
    assert write_tiles(tmp_path, log, log.note(SIZES[1])).new_size == SIZES[1]
