"""A large record is believed by the same rules as a small one, and takes no more memory than its bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import cbor2
import pytest
from bundling import SECOND
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.journal import Journal, entries
from sealbook.journal.bundle import records
from sealbook.journal.bundle.canonical import spans
from sealbook.journal.bundle.records import Believed, believe, ends_for_good
from sealbook.journal.errors import Corrupt
from sealbook.journal.records.cbor import encode_map
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.record import Record, decode_record
from sealbook.journal.records.row import Row
from sealbook.journal.records.versions import IdentityUpcaster

SEED = 20261129
UPCASTER = IdentityUpcaster()


def row_of(record: Record) -> Row:
    return Row(record.arrival, record.prev, record.hash, record.signature, record.body)


def rehashed(row: Row, body: bytes) -> Row:
    return Row(row.arrival, row.prev, chain_hash(row.prev, body), row.signature, body)


@pytest.fixture
def written() -> list[Record]:
    tenant = Journal.in_memory().tenant("acme")
    odd = {"n": -(2**63), "m": 2**64 - 1, "f": [1.5, -0.0, 0.1, 1e300], "é": {"": b"\0", "x": [None, True]}}
    first = [entries.admitted(source="shop", id="42", case="c"), entries.note("n", data=odd)]
    return [*tenant.append("a", first, epoch=1), *tenant.append("a", [entries.concluded("failed")], epoch=1)]


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every body walked over, as only large ones are."""
    monkeypatch.setattr(records, "BUILT_BYTES_MAX", 0)


def mutations(body: bytes) -> Iterator[bytes]:
    chance = random.Random(SEED)
    for position in range(len(body)):
        yield body[:position] + bytes([chance.randrange(256)]) + body[position + 1 :]
        yield body[:position] + body[position + 1 :]


def judged(row: Row) -> tuple[Any, ...] | None:
    try:
        found = believe(row, "acme", UPCASTER)
    except Corrupt:
        return None
    return (found.run, found.seq, found.epoch, found.final, found.salt, found.lineage, found.signer)


def test_a_body_that_is_walked_over_is_judged_as_one_that_is_decoded(
    written: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    believed = 0
    for record in written:
        for body in (record.body, *mutations(record.body)):
            row = rehashed(row_of(record), body)
            monkeypatch.setattr(records, "BUILT_BYTES_MAX", 65_536)
            decoded = judged(row)
            monkeypatch.setattr(records, "BUILT_BYTES_MAX", 0)
            assert judged(row) == decoded, body
            believed += decoded is not None
    assert believed > len(written)


def test_what_the_store_reads_of_a_large_record_is_what_it_says(written: list[Record], walked: None) -> None:
    for record in written:
        found = believe(row_of(record), "acme", UPCASTER)
        assert found.record is not None
        whole = decode_record(row_of(record), tenant="acme", run="a", seq=record.seq, upcaster=UPCASTER)
        kept = {name: value for name, value in whole.data.items() if name in records.READ_MEMBERS}
        assert found.record.data == kept
        assert found.record._replace(data=whole.data) == whole


def test_a_hash_that_does_not_cover_the_bytes_is_found_before_they_are_parsed(written: list[Record]) -> None:
    row = row_of(written[0])
    with pytest.raises(Corrupt, match="hash does not cover"):
        believe(Row(row.arrival, row.prev, bytes(32), None, b"no cbor"), "acme", UPCASTER)


def test_a_record_of_another_tenant_is_refused(written: list[Record]) -> None:
    with pytest.raises(Corrupt):
        believe(row_of(written[0]), "beta", UPCASTER)


def newer(record: Record, **members: object) -> Row:
    envelope = cbor2.loads(record.body) | {"v": 2} | members
    kept = {name: value for name, value in envelope.items() if value is not None}
    return rehashed(row_of(record), encode_map(kept, "body")[0])


def test_of_a_newer_record_the_place_is_believed_and_no_more(written: list[Record]) -> None:
    found = believe(newer(written[1], kind="no kind of ours", data={"x": 1}), "acme", UPCASTER)
    assert (found.run, found.seq, found.record, found.final) == ("a", 2, None, None)


@pytest.mark.parametrize(
    "members",
    [
        {"run": 7},
        {"run": "a\0"},
        {"seq": 0},
        {"seq": "2"},
        {"epoch": -1},
        {"tenant": "beta"},
        {"salt": bytes(32)},
        {"signer": bytes(32)},
        {"signer": "x"},
        {"data": [1]},
    ],
)
def test_a_newer_record_that_does_not_say_which_it_is_is_damaged(
    written: list[Record], members: dict[str, object]
) -> None:
    with pytest.raises(Corrupt):
        believe(newer(written[1], **members), "acme", UPCASTER)


def test_only_an_outcome_that_is_one_ends_a_run_for_good() -> None:
    outcomes: list[Any] = [None, 7, [], "", "Failed", "x" * 33]
    assert [ends_for_good(outcome) for outcome in ("completed", "anything", "failed", "withheld")] == [1, 1, 0, 0]
    assert not any(map(ends_for_good, outcomes))


# --- the walk ----------------------------------------------------------------------------------------------------


def values() -> st.SearchStrategy[Any]:
    scalars: st.SearchStrategy[Any] = st.none() | st.booleans() | st.text() | st.binary()
    scalars |= st.integers(-(2**63), 2**64 - 1)
    scalars |= st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from(["v", "run", "data", "kind", "x"]), values()))
