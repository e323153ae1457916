"""`info`: what the store is and how much it holds."""

from __future__ import annotations

from typing import Any

import click

from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import lines, objects
from sealbook.cli.screen.safe import safe


@click.command("info", cls=Verb, examples=("sealbook info", "sealbook info -o json"))
@format_option("short", "json")
@pass_setup
def command(setup: Setup, form: str) -> None:
    """Say what the store is and how much it holds: its ids and formats, its tenants, rows per table, bytes on disk."""
    if setup.tenant_given:
        raise click.UsageError("info is of the whole store: leave --tenant out, or ask `sealbook --tenant T runs`")
    with setup.journal(readonly=True) as journal, setup.output() as output:
        facts: dict[str, Any] = journal.info()
        facts["path"] = str(setup.folder)
        facts["bytes"] = sum(file.stat().st_blocks * 512 for file in setup.folder.iterdir() if file.is_file())
        facts["tenant_names"] = journal.tenants()
        if form == "json":
            output.line(objects.text(facts))
            return
        rows = facts.pop("rows")
        facts["tenant_names"] = ", ".join(map(safe, facts["tenant_names"])) or lines.BLANK
        items = [
            (name.replace("_", " "), lines.BLANK if value is None else safe(str(value)))
            for name, value in facts.items()
        ]
        lines.pairs(output, [*items, *((f"rows in {table}", str(count)) for table, count in rows.items())])
