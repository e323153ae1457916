"""What a check found, how deep it went and what it did not look at, as values; and the collector that fills them.

Damage is reported, not raised, so that one damaged row hides no other. A report keeps a bounded number of findings
and counts the rest, so that a store damaged everywhere does not fill the memory.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from sealbook.journal.errors import key_text

FINDINGS_MAX = 1000  # kept of damage, and as many again of records of a newer version

NEWER = "a newer build wrote it: no damage, and not judged here"
CONTRADICTED = "what was seen elsewhere, or what should be there, contradicts the store"
_RECORD = "this record, or that it stands here, cannot be believed; nor can what follows from it"
_DECIDES = "appends decide by this row: it may admit what it must refuse, or the reverse; the records are unharmed"
_LISTED = "listings show it wrongly; records and proofs are unharmed, and `reindex` builds it again"
_LOG = "the log is not what it was when it was built: proofs from it fail, or attest something else"
_LEASED = "who may append, under which epoch, cannot be believed"
_MEANINGS = {
    "journal": _RECORD,
    "arrivals": _DECIDES,
    "state": _DECIDES,
    "effects": _DECIDES,
    "admissions": _DECIDES,
    "tenants": "what the tenant has is counted wrongly: records or leaves came or went past the store",
    "cancels": "a request to cancel is lost, or nobody made it",
    "leases": _LEASED,
    "leaves": _LOG,
    "positions": _LOG,
    "nodes": _LOG,
    "batches": _LOG,
    "batched": _LOG,
    "heads": _LOG,
    "origins": "the log goes by another name than its records say",
    "checkpoints": "what was signed and what the log has become are not the same history",
    "signers": "signatures under this key prove nothing",
    "store": "the store does not know itself: stop writing, restore from a copy",
    **dict.fromkeys(("activity", "cases", "outcome", "source", "waiting"), _LISTED),
}


class Level(enum.IntEnum):
    """How deep a check goes. Each level does what those before it do."""

    STRUCTURE = 1  # records stand where they say, without gaps, as many as are counted
    CHAIN = 2  # each hash covers its bytes, which are a record in its one encoding, and follows the one before it
    SIGNATURES = 3  # each signature is that of its signer's key
    LOG = 4  # each leaf attests a record, each tree is that of its leaves, each checkpoint that of its tree
    DEEP = 5  # everything is derived again from the record bytes and compared with every row

    @property
    def word(self) -> str:
        """The level as people and JSON read it."""
        return self.name.lower()


_BEYOND = {
    Level.CHAIN: "the records' bytes, hashes and chains: level chain",
    Level.SIGNATURES: "the signatures of records: level signatures",
    Level.LOG: "leaves, trees and checkpoints of the logs: level log",
    Level.DEEP: "the rules that admitted the records, and the rows that derive from them: level deep",
}


def beyond(level: Level) -> tuple[str, ...]:
    """What a check at this level does not look at, one line each."""
    return tuple(line for deeper, line in _BEYOND.items() if deeper > level)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as the record bytes say it should be.

    `seq` names the record, `table` and `key` the row. `newer` marks a record that a newer build wrote: it could not
    be read here, which is never tampering.
    """

    tenant: str | None
    run: str | None
    seq: int | None
    table: str | None
    key: bytes | None
    what: str
    newer: bool = False

    @property
    def means(self) -> str:
        """What the finding means for a reader of the store."""
        return NEWER if self.newer else _MEANINGS.get(self.table or "", CONTRADICTED)

    def __str__(self) -> str:
        place = [] if self.tenant is None else [f"tenant {self.tenant}"]
        if self.run is not None:
            place.append(f"run {self.run}")
        if self.seq is not None:
            place.append(f"record {self.seq}")
        if self.table is not None:
            place.append(f"table {self.table} key {key_text(self.key or b'')}")
        return f"{', '.join(place)}: {self.what}" if place else self.what


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found, how much it looked at, and what it could not check.

    `findings_more` counts the findings beyond those kept. `runs` counts chains, the store's own (`~tenant`) included;
    `bytes` those of the record rows; `index_rows` the rows of all indexes that agree with the records. `level` is how
    deep it went, and `agreed` has a line for each outside checkpoint that the logs agree with.
    """

    findings: tuple[Finding, ...]
    findings_more: int
    not_checked: tuple[str, ...]
    tenants: int
    runs: int
    records: int
    bytes: int
    leaves: int
    effects: int
    index_rows: int
    signatures: int
    level: Level = Level.DEEP
    agreed: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def damaged(self) -> tuple[Finding, ...]:
        """The findings that say that stored bytes contradict themselves: all but records of a newer version."""
        return tuple(finding for finding in self.findings if not finding.newer)


class Findings:
    """Findings as they come in. The same row is reported once."""

    def __init__(self) -> None:
        self._damage: list[Finding] = []
        self._newer: list[Finding] = []
        self._rows: set[tuple[str, bytes]] = set()
        self.more = 0

    def add(self, finding: Finding) -> None:
        """Take a finding in, unless its row has been reported already."""
        if finding.table is not None and finding.key is not None:
            if (finding.table, finding.key) in self._rows:
                return
            if len(self._rows) < FINDINGS_MAX:
                self._rows.add((finding.table, finding.key))
        kept = self._newer if finding.newer else self._damage
        if len(kept) < FINDINGS_MAX:
            kept.append(finding)
        else:
            self.more += 1

    def names(self, table: str, key: bytes) -> bool:
        """Whether the row has been reported."""
        return (table, key) in self._rows

    def all(self) -> tuple[Finding, ...]:
        """Damage first, in the order in which it was found."""
        return (*self._damage, *self._newer)
