"""What a body asks for, in a form that can be recorded, compared with a record, and shown to people.

Arguments stand in the start of their effect. Where that would be longer than `ARGUMENT_BYTES_MAX`, their digest and
their length stand there instead: BLAKE3 in derive-key mode over their deterministic CBOR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from blake3 import blake3

from sealbook.journal.errors import InvalidEntry, InvalidInput, shown
from sealbook.journal.records import cbor
from sealbook.journal.records.entries import EFFECT_KEY_BYTES, EffectKey, length_prefixed

ARGUMENT_BYTES_MAX = 4096  # what a reader of the run wants to see on a page, and a replay to compare at once
NAME_BYTES_MAX = 256
ARGUMENTS_CONTEXT = "sealbook 2026 effect arguments v1"
IDEMPOTENCY_CONTEXT = "sealbook 2026 idempotency key v1"
POSITION = "position"  # the first part of the key of an effect that its place names

STEP = "body_step"  # the member that marks a record as a step of the run's body: its number, 0 for one without a place
CALL = "body_call"  # the member of a positional effect's start: which call of that name it is, from 1
OWN_MEMBERS = frozenset({STEP, CALL})

Key = bytes | str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskedStep:
    """One step as the body asks for it: a kind, an effect's name, and the data without the marks of its place."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    name: str | None = None
    key: bytes | None = None

    def __str__(self) -> str:
        return told(self.kind, self.data | ({} if self.name is None else {"name": self.name}))


def key_of(key: Key) -> bytes:
    """The effect key that a caller means: an `EffectKey`, or the parts of one."""
    if isinstance(key, bytes):
        if len(key) != EFFECT_KEY_BYTES:
            raise InvalidInput("effect key", key, f"must be an EffectKey ({EFFECT_KEY_BYTES} bytes) or its parts")
        return bytes(key)
    if isinstance(key, list | tuple):
        return EffectKey(*key)
    return EffectKey(key)


def key_of_call(name: str, number: int) -> bytes:
    """The key of the effect that is the run's nth call of this name."""
    return EffectKey(POSITION, name, str(number))


def check_name(name: object) -> str:
    """The name of an effect: text that is not empty, at most 256 bytes."""
    if not isinstance(name, str) or not name:
        raise InvalidInput("effect name", name, "must be text that is not empty")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidInput("effect name", name, "holds a lone surrogate") from None
    if size > NAME_BYTES_MAX:
        raise InvalidInput("effect name", name, f"is {size} bytes of UTF-8, the limit is {NAME_BYTES_MAX}")
    return name


def check_own(data: Mapping[str, Any] | None) -> dict[str, Any]:
    """A caller's own members, which may not be those that mark a step."""
    found = dict(data or {})
    for member in OWN_MEMBERS & found.keys():
        raise InvalidInput("data member", member, "is given by the run itself")
    return found


def arguments_data(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """An effect's arguments as its start records them, in full."""
    data: dict[str, Any] = {}
    if args:
        data["args"] = list(args)
    if kwargs:
        data["kwargs"] = dict(kwargs)
    return data


@contextmanager
def recorded_of(name: str) -> Iterator[None]:
    """Let an argument that no record can hold be told with its effect, and with the way round (`InvalidEntry`)."""
    try:
        yield
    except InvalidEntry as error:
        member = error.where.partition(".")[2] or error.where
        reason = f"{error.reason}; bind what need not be recorded with functools.partial"
        raise InvalidEntry(f"effect {shown(name)} {member}", reason) from error


def digested(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same arguments as their digest and their length in bytes."""
    encoded = encode(data)
    return {"args_digest": _digest(encoded), "args_bytes": len(encoded)}


def encode(data: Mapping[str, Any]) -> bytes:
    """The deterministic CBOR by which two sets of members are compared: 1 is not true, and 1.0 is neither."""
    return cbor.encode_map(data, "arguments")[0]


def same(asked: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    """Whether the asked data is the recorded data, both without the marks of their place."""
    digest = recorded.get("args_digest")
    encoded = encode(asked)
    return _digest(encoded) == digest if digest is not None else encoded == encode(recorded)


def told(kind: str, data: Mapping[str, Any]) -> str:
    """A step as people read it: `charge(1200, currency='EUR')`, `Note(text='packed')`."""
    if kind != "EffectStarted":
        return f"{kind}({_members(data)})"
    if (digest := data.get("args_digest")) is not None:
        inside = f"{data.get('args_bytes')} bytes of arguments, digest {bytes(digest).hex()[:16]}…"
    else:
        args, kwargs = data.get("args") or [], data.get("kwargs") or {}
        inside = ", ".join([*(shown(value) for value in args), *([_members(kwargs)] if kwargs else [])])
    return f"{data.get('name')}({inside})"


def idempotency_key(lineage: bytes, tenant: str, run: str, effect: bytes) -> str:
    """64 hex digits that name this effect of this run to the world: the same in every attempt and after a restore."""
    message = length_prefixed(lineage, tenant.encode(), run.encode(), effect)
    return blake3(message, derive_key_context=IDEMPOTENCY_CONTEXT).hexdigest()


def _members(members: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in sorted(members.items()))


def _digest(encoded: bytes) -> bytes:
    return blake3(encoded, derive_key_context=ARGUMENTS_CONTEXT).digest()
