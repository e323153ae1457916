"""How a leased run holds its lease: taken at the beginning, renewed well before it expires, given back at a clean end.

The lease counts as lost as soon as a renewal is refused, or when the instant is near at which it would expire: then
nobody who is careful goes on, because another owner may take over at any moment. Time is the store's own: boot time,
which no step of the wall clock moves. A run that is sealed has no lease to take or to lose: it takes no records.
"""

from __future__ import annotations

from collections.abc import Callable

from sealbook.journal import events
from sealbook.journal.deciding import requests
from sealbook.journal.deciding.leases import Lease
from sealbook.journal.engine.port import Clock
from sealbook.journal.errors import Closed, Fenced, InvalidInput, LeaseNotHeld, RunSealed, SealbookError
from sealbook.journal.records import names
from sealbook.journal.records.record import Record
from sealbook.journal.running.needs import Pause, Read, Rule, Submit

TTL_S_DEFAULT = 30.0
TTL_MS_MIN = 2_000  # below it, a pause of the garbage collector or of a disk is a lost lease
RENEWALS_PER_TTL = 3
RETRIES_PER_TTL = 12  # a refused renewal is tried again so often, and so long before the expiry it is given up
assert RENEWALS_PER_TTL < RETRIES_PER_TTL


class Hold:
    """The lease of one leased run, as long as its block lasts."""

    def __init__(self, run: str, *, owner: str, ttl: float, clock: Clock) -> None:
        self.ttl_ms = names.check_ttl(ttl)
        if self.ttl_ms < TTL_MS_MIN:
            raise InvalidInput("ttl", ttl, f"must be at least {TTL_MS_MIN // 1000} seconds for a run that is renewed")
        self.run = names.check_own_run(run)
        self.owner = names.check_owner(owner)
        self.ttl = ttl
        self.lease: Lease | None = None
        self.lost: Fenced | None = None
        self.sealing = False  # the run is being sealed, which ends its lease
        self.sealed = False  # it was sealed before the block began: the store refuses whatever is new
        self.last: Record | None = None  # the last record of such a run
        self.over = False  # the block has ended
        self.when_lost: Callable[[], None] = _nothing  # how a face stops the body
        self._clock = clock
        self._good_until = 0  # boot time in ms

    @property
    def epoch(self) -> int:
        """The epoch that the run writes under; of a sealed run, under which it wrote last."""
        return self._own().epoch

    @property
    def tenant(self) -> str:
        """The tenant whose run it is."""
        return self._own().tenant

    def check(self) -> None:
        """Raise unless the lease is held: `Fenced` once it is lost, `LeaseNotHeld` outside of the block."""
        epoch = self._own().epoch
        if self.over:
            raise LeaseNotHeld(self.run, self.owner, epoch, "the block that held it has ended")
        if self.lost is None and not self.sealing and self._left_ms() <= 0:
            self.lose(Fenced(self.run, epoch, epoch, "its lease expired before it was renewed"))
        if self.lost is not None:
            raise self.lost

    def lose(self, error: Fenced) -> None:
        """Count the lease as lost, and stop the body."""
        if self.lost is None:
            tenant, reason = self.tenant, error.reason
            events.say(
                "lease.lost", tenant=tenant, run=self.run, epoch=error.held, current=error.current, reason=reason
            )
        self.lost = error
        self.when_lost()

    # --- rules ---------------------------------------------------------------------------------------------------

    def take(self) -> Rule[None]:
        """Acquire the lease, which a sealed run has none of. `LeaseHeld`."""
        now = self._clock().boot_ms
        try:
            self.lease = yield Submit(requests.acquire(self.run, owner=self.owner, ttl=self.ttl))
        except RunSealed:
            self.sealed = self.sealing = True
        self._good_until = now + self.ttl_ms

    def keep(self) -> Rule[None]:
        """Renew the lease until the block ends or the lease is lost: what a face runs beside the body."""
        lease = self.lease
        if lease is None:
            return
        pause = self.ttl / RENEWALS_PER_TTL
        while not (yield Pause(pause)):
            if self.over or self.lost is not None:
                return
            now = self._clock().boot_ms
            try:
                renewal = requests.renew(self.run, owner=self.owner, epoch=lease.epoch, ttl=self.ttl)
                self.lease = yield Submit(renewal)
                self._good_until = now + self.ttl_ms
                pause = self.ttl / RENEWALS_PER_TTL
            except LeaseNotHeld as error:
                if not self.sealing:
                    current = yield from self._current_epoch(lease)
                    self.lose(Fenced(self.run, lease.epoch, current, error.reason))
                    return
            except Closed as error:
                self.lose(Fenced(self.run, lease.epoch, lease.epoch, str(error)))
                return
            except Exception as error:  # whatever it is, the body must not go on under a lease that nobody renews
                pause = self.ttl / RETRIES_PER_TTL
                if self._left_ms() <= self.ttl_ms / RETRIES_PER_TTL:
                    self.lose(Fenced(self.run, lease.epoch, lease.epoch, f"it could not be renewed ({error})"))
                    return

    def give_back(self) -> Rule[None]:
        """Release the lease, so that others need not wait. One that was lost or sealed away is left alone."""
        if self.lost is None and not self.sealing:
            yield Submit(requests.release(self.run, epoch=self.epoch), ends=True)

    # --- inside --------------------------------------------------------------------------------------------------

    def _own(self) -> Lease | Record:
        """What says for which tenant and under which epoch the run is written: of a sealed one, its last record."""
        own = self.lease or self.last
        if own is None:
            raise LeaseNotHeld(self.run, self.owner, 0, "the block that holds it has not begun")
        return own

    def _left_ms(self) -> int:
        return self._good_until - self._clock().boot_ms

    def _current_epoch(self, lease: Lease) -> Rule[int]:
        """The epoch that stands now, for the error; ours when the store does not say."""
        try:
            current = yield Read(lambda tenant: tenant.lease(self.run))
        except SealbookError:
            return lease.epoch
        return lease.epoch if current is None else max(current.epoch, lease.epoch)


def _nothing() -> None:
    """How a face stops a body that it cannot interrupt: at its next verb."""
