"""The demo's story: an agent is killed between an effect's start and its end, and nothing is lost, doubled or hidden.

Every sentence that is told is checked first. `StoryBroken` says which one did not come out.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sealbook.cli.demo.world import CHARGE, MAIL, RESERVE, RUN, STEPS
from sealbook.journal import Fenced, Journal, Record, entries
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.lmdb import LmdbEngine
from sealbook.journal.engine.port import Applied, Moment, Snapshot, Writes
from sealbook.journal.records.chain import run_tag
from sealbook.journal.schema import tables
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.verify import verify_inclusion

WORKER_SECONDS_MAX = 30  # a worker that says nothing for so long is stuck

Say = Callable[[str], None]


class StoryBroken(Exception):
    """A step of the demo did not come out as it is told."""


def tell(folder: Path, say: Say) -> None:
    """Play the story in this empty folder: the store, the world beside it, and the copy that is tampered with."""
    store, world, copy = folder / "agents.sealbook", folder / "world", folder / "tampered.sealbook"
    world.mkdir()
    Journal.open(store, create=True).close()
    epoch = _first_worker_is_killed(store, world, say)
    _second_worker_takes_over(store, world, epoch, say)
    _world_is_as_it_should_be(world, say)
    record = _run_is_proved(store, say)
    _tampering_is_found(store, copy, record, say)


def _first_worker_is_killed(store: Path, world: Path, say: Say) -> int:
    with _worker(store, world, "worker-1", stop=CHARGE.name) as worker:
        epoch: int = _expect(worker, "acquired")["epoch"]
        say(f"worker-1 takes {RUN} under epoch {epoch}")
        _go(worker)
        _expect(worker, "done", step=RESERVE.name)
        say("  reserve   start recorded, done, end recorded")
        _expect(worker, "stopped", step=CHARGE.name)
        say("  charge    start recorded, card charged ... killed with SIGKILL before its end is recorded")
        worker.send_signal(signal.SIGKILL)
        _hold(worker.wait(WORKER_SECONDS_MAX) == -signal.SIGKILL, "worker-1 dies of SIGKILL")
    with Journal.open(store, readonly=True) as journal:
        charge = journal.tenant().effect(RUN, CHARGE.key)
    _hold(charge is not None and charge.in_doubt, "the charge is in doubt")
    say("the journal knows: reserve is done, charge is in doubt, mail was never started")
    return epoch


def _second_worker_takes_over(store: Path, world: Path, epoch: int, say: Say) -> None:
    with Journal.open(store) as journal:
        forced = journal.tenant().force_lease(RUN, actor="operator", reason="worker-1 was killed")
    with _worker(store, world, "worker-2", stop="") as worker:
        new_epoch = _expect(worker, "acquired")["epoch"]
        _hold(epoch < forced.epoch < new_epoch, "each owner has a higher epoch")
        say(f"worker-2 takes over under epoch {new_epoch}")
        _late_append_is_fenced(store, epoch, say)
        _go(worker)
        _expect(worker, "skipped", step=RESERVE.name)
        say("  reserve   done before: not repeated")
        _expect(worker, "reconciled", step=CHARGE.name, disposition="landed")
        say("  charge    in doubt: the ledger is looked at, the charge stands there, recorded as landed")
        _expect(worker, "done", step=MAIL.name)
        say("  mail      start recorded, done, end recorded")
        seq = _expect(worker, "sealed")["seq"]
        say(f"the run is concluded and sealed with record {seq}, in one transaction")
        _hold(worker.wait(WORKER_SECONDS_MAX) == 0, "worker-2 ends well")


def _late_append_is_fenced(store: Path, epoch: int, say: Say) -> None:
    late = entries.effect_done(CHARGE.key, result="sent by worker-1 before it died")
    with Journal.open(store) as journal:
        before = journal.tenant().head(RUN)
        try:
            journal.tenant().append(RUN, [late], epoch=epoch)
        except Fenced as error:
            _hold(error.held == epoch, "the late append is fenced for its epoch")
        else:
            raise StoryBroken("the late append of worker-1 was taken")
        _hold(journal.tenant().head(RUN) == before, "a fenced append writes nothing")
    say(f"  an append of worker-1 that was still on its way arrives: epoch {epoch} is fenced, nothing is written")


def _world_is_as_it_should_be(world: Path, say: Say) -> None:
    for step in STEPS:
        _hold(step.times_done(world) == 1, f"{step.name} happened exactly once")
    say("the world: one reservation, one charge, one mail")


def _run_is_proved(store: Path, say: Say) -> Record:
    """The proof, from the records alone; and the check of everything. Returns the record to be tampered with."""
    with Journal.open(store, readonly=True) as journal:
        tenant = journal.tenant()
        records = tenant.read(RUN)
        checkpoint, proof = tenant.checkpoint(), tenant.inclusion_proof(RUN)
        report = journal.check()
    _hold(proof is not None and proof.leaf_kind == "seal", "the run has a seal in the log")
    assert proof is not None and records[0].salt is not None
    tag = run_tag(records[0].salt, tenant.name, RUN)
    leaf = LeafEntry(LeafType.SEAL, tag, records[-1].seq, records[-1].hash).hash()
    verify_inclusion(leaf=leaf, index=proof.index, size=checkpoint.size, proof=proof.proof, root=checkpoint.root)
    say(f"proved: the run's {len(records)} records stand in the log of {checkpoint.size} leaf, root")
    say(f"  {checkpoint.root.hex()}")
    _hold(not report.findings, "the store is consistent")
    say(f"verify: {report.records} records, {report.index_rows} index rows, internally consistent")
    return next(record for record in records if record.effect == CHARGE.key)


def _tampering_is_found(store: Path, copy: Path, record: Record, say: Say) -> None:
    shutil.copytree(store, copy)
    _change_one_byte(copy, record)
    say(f"in a copy, one byte of record {record.seq} is changed: the charge is now of 9200 cents")
    with Journal.open(copy, readonly=True) as journal:
        findings = journal.check().findings
    located = [finding for finding in findings if (finding.run, finding.seq) == (RUN, record.seq)]
    _hold(bool(located), "the tampering is found and located")
    say(f"verify: tenant {located[0].tenant}, run {located[0].run}, record {located[0].seq}: {located[0].what}")


def _change_one_byte(store: Path, record: Record) -> None:
    """Write past every rule, as somebody with the file in hand can: straight into the table's row."""
    engine = LmdbEngine.open(store, readonly=False, clock=system_clock)
    place = (tables.JOURNAL, tables.number_key(record.tenant, record.arrival))

    def change(snapshot: Snapshot, moment: Moment) -> tuple[Writes, None]:
        row = snapshot.get_many([place])[0]
        assert row is not None
        return Writes({place: row.replace(b"charged 1200 cents", b"charged 9200 cents")}), None

    try:
        _hold(isinstance(engine.write(change), Applied), "the copy can be changed")
    finally:
        engine.close()


# --- the workers -------------------------------------------------------------------------------------------------


@contextmanager
def _worker(store: Path, world: Path, owner: str, *, stop: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-P", "-m", "sealbook.cli.demo.world", str(store), str(world), owner, stop]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()
        for stream in (worker.stdin, worker.stdout):
            if stream is not None:
                stream.close()


def _go(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    worker.stdin.write("go\n")
    worker.stdin.flush()


def _expect(worker: subprocess.Popen[str], event: str, **facts: Any) -> dict[str, Any]:
    """The next thing that the worker says, which must be this."""
    assert worker.stdout is not None
    line = worker.stdout.readline()
    said: dict[str, Any] = json.loads(line) if line else {"event": "nothing"}
    wanted = {"event": event, **facts}
    _hold(wanted.items() <= said.items(), f"the worker says {wanted}, not {said}")
    return said


def _hold(condition: bool, claim: str) -> None:
    if not condition:
        raise StoryBroken(f"this did not come out: {claim}")
