"""What links records: the hash of each over the one before, and the tags that stand for a run and a tenant."""

from __future__ import annotations

from dataclasses import dataclass

from blake3 import blake3

from sealbook.indexes.packing import u64
from sealbook.journal.records.entries import length_prefixed

GENESIS = bytes(32)
HASH_CONTEXT = "sealbook 2026 record v1"
RUN_TAG_CONTEXT = "sealbook 2026 run tag v1"
TENANT_TAG_CONTEXT = "sealbook 2026 tenant tag v1"


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a run's chain: its number of records and the hash of the last, 32 zero bytes at seq 0."""

    seq: int
    hash: bytes


def chain_hash(prev: bytes, body: bytes) -> bytes:
    """The hash of a record: BLAKE3 in derive-key mode over the previous hash and the body."""
    return blake3(prev + body, derive_key_context=HASH_CONTEXT).digest()


def run_tag(salt: bytes, tenant: str, run: str) -> bytes:
    """What names a run in the log without telling its name: it takes the run's salt to compute it."""
    message = salt + length_prefixed(tenant.encode(), run.encode())
    return blake3(message, derive_key_context=RUN_TAG_CONTEXT).digest()


def tenant_tag(lineage: bytes, tenant: str, adoption: int) -> bytes:
    """What a tenant's log is called in the store log: `adoption` counts it anew after it went on under a new origin.

    Who holds a record of the store knows its lineage, and so the tag; nobody else learns a name from a tag."""
    message = lineage + length_prefixed(tenant.encode()) + u64(adoption)
    return blake3(message, derive_key_context=TENANT_TAG_CONTEXT).digest()
