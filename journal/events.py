"""What an operator should hear of: each event's name, how grave it is, and what it carries.

They go to structlog where the host program has configured it, under the logger `sealbook.journal`, and nowhere
otherwise: the library prints nothing, configures nothing, and does not even load structlog. No event carries a payload,
a case, an owner or an effect; runs and tenants are named where the operator must find them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from sealbook.journal.errors import Corrupt, Fenced

LOGGER: Final = "sealbook.journal"


class Event(NamedTuple):
    """How grave an event is, as the name of structlog's method, and the names of what it carries."""

    level: str
    members: tuple[str, ...]


EVENTS: Final[Mapping[str, Event]] = {
    "run.fenced": Event("warning", ("tenant", "run", "epoch", "current")),
    "lease.taken_over": Event("warning", ("tenant", "run", "epoch_before", "epoch")),
    "effect.in_doubt": Event("warning", ("tenant", "run", "attempt")),
    "lease.lost": Event("error", ("tenant", "run", "epoch", "current", "reason")),
    "writer.busy": Event("warning", ("store", "held_by", "seconds")),
    "commit.resolved": Event("warning", ("store", "written")),
    "commit.unknown": Event("error", ("requests",)),
    "store.grew": Event("info", ("store", "bytes_before", "bytes")),
    "store.full": Event("error", ("store", "reason")),
    "store.reopened": Event("warning", ("store",)),
    "store.corrupt": Event("error", ("tenant", "run", "seq", "table")),
    "lock.replaced": Event("error", ("store", "path")),
    "data.replaced": Event("error", ("store", "path")),
    "readers.cleared": Event("info", ("store", "readers")),
    "index.rebuilt": Event("info", ("rows",)),
}


def say(name: str, **members: object) -> None:
    """Tell the host's logging. Nothing that goes wrong there reaches the caller, who may hold the writer's lock."""
    structlog = sys.modules.get("structlog")
    if structlog is None:
        return
    with suppress(Exception):
        if structlog.is_configured():
            getattr(structlog.get_logger(LOGGER), EVENTS[name].level)(name, **members)


def tell(tenant: str, error: BaseException) -> None:
    """What an operator should hear of an answer that is an error."""
    if isinstance(error, Fenced):
        say("run.fenced", tenant=tenant, run=error.run, epoch=error.held, current=error.current)
    elif isinstance(error, Corrupt):
        say("store.corrupt", tenant=tenant, run=error.run, seq=error.seq, table=error.table)
