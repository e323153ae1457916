"""Which records a verb prints, in which order: what is wanted of a tenant's history, and all that it takes to find it.

Order is arrival. Instants filter and never order, because a clock may have been wrong: where they bound what is read,
`showing.span` says how far a wrong clock is provided for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sealbook.cli.records import levels
from sealbook.cli.records.fields import Fields
from sealbook.cli.selecting import candidates, matches, paging
from sealbook.cli.selecting.selection import Selection

if TYPE_CHECKING:
    from sealbook.journal import Record, Tenant


class Sieve:
    """Tells which of a tenant's records are wanted, and reads about their runs and effects where it must."""

    def __init__(self, tenant: Tenant, selection: Selection) -> None:
        self._tenant = tenant
        self._selection = selection
        self._fields = Fields(tenant)

    def takes(self, record: Record) -> bool:
        """Whether the record is wanted."""
        wanted = self._selection
        return (
            wanted.takes(record)
            and matches.meets(wanted.groups, record, self._fields)
            and (wanted.levels is None or levels.level(record, self._tenant) in wanted.levels)
        )


def records(
    tenant: Tenant, selection: Selection, *, reverse: bool = False, limit: int | None = None
) -> Iterator[Record]:
    """The records of the selection in arrival order, or newest first; at most `limit` of them."""
    if limit == 0:
        return iter(())
    page = paging.PAGE_MAX if limit is None else min(limit, paging.PAGE_MAX)  # `-n 10` touches only what it prints
    found = candidates.Reading(tenant, selection, reverse=reverse, page=page).records()
    return islice(filter(Sieve(tenant, selection).takes, found), limit)


def newest(tenant: Tenant, selection: Selection, limit: int) -> list[Record]:
    """The newest `limit` records of the selection, oldest first."""
    return list(records(tenant, selection, reverse=True, limit=limit))[::-1]
