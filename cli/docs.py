"""`python -m sealbook.cli.docs` prints docs/cli.md: every verb's help, walked from the program itself."""

from __future__ import annotations

from collections.abc import Iterator

import click

from sealbook.cli.ground import exit_codes
from sealbook.cli.main import cli

WIDTH = 100


def commands(command: click.Command = cli, path: str = "sealbook") -> Iterator[tuple[str, click.Command, str]]:
    """Every command with its path and its help, the program itself first."""
    context = click.Context(command, info_name=path, terminal_width=WIDTH, max_content_width=WIDTH)
    context.help_option_names = ["-h", "--help"]
    yield path, command, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}")


def page() -> str:
    """The page."""
    parts = [
        "# The command line\n",
        "Printed by `python -m sealbook.cli.docs` from the program itself; a test holds this page to it.\n",
        "## Exit codes\n",
        _codes(),
    ]
    for path, _, text in commands():
        parts += [f"## {path}\n", f"```text\n{text.rstrip()}\n```\n"]
    return "\n".join(parts)


def _codes() -> str:
    """The table of the docstring that defines the codes."""
    assert exit_codes.__doc__ is not None
    lines = [line for line in exit_codes.__doc__.splitlines() if line.startswith("|")]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
