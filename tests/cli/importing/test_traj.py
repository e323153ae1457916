"""Trajectories of SWE-agent and mini-swe-agent become runs, and nothing that they say is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sealbook.cli.importing import traj
from sealbook.cli.importing.history import History
from sealbook.cli.importing.strict import DamagedDocument
from sealbook.journal import requests
from sealbook.journal.records.entries import Entry


def read(document: Any, name: str = "a.traj") -> History:
    return traj.read(json.dumps(document).encode(), name)


def records(document: Any) -> tuple[Entry, ...]:
    (segment,) = read(document).segments
    return segment.entries


def kinds(document: Any) -> list[str]:
    return [entry.kind for entry in records(document)][1:]


def said(role: str, content: Any = "", **members: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **members}


def call(name: str, arguments: str, call_id: str | None) -> dict[str, Any]:
    return {"id": call_id, "function": {"name": name, "arguments": arguments}}


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


# --- published trajectories -------------------------------------------------------------------------------


def published(shared: Path) -> list[Path]:
    data = shared / "data"
    files = sorted([*data.glob("swe-agent/*.traj"), *data.glob("mini-swe-agent/*.json")])
    if not files:
        pytest.skip(f"no trajectories under {data}")
    return files


def test_nothing_that_a_published_trajectory_says_is_lost(shared: Path) -> None:
    for file in published(shared):
        history = traj.read(file.read_bytes(), file.name)
        kept = [leaf for segment in history.segments for entry in segment.entries for leaf in leaves(dict(entry.data))]
        missing = [leaf for leaf in leaves(json.loads(file.read_bytes())) if leaf not in kept]
        assert missing == [], file.name


def test_every_published_trajectory_makes_entries_that_the_store_takes(shared: Path) -> None:
    for file in published(shared):
        history = traj.read(file.read_bytes(), file.name)
        for segment in history.segments_as(history.run):
            requests.acquire(history.run, owner=segment.owner, ttl=60)
            requests.append(history.run, segment.entries)


def test_the_published_runs_have_an_effect_with_an_end_for_each_action(shared: Path) -> None:
    found = {}
    for file in published(shared):
        history = traj.read(file.read_bytes(), file.name)
        (segment,) = history.segments
        count = [entry.kind for entry in segment.entries].count
        ended = {entry.effect for entry in segment.entries if entry.kind == "EffectDone"}
        assert ended == {entry.effect for entry in segment.entries if entry.kind == "EffectStarted"}
        found[history.run] = (count("ModelCalled"), len(ended), count("Prompted"), history.outcome, history.source)
    assert found == {
        "function_calling_simple": (5, 5, 2, None, "swe-agent"),
        "marshmallow-code__marshmallow-1867": (11, 11, 2, "submitted", "swe-agent"),
        "local": (2, 2, 2, None, "mini-swe-agent"),
    }


# --- trajectory: steps ------------------------------------------------------------------------------------


def test_a_step_is_a_model_call_and_an_effect_with_its_end() -> None:
    step = {"action": "ls", "observation": "a b", "response": "look", "state": {"cwd": "/"}, "execution_time": 0.5}
    admission, called, start, end = records({"trajectory": [step], "environment": "main"})
    assert admission.data == {"file": {"environment": "main"}}
    assert (called.kind, called.data) == ("ModelCalled", {"step": 1, "said": {"response": "look"}})
    assert (start.data["name"], start.data["args"]) == ("bash", {"action": "ls"})
    assert end.effect == start.effect
    assert end.data == {"result": "a b", "step": 1, "state": {"cwd": "/"}, "execution_time": 0.5}


def test_a_step_without_an_observation_leaves_its_effect_in_doubt() -> None:
    assert kinds({"trajectory": [{"action": "ls"}]}) == ["ModelCalled", "EffectStarted"]
    assert kinds({"trajectory": [{"action": "ls", "observation": ""}]})[-1] == "EffectDone"


def test_a_blank_action_runs_nothing() -> None:
    called, observed = records({"trajectory": [{"action": " ", "observation": "bad format"}]})[1:]
    assert (called.kind, observed.kind, observed.effect) == ("ModelCalled", "Observed", None)
    assert observed.data == {"step": 1, "action": " ", "observation": "bad format"}


def test_messages_that_tell_the_same_actions_stand_beside_their_steps() -> None:
    history = [
        said("system", "be good"),
        said("assistant", "like this", is_demo=True),
        said("assistant", action="ls", tool_calls=[call("list", "{}", "c1")]),
        said("tool", "a b", tool_call_ids=["c1"]),
    ]
    entries = records({"trajectory": [{"action": "ls", "observation": "a b"}], "history": history})
    assert [entry.kind for entry in entries[1:3]] == ["Prompted", "Prompted"]
    assert entries[3].data["message"] == history[2]
    assert entries[4].data["name"] == "list"
    assert entries[5].data["messages"] == [history[3]]
    assert len(entries) == 6


def test_messages_that_tell_something_else_are_imported_after_the_steps() -> None:
    history = [said("assistant", action="pwd"), said("user", "/")]
    document = {"trajectory": [{"action": "ls", "observation": "a"}], "history": history}
    assert kinds(document) == ["ModelCalled", "EffectStarted", "EffectDone", "Imported", "Imported"]


# --- how a run ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "outcome", "seal"),
    [
        ("submitted", "submitted", True),
        ("Submitted", "submitted", True),
        ("submitted (exit_cost)", "submitted-exit-cost", True),
        ("LimitsExceeded", "limits-exceeded", True),
        ("exit_format", "exit-format", True),
        ("404", "exit-404", True),
        (" ", "unknown", True),
        ("failed", "failed", False),
        ("e" * 31 + " x", "e" * 31, True),
        ("ÉCHEC", "chec", True),
    ],
)
def test_the_exit_status_is_the_outcome_in_an_outcomes_spelling(status: str, outcome: str, seal: bool) -> None:
    info = {"exit_status": status, "submission": "diff"}
    history = read({"trajectory": [], "info": info})
    assert (history.outcome, history.seal) == (outcome, seal)
    conclusion = history.segments[0].entries[-1]
    assert conclusion.data == {"outcome": outcome, "exit_status": status, "info": info}
    requests.prepare(conclusion)


def test_info_without_an_exit_status_concludes_nothing_and_is_kept() -> None:
    for info in ({"calls": 3}, {"exit_status": None}):
        last = records({"trajectory": [], "info": info})[-1]
        assert (last.kind, last.data["kind"], last.data["info"]) == ("Imported", "info", info)
    assert kinds({"trajectory": [], "info": {}}) == []
    assert kinds({"trajectory": []}) == []


def test_a_history_without_a_trajectory_has_no_conclusion() -> None:
    document = {"history": [said("user", "hi")], "info": {"exit_status": "submitted"}, "trajectory": None}
    assert kinds(document) == ["Prompted", "Imported"]


# --- messages ---------------------------------------------------------------------------------------------


def test_an_assistant_message_is_an_effect_that_the_next_user_message_ends() -> None:
    message = said("assistant", "Do:\n\n```mswea_bash_command\nls\n-l\n```\n")
    document = [said("system", "s"), said("user", "u"), message, said("user", "out", extra={"timestamp": 5})]
    assert kinds(document) == ["Prompted", "Prompted", "ModelCalled", "EffectStarted", "EffectDone"]
    *_, called, start, end = records(document)
    assert called.data == {"number": 3, "message": message}
    assert (start.data["name"], start.data["args"]) == ("bash", {"command": "ls\n-l"})
    assert end.effect == start.effect
    assert end.data["result"] == "out"
    assert end.data["message"] == {"role": "user", "extra": {"timestamp": 5}}


def test_only_the_first_user_message_answers() -> None:
    document = [said("assistant", "a"), said("user", "1"), said("user", "2")]
    assert kinds(document) == ["ModelCalled", "EffectStarted", "EffectDone", "Prompted"]


def test_an_assistant_message_that_nobody_answers_stays_in_doubt() -> None:
    document = [said("assistant", "a"), said("assistant", "b"), said("user", "for b")]
    _, first, _, second, end = records(document)[1:]
    assert end.effect == second.effect != first.effect


def test_several_tool_calls_are_several_effects_matched_by_their_ids() -> None:
    calls = [call("open", '{"path": "a"}', "c1"), call("bash", "not json", "c2")]
    document = [
        said("assistant", "both", tool_calls=calls),
        said("tool", "two", tool_call_ids=["c2"]),
        said("tool", "one", tool_call_id="c1"),
        said("tool", "again", tool_call_id="c1"),
    ]
    called, first, second, end_second, end_first, stray = records(document)[1:]
    assert called.data["message"]["tool_calls"] == calls
    assert (first.data["name"], first.data["args"]) == ("open", {"path": "a"})
    assert (second.data["name"], second.data["args"]) == ("bash", "not json")
    assert (end_second.effect, end_second.data["result"]) == (second.effect, "two")
    assert (end_first.effect, end_first.data["result"]) == (first.effect, "one")
    assert (stray.kind, stray.data["reason"]) == ("Imported", "it answers no call that waits for an answer")


def test_an_id_that_is_used_again_means_its_oldest_call_without_an_end() -> None:
    document = [
        said("assistant", tool_calls=[call("a", "{}", "same")]),
        said("tool", "1", tool_call_id="same"),
        said("assistant", tool_calls=[call("b", "{}", "same")]),
        said("tool", "2", tool_call_id="same"),
    ]
    assert kinds(document) == ["ModelCalled", "EffectStarted", "EffectDone"] * 2
    ends = [entry.effect for entry in records(document) if entry.kind == "EffectDone"]
    assert len(set(ends)) == 2


def test_an_answer_without_an_id_ends_the_only_waiting_call_and_none_of_several() -> None:
    one = [said("assistant", tool_calls=[call("a", "{}", "c")]), said("user", "x")]
    two = [said("assistant", tool_calls=[call("a", "{}", "c"), call("b", "{}", "d")]), said("user", "x")]
    assert kinds(one)[-1] == "EffectDone"
    assert kinds(two)[-1] == "Prompted"


def test_an_answer_that_names_its_call_twice_ends_it_once() -> None:
    document = [said("assistant", tool_calls=[call("a", "{}", "c")]), said("tool", "x", tool_call_ids=["c", "c"])]
    assert kinds(document) == ["ModelCalled", "EffectStarted", "EffectDone"]


def test_a_demonstration_answers_nothing_and_calls_nothing_wherever_it_stands() -> None:
    document = [said("assistant", "a"), said("user", "shown", is_demo=True), said("assistant", "shown", is_demo=True)]
    assert kinds(document) == ["ModelCalled", "EffectStarted", "Prompted", "Prompted"]


def test_a_stated_blank_action_orders_nothing() -> None:
    assert kinds({"history": [said("assistant", "hm", action=""), said("user", "x")]}) == ["ModelCalled", "Prompted"]


def test_mini_swe_agents_object_form_ends_with_its_info_or_its_exit_message() -> None:
    messages = [said("assistant", "```bash\nsubmit\n```")]
    left = said("exit", "patch", extra={"exit_status": "Submitted"})
    by_info = read({"messages": messages, "info": {"exit_status": "LimitsExceeded"}, "trajectory_format": "m-1"})
    assert (by_info.outcome, by_info.source) == ("limits-exceeded", "mini-swe-agent")
    assert by_info.segments[0].entries[0].data == {"file": {"trajectory_format": "m-1"}}
    by_message = read([*messages, left])
    assert by_message.outcome == "submitted"
    end, conclusion = by_message.segments[0].entries[-2:]
    assert (end.kind, end.data["result"]) == ("EffectDone", "patch")
    assert conclusion.data["message"] == left
    both = read({"messages": [*messages, left], "info": {"exit_status": "Other", "n": 1}})
    assert both.outcome == "other"
    assert both.segments[0].entries[-1].data["message"] == left


def test_a_message_of_an_unknown_role_is_imported() -> None:
    for message in (said("critic", "no"), {"type": "function_call_output", "output": "x"}):
        (record,) = records([message])[1:]
        assert (record.kind, record.data["reason"]) == ("Imported", "its role is not known")
        assert record.data["message"] == message


# --- names and damage -------------------------------------------------------------------------------------


def test_the_run_is_the_files_name_and_an_illegal_one_is_replaced_and_reported() -> None:
    assert read([said("user")], "x/local.traj.json").run == "local"
    history = read([said("user")], "~x.traj")
    assert history.run.startswith("_x~")
    assert history.remarks == (f"the file's name is no legal run name: {history.run} stands for it",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"trajectory": [', "is not JSON"),
        (b"7", "is no trajectory: it needs a list of messages, or an object"),
        (b"[]", "its `messages` is empty"),
        (b"{}", "is no trajectory: it has no `trajectory`, `history` or `messages`"),
        (b'{"events": []}', "is no trajectory"),
        (b'{"trajectory": {}}', "its `trajectory` is no list"),
        (b'{"trajectory": [7]}', "step 1: is no object"),
        (b'{"trajectory": [{"action": 7}]}', "step 1: its action is no text"),
        (b'{"trajectory": [], "history": 7}', "its `history` is no list"),
        (b'{"trajectory": [], "info": [1]}', "its `info` is no object"),
        (b'{"trajectory": [], "info": {"exit_status": 7}}', "its exit_status is no text"),
        (b'["hello"]', "message 1: is no object"),
        (b'[{"role": 7}]', "message 1: its role is no text"),
        (b'[{"role": "assistant", "tool_calls": {"a": 1}}]', "message 1: its tool_calls are no list of objects"),
        (
            b'[{"role": "assistant"}, {"role": "tool", "tool_call_ids": [7]}]',
            "message 2: its tool call ids are no text",
        ),
        (b'[{"role": "exit"}, {"role": "user"}]', "message 2: it follows the run's exit"),
        (b'[{"role": "user", "content": "\\ud800"}]', "holds a lone surrogate"),
    ],
)
def test_a_file_that_is_no_trajectory_is_refused_with_its_name_and_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(DamagedDocument) as refusal:
        traj.read(text, "a.traj")
    assert str(refusal.value).startswith("a.traj: ")
    assert reason in str(refusal.value)


def test_every_beginning_of_a_published_file_is_refused(shared: Path) -> None:
    text = next(file for file in published(shared) if file.suffix == ".json").read_bytes().rstrip()
    for size in range(0, len(text), 53):
        with pytest.raises(DamagedDocument):
            traj.read(text[:size], "a.traj")
