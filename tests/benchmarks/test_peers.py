"""Whoever Sealbook is measured beside does the same work: the same records, for the same entries."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio

from benchmarks import workload
from benchmarks.naive import Naive
from benchmarks.peers import Sqlite
from benchmarks.postgres import Missing, Postgres, cluster
from benchmarks.sharing import SharingSqlite
from benchmarks.stores import lease
from benchmarks.workload import EPOCH, TENANT, Step
from sealbook.journal import Journal, Record

PEERS = Path(__file__).resolve().parents[2] / "build" / "peers"  # where `make bench` installs psycopg

RUNS = range(3)
STEPS = list(workload.in_turn(RUNS))
NAMES = [workload.run_name(number) for number in RUNS]


def said(records: Sequence[Record]) -> list[tuple[object, ...]]:
    """What of a record does not depend on when, where and with which salt it was made."""
    return [(one.run, one.seq, one.arrival, one.kind, one.case, one.effect, one.attempt, one.data) for one in records]


def of_ours() -> list[tuple[object, ...]]:
    with Journal.in_memory() as journal:
        tenant = journal.tenant(TENANT)
        lease(tenant, RUNS)
        return said([record for run, entry in STEPS for record in tenant.append(run, [entry], epoch=EPOCH)])


def chained(records: Sequence[Record]) -> bool:
    """Whether every record names the hash of the one before it in its run."""
    heads: dict[str, bytes] = {}
    for record in records:
        if record.prev != heads.get(record.run, bytes(32)):
            return False
        heads[record.run] = record.hash
    return True


def test_the_naive_layout_makes_our_records(tmp_path: Path) -> None:
    naive = Naive(tmp_path / "naive")
    naive.acquire(NAMES)
    records = [record for step in STEPS for record in naive.append(workload.append(step))]
    naive.close()
    assert said(records) == of_ours() and chained(records)


def test_sqlite_makes_our_records(tmp_path: Path) -> None:
    sqlite = Sqlite(tmp_path / "journal.sqlite")
    sqlite.acquire(NAMES)
    answers = sqlite.append([workload.append(step) for step in STEPS])
    sqlite.close()
    records = [record for answer in answers for record in answer]
    assert said(records) == of_ours() and chained(records)


def test_postgresql_makes_our_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(PEERS)])
    try:
        with cluster(Path(tempfile.gettempdir())) as address:
            postgres = Postgres(address, create=True)
            postgres.acquire(NAMES)
            answers = postgres.append([workload.append(step) for step in STEPS])
            postgres.close()
    except Missing as why:
        pytest.skip(str(why))
    records = [record for answer in answers for record in answer]
    assert said(records) == of_ours() and chained(records)


@pytest.fixture
def sharing(tmp_path: Path) -> Iterator[SharingSqlite]:
    sqlite = SharingSqlite(tmp_path / "shared.sqlite")
    sqlite.acquire(NAMES)
    yield sqlite
    sqlite.close()


def test_a_task_that_shares_a_commit_gets_its_own_records(sharing: SharingSqlite) -> None:
    found: dict[str, list[Record]] = {}

    async def append(steps: Sequence[Step]) -> None:
        for step in steps:
            [records] = await sharing.append_from_task(workload.append(step))
            found.setdefault(step[0], []).extend(records)

    async def program() -> None:
        async with trio.open_nursery() as nursery:
            for name in NAMES:
                nursery.start_soon(append, [step for step in STEPS if step[0] == name])

    trio.run(program)
    assert [[record.seq for record in found[name]] for name in NAMES] == [list(range(1, 51))] * 3
    assert all(record.run == name for name, records in found.items() for record in records)


def test_whoever_shares_a_commit_that_fails_is_told(sharing: SharingSqlite) -> None:
    with pytest.raises(AssertionError):
        sharing.append(workload.append(("never leased", STEPS[0][1])))
    [[record]] = sharing.append(workload.append(STEPS[0]))
    assert record.seq == 1
