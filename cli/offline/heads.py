"""Verify a proof that leads through a store log: from the run's leaf to a head of its tenant's log, and on from there.

A store log shows that a tenant's log was forked only to whoever follows it. So a proof through a head is "not
monitored" unless a monitor's state shows that the heads of the tenant, up to this one, extend one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sealbook.journal.records.chain import tenant_tag
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.proof_file import ProofFile
from sealbook.merkle.tenant_head import HEAD_PROOF_PREFIX, HeadProof, TenantHead
from sealbook.merkle.verify import verify_inclusion


@dataclass(frozen=True, slots=True)
class Watched:
    """What a monitor's state says of one place in a store log: how many leaves of it were read, the leaf there (None
    when it was not read), and up to which position the leaves of its tag are known to extend one another."""

    size: int
    leaf: bytes | None
    monitored: int


def head_proof(file: ProofFile) -> HeadProof | None:
    """The path of the file to a head of the tenant's log, where it is a proof in a store log."""
    if file.extra is None or not file.extra.startswith(HEAD_PROOF_PREFIX):
        return None
    return HeadProof.parse(file.extra)


def check_head(lineage: bytes, tenant: str, file: ProofFile, path: HeadProof, checkpoint: Checkpoint) -> None:
    """The head is one of this tenant of the store with this lineage, and stands in the store log of the checkpoint."""
    if path.head.tag != tenant_tag(lineage, tenant, path.adoption):
        raise VerificationError(f"the head at index {file.index} is that of another tenant's log")
    try:
        verify_inclusion(
            leaf=path.head.hash(), index=file.index, size=checkpoint.size, proof=file.proof, root=checkpoint.root
        )
    except VerificationError as error:
        raise VerificationError(f"the head does not stand at index {file.index} of the store log: {error}") from error


def is_monitored(file: ProofFile, path: HeadProof, watched: Watched | None) -> bool:
    """Whether the monitor knows that the tenant's heads up to this one extend one another. Raises
    `VerificationError` when it has another leaf at this place."""
    if watched is None or watched.leaf is None:
        return False
    if watched.leaf != path.head.encode():
        raise VerificationError(
            f"at index {file.index} the monitor has another leaf: the store log shows two histories, keep both"
        )
    return watched.monitored >= file.index


def not_checked(path: HeadProof, watched: Watched | None, monitored: bool) -> Iterator[str]:
    """What stays open where a proof leads through a head, one line each."""
    what = "whether the tenant's log was forked: not monitored"
    if watched is None:
        yield f"{what}: no --monitored"
    elif watched.leaf is None:
        yield f"{what}: the monitor has read the store log up to size {watched.size}"
    elif not monitored:
        yield f"{what}: the monitor could not follow the tenant's log so far"
    if path.adoption:
        yield (
            f"how the tenant's log stood before record {path.adoption} of its operator acts, by which it went on under"
            " another origin and tag"
        )


def as_object(head: TenantHead, index: int) -> dict[str, Any]:
    """The head as JSON has it."""
    return {"tag": head.tag.hex(), "size": head.size, "root": head.root.hex(), "index": index}


def as_line(head: TenantHead, index: int, monitored: bool) -> str:
    """The head in words."""
    where = f"at position {index} of the store log"
    state = "monitored" if monitored else "not monitored"
    return f"head: size {head.size}, root {head.root.hex()} of the tenant's log, {where}, {state}"
