"""Options and argument types that several verbs share, and the command that carries its own examples."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

_SECONDS = re.compile(r"@(-?\d{1,18})", re.ASCII)


class Verb(click.Command):
    """A command whose help ends in examples, each a whole line for a shell."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, one per line as they are typed."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def instant(value: str) -> int:
    """An RFC 3339 instant, or `@` and unix seconds, as microseconds since 1970: all that we print is taken here."""
    from sealbook.journal import instants

    seconds = _SECONDS.fullmatch(value)
    if seconds:
        return int(seconds[1]) * 1_000_000
    try:
        return instants.parse(value)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r} is no RFC 3339 instant such as 2026-11-29T08:30:00Z") from None


def count(value: str | int | None) -> int | None:
    """How many: a number within the journal's own limits, or `all` (None)."""
    if value is None or value == "all":
        return None
    from sealbook.journal import ids

    try:
        number = int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor `all`") from None
    return ids.check_limit(number)


def format_option(*formats: str) -> Callable[[Function], Function]:
    """`-o`: always the format."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="The format; json prints one object per line.",
    )


def range_options(function: Function) -> Function:
    """`--since` and `--until`, both inclusive."""
    for name, word in (("--until", "at or before"), ("--since", "at or after")):
        help_text = f"Only records taken {word} this RFC 3339 instant."
        function = click.option(name, type=instant, metavar="INSTANT", help=help_text)(function)
    return function


def page_options(function: Function) -> Function:
    """`-n` and `-r`."""
    function = click.option("-r", "--reverse", is_flag=True, help="Newest first.")(function)
    help_text = "The newest N records, or all."
    return click.option("-n", "--lines", "count", type=count, metavar="N|all", help=help_text)(function)


def epoch_option(help_text: str, *, required: bool = False) -> Callable[[Function], Function]:
    """`--epoch`: the fencing token."""
    return click.option("--epoch", type=int, required=required, metavar="N", help=help_text)


run_argument = click.argument("run", metavar="RUN")

checkpoint_option = click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A signed checkpoint of this log, as with more cosignatures; otherwise the latest that it published.",
)
