"""A program that brings up publishers to be killed: each is a child of this process, which has imported everything.

It has one thread, as whoever forks should. Each line of its input, `<folder> TAB <seed>`, starts a publisher of the log
in that folder, which prints its process, `promised` when its key has promised a checkpoint that the store does not yet
keep, and how each of its turns ended; when it is gone, `gone` is printed.
"""

from __future__ import annotations

import os
import random
import sys
import time
import traceback
from pathlib import Path

import httpx2  # noqa: F401  # here, not in each child
import trio
from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: F401
from publishing_world import BASE

from sealbook.cli.publishing import policy_file, transport
from sealbook.cli.publishing.daemon import Daemon
from sealbook.cli.publishing.publisher import Rules, Turn
from sealbook.cli.publishing.signing import LogSigner
from sealbook.journal import Journal, entries
from sealbook.journal.keyring import Keyring
from sealbook.journal.published import Consistent
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.keys import SignatureLine

RUNS_MAX = 3  # sealed between two turns


def main() -> None:
    """Run one publisher after the other, until the input ends."""
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            folder, seed = line.split("\t")
            try:
                publish(Path(folder), random.Random(int(seed)))
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(1)
        os.waitpid(process, 0)
        print("gone", flush=True)


def publish(folder: Path, chance: random.Random) -> None:
    """Let the log grow and publish it, turn after turn, until killed."""
    ring = Keyring(folder / "keys")
    policy = policy_file.required(policy_file.default_path(ring.folder))
    with Journal.open(folder / "store", origin=BASE) as journal:
        print(os.getpid(), flush=True)

        async def work() -> None:
            async with transport.http() as http:
                daemon = Daemon(
                    journal=journal,
                    ring=ring,
                    tenants=lambda: ["default"],
                    rules=lambda memory: Rules(policy),
                    transport=http,
                    clock=lambda: int(time.time()),
                    told=told,
                )
                while True:
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
    print("promised", flush=True)
    return lines


LogSigner.sign = sign_and_tell  # type: ignore[method-assign,assignment]


def told(origin: str, ended: Turn | Exception) -> None:
    """One line for a turn."""
    print(f"{ended.state.name} {ended.size}" if isinstance(ended, Turn) else f"refused {ended!r}", flush=True)


if __name__ == "__main__":
    main()
