"""`reindex`: drop the indexes and build them again."""

from __future__ import annotations

import click

from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import objects
from sealbook.cli.screen import progress
from sealbook.cli.screen.words import counted


@click.command("reindex", cls=Verb, examples=("sealbook reindex",))
@format_option("short", "json")
@pass_setup
def command(setup: Setup, form: str) -> None:
    """Drop the indexes and build them again from where the runs stand. Records are not touched.

    Meanwhile listings and writers are refused. One that was cut short can be run again.
    """
    with setup.journal(readonly=False) as journal, progress.shown("reindexing", quiet=setup.quiet) as report:
        rows = journal.reindex(progress=report)
    with setup.report("the indexes are built again") as output:
        told = f"the indexes have {counted(rows, 'row')}"
        output.line(objects.text({"rows": rows}) if form == "json" else told)
