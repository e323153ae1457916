"""Write bundles from a store, and resume what was interrupted."""

from __future__ import annotations

from sealbook.journal.exporting.bundle import export as export
from sealbook.journal.exporting.question import Question as Question

__all__ = ["Question", "export"]
