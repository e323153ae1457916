"""Long values are elided with their length and digest, and nothing else changes."""

from __future__ import annotations

from typing import Any

import cbor2
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from sealbook.cli.records import elision, objects

LIMIT = elision.VALUE_BYTES_MAX

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=9) | st.binary(max_size=9),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3) | st.sampled_from(["$elided", "$bytes"]), values, max_size=4))
def test_short_values_are_as_they_are(data: dict[str, Any]) -> None:
    assert elision.data(data) == objects.data(data)


def test_the_limit_is_one_of_bytes_and_what_is_over_it_tells_its_length_and_digest() -> None:
    fits, long = "é" * (LIMIT // 2), "é" * (LIMIT // 2) + "x"
    mark = {
        "type": "text",
        "bytes": LIMIT + 1,
        "blake3": blake3(long.encode()).hexdigest(),
        "begins": "é" * elision.BEGINNING,
    }
    assert elision.data({"a": fits, "b": long}) == {"a": fits, "b": {"$elided": mark}}
    binary = bytes(LIMIT + 1)
    assert elision.data([bytes(LIMIT)]) == objects.data([bytes(LIMIT)])
    assert elision.data([binary]) == [
        {"$elided": {"type": "bytes", "bytes": LIMIT + 1, "blake3": blake3(binary).hexdigest()}}
    ]


def test_arrays_and_maps_that_are_long_as_a_whole_are_elided_too() -> None:
    array, table = ["x" * 100] * 1000, {f"{number:05d}": "x" * 100 for number in range(1000)}
    shown = elision.data({"array": array, "table": table, "short": [1]})
    for name, value, kind in (("array", array, "array"), ("table", table, "map")):
        encoded = cbor2.dumps(value, canonical=True)
        assert shown[name] == {"$elided": {"type": kind, "bytes": len(encoded), "blake3": blake3(encoded).hexdigest()}}
    assert shown["short"] == [1]


def test_no_member_of_data_can_pretend_to_be_elided() -> None:
    assert elision.data({"$elided": {"type": "text"}}) == {"$$elided": {"type": "text"}}
