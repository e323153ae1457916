"""A log as a folder of tiles that anybody may fetch (C2SP tlog-tiles): write it, and find the bytes of its paths.

- Rule 1: `checkpoint` is written last, when every file that its size needs is durable and leads to its root.
- Rule 2: a file that is there is not written again. What was cut short goes on where it stopped.
- Rule 3: a folder whose checkpoint is larger than ours, or not the beginning of our log, is left as it is: the store
  was put back to an older state, or the folder is that of another log.
- Rule 4: what goes out is recomputed from the leaf entries, so that damage in the store stays there.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sealbook.journal.errors import InvalidInput
from sealbook.merkle import tiles, tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed, VerificationError, shown
from sealbook.merkle.hashing import leaf_hash
from sealbook.merkle.note import NOTE_BYTES_MAX, Note
from sealbook.merkle.tiles import CHECKPOINT_PATH, TILE_WIDTH, EntryBundle, HashTile
from sealbook.merkle.tree import Node

FILE_MODE = 0o644  # a web server of another user may read them: nothing here is secret
NEW_SUFFIX = ".new"  # a file before it is whole; no tile's path ends so


class TileLog(Protocol):
    """The log that the tiles are made of. A `Tenant` is one."""

    def leaf_entries(self, start: int, limit: int) -> Sequence[bytes]:
        """The entries of at most `limit` leaves from number `start` on."""
        ...

    def tree_nodes(self, nodes: Sequence[Node]) -> Sequence[bytes]:
        """The stored hashes of these complete subtrees, in their order."""
        ...


class Folder(Protocol):
    """What can be served: bytes under the paths of tlog-tiles."""

    def find(self, path: str) -> bytes | None:
        """The bytes that stand there; None where there are none."""
        ...


@dataclass(frozen=True, slots=True)
class Beside:
    """Hash tiles of another log, which go out with this one's: under which path, and from which size to which, where
    the root is this one."""

    path: str
    log: TileLog
    old_size: int
    new_size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class Written:
    """What `write_tiles` did: the folder's size before and after, and how many files are new."""

    old_size: int
    new_size: int
    files: int


def checkpoint_of(note: bytes) -> Checkpoint:
    """The checkpoint that a signed note states. Its signatures are not looked at: whoever fetches it does that."""
    return Checkpoint.parse(Note.parse(note).text)


def check_ours(log: TileLog, checkpoint: Checkpoint, origin: str, size: int) -> None:
    """The checkpoint is one of this log of `origin`, which has `size` leaves."""
    if checkpoint.origin != origin:
        raise VerificationError(f"the checkpoint is of {shown(checkpoint.origin)}, the log is {shown(origin)}")
    if checkpoint.size > size:
        raise VerificationError(f"the checkpoint has size {checkpoint.size}, the log has {size}: the log is older")
    root = tree.root(checkpoint.size, log.tree_nodes)
    if root != checkpoint.root:
        raise VerificationError(
            f"at size {checkpoint.size} the log has root {root.hex()}, the checkpoint {checkpoint.root.hex()}"
        )


def write_tiles(
    folder: Path,
    log: TileLog,
    note: bytes,
    *,
    sizes_after: Callable[[int], Iterable[int]] = lambda size: (),
    beside: Callable[[int, int], Iterable[Beside]] = lambda old_size, new_size: (),
) -> Written:
    """Bring the folder to the size of the signed checkpoint `note`, which is one of this log (`check_ours`).

    `sizes_after(size)` answers the sizes above that one, smallest first, that were published as well: their partial
    tiles are written too. `beside(old_size, new_size)` answers what other logs' tiles go out when this one grows so
    far. Raises `VerificationError`, with nothing written, by Rule 3, and with the old checkpoint in place by Rule 4."""
    checkpoint = checkpoint_of(note)
    _refuse_foreign(folder)
    new_folders = _make_folder(folder)
    with _locked(folder):
        old = size = _earlier(folder, log, checkpoint)
        writer = _Writer(folder)
        # tlog-tiles: a client that has a checkpoint of one of these sizes asks for the partial tiles of that size.
        between = itertools.takewhile(lambda published: published < checkpoint.size, sizes_after(old))
        for published in (*between, checkpoint.size):
            _write_growth(writer, log, size, published)
            size = published
        for other in beside(old, checkpoint.size):
            for tile in tiles.hash_tiles(old_size=other.old_size, new_size=other.new_size):
                writer.write(other.path + tile.path(), tiles.encode_tile(tile, other.log.tree_nodes))
            _check_root(folder / other.path, other.new_size, other.root)
        writer.sync(new_folders)
        _check_root(folder, checkpoint.size, checkpoint.root)
        writer.replace(CHECKPOINT_PATH, note)
        writer.sync([folder])
    return Written(old, checkpoint.size, writer.files)


