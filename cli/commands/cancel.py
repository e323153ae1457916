"""`cancel`: record that somebody wants a run to stop."""

from __future__ import annotations

import click

from sealbook.cli.ground.options import Verb, format_option, run_argument
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import objects
from sealbook.cli.screen.safe import safe
from sealbook.journal.errors import printable
from sealbook.journal.records import instants

WORDS = {
    "recorded": "the request is recorded",
    "already-requested": "was requested already, by",
    "concluded": "the run has concluded",
    "unknown-run": "the request is recorded; the run has no records yet",
}


@click.command("cancel", cls=Verb, examples=("sealbook cancel order-43 --actor ada --reason 'the customer called'",))
@run_argument
@click.option("--actor", required=True, metavar="NAME", help="Who wants it.")
@click.option("--reason", default="", metavar="TEXT", help="Why.")
@click.option(
    "--basis",
    default="asserted",
    show_default=True,
    metavar="WORD",
    help="How the actor is known: authenticated, asserted or connected.",
)
@format_option("short", "json")
@pass_setup
def command(setup: Setup, run: str, actor: str, reason: str, basis: str, form: str) -> None:
    """Record that somebody wants the run to stop. The first request stands; a run that has ended is left alone.

    It is recorded in the run ~tenant. The run's worker finds it and decides how to stop. A run that has no record yet
    may be asked to stop before it begins; that it is unknown is said.
    """
    with setup.writing() as tenant:
        answer = tenant.request_cancel(run, actor=actor, reason=reason, basis=basis)
    if answer.status == "unknown-run":
        setup.remark(f"unknown run {printable(answer.run)}: the request waits for it, should it ever come")
    found = answer.cancellation
    stands = "the run has concluded" if found is None else "the request is recorded"
    with setup.report(f"{printable(answer.run)}: {stands}") as output:
        if form == "json":
            members = {"run": answer.run, "actor": None, "reason": None, "basis": None, "at": None}
            if found is not None:
                members = {**members, **objects.cancellation(found)}
            about = {"tenant": tenant.name, "status": answer.status, "outcome": answer.outcome}
            output.line(objects.text({**about, **members}))
            return
        words = WORDS[answer.status]
        if answer.status == "already-requested" and found is not None:
            words = f"{words} {safe(found.actor)} at {instants.of_millis(found.at)}"
        elif answer.outcome is not None:
            words = f"{words} ({answer.outcome})" + ("" if found is None else "; the request is recorded")
        output.line(f"{safe(answer.run)}: {words}")
