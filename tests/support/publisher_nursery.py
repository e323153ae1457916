"""A program that brings up publishers to be killed: each is a child of this process, which has imported everything.

It has one thread, as whoever forks should. Each line of its input, `<folder> TAB <seed> TAB <mark> TAB <number>`,
starts a publisher of the log in that folder, which prints its process, a mark whenever it gets to one, and how each of
its turns ended; when it is gone, `gone` is printed. With a mark it kills itself when it gets there for the n-th time.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import httpcore2  # noqa: F401  # this and the next here, not in each child
import httpx2  # noqa: F401
import trio
from cryptography.hazmat.primitives import serialization  # noqa: F401
from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa  # noqa: F401
from nursery import bring_up, marks, say
from publishing_world import ANSWERED, ASKING, BASE, GROWING, PROMISED, SIGNED

from sealbook.cli.publishing import policy_file, transport
from sealbook.cli.publishing.client import Transport
from sealbook.cli.publishing.daemon import Daemon
from sealbook.cli.publishing.publisher import PublishingRules, Turn
from sealbook.cli.publishing.signing import LogSigner
from sealbook.journal import Journal, entries
from sealbook.journal.deciding.log.promises import Consistent
from sealbook.journal.engine import lmdb  # noqa: F401
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.keys import SignatureLine
from sealbook.merkle.witness import Answer

RUNS_MAX = 3  # sealed between two turns


def main() -> None:
    """Run one publisher after the other, until the input ends."""
    bring_up(lambda words: publish(Path(words[0]), random.Random(int(words[1]))))


def publish(folder: Path, chance: random.Random) -> None:
    """Let the log grow and publish it, turn after turn, until killed."""
    ring = Keyring(folder / "keys")
    policy = policy_file.required(policy_file.default_path(ring.folder))
    with Journal.open(folder / "store", origin=BASE) as journal:
        say(str(os.getpid()))

        async def work() -> None:
            async with transport.http() as http:
                daemon = Daemon(
                    ring=ring,
                    logs=lambda: [journal.tenant()],
                    rules=lambda memory: PublishingRules(policy),
                    transport=telling(http),
                    clock=lambda: int(time.time()),
                    told=told,
                )
                while True:
                    marks.reach(GROWING)
                    grow(journal, chance.randint(1, RUNS_MAX))
                    await daemon.once()

        trio.run(work)


def grow(journal: Journal, runs: int) -> None:
    """Seal more runs, none of which was there before."""
    size = journal.tenant().checkpoint().size
    for number in range(size, size + runs):
        concluded = [entries.admitted(), entries.concluded("ok")]
        journal.tenant().append(f"run-{number}", concluded, epoch=1, seal=True)


sign = LogSigner.sign


def sign_and_tell(signer: LogSigner, checkpoint: Checkpoint, consistent: Consistent) -> list[SignatureLine]:
    """Say that something is promised, before the store learns of it: the moment that is hardest to hit."""
    lines = sign(signer, checkpoint, consistent)
    marks.reach(PROMISED)
    return lines


LogSigner.sign = sign_and_tell  # type: ignore[method-assign,assignment]


def telling(http: Transport) -> Transport:
    """The transport, and word of what goes to a witness and of what came back. What goes there is signed and kept."""

    async def ask(url: str, body: bytes | None) -> Answer:
        marks.reach(SIGNED)
        await trio.lowlevel.checkpoint()
        marks.reach(ASKING)
        answer = await http(url, body)
        marks.reach(ANSWERED)
        return answer

    return ask


def told(origin: str, ended: Turn | Exception) -> None:
    """One line for a turn."""
    say(f"{ended.state.name} {ended.size}" if isinstance(ended, Turn) else f"refused {ended!r}")


if __name__ == "__main__":
    main()
