"""`init`: create a store."""

from __future__ import annotations

import click

from sealbook.cli.ground.options import Verb
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.screen.safe import safe
from sealbook.journal import Journal, StoreMissing


@click.command("init", cls=Verb, examples=("sealbook -D agents.sealbook init",))
@pass_setup
def command(setup: Setup) -> None:
    """Create a store in the folder that -D names.

    A store that stands there already is left as it is, and that is said; it is no error.
    """
    existed = True
    try:
        Journal.open(setup.folder, readonly=True, origin=setup.origin).close()
    except StoreMissing:
        existed = False
        Journal.open(setup.folder, create=True, origin=setup.origin).close()
    if not setup.quiet:
        with setup.report(f"{safe(str(setup.folder))} is a store") as output:
            output.line(f"{safe(str(setup.folder))}: {'is a store already' if existed else 'created'}")
