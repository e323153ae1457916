"""What every store keeps, whichever engine it stands over: checks beside those of the port."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from sealbook.journal.deciding import requests
from sealbook.journal.engine.port import Engine
from sealbook.journal.errors import (
    DuplicateAdmission,
    DuplicateEffect,
    EffectNotStarted,
    EffectSettled,
    Fenced,
    InvalidInput,
    InvalidName,
    LeaseHeld,
    LeaseNotHeld,
    NotConcluded,
    Refused,
    RunSealed,
    UnknownVersion,
)
from sealbook.journal.records import entries
from sealbook.journal.records.chain import GENESIS, Head, chain_hash
from sealbook.journal.records.entries import EffectKey, Entry
from sealbook.journal.records.record import Record
from sealbook.journal.records.row import decode_row
from sealbook.journal.records.signatures import Ed25519Signer, verify_signature
from sealbook.journal.schema import tables
from sealbook.journal.store.journal import Journal
from sealbook.journal.store.tenant import Tenant
from sealbook.journal.testing import ManualClock, SwitchableUpcaster, all_rows
from sealbook.journal.testing.conformance import Bench, Check, Violated, expect, expect_equal, expect_raises
from sealbook.journal.testing.rows import record_rows
from sealbook.merkle.verify import verify_consistency, verify_inclusion


class StoreBench(Bench):
    """The same, with a store over the engine once it is asked for."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        super().__init__(engine, clock)
        self.upcaster = SwitchableUpcaster()
        self._journal: Journal | None = None

    @property
    def journal(self) -> Journal:
        """The store over the engine, made when it is first asked for."""
        if self._journal is None:
            self._journal = Journal.over(self.engine, clock=self.clock, upcaster=self.upcaster)
        return self._journal

    @property
    def acme(self) -> Tenant:
        """The tenant that most checks speak of."""
        return self.journal.tenant("acme")

    def signing(self, seed: bytes) -> Journal:
        """A store over the engine that signs, instead of the plain one."""
        self._journal = Journal.over(self.engine, clock=self.clock, signer=Ed25519Signer(seed))
        return self._journal

    def expect_unchanged(self, action: Callable[[], Any], kind: type[Refused]) -> Any:
        """The action is refused so, and leaves every row of every table as it was."""
        assert self.journal is not None  # made before its rows are looked at
        before = all_rows(self.engine)
        with expect_raises(kind, "a refusal") as caught:
            action()
        expect_equal(all_rows(self.engine), before, "rows after a refusal")
        return caught[0]

    def run(self, run: str, *more: Entry, source: str | None = None, tenant: Tenant | None = None) -> list[Record]:
        """A run with an admission and these entries, under epoch 1 without a lease."""
        id_ = None if source is None else run
        batch = [entries.admitted(source=source, id=id_), *more]
        return (tenant or self.acme).append(run, batch, epoch=1)

    def sealed(self, run: str, outcome: str = "done", tenant: Tenant | None = None) -> None:
        """A run that concluded and was sealed."""
        (tenant or self.acme).append(run, [entries.admitted(), entries.concluded(outcome)], epoch=1, seal=True)


STORE_CHECKS: list[Check] = []


def registered(check: Callable[[StoreBench], None]) -> Callable[[StoreBench], None]:
    """A check of a store, run over a bench that has one."""

    @functools.wraps(check)
    def over_the_engine(bench: Bench) -> None:
        check(StoreBench(bench.engine, bench.clock))

    STORE_CHECKS.append(over_the_engine)
    return check


def in_pages(listing: Callable[..., Any], *args: Any, size: int = 2, **options: Any) -> list[Any]:
    """Every item of a listing, read in pages of `size`."""
    items: list[Any] = []
    after = None
    for _ in range(10_000):
        page = listing(*args, limit=size, after=after, **options)
        items += page
        after = page.next
        if after is None:
            return items
    raise Violated("a listing that never ends")


# --- chaining ---------------------------------------------------------------------------------------------------------


