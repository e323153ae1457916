"""Progress as JSON tells the first call, the last, and now and then one between; with what is left, as estimated."""

from __future__ import annotations

import json

import pytest

from sealbook.cli.screen.progress import JSON_SECONDS_MIN, JsonLines


def test_lines_come_at_most_twice_a_second_and_the_last_always(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    report = JsonLines("verifying", lambda: now[0])
    for done in range(101):
        now[0] = done / 20
        report(done, 100)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["done"] for line in lines] == list(range(0, 101, round(JSON_SECONDS_MIN * 20)))
    assert [line["remaining"] for line in lines[:3]] == [None, 4.5, 4.0]
    assert lines[-1] == {"what": "verifying", "done": 100, "total": 100, "seconds": 5.0, "remaining": 0.0}
