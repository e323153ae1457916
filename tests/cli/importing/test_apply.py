"""Histories enter a tenant whole or not at all, and never twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sealbook.cli.importing import apply as importing
from sealbook.cli.importing import temporal, traj
from sealbook.cli.importing.apply import Imported, apply
from sealbook.cli.importing.history import History
from sealbook.journal import EffectKey, Entry, Journal, Record, Tenant, entries
from sealbook.journal.errors import DuplicateAdmission, LeaseHeld, TooLarge
from sealbook.journal.store.writing import WritingVerbs


@pytest.fixture
def tenant() -> Tenant:
    return Journal.in_memory().tenant("default")


def event(number: int, kind: str, **attributes: Any) -> dict[str, Any]:
    return {
        "eventId": str(number),
        "eventTime": "2026-01-02T03:04:05Z",
        "eventType": kind,
        f"{kind[0].lower()}{kind[1:]}EventAttributes": attributes,
    }


def story(*kinds: str, run: str | None = "run-1", workflow: str = "wf", **attributes: Any) -> History:
    """The history of these event kinds after the start; `attributes` are those of every one of them."""
    names = {"workflowId": workflow, **({} if run is None else {"originalExecutionRunId": run})}
    events = [event(1, "WorkflowExecutionStarted", **names)]
    events += [event(number, kind, **attributes) for number, kind in enumerate(kinds, start=2)]
    return temporal.read(json.dumps({"events": events}).encode(), "h.json")


def everything(tenant: Tenant) -> list[Record]:
    """All the tenant's records, those of operator acts too."""
    return list(tenant.history(limit=100_000))


def records_of(tenant: Tenant, run: str) -> Sequence[Record]:
    return tenant.read(run, limit=100_000)


def published(shared: Path) -> list[History]:
    data = shared / "data"
    readers = [
        ("temporal-*/*.json", temporal.read),
        ("swe-agent/*.traj", traj.read),
        ("mini-swe-agent/*.json", traj.read),
    ]
    histories = [read(file.read_bytes(), file.name) for glob, read in readers for file in sorted(data.glob(glob))]
    if not histories:
        pytest.skip(f"no recorded runs under {data}")
    return histories


# --- published runs -----------------------------------------------------------------------------------------


def test_every_published_run_is_imported_as_its_history_says(shared: Path, tenant: Tenant) -> None:
    for history in published(shared):
        answer = apply(tenant, history)
        assert answer.result == "new"
        standing = tenant.standing(answer.run)
        assert standing is not None
        assert (standing.records, standing.outcome) == (history.records, history.outcome)
        assert standing.sealed == history.seal
        assert standing.owner is None
        assert standing.source == history.source
        assert (tenant.inclusion_proof(answer.run) is not None) == (history.outcome is not None)


