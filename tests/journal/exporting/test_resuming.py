"""A bundle that was interrupted anywhere is resumed, and becomes what it would have been without a break."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from bundling import CLAIMED, MADE_AT, frames_of, ours, said, theirs
from tampering import (
    all_rows,
    change,
    engine_of,
    random_history,
    record_place,
    rich_store,
    rows,
    sign_as_it_stands,
    signed_by_nobody,
)

from sealbook.journal import Corrupt, Journal, UnknownVersion, WrongFormat, entries
from sealbook.journal.bundle import container
from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import Codec
from sealbook.journal.bundle.faults import Damaged
from sealbook.journal.exporting import bundle
from sealbook.journal.exporting.parts import Differs
from sealbook.journal.exporting.question import Plan, Question
from sealbook.journal.exporting.resuming import BegunBundle
from sealbook.journal.schema import tables
from sealbook.journal.testing import ManualClock
from sealbook.merkle.checkpoint import Checkpoint

WHOLE = (Question("store"), Question("tenant", "acme"))
SELECTED = (
    Question("runs", "acme", ("wait", "done/1")),
    Question("runs", "beta", ("quit",)),
    Question("cases", "acme", ("case-7",)),
    Question("span", "acme"),
)


def planned(journal: Journal, question: Question, codec: Codec = Codec.PLAIN) -> Plan:
    """The plan, as it is read back."""
    plan = bundle.plan_export(journal, question, made_at=MADE_AT, codec=codec, keys=CLAIMED)
    assert Plan.decode(plan.encode()) == plan
    return plan


def written(journal: Journal, plan: Plan) -> bytes:
    stream = io.BytesIO()
    bundle.write_bundle(journal, stream, plan)
    return stream.getvalue()


def begun(journal: Journal, plan: Plan, data: bytes) -> tuple[BegunBundle, io.BytesIO]:
    stream, found = io.BytesIO(data), BegunBundle(journal, plan)
    found.read(stream)
    return found, stream


def gone_on(journal: Journal, plan: Plan, data: bytes) -> bytes:
    found, stream = begun(journal, plan, data)
    bundle.resume_bundle(journal, stream, found)
    return stream.getvalue()


@pytest.fixture
def block_bytes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let a full block hold so many plain bytes, so that a small bundle has many of them."""
    return lambda count: monkeypatch.setattr(container, "BLOCK_PLAIN_BYTES", count)


def block_ends(data: bytes) -> list[int]:
    """Where the preamble, each block and the file end."""
    ends = [container.PREAMBLE_BYTES]
    while stored := int.from_bytes(data[ends[-1] : ends[-1] + 4]):
        ends.append(ends[-1] + 40 + stored)
    return [*ends, len(data)]


# --- the same bytes --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("question", WHOLE + SELECTED, ids=lambda question: question.what)
@pytest.mark.parametrize("count", [64, 101])
def test_a_bundle_cut_off_anywhere_becomes_what_it_would_have_been(
    block_bytes: Callable[[int], None], question: Question, count: int
) -> None:
    block_bytes(count)
    journal = rich_store()
    plan = planned(journal, question)
    whole = written(journal, plan)
    ends = block_ends(whole)
    assert len(ends) > 5
    for end in ends:
        for cut in {end, max(end - 11, container.PREAMBLE_BYTES)}:
            assert gone_on(journal, plan, whole[:cut]) == whole, cut


@pytest.mark.parametrize("seed", range(20261130, 20261134))
def test_whatever_a_store_came_to_can_be_gone_on_with(block_bytes: Callable[[int], None], seed: int) -> None:
    block_bytes(211)
    journal = random_history(seed, steps=40)
    for question in (Question("store"), *(Question("span", tenant) for tenant in journal.tenants())):
        plan = planned(journal, question)
        whole = written(journal, plan)
        for end in block_ends(whole):
            assert gone_on(journal, plan, whole[:end]) == whole, (seed, end)


def test_a_block_may_end_with_any_frame_the_last_one_too(block_bytes: Callable[[int], None]) -> None:
    journal = rich_store()
    for question in (*WHOLE, *SELECTED[:1]):
        plan = planned(journal, question)
        block_bytes(65_536)
        frames = frames_of(written(journal, plan))
        for frame in frames:
            block_bytes(frame.offset + fr.HEAD.size + len(frame.payload))
            whole = written(journal, plan)
            found, stream = begun(journal, plan, whole[: block_ends(whole)[1]])
            assert found.rest == b""
            bundle.resume_bundle(journal, stream, found)
            assert stream.getvalue() == whole


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_can_be_gone_on_with_and_both_readers_take_the_end_for_whole(codec: Codec) -> None:
    journal = Journal.in_memory(clock=ManualClock())
    for number in range(6):
        data = {"x": bytes(range(256)) * 150 + number.to_bytes(2)}
        journal.tenant("t").append(f"r{number}", [entries.note("n", data=data)], epoch=1)
    plan = planned(journal, Question("tenant", "t"), codec)
    whole = written(journal, plan)
    cut = block_ends(whole)[2] + 5
    for reader in (ours, theirs):
        assert reader(whole[:cut]) == ("file", block_ends(whole)[2])
    assert gone_on(journal, plan, whole[:cut]) == whole
    assert said(whole) == ("sound", 0)


