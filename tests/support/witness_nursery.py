"""A program that brings up witnesses to be killed: each is a child of this process, which has imported everything.

It has one thread, as whoever forks should: a lock that another thread holds stays locked in the child for ever, and
OpenSSL takes some even while a thread of its ends. Each line of its input, `<keys> TAB <state> TAB <logs> TAB <mark>
TAB <number>`, starts a witness, which prints its process and port, and a mark whenever it gets to one; when it is gone,
`gone` is printed. With a mark it kills itself when it gets there for the n-th time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import structlog
import trio
from cryptography.hazmat.primitives import serialization  # noqa: F401  # this and the next here, not in each child
from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa  # noqa: F401
from nursery import bring_up, marks, say
from witness_world import ANSWERED, COMMITTED, DECIDED, NAME, RECEIVED

from sealbook.cli.serving.listening import listening
from sealbook.cli.witnessing.binding import open_state
from sealbook.cli.witnessing.cosigner import Cosigner
from sealbook.cli.witnessing.loglist import LogFile
from sealbook.cli.witnessing.server import Server
from sealbook.cli.witnessing.state import Decision, StateStore
from sealbook.journal.engine import lmdb  # noqa: F401
from sealbook.journal.engine.port import Applied, Engine, Moment, Retry, Snapshot, Unknown, Work, Writes
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.witness import Submission


def main() -> None:
    """Serve one witness after the other, until the input ends."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    bring_up(lambda words: serve(*words))


class Telling:
    """The engine, and word of its transactions: what was decided, and that it is durable."""

    def __init__(self, inner: Engine) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, work: Work) -> Applied | Retry | Unknown:
        def decided(snapshot: Snapshot, moment: Moment) -> tuple[Writes, Any]:
            found = work(snapshot, moment)
            marks.reach(DECIDED)
            return found

        written = self._inner.write(decided)
        marks.reach(COMMITTED)
        return written


class TellingState(StateStore):
    """The state, and word of what is asked of it and of what will be answered."""

    def decide(self, submissions: Sequence[Submission]) -> list[Decision]:
        marks.reach(RECEIVED)
        decisions = super().decide(submissions)
        marks.reach(ANSWERED)
        return decisions


def serve(keys: str, state: str, logs: str) -> None:
    """Serve until killed."""
    cosigner = Cosigner.of_ring(Keyring(keys), NAME)
    with open_state(state, cosigner) as opened:
        server = Server(TellingState(Telling(opened._engine), cosigner), LogFile(logs, cosigner.signers))
        listener = listening("127.0.0.1", 0)
        say(f"{os.getpid()} {listener.getsockname()[1]}")
        trio.run(server.serve, listener, trio.sleep_forever)


if __name__ == "__main__":
    main()
