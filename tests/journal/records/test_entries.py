"""What callers hand to `append`: entries and effect keys."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from blake3 import blake3

from sealbook.journal import EffectKey, Entry, InvalidEntry, InvalidInput, InvalidName, TooLarge, entries
from sealbook.journal.deciding.requests import append as request_append
from sealbook.journal.deciding.requests import prepare

KEY = EffectKey("charge", "order-42")


def test_an_effect_key_is_blake3_over_its_length_prefixed_parts() -> None:
    message = (6).to_bytes(8, "big") + b"charge" + (8).to_bytes(8, "big") + b"order-42"
    assert blake3(message, derive_key_context="sealbook 2026 effect v1").digest() == KEY
    assert KEY.hex() == "ea6207104d3a29de76c68e21b2606462dc0d43203dc695aef38c89b7d22f2cc8"


def test_an_effect_key_tells_its_parts_apart() -> None:
    keys = {EffectKey("a", "bc"), EffectKey("ab", "c"), EffectKey("abc"), EffectKey("a", "bc", ""), EffectKey("")}
    assert len(keys) == 5
    assert EffectKey("a", "bc") == EffectKey("a", "bc")


def test_an_effect_key_is_no_hash_of_another_domain() -> None:
    message = (6).to_bytes(8, "big") + b"charge" + (8).to_bytes(8, "big") + b"order-42"
    others = ("sealbook 2026 record v1", "sealbook 2026 run tag v1")
    assert blake3(message).digest() != KEY
    assert all(blake3(message, derive_key_context=context).digest() != KEY for context in others)


@pytest.mark.parametrize("parts", [(), (1,), (b"a",), (None,), ("a\ud800",), ("a", 2)])
def test_an_effect_key_needs_text_that_utf_8_carries(parts: Any) -> None:
    with pytest.raises(InvalidInput, match="effect key"):
        EffectKey(*parts)


def test_an_effect_key_comes_back_from_its_hex() -> None:
    assert EffectKey.from_hex(KEY.hex()) == KEY
    assert eval(repr(KEY)) == KEY
    assert pickle.loads(pickle.dumps(KEY)) == KEY
    for digits in ("", "00", "zz" * 32, KEY.hex() + "00", " " + KEY.hex()[1:], "é" * 64, 5):
        with pytest.raises(InvalidInput, match="64 hex digits"):
            EffectKey.from_hex(digits)  # type: ignore[arg-type]


def test_constructors_leave_out_what_was_not_given() -> None:
    assert entries.admitted() == Entry("RunAdmitted", {})
    assert entries.note() == Entry("Note", {})
    assert entries.suspended() == Entry("RunSuspended", {})
    assert entries.effect_done(KEY) == Entry("EffectDone", {}, None, KEY)


def test_constructors_name_the_members_that_the_store_reads() -> None:
    assert entries.admitted(source="s", id="1", case="c", parent="p", pins={"tool": "1"}).data == {
        "source": "s",
        "id": "1",
        "parent": "p",
        "pins": {"tool": "1"},
    }
    assert entries.effect_started(KEY, name="n", recovery="retry", args=[1], attempt=2) == Entry(
        "EffectStarted", {"name": "n", "args": [1], "recovery": "retry"}, None, KEY, 2
    )
    assert entries.effect_reconciled(KEY, disposition="landed").data == {"disposition": "landed"}
    assert entries.concluded("done", data={"more": 1}).data == {"outcome": "done", "more": 1}


def test_data_may_not_give_a_member_twice() -> None:
    with pytest.raises(InvalidInput, match="by its own argument"):
        entries.concluded("done", data={"outcome": "failed"})


def test_an_entry_is_encoded_when_it_is_handed_in() -> None:
    data: dict[str, Any] = {"list": [1]}
    prepared = prepare(entries.entry("Thing", data))
    data["list"].append(2)
    data["more"] = 1
    assert prepared.plain == {"list": [1]}


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "no entry": ({"kind": "Note"}, InvalidEntry, "is dict"),
    "kind": (Entry("note"), InvalidName, "kind"),
    "case": (Entry("Note", {}, "a\0"), InvalidName, "case"),
    "case of another type": (Entry("Note", {}, 5), InvalidName, "case"),  # type: ignore[arg-type]
    "data": (Entry("Note", [1]), InvalidEntry, "must be a map"),  # type: ignore[arg-type]
    "start without a key": (Entry("EffectStarted", {}), InvalidEntry, "needs an effect key"),
    "done without a key": (Entry("EffectDone", {}), InvalidEntry, "needs an effect key"),
    "failed without a key": (Entry("EffectFailed", {}), InvalidEntry, "needs an effect key"),
    "reconciled without a key": (Entry("EffectReconciled", {}), InvalidEntry, "needs an effect key"),
    "short key": (Entry("EffectStarted", {}, None, b"short"), InvalidEntry, "32 bytes"),
    "key as hex": (Entry("EffectStarted", {}, None, "00" * 32), InvalidEntry, "32 bytes"),  # type: ignore[arg-type]
    "key of a note": (Entry("Note", {}, None, b"short"), InvalidEntry, "32 bytes"),
    "attempt 0": (Entry("EffectStarted", {}, None, KEY, 0), InvalidEntry, "attempt"),
    "attempt True": (Entry("EffectStarted", {}, None, KEY, True), InvalidEntry, "attempt"),
    "attempt 2**63": (Entry("EffectStarted", {}, None, KEY, 2**63), InvalidEntry, "attempt"),
    "attempt of nothing": (Entry("Note", {}, None, None, 1), InvalidEntry, "needs an effect"),
    "recovery": (entries.effect_started(KEY, name="n", recovery="maybe"), InvalidEntry, "recovery"),
    "recovery of another type": (Entry("EffectStarted", {"recovery": [1]}, None, KEY), InvalidEntry, "recovery"),
    "recovery null": (Entry("EffectStarted", {"recovery": None}, None, KEY), InvalidEntry, "recovery"),
    "disposition": (entries.effect_reconciled(KEY, disposition="maybe"), InvalidEntry, "disposition"),
    "no disposition": (Entry("EffectReconciled", {}, None, KEY), InvalidEntry, "disposition"),
    "no outcome": (Entry("RunConcluded", {}), InvalidEntry, "outcome"),
    "outcome": (entries.concluded("Not An Outcome"), InvalidEntry, "outcome"),
    "outcome of another type": (Entry("RunConcluded", {"outcome": 1}), InvalidEntry, "outcome"),
    "until": (entries.suspended(until="tomorrow"), InvalidEntry, "until"),
    "until of another type": (Entry("RunSuspended", {"until": 5}), InvalidEntry, "until"),
    "naive until": (entries.suspended(until=datetime(2026, 1, 1)), InvalidEntry, "time zone"),
    "source without id": (entries.admitted(source="s"), InvalidEntry, "both"),
    "id without source": (entries.admitted(id="1"), InvalidEntry, "both"),
    "empty source": (entries.admitted(source="", id=""), InvalidName, "admission source"),
    "source of another type": (Entry("RunAdmitted", {"source": 1, "id": 2}), InvalidName, "admission source"),
    "long id": (entries.admitted(source="s", id="x" * 257), InvalidName, "257 bytes"),
    "too large": (entries.note("x" * (4 * 2**20)), TooLarge, "the limit is 4194304"),
}


@pytest.mark.parametrize("why", BAD)
def test_an_entry_that_cannot_become_a_record_is_refused_by_name(why: str) -> None:
    entry, kind, text = BAD[why]
    with pytest.raises(kind, match=text):
        prepare(entry)


def test_a_refusal_names_the_entry_by_its_place_in_the_batch() -> None:
    with pytest.raises(InvalidEntry, match=r"^entry 1 data\.text: "):
        request_append("r", [entries.note("fine"), Entry("Note", {"text": 1j})], epoch=1)


def test_one_entry_is_no_list_of_entries() -> None:
    with pytest.raises(InvalidInput, match="must be a list"):
        request_append("r", entries.note(), epoch=1)  # type: ignore[arg-type]


def test_members_that_the_store_does_not_read_are_free() -> None:
    """Behaviour P14 as D23 has it: the envelope is strict, data is type-checked only where the store reads it."""
    free = {"outcome": 5, "until": "tomorrow", "recovery": 1, "source": None, "anything": [1, {"x": None}]}
    assert prepare(Entry("Custom", free)).plain["until"] == "tomorrow"
    assert prepare(entries.note("x", data={"outcome": 3})).outcome is None
    concluded = prepare(entries.concluded("done", data={"until": 7}))
    assert (concluded.outcome, concluded.until) == ("done", None)


def test_an_aware_until_is_kept_to_the_microsecond() -> None:
    instant = datetime(2100, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    prepared = prepare(entries.suspended(until=instant))
    assert prepared.until == 4_102_444_800_000_001
    assert prepared.plain == {"until": "2100-01-01T00:00:00.000001Z"}


def test_an_attempt_may_be_any_number_that_a_body_holds() -> None:
    assert prepare(entries.effect_done(KEY, attempt=2**63 - 1)).attempt == 2**63 - 1


def test_an_effect_key_may_stand_on_any_kind_and_moves_nothing_there() -> None:
    assert prepare(Entry("Note", {}, None, KEY, 3)).effect == KEY


def test_a_part_that_is_not_nfc_is_refused_because_one_effect_would_have_two_keys() -> None:
    assert EffectKey("é")
    with pytest.raises(InvalidInput, match="NFC"):
        EffectKey("e\u0301")
