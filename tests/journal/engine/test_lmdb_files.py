"""The files of a store: how they are made, and what is said when they are not what they were."""

from __future__ import annotations

import os
import shutil
import stat
import struct
from pathlib import Path
from typing import Any

import lmdb
import pytest

from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.lmdb import STORE_PLACE, LmdbEngine
from sealbook.journal.engine.port import Writes
from sealbook.journal.errors import Corrupt, EngineFailed, StoreMissing, WrongFormat

Store = Any  # the fixture's class, see conftest.py
Child = Any

ROWS = 400


@pytest.fixture
def filled(store: Store) -> Path:
    """The folder of a closed store with a few hundred rows, some of them long, in two tables."""
    engine = store.create()
    for n in range(ROWS // 50):
        puts = {("t", b"%04d" % (50 * n + i)): bytes(200) for i in range(50)} | {("u", b"%d" % n): bytes(9000)}
        engine.write(lambda snapshot, moment, puts=puts: (Writes(puts=puts), None))
    engine.close()
    return Path(store.folder)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}


# --- creation -----------------------------------------------------------------------------------------------------


def test_a_new_store_has_its_identity_and_its_store_row(store: Store) -> None:
    engine = store.create()
    assert engine.identity_text == b"who"
    assert engine.engine_format == 1
    with engine.snapshot() as snapshot:
        assert snapshot.get_many([STORE_PLACE]) == [b"store"]
    assert sorted(os.listdir(store.folder)) == ["SEALBOOK", "data.mdb", "lock.mdb", "writer.lock"]


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o177])
def test_the_folder_is_0700_and_files_are_0600_whatever_the_umask(child: Child, folder: Path, umask: int) -> None:
    # A child's own umask: os.umask() belongs to a process, not to a test.
    result = child("os.umask(int(sys.argv[2])); e = created(); put(e, b'k'); say(get(e, b'k'))", umask)
    assert result.stdout == "b'v'\n", result.stderr
    assert modes(folder) == {
        folder.name: 0o700,
        "SEALBOOK": 0o600,
        "data.mdb": 0o600,
        "lock.mdb": 0o600,
        "writer.lock": 0o600,
    }


def test_creating_over_a_store_opens_it(store: Store) -> None:
    first = store.create()
    store.put(first, b"k")
    first.close()
    second = LmdbEngine.create(store.folder, identity_text=b"other", store_value=b"other", clock=system_clock)
    assert second.identity_text == b"who"
    assert store.get(second, b"k") == b"v"
    second.close()


def test_an_empty_folder_becomes_a_store(store: Store) -> None:
    store.folder.mkdir(mode=0o755)
    store.create()
    assert modes(store.folder)[store.folder.name] == 0o700


def test_tables_that_are_named_at_creation_are_there_at_once(store: Store) -> None:
    store.create(tables=["a", "b"]).close()
    env = lmdb.open(str(store.folder), max_dbs=9)
    assert sorted(env.dbs()) == [b"a", b"b", b"store"]
    env.close()