def _write_growth(writer: _Writer, log: TileLog, old_size: int, new_size: int) -> None:
    for bundle in tiles.entry_bundles(old_size=old_size, new_size=new_size):
        writer.write(bundle.path(), _bundle(log, bundle))
    for tile in tiles.hash_tiles(old_size=old_size, new_size=new_size):
        writer.write(tile.path(), tiles.encode_tile(tile, log.tree_nodes))


class FolderOfTiles:
    """A folder that `write_tiles` keeps. A partial tile of a size that was never written here is cut from a wider one
    of the same place, since a client may hold a checkpoint that it has from a witness."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, path: str) -> bytes | None:
        """The bytes of the checkpoint, tile or bundle at this path; None for any path of another kind."""
        tag, rest = tiles.split_tenant_path(path)
        if tag is not None:
            beside = FolderOfTiles(self._folder / tiles.tenant_path(tag))
            return beside.find(rest) if isinstance(_tile_at(rest), HashTile) else None
        if path == CHECKPOINT_PATH:
            return _read(self._folder / path)
        tile = _tile_at(path)
        if tile is None:
            return None
        data = _read(self._folder / tile.path())
        return self._cut(tile) if data is None and tile.width < TILE_WIDTH else data

    def _cut(self, tile: HashTile | EntryBundle) -> bytes | None:
        for wider in self._wider(tile):
            data = _read(self._folder / wider.path())
            if data is not None:
                return _narrowed(tile, wider, data)
        return None

    def _wider(self, tile: HashTile | EntryBundle) -> Iterator[HashTile | EntryBundle]:
        try:
            names = [entry.name for entry in (self._folder / tile.path()).parent.iterdir()]
        except OSError:
            names = []
        widths = (int(name) for name in names if name.isascii() and name.isdecimal())
        for width in sorted(width for width in widths if tile.width < width < TILE_WIDTH):
            yield _resized(tile, width)
        yield tile.full()


class StoreOfTiles:
    """The tiles of a log as its store has them, up to the size of the latest signed checkpoint (`published`)."""

    def __init__(self, log: TileLog, published: Callable[[], bytes | None]) -> None:
        self._log = log
        self._published = published

    def find(self, path: str) -> bytes | None:
        """The bytes of the checkpoint, tile or bundle at this path; None for what the checkpoint does not cover."""
        note = self._published()
        if path == CHECKPOINT_PATH or note is None:
            return note if path == CHECKPOINT_PATH else None
        tile = covered_tile(path, checkpoint_of(note).size)
        if tile is None:
            return None
        if isinstance(tile, EntryBundle):
            return _bundle(self._log, tile)
        return tiles.encode_tile(tile, self._log.tree_nodes)


def covered_tile(path: str, size: int) -> HashTile | EntryBundle | None:
    """The tile or bundle at this path, when a log of this size has it."""
    tile = _tile_at(path)
    level = tile.level if isinstance(tile, HashTile) else 0
    if tile is None or tile.index * TILE_WIDTH + tile.width > size >> tiles.TILE_LEVELS * level:
        return None
    return tile


def _tile_at(path: str) -> HashTile | EntryBundle | None:
    try:
        return tiles.parse_path(path)
    except Malformed:
        return None


def _earlier(folder: Path, log: TileLog, checkpoint: Checkpoint) -> int:
    """The size that the folder has, by Rule 3; 0 for a folder without a checkpoint."""
    data = _read(folder / CHECKPOINT_PATH)
    if data is None:
        return 0
    earlier = checkpoint_of(data)
    if earlier.origin != checkpoint.origin:
        raise VerificationError(
            f"{folder} holds the tiles of {shown(earlier.origin)}, not of {shown(checkpoint.origin)}"
        )
    if earlier.size > checkpoint.size:
        raise VerificationError(
            f"{folder} holds size {earlier.size}, the published checkpoint has {checkpoint.size}: the store is older"
            " than what was published"
        )
    root = tree.root(earlier.size, log.tree_nodes)
    if root != earlier.root:
        raise VerificationError(
            f"{folder} holds size {earlier.size} with root {earlier.root.hex()}, which is not the beginning of the log"
            f" of size {checkpoint.size}: there its root is {root.hex()}"
        )
    return earlier.size


def _bundle(log: TileLog, bundle: EntryBundle) -> bytes:
    leaves = bundle.leaves()
    entries = log.leaf_entries(leaves.start, bundle.width)
    hashes = log.tree_nodes([Node(0, index) for index in leaves])
    for index, entry, stored in zip(leaves, entries, hashes, strict=True):
        if leaf_hash(entry) != stored:
            raise VerificationError(f"leaf {index} has another entry than its hash says: verify the store")
    return tiles.encode_bundle(bundle, entries)


def _check_root(folder: Path, size: int, signed: bytes) -> None:
    """tlog-tiles: what stands in the folder leads to the root that is signed."""

    def fetch(wanted: Sequence[HashTile]) -> list[bytes]:
        return [(folder / tile.path()).read_bytes() for tile in wanted]

    root = tree.root(size, tiles.tile_reader(size, fetch))
    if root != signed:
        raise VerificationError(f"the tiles of size {size} lead to root {root.hex()}, signed is {signed.hex()}")


class _Writer:
    """Writes files so that each is whole under its name, and remembers which folders must be made durable."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._touched: dict[Path, None] = {}
        self.files = 0

    def write(self, path: str, data: bytes) -> None:
        target = self._folder / path
        # It may have been written by a run that was killed before the folder was durable, so the folder counts.
        self._touch(target.parent)
        found = _read(target)
        if found is None:
            self._put(target, data)
        elif found != data:
            raise VerificationError(f"{target} holds something else than the log: move the folder away")

    def replace(self, path: str, data: bytes) -> None:
        target = self._folder / path
        if _read(target) != data:
            self._put(target, data)

    def sync(self, more: Sequence[Path]) -> None:
        """Make the names of all files written so far durable."""
        for folder in [*self._touched, *more]:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        self._touched.clear()

    def _touch(self, folder: Path) -> None:
        while folder not in self._touched:
            self._touched[folder] = None
            if folder == self._folder:
                folder.mkdir(exist_ok=True)
                return
            folder.mkdir(parents=True, exist_ok=True)
            folder = folder.parent

    def _put(self, target: Path, data: bytes) -> None:
        new = target.with_name(target.name + NEW_SUFFIX)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        new.replace(target)
        self.files += 1


