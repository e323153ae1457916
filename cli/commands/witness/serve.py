"""`witness serve`: the witness server."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import click

from sealbook.cli.commands.log.serve import address
from sealbook.cli.ground import keyring_options
from sealbook.cli.ground.keyring_options import keys_option, passphrase_option
from sealbook.cli.ground.options import Verb
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.serving import listening
from sealbook.cli.witnessing.binding import open_state, served_alone
from sealbook.cli.witnessing.cosigner import Cosigner
from sealbook.cli.witnessing.loglist import LogFile, LogListRefused, parse_initial
from sealbook.journal import EngineFailed
from sealbook.journal.keys.public_halves import Purpose
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed


@click.command(
    "serve",
    cls=Verb,
    examples=(
        "sealbook witness serve --state witness.state --key w.example.com --logs logs.txt --listen 127.0.0.1:8080",
    ),
)
@click.option("--state", required=True, metavar="DIR", help="The folder of what the witness remembers.")
@keys_option
@click.option("--key", required=True, metavar="NAME", help="The witness's name; every key of it cosigns.")
@click.option(
    "--logs",
    required=True,
    metavar="FILE",
    help="The logs, as a list `logs/v0`; read anew when it changes, or at SIGHUP.",
)
@click.option(
    "--listen",
    type=address,
    default="127.0.0.1:8080",
    show_default=True,
    metavar="HOST:PORT",
    help="Port 0: any free one.",
)
@click.option("--initial", multiple=True, metavar="FILE", help="A checkpoint that its log's history must begin with.")
@click.option("--new-state", "anew", is_flag=True, help="Begin anew with a key that never signed, after one that did.")
@passphrase_option
@pass_setup
def serve(
    setup: Setup,
    state: str,
    keys: str | None,
    key: str,
    logs: str,
    listen: tuple[str, int],
    initial: tuple[str, ...],
    anew: bool,
    passphrase_file: str | None,
) -> None:
    """Cosign the checkpoints of the logs in FILE, over HTTP, until SIGINT or SIGTERM.

    The first start makes the state. Once a key has signed, the witness starts with the state that remembers what, or
    not at all: never restore a copy of it into service. Events go to standard error, one JSON object per line.
    """
    try:
        import trio

        from sealbook.cli.witnessing.server import Server, until_signalled
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"starlette", "hypercorn", "anyio"}:
            raise
        raise click.UsageError(
            f"{error.name} is not installed: `pip install '.[serve]'` in a checkout brings it"
        ) from error
    from sealbook.cli.publishing import daemon

    host, port = listen
    ring = keyring_options.opened(keys)
    protected = any(ring.is_protected(each) for each in ring.signing(Purpose.WITNESS, key))
    passphrase = keyring_options.passphrase(passphrase_file, what=f"the keys of {key}", needed=protected)
    with ExitStack() as stack:
        # First of all: what the ring says of the keys holds for as long as nobody else serves with them.
        stack.enter_context(ring.serving(key))
        cosigner = Cosigner.of_ring(ring, key, passphrase=passphrase)
        pinned = [_initial(Path(file)) for file in initial]
        try:
            log_file = LogFile(logs, cosigner.signers, initial=pinned)
        except OSError as error:
            raise LogListRefused(logs, 0, error.strerror or "it cannot be read") from error
        _speak_json()
        try:
            listener = stack.enter_context(listening.listening(host, port))
        except OSError as error:
            raise EngineFailed(f"cannot listen on {host}, port {port}: {error.strerror}") from error
        # Nobody is answered yet. A start that fails on its command line leaves no state.
        opened = stack.enter_context(open_state(state, cosigner, anew=anew))
        stack.enter_context(served_alone(state))
        server = Server(opened, log_file)
        url = listening.url(listener)

        def announce() -> None:
            click.echo(f"{key} listens at {url}")
            sys.stdout.flush()

        async def stop() -> None:
            await until_signalled(server, ready=announce)

        try:
            trio.run(server.serve, listener, stop)
        except BaseExceptionGroup as group:
            raise daemon.first_of(group) from group


def _initial(file: Path) -> Checkpoint:
    try:
        return parse_initial(file.read_bytes())
    except Malformed as error:  # the operator's own words, not what is to be verified
        raise LogListRefused(str(file), 0, str(error)) from error


def _speak_json() -> None:
    """Events as JSON on standard error."""
    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
