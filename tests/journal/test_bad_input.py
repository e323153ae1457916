"""Whatever a caller may hand in by mistake is refused by its name and leaves nothing behind; and damage, anywhere."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from published_log import signed_note
from refusals import refused_without_a_trace
from whole_journal import journal_of

from sealbook.journal import (
    Corrupt,
    DuplicateAdmission,
    DuplicateEffect,
    EffectKey,
    Entry,
    Fenced,
    Head,
    InvalidCursor,
    InvalidEntry,
    InvalidInput,
    InvalidName,
    Journal,
    Refused,
    SealbookError,
    StoreLog,
    Tenant,
    TooLarge,
    UnknownVersion,
    WrongFormat,
    entries,
    requests,
)
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.schema import tables
from sealbook.journal.schema.identity import new_identity, parse_identity
from sealbook.journal.schema.tables import StoreRow
from sealbook.journal.testing import ManualClock, all_rows, rows, tamper
from sealbook.merkle.checkpoint import Checkpoint

KEY = EffectKey("charge")
Rows = dict[str, list[tuple[bytes, bytes]]]
OLD_CHECKPOINT = signed_note(Checkpoint("sealbook/acme", 99, bytes(32)))


@pytest.fixture
def full(acme: Tenant, clock: ManualClock) -> Tenant:
    """A tenant with a row in every table."""
    lease = acme.acquire("open", owner="w", ttl=10)
    batch = [entries.admitted(source="s", id="1", case="c"), entries.effect_started(KEY, name="n")]
    acme.append("open", [*batch, entries.concluded("failed")], lease=lease)
    acme.append("open", [entries.suspended(awaiting="x", until="2100-01-01T00:00:00Z")], lease=lease)
    for run in ("a", "b"):
        acme.append(run, [entries.admitted(source="s", id=run), entries.concluded("done")], epoch=1, seal=True)
    acme.request_cancel("open", actor="ann", reason="why")
    acme.anchor_open()
    StoreLog(acme.view, "example.com/store").gather()
    return acme


# --- names ----------------------------------------------------------------------------------------------------------

BAD_NAMES: dict[str, Any] = {
    "NUL": "a\0b",
    "a control character": "a\x07",
    "a newline": "a\nb",
    "C1 control": "\x9b31m",
    "600 bytes": "x" * 600,
    "600 bytes of two each": "é" * 300,
    "a lone surrogate": "\ud800",
    "not NFC": "e\u0301",
    "empty": "",
    "bytes": b"name",
    "None": None,
    "a number": 42,
    "a list": ["a"],
}
NAMED: dict[str, Callable[[Tenant, Any], Any]] = {
    "append": lambda t, name: t.append(name, [entries.note("x")], epoch=1),
    "acquire": lambda t, name: t.acquire(name, owner="w", ttl=10),
    "owner": lambda t, name: t.acquire("new", owner=name, ttl=10),
    "seal": lambda t, name: t.seal(name),
    "anchor": lambda t, name: t.anchor(name),
    "force_lease": lambda t, name: t.force_lease(name, actor="ann", reason="x"),
    "actor of force_lease": lambda t, name: t.force_lease("open", actor=name, reason="x"),
    "request_cancel": lambda t, name: t.request_cancel(name, actor="ann"),
    "actor": lambda t, name: t.request_cancel("new", actor=name),
    "source": lambda t, name: t.append("new", [Entry("RunAdmitted", {"source": name, "id": "1"})], epoch=1),
    "admission id": lambda t, name: t.append("new", [Entry("RunAdmitted", {"source": "s", "id": name})], epoch=1),
    "case": lambda t, name: t.append("new", [Entry("Note", {}, case=name)], epoch=1),
    "kind": lambda t, name: t.append("new", [Entry(name)], epoch=1),
    "read": lambda t, name: t.read(name),
    "head": lambda t, name: t.head(name),
    "standing": lambda t, name: t.standing(name),
    "lease": lambda t, name: t.lease(name),
    "effects": lambda t, name: t.effects(name),
    "effect": lambda t, name: t.effect(name, KEY),
    "cancellation": lambda t, name: t.cancellation(name),
    "inclusion_proof": lambda t, name: t.inclusion_proof(name),
    "log_positions": lambda t, name: t.log_positions(["open", name]),
    "verify": lambda t, name: t.verify(name),
    "case_history": lambda t, name: t.case_history(name),
    "recent_from": lambda t, name: t.recent_from(name),
    "by_outcome": lambda t, name: t.by_outcome(name),
    "count_by_outcome": lambda t, name: t.count_by_outcome(name),
    "seal's outcome": lambda t, name: t.seal("open", outcome=name),
    "admitted_as source": lambda t, name: t.admitted_as(name, "1"),
    "admitted_as id": lambda t, name: t.admitted_as("s", name),
    "tenant": lambda t, name: journal_of(t).tenant(name),
}
# None means "not given" for these, and has no name to be wrong.
NOT_GIVEN = {"case", "seal's outcome", "source", "admission id"}
# These stand in an entry's data, where text that is none is refused before it is looked at as a name.
NO_TEXT = {"source", "admission id"}


@pytest.mark.parametrize("why", BAD_NAMES)
def test_a_bad_name_is_refused_by_every_verb_that_takes_one(full: Tenant, engine: MemoryEngine, why: str) -> None:
    for where, verb in NAMED.items():
        if why == "None" and where in NOT_GIVEN:
            continue
        if why == "a lone surrogate" and where in NO_TEXT:
            refused_without_a_trace(engine, InvalidEntry, verb, full, BAD_NAMES[why])
            continue
        error = refused_without_a_trace(engine, InvalidName, verb, full, BAD_NAMES[why])
        assert error.value == BAD_NAMES[why], where
        assert str(error).isprintable(), where
        assert len(str(error)) < 300, where


@pytest.mark.parametrize("name", ["a/b", "/", "a/", "..", "~", "a b", "ä", "x" * 65])
def test_a_tenant_has_no_slash_and_nothing_else_that_a_path_would_read(journal: Journal, name: str) -> None:
    with pytest.raises(InvalidName, match="tenant"):
        journal.tenant(name)


# --- entries --------------------------------------------------------------------------------------------------------

BAD_DATA: dict[str, tuple[Any, type[Refused]]] = {
    "NaN": ({"x": math.nan}, InvalidEntry),
    "infinity": ({"x": [-math.inf]}, InvalidEntry),
    "naive datetime": ({"x": datetime(2026, 1, 1)}, InvalidEntry),
    "2**64": ({"x": 2**64}, InvalidEntry),
    "-2**63 - 1": ({"x": -(2**63) - 1}, InvalidEntry),
    "10**5000": ({"x": 10**5000}, InvalidEntry),
    "number as key": ({"x": {1: 2}}, InvalidEntry),
    "number as key at the top": ({1: 2}, InvalidEntry),
    "bytes as key": ({b"x": 2}, InvalidEntry),
    "None as key": ({None: 2}, InvalidEntry),
    "lone surrogate": ({"x": "\udc00"}, InvalidEntry),
    "lone surrogate as key": ({"\udc00": 1}, InvalidEntry),
    "a set": ({"x": {1}}, InvalidEntry),
    "an object": ({"x": object()}, InvalidEntry),
    "100,000 levels": ({"x": json.loads("[" * 900 + "]" * 900)}, InvalidEntry),
    "no map": ([1], InvalidEntry),
    "text for a map": ("x", InvalidEntry),
    "5 MiB of text": ({"x": "x" * 5 * 2**20}, TooLarge),
    "5 MiB of bytes": ({"x": bytes(5 * 2**20)}, TooLarge),
    "more than 4 MiB of small things": ({"x": [0] * (4 * 2**20 + 1)}, TooLarge),
}


@pytest.mark.parametrize("why", BAD_DATA)
def test_bad_data_is_refused_before_a_seq_is_given(acme: Tenant, engine: MemoryEngine, why: str) -> None:
    data, kind = BAD_DATA[why]
    batch = [entries.admitted(source="s", id="1"), Entry("Thing", data)]
    refused_without_a_trace(engine, kind, acme.append, "r", batch, epoch=1)
    assert acme.append("r", batch[:1], epoch=1)[0].seq == 1


@pytest.mark.parametrize("member", ["at", "seq", "tenant", "run", "epoch", "v", "signer", "salt", "detached", "prev"])
def test_an_entry_has_no_member_that_the_store_stamps(member: str) -> None:
    with pytest.raises(TypeError):
        Entry("Note", {}, **{member: 1})  # type: ignore[arg-type]


def test_an_entry_with_detached_values_is_refused() -> None:
    """DESIGN section 4: reserved until values can be kept apart."""
    with pytest.raises(TypeError):
        entries.entry("Note", detached={"x": 1})  # type: ignore[call-arg]


BAD_BATCHES: dict[str, tuple[Any, type[Refused]]] = {
    "one entry": (entries.note("x"), InvalidInput),
    "a dict": ([{"kind": "Note"}], InvalidEntry),
    "None": ([None], InvalidEntry),
    "the good before the bad": ([entries.note("x"), Entry("Note", {"x": math.nan})], InvalidEntry),
    "two starts of one effect": ([entries.effect_started(KEY, name="n")] * 2, DuplicateEffect),
    "two admissions": ([entries.admitted(source="s", id="1")] * 2, InvalidEntry),
    "something after a conclusion": ([entries.concluded("failed"), entries.note("x")], InvalidEntry),
}


@pytest.mark.parametrize("why", BAD_BATCHES)
def test_a_bad_batch_leaves_nothing(acme: Tenant, engine: MemoryEngine, why: str) -> None:
    batch, kind = BAD_BATCHES[why]
    refused_without_a_trace(engine, kind, acme.append, "r", batch, epoch=1)


def test_a_batch_across_runs_enters_whole_or_not_at_all(acme: Tenant, engine: MemoryEngine) -> None:
    """No append names two runs; a group may, and one admission key twice refuses it whole."""
    parts = [requests.append(run, [entries.admitted(source="s", id="1")], epoch=1) for run in ("a", "b")]
    assert refused_without_a_trace(engine, DuplicateAdmission, acme.group, parts).holder == "a"
    starts = [requests.append("a", [entries.effect_started(KEY, name="n")], epoch=1)] * 2
    refused_without_a_trace(engine, DuplicateEffect, acme.group, starts)


# --- numbers --------------------------------------------------------------------------------------------------------

LISTINGS: dict[str, Callable[..., Any]] = {
    "read": lambda t, **page: t.read("open", **page),
    "history": lambda t, **page: t.history(**page),
    "effects": lambda t, **page: t.effects("open", **page),
    "runs": lambda t, **page: t.runs(**page),
    "waiting": lambda t, **page: t.waiting(**page),
    "by_outcome": lambda t, **page: t.by_outcome("failed", **page),
    "recent": lambda t, **page: t.recent(**page),
    "recent_from": lambda t, **page: t.recent_from("s", **page),
    "names": lambda t, **page: t.names("case", **page),
    "case_history": lambda t, **page: t.case_history("c", **page),
    "abandoned": lambda t, **page: t.abandoned(**page),
}


@pytest.mark.parametrize("limit", [-1, -(2**63), 2**31, 2**64, 10**400, True, False, 1.0, "10", None])
@pytest.mark.parametrize("name", LISTINGS)
def test_a_limit_is_a_number_of_rows(full: Tenant, engine: MemoryEngine, name: str, limit: Any) -> None:
    error = refused_without_a_trace(engine, InvalidInput, LISTINGS[name], full, limit=limit)
    assert error.what == "limit"
    assert str(error)


@pytest.mark.parametrize("name", LISTINGS)
def test_the_greatest_limit_is_everything_and_0_is_nothing(full: Tenant, name: str) -> None:
    assert LISTINGS[name](full, limit=2**31 - 1).next is None
    assert list(LISTINGS[name](full, limit=0)) == []


@pytest.mark.parametrize("start", [-1, 2**63, True, 1.5, "1"])
def test_a_start_is_a_number(full: Tenant, engine: MemoryEngine, start: Any) -> None:
    refused_without_a_trace(engine, InvalidInput, full.read, "open", start=start)
    refused_without_a_trace(engine, InvalidInput, full.history, start=start)


@pytest.mark.parametrize("ttl", [0, 0.5, 0.999, -1, -30.0, math.inf, -math.inf, math.nan, 10**10, "30", None, True])
def test_a_ttl_is_at_least_a_second_and_has_an_end(full: Tenant, engine: MemoryEngine, ttl: Any) -> None:
    lease = full.lease("open")
    assert lease is not None
    assert refused_without_a_trace(engine, InvalidInput, full.acquire, "new", owner="w", ttl=ttl).what == "ttl"
    assert refused_without_a_trace(engine, InvalidInput, full.renew, lease, ttl=ttl).what == "ttl"


@pytest.mark.parametrize(
    ("epoch", "kind"),
    [
        (2, Fenced),
        (0, Fenced),
        (2**32, Fenced),
        (2**53 - 1, Fenced),
        (2**53, InvalidInput),
        (2**63, InvalidInput),
        (-1, InvalidInput),
        (True, InvalidInput),
        (1.0, InvalidInput),
        ("1", InvalidInput),
        (None, InvalidInput),
    ],
)
def test_an_epoch_that_was_not_issued_is_refused(
    full: Tenant, engine: MemoryEngine, epoch: Any, kind: type[Refused]
) -> None:
    refused_without_a_trace(engine, kind, full.append, "open", [entries.note("x")], epoch=epoch)
    refused_without_a_trace(engine, kind, full.append, "new", [entries.note("x")], epoch=epoch)


# --- cursors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", ["", "x", "x" * 5000, "\ud800", "é", "AAAA" * 20, b"AAAA", 5, Head(0, b"")])
@pytest.mark.parametrize("name", LISTINGS)
def test_a_malformed_cursor_is_refused(full: Tenant, engine: MemoryEngine, name: str, after: Any) -> None:
    refused_without_a_trace(engine, InvalidCursor, LISTINGS[name], full, after=after)


def test_a_cursor_of_another_tenant_or_listing_is_refused(full: Tenant, journal: Journal, engine: MemoryEngine) -> None:
    after = full.runs(limit=1).next
    refused_without_a_trace(engine, InvalidCursor, full.recent, after=after)
    refused_without_a_trace(engine, InvalidCursor, full.runs, after=after, prefix="o")
    refused_without_a_trace(engine, InvalidCursor, journal.tenant("other").runs, after=after)


def test_a_cursor_of_a_row_that_is_gone_goes_on_after_its_position(full: Tenant, engine: MemoryEngine) -> None:
    after = full.runs(limit=2).next
    tamper(engine, tables.STATE, tables.run_key("acme", "b"), None)
    assert [standing.run for standing in full.runs(after=after)] == ["open"]


# --- stores of other builds, and text that is none ------------------------------------------------------------------


@pytest.mark.parametrize(("line", "kind"), [(b"sealbook 2", UnknownVersion), (b"format 3", UnknownVersion)])
def test_a_store_of_a_newer_format_is_not_opened(tmp_path: Path, line: bytes, kind: type[SealbookError]) -> None:
    path = tmp_path / "agents.sealbook"
    Journal.open(path, create=True).close()
    text = (path / "SEALBOOK").read_bytes()
    name = line.split()[0]
    lines = [line if old.split()[:1] == [name] else old for old in text.split(b"\n")[:-2]]
    body = b"\n".join(lines) + b"\n"
    (path / "SEALBOOK").write_bytes(body + b"check " + blake3(body).hexdigest(8).encode() + b"\n")
    before = (path / "data.mdb").read_bytes()
    for readonly in (False, True):
        with pytest.raises(kind):
            Journal.open(path, readonly=readonly)
    assert (path / "data.mdb").read_bytes() == before


def test_a_store_of_the_first_format_is_refused_with_what_to_do_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "agents.sealbook"
    with Journal.open(path, create=True) as journal:
        engine = journal.view.engine
        row = StoreRow.decode(dict(rows(engine, tables.STORE))[b"store"])
        tamper(engine, *tables.STORE_PLACE, replace(row, format=1).encode())
        tamper(engine, tables.JOURNAL, b"default\0r\0" + bytes(7) + b"\1", b"as the first format keyed it")
    identity = parse_identity((path / "SEALBOOK").read_bytes(), row.engine_format)
    (path / "SEALBOOK").write_bytes(replace(identity, format=1).encode())
    before = (path / "data.mdb").read_bytes()
    choices: list[dict[str, Any]] = [{}, {"readonly": True}, {"create": True}, {"reindex": True}]
    for options in choices:
        with pytest.raises(WrongFormat, match=r"has format 1, this build reads 2: .* go on in a new store"):
            Journal.open(path, **options)
    assert (path / "data.mdb").read_bytes() == before


def test_json_where_a_store_should_be_is_no_store() -> None:
    with pytest.raises(WrongFormat):
        parse_identity(b'{"sealbook": 1}\n', new_identity(1).engine_format)


# --- damage, wherever it is -----------------------------------------------------------------------------------------


def verbs(tenant: Tenant) -> list[Callable[[], Any]]:
    """Every verb, on what the full tenant has."""
    store_log = StoreLog(tenant.view, "example.com/store")
    return [
        *(lambda listing=listing: listing(tenant) for listing in LISTINGS.values()),
        lambda: tenant.history(reverse=True),
        lambda: tenant.runs(all=True),
        lambda: tenant.read("a"),
        lambda: tenant.read("~tenant"),
        lambda: tenant.head("open"),
        lambda: tenant.standing("open"),
        lambda: tenant.lease("open"),
        lambda: tenant.effect("open", KEY),
        lambda: tenant.admitted_as("s", "1"),
        lambda: tenant.cancellation("open"),
        lambda: tenant.count_by_outcome("failed"),
        tenant.checkpoint,
        lambda: tenant.log_positions(["a", "open"]),
        *(
            lambda run=run, size=size: tenant.inclusion_proof(run, size)
            for run in ("a", "open")
            for size in (1, 2, None)
        ),
        *(lambda size=size: tenant.consistency_proof(size) for size in (0, 1, 2)),
        journal_of(tenant).tenants,
        journal_of(tenant).info,
        store_log.checkpoint,
        store_log.tags,
        lambda: store_log.head("acme"),
        lambda: store_log.inclusion_proof("acme", "a"),
        lambda: store_log.leaf_entries(0, 10),
        store_log.gather,
        lambda: tenant.seal("a"),
        lambda: tenant.anchor("open"),
        tenant.anchor_open,
        lambda: tenant.adopt_log("elsewhere", OLD_CHECKPOINT, actor="ann"),
        lambda: tenant.append("open", [entries.note("x")], epoch=1),
        lambda: tenant.append("open", [entries.effect_done(KEY)], epoch=1),
        lambda: tenant.append("new", [entries.admitted(source="s", id="1")], epoch=1),
        lambda: tenant.append("open", [entries.note("x")], epoch=1, after=Head(1, bytes(32))),
        lambda: tenant.acquire("open", owner="v", ttl=10),
        lambda: tenant.request_cancel("open", actor="bob"),
        lambda: tenant.force_lease("open", actor="bob", reason="x"),
    ]


def answers_or_says_why(engine: MemoryEngine, verb: Callable[[], Any], before: Rows) -> None:
    """The verb may answer; if it fails, it does so by an error of ours, in one line, and leaves everything."""
    said = None
    with contextlib.suppress(SealbookError):
        try:
            verb()
        except SealbookError as error:
            said = str(error)
            raise
    if said is not None:
        assert said.isprintable()
        assert all_rows(engine) == before


def restored(engine: MemoryEngine, before: Rows) -> None:
    """Put every row back as it was."""
    for table, page in before.items():
        now = dict(rows(engine, table))
        for key in now.keys() - dict(page).keys():
            tamper(engine, table, key, None)
        for key, value in page:
            if now.get(key) != value:
                tamper(engine, table, key, value)


# Nothing was signed, adopted or gathered in the store of these tests, and `test_reading` has a run of many blocks.
UNUSED = (tables.SIGNERS, tables.CHECKPOINTS, tables.ORIGINS, tables.HEADS, tables.ARRIVALS)


@pytest.mark.slow
@pytest.mark.parametrize("table", tables.TABLES)
def test_no_damage_to_any_row_escapes_as_anything_but_an_error_of_ours(
    full: Tenant, clock: ManualClock, engine: MemoryEngine, table: str
) -> None:
    before = all_rows(engine)
    if not before[table]:
        assert table in UNUSED
        return
    for key, value in before[table]:
        damages: list[bytes | None] = [None, b"", value[:-1], value + b"\0", bytes(len(value)), b"\xff" * len(value)]
        for damaged in damages:
            tamper(engine, table, key, damaged)
            damaged_rows = all_rows(engine)
            for verb in verbs(full):
                answers_or_says_why(engine, verb, damaged_rows)
                restored(engine, damaged_rows)
            restored(engine, before)


@pytest.mark.slow
@pytest.mark.parametrize("table", tables.TABLES)
def test_no_foreign_row_escapes_as_anything_but_an_error_of_ours(
    full: Tenant, engine: MemoryEngine, table: str
) -> None:
    before = all_rows(engine)
    keys = [key for key, _ in before[table]] or [b"acme\0"]
    foreign = {b"acme\0", b"acme\0\xff", b"acme\0open\0", b"acme\0a\0" + bytes(9), b"acme\0c\0", b"\xff"}
    foreign |= {key + b"\0" for key in keys} | {key[:-1] + b"\xfe" for key in keys} | {key[:-1] for key in keys}
    for key in sorted(foreign - {key for key, _ in before[table]}):
        tamper(engine, table, key, b"foreign")
        damaged_rows = all_rows(engine)
        for verb in verbs(full):
            answers_or_says_why(engine, verb, damaged_rows)
            restored(engine, damaged_rows)
        restored(engine, before)


def test_a_corrupt_row_is_named_by_table_and_key_in_words_that_people_read(full: Tenant, engine: MemoryEngine) -> None:
    key = tables.run_key("acme", "open")
    tamper(engine, tables.STATE, key, b"\1")
    with pytest.raises(Corrupt, match="open, table state key acme/open: the state row is damaged"):
        full.standing("open")
    row = replace(Corrupt("x"), table="journal", key=b"acme\0r\0" + bytes(7) + b"\1")
    assert str(row).startswith("table journal key acme/r/")
