"""One record: its body, its hash, its signature, its row; and how each of them is refused when it is not whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.journal import Corrupt, Ed25519Signer, IdentityUpcaster, Journal, Record, UnknownVersion, entries
from sealbook.journal.records.chain import chain_hash, run_tag
from sealbook.journal.records.record import decode_record
from sealbook.journal.records.row import Row, decode_row, encode_row
from sealbook.journal.records.signatures import signer_id
from sealbook.journal.testing import ManualClock, SwitchableUpcaster

SALT = bytes(range(32))
LINEAGE = bytes(range(16))
KEY = bytes(reversed(range(32)))


def body_of(**members: Any) -> dict[str, Any]:
    """A first record's body, with these members changed; None leaves one out."""
    whole = {
        "v": 1,
        "tenant": "acme",
        "run": "r",
        "seq": 1,
        "epoch": 1,
        "at": 1_800_000_000_000,
        "kind": "Note",
        "data": {"text": "x"},
        "journal": LINEAGE,
        "salt": SALT,
        **members,
    }
    return {name: value for name, value in whole.items() if value is not None}


def row_of(body: bytes, prev: bytes = bytes(32), signature: bytes | None = None) -> Row:
    """The row of these bytes, hashed as the store would."""
    return Row(1, prev, chain_hash(prev, body), signature, body)


def read(body: bytes | dict[str, Any], *, strict: bool = True, upcaster: Any = None, **place: Any) -> Record:
    encoded = body if isinstance(body, bytes) else cbor2.dumps(body, canonical=True)
    at = {"tenant": "acme", "run": "r", "seq": 1, **place}
    return decode_record(row_of(encoded), strict=strict, upcaster=upcaster or IdentityUpcaster(), **at)


# --- fixed bytes, computed without our own code ---------------------------------------------------------------------


def test_a_body_a_hash_and_a_row_are_these_very_bytes() -> None:
    journal = Journal.in_memory(clock=ManualClock(wall_ms=1_800_000_000_123), signer=Ed25519Signer(bytes(32)))
    acme = journal.tenant("acme")
    key = entries.EffectKey("charge", "42")
    first, second = acme.append(
        "order-42",
        [
            entries.admitted(source="shop", id="42", case="case-7"),
            entries.effect_started(key, name="charge", args={"cents": 1200}),
        ],
        epoch=1,
    )
    public = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()
    signer = hashlib.sha256(b"\x01" + public).digest()
    expected = {
        "v": 1,
        "tenant": "acme",
        "run": "order-42",
        "seq": 2,
        "epoch": 1,
        "at": 1_800_000_000_123,
        "kind": "EffectStarted",
        "effect": bytes(key),
        "attempt": 1,
        "signer": signer,
        "data": {"name": "charge", "args": {"cents": 1200}},
    }
    assert second.body == cbor2.dumps(expected, canonical=True)
    hasher = blake3(derive_key_context="sealbook 2026 record v1")
    hasher.update(first.hash)
    hasher.update(second.body)
    assert second.hash == hasher.digest()
    assert second.prev == first.hash
    message = b"sealbook/record/v1\0" + second.hash
    assert second.signature == Ed25519PrivateKey.from_private_bytes(bytes(32)).sign(message)
    row = encode_row(Row(second.arrival, second.prev, second.hash, second.signature, second.body))
    assert row == (
        (2).to_bytes(8, "little")
        + first.hash
        + second.hash
        + b"\x01"
        + (64).to_bytes(4, "little")
        + second.signature
        + len(second.body).to_bytes(4, "little")
        + second.body
    )


def test_a_first_record_has_journal_and_salt_and_case_and_no_signer_without_a_key() -> None:
    journal = Journal.in_memory(clock=ManualClock(wall_ms=5))
    [first] = journal.tenant("acme").append("r", [entries.admitted(case="c")], epoch=1)
    body = cbor2.loads(first.body)
    assert body == {
        "v": 1,
        "tenant": "acme",
        "run": "r",
        "seq": 1,
        "epoch": 1,
        "at": 5,
        "kind": "RunAdmitted",
        "case": "c",
        "data": {},
        "journal": bytes.fromhex(journal.info()["lineage"]),
        "salt": first.salt,
    }
    assert first.body == cbor2.dumps(body, canonical=True)
    assert (first.signer, first.signature) == (None, None)
    assert len(first.salt or b"") == 32


