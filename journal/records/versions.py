"""Kinds that changed: how a record of an older version of its kind is lifted to the version that the host reads."""

from __future__ import annotations

from typing import Any, Protocol


class Upcaster(Protocol):
    """Lifts the data of older record versions when they are read. Bytes and hashes never change."""

    def current_version(self, kind: str) -> int:
        """The version that this build writes for records of this kind."""
        ...

    def upcast(self, kind: str, version: int, data: dict[str, Any]) -> dict[str, Any] | None:
        """The data as the current version has it; None when the version cannot be reached from here."""
        ...


class IdentityUpcaster:
    """The default: every kind is at version 1 and nothing is lifted."""

    def current_version(self, kind: str) -> int:
        """Always 1."""
        return 1

    def upcast(self, kind: str, version: int, data: dict[str, Any]) -> dict[str, Any] | None:
        """Never reaches another version."""
        return None
