"""A bundle holds what was asked for as it stood at one moment, byte for byte, and passes no damage on."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from bundling import CLAIMED, MADE_AT, bundle_of, content_of, frames_of, kinds, said
from tampering import change, engine_of, long_store, random_history, record_place, rich_store, rows, signed_by_nobody

from sealbook.indexes.registry import INDEX_TABLES
from sealbook.journal import Corrupt, InvalidInput, Journal, NotFound, entries
from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import Codec
from sealbook.journal.bundle.reader import Bundle
from sealbook.journal.bundle.records import Believed
from sealbook.journal.errors import Busy
from sealbook.journal.exporting import export
from sealbook.journal.exporting.question import Question
from sealbook.journal.schema import tables
from sealbook.journal.testing import ManualClock
from sealbook.merkle.checkpoint import Checkpoint

SEEDS = range(20261129, 20261129 + 12)


def believed(data: bytes) -> list[Believed]:
    found = [item.value for item in Bundle(io.BytesIO(data)).items()]
    return [value for value in found if isinstance(value, Believed)]


def test_a_tenants_records_stand_as_the_store_has_them_in_the_order_of_their_arrival() -> None:
    journal = rich_store()
    data = bundle_of(journal, Question("tenant", "acme"))
    payloads = [frame.payload for frame in frames_of(data) if frame.kind == fr.RECORD]
    stored = rows(engine_of(journal), tables.JOURNAL)
    assert payloads == [value for key, value in sorted(stored.items()) if key.startswith(b"acme\0")]
    assert [record.row.arrival for record in believed(data)] == list(range(1, len(payloads) + 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_both_readers_find_sound_whatever_a_store_came_to(seed: int) -> None:
    journal = random_history(seed, steps=40)
    assert said(bundle_of(journal, Question("store"))) == ("sound", 0), seed
    for tenant in journal.tenants():
        assert said(bundle_of(journal, Question("span", tenant))) == ("sound", 0), seed


def test_the_same_question_gives_the_same_bytes() -> None:
    journal = rich_store()
    for codec in Codec:
        question = Question("store")
        assert bundle_of(journal, question, codec=codec) == bundle_of(journal, question, codec=codec)
    one, later = (bundle_of(journal, Question("store"), made_at=made_at) for made_at in (MADE_AT, MADE_AT + 1))
    assert one[40:-32] == later[40:-32] and one != later
    contents = {content_of(bundle_of(journal, Question("store"), codec=codec)) for codec in Codec}
    assert len(contents) == 1


def test_a_leaf_stands_right_behind_the_last_record_that_the_log_so_far_attests() -> None:
    journal = Journal.in_memory(clock=ManualClock())
    tenant = journal.tenant("t")
    tenant.append("a", [entries.note("1")], epoch=1)
    tenant.append("b", [entries.note("2")], epoch=1)
    tenant.anchor("b")
    tenant.anchor("a")  # its record came before that of the leaf before
    tenant.append("a", [entries.note("3")], epoch=1)
    assert kinds(bundle_of(journal, Question("tenant", "t"))) == "HTRRLLREZ"


def test_runs_that_are_asked_for_come_whole_and_with_the_proof_of_their_highest_leaf() -> None:
    journal = rich_store()
    data = bundle_of(journal, Question("runs", "acme", ("wait", "done/1")))
    counts = Counter(record.run for record in believed(data))
    assert counts == {"wait": 3, "done/1": 4}
    proofs = [fr.decode_proof(frame.payload) for frame in frames_of(data) if frame.kind == fr.PROOF]
    assert [(proof.run, proof.entry.seq, bool(proof.inner)) for proof in proofs] == [
        ("done/1", 4, False),
        ("wait", 3, True),
    ]


def test_proofs_lead_to_the_checkpoint_that_was_published_where_there_is_one() -> None:
    journal = rich_store()
    beta = journal.tenant("beta")
    published = beta.published_checkpoint()
    beta.append("more", [entries.concluded("completed")], epoch=1, seal=True)
    data = bundle_of(journal, Question("runs", "beta", ("quit", "more")))
    [note] = [fr.decode_note(frame.payload) for frame in frames_of(data) if frame.kind == fr.CHECKPOINT]
    assert note.note == published
    proofs = [fr.decode_proof(frame.payload) for frame in frames_of(data) if frame.kind == fr.PROOF]
    assert [proof.run for proof in proofs] == ["quit"]  # the seal of the other is above that checkpoint
    assert said(data) == ("sound", 0)


def test_a_case_brings_every_run_that_has_a_record_of_it() -> None:
    journal = long_store()
    assert {record.run for record in believed(bundle_of(journal, Question("cases", "acme", ("c",))))} == {
        "long",
        "short",
    }


def test_a_span_brings_every_run_that_has_a_record_in_it() -> None:
    clock = ManualClock()
    journal = Journal.in_memory(clock=clock)
    tenant, instants = journal.tenant("t"), []
    for run in ("a", "b", "c"):
        clock.advance(10)
        instants.append(tenant.append(run, [entries.note("n")], epoch=1)[0].at * 1000)
    clock.advance(10)
    tenant.append("a", [entries.note("later")], epoch=1)
    span = Question("span", "t", since=instants[0], until=instants[1])
    assert [(record.run, record.seq) for record in believed(bundle_of(journal, span))] == [("a", 1), ("b", 1), ("a", 2)]
    late = Question("span", "t", since=instants[2])
    assert {record.run for record in believed(bundle_of(journal, late))} == {"a", "c"}


class Meddling(io.BytesIO):
    """A stream that has the store written to as soon as the export begins to write."""

    def __init__(self, meddle: Callable[[], None]) -> None:
        super().__init__()
        self._meddle: Callable[[], None] | None = meddle

    def write(self, data: Any) -> int:
        meddle, self._meddle = self._meddle, None
        if meddle is not None:
            meddle()
        return super().write(data)


@pytest.mark.parametrize("question", [Question("tenant", "acme"), Question("runs", "acme", ("wait", "done/1"))])
def test_what_is_written_meanwhile_stays_out(question: Question) -> None:
    journal = rich_store()
    acme, before = journal.tenant("acme"), bundle_of(journal, question)

    def meddle() -> None:
        acme.append("new", [entries.concluded("completed")], epoch=1, seal=True)
        acme.force_lease("wait", actor="ops", reason="again")
        acme.append("wait", [entries.note("meanwhile")], lease=acme.acquire("wait", owner="w", ttl=1))
        acme.anchor_open()

    stream = Meddling(meddle)
    export(journal, stream, question, made_at=MADE_AT)
    assert stream.getvalue() == before


def test_a_log_that_goes_on_under_another_origin_meanwhile_ends_the_export() -> None:
    journal = rich_store()
    third = journal.tenant("third")

    def adopt() -> None:
        last = signed_by_nobody(Checkpoint("elsewhere", 9, bytes(range(32))))
        third.adopt_log("another", last, actor="ops", reason="again")

    with pytest.raises(Busy):
        export(journal, Meddling(adopt), Question("tenant", "third"), made_at=MADE_AT)


def test_damage_is_never_passed_on() -> None:
    journal = rich_store()
    place = record_place(engine_of(journal), "acme", "done/1", 2)
    value = rows(engine_of(journal), tables.JOURNAL)[place[1]]
    for damaged in (value[:-1] + b"?", value[:-1], None):
        change(engine_of(journal), {place: damaged})
        for question in (Question("store"), Question("runs", "acme", ("done/1",))):
            with pytest.raises(Corrupt):
                bundle_of(journal, question)


def test_a_leaf_that_attests_nothing_ends_the_export() -> None:
    journal = rich_store()
    place = (tables.LEAVES, tables.number_key("beta", 2))
    value = rows(engine_of(journal), tables.LEAVES)[place[1]]
    change(engine_of(journal), {place: value[:30] + b"?" + value[31:]})
    with pytest.raises(Corrupt):
        bundle_of(journal, Question("tenant", "beta"))


@pytest.mark.parametrize(
    "question",
    [
        Question("tenant", "nobody"),
        Question("runs", "acme", ("wait", "nothing")),
        Question("cases", "acme", ("nothing",)),
    ],
)
def test_what_is_not_there_cannot_be_exported(question: Question) -> None:
    with pytest.raises(NotFound):
        bundle_of(rich_store(), question)


def test_a_selection_without_names_is_refused() -> None:
    with pytest.raises(InvalidInput):
        bundle_of(rich_store(), Question("runs", "acme", ()))


def claimed(data: bytes) -> list[fr.ClaimedKey]:
    return [fr.decode_key(frame.payload) for frame in frames_of(data) if frame.kind == fr.KEY]


def test_keys_are_claimed_of_exported_logs_of_record_signers_and_of_witnesses() -> None:
    journal = rich_store()
    [signer, *_] = rows(engine_of(journal), tables.SIGNERS).values()
    ours = fr.ClaimedKey("worker-1", signer[1:], "record", 1)
    foreign = fr.ClaimedKey("worker-2", bytes(32), "record", 1)
    log, *witnesses = CLAIMED
    keys = [*CLAIMED, ours, foreign, log]
    beta = bundle_of(journal, Question("runs", "beta", ("quit",)), keys=keys)
    assert sorted(claimed(beta), key=fr.encode_map) == claimed(beta) and set(claimed(beta)) == {*CLAIMED, ours}
    assert set(claimed(bundle_of(journal, Question("tenant", "acme"), keys=keys))) == {*witnesses, ours}
    assert said(beta) == ("sound", 0) and kinds(beta).startswith("HQKKKKT")
    assert beta == bundle_of(journal, Question("runs", "beta", ("quit",)), keys=keys[::-1])


def test_more_keys_than_a_bundle_names_are_refused() -> None:
    keys = [fr.ClaimedKey(f"w{number}", bytes(32), "witness", 4) for number in range(fr.KEYS_MAX + 1)]
    with pytest.raises(InvalidInput):
        bundle_of(Journal.in_memory(), Question("store"), keys=keys)


def test_an_empty_store_has_a_bundle_too() -> None:
    data = bundle_of(Journal.in_memory(), Question("store"))
    assert kinds(data) == "HZ" and said(data) == ("sound", 0)


def test_the_operators_acts_come_with_a_tenant_and_with_a_selection_by_name_alone() -> None:
    journal = rich_store()

    def runs(question: Question) -> set[str]:
        return {record.run for record in believed(bundle_of(journal, question))}

    assert "~tenant" in runs(Question("tenant", "acme"))
    assert runs(Question("runs", "acme", ("wait",))) == {"wait"}
    assert "~tenant" in runs(Question("runs", "acme", ("wait", "~tenant")))


def test_large_records_are_read_few_at_a_time() -> None:
    journal = Journal.in_memory(clock=ManualClock())
    for number in range(20):
        journal.tenant("t").append(f"r{number}", [entries.note("n", data={"x": "y" * 300_000})], epoch=1)
    data = bundle_of(journal, Question("tenant", "t"))
    assert len(believed(data)) == 20
    assert cbor2.loads(believed(data)[3].row.body)["data"] == {"text": "n", "x": "y" * 300_000}


def test_99_garbage_in_what_is_derived_keeps_no_evidence_in() -> None:
    journal = rich_store()
    before = bundle_of(journal, Question("store"))
    derived = (tables.STATE, tables.EFFECTS, tables.ADMISSIONS, tables.CANCELS, tables.POSITIONS, tables.BATCHED)
    for table in (*derived, *INDEX_TABLES):
        for key in rows(engine_of(journal), table):
            change(engine_of(journal), {(table, key): b"garbage"})
    assert bundle_of(journal, Question("store")) == before
