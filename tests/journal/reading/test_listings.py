"""Records in pages, standings, and every listing: their order, their ends, and what they never skip."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from refusals import refused_without_a_trace
from store_checks import in_pages
from whole_journal import journal_of

from sealbook.indexes import activity, case, outcome, source, waiting
from sealbook.indexes.packing import i64, text, u64
from sealbook.journal import Corrupt, EffectKey, InvalidInput, Journal, NotFound, Tenant, entries
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Row, Snapshot
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.row import decode_row, encode_row
from sealbook.journal.schema import tables
from sealbook.journal.testing import ManualClock, delete_records, rows, tamper, tamper_body

KEY = EffectKey("charge")


def names(standings: Any) -> list[str]:
    return [standing.run for standing in standings]


class Watched(MemoryEngine):
    """Counts snapshots and the rows that they give out."""

    snapshots = 0
    rows_read = 0

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        self.snapshots += 1
        with super().snapshot() as snapshot:
            yield _Counted(self, snapshot)


class _Counted:
    def __init__(self, watched: Watched, snapshot: Snapshot) -> None:
        self._watched, self._snapshot = watched, snapshot
        self.count, self.version = snapshot.count, snapshot.version

    def get_many(self, places: Any) -> list[bytes | None]:
        self._watched.rows_read += len(places)
        return self._snapshot.get_many(places)

    def scan(self, *args: Any, **options: Any) -> list[Row]:
        page = self._snapshot.scan(*args, **options)
        self._watched.rows_read += len(page)
        return page


# --- records (A75 to A78) -------------------------------------------------------------------------------------------


def test_reading_is_1_based_inclusive_and_empty_past_the_end(acme: Tenant) -> None:
    acme.append("r", [entries.note(str(number)) for number in range(4)], epoch=1)
    expected = {0: [1, 2, 3, 4], 1: [1, 2, 3, 4], 3: [3, 4], 4: [4], 5: [], 2**63 - 1: []}
    for start, seqs in expected.items():
        assert [record.seq for record in acme.read("r", start=start)] == seqs
    assert list(acme.read("unknown")) == []
    assert list(acme.read("r", limit=0)) == []


def test_a_page_that_starts_late_goes_on_from_there(acme: Tenant) -> None:
    acme.append("r", [entries.note(str(number)) for number in range(9)], epoch=1)
    assert [record.seq for record in in_pages(acme.read, "r", start=5)] == [5, 6, 7, 8, 9]


def test_a_page_reads_no_more_than_it_returns(clock: ManualClock) -> None:
    engine = Watched(clock=clock)
    acme = Journal.over(engine, clock=clock).tenant("acme")
    acme.append("r", [entries.note("x", case="c") for _ in range(2000)], epoch=1)
    verbs: list[Callable[[], Any]] = [
        lambda: acme.read("r", start=500, limit=10),
        lambda: acme.history(start=500, limit=10),
        lambda: acme.history(limit=10, reverse=True),
        lambda: acme.case_history("c", limit=10),
    ]
    for verb in verbs:
        engine.rows_read = 0
        assert len(verb()) == 10
        assert engine.rows_read <= 30


def test_each_answer_comes_from_one_snapshot(clock: ManualClock) -> None:
    """Behaviour D6: what an answer holds belongs together."""
    engine = Watched(clock=clock)
    acme = Journal.over(engine, clock=clock).tenant("acme")
    batch = [entries.admitted(source="s", id="1", case="c"), entries.effect_started(KEY, name="n")]
    acme.append("r", [*batch, entries.concluded("done")], epoch=1, seal=True)
    verbs: list[Callable[[], Any]] = [
        acme.checkpoint,
        lambda: acme.inclusion_proof("r"),
        lambda: acme.consistency_proof(0),
        lambda: acme.log_positions(["r", "s"]),
        lambda: acme.read("r"),
        acme.history,
        acme.runs,
        acme.recent,
        lambda: acme.recent_from("s"),
        acme.waiting,
        acme.abandoned,
        lambda: acme.by_outcome("done"),
        lambda: acme.count_by_outcome("done"),
        lambda: acme.case_history("c"),
        lambda: acme.effects("r"),
        lambda: acme.standing("r"),
        lambda: acme.cancellation("r"),
    ]
    for verb in verbs:
        engine.snapshots = 0
        verb()
        assert engine.snapshots == 1


def test_the_head_of_an_unknown_run_is_genesis_and_of_a_known_one_its_last_record(acme: Tenant) -> None:
    assert (acme.head("r").seq, acme.head("r").hash) == (0, bytes(32))
    made = acme.append("r", [entries.note("x"), entries.note("y")], epoch=1)
    assert (acme.head("r").seq, acme.head("r").hash) == (2, made[-1].hash)


def test_a_damaged_record_stops_the_page_and_is_named(acme: Tenant, engine: MemoryEngine) -> None:
    made = acme.append("r", [entries.note(str(number), case="c") for number in range(5)], epoch=1)
    tamper_body(engine, "acme", "r", 3, made[2].body.replace(b"2", b"9", 1))
    verbs: list[Callable[[], Any]] = [lambda: acme.read("r"), lambda: acme.case_history("c")]
    for verb in verbs:
        with pytest.raises(Corrupt) as caught:
            verb()
        assert (caught.value.run, caught.value.seq) == ("r", 3)
    with pytest.raises(Corrupt) as caught:
        acme.history()
    assert (caught.value.run, caught.value.seq, caught.value.key) == ("r", 3, tables.number_key("acme", 3))
    assert [record.arrival for record in acme.history(start=4)] == [4, 5]
    assert [record.seq for record in acme.read("r", limit=2)] == [1, 2]
    assert [record.seq for record in acme.read("r", start=4)] == [4, 5]


def test_any_byte_of_any_row_of_a_run_that_changes_is_found_by_reading(acme: Tenant, engine: MemoryEngine) -> None:
    """The arrival stands outside the hash, and is the row's key."""
    acme.append("r", [entries.note("a"), entries.note("b")], epoch=1)
    for key, value in rows(engine, tables.JOURNAL):
        seq = key[-1]
        for index in range(len(value)):
            tamper(engine, tables.JOURNAL, key, value[:index] + bytes([value[index] ^ 0x10]) + value[index + 1 :])
            with pytest.raises(Corrupt) as caught:
                acme.read("r")
            assert caught.value.run == "r"
            assert caught.value.seq in (seq, seq + 1)
            with pytest.raises(Corrupt) as caught:
                acme.history()
            assert caught.value.run == "r" or caught.value.key == key
        tamper(engine, tables.JOURNAL, key, value)


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_a_missing_record_is_named_and_never_skipped(acme: Tenant, engine: MemoryEngine, seq: int) -> None:
    acme.append("r", [entries.note(str(number), case="c") for number in range(3)], epoch=1)
    tamper(engine, tables.JOURNAL, tables.number_key("acme", seq), None)
    verbs: list[Callable[[], Any]] = [lambda: acme.read("r"), acme.history, lambda: acme.case_history("c")]
    for verb in verbs:
        with pytest.raises(Corrupt):
            verb()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_record_that_the_tenant_does_not_count_is_corrupt(acme: Tenant, engine: MemoryEngine, reverse: bool) -> None:
    acme.append("r", [entries.note("a"), entries.note("b")], epoch=1)
    value = rows(engine, tables.JOURNAL)[-1][1]
    for arrival in (0, 3, 7, 2**63):
        key = tables.number_key("acme", arrival)
        tamper(engine, tables.JOURNAL, key, value)
        with pytest.raises(Corrupt):
            acme.history(reverse=reverse)
        tamper(engine, tables.JOURNAL, key, None)
    assert len(acme.history(reverse=reverse)) == 2


