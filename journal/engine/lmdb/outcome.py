"""What became of a commit that failed: it is looked for, and made durable where it stands."""

from __future__ import annotations

import errno
from typing import Any

import lmdb

from sealbook.journal import events
from sealbook.journal.engine.lmdb import folder as store_folder
from sealbook.journal.engine.lmdb.creation import STORE_PLACE
from sealbook.journal.engine.lmdb.environment import Environment, StaleEnvironment, TablesChanged
from sealbook.journal.engine.lmdb.failures import failure_of
from sealbook.journal.engine.lmdb.views import EngineView
from sealbook.journal.engine.port import (
    DURABLE,
    NOT_WRITTEN,
    Applied,
    Unknown,
    Writes,
)
from sealbook.journal.errors import Corrupt, SealbookError


class WriteProgress:
    """How far a write has come: the note for an exception that a signal handler raises on the way."""

    __slots__ = ("stage",)

    def __init__(self) -> None:
        self.stage = NOT_WRITTEN


class CommitFailed(Exception):
    """The commit raised; whether it happened is to be found out."""

    def __init__(self, cause: lmdb.Error, writes: Writes, answers: Any) -> None:
        self.cause, self.writes, self.answers = cause, writes, answers


def settled(environment: Environment, failed: CommitFailed, progress: WriteProgress) -> Applied | Unknown:
    """A commit has raised. Still under the writer's lock, so that only we can have written: look what is there."""
    try:
        if fatal := _has_panicked(environment):
            environment.alone(environment.reopen)
        stands = _stands(environment, failed.writes)
        if stands or fatal:
            _confirm(environment)
    except (SealbookError, lmdb.Error, StaleEnvironment, TablesChanged, OSError) as error:
        environment.stale = True
        failed.cause.add_note(f"afterwards the store could not be examined: {error}")
        return Unknown(failed.cause)
    events.say("commit.resolved", store=str(environment.folder), written=stands)
    if stands:
        progress.stage = DURABLE
        return Applied(failed.answers)
    progress.stage = NOT_WRITTEN
    if getattr(failed.cause, "code", 0) == errno.EIO:
        # LMDB calls a write that came up short an I/O error, and on a full disk the first one does.
        store_folder.refuse_full(environment.folder, _bytes_needed(failed.writes))
    raise failure_of(failed.cause) from failed.cause


def _has_panicked(environment: Environment) -> bool:
    """Whether LMDB refuses everything until the environment is opened anew, because a meta page was not written."""
    try:
        environment.look(lambda view: None)
    except lmdb.PanicError:
        return True
    return False


def _stands(environment: Environment, writes: Writes) -> bool:
    """Whether every row is as these writes leave it."""
    places = list(writes.puts)
    gone = [place for place in writes.deletes if place not in writes.puts]
    found = environment.look(lambda view: view.get_many([*places, *gone]))
    return found == [*writes.puts.values(), *(None for _ in gone)]


def _confirm(environment: Environment) -> None:
    """Commit once more, changing nothing: what is read now is durable when this has succeeded.

    A sync alone would not do: after a failed write the kernel may call the page clean without its having reached
    the disk. A commit writes the other meta page.
    """

    def confirm(view: EngineView) -> None:
        value = view.get_many([STORE_PLACE])[0]
        if value is None:
            raise Corrupt("the row that names the store is not there", table=STORE_PLACE[0], key=STORE_PLACE[1])
        view.put(Writes(puts={STORE_PLACE: value}))
        environment.refuse_replaced_files()
        view.txn.commit()

    environment.look(confirm, write=True)


def _bytes_needed(writes: Writes) -> int:
    """About as much as these writes add to the file, every row on a page of its own."""
    return sum(len(value) + 8192 for value in writes.puts.values()) + 65536
