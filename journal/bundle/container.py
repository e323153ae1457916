"""The file around a bundle's content: a preamble, blocks of bounded size, a trailer. Nothing here knows what is in it.

    preamble   40   "sealbook/bundle" 00 ‖ version u8 ‖ codec u8 ‖ six 00 ‖ made at u64be ‖ check 8
    block           stored bytes u32be ‖ plain bytes u32be ‖ link 32 ‖ what is stored
    trailer    52   u32be 0 ‖ blocks u64be ‖ plain bytes u64be ‖ digest 32

The check is BLAKE3 over the 32 bytes before it, cut to 8. A block's link is BLAKE3 over the link before it, the block's
eight bytes of lengths, and what is stored; before the first block stands BLAKE3 over the preamble's first 24 bytes. The
digest is BLAKE3 over the preamble, the last link, and the trailer's 20 bytes. So every byte is covered, a block that is
damaged, moved, repeated or taken from another bundle is met where it stands, and a file that was cut off has no
trailer. Only the preamble and the digest depend on the time.

Each block is compressed on its own. All but the last hold 65,536 plain bytes, so one content has one division. Where
writing was cut off, it goes on behind the last full block: that of what was written is as it would be in the end.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO, NoReturn

from blake3 import blake3

from sealbook.journal.bundle.faults import FILE, Damaged, Fault
from sealbook.journal.errors import UnknownVersion, WrongFormat

MAGIC = b"sealbook/bundle\0"
VERSION = 1
BLOCK_PLAIN_BYTES = 65_536
BLOCK_STORED_BYTES_MAX = 2 * BLOCK_PLAIN_BYTES  # no codec makes anything twice as long
PREAMBLE_BYTES = 40
LZMA_MEMORY_BYTES_MAX = 4 * 2**20  # what a block's decoder may take; ours needs less than one
TIME_MS_MAX = 2**63 - 1

_PREAMBLE = struct.Struct(">16sBB6sQ8s")
_TIMELESS_BYTES = 24
_CHECKED_BYTES = 32
_LENGTHS = struct.Struct(">II")
_TRAILER = struct.Struct(">IQQ32s")
_LINK_BYTES = 32
_COUNTED_BYTES = 20
_XZ = ({"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": BLOCK_PLAIN_BYTES},)
assert _PREAMBLE.size == PREAMBLE_BYTES and _TRAILER.size == 52


class Codec(IntEnum):
    """How the blocks are compressed."""

    PLAIN = 0
    ZLIB = 1  # RFC 1950
    LZMA = 2  # .xz


@dataclass(frozen=True, slots=True)
class Preamble:
    """How the file is written, and when it was: unix milliseconds, by the clock of the exporter."""

    codec: Codec
    made_at: int

    def encode(self) -> bytes:
        """The 40 bytes at the beginning."""
        value = _PREAMBLE.pack(MAGIC, VERSION, self.codec, bytes(6), self.made_at, bytes(8))[:_CHECKED_BYTES]
        return value + blake3(value).digest(8)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place between two blocks: its offset in the file, the last link, and the blocks and plain bytes before it."""

    offset: int
    link: bytes
    blocks: int
    plain: int


# --- writing ---------------------------------------------------------------------------------------------------------


class ContainerWriter:
    """Writes content, cut into blocks, to a stream. Without `finish` the file has no trailer and is refused.

    With a mark the file has all that is before it already, under this preamble, and the stream stands there.
    """

    def __init__(self, stream: BinaryIO, preamble: Preamble, mark: Mark | None = None) -> None:
        self._stream, self._codec = stream, preamble.codec
        self._preamble = preamble.encode()
        self._held = bytearray()
        if mark is None:
            stream.write(self._preamble)
            mark = _beginning(self._preamble)
        self._link, self._blocks, self._plain = mark.link, mark.blocks, mark.plain

    def write(self, data: bytes) -> None:
        """Add to the content."""
        self._held += data
        while len(self._held) >= BLOCK_PLAIN_BYTES:
            block = bytes(self._held[:BLOCK_PLAIN_BYTES])
            del self._held[:BLOCK_PLAIN_BYTES]
            self._block(block)

    def finish(self) -> bytes:
        """The last block and the trailer; the digest over the whole file."""
        if self._held:
            self._block(bytes(self._held))
            self._held.clear()
        counted = _TRAILER.pack(0, self._blocks, self._plain, bytes(32))[:_COUNTED_BYTES]
        digest = blake3(self._preamble + self._link + counted).digest()
        self._stream.write(counted + digest)
        return digest

    def _block(self, plain: bytes) -> None:
        stored = _compressed(self._codec, plain)
        lengths = _LENGTHS.pack(len(stored), len(plain))
        self._link = blake3(self._link + lengths + stored).digest()
        self._stream.write(lengths + self._link + stored)
        self._blocks += 1
        self._plain += len(plain)


def _beginning(head: bytes) -> Mark:
    return Mark(PREAMBLE_BYTES, blake3(head[:_TIMELESS_BYTES]).digest(), 0, 0)


def _compressed(codec: Codec, plain: bytes) -> bytes:
    match codec:
        case Codec.PLAIN:
            return plain
        case Codec.ZLIB:
            return zlib.compress(plain, 6)
        case Codec.LZMA:
            return lzma.compress(plain, format=lzma.FORMAT_XZ, check=lzma.CHECK_NONE, filters=list(_XZ))


# --- reading ---------------------------------------------------------------------------------------------------------


