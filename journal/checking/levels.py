"""How deep a check goes, what each level leaves unlooked at, and what an auditor brings to it."""

from __future__ import annotations

import enum


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
