"""`log serve`: the log's tiles over HTTP, for monitors, witnesses and whoever checks a proof."""

from __future__ import annotations

import re
from pathlib import Path

import click

from sealbook.cli.ground.options import Verb, store_log_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.serving import listening, tile_server
from sealbook.cli.serving.store_tiles import StoreLogOfTiles
from sealbook.cli.serving.tiles import Folder, FolderOfTiles, StoreOfTiles
from sealbook.journal import EngineFailed

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+)):([0-9]{1,5})", re.ASCII)


def address(value: str) -> tuple[str, int]:
    """HOST:PORT, or [HOST]:PORT for an IPv6 address, as host and port."""
    match = _ADDRESS.fullmatch(value)
    if match is None or int(match[3]) > 65_535:
        raise click.BadParameter(f"{value!r} is no address such as 127.0.0.1:8080 or [::1]:8080")
    return match[1] or match[2], int(match[3])


@click.command(
    "serve",
    cls=Verb,
    examples=(
        "sealbook log serve --listen 127.0.0.1:8080 --dir tiles",
        "sealbook --tenant acme log serve --listen 127.0.0.1:8080",
    ),
)
@click.option("--listen", "listen", type=address, required=True, metavar="HOST:PORT", help="Where to listen.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Serve the folder that `log tiles` writes; otherwise the store's own log, as far as it is published.",
)
@store_log_option
@pass_setup
def command(setup: Setup, listen: tuple[str, int], folder: Path | None) -> None:
    """Serve the published log, read-only: checkpoint, tiles and entry bundles as C2SP tlog-tiles has them.

    Only signed checkpoints are served, and only what they cover. Put a web server that speaks TLS before it. It runs
    until it is interrupted. Needs the extra `serve`.
    """
    if folder is not None:
        _serve(setup, listen, FolderOfTiles(folder), str(folder))
        return
    with setup.journal(readonly=True) as journal:
        log = setup.log(journal)
        own = StoreOfTiles(log, log.published_checkpoint)
        tiles = StoreLogOfTiles(journal, journal.store_log) if setup.store_log else own
        _serve(setup, listen, tiles, log.origin)


def _serve(setup: Setup, listen: tuple[str, int], folder: Folder, what: str) -> None:
    try:
        app = tile_server.application(folder)
        import hypercorn  # noqa: F401  # before anything listens
    except ImportError as error:
        raise click.ClickException(
            f"log serve needs {error.name}: install the extra, as in pip install '.[serve]' in a checkout"
        ) from error
    try:
        listener = listening.listening(*listen)
    except OSError as error:
        raise EngineFailed(f"cannot listen on {listen[0]}, port {listen[1]}: {error.strerror}") from error
    with listener:
        url = f"{listening.url(listener)}/"
        tile_server.serve(app, listener, ready=lambda: setup.remark(f"serving {what} at {url}"))