class ContainerReader:
    """The content of a bundle's file, block by block. Never more than one block is held.

    `preamble` is read at once. `WrongFormat`: the file is no bundle. `UnknownVersion`: a newer build wrote it.
    `Damaged`: anything else that `ContainerWriter` does not write. After the last block `digest` is the file's. `mark`
    stands behind the last full block that was read.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._offset = 0
        self.digest: bytes | None = None
        self._head = self._read(_PREAMBLE.size)
        self.preamble = self._preamble()
        self.mark = _beginning(self._head)

    def blocks(self) -> Iterator[bytes]:
        """The plain bytes of each block, in order; then the trailer is held against them."""
        link = self.mark.link
        number = total = 0
        last = BLOCK_PLAIN_BYTES
        while True:
            start = self._offset
            section = f"block {number}"
            first = self._exactly(4, section, start)
            stored_bytes = int.from_bytes(first)
            if stored_bytes == 0:
                self._trailer(first, link, number, total, start)
                return
            lengths = first + self._exactly(4, section, start)
            plain_bytes = int.from_bytes(lengths[4:])
            if stored_bytes > BLOCK_STORED_BYTES_MAX or not 1 <= plain_bytes <= BLOCK_PLAIN_BYTES:
                self._damaged("no block has these lengths", section, start)
            if last != BLOCK_PLAIN_BYTES:
                self._damaged("a block follows one that was not full", section, start)
            stated = self._exactly(_LINK_BYTES, section, start)
            stored = self._exactly(stored_bytes, section, start)
            link = blake3(link + lengths + stored).digest()
            if stated != link:
                self._damaged("the block's bytes, or those before it, are not those that were written", section, start)
            plain = _plain(self.preamble.codec, stored, plain_bytes)
            if plain is None:
                self._damaged("the block is not what its codec makes of so many bytes", section, start)
            number, total, last = number + 1, total + plain_bytes, plain_bytes
            if plain_bytes == BLOCK_PLAIN_BYTES:
                self.mark = Mark(self._offset, link, number, total)
            yield plain

    def full_blocks(self) -> Iterator[bytes]:
        """The plain bytes of each full block, of a file that may end anywhere."""
        try:
            yield from (plain for plain in self.blocks() if len(plain) == BLOCK_PLAIN_BYTES)
        except Damaged as error:
            if not error.fault.incomplete:
                raise

    def _preamble(self) -> Preamble:
        head = self._head
        if not head.startswith(MAGIC[: len(head)]) or not head:
            raise WrongFormat("the file is no bundle")
        if len(head) < _PREAMBLE.size:
            self._cut_off("preamble", 0)
        _, version, codec, zero, made_at, check = _PREAMBLE.unpack(head)
        whole = blake3(head[:_CHECKED_BYTES]).digest(8) == check
        if whole and version > VERSION:
            raise UnknownVersion(f"the bundle is of version {version}, {VERSION} is known: read it with a newer build")
        if not whole:
            self._damaged("its check does not match", "preamble", 0)
        if version != VERSION or zero != bytes(6) or codec not in Codec._value2member_map_ or made_at > TIME_MS_MAX:
            self._damaged("no bundle begins so", "preamble", 0)
        return Preamble(Codec(codec), made_at)

    def _trailer(self, first: bytes, link: bytes, blocks: int, plain: int, start: int) -> None:
        value = first + self._exactly(_TRAILER.size - len(first), "trailer", start)
        _, stated_blocks, stated_plain, digest = _TRAILER.unpack(value)
        if digest != blake3(self._head + link + value[:_COUNTED_BYTES]).digest():
            self._damaged("the digest is not that of this file", "trailer", start)
        if (stated_blocks, stated_plain) != (blocks, plain):
            self._damaged(f"it counts {stated_blocks} blocks, there are {blocks}", "trailer", start)
        if self._read(1):
            self._damaged("something follows it", "trailer", start)
        self.digest = digest

    def _exactly(self, count: int, section: str, start: int) -> bytes:
        data = self._read(count)
        if len(data) < count:
            self._cut_off(section, start)
        return data

    def _read(self, count: int) -> bytes:
        parts, missing = [], count
        while missing and (part := self._stream.read(missing)):
            parts.append(part)
            missing -= len(part)
        self._offset += count - missing
        return b"".join(parts)

    def _damaged(self, what: str, section: str, offset: int) -> NoReturn:
        raise Damaged(Fault(what, section, FILE, offset))

    def _cut_off(self, section: str, offset: int) -> NoReturn:
        raise Damaged(Fault("the file ends here: it is incomplete", section, FILE, offset, incomplete=True))


def _plain(codec: Codec, stored: bytes, plain_bytes: int) -> bytes | None:
    """The block's plain bytes; None when it does not hold exactly so many. Never more than that is unpacked."""
    try:
        if codec is Codec.PLAIN:
            plain, whole = stored, True
        elif codec is Codec.ZLIB:
            inflate = zlib.decompressobj()
            plain = inflate.decompress(stored, plain_bytes + 1)
            whole = inflate.eof and not inflate.unused_data and not inflate.unconsumed_tail
        else:
            decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=LZMA_MEMORY_BYTES_MAX)
            plain = decoder.decompress(stored, plain_bytes + 1)
            whole = decoder.eof and not decoder.unused_data
    except (zlib.error, lzma.LZMAError):
        return None
    return plain if whole and len(plain) == plain_bytes else None