def _make_folder(folder: Path) -> list[Path]:
    """Make the folder; returns those in which a new name stands, which are to be made durable."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return [place.parent for place in missing]


def _refuse_foreign(folder: Path) -> None:
    """Whatever stands in the folder goes out to everybody: none that holds other things may become one of tiles."""
    try:
        names = set(os.listdir(folder))
    except OSError:
        return  # not there yet, or what making it will say
    ours = {CHECKPOINT_PATH, CHECKPOINT_PATH + NEW_SUFFIX, "tile", "tenant"}
    if CHECKPOINT_PATH not in names and (foreign := sorted(names - ours)):
        raise InvalidInput("path", str(folder), f"holds {foreign[0]} and no tiles: name a folder that is not there yet")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer at a time. The lock is the folder's own, so that no other file stands in it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(NOTE_BYTES_MAX + 1)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    if len(data) > NOTE_BYTES_MAX:
        raise VerificationError(f"{path} has more than {NOTE_BYTES_MAX} bytes")
    return data


def _resized(tile: HashTile | EntryBundle, width: int) -> HashTile | EntryBundle:
    if isinstance(tile, EntryBundle):
        return EntryBundle(tile.index, width)
    return HashTile(tile.level, tile.index, width)


def _narrowed(tile: HashTile | EntryBundle, wider: HashTile | EntryBundle, data: bytes) -> bytes:
    """The bytes of `tile`, out of those of one that begins like it."""
    if isinstance(wider, EntryBundle):
        assert isinstance(tile, EntryBundle)
        return tiles.encode_bundle(tile, tiles.decode_bundle(wider, data)[: tile.width])
    return b"".join(tiles.decode_tile(wider, data)[: tile.width])