def test_a_run_of_many_blocks_is_read_from_anywhere(acme: Tenant) -> None:
    for start in range(0, 200, 50):
        acme.append("r", [entries.note(str(number), case="c") for number in range(start, start + 50)], epoch=1)
        acme.append("s", [entries.note("between", case="c")], epoch=1)
    for start, limit in ((1, 200), (1, 64), (64, 1), (64, 2), (65, 64), (100, 60), (128, 1), (129, 72), (193, 9)):
        page = acme.read("r", start=start, limit=limit)
        expected = list(range(start, min(start + limit, 201)))
        assert [record.seq for record in page] == expected == [int(record.data["text"]) + 1 for record in page]
    for size in (1, 7, 64, 100, 1000):
        found = [(record.run, record.seq) for record in in_pages(acme.case_history, "c", size=size)]
        assert found == [*(("r", seq) for seq in range(1, 201)), *(("s", seq) for seq in range(1, 5))]


DAMAGED_BLOCKS = [None, b"", bytes(8 * 64), bytes(8 * 63), b"\xff" * 8 * 64]


@pytest.mark.parametrize("damage", DAMAGED_BLOCKS, ids=["gone", "empty", "zeros", "short", "beyond"])
def test_a_damaged_block_of_arrivals_is_corrupt(acme: Tenant, engine: MemoryEngine, damage: bytes | None) -> None:
    acme.append("r", [entries.note(str(number), case="c") for number in range(70)], epoch=1)
    tamper(engine, tables.ARRIVALS, tables.block_key("acme", "r", 0), damage)
    verbs: list[Callable[[], Any]] = [lambda: acme.read("r"), lambda: acme.case_history("c")]
    for verb in verbs:
        with pytest.raises(Corrupt) as caught:
            verb()
        assert caught.value.run == "r"
    assert [record.seq for record in acme.read("r", start=65)] == list(range(65, 71))
    assert len(acme.history()) == 70


