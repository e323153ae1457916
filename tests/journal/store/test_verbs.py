"""The public verbs: what a journal and its tenants promise to those who write."""

from __future__ import annotations

import builtins
import contextlib
import gc
import itertools
import os
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cbor2
import pytest
from refusals import refused_without_a_trace

from sealbook.journal import (
    Busy,
    Closed,
    CommitUnknown,
    Concluded,
    Conflict,
    Corrupt,
    DuplicateAdmission,
    DuplicateEffect,
    Ed25519Signer,
    EffectKey,
    Fenced,
    Head,
    IndexStale,
    InvalidEntry,
    InvalidInput,
    InvalidName,
    Journal,
    LeaseHeld,
    Mismatch,
    NotConcluded,
    ReadOnly,
    Refused,
    RunSealed,
    SealbookError,
    StoreMissing,
    Tenant,
    TooLarge,
    UnknownVersion,
    entries,
    requests,
)
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Applied, Moment, Retry, Unknown, Work, Writes
from sealbook.journal.records.chain import GENESIS, chain_hash
from sealbook.journal.records.row import decode_row, encode_row
from sealbook.journal.records.signatures import signer_id
from sealbook.journal.records.versions import IdentityUpcaster
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import StoreRow
from sealbook.journal.testing import (
    ManualClock,
    SwitchableUpcaster,
    all_rows,
    delete_records,
    rows,
    tamper,
    tamper_body,
)

KEY = EffectKey("charge")


# --- the journal (A16 to A28) ---------------------------------------------------------------------------------------


def test_a_store_on_disk_keeps_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "agents.sealbook"
    with Journal.open(path, create=True) as journal:
        made = journal.tenant("acme").append("r", [entries.admitted(), entries.note("x")], epoch=1)
        store_id = journal.store_id
    with Journal.open(path) as journal:
        assert journal.store_id == store_id
        assert list(journal.tenant("acme").read("r")) == list(made)


