"""Leaves of a log of logs, to the byte, and the rules that such a log is held to."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.monitor import Leaf, check_run_rules, decode_leaf, tag_of
from sealbook.merkle.tenant_head import TenantHead

TAG, ROOT = bytes(range(32)), bytes(range(0x80, 0xA0))
HEAD = TenantHead(TAG, 0x0102030405060708, ROOT)
ENCODED = b"sealbook/tenant-head/v1\0" + TAG + bytes(range(1, 9)) + ROOT


def test_a_head_is_these_ninety_six_bytes_and_is_hashed_as_a_leaf() -> None:
    assert len(ENCODED) == 96
    assert HEAD.encode() == ENCODED
    assert TenantHead.decode(ENCODED) == HEAD
    assert HEAD.hash() == hashlib.sha256(b"\0" + ENCODED).digest()


def test_a_leaf_of_either_kind_is_known_by_how_it_begins() -> None:
    entry = LeafEntry(LeafType.ANCHOR, TAG, 1, ROOT)
    assert (decode_leaf(ENCODED), decode_leaf(entry.encode())) == (HEAD, entry)
    assert tag_of(HEAD) == tag_of(entry) == TAG
    assert tag_of(LeafEntry(LeafType.ANCHOR_BATCH, TAG, 1, bytes(32))) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "96 bytes expected, not 0"),
        (ENCODED[:-1], "96 bytes expected, not 95"),
        (ENCODED + b"\0", "96 bytes expected, not 97"),
        (b"sealbook/tenant-head/v2\0" + ENCODED[24:], "begins with"),
        (ENCODED[:56] + bytes(8) + ENCODED[64:], "size is 1 to"),
        (ENCODED[:56] + b"\x80" + bytes(7) + ENCODED[64:], "size is 1 to"),
    ],
)
def test_bytes_that_no_head_has_are_malformed(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        TenantHead.decode(data)


@pytest.mark.parametrize("values", [{"tag": bytes(31)}, {"tag": "t"}, {"size": 0}, {"size": True}, {"root": b""}])
def test_a_head_that_has_no_bytes_cannot_be_made(values: dict[str, Any]) -> None:
    members: dict[str, Any] = {"tag": TAG, "size": 1, "root": ROOT}
    with pytest.raises(Malformed):
        TenantHead(**(members | values))


def test_sizes_strictly_increase_per_tag() -> None:
    other = bytes(32)
    good = [TenantHead(TAG, 1, ROOT), TenantHead(other, 9, ROOT), TenantHead(TAG, 2, ROOT)]
    check_run_rules(good)
    for size in (1, 2):
        with pytest.raises(VerificationError, match=f"leaf 3.*size {size} follows size 2"):
            check_run_rules([*good, TenantHead(TAG, size, ROOT)])


@pytest.mark.parametrize("first", ["a head", "an entry"])
def test_heads_of_tenants_and_entries_of_runs_stand_in_no_one_log(first: str) -> None:
    leaves: list[Leaf] = [HEAD, LeafEntry(LeafType.SEAL, ROOT, 1, ROOT)]
    with pytest.raises(VerificationError, match="leaf 1: heads of tenants and entries of runs"):
        check_run_rules(leaves if first == "a head" else leaves[::-1])
