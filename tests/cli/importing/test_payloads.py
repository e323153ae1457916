"""What payloads become: values where they are plain JSON, metadata and bytes otherwise."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from sealbook.cli.importing.payloads import decoded


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def payload(data: bytes, encoding: bytes = b"json/plain", **metadata: bytes) -> dict[str, Any]:
    named = {"encoding": encoding, **metadata}
    return {"metadata": {name: b64(value) for name, value in named.items()}, "data": b64(data)}


def read(value: Any) -> Any:
    return decoded(value, ValueError, 2)


def test_plain_json_becomes_its_value_wherever_it_stands() -> None:
    value = {"input": {"payloads": [payload(b'{"a": [1, null]}'), payload(b'"x"')]}, "header": {"k": payload(b"1")}}
    assert read(value) == {"input": [{"a": [1, None]}, "x"], "header": {"k": 1}}


def test_another_encoding_keeps_its_metadata_and_its_bytes() -> None:
    raw = payload(b"\x00\xff", b"binary/plain", key=b"\xfe")
    assert read(raw) == {"metadata": {"encoding": "binary/plain", "key": b"\xfe"}, "data": b"\x00\xff"}


def test_a_null_payload_is_null() -> None:
    assert read({"payloads": [{"metadata": {"encoding": b64(b"binary/null")}}]}) == [None]


def test_json_that_says_more_than_its_encoding_keeps_what_it_says() -> None:
    raw = payload(b"5", type=b"Keyword")
    assert read(raw) == {"metadata": {"encoding": "json/plain", "type": "Keyword"}, "value": 5}


@pytest.mark.parametrize("body", [b"NaN", b"{", b'"\\ud800"', b'{"a":1,"a":2}', b"18446744073709551616", b"[" * 61])
def test_a_body_that_only_claims_to_be_json_is_kept_as_bytes(body: bytes) -> None:
    assert read(payload(body)) == {"metadata": {"encoding": "json/plain"}, "data": body}


def test_json_too_deep_for_the_record_around_it_is_kept_as_bytes() -> None:
    body = b"[" * 50 + b"]" * 50
    assert decoded(payload(body), ValueError, 20) == {"metadata": {"encoding": "json/plain"}, "data": body}
    assert decoded(payload(body), ValueError, 2) != {"metadata": {"encoding": "json/plain"}, "data": body}


def test_both_alphabets_of_base64_are_read_with_and_without_padding() -> None:
    encoding = {"encoding": b64(b"x")}
    assert read({"metadata": encoding, "data": "-_8"})["data"] == read({"metadata": encoding, "data": "+/8="})["data"]


def test_broken_base64_is_refused() -> None:
    with pytest.raises(ValueError, match="a payload is no base64"):
        read({"metadata": {"encoding": "!"}, "data": ""})


def test_what_is_no_payload_stays_as_it_is() -> None:
    value = {"metadata": {"encoding": 5}, "data": "x", "payloads": {}, "list": [{"metadata": "m"}]}
    assert read(value) == value
