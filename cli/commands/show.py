"""`show`: print records in arrival order, page by page, and follow."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from sealbook.cli.options import Verb, format_option, page_options, range_options
from sealbook.cli.rendering.output import Output
from sealbook.cli.setup import Setup, pass_setup

if TYPE_CHECKING:
    from sealbook.cli.selection import Selection
    from sealbook.journal import Record, Tenant

FOLLOWED_FIRST = 10  # how many records `-f` begins with, as journalctl does
FOLLOW_PAUSE_S = 0.2


@click.command(
    "show",
    cls=Verb,
    examples=(
        "sealbook show -n 20",
        "sealbook show --run order-42 -o json",
        "sealbook show --kind EffectStarted --kind EffectDone --since 2026-11-29T08:00:00Z",
        "sealbook show -f --case case-7",
    ),
)
@click.option("--run", metavar="RUN", help="Only this run's records.")
@click.option("--case", metavar="CASE", help="Only this case's records.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only records of this kind; may be repeated.")
@range_options
@page_options
@click.option("-f", "--follow", is_flag=True, help="Then wait for new records and print them, until Ctrl-C.")
@format_option("short", "json", "cat")
@pass_setup
def command(
    setup: Setup,
    run: str | None,
    case: str | None,
    kinds: tuple[str, ...],
    since: int | None,
    until: int | None,
    count: int | None,
    reverse: bool,
    follow: bool,
    form: str,
) -> None:
    """Print records, oldest first, in the order of their arrival, which no clock decides.

    Filters combine: a record must pass all of them. `cat` prints the data alone. Following is by position: an entry
    with a wrong clock neither floods nor blocks it, and one whose instant lies in the future is marked.
    """
    from sealbook.cli.selection import Selection
    from sealbook.journal import ids

    if follow and reverse:
        raise click.UsageError("--follow prints what comes, so it cannot be combined with --reverse")
    selection = Selection(
        None if run is None else ids.check_run(run),
        None if case is None else ids.check_case(case),
        frozenset(ids.check_kind(kind) for kind in kinds),
        since,
        until,
    )
    print_records(setup, selection, count=_count(count, follow), reverse=reverse, follow=follow, form=form)


def _count(count: int | None, follow: bool) -> int | None:
    """`-n` as it was given; following begins with the last ten unless it says otherwise."""
    given = click.get_current_context().get_parameter_source("count") is not click.core.ParameterSource.DEFAULT
    return FOLLOWED_FIRST if follow and not given else count


def print_records(
    setup: Setup, selection: Selection, *, count: int | None, reverse: bool, form: str, follow: bool = False
) -> None:
    """Print the selection's records, and those that come if they are followed."""
    with setup.reading() as tenant, setup.output(paged=not follow) as output:
        printer = Printer(output, form)
        if follow:
            _follow(tenant, selection, count, printer)
        else:
            printer.show_all(_selected(tenant, selection, count, reverse))


def _selected(tenant: Tenant, selection: Selection, count: int | None, reverse: bool) -> Iterable[Record]:
    from sealbook.cli.selection import newest, records

    if count is None or reverse:
        return records(tenant, selection, reverse=reverse, limit=count)
    return newest(tenant, selection, count)


def _follow(tenant: Tenant, selection: Selection, count: int | None, printer: Printer) -> None:
    from sealbook.cli.selection import history

    last = max((record.arrival for record in tenant.history(reverse=True, limit=1)), default=0)
    before = last
    printer.show_all(record for record in _selected(tenant, selection, count, False) if record.arrival <= before)
    while True:
        for record in history(tenant, start=last + 1):
            last = record.arrival
            if selection.takes(record):
                printer.show(record)
        printer.flush()
        printer.wait(FOLLOW_PAUSE_S)


class Printer:
    """Prints records in one of the formats. `flush` after the last one, and before anybody waits."""

    def __init__(self, output: Output, form: str, *, with_run: bool = True) -> None:
        from sealbook.cli.rendering.lines import RecordLines

        self._output = output
        self._form = form
        self._lines = RecordLines(output, with_run=with_run)

    def show(self, record: Record) -> None:
        """Print one record."""
        from sealbook.cli.rendering import objects
        from sealbook.cli.rendering.lines import data_text

        if self._form == "json":
            self._output.line(objects.text(objects.record(record)))
        elif self._form == "cat":
            self._output.line(data_text(record.data))
        else:
            self._lines.add(record, now_ms=time.time_ns() // 1_000_000)

    def show_all(self, records: Iterable[Record]) -> None:
        """Print them all, now."""
        for record in records:
            self.show(record)
        self.flush()

    def wait(self, seconds: float) -> None:
        """Let time pass; `BrokenPipeError` as soon as nobody reads what will be printed."""
        self._output.wait(seconds)

    def flush(self) -> None:
        """Print what is held back, and hand it over."""
        self._lines.flush()
        self._output.flush()
