"""The list of all indexes over standings, so that upkeep, rebuilding and checking are written once."""

from __future__ import annotations

from sealbook.indexes import activity, case, outcome, source, waiting
from sealbook.indexes.standing import Standing

IndexRow = tuple[str, bytes, bytes]  # (table, key, value)

INDEX_TABLES = (activity.TABLE, case.TABLE, outcome.TABLE, source.TABLE, waiting.TABLE)


def rows(standing: Standing | None) -> frozenset[IndexRow]:
    """Every (table, key, value) that the indexes hold for a run that stands so.

    The store's own runs (`~tenant`) stand in no index: they are operator acts, not work.
    """
    if standing is None or standing.run.startswith("~"):
        return frozenset()
    return frozenset(outcome.rows(standing) + waiting.rows(standing) + activity.rows(standing) + source.rows(standing))


def moves(before: Standing | None, after: Standing) -> tuple[frozenset[IndexRow], frozenset[IndexRow]]:
    """The rows to remove and the rows to add when a run that stood at `before` stands at `after`."""
    if before is not None and _read_by_indexes(before) == _read_by_indexes(after):
        return frozenset(), frozenset()  # as with most records: nothing that an index reads has changed
    rows_before, rows_after = rows(before), rows(after)
    return rows_before - rows_after, rows_after - rows_before


def _read_by_indexes(standing: Standing) -> tuple[object, ...]:
    """All that any index reads of a run's standing, save the names that never change."""
    block = standing.last_arrival // activity.BLOCK
    return standing.outcome_arrival, standing.waiting_seq, standing.until, block, standing.source
