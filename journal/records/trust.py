"""What an auditor brings to a check: checkpoints from outside, the keys that count, and whether all must be signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sealbook.journal.records.signatures import signer_id
from sealbook.merkle.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Outside:
    """A checkpoint from outside that a store is held to; `source` says where it came from."""

    source: str
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Trust:
    """What an auditor brings: checkpoints from outside, each a constraint of its own; the 32-byte Ed25519 public keys
    whose signatures count, None for any; and whether every record must be signed."""

    checkpoints: Sequence[Outside] = ()
    public_keys: frozenset[bytes] | None = None
    signatures_required: bool = False

    def trusts(self, signer: bytes) -> bool:
        """Whether signatures of the signer with this id count."""
        return self.public_keys is None or signer in {signer_id(key) for key in self.public_keys}


NOTHING_BROUGHT = Trust()
