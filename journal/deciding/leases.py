"""Who may append to a run: leases and the fence, as pure rules over a stored row and a moment.

The fence compares epochs, never clocks: an epoch whose lease expired or was released may still append
until somebody acquires the run anew. Clocks decide one thing only, whether a lease is live: on the boot that granted
it by CLOCK_BOOTTIME, which no wall-clock step moves, and otherwise by wall time.
"""

from __future__ import annotations

from dataclasses import dataclass

from sealbook.indexes.standing import Standing
from sealbook.journal.engine.port import Moment
from sealbook.journal.errors import Fenced, Hint, InvalidInput, LeaseHeld, LeaseNotHeld, RestoredRun, hinted
from sealbook.journal.records.names import EPOCH_MAX, RESTORATION
from sealbook.journal.schema.tables import LeaseRow

INSTANT_MS_MAX = 2**62  # from 1970, or from the boot; keeps now + ttl far below any overflow
BOOT_ID_BYTES = 16
UNKNOWN_BOOT = bytes(BOOT_ID_BYTES)  # the boot id where the system names none


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to append to a run under an epoch, until it expires or another owner takes over.

    `expires_at` is unix milliseconds; None once released. `epoch` is the fencing token and only grows.
    """

    tenant: str
    run: str
    owner: str | None
    epoch: int
    expires_at: int | None


def granted(tenant: str, run: str, row: LeaseRow) -> Lease:
    """The lease as callers see it."""
    return Lease(tenant, run, row.owner or None, row.epoch, row.wall_expiry if row.owner else None)


def check_moment(moment: object) -> Moment:
    """What a clock says: whole milliseconds, not further from 1970 or the boot than 2**62, and the boot's 16 bytes."""
    if not isinstance(moment, Moment):
        raise InvalidInput("clock", moment, "must give a Moment")
    for instant in (moment.wall_ms, moment.boot_ms):
        if type(instant) is not int or abs(instant) > INSTANT_MS_MAX:
            raise InvalidInput("clock", moment, "must give whole milliseconds, at most 2**62 from where they count")
    if not isinstance(moment.boot_id, bytes) or len(moment.boot_id) != BOOT_ID_BYTES:
        raise InvalidInput("clock", moment, f"must name the boot in {BOOT_ID_BYTES} bytes")
    return moment


def remaining_ms(row: LeaseRow, moment: Moment) -> int:
    """How long the lease still lives; 0 when it has expired or was released."""
    if not row.owner:
        return 0
    if row.boot_id == moment.boot_id and row.boot_id != UNKNOWN_BOOT:
        return max(0, row.boot_expiry - moment.boot_ms)
    return max(0, row.wall_expiry - moment.wall_ms)


def next_epoch(run: str, row: LeaseRow | None, standing: Standing | None, restoration: int) -> int:
    """The epoch that `acquire` would issue: above every one issued or written under."""
    written = 0 if standing is None else standing.epoch
    issued = 0 if row is None else row.epoch
    epoch = max(written, issued, restoration * RESTORATION) + 1
    if epoch > EPOCH_MAX:
        raise InvalidInput("epoch", epoch, f"of {run} would exceed 2**53 - 1")
    return epoch


def fence(run: str, epoch: int, row: LeaseRow | None, standing: Standing | None, restoration: int) -> None:
    """Raise `Fenced` unless this epoch may append to the run.

    A leased run takes its lease's epoch alone. One that was never leased takes an epoch not below its last
    record's and not above the next one that `acquire` would issue.
    """
    if row is not None:
        if epoch != row.epoch:
            raise Fenced(run, epoch, row.epoch)
        if is_restored(row):
            raise RestoredRun(run)
        return
    highest = next_epoch(run, row, standing, restoration)
    lowest = highest if standing is None else standing.epoch
    if not lowest <= epoch <= highest:
        raise Fenced(run, epoch, lowest)


def acquire(
    run: str,
    row: LeaseRow | None,
    standing: Standing | None,
    *,
    owner: str,
    ttl_ms: int,
    moment: Moment,
    restoration: int,
) -> LeaseRow:
    """The row of a new lease. `LeaseHeld` while one is live, also for its own owner: acquiring never renews.
    `RestoredRun` for a run that was open when its store was restored, until an operator has forced its lease."""
    if row is not None and is_restored(row):
        raise RestoredRun(run)
    if row is not None and (remaining := remaining_ms(row, moment)):
        raise LeaseHeld(run, row.owner, row.epoch, remaining)
    epoch = next_epoch(run, row, standing, restoration)
    return LeaseRow(owner, epoch, moment.wall_ms + ttl_ms, moment.boot_ms + ttl_ms, moment.boot_id)


def renew(run: str, row: LeaseRow | None, *, owner: str, epoch: int, ttl_ms: int, moment: Moment) -> LeaseRow:
    """The row with a new expiry and the same epoch; `LeaseNotHeld` unless this owner holds it live."""
    if row is None:
        raise hinted(LeaseNotHeld(run, owner, epoch, "the run has no lease"), Hint.NEVER_LEASED)
    if row.epoch != epoch:
        raise LeaseNotHeld(run, owner, epoch, f"the current epoch is {row.epoch}")
    if not row.owner:
        raise LeaseNotHeld(run, owner, epoch, "it was released")
    if row.owner != owner:
        raise LeaseNotHeld(run, owner, epoch, "another owner holds it")
    if not remaining_ms(row, moment):
        raise LeaseNotHeld(run, owner, epoch, "it has expired: acquire the lease anew")
    return LeaseRow(owner, epoch, moment.wall_ms + ttl_ms, moment.boot_ms + ttl_ms, moment.boot_id)


def released(epoch: int) -> LeaseRow:
    """The row of a lease that nobody holds. The epoch stays, so that it is never issued again."""
    return LeaseRow("", epoch, 0, 0, UNKNOWN_BOOT)


def restored(restoration: int) -> LeaseRow:
    """The row of an open run in a store that has just been restored: under an epoch that no lease is issued with."""
    return released(restoration * RESTORATION)


def is_restored(row: LeaseRow) -> bool:
    """Whether it is that row still, which forcing the lease replaces."""
    return row.epoch >= RESTORATION and row.epoch % RESTORATION == 0