@registered
def an_unknown_run_has_the_genesis_head_and_no_records(bench: StoreBench) -> None:
    expect_equal(bench.acme.head("r"), Head(0, GENESIS), "head")
    expect_equal(list(bench.acme.read("r")), [], "records")
    expect_equal(bench.acme.standing("r"), None, "standing")


@registered
def seq_runs_from_1_without_gaps_over_batches(bench: StoreBench) -> None:
    bench.run("r", entries.note("a"))
    bench.acme.append("r", [entries.note("b"), entries.note("c")], epoch=1)
    expect_equal([record.seq for record in bench.acme.read("r")], [1, 2, 3, 4], "seqs")
    expect_equal(bench.acme.head("r").seq, 4, "the head")


@registered
def each_record_names_the_hash_of_the_one_before(bench: StoreBench) -> None:
    bench.run("r", entries.note("a"), entries.note("b"))
    bench.acme.append("r", [entries.note("c")], epoch=1)
    prev = GENESIS
    for record in bench.acme.read("r"):
        expect_equal(record.prev, prev, f"prev of record {record.seq}")
        prev = record.hash
    expect_equal(bench.acme.head("r").hash, prev, "the head")


@registered
def stored_bytes_hash_to_the_stored_hash(bench: StoreBench) -> None:
    made = bench.run("r", entries.note("a"), entries.note("b"))
    for seq, record in enumerate(made, 1):
        row = decode_row(record_rows(bench.engine, "acme", "r")[seq][1], "r", seq)
        expect_equal(chain_hash(row.prev, row.body), row.hash, f"the hash of record {seq}")
        expect_equal((row.hash, row.body), (record.hash, record.body), f"what append returned for record {seq}")


@registered
def reading_starts_where_it_is_told(bench: StoreBench) -> None:
    bench.run("r", *[entries.note(str(number)) for number in range(5)])
    for start in range(1, 8):
        expect_equal([record.seq for record in bench.acme.read("r", start=start)], list(range(start, 7)), f"{start}")


@registered
def a_page_of_records_is_bounded_and_pages_reassemble_the_run(bench: StoreBench) -> None:
    made = bench.run("r", *[entries.note(str(number)) for number in range(8)])
    expect_equal(len(bench.acme.read("r", limit=3)), 3, "a page of 3")
    expect_equal(len(bench.acme.read("r", limit=0)), 0, "a page of 0")
    expect_equal(in_pages(bench.acme.read, "r"), made, "the records")


@registered
def a_signature_comes_back_as_it_was_made(bench: StoreBench) -> None:
    signer = Ed25519Signer(bytes(range(32)))
    acme = bench.signing(bytes(range(32))).tenant("acme")
    acme.append("r", [entries.admitted(), entries.note("x")], epoch=1)
    for record in acme.read("r"):
        signature = record.signature or b""
        expect(verify_signature(signer.public_key, record.hash, signature), f"signature of record {record.seq}")


@registered
def arrivals_count_on_over_runs_without_gaps(bench: StoreBench) -> None:
    bench.run("b")
    bench.run("a", entries.note("x"))
    bench.acme.append("b", [entries.note("y")], epoch=1)
    found = [(record.arrival, record.run) for record in in_pages(bench.acme.history)]
    expect_equal(found, [(1, "b"), (2, "a"), (3, "a"), (4, "b")], "arrivals")
    backwards = [record.arrival for record in in_pages(bench.acme.history, reverse=True)]
    expect_equal(backwards, [4, 3, 2, 1], "backwards")


@registered
def tenants_do_not_see_each_other(bench: StoreBench) -> None:
    bench.run("r", entries.note("mine"))
    other = bench.journal.tenant("acme2")
    expect_equal(list(other.read("r")), [], "another tenant's records")
    bench.run("r", tenant=other)
    expect_equal([len(bench.acme.read("r")), len(other.read("r"))], [2, 1], "records of one name under two tenants")
    expect_equal([len(bench.acme.runs()), len(other.runs())], [1, 1], "runs")


# --- exactly once -----------------------------------------------------------------------------------------------------

