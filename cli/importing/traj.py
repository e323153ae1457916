"""Read an agent's trajectory, of SWE-agent or mini-swe-agent, as the history of one run.

| in the file | record |
|---|---|
| the file itself, with every member that stands nowhere else | `RunAdmitted`; run = the file's name |
| messages before the agent's first, demonstrations | `Prompted` |
| step i of `trajectory` | `ModelCalled`, then `EffectStarted` and `EffectDone` for its action |
| a step with a blank action (nothing was run) | `ModelCalled`, then `Observed` |
| an assistant message | `ModelCalled`, and an `EffectStarted` for each tool call, or for its command |
| the next user message, or the tool message that names the call | `EffectDone` |
| a later user message that answers nothing | `Prompted` |
| `info` with an `exit_status`, or a message of role `exit` | `RunConcluded` |
| `info` without one | `Imported`: it tells how far the run had come |
| anything else | `Imported`, with the reason |

`history` is read as chat messages where `trajectory` is missing, and the run has no conclusion then. Where both are
there and tell the same actions, each message stands beside its step under `message`.

The outcome is the exit status in the spelling of an outcome, and nothing is read into it:

| exit status | outcome |
|---|---|
| `submitted` | `submitted` |
| `submitted (exit_cost)` | `submitted-exit-cost` |
| `LimitsExceeded` | `limits-exceeded` |
| `exit_format` | `exit-format` |
| `404` | `exit-404` |
| ` ` | `unknown` |

No record gets a time that the file does not state, and those that it states stand in data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sealbook.cli.importing import strict
from sealbook.cli.importing.history import History, Segment, legal, stem
from sealbook.cli.importing.strict import DamagedDocument, damaged
from sealbook.journal import entries
from sealbook.journal.records.entries import EffectKey, Entry
from sealbook.journal.records.names import OUTCOME_BYTES_MAX, RUN_BYTES_MAX

SWE_AGENT = "swe-agent"
MINI_SWE_AGENT = "mini-swe-agent"
ENDINGS = (".traj.json", ".traj", ".json")
SHELL = "bash"  # the effect's name where no tool is named: the agent's commands run in a shell
PROGRESS = "info"  # the kind of an `Imported` record that a longer copy of the same file does not have

_COMMAND = re.compile(r"```(?:mswea_bash_command|bash|sh)[ \t]*\r?\n(.*?)\r?\n?```", re.DOTALL)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHER = re.compile(r"[^a-z0-9]+")


def read(text: bytes, name: str) -> History:
    """The history that this file holds; `Damaged` names the file and the step or message when it holds none."""
    document = strict.loads(text, name)
    digest = strict.digest(document, name)
    wanted = stem(name, ENDINGS)
    run = legal(wanted, RUN_BYTES_MAX, run=True)
    remarks = () if run == wanted else (f"the file's name is no legal run name: {run} stands for it",)
    source, records = _records(document, name)
    return History(run, digest, source, (Segment(source, tuple(records)),), remarks=remarks)


def outcome_of(exit_status: str) -> str:
    """The exit status in the spelling of an outcome."""
    words = _OTHER.sub("-", _HUMP.sub("-", exit_status).lower()).strip("-")
    if not words:
        return "unknown"
    return (words if words[0].isalpha() else f"exit-{words}")[:OUTCOME_BYTES_MAX].rstrip("-")


def _records(document: Any, name: str) -> tuple[str, list[Entry]]:
    if isinstance(document, list):
        return MINI_SWE_AGENT, _chat({"messages": document}, "messages", name, MINI_SWE_AGENT)
    if not isinstance(document, dict):
        raise damaged(name, "is no trajectory: it needs a list of messages, or an object")
    if document.get("trajectory") is not None:
        return SWE_AGENT, _stepped(document, name)
    if document.get("messages") is not None:
        return MINI_SWE_AGENT, _chat(document, "messages", name, MINI_SWE_AGENT)
    if document.get("history") is not None:
        return SWE_AGENT, _chat(document, "history", name, SWE_AGENT)
    raise damaged(name, "is no trajectory: it has no `trajectory`, `history` or `messages`")


def _objects(document: Mapping[str, Any], member: str, word: str, name: str) -> list[dict[str, Any]]:
    items = document.get(member)
    if not isinstance(items, list):
        raise damaged(name, f"its `{member}` is no list")
    for number, item in enumerate(items, start=1):
        if not isinstance(item, dict):
            raise damaged(name, "is no object", f"{word} {number}")
    return items


def _admission(document: Mapping[str, Any], *told: str) -> Entry:
    """The run's first record: what the file says outside its messages, its steps and how the run ended."""
    rest = {member: value for member, value in document.items() if member not in (*told, "info")}
    return entries.admitted(data={"file": rest} if rest else {})