def test_arrivals_that_lead_to_another_record_are_corrupt(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.note(str(number)) for number in range(70)], epoch=1)
    key = tables.block_key("acme", "r", 0)
    value = dict(rows(engine, tables.ARRIVALS))[key]
    tamper(engine, tables.ARRIVALS, key, value[8:16] + value[:8] + value[16:])
    with pytest.raises(Corrupt, match="another place"):
        acme.read("r")


def test_a_record_that_does_not_follow_its_neighbour_is_corrupt(journal: Journal, engine: MemoryEngine) -> None:
    """Behaviour P19: every row hashes right, and the chain is another one."""
    acme = journal.tenant("acme")
    acme.append("r", [entries.note("a"), entries.note("b"), entries.note("q")], epoch=1)
    key = tables.number_key("acme", 2)
    with engine.snapshot() as snapshot:
        [value] = snapshot.get_many([(tables.JOURNAL, key)])
    row = decode_row(value or b"", "r", 2)
    for forged in (row._replace(prev=b"p" * 32), row._replace(body=row.body.replace(b"\x61b", b"\x61x"))):
        forged = forged._replace(hash=chain_hash(forged.prev, forged.body))
        tamper(engine, tables.JOURNAL, key, encode_row(forged))
        with pytest.raises(Corrupt, match="does not follow"):
            acme.read("r")
    tamper(engine, tables.JOURNAL, key, value)
    last = tables.number_key("acme", 3)
    with engine.snapshot() as snapshot:
        [value] = snapshot.get_many([(tables.JOURNAL, last)])
    row = decode_row(value or b"", "r", 3)
    forged = row._replace(body=row.body.replace(b"\x61q", b"\x61x"))
    tamper(engine, tables.JOURNAL, last, encode_row(forged._replace(hash=chain_hash(row.prev, forged.body))))
    with pytest.raises(Corrupt, match="state does not agree"):
        acme.read("r", start=3)


def test_a_record_of_another_run_or_tenant_put_in_its_place_is_corrupt(journal: Journal, engine: MemoryEngine) -> None:
    acme = journal.tenant("acme")
    for tenant, run in (("acme", "a"), ("acme", "b"), ("other", "a")):
        journal.tenant(tenant).append(run, [entries.note("x")], epoch=1)
    own = tables.number_key("acme", 1)
    for foreign in (tables.number_key("acme", 2), tables.number_key("other", 1)):
        with engine.snapshot() as snapshot:
            [value] = snapshot.get_many([(tables.JOURNAL, foreign)])
        tamper(engine, tables.JOURNAL, own, value)
        with pytest.raises(Corrupt):
            acme.read("a")


# --- arrival order --------------------------------------------------------------------------------------------------


def test_history_is_in_arrival_order_both_ways_and_from_anywhere(acme: Tenant) -> None:
    for number in range(10):
        acme.append(f"r{number % 3}", [entries.note(str(number))], epoch=1)
    assert [record.data["text"] for record in acme.history()] == [str(number) for number in range(10)]
    assert [record.arrival for record in in_pages(acme.history, size=3, reverse=True)] == list(range(10, 0, -1))
    assert [record.arrival for record in acme.history(start=8)] == [8, 9, 10]
    assert [record.arrival for record in acme.history(start=3, reverse=True)] == [3, 2, 1]
    assert list(acme.history(start=11)) == []
    assert [record.arrival for record in acme.history(start=0)][:2] == [1, 2]


