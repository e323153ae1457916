"""Faults that users of comparable systems reported, carried over: one test for each, and its whole kind is meant.

The number in a name is the report's. tests/behaviour.md says which reports are tested elsewhere.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import random
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cbor2
import pytest
from refusals import refused_without_a_trace
from tampering import record_place
from whole_journal import journal_of

from sealbook.indexes import activity, outcome, source, waiting
from sealbook.journal import (
    CommitUnknown,
    Concluded,
    Corrupt,
    DuplicateAdmission,
    DuplicateEffect,
    EffectKey,
    Fenced,
    InvalidEntry,
    InvalidInput,
    InvalidName,
    Journal,
    LeaseHeld,
    NotConcluded,
    OpenedBeforeFork,
    RunSealed,
    Tenant,
    entries,
    requests,
)
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Applied, Unknown, Work
from sealbook.journal.records import names as ids
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.row import Row, encode_row
from sealbook.journal.schema import tables
from sealbook.journal.testing import ManualClock, all_rows, delete_records, rows, tamper
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.verify import verify_inclusion

KEY = EffectKey("e1")
ROUNDS = 1000  # in which writes fail at random


def names(standings: Any) -> list[str]:
    return [standing.run for standing in standings]


# --- names and keys -------------------------------------------------------------------------------------------------


def test_1_names_that_join_to_the_same_text_are_refused_or_two_chains(journal: Journal, acme: Tenant) -> None:
    for name in ("a/b", "a\0b"):
        with pytest.raises(InvalidName):
            journal.tenant(name)
    with pytest.raises(InvalidName):
        acme.append("b\0c", [entries.note("x")], epoch=1)
    pairs = [("a", "b/c"), ("a", "b"), ("a.b", "c"), ("ab", "c"), ("a", "bc")]
    for tenant, run in pairs:
        journal.tenant(tenant).append(run, [entries.note("x", case=run)], epoch=1)
    for tenant, run in pairs:
        assert journal.tenant(tenant).head(run).seq == 1
    assert names(journal.tenant("a").runs()) == ["b", "b/c", "bc"]
    assert names(journal.tenant("a").recent()) == ["bc", "b", "b/c"]
    assert names(journal.tenant("a.b").runs()) == ["c"]


def test_3_limits_are_our_own_in_bytes_and_the_same_for_every_verb(acme: Tenant, engine: MemoryEngine) -> None:
    longest = "é" * 64  # 128 bytes
    acme.append(longest, [entries.admitted(source="s" * 256, id="i" * 256, case="c" * 128)], epoch=1)
    acme.request_cancel(longest, actor="a" * 256)
    assert acme.acquire(longest, owner="o" * 256, ttl=10).epoch == 2
    for run in (longest + "x", "é" * 200, "r" * 510, "r" * 511, "r" * 512):
        refusals = [
            refused_without_a_trace(engine, InvalidName, acme.append, run, [entries.note("x")], epoch=1),
            refused_without_a_trace(engine, InvalidName, acme.acquire, run, owner="w", ttl=10),
            refused_without_a_trace(engine, InvalidName, acme.request_cancel, run, actor="ann"),
        ]
        for error in refusals:
            assert f"is {len(run.encode())} bytes of UTF-8, the limit is 128" in str(error)
    assert all(len(key) <= 511 for page in all_rows(engine).values() for key, _ in page)


def test_5_long_reasons_are_kept_in_full_and_long_names_are_refused(acme: Tenant, engine: MemoryEngine) -> None:
    reason = "because " * 250
    acme.append("r", [entries.suspended(awaiting={"why": reason})], epoch=1)
    acme.request_cancel("r", actor="ann", reason=reason)
    assert acme.waiting()[0].awaiting == {"why": reason}
    found = acme.cancellation("r")
    assert found is not None
    assert found.reason == reason
    for admission in (entries.admitted(source="é" * 129, id="1"), entries.admitted(source="s", id="é" * 129)):
        error = refused_without_a_trace(engine, InvalidName, acme.append, "s", [admission], epoch=1)
        assert "is 258 bytes of UTF-8, the limit is 256" in str(error)


# --- payloads -------------------------------------------------------------------------------------------------------


def test_7_integers_are_kept_exactly_or_refused_before_a_seq_is_given(acme: Tenant, engine: MemoryEngine) -> None:
    for number in (2**64, -(2**63) - 1, 10**5000):
        batch = [entries.note("x"), entries.entry("Number", {"x": number})]
        refused_without_a_trace(engine, InvalidEntry, acme.append, "r", batch, epoch=1)
    kept = [2**64 - 1, -(2**63), 2**53 + 1, 0, True, 1, 1.0]
    acme.append("r", [entries.entry("Number", {"x": number}) for number in kept], epoch=1)
    read = [record.data["x"] for record in acme.read("r")]
    assert [(type(number), number) for number in read] == [(type(number), number) for number in kept]


def test_9_one_order_and_one_number_form_and_no_nan(acme: Tenant, engine: MemoryEngine) -> None:
    data = {"\ufb33": 1e-7, "\U0001f600": 0.1 + 0.2, "a": 0.00001}
    [record] = acme.append("r", [entries.entry("Number", data)], epoch=1)
    assert bytes.fromhex("a36161fb3ee4f8b588e368f163efacb3fb3e7ad7f29abcaf4864f09f9880fb3fd3333333333334") in (
        record.body
    )
    for number in (math.nan, math.inf, -math.inf):
        refused_without_a_trace(engine, InvalidEntry, acme.append, "r", [entries.entry("N", {"x": number})], epoch=1)


def test_11_the_stored_bytes_are_those_of_the_call(clock: ManualClock) -> None:
    class Slow(MemoryEngine):
        before_write: Callable[[], None] = staticmethod(lambda: None)

        def write(self, work: Work) -> Applied:
            self.before_write()
            return super().write(work)

    engine = Slow(clock=clock)
    acme = Journal.over(engine, clock=clock).tenant("acme")
    data: dict[str, Any] = {"inner": {}}

    def mutate() -> None:
        data["x"] = 1
        data["inner"]["y"] = 2

    engine.before_write = mutate
    [record] = acme.append("r", [entries.entry("Thing", data)], epoch=1)
    assert record.data == acme.read("r")[0].data == {"inner": {}}


def test_105_nesting_of_100_000_levels_is_a_typed_error_both_ways(acme: Tenant, engine: MemoryEngine) -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    refused_without_a_trace(engine, InvalidEntry, acme.append, "r", [entries.entry("Deep", {"x": deep})], epoch=1)
    acme.append("r", [entries.note("x")], epoch=1)
    [(key, _)] = rows(engine, tables.JOURNAL)

    for body in (b"\x81" * 100_000 + b"\1", b"\xa1\x61x" * 100_000 + b"\1", b"\xc1" * 100_000 + b"\1"):
        tamper(engine, tables.JOURNAL, key, encode_row(Row(1, bytes(32), chain_hash(bytes(32), body), None, body)))
        with pytest.raises(Corrupt):
            acme.read("r")
        assert any(finding.run == "r" for finding in journal_of(acme).check().findings)
    assert sys.getrecursionlimit() < 100_000


# --- instants -------------------------------------------------------------------------------------------------------


def test_13_waits_stand_in_order_from_year_1_to_9999(acme: Tenant) -> None:
    instants: dict[str, str | datetime] = {
        "d": "2100-01-01T00:00:00Z",
        "e": "9999-12-31T23:59:59.999999Z",
        "b": "1969-12-31T00:00:00Z",
        "a": datetime(1, 1, 1, tzinfo=UTC),
        "c": "2038-01-19T03:14:08Z",
    }
    for run, until in instants.items():
        acme.append(run, [entries.suspended(until=until)], epoch=1)
    assert names(acme.waiting()) == ["a", "b", "c", "d", "e"]
    outside: list[str | datetime] = ["10000-01-01T00:00:00Z", "0000-12-31T00:00:00Z", datetime(2026, 1, 1)]
    for until in outside:
        with pytest.raises(InvalidEntry):
            acme.append("x", [entries.suspended(until=until)], epoch=1)


# --- misuse ---------------------------------------------------------------------------------------------------------


def test_21_a_journal_opened_before_a_fork_says_so_in_the_child(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "agents.sealbook", create=True) as journal:
        acme = journal.tenant("acme")
        acme.append("r", [entries.note("parent")], epoch=1)

        def write() -> None:
            acme.append("r", [entries.note("child")], epoch=1)

        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            said = 0
            try:
                for verb in (journal.tenants, journal.check, acme.recent, acme.checkpoint, write, journal.close):
                    with contextlib.suppress(OpenedBeforeFork):
                        verb()
                        said -= 100
                    said += 1
            finally:
                os._exit(said)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 6
        acme.append("r", [entries.note("parent again")], epoch=1)
        assert [record.data["text"] for record in acme.read("r")] == ["parent", "parent again"]
        assert journal.check().ok


def test_55_a_batch_that_repeats_a_key_writes_nothing_and_says_which(acme: Tenant, engine: MemoryEngine) -> None:
    start = entries.effect_started(KEY, name="n")
    assert (
        refused_without_a_trace(engine, DuplicateEffect, acme.append, "r", [start, start], epoch=1).effect == KEY.hex()
    )
    admission = entries.admitted(source="s", id="1")
    refused_without_a_trace(engine, InvalidEntry, acme.append, "r", [admission, admission], epoch=1)
    assert acme.append("r", [], epoch=1) == []
    assert acme.standing("r") is None


def test_65_of_two_that_admit_one_key_one_wins_and_the_other_reads_its_run_at_once(acme: Tenant) -> None:
    for number in range(50):
        lost: list[str] = []
        read: list[str] = []

        def admit(run: str, key: str = str(number), lost: list[str] = lost, read: list[str] = read) -> None:
            try:
                acme.append(run, [entries.admitted(source="s", id=key)], epoch=1)
            except DuplicateAdmission as error:
                lost.append(error.holder)
                read.extend(record.data["id"] for record in acme.read(error.holder))

        threads = [threading.Thread(target=admit, args=(f"{side}{number}",)) for side in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert lost == [acme.admitted_as("s", str(number))]
        assert read == [str(number)]


# --- leases, effects and cancel requests that race ------------------------------------------------------------------


def test_33_a_lease_that_lives_is_refused_to_its_own_owner_too(acme: Tenant, clock: ManualClock) -> None:
    lease = acme.acquire("r", owner="me", ttl=10)
    clock.advance(9)
    for owner in ("me", "other"):
        with pytest.raises(LeaseHeld):
            acme.acquire("r", owner=owner, ttl=10)
    assert acme.renew(lease, ttl=10).expires_at == clock.wall_ms + 10_000


def test_29_an_owners_name_never_says_who_lives(acme: Tenant, clock: ManualClock) -> None:
    first = acme.acquire("r", owner="host:1", ttl=10)
    with pytest.raises(LeaseHeld):
        acme.acquire("r", owner="host:1", ttl=10)  # another container with the same name
    clock.advance(10)
    acme.acquire("r", owner="host:1", ttl=10)
    with pytest.raises(Fenced):
        acme.append("r", [entries.note("x")], lease=first)


def test_35_a_cancel_request_is_answered_in_three_ways(acme: Tenant) -> None:
    assert acme.request_cancel("r", actor="ann").status == "unknown-run"
    acme.append("s", [entries.admitted()], epoch=1)
    assert acme.request_cancel("s", actor="ann").status == "recorded"
    acme.append("t", [entries.admitted(), entries.concluded("done")], epoch=1, seal=True)
    answer = acme.request_cancel("t", actor="ann")
    assert (answer.status, answer.outcome) == ("concluded", "done")


@pytest.mark.parametrize("first", ["cancel", "seal"])
def test_35_a_cancel_request_in_the_transaction_of_the_seal_is_answered_by_order(
    journal: Journal, acme: Tenant, first: str
) -> None:
    acme.append("r", [entries.admitted()], epoch=1)
    cancel = requests.request_cancel("r", actor="ann", reason="", basis="asserted")
    seal = requests.append("r", [entries.concluded("done")], epoch=1, seal=True)
    answers = acme.group([cancel, seal] if first == "cancel" else [seal, cancel])
    answer = answers[0 if first == "cancel" else 1]
    assert (answer.status, answer.outcome) == (("recorded", None) if first == "cancel" else ("concluded", "done"))
    assert (acme.cancellation("r") is not None) is (first == "cancel")
    assert acme.request_cancel("r", actor="bob").status == "concluded"
    assert journal.check().ok


def test_39_a_stolen_lease_is_noticed_before_the_effect_is_run(acme: Tenant, clock: ManualClock) -> None:
    first = acme.acquire("r", owner="a", ttl=10)
    clock.advance(10)
    second = acme.acquire("r", owner="b", ttl=10)
    start = entries.effect_started(KEY, name="charge")
    with pytest.raises(Fenced):
        acme.append("r", [start], lease=first)
    acme.append("r", [start], lease=second)
    with pytest.raises(DuplicateEffect):
        acme.append("r", [start], lease=second)


@pytest.mark.parametrize("epoch", [1, 2, 4, 2**53 - 1, 0])
def test_43_only_the_highest_epoch_appends(acme: Tenant, engine: MemoryEngine, epoch: int) -> None:
    for _ in range(3):
        acme.release(acme.acquire("r", owner="w", ttl=10))
    acme.append("r", [entries.note("x")], epoch=3)
    refused_without_a_trace(engine, Fenced, acme.append, "r", [entries.note("x")], epoch=epoch)


@pytest.mark.parametrize("epoch", [2**63, -1, True, "3", 3.0])
def test_43_an_epoch_that_is_no_such_number_is_refused(acme: Tenant, engine: MemoryEngine, epoch: Any) -> None:
    refused_without_a_trace(engine, InvalidInput, acme.append, "r", [entries.note("x")], epoch=epoch)


def test_45_a_clock_that_jumps_back_over_a_reboot_leaves_a_lease_that_can_be_forced(
    acme: Tenant, clock: ManualClock
) -> None:
    acme.acquire("r", owner="w", ttl=20)
    clock.reboot()
    clock.step_wall(-3600)
    with pytest.raises(LeaseHeld) as caught:
        acme.acquire("r", owner="v", ttl=10)
    assert caught.value.remaining_ms == 3_620_000
    assert acme.force_lease("r", actor="ann", reason="the clock jumped").epoch == 2
    assert acme.acquire("r", owner="v", ttl=10).epoch == 3


def test_47_refused_and_failed_acquires_spend_no_epoch(clock: ManualClock) -> None:
    class Flaky(MemoryEngine):
        fail = False

        def _check(self, writes: Any) -> None:  # before anything is applied, as the engine notes on the error
            if self.fail:
                raise OSError(5, "Input/output error")
            super()._check(writes)

    engine = Flaky(clock=clock)
    acme = Journal.over(engine, clock=clock).tenant("acme")
    lease = acme.acquire("r", owner="a", ttl=10)
    for number in range(1000):
        with pytest.raises(LeaseHeld):
            acme.acquire("r", owner=str(number), ttl=10)
    clock.advance(10)
    engine.fail = True
    with pytest.raises(OSError, match="Input"):
        acme.acquire("r", owner="b", ttl=10)
    engine.fail = False
    acme.append("r", [entries.note("still")], lease=lease)
    assert acme.acquire("r", owner="b", ttl=10).epoch == lease.epoch + 1


# --- indexes --------------------------------------------------------------------------------------------------------


def test_37_a_wait_is_listed_exactly_for_runs_whose_last_record_suspends_them(journal: Journal, acme: Tenant) -> None:
    ends = [entries.suspended(awaiting="x"), entries.entry("Woken"), entries.concluded("failed"), entries.admitted()]
    for number, entry in enumerate(ends):
        before = [] if entry.kind == "RunAdmitted" else [entries.suspended(awaiting="earlier")]
        acme.append(f"r{number}", [*before, entry], epoch=1)
    assert names(acme.waiting()) == ["r0"]
    journal.reindex()
    assert names(acme.waiting()) == ["r0"]


def test_37_a_lost_wait_row_is_found_and_comes_back(journal: Journal, acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.suspended(awaiting="x")], epoch=1)
    [(key, _)] = rows(engine, waiting.TABLE)
    tamper(engine, waiting.TABLE, key, None)
    assert [(finding.table, finding.key) for finding in journal.check().findings] == [(waiting.TABLE, key)]
    journal.reindex()
    assert names(acme.waiting()) == ["r"]
    assert journal.check().ok


def test_41_outcomes_move_with_the_run_and_an_aborted_write_moves_none(clock: ManualClock) -> None:
    class Aborting(MemoryEngine):
        fail = False

        def _check(self, writes: Any) -> None:
            if self.fail:
                raise OSError(28, "No space left on device")

    engine = Aborting(clock=clock)
    journal = Journal.over(engine, clock=clock)
    acme = journal.tenant("acme")

    def listed() -> dict[str, list[str]]:
        for name in ("failed", "exhausted", "done"):
            assert acme.count_by_outcome(name) == len(acme.by_outcome(name))
        return {name: names(acme.by_outcome(name)) for name in ("failed", "exhausted", "done")}

    acme.append("r", [entries.admitted(), entries.concluded("failed")], epoch=1)
    assert listed() == {"failed": ["r"], "exhausted": [], "done": []}
    acme.append("r", [entries.note("resumed"), entries.concluded("exhausted")], epoch=1)
    assert listed() == {"failed": [], "exhausted": ["r"], "done": []}
    engine.fail = True
    with pytest.raises(OSError, match="No space"):
        acme.append("r", [entries.concluded("done")], epoch=1, seal=True)
    engine.fail = False
    assert listed() == {"failed": [], "exhausted": ["r"], "done": []}
    acme.append("r", [entries.concluded("done")], epoch=1, seal=True)
    assert listed() == {"failed": [], "exhausted": [], "done": ["r"]}
    assert journal.check().ok


GARBAGE: dict[str, tuple[bytes, Callable[[Tenant], Any]]] = {
    waiting.TABLE: (b"acme\0garbage", lambda tenant: tenant.waiting()),
    activity.TABLE: (b"acme\0" + bytes(8) + b"garbage", lambda tenant: tenant.recent()),
    source.TABLE: (b"acme\0s\0" + bytes(8) + b"garbage", lambda tenant: tenant.recent_from("s")),
    outcome.TABLE: (b"acme\0failed\0garbage!", lambda tenant: tenant.by_outcome("failed")),
    "cases": (b"acme\0c\0garbage", lambda tenant: tenant.case_history("c")),
}


@pytest.mark.parametrize("table", GARBAGE)
def test_99_garbage_in_an_index_stops_its_listing_alone_and_reindexing_repairs_it(
    journal: Journal, acme: Tenant, engine: MemoryEngine, table: str
) -> None:
    acme.append("r", [entries.admitted(source="s", id="1", case="c"), entries.concluded("failed")], epoch=1)
    key, listing = GARBAGE[table]
    sound = all_rows(engine)
    tamper(engine, table, key, b"")
    with pytest.raises(Corrupt) as caught:
        listing(acme)
    assert (caught.value.table, caught.value.key) == (table, key)
    assert len(acme.read("r")) == 2
    assert names(acme.runs()) == ["r"]
    acme.append("r", [entries.note("x")], epoch=1)
    journal.reindex()
    listing(acme)
    assert {name: page for name, page in all_rows(engine).items() if name == table} == {table: sound[table]}


# --- pages ----------------------------------------------------------------------------------------------------------


def test_63_a_run_that_moves_between_pages_is_seen_again_and_a_walk_is_complete(acme: Tenant) -> None:
    for run in "abcd":
        acme.append(run, [entries.admitted()], epoch=1)
    first, walk = acme.recent(limit=2), acme.runs(limit=2)
    assert names(first) == ["d", "c"]
    acme.append("a", [entries.note("x")], epoch=1)
    assert names(acme.recent(after=first.next)) == ["b"]
    assert names(acme.recent(limit=1)) == ["a"]
    assert names(walk) + names(acme.runs(after=walk.next)) == ["a", "b", "c", "d"]
    assert "appears again at the top" in (inspect.getdoc(Tenant.recent) or "")


# --- crashes and failed writes --------------------------------------------------------------------------------------


def test_87_after_a_refusal_in_the_middle_the_next_append_follows_the_stored_head(acme: Tenant) -> None:
    made = acme.append("r", [entries.admitted()], epoch=1)
    with pytest.raises(DuplicateEffect):
        acme.append("r", [*[entries.effect_started(KEY, name="n")] * 2, entries.note("x")], epoch=1)
    [next_] = acme.append("r", [entries.note("y")], epoch=1)
    assert (next_.seq, next_.arrival, next_.prev) == (2, 2, made[0].hash)


def test_97_a_caller_that_retries_until_it_succeeds_records_each_effect_once(clock: ManualClock) -> None:
    seed = 97
    chance = random.Random(seed)

    class Failing(MemoryEngine):
        armed = False

        def write(self, work: Work) -> Any:
            fate = chance.choice(["fine", "before", "after"]) if self.armed else "fine"
            if fate == "before":
                raise OSError(5, "Input/output error")
            outcome = super().write(work)
            return Unknown(OSError(5, "Input/output error")) if fate == "after" else outcome

    engine = Failing(clock=clock)
    journal = Journal.over(engine, clock=clock)
    acme = journal.tenant("acme")
    engine.armed = True
    for number in range(ROUNDS):
        head = acme.head("r")
        batch = [entries.effect_started(EffectKey(str(number)), name="n")]
        made: list[Any] = []
        while not made:
            with contextlib.suppress(OSError, CommitUnknown):
                made = acme.append("r", batch, epoch=1, after=head)
        assert made[0].seq == number + 1, f"seed {seed}"
    engine.armed = False
    records = acme.read("r", limit=ROUNDS)
    assert [record.effect for record in records] == [EffectKey(str(number)) for number in range(ROUNDS)]
    assert journal.check().ok


# --- proofs ---------------------------------------------------------------------------------------------------------


def sealed(tenant: Tenant, run: str) -> None:
    tenant.append(run, [entries.admitted(), entries.note("x"), entries.concluded("done")], epoch=1, seal=True)


def test_67_a_flipped_bit_in_a_leaf_is_found_and_named(journal: Journal, acme: Tenant, engine: MemoryEngine) -> None:
    for run in "abc":
        sealed(acme, run)
    for table in (tables.LEAVES, tables.NODES):
        for key, value in rows(engine, table):
            tamper(engine, table, key, value[:-1] + bytes([value[-1] ^ 1]))
            named = {(finding.table, finding.key) for finding in journal.check().findings}
            assert (table, key) in named
            tamper(engine, table, key, value)
    assert journal.check().ok


@pytest.mark.parametrize("old", [-1, 6, 2**63, 2**64, True])
def test_71_a_size_that_makes_no_sense_is_refused(acme: Tenant, old: int) -> None:
    for number in range(5):
        sealed(acme, str(number))
    with pytest.raises(InvalidInput):
        acme.consistency_proof(old)


def test_71_a_proof_is_empty_from_0_and_to_the_same_size_alone(acme: Tenant) -> None:
    assert acme.consistency_proof(0).proof == []
    for number in range(5):
        sealed(acme, str(number))
    assert [bool(acme.consistency_proof(old).proof) for old in range(6)] == [False, True, True, True, True, False]


def test_77_a_log_of_one_tenant_proves_nothing_of_another(journal: Journal) -> None:
    a, b = journal.tenant("a"), journal.tenant("b")
    for tenant in (a, b):
        sealed(tenant, "r")
    origins = {tenant.checkpoint().origin for tenant in (a, b, journal.tenant())}
    assert origins == {"sealbook", "sealbook/a", "sealbook/b"}
    proof = a.inclusion_proof("r")
    assert proof is not None
    with pytest.raises(VerificationError):
        verify_inclusion(leaf=proof.leaf_hash, index=0, size=1, proof=proof.proof, root=b.checkpoint().root)


def test_77_no_two_tenants_of_a_store_share_an_origin() -> None:
    """`default` has the base name; every other one's has a slash more, and no tenant has a slash in its name."""
    for name in ("a/b", "", "/"):
        with pytest.raises(InvalidName):
            ids.check_tenant(name)
    journal = Journal.in_memory(origin="p")
    assert journal.tenant("a").origin == "p/a"
    assert Journal.in_memory(origin="p/a").tenant().origin == "p/a"  # another store: its operator chose the same name


