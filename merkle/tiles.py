"""Tiles: a log as files that anybody may fetch, their paths and their contents (C2SP tlog-tiles).

    checkpoint                          the latest signed checkpoint
    tile/<level>/<index>[.p/<width>]    hashes: 256 of them, or fewer in the last one of a level
    tile/entries/<index>[.p/<width>]    leaf entries: likewise

Hash number i of the tile with index n of level l is that of the complete subtree over 256**l leaves from number
(n * 256 + i) * 256**l on: `Node(8 * l, n * 256 + i)` of our trees. The levels between are computed by who reads.
An entry bundle is its entries one after another, each under its length as two big-endian bytes.

A file never changes once it is written. `checkpoint` alone is replaced, last of all, when every file that its size
needs is durable. Hashes that were read from tiles prove nothing before their root is that of a signed checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sealbook.merkle.errors import Malformed, shown
from sealbook.merkle.hashing import HASH_BYTES, SIZE_MAX, node_hash
from sealbook.merkle.tree import Node, Reader

TILE_WIDTH = 256  # hashes in a full tile
TILE_LEVELS = 8  # levels of the tree in one level of tiles
TILE_LEVEL_MAX = 63  # "a decimal ASCII integer between 0 and 63"
ENTRY_BYTES_MAX = 2**16 - 1  # the length has two bytes
assert TILE_WIDTH == 1 << TILE_LEVELS
assert SIZE_MAX // TILE_WIDTH < 1000**6  # six groups of three digits hold every index

CHECKPOINT_PATH = "checkpoint"
CHECKPOINT_MEDIA_TYPE = "text/plain; charset=utf-8"
TILE_MEDIA_TYPE = "application/octet-stream"

# The digits of each number are limited, so that nothing long is made a number of.
_PATH = re.compile(
    r"tile/(?P<level>entries|[0-9]{1,2})/(?P<index>(?:x[0-9]{3}/){0,5}[0-9]{3})(?:\.p/(?P<width>[0-9]{1,3}))?"
)
_TENANT_PATH = re.compile(r"tenant/([0-9a-f]{64})/")


@dataclass(frozen=True, slots=True)
class HashTile:
    """Up to 256 hashes of one level. Fewer than 256 make a partial tile, which is never hashed upward."""

    level: int
    index: int
    width: int = TILE_WIDTH

    def __post_init__(self) -> None:
        if not 0 <= self.level <= TILE_LEVEL_MAX:
            raise Malformed(f"tile: level is 0 to {TILE_LEVEL_MAX}, not {shown(self.level)}")
        _check_place(self.index, self.width, self.level)

    def path(self) -> str:
        """Where the tile stands, from the log's URL or folder."""
        return f"tile/{self.level}/{_place_path(self.index, self.width)}"

    def full(self) -> HashTile:
        """The full tile that follows this one, and stands in for it once a log deletes its partial tiles."""
        return HashTile(self.level, self.index)

    def nodes(self) -> list[Node]:
        """The subtrees whose hashes the tile holds, in its order."""
        first = self.index * TILE_WIDTH
        return [Node(self.level * TILE_LEVELS, number) for number in range(first, first + self.width)]


@dataclass(frozen=True, slots=True)
class EntryBundle:
    """Up to 256 leaf entries."""

    index: int
    width: int = TILE_WIDTH

    def __post_init__(self) -> None:
        _check_place(self.index, self.width, 0)

    def path(self) -> str:
        """Where the bundle stands, from the log's URL or folder."""
        return f"tile/entries/{_place_path(self.index, self.width)}"

    def full(self) -> EntryBundle:
        """The full bundle that follows this one."""
        return EntryBundle(self.index)

    def leaves(self) -> range:
        """The numbers of the leaves whose entries the bundle holds."""
        return range(self.index * TILE_WIDTH, self.index * TILE_WIDTH + self.width)


def parse_path(path: str) -> HashTile | EntryBundle:
    """The tile or bundle that stands there. Raises `Malformed` for any path that `path()` does not write."""
    match = _PATH.fullmatch(path)
    if not match:
        raise Malformed(f"tile: no path of a tile: {shown(path)}")
    index = int(match["index"].replace("/", "").replace("x", ""))
    width = TILE_WIDTH if match["width"] is None else int(match["width"])
    level = match["level"]
    tile = EntryBundle(index, width) if level == "entries" else HashTile(int(level), index, width)
    if tile.path() != path:  # leading zeros, in any of the numbers, and a full tile's width
        raise Malformed(f"tile: path is {tile.path()}, not {shown(path)}")
    return tile


def tenant_path(tag: bytes) -> str:
    """Where the tiles of the log with this tenant tag stand, beside those of the log of logs that has its heads."""
    return f"tenant/{tag.hex()}/"


def split_tenant_path(path: str) -> tuple[bytes | None, str]:
    """The tenant tag that the path begins with and what follows it; None and the path, where it begins with none."""
    match = _TENANT_PATH.match(path)
    return (None, path) if match is None else (bytes.fromhex(match[1]), path[match.end() :])


def hash_tiles(*, old_size: int, new_size: int) -> Iterator[HashTile]:
    """The tiles that must be written when the log grows, so that those of both sizes are there: for each level the
    ones that fill up, and the partial one of the new size if it is another than before. From size 0 it is all tiles."""
    _check_sizes(old_size, new_size)
    level, old, new = 0, old_size, new_size
    while new > 0:
        for index, width in _grown(old, new):
            yield HashTile(level, index, width)
        level, old, new = level + 1, old // TILE_WIDTH, new // TILE_WIDTH


