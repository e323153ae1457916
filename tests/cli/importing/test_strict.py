"""JSON of other people's is read strictly, and every refusal names the file."""

from __future__ import annotations

import hashlib

import pytest

from sealbook.cli.importing import strict
from sealbook.cli.importing.strict import DamagedDocument
from sealbook.journal.errors import InvalidInput


def test_a_byte_order_mark_is_passed_over() -> None:
    assert strict.loads(b'\xef\xbb\xbf{"a": 1}', "f.json") == {"a": 1}


def test_integers_of_64_bits_and_floats_are_kept_as_they_are() -> None:
    text = f"[{2**64 - 1}, {-(2**63)}, 2.0, 1e-7, -0.0]"
    assert repr(strict.loads(text.encode(), "f.json")) == f"[{2**64 - 1}, {-(2**63)}, 2.0, 1e-07, -0.0]"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "is not JSON: Expecting value at line 1 column 1"),
        (b'{"events": [', "is not JSON: Expecting value at line 1 column 13"),
        (b"{} {}", "is not JSON: Extra data at line 1 column 4"),
        (b'{"a": 1, "b": 2, "a": 3}', "an object has the member 'a' twice"),
        (b"[NaN]", "holds NaN, which is not JSON"),
        (b"[-Infinity]", "holds -Infinity, which is not JSON"),
        (b"[1e999]", "holds a number beyond every float (1e999)"),
        (b"[18446744073709551616]", "holds an integer outside -2**63 to 2**64 - 1 (18446744073709551616)"),
        (b"[-9223372036854775809]", "holds an integer outside -2**63 to 2**64 - 1 (-9223372036854775809)"),
        (b"[" + b"9" * 10_000 + b"]", f"holds an integer outside -2**63 to 2**64 - 1 ({'9' * 24})"),
        (b'["\xff"]', "byte 2 is no UTF-8"),
        (b"[" * 61 + b"]" * 61, "is nested deeper than 60 levels"),
        (b'{"a":' * 100_000, "is nested deeper than 60 levels"),
    ],
)
def test_a_text_that_is_not_strict_json_is_refused_with_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(DamagedDocument) as refusal:
        strict.loads(text, "runs/f.json")
    assert str(refusal.value) == f"runs/f.json: {reason}"
    assert isinstance(refusal.value, InvalidInput)


def test_sixty_levels_are_read() -> None:
    value = strict.loads(b"[" * 60 + b"]" * 60, "f.json")
    assert strict.depth(value) == 60


def test_a_lone_surrogate_is_refused_when_the_digest_is_taken() -> None:
    value = strict.loads(b'["\\ud800"]', "f.json")
    with pytest.raises(DamagedDocument, match=r"f\.json: holds a lone surrogate"):
        strict.digest(value, "f.json")


def test_the_digest_is_that_of_sorted_members_without_spaces_in_utf_8() -> None:
    value = strict.loads(b'{ "b": [1, 2.0], "a": "\\u00e9" }', "f.json")
    assert strict.digest(value, "f.json") == hashlib.sha256('{"a":"é","b":[1,2.0]}'.encode()).hexdigest()


def test_a_refusal_is_one_line_even_when_the_file_has_a_line_break_in_its_name() -> None:
    assert str(strict.damaged("a\nb.json", "is empty", "event 3")) == "'a\\nb.json': event 3: is empty"
