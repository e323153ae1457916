"""Whatever a file holds, both readers say the same of it, and neither crashes, hangs, or goes on for ever."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest
from bundling import CLAIMED, bundle_of, contained, content_of, framed, frames_of, rehashed, said
from tampering import rich_store

from sealbook.cli.auditing.bundles import listing
from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import Codec
from sealbook.journal.bundle.faults import Damaged
from sealbook.journal.bundle.verdict import verify
from sealbook.journal.errors import UnknownVersion, WrongFormat
from sealbook.journal.exporting.question import Question
from sealbook.journal.records.row import decode_row

SEED = 20261129
ROUNDS = 150


@pytest.fixture(scope="module")
def bundles() -> list[bytes]:
    journal = rich_store()
    questions = [Question("store"), Question("span", "beta"), Question("runs", "acme", ("wait", "done/1"))]
    return [bundle_of(journal, question, keys=CLAIMED) for question in questions]


def edited(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """The bytes after a few edits of every sort."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        length = chance.choice((1, 2, 8, 40, 200))
        match chance.randrange(5):
            case 0:
                data = data[:at] + chance.randbytes(length) + data[at + length :]
            case 1:
                data = data[:at] + data[at + length :]
            case 2:
                data = data[:at] + data[at : at + length] + data[at:]
            case 3:
                data = data[:at] + other[at : at + length] + data[at:]
            case _:
                data = data[:at] + chance.randbytes(length) + data[at:]
    return data


def judged(data: bytes) -> None:
    """Both readers agree; and what goes on after a fault, and what lists, ends as it may."""
    first = said(data)
    try:
        verdict = verify(io.BytesIO(data))
    except (WrongFormat, UnknownVersion):
        assert first == ("not judged",)
    else:
        assert verdict.sound == (first[0] == "sound")
        if not verdict.sound:
            assert (verdict.faults[0].where, verdict.faults[0].offset) == first
    try:
        for _ in listing(io.BytesIO(data)):
            pass
    except (Damaged, WrongFormat, UnknownVersion):
        assert first[0] != "sound"


@pytest.mark.parametrize("codec", Codec)
def test_files_that_were_edited_anywhere(bundles: list[bytes], codec: Codec) -> None:
    chance = random.Random(SEED + codec)
    for _ in range(ROUNDS):
        data, other = chance.choice(bundles), chance.choice(bundles)
        judged(edited(contained(content_of(data), codec), contained(content_of(other), codec), chance))


@pytest.mark.slow
def test_content_that_was_edited_under_a_digest_that_holds(bundles: list[bytes]) -> None:
    chance = random.Random(SEED)
    for _ in range(2 * ROUNDS):
        judged(contained(edited(content_of(chance.choice(bundles)), content_of(chance.choice(bundles)), chance)))


@pytest.mark.slow
def test_frames_and_bodies_that_were_edited_under_lengths_and_hashes_that_hold(bundles: list[bytes]) -> None:
    chance = random.Random(SEED)
    for _ in range(3 * ROUNDS):
        parts: list[Any] = list(frames_of(chance.choice(bundles)))
        for _ in range(chance.randint(1, 3)):
            index = chance.randrange(len(parts))
            kind, payload = parts[index][0], parts[index][1]
            if kind == fr.RECORD and isinstance(parts[index], fr.Frame) and chance.random() < 0.7:
                body = decode_row(payload, None, None).body
                parts[index] = rehashed(parts[index], edited(body, body, chance))
            else:
                parts[index] = (kind, edited(payload, payload, chance)[: fr.BYTES_MAX[kind]])
        judged(framed(parts))


def test_bytes_of_no_meaning(bundles: list[bytes]) -> None:
    chance = random.Random(SEED)
    for length in (0, 1, 39, 40, 41, 91, 92, 93, 1000):
        judged(chance.randbytes(length))
        judged(bundles[0][:40] + chance.randbytes(length))
        judged(contained(chance.randbytes(length)))
