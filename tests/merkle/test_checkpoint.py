"""Checkpoint text: one text for one checkpoint, and no other text is read."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed
from sealbook.merkle.hashing import EMPTY_ROOT

ROOT = bytes(range(224, 256))
ROOT_LINE = "4OHi4+Tl5ufo6err7O3u7/Dx8vP09fb3+Pn6+/z9/v8="
TEXT = f"example.com/journal/acme\n5\n{ROOT_LINE}\n"


def test_a_checkpoint_is_these_three_lines() -> None:
    checkpoint = Checkpoint("example.com/journal/acme", 5, ROOT)
    assert checkpoint.text() == TEXT
    assert Checkpoint.parse(TEXT) == checkpoint
    assert Checkpoint.parse(TEXT.encode()) == checkpoint


def test_the_empty_tree_has_its_published_checkpoint() -> None:
    text = "example.com/log/testdata\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"
    assert Checkpoint("example.com/log/testdata", 0, EMPTY_ROOT).text() == text
    assert Checkpoint.parse(text).root == EMPTY_ROOT


def test_checkpoints_of_real_logs_round_trip(shared: Path) -> None:
    signed = json.loads((shared / "vectors/checkpoints/checkpoints.json").read_text("utf-8"))["signed"]
    plain = [case for case in signed if len(case["note"].split("\n\n")[0].split("\n")) == 3]
    assert len(plain) >= 4
    for case in plain:
        text = case["note"].split("\n\n")[0] + "\n"
        checkpoint = Checkpoint.parse(text)
        assert checkpoint.text() == text
        assert checkpoint.origin == case["origin"]


@pytest.mark.parametrize(
    "origin", ["a", "o" * 255, "ü" * 127, "日本/ログ", "go.sum database tree", "sigsum.org/v1/tree/0a+b"]
)
@pytest.mark.parametrize("size", [1, 10, 2**32, 2**63 - 1])
def test_every_checkpoint_that_can_be_made_round_trips(origin: str, size: int) -> None:
    checkpoint = Checkpoint(origin, size, ROOT)
    assert Checkpoint.parse(checkpoint.text()) == checkpoint
    assert Checkpoint.parse(checkpoint.text().encode()) == checkpoint


def lines(origin: str = "example.com/log", size: str = "5", root: str = ROOT_LINE) -> str:
    return f"{origin}\n{size}\n{root}\n"


# Field report PRF 75: each of these was read by some implementation.
MALFORMED: dict[str, str | bytes] = {
    "nothing": "",
    "one line only": "example.com/log\n",
    "two lines": "example.com/log\n5\n",
    "no final newline": lines()[:-1],
    "an extension line": lines() + "extension\n",
    "an extension line without its newline": lines() + "extension",
    "an empty line behind": lines() + "\n",
    "an empty line before": "\n" + lines(),
    "lines ended by CRLF": lines().replace("\n", "\r\n"),
    "a size line ended by CRLF": lines(size="5\r"),
    "lines ended by CR": lines().replace("\n", "\r"),
    "an empty origin": lines(origin=""),
    "an origin with NUL": lines(origin="a\0b"),
    "an origin with a tab": lines(origin="a\tb"),
    "an origin with DEL": lines(origin="a\x7fb"),
    "an origin with a C1 control character": lines(origin="a\x85b"),
    "an origin with a line separator": lines(origin="a\u2028b"),
    "an origin with a paragraph separator": lines(origin="a\u2029b"),
    "an origin of 256 bytes": lines(origin="o" * 256),
    "an origin of 128 characters in 256 bytes": lines(origin="ü" * 128),
    "an origin with a lone surrogate": lines(origin="a\ud800b"),
    "an origin that is not UTF-8": b"a\xffb\n5\n" + ROOT_LINE.encode() + b"\n",
    "no size": lines(size=""),
    "size with a plus": lines(size="+5"),
    "size with a minus": lines(size="-5"),
    "minus zero": lines(size="-0", root=b64encode(EMPTY_ROOT).decode()),
    "size with zeros before": lines(size="007"),
    "zero twice": lines(size="00", root=b64encode(EMPTY_ROOT).decode()),
    "size with a space behind": lines(size="5 "),
    "size with a space before": lines(size=" 5"),
    "size in Arabic digits": lines(size="٥"),
    "size in fullwidth digits": lines(size="５"),
    "size with a superscript": lines(size="5²"),
    "size with an underscore": lines(size="1_0"),
    "size in hexadecimal": lines(size="0x5"),
    "size with a point": lines(size="5.0"),
    "size with an exponent": lines(size="1e3"),
    "size of 2**63": lines(size=str(2**63)),
    "size of 2**64": lines(size=str(2**64)),
    "size of 5,000 digits": lines(size="9" * 5000),
    "size 0 with the root of something": lines(size="0"),
    "no root": lines(root=""),
    "a root that is not base64": lines(root="!" * 44),
    "a root without padding": lines(root=ROOT_LINE[:-1]),
    "a root with more padding": lines(root=ROOT_LINE + "="),
    "a root in the URL alphabet": lines(root=ROOT_LINE.replace("+", "-").replace("/", "_")),
    "a root with bits behind its last byte": lines(root=ROOT_LINE[:-2] + "9="),
    "a root with a space": lines(root=ROOT_LINE[:20] + " " + ROOT_LINE[20:]),
    "a root in hexadecimal": lines(root=ROOT.hex()),
    "a root of 31 bytes": lines(root=b64encode(ROOT[:31]).decode()),
    "a root of 33 bytes": lines(root=b64encode(ROOT + b"\0").decode()),
    "a root with a letter beyond ASCII": lines(root="ä" + ROOT_LINE[1:]),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_text_is_refused(name: str) -> None:
    with pytest.raises(Malformed, match=r"^checkpoint: ") as caught:
        Checkpoint.parse(MALFORMED[name])
    assert str(caught.value).isprintable(), "the error stays on one line"


def test_text_that_differs_in_one_character_is_refused_or_is_another_checkpoint() -> None:
    seed = 20260
    print("seed", seed)
    chance = random.Random(seed)
    checkpoint = Checkpoint.parse(TEXT)
    read = 0
    for _ in range(5_000):
        at = chance.randrange(len(TEXT))
        changed = TEXT[:at] + chance.choice("05+/=AZ \n\r\t\0é") + TEXT[at + chance.randrange(2) :]
        try:
            other = Checkpoint.parse(changed)
        except Malformed:
            continue
        read += 1
        assert other.text() == changed
        assert (other == checkpoint) == (changed == TEXT)
    assert 0 < read < 5_000


@pytest.mark.parametrize(
    "values",
    [
        {"origin": ""},
        {"origin": "a\nb"},
        {"origin": b"example.com/log"},
        {"origin": None},
        {"size": -1},
        {"size": 2**63},
        {"size": 10**5000},
        {"size": True},
        {"size": 5.0},
        {"size": "5"},
        {"size": 0},
        {"root": ROOT[:31]},
        {"root": ROOT + b"\0"},
        {"root": bytearray(ROOT)},
        {"root": ROOT_LINE},
    ],
)
def test_a_checkpoint_that_has_no_text_cannot_be_made(values: dict[str, Any]) -> None:
    members: dict[str, Any] = {"origin": "example.com/log", "size": 5, "root": ROOT}
    with pytest.raises(Malformed):
        Checkpoint(**(members | values))
