"""Where each run stands, and the rows that each index holds for it. Pure: no storage, no clock.

An index is a function from a standing (or, for `case`, from a record) to rows. The store removes
`rows(before) - rows(after)` and puts `rows(after) - rows(before)`; rebuilding and checking use the same functions.
"""

from __future__ import annotations

from sealbook.indexes.registry import INDEX_TABLES as INDEX_TABLES
from sealbook.indexes.registry import rows as rows
from sealbook.indexes.standing import SEALING_EXCEPTIONS as SEALING_EXCEPTIONS
from sealbook.indexes.standing import EffectStatus as EffectStatus
from sealbook.indexes.standing import Facts as Facts
from sealbook.indexes.standing import Standing as Standing
from sealbook.indexes.standing import advance as advance
from sealbook.indexes.standing import seals as seals

__all__ = [
    "INDEX_TABLES",
    "SEALING_EXCEPTIONS",
    "EffectStatus",
    "Facts",
    "Standing",
    "advance",
    "rows",
    "seals",
]