def test_a_minimal_body_is_these_literal_bytes() -> None:
    body = cbor2.dumps(body_of(), canonical=True)
    assert (
        body.hex()
        == (
            "aa"
            "617601"  # v: 1
            "6261741b000001a3185c5000"  # at
            "6372756e6172"  # run: "r"
            "6373657101"  # seq: 1
            "6464617461a1647465787461" + "78"  # data: {"text": "x"}
            "646b696e64644e6f7465"  # kind: "Note"
            "6473616c745820" + SALT.hex() + "6565706f636801"  # epoch: 1
            "6674656e616e746461636d65"  # tenant: "acme"
            "676a6f75726e616c50" + LINEAGE.hex()
        )
    )
    assert chain_hash(bytes(32), body).hex() == "f0d6ef5ddffb686cfdd0199018dae132d1a211d09d5d40166414fc227ad252f8"
    assert read(body).data == {"text": "x"}


def test_a_run_tag_is_blake3_over_salt_and_length_prefixed_names() -> None:
    message = SALT + (4).to_bytes(8, "big") + b"acme" + (1).to_bytes(8, "big") + b"r"
    assert run_tag(SALT, "acme", "r") == blake3(message, derive_key_context="sealbook 2026 run tag v1").digest()
    assert run_tag(SALT, "acm", "er") != run_tag(SALT, "acme", "r")


def test_a_signer_id_is_sha_256_over_the_algorithm_and_the_key() -> None:
    assert signer_id(KEY) == hashlib.sha256(b"\x01" + KEY).digest()


def test_the_first_of_two_equal_runs_does_not_tell_the_second_ones_tag() -> None:
    journal = Journal.in_memory()
    tags = set()
    for tenant in ("a", "b"):
        journal.tenant(tenant).append("r", [entries.admitted()], epoch=1)
        standing = journal.tenant(tenant).standing("r")
        assert standing is not None
        tags.add(standing.run_tag)
    assert len(tags) == 2


# --- rows (A34 to A40) ----------------------------------------------------------------------------------------------


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    st.integers(0, 2**64 - 1),
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=64, max_size=64) | st.none(),
    st.binary(max_size=300),
)
def test_a_row_comes_back_from_its_bytes(arrival: int, hash_: bytes, signature: bytes | None, body: bytes) -> None:
    row = Row(arrival, hash_, bytes(32), signature, body)
    assert decode_row(encode_row(row), "r", 1) == row


ROW = encode_row(Row(7, bytes(32), bytes(32), None, b"body"))
SIGNED = encode_row(Row(7, bytes(32), bytes(32), bytes(64), b"body"))


@pytest.mark.parametrize("row", [ROW, SIGNED], ids=["unsigned", "signed"])
def test_a_row_cut_off_anywhere_is_corrupt(row: bytes) -> None:
    for size in range(len(row)):
        with pytest.raises(Corrupt, match="cut off"):
            decode_row(row[:size], "r", 3)


@pytest.mark.parametrize("row", [ROW, SIGNED], ids=["unsigned", "signed"])
def test_bytes_after_the_body_are_corrupt(row: bytes) -> None:
    with pytest.raises(Corrupt, match="1 bytes follow the body"):
        decode_row(row + b"\0", "r", 3)


def test_a_flag_is_0_or_1_and_any_other_is_corrupt_never_unsigned() -> None:
    for flag in range(2, 256):
        with pytest.raises(Corrupt, match="neither unsigned"):
            decode_row(ROW[:72] + bytes([flag]) + ROW[73:], "r", 3)


def test_a_signature_has_64_bytes() -> None:
    for size in (0, 63, 65):
        with pytest.raises(Corrupt, match=f"the signature is {size} bytes"):
            decode_row(encode_row(Row(7, bytes(32), bytes(32), bytes(size), b"body")), "r", 3)


def test_a_length_that_exceeds_the_row_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="cut off in its body"):
        decode_row(ROW[:73] + b"\xff\xff\xff\xff" + ROW[77:], "r", 3)


def test_a_corrupt_row_names_run_and_seq() -> None:
    with pytest.raises(Corrupt) as caught:
        decode_row(b"", "r", 3)
    assert (caught.value.run, caught.value.seq) == ("r", 3)
    assert str(caught.value).startswith("r record 3: ")


# --- order of reading (P23 to P25) ----------------------------------------------------------------------------------


