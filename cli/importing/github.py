"""Read what GitHub Actions tells by webhook, one body or several in order, as the histories of workflow runs.

| body | record |
|---|---|
| the first one of a run | `RunAdmitted`; run = `workflow_run.id`, and `-n` behind it for attempt n > 1 |
| `workflow_run`, completed | `RunConcluded`: `completed` for success, `failed` for failure, else the conclusion |
| `workflow_run`, otherwise | `github.WorkflowRun` |
| `workflow_job`, the first one of a job | `EffectStarted` |
| `workflow_job`, completed | `EffectDone`; `EffectFailed` unless it is a success, neutral or skipped |
| `workflow_job`, otherwise | `github.WorkflowJob` |
| `deployment_review`, requested | `RunSuspended` |
| `deployment_review`, otherwise | `RunResumed` |

Each record has the whole body it was made of. A body that is about no workflow run is damage: nothing is dropped.
"""

from __future__ import annotations

from typing import Any

from sealbook.cli.importing import documents, strict
from sealbook.cli.importing.history import History, Segment, legal
from sealbook.cli.importing.strict import damaged
from sealbook.cli.importing.traj import outcome_of
from sealbook.journal import entries
from sealbook.journal.records.entries import EffectKey, Entry
from sealbook.journal.records.names import RUN_BYTES_MAX

SOURCE = "github"
OUTCOMES = {"success": "completed", "failure": "failed"}
DONE = frozenset({"success", "neutral", "skipped"})

Body = dict[str, Any]


def read(text: bytes, name: str) -> list[History]:
    """The histories that this file holds, by run; `Damaged` when a body is about no workflow run."""
    found = documents.read(text, name)
    bodies = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    runs: dict[str, list[Body]] = {}
    for number, body in enumerate(bodies, 1):
        runs.setdefault(_run(body, name, number), []).append(body)
    if not runs:
        raise damaged(name, "holds no body of a webhook")
    return [_history(run, bodies, name) for run, bodies in sorted(runs.items())]


def _run(body: Any, name: str, number: int) -> str:
    """Which run the body is about, and which attempt of it."""
    where = f"body {number}"
    if not isinstance(body, dict):
        raise damaged(name, "is no object", where)
    job, run = body.get("workflow_job"), body.get("workflow_run")
    about = job if isinstance(job, dict) else run
    if not isinstance(about, dict):
        raise damaged(name, "is about no workflow run: it has no `workflow_run` and no `workflow_job`", where)
    id, attempt = about.get("run_id" if about is job else "id"), about.get("run_attempt", 1)
    if type(id) is not int or type(attempt) is not int:
        raise damaged(name, "does not say which run it is about", where)
    return str(id) if attempt == 1 else f"{id}-{attempt}"


def _history(run: str, bodies: list[Body], name: str) -> History:
    digest = strict.digest(bodies, name)
    records: list[Entry] = [entries.admitted(data=_about(bodies[0]))]
    jobs: set[int] = set()
    ended: set[int] = set()
    for body in bodies:
        if records[-1].kind == "RunConcluded":
            raise damaged(name, "follows the run's completion", f"run {run}")
        records.append(_record(run, body, jobs, ended))
    return History(legal(run, RUN_BYTES_MAX, run=True), digest, SOURCE, (Segment(SOURCE, tuple(records)),))


def _about(body: Body) -> dict[str, Any]:
    repository = body.get("repository")
    full_name = repository.get("full_name") if isinstance(repository, dict) else None
    return {} if full_name is None else {"repository": full_name}


def _record(run: str, body: Body, jobs: set[int], ended: set[int]) -> Entry:
    job, data, action = body.get("workflow_job"), {"body": body}, body.get("action")
    if isinstance(job, dict):
        return _of_job(run, job, action, data, jobs, ended)
    if isinstance(body.get("workflow_job_run"), dict) or "reviewers" in body:
        if action == "requested":
            return entries.suspended(awaiting={"review": str(body.get("environment", ""))}, data=data)
        return entries.entry("RunResumed", data)
    conclusion = body["workflow_run"].get("conclusion")
    if action == "completed" and isinstance(conclusion, str):
        return entries.concluded(OUTCOMES.get(conclusion) or outcome_of(conclusion), data=data)
    return entries.entry("github.WorkflowRun", data)


def _of_job(run: str, job: dict[str, Any], action: Any, data: dict[str, Any], jobs: set[int], ended: set[int]) -> Entry:
    id = job.get("id")
    if type(id) is not int or id in ended or (id not in jobs and action == "completed"):
        return entries.entry("github.WorkflowJob", data)  # a job whose start nobody told, or that had ended
    key = EffectKey(SOURCE, "job", run, str(id))
    if id not in jobs:
        jobs.add(id)
        return entries.effect_started(key, name=str(job.get("name") or "job"), data=data)
    if action != "completed":
        return entries.entry("github.WorkflowJob", data)
    ended.add(id)
    end = entries.effect_done if job.get("conclusion") in DONE else entries.effect_failed
    return end(key, data=data)