def test_81_an_index_is_the_tenants_own_and_stays_when_a_run_is_gone(journal: Journal, engine: MemoryEngine) -> None:
    a, b = journal.tenant("a"), journal.tenant("b")
    for number in range(4):
        sealed(a, str(number))
        sealed(b, str(number))
    before = [a.inclusion_proof(str(number)) for number in range(4)]
    delete_records(engine, "a", "1")
    after = [a.inclusion_proof(str(number)) for number in range(4)]
    assert after == before
    assert [proof.index for proof in after if proof is not None] == [0, 1, 2, 3]
    assert b.log_positions([str(number) for number in range(4)]) == [0, 1, 2, 3]


@pytest.mark.parametrize("run", ["open", "sealed"])
def test_83_a_tail_cut_off_is_found(journal: Journal, acme: Tenant, engine: MemoryEngine, run: str) -> None:
    sealed(acme, "sealed")
    acme.append("open", [entries.admitted(), entries.note("x"), entries.note("y")], epoch=1)
    for seq in (2, 3):
        tamper(engine, *record_place(engine, "acme", run, seq), None)
    with pytest.raises(Corrupt, match="missing"):
        acme.read(run)
    assert any(finding.run == run for finding in journal.check().findings)


def test_83_a_run_removed_whole_is_found(journal: Journal, acme: Tenant, engine: MemoryEngine) -> None:
    sealed(acme, "sealed")
    delete_records(engine, "acme", "sealed")
    assert any(finding.run == "sealed" for finding in journal.check().findings)


