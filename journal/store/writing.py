"""Verbs that write: append, leases, seals, operator acts, and runs under a lease."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sealbook.journal.deciding import requests as ask
from sealbook.journal.deciding.appending import Appended
from sealbook.journal.deciding.leases import Lease
from sealbook.journal.deciding.log.anchors import AnchorBatch
from sealbook.journal.deciding.log.leaves import Leaf
from sealbook.journal.deciding.operator_acts import CancelAnswer
from sealbook.journal.records.chain import Head
from sealbook.journal.records.entries import Entry
from sealbook.journal.running.admitting import Admission
from sealbook.journal.running.leased import LeasedRun, admit
from sealbook.journal.store.asking import Asking, answer_without_asking
from sealbook.journal.store.base import Verbs
from sealbook.journal.store.view import View


class WritingVerbs(Verbs):
    """What a tenant's callers may write. Each verb is one request, decided and durable when it returns."""

    def __init__(self, view: View, name: str) -> None:
        super().__init__(view, name)
        self._ask = Asking(name)

    def append(
        self,
        run: str,
        entries: Iterable[Entry],
        *,
        lease: Lease | None = None,
        epoch: int | None = None,
        after: Head | None = None,
        seal: bool = False,
    ) -> Appended:
        """Append entries to the run, whole or not at all, durably; the records that they became.

        The epoch is `lease`'s or `epoch`. With `after`, the run's head must be that one: `Conflict` when it has
        moved, or the records themselves with `replayed` True when these very entries already follow it. With `seal`,
        the batch must end in a conclusion that seals, and the run is sealed in the same transaction. No entries: an
        empty answer, and no transaction.

        Raises `Fenced`, `RunSealed`, `Concluded`, `Conflict`, `DuplicateEffect`, `EffectNotStarted`,
        `EffectSettled`, `DuplicateAdmission`, `NotConcluded`, `Mismatch`, `InvalidName`, `InvalidEntry`,
        `InvalidInput`, `TooLarge`, `Busy`, `IndexStale`, `StoreFull`, `CommitUnknown`.
        """
        request = self._ask.append(run, entries, lease=lease, epoch=epoch, after=after, seal=seal)
        answer: Appended | None = answer_without_asking(request)
        return self._submit(request) if answer is None else answer

    def acquire(self, run: str, *, owner: str, ttl: float) -> Lease:
        """Take the run's lease for `ttl` seconds (at least 1) under a new epoch, which fences every earlier one.

        `LeaseHeld` while a lease is live, also for its own owner; `RunSealed`.
        """
        lease: Lease = self._submit(self._ask.acquire(run, owner=owner, ttl=ttl))
        return lease

    def renew(self, lease: Lease, *, ttl: float) -> Lease:
        """Extend a live lease to `ttl` seconds from now; `LeaseNotHeld` when it was lost, released or has expired."""
        renewed: Lease = self._submit(self._ask.renew(lease, ttl=ttl))
        return renewed

    def release(self, lease: Lease) -> None:
        """Give the lease back, so that others need not wait. A lease that is not ours any more is left alone."""
        self._submit(self._ask.release(lease))

    def force_lease(self, run: str, *, actor: str, reason: str) -> Lease:
        """Fence the run's owner and leave the lease free; recorded in `~tenant`. `NotFound`, `RunSealed`."""
        lease: Lease = self._submit(self._ask.force_lease(run, actor=actor, reason=reason))
        return lease

    def request_cancel(self, run: str, *, actor: str, reason: str = "", basis: str = "asserted") -> CancelAnswer:
        """Record in `~tenant` that somebody wants the run to stop. The first request stands."""
        answer: CancelAnswer = self._submit(self._ask.request_cancel(run, actor=actor, reason=reason, basis=basis))
        return answer

    def seal(
        self, run: str, *, lease: Lease | None = None, epoch: int | None = None, outcome: str | None = None
    ) -> Leaf:
        """Bring the concluded run's head into the log and freeze the run; answers with its leaf, also the second time.

        Without lease or epoch the run must not be leased to anybody. `Fenced`, `LeaseHeld`, `NotConcluded`,
        `NotFound`, `Mismatch` when `outcome` is not the recorded one.
        """
        leaf: Leaf = self._submit(self._ask.seal(run, lease=lease, epoch=epoch, outcome=outcome))
        return leaf

    def anchor(self, run: str) -> Leaf:
        """Bring an open run's head into the log, unless its leaf is there already. `Concluded`, `NotFound`."""
        leaf: Leaf = self._submit(self._ask.anchor(run))
        return leaf

    def anchor_open(self) -> AnchorBatch | None:
        """Bring the heads of all open runs that have moved since the last time into the log, under one leaf.

        None when none has moved. Call it again while the answer says that there are `more`.
        """
        batch: AnchorBatch | None = self._submit(self._ask.anchor_open())
        return batch

    def group(self, requests: Sequence[ask.Request]) -> list[Any]:
        """Requests (of `sealbook.journal.requests`) that enter whole or not at all; their answers."""
        answers: list[Any] = self._submit(self._ask.group(requests))
        return answers

    def leased(self, run: str, *, owner: str, ttl: float = 30.0, case: str | None = None) -> LeasedRun:
        """A block under the run's lease, renewed in the background: `with tenant.leased(run, owner=…) as run:`.

        `ttl` is seconds, at least 2. The block's records belong to `case`, or to the case that the run was admitted
        for. `LeaseHeld` is raised when the block is entered. A run that is sealed has no lease: what it has recorded is
        handed back, and whatever is new is refused (`RunSealed`).
        """
        return LeasedRun(self, run, owner=owner, ttl=ttl, case=case)

    def admit(
        self,
        source: str,
        id: str,
        *,
        run: str | None = None,
        case: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> Admission:
        """Admit the message `id` from `source`: create a run for it, once, whoever delivers it and however often.

        `Fresh` has the run that was created, of this name or a new one; `InFlight` the run that was created before and
        has not come to rest; `Replayed` the one that rests, concluded or waiting.
        """
        return admit(self, source, id, run=run, case=case, data=data)