def _ending(document: Mapping[str, Any], name: str, exit_message: Mapping[str, Any] | None = None) -> list[Entry]:
    """How the run ended, or how far it had come, by the file's `info` and by a last message of role `exit`."""
    info = document.get("info") or {}
    if not isinstance(info, dict):
        raise damaged(name, "its `info` is no object")
    told: dict[str, Any] = {"info": info} if info else {}
    status = info.get("exit_status")
    if exit_message is not None:
        told["message"] = exit_message
        status = _stated_exit(exit_message) if status is None else status
    if status is None:
        return [_imported(PROGRESS, told, "it states no exit_status")] if told else []
    if not isinstance(status, str):
        raise damaged(name, "its exit_status is no text")
    return [entries.concluded(outcome_of(status), data={"exit_status": status, **told})]


def _stated_exit(message: Mapping[str, Any]) -> Any:
    extra = message.get("extra")
    return extra.get("exit_status") if isinstance(extra, dict) else None


# --- trajectory: a list of steps ----------------------------------------------------------------------------


def _stepped(document: Mapping[str, Any], name: str) -> list[Entry]:
    steps = _objects(document, "trajectory", "step", name)
    messages = [] if document.get("history") is None else _objects(document, "history", "message", name)
    prompts = _before_the_agent(messages)
    beside = _beside(steps, messages[len(prompts) :])
    records = [_admission(document, "trajectory", "history")]
    records += [entries.entry("Prompted", {"message": message}) for message in prompts]
    for number, step in enumerate(steps, start=1):
        spoken, answers = beside[number - 1] if beside is not None else (None, [])
        records += _step(number, step, spoken, answers, name)
    if beside is None:
        records += [
            _imported("message", {"message": message}, "the history and the trajectory tell different actions")
            for message in messages[len(prompts) :]
        ]
    return records + _ending(document, name)


def _step(
    number: int, step: Mapping[str, Any], spoken: Mapping[str, Any] | None, answers: Sequence[Any], name: str
) -> list[Entry]:
    action = step.get("action")
    if action is not None and not isinstance(action, str):
        raise damaged(name, "its action is no text", f"step {number}")
    seen = {member: step[member] for member in ("state", "execution_time") if member in step}
    said = {
        member: value
        for member, value in step.items()
        if member not in ("action", "observation", "state", "execution_time")
    }
    call = {"step": number, **({"said": said} if said else {}), **({"message": spoken} if spoken else {})}
    end = {"step": number, **seen, **({"messages": list(answers)} if answers else {})}
    records = [entries.entry("ModelCalled", call)]
    observation = step.get("observation")
    if action is None or not action.strip():
        kept = {member: step[member] for member in ("action", "observation") if member in step}
        return records if len(end) == 1 and not kept else [*records, entries.entry("Observed", {**end, **kept})]
    key = EffectKey(SWE_AGENT, "step", str(number))
    records.append(
        entries.effect_started(
            key, name=_only_tool(spoken), args={"action": action}, recovery="ask", data={"step": number}
        )
    )
    if observation is not None:
        records.append(entries.effect_done(key, result=observation, data=end))
    elif len(end) > 1:
        records.append(entries.entry("Observed", end))
    return records


def _before_the_agent(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    first = next((index for index, message in enumerate(messages) if _speaks(message)), len(messages))
    return list(messages[:first])


def _speaks(message: Mapping[str, Any]) -> bool:
    """Whether the agent's model said this in this run; a demonstration only shows how it might."""
    return message.get("role") == "assistant" and not message.get("is_demo")


def _beside(
    steps: Sequence[Mapping[str, Any]], messages: Sequence[dict[str, Any]]
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]] | None:
    """For each step the assistant message that ordered it and those that answered; None where they differ."""
    groups: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for message in messages:
        if _speaks(message):
            groups.append((message, []))
        else:
            groups[-1][1].append(message)
    same = len(groups) == len(steps) and all(
        message.get("action") == step.get("action") for (message, _), step in zip(groups, steps, strict=True)
    )
    return groups if same else None


def _only_tool(message: Mapping[str, Any] | None) -> str:
    calls = message.get("tool_calls") if message is not None else None
    return _tool(calls[0]) if isinstance(calls, list) and len(calls) == 1 else SHELL


# --- messages ---------------------------------------------------------------------------------------------


def _chat(document: Mapping[str, Any], member: str, name: str, source: str) -> list[Entry]:
    messages = _objects(document, member, "message", name)
    if not messages:
        raise damaged(name, f"its `{member}` is empty")
    chat = _Chat(source, name)
    for number, message in enumerate(messages, start=1):
        chat.take(number, message)
    if member == "history":
        info = document.get("info")
        ending = [_imported(PROGRESS, {"info": info}, "there is no trajectory that it could conclude")] if info else []
    else:
        ending = _ending(document, name, chat.exit_message)
    return [_admission(document, member), *chat.records, *ending]


