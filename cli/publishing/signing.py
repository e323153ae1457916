"""What must hold before a log's head is signed, as far as the memory of its witnesses goes (tlog-witness's client).

- Rule 1: publishing is not stopped.
- Rule 2: no witness is known to have cosigned more than this store has signed. What is sent to a witness is kept in the
  store before it is sent, so a store that knows less is an older copy.
- Rule 3: the log begins with every checkpoint that its keys have promised. A promise may be larger than what the store
  has signed: that signing was cut off, and is gone on with.

The ring holds each signature to the keys' promises once more (`journal.published`), and what witnesses remember that
nobody here does is found by asking them before the first signature after a start (`publisher`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sealbook.cli.publishing.memory import KnownWitness, Memory
from sealbook.journal.deciding.log.checkpoints import KeptCheckpoint
from sealbook.journal.deciding.log.promises import Consistent, PublishedAhead, check_growth
from sealbook.journal.errors import NotFound
from sealbook.journal.keys.public_halves import KeyRefused, Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.journal.store.logs import Log, StoreLog
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.keys import SignatureLine, VerifierKey


def check_keys(ring: Keyring, log: Log) -> None:
    """The store log has keys of its own: `NotFound` when it has none, `KeyRefused` when they are a tenant's. Nor does a
    ring that is not there sign any log."""
    if not ring.folder.is_dir() and not isinstance(log, StoreLog):
        raise NotFound("log key", log.origin)
    if not isinstance(log, StoreLog):
        return
    keys = [key for key in ring.named(log.origin) if key.purpose is Purpose.LOG]
    if not keys:
        raise NotFound("store log key", log.origin)
    for key in keys:
        if key.tenant is not None:
            raise KeyRefused(key.id, f"it belongs to the log of tenant {key.tenant}, and does not sign the store log")


@dataclass(frozen=True, slots=True)
class LogSigner:
    """The keys of one log, and the passphrase that opens them."""

    ring: Keyring
    origin: str
    passphrase: bytes | None = None

    def keys(self) -> tuple[VerifierKey, ...]:
        """The keys that sign now. `NotFound` when the log has none."""
        return tuple(key.verifier for key in self.ring.signing(Purpose.LOG, self.origin))

    def promises(self) -> list[Checkpoint]:
        """The largest checkpoint that each of the log's keys has promised, retired keys too."""
        found = (self.ring.published(key) for key in self.ring.named(self.origin))
        return [promise for promise in found if promise is not None]

    def sign(self, checkpoint: Checkpoint, consistent: Consistent) -> list[SignatureLine]:
        """The keys' lines, once each has promised the checkpoint."""
        return self.ring.sign_checkpoint(checkpoint, consistent=consistent, passphrase=self.passphrase)


def signed(kept: KeptCheckpoint, keys: tuple[VerifierKey, ...]) -> bool:
    """Whether each of these keys has its line under the checkpoint."""
    return kept.note is not None and all(any(line.is_of(key) for line in kept.note.lines) for key in keys)


def check_not_behind(
    log: Log, head: Checkpoint, kept: KeptCheckpoint | None, signer: LogSigner, known: Mapping[str, KnownWitness]
) -> None:
    """Rules 2 and 3, also where nothing is to be signed. `head` is the log as it stands, `kept` the largest
    checkpoint that the store has signed."""
    size = 0 if kept is None else kept.checkpoint.size
    cosigned = max((each.cosigned for each in known.values()), default=0)
    if size < cosigned:
        raise PublishedAhead(head.origin, head.size, cosigned)
    for promise in signer.promises():
        check_growth(promise, head, lambda published: tree.root(published.size, log.tree_nodes) == published.root)


def sign_head(log: Log, signer: LogSigner, memory: Memory) -> KeptCheckpoint:
    """The log as it stands, signed by all keys of the log, if Rules 1 and 2 allow it."""
    memory.check_unstopped()
    check_not_behind(log, log.checkpoint(), log.signed_checkpoint(), signer, memory.known())
    return log.sign_checkpoint(signer.sign)


def promised_size(kept: KeptCheckpoint | None, signer: LogSigner) -> int | None:
    """The largest size that was signed before, or whose signing was cut off after a key had promised it; None when
    there is none. All keys that sign now may sign it again: it is no new promise."""
    sizes = [promise.size for promise in signer.promises()]
    return max(sizes if kept is None else [*sizes, kept.checkpoint.size], default=None)
