"""One Merkle log of a store, for whoever signs, publishes, serves and proves it: a tenant's, or the store log.

It opens no transaction of its own: reading and writing are the journal's (`store`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sealbook.journal.deciding import requests
from sealbook.journal.deciding.log import checkpoints, heads, leaves
from sealbook.journal.deciding.log.checkpoints import KeptCheckpoint, Sign
from sealbook.journal.deciding.log.heads import GatheredHead, HeadInclusion
from sealbook.journal.deciding.log.leaves import ConsistencyProof
from sealbook.journal.engine.port import Snapshot
from sealbook.journal.errors import Corrupt, NotFound
from sealbook.journal.records import names
from sealbook.journal.records.names import LIMIT_DEFAULT, STORE_LOG
from sealbook.journal.schema.tables import CheckpointState
from sealbook.journal.store.base import Verbs
from sealbook.journal.store.view import View
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.keys import SignatureLine
from sealbook.merkle.note import Note
from sealbook.merkle.tenant_head import TenantHead
from sealbook.merkle.tree import Node


class Log(Verbs, ABC):
    """A log of the store: its size, its checkpoints, its leaves and its proofs."""

    @property
    def origin(self) -> str:
        """The log's name in every checkpoint."""
        with self._reading() as snapshot:
            return self._origin_in(snapshot)

    @abstractmethod
    def _origin_in(self, snapshot: Snapshot) -> str:
        """The same, as this snapshot has it."""

    def checkpoint(self) -> Checkpoint:
        """The tenant's log as it stands: origin, size, root."""
        with self._reading() as snapshot:
            return leaves.checkpoint(snapshot, self.name, self._origin_in(snapshot))

    def sign_checkpoint(self, sign: Sign, *, size: int | None = None) -> KeptCheckpoint:
        """Sign the log as it stands, or as it was at `size` leaves, and keep the signed checkpoint; the same log is
        signed again with new keys only.

        `sign(checkpoint, consistent)` promises and signs: `Keyring.sign_checkpoint`. Before it is called, leaves, nodes
        and the checkpoint to be signed are durable. Raises what `sign` refuses (`PublishedAhead`,
        `PublishedDiffers`), `InvalidInput` for a size that the log has not reached, and `Corrupt` when the log is
        shorter than what this store signed.
        """
        size = None if size is None else names.check_size("size", size)
        with self._reading() as snapshot:
            wanted = leaves.checkpoint(snapshot, self.name, self._origin_in(snapshot), size)
            whole = leaves.log_size(snapshot, self.name)
            signed = checkpoints.latest(snapshot, self.name, published=False)
        if signed is not None and signed.checkpoint.size > whole:
            raise Corrupt(f"the log has {whole} leaves, and {signed.checkpoint.size} were signed")
        self._submit(requests.KeepCheckpoint(wanted, CheckpointState.PENDING, b""))

        def consistent(published: Checkpoint) -> bool:
            with self._reading() as snapshot:
                return checkpoints.begins_with(snapshot, self.name, wanted, published)

        lines = sign(wanted, consistent)
        return self._keep(Note(wanted.text(), tuple(lines)), CheckpointState.SIGNED)

    def keep_cosignatures(self, size: int, lines: Sequence[SignatureLine]) -> KeptCheckpoint:
        """Add lines, which the caller has verified, to the signed checkpoint of this size."""
        return self._keep(self._signed_note(size).adding(lines), CheckpointState.SIGNED)

    def publish_checkpoint(self, size: int, *, without_quorum: bool = False) -> KeptCheckpoint:
        """Let the signed checkpoint of this size be handed out. `PublishedAhead` when a larger one was."""
        state = CheckpointState.WITHOUT_QUORUM if without_quorum else CheckpointState.PUBLISHED
        return self._keep(self._signed_note(size), state)

    def signed_checkpoint(self, size: int | None = None) -> KeptCheckpoint | None:
        """The largest checkpoint that was signed, or the one of this size; None when there is none."""
        with self._reading() as snapshot:
            if size is None:
                return checkpoints.latest(snapshot, self.name, published=False)
            return checkpoints.kept_at(snapshot, self.name, names.check_size("size", size))

    def published_checkpoint(self) -> bytes | None:
        """The latest checkpoint that was published, as the signed note that is handed out; None before the first."""
        with self._reading() as snapshot:
            kept = checkpoints.latest(snapshot, self.name, published=True)
        return None if kept is None or kept.note is None else kept.note.encode()

    def published_sizes(self, above: int, limit: int = LIMIT_DEFAULT) -> list[int]:
        """The sizes above this one that were published, at most `limit` of them, smallest first."""
        above, limit = names.check_size("above", above), names.check_limit(limit)
        with self._reading() as snapshot:
            return checkpoints.published_sizes(snapshot, self.name, above, limit)

    def _signed_note(self, size: int) -> Note:
        kept = self.signed_checkpoint(size)
        if kept is None or kept.note is None:
            raise NotFound("signed checkpoint of size", size)
        return kept.note

    def _keep(self, note: Note, state: CheckpointState) -> KeptCheckpoint:
        request = requests.KeepCheckpoint(Checkpoint.parse(note.text), state, note.encode())
        kept: KeptCheckpoint = self._submit(request)
        return kept

    def consistency_proof(self, old_size: int) -> ConsistencyProof:
        """The proof that the log of `old_size` leaves is the beginning of the log as it stands."""
        old_size = names.check_size("old size", old_size)
        with self._reading() as snapshot:
            return leaves.consistency(snapshot, self.name, old_size)

    def leaf_entries(self, start: int, limit: int) -> list[bytes]:
        """The entries of at most `limit` leaves of the log from number `start` on, as they are stored."""
        start, limit = names.check_size("start", start), names.check_limit(limit)
        with self._reading() as snapshot:
            return leaves.leaf_entries(snapshot, self.name, start, limit)

    def tree_nodes(self, nodes: Sequence[Node]) -> Sequence[bytes]:
        """The hashes of these complete subtrees of the log, in their order: what `merkle.tree` computes from."""
        with self._reading() as snapshot:
            return leaves.snapshot_reader(self.name, snapshot)(nodes)


