"""Standings and facts to begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sealbook.indexes.standing import Facts, Standing, advance


def facts(seq: int, kind: str = "Note", **members: Any) -> Facts:
    """Facts of a record whose arrival is ten times its seq."""
    whole = {"arrival": seq * 10, "epoch": 1, "at": 1000 + seq, "hash": bytes([seq % 256]) * 32, **members}
    return Facts(seq=seq, kind=kind, **whole)


@pytest.fixture
def fold() -> Callable[..., Standing]:
    """The standing after records of these kinds (or kinds with members)."""

    def of(*records: str | tuple[str, dict[str, Any]]) -> Standing:
        standing: Standing | None = None
        for seq, record in enumerate(records, 1):
            kind, members = (record, {}) if isinstance(record, str) else record
            made = facts(seq, kind, **members)
            standing = advance(standing, made, tenant="acme", run="r", run_tag=b"t" * 32)
        assert standing is not None
        return standing

    return of
