"""The JSON of records and of data: exact, in ASCII, and taken back as it was."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sealbook.cli.importing import entry_json
from sealbook.cli.records import objects
from sealbook.journal import Ed25519Signer, EffectKey, Journal, entries

CHARGE = EffectKey("order-42", "charge")

RECORD_MEMBERS = [
    *("tenant", "run", "seq", "arrival", "epoch", "at", "kind"),
    *("case", "effect", "attempt", "data", "prev", "hash", "signature"),
]

texts = st.text(alphabet=st.characters(codec="utf-8"))
names = texts | st.sampled_from(["$", "$$", "$bytes", "$$bytes", "$x"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.binary(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(names, below, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(names, values, max_size=4))
def test_data_printed_as_json_is_read_back_as_it_was(data: dict[str, Any]) -> None:
    text = objects.text({"kind": "Note", "data": objects.data(data)})
    assert text.isascii()
    assert text.isprintable()
    assert repr(entry_json.read(text.encode()).data) == repr(data)


def test_a_record_has_exactly_its_members() -> None:
    signer = Ed25519Signer(bytes(32))
    with Journal.in_memory(signer=signer) as journal:
        start = entries.effect_started(CHARGE, name="charge", args={"blob": b"\0\1", "$x": 2**64 - 1}, case="c")
        [record] = journal.tenant("acme").append("r", [start], epoch=1)
    shown = json.loads(objects.text(objects.record(record)))
    assert list(shown) == RECORD_MEMBERS
    assert shown["tenant"] == "acme"
    assert shown["effect"] == CHARGE.hex()
    assert shown["attempt"] == 1
    assert shown["data"]["args"] == {"blob": {"$bytes": "AAE="}, "$$x": 2**64 - 1}
    assert shown["prev"] == "00" * 32
    assert shown["hash"] == record.hash.hex()
    assert set(shown["signature"]) == {"signer", "value"}
    assert len(bytes.fromhex(shown["signature"]["value"])) == 64


def test_an_unsigned_record_has_null_for_its_signature() -> None:
    with Journal.in_memory() as journal:
        [record] = journal.tenant().append("r", [entries.note("x")], epoch=1)
    shown = objects.record(record)
    assert (shown["signature"], shown["case"], shown["effect"], shown["attempt"]) == (None, None, None, None)
