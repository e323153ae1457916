"""`witness`: cosign other logs' checkpoints, and have one's own cosigned. A sub-command's module is imported when it is
needed."""

from __future__ import annotations

import importlib

import click

from sealbook.cli.ground.options import VerbGroup

VERBS = {  # sub-command: (module of sealbook.cli.commands, its attribute, what it does), in the order of `--help`
    "serve": ("witness.serve", "serve", "Cosign the checkpoints of the logs in a list, over HTTP."),
    "evidence": ("witness.state", "evidence", "Print what a witness has kept against logs."),
    "disable": ("witness.state", "disable", "Cosign no more for a log, whatever the list says."),
    "enable": ("witness.state", "enable", "Undo `disable`."),
    "add": ("witness.client", "add", "Write a witness of our logs into the policy."),
    "list": ("witness.client", "list_", "List the witnesses of our logs, or print the policy for verifiers."),
    "submit": ("witness.client", "submit", "Ask every witness now to cosign our logs."),
    "status": ("witness.client", "status", "Show how far our logs are cosigned and published."),
    "resolve": ("witness.client", "resolve", "Let a log be published again that an alarm stopped."),
}


class WitnessVerbs(VerbGroup):
    """The sub-commands by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they are needed."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-command, loaded now."""
        if cmd_name not in VERBS:
            return None
        module, attribute, _ = VERBS[cmd_name]
        found: click.Command = getattr(importlib.import_module(f"sealbook.cli.commands.{module}"), attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Every sub-command with its line, from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in VERBS.items()])


@click.group("witness", cls=WitnessVerbs)
def command() -> None:
    """Witnesses cosign a log's checkpoints, and refuse two histories of it (C2SP tlog-witness)."""
