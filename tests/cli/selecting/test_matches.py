"""`FIELD=VALUE`: alternatives within a field, all fields together, `+` begins anew."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from sealbook.cli.records import fields, levels
from sealbook.cli.records.fields import Fields
from sealbook.cli.selecting import listings, matches
from sealbook.journal import Ed25519Signer, EffectKey, Journal, Record, Tenant, entries

KEY = EffectKey("charge")


@pytest.fixture(scope="module")
def tenant() -> Iterator[Tenant]:
    with Journal.in_memory(signer=Ed25519Signer(bytes(32))) as journal:
        tenant = journal.tenant("acme")
        first = [entries.admitted(source="shop", id="1", case="c"), entries.effect_started(KEY, name="charge")]
        tenant.append("a", [*first, entries.entry("Note", {"text": "x=y", "n": {"m": [1]}, "t": True})], epoch=1)
        tenant.release(tenant.acquire("b", owner="w", ttl=60))
        lease = tenant.acquire("b", owner="w", ttl=60)
        tenant.append("b", [entries.admitted(), entries.concluded("failed")], lease=lease)
        tenant.release(lease)
        tenant.acquire("a", owner="worker-1", ttl=60)
        yield tenant


def found(tenant: Tenant, *words: str) -> list[int]:
    groups, known = matches.parse(words), Fields(tenant)
    return [record.arrival for record in tenant.history() if matches.meets(groups, record, known)]


@pytest.mark.parametrize(
    ("words", "arrivals"),
    [
        ([], [1, 2, 3, 4, 5]),
        (["RUN=a"], [1, 2, 3]),
        (["run=a"], [1, 2, 3]),
        (["RUN=a", "RUN=b"], [1, 2, 3, 4, 5]),
        (["RUN=a", "KIND=RunAdmitted"], [1]),
        (["KIND=RunAdmitted", "KIND=Note", "RUN=a"], [1, 3]),
        (["RUN=b", "+", "KIND=Note"], [3, 4, 5]),
        (["RUN=b", "+", "RUN=a", "SEQ=1"], [1, 4, 5]),
        (["CASE=c"], [1]),
        (["CASE=d"], []),
        (["EPOCH=2"], [4, 5]),
        (["ARRIVAL=2"], [2]),
        ([f"EFFECT={KEY.hex()}"], [2]),
        (["ATTEMPT=1"], [2]),
        (["SOURCE=shop"], [1, 2, 3]),
        (["OUTCOME=failed"], [4, 5]),
        (["OWNER=worker-1"], [1, 2, 3]),
        (["DATA.text=x=y"], [3]),
        (["DATA.n.m=[1]"], [3]),
        (["DATA.t=true"], [3]),
        (["data.n.m.x=1"], []),
        (["TENANT=acme", "KIND=Note"], [3]),
    ],
)
def test_matches_take_these_records(tenant: Tenant, words: list[str], arrivals: list[int]) -> None:
    assert found(tenant, *words) == arrivals


def test_the_instant_and_the_hashes_of_a_record_match_it(tenant: Tenant) -> None:
    record = tenant.read("a")[1]
    for name in ("HASH", "PREV"):
        value = fields.OF_RECORD[name](record)
        assert found(tenant, f"{name}={value}") == [2]
    assert record.signer is not None
    assert found(tenant, f"KEYID={record.signer.hex()}", "SEQ=2") == [2, 5]
    assert 2 in found(tenant, f"AT={fields.OF_RECORD['AT'](record)}")
    assert found(tenant, f"HASH={record.hash.hex().upper()}") == [2]
    assert 2 in found(tenant, f"AT={(fields.OF_RECORD['AT'](record) or '').replace('Z', '+00:00')}")


@pytest.mark.parametrize(
    "words",
    [["foo"], ["FOO=1"], ["DATA.=1"], ["=1"], ["+"], ["RUN=a", "+"], ["+", "RUN=a"], ["RUN=a", "+", "+", "RUN=b"]],
)
def test_anything_else_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(click.BadParameter):
        matches.parse(words)


def test_a_run_that_goes_on_is_looked_at_again(tenant: Tenant) -> None:
    with Journal.in_memory() as journal:
        going = journal.tenant()
        known = Fields(going)
        [first] = going.append("r", [entries.admitted()], epoch=1)
        assert known.value(first, "OUTCOME") is None
        [last] = going.append("r", [entries.concluded("failed")], epoch=1)
        assert known.value(last, "OUTCOME") == "failed"


# --- levels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("err", [0, 1, 2, 3]), ("3", [0, 1, 2, 3]), ("emerg", [0]), ("warning..notice", [4, 5]), ("6..4", [4, 5, 6])],
)
def test_a_level_means_it_or_graver_and_two_what_lies_between(text: str, numbers: list[int]) -> None:
    assert list(levels.parse(text)) == numbers


@pytest.mark.parametrize("text", ["", "8", "-1", "error", "err..", "..err", "err..4..5", "٣"])
def test_anything_else_is_no_level(text: str) -> None:
    with pytest.raises(click.BadParameter):
        levels.parse(text)


def test_every_record_has_the_level_that_its_kind_calls_for() -> None:
    with Journal.in_memory() as journal:
        tenant = journal.tenant()
        keys = [EffectKey(str(number)) for number in range(3)]
        batch = [entries.admitted(), *(entries.effect_started(key, name="n", recovery="reconcile") for key in keys)]
        batch += [entries.effect_failed(keys[0], error={"type": "E", "message": "no"})]
        batch += [entries.effect_reconciled(keys[1], disposition="did-not-happen")]
        batch += [entries.suspended(awaiting="x"), entries.note("x"), entries.concluded("failed")]
        made = tenant.append("r", batch, epoch=1)
        made += tenant.append("r", [entries.concluded("completed")], epoch=1)
        assert [levels.level(record, tenant) for record in made] == [6, 6, 6, 4, 3, 3, 4, 6, 3, 5]


# --- values -------------------------------------------------------------------------------------------------------


def test_each_value_of_a_field_is_listed_once(tenant: Tenant) -> None:
    def values(field: str) -> list[str]:
        return list(listings.values(tenant, field))

    assert values("RUN") == ["a", "b"]
    assert values("CASE") == ["c"]
    assert values("SOURCE") == ["shop"]
    assert values("OUTCOME") == ["failed"]
    assert values("OWNER") == ["worker-1"]
    assert values("TENANT") == ["acme"]
    assert values("KIND") == ["RunAdmitted", "EffectStarted", "Note", "RunConcluded"]
    assert values("DATA.text") == ["x=y"]


def test_the_values_of_an_indexed_field_are_listed_without_reading_a_record(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> list[Record]:
        raise AssertionError("a record is read")

    for verb in ("history", "read", "case_history"):
        monkeypatch.setattr(Tenant, verb, refuse)
    for field in ("RUN", "CASE", "SOURCE", "OUTCOME", "OWNER"):
        assert list(listings.values(tenant, field))