def test_a_missing_store_is_refused_unless_it_may_be_created(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        Journal.open(tmp_path / "nothing.sealbook")
    assert not (tmp_path / "nothing.sealbook").exists()
    with pytest.raises(InvalidInput, match="reading only"):
        Journal.open(tmp_path / "nothing.sealbook", create=True, readonly=True)


def test_the_data_of_another_store_is_not_opened(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Journal.open(tmp_path / name, create=True).close()
    (tmp_path / "a" / "data.mdb").replace(tmp_path / "b" / "data.mdb")
    with pytest.raises(Corrupt, match="two different stores"):
        Journal.open(tmp_path / "b")


def test_a_journal_open_for_reading_refuses_every_write(tmp_path: Path) -> None:
    path = tmp_path / "agents.sealbook"
    with Journal.open(path, create=True) as journal:
        lease = journal.tenant("acme").acquire("r", owner="w", ttl=10)
        journal.tenant("acme").append("r", [entries.admitted()], lease=lease)
    with Journal.open(path, readonly=True) as journal:
        acme = journal.tenant("acme")
        assert journal.readonly
        assert len(acme.read("r")) == 1
        writes: list[Callable[[], Any]] = [
            lambda: acme.append("r", [entries.note("x")], lease=lease),
            lambda: acme.acquire("s", owner="w", ttl=10),
            lambda: acme.renew(lease, ttl=10),
            lambda: acme.release(lease),
            lambda: acme.seal("r"),
            lambda: acme.anchor("r"),
            lambda: acme.request_cancel("r", actor="ann"),
            lambda: acme.force_lease("r", actor="ann", reason="x"),
            lambda: acme.group([requests.anchor("r")]),
        ]
        for write in writes:
            with pytest.raises(ReadOnly):
                write()


def test_a_store_in_memory_needs_no_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError(f"the file system was asked for {args}")

    signer = Ed25519Signer(bytes(32))
    for name in ("open", "mkdir", "stat", "rename", "unlink", "listdir"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(builtins, "open", refuse)
    with Journal.in_memory(signer=signer) as journal:
        acme = journal.tenant("acme")
        lease = acme.acquire("r", owner="w", ttl=10)
        acme.append("r", [entries.admitted(), entries.concluded("done")], lease=lease, seal=True)
        assert acme.checkpoint().size == 1


def test_two_stores_in_memory_share_nothing() -> None:
    first, second = Journal.in_memory(), Journal.in_memory()
    first.tenant("acme").append("r", [entries.admitted()], epoch=1)
    assert second.tenants() == []
    assert first.store_id != second.store_id


def test_a_journal_that_nobody_has_closed_says_so_and_frees_its_store(tmp_path: Path) -> None:
    folder = tmp_path / "agents.sealbook"

    def forget() -> None:
        Journal.open(folder, create=True).tenant("acme").append("r", [entries.note("x")], epoch=1)
        gc.collect()

    with pytest.warns(ResourceWarning) as told:
        forget()
    assert f"unclosed journal {str(folder)!r}" in [str(warning.message) for warning in told]
    del told  # which knows the journal
    gc.collect()
    with Journal.open(folder) as journal:
        assert [record.data["text"] for record in journal.tenant("acme").read("r")] == ["x"]


def test_a_journal_that_was_closed_or_holds_nothing_is_forgotten_in_silence(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        Journal.open(tmp_path / "agents.sealbook", create=True).close()
        Journal.in_memory().tenant("acme").append("r", [entries.note("x")], epoch=1)
        gc.collect()
    assert not [warning for warning in told if "journal" in str(warning.message)]


def test_a_closed_journal_says_so_for_every_verb(journal: Journal, acme: Tenant) -> None:
    journal.close()
    journal.close()
    for verb in (
        lambda: acme.append("r", [entries.note("x")], epoch=1),
        lambda: acme.read("r"),
        acme.recent,
        journal.tenants,
        journal.info,
    ):
        with pytest.raises(Closed):
            verb()


def test_the_tenant_and_the_origin_have_defaults() -> None:
    journal = Journal.in_memory()
    assert (journal.origin, journal.tenant().name, journal.tenant().origin) == ("sealbook", "default", "sealbook")


def test_a_log_is_named_by_its_origin_and_its_tenant() -> None:
    journal = Journal.in_memory(origin="example.com/agents")
    assert journal.tenant("acme").checkpoint().origin == "example.com/agents/acme"
    assert journal.tenant().checkpoint().origin == "example.com/agents"


def test_the_origin_is_no_part_of_the_store(engine: MemoryEngine, journal: Journal, acme: Tenant) -> None:
    acme.append("r", [entries.admitted(), entries.concluded("done")], epoch=1, seal=True)
    found = b"".join(key + value for page in all_rows(engine).values() for key, value in page)
    assert b"sealbook/acme" not in found


@pytest.mark.parametrize("origin", ["", "a\nb", "a" * 1000, "\x00"])
def test_an_origin_that_no_checkpoint_may_carry_is_refused(origin: str) -> None:
    with pytest.raises(InvalidInput, match="origin"):
        Journal.in_memory(origin=origin)


def test_a_tenant_handle_is_a_view_and_two_are_the_same(journal: Journal) -> None:
    journal.tenant("acme").append("r", [entries.admitted()], epoch=1)
    assert journal.tenant("acme").head("r") == journal.tenant("acme").head("r")
    assert repr(journal.tenant("acme")) == "Tenant('acme')"


def test_the_tenant_is_part_of_every_key(journal: Journal, engine: MemoryEngine, acme: Tenant) -> None:
    """Behaviour A18: another tenant's run is a miss, not a row that is filtered out."""
    key = EffectKey("k")
    acme.acquire("r", owner="w", ttl=10)
    batch = [entries.admitted(source="s", id="1", case="c"), entries.effect_started(key, name="n")]
    acme.append("r", [*batch, entries.suspended(awaiting="x")], epoch=1)
    acme.anchor("r")
    acme.request_cancel("r", actor="ann")
    for table, page in all_rows(engine).items():
        for found, _ in page:
            if table not in (tables.STORE, tables.SIGNERS, tables.TENANTS):
                assert found.startswith(b"acme\0"), table
    for name in ("acm", "acme2", "Acme", "ACME"):
        other = journal.tenant(name)
        assert (list(other.read("r")), other.standing("r"), other.lease("r")) == ([], None, None)
        assert (other.effect("r", key), other.cancellation("r"), other.admitted_as("s", "1")) == (None, None, None)
        assert [len(page) for page in (other.runs(all=True), other.recent(), other.waiting(), other.history())] == [
            0
        ] * 4
        assert (list(other.case_history("c")), other.log_positions(["r"]), other.checkpoint().size) == ([], [None], 0)
    assert journal.tenants() == ["acme"]


def test_errors_name_the_run_and_carry_the_tenant(acme: Tenant) -> None:
    """Behaviour D8."""
    with pytest.raises(Fenced) as caught:
        acme.append("order-42", [entries.note("x")], epoch=5)
    assert caught.value.tenant == "acme"
    assert "order-42" in str(caught.value)
    assert "acme" not in str(caught.value)


def test_an_engine_that_holds_a_store_is_not_made_into_another(journal: Journal, engine: MemoryEngine) -> None:
    before = all_rows(engine)
    with pytest.raises(SealbookError, match="holds a store already"):
        Journal.over(engine)
    assert all_rows(engine) == before


def test_info_counts_what_the_store_holds(journal: Journal, acme: Tenant) -> None:
    acme.append("r", [entries.admitted(), entries.concluded("done")], epoch=1, seal=True)
    info = journal.info()
    assert (info["tenants"], info["runs"], info["records"], info["leaves"]) == (1, 1, 2, 1)
    assert info["store"] == journal.store_id.hex()
    assert info["index_current"] is True


# --- signing (A17, A27, A35) ----------------------------------------------------------------------------------------


def test_nothing_is_signed_unless_a_key_is_given(engine: MemoryEngine, acme: Tenant) -> None:
    [record] = acme.append("r", [entries.admitted()], epoch=1)
    assert (record.signer, record.signature) == (None, None)
    assert "signer" not in cbor2.loads(record.body)
    assert rows(engine, tables.SIGNERS) == []


def test_a_signed_record_names_its_signer_whose_key_is_kept(engine: MemoryEngine, clock: ManualClock) -> None:
    signer = Ed25519Signer(b"s" * 32)
    acme = Journal.over(engine, clock=clock, signer=signer).tenant("acme")
    [record] = acme.append("r", [entries.admitted()], epoch=1)
    assert record.signer == signer_id(signer.public_key) == cbor2.loads(record.body)["signer"]
    assert rows(engine, tables.SIGNERS) == [(record.signer, b"\1" + signer.public_key)]
    assert list(acme.read("r")) == [record]
    acme.request_cancel("r", actor="ann")
    assert acme.read("~tenant")[0].signer == record.signer


def test_the_store_signs_hashes_that_only_it_knows(clock: ManualClock) -> None:
    class Recorder:
        public_key = Ed25519Signer(bytes(32)).public_key
        asked: list[bytes] = []  # noqa: RUF012

        def sign(self, message: bytes) -> bytes:
            self.asked.append(message)
            return Ed25519Signer(bytes(32)).sign(message)

    signer = Recorder()
    made = Journal.in_memory(clock=clock, signer=signer).tenant("a").append("r", [entries.note("x")] * 3, epoch=1)
    assert signer.asked == [b"sealbook/probe/v1\0", *(b"sealbook/record/v1\0" + record.hash for record in made)]


def test_a_signer_does_not_make_the_private_key_visible() -> None:
    signer = Ed25519Signer(b"secret-secret-secret-secret-abcd")
    assert "secret" not in repr(signer)


# --- append (A45, A49, A52 to A74) ----------------------------------------------------------------------------------


def test_append_returns_the_records_as_read_gives_them(acme: Tenant) -> None:
    batch = [entries.admitted(source="s", id="1", case="c"), entries.effect_started(KEY, name="n", args=[1.5, b"x"])]
    made = acme.append("r", batch, epoch=1)
    assert list(acme.read("r")) == list(made)
    assert made.replayed is False


def test_an_empty_batch_is_an_empty_answer_and_no_transaction(clock: ManualClock) -> None:
    class Counting(MemoryEngine):
        writes = 0

        def write(self, work: Work) -> Applied:
            self.writes += 1
            return super().write(work)

    engine = Counting(clock=clock)
    acme = Journal.over(engine, clock=clock).tenant("acme")
    before = engine.writes
    assert acme.append("r", [], epoch=1) == []
    assert acme.append("r", iter(()), epoch=99) == []
    assert engine.writes == before
    assert acme.standing("r") is None


def test_seq_and_prev_run_on_through_a_batch_and_over_batches(acme: Tenant) -> None:
    made = [*acme.append("r", [entries.note("a"), entries.note("b")], epoch=1)]
    made += acme.append("r", [entries.note("c")], epoch=1)
    assert [record.seq for record in made] == [1, 2, 3]
    assert [record.prev for record in made] == [GENESIS, made[0].hash, made[1].hash]
    assert acme.head("r") == Head(3, made[2].hash)


def test_arrivals_are_numbered_per_tenant_without_gaps(journal: Journal, acme: Tenant) -> None:
    other = journal.tenant("other")
    acme.append("a", [entries.note("x")] * 2, epoch=1)
    other.append("a", [entries.note("x")], epoch=1)
    with pytest.raises(Fenced):
        acme.append("a", [entries.note("x")], epoch=9)
    acme.append("b", [entries.note("x")], epoch=1)
    assert [record.arrival for record in acme.history()] == [1, 2, 3]
    assert [record.arrival for record in other.history()] == [1]


def test_a_batch_has_one_time_read_when_it_is_written(acme: Tenant, clock: ManualClock) -> None:
    made = acme.append("r", [entries.note("a"), entries.note("b")], epoch=1)
    clock.advance(1.234)
    made += acme.append("r", [entries.note("c")], epoch=1)
    assert [record.at for record in made] == [clock.wall_ms - 1234, clock.wall_ms - 1234, clock.wall_ms]


def test_a_clock_before_1970_stamps_0_and_orders_nothing(acme: Tenant, clock: ManualClock) -> None:
    clock.step_wall(-4 * 10**9)
    assert [record.at for record in acme.append("r", [entries.note("x")], epoch=1)] == [0]


def test_a_clock_that_goes_back_orders_nothing(acme: Tenant, clock: ManualClock) -> None:
    """Behaviour D10, which amends A71: order is arrival; `updated_at` is the last record's `at`."""
    for run in "abc":
        clock.step_wall(-86_400)
        acme.append(run, [entries.admitted(source="s", id=run), entries.concluded("failed")], epoch=1)
    for listing in (acme.recent(), acme.recent_from("s"), acme.by_outcome("failed")):
        assert [standing.run for standing in listing] == ["c", "b", "a"]
    assert [record.run for record in acme.history()] == ["a", "a", "b", "b", "c", "c"]
    standing = acme.standing("c")
    assert standing is not None
    assert standing.updated_at == clock.wall_ms


def test_the_stored_bytes_are_those_of_the_moment_of_the_call(acme: Tenant) -> None:
    data: dict[str, Any] = {"list": [1]}
    request = requests.append("r", [entries.entry("Thing", data)], epoch=1)
    data["list"].append(2)
    data["x"] = 1
    acme.group([request])
    assert acme.read("r")[0].data == {"list": [1]}


def test_a_record_may_be_4_mib_and_no_more(acme: Tenant, engine: MemoryEngine) -> None:
    [first] = acme.append("r", [entries.note("")], epoch=1)
    room = 4 * 2**20 - len(first.body) - 4  # the text's length takes 4 bytes more than none
    [_, largest] = [
        *acme.append("s", [entries.note("")], epoch=1),
        *acme.append("t", [entries.note("x" * room)], epoch=1),
    ]
    assert len(largest.body) == 4 * 2**20
    error = refused_without_a_trace(
        engine, TooLarge, lambda: acme.append("u", [entries.note("x" * (room + 1))], epoch=1)
    )
    assert (error.size, error.size_max) == (4 * 2**20 + 1, 4 * 2**20)


def test_the_last_record_is_hashed_again_before_anything_is_chained_to_it(acme: Tenant, engine: MemoryEngine) -> None:
    """Behaviour D4."""
    made = acme.append("r", [entries.admitted(), entries.concluded("failed")], epoch=1)
    acme.acquire("r", owner="w", ttl=10)
    tamper_body(engine, "acme", "r", 2, made[1].body.replace(b"failed", b"faiLed"))
    for verb in (
        lambda: acme.append("r", [entries.note("x")], epoch=2),
        lambda: acme.append("r", [entries.concluded("done")], epoch=2, seal=True),
    ):
        error = refused_without_a_trace(engine, Corrupt, verb)
        assert (error.run, error.seq) == ("r", 2)


def test_a_last_record_that_was_replaced_by_a_sound_one_takes_no_successor(acme: Tenant, engine: MemoryEngine) -> None:
    """Behaviour D4: its hash covers its bytes, and is not the head that the state knows."""
    acme.append("r", [entries.note("x")], epoch=1)
    place = (tables.JOURNAL, tables.number_key("acme", 1))
    with engine.snapshot() as snapshot:
        [value] = snapshot.get_many([place])
    row = decode_row(value or b"", "r", 1)
    body = row.body.replace(b"\x64text\x61x", b"\x64text\x61y")
    forged = [row._replace(body=body, hash=chain_hash(row.prev, body)), row._replace(arrival=2)]
    for other in forged:
        tamper(engine, *place, encode_row(other))
        error = refused_without_a_trace(engine, Corrupt, acme.append, "r", [entries.note("z")], epoch=1)
        assert (error.run, error.seq) == ("r", 1)
        assert "state does not agree" in str(error)


def test_a_seal_or_anchor_of_a_damaged_head_is_corrupt(acme: Tenant, engine: MemoryEngine) -> None:
    sealing = acme.append("s", [entries.admitted(), entries.concluded("done")], epoch=1)
    acme.append("a", [entries.admitted()], epoch=1)
    tamper_body(engine, "acme", "s", 2, sealing[1].body + b"\0")
    delete_records(engine, "acme", "a")
    assert refused_without_a_trace(engine, Corrupt, lambda: acme.seal("s")).seq == 2
    assert refused_without_a_trace(engine, Corrupt, lambda: acme.anchor("a")).seq == 1
    assert refused_without_a_trace(engine, Corrupt, lambda: acme.append("a", [entries.note("x")], epoch=1)).seq == 1


def test_a_state_that_does_not_agree_with_the_last_record_takes_nothing(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.admitted()], epoch=1)
    [(key, own)] = rows(engine, tables.STATE)
    acme.append("s", [entries.admitted()], epoch=1)
    tamper(engine, tables.STATE, key, dict(rows(engine, tables.STATE))[b"acme\0s"])
    with pytest.raises(Corrupt):
        acme.append("r", [entries.note("y")], epoch=1)
    tamper(engine, tables.STATE, key, b"\xff" + own[1:])
    with pytest.raises(Corrupt, match="state row is damaged"):
        acme.append("r", [entries.note("y")], epoch=1)


def test_a_batch_with_one_effect_or_one_admission_twice_writes_nothing(acme: Tenant, engine: MemoryEngine) -> None:
    start = entries.effect_started(KEY, name="n")
    refused_without_a_trace(engine, DuplicateEffect, lambda: acme.append("r", [start, start], epoch=1))
    two = [requests.append(run, [entries.admitted(source="s", id="1")], epoch=1) for run in ("a", "b")]
    error = refused_without_a_trace(engine, DuplicateAdmission, lambda: acme.group(two))
    assert error.holder == "a"


def test_a_refused_append_leaves_nothing_of_any_kind(acme: Tenant, engine: MemoryEngine) -> None:
    """Behaviour A74: records, arrivals, effects, admissions, index rows, leaf and lease are one transaction."""
    acme.append("other", [entries.admitted(source="s", id="taken")], epoch=1)
    batch = [
        entries.admitted(source="s", id="new", case="c"),
        entries.effect_started(KEY, name="n"),
        entries.suspended(awaiting="x", case="c2"),
        entries.effect_done(EffectKey("never started")),
    ]
    refused_without_a_trace(engine, Refused, lambda: acme.append("r", batch, epoch=1))
    assert acme.admitted_as("s", "new") is None


def test_a_failed_commit_leaves_nothing_and_the_next_append_follows_the_stored_head(clock: ManualClock) -> None:
    class Flaky(MemoryEngine):
        fail = False

        def _check(self, writes: Writes) -> None:
            if self.fail:
                raise OSError(28, "No space left on device")
            super()._check(writes)

    engine = Flaky(clock=clock)
    acme = Journal.over(engine, clock=clock).tenant("acme")
    made = acme.append("r", [entries.admitted()], epoch=1)
    before = all_rows(engine)
    engine.fail = True
    with pytest.raises(OSError, match="No space"):
        acme.append("r", [entries.effect_started(KEY, name="n"), entries.concluded("failed")], epoch=1)
    with pytest.raises(OSError, match="No space"):
        acme.acquire("r", owner="w", ttl=10)
    engine.fail = False
    assert all_rows(engine) == before
    [next_] = acme.append("r", [entries.effect_started(KEY, name="n")], epoch=1)
    assert (next_.seq, next_.arrival, next_.prev) == (2, 2, made[0].hash)
    assert acme.acquire("r", owner="w", ttl=10).epoch == 2


@pytest.mark.parametrize("cause", [OSError(5, "Input/output error"), RuntimeError("lost")])
def test_a_commit_of_unknown_outcome_says_that_it_may_have_happened(clock: ManualClock, cause: Exception) -> None:
    class Lost(MemoryEngine):
        lost = False

        def write(self, work: Work) -> Any:
            outcome = super().write(work)
            return Unknown(cause) if self.lost else outcome

    engine = Lost(clock=clock)
    acme = Journal.over(engine, clock=clock).tenant("acme")
    head = acme.head("r")
    engine.lost = True
    with pytest.raises(CommitUnknown) as caught:
        acme.append("r", [entries.admitted()], epoch=1, after=head)
    assert caught.value.maybe_written is True
    assert caught.value.__cause__ is cause
    engine.lost = False
    assert acme.append("r", [entries.admitted()], epoch=1, after=head).replayed


def test_an_engine_that_asks_to_try_again_is_asked_again_and_then_busy(clock: ManualClock) -> None:
    class Contended(MemoryEngine):
        retries = 0

        def write(self, work: Work) -> Any:
            if self.retries:
                self.retries -= 1
                return Retry("somebody else won")
            return super().write(work)

    engine = Contended(clock=clock)
    acme = Journal.over(engine, clock=clock).tenant("acme")
    engine.retries = 3
    assert len(acme.append("r", [entries.admitted()], epoch=1)) == 1
    engine.retries = 1000
    with pytest.raises(Busy, match="somebody else won"):
        acme.append("r", [entries.note("x")], epoch=1)
    engine.retries = 0
    assert acme.head("r").seq == 1


def test_a_store_whose_indexes_are_stale_takes_no_writes_and_lists_nothing(acme: Tenant, engine: MemoryEngine) -> None:
    """Behaviour D9: chains stay readable."""
    acme.append("r", [entries.admitted(source="s", id="1", case="c"), entries.concluded("done")], epoch=1, seal=True)
    stale = StoreRow.decode(rows(engine, tables.STORE)[0][1])
    object.__setattr__(stale, "rebuild", b"rebuild!")
    tamper(engine, *tables.STORE_PLACE, stale.encode())
    stopped: list[Callable[[], Any]] = [
        lambda: acme.append("r", [entries.note("x")], epoch=1),
        lambda: acme.acquire("s", owner="w", ttl=10),
        acme.recent,
        acme.waiting,
        lambda: acme.recent_from("s"),
        lambda: acme.by_outcome("done"),
        lambda: acme.count_by_outcome("done"),
        lambda: acme.case_history("c"),
        lambda: acme.names("case"),
    ]
    for verb in stopped:
        refused_without_a_trace(engine, IndexStale, verb)
    assert len(acme.read("r")) == 2
    assert acme.inclusion_proof("r") is not None
    assert [standing.run for standing in acme.runs()] == ["r"]


def test_epochs_begin_above_those_of_earlier_restorations(acme: Tenant, engine: MemoryEngine) -> None:
    """Behaviour D14: an epoch is restoration × 2**32 + a counter, also for the tenant's own run."""
    acme.append("old", [entries.note("x")], epoch=1)
    row = StoreRow.decode(rows(engine, tables.STORE)[0][1])
    object.__setattr__(row, "restoration", 3)
    tamper(engine, *tables.STORE_PLACE, row.encode())
    for run in ("old", "new"):
        assert acme.acquire(run, owner="w", ttl=10).epoch == 3 * 2**32 + 1
        acme.append(run, [entries.note("y")], epoch=3 * 2**32 + 1)
    acme.request_cancel("new", actor="ann")
    assert [record.epoch for record in acme.read("~tenant")] == [3 * 2**32]


def test_a_damaged_store_row_stops_every_write(acme: Tenant, engine: MemoryEngine) -> None:
    [(key, value)] = rows(engine, tables.STORE)
    for index in range(len(value)):
        tamper(engine, tables.STORE, key, value[:index] + bytes([value[index] ^ 1]) + value[index + 1 :])
        with pytest.raises(Corrupt) as caught:
            acme.append("r", [entries.note("x")], epoch=1)
        assert caught.value.table == tables.STORE
    tamper(engine, tables.STORE, key, None)
    with pytest.raises(Corrupt, match="missing"):
        acme.append("r", [entries.note("x")], epoch=1)


def test_a_row_that_stands_where_a_new_one_belongs_is_corrupt(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.admitted()], epoch=1)
    tamper(engine, tables.JOURNAL, tables.number_key("acme", 2), b"planted")
    error = refused_without_a_trace(engine, Corrupt, lambda: acme.append("r", [entries.note("x")], epoch=1))
    assert (error.table, error.key) == (tables.JOURNAL, tables.number_key("acme", 2))


def test_threads_appending_to_one_run_make_one_chain(acme: Tenant) -> None:
    def write(name: str) -> None:
        for number in range(20):
            acme.append("r", [entries.note(f"{name}{number}"), entries.note("and")], epoch=1)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = acme.read("r", limit=1000)
    assert [record.seq for record in made] == list(range(1, 161))
    assert all(record.prev == before.hash for before, record in itertools.pairwise(made))
    assert all(chain_hash(record.prev, record.body) == record.hash for record in made)


def test_threads_admitting_one_key_make_one_run(acme: Tenant) -> None:
    won: list[str] = []
    lost: list[str] = []
    read: list[str] = []

    def admit(run: str) -> None:
        try:
            acme.append(run, [entries.admitted(source="s", id="1")], epoch=1)
            won.append(run)
        except DuplicateAdmission as error:
            lost.append(error.holder)
            read.append(acme.read(error.holder)[0].kind)

    threads = [threading.Thread(target=admit, args=(f"r{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert lost == won * 7
    assert read == ["RunAdmitted"] * 7  # the loser can read the winner's run at once


def test_threads_starting_one_effect_record_one_start(acme: Tenant) -> None:
    outcomes: list[str] = []

    def start() -> None:
        try:
            acme.append("r", [entries.effect_started(KEY, name="n")], epoch=1)
            outcomes.append("started")
        except DuplicateEffect:
            outcomes.append("duplicate")

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["duplicate"] * 7 + ["started"]


def test_threads_acquiring_one_run_for_the_first_time_get_one_lease(acme: Tenant) -> None:
    granted: list[int] = []

    def acquire(owner: str) -> None:
        with contextlib.suppress(LeaseHeld):
            granted.append(acme.acquire("r", owner=owner, ttl=10).epoch)

    threads = [threading.Thread(target=acquire, args=(f"w{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert granted == [1]


# --- admission (A8, A63, A64, A97) ----------------------------------------------------------------------------------


def test_an_admission_key_is_honoured_once_and_names_its_run(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("first", [entries.admitted(source="shop", id="42")], epoch=1)
    for run in ("second", "third"):
        batch = [entries.admitted(source="shop", id="42")]
        error = refused_without_a_trace(engine, DuplicateAdmission, acme.append, run, batch, epoch=1)
        assert (error.source, error.id, error.holder) == ("shop", "42", "first")
    assert acme.admitted_as("shop", "42") == "first"
    assert acme.admitted_as("shop", "43") is None


def test_source_and_id_are_told_apart_whatever_they_hold(acme: Tenant) -> None:
    pairs = [
        ("a", "bc"),
        ("ab", "c"),
        ("a/b", "c"),
        ("a", "b/c"),
        ("a:b", "c"),
        ("a", "b:c"),
        ("é", "x"),
        ("e", "\u0301x"[1:]),
    ]
    for number, (source, id) in enumerate(pairs):
        acme.append(f"r{number}", [entries.admitted(source=source, id=id)], epoch=1)
    assert [acme.admitted_as(source, id) for source, id in pairs] == [f"r{number}" for number in range(len(pairs))]


def test_an_admission_row_does_not_tell_its_key(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.admitted(source="shop", id="secret-message-id")], epoch=1)
    [(key, value)] = rows(engine, tables.ADMISSIONS)
    assert key.startswith(b"acme\0")
    assert len(key) == 5 + 32
    assert b"secret" not in key
    assert value == b"r"
    tamper(engine, tables.ADMISSIONS, key, b"\xff")
    with pytest.raises(Corrupt, match="names no run"):
        acme.admitted_as("shop", "secret-message-id")


def test_a_lease_alone_and_an_unkeyed_admission_claim_no_key(acme: Tenant, engine: MemoryEngine) -> None:
    acme.acquire("r", owner="w", ttl=10)
    acme.append("r", [entries.admitted()], epoch=1)
    assert rows(engine, tables.ADMISSIONS) == []
    standing = acme.standing("r")
    assert standing is not None
    assert standing.source is None


def test_a_source_is_that_of_the_keyed_admission(acme: Tenant) -> None:
    """Behaviour D21."""
    acme.append("r", [entries.admitted(source="shop", id="1"), entries.note("x", data={"source": "mail"})], epoch=1)
    standing = acme.standing("r")
    assert standing is not None
    assert standing.source == "shop"


# --- after= (DESIGN section 5) --------------------------------------------------------------------------------------


BATCH = [entries.note("a", case="c"), entries.effect_started(KEY, name="n", args={"x": 1})]


def test_a_head_that_has_not_moved_lets_the_append_in(acme: Tenant) -> None:
    head = acme.head("r")
    made = acme.append("r", BATCH, epoch=1, after=head)
    assert (head, made.replayed) == (Head(0, GENESIS), False)
    assert acme.append("r", [entries.note("b")], epoch=1, after=acme.head("r"))[0].seq == 3


def test_entries_that_already_follow_are_answered_with_their_records(acme: Tenant, engine: MemoryEngine) -> None:
    head = acme.head("r")
    made = acme.append("r", BATCH, epoch=1, after=head)
    acme.append("r", [entries.note("later")], epoch=1)
    before = all_rows(engine)
    for count in (1, 2):
        again = acme.append("r", BATCH[:count], epoch=1, after=head)
        assert (list(again), again.replayed) == (list(made)[:count], True)
    again = acme.append("r", BATCH[1:], epoch=1, after=Head(1, made[0].hash))
    assert (list(again), again.replayed) == ([made[1]], True)
    assert all_rows(engine) == before


OTHERS: dict[str, Any] = {
    "other data": [entries.note("b", case="c")],
    "other kind": [entries.entry("Remark", {"text": "a"}, case="c")],
    "other case": [entries.note("a", case="d")],
    "no case": [entries.note("a")],
    "more data": [entries.note("a", case="c", data={"more": None})],
    "an effect": [entries.entry("Note", {"text": "a"}, case="c", effect=KEY)],
    "partial overlap": [BATCH[0], entries.note("other")],
    "longer than what follows": [*BATCH, entries.note("more")],
    "other effect": [BATCH[0], entries.effect_started(EffectKey("other"), name="n", args={"x": 1})],
    "1.0 for 1": [BATCH[0], entries.effect_started(KEY, name="n", args={"x": 1.0})],
    "True for 1": [BATCH[0], entries.effect_started(KEY, name="n", args={"x": True})],
}


@pytest.mark.parametrize("why", OTHERS)
def test_anything_else_after_a_head_that_moved_is_a_conflict(acme: Tenant, engine: MemoryEngine, why: str) -> None:
    head = acme.head("r")
    acme.append("r", BATCH, epoch=1, after=head)
    error = refused_without_a_trace(engine, Conflict, lambda: acme.append("r", OTHERS[why], epoch=1, after=head))
    assert error.head == acme.head("r")


def test_minus_zero_is_not_zero_in_a_replay(acme: Tenant, engine: MemoryEngine) -> None:
    head = acme.head("r")
    acme.append("r", [entries.entry("Number", {"x": 0.0})], epoch=1, after=head)
    for value in (-0.0, 0, False):
        other = [entries.entry("Number", {"x": value})]
        refused_without_a_trace(engine, Conflict, acme.append, "r", other, epoch=1, after=head)
    assert acme.append("r", [entries.entry("Number", {"x": 0.0})], epoch=1, after=head).replayed


def test_a_replay_is_that_of_the_callers_own_epoch(acme: Tenant, engine: MemoryEngine) -> None:
    head = acme.head("r")
    first = acme.acquire("r", owner="a", ttl=10)
    acme.append("r", BATCH, lease=first, after=head)
    acme.release(first)
    second = acme.acquire("r", owner="b", ttl=10)
    assert acme.append("r", BATCH, lease=first, after=head).replayed  # looked for before the fence
    refused_without_a_trace(engine, Conflict, lambda: acme.append("r", BATCH, lease=second, after=head))


def test_a_replay_is_found_after_the_seal(acme: Tenant, engine: MemoryEngine) -> None:
    head = acme.head("r")
    batch = [entries.admitted(), entries.concluded("done")]
    made = acme.append("r", batch, epoch=1, after=head, seal=True)
    before = all_rows(engine)
    again = acme.append("r", batch, epoch=1, after=head, seal=True)
    assert (list(again), again.replayed) == (list(made), True)
    assert all_rows(engine) == before
    refused_without_a_trace(engine, RunSealed, lambda: acme.append("r", batch, epoch=1))


def test_a_replay_seals_the_conclusion_that_an_earlier_call_left_unsealed(acme: Tenant, engine: MemoryEngine) -> None:
    head = acme.head("r")
    batch = [entries.admitted(), entries.concluded("done")]
    made = acme.append("r", batch, epoch=1, after=head)
    error = refused_without_a_trace(engine, NotConcluded, acme.append, "r", batch[:1], epoch=1, after=head, seal=True)
    assert (error.last_kind, error.outcome) == ("RunAdmitted", None)
    again = acme.append("r", batch, epoch=1, after=head, seal=True)
    assert (list(again), again.replayed, acme.log_positions(["r"])) == (list(made), True, [0])
    failed = [entries.concluded("failed")]
    acme.append("s", failed, epoch=1, after=head)
    refused_without_a_trace(engine, NotConcluded, acme.append, "s", failed, epoch=1, after=head, seal=True)


def test_a_replay_does_not_seal_past_the_fence(acme: Tenant, engine: MemoryEngine) -> None:
    """Behaviour A92: who lost the lease does not seal, not even what it concluded itself."""
    head = acme.head("r")
    batch = [entries.admitted(), entries.concluded("done")]
    first = acme.acquire("r", owner="a", ttl=10)
    acme.append("r", batch, lease=first, after=head)
    acme.release(first)
    second = acme.acquire("r", owner="b", ttl=10)
    refused_without_a_trace(engine, Fenced, acme.append, "r", batch, lease=first, after=head, seal=True)
    assert acme.append("r", batch, lease=first, after=head).replayed
    assert acme.seal("r", lease=second).index == 0
    assert acme.append("r", batch, lease=first, after=head, seal=True).replayed


@pytest.mark.parametrize(
    "after", [Head(0, b"x" * 32), Head(1, b"x" * 32), Head(2, b"x" * 32), Head(3, b"x" * 32), Head(2**62, GENESIS)]
)
def test_a_head_that_never_was_is_a_conflict(acme: Tenant, engine: MemoryEngine, after: Head) -> None:
    acme.append("r", BATCH, epoch=1)
    refused_without_a_trace(engine, Conflict, lambda: acme.append("r", BATCH[:1], epoch=1, after=after))


def test_a_conflict_on_a_run_without_records_names_the_genesis_head(acme: Tenant, engine: MemoryEngine) -> None:
    error = refused_without_a_trace(
        engine, Conflict, lambda: acme.append("r", BATCH, epoch=1, after=Head(1, b"x" * 32))
    )
    assert error.head == Head(0, GENESIS)


@pytest.mark.parametrize("after", ["head", 3, (0, GENESIS), b""])
def test_after_is_a_head(acme: Tenant, after: Any) -> None:
    with pytest.raises(InvalidInput, match="must be a Head"):
        acme.append("r", BATCH, epoch=1, after=after)


# --- seal= and groups -----------------------------------------------------------------------------------------------


def test_a_batch_that_seals_must_end_in_a_conclusion_that_seals(acme: Tenant, engine: MemoryEngine) -> None:
    for batch, outcome in (
        ([entries.admitted()], None),
        ([entries.admitted(), entries.concluded("failed")], "failed"),
        ([entries.concluded("withheld")], "withheld"),
    ):
        error = refused_without_a_trace(engine, NotConcluded, acme.append, "r", batch, epoch=1, seal=True)
        assert error.outcome == outcome


def test_a_conclusion_and_its_seal_are_one_transaction(acme: Tenant) -> None:
    lease = acme.acquire("r", owner="w", ttl=10)
    acme.append("r", [entries.admitted(), entries.concluded("done")], lease=lease, seal=True)
    standing = acme.standing("r")
    assert standing is not None
    assert (standing.sealed, standing.seal, acme.checkpoint().size, acme.lease("r")) == (True, 0, 1, None)


def test_a_group_enters_whole_with_the_epochs_that_it_acquired(acme: Tenant) -> None:
    lease, made, none, leaf = acme.group(
        [
            requests.acquire("r", owner="w", ttl=10),
            requests.append("r", [entries.admitted(), entries.concluded("failed")]),
            requests.release("r"),
            requests.anchor("r"),
        ]
    )
    assert (lease.epoch, [record.epoch for record in made], none, leaf.kind) == (1, [1, 1], None, "anchor")
    assert acme.group([]) == []


def test_a_group_of_which_one_part_is_refused_leaves_nothing(acme: Tenant, engine: MemoryEngine) -> None:
    parts: list[requests.Request] = [
        requests.acquire("a", owner="w", ttl=10),
        requests.append("a", [entries.admitted(source="s", id="1", case="c"), entries.concluded("done")], seal=True),
        requests.request_cancel("b", actor="ann"),
        requests.append("b", [entries.effect_done(KEY)], epoch=1),
    ]
    refused_without_a_trace(engine, Refused, lambda: acme.group(parts))
    assert acme.append("b", [entries.admitted(source="s", id="1")], epoch=1)[0].arrival == 1


def test_a_group_holds_no_group_and_an_append_in_it_needs_an_epoch(acme: Tenant) -> None:
    with pytest.raises(InvalidInput, match="another group"):
        requests.group([requests.group([])])
    with pytest.raises(InvalidInput, match="pass lease= or epoch="):
        acme.group([requests.append("r", [entries.note("x")])])


# --- cancel (A113, A114, D18) ---------------------------------------------------------------------------------------


def test_a_cancel_request_is_answered_by_what_became_of_it(acme: Tenant, clock: ManualClock) -> None:
    acme.append("open", [entries.admitted()], epoch=1)
    acme.append("done", [entries.admitted(), entries.concluded("done")], epoch=1)
    acme.append("sealed", [entries.admitted(), entries.concluded("fine")], epoch=1, seal=True)
    answers = {run: acme.request_cancel(run, actor="ann", reason="why") for run in ("open", "done", "sealed", "nobody")}
    assert {run: (answer.status, answer.outcome) for run, answer in answers.items()} == {
        "open": ("recorded", None),
        "done": ("concluded", "done"),
        "sealed": ("concluded", "fine"),
        "nobody": ("unknown-run", None),
    }
    assert {run for run in answers if acme.cancellation(run) is not None} == {"open", "nobody"}
    found = acme.cancellation("open")
    assert found is not None
    assert (found.run, found.actor, found.reason, found.basis, found.at) == (
        "open",
        "ann",
        "why",
        "asserted",
        clock.wall_ms,
    )


def test_the_first_cancel_request_stands_and_the_second_is_told_of_it(acme: Tenant, engine: MemoryEngine) -> None:
    for run in ("r", "nobody"):
        if run == "r":
            acme.append("r", [entries.admitted()], epoch=1)
        acme.request_cancel(run, actor="ann", reason="first", basis="authenticated")
        before = all_rows(engine)
        answer = acme.request_cancel(run, actor="bob", reason="second")
        assert answer.status == "already-requested"
        assert answer.cancellation == acme.cancellation(run)
        assert answer.cancellation is not None
        assert (answer.cancellation.actor, answer.cancellation.reason) == ("ann", "first")
        assert all_rows(engine) == before


def test_a_run_that_failed_may_be_resumed_and_finds_the_request(acme: Tenant) -> None:
    acme.append("r", [entries.admitted(), entries.concluded("failed")], epoch=1)
    answer = acme.request_cancel("r", actor="ann")
    assert (answer.status, answer.outcome) == ("concluded", "failed")
    acme.append("r", [entries.note("again")], epoch=1)
    assert acme.cancellation("r") == answer.cancellation


def test_a_cancel_request_needs_no_lease_and_moves_no_run(acme: Tenant) -> None:
    lease = acme.acquire("r", owner="w", ttl=10)
    acme.append("r", [entries.admitted()], lease=lease)
    standing = acme.standing("r")
    acme.request_cancel("r", actor="ann")
    assert acme.standing("r") == standing
    acme.append("r", [entries.note("x")], lease=lease)


def test_operator_acts_are_records_of_the_tenants_own_run(journal: Journal, acme: Tenant) -> None:
    acme.append("r", [entries.admitted()], epoch=1)
    acme.request_cancel("r", actor="ann", reason="why", basis="connected")
    acme.request_cancel("s", actor="bob")
    first, second = acme.read("~tenant")
    assert [(record.seq, record.arrival, record.kind, record.epoch) for record in (first, second)] == [
        (1, 2, "CancelRequested", 0),
        (2, 3, "CancelRequested", 0),
    ]
    assert first.data == {"run": "r", "actor": "ann", "reason": "why", "basis": "connected"}
    assert first.salt is not None
    assert second.prev == first.hash
    assert [standing.run for standing in acme.runs()] == ["r"]
    assert [standing.run for standing in acme.runs(all=True)] == ["r", "~tenant"]
    assert [standing.run for standing in acme.recent()] == ["r"]
    assert [record.run for record in acme.history()] == ["r", "~tenant", "~tenant"]
    assert list(journal.tenant("other").read("~tenant")) == []


@pytest.mark.parametrize("basis", ["", "Asserted", "rumour", None, 1])
def test_a_basis_is_one_of_three(acme: Tenant, basis: Any) -> None:
    with pytest.raises(InvalidInput, match="basis"):
        acme.request_cancel("r", actor="ann", basis=basis)


@pytest.mark.parametrize("actor", ["", " ", "a\n", "x" * 257, None, 5])
def test_an_actor_has_a_name(acme: Tenant, actor: Any) -> None:
    with pytest.raises(InvalidName, match="actor"):
        acme.request_cancel("r", actor=actor)


def test_a_reason_may_be_long_and_has_an_end(acme: Tenant) -> None:
    acme.request_cancel("r", actor="ann", reason="é" * 1000)
    found = acme.cancellation("r")
    assert found is not None
    assert found.reason == "é" * 1000
    with pytest.raises(TooLarge):
        acme.request_cancel("s", actor="ann", reason="x" * (64 * 1024 + 1))
    with pytest.raises(InvalidInput, match="reason"):
        acme.request_cancel("s", actor="ann", reason=5)  # type: ignore[arg-type]


def test_a_cancel_row_that_points_at_no_cancel_request_is_corrupt(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("r", [entries.admitted()], epoch=1)
    acme.request_cancel("r", actor="ann")
    acme.force_lease("r", actor="ann", reason="x")
    key = tables.run_key("acme", "r")
    tamper(engine, tables.CANCELS, key, (2).to_bytes(8, "big"))
    with pytest.raises(Corrupt, match="no cancel request"):
        acme.cancellation("r")
    tamper(engine, tables.CANCELS, key, (9).to_bytes(8, "big"))
    with pytest.raises(Corrupt, match="missing"):
        acme.cancellation("r")


def test_a_stored_basis_that_no_build_wrote_is_corrupt(acme: Tenant, engine: MemoryEngine) -> None:
    """Behaviour A44: what is stored is read by the word's own list, never with a default."""
    acme.request_cancel("r", actor="ann")
    [(key, value)] = rows(engine, tables.JOURNAL)
    row = decode_row(value, "~tenant", 1)
    body = row.body.replace(b"\x68asserted", b"\x68presumed")
    tamper(engine, tables.JOURNAL, key, encode_row(row._replace(body=body, hash=chain_hash(row.prev, body))))
    with pytest.raises(Corrupt, match="presumed"):
        acme.cancellation("r")


# --- upcasters (A28, P22, P108) -------------------------------------------------------------------------------------


def test_a_record_of_a_newer_version_stops_readers_and_is_called_by_its_name(clock: ManualClock) -> None:
    """Behaviour P25: never Corrupt."""
    upcaster = SwitchableUpcaster()
    acme = Journal.in_memory(clock=clock, upcaster=upcaster).tenant("acme")
    upcaster.versions["Note"] = 2
    acme.append("r", [entries.note("x", case="c")], epoch=1)
    upcaster.versions["Note"] = 1
    verbs: list[Callable[[], Any]] = [lambda: acme.read("r"), acme.history, lambda: acme.case_history("c")]
    for verb in verbs:
        with pytest.raises(UnknownVersion) as caught:
            verb()
        assert (caught.value.run, caught.value.seq, caught.value.tenant) == ("r", 1, "acme")


def test_older_records_are_lifted_in_every_listing_that_shows_them(clock: ManualClock) -> None:
    upcaster = SwitchableUpcaster()
    acme = Journal.in_memory(clock=clock, upcaster=upcaster).tenant("acme")
    acme.append("r", [entries.effect_started(KEY, name="n", case="c"), entries.suspended(awaiting="x")], epoch=1)
    for kind in ("EffectStarted", "RunSuspended"):
        upcaster.versions[kind] = 2
    assert [record.data["lifted"] for record in acme.read("r")] == [2, 2]
    assert [record.data["lifted"] for record in acme.history()] == [2, 2]
    assert acme.case_history("c")[0].data["lifted"] == 2
    assert (acme.effects("r")[0].name, acme.waiting()[0].awaiting) == ("n", "x")


def test_new_records_carry_the_version_that_the_upcaster_names(clock: ManualClock) -> None:
    upcaster = SwitchableUpcaster()
    upcaster.versions["Note"] = 7
    acme = Journal.in_memory(clock=clock, upcaster=upcaster).tenant("acme")
    [record] = acme.append("r", [entries.note("x")], epoch=1)
    assert (record.v, cbor2.loads(record.body)["v"]) == (7, 7)
    assert Journal.in_memory().tenant("acme").append("r", [entries.note("x")], epoch=1)[0].v == 1


# --- seals of the wrong outcome, and what else the verbs refuse -----------------------------------------------------


def test_a_seal_takes_the_outcome_from_the_run_and_refuses_another(acme: Tenant, engine: MemoryEngine) -> None:
    """Behaviour D3."""
    acme.append("r", [entries.admitted(), entries.concluded("done")], epoch=1)
    error = refused_without_a_trace(engine, Mismatch, lambda: acme.seal("r", outcome="fine"))
    assert (error.stated, error.recorded) == ("fine", "done")
    acme.seal("r", outcome="done")
    refused_without_a_trace(engine, Mismatch, lambda: acme.seal("r", outcome="fine"))


def test_a_caller_does_not_write_to_the_stores_own_runs(acme: Tenant, engine: MemoryEngine) -> None:
    acme.request_cancel("r", actor="ann")
    verbs: list[Callable[[], Any]] = [
        lambda: acme.append("~tenant", [entries.note("x")], epoch=0),
        lambda: acme.acquire("~tenant", owner="w", ttl=10),
        lambda: acme.seal("~tenant"),
        lambda: acme.request_cancel("~tenant", actor="ann"),
        lambda: acme.force_lease("~tenant", actor="ann", reason="x"),
        lambda: acme.append("~mine", [entries.note("x")], epoch=1),
    ]
    for verb in verbs:
        refused_without_a_trace(engine, InvalidName, verb)


def test_a_sealed_run_is_refused_even_to_the_rightful_holder(acme: Tenant, engine: MemoryEngine) -> None:
    lease = acme.acquire("r", owner="w", ttl=10)
    acme.append("r", [entries.admitted(), entries.concluded("done")], lease=lease)
    acme.seal("r", lease=lease)
    head = acme.head("r")
    for epoch in (1, 2):
        for entry in (entries.note("x"), entries.suspended(), entries.effect_started(KEY, name="n")):
            error = refused_without_a_trace(engine, RunSealed, acme.append, "r", [entry], epoch=epoch)
            assert error.outcome == "done"
    assert acme.head("r") == head


def test_a_refusal_within_a_conclusion_is_told_before_the_place_of_its_entries(acme: Tenant) -> None:
    acme.append("r", [entries.admitted(), entries.concluded("done")], epoch=1)
    with pytest.raises(Concluded):
        acme.append("r", [entries.admitted()], epoch=1)
    with pytest.raises(InvalidEntry):
        acme.append("s", [entries.note("x"), entries.admitted()], epoch=1)


class _Signer:
    """A signer with a public key and a way to sign."""

    def __init__(self, public_key: object, sign: Callable[[bytes], Any]) -> None:
        self.public_key, self.sign = public_key, sign


def _zeros(message: bytes) -> bytes:
    return bytes(64)


@pytest.mark.parametrize(
    "signer",
    ["x", _Signer(bytes(31), _zeros), _Signer(Ed25519Signer(bytes(32)).public_key, _zeros)],
    ids=["no signer", "short key", "foreign signature"],
)
def test_a_signer_whose_signatures_are_not_its_keys_is_refused_at_open(signer: Any) -> None:
    with pytest.raises(InvalidInput, match="signer"):
        Journal.in_memory(signer=signer)


@pytest.mark.parametrize("version", ["x", 0, True, 2**32, None])
def test_a_version_that_is_none_is_refused_before_it_is_written(version: Any) -> None:
    class Upcaster(IdentityUpcaster):
        def current_version(self, kind: str) -> int:
            return version  # type: ignore[no-any-return]

    tenant = Journal.in_memory(upcaster=Upcaster()).tenant()
    with pytest.raises(InvalidInput, match="version"):
        tenant.append("r", [entries.note("x")], epoch=1)
    assert tenant.head("r").seq == 0


@pytest.mark.parametrize("path", ["agents\udcff", "agents\0.sealbook"])
def test_a_path_that_is_no_name_of_a_folder_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="path"):
        Journal.open(f"{tmp_path}/{path}", create=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("made", [b"", bytes(63), "x" * 64, bytearray(64), None], ids=repr)
def test_what_a_signer_makes_that_cannot_be_a_signature_is_never_written(made: Any) -> None:
    """A device that fails halfway: its record would be acknowledged, and nobody could ever read it."""
    key = Ed25519Signer(bytes(32))
    signer = _Signer(key.public_key, key.sign)
    with Journal.in_memory(signer=signer) as journal:  # type: ignore[arg-type]
        acme = journal.tenant("acme")
        acme.append("r", [entries.note("signed")], epoch=1)
        signer.sign = lambda message: made
        with pytest.raises(InvalidInput, match="signer"):
            acme.append("r", [entries.note("not signed")], epoch=1)
        signer.sign = key.sign
        acme.append("r", [entries.note("signed again")], epoch=1)
        assert [record.data["text"] for record in acme.read("r")] == ["signed", "signed again"]
        assert journal.check().ok


def test_a_clock_that_talks_nonsense_is_refused_by_name_and_nothing_is_written() -> None:
    moment = Moment(1_000_000, 5_000, bytes(range(16)))
    told: list[Any] = [moment]
    with Journal.in_memory(clock=lambda: told[0]) as journal:
        acme = journal.tenant("acme")
        for nonsense in (
            None,
            replace(moment, wall_ms=True),
            replace(moment, wall_ms=2**63),
            replace(moment, boot_id=b""),
        ):
            told[0] = nonsense
            with pytest.raises(InvalidInput, match="clock"):
                acme.append("r", [entries.note("x")], epoch=1)
            with pytest.raises(InvalidInput, match="clock"):
                acme.acquire("r", owner="w", ttl=5)
        told[0] = moment
        assert acme.append("r", [entries.note("x")], epoch=1)[0].at == 1_000_000
        assert journal.check().ok