class _Chat:
    """Takes chat messages in order; the calls that wait for their answers decide what the next one means."""

    def __init__(self, source: str, name: str) -> None:
        self.source = source
        self.name = name
        self.records: list[Entry] = []
        self.exit_message: dict[str, Any] | None = None
        self.spoken = False
        self.latest: list[EffectKey] = []  # effects of the last assistant message that have no end
        self.calls: dict[str, list[EffectKey]] = {}  # a tool call's id -> its effects that have no end
        self.ids: dict[EffectKey, str] = {}  # the same, read backwards

    def take(self, number: int, message: dict[str, Any]) -> None:
        """Add what this message becomes."""
        where = f"message {number}"
        role = message.get("role")
        if role is not None and not isinstance(role, str):
            raise damaged(self.name, "its role is no text", where)
        if self.exit_message is not None:
            raise damaged(self.name, "it follows the run's exit", where)
        kept = {"number": number, "message": message}
        if _speaks(message):
            self._spoken(number, message, where)
        elif role == "exit" and self.source == MINI_SWE_AGENT:
            # The command that ends a run gets no message of its own: this one answers it.
            self._end(self._only_waiting(), {"number": number}, message.get("content"))
            self.exit_message = message
        elif role not in ("system", "user", "tool", "developer", "assistant"):
            self.records.append(_imported("message", kept, "its role is not known"))
        elif not self.spoken or message.get("is_demo") or role in ("system", "developer"):
            self.records.append(entries.entry("Prompted", kept))
        elif not self._answer(number, message, where):
            self.records.append(
                entries.entry("Prompted", kept)
                if role == "user"
                else _imported("message", kept, "it answers no call that waits for an answer")
            )

    def _spoken(self, number: int, message: dict[str, Any], where: str) -> None:
        self.spoken = True
        self.latest = []
        self.records.append(entries.entry("ModelCalled", {"number": number, "message": message}))
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise damaged(self.name, "its tool_calls are no list of objects", where)
        for index, call in enumerate(calls, start=1):
            key = EffectKey(self.source, "message", str(number), "call", str(index))
            call_id = call.get("id")
            if isinstance(call_id, str):
                self.calls.setdefault(call_id, []).append(key)
                self.ids[key] = call_id
            self._start(key, _tool(call), _arguments(call), {"number": number, "call": index})
        if not calls and _orders(message):
            key = EffectKey(self.source, "message", str(number))
            self._start(key, SHELL, _command(message), {"number": number})

    def _start(self, key: EffectKey, tool: str, args: Any, data: Mapping[str, Any]) -> None:
        self.latest.append(key)
        self.records.append(entries.effect_started(key, name=tool, args=args, recovery="ask", data=data))

    def _answer(self, number: int, message: dict[str, Any], where: str) -> bool:
        """Whether the message ended at least one effect."""
        named = message.get("tool_call_ids")
        if named is None:
            named = [] if message.get("tool_call_id") is None else [message["tool_call_id"]]
        if not isinstance(named, list) or not all(isinstance(call_id, str) for call_id in named):
            raise damaged(self.name, "its tool call ids are no text", where)
        keys = [self.calls[call_id][0] for call_id in dict.fromkeys(named) if self.calls.get(call_id)]
        if not named:
            keys = self._only_waiting()
        rest = {member: value for member, value in message.items() if member != "content"}
        self._end(keys, {"number": number, "message": rest}, message.get("content"))
        return bool(keys)

    def _only_waiting(self) -> list[EffectKey]:
        """The effect that an answer without an id must mean; none where there are several."""
        return self.latest[:] if len(self.latest) == 1 else []

    def _end(self, keys: Sequence[EffectKey], data: Mapping[str, Any], result: Any) -> None:
        for key in keys:
            self.latest = [waiting for waiting in self.latest if waiting != key]
            call_id = self.ids.pop(key, None)
            if call_id is not None:
                self.calls[call_id].remove(key)
            self.records.append(entries.effect_done(key, result=result, data=data))


def _orders(message: Mapping[str, Any]) -> bool:
    """Whether an assistant message without tool calls asks for something to be run: a stated blank action does not."""
    action = message.get("action", True)
    return bool(action.strip()) if isinstance(action, str) else action is not None


def _command(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an assistant message asks the shell to run, where it says so in one of the known ways."""
    if isinstance(message.get("action"), str):
        return {"action": message["action"]}
    content = message.get("content")
    blocks = _COMMAND.findall(content) if isinstance(content, str) else []
    return {"command": blocks[0]} if len(blocks) == 1 else None


def _tool(call: Any) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) and name else SHELL


def _arguments(call: Mapping[str, Any]) -> Any:
    """A tool call's arguments: their value where they are JSON, as they stand otherwise."""
    function = call.get("function")
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(arguments, str):
        return arguments
    try:
        value = strict.loads(arguments.encode(), "arguments")
        strict.digest(value, "arguments")
    except DamagedDocument:
        return arguments
    return value


def _imported(kind: str, data: Mapping[str, Any], reason: str) -> Entry:
    return entries.entry("Imported", {"kind": kind, "reason": reason, **data})