def test_the_walk_takes_what_the_encoder_writes_and_knows_where_members_stand(body: dict[str, Any]) -> None:
    if "data" in body:
        body["data"] = {"outcome": body["data"]}
    encoded, plain = encode_map(body, "body")
    envelope, data = spans(encoded, {"outcome"})
    assert {name: cbor2.loads(encoded[start:end]) for name, (start, end) in envelope.items()} == plain
    if "data" in body:
        start, end = data["outcome"]
        assert cbor2.loads(encoded[start:end]) == plain["data"]["outcome"]


NOT_CANONICAL = (
    "a1617800ff",  # something follows
    "a161781800",  # 0 in two bytes
    "a161781900ff",
    "a1617818",  # cut off
    "a1617fff",
    "bf616100ff",  # indefinite
    "a261620061610 0".replace(" ", ""),  # out of order
    "a2616100616100",  # twice
    "a1616166",  # text that is cut off
    "a1616161ff",  # no UTF-8
    "a16161c000",  # a tag
    "a16161f7",  # undefined
    "a16161f97e00",  # NaN
    "a16161f97c00",  # infinity
    "a16161fa3fc00000",  # 1.5 in four bytes
    "a16161fb3ff8000000000000",
    "a161613b8000000000000000",  # below -2**63
    "a10000",  # a key that is no text
    "00",
    "",
)


@pytest.mark.parametrize("data", NOT_CANONICAL)
def test_the_walk_refuses_every_other_encoding_as_the_second_reader_does(data: str) -> None:
    body = bytes.fromhex(data)
    with pytest.raises(ValueError, match=r".+"):
        spans(body, ())
    with pytest.raises(SECOND.Bad):  # noqa: PT012  # either step may be the one that refuses
        _, end = SECOND.item(body, 0, -1, lambda name: True)
        SECOND.need(end == len(body) and body[0] >> 5 == 5, "no map")


def test_64_levels_are_taken_and_65_are_not(written: list[Record], walked: None) -> None:
    for levels, taken in ((63, True), (64, False)):  # below the map `data`, which is the first
        body = cbor2.loads(written[2].body)
        inner: Any = 0
        for _ in range(levels):
            inner = [inner]
        row = rehashed(row_of(written[2]), cbor2.dumps(body | {"data": {"outcome": "x", "z": inner}}, canonical=True))
        assert (judged(row) is not None) == taken


def test_a_member_that_is_long_is_kept_as_nothing_that_a_rule_takes(written: list[Record], walked: None) -> None:
    body = cbor2.loads(written[2].body) | {"data": {"outcome": [[]] * 5000}}
    found = believe(rehashed(row_of(written[2]), cbor2.dumps(body, canonical=True)), "acme", UPCASTER)
    assert isinstance(found, Believed) and found.record is not None
    assert found.record.data == {"outcome": []}
