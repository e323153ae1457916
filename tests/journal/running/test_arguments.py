"""What a body asks for: keys, digests, and how it is shown."""

from __future__ import annotations

from typing import Any

import pytest
from blake3 import blake3

from sealbook.journal import EffectKey, InvalidInput, Journal, Tenant
from sealbook.journal.running import arguments


def prefixed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def test_an_idempotency_key_is_blake3_over_lineage_tenant_run_and_effect(acme: Tenant, journal: Journal) -> None:
    key = EffectKey("charge", "42")
    lineage = journal.view.setting.identity.lineage_id
    seen: list[Any] = []
    with acme.leased("order-42", owner="w") as run:
        run.effect("charge", lambda: seen.append(run.idempotency_key), key=key)
    message = prefixed(lineage, b"acme", b"order-42", key)
    assert seen == [blake3(message, derive_key_context="sealbook 2026 idempotency key v1").hexdigest()]


def test_an_idempotency_key_is_these_very_digits() -> None:
    found = arguments.idempotency_key(bytes(range(16)), "acme", "order-42", EffectKey("charge", "42"))
    assert found == "18a57c47b1c1e2b34befcd8bf3ebe08fa7fde66854fd72fea766b35a0c7a504e"


def test_no_two_places_share_an_idempotency_key() -> None:
    places = [("ab", "c", "d", b"e"), ("a", "bc", "d", b"e"), ("a", "b", "cd", b"e"), ("a", "b", "c", b"de")]
    keys = {arguments.idempotency_key(lineage.encode(), tenant, run, key) for lineage, tenant, run, key in places}
    assert len(keys) == len(places)


def test_a_positional_key_is_made_of_the_name_and_the_number_of_the_call() -> None:
    assert arguments.key_of_call("charge", 2) == EffectKey("position", "charge", "2")


def test_a_key_is_given_whole_or_by_its_parts() -> None:
    key = EffectKey("charge", "42")
    assert arguments.key_of(key) == arguments.key_of(("charge", "42")) == arguments.key_of(bytes(key)) == key
    assert arguments.key_of("charge") == EffectKey("charge")


@pytest.mark.parametrize("wrong", [b"short", (), ("a", 1), 7, "\ud800", "e\u0301"])
def test_a_key_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        arguments.key_of(wrong)


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("EffectStarted", {"name": "charge", "args": [1, "a"], "kwargs": {"b": None}}, "charge(1, 'a', b=None)"),
        ("EffectStarted", {"name": "charge"}, "charge()"),
        ("EffectStarted", {"name": "charge", "kwargs": {"a": 1}}, "charge(a=1)"),
        (
            "EffectStarted",
            {"name": "charge", "args_digest": b"\xab" * 32, "args_bytes": 5000},
            "charge(5000 bytes of arguments, digest abababababababab…)",
        ),
        ("Note", {"text": "x" * 100}, f"Note(text='{'x' * 59}… (102 characters))"),
        ("ClockRead", {}, "ClockRead()"),
    ],
)
def test_a_step_is_shown_as_a_call(kind: str, data: dict[str, Any], text: str) -> None:
    assert arguments.told(kind, data) == text


def test_arguments_are_alike_by_their_bytes_or_by_their_digest() -> None:
    data = arguments.arguments_data((1, [2, {"b": 1, "a": 2}]), {"key": "value"})
    again = arguments.arguments_data((1, (2, {"a": 2, "b": 1})), {"key": "value"})
    assert arguments.same(data, again)
    assert arguments.same(data, arguments.digested(again))
    other = arguments.arguments_data((1, [2, {"b": 1, "a": 3}]), {"key": "value"})
    assert not arguments.same(other, data)
    assert not arguments.same(other, arguments.digested(data))
