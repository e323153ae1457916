"""Leaf entries to the byte."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from sealbook.merkle.entry import LEAF_ENTRY_BYTES, LeafEntry, LeafType, adopted_leaf
from sealbook.merkle.errors import Malformed

RUN_TAG = bytes(range(32))
HEAD = bytes(range(0x80, 0xA0))
ENTRY = LeafEntry(LeafType.SEAL, RUN_TAG, 0x0102030405060708, HEAD)
ENCODED = bytes.fromhex(
    "7365616c626f6f6b2f6c6561662f763100"  # "sealbook/leaf/v1" and a zero byte
    "01"
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    "0102030405060708"
    "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"
)


def test_an_entry_is_these_ninety_bytes() -> None:
    assert len(ENCODED) == LEAF_ENTRY_BYTES == 90
    assert ENTRY.encode() == ENCODED
    assert LeafEntry.decode(ENCODED) == ENTRY


def test_an_anchor_differs_from_a_seal_in_the_type_byte_alone() -> None:
    anchor = LeafEntry(LeafType.ANCHOR, RUN_TAG, ENTRY.seq, HEAD)
    assert anchor.encode() == ENCODED[:17] + b"\x02" + ENCODED[18:]


def test_an_entry_is_hashed_as_a_leaf() -> None:
    assert ENTRY.hash() == hashlib.sha256(b"\x00" + ENCODED).digest()


@pytest.mark.parametrize("seq", [1, 2**63, 2**64 - 1])
def test_the_first_and_the_last_seq_round_trip(seq: int) -> None:
    entry = LeafEntry(LeafType.ANCHOR, RUN_TAG, seq, HEAD)
    assert LeafEntry.decode(entry.encode()) == entry


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "90 bytes expected, not 0"),
        (ENCODED[:-1], "90 bytes expected, not 89"),
        (ENCODED + b"\0", "90 bytes expected, not 91"),
        (b"sealbook/leaf/v2\0" + ENCODED[17:], "begins with"),
        (b"sealbook/leaf/v1 " + ENCODED[17:], "begins with"),
        (ENCODED[:17] + b"\x00" + ENCODED[18:], "type 0 is unknown"),
        (ENCODED[:17] + b"\x05" + ENCODED[18:], "type 5 is unknown"),
        (ENCODED[:17] + b"\xff" + ENCODED[18:], "type 255 is unknown"),
        (ENCODED[:17] + b"\x03" + ENCODED[18:], "an anchor batch has no head"),
        (ENCODED[:50] + bytes(8) + ENCODED[58:], "seq is 1 to"),
    ],
)
def test_bytes_that_no_entry_has_are_malformed(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        LeafEntry.decode(data)


@pytest.mark.parametrize(
    "values",
    [
        {"type": LeafType.ANCHOR_BATCH},
        {"type": 1},
        {"run_tag": bytes(31)},
        {"run_tag": bytes(33)},
        {"run_tag": "r" * 32},
        {"seq": 0},
        {"seq": -1},
        {"seq": 2**64},
        {"seq": 10**5000},
        {"seq": True},
        {"seq": 1.0},
        {"head": b""},
        {"head": bytes(31)},
        {"head": bytearray(32)},
    ],
)
def test_an_entry_that_has_no_bytes_cannot_be_made(values: dict[str, Any]) -> None:
    members: dict[str, Any] = {"type": LeafType.SEAL, "run_tag": RUN_TAG, "seq": 1, "head": HEAD}
    with pytest.raises(Malformed):
        LeafEntry(**(members | values))


def test_an_anchor_batch_has_a_root_an_arrival_and_no_head() -> None:
    entry = LeafEntry(LeafType.ANCHOR_BATCH, RUN_TAG, ENTRY.seq, bytes(32))
    assert entry.encode() == ENCODED[:17] + b"\x03" + ENCODED[18:58] + bytes(32)
    assert LeafEntry.decode(entry.encode()) == entry


def test_the_leaf_that_adopts_a_log_states_its_origins_hash_its_size_and_its_root() -> None:
    entry = adopted_leaf("example.com/log", ENTRY.seq, HEAD)
    origin = hashlib.sha256(b"example.com/log").digest()
    assert entry.encode() == ENCODED[:17] + b"\x04" + origin + ENCODED[50:]
    assert LeafEntry.decode(entry.encode()) == entry
