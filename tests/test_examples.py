"""The agents of examples/: each is short, runs as it stands, and may be killed in the middle."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio
from project import ROOT

from sealbook.journal import InDoubt, Journal

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LINES_MAX = 60
STORE = "agents.sealbook"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def records(run: str) -> list[str]:
    with Journal.open(STORE) as journal:
        assert journal.check().ok
        return [record.kind for record in journal.tenant("shop").read(run)]


def take_over() -> str:
    """Let the lease of the one run be anybody's; its name."""
    with Journal.open(STORE) as journal:
        shop = journal.tenant("shop")
        [standing] = shop.runs()
        shop.force_lease(standing.run, actor="ann", reason="the agent was killed")
        return standing.run


def killed(*args: Any, **kwargs: Any) -> None:
    raise KeyboardInterrupt


def kill_in(agent: ModuleType, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the threaded agent, and kill it as it begins this function."""
    with monkeypatch.context() as patch:
        patch.setattr(agent, function, killed)
        with pytest.raises(KeyboardInterrupt):
            agent.main(STORE, "42")


def test_there_is_an_agent_for_threads_for_trio_and_for_asyncio() -> None:
    assert [path.stem for path in EXAMPLES] == ["asyncio_agent", "shortest_agent", "threaded_agent", "trio_agent"]


def test_the_readme_shows_the_shortest_agent() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES}
    shortest = min(texts, key=lambda name: texts[name].count("\n"))
    _, _, code = texts[shortest].partition('"""\n\n')
    assert f"```python\n{code}```\n" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_shortest_agent_runs_as_it_stands() -> None:
    assert run("shortest_agent") == "receipt for 1200\n"
    assert run("shortest_agent") == ""  # its supervisor did not learn that it had ended
    assert records("order-41") == ["EffectStarted", "EffectDone", "EffectStarted", "EffectDone", "RunConcluded"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < LINES_MAX


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), STORE, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_the_threaded_agent_runs_as_it_stands() -> None:
    assert run("threaded_agent", "42").startswith("receipt for 42, paid at ")
    assert run("threaded_agent", "42") == ""
    assert Path("ledger.txt").read_text() == "42 1200\n"


def test_a_threaded_agent_that_was_killed_after_charging_does_not_charge_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = load("threaded_agent")
    charge = agent.charge
    monkeypatch.setattr(agent, "charge", lambda *args: killed(charge(*args)))
    with pytest.raises(KeyboardInterrupt):
        agent.main(STORE, "42")
    assert agent.main(STORE, "42") == 5  # the lease has not expired yet
    run = take_over()
    assert agent.main(STORE, "42") == 0
    assert Path("ledger.txt").read_text() == "42 1200\n"
    assert "receipt for 42" in capsys.readouterr().out
    assert records(run).count("EffectStarted") == 2


def test_a_threaded_agent_that_was_killed_before_charging_charges_once(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = load("threaded_agent")
    kill_in(agent, "charge", monkeypatch)
    take_over()
    assert agent.main(STORE, "42") == 0
    assert Path("ledger.txt").read_text() == "42 1200\n"


def test_an_effect_that_nobody_can_look_at_is_left_to_a_human_with_exit_code_7(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = load("threaded_agent")
    kill_in(agent, "send", monkeypatch)
    run = take_over()
    assert agent.main(STORE, "42") == 7
    assert run in (error := capsys.readouterr().err)
    assert "is in doubt" in error
    assert "sealbook reconcile" in error


async def lose_the_answer(*args: str, **options: str) -> None:
    raise InDoubt(reason="no answer came")


def test_an_effect_in_doubt_ends_the_trio_agent_with_exit_code_7_after_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = load("trio_agent")
    ship = agent.ship
    monkeypatch.setattr(
        agent, "ship", lambda order, **options: (lose_the_answer if order == "43" else ship)(order, **options)
    )
    assert trio.run(agent.main, STORE, "42", "43", "44") == 7
    assert capsys.readouterr().err.count("is in doubt (no answer came)") == 1
    with Journal.open(STORE) as journal:
        assert journal.tenant("shop").count_by_outcome("completed") == 2


def test_an_effect_in_doubt_ends_the_asyncio_agent_with_exit_code_7(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = load("asyncio_agent")
    monkeypatch.setattr(agent, "send", lose_the_answer)
    assert agent.main(STORE, "order-42") == 0
    assert agent.main(STORE, "order-42", "yes") == 7
    assert "is in doubt (no answer came)" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["asyncio_agent", "threaded_agent", "trio_agent"])
@pytest.mark.parametrize("arguments", [[], [STORE]])
def test_an_agent_without_what_it_needs_says_how_it_is_called(name: str, arguments: list[str]) -> None:
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"usage: python examples/{name}.py STORE ")
    assert ended.stderr.count("\n") == 1


def test_an_example_uses_nothing_but_public_names() -> None:
    for path in EXAMPLES:
        found = re.findall(r"from (sealbook\S*) import", path.read_text(encoding="utf-8"))
        assert found == ["sealbook.journal"]


def test_the_trio_agent_runs_as_it_stands() -> None:
    run("trio_agent", "42", "43", "44")
    run("trio_agent", "42", "43", "44")
    with Journal.open(STORE) as journal:
        shop = journal.tenant("shop")
        assert shop.count_by_outcome("completed") == len(shop.runs()) == 3
        assert [standing.effects_done for standing in shop.runs()] == [3, 3, 3]


def test_a_trio_agent_that_was_killed_calls_again_what_may_be_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = load("trio_agent")
    with monkeypatch.context() as patch:
        patch.setattr(agent, "ship", killed)
        with pytest.raises(BaseExceptionGroup):
            trio.run(partial(agent.main, STORE, "42"))
    run = take_over()
    monkeypatch.setattr(agent, "ask_the_model", killed)  # it is not asked again
    trio.run(partial(agent.main, STORE, "42"))
    assert records(run)[-5:] == ["EffectStarted", "EffectStarted", "EffectDone", "Note", "RunConcluded"]


def test_the_asyncio_agent_runs_as_it_stands() -> None:
    assert run("asyncio_agent", "order-42") == "waits for an answer\n"
    assert run("asyncio_agent", "order-42") == "waits for an answer\n"
    assert run("asyncio_agent", "order-42", "yes") == "Dear customer of order-42\nsent\n"
    assert run("asyncio_agent", "order-42", "yes") == "sent\n"
    assert records("order-42")[-1] == "RunConcluded"


def test_an_asyncio_agent_that_is_told_no_sends_nothing() -> None:
    agent = load("asyncio_agent")
    assert asyncio.run(agent.work(STORE, "order-42")) == "waits for an answer"
    assert asyncio.run(agent.work(STORE, "order-42", "no")) == "rejected"
    assert "EffectStarted" not in records("order-42")[2:]