KEY = EffectKey("charge", "42")


def started(key: bytes = KEY, **options: Any) -> Entry:
    """The start of an effect, as the checks write it."""
    return entries.effect_started(key, name="charge", **options)


@registered
def a_second_start_of_an_effect_is_refused(bench: StoreBench) -> None:
    bench.run("r", started())
    error = bench.expect_unchanged(lambda: bench.acme.append("r", [started()], epoch=1), DuplicateEffect)
    expect_equal((error.effect, error.attempt), (KEY.hex(), 1), "the refusal")


@registered
def two_starts_of_an_effect_in_one_batch_are_refused(bench: StoreBench) -> None:
    bench.run("r")
    bench.expect_unchanged(lambda: bench.acme.append("r", [started(), started()], epoch=1), DuplicateEffect)


@registered
def the_same_effect_key_in_another_run_is_another_effect(bench: StoreBench) -> None:
    bench.run("a", started())
    bench.run("b", started())
    expect_equal([len(bench.acme.effects(run)) for run in "ab"], [1, 1], "effects")


@registered
def a_refused_batch_writes_nothing(bench: StoreBench) -> None:
    bench.run("r", started())
    batch = [entries.note("before", case="c"), started(EffectKey("other")), started(), entries.concluded("done")]
    bench.expect_unchanged(lambda: bench.acme.append("r", batch, epoch=1), DuplicateEffect)


@registered
def a_group_over_two_runs_enters_whole_or_not_at_all(bench: StoreBench) -> None:
    bench.run("b", started())
    parts: list[requests.Request] = [
        requests.append("a", [entries.admitted()], epoch=1),
        requests.acquire("b", owner="w", ttl=30),
        requests.append("b", [started()]),
    ]
    bench.expect_unchanged(lambda: bench.acme.group(parts), DuplicateEffect)
    bench.acme.group(parts[:2])
    expect_equal((bench.acme.head("a").seq, bench.acme.lease("b") is not None), (1, True), "the group that may enter")


@registered
def an_effect_is_started_again_only_after_its_attempt_failed(bench: StoreBench) -> None:
    bench.run("r", started())
    bench.acme.append("r", [entries.effect_failed(KEY, error="no"), started()], epoch=1)
    bench.acme.append("r", [entries.effect_done(KEY, result=1)], epoch=1)
    bench.expect_unchanged(lambda: bench.acme.append("r", [started()], epoch=1), DuplicateEffect)
    bench.expect_unchanged(lambda: bench.acme.append("r", [entries.effect_done(KEY)], epoch=1), EffectSettled)
    effect = bench.acme.effect("r", KEY)
    expect_equal(effect and (effect.attempt, effect.status), (2, "done"), "the effect")


@registered
def an_end_without_a_start_is_refused(bench: StoreBench) -> None:
    bench.run("r")
    for end in (
        entries.effect_done(KEY),
        entries.effect_failed(KEY),
        entries.effect_reconciled(KEY, disposition="landed"),
    ):
        bench.expect_unchanged(lambda end=end: bench.acme.append("r", [end], epoch=1), EffectNotStarted)  # type: ignore[misc]


@registered
def the_same_append_after_the_same_head_is_a_replay(bench: StoreBench) -> None:
    head = bench.acme.head("r")
    batch = [entries.admitted(source="s", id="1"), started()]
    made = bench.acme.append("r", batch, epoch=1, after=head)
    before = all_rows(bench.engine)
    again = bench.acme.append("r", batch, epoch=1, after=head)
    expect_equal((list(again), again.replayed), (list(made), True), "the second call's answer")
    expect_equal(all_rows(bench.engine), before, "rows after the replay")


# --- fencing ----------------------------------------------------------------------------------------------------------


