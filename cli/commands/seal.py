"""`seal`: freeze a concluded run and bring its head into the log."""

from __future__ import annotations

import click

from sealbook.cli.ground.options import Verb, epoch_option, format_option, run_argument
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import objects
from sealbook.cli.screen.safe import safe
from sealbook.journal import Leaf
from sealbook.journal.errors import printable


@click.command("seal", cls=Verb, examples=("sealbook seal order-44", "sealbook seal order-44 --outcome completed"))
@run_argument
@epoch_option("Seal under this epoch; without it the run must not be leased to anybody.")
@click.option("--outcome", metavar="NAME", help="Only if this is how the run concluded.")
@format_option("short", "json")
@pass_setup
def command(setup: Setup, run: str, epoch: int | None, outcome: str | None, form: str) -> None:
    """Bring the concluded run's head into the tenant's log and freeze the run. Sealing twice is harmless."""
    with setup.writing() as tenant:
        leaf = tenant.seal(run, epoch=epoch, outcome=outcome)
    print_leaf(setup, tenant.name, leaf, form)


def print_leaf(setup: Setup, tenant: str, leaf: Leaf, form: str) -> None:
    """Print what the log says of a run, which it does by now."""
    with setup.report(f"{printable(leaf.run)} stands in the log at position {leaf.index}") as output:
        if form == "json":
            output.line(objects.text(objects.leaf(tenant, leaf)))
        else:
            output.line(f"{safe(leaf.run)}: {leaf.kind} of record {leaf.seq} at log position {leaf.index}")
