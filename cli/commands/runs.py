"""`runs`: which runs there are, and where each stands."""

from __future__ import annotations

import click

from sealbook.cli.ground.options import Verb, count, format_option, since_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import lines, objects
from sealbook.cli.selecting.runs import Wanted, find
from sealbook.journal.records import names

SORTS = ("name", "recent", "admitted", "records", "effects", "in-doubt")  # `run_selection.SORTS`, which loads more


@click.command(
    "runs",
    cls=Verb,
    examples=(
        "sealbook runs",
        "sealbook runs --outcome failed --recent --limit 20",
        "sealbook runs --waiting",
        "sealbook runs --in-doubt --since yesterday --sort in-doubt -r",
        "sealbook runs -o json",
    ),
)
@click.option("--outcome", metavar="NAME", help="Runs whose last conclusion had this outcome.")
@click.option("--source", metavar="NAME", help="Runs that this source admitted.")
@click.option("--case", metavar="CASE", help="Runs that have a record in this case.")
@click.option("--waiting", is_flag=True, help="Runs that are suspended, soonest instant first.")
@click.option("--abandoned", is_flag=True, help="Open runs whose lease expired unreleased, oldest expiry first.")
@click.option("--in-doubt", is_flag=True, help="Runs that have an effect in doubt.")
@since_option("Only runs whose last record was taken at or after this: '2026-11-29 08:30', yesterday, -2h, RFC 3339.")
@click.option("--recent", is_flag=True, help="The same as --sort recent.")
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    help="The order: recent has the last active run first, the others the least. Runs are by name otherwise.",
)
@click.option("-r", "--reverse", is_flag=True, help="The order the other way round.")
@click.option("--limit", type=count, metavar="N|all", help="At most N runs; there is no limit otherwise.")
@click.option("--all", "store_runs", is_flag=True, help="Also the store's own runs, such as ~tenant.")
@format_option("short", "json")
@pass_setup
def command(
    setup: Setup,
    outcome: str | None,
    source: str | None,
    case: str | None,
    waiting: bool,
    abandoned: bool,
    in_doubt: bool,
    since: int | None,
    recent: bool,
    sort: str | None,
    reverse: bool,
    limit: int | None,
    store_runs: bool,
    form: str,
) -> None:
    """List runs and where each stands. Filters combine: a run must pass all of them.

    The listing by name is complete however much is written meanwhile; in the others a run that moves while they are
    read may appear at its new place. Orders other than by name and recent hold what they sort in memory.
    """
    if recent and sort not in (None, "recent"):
        raise click.UsageError("--recent is --sort recent: choose one order")
    wanted = Wanted(
        outcome=None if outcome is None else names.check_outcome(outcome),
        source=None if source is None else names.check_source(source),
        case=None if case is None else names.check_case(case),
        waiting=waiting,
        abandoned=abandoned,
        in_doubt=in_doubt,
        since=since,
        store_runs=store_runs,
        sort="recent" if recent else sort,
        reverse=reverse,
    )
    with setup.reading() as tenant, setup.output(paged=True) as output:
        found = find(tenant, wanted, limit)
        if form == "json":
            for standing in found:
                output.line(objects.text(objects.run(standing)))
        else:
            lines.table(output, lines.RUN_HEADINGS, map(lines.run_row, found))
