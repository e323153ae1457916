"""Decide a batch of requests, in order, against one snapshot: writes and answers out, nothing touched.

A refused request is answered with its refusal and changes nothing; the others stand. Every answer waits for the one
commit that makes the batch durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sealbook.journal.deciding import leases, requests
from sealbook.journal.deciding.appending import append
from sealbook.journal.deciding.context import Context, context_of
from sealbook.journal.deciding.leases import Lease
from sealbook.journal.deciding.log import anchors, checkpoints, heads
from sealbook.journal.deciding.operator_acts import adopt_log, force_lease, request_cancel
from sealbook.journal.deciding.overlay import Overlay
from sealbook.journal.deciding.requests import EFFECT_KINDS
from sealbook.journal.deciding.sealing import anchor, seal
from sealbook.journal.engine.port import Moment, Place, Snapshot, Writes
from sealbook.journal.errors import Corrupt, IndexStale, Refused, RunSealed, UnknownVersion
from sealbook.journal.schema import tables
from sealbook.journal.schema.setting import Setting
from sealbook.journal.schema.tables import StoreRow

Batch = Sequence[tuple[str, requests.Request]]  # (tenant, request)


def decide(batch: Batch, snapshot: Snapshot, moment: Moment, setting: Setting) -> tuple[Writes, list[Any]]:
    """The writes of a whole batch, and each request's answer: a value, or the error to raise.

    Pure: the same batch over the same snapshot at the same moment gives the same result.
    """
    overlay = Overlay(snapshot)
    answers = decide_over(overlay, batch, moment, setting)
    return overlay.writes(), answers


def decide_over(overlay: Overlay, batch: Batch, moment: Moment, setting: Setting) -> list[Any]:
    """The same over an overlay that knows some of the snapshot already; its `writes()` are the batch's."""
    places = [tables.STORE_PLACE]
    for tenant, request in batch:
        places += _places(tenant, request, overlay)
    overlay.fetch(dict.fromkeys(places))
    store = StoreRow.decode(overlay.get(tables.STORE_PLACE))
    if not store.index_current:
        raise IndexStale
    context = context_of(overlay, moment, setting, store.restoration)
    answers: list[Any] = []
    for tenant, request in batch:
        try:
            answers.append(_answer(context, tenant, request, {}))
        except (Refused, Corrupt, UnknownVersion) as error:
            answers.append(error)
            overlay.drop()
        else:
            overlay.enter()
    return answers


def _places(tenant: str, request: requests.Request, overlay: Overlay) -> list[Place]:
    """The rows that deciding the request will certainly read, so that they are read in one go."""
    if isinstance(request, requests.Group):
        return [place for part in request.requests for place in _places(tenant, part, overlay)]
    if isinstance(request, requests.KeepCheckpoint | requests.AnchorOpen | requests.AdoptLog | requests.GatherHeads):
        return [(tables.TENANTS, tenant.encode())]
    key = tables.run_key(tenant, request.run)
    places: list[Place] = []
    if not overlay.knows(tenant, request.run):
        places += [(tables.TENANTS, tenant.encode()), (tables.STATE, key), (tables.LEASES, key)]
    if isinstance(request, requests.Append):
        for entry in request.entries:
            if entry.effect is not None and entry.kind in EFFECT_KINDS:
                places.append((tables.EFFECTS, tables.effect_key(tenant, request.run, entry.effect)))
    return places


def _answer(context: Context, tenant: str, request: requests.Request, granted: dict[str, int]) -> Any:
    """Decide one request. `granted` are the epochs that its group has acquired, by run."""
    match request:
        case requests.Append():
            return append(context, tenant, request, granted)
        case requests.Acquire():
            return _acquire(context, tenant, request, granted)
        case requests.Renew():
            return _renew(context, tenant, request)
        case requests.Release():
            return _release(context, tenant, request, granted)
        case requests.Seal():
            return seal(context, tenant, request)
        case requests.Anchor():
            return anchor(context, tenant, request.run)
        case requests.AnchorOpen():
            return anchors.anchor_open(context.overlay, tenant)
        case requests.GatherHeads():
            return heads.gather(context.overlay, context.setting.identity.lineage_id, request.origin)
        case requests.RequestCancel():
            return request_cancel(context, tenant, request)
        case requests.ForceLease():
            return force_lease(context, tenant, request)
        case requests.KeepCheckpoint():
            return checkpoints.keep(context.overlay, tenant, request)
        case requests.AdoptLog():
            return adopt_log(context, tenant, request)
        case requests.Group():
            granted = {}
            return [_answer(context, tenant, part, granted) for part in request.requests]


def _acquire(context: Context, tenant: str, request: requests.Acquire, granted: dict[str, int]) -> Lease:
    overlay, run = context.overlay, request.run
    standing = overlay.standing(tenant, run)
    if standing is not None and standing.sealed:
        raise RunSealed(run, standing.outcome or "")
    before = overlay.lease(tenant, run)
    row = leases.acquire(
        run,
        before,
        standing,
        owner=request.owner,
        ttl_ms=request.ttl_ms,
        moment=context.moment,
        restoration=context.restoration,
    )
    overlay.set_lease(tenant, run, row)
    if before is not None and before.owner:
        overlay.take_over(tenant, run, before.epoch, row.epoch)
    granted[run] = row.epoch
    return leases.granted(tenant, run, row)


def _renew(context: Context, tenant: str, request: requests.Renew) -> Lease:
    overlay, run = context.overlay, request.run
    row = leases.renew(
        run,
        overlay.lease(tenant, run),
        owner=request.owner,
        epoch=request.epoch,
        ttl_ms=request.ttl_ms,
        moment=context.moment,
    )
    overlay.set_lease(tenant, run, row)
    return leases.granted(tenant, run, row)


def _release(context: Context, tenant: str, request: requests.Release, granted: dict[str, int]) -> None:
    """Free the lease if it stands under this epoch; anything else is a success that changes nothing."""
    row = context.overlay.lease(tenant, request.run)
    epoch = granted.get(request.run) if request.epoch is None else request.epoch
    if row is not None and row.epoch == epoch and row.owner:
        context.overlay.set_lease(tenant, request.run, leases.released(row.epoch))
