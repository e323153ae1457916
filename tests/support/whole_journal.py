"""The journal that a tenant is of, for tests that were handed the tenant alone."""

from __future__ import annotations

from sealbook.journal import Journal, Tenant


def journal_of(tenant: Tenant) -> Journal:
    """A journal over the same open store."""
    journal = Journal.__new__(Journal)
    journal.view = tenant.view
    return journal
