"""`restore`: build a store again from bundles."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import objects
from sealbook.cli.screen import progress
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import safe
from sealbook.cli.screen.words import counted
from sealbook.journal.copies.restoring import RestoredTenant, check, check_free, restore

NOT_CARRIED = (
    "leases: an open run goes on when an operator has forced its lease, with `sealbook lease force RUN`",
    "the store's secret: cursors of the old store are refused",
    "the store log: give it a new name, under the old one witnesses know another history",
)


@click.command(
    "restore",
    cls=Verb,
    examples=(
        "sealbook -D restored.sealbook restore everything.sealbook-bundle --actor ada --reason 'disk lost'",
        "sealbook -D both.sealbook restore default.sealbook-bundle acme.sealbook-bundle --actor ada",
    ),
)
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="BUNDLE...",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
)
@click.option("--actor", required=True, metavar="NAME", help="Who restores; stands in each tenant's own run.")
@click.option("--reason", default="", metavar="TEXT", help="Why; stands there, too.")
@click.option("--dry-run", is_flag=True, help="Check the bundles and the place, and write nothing.")
@format_option("short", "json")
@pass_setup
def command(setup: Setup, files: tuple[Path, ...], actor: str, reason: str, dry_run: bool, form: str) -> None:
    """Build the store that -D names, where nothing may stand, from bundles of whole tenants of one store.

    Each bundle is checked to its last byte before anything is written. Records, seals and anchors enter as their
    original bytes, in the order of their arrival, under their own epochs; the log must come out with the same size and
    root. Every epoch issued from then on is above history, so whoever wrote to the old store is fenced.

    The store takes its name when it is whole: a restore that was cut off has left nothing there, and begins anew.
    """
    with ExitStack() as opened:
        streams = [opened.enter_context(file.open("rb")) for file in files]
        check_free(setup.folder)
        if dry_run:
            records = check(streams).records
            setup.remark(f"{counted(records, 'record')} could be restored; nothing was written")
            return
        report = opened.enter_context(progress.shown("restoring", quiet=setup.quiet))
        restored = restore(streams, setup.folder, actor=actor, reason=reason, progress=report)
    with setup.report("the store stands") as output:
        if form == "json":
            _print_json(output, restored)
        else:
            _print(setup, output, restored)


def _print_json(output: Output, restored: list[RestoredTenant]) -> None:
    for tenant in restored:
        output.line(objects.text(_object(tenant)))


def _print(setup: Setup, output: Output, restored: list[RestoredTenant]) -> None:
    for tenant in restored:
        records, leaves = counted(tenant.records, "record"), counted(tenant.size, "leaf", "leaves")
        output.line(f"{safe(tenant.tenant)}: {records}, {leaves}, root {tenant.root.hex()}")
        if tenant.awaiting:
            output.line(
                output.paint(f"  {counted(tenant.awaiting, 'open run')}: an operator must let each go on", "yellow")
            )
    if not setup.quiet:
        for line in NOT_CARRIED:
            output.line(f"not carried: {line}")


def _object(tenant: RestoredTenant) -> dict[str, Any]:
    return {
        "tenant": tenant.tenant,
        "origin": tenant.origin,
        "records": tenant.records,
        "size": tenant.size,
        "root": tenant.root.hex(),
        "awaiting": tenant.awaiting,
        "not_carried": list(NOT_CARRIED),
    }
