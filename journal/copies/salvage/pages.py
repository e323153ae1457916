"""Read what is left of a damaged LMDB data file, without LMDB: every page on its own, and no page is believed.

LMDB maps the file, and a page that is damaged can lead it out of the map, which kills the process. Here the file is
only ever read, within its bounds. Layout: see `datafile`. What LMDB adds to it for named tables:

    leaf page     a node with flag 02 in the main DB names a table: its data are the table's DB, 48 bytes
    large value   a node with flag 01 has the number of the page that the value begins on, 16 bytes behind its start

Each table's tree is walked from its root. Where a tree cannot be followed, or gives another number of rows than it
should, every leaf page of the file is looked at as well. That finds rows behind a lost branch; and it finds rows of
pages that are free by now, so those rows have no table, and are known by what they say alone.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from sealbook.journal.engine.lmdb import datafile

VALUE_BYTES_MAX: Final = 1 << 23  # twice the longest record: a damaged length asks for more
DEPTH_MAX: Final = 32  # LMDB's own limit of a tree's depth
PAGE_BYTES_USUAL: Final = 4096  # where no meta page says it

_META: Final = struct.Struct("=16x II QQ 48s 48s QQ")
_DB: Final = struct.Struct("=I HH QQQQQ")
_PAGE: Final = struct.Struct("=Q HHHH")
_NODE: Final = struct.Struct("=HHHH")
_COUNT: Final = struct.Struct("=I")
_U64: Final = struct.Struct("=Q")
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 0x01, 0x02, 0x04, 0x08
_KINDS: Final = _BRANCH | _LEAF | _OVERFLOW | _META_PAGE
_BIG, _TABLE = 0x01, 0x02


class SalvagedRow(NamedTuple):
    """A row. `table` is None when it was found outside of the trees. The value stands at `offset` in the file."""

    table: str | None
    key: bytes
    value: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class PageFault:
    """A page, or a row of it, that could not be read. `table` is None where that is not known."""

    page: int
    table: str | None
    what: str


class _Tree(NamedTuple):
    root: int
    entries: int


class _Node(NamedTuple):
    flags: int
    key: bytes
    at: int  # of the data, in the page
    size: int  # of the data; of a branch's node, the page below


@dataclass(slots=True)
class SalvagedFile:
    """A data file that is being read. `faults` has everything that could not be, so far."""

    file: BinaryIO
    faults: list[PageFault] = field(default_factory=list)
    page_bytes: int = PAGE_BYTES_USUAL
    pages: int = 0
    _main: _Tree | None = None

    @classmethod
    def open(cls, path: Path) -> SalvagedFile:
        """The file, whatever it is. Closed with `close`."""
        salvaged = cls(path.open("rb"))
        salvaged._read_metas()
        salvaged.pages = -(-os.fstat(salvaged.file.fileno()).st_size // salvaged.page_bytes)
        return salvaged

    def close(self) -> None:
        """Let go of the file."""
        self.file.close()

    def at(self, offset: int, size: int) -> bytes:
        """The bytes that stand there; fewer when the file ends."""
        return os.pread(self.file.fileno(), size, offset)

    def rows(self, wanted: Collection[str]) -> Iterator[SalvagedRow]:
        """Every row of these tables that a tree leads to, in the order of their keys, and then, if a tree was damaged,
        the rows of every leaf page."""
        trees, whole = self._tables(), True
        for name in wanted:
            tree = trees.get(name)
            if tree is None:
                whole = self._fault(0, name, "the table is not there")
                continue
            count, before = 0, len(self.faults)
            for found in self._walk(name, tree):
                count += 1
                yield found
            if count != tree.entries and before == len(self.faults):
                self._fault(tree.root, name, f"the table gives {count} rows, it counts {tree.entries}")
            whole = whole and before == len(self.faults)
        if not whole:
            yield from self._loose()

    # --- trees -------------------------------------------------------------------------------------------------------

    def _fault(self, page: int, table: str | None, what: str) -> bool:
        self.faults.append(PageFault(page, table, what))
        return False

    def _read_metas(self) -> None:
        """Take the newer of the meta pages that can be read; with none of them, every page is looked at."""
        best = -1
        for number in (0, 1):
            offsets = [0] if number == 0 else [self.page_bytes, *(1 << bits for bits in range(9, 17))]
            for offset in offsets:
                data = self.at(offset, _META.size)
                if len(data) < _META.size:
                    continue
                magic, data_format, _, _, free, main, _, txn = _META.unpack(data)
                page_bytes = _DB.unpack(free)[0]
                if (magic, data_format) != (datafile.MAGIC, datafile.DATA_FORMAT) or not _is_page_size(page_bytes):
                    continue
                if txn > best:
                    best, self.page_bytes = txn, page_bytes
                    *_, entries, root = _DB.unpack(main)
                    self._main = _Tree(root, entries)
                break
            else:
                self._fault(number, None, "the meta page is damaged")

    def _tables(self) -> dict[str, _Tree]:
        found: dict[str, _Tree] = {}
        if self._main is None:
            return found
        for name, flags, data, _ in self._leaves(None, self._main):
            if flags & _TABLE and len(data) == _DB.size:
                *_, entries, root = _DB.unpack(data)
                found[name.decode("utf-8", "replace")] = _Tree(root, entries)
        return found

    def _walk(self, table: str, tree: _Tree) -> Iterator[SalvagedRow]:
        for key, _, value, offset in self._leaves(table, tree):
            yield SalvagedRow(table, key, value, offset)

    def _leaves(self, table: str | None, tree: _Tree) -> Iterator[tuple[bytes, int, bytes, int]]:
        """(key, flags, value, offset) of every row, in order: what lies below a page that cannot be read is passed."""
        if tree.root == datafile.NO_PAGE:
            return
        seen: set[int] = set()
        todo = [(tree.root, 1)]
        while todo:
            number, depth = todo.pop()
            if number in seen or depth > DEPTH_MAX:
                self._fault(number, table, "the tree leads to the page twice, or is too deep")
                continue
            seen.add(number)
            page = self._page(number, table)
            if page is None:
                continue
            own, _, flags, _, _ = _PAGE.unpack_from(page)
            if own != number or not flags & (_BRANCH | _LEAF):
                self._fault(number, table, "the page is none of a table")
                continue
            nodes = list(self._nodes(number, page, table))
            if flags & _BRANCH:
                todo += [(node.size, depth + 1) for node in reversed(nodes)]
                continue
            for node in nodes:
                row = self._row(number, page, node, table)
                if row is not None:
                    yield node.key, node.flags, *row

    def _page(self, number: int, table: str | None) -> bytes | None:
        page = self.at(number * self.page_bytes, self.page_bytes) if number < self.pages else b""
        if len(page) < self.page_bytes:
            self._fault(number, table, "the file ends before the page")
            return None
        return page

    def _nodes(self, number: int, page: bytes, table: str | None) -> Iterator[_Node]:
        _, _, page_flags, lower, _ = _PAGE.unpack_from(page)
        if not _PAGE.size <= lower <= len(page):
            self._fault(number, table, "the page's list of rows is damaged")
            return
        for offset in struct.unpack_from(f"={(lower - _PAGE.size) // 2}H", page, _PAGE.size):
            if not lower <= offset <= len(page) - _NODE.size:
                self._fault(number, table, "a row stands outside of its page")
                continue
            lo, hi, flags, key_bytes = _NODE.unpack_from(page, offset)
            at = offset + _NODE.size + key_bytes
            if at > len(page):
                self._fault(number, table, "a row's key ends outside of its page")
                continue
            size = lo | hi << 16 | (flags << 32 if page_flags & _BRANCH else 0)
            yield _Node(flags, page[offset + _NODE.size : at], at, size)

    def _row(self, number: int, page: bytes, node: _Node, table: str | None) -> tuple[bytes, int] | None:
        """(value, where it stands in the file)."""
        if node.flags & _BIG:
            if node.at + _U64.size > len(page) or node.size > VALUE_BYTES_MAX:
                self._fault(number, table, "a large value's place is damaged")
                return None
            offset = _U64.unpack_from(page, node.at)[0] * self.page_bytes + _PAGE.size
            value = self.at(offset, node.size) if offset < self.pages * self.page_bytes else b""
            if len(value) < node.size:
                self._fault(number, table, "the file ends before a large value")
                return None
            return value, offset
        if node.at + node.size > len(page):
            self._fault(number, table, "a row's value ends outside of its page")
            return None
        return page[node.at : node.at + node.size], number * self.page_bytes + node.at

    # --- every page --------------------------------------------------------------------------------------------------

    def _loose(self) -> Iterator[SalvagedRow]:
        """The rows of every leaf page. Pages of a large value are skipped: a caller chose what stands in them."""
        told, number = len(self.faults), 2
        while number < self.pages:
            page = self.at(number * self.page_bytes, self.page_bytes)
            if len(page) < _PAGE.size:
                break
            own, _, flags, _, _ = _PAGE.unpack_from(page)
            if own == number and flags & _KINDS == _OVERFLOW:
                number += min(max(1, _COUNT.unpack_from(page, 12)[0]), VALUE_BYTES_MAX // self.page_bytes)
                continue
            if own == number and flags & _KINDS == _LEAF and len(page) == self.page_bytes:
                for node in self._nodes(number, page, None):
                    row = None if node.flags & _TABLE else self._row(number, page, node, None)
                    if row is not None:
                        yield SalvagedRow(None, node.key, *row)
            number += 1
        del self.faults[told:]  # a page that is free by now may well be nonsense


def _is_page_size(page_bytes: int) -> bool:
    fits = datafile.PAGE_BYTES_MIN <= page_bytes <= datafile.PAGE_BYTES_MAX
    return fits and page_bytes & (page_bytes - 1) == 0
