"""Which origin each log has, and the refusal of a configuration in which two logs would share one.

The tenant `default` has the base itself, every other tenant `<base>/<tenant>`. A log's key is named after its origin,
and a witness knows a log by its origin alone: two logs under one origin would be one log with two histories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sealbook.journal.errors import InvalidInput, Refused, shown
from sealbook.journal.records.names import check_tenant
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed
from sealbook.merkle.hashing import EMPTY_ROOT
from sealbook.merkle.keys import check_key_name

DEFAULT_TENANT = "default"


@dataclass(eq=False)
class OriginsCoincide(Refused):
    """Two logs would have one origin, or one of them an origin that another one's begins with."""

    origin: str
    one: str
    other: str

    def __str__(self) -> str:
        return f"origin {shown(self.origin)}: {self.one} and {self.other} would share it: give one of them another base"


def check_origin(origin: object) -> str:
    """The origin, if it can stand in a checkpoint and name the key that signs it."""
    try:
        if not isinstance(origin, str):
            raise InvalidInput("origin", origin, "must be text")
        Checkpoint(origin, 0, EMPTY_ROOT)
        check_key_name(origin)
    except Malformed as error:
        raise InvalidInput("origin", origin, str(error)) from error
    return origin


def tenant_origin(base: str, tenant: str) -> str:
    """The origin of the tenant's log."""
    check_tenant(tenant)
    return check_origin(base if tenant == DEFAULT_TENANT else f"{base}/{tenant}")


def tenant_origins(base: str, tenants: Iterable[str]) -> dict[str, str]:
    """The origin of each tenant's log; `OriginsCoincide` when two would share one."""
    origins = {tenant: tenant_origin(base, tenant) for tenant in tenants}
    holders: dict[str, str] = {}
    for tenant, origin in origins.items():
        if origin in holders:
            raise OriginsCoincide(origin, f"tenant {holders[origin]}", f"tenant {tenant}")
        holders[origin] = tenant
    return origins


def check_store_origin(origin: object, base: str, adopted: Mapping[str, str]) -> str:
    """The store log's origin. `OriginsCoincide` when it and that of any tenant's log, be it one to come, are the same
    or one begins with the other. `adopted` are the origins under which tenants' logs went on."""
    origin = check_origin(origin)
    # Every tenant's origin begins with the base, which is that of the tenant `default`.
    for tenant, theirs in {DEFAULT_TENANT: base, **adopted}.items():
        if origin.startswith(theirs) or theirs.startswith(origin):
            raise OriginsCoincide(origin, "the store log", f"tenant {tenant}")
    return origin
