"""The tiles of the store log, and beside them those of the tenants' logs, so that one folder or URL suffices a monitor.

    checkpoint, tile/...                   the store log's own, as tlog-tiles has them
    tenant/<tag in hex>/tile/<level>/...   hash tiles of the log that stands under this tag, as far as a head covers it

With them a monitor computes the proof that a head extends the one before it. They have no checkpoint, since the heads
say what their roots must be, and no entry bundles: leaf hashes tell nothing of the runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealbook.cli.serving.tiles import Beside, StoreOfTiles, checkpoint_of, covered_tile
from sealbook.merkle import tiles
from sealbook.merkle.tenant_head import TenantHead
from sealbook.merkle.tiles import HashTile

if TYPE_CHECKING:
    from sealbook.journal import Journal, StoreLog

PAGE_LEAVES = 1000


@dataclass(frozen=True, slots=True)
class TenantTiles:
    """What goes out beside the store log's own tiles."""

    journal: Journal
    log: StoreLog

    def grown(self, old_size: int, new_size: int) -> Iterator[Beside]:
        """How far the tenants' logs have come from one size of the store log to another, head by head. A log that went
        on under a new origin is left out as far as it stood under its old tag: its tree is not there any more."""
        tenants, sizes = self.log.tags(), dict[bytes, int]()
        for start in range(old_size, new_size, PAGE_LEAVES):
            data = self.log.leaf_entries(start, min(PAGE_LEAVES, new_size - start))
            for index, head in enumerate(map(TenantHead.decode, data), start):
                tenant = tenants.get(head.tag)
                if tenant is None:
                    continue
                before = sizes[head.tag] if head.tag in sizes else self._size_before(tenant, head.tag, index)
                sizes[head.tag] = head.size
                yield Beside(tiles.tenant_path(head.tag), self.journal.tenant(tenant), before, head.size, head.root)

    def _size_before(self, tenant: str, tag: bytes, index: int) -> int:
        earlier = self.log.head(tenant, index)
        return earlier[1].size if earlier is not None and earlier[1].tag == tag else 0


class StoreLogOfTiles:
    """The tiles of a store log as its store has them, up to its latest published checkpoint."""

    def __init__(self, journal: Journal, log: StoreLog) -> None:
        self._journal, self._log = journal, log
        self._own = StoreOfTiles(log, log.published_checkpoint)
        self._tenants: dict[bytes, str] = {}
        self._looked_at = -1  # the size of the store log, when it was last looked whose log stands under which tag

    def find(self, path: str) -> bytes | None:
        """The bytes of the checkpoint, tile or bundle at this path; None for what the checkpoint does not cover."""
        tag, rest = tiles.split_tenant_path(path)
        if tag is None:
            return self._own.find(path)
        note = self._log.published_checkpoint()
        if note is None:
            return None
        size = checkpoint_of(note).size
        tenant = self._tenant(tag, size)
        found = None if tenant is None else self._log.head(tenant, size)
        if tenant is None or found is None or found[1].tag != tag:
            return None
        tile = covered_tile(rest, found[1].size)
        return tiles.encode_tile(tile, self._journal.tenant(tenant).tree_nodes) if isinstance(tile, HashTile) else None

    def _tenant(self, tag: bytes, size: int) -> str | None:
        """Whose log stood under the tag when it was last looked for, once for each size of the store log: whoever asks
        for tags that nobody has would otherwise have all tenants read each time. Whether it still does, its head
        says."""
        if tag not in self._tenants and size != self._looked_at:
            self._tenants, self._looked_at = self._log.tags(), size
        return self._tenants.get(tag)
