"""What a record's data may hold, and its one encoding."""

from __future__ import annotations

import math
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Any
from uuid import UUID

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.journal import InvalidEntry
from sealbook.journal.records import cbor


def encode(value: Any) -> bytes:
    return cbor.encode_map({"a": value}, "data")[0]


def plain(value: Any) -> Any:
    return cbor.encode_map({"a": value}, "data")[1]["a"]


# Bytes written by hand from RFC 8949, not by our own encoder.
VECTORS: dict[str, tuple[Any, str]] = {
    "null": (None, "f6"),
    "true": (True, "f5"),
    "one": (1, "01"),
    "23": (23, "17"),
    "24": (24, "1818"),
    "least integer": (-(2**63), "3b7fffffffffffffff"),
    "greatest integer": (2**64 - 1, "1bffffffffffffffff"),
    "1.0 is no 1": (1.0, "f93c00"),
    "minus zero": (-0.0, "f98000"),
    "1e-7": (1e-7, "fb3e7ad7f29abcaf48"),
    "0.1 + 0.2": (0.1 + 0.2, "fb3fd3333333333334"),
    "100000.0": (100000.0, "fa47c35000"),
    "text": ("ü", "62c3bc"),
    "bytes": (b"\1", "4101"),
    "array": ([1, [2]], "82018102"),
    "map": ({"b": 1, "a": 2}, "a2616102616201"),
    "shorter keys first": ({"aa": 1, "b": 2}, "a261620262616101"),
    "an instant": (datetime(2026, 1, 1, tzinfo=UTC), "74323032362d30312d30315430303a30303a30305a"),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_value_has_these_very_bytes(name: str) -> None:
    value, digits = VECTORS[name]
    assert encode(value).hex() == "a16161" + digits


def test_keys_sort_by_their_encodings_not_by_utf_16() -> None:
    # UTF-16 would put U+1F600 (a surrogate pair) before U+FB33.
    encoded, copy = cbor.encode_map({"\U0001f600": 1, "\ufb33": 2, "zzzzz": 3, "z": 4}, "data")
    assert list(copy) == ["z", "\ufb33", "\U0001f600", "zzzzz"]
    assert encoded == cbor2.dumps(copy, canonical=True)


def test_1_true_and_1_0_are_three_values() -> None:
    assert len({encode(1), encode(True), encode(1.0)}) == 3
    assert len({encode(0), encode(False), encode(0.0), encode(-0.0)}) == 4


@pytest.mark.parametrize(
    "value", [2**64, -(2**63) - 1, 10**5000, -(10**5000)], ids=["2**64", "-2**63 - 1", "10**5000", "-10**5000"]
)
def test_an_integer_beyond_64_bits_is_refused_and_never_a_float(value: int) -> None:
    with pytest.raises(InvalidEntry, match=r"data\.a: is an integer outside"):
        encode(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_float_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(InvalidEntry, match="only finite numbers"):
        encode([{"deep": value}])


def test_a_naive_datetime_is_refused_and_an_aware_one_is_its_instant() -> None:
    with pytest.raises(InvalidEntry, match="time zone"):
        encode(datetime(2026, 1, 1))
    east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert encode(east) == encode(datetime(2026, 1, 1, tzinfo=UTC)) == encode("2026-01-01T00:00:00Z")


@pytest.mark.parametrize("key", [1, None, b"a", 1.5, ("a",)])
def test_a_map_key_that_is_no_text_is_refused_at_every_level(key: Any) -> None:
    for value in ({key: 1}, [{"b": {key: 1}}]):
        with pytest.raises(InvalidEntry, match="map keys must be text"):
            encode(value)


def test_lone_surrogates_are_refused_in_keys_and_in_values() -> None:
    for value in ("a\udfff", {"\ud800": 1}, ["\ud800"], {"b": {"c": "\ud800"}}):
        with pytest.raises(InvalidEntry, match="lone surrogate"):
            encode(value)


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        frozenset(),
        Decimal("1.5"),
        Fraction(1, 2),
        1j,
        date(2026, 1, 1),
        UUID(int=1),
        object(),
        range(3),
        cbor2.CBORTag(1, 0),
        cbor2.undefined,
        cbor2.CBORSimpleValue(99),
        (item for item in [1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_cbor_data_has_no_place_for_is_refused(value: Any) -> None:
    with pytest.raises(InvalidEntry, match=f"is {type(value).__name__}"):
        encode(value)


def nested(depth: int, leaf: Any = 1) -> Any:
    value: Any = leaf
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_is_at_most_64_levels_of_containers() -> None:
    assert cbor.decode(encode(nested(63))) == {"a": nested(63)}
    for deeper in (nested(64), nested(63, {}), nested(100_000)):
        with pytest.raises(InvalidEntry, match="deeper than 64 levels"):
            encode(deeper)


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidEntry, match="deeper"):
        encode(loop)


def test_what_looks_like_a_map_a_list_or_bytes_is_one() -> None:
    assert plain(OrderedDict(b=1, a=2)) == {"a": 2, "b": 1}
    assert plain(MappingProxyType({"a": 1})) == {"a": 1}
    assert plain((1, 2)) == [1, 2]
    assert plain(bytearray(b"x")) == b"x" == plain(memoryview(b"x"))


def test_the_copy_shares_nothing_with_what_was_handed_in() -> None:
    inner: dict[str, Any] = {"list": [1]}
    copy = plain(inner)
    inner["list"].append(2)
    inner["more"] = 1
    assert copy == {"list": [1]}


json_like: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(derandomize=True, max_examples=300, deadline=None)
@given(json_like)
def test_a_reader_gets_back_what_another_library_wrote_in_canonical_bytes(value: Any) -> None:
    encoded, copy = cbor.encode_map({"a": value}, "data")
    assert encoded == cbor2.dumps({"a": value}, canonical=True)
    read = cbor.decode(encoded)
    assert repr(read) == repr(copy)  # repr tells 1 from 1.0 and True, and 0.0 from -0.0
    assert cbor.encode_map(read, "data")[0] == encoded


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 9), max_size=6), st.randoms())
def test_the_order_in_which_members_were_set_does_not_matter(value: dict[str, int], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert cbor.encode_map(dict(items), "data") == cbor.encode_map(value, "data")


HOSTILE = {
    "nothing": "",
    "half a map": "a2616101",
    "indefinite map": "bf616101ff",
    "indefinite array": "9f01ff",
    "indefinite text": "7f6161ff",
    "duplicate keys": "a2616101616102",
    "invalid UTF-8": "62c328",
    "array of 2**60": "9b1000000000000000",
    "text of 2**63": "7b8000000000000000",
    "break alone": "ff",
    "reserved length": "1c",
    "100,000 arrays": "81" * 100_000 + "01",
    "100,000 maps": "a16161" * 100_000 + "01",
    "100,000 tags": "c1" * 100_000 + "01",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_a_value_error_and_nothing_worse(name: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        cbor.decode(bytes.fromhex(HOSTILE[name]))


def test_bytes_after_the_item_show_when_it_is_encoded_again() -> None:
    data = encode(1) + b"\0"
    assert cbor.encode_map(cbor.decode(data), "data")[0] != data


class Colour(str, Enum):  # noqa: UP042 - a StrEnum prints as its text
    """Text that prints as something else: `str(Colour.RED)` is 'Colour.RED'."""

    RED = "red"
    AMBER = "amber"
    UV = "uv"


def test_a_member_of_an_enumeration_is_kept_as_the_text_that_it_is() -> None:
    kept = plain([Colour.RED, {"x": Colour.AMBER}])
    assert kept == ["red", {"x": "amber"}]
    assert type(kept[0]) is str
    assert type(kept[1]["x"]) is str
    assert encode(Colour.RED) == encode("red")


def test_keys_that_are_members_of_an_enumeration_stand_where_their_text_does() -> None:
    # By what they print as, all three would stand behind "zz", and in another order.
    given = {Colour.RED: 1, Colour.AMBER: 2, Colour.UV: 3, "zz": 4}
    encoded, kept = cbor.encode_map(given, "data")
    assert list(kept) == ["uv", "zz", "red", "amber"]
    assert {type(key) for key in kept} == {str}
    assert encoded == cbor.encode_map({"red": 1, "amber": 2, "uv": 3, "zz": 4}, "data")[0]


class Apart(str):
    """Text that is equal to nothing but itself."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def test_two_keys_with_one_text_are_refused() -> None:
    with pytest.raises(InvalidEntry, match="has the key 'red' twice"):
        plain({Apart("red"): 1, "red": 2})
