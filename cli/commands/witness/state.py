"""`witness evidence`, `disable`, `enable`: what a witness's operator sees and sets, beside a server that runs."""

from __future__ import annotations

import click

from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.screen.safe import safe
from sealbook.cli.witnessing.binding import read_state
from sealbook.journal import NotFound
from sealbook.journal.records import instants
from sealbook.merkle.witness import origin_key

state_option = click.option(
    "--state", required=True, metavar="DIR", help="The folder of what the witness remembers; a server may run on it."
)
origin_argument = click.argument("origin", metavar="ORIGIN")


@click.command(
    "evidence",
    cls=Verb,
    examples=(
        "sealbook witness evidence --state witness.state",
        "sealbook witness evidence --state witness.state --origin example.com/log -o json",
    ),
)
@state_option
@click.option("--origin", metavar="ORIGIN", help="Of this log alone.")
@format_option("text", "json")
@pass_setup
def evidence(setup: Setup, state: str, origin: str | None, form: str) -> None:
    """Print what a witness has kept against logs: signed checkpoints that do not extend what it cosigned.

    Two roots of one size convict the log, and the first such requests are kept. A proof that does not hold may be
    anybody's, and the newest are kept. The JSON has the request and the note that the witness held, in base64.
    """
    with read_state(state) as opened, setup.output(paged=True) as output:
        for item in opened.evidence(origin):
            if form == "json":
                output.line(item.encode().decode())
            else:
                output.line(f"{instants.of_millis(item.at * 1000)}  {safe(item.origin)}  {safe(item.reason)}")


@click.command("disable", cls=Verb, examples=("sealbook witness disable example.com/log --state witness.state",))
@origin_argument
@state_option
@click.option("--unseen", is_flag=True, help="Although nothing was cosigned for it so far.")
@pass_setup
def disable(setup: Setup, origin: str, state: str, unseen: bool) -> None:
    """Cosign no more for a log, from now on and whatever the log list says. What was cosigned stays, and is served.

    An origin of which nothing was cosigned may be mistyped, and is refused without --unseen.
    """
    with read_state(state, readonly=False) as opened:
        if not unseen and opened.note(origin_key(origin)) is None:
            raise NotFound("cosigned checkpoint of", origin)
        opened.disable(origin)


@click.command("enable", cls=Verb, examples=("sealbook witness enable example.com/log --state witness.state",))
@origin_argument
@state_option
@pass_setup
def enable(setup: Setup, origin: str, state: str) -> None:
    """Cosign again for a log that was disabled; it goes on from where it was."""
    with read_state(state, readonly=False) as opened:
        opened.enable(origin)
