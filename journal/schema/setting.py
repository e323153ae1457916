"""What an open journal brings to every decision: the store's identity, its signer, its upcaster."""

from __future__ import annotations

from dataclasses import dataclass

from sealbook.journal.records.signatures import Signer
from sealbook.journal.records.versions import Upcaster
from sealbook.journal.schema.identity import Identity


@dataclass(frozen=True, slots=True)
class Setting:
    """What an open journal brings to every decision: who the store is, who signs, how records are lifted."""

    identity: Identity
    signer: Signer | None
    upcaster: Upcaster
