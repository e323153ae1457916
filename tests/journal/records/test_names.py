"""Names and numbers that callers hand in."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

import pytest

from sealbook.journal import InvalidInput, InvalidName
from sealbook.journal.records import names

LEGAL = ["a", "Größe", "a/b/c", "a b", "x:y", "-", "日本", "\U0001f600", "~", "..", "%2F"]
ILLEGAL = {
    "empty": "",
    "NUL": "a\0b",
    "newline": "a\nb",
    "escape": "\x1b[31m",
    "delete": "a\x7f",
    "C1 control": "a\x85b",
    "C1 control beside other text": "ä\x9b",
    "lone surrogate": "a\ud800",
    "not NFC": "e\u0301",
    "no text": b"bytes",
    "None": None,
    "a number": 7,
}
CHECKS: dict[str, tuple[Any, int]] = {
    "run": (names.check_run, 128),
    "own run": (names.check_own_run, 128),
    "case": (names.check_case, 128),
    "source": (names.check_source, 256),
    "admission id": (names.check_admission_id, 256),
    "owner": (names.check_owner, 256),
    "actor": (names.check_actor, 256),
}


@pytest.mark.parametrize("what", CHECKS)
def test_text_that_people_use_is_a_name(what: str) -> None:
    for name in LEGAL:
        if not (what == "own run" and name.startswith("~")):
            assert CHECKS[what][0](name) == name


@pytest.mark.parametrize("why", ILLEGAL)
@pytest.mark.parametrize("what", CHECKS)
def test_what_cannot_be_a_name_is_refused_by_name(what: str, why: str) -> None:
    with pytest.raises(InvalidName) as caught:
        CHECKS[what][0](ILLEGAL[why])
    assert caught.value.value is ILLEGAL[why]
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("what", CHECKS)
def test_limits_are_bytes_of_utf_8_and_are_stated(what: str) -> None:
    check, limit = CHECKS[what]
    assert check("é" * (limit // 2)) == "é" * (limit // 2)
    with pytest.raises(InvalidName, match=f"is {limit + 2} bytes of UTF-8, the limit is {limit}"):
        check("é" * (limit // 2 + 1))
    check("x" * limit)
    with pytest.raises(InvalidName, match=f"{limit + 1} bytes"):
        check("x" * (limit + 1))


def test_a_text_subclass_becomes_plain_text() -> None:
    class Fancy(str):
        pass

    assert type(names.check_run(Fancy("r"))) is str


@pytest.mark.parametrize("name", ["a", "A9", "9", "a.b-c_d", "x" * 64])
def test_a_tenant_is_letters_digits_and_three_marks(name: str) -> None:
    assert names.check_tenant(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "a/b", ".a", "-a", "_a", "~t", "a b", "ä", "a\n", "a\0", "x" * 65, "٣", None, 3, b"a"],
)
def test_anything_else_is_no_tenant(name: object) -> None:
    with pytest.raises(InvalidName, match="tenant"):
        names.check_tenant(name)


def test_runs_of_the_store_may_be_read_and_not_written() -> None:
    assert names.check_run("~tenant") == "~tenant"
    for name in ("~tenant", "~", "~mine"):
        with pytest.raises(InvalidName, match="begins with ~"):
            names.check_own_run(name)


@pytest.mark.parametrize("blank", [" ", "  ", "\u2003"])
def test_an_actor_is_not_blank(blank: str) -> None:
    with pytest.raises(InvalidName, match="blank"):
        names.check_actor(blank)


@pytest.mark.parametrize("kind", ["Note", "A", "A" * 64, "temporal.ActivityStarted", "a.b_c.d-e.Kind", "X9.Kind"])
def test_a_kind_begins_with_a_capital_and_may_have_a_namespace(kind: str) -> None:
    assert names.check_kind(kind) == kind


@pytest.mark.parametrize(
    "kind", ["", "note", "A" * 65, "A.b", "A_B", "a.", ".A", "a..B", "A B", "Ä", "n" * 130 + ".A", None, 5]
)
def test_anything_else_is_no_kind(kind: object) -> None:
    with pytest.raises(InvalidName, match="kind"):
        names.check_kind(kind)


@pytest.mark.parametrize("outcome", ["done", "a", "a-b-9", "x" * 32])
def test_an_outcome_is_small_letters_digits_and_hyphens(outcome: str) -> None:
    assert names.check_outcome(outcome) == outcome


@pytest.mark.parametrize("outcome", ["", "Done", "9", "-a", "a_b", "x" * 33, "a\n", None, True])
def test_anything_else_is_no_outcome(outcome: object) -> None:
    with pytest.raises(InvalidName, match="outcome"):
        names.check_outcome(outcome)


@pytest.mark.parametrize("limit", [0, 1, 2**31 - 1])
def test_a_limit_is_0_to_2_to_31_less_1(limit: int) -> None:
    assert names.check_limit(limit) == limit


def test_a_number_too_long_to_print_is_refused_like_any_other() -> None:
    for check in (names.check_limit, names.check_epoch, names.check_ttl):
        with pytest.raises(InvalidInput, match="<int>"):
            check(10**5000)


@pytest.mark.parametrize("limit", [-1, 2**31, 2**64, True, False, 1.0, "1", None, math.inf])
def test_any_other_limit_is_refused(limit: object) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        names.check_limit(limit)


@pytest.mark.parametrize("epoch", [-1, 2**53, 2**63, True, 1.0, "1", None])
def test_an_epoch_is_an_integer_below_2_to_53(epoch: object) -> None:
    assert names.check_epoch(0) == 0
    assert names.check_epoch(2**53 - 1) == 2**53 - 1
    with pytest.raises(InvalidInput, match="epoch"):
        names.check_epoch(epoch)


@pytest.mark.parametrize("size", [-1, 2**63, True, 0.5, "0"])
def test_a_size_is_a_number_that_fits(size: object) -> None:
    assert names.check_size("size", 2**63 - 1) == 2**63 - 1
    with pytest.raises(InvalidInput):
        names.check_size("size", size)


@pytest.mark.parametrize(("ttl", "millis"), [(1, 1000), (1.5, 1500), (30, 30_000), (315_360_000, 315_360_000_000)])
def test_a_ttl_is_whole_milliseconds_from_one_second_to_ten_years(ttl: float, millis: int) -> None:
    assert names.check_ttl(ttl) == millis


@pytest.mark.parametrize(
    "ttl", [0, 0.5, 0.999, -1, -math.inf, math.inf, math.nan, 315_360_001, 10**400, True, "30", None, 1j]
)
def test_any_other_ttl_is_refused_and_never_clamped(ttl: object) -> None:
    with pytest.raises(InvalidInput, match="ttl"):
        names.check_ttl(ttl)


def test_the_longest_names_make_keys_that_every_engine_takes() -> None:
    from sealbook.indexes import case, source
    from sealbook.indexes.packing import u64
    from sealbook.journal.schema import tables

    tenant, run, name, long = "t" * 64, "r" * 128, "c" * 128, "s" * 256
    keys = [
        tables.block_key(tenant, run, 2**64 - 1),
        tables.effect_key(tenant, run, bytes(32)),
        tables.admission_key(tenant, bytes(32), long, long),
        case.place(tenant, name, run, 1)[1],
        source.prefix(tenant, long) + u64(1) + run.encode(),
    ]
    assert max(map(len, keys)) <= names.KEY_BYTES_MAX == 511


class Colour(str, Enum):  # noqa: UP042 - a StrEnum prints as its text
    """Text that prints as something else: `str(Colour.RED)` is 'Colour.RED'."""

    RED = "red"


@pytest.mark.parametrize("what", CHECKS)
def test_a_name_that_is_a_member_of_an_enumeration_is_its_text(what: str) -> None:
    name = CHECKS[what][0](Colour.RED)
    assert (type(name), name) == (str, "red")


@pytest.mark.parametrize(
    ("check", "value"),
    [(names.check_tenant, "acme"), (names.check_kind, "EffectStarted"), (names.check_outcome, "completed")],
)
def test_what_is_checked_is_plain_text_afterwards(check: Any, value: str) -> None:
    name = check(Enum("Names", {"ONE": value}, type=str).ONE)  # type: ignore[attr-defined]
    assert (type(name), name) == (str, value)
