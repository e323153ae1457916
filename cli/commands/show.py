"""`show`: print records in arrival order, page by page, and follow."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import takewhile
from pathlib import Path

import click

from sealbook.cli.ground import exit_codes
from sealbook.cli.ground.options import Verb, local_zone, range_options
from sealbook.cli.ground.setup import Setup, complain, pass_setup
from sealbook.cli.records import cursors, fields, levels, members, objects
from sealbook.cli.records.cursors import Cursor
from sealbook.cli.records.printer import Look, Printer
from sealbook.cli.screen.output import is_terminal
from sealbook.cli.screen.safe import safe
from sealbook.cli.selecting import grep as grepping
from sealbook.cli.selecting import listings, matches, options
from sealbook.cli.selecting.globs import is_glob
from sealbook.cli.selecting.records import Sieve
from sealbook.cli.selecting.selection import Selection
from sealbook.journal import NotFound, Record, Tenant
from sealbook.journal.records import names

FOLLOW_PAUSE_S = 0.05  # so that a record appears within a tenth of a second


@click.command(
    "show",
    cls=Verb,
    examples=(
        "sealbook show -n 20",
        "sealbook show -u order-42 -o json",
        "sealbook show KIND=EffectStarted KIND=EffectDone --since 2026-11-29T08:00:00Z",
        "sealbook show RUN=order-42 KIND=Note + CASE=case-7 -r",
        "sealbook show -u 'order-4*' -p warning --since '2026-11-29 08:00 Europe/Berlin' --until tomorrow",
        "sealbook show -g 'still unclear' -o verbose --output-fields run,data.text",
        "sealbook show -F run",
        "sealbook show --cursor-file read-so-far -o export > new.export",
        "sealbook show -f --case case-7",
    ),
)
@options.case_option
@options.match_options
@range_options
@options.order_options
@options.look_options
@options.listing_options
@pass_setup
def command(
    setup: Setup,
    words: tuple[str, ...],
    runs: tuple[str, ...],
    case: str | None,
    kinds: tuple[str, ...],
    priority: str | None,
    grep: str | None,
    case_sensitive: bool | None,
    scan: bool,
    since: int | None,
    until: int | None,
    amount: options.Lines | None,
    reverse: bool,
    pager_end: bool,
    follow: bool,
    cursor: str | None,
    after_cursor: str | None,
    cursor_file: Path | None,
    show_cursor: bool,
    form: str,
    output_fields: str | None,
    everything: bool,
    full: bool,
    local: bool,
    no_pager: bool,
    field: str | None,
    field_names: bool,
) -> int:
    """Print records, oldest first, in the order of their arrival, which no clock decides.

    Filters combine: a record must pass all of them. MATCH is FIELD=VALUE: values of one field are alternatives, a +
    between matches begins others; -N lists the fields. Instants are those of systemd's tools, such as 2026-11-29
    08:30, yesterday or -2h, and RFC 3339; both ends count. Following is by position: an entry with a wrong clock
    neither floods nor blocks it, and one whose instant lies in the future is marked.
    """
    if field_names or field is not None:
        if any(
            (words, runs, case, kinds, priority, grep, since, until, amount, follow, cursor, after_cursor, cursor_file)
        ):
            raise click.UsageError("-F and -N list what the whole tenant has: they take no filters, cursors or numbers")
        return _list_fields(setup, field, form)
    if follow and reverse:
        raise click.UsageError("--follow prints what comes, so it cannot be combined with --reverse")
    if follow and until is not None:
        raise click.UsageError("--follow goes on until it is interrupted, so it cannot be combined with --until")
    if form in options.BYTES and is_terminal(sys.stdout):
        raise click.UsageError(
            f"{form} has bytes as they are, on which a terminal acts: send it to a file or a program"
        )
    selection = replace(
        _of_names(runs, case, kinds),
        since=since,
        until=until,
        groups=matches.parse(words),
        levels=None if priority is None else levels.parse(priority),
        pattern=None if grep is None else grepping.parse(grep, case_sensitive),
        scan=scan,
    )
    position = ShowPosition(cursor, after_cursor, cursor_file, show_cursor)
    position.check()
    printed = print_records(
        replace(setup, paged=setup.paged and not no_pager and form not in options.BYTES),
        selection,
        _order(amount, reverse, follow, pager_end, since is not None or position.given),
        Look(
            form,
            local_zone() if local else UTC,
            everything,
            full,
            () if output_fields is None else members.parse(output_fields),
        ),
        position,
    )
    return exit_codes.INCOMPLETE if grep is not None and not printed else exit_codes.OK


@dataclass(frozen=True, slots=True)
class Order:
    """How many records and which end first. `count` is None for all of them; the newest unless `oldest`."""

    count: int | None = None
    oldest: bool = False
    reverse: bool = False
    follow: bool = False
    pager_end: bool = False


def _order(amount: options.Lines | None, reverse: bool, follow: bool, pager_end: bool, begun: bool) -> Order:
    """The order as it was asked for. `begun` says that a beginning was given, so that nothing after it is left out."""
    if amount is None:
        count = options.LINES_DEFAULT if follow and not begun else options.LINES_AT_END if pager_end else None
        amount = options.Lines(count)
    return Order(amount.count, amount.oldest, reverse, follow, pager_end)


@dataclass(frozen=True, slots=True)
class ShowPosition:
    """Where to begin, and where to keep how far it went."""

    cursor: str | None = None
    after_cursor: str | None = None
    file: Path | None = None
    shown: bool = False

    @property
    def given(self) -> bool:
        """Whether a beginning was given."""
        return self.cursor is not None or self.after_cursor is not None or self.file is not None

    def check(self) -> None:
        """A usage error when there are two beginnings."""
        if sum(it is not None for it in (self.cursor, self.after_cursor, self.file)) > 1:
            raise click.UsageError("--cursor, --after-cursor and --cursor-file exclude one another")

    def first(self, tenant: Tenant) -> int:
        """The arrival to begin at; `Corrupt` when the record of the cursor is not what it was."""
        text = self.after_cursor if self.cursor is None else self.cursor
        found = None if self.file is None else cursors.read_file(self.file)
        found = found if text is None else cursors.Cursor.parse(text)
        if found is None:
            return 1
        found.check(tenant)
        return found.arrival + (self.cursor is None)


FROM_THE_BEGINNING = ShowPosition()


class ShowProgress:
    """Which record was printed last; and the newest of them, kept in the cursor file once it has been handed over: the
    next call goes on behind it, also after --reverse."""

    def __init__(self, file: Path | None) -> None:
        self.last: Record | None = None
        self._file = file
        self._newest: Record | None = None
        self._kept: Record | None = None

    def noting(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records, noted as they pass."""
        for record in records:
            yield record
            self.last = record
            if self._newest is None or record.arrival > self._newest.arrival:
                self._newest = record

    def keep(self) -> None:
        """Call it when what was printed has been flushed."""
        if self._file is not None and self._newest is not None and self._newest is not self._kept:
            cursors.write_file(self._file, cursors.Cursor.of(self._newest))
            self._kept = self._newest


