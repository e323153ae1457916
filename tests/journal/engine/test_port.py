"""What the port promises, held against every engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sealbook.journal.engine.lmdb import LmdbEngine
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Applied, Engine, Moment, Snapshot, Work, Writes
from sealbook.journal.errors import Closed, Corrupt, ReadOnly

NOW = Moment(wall_ms=1_700_000_000_000, boot_ms=5_000, boot_id=b"b" * 16)


def clock() -> Moment:
    return NOW


def _memory(folder: Path) -> Engine:
    return MemoryEngine(clock=clock)


def _memory_twice(folder: Path) -> Engine:
    return MemoryEngine(clock=clock, call_work_twice=True)


def _lmdb(folder: Path) -> Engine:
    return LmdbEngine.create(folder / "s", identity_text=b"who", store_value=b"store", clock=clock)


ENGINES: dict[str, Callable[[Path], Engine]] = {"memory": _memory, "memory-twice": _memory_twice, "lmdb": _lmdb}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    made = ENGINES[request.param](tmp_path)
    yield made
    made.close()


def writes(puts: dict[tuple[str, bytes], bytes], **more: Any) -> Work:
    return lambda snapshot, moment: (Writes(puts=puts, **more), None)


def put(engine: Engine, puts: dict[tuple[str, bytes], bytes], **more: Any) -> None:
    assert isinstance(engine.write(writes(puts, **more)), Applied)


def get(engine: Engine, *places: tuple[str, bytes]) -> list[bytes | None]:
    with engine.snapshot() as snapshot:
        return snapshot.get_many(list(places))


def scan(engine: Engine, *args: Any, **more: Any) -> list[bytes]:
    with engine.snapshot() as snapshot:
        return [key for key, _ in snapshot.scan(*args, **more)]


def test_what_was_put_is_read_in_the_order_asked(engine: Engine) -> None:
    put(engine, {("a", b"2"): b"two", ("a", b"1"): b"one", ("b", b"1"): b"other"})
    assert get(engine, ("b", b"1"), ("a", b"9"), ("a", b"2"), ("none", b"1"), ("a", b"1")) == [
        b"other",
        None,
        b"two",
        None,
        b"one",
    ]


def test_a_table_that_was_never_written_is_empty(engine: Engine) -> None:
    with engine.snapshot() as snapshot:
        assert snapshot.get_many([("none", b"k")]) == [None]
        assert snapshot.scan("none", b"", None, 10) == []
        assert snapshot.scan("none", b"", None, 10, True) == []
        assert snapshot.count("none") == 0


def test_no_row_stands_under_the_empty_key_or_one_that_is_too_long(engine: Engine) -> None:
    put(engine, {("t", b"k"): b""})
    assert get(engine, ("t", b""), ("t", b"k" * 600)) == [None, None]


def test_an_empty_value_is_a_value(engine: Engine) -> None:
    put(engine, {("t", b"k"): b""})
    assert get(engine, ("t", b"k")) == [b""]


def test_the_longest_key_fits_and_a_longer_one_is_our_own_mistake(engine: Engine) -> None:
    longest = engine.traits.key_bytes_max
    put(engine, {("t", b"k" * longest): b"v"})
    for key in (b"", b"k" * (longest + 1)):
        with pytest.raises(AssertionError):
            put(engine, {("t", b"first"): b"v", ("t", key): b"v"})
    assert get(engine, ("t", b"first"), ("t", b"k" * longest)) == [None, b"v"]


def test_a_large_value_comes_back_whole(engine: Engine) -> None:
    value = bytes(range(256)) * (5 << 12)
    put(engine, {("t", b"k"): value})
    assert get(engine, ("t", b"k")) == [value]


def test_a_scan_takes_lo_and_leaves_hi(engine: Engine) -> None:
    put(engine, {("t", bytes([n])): b"v" for n in range(1, 9)} | {("u", b"\x01"): b"v"})
    assert scan(engine, "t", b"\x03", b"\x06", 99) == [b"\x03", b"\x04", b"\x05"]
    assert scan(engine, "t", b"\x03", b"\x06", 2) == [b"\x03", b"\x04"]
    assert scan(engine, "t", b"\x07", None, 99) == [b"\x07", b"\x08"]
    assert scan(engine, "t", b"", b"\x02", 99) == [b"\x01"]
    assert scan(engine, "t", b"\x03\x00", b"\x04\x00", 99) == [b"\x04"]


def test_a_reverse_scan_comes_down_from_hi(engine: Engine) -> None:
    put(engine, {("t", bytes([n])): b"v" for n in range(1, 9)} | {("u", b"\x01"): b"v"})
    assert scan(engine, "t", b"\x03", b"\x06", 99, reverse=True) == [b"\x05", b"\x04", b"\x03"]
    assert scan(engine, "t", b"\x03", b"\x06", 2, reverse=True) == [b"\x05", b"\x04"]
    assert scan(engine, "t", b"\x07", None, 99, reverse=True) == [b"\x08", b"\x07"]
    assert scan(engine, "t", b"\x07", b"\xff", 1, reverse=True) == [b"\x08"]
    assert scan(engine, "t", b"", b"\x01\x00", 99, reverse=True) == [b"\x01"]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_that_holds_nothing_is_an_empty_page(engine: Engine, reverse: bool) -> None:
    put(engine, {("t", b"b"): b"v", ("t", b"d"): b"v"})
    for lo, hi in ((b"c", b"d"), (b"e", None), (b"", b"b"), (b"d", b"b"), (b"", b""), (b"b", b"b")):
        assert scan(engine, "t", lo, hi, 99, reverse) == []
    assert scan(engine, "t", b"", None, 0, reverse) == []
    assert scan(engine, "t", b"", None, -1, reverse) == []


def test_a_scan_gives_keys_with_their_values(engine: Engine) -> None:
    put(engine, {("t", b"a"): b"1", ("t", b"b"): b"2"})
    with engine.snapshot() as snapshot:
        assert snapshot.scan("t", b"", None, 9) == [(b"a", b"1"), (b"b", b"2")]
        assert snapshot.scan("t", b"", None, 9, True) == [(b"b", b"2"), (b"a", b"1")]


def test_the_count_is_of_rows(engine: Engine) -> None:
    put(engine, {("t", bytes([n])): b"v" for n in range(1, 9)})
    put(engine, {("t", b"\x01"): b"w"}, deletes={("t", b"\x02")})
    with engine.snapshot() as snapshot:
        assert snapshot.count("t") == 7


def test_a_put_replaces_what_stood_there(engine: Engine) -> None:
    put(engine, {("t", b"k"): b"old"})
    put(engine, {("t", b"k"): b"new"})
    assert get(engine, ("t", b"k")) == [b"new"]


def test_a_row_that_may_not_exist_and_does_is_damage_and_nothing_is_written(engine: Engine) -> None:
    put(engine, {("t", b"k"): b"old", ("t", b"gone"): b"old"})
    with pytest.raises(Corrupt) as caught:
        put(
            engine,
            {("a", b"first"): b"v", ("t", b"k"): b"new", ("z", b"last"): b"v"},
            absent={("t", b"k")},
            deletes={("t", b"gone")},
        )
    assert (caught.value.table, caught.value.key) == ("t", b"k")
    assert get(engine, ("a", b"first"), ("t", b"k"), ("z", b"last"), ("t", b"gone")) == [None, b"old", None, b"old"]


def test_a_row_that_may_not_exist_and_does_not_is_put(engine: Engine) -> None:
    put(engine, {("t", b"k"): b"v", ("t", b"l"): b"v"}, absent={("t", b"k")})
    assert get(engine, ("t", b"k"), ("t", b"l")) == [b"v", b"v"]


@pytest.mark.parametrize("table", ["t", "never"])
def test_removing_what_is_not_there_is_damage_and_nothing_is_written(engine: Engine, table: str) -> None:
    put(engine, {("t", b"k"): b"old"})
    with pytest.raises(Corrupt) as caught:
        put(engine, {("t", b"k"): b"new", ("t", b"l"): b"v"}, deletes={(table, b"x")})
    assert (caught.value.table, caught.value.key) == (table, b"x")
    assert get(engine, ("t", b"k"), ("t", b"l")) == [b"old", None]


def test_an_exception_from_work_leaves_everything_as_it_was(engine: Engine) -> None:
    put(engine, {("t", b"k"): b"v"})

    def refuse(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        engine.write(refuse)
    put(engine, {("t", b"l"): b"v"})
    assert get(engine, ("t", b"k"), ("t", b"l")) == [b"v", b"v"]


def test_work_is_given_the_moment_and_a_view_of_what_stands(engine: Engine) -> None:
    put(engine, {("t", b"k"): b"v"})

    def look(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        return Writes(), (
            moment,
            snapshot.get_many([("t", b"k")]),
            snapshot.scan("t", b"", None, 9),
            snapshot.count("t"),
        )

    assert engine.write(look) == Applied((NOW, [b"v"], [(b"k", b"v")], 1))


def test_a_snapshot_does_not_outlive_its_block(engine: Engine) -> None:
    with engine.snapshot() as snapshot:
        pass
    with pytest.raises(AssertionError):
        snapshot.get_many([("t", b"k")])


def test_the_view_of_work_does_not_outlive_the_write(engine: Engine) -> None:
    views: list[Snapshot] = []

    def keep(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        views.append(snapshot)
        return Writes(puts={("t", b"k"): b"v"}), None

    engine.write(keep)
    with pytest.raises(AssertionError):
        views[0].get_many([("t", b"k")])


def test_a_snapshot_sees_nothing_of_a_write_that_comes_later(engine: Engine) -> None:
    put(engine, {("t", b"k"): b"old"})
    writer = threading.Thread(target=put, args=(engine, {("t", b"k"): b"new", ("later", b"k"): b"v"}))
    with engine.snapshot() as snapshot:
        writer.start()
        writer.join(0.05)
        assert snapshot.get_many([("t", b"k"), ("later", b"k")]) == [b"old", None]
        assert snapshot.count("later") == 0
    writer.join()
    assert get(engine, ("t", b"k"), ("later", b"k")) == [b"new", b"v"]


def test_writes_of_many_threads_all_count(engine: Engine) -> None:
    def increment(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        (value,) = snapshot.get_many([("t", b"n")])
        return Writes(puts={("t", b"n"): b"%d" % (int(value or 0) + 1)}), None

    def many() -> None:
        for _ in range(25):
            engine.write(increment)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert get(engine, ("t", b"n")) == [b"100"]


def test_after_close_everything_is_closed_and_closing_again_is_harmless(engine: Engine) -> None:
    engine.close()
    engine.close()
    with pytest.raises(Closed), engine.snapshot():
        pass
    with pytest.raises(Closed):
        engine.write(writes({("t", b"k"): b"v"}))


def test_close_waits_for_a_running_snapshot(engine: Engine) -> None:
    put(engine, {("t", b"k"): b"v"})
    closer = threading.Thread(target=engine.close)
    with engine.snapshot() as snapshot:
        closer.start()
        closer.join(0.05)
        assert snapshot.get_many([("t", b"k")]) == [b"v"]
    closer.join()
    with pytest.raises(Closed), engine.snapshot():
        pass


def test_an_engine_for_reading_refuses_to_write(tmp_path: Path) -> None:
    LmdbEngine.create(tmp_path / "s", identity_text=b"who", store_value=b"store", clock=clock).close()
    for engine in (
        MemoryEngine(clock=clock, readonly=True),
        LmdbEngine.open(tmp_path / "s", readonly=True, clock=clock),
    ):
        assert engine.readonly
        with pytest.raises(ReadOnly):
            engine.write(writes({("t", b"k"): b"v"}))
        engine.close()


def test_work_called_twice_sees_equal_views_and_the_second_answer_counts(tmp_path: Path) -> None:
    engine = MemoryEngine(clock=clock, call_work_twice=True)
    seen: list[list[bytes | None]] = []

    def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
        seen.append(snapshot.get_many([("t", b"k")]))
        return Writes(puts={("t", b"k"): b"%d" % len(seen)}), len(seen)

    assert engine.write(work) == Applied(2)
    assert seen == [[None], [None]]
    assert get(engine, ("t", b"k")) == [b"2"]


def test_both_engines_come_to_the_same_rows(tmp_path: Path) -> None:
    """A random history with a fixed seed, compared after every write."""
    import random

    seed = 20260101
    print("seed", seed)
    chance = random.Random(seed)
    memory, lmdb = _memory(tmp_path), _lmdb(tmp_path)
    for _ in range(120):
        puts = {
            (chance.choice("tuv"), b"%03d" % chance.randrange(60)): chance.randbytes(chance.choice((0, 3, 300, 9000)))
            for _ in range(chance.randrange(1, 12))
        }
        with memory.snapshot() as snapshot:
            there = [("t", key) for key, _ in snapshot.scan("t", b"", None, 99) if chance.random() < 0.3]
        work = writes(puts, deletes=frozenset(place for place in there if place not in puts))
        memory.write(work)
        lmdb.write(work)
        with memory.snapshot() as ours, lmdb.snapshot() as theirs:
            for table in "tuvw":
                lo, hi = sorted((b"%03d" % chance.randrange(60), b"%03d" % chance.randrange(60)))
                for reverse in (False, True):
                    assert ours.scan(table, lo, hi, 20, reverse) == theirs.scan(table, lo, hi, 20, reverse)
                assert ours.scan(table, b"", None, 999) == theirs.scan(table, b"", None, 999)
                assert ours.count(table) == theirs.count(table)
    lmdb.close()