def grow(journal: Journal) -> None:
    """Let each part of the store go on that an export reads."""
    acme, beta = journal.tenant("acme"), journal.tenant("beta")
    acme.append("new", [entries.admitted(source="s", id="new", case="case-7")], epoch=1)
    acme.append("new", [entries.concluded("completed")], epoch=1, seal=True)
    acme.force_lease("wait", actor="ops", reason="again")
    acme.append("wait", [entries.note("meanwhile", case="case-7")], lease=acme.acquire("wait", owner="w", ttl=1))
    acme.anchor_open()
    beta.append("more", [entries.concluded("completed")], epoch=1, seal=True)
    journal.tenant("aaa").append("a", [entries.admitted()], epoch=1)


@pytest.mark.parametrize("question", WHOLE + SELECTED, ids=lambda question: question.what)
def test_a_store_that_has_grown_meanwhile_changes_no_byte(
    block_bytes: Callable[[int], None], question: Question
) -> None:
    block_bytes(64)
    journal = rich_store()
    plan = planned(journal, question)
    whole = written(journal, plan)
    grow(journal)
    for end in block_ends(whole):
        assert gone_on(journal, plan, whole[:end]) == whole, end
    assert written(journal, plan) == whole


def test_a_run_that_joins_a_case_afterwards_is_not_in_it_yet() -> None:
    journal = rich_store()
    journal.tenant("acme").append("other", [entries.note("none")], epoch=1)
    plan = planned(journal, Question("cases", "acme", ("case-7",)))
    whole = written(journal, plan)
    journal.tenant("acme").append("other", [entries.note("now it is", case="case-7")], epoch=1)
    assert written(journal, plan) == whole


def test_signatures_that_a_checkpoint_gains_afterwards_stay_out() -> None:
    journal = Journal.in_memory(clock=ManualClock())
    tenant = journal.tenant("t")
    tenant.append("a", [entries.concluded("completed")], epoch=1, seal=True)
    question = Question("tenant", "t")
    plan = planned(journal, question)
    whole = written(journal, plan)
    sign_as_it_stands(tenant)
    assert written(journal, plan) == whole
    assert written(journal, planned(journal, question)) != whole


def test_what_stands_there_is_not_read_from_the_store_again(
    block_bytes: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    block_bytes(64)
    journal = rich_store()
    plan = planned(journal, Question("tenant", "acme"))
    whole = written(journal, plan)
    found, stream = begun(journal, plan, whole[: block_ends(whole)[-3]])
    place = record_place(engine_of(journal), "acme", "done/1", 1)
    change(engine_of(journal), {place: None})  # which would be met by whoever reads it
    with pytest.raises(Corrupt):
        written(journal, plan)
    bundle.resume_bundle(journal, stream, found)
    assert stream.getvalue() == whole


# --- never a mixture -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_damage_to_what_stands_there_is_found_wherever_it_is(block_bytes: Callable[[int], None]) -> None:
    block_bytes(101)
    journal = rich_store()
    plan = planned(journal, Question("runs", "beta", ("quit",)))
    whole = written(journal, plan)
    end = block_ends(whole)[-3]
    for position in range(end):
        damaged = bytearray(whole[:end])
        damaged[position] ^= 1
        try:
            gone = gone_on(journal, plan, bytes(damaged))
        except (Damaged, Differs, UnknownVersion, WrongFormat):
            continue
        assert gone == whole, position  # the length of the last block, which then seems to be cut off


def test_a_store_that_has_less_or_another_than_it_had_is_refused(block_bytes: Callable[[int], None]) -> None:
    block_bytes(64)
    journal = rich_store()
    question = Question("tenant", "acme")
    plan = planned(journal, question)
    cut = written(journal, plan)[:900]
    engine = engine_of(journal)
    before = all_rows(engine)
    acme = journal.tenant("acme")
    acme.append("new", [entries.note("one")], epoch=1)
    longer = planned(journal, question)
    change(engine, {place: before.get(place) for place in all_rows(engine)})
    with pytest.raises(Differs, match="has less of tenant acme"):
        gone_on(journal, longer, cut)
    acme.append("new", [entries.note("another")], epoch=1)
    with pytest.raises(Differs, match="has other records of tenant acme"):
        gone_on(journal, longer, cut)


def test_a_log_that_went_on_under_another_origin_meanwhile_is_refused() -> None:
    journal = rich_store()
    plan = planned(journal, Question("tenant", "third"))
    cut = written(journal, plan)[:50]
    last = signed_by_nobody(Checkpoint("elsewhere", 9, bytes(range(32))))
    journal.tenant("third").adopt_log("another", last, actor="ops", reason="again")
    with pytest.raises(Differs, match="the log of tenant third is another one"):
        gone_on(journal, plan, cut)


def test_what_another_plan_wrote_is_refused(block_bytes: Callable[[int], None]) -> None:
    block_bytes(64)
    journal = rich_store()
    plans = [planned(journal, question) for question in WHOLE + SELECTED]
    for plan in plans:
        data = written(journal, plan)
        for other in plans:
            if other != plan:
                with pytest.raises(Differs):
                    gone_on(journal, other, data)


def test_a_record_that_the_store_has_otherwise_is_refused(block_bytes: Callable[[int], None]) -> None:
    block_bytes(64)
    journal = rich_store()
    plan = planned(journal, Question("tenant", "acme"))
    whole = written(journal, plan)
    found, stream = begun(journal, plan, whole[: block_ends(whole)[-20]])
    assert found.records > 0
    place = tables.JOURNAL, tables.number_key("acme", found.records)
    value = rows(engine_of(journal), tables.JOURNAL)[place[1]]
    change(engine_of(journal), {place: value[:-1] + b"?"})
    with pytest.raises(Differs, match="is another one than in the store"):
        bundle.resume_bundle(journal, stream, found)