class StoreLog(Log):
    """The log of all tenants' logs: each leaf says what one of them had come to. Where it is kept, one origin suffices
    for witnesses and monitors. It shows that a tenant's log was forked; it does not prevent it."""

    def __init__(self, view: View, origin: str) -> None:
        super().__init__(view, STORE_LOG)
        self._origin = origin

    def __repr__(self) -> str:
        return f"StoreLog({self._origin!r})"

    def _origin_in(self, snapshot: Snapshot) -> str:
        return self._origin

    def gather(self) -> list[GatheredHead]:
        """Bring the head of every tenant's log that has grown since its last one into the log, in one transaction.

        Empty when none has grown. `Corrupt` when a tenant's log is shorter than its last head says; `InvalidInput` when
        the log was signed under another origin.
        """
        gathered: list[GatheredHead] = self._submit(requests.GatherHeads(self._origin))
        return gathered

    def tags(self) -> dict[bytes, str]:
        """The tenants whose logs have leaves, by the tag under which their heads stand now."""
        with self._reading() as snapshot:
            return heads.tags(snapshot, self._lineage)

    def head(self, tenant: str, size: int | None = None) -> tuple[int, TenantHead] | None:
        """The tenant's newest head below `size`, by default the log's, and its log position; None when it has none."""
        names.check_tenant(tenant)
        size = None if size is None else names.check_size("size", size)
        with self._reading() as snapshot:
            return heads.newest(snapshot, tenant, size)

    def inclusion_proof(self, tenant: str, run: str, size: int | None = None) -> HeadInclusion | None:
        """The proof of the run's highest leaf that the tenant's newest head covers, up to the log of `size` leaves.

        None when the tenant has no head below that size, or when the newest one covers no leaf of the run; `NotFound`
        for an unknown run; `InvalidInput` for a size that the log has not reached.
        """
        names.check_tenant(tenant)
        names.check_run(run)
        size = None if size is None else names.check_size("size", size)
        with self._reading() as snapshot:
            return heads.inclusion(snapshot, self._lineage, tenant, run, size)

    @property
    def _lineage(self) -> bytes:
        return self.view.setting.identity.lineage_id
