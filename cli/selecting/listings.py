"""The values that a field has in a tenant, each once: from an index where there is one, otherwise from every record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sealbook.cli.records.fields import OF_RUN, Fields
from sealbook.cli.selecting import paging

if TYPE_CHECKING:
    from sealbook.indexes.standing import Standing
    from sealbook.journal import Tenant

INDEXED = {"CASE": "case", "SOURCE": "source", "OUTCOME": "outcome"}


def values(tenant: Tenant, field: str) -> Iterator[str]:
    """The values of the field: in order where an index or the listing of runs has them, else as they are met."""
    if field in INDEXED:
        index = INDEXED[field]
        return paging.pages(lambda after, limit: tenant.names(index, after=after, limit=limit))
    if field == "TENANT":
        return iter([tenant.name])
    if field == "RUN":
        return (standing.run for standing in _runs(tenant))
    if field in OF_RUN:
        return _each_once(OF_RUN[field](standing) for standing in _runs(tenant))
    known = Fields(tenant)
    return _each_once(known.value(record, field) for record in paging.history(tenant))


def _runs(tenant: Tenant) -> Iterator[Standing]:
    return paging.pages(lambda after, limit: tenant.runs(all=True, after=after, limit=limit))


def _each_once(found: Iterator[str | None]) -> Iterator[str]:
    seen: set[str] = set()
    for value in found:
        if value is not None and value not in seen:
            seen.add(value)
            yield value
