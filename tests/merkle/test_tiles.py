"""Tiles: where they stand, what they hold, and which of them a log that grows must write."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.merkle.errors import Malformed
from sealbook.merkle.hashing import LeafHash, leaf_hash
from sealbook.merkle.tiles import (
    TILE_WIDTH,
    EntryBundle,
    HashTile,
    decode_bundle,
    decode_tile,
    encode_bundle,
    encode_tile,
    entry_bundles,
    hash_tiles,
    parse_path,
    split_tenant_path,
    tenant_path,
    tile_reader,
)
from sealbook.merkle.tree import Node, added, consistency_proof, inclusion_proof, root

SIZE = 70_000


@pytest.fixture(scope="module")
def nodes() -> dict[Node, bytes]:
    """Every stored node of a tree of 70,000 leaves; leaf number i holds i as eight bytes, big-endian."""
    leaves: list[LeafHash] = [leaf_hash(number.to_bytes(8)) for number in range(SIZE)]
    return dict(added(0, leaves, lambda _: []))


@pytest.fixture(scope="module")
def read(nodes: dict[Node, bytes]) -> Callable[[Sequence[Node]], list[bytes]]:
    return lambda wanted: [nodes[node] for node in wanted]


def test_a_tree_of_70_000_leaves_has_the_tiles_of_the_specification() -> None:
    tiles = list(hash_tiles(old_size=0, new_size=SIZE))
    counted = {
        (tile.level, tile.width): sum((other.level, other.width) == (tile.level, tile.width) for other in tiles)
        for tile in tiles
    }
    assert counted == {(0, 256): 273, (0, 112): 1, (1, 256): 1, (1, 17): 1, (2, 1): 1}


def test_256_leaves_are_a_full_tile_and_one_hash_above() -> None:
    assert list(hash_tiles(old_size=0, new_size=256)) == [HashTile(0, 0), HashTile(1, 0, 1)]


def test_an_empty_log_and_one_that_does_not_grow_have_nothing_to_write() -> None:
    for size in (0, 1, 255, 256, 257, SIZE):
        assert list(hash_tiles(old_size=size, new_size=size)) == []
        assert list(entry_bundles(old_size=size, new_size=size)) == []


def naive_tiles(size: int) -> set[HashTile]:
    """floor(s / 256**l) hashes stand at level l: full tiles, and one partial tile for what is left."""
    tiles = set()
    for level in range(8):
        hashes = size // 256**level
        tiles |= {HashTile(level, index) for index in range(hashes // 256)}
        if hashes % 256:
            tiles.add(HashTile(level, hashes // 256, hashes % 256))
    return tiles


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, 200_000) | st.sampled_from([1, 255, 256, 257, 65_535, 65_536, 65_537]), max_size=5))
def test_what_is_written_step_by_step_is_what_every_size_on_the_way_needs(sizes: list[int]) -> None:
    written: set[HashTile] = set()
    bundles: set[EntryBundle] = set()
    before = 0
    for size in sorted(sizes):
        tiles = list(hash_tiles(old_size=before, new_size=size))
        assert len(set(tiles)) == len(tiles)
        assert written.isdisjoint(tiles), "a file never changes"
        written.update(tiles)
        bundles.update(entry_bundles(old_size=before, new_size=size))
        assert naive_tiles(size) <= written
        assert bundles == {EntryBundle(tile.index, tile.width) for tile in written if tile.level == 0}
        before = size


def test_sizes_that_shrink_or_overflow_are_refused() -> None:
    for old, new in ((2, 1), (-1, 1), (0, 2**63)):
        with pytest.raises(ValueError, match="sizes are"):
            list(hash_tiles(old_size=old, new_size=new))
        with pytest.raises(ValueError, match="sizes are"):
            list(entry_bundles(old_size=old, new_size=new))


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (HashTile(0, 0), "tile/0/000"),
        (HashTile(0, 1234067), "tile/0/x001/x234/067"),
        (HashTile(1, 999), "tile/1/999"),
        (HashTile(1, 1000), "tile/1/x001/000"),
        (HashTile(2, 0, 1), "tile/2/000.p/1"),
        (HashTile(0, 273, 112), "tile/0/273.p/112"),
        (HashTile(0, 2**55 - 1, 255), "tile/0/x036/x028/x797/x018/x963/967.p/255"),
        (EntryBundle(0), "tile/entries/000"),
        (EntryBundle(1234067, 9), "tile/entries/x001/x234/067.p/9"),
    ],
)
def test_a_path_is_read_as_it_is_written(tile: HashTile | EntryBundle, path: str) -> None:
    assert tile.path() == path
    assert parse_path(path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/tile/0/000",
        "tile/0/000/",
        "tile/0/0",
        "tile/0/1234",
        "tile/0/x000/001",
        "tile/0/001/067",
        "tile/0/x001",
        "tile/00/000",
        "tile/-1/000",
        "tile/64/000",
        "tile/8/000",
        "tile/data/000",
        "tile/entries",
        "tile/0/000.p/0",
        "tile/0/000.p/01",
        "tile/0/000.p/256",
        "tile/0/000.p/",
        "tile/0/000.p",
        "tile/0/x999/x999/x999/x999/x999/999",
        "tile/0/x001/x001/x001/x001/x001/x001/001",
        "tile/0/٠٠٠",
        "tile/0/000\n",
        "tile/0/../000",
        "checkpoint",
    ],
)
def test_a_path_of_no_tile_is_refused(path: str) -> None:
    with pytest.raises(Malformed):
        parse_path(path)


@pytest.mark.parametrize(
    ("level", "index", "width"), [(-1, 0, 1), (64, 0, 1), (0, -1, 1), (0, 0, 0), (0, 0, 257), (0, 2**55, 1)]
)
def test_a_tile_that_no_log_has_cannot_be_made(level: int, index: int, width: int) -> None:
    with pytest.raises(Malformed):
        HashTile(level, index, width)


def test_a_tile_holds_the_hashes_that_the_specification_names(read: Callable[[Sequence[Node]], list[bytes]]) -> None:
    def mth(start: int, end: int) -> bytes:
        """MTH(D[start:end]) of a complete subtree, through the root of those leaves as a tree of their own."""
        leaves = [leaf_hash(number.to_bytes(8)) for number in range(start, end)]
        own = dict(added(0, leaves, lambda _: []))
        return root(end - start, lambda wanted: [own[node] for node in wanted])

    for tile, i in ((HashTile(0, 3, 7), 6), (HashTile(0, 272), 255), (HashTile(1, 1, 17), 16), (HashTile(1, 0), 9)):
        first = (tile.index * 256 + i) * 256**tile.level
        assert decode_tile(tile, encode_tile(tile, read))[i] == mth(first, first + 256**tile.level)
    assert encode_tile(HashTile(2, 0, 1), read) == mth(0, 256**2)


def test_a_partial_tile_is_the_beginning_of_the_full_one(read: Callable[[Sequence[Node]], list[bytes]]) -> None:
    partial = HashTile(0, 5, 100)
    full = encode_tile(partial.full(), read)
    assert full.startswith(encode_tile(partial, read))
    assert decode_tile(partial, full) == decode_tile(partial, encode_tile(partial, read))


def test_a_tile_of_another_length_is_refused(read: Callable[[Sequence[Node]], list[bytes]]) -> None:
    tile = HashTile(0, 5, 100)
    data = encode_tile(tile, read)
    for wrong in (b"", data[:-1], data[:-32], data + data[:32], data + b"\0"):
        with pytest.raises(Malformed, match=r"tile/0/005\.p/100 has 3200 bytes"):
            decode_tile(tile, wrong)
    with pytest.raises(ValueError, match="answered"):
        encode_tile(tile, lambda wanted: [b"short"] * len(wanted))


def test_entry_bundles_are_read_as_they_are_written() -> None:
    bundle = EntryBundle(0, 3)
    entries = [b"", b"a", b"b" * 65_535]
    data = encode_bundle(bundle, entries)
    assert data[:6] == b"\0\0\0\x01a\xff"
    assert decode_bundle(bundle, data) == entries
    full = encode_bundle(EntryBundle(0), entries + [b"x"] * 253)
    assert decode_bundle(bundle, full) == entries
    assert list(EntryBundle(2, 3).leaves()) == [512, 513, 514]


def test_a_bundle_that_is_cut_padded_or_of_another_width_is_refused() -> None:
    bundle = EntryBundle(0, 3)
    data = encode_bundle(bundle, [b"one", b"two", b"three"])
    for wrong in (b"", data[:-1], data[:6], data + b"\0", data + b"\0\0", data[:-7] + b"\xff\xff" + data[-5:]):
        with pytest.raises(Malformed, match=r"tile/entries/000\.p/3"):
            decode_bundle(bundle, wrong)
    with pytest.raises(Malformed, match="tile/entries/000"):
        decode_bundle(EntryBundle(0), encode_bundle(EntryBundle(0), [b"x"] * 256) + b"\0\0")
    with pytest.raises(ValueError, match="has 3 entries, not 2"):
        encode_bundle(bundle, [b"one", b"two"])
    with pytest.raises(ValueError, match="at most 65535 bytes"):
        encode_bundle(bundle, [b"one", b"two", b"x" * 65_536])


def test_roots_and_proofs_from_tiles_are_those_of_the_stored_tree(
    read: Callable[[Sequence[Node]], list[bytes]],
) -> None:
    seed = 20261
    print("seed", seed)
    chance = random.Random(seed)
    asked: list[Sequence[HashTile]] = []

    for size in [1, 255, 256, 257, 65_535, 65_536, 65_537, SIZE] + [chance.randint(2, SIZE) for _ in range(30)]:
        published = naive_tiles(size)

        def fetch(tiles: Sequence[HashTile], published: set[HashTile] = published) -> list[bytes]:
            asked.append(tiles)
            assert published.issuperset(tiles), "a tile of this size and no other"
            return [encode_tile(tile, read) for tile in tiles]

        reader = tile_reader(size, fetch)
        index, old_size = chance.randrange(size), chance.randint(1, size)
        assert root(size, reader) == root(size, read)
        assert inclusion_proof(index=index, size=size, read=reader) == inclusion_proof(
            index=index, size=size, read=read
        )
        assert consistency_proof(old_size=old_size, new_size=size, read=reader) == consistency_proof(
            old_size=old_size, new_size=size, read=read
        )
    assert max(len(tiles) for tiles in asked) <= 6
    assert all(len(set(tiles)) == len(tiles) for tiles in asked)


def test_full_tiles_stand_in_for_deleted_partial_ones(read: Callable[[Sequence[Node]], list[bytes]]) -> None:
    reader = tile_reader(
        1000, lambda tiles: [encode_tile(tile.full() if tile.level == 0 else tile, read) for tile in tiles]
    )
    assert root(1000, reader) == root(1000, read)


def test_a_node_beyond_the_size_is_refused(read: Callable[[Sequence[Node]], list[bytes]]) -> None:
    reader = tile_reader(1000, lambda tiles: [encode_tile(tile, read) for tile in tiles])
    for node in (Node(0, 1000), Node(3, 125), Node(9, 1)):
        with pytest.raises(ValueError, match="no complete subtree of 1000 leaves"):
            reader([node])
    with pytest.raises(ValueError, match="0 answers for 1 tiles"):
        tile_reader(1000, lambda _: [])([Node(0, 0)])


def test_a_full_tile_has_8192_bytes(read: Callable[[Sequence[Node]], list[bytes]]) -> None:
    assert len(encode_tile(HashTile(0, 0), read)) == 8192 == TILE_WIDTH * 32


def test_a_tenants_tiles_stand_under_its_tag() -> None:
    tag = bytes(range(32))
    path = tenant_path(tag) + HashTile(0, 1).path()
    assert path == f"tenant/{tag.hex()}/tile/0/001"
    assert split_tenant_path(path) == (tag, "tile/0/001")


@pytest.mark.parametrize("tag", ["", "ab" * 31, "AB" * 32, "ab" * 33, "../" * 22])
def test_a_path_under_anything_but_a_tag_is_no_tenants(tag: str) -> None:
    assert split_tenant_path(f"tenant/{tag}/tile/0/001") == (None, f"tenant/{tag}/tile/0/001")
