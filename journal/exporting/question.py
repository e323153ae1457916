"""What an export is to write, fixed before its first byte: the question, and where the store stood when it was asked.

It is kept beside a bundle that is being written, so that an interrupted export can be resumed:

    plan       "sealbook/export" 00 ‖ version u8 ‖ CBOR map ‖ BLAKE3 over all of that 32
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from blake3 import blake3

from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import Codec
from sealbook.journal.bundle.frames import ClaimedKey, KeptNote, TenantPart
from sealbook.journal.records import cbor

MAGIC = b"sealbook/export\0\1"
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class Question:
    """What to export. `what` is `store`, `tenant`, `runs`, `cases` or `span`; `names` are the runs or cases, `since`
    and `until` microseconds since 1970, both inclusive. All but `store` are of one tenant."""

    what: str
    tenant: str | None = None
    names: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a tenant stands when the export begins. `kept` is the checkpoint that proofs lead to, if one was signed.
    `size` is that of the log, also where `stated` is about a checkpoint. `last` is the hash of the last record.

    Of a whole tenant `notes` are the checkpoints of `notes_from` leaves and more, which may still gain signatures.
    Those of fewer leaves have been overtaken by a published one, and stay as they are.
    """

    stated: TenantPart
    kept: KeptNote | None
    size: int
    root: bytes
    last: bytes
    notes_from: int
    notes: tuple[KeptNote, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """An export before its first byte. `offered` is over the keys that were offered, `claimed` are those that enter.

    `store` is the store's id, `made_at` unix milliseconds.
    """

    store: bytes
    question: Question
    codec: Codec
    made_at: int
    offered: bytes
    claimed: tuple[bytes, ...]
    bounds: tuple[Bound, ...]

    @property
    def records(self) -> int:
        """How many records its tenants have."""
        return sum(bound.stated.records for bound in self.bounds)

    def encode(self) -> bytes:
        """Its file."""
        members = {name: value for name, value in asdict(self).items() if name != "codec"}
        content = MAGIC + cbor.encode_map(members | {"codec": int(self.codec)}, "plan")[0]
        return content + blake3(content).digest()

    @classmethod
    def decode(cls, data: bytes) -> Plan:
        """The plan; ValueError when these are not the bytes of one."""
        content = data[:-_DIGEST_BYTES]
        if not data.startswith(MAGIC) or blake3(content).digest() != data[-_DIGEST_BYTES:]:
            raise ValueError("it is no plan of an export, or one of another version, or damaged")
        members = cbor.decode(content[len(MAGIC) :])
        asked = members["question"]
        return cls(
            members["store"],
            Question(**asked | {"names": tuple(asked["names"])}),
            Codec(members["codec"]),
            members["made_at"],
            members["offered"],
            tuple(members["claimed"]),
            tuple(map(_bound, members["bounds"])),
        )


def digest_of_keys(keys: Sequence[ClaimedKey]) -> bytes:
    """One hash over these keys, whatever their order."""
    return blake3(b"".join(sorted({blake3(fr.encode_map(key)).digest() for key in keys}))).digest()


def _bound(members: dict[str, Any]) -> Bound:
    kept = members["kept"]
    return Bound(
        **members
        | {
            "stated": TenantPart(**members["stated"]),
            "kept": None if kept is None else KeptNote(**kept),
            "notes": tuple(KeptNote(**note) for note in members["notes"]),
        }
    )
