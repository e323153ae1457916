"""Make the files of a store: whole, or an unfinished creation that the next one starts over."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import lmdb

from sealbook.journal.engine.lmdb import datafile
from sealbook.journal.engine.lmdb import folder as store_folder
from sealbook.journal.engine.lmdb.failures import READERS_MAX, opening_failure
from sealbook.journal.engine.lmdb.mapping import comfortable_bytes, mapped
from sealbook.journal.errors import Corrupt

MAP_BYTES_MIN: Final = 1 << 20  # room for all tables while they are empty
LOCK_BYTES: Final = 64 * (READERS_MAX + 8)  # one cache line per reader, and LMDB's header
STORE_PLACE: Final = ("store", b"store")  # the row that a creation commits


def create_files(
    folder: Path,
    identity_text: bytes,
    store_value: bytes,
    lock_timeout: float,
    tables: Iterable[str],
    map_bytes_start: int,
) -> None:
    """Make the files of a store, under its writer's lock, unless another process has just done so."""
    lock = store_folder.WriterLock(folder)
    try:
        lock.acquire(time.monotonic() + lock_timeout, lambda: None)
        if store_folder.is_complete(folder):
            return
        _refuse_records(folder)
        store_folder.start_creation(folder, identity_text)
        store_folder.allocate_lock_file(folder, LOCK_BYTES, readonly=False)
        try:
            _commit_first(folder, store_value, {STORE_PLACE[0], *tables}, max(map_bytes_start, MAP_BYTES_MIN))
        except lmdb.Error as error:
            raise opening_failure(error, folder, readonly=False) from error
        store_folder.finish_creation(folder)
    finally:
        fcntl.flock(lock.descriptor, fcntl.LOCK_UN)  # closing would not free it while a forked child has it, too
        lock.close()


def _refuse_records(folder: Path) -> None:
    """Refuse to clear away more than an unfinished creation leaves: the store row, and tables without a row."""
    data = folder / store_folder.DATA
    try:
        datafile.refuse_truncated(data)
    except (FileNotFoundError, datafile.NotLmdb, datafile.DamagedFile):
        return  # cut short before its first commit, or too large for that, which `start_creation` refuses
    store_folder.allocate_lock_file(folder, LOCK_BYTES, readonly=False)
    try:
        env = mapped(folder, comfortable_bytes(data), readonly=False)
        try:
            with env.begin() as txn:
                names = list(txn.cursor().iternext(keys=True, values=False))
            handles = {name: env.open_db(name, create=False) for name in names}
            with env.begin() as txn:
                filled = [name for name, handle in handles.items() if txn.stat(handle)["entries"]]
        finally:
            env.close()
    except lmdb.Error as error:
        raise Corrupt(f"{data} cannot be told from a store: {error}: move it away") from error
    if set(filled) - {STORE_PLACE[0].encode()}:
        raise Corrupt(
            f"{data} holds more than an unfinished creation does: move it away or restore {store_folder.SEALBOOK}"
        )


def _commit_first(folder: Path, store_value: bytes, tables: set[str], map_bytes: int) -> None:
    env = mapped(folder, map_bytes, readonly=False)
    try:
        with env.begin(write=True) as txn:
            handles = {name: env.open_db(name.encode(), txn=txn) for name in sorted(tables)}
            table, key = STORE_PLACE
            txn.put(key, store_value, db=handles[table])
    finally:
        env.close()
