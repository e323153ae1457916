"""A record's body: deterministic CBOR of its members, encoded here and held to its one encoding."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import cbor2

from sealbook.journal.errors import InvalidEntry, Refused, TooLarge
from sealbook.journal.records import cbor
from sealbook.journal.records.entries import EFFECT_KEY_BYTES
from sealbook.journal.records.names import EPOCH_MAX, check_case, check_kind, check_run, check_tenant
from sealbook.journal.records.signatures import SIGNER_BYTES

BODY_BYTES_MAX = 4 * 2**20
SALT_BYTES = 32
LINEAGE_BYTES = 16

MEMBERS = frozenset(
    (
        "v",
        "at",
        "run",
        "seq",
        "case",
        "data",
        "kind",
        "salt",
        "epoch",
        "effect",
        "signer",
        "tenant",
        "attempt",
        "journal",
    )
)
assert len(MEMBERS) < 24  # so that a body's map head is one byte

_MAP_HEADS = [bytes((0xA0 + members,)) for members in range(24)]  # by the number of members
_DATA_KEY = cbor2.dumps("data")


def _bytes_head(name: str, length: int) -> bytes:
    """The key of a member and all of its value but the bytes themselves."""
    return cbor2.dumps(name) + cbor2.dumps(bytes(length))[:-length]


_SALT_HEAD = _bytes_head("salt", SALT_BYTES)
_EFFECT_HEAD = _bytes_head("effect", EFFECT_KEY_BYTES)
_SIGNER_HEAD = _bytes_head("signer", SIGNER_BYTES)
_JOURNAL_HEAD = _bytes_head("journal", LINEAGE_BYTES)


def encode_body(
    *,
    v: int,
    tenant: str,
    run: str,
    seq: int,
    epoch: int,
    at: int,
    kind: str,
    data: bytes,
    case: str | None = None,
    effect: bytes | None = None,
    attempt: int | None = None,
    signer: bytes | None = None,
    journal: bytes | None = None,
    salt: bytes | None = None,
) -> bytes:
    """The body of these members, in canonical order; `data` is encoded already, and members that are None are left out.

    Written out, because it is the dearest step of an append: `TooLarge` when the body is.
    """
    parts = [b"", _member("v", v), _member("at", at), _member("run", run), _member("seq", seq)]
    if case is not None:
        parts.append(_member("case", case))
    parts += (_DATA_KEY, data, _member("kind", kind))
    if salt is not None:
        parts += (_SALT_HEAD, salt)
    parts.append(_member("epoch", epoch))
    if effect is not None:
        parts += (_EFFECT_HEAD, effect)
    if signer is not None:
        parts += (_SIGNER_HEAD, signer)
    parts.append(_member("tenant", tenant))
    if attempt is not None:
        parts.append(_member("attempt", attempt))
    if journal is not None:
        parts += (_JOURNAL_HEAD, journal)
    optional = (case, salt, effect, signer, attempt, journal)
    parts[0] = _MAP_HEADS[len(MEMBERS) - optional.count(None)]
    body = b"".join(parts)
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(len(body), BODY_BYTES_MAX)
    return body


@lru_cache(maxsize=8192, typed=True)
def _member(name: str, value: str | int) -> bytes:
    """A member of a body. Cached: most of them are those of the record before."""
    return cbor2.dumps(name) + cbor2.dumps(value)


def is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_bytes(length: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, bytes) and len(value) == length


_SHAPE: dict[str, tuple[bool, Callable[[Any], bool]]] = {  # member: (always there, what it must be)
    "v": (True, lambda value: is_int(value) and 1 <= value < 2**32),
    "tenant": (True, lambda value: isinstance(value, str)),
    "run": (True, lambda value: isinstance(value, str)),
    "seq": (True, lambda value: is_int(value) and 1 <= value < 2**63),
    "epoch": (True, lambda value: is_int(value) and 0 <= value <= EPOCH_MAX),
    "at": (True, lambda value: is_int(value) and 0 <= value < 2**63),
    "kind": (True, lambda value: isinstance(value, str)),
    "data": (True, lambda value: isinstance(value, dict)),
    "case": (False, lambda value: isinstance(value, str)),
    "effect": (False, _is_bytes(EFFECT_KEY_BYTES)),
    "attempt": (False, lambda value: is_int(value) and 1 <= value < 2**63),
    "signer": (False, _is_bytes(SIGNER_BYTES)),
    "journal": (False, _is_bytes(LINEAGE_BYTES)),
    "salt": (False, _is_bytes(SALT_BYTES)),
}
assert set(_SHAPE) == MEMBERS


def shape_fault(body: dict[Any, Any]) -> str | None:
    """Which member is not what `_SHAPE` says, or None."""
    for name, (always, fits) in _SHAPE.items():
        if name in body:
            if not fits(body[name]):
                return f"the body's {name} is not what it must be"
        elif always:
            return f"the body has no {name}"
    return None


def encoding_fault(body: dict[str, Any], encoded: bytes) -> str | None:
    """Why these bytes are not the one way to write this body, or None (re-encode and compare)."""
    try:
        check_tenant(body["tenant"])
        check_run(body["run"])
        check_kind(body["kind"])
        if "case" in body:
            check_case(body["case"])
        again = encode_body(**{**body, "data": cbor.encode_map(body["data"], "data")[0]})
    except (InvalidEntry, Refused) as error:
        return f"the body holds what no record may hold: {error}"
    return None if again == encoded else "the body is not in its canonical encoding"