def test_a_follower_goes_on_where_it_stood(acme: Tenant) -> None:
    acme.append("r", [entries.note("a"), entries.note("b")], epoch=1)
    last = acme.history()[-1].arrival
    assert list(acme.history(start=last + 1)) == []
    acme.append("s", [entries.note("c")], epoch=1)
    assert [record.run for record in acme.history(start=last + 1)] == ["s"]


def test_a_record_under_another_arrival_than_its_own_is_corrupt(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.note("a"), entries.note("b")], epoch=1)
    value = dict(rows(engine, tables.JOURNAL))[tables.number_key("acme", 2)]
    tamper(engine, tables.JOURNAL, tables.number_key("acme", 1), value)
    with pytest.raises(Corrupt, match="stands under arrival 1, its row says 2"):
        acme.history()
    tamper(engine, tables.JOURNAL, tables.number_key("acme", 1), None)
    verbs: list[Callable[[], Any]] = [
        acme.history,
        lambda: acme.history(reverse=True),
        lambda: acme.history(limit=1),
        lambda: acme.history(start=1, reverse=True),
    ]
    for verb in verbs:
        with pytest.raises(Corrupt, match="missing"):
            verb()
    tamper(engine, tables.JOURNAL, tables.number_key("acme", 3), value)  # as many rows as are counted
    with pytest.raises(Corrupt, match="the record is missing") as caught:
        acme.history()
    assert caught.value.key == tables.number_key("acme", 1)


def test_a_record_of_another_tenant_in_arrival_order_is_corrupt(acme: Tenant, engine: MemoryEngine) -> None:
    for tenant in (acme, journal_of(acme).tenant("other")):
        tenant.append("r", [entries.note("a")], epoch=1)
    value = dict(rows(engine, tables.JOURNAL))[tables.number_key("other", 1)]
    tamper(engine, tables.JOURNAL, tables.number_key("acme", 1), value)
    with pytest.raises(Corrupt, match="another place"):
        acme.history()


# --- standings ------------------------------------------------------------------------------------------------------


def test_a_standing_says_everything_about_a_run(acme: Tenant, clock: ManualClock) -> None:
    assert acme.standing("r") is None
    lease = acme.acquire("r", owner="w", ttl=10)
    first = [entries.admitted(source="s", id="1"), entries.note("x", case="c"), entries.note("y", case="d")]
    acme.append("r", first, lease=lease)
    clock.advance(1)
    acme.append(
        "r", [entries.effect_started(KEY, name="n"), entries.suspended(until="2030-01-01T00:00:00Z")], lease=lease
    )
    standing = acme.standing("r")
    assert standing is not None
    assert (standing.records, standing.head) == (5, acme.head("r").hash)
    assert (standing.epoch, standing.owner, standing.expires_at) == (1, "w", clock.wall_ms + 9000)
    assert (standing.first_arrival, standing.last_arrival) == (1, 5)
    assert (standing.admitted_at, standing.updated_at) == (clock.wall_ms - 1000, clock.wall_ms)
    assert (standing.case, standing.source, standing.last_kind) == ("c", "s", "RunSuspended")
    assert (standing.outcome, standing.until, standing.waiting) == (None, 1_893_456_000_000_000, True)
    assert (standing.effects_started, standing.effects_in_doubt) == (1, 1)
    assert (standing.sealed, standing.highest_leaf) == (False, None)
    acme.release(lease)
    standing = acme.standing("r")
    assert standing is not None
    assert (standing.epoch, standing.owner, standing.expires_at) == (1, None, None)
    acme.acquire("r", owner="v", ttl=10)
    standing = acme.standing("r")
    assert standing is not None
    assert (standing.epoch, standing.owner) == (2, "v")


def test_a_damaged_state_row_is_corrupt_wherever_it_is_read(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.note("a")], epoch=1)
    [(key, value)] = rows(engine, tables.STATE)
    for damaged in (b"", value[:-1], value + b"x", b"\1" + value[1:]):
        tamper(engine, tables.STATE, key, damaged)
        verbs: list[Callable[[], Any]] = [lambda: acme.standing("r"), acme.runs, acme.recent, lambda: acme.head("r")]
        for verb in verbs:
            with pytest.raises(Corrupt) as caught:
                verb()
            assert (caught.value.table, caught.value.key) == (tables.STATE, key)


