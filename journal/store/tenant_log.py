"""Verbs of a tenant's Merkle log beyond those of every log: proofs of runs, adoption, and the check of one run."""

from __future__ import annotations

from collections.abc import Sequence

from sealbook.journal.checking import whole
from sealbook.journal.checking.report import CheckReport
from sealbook.journal.deciding import requests as ask
from sealbook.journal.deciding.log import adoption, anchors
from sealbook.journal.deciding.log.adoption import AdoptedLog
from sealbook.journal.deciding.log.leaves import InclusionProof
from sealbook.journal.engine.port import Snapshot
from sealbook.journal.errors import (
    InvalidInput,
)
from sealbook.journal.reading import listings
from sealbook.journal.records import names as ids
from sealbook.journal.records.trust import NOTHING_BROUGHT, Trust
from sealbook.journal.schema.origins import check_store_origin, tenant_origin
from sealbook.journal.schema.standings import known_standing
from sealbook.journal.store.logs import Log
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed
from sealbook.merkle.note import Note


class TenantLog(Log):
    """One tenant's log over the heads of its runs."""

    def _origin_in(self, snapshot: Snapshot) -> str:
        """The base, or base/tenant for all but `default`; the new one for a log that went on under another."""
        return adoption.adopted_origin(snapshot, self.name) or tenant_origin(self.view.origin, self.name)

    def adopt_log(self, origin: str, old_checkpoint: bytes, *, actor: str, reason: str = "") -> AdoptedLog:
        """Let the log go on under a new origin, from the last known checkpoint of the old one, a signed note.

        For a log that cannot be extended any more, because more was published than the store has: its first leaf
        states that checkpoint, and its own leaves follow. The caller has verified the note's signature. Recorded in
        `~tenant`. `InvalidInput` when the log can still be extended, or the checkpoint is of another log;
        `OriginsCoincide` when another log has the origin, or could come to have it.
        """
        try:
            old = Checkpoint.parse(Note.parse(old_checkpoint).text)
        except Malformed as error:
            raise InvalidInput("old checkpoint", old_checkpoint, str(error)) from error
        if old.origin != self.origin:
            raise InvalidInput("old checkpoint", old.origin, f"is of another log than {self.origin}")
        taken = {name: TenantLog(self.view, name).origin for name in {*self.view.tenants(), self.name}}
        adoption.check_free(origin, self.view.origin, self.name, taken)
        if self.view.store_origin is not None:
            check_store_origin(self.view.store_origin, self.view.origin, {self.name: origin})
        adopted: AdoptedLog = self._submit(ask.adopt_log(origin, old, old_checkpoint, actor=actor, reason=reason))
        return adopted

    def inclusion_proof(self, run: str, size: int | None = None) -> InclusionProof | None:
        """The proof of the run's highest leaf in the log, its own or an anchor batch's, or of that below `size`.

        None when the run has no leaf below that size; `NotFound` for an unknown run; `InvalidInput` for a size that
        the log has not reached. It proves presence, never that no newer leaf exists.
        """
        ids.check_run(run)
        size = None if size is None else ids.check_size("size", size)
        with self._reading() as snapshot:
            standing = known_standing(snapshot, self.name, run)
            return anchors.inclusion(snapshot, standing, size)

    def log_positions(self, runs: Sequence[str]) -> list[int | None]:
        """The log position of each run's seal, None for a run that is not sealed, in one pass."""
        names = [ids.check_run(run) for run in runs]
        with self._reading() as snapshot:
            found = listings.standings(snapshot, self.name, names)
            return [None if standing is None else standing.seal for standing in found]

    def verify(self, run: str, *, trust: Trust = NOTHING_BROUGHT) -> CheckReport:
        """Derive one run again from its record bytes, down to its leaves in the log. `NotFound` for an unknown run.

        Of `trust` the keys and signatures count; outside checkpoints are for the whole store (`Journal.check`).
        """
        ids.check_run(run)
        with self._reading() as snapshot:
            return whole.check_run(snapshot, self.view.setting, self.name, run, trust)
