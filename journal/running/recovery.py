"""What becomes of an effect that was started and whose end is not recorded: the recoveries that a caller may declare.

| recovery | when an attempt is found without its end |
|---|---|
| `"ask"` | `InDoubt`, and nothing is called: a human decides |
| `"retry"` | another attempt |
| `"idempotent"` | another attempt, under the same idempotency key |
| `reconcile(check)` | `check` looks at the world and answers `Landed(result)`, `DidNotHappen()` or `InDoubt` |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sealbook.journal.errors import InvalidInput

WITHOUT_CHECK = ("ask", "retry", "idempotent")


@dataclass(frozen=True, slots=True)
class Landed:
    """The answer of a check: the effect did happen, with this result."""

    result: Any = None
    evidence: Any = None


@dataclass(frozen=True, slots=True)
class DidNotHappen:
    """The answer of a check: the effect did not happen, so it may be attempted again."""

    evidence: Any = None


@dataclass(frozen=True, slots=True)
class Reconcile:
    """The recovery that asks the world. `check` is called with the effect's own arguments."""

    check: Callable[..., Any]


def reconcile(check: Callable[..., Any]) -> Reconcile:
    """A recovery: have `check`, called as the effect's function would be, find out whether the effect happened.

    It answers `Landed(result)`, `DidNotHappen()`, or the class `InDoubt` when it cannot tell; whatever it raises leaves
    the effect in doubt too.
    """
    if not callable(check):
        raise InvalidInput("check", check, "must be a function that looks whether the effect happened")
    return Reconcile(check)


Recovery = str | Reconcile


def name_of(recovery: Recovery) -> str:
    """The recovery's name as the effect's start records it; `InvalidInput` for anything that is none."""
    if isinstance(recovery, Reconcile):
        return "reconcile"
    if not isinstance(recovery, str) or recovery not in WITHOUT_CHECK:
        raise InvalidInput("recovery", recovery, f"must be one of {', '.join(WITHOUT_CHECK)}, or reconcile(check)")
    return recovery
