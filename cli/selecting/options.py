"""The options of `show`, in groups, named as journalctl names them where it has the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from sealbook.cli.ground.options import count

Function = TypeVar("Function", bound=Callable[..., Any])

LINES_DEFAULT = 10  # of `-n` without a number, and of `-f`
LINES_AT_END = 1000  # of `-e`
ONE_LINE = ("short", "short-iso", "short-iso-precise", "short-unix", "short-delta", "with-run")
JSON = ("json", "json-pretty", "json-seq", "json-sse")
BYTES = ("export", "cbor-seq")
FORMATS = (*ONE_LINE, "verbose", *JSON, "cat", *BYTES)


@dataclass(frozen=True, slots=True)
class Lines:
    """How many records, None for all: the newest, or with `+` the oldest."""

    count: int | None
    oldest: bool = False


def lines(value: str | Lines) -> Lines:
    """What stands after `-n`: `20`, `+20` or `all`."""
    if isinstance(value, Lines):
        return value
    oldest = value.startswith("+") and value[1:].isdecimal()
    return Lines(count(value[1:] if oldest else value), oldest)


def match_options(function: Function) -> Function:
    """What a record must be."""
    return _with(
        function,
        click.argument("words", nargs=-1, metavar="[MATCH...]"),
        click.option(
            "-u", "--run", "runs", multiple=True, metavar="RUN", help="This run, or those of a glob: order-*."
        ),
        click.option(
            "-t", "--kind", "kinds", multiple=True, metavar="KIND", help="Records of this kind, or of a glob: Effect*."
        ),
        click.option(
            "-p",
            "--priority",
            metavar="LEVEL|A..B",
            help="This grave or graver: err failed, warning in doubt or waiting, notice concluded, info the rest.",
        ),
        click.option(
            "-g", "--grep", metavar="REGEX", help="Records whose summary or texts have it; exit code 1 for none."
        ),
        click.option(
            "--case-sensitive/--ignore-case",
            default=None,
            help="For -g; as a rule case counts when REGEX has upper-case letters.",
        ),
        click.option("--scan", is_flag=True, help="Look at every record for -S and -U, though clocks were set back."),
    )


def case_option(function: Function) -> Function:
    """Of which case."""
    return click.option("--case", metavar="CASE", help="Only this case's records.")(function)


def order_options(function: Function) -> Function:
    """How many, from which end, and from where on."""
    return _with(
        function,
        click.option(
            "-n",
            "--lines",
            "amount",
            type=lines,
            is_flag=False,
            flag_value=str(LINES_DEFAULT),
            metavar="N|+N|all",
            help="The newest N records, with + the oldest; 10 where no N stands.",
        ),
        click.option("-r", "--reverse", is_flag=True, help="Newest first."),
        click.option("-e", "--pager-end", is_flag=True, help="Open the pager at the end; the newest 1000 unless -n."),
        click.option("-f", "--follow", is_flag=True, help="Then wait for new records and print them, until Ctrl-C."),
        click.option("-c", "--cursor", metavar="CURSOR", help="From this record on."),
        click.option("--after-cursor", metavar="CURSOR", help="From the record after this one on."),
        click.option(
            "--cursor-file",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="From after the record that FILE names on; FILE then names the newest one printed.",
        ),
        click.option("--show-cursor", is_flag=True, help="Print the cursor of the last record at the end."),
    )


def look_options(function: Function) -> Function:
    """How records look."""
    return _with(
        function,
        click.option(
            "-o",
            "--output",
            "form",
            type=click.Choice(FORMATS),
            default="short",
            show_default=True,
            metavar="FORMAT",
            help=f"The format: {', '.join(FORMATS)}.",
        ),
        click.option(
            "--output-fields", metavar="A,B", help="Only these members, such as at,kind,data.text; seq and hash stay."
        ),
        click.option("-a", "--all", "everything", is_flag=True, help="Long values whole, not as length and digest."),
        click.option("--full/--no-full", "-l/", default=True, help="Whole lines, or cut to the terminal."),
        click.option(
            "--local/--utc",
            default=False,
            is_eager=True,  # -S and -U are read by it
            help="Times of this machine's zone; UTC otherwise.",
        ),
        click.option("--no-pager", is_flag=True, help="Print straight to the terminal."),
    )


def listing_options(function: Function) -> Function:
    """What is listed instead of records."""
    return _with(
        function,
        click.option("-F", "--field", metavar="FIELD", help="List the values that FIELD has, each once."),
        click.option("-N", "--fields", "field_names", is_flag=True, help="List the fields that can be matched."),
    )


def _with(function: Function, *options: Callable[[Any], Any]) -> Function:
    """The function under these options, listed in this order."""
    for option in reversed(options):
        function = option(function)
    return function
