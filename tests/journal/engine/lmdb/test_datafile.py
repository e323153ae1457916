"""A file that ends early is told from one whose last pages were never needed."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from sealbook.journal.engine.lmdb import datafile

SEED = 3


def history(folder: Path, chance: random.Random) -> Iterator[Path]:
    """A data file after each of 300 transactions of all sizes. Not synced: that is not what is tested."""
    env = lmdb.open(str(folder), map_size=1 << 26, max_dbs=3, sync=False)
    table = env.open_db(b"t")
    for _ in range(300):
        with env.begin(write=True) as txn:
            for _ in range(chance.randrange(1, 12)):
                key = b"%04d" % chance.randrange(500)
                if chance.random() < 0.5:
                    txn.put(key, bytes(chance.choice([10, 300, 5000, 40000])), db=table)
                else:
                    txn.delete(key, db=table)
            if chance.random() < 0.1:
                txn.abort()
        yield folder / "data.mdb"
    env.close()


@pytest.mark.parametrize("seed", [33, 43, 78])  # these histories pass through files that are short
def test_a_sound_file_passes_also_while_it_is_short(tmp_path: Path, seed: int) -> None:
    short = 0
    for data in history(tmp_path / "s", random.Random(seed)):
        datafile.refuse_truncated(data)
        short += datafile.missing_pages(data) > 0
    assert short, "this seed makes no file that is short, so it shows nothing: choose another"


READ_ALL = """
import lmdb, sys
for path in sys.argv[1:]:
    env = lmdb.open(path, max_dbs=3, map_size=1 << 27)
    table = env.open_db(b"t")
    with env.begin(write=True) as txn:
        rows = [bytes(value) for _, value in txn.cursor(table)]
        for n in range(600):
            txn.put(b"new%d" % n, bytes(9000), db=table)
    env.close()
"""


def test_a_truncated_file_is_refused_or_can_be_read_and_written(tmp_path: Path) -> None:
    print("seed", SEED)
    chance = random.Random(SEED)
    refused, passed = 0, []
    for n in range(4):
        *_, data = history(tmp_path / str(n), chance)
        for cut in range(1, 30):
            copy = tmp_path / f"{n}-{cut}"
            copy.mkdir()
            shutil.copy(data, copy)
            os.truncate(copy / "data.mdb", data.stat().st_size - cut * 1000)
            try:
                datafile.refuse_truncated(copy / "data.mdb")
                passed.append(str(copy))
            except datafile.DamagedFile:
                refused += 1
    assert refused
    if passed:
        subprocess.run([sys.executable, "-c", READ_ALL, *passed], check=True)


def test_garbage_in_the_free_list_is_damage(tmp_path: Path) -> None:
    *_, data = history(tmp_path / "s", random.Random(SEED))
    with data.open("r+b") as file:
        meta = datafile.read_meta(file)
        file.seek(meta.free_root * meta.page_bytes)
        file.write(b"\xff" * meta.page_bytes)
        file.truncate(meta.page_last * meta.page_bytes)
    with pytest.raises(datafile.DamagedFile):
        datafile.refuse_truncated(data)


def test_what_is_no_lmdb_file_is_said_to_be_none(tmp_path: Path) -> None:
    for content in (b"", b"x" * 100, b"hello " * 5000, bytes(8192)):
        path = tmp_path / "data.mdb"
        path.write_bytes(content)
        with pytest.raises(datafile.NotLmdb):
            datafile.refuse_truncated(path)
