"""Where a run stands, as its state row says: read one, several, or one that must be there."""

from __future__ import annotations

from collections.abc import Sequence

from sealbook.indexes.standing import Standing, unpack
from sealbook.journal.engine.port import Snapshot
from sealbook.journal.errors import Corrupt, NotFound
from sealbook.journal.schema import tables


def read_standing(tenant: str, run: str, value: bytes | None) -> Standing | None:
    """The standing that a state row holds; `Corrupt` when it holds none."""
    if value is None:
        return None
    try:
        return unpack(tenant, run, value)
    except ValueError as error:
        raise Corrupt(
            f"the state row is damaged: {error}", run, None, tables.STATE, tables.run_key(tenant, run)
        ) from error


def stored_standing(snapshot: Snapshot, tenant: str, run: str) -> Standing | None:
    """The run's standing from its state row alone; None for a run without records."""
    return read_standing(tenant, run, snapshot.get_many([(tables.STATE, tables.run_key(tenant, run))])[0])


def stored_standings(snapshot: Snapshot, tenant: str, runs: Sequence[str]) -> list[Standing | None]:
    """The standings of several runs, in their order; None for a run without records."""
    states = snapshot.get_many([(tables.STATE, tables.run_key(tenant, run)) for run in runs])
    return [read_standing(tenant, run, state) for run, state in zip(runs, states, strict=True)]


def known_standing(snapshot: Snapshot, tenant: str, run: str) -> Standing:
    """The run's standing; `NotFound` for a run without records."""
    standing = stored_standing(snapshot, tenant, run)
    if standing is None:
        raise NotFound("run", run)
    return standing