def test_bytes_are_hashed_before_they_are_parsed() -> None:
    """Behaviour P24: what does not hash is Corrupt for that reason, whatever it says of its version."""
    for body in (b"\xff", cbor2.dumps(body_of(v=99)), cbor2.dumps(5)):
        row = row_of(body)._replace(hash=bytes(32))
        with pytest.raises(Corrupt, match="the hash does not cover"):
            decode_record(row, tenant="acme", run="r", seq=1, upcaster=IdentityUpcaster())


def test_every_single_bit_of_the_hashed_bytes_counts() -> None:
    body = cbor2.dumps(body_of(), canonical=True)
    row = row_of(body)
    for index in range(len(body)):
        changed = body[:index] + bytes([body[index] ^ 1]) + body[index + 1 :]
        with pytest.raises(Corrupt, match="the hash does not cover"):
            decode_record(row._replace(body=changed), tenant="acme", run="r", seq=1, upcaster=IdentityUpcaster())


@pytest.mark.parametrize("version", [2, 255, 2**40])
def test_a_newer_version_is_unknown_and_never_called_damage(version: int) -> None:
    body = body_of(v=version, extra="what a newer build adds")
    with pytest.raises(UnknownVersion, match=f"kind Note version {version}") as caught:
        read(body)
    assert (caught.value.run, caught.value.seq) == ("r", 1)


@pytest.mark.parametrize("version", [0, -1])
def test_no_build_ever_wrote_a_version_below_1(version: int) -> None:
    with pytest.raises((UnknownVersion, Corrupt)):
        read(body_of(v=version))


def test_an_older_version_is_lifted_and_its_bytes_stay() -> None:
    upcaster = SwitchableUpcaster()
    upcaster.versions["Note"] = 3
    body = cbor2.dumps(body_of(), canonical=True)
    record = read(body, upcaster=upcaster)
    assert (record.v, record.data, record.body) == (1, {"text": "x", "lifted": 3}, body)


def test_an_older_version_that_the_upcaster_does_not_reach_is_unknown() -> None:
    class Stuck(IdentityUpcaster):
        def current_version(self, kind: str) -> int:
            return 2

    with pytest.raises(UnknownVersion, match="cannot be lifted to version 2"):
        read(body_of(), upcaster=Stuck())


def test_the_version_is_compared_on_every_read_even_when_the_data_parses() -> None:
    upcaster = SwitchableUpcaster()
    journal = Journal.in_memory(upcaster=upcaster)
    acme = journal.tenant("acme")
    acme.append("r", [entries.note("x")], epoch=1)
    for version in (1, 2, 4):
        upcaster.versions["Note"] = version
        assert acme.read("r")[0].data.get("lifted") == (None if version == 1 else version)


# --- the body (P14, P20, strictness) --------------------------------------------------------------------------------


def test_a_whole_body_reads_back_member_by_member() -> None:
    record = read(body_of(case="c", effect=KEY, attempt=2, epoch=3))
    assert (record.case, record.effect, record.attempt, record.epoch, record.salt) == ("c", KEY, 2, 3, SALT)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("v", None),
        ("v", "1"),
        ("v", True),
        ("tenant", None),
        ("tenant", "other"),
        ("tenant", 5),
        ("run", None),
        ("run", "s"),
        ("seq", None),
        ("seq", 2),
        ("seq", 0),
        ("seq", 1.0),
        ("seq", True),
        ("epoch", None),
        ("epoch", -1),
        ("epoch", 2**53),
        ("epoch", False),
        ("at", None),
        ("at", -1),
        ("at", 1.5),
        ("at", 2**63),
        ("kind", None),
        ("kind", 5),
        ("data", None),
        ("data", []),
        ("data", 5),
        ("case", 5),
        ("effect", b"short"),
        ("effect", "00" * 32),
        ("attempt", 0),
        ("attempt", "1"),
        ("signer", KEY),  # without a signature
        ("journal", None),
        ("journal", b"short"),
        ("salt", None),
        ("salt", b"short"),
    ],
)
def test_a_body_that_is_no_record_of_this_place_is_corrupt_in_every_reading(member: str, value: Any) -> None:
    for strict in (False, True):
        with pytest.raises(Corrupt) as caught:
            read(body_of(**{member: value}), strict=strict)
        assert (caught.value.run, caught.value.seq) == ("r", 1)


@pytest.mark.parametrize("body", [5, [], "text", {}, {"kind": "Note"}, {1: 2}, None])
def test_a_value_that_is_no_record_is_corrupt(body: Any) -> None:
    with pytest.raises(Corrupt, match=r"no record|no CBOR"):
        read(cbor2.dumps(body))