def print_records(
    setup: Setup, selection: Selection, order: Order, look: Look, position: ShowPosition = FROM_THE_BEGINNING
) -> bool:
    """Print the selection's records, and those that come if they are followed. Whether there were any."""
    progress = ShowProgress(position.file)
    with setup.reading(to_come=order.follow) as tenant:
        if not order.follow:  # what is followed may be yet to come
            _check_known(tenant, selection)
        selection = replace(selection, first=position.first(tenant))
        with setup.output(paged=not order.follow, at_end=order.pager_end) as output:
            printer = Printer(output, look)
            if order.follow:
                _follow(tenant, selection, order, printer, progress)  # until it is interrupted
            printer.show_all(progress.noting(_selected(tenant, selection, order)))
            progress.keep()
            if position.shown and progress.last is not None:
                say = complain if look.form in (*options.JSON, *options.BYTES) else output.line
                say(f"-- cursor: {Cursor.of(progress.last)}")
            if progress.last is None and output.terminal and not setup.quiet:
                output.line("-- no records --")
    return progress.last is not None


def _check_known(tenant: Tenant, selection: Selection) -> None:
    """`NotFound` for a run or case that was asked for by its exact name and has no record: a misspelt name must not
    look like one without records. Globs and matches are filters, which nothing may meet."""
    for run in (*selection.runs, *(() if selection.run is None else (selection.run,))):
        if not is_glob(run) and tenant.standing(run) is None:
            raise NotFound("run", run)
    if selection.case is not None and not tenant.case_history(selection.case, limit=1):
        raise NotFound("case", selection.case)


def _selected(tenant: Tenant, selection: Selection, order: Order) -> Iterable[Record]:
    from sealbook.cli.selecting.records import newest, records

    if order.count is None or order.reverse != order.oldest:
        return records(tenant, selection, reverse=order.reverse, limit=order.count)
    if order.oldest:
        found = list(records(tenant, selection, limit=order.count))
        return found[::-1] if order.reverse else found
    return newest(tenant, selection, order.count)


def _follow(tenant: Tenant, selection: Selection, order: Order, printer: Printer, progress: ShowProgress) -> None:
    sieve = Sieve(tenant, selection)
    following = tenant.follow(selection.run, case=selection.case, from_now=True)
    last = following.arrival
    found = takewhile(lambda record: record.arrival <= last, _selected(tenant, selection, order))
    printer.show_all(progress.noting(found))
    progress.keep()
    while True:
        coming = iter(following.take, None)
        printer.show_all(progress.noting(filter(sieve.takes, coming)))
        progress.keep()
        printer.wait(FOLLOW_PAUSE_S)


def _of_names(runs: tuple[str, ...], case: str | None, kinds: tuple[str, ...]) -> Selection:
    for name in runs:
        names.check_run(name)
    one = len(runs) == 1 and not is_glob(runs[0])
    return Selection(
        run=runs[0] if one else None,
        runs=() if one else runs,
        case=None if case is None else names.check_case(case),
        kinds=frozenset(kind if is_glob(kind) else names.check_kind(kind) for kind in kinds),
    )


def _list_fields(setup: Setup, field: str | None, form: str) -> int:
    def shown(value: str) -> str:
        return objects.text({"field": field, "value": value}) if form == "json" else safe(value)

    if field is None:
        with setup.output() as output:
            for name in (*fields.NAMES, f"{fields.IN_DATA}name"):
                output.line(name)
        return exit_codes.OK
    field = fields.name_of(field)
    with setup.reading() as tenant, setup.output(paged=True) as output:
        for value in listings.values(tenant, field):
            output.line(shown(value))
    return exit_codes.OK
