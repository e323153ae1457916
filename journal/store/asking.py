"""What each writing verb of a tenant asks of the store, as a request: the same for every face."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sealbook.journal.deciding import requests as ask
from sealbook.journal.deciding.appending import Appended
from sealbook.journal.deciding.leases import Lease
from sealbook.journal.errors import (
    InvalidInput,
)
from sealbook.journal.records.chain import Head
from sealbook.journal.records.entries import Entry


def answer_without_asking(request: ask.Request) -> Appended | None:
    """The answer to a request that asks for nothing: an append of no entries needs no transaction."""
    return Appended() if isinstance(request, ask.Append) and not request.entries else None


class Asking:
    """The requests that a tenant's writing verbs make of their arguments: checked, encoded, and not submitted."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant

    def append(
        self,
        run: str,
        entries: Iterable[Entry],
        *,
        lease: Lease | None = None,
        epoch: int | None = None,
        after: Head | None = None,
        seal: bool = False,
    ) -> ask.Append:
        """What `Tenant.append` asks."""
        request = ask.append(run, entries, epoch=self._epoch(run, lease, epoch), after=after, seal=seal)
        if request.epoch is None:
            raise InvalidInput("epoch", None, "is needed: pass lease= or epoch=")
        return request

    def acquire(self, run: str, *, owner: str, ttl: float) -> ask.Acquire:
        """What `Tenant.acquire` asks."""
        return ask.acquire(run, owner=owner, ttl=ttl)

    def renew(self, lease: Lease, *, ttl: float) -> ask.Renew:
        """What `Tenant.renew` asks."""
        self._own(lease)
        return ask.renew(lease.run, owner=lease.owner or "", epoch=lease.epoch, ttl=ttl)

    def release(self, lease: Lease) -> ask.Release:
        """What `Tenant.release` asks."""
        self._own(lease)
        return ask.release(lease.run, epoch=lease.epoch)

    def force_lease(self, run: str, *, actor: str, reason: str) -> ask.ForceLease:
        """What `Tenant.force_lease` asks."""
        return ask.force_lease(run, actor=actor, reason=reason)

    def request_cancel(self, run: str, *, actor: str, reason: str = "", basis: str = "asserted") -> ask.RequestCancel:
        """What `Tenant.request_cancel` asks."""
        return ask.request_cancel(run, actor=actor, reason=reason, basis=basis)

    def seal(
        self, run: str, *, lease: Lease | None = None, epoch: int | None = None, outcome: str | None = None
    ) -> ask.Seal:
        """What `Tenant.seal` asks."""
        return ask.seal(run, epoch=self._epoch(run, lease, epoch), outcome=outcome)

    def anchor(self, run: str) -> ask.Anchor:
        """What `Tenant.anchor` asks."""
        return ask.anchor(run)

    def anchor_open(self) -> ask.AnchorOpen:
        """What `Tenant.anchor_open` asks."""
        return ask.anchor_open()

    def group(self, requests: Sequence[ask.Request]) -> ask.Group:
        """What `Tenant.group` asks."""
        return ask.group(requests)

    def _epoch(self, run: str, lease: Lease | None, epoch: int | None) -> int | None:
        if lease is None:
            return epoch
        self._own(lease)
        if lease.run != run:
            raise InvalidInput("lease", lease.run, f"is that of another run than {run}")
        if epoch is not None and epoch != lease.epoch:
            raise InvalidInput("epoch", epoch, f"is not that of the lease, {lease.epoch}")
        return lease.epoch

    def _own(self, lease: Lease) -> None:
        if not isinstance(lease, Lease):
            raise InvalidInput("lease", lease, "must be a Lease, as acquire() returns it")
        if lease.tenant != self._tenant:
            raise InvalidInput("lease", lease.run, f"is that of another tenant than {self._tenant}")
