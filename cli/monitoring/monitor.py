"""Follow a log in public: read every leaf since the last visit, hold it to the rules, and remember all of it.

- Rule 1: the checkpoint is one that the policy accepts.
- Rule 2: the leaves since the last visit, after those remembered, lead to the checkpoint's root. So the log has only
  grown: one that is smaller, or forked, is refused, and what is remembered stays as it was.
- Rule 3: the leaves keep the rules of a log (`merkle.monitor`).
- Rule 4: a log of another origin is accepted only when its first leaf goes on from the checkpoint remembered.
- Rule 5: in a log of logs, what each leaf of a tag says extends what the one before it said. The proof is computed from
  the tenant's own tiles, which stand beside the log's. A tag whose tiles are not served is not monitored, and is taken
  up again at the next visit where it was left; tiles that contradict the leaves are refused.

What is remembered stands in one file (`monitor_state`), of which a visit is one transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sealbook.cli.monitoring.state import MonitorState, Remembered
from sealbook.cli.publishing.transport import ClientMissing
from sealbook.cli.serving.tiles import Folder, FolderOfTiles
from sealbook.journal.errors import EngineFailed, NotFound
from sealbook.merkle import tiles, tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import VerificationError, shown
from sealbook.merkle.hashing import LeafHash, leaf_hash
from sealbook.merkle.monitor import Growth, check_handed_over, decode_leaf, tag_of
from sealbook.merkle.note import NOTE_BYTES_MAX
from sealbook.merkle.policy import Policy
from sealbook.merkle.tenant_head import TenantHead
from sealbook.merkle.tiles import CHECKPOINT_PATH, TILE_WIDTH, HashTile
from sealbook.merkle.verify import verify_consistency

SECONDS_MAX = 15.0  # to connect, and between any two parts of an answer
BODY_SECONDS_MAX = 120.0  # from the first part of an answer to its last
MISSING_MAX = 5  # leaves of the old log that are named when a new one lacks them


# --- a visit ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Visit:
    """What a visit found: the log's sizes before and after, and, when it went on from another log, that one's origin
    and the positions of its leaves that the new log lacks. `monitored` counts the tags of a log of logs whose leaves
    were all shown to extend one another, and `unmonitored` names the others."""

    number: int
    checkpoint: Checkpoint
    old_size: int
    went_on_from: str | None = None
    lost: tuple[int, ...] = ()
    monitored: int = 0
    unmonitored: tuple[bytes, ...] = ()


def visit(source: Folder, policy: Policy, state: MonitorState, where: str) -> Visit:
    """Read what is new in the log, by all rules. Raises `VerificationError` by the first that is broken."""
    note, checkpoint = current(source, policy, where)
    seen = state.latest()
    if seen is None:
        return _read(source, state, Remembered(1, Checkpoint(checkpoint.origin, 0, _empty()), ()), checkpoint, note)
    if seen.checkpoint.origin != checkpoint.origin:
        return _handed_over(source, state, seen, checkpoint, note)
    if checkpoint.size < seen.checkpoint.size:
        raise VerificationError(
            f"the log has size {checkpoint.size}, and size {seen.checkpoint.size} was seen before: it lost what it had"
            " published, or this is an older copy"
        )
    return _read(source, state, seen, checkpoint, note)


def current(source: Folder, policy: Policy, where: str) -> tuple[bytes, Checkpoint]:
    """The log's latest checkpoint, as the note that is served and as the policy accepts it. `NotFound` without one."""
    note = source.find(CHECKPOINT_PATH)
    if note is None:
        raise NotFound("checkpoint of the log at", where)
    return note, policy.open(note).checkpoint


def _empty() -> bytes:
    return Growth().root()


def _handed_over(source: Folder, state: MonitorState, seen: Remembered, checkpoint: Checkpoint, note: bytes) -> Visit:
    if checkpoint.size == 0:
        raise VerificationError(f"the log {shown(checkpoint.origin)} is empty and goes on from no other one")
    first = decode_leaf(next(_leaves(source, 0, checkpoint.size)))
    try:
        check_handed_over(first, seen.checkpoint)
    except VerificationError as error:
        was, here = shown(seen.checkpoint.origin), shown(checkpoint.origin)
        raise VerificationError(f"{here} is not {was}, the log that is followed: {error}") from error
    fresh = Remembered(seen.number + 1, Checkpoint(checkpoint.origin, 0, _empty()), ())
    found = _read(source, state, fresh, checkpoint, note)
    lost = state.lost(seen.number, fresh.number)
    return replace(found, went_on_from=seen.checkpoint.origin, lost=tuple(lost))


def _read(source: Folder, state: MonitorState, seen: Remembered, checkpoint: Checkpoint, note: bytes) -> Visit:
    growth, rules = Growth(seen.checkpoint.size, seen.peaks), state.rules(seen.number)
    hashes: list[LeafHash] = []
    for position, data in enumerate(_leaves(source, seen.checkpoint.size, checkpoint.size), seen.checkpoint.size):
        leaf = decode_leaf(data)
        tag = tag_of(leaf)
        earlier = None if tag is None else state.newest(seen.number, tag, position)
        rules.check(position, leaf, None if earlier is None else earlier.leaf)
        state.add(seen.number, position, tag, data)
        hashes.append(leaf_hash(data))
        if len(hashes) == TILE_WIDTH:
            growth.add(hashes)
            hashes.clear()
    growth.add(hashes)
    if growth.root() != checkpoint.root:
        known = f", after the {seen.checkpoint.size} seen before," if seen.checkpoint.size else ""
        raise VerificationError(
            f"the log's leaves{known} lead to root {growth.root().hex()} at size {checkpoint.size}, signed is"
            f" {checkpoint.root.hex()}: the log was forked, or its entries are not those that were signed"
        )
    state.accept(seen.number, checkpoint, growth.peaks, note)
    found = Visit(seen.number, checkpoint, seen.checkpoint.size)
    return _monitored(source, state, found) if rules.heads else found


