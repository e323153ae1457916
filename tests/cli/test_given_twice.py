"""An option that has one value is given once: of two values, or of two opposites, none silently wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import Result

from sealbook.cli.ground.options import Verb, VerbGroup
from sealbook.cli.main import cli
from sealbook.journal import EffectKey, Journal

Call = Callable[..., Result]

CHARGE = EffectKey("order-42", "charge").hex()


def every_command(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_command(below, (*path, name))


def test_opposite_findings_about_an_effect_exclude_each_other_and_write_nothing(call: Call, store: Path) -> None:
    for flags in (("--landed", "--did-not-happen"), ("--did-not-happen", "--landed")):
        result = call("reconcile", "order-42", CHARGE, *flags, "--owner", "ada")
        assert result.exit_code == 2
        assert f"{flags[0]} and {flags[1]} exclude each other (see `sealbook reconcile --help`)" in result.stderr
    with Journal.open(store, readonly=True) as journal:
        assert journal.tenant().standing("order-42").effects_in_doubt == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "args",
    [
        ("show", "-g", "a", "--grep", "b"),
        ("show", "--since", "-1h", "-S", "-2h"),
        ("show", "--case", "a", "--case=b"),
        ("show", "-n5", "-n", "10"),
        ("show", "--local", "--utc"),
        ("lease", "acquire", "m", "--owner", "a", "--owner", "b", "--ttl", "5"),
        ("--tenant", "acme", "--tenant", "default", "show"),
        ("--no-pager", "--pager", "show"),
    ],
)
def test_an_option_that_is_given_twice_and_means_one_thing_is_a_usage_error(call: Call, args: tuple[str, ...]) -> None:
    result = call(*args)
    assert result.exit_code == 2
    assert "more than once" in result.stderr
    assert result.stdout == ""


def test_what_may_repeat_and_what_says_the_same_twice_is_taken(call: Call) -> None:
    assert call("-q", "-q", "show", "-u", "order-42", "-u", "order-43", "-t", "Note", "-t", "Suspended").exit_code == 0
    assert call("show", "KIND=Note", "KIND=Suspended", "-r", "-r", "-a", "--all").exit_code == 0


def test_every_verb_and_group_takes_its_options_once() -> None:
    for path, command in every_command(cli):
        assert isinstance(command, Verb | VerbGroup), path


def test_an_option_without_its_value_points_at_the_help_of_its_verb(call: Call) -> None:
    result = call("show", "-S")
    assert result.exit_code == 2
    assert "see `sealbook show --help`" in result.stderr
