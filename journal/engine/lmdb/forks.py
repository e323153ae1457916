"""Which stores are open in this process, and what a fork leaves of them to the child: nothing."""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path

from sealbook.journal.engine.lmdb import folder as store_folder
from sealbook.journal.engine.lmdb.environment import Environment
from sealbook.journal.engine.lmdb.mapping import file_identity
from sealbook.journal.errors import EngineFailed

OPENING = [threading.Lock()]  # the one lock for opening; a forked child puts a new one in its place
ENVIRONMENTS: weakref.WeakSet[Environment] = weakref.WeakSet()
_HELD: dict[int, list[tuple[Environment, object]]] = {}  # thread that forks -> engines held still for it


def refuse_open_twice(folder: Path) -> None:
    """Before anything of the store is touched: to open and close its lock.mdb would drop the locks of the first."""
    identity = file_identity(str(folder / store_folder.DATA))
    for environment in list(ENVIRONMENTS):
        if environment.data_identity == identity and not environment.closed:
            raise EngineFailed(f"{folder} is already open in this process: share that journal, or close it first")


def _before_fork() -> None:
    held = [
        (environment, owner) for environment in list(ENVIRONMENTS) if (owner := environment.hold_for_fork()) is not None
    ]
    _HELD[threading.get_ident()] = held


def _after_fork_in_parent() -> None:
    for environment, owner in _HELD.pop(threading.get_ident(), []):
        environment.gate.release(owner, None)
        environment.gate.wake()


def _after_fork_in_child() -> None:
    OPENING[0] = threading.Lock()  # another thread of the parent may have held the old one
    held = {environment for environment, _ in _HELD.pop(threading.get_ident(), [])}
    _HELD.clear()
    for environment in list(ENVIRONMENTS):
        environment.forget_in_child(clean=environment in held)
    ENVIRONMENTS.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