def _leaves(source: Folder, start: int, end: int) -> Iterator[bytes]:
    """The leaves from position `start` up to `end`, bundle by bundle."""
    for bundle in tiles.entry_bundles(old_size=start, new_size=end):
        data = source.find(bundle.path())
        if data is None:  # a partial bundle may be gone once the full one is there
            data = source.find(bundle.full().path())
        if data is None:
            raise VerificationError(f"the log does not serve {bundle.path()}, and signs size {end}")
        entries = tiles.decode_bundle(bundle, data)
        yield from entries[max(0, start - bundle.leaves().start) :]


# --- the logs that a log of logs is about ----------------------------------------------------------------------------


def _monitored(source: Folder, state: MonitorState, found: Visit) -> Visit:
    """Follow each tag from where it was left, by Rule 5."""
    behind = [tag for tag in state.behind(found.number) if not _followed(source, state, found.number, tag)]
    return replace(found, monitored=state.tags(found.number) - len(behind), unmonitored=tuple(behind))


def _followed(source: Folder, state: MonitorState, number: int, tag: bytes) -> bool:
    """Whether every leaf of the tag was shown to extend the one before it."""
    position = state.monitored(number, tag)
    before = state.at(number, position)
    earlier = None if before is None else TenantHead.decode(before)
    while heads := state.heads_after(number, tag, position):
        for position, head in heads:
            if earlier is not None and not _extends(source, position, head, earlier):
                return False
            state.set_monitored(number, tag, position)
            earlier = head
    return True


def _extends(source: Folder, position: int, head: TenantHead, earlier: TenantHead) -> bool:
    """Whether the head is known to extend the earlier one; False where the tiles that show it are not served. Raises
    `VerificationError` when it does not."""
    where = f"leaf {position}, tenant tag {head.tag.hex()}"

    def fetch(wanted: Sequence[HashTile]) -> list[bytes]:
        return [_tile(source, tiles.tenant_path(head.tag), tile) for tile in wanted]

    read = tiles.tile_reader(head.size, fetch)
    try:
        root = tree.root(head.size, read)
        proof = tree.consistency_proof(old_size=earlier.size, new_size=head.size, read=read)
    except NotFound:
        return False
    if root != head.root:
        raise VerificationError(f"{where}: its tiles lead to root {root.hex()}, the head states {head.root.hex()}")
    try:
        verify_consistency(
            old_size=earlier.size, new_size=head.size, old_root=earlier.root, new_root=head.root, proof=proof
        )
    except VerificationError as error:
        raise VerificationError(
            f"{where}: size {head.size} does not begin with size {earlier.size}, which an earlier leaf stated: the"
            f" tenant's log was forked: {error}"
        ) from error
    return True


def _tile(source: Folder, path: str, tile: HashTile) -> bytes:
    data = source.find(path + tile.path())
    if data is None:  # a partial tile may be gone once the full one is there
        data = source.find(path + tile.full().path())
    if data is None:
        raise NotFound("tile", path + tile.path())
    return data


# --- where the log is ------------------------------------------------------------------------------------------------


@contextmanager
def source_of(where: str) -> Iterator[Folder]:
    """The log at this folder or URL."""
    if "://" not in where:
        yield FolderOfTiles(Path(where))
        return
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise ClientMissing(
            f"{error.name} is not installed: `pip install '.[witness]'` in a checkout brings what reads a log over HTTP"
        ) from error
    with httpx2.Client(timeout=SECONDS_MAX, follow_redirects=False) as client:

        def get(url: str) -> bytes | None:
            try:
                with client.stream("GET", url) as response:
                    if response.status_code in (404, 410):
                        return None
                    if response.status_code != 200:
                        raise EngineFailed(f"{url}: HTTP status {response.status_code}")
                    received, deadline = bytearray(), time.monotonic() + BODY_SECONDS_MAX
                    for part in response.iter_bytes():
                        received += part
                        if time.monotonic() > deadline:
                            raise EngineFailed(f"{url}: not all of it came within {BODY_SECONDS_MAX:g} seconds")
                        if len(received) > NOTE_BYTES_MAX:
                            raise VerificationError(f"{url}: more than {NOTE_BYTES_MAX} bytes")
                    return bytes(received)
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise EngineFailed(f"{url}: {type(error).__name__}: {error}") from error

        yield UrlOfTiles(where, get)


class UrlOfTiles:
    """The tiles under a URL."""

    def __init__(self, url: str, get: Callable[[str], bytes | None]) -> None:
        self._url, self._get = url.rstrip("/"), get

    def find(self, path: str) -> bytes | None:
        """The bytes that stand at this path; None where there are none."""
        return self._get(f"{self._url}/{path}")