@registered
def a_stale_epoch_is_fenced(bench: StoreBench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.acme.append("r", [entries.admitted()], lease=first)
    bench.clock.advance(11)
    second = bench.acme.acquire("r", owner="b", ttl=10)
    error = bench.expect_unchanged(lambda: bench.acme.append("r", [entries.note("x")], lease=first), Fenced)
    expect_equal((error.held, error.current), (first.epoch, second.epoch), "the refusal")


@registered
def an_epoch_from_the_future_is_fenced(bench: StoreBench) -> None:
    lease = bench.acme.acquire("r", owner="a", ttl=10)
    for epoch in (lease.epoch + 1, 2**53 - 1):
        bench.expect_unchanged(lambda epoch=epoch: bench.acme.append("r", [entries.note("x")], epoch=epoch), Fenced)  # type: ignore[misc]


@registered
def a_live_lease_is_not_stolen(bench: StoreBench) -> None:
    lease = bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.advance(9.999)
    error = bench.expect_unchanged(lambda: bench.acme.acquire("r", owner="b", ttl=10), LeaseHeld)
    expect_equal((error.owner, error.epoch, error.remaining_ms), ("a", lease.epoch, 1), "the refusal")


@registered
def an_expired_lease_is_taken_over_under_a_higher_epoch(bench: StoreBench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.advance(10)
    expect_equal(bench.acme.acquire("r", owner="b", ttl=10).epoch, first.epoch + 1, "the epoch")


@registered
def acquiring_never_renews(bench: StoreBench) -> None:
    bench.acme.acquire("r", owner="a", ttl=10)
    bench.expect_unchanged(lambda: bench.acme.acquire("r", owner="a", ttl=60), LeaseHeld)


@registered
def renewing_moves_the_expiry_and_keeps_the_epoch(bench: StoreBench) -> None:
    lease = bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.advance(5)
    renewed = bench.acme.renew(lease, ttl=10)
    expect_equal((renewed.epoch, renewed.expires_at), (lease.epoch, bench.clock.wall_ms + 10_000), "the lease")


@registered
def a_lost_lease_is_not_renewed(bench: StoreBench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.advance(10)
    bench.expect_unchanged(lambda: bench.acme.renew(first, ttl=10), LeaseNotHeld)
    second = bench.acme.acquire("r", owner="a", ttl=10)
    bench.expect_unchanged(lambda: bench.acme.renew(first, ttl=10), LeaseNotHeld)
    bench.acme.release(second)
    bench.expect_unchanged(lambda: bench.acme.renew(second, ttl=10), LeaseNotHeld)


@registered
def a_released_lease_is_free_at_once_under_a_higher_epoch(bench: StoreBench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.acme.release(first)
    released = bench.acme.lease("r")
    expect_equal(released and (released.owner, released.epoch), (None, first.epoch), "the released lease")
    expect_equal(bench.acme.acquire("r", owner="b", ttl=10).epoch, first.epoch + 1, "the next epoch")


@registered
def a_fenced_caller_does_not_free_the_new_lease(bench: StoreBench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.advance(10)
    second = bench.acme.acquire("r", owner="b", ttl=10)
    before = all_rows(bench.engine)
    bench.acme.release(first)
    expect_equal(all_rows(bench.engine), before, "rows")
    expect_equal(bench.acme.lease("r"), second, "the lease")


@registered
def a_stale_seal_is_refused(bench: StoreBench) -> None:
    first = bench.acme.acquire("r", owner="a", ttl=10)
    bench.acme.append("r", [entries.admitted(), entries.concluded("done")], lease=first)
    bench.clock.advance(10)
    bench.acme.acquire("r", owner="b", ttl=10)
    bench.expect_unchanged(lambda: bench.acme.seal("r", lease=first), Fenced)


@registered
def a_lease_starts_past_every_epoch_of_the_chain(bench: StoreBench) -> None:
    for epoch in range(1, 8):
        bench.acme.append("r", [entries.note(str(epoch))], epoch=epoch)
    expect_equal(bench.acme.acquire("r", owner="a", ttl=10).epoch, 8, "the epoch")


@registered
def no_step_of_the_wall_clock_frees_a_live_lease(bench: StoreBench) -> None:
    bench.acme.acquire("r", owner="a", ttl=10)
    bench.clock.step_wall(1_000_000)
    bench.expect_unchanged(lambda: bench.acme.acquire("r", owner="b", ttl=10), LeaseHeld)
    bench.clock.step_wall(-2_000_000)
    bench.expect_unchanged(lambda: bench.acme.acquire("r", owner="b", ttl=10), LeaseHeld)


# --- indexes ----------------------------------------------------------------------------------------------------------


def names(standings: Iterable[Any]) -> list[str]:
    """The runs that a listing names."""
    return [standing.run for standing in standings]


@registered
def conclusions_are_listed_newest_first(bench: StoreBench) -> None:
    for run in "bca":
        bench.run(run, entries.concluded("failed"))
    expect_equal(names(bench.acme.by_outcome("failed")), ["a", "c", "b"], "the listing")
    expect_equal(names(bench.acme.by_outcome("failed", limit=1)), ["a"], "the newest")
    expect_equal(names(in_pages(bench.acme.by_outcome, "failed")), ["a", "c", "b"], "in pages")
    expect_equal(names(bench.acme.by_outcome("done")), [], "another outcome")


@registered
def the_count_is_that_of_the_listing(bench: StoreBench) -> None:
    for number in range(7):
        bench.run(f"r{number}", entries.concluded("failed"))
    expect_equal(bench.acme.count_by_outcome("failed"), 7, "the count")
    expect_equal(bench.acme.count_by_outcome("done"), 0, "the count of another outcome")


@registered
def a_new_conclusion_moves_the_run(bench: StoreBench) -> None:
    bench.run("a", entries.concluded("failed"))
    bench.run("b", entries.concluded("failed"))
    bench.acme.append("a", [entries.note("again"), entries.concluded("exhausted")], epoch=1)
    expect_equal(names(bench.acme.by_outcome("failed")), ["b"], "the outcome that it left")
    expect_equal(names(bench.acme.by_outcome("exhausted")), ["a"], "the outcome that it has")
    bench.acme.append("b", [entries.concluded("failed")], epoch=1)
    expect_equal(names(bench.acme.by_outcome("failed")), ["b"], "one row per run")


@registered
def a_case_lists_every_record_of_it_by_run_and_seq(bench: StoreBench) -> None:
    bench.run("b", entries.note("x", case="c"), entries.note("y"))
    bench.run("a", entries.note("z", case="c"), entries.note("other", case="c2"))
    bench.acme.append("b", [entries.note("w", case="c")], epoch=1)
    found = [(record.run, record.seq) for record in in_pages(bench.acme.case_history, "c")]
    expect_equal(found, [("a", 2), ("b", 2), ("b", 4)], "the case")


@registered
def recent_runs_stand_by_their_last_record(bench: StoreBench) -> None:
    for run in "abcde":
        bench.run(run)
    bench.acme.append("b", [entries.note("x")], epoch=1)
    expect_equal(names(bench.acme.recent()), ["b", "e", "d", "c", "a"], "the listing")
    expect_equal(names(in_pages(bench.acme.recent)), ["b", "e", "d", "c", "a"], "in pages")


@registered
def recent_runs_stay_exact_over_many_arrivals(bench: StoreBench) -> None:
    for number in range(6):
        bench.run(f"r{number}", *[entries.note(str(index)) for index in range(99)])
    bench.acme.append("r2", [entries.note("again")], epoch=1)
    expected = ["r2", "r5", "r4", "r3", "r1", "r0"]
    expect_equal(names(bench.acme.recent()), expected, "the listing")
    expect_equal(names(in_pages(bench.acme.recent)), expected, "in pages")


@registered
def a_source_lists_the_runs_that_it_admitted(bench: StoreBench) -> None:
    bench.run("a", source="shop")
    bench.run("b", source="mail")
    bench.run("c", source="shop")
    bench.run("d")
    bench.acme.append("a", [entries.note("x")], epoch=1)
    expect_equal(names(bench.acme.recent_from("shop")), ["a", "c"], "the source")
    expect_equal(names(in_pages(bench.acme.recent_from, "shop", size=1)), ["a", "c"], "in pages")
    expect_equal(names(bench.acme.recent_from("nobody")), [], "an unknown source")


@registered
def runs_are_walked_by_name_while_others_write(bench: StoreBench) -> None:
    for run in "bdfh":
        bench.run(run)
    first = bench.acme.runs(limit=2)
    bench.acme.append("b", [entries.note("x")], epoch=1)
    bench.run("a")
    bench.run("e")
    rest = bench.acme.runs(after=first.next)
    expect_equal(names(first) + names(rest), ["b", "d", "e", "f", "h"], "the walk")
    expect_equal(names(in_pages(bench.acme.runs)), list("abdefh"), "in pages")


@registered
def a_wait_follows_the_last_record(bench: StoreBench) -> None:
    bench.run("r", entries.suspended(awaiting="mail"))
    expect_equal(names(bench.acme.waiting()), ["r"], "after a suspension")
    bench.acme.append("r", [entries.note("still")], epoch=1)
    expect_equal(names(bench.acme.waiting()), ["r"], "after a note")
    bench.acme.append("r", [entries.entry("Woken")], epoch=1)
    expect_equal(names(bench.acme.waiting()), [], "after progress")
    bench.acme.append("r", [entries.suspended(), entries.concluded("failed")], epoch=1)
    expect_equal(names(bench.acme.waiting()), [], "after a conclusion in the same batch")


@registered
def waiting_runs_stand_soonest_first(bench: StoreBench) -> None:
    bench.run("never", entries.suspended(awaiting="mail"))
    bench.run("late", entries.suspended(until="2100-01-01T00:00:00Z"))
    bench.run("past", entries.suspended(until="1969-12-31T00:00:00Z"))
    bench.run("b", entries.suspended(until="2030-01-01T00:00:00Z"))
    bench.run("a", entries.suspended(until="2030-01-01T00:00:00Z"))
    expected = ["past", "a", "b", "late", "never"]
    expect_equal(names(bench.acme.waiting()), expected, "the listing")
    expect_equal(names(in_pages(bench.acme.waiting)), expected, "in pages")


@registered
def only_a_lease_that_ran_out_is_abandoned(bench: StoreBench) -> None:
    bench.acme.acquire("live", owner="w", ttl=100)
    bench.acme.release(bench.acme.acquire("released", owner="w", ttl=10))
    bench.acme.acquire("later", owner="w", ttl=20)
    first = bench.acme.acquire("first", owner="w", ttl=10)
    bench.clock.advance(30)
    expect_equal(names(bench.acme.abandoned()), ["first", "later"], "the listing")
    expect_equal(names(in_pages(bench.acme.abandoned, size=1)), ["first", "later"], "in pages")
    found = bench.acme.abandoned()[0]
    expect_equal((found.owner, found.epoch, found.expired_at), ("w", first.epoch, first.expires_at), "the first one")


# --- admission --------------------------------------------------------------------------------------------------------


@registered
def an_admission_key_creates_one_run(bench: StoreBench) -> None:
    bench.run("a", source="shop")
    batch = [entries.admitted(source="shop", id="a")]
    error = bench.expect_unchanged(lambda: bench.acme.append("b", batch, epoch=1), DuplicateAdmission)
    expect_equal(error.holder, "a", "the holder")
    expect_equal(bench.acme.admitted_as("shop", "a"), "a", "admitted_as")


@registered
def a_lease_alone_claims_no_admission_key(bench: StoreBench) -> None:
    bench.acme.acquire("a", owner="w", ttl=10)
    expect_equal(bench.acme.admitted_as("shop", "a"), None, "admitted_as")


@registered
def a_refused_append_spends_no_admission_key(bench: StoreBench) -> None:
    batch = [entries.admitted(source="shop", id="1"), entries.effect_done(KEY)]
    bench.expect_unchanged(lambda: bench.acme.append("a", batch, epoch=1), EffectNotStarted)
    bench.acme.append("b", batch[:1], epoch=1)
    expect_equal(bench.acme.admitted_as("shop", "1"), "b", "the holder")


@registered
def an_admission_without_a_key_claims_none(bench: StoreBench) -> None:
    bench.run("a")
    bench.run("b")
    expect_equal(bench.rows(tables.ADMISSIONS), [], "admission rows")
    batch = [entries.admitted(source="", id="")]
    bench.expect_unchanged(lambda: bench.acme.append("c", batch, epoch=1), InvalidName)


@registered
def tenants_honour_an_admission_key_each_for_itself(bench: StoreBench) -> None:
    bench.run("a", source="shop")
    other = bench.journal.tenant("other")
    expect_equal(other.admitted_as("shop", "a"), None, "another tenant's answer")
    other.append("b", [entries.admitted(source="shop", id="a")], epoch=1)
    expect_equal([t.admitted_as("shop", "a") for t in (bench.acme, other)], ["a", "b"], "holders")


# --- the log ----------------------------------------------------------------------------------------------------------


@registered
def every_earlier_checkpoint_is_the_beginning_of_the_log(bench: StoreBench) -> None:
    kept = [bench.acme.checkpoint()]
    for number in range(9):
        bench.sealed(f"r{number}")
        kept.append(bench.acme.checkpoint())
    for checkpoint in kept[1:]:
        proof = bench.acme.consistency_proof(checkpoint.size)
        expect_equal(proof.old_root, checkpoint.root, f"the root at {checkpoint.size}")
        verify_consistency(
            old_size=proof.old, new_size=proof.new, old_root=checkpoint.root, new_root=kept[-1].root, proof=proof.proof
        )
    expect_equal(bench.acme.consistency_proof(0).proof, [], "the proof from 0")


@registered
def every_leaf_is_proved_at_every_size_that_holds_it(bench: StoreBench) -> None:
    kept = {0: bench.acme.checkpoint()}
    for number in range(7):
        bench.sealed(f"r{number}")
        kept[number + 1] = bench.acme.checkpoint()
    for number in range(7):
        for size, checkpoint in kept.items():
            proof = bench.acme.inclusion_proof(f"r{number}", size)
            if number >= size:
                expect_equal(proof, None, f"run {number} at size {size}")
                continue
            expect(proof is not None, f"run {number} has no proof at size {size}")
            assert proof is not None
            expect_equal(proof.root, checkpoint.root, f"the root at {size}")
            verify_inclusion(
                leaf=proof.leaf_hash, index=proof.index, size=size, proof=proof.proof, root=checkpoint.root
            )


@registered
def log_positions_answer_in_the_order_asked(bench: StoreBench) -> None:
    for run in "bac":
        bench.sealed(run)
    bench.run("open")
    expect_equal(bench.acme.log_positions(["c", "open", "a", "nobody", "b"]), [2, None, 1, None, 0], "positions")


@registered
def proofs_past_the_log_are_refused(bench: StoreBench) -> None:
    bench.sealed("r")
    bench.expect_unchanged(lambda: bench.acme.inclusion_proof("r", 2), InvalidInput)
    bench.expect_unchanged(lambda: bench.acme.consistency_proof(2), InvalidInput)


@registered
def only_a_concluded_run_is_sealed(bench: StoreBench) -> None:
    bench.run("r")
    bench.expect_unchanged(lambda: bench.acme.seal("r"), NotConcluded)
    bench.acme.append("r", [entries.concluded("failed")], epoch=1)
    bench.expect_unchanged(lambda: bench.acme.seal("r"), NotConcluded)
    bench.acme.append("r", [entries.concluded("done")], epoch=1)
    expect_equal(bench.acme.seal("r").kind, "seal", "the leaf")


@registered
def the_first_seal_stands(bench: StoreBench) -> None:
    bench.run("r", entries.concluded("done"))
    first = bench.acme.seal("r")
    before = all_rows(bench.engine)
    expect_equal(bench.acme.seal("r"), first, "the second seal's answer")
    expect_equal(all_rows(bench.engine), before, "rows")


@registered
def a_sealed_run_takes_nothing(bench: StoreBench) -> None:
    bench.sealed("r")
    head = bench.acme.head("r")
    for epoch in (1, 2):
        bench.expect_unchanged(lambda epoch=epoch: bench.acme.append("r", [entries.note()], epoch=epoch), RunSealed)  # type: ignore[misc]
    bench.expect_unchanged(lambda: bench.acme.acquire("r", owner="w", ttl=10), RunSealed)
    expect_equal(bench.acme.head("r"), head, "the head")


@registered
def an_open_run_enters_the_log_through_anchors(bench: StoreBench) -> None:
    made = bench.run("r")
    leaf = bench.acme.anchor("r")
    expect_equal((leaf.kind, leaf.index, leaf.head), ("anchor", 0, made[-1].hash), "the leaf")
    expect_equal(bench.acme.anchor("r"), leaf, "an unmoved head's answer")
    expect_equal(bench.acme.checkpoint().size, 1, "the log's size")


@registered
def each_tenant_has_its_own_log(bench: StoreBench) -> None:
    other = bench.journal.tenant("other")
    for number in range(3):
        bench.sealed(f"r{number}")
        bench.sealed(f"r{number}", tenant=other)
    runs = [f"r{number}" for number in range(3)]
    expect_equal([bench.acme.log_positions(runs), other.log_positions(runs)], [[0, 1, 2], [0, 1, 2]], "positions")


# --- cancel -----------------------------------------------------------------------------------------------------------


@registered
def anybody_may_ask_for_a_run_to_be_cancelled(bench: StoreBench) -> None:
    bench.acme.acquire("r", owner="w", ttl=10)
    bench.acme.append("r", [entries.admitted()], epoch=1)
    head = bench.acme.head("r")
    expect_equal(bench.acme.request_cancel("r", actor="ann", reason="why").status, "recorded", "the answer")
    found = bench.acme.cancellation("r")
    expect_equal(found and (found.actor, found.reason, found.basis), ("ann", "why", "asserted"), "the request")
    expect_equal(bench.acme.head("r"), head, "the run's own head")


@registered
def a_run_that_nobody_asked_about_has_no_cancellation(bench: StoreBench) -> None:
    bench.run("r")
    bench.acme.request_cancel("other", actor="ann")
    expect_equal(bench.acme.cancellation("r"), None, "the cancellation")


@registered
def the_first_cancel_request_stands(bench: StoreBench) -> None:
    bench.run("r")
    bench.acme.request_cancel("r", actor="ann", reason="first")
    before = all_rows(bench.engine)
    answer = bench.acme.request_cancel("r", actor="bob", reason="second")
    cancellation = answer.cancellation
    expect_equal((answer.status, cancellation and cancellation.actor), ("already-requested", "ann"), "the answer")
    expect_equal(all_rows(bench.engine), before, "rows")


# --- upcasting --------------------------------------------------------------------------------------------------------


@registered
def older_records_are_lifted_when_they_are_read_and_stay_as_they_were_written(bench: StoreBench) -> None:
    [_, old] = bench.run("r", entries.note("x", case="c"))
    bench.upcaster.versions["Note"] = 3
    [lifted] = bench.acme.read("r", start=2)
    expect_equal((lifted.v, lifted.data), (1, {"text": "x", "lifted": 3}), "what read answers")
    expect_equal(bench.acme.case_history("c")[0].data, {"text": "x", "lifted": 3}, "what case_history answers")
    expect_equal((lifted.body, lifted.hash), (old.body, old.hash), "bytes and hash")
    [new] = bench.acme.append("r", [entries.note("y")], epoch=1)
    expect_equal((new.v, new.data, new.prev), (3, {"text": "y"}, old.hash), "what is written now")


@registered
def a_record_of_a_newer_version_is_not_called_damage(bench: StoreBench) -> None:
    bench.upcaster.versions["Note"] = 2
    bench.run("r", entries.note("x"))
    bench.upcaster.versions["Note"] = 1
    with expect_raises(UnknownVersion, "a newer record"):
        bench.acme.read("r")
