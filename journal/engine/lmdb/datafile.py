"""Read an LMDB data file without LMDB, to tell whether it may be handed to LMDB at all.

LMDB maps the file and believes it. A file that ends early kills the process with SIGBUS, when a page is read or at
the next write, so that must be found before. The layout is that of data format 1 (LMDB 0.9) on this machine: native
byte order, 64-bit numbers.

    meta page   header 16 bytes, magic u32, format u32, address u64, map size u64, free DB 48 bytes, main DB 48 bytes,
                last page u64, txn u64
    DB          page size u32 (in the free DB's), flags u16, depth u16, branch, leaf, overflow pages and entries u64,
                root u64
    page        number u64, pad u16, flags u16, lower u16, upper u16, then the u16 offsets of its nodes
    node        lo u16, hi u16, flags u16, key size u16, key, data; in a branch lo, hi, flags are a page number
    free row    count u64, page numbers u64 …, under the id of the transaction that freed them

A sound file may be shorter than its last page number says, when the pages at its end were allocated and given back
before they were ever written. These are then in the free list, because every page is either in use or in it.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

MAGIC: Final = 0xBEEFC0DE
DATA_FORMAT: Final = 1  # LMDB 0.9
NO_PAGE: Final = 2**64 - 1

_META: Final = struct.Struct("=16x II QQ 48s 48s QQ")
_DB: Final = struct.Struct("=I HH QQQQQ")
_PAGE: Final = struct.Struct("=Q HHHH")
_NODE: Final = struct.Struct("=HHHH")
_U64: Final = struct.Struct("=Q")
_PAGE_BRANCH, _PAGE_LEAF = 0x01, 0x02
_NODE_BIG: Final = 0x01
_DEPTH_MAX: Final = 32  # LMDB's own limit of a tree's depth
LOOKS_MAX: Final = 100  # a file that moves as often as this is in good hands

META_BYTES_MIN: Final = 2 * 4096
PAGE_BYTES_MIN, PAGE_BYTES_MAX = 512, 65536


class NotLmdb(Exception):
    """The file is not an LMDB data file, or one of another data format."""

    def __init__(self, what: str, data_format: int | None = None) -> None:
        super().__init__(what)
        self.data_format = data_format


class DamagedFile(Exception):
    """The file ends before a page that it refers to."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What the newer of the two meta pages says."""

    page_bytes: int
    page_last: int
    txn: int
    free_root: int


def read_meta(file: BinaryIO) -> Meta:
    """The newer meta page; `NotLmdb` when either is none, which LMDB does not take either."""
    first = _meta(file, 0)
    second = _meta(file, first.page_bytes)
    return second if second.txn > first.txn else first


def missing_pages(path: Path) -> int:
    """By how many pages the file is shorter than its last page number says."""
    with path.open("rb") as file:
        meta = read_meta(file)
        return max(0, meta.page_last + 1 - _pages(file, meta))


def refuse_truncated(path: Path) -> None:
    """`Damaged` unless every page that the file does not have is in its free list.

    Another process may write meanwhile: what looks damaged is looked at again as long as it moves.
    """
    with path.open("rb") as file:
        for _ in range(LOOKS_MAX):
            meta = read_meta(file)
            try:
                _refuse_missing(file, meta)
                return
            except (DamagedFile, struct.error) as error:
                if read_meta(file).txn == meta.txn:
                    raise DamagedFile(str(error)) from error


def _refuse_missing(file: BinaryIO, meta: Meta) -> None:
    missing = set(range(_pages(file, meta), meta.page_last + 1))
    if missing:
        missing -= _free_pages(file, meta)
    if missing:
        raise DamagedFile(f"the file ends before page {min(missing)}, which is in use")


def _meta(file: BinaryIO, offset: int) -> Meta:
    data = os.pread(file.fileno(), _META.size, offset)
    if len(data) < _META.size:
        raise NotLmdb("it is too short for an LMDB file")
    magic, data_format, _, _, free, _, page_last, txn = _META.unpack(data)
    if magic != MAGIC:
        raise NotLmdb("it is not an LMDB file")
    if data_format != DATA_FORMAT:
        raise NotLmdb(f"it is in LMDB data format {data_format}, this build reads {DATA_FORMAT}", data_format)
    page_bytes, *_, free_root = _DB.unpack(free)
    if not PAGE_BYTES_MIN <= page_bytes <= PAGE_BYTES_MAX:
        raise NotLmdb(f"its page size is {page_bytes}")
    return Meta(page_bytes=page_bytes, page_last=page_last, txn=txn, free_root=free_root)


def _pages(file: BinaryIO, meta: Meta) -> int:
    """How many whole pages the file has."""
    return os.fstat(file.fileno()).st_size // meta.page_bytes


def _free_pages(file: BinaryIO, meta: Meta) -> set[int]:
    free: set[int] = set()
    level = [] if meta.free_root == NO_PAGE else [meta.free_root]
    for _ in range(_DEPTH_MAX):
        below: list[int] = []
        for number in level:
            page = _read(file, meta, number, 1)
            own, _, flags, lower, _ = _PAGE.unpack_from(page)
            if own != number or not flags & (_PAGE_BRANCH | _PAGE_LEAF):
                raise DamagedFile(f"page {number} is none of the free list")
            for offset in struct.unpack_from(f"={(lower - _PAGE.size) // 2}H", page, _PAGE.size):
                lo, hi, node_flags, key_bytes = _NODE.unpack_from(page, offset)
                if flags & _PAGE_BRANCH:
                    below.append(lo | hi << 16 | node_flags << 32)
                    continue
                start, size = offset + _NODE.size + key_bytes, lo | hi << 16
                row = page[start : start + size]
                if node_flags & _NODE_BIG:
                    row = _overflow(file, meta, _U64.unpack_from(page, start)[0], size)
                count = _U64.unpack_from(row)[0]
                free.update(struct.unpack_from(f"={count}Q", row, 8))
        level = below
        if not level:
            return free
    raise DamagedFile("the free list is deeper than LMDB allows")


def _overflow(file: BinaryIO, meta: Meta, number: int, size: int) -> bytes:
    count = -(-(size + _PAGE.size) // meta.page_bytes)
    return _read(file, meta, number, count)[_PAGE.size : _PAGE.size + size]


def _read(file: BinaryIO, meta: Meta, number: int, count: int) -> bytes:
    data = os.pread(file.fileno(), count * meta.page_bytes, number * meta.page_bytes)
    if number > meta.page_last or len(data) < count * meta.page_bytes:
        raise DamagedFile(f"the file ends before page {number}, which is in use")
    return data
