"""A program that brings up witnesses to be killed: each is a child of this process, which has imported everything.

It has one thread, as whoever forks should: a lock that another thread holds stays locked in the child for ever, and
OpenSSL takes some even while a thread of its ends. Each line of its input, `<keys> TAB <state> TAB <logs>`, starts a
witness, which prints its process and port; when that is gone, `gone` is printed.
"""

from __future__ import annotations

import os
import sys
import traceback

import structlog
import trio
from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: F401  # here, not in each child
from witness_world import NAME

from sealbook.cli.witness.binding import open_state
from sealbook.cli.witness.cosigner import Cosigner
from sealbook.cli.witness.loglist import LogFile
from sealbook.cli.witness.server import Server, listening
from sealbook.journal.keyring import Keyring


def main() -> None:
    """Serve one witness after the other, until the input ends."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            try:
                serve(*line.removesuffix("\n").split("\t"))
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(1)
        os.waitpid(process, 0)
        print("gone", flush=True)


def serve(keys: str, state: str, logs: str) -> None:
    """Serve until killed."""
    cosigner = Cosigner.of_ring(Keyring(keys), NAME)
    with open_state(state, cosigner) as opened:
        server = Server(opened, LogFile(logs, cosigner.signers))
        listener = listening("127.0.0.1", 0)
        print(os.getpid(), listener.getsockname()[1], flush=True)
        trio.run(server.serve, listener, trio.sleep_forever)


if __name__ == "__main__":
    main()
