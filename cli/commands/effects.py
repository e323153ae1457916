"""`effects`: what runs did to the world, and which of it is in doubt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from sealbook.cli.commands.run import ordered_effects
from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import objects
from sealbook.cli.records.lines import BLANK, COLUMN_COLUMNS_MAX, KEY_DIGITS, table
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import cut, safe
from sealbook.cli.selecting import globs
from sealbook.cli.selecting.paging import pages
from sealbook.journal import Effect, NotFound, Tenant

FAILED = ("failed", "did-not-happen")


@click.command(
    "effects",
    cls=Verb,
    examples=(
        "sealbook effects order-42",
        "sealbook effects --in-doubt",
        "sealbook effects --failed --name 'charge*'",
        "sealbook effects -o json",
    ),
)
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--in-doubt", is_flag=True, help="Only effects that were started and whose end is not recorded.")
@click.option("--failed", is_flag=True, help="Only effects that are known not to have happened.")
@click.option("--name", "names", multiple=True, metavar="NAME", help="Only effects of this name, or glob; repeatable.")
@format_option("short", "json")
@pass_setup
def command(setup: Setup, run: str | None, in_doubt: bool, failed: bool, names: tuple[str, ...], form: str) -> None:
    """List effects, each by its latest attempt: of one run, or of all runs by name, in the order of their starts.

    With --in-doubt and --failed both, those that are either. `sealbook run RUN` shows every attempt.
    """
    with setup.reading() as tenant, setup.output(paged=True) as output:
        found = (
            effect
            for effect in _effects(tenant, run, in_doubt, failed)
            if _is_wanted(effect, in_doubt, failed)
            and (not names or (effect.name is not None and globs.meant(effect.name, names)))
        )
        if form == "json":
            for effect in found:
                output.line(objects.text(objects.effect(tenant.name, effect)))
        else:
            print_table(output, found)


def _is_wanted(effect: Effect, in_doubt: bool, failed: bool) -> bool:
    if not in_doubt and not failed:
        return True
    return (in_doubt and effect.in_doubt) or (failed and effect.status in FAILED)


def _effects(tenant: Tenant, run: str | None, in_doubt: bool, failed: bool) -> Iterator[Effect]:
    if run is not None:
        if tenant.standing(run) is None:
            raise NotFound("run", run)
        yield from ordered_effects(tenant, run)
        return
    for standing in pages(lambda after, limit: tenant.runs(after=after, limit=limit)):
        some = (standing.effects_in_doubt if in_doubt else 0) + (standing.effects_failed if failed else 0)
        if some or (standing.effects_started and not in_doubt and not failed):
            yield from ordered_effects(tenant, standing.run)


def print_table(output: Output, effects: Iterable[Effect], *, with_run: bool = True) -> None:
    """Print effects under headings."""
    headings = ("EFFECT", "NAME", "ATTEMPT", "STATUS", "RECOVERY", "RECORDS")
    rows = []
    for effect in effects:
        status = "in doubt" if effect.in_doubt else effect.status
        records = f"{effect.start_seq}, {'-' if effect.end_seq is None else effect.end_seq}"
        name = effect.name if isinstance(effect.name, str) else BLANK
        cells: list[tuple[str, tuple[str, ...]]] = [
            (effect.key.hex()[:KEY_DIGITS], ()),
            (cut(safe(name), COLUMN_COLUMNS_MAX), ()),
            (str(effect.attempt), ()),
            (status, _styles(effect)),
            (effect.recovery, ()),
            (records, ()),
        ]
        if with_run:
            cells.insert(0, (cut(safe(effect.run), COLUMN_COLUMNS_MAX), ()))
        rows.append(cells)
    table(output, ("RUN", *headings) if with_run else headings, rows)


def _styles(effect: Effect) -> tuple[str, ...]:
    if effect.in_doubt:
        return ("yellow",)
    return ("red",) if effect.status in FAILED else ()
