"""Evidence as a file, checked where no store is: no storage, no network.

>>> import io
>>> from sealbook.journal import Journal, entries
>>> from sealbook.journal.bundle import verify
>>> from sealbook.journal.exporting import Question, export
>>> journal = Journal.in_memory()
>>> _ = journal.tenant("acme").append("order-42", [entries.concluded("completed")], epoch=1, seal=True)
>>> file = io.BytesIO()
>>> exported = export(journal, file, Question("tenant", "acme"), made_at=1_795_939_200_000)
>>> verdict = verify(io.BytesIO(file.getvalue()))
>>> verdict.sound, verdict.totals.records, verdict.digest == exported.digest
(True, 1, True)
>>> print(verdict.not_checked[0])
whether this is the log that others saw: no --checkpoint
>>> damaged = verify(io.BytesIO(file.getvalue()[:-1]))
>>> damaged.sound, damaged.faults[0].section, damaged.faults[0].incomplete
(False, 'trailer', True)
"""

from __future__ import annotations

from sealbook.journal.bundle.faults import Damaged as Damaged
from sealbook.journal.bundle.faults import Fault as Fault
from sealbook.journal.bundle.frames import ClaimedKey as ClaimedKey
from sealbook.journal.bundle.frames import Header as Header
from sealbook.journal.bundle.frames import Totals as Totals
from sealbook.journal.bundle.verdict import Claim as Claim
from sealbook.journal.bundle.verdict import Verdict as Verdict
from sealbook.journal.bundle.verdict import verify as verify

__all__ = ["Claim", "ClaimedKey", "Damaged", "Fault", "Header", "Totals", "Verdict", "verify"]
