"""Options and argument types that several verbs share, and the command that carries its own examples."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, TypeVar

import click

from sealbook.cli.ground.setup import Setup

Function = TypeVar("Function", bound=Callable[..., Any])


class OptionsOnce(click.Command):
    """A command that refuses an option which has one value and is given more than once, and opposites of each other.

    The last one would win otherwise, and nobody would be told. A flag that says the same again is taken, and so are
    options that collect what they are given.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What is left of the arguments; a usage error where an option's meaning is open."""
        given = list(args)
        try:
            rest = super().parse_args(ctx, args)
            if not ctx.resilient_parsing:
                _check_once(self.make_parser(ctx).parse_args(given)[2])
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # whose help to see: click leaves it open where a value is missing
            raise
        return rest


def _check_once(order: Sequence[click.Parameter]) -> None:
    """`order` has an item for each time that a parameter was met."""
    first: dict[str | None, click.Option] = {}  # by what the options set
    seen: set[click.Option] = set()
    for option in order:
        if not isinstance(option, click.Option) or option.multiple or option.count:
            continue
        before = first.setdefault(option.name, option)
        name = option.opts[-1]
        if before is not option:
            raise click.UsageError(f"{before.opts[-1]} and {name} exclude each other")
        says_the_same = option.is_flag and not option.secondary_opts
        if option in seen and not says_the_same:
            raise click.UsageError(f"{'/'.join((name, *option.secondary_opts[-1:]))} is given more than once")
        seen.add(option)


class Verb(OptionsOnce):
    """A command whose help ends in examples, each a whole line for a shell."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, one per line as they are typed."""
        write_examples(formatter, self.examples)


class VerbGroup(OptionsOnce, click.Group):
    """A group of verbs, whose help ends in examples, too: its own, and otherwise the first one of each of its verbs."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.own_examples = examples

    @property
    def examples(self) -> tuple[str, ...]:
        """Each a whole line for a shell."""
        if self.own_examples:
            return self.own_examples
        context = click.Context(self)
        below = [self.get_command(context, name) for name in self.list_commands(context)]
        return tuple(verb.examples[0] for verb in below if isinstance(verb, Verb | VerbGroup))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, one per line as they are typed."""
        write_examples(formatter, self.examples)


def write_examples(formatter: click.HelpFormatter, examples: tuple[str, ...]) -> None:
    """The section that every help ends in."""
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _instant(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """The instant that was written, as microseconds since 1970: all that we print is taken here.

    Times without a zone are of UTC, or of the machine's zone where a verb has `--local`. Of two instants that a clock
    showed alike, the span has both: `--since` takes the first and `--until` the second.
    """
    if value is None:
        return None
    from sealbook.cli.ground import times

    zone = local_zone() if ctx.params.get("local") else UTC
    try:
        instant = times.parse(value, now=time.time_ns() // 1000, zone=zone, second=param.name == "until")
    except ValueError as error:
        raise click.BadParameter(f"{value!r} names no instant: {error}") from None
    since, until = (instant if param.name == name else ctx.params.get(name) for name in ("since", "until"))
    if since is not None and until is not None and since > until:
        raise click.BadParameter("--since is after --until: nothing lies between them")
    return instant


def local_zone() -> tzinfo:
    """The zone that `--local` means; a usage error where TZ names none."""
    from sealbook.cli.ground import times

    try:
        return times.local_zone()
    except ValueError as error:
        raise click.UsageError(f"--local: {error}") from None


def count(value: str | int | None) -> int | None:
    """How many: a number within the journal's own limits, or `all` (None)."""
    if value is None or value == "all":
        return None
    from sealbook.journal import InvalidInput
    from sealbook.journal.records import names

    try:
        number = int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor `all`") from None
    try:
        return names.check_limit(number)
    except InvalidInput as error:
        raise click.BadParameter(f"{value} {error.reason}") from error


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
    for short, name, word in (("-U", "--until", "at or before"), ("-S", "--since", "at or after")):
        help_text = f"Only records taken {word} this: '2026-11-29 08:30', yesterday, -2h, RFC 3339."
        function = click.option(short, name, callback=_instant, metavar="INSTANT", help=help_text)(function)
    return function


def since_option(help_text: str) -> Callable[[Function], Function]:
    """`--since` alone, of what `help_text` says."""
    return click.option("-S", "--since", callback=_instant, metavar="INSTANT", help=help_text)


def _epoch(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    from sealbook.journal import InvalidInput
    from sealbook.journal.records import names

    try:
        return None if value is None else names.check_epoch(value)
    except InvalidInput as error:
        raise click.BadParameter(f"{value} {error.reason}") from error


def epoch_option(help_text: str, *, required: bool = False) -> Callable[[Function], Function]:
    """`--epoch`: the fencing token."""
    return click.option("--epoch", type=int, callback=_epoch, required=required, metavar="N", help=help_text)


def _about_store_log(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Let the verb's setup be about the store log."""
    setup = ctx.find_object(Setup)
    if not value or setup is None:
        return
    if setup.store_origin is None:
        raise click.UsageError("--store-log needs the store log's name: --store-origin NAME, before the verb")
    ctx.obj = replace(setup, store_log=True)


store_log_option = click.option(
    "--store-log",
    is_flag=True,
    expose_value=False,
    callback=_about_store_log,
    help="Speak of the store log, which has the heads of all tenants' logs, instead of a tenant's.",
)

run_argument = click.argument("run", metavar="RUN")

checkpoint_option = click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A signed checkpoint of this log, as with more cosignatures; otherwise the latest that it published.",
)
