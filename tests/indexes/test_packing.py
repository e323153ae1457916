"""Key parts that sort as bytes in the order that they have as values."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.indexes.packing import I64_MAX, I64_MIN, after_prefix, i64, read_i64, read_u64, text, u64

exact = settings(derandomize=True, max_examples=300, deadline=None)
unsigned = st.integers(0, 2**64 - 1)
signed = st.integers(I64_MIN, I64_MAX)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)


@exact
@given(unsigned, unsigned)
def test_unsigned_numbers_sort_as_numbers(a: int, b: int) -> None:
    assert (u64(a) < u64(b)) == (a < b)
    assert read_u64(b"xx" + u64(a), 2) == a


@exact
@given(signed, signed)
def test_signed_numbers_sort_as_numbers_negative_ones_first(a: int, b: int) -> None:
    assert (i64(a) < i64(b)) == (a < b)
    assert read_i64(b"xx" + i64(a), 2) == a


def test_numbers_have_these_very_bytes() -> None:
    assert u64(1) == bytes(7) + b"\1"
    assert i64(0) == b"\x80" + bytes(7)
    assert (i64(-1), i64(I64_MIN), i64(I64_MAX)) == (b"\x7f" + b"\xff" * 7, bytes(8), b"\xff" * 8)


@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_number_that_does_not_fit_is_an_error(number: int) -> None:
    with pytest.raises(struct.error):
        u64(number)


@exact
@given(names, names)
def test_names_sort_as_utf_8_and_none_begins_another_ones_part(a: str, b: str) -> None:
    assert (text(a) < text(b)) == (a.encode() < b.encode())
    assert a == b or not text(b).startswith(text(a))


@exact
@given(st.lists(names, min_size=2, max_size=3), st.lists(names, min_size=2, max_size=3))
def test_two_lists_of_names_are_never_the_same_key(a: list[str], b: list[str]) -> None:
    assert (b"".join(map(text, a)) == b"".join(map(text, b))) == (a == b)


@exact
@given(st.binary(max_size=6), st.binary(max_size=8))
def test_what_follows_a_prefix_is_above_every_key_that_begins_with_it(prefix: bytes, key: bytes) -> None:
    end = after_prefix(prefix)
    if end is None:
        assert prefix.strip(b"\xff") == b""
    else:
        assert prefix + key < end
        assert not end.startswith(prefix)
        assert (prefix <= key < end) == key.startswith(prefix)
