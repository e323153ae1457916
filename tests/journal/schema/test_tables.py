"""Every table's keys and values, as bytes written down here by hand."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from blake3 import blake3

from sealbook.journal import Corrupt, Ed25519Signer, EffectKey, Journal, entries
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.records.names import KEY_BYTES_MAX
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import EffectRow, LeaseRow, StoreRow, TenantRow
from sealbook.journal.testing import ManualClock, all_rows, rows

KEY = EffectKey("k")
PLACE = (tables.LEASES, b"acme\0r")


def u64(number: int) -> bytes:
    return number.to_bytes(8, "big")


def le(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little", signed=number < 0) for number in numbers)


@pytest.fixture
def stored(clock: ManualClock) -> dict[str, dict[bytes, bytes]]:
    """A store with a row in every table that appending fills, of one tenant."""
    engine = MemoryEngine(clock=clock)
    journal = Journal.over(engine, clock=clock, signer=Ed25519Signer(bytes(32)), store_origin="example.com/store")
    acme = journal.tenant("acme")
    lease = acme.acquire("r", owner="w", ttl=10)
    batch = [
        entries.admitted(source="s", id="1", case="c"),
        entries.effect_started(KEY, name="n", recovery="retry"),
        entries.concluded("failed"),
    ]
    acme.append("r", batch, lease=lease)
    acme.append("r", [entries.suspended(until="1970-01-01T00:00:01Z")], lease=lease)
    acme.request_cancel("r", actor="ann")
    acme.anchor_open()
    acme.append("long", [entries.note("n")] * 65, epoch=1)
    journal.store_log.gather()
    return {table: dict(page) for table, page in all_rows(engine).items()}


def test_a_key_begins_with_its_tenant_and_ends_in_its_number(stored: dict[str, dict[bytes, bytes]]) -> None:
    keys = {table: sorted(page) for table, page in stored.items()}
    assert keys[tables.JOURNAL] == [b"acme\0" + u64(arrival) for arrival in range(1, 71)]
    assert keys[tables.ARRIVALS] == [b"acme\0long\0" + u64(0)]
    assert keys[tables.LEASES] == [b"acme\0r"]
    assert keys[tables.STATE] == [b"acme\0long", b"acme\0r", b"acme\0~tenant"]
    assert keys[tables.EFFECTS] == [b"acme\0r\0" + KEY]
    assert keys[tables.CANCELS] == [b"acme\0r"]
    assert keys[tables.LEAVES] == [b"acme\0" + u64(0), b"acme\0" + u64(1), b"~store\0" + u64(0)]
    assert keys[tables.HEADS] == [b"acme\0" + u64(0)]
    assert keys[tables.POSITIONS] == [b"acme\0r\0" + u64(0)]
    assert keys[tables.NODES] == [
        *(b"acme\0" + level + u64(index) for level, index in ((b"\0", 0), (b"\0", 1), (b"\1", 0))),
        b"~store\0\0" + u64(0),
    ]
    assert keys[tables.BATCHES] == [b"acme\0" + u64(1) + number.to_bytes(4) for number in (0, 1)]
    assert keys[tables.BATCHED] == [b"acme\0r\0" + u64(1), b"acme\0~tenant\0" + u64(1)]
    assert keys[tables.TENANTS] == [b"acme", b"~store"]
    assert keys[tables.STORE] == [b"store"]
    assert [len(key) for key in keys[tables.ADMISSIONS]] == [5 + 32]
    assert keys["cases"] == [b"acme\0c\0r\0" + u64(0)]
    assert keys["outcome"] == [b"acme\0failed\0" + u64(3)]
    assert keys["waiting"] == [b"acme\0" + u64(2**63 + 1_000_000) + b"r"]
    assert keys["activity"] == [b"acme\0" + u64(0) + run for run in (b"long", b"r")]
    assert keys["source"] == [b"acme\0s\0" + u64(0) + b"r"]


def test_a_value_is_these_very_bytes(stored: dict[str, dict[bytes, bytes]], clock: ManualClock) -> None:
    assert stored[tables.ARRIVALS][b"acme\0long\0" + u64(0)] == b"".join(map(u64, range(6, 70)))
    assert stored[tables.STATE][b"acme\0long"].endswith(b"Note" + u64(70))
    assert stored["cases"][b"acme\0c\0r\0" + u64(0)] == u64(1)
    lease = le(1, clock.wall_ms + 10_000, clock.boot_ms + 10_000) + clock.boot_id + b"w"
    assert stored[tables.LEASES][b"acme\0r"] == lease + blake3(b"leases" + b"acme\0r" + lease).digest(8)
    assert stored[tables.EFFECTS][b"acme\0r\0" + KEY] == le(1) + b"\1\1" + le(2, 0)
    assert stored[tables.TENANTS][b"acme"] == le(70, 2, 0, -1, -1, 1, 2)
    assert stored[tables.TENANTS][b"~store"] == le(0, 1, 0, -1, -1, -1, 0)
    assert stored[tables.HEADS][b"acme\0" + u64(0)] == b""
    head = stored[tables.LEAVES][b"~store\0" + u64(0)]
    root = hashlib.sha256(b"\1" + b"".join(stored[tables.NODES][b"acme\0\0" + u64(index)] for index in (0, 1)))
    assert (head[:24], head[56:]) == (b"sealbook/tenant-head/v1\0", u64(2) + root.digest())
    assert stored[tables.CANCELS][b"acme\0r"] == u64(1)
    assert stored[tables.POSITIONS][b"acme\0r\0" + u64(0)] == b""
    leaf = stored[tables.LEAVES][b"acme\0" + u64(0)]
    for run in (b"r", b"~tenant"):
        number = stored[tables.BATCHED][b"acme\0" + run + b"\0" + u64(1)]
        entry = stored[tables.BATCHES][b"acme\0" + u64(1) + number]
        assert (entry[:18], entry[90:]) == (b"sealbook/leaf/v1\0\2", run)
    assert stored[tables.NODES][b"acme\0\0" + u64(0)] == hashlib.sha256(b"\0" + leaf).digest()
    assert (list(stored[tables.ADMISSIONS].values()), stored["outcome"][b"acme\0failed\0" + u64(3)]) == ([b"r"], b"r")
    store = stored[tables.STORE][b"store"]
    assert store[-8:] == blake3(b"store" + b"store" + store[:-8]).digest(8)


def test_every_table_is_on_the_page_and_no_other_one_is_written(stored: dict[str, dict[bytes, bytes]]) -> None:
    assert len(set(tables.TABLES)) == len(tables.TABLES)
    assert {table for table, page in stored.items() if page} == set(tables.TABLES) - {
        tables.CHECKPOINTS,
        tables.ORIGINS,
    }


def test_an_admission_key_is_keyed_with_the_stores_secret() -> None:
    message = (4).to_bytes(8, "big") + b"shop" + (2).to_bytes(8, "big") + b"42"
    secret = bytes(range(32))
    assert tables.admission_key("acme", secret, "shop", "42") == b"acme\0" + blake3(message, key=secret).digest()
    assert tables.admission_key("acme", bytes(32), "shop", "42") != tables.admission_key("acme", secret, "shop", "42")
    assert tables.admission_key("acme", secret, "sho", "p42") != tables.admission_key("acme", secret, "shop", "42")


def test_one_number_counts_records_and_one_counts_leaves_per_tenant(clock: ManualClock) -> None:
    """Behaviour A14: counters of the tenant, never the highest row and one more."""
    engine = MemoryEngine(clock=clock)
    journal = Journal.over(engine, clock=clock)
    for tenant, count in (("a", 3), ("b", 1)):
        for number in range(count):
            batch = [entries.note("x"), entries.concluded("done")]
            journal.tenant(tenant).append(f"r{number}", batch, epoch=1, seal=True)
    assert dict(rows(engine, tables.TENANTS)) == {b"a": le(6, 3, 0, -1, -1, -1, 0), b"b": le(2, 1, 0, -1, -1, -1, 0)}


@pytest.mark.parametrize("key", [b"", b"r", b"\0r", b"acme\0", b"acme\0a\0b", b"acme\0\xff"])
def test_a_key_that_names_no_run_is_a_value_error(key: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        tables.split_run_key(key)


@pytest.mark.parametrize(
    "key", [b"", b"acme\0r" + u64(1), b"acme\0" + u64(1), b"\0\0" + u64(1), b"acme\0r\0" + u64(1)[1:]]
)
def test_a_key_that_names_no_record_is_a_value_error(key: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        tables.split_position_key(key)


@pytest.mark.parametrize("key", [b"", u64(1), b"\0" + u64(1), b"acme" + u64(1), b"a\0b\0" + u64(1)])
def test_a_key_that_names_no_number_is_a_value_error(key: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        tables.split_number_key(key)


def test_keys_come_apart_as_they_were_put_together() -> None:
    for run in ("r", "a/b", "é" * 64):
        assert tables.split_run_key(tables.run_key("acme", run)) == ("acme", run)
        for number in (0, 1, 255, 2**63, 2**64 - 1):
            assert tables.split_position_key(tables.block_key("acme", run, number)) == ("acme", run, number)
            assert tables.split_number_key(tables.number_key("acme", number)) == ("acme", number)
            assert tables.split_batch_key(tables.batch_key("acme", number, 7)) == ("acme", number, 7)
        assert len(tables.block_key("t" * 64, run, 1)) <= KEY_BYTES_MAX


ROWS: list[Any] = [
    LeaseRow("w", 1, 5, -6, b"b" * 16),
    LeaseRow("é" * 128, 2**53 - 1, 2**62, 2**62, bytes(16)),
    LeaseRow("", 3, 0, 0, bytes(16)),
]


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_a_lease_row_comes_back_from_its_bytes_in_its_own_place_alone(row: LeaseRow) -> None:
    value = row.encode(PLACE)
    assert LeaseRow.decode(PLACE, "r", value) == row
    for place in ((tables.LEASES, b"acme\0s"), (tables.STATE, b"acme\0r")):
        with pytest.raises(Corrupt):
            LeaseRow.decode(place, "r", value)
    for damaged in (b"", value[:-1], value[1:], value + b"\0", value[:-9] + value[-8:]):
        with pytest.raises(Corrupt):
            LeaseRow.decode(PLACE, "r", damaged)
    assert LeaseRow.decode(PLACE, "r", None) is None


def test_an_effect_row_comes_back_from_its_bytes() -> None:
    from sealbook.indexes.standing import EffectStatus
    from sealbook.journal.records.entries import RECOVERIES

    place = (tables.EFFECTS, b"acme\0r\0" + KEY)
    for recovery in RECOVERIES:
        for status in EffectStatus:
            row = EffectRow(2**40, recovery, status, 7, 0 if status is EffectStatus.STARTED else 9)
            assert EffectRow.decode(place, "r", row.encode()) == row
    for damaged in (b"", row.encode()[:-1], row.encode() + b"\0"):
        with pytest.raises(Corrupt, match="no effect"):
            EffectRow.decode(place, "r", damaged)


def test_a_tenants_row_comes_back_from_its_bytes() -> None:
    assert TenantRow.decode("acme", TenantRow(7, 3).encode()) == TenantRow(7, 3)
    assert TenantRow.decode("acme", None) == TenantRow(0, 0)
    value = TenantRow(7, 3).encode()
    for damaged in (b"", value[:-1], value + b"\0", b"\xff" * len(value)):
        with pytest.raises(Corrupt) as caught:
            TenantRow.decode("acme", damaged)
        assert (caught.value.table, caught.value.key) == (tables.TENANTS, b"acme")


def test_a_store_row_comes_back_from_its_bytes() -> None:
    row = StoreRow(b"s" * 16, b"l" * 16, 1, 2, 3, 4, b"rebuild!")
    assert StoreRow.decode(row.encode()) == row
    assert not row.index_current
    for damaged in (None, b"", row.encode()[:-1], row.encode() + b"\0", bytes(len(row.encode()))):
        with pytest.raises(Corrupt):
            StoreRow.decode(damaged)
