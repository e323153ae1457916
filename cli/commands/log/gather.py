"""`log gather`: bring the heads of all tenants' logs into the store log."""

from __future__ import annotations

import click

from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import objects
from sealbook.cli.screen.safe import safe


@click.command(
    "gather",
    cls=Verb,
    examples=(
        "sealbook --store-origin example.com/store log gather",
        "sealbook --store-origin example.com/store log gather -o json",
    ),
)
@format_option("short", "json")
@pass_setup
def command(setup: Setup, form: str) -> None:
    """Bring what every tenant's log has come to into the store log: one leaf for each that has grown since its last.

    It covers all tenants, in one transaction, and does nothing when no log has grown. A leaf says size and root of a
    log under a tag that does not tell the tenant's name. `sealbook log publish --store-log` gathers by itself. To be
    signed the store log needs a key of its own: `sealbook keys gen --log --origin NAME --exact`.
    """
    if setup.store_origin is None:
        raise click.UsageError("log gather needs the store log's name: --store-origin NAME, before the verb")
    with setup.journal(readonly=False) as journal:
        gathered = journal.store_log.gather()
    with setup.report("what was gathered stands") as output:
        for head in gathered:
            if form == "json":
                output.line(objects.text(objects.gathered_head(head)))
            else:
                output.line(f"{safe(head.tenant)}: size {head.size} at position {head.index} of the store log")
    if not gathered:
        setup.remark("no log has grown")
