"""What LMDB's errors are to callers: a full disk, damage, no memory, no permission, no place for a reader."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

import lmdb

from sealbook.journal.engine.lmdb import folder as store_folder
from sealbook.journal.errors import Busy, Corrupt, EngineFailed, SealbookError, StoreFull, WrongFormat

READERS_MAX: Final = 1024
_DAMAGE: Final = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    lmdb.BadChecksumError,
    lmdb.IncompatibleError,
    lmdb.BadTxnError,  # an earlier step of this transaction met the damage
)


def failure_of(error: Exception) -> SealbookError:
    """The journal's error for one of LMDB's."""
    code = getattr(error, "code", 0)
    if isinstance(error, _DAMAGE):
        return Corrupt(f"the store's data file is damaged: {error}")
    if isinstance(error, lmdb.VersionMismatchError):
        return WrongFormat(f"another version of LMDB wrote the store: {error}")
    if isinstance(error, lmdb.ReadersFullError):
        return Busy(f"all {READERS_MAX} places for readers are taken")
    if isinstance(error, (lmdb.DiskError, lmdb.MapFullError)) or code in store_folder.FULL:
        return StoreFull(f"no room for the write, nothing was written ({error}): free some space")
    if isinstance(error, lmdb.MemoryError) or code == errno.ENOMEM:
        return StoreFull(f"no memory for the transaction ({error}): raise the process's limits (ulimit -v)")
    if isinstance(error, lmdb.PanicError):
        return Corrupt(f"the store's storage has failed and stays so: {error}")
    if code in store_folder.DENIED:
        return EngineFailed(f"the storage refuses the write ({error}): make it writable, or open it for reading only")
    return EngineFailed(f"the storage failed: {error}")


def opening_failure(error: lmdb.Error, folder: Path, *, readonly: bool) -> SealbookError:
    code = getattr(error, "code", 0)
    if "already open in this process" in str(error):
        return EngineFailed(f"{folder} is already open in this process: share that journal, or close it first")
    if isinstance(error, lmdb.MemoryError) or code == errno.ENOMEM:
        return StoreFull(f"no address space to map {folder} ({error}): raise the process's limit (ulimit -v)")
    if isinstance(error, lmdb.LockError) or code == errno.EAGAIN:
        return EngineFailed(
            f"{folder} is locked by a process with the same number in another PID namespace ({error}):"
            " let all containers that share the store share one PID namespace"
        )
    if code in store_folder.DENIED and readonly:
        return EngineFailed(
            f"cannot open {folder} for reading ({error}): a reader needs write permission for"
            f" {store_folder.LOCK}; use the owner's account, or a copy of the store"
        )
    return failure_of(error)
