"""Bring a run's head into the tenant's log: seal a concluded run, anchor an open one."""

from __future__ import annotations

from sealbook.indexes.standing import Standing
from sealbook.journal.deciding import leases, requests
from sealbook.journal.deciding.context import Context
from sealbook.journal.deciding.log.leaves import Leaf, add_leaf, leaf_of, leaf_place
from sealbook.journal.errors import Concluded, LeaseHeld, Mismatch, NotConcluded, NotFound


def seal(context: Context, tenant: str, request: requests.Seal) -> Leaf:
    """Seal a concluded run. The first seal wins: later ones change nothing and answer with it."""
    overlay, run = context.overlay, request.run
    standing, row = overlay.standing(tenant, run), overlay.lease(tenant, run)
    if standing is None:
        if row is not None and request.epoch is not None:
            leases.fence(run, request.epoch, row, standing, context.restoration)
        raise NotConcluded(run, None, None) if row is not None else NotFound("run", run)
    if not standing.sealed:
        if request.epoch is not None:
            leases.fence(run, request.epoch, row, standing, context.restoration)
        elif row is not None and (remaining := leases.remaining_ms(row, context.moment)):
            raise LeaseHeld(run, row.owner, row.epoch, remaining)
    if request.outcome is not None and standing.concluded and request.outcome != standing.outcome:
        raise Mismatch(run, "the outcome", request.outcome, standing.outcome)
    if not standing.sealed:
        standing = seal_concluded(context, standing)
    return _leaf(context, standing)


def seal_concluded(context: Context, standing: Standing) -> Standing:
    if not standing.final:
        outcome = standing.outcome if standing.concluded else None
        raise NotConcluded(standing.run, standing.last_kind, outcome)
    context.overlay.check_head(standing)
    return add_leaf(context.overlay, standing, sealing=True)


def anchor(context: Context, tenant: str, run: str) -> Leaf:
    """Anchor an open run's head. An unmoved head, or a sealed run, is answered with its leaf."""
    standing = context.overlay.standing(tenant, run)
    if standing is None:
        raise NotFound("run", run)
    if not standing.sealed:
        if standing.final:
            raise Concluded(run, standing.outcome or "")
        if standing.highest_leaf_seq != standing.records:
            context.overlay.check_head(standing)
            standing = add_leaf(context.overlay, standing, sealing=False)
    return _leaf(context, standing)


def _leaf(context: Context, standing: Standing) -> Leaf:
    index = standing.highest_leaf
    assert index is not None
    return leaf_of(standing, index, context.overlay.get(leaf_place(standing, index)))
