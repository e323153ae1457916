"""`--grep` looks through what a record says, and minds case where the pattern does."""

from __future__ import annotations

import click
import pytest

from sealbook.cli.selecting import grep
from sealbook.journal import EffectKey, Journal, entries

KEY = EffectKey("charge")


@pytest.mark.parametrize(
    ("pattern", "case_sensitive", "taken"),
    [
        ("refund", None, True),
        ("Refund", None, True),
        ("REFUND", None, False),
        ("REFUND", False, True),
        ("refund", True, False),
        ("^second line$", None, False),
        ("(?m)^second line$", None, True),
        (r"cents.*12[0-9]+", None, True),
        ("charge", None, True),
        (KEY.hex()[:8], None, True),
        ("nested text", None, True),
        ("nothing of it", None, False),
    ],
)
def test_a_pattern_is_looked_for_in_the_summary_and_in_every_text(
    pattern: str, case_sensitive: bool | None, taken: bool
) -> None:
    args = {"cents": 1200, "why": "Refund\nsecond line", "more": [{"deep": "nested text"}]}
    [record] = (
        Journal.in_memory().tenant().append("r", [entries.effect_started(KEY, name="charge", args=args)], epoch=1)
    )
    assert grep.found(grep.parse(pattern, case_sensitive), record) is taken


@pytest.mark.parametrize("pattern", ["(", "[", "*", "a{99999999999}", "\\"])
def test_a_pattern_that_is_none_is_a_usage_error(pattern: str) -> None:
    with pytest.raises(click.BadParameter):
        grep.parse(pattern, None)
