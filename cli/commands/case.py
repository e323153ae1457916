"""`case`: the history of a business matter, across the runs that worked on it."""

from __future__ import annotations

from typing import Any

import click

from sealbook.cli.commands import show
from sealbook.cli.ground.options import Verb, range_options
from sealbook.cli.selecting import options


@click.command(
    "case",
    cls=Verb,
    examples=(
        "sealbook case case-7",
        "sealbook case case-7 -n 5 -o json",
        "sealbook case case-7 KIND=Note --since yesterday",
    ),
)
@click.argument("case", metavar="CASE")
@options.match_options
@range_options
@options.order_options
@options.look_options
@click.pass_context
def command(ctx: click.Context, /, case: str, **asked: Any) -> int:
    """Print the records of a case, whichever run wrote them, in the order of their arrival.

    This is `sealbook show --case CASE`, with its matches, times, cursors and formats.
    """
    code: int = ctx.invoke(show.command, case=case, field=None, field_names=False, **asked)
    return code
