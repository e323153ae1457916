"""What is remembered while a bundle streams by: where each run stands so far, and a tenant's part."""

from __future__ import annotations

import struct
from typing import NamedTuple

from sealbook.journal.bundle.frames import Counts, TenantPart
from sealbook.journal.bundle.scratch import Scratch
from sealbook.journal.records.chain import GENESIS
from sealbook.journal.records.trust import Outside
from sealbook.merkle.monitor import Growth

RUN = struct.Struct(">Q32s32sQQQB")
FINAL, SEALED, ASKED, UNSURE = 1, 2, 4, 8


class Run(NamedTuple):
    """Where a run stands so far. `UNSURE` from the first record on that is of a newer version."""

    seq: int = 0
    head: bytes = GENESIS
    tag: bytes = bytes(32)
    arrival: int = 0
    epoch: int = 0
    attested: int = 0
    flags: int = 0

    def has(self, flag: int) -> bool:
        """Whether the flag is set."""
        return bool(self.flags & flag)


class Runs:
    """Where each run of a tenant stands so far."""

    def __init__(self) -> None:
        self._scratch = Scratch()

    def get(self, name: str) -> Run:
        """Where the run stands; at its beginning when nothing of it was read."""
        value = self._scratch.get(name.encode())
        return Run() if value is None else Run(*RUN.unpack(value))

    def put(self, name: str, run: Run) -> None:
        """Let it stand there."""
        self._scratch.put(name.encode(), RUN.pack(*run))

    def close(self) -> None:
        """Forget all of them."""
        self._scratch.close()


class Entries:
    """The entries of an anchor batch so far: their tree, the last one's run tag, the highest arrival they cover."""

    def __init__(self) -> None:
        self.log = Growth()
        self.last = b""
        self.arrival = 0


class Part:
    """A tenant's part so far."""

    def __init__(self, stated: TenantPart, outside: list[Outside], *, absent: int) -> None:
        self.stated, self.outside, self.absent = stated, outside, absent
        self.log = Growth()
        self._counted = dict.fromkeys(Counts.__dataclass_fields__, 0)
        self.arrival = 0  # of the last record,
        self.covered = 0  # the highest that an anchor batch covers,
        self.reached = 0  # and the highest that any leaf attests
        self.noted = -1  # the size of the last checkpoint
        self.fresh = True  # whether a checkpoint may stand here: behind the leaf that it is the first to count
        self.signer: bytes | None = None  # whose key was given for the record that is next
        self.entries: Entries | None = None

    def count(self, what: str) -> None:
        """One more of these."""
        self._counted[what] += 1

    @property
    def counts(self) -> Counts:
        """How many of each are there."""
        return Counts(**self._counted)
