"""The demo comes out, in under a screen, and says so when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from sealbook.cli.demo import story
from sealbook.cli.demo.world import CHARGE, DemoStep
from sealbook.cli.main import cli
from sealbook.journal import Journal


@pytest.mark.slow
def test_the_demo_comes_out_in_under_a_screen() -> None:
    result = CliRunner().invoke(cli, ["demo"])
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    assert "killed with SIGKILL" in result.stdout
    assert "epoch 1 is fenced" in result.stdout
    assert "run order-42, record 4" in result.stdout


def test_the_store_can_be_kept_and_read(tmp_path: Path) -> None:
    folder = tmp_path / "kept" / "here"
    assert CliRunner().invoke(cli, ["demo", "--keep", str(folder)]).exit_code == 0
    with Journal.open(folder / "agents.sealbook", readonly=True) as journal:
        assert [effect.status for effect in journal.tenant().effects("order-42")].count("done") == 2
        assert journal.check().findings == ()
    with Journal.open(folder / "tampered.sealbook", readonly=True) as journal:
        assert journal.check().findings
    again = CliRunner().invoke(cli, ["demo", "--keep", str(folder)])
    assert again.exit_code == 5
    assert again.stderr.endswith("is not empty: name a new one\n")


def test_a_world_that_is_charged_twice_breaks_the_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = DemoStep.times_done
    monkeypatch.setattr(DemoStep, "times_done", lambda step, world: real(step, world) + (step is CHARGE))
    result = CliRunner().invoke(cli, ["demo"])
    assert result.exit_code == 1
    assert result.stderr == "sealbook: demo: this did not come out: charge happened exactly once\n"


@pytest.mark.slow
def test_tampering_that_is_not_found_breaks_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "_change_one_byte", lambda store, record: None)
    result = CliRunner().invoke(cli, ["demo"])
    assert result.exit_code == 1
    assert "the tampering is found and located" in result.stderr
