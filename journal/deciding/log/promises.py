"""What a log's key has signed, kept beside its private half, and the rule that every later signature is held to.

A checkpoint is a promise: whoever saw it holds the log to it. So it is durable here before a signature leaves, and
outside the store, so that an older copy of the store cannot take it back.

    sealbook published 1
    <the checkpoint's three lines: origin, size, root>
    check <16 hex>          8 bytes of BLAKE3 of the lines above: it finds damage, not forgery

tlog-checkpoint: "A log MUST NOT sign any checkpoint inconsistent with any it ever signed."

- Rule 1: a size below one that was signed is refused.
- Rule 2: the size that was signed is signed again under the same root alone.
- Rule 3: a larger size is signed when the log shows that it begins with what was signed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from blake3 import blake3

from sealbook.journal.errors import Corrupt, Refused, UnknownVersion, shown
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed

TEXT_VERSION = 1

Published: TypeAlias = Checkpoint
"""A checkpoint that a key has promised: origin, size and root."""

Consistent: TypeAlias = Callable[[Published], bool]
"""Whether the log that is to be signed begins with what was published, as the caller has verified by a proof."""

_TEXT = re.compile(r"(sealbook published 1\n([^\n]+\n[0-9]+\n[^\n]+\n))check ([0-9a-f]{16})\n")


@dataclass(eq=False)
class PublishedAhead(Refused):
    """A larger log has been signed: this one was put back to an older state, or another one bears its name."""

    origin: str
    size: int
    published_size: int

    def __str__(self) -> str:
        return (
            f"{shown(self.origin)}: size {self.size} is not signed, because size {self.published_size} had been signed:"
            " the store is older than what was published"
        )


@dataclass(eq=False)
class PublishedDiffers(Refused):
    """A log that is not this one has been signed: same size and another root, or no proof that it is the beginning."""

    origin: str
    size: int
    published_size: int

    def __str__(self) -> str:
        how = "under another root" if self.size == self.published_size else "and this log does not begin with it"
        return (
            f"{shown(self.origin)}: size {self.size} is not signed, because size {self.published_size} had been signed"
            f" {how}"
        )


def encode(published: Published) -> bytes:
    """The text of the file."""
    lines = f"sealbook published {TEXT_VERSION}\n{published.text()}"
    return f"{lines}check {blake3(lines.encode()).hexdigest(8)}\n".encode()


def parse(data: bytes, where: str) -> Published:
    """What the file states. `Corrupt` for anything that `encode()` does not write."""
    version = re.match(rb"sealbook published (\d{1,9})\n", data)
    if version and int(version[1]) > TEXT_VERSION:
        raise UnknownVersion(f"{where}: a newer build wrote what this key has signed")
    match = _TEXT.fullmatch(data.decode("utf-8", "replace"))
    if match is None or blake3(match[1].encode()).hexdigest(8) != match[3]:
        raise Corrupt(f"{where} is damaged: what the key has signed is not known, so it signs nothing")
    try:
        return Published.parse(match[2])
    except Malformed as error:
        raise Corrupt(f"{where} is damaged: {error}") from error


def check_growth(published: Published, checkpoint: Checkpoint, consistent: Consistent) -> None:
    """Rules 1 to 3. `consistent` is asked when the log has grown, and not about the empty log, with which every log
    begins."""
    assert published.origin == checkpoint.origin
    if checkpoint.size < published.size:
        raise PublishedAhead(checkpoint.origin, checkpoint.size, published.size)
    if checkpoint.size == published.size:
        held = checkpoint.root == published.root
    else:
        held = published.size == 0 or consistent(published)
    if not held:
        raise PublishedDiffers(checkpoint.origin, checkpoint.size, published.size)
