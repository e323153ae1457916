"""Map a data file: how, how large, and only one that LMDB can be trusted with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import lmdb

from sealbook.journal.engine.lmdb import datafile
from sealbook.journal.engine.lmdb import folder as store_folder
from sealbook.journal.engine.lmdb.failures import READERS_MAX
from sealbook.journal.errors import Corrupt, Hint, WrongFormat, hinted

LIB_VERSION: Final = 0  # LMDB 0.9, whatever the wheel or the environment prefers
TABLES_MAX: Final = 128


def mapped(folder: Path, map_bytes: int, *, readonly: bool) -> Any:
    return lmdb.open(
        str(folder),
        map_size=map_bytes,
        readonly=readonly,
        create=False,
        sync=True,
        metasync=True,
        writemap=False,
        mode=0o600,
        max_readers=READERS_MAX,
        max_dbs=TABLES_MAX,
        max_spare_txns=0,  # a spare one keeps its reader slot, which a forked child would free
        lib_version=LIB_VERSION,
    )


def comfortable_bytes(data: Path) -> int:
    """A map size with which this file can grow for a while, in whole MiB."""
    return -(-data.stat().st_size * 5 // 4 >> 20) << 20


def file_identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def refuse_unfit(data: Path) -> None:
    """Refuse a file that LMDB would choke on, or die of."""
    try:
        datafile.refuse_truncated(data)
    except datafile.NotLmdb as error:
        if error.data_format is not None:
            raise WrongFormat(f"cannot read {data}: {error}") from error
        raise hinted(Corrupt(f"{data} is damaged: {error}: restore it from a copy"), Hint.UNREADABLE) from error
    except datafile.DamagedFile as error:
        raise hinted(Corrupt(f"{data} is damaged: {error}: restore it from a copy"), Hint.UNREADABLE) from error
    except OSError as error:
        raise store_folder.failure(error, f"cannot read {data}") from error