def entry_bundles(*, old_size: int, new_size: int) -> Iterator[EntryBundle]:
    """The entry bundles that must be written when the log grows, as `hash_tiles` has it for tiles."""
    _check_sizes(old_size, new_size)
    for index, width in _grown(old_size, new_size):
        yield EntryBundle(index, width)


def encode_tile(tile: HashTile, read: Reader) -> bytes:
    """The tile's bytes, its hashes taken from a stored tree, which is asked once."""
    hashes = read(tile.nodes())
    if len(hashes) != tile.width or any(len(value) != HASH_BYTES for value in hashes):
        raise ValueError(f"the reader answered {len(hashes)} hashes for {tile}")
    return b"".join(hashes)


def decode_tile(tile: HashTile, data: bytes) -> list[bytes]:
    """The tile's hashes. For a partial tile the bytes of the full one serve as well, and are cut: a log may have
    deleted the partial one meanwhile."""
    full = TILE_WIDTH * HASH_BYTES
    if len(data) not in (tile.width * HASH_BYTES, full):
        raise Malformed(f"tile: {tile.path()} has {tile.width * HASH_BYTES} bytes, not {len(data)}")
    return [data[start : start + HASH_BYTES] for start in range(0, tile.width * HASH_BYTES, HASH_BYTES)]


def encode_bundle(bundle: EntryBundle, entries: Sequence[bytes]) -> bytes:
    """The bundle's bytes."""
    if len(entries) != bundle.width:
        raise ValueError(f"{bundle} has {bundle.width} entries, not {len(entries)}")
    for entry in entries:
        if len(entry) > ENTRY_BYTES_MAX:
            raise ValueError(f"an entry has at most {ENTRY_BYTES_MAX} bytes, not {len(entry)}")
    return b"".join(len(entry).to_bytes(2) + entry for entry in entries)


def decode_bundle(bundle: EntryBundle, data: bytes) -> list[bytes]:
    """The bundle's entries. For a partial bundle the bytes of the full one serve as well, and are cut."""
    entries: list[bytes] = []
    position = 0
    while position < len(data) and len(entries) < TILE_WIDTH:
        start = position + 2
        position = start + int.from_bytes(data[position:start])
        if start > len(data) or position > len(data):
            raise Malformed(f"tile: {bundle.path()} ends within entry {len(entries)}")
        entries.append(data[start:position])
    if position != len(data) or len(entries) not in (bundle.width, TILE_WIDTH):
        raise Malformed(f"tile: {bundle.path()} has {bundle.width} entries, not {len(entries)} and {position} bytes")
    return entries[: bundle.width]


def tile_reader(size: int, fetch: Callable[[Sequence[HashTile]], Sequence[bytes]]) -> Reader:
    """A reader of nodes for `tree`'s roots and proofs, over the tiles of a log of `size` leaves. `fetch` is asked once
    for all tiles that a call needs, each once, and answers their bytes in the same order."""
    _check_sizes(0, size)

    def read(nodes: Sequence[Node]) -> list[bytes]:
        places = [_covering(node, size) for node in nodes]
        tiles = list(dict.fromkeys(tile for tile, _, _ in places))
        answers = fetch(tiles)
        if len(answers) != len(tiles):
            raise ValueError(f"{len(answers)} answers for {len(tiles)} tiles")
        hashes = {tile: decode_tile(tile, data) for tile, data in zip(tiles, answers, strict=True)}
        return [_complete_subtree(hashes[tile][first : first + count]) for tile, first, count in places]

    return read


def _covering(node: Node, size: int) -> tuple[HashTile, int, int]:
    """The tile that a node is computed from, and which of its hashes: the first of them and how many."""
    if (node.index + 1) << node.level > size:
        raise ValueError(f"{node} is no complete subtree of {size} leaves")
    level, above = divmod(node.level, TILE_LEVELS)
    count = 1 << above
    index, first = divmod(node.index * count, TILE_WIDTH)
    width = min(TILE_WIDTH, (size >> TILE_LEVELS * level) - index * TILE_WIDTH)
    return HashTile(level, index, width), first, count


def _complete_subtree(hashes: list[bytes]) -> bytes:
    while len(hashes) > 1:
        hashes = [node_hash(*pair) for pair in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]


def _grown(old: int, new: int) -> Iterator[tuple[int, int]]:
    """Index and width of each tile of a level that `new` hashes have and `old` ones had not."""
    if old == new:
        return
    for index in range(old // TILE_WIDTH, new // TILE_WIDTH):
        yield index, TILE_WIDTH
    # "Empty tiles MUST NOT be served."
    if new % TILE_WIDTH:
        yield new // TILE_WIDTH, new % TILE_WIDTH


def _place_path(index: int, width: int) -> str:
    """ "zero-padded 3-digit path elements. All but the last path element MUST begin with an `x`" """
    digits = str(index)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[start : start + 3] for start in range(0, len(digits), 3)]
    partial = "" if width == TILE_WIDTH else f".p/{width}"
    return "/".join([*(f"x{group}" for group in groups[:-1]), groups[-1]]) + partial


def _check_place(index: int, width: int, level: int) -> None:
    if not 1 <= width <= TILE_WIDTH:
        raise Malformed(f"tile: width is 1 to {TILE_WIDTH}, not {shown(width)}")
    if index < 0 or (index * TILE_WIDTH + width) << TILE_LEVELS * level > SIZE_MAX:
        raise Malformed(f"tile: no log has a tile of level {level} with index {shown(index)}")


def _check_sizes(old_size: int, new_size: int) -> None:
    if not 0 <= old_size <= new_size <= SIZE_MAX:
        raise ValueError(f"sizes are 0 <= old <= new <= {SIZE_MAX}, not {shown(old_size)} and {shown(new_size)}")