def test_effects_are_listed_by_key_with_their_latest_attempt(acme: Tenant) -> None:
    keys = [EffectKey(str(number)) for number in range(5)]
    for key in keys:
        acme.append("r", [entries.effect_started(key, name=f"n{key.hex()[:4]}", recovery="reconcile")], epoch=1)
    acme.append("r", [entries.effect_done(keys[0])], epoch=1)
    found = in_pages(acme.effects, "r")
    assert [effect.key for effect in found] == sorted(keys)
    assert {effect.status for effect in found if effect.key != keys[0]} == {"started"}
    assert {effect.end_seq for effect in found if effect.key != keys[0]} == {None}
    assert {effect.end_seq for effect in found if effect.key == keys[0]} == {6}
    done = acme.effect("r", keys[0])
    assert done is not None
    assert (done.status, done.end_seq, done.name, done.recovery) == ("done", 6, f"n{keys[0].hex()[:4]}", "reconcile")
    assert acme.effect("r", EffectKey("never")) is None
    assert list(acme.effects("unknown")) == []
    for bad in (b"short", "00" * 32, None):
        with pytest.raises(InvalidInput, match="effect key"):
            acme.effect("r", bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(("index", "byte"), [(8, 4), (8, 255), (9, 0), (9, 6), (9, 255)])
def test_a_stored_word_that_no_build_wrote_is_corrupt(
    acme: Tenant, engine: MemoryEngine, index: int, byte: int
) -> None:
    """Behaviour A44: the recovery (byte 8) and the status (byte 9) of an effect row are read by their own lists."""
    acme.append("r", [entries.effect_started(KEY, name="n")], epoch=1)
    [(key, value)] = rows(engine, tables.EFFECTS)
    tamper(engine, tables.EFFECTS, key, value[:index] + bytes([byte]) + value[index + 1 :])
    verbs: list[Callable[[], Any]] = [
        lambda: acme.effect("r", KEY),
        lambda: acme.effects("r"),
        lambda: acme.append("r", [entries.effect_done(KEY)], epoch=1),
    ]
    for verb in verbs:
        error = refused_without_a_trace(engine, Corrupt, verb)
        assert (error.table, error.key) == (tables.EFFECTS, key)


# --- the order of listings (A87, A100 to A107) ----------------------------------------------------------------------


def test_runs_stand_in_the_order_of_their_names_as_bytes(acme: Tenant) -> None:
    given = ["b", "a", "a/b", "a b", "aa", "é", "z", "\U0001f600", "\uff5a", "A"]
    for run in given:
        acme.append(run, [entries.note("x")], epoch=1)
    expected = sorted(given, key=str.encode)
    assert names(acme.runs()) == expected
    for size in range(1, 6):
        assert names(in_pages(acme.runs, size=size)) == expected
    assert names(acme.runs(prefix="a")) == ["a", "a b", "a/b", "aa"]
    assert names(acme.runs(prefix="a/")) == ["a/b"]
    assert names(in_pages(acme.runs, size=1, prefix="a")) == ["a", "a b", "a/b", "aa"]
    assert names(acme.runs(prefix="x")) == []


def test_the_stores_own_runs_fill_no_page_of_others(acme: Tenant) -> None:
    acme.request_cancel("r", actor="ann")
    for run in ("a", "\U0001f600"):
        acme.append(run, [entries.note("x")], epoch=1)
    assert names(in_pages(acme.runs, size=1)) == ["a", "\U0001f600"]
    assert names(in_pages(acme.runs, size=1, all=True)) == ["a", "~tenant", "\U0001f600"]


def test_waiting_runs_stand_by_instant_then_name_and_those_without_an_instant_last(acme: Tenant) -> None:
    instants = {
        "event": None,
        "year 9999": "9999-12-31T23:59:59.999999Z",
        "year 2100": "2100-01-01T00:00:00Z",
        "b": "2038-01-19T03:14:08Z",
        "a": "2038-01-19T03:14:08Z",
        "1970": "1970-01-01T00:00:00Z",
        "1969": "1969-12-31T00:00:00Z",
        "year 1": "0001-01-01T00:00:00Z",
    }
    for run, until in instants.items():
        acme.append(run, [entries.suspended(until=until, awaiting={"run": run}, case="c")], epoch=1)
    expected = ["year 1", "1969", "1970", "a", "b", "year 2100", "year 9999", "event"]
    for size in (1, 3, 100):
        found = in_pages(acme.waiting, size=size)
        assert names(found) == expected
    assert [item.awaiting for item in found] == [{"run": run} for run in expected]
    assert (found[0].until, found[-1].until, found[0].case, found[0].seq) == (-62_135_596_800_000_000, None, "c", 1)


@pytest.mark.parametrize("until", ["2030-01-01T00:00:00Z", None], ids=["an instant", "an event alone"])
def test_a_wait_ends_with_any_progress_but_a_note(acme: Tenant, until: str | None) -> None:
    ends = {
        "note": entries.note("x"),
        "custom": entries.entry("Anything"),
        "started": entries.effect_started(KEY, name="n"),
        "concluded": entries.concluded("failed"),
        "suspended": entries.suspended(awaiting="more"),
    }
    for run in ends:
        acme.append(run, [entries.suspended(awaiting="x", until=until)], epoch=1)
    for run, entry in ends.items():
        acme.append(run, [entry], epoch=1)
    assert [(item.run, item.seq) for item in acme.waiting()] == [("note", 1), ("suspended", 2)]
    for run in ("note", "suspended"):
        acme.append(run, [entries.note("y"), entries.note("z")], epoch=1)
    assert [(item.run, item.seq) for item in acme.waiting()] == [("note", 1), ("suspended", 2)]


def test_an_outcome_lists_each_run_once_by_its_last_conclusion(acme: Tenant) -> None:
    for run in "abc":
        acme.append(run, [entries.concluded("failed")], epoch=1)
    acme.append("a", [entries.note("again")], epoch=1)
    assert names(acme.by_outcome("failed")) == ["c", "b", "a"]  # stays until it concludes again
    acme.append("a", [entries.concluded("failed")], epoch=1)
    assert names(acme.by_outcome("failed")) == ["a", "c", "b"]
    acme.append("b", [entries.concluded("done")], epoch=1, seal=True)
    assert (names(acme.by_outcome("failed")), names(acme.by_outcome("done"))) == (["a", "c"], ["b"])
    assert [acme.count_by_outcome(name) for name in ("failed", "done", "unknown")] == [2, 1, 0]
    assert names(acme.by_outcome("fail")) == []  # a name that another one begins with


def test_a_count_is_of_the_whole_listing_never_of_a_page(acme: Tenant) -> None:
    for number in range(1100):
        acme.append(f"r{number}", [entries.concluded("failed")], epoch=1)
    assert acme.count_by_outcome("failed") == 1100


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_recent_runs_stand_exactly_by_their_last_record_whatever_came_before(acme: Tenant, seed: int) -> None:
    chance = random.Random(seed)
    last: dict[str, int] = {}
    sources: dict[str, str] = {}
    arrival = 0
    for _ in range(300):
        run = f"r{chance.randrange(40)}"
        batch = [entries.note("x")] * chance.randrange(1, 9)
        if run not in last:
            sources[run] = chance.choice(["shop", "mail"])
            batch[0] = entries.admitted(source=sources[run], id=run)
        acme.append(run, batch, epoch=1)
        arrival += len(batch)
        last[run] = arrival
    expected = sorted(last, key=last.__getitem__, reverse=True)
    assert names(acme.recent(limit=1000)) == expected, f"seed {seed}"
    for size in (1, 2, 7, 39):
        assert names(in_pages(acme.recent, size=size)) == expected, f"seed {seed}"
        for name in ("shop", "mail"):
            own = [run for run in expected if sources[run] == name]
            assert names(in_pages(acme.recent_from, name, size=size)) == own, f"seed {seed}"


def test_the_names_of_an_index_are_each_told_once_with_a_seek_for_each(clock: Any) -> None:
    engine = Watched(clock=clock)
    journal = Journal.over(engine, clock=clock)
    acme = journal.tenant("acme")
    for number in range(40):
        name = ("a", "a-b", "aa", "b/c")[number % 4]
        batch = [entries.admitted(source=f"s{number % 3}", id=str(number), case=name), entries.concluded("failed")]
        acme.append(f"r{number}", batch, epoch=1)
    journal.tenant("acmf").append("r", [entries.note("x", case="z")], epoch=1)
    engine.rows_read = 0
    assert list(acme.names("case")) == ["a", "a-b", "aa", "b/c"]
    assert engine.rows_read == 4 + 1  # and the row that says whether the indexes are complete
    assert list(acme.names("source")) == in_pages(acme.names, "source", size=1) == ["s0", "s1", "s2"]
    assert list(acme.names("outcome")) == ["failed"]
    with pytest.raises(InvalidInput):
        acme.names("activity")
    tamper(engine, case.TABLE, text("acme") + b"\xff\0", b"")
    with pytest.raises(Corrupt):
        acme.names("case")


def test_a_case_has_the_records_of_every_run_that_wrote_for_it(acme: Tenant) -> None:
    for run in ("b", "a", "c"):
        acme.append(run, [entries.note("x", case="case/7"), entries.note("y"), entries.note("z", case="case")], epoch=1)
    found = [(record.run, record.seq) for record in acme.case_history("case/7")]
    assert found == [("a", 1), ("b", 1), ("c", 1)]
    assert [(record.run, record.seq) for record in in_pages(acme.case_history, "case")] == [
        ("a", 3),
        ("b", 3),
        ("c", 3),
    ]
    assert list(acme.case_history("unknown")) == []


def test_a_lease_is_abandoned_when_it_ran_out_in_somebodys_hands(acme: Tenant, clock: ManualClock) -> None:
    leases = {
        run: acme.acquire(run, owner=f"w-{run}", ttl=ttl) for run, ttl in (("b", 20), ("a", 20), ("c", 10), ("d", 99))
    }
    acme.append("a", [entries.admitted()], lease=leases["a"])
    acme.release(acme.acquire("released", owner="w", ttl=10))
    gone = acme.acquire("sealed", owner="w", ttl=10)
    acme.append("sealed", [entries.concluded("done")], lease=gone, seal=True)
    acme.append("never leased", [entries.admitted()], epoch=1)
    assert list(acme.abandoned()) == []
    clock.advance(20)
    found = acme.abandoned()
    assert [(item.run, item.owner, item.epoch, item.expired_at) for item in found] == [
        (run, f"w-{run}", 1, leases[run].expires_at) for run in ("c", "a", "b")
    ]
    for size in (1, 2):
        assert in_pages(acme.abandoned, size=size) == list(found)
    acme.acquire("c", owner="new", ttl=10)
    assert names(acme.abandoned()) == ["a", "b"]


# --- what no listing skips (D1, D2, A88, A91, A101) -----------------------------------------------------------------


@pytest.fixture
def full(acme: Tenant, clock: ManualClock) -> Tenant:
    for run in ("a", "b", "c"):
        lease = acme.acquire(run, owner="w", ttl=10)
        batch = [entries.admitted(source="s", id=run, case="case"), entries.concluded("failed")]
        acme.append(run, batch, lease=lease)
        acme.append(run, [entries.suspended(awaiting="x")], lease=lease)
    clock.advance(20)
    return acme


LISTINGS: dict[str, Callable[[Tenant], Any]] = {
    outcome.TABLE: lambda tenant: tenant.by_outcome("failed"),
    waiting.TABLE: lambda tenant: tenant.waiting(),
    activity.TABLE: lambda tenant: tenant.recent(),
    source.TABLE: lambda tenant: tenant.recent_from("s"),
    case.TABLE: lambda tenant: tenant.case_history("case"),
}
FOREIGN: dict[str, dict[bytes, bytes]] = {
    outcome.TABLE: {
        outcome.prefix("acme", "failed") + u64(1): b"a",
        outcome.prefix("acme", "failed") + u64(99): b"nobody",
        outcome.prefix("acme", "failed") + u64(98): b"\xff",
        outcome.prefix("acme", "failed") + b"short": b"a",
    },
    waiting.TABLE: {
        text("acme") + i64(0) + b"a": b"",
        text("acme") + i64(0) + b"nobody": b"",
        text("acme") + i64(0) + b"\xff": b"",
        text("acme") + b"x": b"",
    },
    activity.TABLE: {
        text("acme") + u64(0) + b"nobody": b"",
        text("acme") + u64(7) + b"a": b"",
        text("acme") + u64(0) + b"\xff": b"",
    },
    source.TABLE: {
        source.prefix("acme", "s") + u64(0) + b"nobody": b"",
        source.prefix("acme", "s") + u64(7) + b"a": b"",
    },
    case.TABLE: {
        case.prefix("acme", "case") + text("nobody") + u64(0): u64(1),
        case.prefix("acme", "case") + text("a") + u64(1): u64(1),
        case.prefix("acme", "case") + text("a") + u64(0): u64(3),  # the second is a record of no case
        case.prefix("acme", "case") + text("b") + u64(0): bytes(8),
        case.prefix("acme", "case") + text("c") + u64(0): u64(1) + b"\0",
        case.prefix("acme", "case") + b"\xff\0" + u64(2): u64(1),
        case.prefix("acme", "case") + b"x": u64(1),
    },
}
ROWS = [(table, key) for table, found in FOREIGN.items() for key in found]


@pytest.mark.parametrize(("table", "key"), ROWS, ids=[f"{table} {key!r}" for table, key in ROWS])
def test_a_row_that_no_run_or_record_stands_behind_is_corrupt(
    full: Tenant, engine: MemoryEngine, table: str, key: bytes
) -> None:
    assert len(LISTINGS[table](full)) == 3
    tamper(engine, table, key, FOREIGN[table][key])
    with pytest.raises(Corrupt):
        LISTINGS[table](full)
    others = [listing(full) for name, listing in LISTINGS.items() if name != table]
    assert [len(page) for page in others] == [3] * 4


@pytest.mark.parametrize("table", [outcome.TABLE, waiting.TABLE, activity.TABLE, source.TABLE])
def test_an_index_row_whose_run_is_gone_is_corrupt(full: Tenant, engine: MemoryEngine, table: str) -> None:
    tamper(engine, tables.STATE, tables.run_key("acme", "b"), None)
    with pytest.raises(Corrupt) as caught:
        LISTINGS[table](full)
    assert caught.value.run == "b"


def test_an_index_row_whose_record_is_gone_is_corrupt(full: Tenant, engine: MemoryEngine) -> None:
    """Behaviour D2, which amends A77: never skipped silently."""
    delete_records(engine, "acme", "b")
    listings: list[Callable[[], Any]] = [full.waiting, lambda: full.case_history("case")]
    for listing in listings:
        with pytest.raises(Corrupt):
            listing()


def test_a_page_that_reaches_damage_later_is_still_given(full: Tenant, engine: MemoryEngine) -> None:
    tamper(engine, tables.STATE, tables.run_key("acme", "c"), None)
    first = full.waiting(limit=1)
    assert names(first) == ["a"]
    with pytest.raises(Corrupt):
        full.waiting(limit=2, after=first.next)


def test_a_count_over_a_damaged_row_is_corrupt(full: Tenant, engine: MemoryEngine) -> None:
    assert full.count_by_outcome("failed") == 3
    tamper(engine, outcome.TABLE, outcome.prefix("acme", "failed") + b"short", b"a")
    with pytest.raises(Corrupt):
        full.count_by_outcome("failed")


@pytest.mark.parametrize("table", [tables.STATE, tables.LEASES])
def test_a_key_that_names_no_run_is_corrupt(full: Tenant, engine: MemoryEngine, table: str) -> None:
    [(_, value), *_] = rows(engine, table)
    tamper(engine, table, b"acme\0\xff", value)
    with pytest.raises(Corrupt) as caught:
        full.runs() if table == tables.STATE else full.abandoned()
    assert caught.value.key == b"acme\0\xff"


def test_rows_of_other_tenants_are_never_listed(full: Tenant, journal: Journal) -> None:
    for name in ("acm", "acme-2", "acmf", "b"):
        other = journal.tenant(name)
        other.append("z", [entries.admitted(source="s", id="1", case="case"), entries.concluded("failed")], epoch=1)
        other.append("z", [entries.suspended(awaiting="x")], epoch=1)
    for listing in LISTINGS.values():
        assert {item.run for item in listing(full)} == {"a", "b", "c"}
        assert {item.run for item in listing(journal.tenant("acm"))} == {"z"}
    assert journal.tenants() == ["acm", "acme", "acme-2", "acmf", "b"]


def test_an_unknown_run_has_no_proof_and_no_effects(acme: Tenant) -> None:
    with pytest.raises(NotFound, match="no run 'nobody'"):
        acme.inclusion_proof("nobody")
    assert list(acme.effects("nobody")) == []
    assert acme.log_positions(["nobody"]) == [None]


def test_pages_of_every_listing_are_lists_of_items(full: Tenant) -> None:
    for listing in LISTINGS.values():
        page = listing(full)
        assert (page.next, len(page), list(itertools.islice(page, 1))) == (None, 3, [page[0]])


@pytest.mark.parametrize("name", [5, b"\0", ["a"], None])
def test_a_name_that_is_no_text_is_no_name(clock: ManualClock, name: Any) -> None:
    acme = Journal.over(MemoryEngine(clock=clock), clock=clock).tenant("acme")
    acme.append("r", [entries.entry("EffectStarted", {"name": name}, effect=KEY)], epoch=1)
    assert [effect.name for effect in acme.effects("r")] == [None]
