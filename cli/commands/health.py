"""`health`: does the store need somebody? A probe for monitoring, with exit codes of its own."""

from __future__ import annotations

import click

from sealbook.cli.ground import exit_codes, isolation
from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.ground.times import duration
from sealbook.cli.records import objects
from sealbook.cli.screen.safe import line, safe
from sealbook.cli.stories.health import Health, Limits, as_lines, as_object, probe, unreadable
from sealbook.journal import Corrupt, SealbookError


@click.command(
    "health",
    cls=Verb,
    examples=(
        "sealbook health --max-in-doubt 5",
        "sealbook health --max-in-doubt 5 --max-abandoned 0 --max-waiting-age 1d --max-unwitnessed-age 365d -o json",
        "sealbook --tenant acme health",
    ),
)
@click.option("--max-in-doubt", type=click.IntRange(0), metavar="N", help="More effects in doubt are critical.")
@click.option(
    "--max-waiting-age",
    type=duration,
    metavar="AGE",
    help="A run that is overdue for longer, or waits so, is critical.",
)
@click.option("--max-abandoned", type=click.IntRange(0), metavar="N", help="More abandoned runs are critical.")
@click.option(
    "--max-unwitnessed-age",
    type=duration,
    metavar="AGE",
    help="A leaf whose record is older, and that no published checkpoint covers, is critical.",
)
@click.option(
    "--max-lease-ahead", type=duration, metavar="AGE", help="A lease that lives for longer from now on is critical."
)
@format_option("text", "json")
@pass_setup
def command(
    setup: Setup,
    max_in_doubt: int | None,
    max_waiting_age: int | None,
    max_abandoned: int | None,
    max_unwitnessed_age: int | None,
    max_lease_ahead: int | None,
    form: str,
) -> int:
    """Say whether the store needs somebody, a line per question, the worst first: of all tenants, unless one is named.

    Exit codes, of this verb alone: 0 ok, 1 warning, 2 critical. What exceeds a limit that was given is critical. Where
    none was given, an effect in doubt, an abandoned run, and a run that waits past its instant are a warning, and so is
    a lease that lives for more than an hour, or that was granted before the machine started again: it closes its run to
    others, as one does after a clock was set back, and `sealbook lease force` ends it. Leaves that no witness has seen
    are none. A store that cannot be read is critical.

    Effects in doubt of runs that have ended for good are told and never counted against a limit: nothing may follow
    there that would settle them.

    A run waits since its suspension, or, where it waits for an instant, it is overdue since then. A checkpoint that was
    published without its quorum covers nothing. The probe reads where each run stands, not its records: `sealbook
    verify` checks those.
    """
    limits = Limits(max_in_doubt, max_waiting_age, max_abandoned, max_unwitnessed_age, max_lease_ahead)
    if setup.own_process:
        try:
            code = isolation.code_of_child(setup.folder)
        except Corrupt as error:
            return _told(setup, unreadable(exit_codes.line_of(error)), form)
        if code is not None:
            return code
    return _told(setup, _probed(setup, limits), form)


def _told(setup: Setup, health: Health, form: str) -> int:
    with setup.output() as output:
        if form == "json":
            output.line(objects.text(as_object(health)))
        else:
            for state, text in as_lines(health):
                shown = safe(text) if health.error is None else line(text)
                output.line(output.paint(shown, *STYLES[state]))
    return health.state


STYLES: dict[int, tuple[str, ...]] = {0: ("green",), 1: ("yellow",), 2: ("red", "bold")}


def _probed(setup: Setup, limits: Limits) -> Health:
    """How the store stands; critical, in the error's words, when it cannot be read."""
    import time

    try:
        with setup.journal(readonly=True) as journal:
            names = [setup.tenant] if setup.tenant_given else journal.tenants()
            if setup.tenant_given and setup.tenant not in journal.tenants():
                return unreadable(f"no tenant {setup.tenant!r} in {setup.folder}")
            return probe([journal.tenant(name) for name in names], limits, now_ms=time.time_ns() // 1_000_000)
    except (SealbookError, OSError) as error:
        return unreadable(exit_codes.line_of(error))
