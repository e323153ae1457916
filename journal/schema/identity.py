"""Who a store is: the text of its `SEALBOOK` file, written once when the store is created.

sealbook 1                      what it is, and the version of this text
store    <32 hex>               the store's id, also in its `store` row: the file and the data belong together
lineage  <32 hex>               kept by a restore; stands in the first record of every run
secret   <64 hex>               keys the admission digests and the cursors
format   <number>               of all tables (`tables.FORMAT`)
engine   <number>               the engine's own format, pinned
check    <16 hex>               8 bytes of BLAKE3 of the lines above
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from blake3 import blake3

from sealbook.journal.errors import Corrupt, UnknownVersion, WrongFormat
from sealbook.journal.schema.tables import FORMAT, INDEX_VERSION, NO_REBUILD, StoreRow

TEXT_VERSION = 1
_TEXT = re.compile(
    r"sealbook (\d+)\nstore ([0-9a-f]{32})\nlineage ([0-9a-f]{32})\nsecret ([0-9a-f]{64})\n"
    r"format (\d+)\nengine (\d+)\ncheck ([0-9a-f]{16})\n",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The ids and the secret of a store, and the formats that it was created in."""

    store_id: bytes
    lineage_id: bytes
    secret: bytes
    format: int
    engine_format: int

    def __repr__(self) -> str:
        return f"Identity(store_id={self.store_id.hex()}, format={self.format})"  # never the secret

    def encode(self) -> bytes:
        """The text of the `SEALBOOK` file."""
        lines = (
            f"sealbook {TEXT_VERSION}\nstore {self.store_id.hex()}\nlineage {self.lineage_id.hex()}\n"
            f"secret {self.secret.hex()}\nformat {self.format}\nengine {self.engine_format}\n"
        )
        return f"{lines}check {_check(lines)}\n".encode()

    def store_row(self) -> StoreRow:
        """The store row of a store that has just been created."""
        return StoreRow(
            store_id=self.store_id,
            lineage_id=self.lineage_id,
            format=self.format,
            engine_format=self.engine_format,
            restoration=0,
            index_version=INDEX_VERSION,
            rebuild=NO_REBUILD,
        )


def new_identity(engine_format: int) -> Identity:
    """A store that no other one is: random ids and secret."""
    return Identity(os.urandom(16), os.urandom(16), os.urandom(32), FORMAT, engine_format)


def parse_identity(text: bytes, engine_format: int) -> Identity:
    """The identity that a `SEALBOOK` file states.

    `UnknownVersion`: a newer build wrote it. `WrongFormat`: it is no such file, or of an older format. `Corrupt`: its
    checksum does not match.
    """
    first = text.split(b"\n", 1)[0]
    if not re.fullmatch(rb"sealbook \d{1,9}", first):
        raise WrongFormat("the file SEALBOOK is not that of a store")
    if int(first.split()[1]) > TEXT_VERSION:
        raise UnknownVersion("a newer build wrote this store: open it with that build")
    match = _TEXT.fullmatch(text.decode("ascii", "replace"))
    if match is None:
        raise Corrupt("the file SEALBOOK is damaged: its lines are not what they must be")
    if match[7] != _check(match[0][: match.start(7) - len("check ")]):
        raise Corrupt("the file SEALBOOK is damaged: its checksum does not match")
    identity = Identity(
        bytes.fromhex(match[2]), bytes.fromhex(match[3]), bytes.fromhex(match[4]), int(match[5]), int(match[6])
    )
    if identity.format > FORMAT:
        raise UnknownVersion(f"the store has format {identity.format}, this build reads {FORMAT}: use a newer build")
    if identity.format < FORMAT:
        raise WrongFormat(
            f"the store has format {identity.format}, this build reads {FORMAT}: read it with the build that wrote it,"
            " and go on in a new store"
        )
    if identity.engine_format != engine_format:
        raise WrongFormat(f"the store's engine format is {identity.engine_format}, this build's is {engine_format}")
    return identity


def check_store_row(identity: Identity, row: StoreRow) -> None:
    """The data must be that of the `SEALBOOK` file: `Corrupt` when it belongs to another store."""
    if (row.store_id, row.lineage_id) != (identity.store_id, identity.lineage_id):
        raise Corrupt("SEALBOOK and data.mdb belong to two different stores")
    if (row.format, row.engine_format) != (identity.format, identity.engine_format):
        raise Corrupt("SEALBOOK and the store row state different formats")


def _check(lines: str) -> str:
    return blake3(lines.encode()).hexdigest(8)
