"""`case`: the history of a business matter, across the runs that worked on it."""

from __future__ import annotations

import click

from sealbook.cli.commands.show import print_records
from sealbook.cli.options import Verb, format_option, page_options, range_options
from sealbook.cli.setup import Setup, pass_setup


@click.command("case", cls=Verb, examples=("sealbook case case-7", "sealbook case case-7 -n 5 -o json"))
@click.argument("case", metavar="CASE")
@range_options
@page_options
@format_option("short", "json", "cat")
@pass_setup
def command(
    setup: Setup, case: str, since: int | None, until: int | None, count: int | None, reverse: bool, form: str
) -> None:
    """Print the records of a case, whichever run wrote them, in the order of their arrival."""
    from sealbook.cli.selection import Selection
    from sealbook.journal import ids

    selection = Selection(case=ids.check_case(case), since=since, until=until)
    print_records(setup, selection, count=count, reverse=reverse, form=form)
