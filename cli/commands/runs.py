"""`runs`: which runs there are, and where each stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import click

from sealbook.cli.options import Verb, count, format_option
from sealbook.cli.setup import Setup, pass_setup

if TYPE_CHECKING:
    from sealbook.indexes.standing import Standing
    from sealbook.journal import Tenant


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs to list, and in which order."""

    outcome: str | None
    source: str | None
    case: str | None
    waiting: bool
    abandoned: bool
    recent: bool
    store_runs: bool

    def takes(self, standing: Standing) -> bool:
        """Whether the run is one of them, as far as its standing tells."""
        return (
            (self.outcome is None or standing.outcome == self.outcome)
            and (self.source is None or standing.source == self.source)
            and (not self.waiting or standing.waiting)
        )


@click.command(
    "runs",
    cls=Verb,
    examples=(
        "sealbook runs",
        "sealbook runs --outcome failed --recent --limit 20",
        "sealbook runs --waiting",
        "sealbook runs -o json",
    ),
)
@click.option("--outcome", metavar="NAME", help="Runs whose last conclusion had this outcome.")
@click.option("--source", metavar="NAME", help="Runs that this source admitted.")
@click.option("--case", metavar="CASE", help="Runs that have a record in this case.")
@click.option("--waiting", is_flag=True, help="Runs that are suspended, soonest instant first.")
@click.option("--abandoned", is_flag=True, help="Open runs whose lease expired unreleased, oldest expiry first.")
@click.option("--recent", is_flag=True, help="The last active run first; runs are by name otherwise.")
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
    recent: bool,
    limit: int | None,
    store_runs: bool,
    form: str,
) -> None:
    """List runs and where each stands. Filters combine: a run must pass all of them.

    The listing by name is complete however much is written meanwhile; in the others a run that moves while they are
    read may appear at its new place.
    """
    from sealbook.cli.rendering import lines, objects
    from sealbook.journal import ids

    wanted = Wanted(
        None if outcome is None else ids.check_outcome(outcome),
        None if source is None else ids.check_source(source),
        None if case is None else ids.check_case(case),
        waiting,
        abandoned,
        recent,
        store_runs,
    )
    with setup.reading() as tenant, setup.output(paged=True) as output:
        found = islice(find(tenant, wanted), limit)
        if form == "json":
            for standing in found:
                output.line(objects.text(objects.run(standing)))
        else:
            lines.table(output, lines.RUN_HEADINGS, map(lines.run_row, found))


def find(tenant: Tenant, wanted: Wanted) -> Iterator[Standing]:
    """The runs, from the listing that knows the rarest of what is wanted."""
    return filter(wanted.takes, _of_case(tenant, wanted, _listed(tenant, wanted)))


def _listed(tenant: Tenant, wanted: Wanted) -> Iterator[Standing]:
    from sealbook.cli.selection import pages

    if wanted.abandoned:
        names = (item.run for item in pages(lambda after, limit: tenant.abandoned(after=after, limit=limit)))
        return _standings(tenant, names)
    if wanted.waiting:
        names = (item.run for item in pages(lambda after, limit: tenant.waiting(after=after, limit=limit)))
        return _standings(tenant, names)
    if wanted.outcome is not None and not wanted.recent:
        outcome = wanted.outcome
        return pages(lambda after, limit: tenant.by_outcome(outcome, after=after, limit=limit))
    if wanted.source is not None:
        source = wanted.source
        return pages(lambda after, limit: tenant.recent_from(source, after=after, limit=limit))
    if wanted.recent:
        return pages(lambda after, limit: tenant.recent(after=after, limit=limit))
    return pages(lambda after, limit: tenant.runs(after=after, limit=limit, all=wanted.store_runs))


def _standings(tenant: Tenant, names: Iterator[str]) -> Iterator[Standing]:
    """Where these runs stand by now. One that was leased and never written to stands nowhere."""
    return (standing for standing in map(tenant.standing, names) if standing is not None)


def _of_case(tenant: Tenant, wanted: Wanted, found: Iterator[Standing]) -> Iterator[Standing]:
    from sealbook.cli.selection import pages

    if wanted.case is None:
        return found
    case = wanted.case
    members = {record.run for record in pages(lambda after, limit: tenant.case_history(case, after=after, limit=limit))}
    return (standing for standing in found if standing.run in members)
