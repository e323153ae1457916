"""`man`: the manual from the program itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click

from sealbook.cli import manual
from sealbook.cli.ground.options import Verb
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.main import version
from sealbook.cli.screen.output import is_terminal
from sealbook.cli.screen.words import counted


@click.command(
    "man",
    cls=Verb,
    examples=("sealbook man", "sealbook man log head", "sealbook man --to ~/.local/share/man"),
)
@click.argument("verb", nargs=-1, metavar="[VERB...]")
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Install every page below this folder of manuals, in its man1: ~/.local/share/man is one that man looks into.",
)
@pass_setup
def command(setup: Setup, verb: tuple[str, ...], target: Path | None) -> None:
    """Show the page of the program or of a VERB, through man on a terminal, and otherwise print it as roff.

    With --to the pages are installed: `man sealbook` and `man sealbook-log-head` then show them.
    """
    if target is not None:
        if verb:
            raise click.UsageError("--to installs every page: no VERB goes with it")
        folder = target / f"man{manual.SECTION}"
        folder.mkdir(parents=True, exist_ok=True)
        written = 0
        for name, page in manual.pages(version()):
            (folder / f"{name}.{manual.SECTION}").write_text(page, encoding="utf-8")
            written += 1
        setup.remark(f"{counted(written, 'page')} installed in {folder}")
        return
    wanted = manual.name_of(" ".join(("sealbook", *verb)))
    text = dict(manual.pages(version())).get(wanted)
    if text is None:
        raise click.UsageError(f"there is no verb {' '.join(verb)!r}")
    man = shutil.which("man")
    if man is not None and is_terminal(sys.stdout):
        subprocess.run([man, "-l", "-"], input=text.encode(), check=False)
        return
    with setup.output() as output:
        output.text(text)
