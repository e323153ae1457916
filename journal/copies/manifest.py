"""What stands in a backup's `BACKUP` file: which store it is of, what that store had, and the digest of its data file.

    {"sealbook": "backup", "v": 1, "store": hex, "lineage": hex, "format": 2, "engine": 1, "restoration": 0,
     "made_at": RFC 3339, "generation": 3, "data_bytes": n, "data_digest": hex, "state": hex,
     "tenants": [{"tenant", "origin", "records", "head", "size", "root", "bytes"}], "check": 16 hex}

`generation` is the number of the folder `store-<generation>` with the store's files. `data_digest` is BLAKE3 of its
data.mdb. `state` is a digest of what changes with every commit: a store that has the same one has had no commit since.
`head` is the hash of the tenant's last record in the order of arrival, `size` and `root` are those of its log. `check`
is 8 bytes of BLAKE3 of all that stands before it: it finds damage, not forgery.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from blake3 import blake3

from sealbook.journal.errors import Corrupt, Refused, UnknownVersion
from sealbook.journal.records import instants, names

TITLE = "backup"
TEXT_VERSION = 1
BYTES_MAX = 64 * 2**20  # more tenants than a store was ever seen with


@dataclass(frozen=True, slots=True)
class TenantState:
    """Where a tenant stands. `head` is None without a record; `origin` is the one that its log goes on under, None when
    it has its first one; `bytes` are those of its rows, keys included."""

    tenant: str
    origin: str | None
    records: int
    head: bytes | None
    size: int
    root: bytes
    bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup holds. `made_at` is unix milliseconds."""

    store: bytes
    lineage: bytes
    format: int
    engine: int
    restoration: int
    made_at: int
    generation: int
    data_bytes: int
    data_digest: bytes
    state: bytes
    tenants: tuple[TenantState, ...]

    def members(self) -> dict[str, Any]:
        """Its members as JSON has them."""
        tenants = [{name: _shown(value) for name, value in asdict(tenant).items()} for tenant in self.tenants]
        own = {name: _shown(getattr(self, name)) for name in self.__dataclass_fields__ if name != "tenants"}
        own["made_at"] = instants.of_millis(self.made_at)
        return {"sealbook": TITLE, "v": TEXT_VERSION, **own, "tenants": tenants}

    def encode(self) -> bytes:
        """The bytes of the file."""
        members = self.members()
        return json.dumps(members | {"check": _check_of(members)}, indent=1).encode() + b"\n"

    @classmethod
    def parse(cls, data: bytes) -> Manifest:
        """The manifest in a file. `Corrupt`: it is none, or damaged. `UnknownVersion`: a newer build wrote it."""
        try:
            members = json.loads(data) if len(data) <= BYTES_MAX else None
        except (ValueError, RecursionError):
            members = None
        if not isinstance(members, dict) or members.get("sealbook") != TITLE:
            raise Corrupt("it is no backup's manifest, or it is damaged")
        if members.get("v") != TEXT_VERSION:
            raise UnknownVersion(f"a backup of version {members.get('v')!r}: read it with a newer build")
        if members.pop("check", None) != _check_of(members):
            raise Corrupt("the backup's manifest is damaged: its check does not match")
        try:
            manifest = _read(members)
        except (KeyError, TypeError, ValueError, Refused) as error:
            raise Corrupt(f"the backup's manifest says what no manifest says: {error}") from error
        if manifest.encode() != data:
            raise Corrupt("the backup's manifest is damaged: it is not written as a manifest is")
        return manifest


def _read(members: dict[str, Any]) -> Manifest:
    tenants = tuple(
        TenantState(
            names.check_tenant(tenant["tenant"]),
            tenant["origin"],
            names.check_size("records", tenant["records"]),
            None if tenant["head"] is None else bytes.fromhex(tenant["head"]),
            names.check_size("size", tenant["size"]),
            bytes.fromhex(tenant["root"]),
            names.check_size("bytes", tenant["bytes"]),
        )
        for tenant in members["tenants"]
    )
    return Manifest(
        store=bytes.fromhex(members["store"]),
        lineage=bytes.fromhex(members["lineage"]),
        format=names.check_size("format", members["format"]),
        engine=names.check_size("engine", members["engine"]),
        restoration=names.check_size("restoration", members["restoration"]),
        made_at=instants.parse(members["made_at"]) // 1000,
        generation=names.check_size("generation", members["generation"]),
        data_bytes=names.check_size("data_bytes", members["data_bytes"]),
        data_digest=bytes.fromhex(members["data_digest"]),
        state=bytes.fromhex(members["state"]),
        tenants=tenants,
    )


def _shown(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def _check_of(members: dict[str, Any]) -> str:
    return blake3(json.dumps(members, sort_keys=True).encode()).hexdigest(8)