def test_83_what_a_store_alone_cannot_show_is_said(journal: Journal, acme: Tenant) -> None:
    for expected in (0, 1):
        report = journal.check()
        assert (report.ok, report.records) == (True, expected)
        assert any("older copy" in line for line in report.not_checked)
        acme.append("r", [entries.note("x")], epoch=1)


def test_85_a_clock_set_back_is_no_corruption(journal: Journal, acme: Tenant, clock: ManualClock) -> None:
    sealed(acme, "a")
    clock.step_wall(-86_400)
    acme.append("b", [entries.admitted()], epoch=1)
    sealed(acme, "c")
    clock.step_wall(-4 * 10**9)
    sealed(acme, "d")
    assert journal.check().ok
    assert names(acme.recent()) == ["d", "c", "b", "a"]


# --- retention, as far as it is here --------------------------------------------------------------------------------


def test_53_a_conclusion_alone_is_not_a_seal_and_a_failed_run_is_not_done(acme: Tenant) -> None:
    acme.append("r", [entries.admitted(), entries.concluded("done")], epoch=1)
    standing = acme.standing("r")
    assert standing is not None
    assert (standing.final, standing.sealed) == (True, False)
    with pytest.raises(Concluded):
        acme.append("r", [entries.note("x")], epoch=1)
    acme.seal("r")
    with pytest.raises(RunSealed):
        acme.append("r", [entries.note("x")], epoch=1)
    acme.append("s", [entries.admitted(), entries.concluded("failed")], epoch=1)
    with pytest.raises(NotConcluded):
        acme.seal("s")


def test_61_a_follower_goes_on_over_a_gap_in_its_pages(acme: Tenant) -> None:
    """Positions are arrivals, not row counts: a page that is asked for past the end stays where it was."""
    acme.append("r", [entries.note("x")], epoch=1)
    assert list(acme.history(start=400)) == []
    acme.append("r", [entries.note("y")] * 500, epoch=1)
    assert [record.arrival for record in acme.history(start=400, limit=2)] == [400, 401]


def test_9_the_encoding_of_the_data_is_what_another_library_writes(acme: Tenant) -> None:
    [record] = acme.append("r", [entries.entry("Thing", {"b": 1, "aa": -0.0, "a": [True, None, b"x"]})], epoch=1)
    assert cbor2.dumps(record.data, canonical=True) in record.body
