"""`demo`: the story of one killed agent, told while it happens."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import click

from sealbook.cli.demo import story
from sealbook.cli.ground import exit_codes
from sealbook.cli.ground.options import Verb
from sealbook.cli.ground.setup import Setup, complain, pass_setup
from sealbook.cli.screen.safe import line, safe
from sealbook.journal import InvalidInput


@click.command("demo", cls=Verb, examples=("sealbook demo", "sealbook demo --keep demo"))
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="Keep the store and the world here.")
@pass_setup
def command(setup: Setup, keep: Path | None) -> int:
    """Kill an agent in the middle of an effect, take over, prove, tamper, and find it.

    Everything happens in a temporary folder, or in the one that --keep names, which must be new or empty. The exit
    code is 1 if any step does not come out as it is told.
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="sealbook-demo-") as folder:
            return _play(setup, Path(folder), None)
    keep.mkdir(parents=True, exist_ok=True)
    if any(keep.iterdir()):
        raise InvalidInput("folder", str(keep), "is not empty: name a new one")
    return _play(setup, keep, keep)


def _play(setup: Setup, folder: Path, kept: Path | None) -> int:
    began = time.monotonic()
    with setup.output() as output:

        def say(text: str) -> None:
            output.line(line(text))
            output.flush()

        try:
            story.tell(folder, say)
        except story.StoryBroken as error:
            output.flush()
            complain(f"demo: {error}")
            return exit_codes.INCOMPLETE
        say(f"all of it came out, in {time.monotonic() - began:.1f} s")
        if kept is not None:
            say(f"kept: sealbook -D {safe(str(kept / 'agents.sealbook'))} show")
    return exit_codes.OK