STEPS = {
    "after the writer's lock": "store_folder.start_creation",
    "in SEALBOOK.new": "os.fchmod",
    "after SEALBOOK.new": "store_folder.allocate_lock_file",
    "after the store row": "store_folder.finish_creation",
    "before the rename": "os.rename",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_creation_that_was_cut_short_is_none_and_can_be_done_again(child: Child, store: Store, step: str) -> None:
    result = child(f"{STEPS[step]} = lambda *a, **k: os._exit(9); created()")
    assert result.returncode == 9, result.stderr
    with pytest.raises(StoreMissing):
        store.open()
    engine = store.create()
    store.put(engine, b"k")
    assert engine.identity_text == b"who"
    assert sorted(os.listdir(store.folder)) == ["SEALBOOK", "data.mdb", "lock.mdb", "writer.lock"]


def test_a_creation_that_was_cut_short_after_the_rename_is_complete(child: Child, store: Store) -> None:
    code = """
rename = os.rename
def rename_and_die(*args):
    rename(*args)
    os._exit(9)
os.rename = rename_and_die
created()
"""
    assert child(code).returncode == 9
    with store.open().snapshot() as snapshot:
        assert snapshot.get_many([STORE_PLACE]) == [b"store"]


def test_of_two_processes_that_create_at_once_one_does_and_the_other_opens(start: Any, store: Store) -> None:
    code = """
say("ready")
sys.stdin.readline()
name = sys.argv[2].encode()
engine = LmdbEngine.create(path, identity_text=name, store_value=name, clock=system_clock)
put(engine, name)
say(engine.identity_text.decode(), get(engine, b"store", "store").decode())
"""
    creators = [start(code, f"creator{n}") for n in range(4)]
    for creator in creators:
        assert creator.stdout.readline() == "ready\n"
    for creator in creators:
        creator.stdin.write("go\n")
    said = [creator.stdout.readline().split() for creator in creators]
    assert len({word for words in said for word in words}) == 1, said
    assert said[0][0].startswith("creator")
    engine = store.open()
    assert [store.get(engine, b"creator%d" % n) for n in range(4)] == [b"v"] * 4


def test_records_are_never_taken_for_an_unfinished_creation(filled: Path) -> None:
    (filled / "SEALBOOK").rename(filled / "SEALBOOK.new")
    with (filled / "data.mdb").open("r+b") as file:
        file.truncate(2 << 20)
    with pytest.raises(Corrupt, match="more than an unfinished creation"):
        LmdbEngine.create(filled, identity_text=b"x", store_value=b"x", clock=system_clock)
    assert (filled / "data.mdb").stat().st_size == 2 << 20


def test_a_store_that_lost_its_identity_is_not_overwritten(filled: Path) -> None:
    (filled / "SEALBOOK").unlink()
    size = (filled / "data.mdb").stat().st_size
    with pytest.raises(WrongFormat, match=r"data\.mdb"):
        LmdbEngine.create(filled, identity_text=b"x", store_value=b"x", clock=system_clock)
    with pytest.raises(WrongFormat, match=r"data\.mdb"):
        LmdbEngine.open(filled, readonly=False, clock=system_clock)
    assert (filled / "data.mdb").stat().st_size == size


# --- the wrong path -----------------------------------------------------------------------------------------------


def test_where_nothing_stands_there_is_no_store(store: Store) -> None:
    with pytest.raises(StoreMissing):
        store.open()
    store.folder.mkdir()
    with pytest.raises(StoreMissing):
        store.open()
    assert os.listdir(store.folder) == []


def test_a_store_is_not_made_under_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="none does not exist"):
        LmdbEngine.create(tmp_path / "none" / "s", identity_text=b"x", store_value=b"x", clock=system_clock)


@pytest.mark.parametrize("readonly", [False, True])
def test_a_file_and_a_folder_of_other_things_are_no_store(tmp_path: Path, readonly: bool) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("hello")
    folder.mkdir()
    (folder / "photo.jpg").write_text("hello")
    for path, what in ((file, "is a file"), (folder, r"photo\.jpg")):
        with pytest.raises(WrongFormat, match=what):
            LmdbEngine.open(path, readonly=readonly, clock=system_clock)
        with pytest.raises(WrongFormat, match=what):
            LmdbEngine.create(path, identity_text=b"x", store_value=b"x", clock=system_clock)
    assert os.listdir(folder) == ["photo.jpg"]


@pytest.mark.parametrize("name", ["SEALBOOK", "data.mdb", "lock.mdb", "writer.lock"])
def test_a_file_of_the_store_that_is_a_link_is_refused(filled: Path, name: str) -> None:
    (filled / name).rename(filled.parent / name)
    (filled / name).symlink_to(filled.parent / name)
    with pytest.raises(WrongFormat, match="not a regular file"):
        LmdbEngine.open(filled, readonly=False, clock=system_clock)


