"""Decide the operator acts, each with its record in the tenant's own run: cancel, force a lease, adopt a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sealbook.journal.deciding import leases, requests
from sealbook.journal.deciding.acts import CANCEL_REQUESTED, LEASE_FORCED, LOG_ADOPTED, Cancellation, cancellation_of
from sealbook.journal.deciding.appending import chain, read_run_record
from sealbook.journal.deciding.context import Context
from sealbook.journal.deciding.leases import Lease
from sealbook.journal.deciding.log import adoption
from sealbook.journal.deciding.log.adoption import AdoptedLog
from sealbook.journal.errors import NotFound, RunSealed
from sealbook.journal.records.names import OPERATOR_RUN, RESTORATION
from sealbook.journal.records.record import Record
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import LeaseRow


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """What became of `request_cancel`.

    `status` is `recorded`; `already-requested`, with the first request; `concluded`, with the outcome; or
    `unknown-run`, for a run that has no records yet: the request is stored all the same.
    """

    run: str
    status: str
    cancellation: Cancellation | None
    outcome: str | None = None


def request_cancel(context: Context, tenant: str, request: requests.RequestCancel) -> CancelAnswer:
    """Record the first request; later ones change nothing. It needs no lease and no existing run."""
    overlay, run = context.overlay, request.run
    standing = overlay.standing(tenant, run)
    if standing is not None and (standing.sealed or standing.final):
        return CancelAnswer(run, "concluded", None, standing.outcome)
    place = (tables.CANCELS, tables.run_key(tenant, run))
    value = overlay.get(place)
    if value is not None:
        record = read_run_record(context, tenant, OPERATOR_RUN, int.from_bytes(value, "big"))
        return CancelAnswer(run, "already-requested", cancellation_of(record))
    act = {"run": run, "actor": request.actor, "reason": request.reason, "basis": request.basis}
    record = enter_act(context, tenant, CANCEL_REQUESTED, act, request.salt)
    overlay.insert(place, record.seq.to_bytes(8, "big"))
    # A run that concluded without being final may be resumed, and must then find the request.
    if standing is not None and standing.concluded:
        return CancelAnswer(run, "concluded", cancellation_of(record), standing.outcome)
    return CancelAnswer(run, "unknown-run" if standing is None else "recorded", cancellation_of(record))


def force_lease(context: Context, tenant: str, request: requests.ForceLease) -> Lease:
    """Issue the next epoch to nobody: the old owner is fenced, and anybody may acquire."""
    overlay, run = context.overlay, request.run
    standing, row = overlay.standing(tenant, run), overlay.lease(tenant, run)
    if standing is None and row is None:
        raise NotFound("run", run)
    if standing is not None and standing.sealed:
        raise RunSealed(run, standing.outcome or "")
    epoch = leases.next_epoch(run, row, standing, context.restoration)
    act = {
        "run": run,
        "actor": request.actor,
        "reason": request.reason,
        "owner": row.owner or None if row is not None else None,
        "epoch_before": row.epoch if row is not None else standing.epoch if standing is not None else 0,
        "epoch": epoch,
    }
    enter_act(context, tenant, LEASE_FORCED, act, request.salt)
    forced = LeaseRow("", epoch, 0, 0, leases.UNKNOWN_BOOT)
    overlay.set_lease(tenant, run, forced)
    return leases.granted(tenant, run, forced)


def adopt_log(context: Context, tenant: str, request: requests.AdoptLog) -> AdoptedLog:
    """Let the log go on under another origin, and record that it does."""
    act = adoption.begin_anew(context.overlay, tenant, request)
    adoption.remember(context.overlay, enter_act(context, tenant, LOG_ADOPTED, act, request.salt))
    return AdoptedLog(request.origin, context.overlay.tenant(tenant).leaves, request.old)


def enter_act(context: Context, tenant: str, kind: str, data: dict[str, Any], salt: bytes) -> Record:
    """One record of the tenant's own run, in the transaction that acts. That run has no lease."""
    epoch = context.restoration * RESTORATION
    standing = context.overlay.standing(tenant, OPERATOR_RUN)
    [record], _ = chain(context, tenant, OPERATOR_RUN, standing, [requests.prepare_trusted(kind, data)], epoch, salt)
    return record
