"""What becomes of a check when the lookup is damaged: no record is hidden by it, and the damage alone is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tampering import all_rows, change, changed, engine_of, forge, long_store, record_place, rich_store, rows

from sealbook.indexes.packing import u64
from sealbook.indexes.standing import unpack
from sealbook.journal import CheckReport, Finding, Journal, entries
from sealbook.journal.checking.lookups import SEARCHES_MAX
from sealbook.journal.engine.port import Place
from sealbook.journal.records.row import decode_row, encode_row
from sealbook.journal.schema import tables

BLOCK: Place = (tables.ARRIVALS, tables.block_key("acme", "long", 0))
LONG: Place = (tables.STATE, tables.run_key("acme", "long"))
SHORT: Place = (tables.STATE, tables.run_key("acme", "short"))


@pytest.fixture
def store() -> Journal:
    return long_store()


def located(report: CheckReport) -> list[Place]:
    return [(finding.table or "", finding.key or b"") for finding in report.findings]


def swapped(value: bytes, at: int) -> bytes:
    """The value with two arrivals next to each other exchanged."""
    return value[:at] + value[at + 8 : at + 16] + value[at : at + 8] + value[at + 16 :]


DAMAGES: dict[str, tuple[Place, Callable[[bytes], bytes | None]]] = {
    "a block is gone": (BLOCK, lambda value: None),
    "a block is cut off": (BLOCK, lambda value: value[:-8]),
    "a block has another run's arrival": (BLOCK, lambda value: value[:-8] + u64(21)),
    "a block has a number that was never given": (BLOCK, lambda value: u64(999) + value[8:]),
    "a block has arrivals in another order": (BLOCK, lambda value: swapped(value, 80)),
    "a state is gone": (SHORT, lambda value: None),
    "a long run's state is gone": (LONG, lambda value: None),
    "a state is damaged": (SHORT, lambda value: b"\xff" + value[1:]),
    "a state has arrivals in another order": (SHORT, lambda value: swapped(value, len(value) - 16)),
    "a state has another run's arrival": (SHORT, lambda value: value[:-8] + u64(3)),
    "a state counts a block more": (LONG, lambda value: value[:1] + (130).to_bytes(8, "little") + value[9:]),
    "a state counts a block less": (LONG, lambda value: value[:1] + (2).to_bytes(8, "little") + value[9:]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_lookup_is_the_one_thing_found_and_hides_no_record(store: Journal, damage: str) -> None:
    place, damaged = DAMAGES[damage]
    sound = store.check()
    with changed(engine_of(store), {place: damaged(all_rows(engine_of(store))[place])}):
        report = store.check()
    assert located(report) == [place], report.findings
    assert (report.records, report.runs, report.index_rows) == (sound.records, sound.runs, sound.index_rows)


@pytest.mark.parametrize("run", ["long", "short"])
def test_a_state_that_was_put_back_to_an_older_one_is_found(store: Journal, run: str) -> None:
    place = (tables.STATE, tables.run_key("acme", run))
    older = all_rows(engine_of(store))[place]
    store.tenant("acme").append(run, [entries.note("later", case="c")], epoch=1)
    assert store.check().ok
    change(engine_of(store), {place: older})
    assert located(store.check()) == [place]


def test_a_run_of_which_nothing_but_records_is_left_is_derived_from_them() -> None:
    journal = rich_store()
    engine, sound = engine_of(journal), journal.check()
    place = (tables.STATE, tables.run_key("third", "r"))
    positions = {row: None for row in all_rows(engine) if row[0] in ("positions", "batched") and b"third\0r" in row[1]}
    with changed(engine, {place: None, **positions}):
        report = journal.check()
    assert place in located(report) and report.records == sound.records
    assert (tables.TENANTS, b"third") not in located(report)


def test_a_missing_record_is_named_by_its_number_and_by_whose_it_was(store: Journal) -> None:
    for run, seq in (("long", 1), ("long", 64), ("long", 66), ("short", 2)):
        place = record_place(engine_of(store), "acme", run, seq)
        with changed(engine_of(store), {place: None}):
            [finding] = store.check().findings
        assert (finding.run, finding.seq, finding.table, finding.key) == (run, seq, *place)


def test_records_that_are_missing_over_the_end_of_a_block_are_one_finding(store: Journal) -> None:
    places = [record_place(engine_of(store), "acme", "long", seq) for seq in (63, 64, 65)]
    with changed(engine_of(store), dict.fromkeys(places)):
        report = store.check()
    assert located(report) == places[:1]
    assert "63 to 65 are missing" in report.findings[0].what


def test_a_record_that_no_run_leads_to_is_named(store: Journal) -> None:
    engine = engine_of(store)
    value = all_rows(engine)[record_place(engine, "acme", "short", 2)]
    planted = (tables.JOURNAL, tables.number_key("acme", 70))
    row = decode_row(value, "short", 2)
    for changes in (row._replace(arrival=70), row._replace(arrival=70, hash=bytes(32)), row):
        with changed(engine, {planted: encode_row(changes)}):
            assert planted in located(store.check())


def test_a_record_in_the_place_of_another_runs_is_named(store: Journal) -> None:
    engine = engine_of(store)
    place, other = record_place(engine, "acme", "long", 5), record_place(engine, "acme", "short", 1)
    row = decode_row(all_rows(engine)[other], "short", 1)
    for forged in (row, row._replace(arrival=5)):
        with changed(engine, {place: encode_row(forged)}):
            assert place in located(store.check())
            assert place in located(store.tenant("acme").verify("long"))


def test_a_record_that_says_another_arrival_than_its_own_is_one_finding(store: Journal) -> None:
    engine = engine_of(store)
    place = record_place(engine, "acme", "short", 1)
    value = all_rows(engine)[place]
    with changed(engine, {place: bytes(8) + value[8:]}):
        [finding] = store.check().findings
    assert (finding.table, finding.key) == place and "its row says 0" in finding.what


def test_verifying_one_run_names_a_damaged_lookup(store: Journal) -> None:
    for damage in DAMAGES.keys() - {"a state is gone"}:  # nothing else would say that there is such a run
        place, damaged = DAMAGES[damage]
        with changed(engine_of(store), {place: damaged(all_rows(engine_of(store))[place])}):
            report = store.tenant("acme").verify("short" if place == SHORT else "long")
        assert located(report) == [place], damage
    assert any("does not count" in line for line in store.tenant("acme").verify("long").not_checked)


def test_more_lost_runs_than_are_searched_for_are_all_found() -> None:
    journal = Journal.in_memory()
    tenant = journal.tenant("acme")
    runs = [f"r{number:02}" for number in range(SEARCHES_MAX + 5)]
    for run in runs:
        tenant.append(run, [entries.note("n"), entries.effect_started(bytes(32), name="e")], epoch=1)
    engine = engine_of(journal)
    change(engine, {(tables.STATE, key): None for key in rows(engine, tables.STATE)})
    report = journal.check()
    assert {finding.run for finding in report.damaged} >= set(runs)
    unsearched = [finding for finding in report.damaged if "searched for already" in finding.what]
    assert {finding.run for finding in unsearched} == set(runs[SEARCHES_MAX:])


def test_a_damaged_record_of_a_run_that_nobody_searched_for_is_found_all_the_same() -> None:
    journal = Journal.in_memory()
    tenant = journal.tenant("acme")
    for number in range(SEARCHES_MAX + 1):
        tenant.append(f"r{number:02}", [entries.effect_started(bytes(32), name="e")], epoch=1)
    engine = engine_of(journal)
    place = record_place(engine, "acme", f"r{SEARCHES_MAX:02}", 1)
    row = decode_row(all_rows(engine)[place], "r", 1)
    states: dict[Place, bytes | None] = {(tables.STATE, key): None for key in rows(engine, tables.STATE)}
    change(engine, {**states, place: encode_row(row._replace(hash=bytes(32)))})
    assert place in located(journal.check())


def test_no_finding_is_about_a_record_that_is_where_it_belongs() -> None:
    """A forged record that no state counts is found by what its run's state should say."""
    journal = long_store()
    seq = forge(journal, "acme", "short", "Note", epoch=1, case="c")
    report = journal.check()
    state = unpack("acme", "short", rows(engine_of(journal), tables.STATE)[SHORT[1]])
    assert (seq, state.records) == (4, 3)
    assert SHORT in located(report)
    assert not any(isinstance(each, Finding) and each.table == tables.JOURNAL for each in report.findings)


def test_runs_that_were_leased_and_have_no_record_yet_are_no_reason_to_search() -> None:
    with Journal.in_memory() as journal:
        for number in range(SEARCHES_MAX + 5):
            journal.tenant("acme").acquire(f"run-{number}", owner="w", ttl=60)
        assert journal.check().ok
