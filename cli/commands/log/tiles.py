"""`log tiles`: write the published log as files that any web server can serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from sealbook.cli.ground.options import Verb, checkpoint_option, format_option, store_log_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import objects
from sealbook.cli.screen.safe import safe
from sealbook.cli.screen.words import counted
from sealbook.cli.serving.store_tiles import TenantTiles
from sealbook.cli.serving.tiles import check_ours, checkpoint_of, write_tiles
from sealbook.journal import Log, NotFound


@click.command(
    "tiles",
    cls=Verb,
    examples=(
        "sealbook log tiles --to tiles",
        "sealbook log tiles --to tiles --checkpoint signed.txt -o json",
        "sealbook --store-origin example.com/store log tiles --store-log --to store-tiles",
    ),
)
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="The folder; it comes into being.",
)
@checkpoint_option
@store_log_option
@format_option("text", "json")
@pass_setup
def command(setup: Setup, folder: Path, checkpoint: Path | None, form: str) -> None:
    """Bring a folder of tiles (C2SP tlog-tiles) to the size of the latest published checkpoint.

    What is there is not written again, `checkpoint` is replaced last, and a run that was cut short is completed by the
    next. A folder that holds a larger log, or another one, is refused and left as it is.

    With --store-log the hash tiles of the tenants' logs stand beside the store log's tiles, in `tenant/TAG/`, as far as
    its heads cover them: whoever monitors the store log needs them. No entry and no name of a tenant is among them.
    """
    with setup.journal(readonly=True) as journal, setup.output() as output:
        log = setup.log(journal)
        note = published_note(log, checkpoint)
        written = write_tiles(
            folder,
            log,
            note,
            sizes_after=lambda size: _published_after(log, size),
            beside=TenantTiles(journal, journal.store_log).grown if setup.store_log else lambda old, new: (),
        )
        if form == "json":
            output.line(
                objects.text(
                    {
                        "folder": str(folder),
                        "old_size": written.old_size,
                        "new_size": written.new_size,
                        "files": written.files,
                    }
                )
            )
        else:
            output.line(
                f"{safe(str(folder))}: size {written.old_size} to {written.new_size},"
                f" {counted(written.files, 'file')} written"
            )


def _published_after(log: Log, size: int) -> Iterator[int]:
    while sizes := log.published_sizes(size):
        yield from sizes
        size = sizes[-1]


def published_note(log: Log, file: Path | None) -> bytes:
    """The signed checkpoint in this file, or else the latest that the log published. It is one of this log:
    `VerificationError` when not."""
    note = log.published_checkpoint() if file is None else file.read_bytes()
    if note is None:
        raise NotFound("published checkpoint of log", log.origin)
    check_ours(log, checkpoint_of(note), log.origin, log.checkpoint().size)
    return note
