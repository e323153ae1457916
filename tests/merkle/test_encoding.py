"""Numbers, bytes and text as the formats write them: one text for one value."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.merkle.encoding import base64_text, check_lines, parse_base64, parse_decimal, parse_hash, parse_utf8
from sealbook.merkle.errors import Malformed
from sealbook.merkle.hashing import SIZE_MAX


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.integers(0, SIZE_MAX), st.binary(max_size=40))
def test_what_is_written_is_read(number: int, data: bytes) -> None:
    assert parse_decimal("number", str(number)) == number
    assert parse_base64("data", base64_text(data)) == data


NUMBERS = [
    "",
    "+3",
    "-1",
    "03",
    "00",
    " 3",
    "3 ",
    "3\n",
    "1_0",
    "1.0",
    "1e3",
    "0x1",
    "٣",
    "³",
    str(2**63),
    "9" * 19,
    "9" * 5000,
]


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_that_is_not_plain_decimal_up_to_2_to_the_63_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="number is a plain decimal number"):
        parse_decimal("number", text)


def test_the_ends_of_the_range_are_numbers() -> None:
    assert (parse_decimal("number", "0"), parse_decimal("number", str(SIZE_MAX))) == (0, SIZE_MAX)


TEXTS = [
    "YQ",
    "YQ=",
    "YR==",
    "YQ==\n",
    " YQ==",
    "Y Q==",
    "YQ==YQ==",
    "-_8=",
    "=",
    "====",
    "YQ=\N{EQUALS SIGN}\u200b",
    "é",
]


@pytest.mark.parametrize("text", TEXTS)
def test_base64_that_is_not_canonical_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="base64"):
        parse_base64("data", text)


def test_every_other_character_in_the_place_of_the_last_one_is_refused() -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for data, stray_bits in ((b"a", 4), (b"ab", 2)):
        text = base64_text(data)
        at = text.index("=") - 1
        read = []
        for character in alphabet:
            try:
                parse_base64("data", text[:at] + character + text[at + 1 :])
                read.append(character)
            except Malformed:
                pass
        assert read == list(alphabet[:: 2**stray_bits])


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_hash_has_32_bytes(length: int) -> None:
    assert parse_hash("hash", base64_text(bytes(32))) == bytes(32)
    with pytest.raises(Malformed, match=f"hash has {length} bytes"):
        parse_hash("hash", base64_text(bytes(length)))


def test_text_is_utf_8_without_control_characters() -> None:
    assert parse_utf8("text", "é—\n".encode()) == "é—\n"
    for data in (b"\xff", b"\xc0\x8a", b"\xed\xa0\x80", b"\xe2\x80"):
        with pytest.raises(Malformed, match="text is not UTF-8"):
            parse_utf8("text", data)
    check_lines("text", "a\n\nb\x7f\u0085")
    for number in set(range(0x20)) - {0x0A}:
        with pytest.raises(Malformed, match=r"control character .* at character 1"):
            check_lines("text", f"a{chr(number)}")