def test_a_link_to_the_folder_is_the_store(filled: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(filled)
    engine = LmdbEngine.open(link, readonly=False, clock=system_clock)
    with pytest.raises(EngineFailed, match="already open in this process"):
        LmdbEngine.open(filled, readonly=True, clock=system_clock)
    engine.close()


def test_a_store_is_open_once_in_a_process_and_the_first_keeps_its_locks(store: Store, child: Child) -> None:
    engine = store.create()
    store.put(engine, b"k")
    with engine.snapshot() as snapshot:
        for readonly in (False, True):
            with pytest.raises(EngineFailed, match="already open in this process"):
                store.open(readonly=readonly)
        # A lock file that lost its locks would be emptied by the next process, and our reader with it.
        code = "import lmdb; e = lmdb.open(path, max_dbs=9); say(sys.argv[2] in e.readers())"
        assert child(code, os.getpid()).stdout == "True\n"
        assert snapshot.get_many([("t", b"k")]) == [b"v"]
    engine.close()
    assert store.get(store.open(), b"k") == b"v"


# --- damaged data -------------------------------------------------------------------------------------------------


def refused(child: Child) -> tuple[set[str], str]:
    """Which errors opening for reading and for writing gives, each in a child that a bus error may kill."""
    code = """
for readonly in (True, False):
    try:
        engine = opened(readonly)
        with engine.snapshot() as snapshot:
            for table in "tu":
                snapshot.scan(table, b"", None, 9999)
        put(engine, b"new", bytes(100000))
        say("no error")
    except errors.SealbookError as error:
        say(type(error).__name__, "|", error)
"""
    result = child(code)
    assert result.returncode == 0, (result.returncode, result.stderr)
    lines = result.stdout.splitlines()
    assert len(lines) == 2, result
    return {line.split(" | ")[0] for line in lines}, lines[0]


def test_a_missing_data_file_is_damage_never_a_new_store(filled: Path, child: Child) -> None:
    (filled / "data.mdb").unlink()
    kinds, text = refused(child)
    assert kinds == {"Corrupt"}
    assert "lost its data.mdb" in text
    with pytest.raises(Corrupt):
        LmdbEngine.create(filled, identity_text=b"x", store_value=b"x", clock=system_clock)
    assert not (filled / "data.mdb").exists()


@pytest.mark.parametrize("keep", ["0", "1", "100", "4096", "8191", "8192", "half", "-5000", "-1 page", "-1"])
def test_a_data_file_that_ends_early_is_damage_and_kills_nobody(filled: Path, child: Child, keep: str) -> None:
    data = filled / "data.mdb"
    size = data.stat().st_size
    length = {"half": size // 2, "-1 page": size - 4096, "-5000": size - 5000, "-1": size - 1}
    os.truncate(data, length[keep] if keep in length else int(keep))
    kept = data.stat().st_size
    kinds, _ = refused(child)
    assert kinds == {"Corrupt"}
    assert data.stat().st_size == kept


def test_text_in_place_of_the_data_is_damage(filled: Path, child: Child) -> None:
    (filled / "data.mdb").write_text("hello " * 5000)
    kinds, text = refused(child)
    assert kinds == {"Corrupt"}
    assert "not an LMDB file" in text


@pytest.mark.parametrize("page", [0, 1])
def test_a_meta_page_that_was_overwritten_is_damage(filled: Path, child: Child, page: int) -> None:
    with (filled / "data.mdb").open("r+b") as file:
        file.seek(page * 4096)
        file.write(bytes(4096))
    assert refused(child)[0] == {"Corrupt"}


def test_another_data_format_is_named_not_taken_for_damage(filled: Path, child: Child) -> None:
    for page in (0, 1):
        with (filled / "data.mdb").open("r+b") as file:
            file.seek(page * 4096 + 20)
            file.write(struct.pack("=I", 3))
    kinds, text = refused(child)
    assert kinds == {"WrongFormat"}
    assert "format 3" in text


def test_a_foreign_lmdb_file_opens_without_the_store_row(filled: Path) -> None:
    """Whose file it is, is told by the store row, which whoever opened the engine compares."""
    shutil.rmtree(filled.parent / "foreign", ignore_errors=True)
    (filled / "data.mdb").unlink()
    (filled / "lock.mdb").unlink()
    env = lmdb.open(str(filled.parent / "foreign"), max_dbs=2)
    env.open_db(b"theirs")
    env.close()
    shutil.copy(filled.parent / "foreign" / "data.mdb", filled)
    engine = LmdbEngine.open(filled, readonly=False, clock=system_clock)
    with engine.snapshot() as snapshot:
        assert snapshot.get_many([STORE_PLACE]) == [None]
    engine.close()


def test_a_foreign_lmdb_file_with_plain_rows_is_damage(filled: Path) -> None:
    (filled / "data.mdb").unlink()
    (filled / "lock.mdb").unlink()
    env = lmdb.open(str(filled))
    with env.begin(write=True) as txn:
        txn.put(b"their", b"row")
    env.close()
    for readonly in (False, True):
        with pytest.raises(Corrupt, match="no table's"):
            LmdbEngine.open(filled, readonly=readonly, clock=system_clock)


def test_a_page_that_is_not_what_it_should_be_is_damage(filled: Path, child: Child) -> None:
    """LMDB notices a page of the wrong kind; the error names LMDB's finding."""
    data = (filled / "data.mdb").read_bytes()
    for number in range(2, len(data) // 4096):
        at = number * 4096
        if struct.unpack_from("=H", data, at + 10)[0] == 2:  # a leaf page: call it an overflow page
            data = data[: at + 10] + struct.pack("=H", 4) + data[at + 12 :]
    (filled / "data.mdb").write_bytes(data)
    assert refused(child)[0] == {"Corrupt"}


def test_garbage_in_the_lock_file_of_a_closed_store_is_harmless(filled: Path) -> None:
    (filled / "lock.mdb").write_bytes(b"garbage" * 1000)
    engine = LmdbEngine.open(filled, readonly=False, clock=system_clock)
    with engine.snapshot() as snapshot:
        assert snapshot.count("t") == ROWS
    engine.close()


def test_an_identity_of_absurd_length_is_damage(filled: Path) -> None:
    (filled / "SEALBOOK").write_bytes(bytes(1 << 20))
    with pytest.raises(Corrupt, match="longer than"):
        LmdbEngine.open(filled, readonly=True, clock=system_clock)


def test_a_copy_without_lock_files_opens(filled: Path) -> None:
    for name in ("lock.mdb", "writer.lock"):
        (filled / name).unlink()
    engine = LmdbEngine.open(filled, readonly=False, clock=system_clock)
    with engine.snapshot() as snapshot:
        assert snapshot.count("t") == ROWS
    engine.close()
    assert modes(filled)["writer.lock"] == modes(filled)["lock.mdb"] == 0o600


def test_modes_that_the_owner_has_widened_are_kept(filled: Path) -> None:
    for name in ("lock.mdb", "writer.lock"):
        (filled / name).chmod(0o660)
    LmdbEngine.open(filled, readonly=False, clock=system_clock).close()
    assert modes(filled)["writer.lock"] == modes(filled)["lock.mdb"] == 0o660


def test_a_store_of_one_row_is_never_taken_for_an_unfinished_creation(store: Store) -> None:
    engine = store.create()
    engine.write(lambda snapshot, moment: (Writes(puts={("t", b"k"): b"v"}), None))
    engine.close()
    folder = Path(store.folder)
    (folder / "SEALBOOK").rename(folder / "SEALBOOK.new")
    before = (folder / "data.mdb").read_bytes()
    with pytest.raises(Corrupt, match="more than an unfinished creation"):
        LmdbEngine.create(folder, identity_text=b"x", store_value=b"x", clock=system_clock)
    assert (folder / "data.mdb").read_bytes() == before