def test_a_signature_without_a_signer_is_corrupt() -> None:
    """Behaviour A35 as DESIGN has it: signer and signature come together."""
    row = row_of(cbor2.dumps(body_of(), canonical=True))._replace(signature=bytes(64))
    with pytest.raises(Corrupt, match="do not come together"):
        decode_record(row, tenant="acme", run="r", seq=1, upcaster=IdentityUpcaster())


def test_journal_and_salt_stand_in_the_first_record_alone() -> None:
    with pytest.raises(Corrupt, match="nowhere else"):
        read(body_of(seq=2), seq=2)
    assert read(body_of(seq=2, journal=None, salt=None), seq=2).seq == 2


def test_an_unknown_member_is_refused_where_bytes_are_checked() -> None:
    body = body_of(extra=1)
    with pytest.raises(Corrupt, match="unknown members: 'extra'"):
        read(body)
    assert read(body, strict=False).data == {"text": "x"}


def canonical() -> bytes:
    return cbor2.dumps(body_of(), canonical=True)


NOT_CANONICAL: dict[str, Callable[[bytes], bytes]] = {
    "trailing byte": lambda body: body + b"\0",
    "long integer": lambda body: body.replace(b"\x61v\x01", b"\x61v\x18\x01"),
    "longer integer": lambda body: body.replace(b"\x61v\x01", b"\x61v\x1b" + bytes(7) + b"\1"),
    "long length": lambda body: body.replace(b"\x61v", b"\x78\x01v"),
    "unsorted": lambda body: bytes([body[0]]) + body[4:16] + body[1:4] + body[16:],
    "insertion order": lambda body: cbor2.dumps(body_of()),
    "double for a half": lambda body: cbor2.dumps(body_of(data={"x": 1.5})),
    "tagged integer": lambda body: body.replace(b"\x61v\x01", b"\x61v\xc2\x41\x01"),
}


@pytest.mark.parametrize("why", NOT_CANONICAL)
def test_bytes_that_hash_right_but_are_not_canonical_are_corrupt(why: str) -> None:
    bent = NOT_CANONICAL[why](canonical())
    assert bent != canonical()
    with pytest.raises(Corrupt):
        read(bent)


@pytest.mark.parametrize(
    "bent",
    [
        b"\xbf" + canonical()[1:] + b"\xff",
        bytes([canonical()[0] + 1]) + canonical()[1:4] + canonical()[1:],
    ],
    ids=["indefinite length", "duplicate key"],
)
def test_bytes_that_two_readers_might_read_differently_are_corrupt_in_every_reading(bent: bytes) -> None:
    for strict in (False, True):
        with pytest.raises(Corrupt):
            read(bent, strict=strict)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**64,
        -(2**63) - 1,
        cbor2.CBORTag(4000, 1),
        cbor2.undefined,
        {1: 2},
        {"a": {b"b": 1}},
    ],
    ids=repr,
)
def test_data_that_no_record_may_hold_is_corrupt_where_bytes_are_checked(value: Any) -> None:
    with pytest.raises(Corrupt):
        read(cbor2.dumps(body_of(data={"x": value}), canonical=True))


def test_nesting_of_100_000_levels_in_a_stored_row_is_corrupt_and_no_recursion_error() -> None:
    body = canonical().replace(b"\x64text\x61x", b"\x64text" + b"\x81" * 100_000 + b"\x01")
    for strict in (False, True):
        with pytest.raises(Corrupt):
            read(body, strict=strict)


@pytest.mark.parametrize(("member", "value"), [("tenant", "a/b"), ("run", "a\n"), ("kind", "note"), ("case", "a\0")])
def test_names_that_no_caller_may_use_are_corrupt_where_bytes_are_checked(member: str, value: str) -> None:
    place: dict[str, Any] = {member: value} if member in ("tenant", "run") else {}
    with pytest.raises(Corrupt, match="no record may hold"):
        read(body_of(**{member: value}), **place)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_at_all_make_anything_worse_than_an_error_of_ours(body: bytes) -> None:
    with pytest.raises((Corrupt, UnknownVersion)):
        read(body)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_no_row_at_all_makes_anything_worse_than_corrupt(value: bytes) -> None:
    with pytest.raises((Corrupt, UnknownVersion)):
        decode_record(decode_row(value, "r", 1), tenant="acme", run="r", seq=1, upcaster=IdentityUpcaster())
