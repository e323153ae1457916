"""A workflow run of GitHub becomes a run: its jobs are effects, a requested review suspends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sealbook.cli.importing import apply, github
from sealbook.cli.importing.history import History
from sealbook.cli.importing.strict import DamagedDocument
from sealbook.journal import Journal


def run(action: str, conclusion: str | None = None, **members: Any) -> dict[str, Any]:
    return {"action": action, "workflow_run": {"id": 7, "conclusion": conclusion, **members}}


def job(action: str, conclusion: str | None = None, id: int = 1) -> dict[str, Any]:
    return {"action": action, "workflow_job": {"id": id, "run_id": 7, "name": "build", "conclusion": conclusion}}


def review(action: str) -> dict[str, Any]:
    return {"action": action, "environment": "production", "reviewers": [], "workflow_run": {"id": 7}}


def told(*bodies: dict[str, Any]) -> History:
    [history] = github.read(json.dumps(list(bodies)).encode(), "f")
    return history


def kinds(history: History) -> list[str]:
    return [entry.kind for entry in history.segments[0].entries]


@pytest.mark.parametrize(
    ("file", "name", "kind"),
    [
        ("workflow_run.completed.json", "289782451", "RunConcluded"),
        ("workflow_job.queued.json", "2202229078", "EffectStarted"),
        ("deployment_review.requested.json", "5453085689", "RunSuspended"),
    ],
)
def test_recorded_bodies_are_runs(shared: Path, file: str, name: str, kind: str) -> None:
    text = (shared / "data" / "github-webhooks" / file).read_bytes()
    [history] = github.read(text, file)
    assert (history.run, kinds(history)) == (name, ["RunAdmitted", kind])
    assert history.segments[0].entries[1].data["body"] == json.loads(text)


def test_a_run_is_told_from_its_request_to_its_end() -> None:
    history = told(
        run("requested"),
        job("queued"),
        job("in_progress"),
        review("requested"),
        review("approved"),
        job("completed", "success"),
        run("completed", "success"),
    )
    assert kinds(history) == [
        "RunAdmitted",
        "github.WorkflowRun",
        "EffectStarted",
        "github.WorkflowJob",
        "RunSuspended",
        "RunResumed",
        "EffectDone",
        "RunConcluded",
    ]
    tenant = Journal.in_memory().tenant()
    apply.apply(tenant, history)
    standing = tenant.standing("7")
    assert standing is not None and (standing.outcome, standing.sealed) == ("completed", True)


@pytest.mark.parametrize(
    ("conclusion", "outcome"),
    [("success", "completed"), ("failure", "failed"), ("timed_out", "timed-out"), ("cancelled", "cancelled")],
)
def test_the_outcome_is_the_conclusion(conclusion: str, outcome: str) -> None:
    assert told(run("completed", conclusion)).outcome == outcome


def test_an_unsuccessful_job_failed_and_one_without_a_start_is_a_remark() -> None:
    assert kinds(told(job("queued"), job("completed", "failure")))[1:] == ["EffectStarted", "EffectFailed"]
    assert kinds(told(job("queued"), job("completed", "skipped")))[1:] == ["EffectStarted", "EffectDone"]
    assert kinds(told(job("completed", "success")))[1:] == ["github.WorkflowJob"]
    again = told(job("queued"), job("completed", "success"), job("completed", "success"))
    assert kinds(again)[1:] == ["EffectStarted", "EffectDone", "github.WorkflowJob"]


def test_each_attempt_is_a_run_of_its_own_and_lines_are_read_as_a_list_is() -> None:
    text = "\n".join(json.dumps(body) for body in (run("requested"), run("requested", run_attempt=2)))
    assert [history.run for history in github.read(text.encode(), "f")] == ["7", "7-2"]


@pytest.mark.parametrize(
    "bodies",
    [[], [7], [{"action": "opened"}], [{"workflow_run": {}}], [run("completed", "success"), run("requested")]],
)
def test_what_is_about_no_run_is_damaged(bodies: list[Any]) -> None:
    with pytest.raises(DamagedDocument):
        github.read(json.dumps(bodies).encode(), "f")
