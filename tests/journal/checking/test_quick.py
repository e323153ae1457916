"""A check at a level below `deep`: what each level finds, what it says it left out, and what an auditor brings."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import cbor2
import pytest
from tampering import all_rows, changed, engine_of, flipped, long_store, random_history, rich_store, rows

from sealbook.journal import Ed25519Signer, Journal, Level, Outside, Trust, entries
from sealbook.journal.checking import records
from sealbook.journal.checking.quick import Elsewhere
from sealbook.journal.checking.records import Range, Swept
from sealbook.journal.checking.report import CheckReport, beyond
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.names import OPERATOR_RUN
from sealbook.journal.records.row import decode_row, encode_row
from sealbook.journal.schema import tables
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry
from sealbook.merkle.tree import Node

LEVELS = list(Level)
BELOW = [level for level in Level if level < Level.DEEP]


def told(report: CheckReport) -> list[str]:
    return [str(finding) for finding in report.findings]


# --- sound stores ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_a_sound_store_has_no_findings_at_any_level(level: Level) -> None:
    for store in (rich_store(), long_store(), *(random_history(seed) for seed in range(12))):
        report = store.check(level=level)
        assert told(report) == []
        assert report.records == len(rows(engine_of(store), tables.JOURNAL))
        assert report.runs == len(rows(engine_of(store), tables.STATE))
        assert report.level is level


def test_each_level_says_what_it_left_out_and_the_deepest_leaves_out_nothing() -> None:
    left = [len(beyond(level)) for level in LEVELS]
    assert left == [4, 3, 2, 1, 0]
    store = rich_store()
    for level in LEVELS:
        assert set(beyond(level)) <= set(store.check(level=level).not_checked)


@pytest.mark.parametrize("level", LEVELS)
def test_a_store_that_is_written_to_is_checked_without_a_false_alarm(level: Level, tmp_path: Path) -> None:
    """Behaviour B43: seals, anchors and records that come while it is checked are no findings."""
    with Journal.open(tmp_path / "s", create=True) as journal:
        tenant, done = journal.tenant(), threading.Event()
        tenant.append("first", [entries.note("x")], epoch=1)

        def write() -> None:
            number = 0
            while not done.is_set():
                number += 1
                end = entries.concluded("completed" if number % 2 else "failed")
                tenant.append(f"run-{number % 40 + number // 40 * 1000}", [entries.note("x"), end], epoch=1)
                if number % 2:
                    tenant.seal(f"run-{number % 40 + number // 40 * 1000}")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            reports = [journal.check(level=level, elsewhere=elsewhere(journal)) for _ in range(8)]
        finally:
            done.set()
            writer.join()
        assert [told(report) for report in reports] == [[]] * 8


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_changed_byte_of_a_record_is_found_at_level_chain_with_run_and_seq() -> None:
    store = rich_store()
    engine = engine_of(store)
    tenant = store.tenants()[0]
    named = {record.arrival: (tenant, record.run, record.seq) for record in store.tenant(tenant).history(limit=1000)}
    assert len(named) > 3
    for arrival, place in named.items():
        row = (tables.JOURNAL, tables.number_key(tenant, arrival))
        value = rows(engine, tables.JOURNAL)[row[1]]
        level = Level.CHAIN if decode_row(value, None, None).signature is None else Level.SIGNATURES
        for at in range(0, len(value), 5 if arrival > 2 else 1):
            with changed(engine, {row: flipped(value, at)}):
                report = store.check(level=level)
            assert report.findings, (arrival, at)
            assert place in {(each.tenant, each.run, each.seq) for each in report.findings}, (at, told(report))


@pytest.mark.parametrize("level", LEVELS)
def test_a_record_that_is_gone_is_found_at_every_level_under_its_run_and_seq(level: Level) -> None:
    store = rich_store()
    engine = engine_of(store)
    for name in store.tenants():
        for record in store.tenant(name).history(limit=1000):
            with changed(engine, {(tables.JOURNAL, tables.number_key(name, record.arrival)): None}):
                found = store.check(level=level).findings
            places = {(finding.tenant, finding.run, finding.seq) for finding in found}
            assert (name, record.run, record.seq) in places, (record.run, record.seq, found)


def forged(value: bytes) -> bytes:
    """The record with another kind and a hash that fits."""
    row = decode_row(value, None, None)
    body = row.body.replace(b"Note", b"Nope", 1)
    assert body != row.body
    return encode_row(row._replace(body=body, hash=chain_hash(row.prev, body)))


def notes(store: Journal) -> dict[bytes, bytes]:
    """The rows of the notes that are not the newest of their run."""
    found = rows(engine_of(store), tables.JOURNAL)
    return {key: value for key, value in sorted(found.items())[4:20] if b"Note" in value}


def test_a_record_that_was_written_anew_with_a_hash_that_fits_breaks_its_chain() -> None:
    store = long_store()
    for key, value in notes(store).items():
        with changed(engine_of(store), {(tables.JOURNAL, key): forged(value)}):
            report = store.check(level=Level.CHAIN)
            assert told(store.check(level=Level.STRUCTURE)) == []
        assert any("does not follow the one before it" in each for each in told(report))


@pytest.mark.parametrize("table", [tables.LEAVES, tables.NODES, tables.CHECKPOINTS])
def test_every_changed_row_of_a_log_is_found_at_level_log(table: str) -> None:
    store = rich_store()
    engine = engine_of(store)
    held = rows(engine, table)
    assert len(held) > 1
    for key, value in held.items():
        with changed(engine, {(table, key): flipped(value, len(value) - 1)}):
            assert store.check(level=Level.LOG).findings, (table, key)


def one_sealed_run() -> Journal:
    journal = Journal.in_memory()
    journal.tenant().append("r", [entries.note("x"), entries.concluded("completed")], epoch=1, seal=True)
    return journal


def test_a_leaf_that_attests_another_hash_is_found_at_level_log_with_a_fitting_tree() -> None:
    journal = one_sealed_run()
    engine = engine_of(journal)
    place = (tables.LEAVES, tables.number_key("default", 0))
    entry = LeafEntry.decode(rows(engine, tables.LEAVES)[place[1]])
    other = LeafEntry(entry.type, entry.run_tag, entry.seq, bytes(32))
    with changed(engine, {place: other.encode(), tables.node_place("default", Node(0, 0)): bytes(other.hash())}):
        [finding] = journal.check(level=Level.LOG).findings
    assert (finding.run, finding.seq, finding.what) == ("r", 2, "the leaf attests another hash than the record's")


def test_bytes_that_hash_right_and_are_not_canonical_are_found_at_level_chain() -> None:
    """Behaviour B8."""
    journal = one_sealed_run()
    engine = engine_of(journal)
    place = (tables.JOURNAL, tables.number_key("default", 2))
    row = decode_row(rows(engine, tables.JOURNAL)[place[1]], None, None)
    body = cbor2.dumps(dict(reversed(cbor2.loads(row.body).items())))
    with changed(engine, {place: encode_row(row._replace(body=body, hash=chain_hash(row.prev, body)))}):
        found = journal.check(level=Level.CHAIN).findings
    assert found[0].what == "the body is not in its canonical encoding"
    assert (found[0].run, found[0].seq) == ("r", 2)


def test_the_last_record_of_a_run_is_held_to_what_the_run_s_state_says() -> None:
    journal = one_sealed_run()
    engine = engine_of(journal)
    place = (tables.JOURNAL, tables.number_key("default", 2))
    row = decode_row(rows(engine, tables.JOURNAL)[place[1]], None, None)
    body = row.body.replace(b"completed", b"cancelled")
    assert body != row.body
    with changed(engine, {place: encode_row(row._replace(body=body, hash=chain_hash(row.prev, body)))}):
        assert told(journal.check(level=Level.STRUCTURE)) == []
        [finding] = journal.check(level=Level.CHAIN).findings
    assert (finding.run, finding.seq) == ("r", 2)
    assert finding.what == "the run's state has another head than its last record"


def test_records_cut_off_at_the_end_are_found_by_what_counts_them() -> None:
    journal = one_sealed_run()
    place = (tables.JOURNAL, tables.number_key("default", 2))
    with changed(engine_of(journal), {place: None}):
        for level in BELOW:
            assert {(each.run, each.seq) for each in journal.check(level=level).findings} >= {("r", 2)}


def test_deep_finds_whatever_a_lower_level_finds() -> None:
    store = rich_store()
    engine = engine_of(store)
    rng = random.Random(7)
    for place, value in rng.sample(sorted(all_rows(engine).items()), 60):
        if value:
            with changed(engine, {place: flipped(value, rng.randrange(len(value)))}):
                if any(store.check(level=level).findings for level in BELOW):
                    assert store.check().findings, place


# --- side by side ----------------------------------------------------------------------------------------------------


def elsewhere(journal: Journal, size: int = 3) -> Elsewhere:
    """Ranges that are cut small and swept one by one, in another order."""

    def run(ranges: Sequence[Range]) -> Iterator[Swept]:
        cut = [
            Range(each.tenant, first, min(first + size - 1, each.last), each.level)
            for each in ranges
            for first in range(each.first, each.last + 1, size)
        ]
        for each in reversed(cut):
            yield journal.check_range(each)

    return run


@pytest.mark.parametrize("level", BELOW)
def test_ranges_that_are_swept_apart_come_to_the_same(level: Level) -> None:
    for store in (rich_store(), long_store()):
        whole, parts = store.check(level=level), store.check(level=level, elsewhere=elsewhere(store))
        assert parts == whole


def test_a_chain_that_breaks_between_two_ranges_is_found() -> None:
    store = long_store()
    for key, value in notes(store).items():
        with changed(engine_of(store), {(tables.JOURNAL, key): forged(value)}):
            assert store.check(level=Level.CHAIN, elsewhere=elsewhere(store, 1)).findings


def test_runs_that_are_not_remembered_are_followed_by_the_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "HEADS_MAX", 1)
    journal = Journal.in_memory()
    for seq in range(1, 70):
        for run in ("a", "b", "c"):
            journal.tenant().append(run, [entries.note(f"{seq}")], epoch=1)
    assert told(journal.check(level=Level.CHAIN)) == []
    key = tables.number_key("default", 100)
    value = rows(engine_of(journal), tables.JOURNAL)[key]
    with changed(engine_of(journal), {(tables.JOURNAL, key): forged(value)}):
        [finding] = journal.check(level=Level.CHAIN).findings
    assert (finding.run, finding.seq, finding.what) == ("a", 35, "the record does not follow the one before it")


# --- what an auditor brings ------------------------------------------------------------------------------------------


def grown() -> tuple[Journal, list[Checkpoint]]:
    journal = Journal.in_memory(origin="example.com/log")
    heads = []
    for number in range(5):
        journal.tenant().append(f"r{number}", [entries.concluded("completed")], epoch=1, seal=True)
        heads.append(journal.tenant().checkpoint())
    return journal, heads


def held(journal: Journal, seen: Iterable[Checkpoint], level: Level = Level.DEEP) -> CheckReport:
    outside = [Outside(f"file {number}", checkpoint) for number, checkpoint in enumerate(seen, 1)]
    return journal.check(level=level, trust=Trust(outside))


@pytest.mark.parametrize("level", [Level.LOG, Level.DEEP])
def test_checkpoints_of_earlier_sizes_agree(level: Level) -> None:
    journal, heads = grown()
    report = held(journal, heads, level)
    assert told(report) == []
    assert len(report.agreed) == 5
    assert not any("without an outside checkpoint" in line for line in report.not_checked)


def test_one_outside_checkpoint_alone_is_said_to_be_one_alone() -> None:
    journal, heads = grown()
    assert any("one outside checkpoint alone" in line for line in held(journal, heads[:1]).not_checked)
    assert not any("one outside checkpoint alone" in line for line in held(journal, heads[:2]).not_checked)


@pytest.mark.parametrize("level", [Level.LOG, Level.DEEP])
@pytest.mark.parametrize(
    ("checkpoint", "what"),
    [
        (Checkpoint("example.com/log", 3, bytes(32)), "the log was rewritten"),
        (Checkpoint("example.com/log", 6, bytes(32)), "the log shrank: it has 5 leaves, and 6 were seen"),
        (Checkpoint("example.com/other", 2, bytes(32)), "it is of another log"),
    ],
)
def test_each_outside_checkpoint_is_a_constraint_of_its_own(level: Level, checkpoint: Checkpoint, what: str) -> None:
    """Behaviour P55, P58, B19: not the tallest one alone, which a fork would have chosen."""
    journal, heads = grown()
    report = held(journal, [heads[1], checkpoint, heads[4]], level)
    [finding] = report.findings
    assert finding.what.startswith("checkpoint file 2: ")
    assert what in finding.what
    assert len(report.agreed) == 2


def test_a_log_that_went_on_under_another_origin_is_held_to_what_it_went_on_from() -> None:
    store = rich_store()
    for tenant in store.tenants():
        for record in store.tenant(tenant).read(OPERATOR_RUN):
            if record.kind == "LogAdopted":
                old = Checkpoint(record.data["old_origin"], record.data["old_size"], record.data["old_root"])
                break
        else:
            continue
        break
    assert told(held(store, [old])) == []
    assert "went on from another root" in held(store, [Checkpoint(old.origin, old.size, bytes(32))]).findings[0].what
    assert "were seen" in held(store, [Checkpoint(old.origin, old.size + 1, bytes(32))]).findings[0].what


@pytest.mark.parametrize("level", [Level.SIGNATURES, Level.LOG, Level.DEEP])
def test_only_the_keys_that_were_given_count_and_unsigned_records_where_none_may_be(level: Level) -> None:
    ada, bob = Ed25519Signer(bytes([1]) * 32), Ed25519Signer(bytes([2]) * 32)
    journal = Journal.in_memory(signer=ada)
    journal.tenant().append("r", [entries.note("x"), entries.note("y")], epoch=1)
    given = Trust((), frozenset({ada.public_key}), True)
    assert told(journal.check(level=level, trust=given)) == []
    assert not any("people whom you trust" in line for line in journal.check(level=level, trust=given).not_checked)
    [finding] = journal.check(level=level, trust=Trust((), frozenset({bob.public_key}))).findings
    assert (finding.run, finding.seq) == ("r", 1)
    assert "a key that was not given" in finding.what
    plain = Journal.in_memory()
    plain.tenant().append("r", [entries.note("x")], epoch=1)
    assert told(plain.check(level=level)) == []
    [unsigned] = plain.check(level=level, trust=Trust(signatures_required=True)).findings
    assert unsigned.what == "the record is not signed"
    assert [each.what for each in plain.tenant().verify("r", trust=Trust(signatures_required=True)).findings] == [
        "the record is not signed"
    ]


def test_every_finding_says_what_it_means() -> None:
    store = rich_store()
    engine = engine_of(store)
    meanings = {}
    for table in set(tables.TABLES) - {tables.ARRIVALS}:
        place = (table, min(rows(engine, table)))
        value = rows(engine, table)[place[1]]
        with changed(engine, {place: flipped(value, len(value) - 1) if value else None}):
            found = store.check().findings
        assert found, table
        meanings[table] = found[0].means
    assert all(meanings.values())
    assert len(set(meanings.values())) > 8
