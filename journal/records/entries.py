"""What callers hand to `append`: entries, one constructor per kind that the store acts on.

An entry is a record without its place in the chain. The store adds tenant, run, seq, epoch, time and attempt.

>>> charge = EffectKey("charge", "order-42")
>>> effect_started(charge, name="charge", args={"cents": 1200}).kind
'EffectStarted'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from unicodedata import is_normalized

from blake3 import blake3

from sealbook.journal.errors import InvalidInput

RECOVERIES = ("ask", "retry", "idempotent", "reconcile")
DISPOSITIONS = ("landed", "did-not-happen")
EFFECT_KEY_CONTEXT = "sealbook 2026 effect v1"
EFFECT_KEY_BYTES = 32


def length_prefixed(*parts: bytes) -> bytes:
    """The parts, each after its length as u64be, so that no two lists of parts are the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


class EffectKey(bytes):
    """The name of one side effect within one run: 32 bytes, BLAKE3 over the length-prefixed parts.

    The parts are text, at least one. The same parts give the same key in every process and every attempt.
    """

    __slots__ = ()

    def __new__(cls, *parts: str) -> EffectKey:
        """Raises `InvalidInput` for no parts, or a part that is not text which UTF-8 can carry."""
        if not parts:
            raise InvalidInput("effect key", parts, "needs at least one part")
        for part in parts:
            if not isinstance(part, str):
                raise InvalidInput("effect key part", part, "must be text")
            if not part.isascii() and not is_normalized("NFC", part):
                raise InvalidInput("effect key part", part, "is not NFC: normalise it, or one effect has two keys")
        try:
            encoded = [part.encode() for part in parts]
        except UnicodeEncodeError:
            raise InvalidInput("effect key", parts, "holds a lone surrogate") from None
        hasher = blake3(length_prefixed(*encoded), derive_key_context=EFFECT_KEY_CONTEXT)
        return super().__new__(cls, hasher.digest())

    @classmethod
    def from_hex(cls, digits: str) -> EffectKey:
        """The key whose digest is these 64 hex digits; `InvalidInput` for anything else."""
        try:
            digest = bytes.fromhex(digits) if len(digits) == 2 * EFFECT_KEY_BYTES else b""
        except (ValueError, TypeError):
            digest = b""
        if len(digest) != EFFECT_KEY_BYTES:
            raise InvalidInput("effect key", digits, "must be 64 hex digits")
        return super().__new__(cls, digest)

    def __reduce__(self) -> tuple[Any, ...]:
        return EffectKey.from_hex, (self.hex(),)  # copied and pickled as the digest that it is

    def __repr__(self) -> str:
        return f"EffectKey.from_hex({self.hex()!r})"


@dataclass(frozen=True, slots=True)
class Entry:
    """One record to be: its kind, its data, and what it belongs to.

    `effect` is a 32-byte effect key. `attempt` is the attempt that the caller expects; the store numbers them.
    """

    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)
    case: str | None = None
    effect: bytes | None = None
    attempt: int | None = None


def entry(
    kind: str,
    data: Mapping[str, Any] | None = None,
    *,
    case: str | None = None,
    effect: bytes | None = None,
    attempt: int | None = None,
) -> Entry:
    """An entry of any kind. Kinds that the store does not act on are chained and listed, never interpreted."""
    return Entry(kind, dict(data or {}), case, effect, attempt)


def admitted(
    *,
    source: str | None = None,
    id: str | None = None,
    case: str | None = None,
    parent: str | None = None,
    forked_from: Mapping[str, Any] | None = None,
    pins: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
) -> Entry:
    """The run's first record. `(source, id)` is the admission key: a tenant honours it once."""
    members = {"source": source, "id": id, "parent": parent, "forked_from": forked_from, "pins": pins}
    return Entry("RunAdmitted", _merged(members, data), case)


def effect_started(
    key: bytes,
    *,
    name: str,
    args: Any = None,
    recovery: str | None = None,
    attempt: int | None = None,
    case: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> Entry:
    """The start of an effect, durable before the effect is called.

    `recovery` says what may be done when no end is recorded: `ask` (the default), `retry`, `idempotent`, `reconcile`.
    """
    return Entry("EffectStarted", _merged({"name": name, "args": args, "recovery": recovery}, data), case, key, attempt)


def effect_done(
    key: bytes,
    *,
    result: Any = None,
    attempt: int | None = None,
    case: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> Entry:
    """The end of an effect that happened, with its result."""
    return Entry("EffectDone", _merged({"result": result}, data), case, key, attempt)


def effect_failed(
    key: bytes,
    *,
    error: Any = None,
    attempt: int | None = None,
    case: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> Entry:
    """The end of an effect that is known not to have happened; another attempt may follow."""
    return Entry("EffectFailed", _merged({"error": error}, data), case, key, attempt)


def effect_reconciled(
    key: bytes,
    *,
    disposition: str,
    evidence: Any = None,
    attempt: int | None = None,
    case: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> Entry:
    """What a check of the world found about an effect in doubt: `landed` or `did-not-happen`."""
    return Entry(
        "EffectReconciled", _merged({"disposition": disposition, "evidence": evidence}, data), case, key, attempt
    )


def suspended(
    *,
    until: datetime | str | None = None,
    awaiting: Any = None,
    case: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> Entry:
    """The run waits: until an instant (an aware datetime or RFC 3339 text), for an event, or both."""
    return Entry("RunSuspended", _merged({"until": until, "awaiting": awaiting}, data), case)


def concluded(outcome: str, *, case: str | None = None, data: Mapping[str, Any] | None = None) -> Entry:
    """The run's last record. Every outcome seals save `failed`, `exhausted`, `quarantined` and `withheld`."""
    return Entry("RunConcluded", _merged({"outcome": outcome}, data), case)


def note(text: str | None = None, *, case: str | None = None, data: Mapping[str, Any] | None = None) -> Entry:
    """A remark. It is the one kind that does not end a wait."""
    return Entry("Note", _merged({"text": text}, data), case)


def _merged(members: Mapping[str, Any], data: Mapping[str, Any] | None) -> dict[str, Any]:
    merged = {name: value for name, value in members.items() if value is not None}
    for name, value in (data or {}).items():
        if name in members:
            raise InvalidInput("data member", name, "is given by its own argument")
        merged[name] = value
    return merged
