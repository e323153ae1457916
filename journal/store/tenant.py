"""One tenant: every verb, composed by subject."""

from __future__ import annotations

from sealbook.journal.store.listing import ListingVerbs
from sealbook.journal.store.reading import ReadingVerbs
from sealbook.journal.store.tenant_log import TenantLog
from sealbook.journal.store.writing import WritingVerbs


class Tenant(WritingVerbs, ReadingVerbs, ListingVerbs, TenantLog):
    """One tenant's runs, records and log. Every verb speaks of this tenant alone."""

    def __repr__(self) -> str:
        return f"Tenant({self.name!r})"
