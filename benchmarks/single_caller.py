"""One caller: a single append, and batches, plain and signed, in a store that is not empty."""

from __future__ import annotations

import statistics
from pathlib import Path

from benchmarks import peers, workload
from benchmarks.naive import Naive
from benchmarks.rounds import Call, Scale, in_rounds, rate, ratio, say
from benchmarks.stores import FILL_STEPS, fill, filling, lease, parts, runs_of
from benchmarks.table import Row
from benchmarks.workload import EPOCH, RUN_RECORDS, TENANT
from sealbook.journal import Ed25519Signer, Journal, Tenant
from sealbook.journal import requests as ask

BATCH = 100


def one_append(folder: Path, scale: Scale) -> list[Row]:
    """One durable append of a typical entry, beside the naive layout, LMDB with the same rows or one, and the floor."""
    say(f"one append, in a store of {scale.small:,} records")
    calls, runs = 25, scale.rounds // 2
    recorder = peers.Recorder()
    rehearsal = Journal.over(recorder).tenant(TENANT)
    first = fill(rehearsal, scale.small)
    fresh = range(first, first + runs)
    lease(rehearsal, fresh)
    prepared = len(recorder.written)
    steps = list(workload.in_turn(fresh))[: scale.rounds * calls]
    for run, entry in steps:
        rehearsal.append(run, [entry], epoch=EPOCH)
    bare = peers.BareLmdb(folder / "bare")
    operations = [bare.operations(writes) for writes in recorder.written]
    for several in operations[:prepared]:
        bare.write(several)
    rows_per_append = statistics.fmean(map(len, operations[prepared:]))

    naive = Naive(folder / "naive-one")
    naive.acquire([workload.run_name(run) for run in range(fresh.stop)])
    for part in parts(filling(scale.small), FILL_STEPS):
        naive.fill([workload.append(step) for step in part])
    one_row, floor = peers.OneRow(folder / "one-row"), peers.Floor(folder / "floor")
    with Journal.open(folder / "one.sealbook", create=True) as journal:
        tenant = journal.tenant(TENANT)
        fill(tenant, scale.small)
        lease(tenant, fresh)
        ahead, naive_ahead, replay = iter(steps), iter(steps), iter(operations[prepared:])

        def append() -> None:
            run, entry = next(ahead)
            tenant.append(run, [entry], epoch=EPOCH)

        took = in_rounds(
            {
                "ours": append,
                "naive": lambda: naive.append(workload.append(next(naive_ahead))),
                "bare": lambda: bare.write(next(replay)),
                "one row": one_row.write,
                "floor": floor.write,
            },
            scale.rounds,
            calls,
        )
    for peer in (naive, bare, one_row, floor):
        peer.close()
    what, ours = f"one durable append, {rows_per_append:.1f} rows", took["ours"]
    return [
        Row(what, naive.settings, rate(ours), rate(took["naive"]), ratio(took["naive"], ours), at_least=1.2),
        Row(what, bare.settings, rate(ours), rate(took["bare"]), ratio(took["bare"], ours), at_least=0.75),
        Row(what, one_row.settings, rate(ours), rate(took["one row"]), ratio(took["one row"], ours)),
        Row(what, floor.settings, rate(ours), rate(took["floor"]), ratio(took["floor"], ours)),
    ]


def batches(folder: Path, scale: Scale) -> list[Row]:
    """100 entries in one transaction, of one run and of 64 runs, beside SQLite that does the same work."""
    say(f"batches of {BATCH}, in a store of {scale.small:,} records")
    calls, batches_per_run = 5, 10
    count = scale.rounds * calls
    floor, sqlite = peers.Floor(folder / "floor"), peers.Sqlite(folder / "batches.sqlite")
    with Journal.open(folder / "batches.sealbook", create=True) as journal:
        tenant = journal.tenant(TENANT)
        first = fill(tenant, scale.small)
        short = range(first, first + count * BATCH // RUN_RECORDS)
        long = range(short.stop, short.stop + count // batches_per_run)
        lease(tenant, range(first, long.stop))
        sqlite.acquire([workload.run_name(number) for number in range(long.stop)])
        for part in parts(filling(scale.small), FILL_STEPS):
            sqlite.append([workload.append(step) for step in part])

        of_one = list(workload.long_batches(long, BATCH, BATCH * batches_per_run))
        one, one_replay = iter(of_one), iter(of_one)
        of_many = list(parts(workload.in_turn(short), BATCH))
        many, many_replay = iter(of_many), iter(of_many)

        def append_one() -> None:
            run, batch = next(one)
            tenant.append(run, batch, epoch=EPOCH)

        def append_one_to_sqlite() -> None:
            run, batch = next(one_replay)
            sqlite.append([ask.append(run, batch, epoch=EPOCH)])

        took = in_rounds(
            {
                "one": append_one,
                "one, sqlite": append_one_to_sqlite,
                "many": lambda: tenant.group([workload.append(step) for step in next(many)]),
                "many, sqlite": lambda: sqlite.append([workload.append(step) for step in next(many_replay)]),
                "floor": floor.write,
            },
            scale.rounds,
            calls,
            mean=True,  # what SQLite's checkpoints and LMDB's page splits take belongs to the cost
        )
    sqlite.close()
    floor.close()
    rows = []
    for name, what, target in (
        ("many", f"entries per second, {BATCH} of 64 runs in one transaction", 1.9),
        ("one", f"entries per second, {BATCH} of one run in one transaction", None),
    ):
        ours, theirs = took[name], took[f"{name}, sqlite"]
        row = Row(what, sqlite.settings, rate(ours, BATCH), rate(theirs, BATCH), ratio(theirs, ours), at_least=target)
        beside = ratio(took["floor"], ours) * BATCH
        rows += [row, Row(what, floor.settings, rate(ours, BATCH), rate(took["floor"]), beside)]
    return rows


def signed(folder: Path, scale: Scale) -> list[Row]:
    """100 entries of 64 runs in one transaction, by a store that signs each record and by one that does not."""
    say(f"batches of {BATCH}, signed and unsigned, in stores of {scale.small:,} records")
    calls = 3
    floor, signer = peers.Floor(folder / "floor"), Ed25519Signer(bytes(range(32)))
    runs = range(runs_of(scale.small).stop, runs_of(scale.small).stop + scale.rounds * calls * BATCH // RUN_RECORDS)
    batches = list(parts(workload.in_turn(runs), BATCH))
    with (
        Journal.open(folder / "signed.sealbook", create=True, signer=signer) as signing,
        Journal.open(folder / "unsigned.sealbook", create=True) as plain,
    ):

        def appending(tenant: Tenant) -> Call:
            fill(tenant, scale.small)
            lease(tenant, runs)
            ahead = iter(batches)
            return lambda: tenant.group([workload.append(step) for step in next(ahead)])

        took = in_rounds(
            {
                "signed": appending(signing.tenant(TENANT)),
                "unsigned": appending(plain.tenant(TENANT)),
                "floor": floor.write,
            },
            scale.rounds,
            calls,
            mean=True,
        )
    floor.close()
    what, ours = f"signed entries per second, {BATCH} of 64 runs in one transaction", took["signed"]
    peer, plainly = "the same unsigned", took["unsigned"]
    return [
        Row(what, peer, rate(ours, BATCH), rate(plainly, BATCH), ratio(plainly, ours), at_least=0.35),
        Row(what, floor.settings, rate(ours, BATCH), rate(took["floor"]), ratio(took["floor"], ours) * BATCH),
    ]
