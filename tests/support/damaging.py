"""Stores on disk with a history from memory, damage to their data files, and processes that are killed on their way."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tampering import all_rows, engine_of

from sealbook.journal import Journal
from sealbook.journal.copies.salvage.pages import SalvagedFile, SalvagedRow
from sealbook.journal.engine.lmdb import ENGINE_FORMAT, LmdbEngine
from sealbook.journal.engine.port import Writes
from sealbook.journal.schema import tables


def on_disk(journal: Journal, folder: Path) -> Path:
    """The folder, with a store that has the rows of this one."""
    identity = replace(journal.view.setting.identity, engine_format=ENGINE_FORMAT)
    rows = all_rows(engine_of(journal))
    restoration = tables.StoreRow.decode(rows.pop(tables.STORE_PLACE)).restoration
    row = replace(identity.store_row(), restoration=restoration)
    engine = LmdbEngine.create(
        folder,
        identity_text=identity.encode(),
        store_value=row.encode(),
        clock=journal.view.clock,
        tables=tables.TABLES,
    )
    engine.write(lambda snapshot, moment: (Writes(rows), None))
    engine.close()
    return folder


def stored(folder: Path, *wanted: str) -> list[SalvagedRow]:
    """The rows of these tables, and where their values stand in the data file."""
    file = SalvagedFile.open(folder / "data.mdb")
    try:
        return list(file.rows(wanted))
    finally:
        file.close()


def overwrite(folder: Path, offset: int, data: bytes) -> None:
    """Let the data file have these bytes there."""
    with (folder / "data.mdb").open("r+b") as file:
        file.seek(offset)
        file.write(data)


def flip(folder: Path, found: SalvagedRow, at: int) -> None:
    """Change one bit of the row's value, at this byte of it."""
    overwrite(folder, found.offset + at, bytes([found.value[at] ^ 1]))


Step = tuple[Any, str]  # where a function is looked up, and its name there

STORE_STEPS: Sequence[Step] = (
    *((os, name) for name in ("fsync", "rename")),
    *((Path, name) for name in ("rename", "unlink", "mkdir")),
    *((LmdbEngine, name) for name in ("write", "copy_to")),
    (shutil, "rmtree"),
)


def killed_at(number: int, job: Callable[[], Any], steps: Sequence[Step] = STORE_STEPS) -> bool:
    """Do the job in a child process that is killed at the n-th of its steps on disk; whether it got so far."""
    child = os.fork()
    if child == 0:
        left = [number]

        def counting(function: Any) -> Any:
            def counted(*args: Any, **more: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **more)

            return counted

        for place, name in steps:
            setattr(place, name, counting(getattr(place, name)))
        code = 1
        try:
            job()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)