def test_importing_every_published_run_again_asks_the_store_for_no_write(
    shared: Path, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories = published(shared)
    first = [apply(tenant, history) for history in histories]
    before = everything(tenant)
    monkeypatch.delattr(WritingVerbs, "group")
    monkeypatch.delattr(WritingVerbs, "append")
    again = [apply(tenant, history) for history in histories]
    assert [(answer.run, answer.records, answer.result) for answer in again] == [
        (answer.run, 0, "unchanged") for answer in first
    ]
    assert [answer.known for answer in again] == [history.records for history in histories]
    assert everything(tenant) == before


def test_importing_again_changes_no_byte_of_the_data_file(tmp_path: Path) -> None:
    histories = [story("WorkflowTaskFailed", "TimerStarted"), story("TimerStarted"), trajectory(2, exit_status="x")]
    folder = tmp_path / "agents.sealbook"
    files = []
    for _ in range(2):
        with Journal.open(folder, create=True) as journal:
            results = {apply(journal.tenant("default"), history).result for history in histories}
        files.append((folder / "data.mdb").read_bytes())
    assert results == {"unchanged"}
    assert files[0] == files[1]


def test_the_two_published_histories_of_one_run_id_become_two_runs(shared: Path, tenant: Tenant) -> None:
    twins = [history for history in published(shared) if history.run == "9a44eb45-aedc-4183-9ed2-63b4e2a799f2"]
    assert len(twins) == 2
    answers = [apply(tenant, history) for history in twins]
    assert answers[0].renamed_from is None
    assert answers[1].run == f"{twins[1].run}~{twins[1].digest[:8]}"
    assert answers[1].renamed_from == twins[1].run


def test_every_published_history_can_come_in_two_parts(shared: Path, tenant: Tenant) -> None:
    files = sorted((shared / "data").glob("temporal-*/*.json"))
    if not files:
        pytest.skip(f"no Temporal histories under {shared / 'data'}")
    for file in files:
        document = json.loads(file.read_bytes())
        whole = temporal.read(file.read_bytes(), file.name)
        half = {**document, "events": document["events"][: (len(document["events"]) + 1) // 2]}
        first = apply(tenant, temporal.read(json.dumps(half).encode(), file.name))
        second = apply(tenant, whole)
        assert second.run == first.run or second.known == 0, file.name
        assert second.known + second.records == whole.records
        records = records_of(tenant, second.run)
        planned = [entry for segment in whole.segments_as(second.run) for entry in segment.entries]
        assert [(record.kind, record.data) for record in records] == [(entry.kind, entry.data) for entry in planned]


# --- epochs, seals, cancels ----------------------------------------------------------------------------------


def test_each_worker_that_died_makes_an_epoch_of_its_own(tenant: Tenant) -> None:
    apply(
        tenant,
        story(
            "WorkflowTaskStarted", "WorkflowTaskFailed", "WorkflowTaskStarted", "WorkflowTaskTimedOut", "TimerStarted"
        ),
    )
    assert [record.epoch for record in records_of(tenant, "run-1")] == [1, 1, 1, 2, 2, 3]


def test_a_sealing_conclusion_seals_and_a_failure_leaves_the_run_open_and_anchored(tenant: Tenant) -> None:
    apply(tenant, story("WorkflowExecutionCompleted", run="a"))
    apply(tenant, story("WorkflowExecutionFailed", run="b", workflow="other"))
    done, failed = tenant.standing("a"), tenant.standing("b")
    assert done is not None and failed is not None
    assert (done.sealed, failed.sealed) == (True, False)
    assert failed.highest_leaf == 1


def test_a_cancel_request_is_recorded_once_by_its_actor_in_the_files_own_transaction(tenant: Tenant) -> None:
    history = story("TimerStarted", "WorkflowExecutionCancelRequested", "WorkflowExecutionCanceled", identity="ann")
    apply(tenant, history)
    cancellation = tenant.cancellation("run-1")
    assert cancellation is not None
    assert (cancellation.actor, cancellation.basis) == ("ann", "asserted")
    acts = tenant.read("~tenant")
    assert [act.kind for act in acts] == ["CancelRequested"]
    apply(tenant, history)
    assert tenant.read("~tenant") == acts


def test_a_cancel_request_in_the_tail_alone_is_recorded_when_the_tail_comes(tenant: Tenant) -> None:
    apply(tenant, story("TimerStarted"))
    assert tenant.cancellation("run-1") is None
    apply(tenant, story("TimerStarted", "WorkflowExecutionCancelRequested"))
    cancellation = tenant.cancellation("run-1")
    assert cancellation is not None and cancellation.actor == "temporal"


def test_a_run_that_ends_in_a_timer_waits_until_the_timer_is_due(tenant: Tenant) -> None:
    apply(tenant, story("TimerStarted", "WorkflowExecutionCancelRequested", startToFireTimeout="60s"))
    (waiting,) = tenant.waiting()
    assert waiting.until == 1767323105 * 1_000_000


# --- again, longer, shorter, different -----------------------------------------------------------------------


def test_a_longer_history_appends_its_tail_under_the_next_epoch(tenant: Tenant) -> None:
    apply(tenant, story("WorkflowTaskScheduled"))
    answer = apply(tenant, story("WorkflowTaskScheduled", "WorkflowTaskStarted", "WorkflowExecutionCompleted"))
    assert answer == Imported("run-1", 2, 2, "extended")
    assert [record.epoch for record in records_of(tenant, "run-1")] == [1, 1, 2, 2]
    standing = tenant.standing("run-1")
    assert standing is not None and standing.sealed


def test_a_shorter_history_of_a_run_that_has_gone_on_writes_nothing(tenant: Tenant) -> None:
    apply(tenant, story("WorkflowTaskScheduled", "WorkflowExecutionCompleted"))
    before = everything(tenant)
    assert apply(tenant, story("WorkflowTaskScheduled")) == Imported("run-1", 0, 2, "unchanged")
    assert everything(tenant) == before


def test_a_different_history_of_the_same_run_id_gets_the_digest_and_is_known_again(tenant: Tenant) -> None:
    apply(tenant, story("WorkflowTaskScheduled"))
    other = story("TimerStarted")
    name = f"run-1~{other.digest[:8]}"
    assert apply(tenant, other) == Imported(name, 2, 0, "new", "run-1")
    assert tenant.admitted_as("temporal", f"wf/{name}") == name
    assert apply(tenant, other) == Imported(name, 0, 2, "unchanged", "run-1")


def test_a_history_extends_the_run_that_an_earlier_copy_of_it_was_renamed_to(tenant: Tenant) -> None:
    apply(tenant, story("WorkflowTaskScheduled"))
    short, longer = story("TimerStarted"), story("TimerStarted", "TimerStarted")
    name = f"run-1~{short.digest[:8]}"
    apply(tenant, short)
    assert apply(tenant, longer) == Imported(name, 1, 2, "extended", "run-1")
    assert apply(tenant, longer) == Imported(name, 0, 3, "unchanged", "run-1")
    assert [standing.run for standing in tenant.runs()] == ["run-1", name]


def test_values_that_python_calls_equal_are_different_histories(tenant: Tenant) -> None:
    apply(tenant, story("TimerStarted", flag=1))
    assert apply(tenant, story("TimerStarted", flag=1.0)).renamed_from == "run-1"
    assert apply(tenant, story("TimerStarted", flag=True)).renamed_from == "run-1"
    assert apply(tenant, story("TimerStarted", flag=1)).result == "unchanged"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (entries.entry("Step", {}, case="wf"), entries.entry("Step", {}, case="other")),
        (entries.entry("Step", {}, effect=EffectKey("a")), entries.entry("Step", {}, effect=EffectKey("b"))),
        (entries.entry("Step", {}), entries.entry("Stride", {})),
    ],
)
def test_records_that_differ_in_case_effect_or_kind_are_different_histories(
    tenant: Tenant, one: Entry, other: Entry
) -> None:
    def told(entry: Entry) -> History:
        (segment,) = story().segments
        return replace(story(), segments=(replace(segment, entries=(*segment.entries, entry)),))

    apply(tenant, told(one))
    assert apply(tenant, told(one)).result == "unchanged"
    assert apply(tenant, told(other)).renamed_from == "run-1"


def test_a_run_id_that_somebody_elses_run_has_is_taken(tenant: Tenant) -> None:
    lease = tenant.acquire("run-1", owner="live", ttl=30)
    tenant.append("run-1", [entries.admitted(source="shop", id="1")], lease=lease)
    assert apply(tenant, story("TimerStarted")).renamed_from == "run-1"


def test_a_history_without_a_run_id_goes_on_where_its_shorter_copy_stands(tenant: Tenant) -> None:
    short, longer = story("TimerStarted", run=None), story("TimerStarted", "TimerStarted", run=None)
    first = apply(tenant, short)
    assert first.run == f"history-{short.digest[:16]}"
    assert apply(tenant, longer) == Imported(first.run, 1, 2, "extended")
    assert apply(tenant, short) == Imported(first.run, 0, 2, "unchanged")
    assert apply(tenant, longer) == Imported(first.run, 0, 3, "unchanged")


def test_a_history_without_a_run_id_that_differs_is_a_run_of_its_own(tenant: Tenant) -> None:
    runs = {apply(tenant, story(kind, run=None)).run for kind in ("TimerStarted", "WorkflowTaskScheduled")}
    assert len(runs) == 2


def trajectory(steps: int, **info: Any) -> History:
    told = [{"action": f"run {number}", "observation": "ok"} for number in range(steps)]
    return traj.read(json.dumps({"trajectory": told, "info": info}).encode(), "a.traj")


def test_an_early_copy_of_a_trajectory_that_was_imported_whole_writes_nothing(tenant: Tenant) -> None:
    apply(tenant, trajectory(3, exit_status="submitted"))
    before = everything(tenant)
    assert apply(tenant, trajectory(2, calls=2)).result == "unchanged"
    assert everything(tenant) == before


def test_a_trajectory_that_has_gone_on_extends_its_run(tenant: Tenant) -> None:
    assert apply(tenant, trajectory(1, calls=1)).result == "new"
    assert apply(tenant, trajectory(2, calls=2)) == Imported("a", 4, 4, "extended")
    final = trajectory(3, calls=3, exit_status="submitted")
    assert apply(tenant, final) == Imported("a", 4, 7, "extended")
    assert apply(tenant, final).result == "unchanged"
    assert apply(tenant, trajectory(2, calls=2)).result == "unchanged"
    standing = tenant.standing("a")
    assert standing is not None and standing.sealed
    assert [standing.run for standing in tenant.runs()] == ["a"]


def test_a_trajectory_of_another_file_with_the_same_name_gets_the_digest(tenant: Tenant) -> None:
    first = traj.read(b'[{"role": "user", "content": "a"}]', "x/local.traj.json")
    other = traj.read(b'[{"role": "user", "content": "b"}]', "y/local.traj.json")
    apply(tenant, first)
    assert apply(tenant, other).run == f"local~{other.digest[:8]}"


# --- refusals --------------------------------------------------------------------------------------------------


def test_a_run_that_somebody_holds_takes_no_import_and_nothing_is_written(tenant: Tenant) -> None:
    apply(tenant, story("TimerStarted"))
    tenant.acquire("run-1", owner="live", ttl=30)
    before = everything(tenant)
    with pytest.raises(LeaseHeld):
        apply(tenant, story("TimerStarted", "TimerStarted"))
    assert everything(tenant) == before
    assert apply(tenant, story("TimerStarted")).result == "unchanged"


def test_a_refusal_late_in_a_file_leaves_nothing_of_it(tenant: Tenant) -> None:
    kinds = ("WorkflowTaskStarted", "WorkflowTaskFailed", "WorkflowExecutionCancelRequested", "WorkflowTaskStarted")
    with pytest.raises(TooLarge):
        apply(tenant, story(*kinds, payload="x" * 5_000_000))
    assert everything(tenant) == []
    assert tenant.standing("run-1") is None


def test_an_admission_key_that_another_run_holds_refuses_the_whole_file(tenant: Tenant) -> None:
    lease = tenant.acquire("mine", owner="live", ttl=30)
    tenant.append("mine", [entries.admitted(source="temporal", id="wf/run-1")], lease=lease)
    before = everything(tenant)
    with pytest.raises(DuplicateAdmission) as refusal:
        apply(tenant, story("WorkflowTaskFailed", "WorkflowExecutionCancelRequested"))
    assert refusal.value.holder == "mine"
    assert everything(tenant) == before
    assert tenant.lease("run-1") is None


@pytest.mark.parametrize(
    ("standing", "coming"),
    [
        ([], ["TimerStarted", "WorkflowExecutionCompleted"]),
        ([], ["TimerStarted"]),
        (["TimerStarted"], ["TimerStarted", "TimerStarted"]),
        (["TimerStarted"], ["TimerStarted", "WorkflowExecutionFailed"]),
    ],
)
def test_what_another_process_imports_meanwhile_is_not_imported_twice(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, standing: list[str], coming: list[str]
) -> None:
    if standing:
        apply(tenant, story(*standing))
    history = story(*coming)
    look = importing.find
    looks: list[importing.Place] = []

    def look_and_lose(tenant: Tenant, history: History) -> importing.Place:
        looks.append(look(tenant, history))
        if len(looks) == 1:
            apply(tenant, history)  # the other process: it looks, and writes before we do
        return looks[0] if len(looks) <= 2 else looks[-1]

    monkeypatch.setattr(importing, "find", look_and_lose)
    assert apply(tenant, history) == Imported("run-1", 0, history.records, "unchanged")
    assert len(looks) == 3
    assert len(records_of(tenant, "run-1")) == history.records


def test_effects_in_doubt_are_those_whose_end_the_history_does_not_have(tenant: Tenant) -> None:
    apply(tenant, story("ActivityTaskScheduled", "ActivityTaskScheduled", activityType={"name": "pay"}))
    standing = tenant.standing("run-1")
    assert standing is not None and standing.effects_in_doubt == 2
    effect = tenant.effect("run-1", EffectKey("temporal", "activity", "3"))
    assert effect is not None and effect.attempt == 1


def test_a_long_history_costs_in_proportion_to_its_length(tenant: Tenant) -> None:
    calls = []
    read = tenant.read

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(tenant, name)

        def read(self, run: str, **options: Any) -> Any:
            page = read(run, **options)
            calls.append(len(page))
            return page

    history = story(*["WorkflowTaskScheduled"] * 3_000)
    apply(tenant, history)
    answer = apply(Counting(), history)  # type: ignore[arg-type]
    assert answer.result == "unchanged"
    assert sum(calls) == 3_001
    assert len(calls) <= 6
