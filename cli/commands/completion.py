"""`completion`: what a shell needs so that it completes verbs, options and files."""

from __future__ import annotations

import click

from sealbook.cli.ground.options import Verb
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.main import COMPLETION, cli

SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    cls=Verb,
    examples=(
        "source <(sealbook completion bash)",
        "sealbook completion bash > sealbook.bash",
        "sealbook completion zsh > _sealbook",
        "sealbook completion fish > sealbook.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
@pass_setup
def command(setup: Setup, shell: str) -> None:
    """Print the script that makes this shell complete what follows `sealbook`: verbs, options, choices, files.

    For bash, source it in ~/.bashrc. For zsh, keep it as _sealbook in a folder of $fpath. For fish, keep it as
    ~/.config/fish/completions/sealbook.fish.
    """
    with setup.output() as output:
        output.text(script(shell))


def script(shell: str) -> str:
    """What the shell sources."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    completion = kind(cli, {}, "sealbook", COMPLETION)
    return f"{(completion.source_template % completion.source_vars()).strip()}\n"
