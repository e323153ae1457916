"""Where a store's bytes are: what its rows hold, table by table and tenant by tenant, and what the storage adds to it.

Rows are counted by reading all of them, in one snapshot. Pages are the storage's own count and cost nothing. A row of a
table whose keys do not begin with a tenant (`store`, `signers`) is the store's own, as are those of the store log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sealbook.journal.engine.port import Row, Snapshot
from sealbook.journal.records.names import STORE_LOG
from sealbook.journal.schema import tables
from sealbook.journal.store.journal import Journal

PAGE_ROWS = 1000
PAGE_RECORDS = 64  # each may be 4 MiB
OF_NO_TENANT = (tables.STORE, tables.SIGNERS)

Progress = Callable[[int, int], None]  # (rows counted, rows in all)


@dataclass(slots=True)
class Count:
    """How many rows, and the bytes of their keys and values."""

    rows: int = 0
    key_bytes: int = 0
    value_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Keys and values together."""
        return self.key_bytes + self.value_bytes

    def add(self, rows: list[Row]) -> None:
        """Count these rows, too."""
        self.rows += len(rows)
        self.key_bytes += sum(len(key) for key, _ in rows)
        self.value_bytes += sum(len(value) for _, value in rows)


@dataclass(frozen=True, slots=True)
class Usage:
    """What was counted. `tenants` has one count per tenant and table, under `""` the store's own.

    `storage` is what the engine can tell: `page_bytes`, `file_bytes`, `pages`, `free_pages`, and per table
    `pages.<table>`; empty for an engine without pages.
    """

    tables: Mapping[str, Count]
    tenants: Mapping[str, Mapping[str, Count]]
    storage: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> Count:
        """All rows."""
        return _sum(self.tables.values())

    def tenant(self, name: str) -> Count:
        """All rows of the tenant, or of the store itself under `""`."""
        return _sum(self.tenants[name].values())


def usage(journal: Journal, *, progress: Progress | None = None) -> Usage:
    """Count every row. `progress` is called now and then."""
    with journal.view.snapshot() as snapshot:
        counted = count(snapshot, progress=progress)
        storage: Mapping[str, int] = getattr(journal.view.engine, "pages", dict)()
    return Usage(counted.tables, counted.tenants, storage)


def count(snapshot: Snapshot, *, progress: Progress | None = None) -> Usage:
    """What the rows of the snapshot hold."""
    of_tables = {table: Count() for table in tables.TABLES}
    of_tenants: dict[str, dict[str, Count]] = {}
    total = sum(snapshot.count(table) for table in tables.TABLES)
    done = 0
    for table, whole in of_tables.items():
        for name, rows in _by_tenant(snapshot, table):
            whole.add(rows)
            of_tenants.setdefault(name, {}).setdefault(table, Count()).add(rows)
            done += len(rows)
            if progress is not None:
                progress(done, total)
    return Usage(of_tables, dict(sorted(of_tenants.items())))


def _by_tenant(snapshot: Snapshot, table: str) -> Iterator[tuple[str, list[Row]]]:
    """The table's rows in pages, each of rows of one tenant."""
    lo, limit = b"", PAGE_RECORDS if table == tables.JOURNAL else PAGE_ROWS
    while page := snapshot.scan(table, lo, None, limit):
        lo = page[-1][0] + b"\0"
        names = [_tenant_of(table, key) for key, _ in page]
        start = 0
        for end in range(1, len(page) + 1):
            if end == len(page) or names[end] != names[start]:
                yield names[start], page[start:end]
                start = end


def _tenant_of(table: str, key: bytes) -> str:
    if table in OF_NO_TENANT:
        return ""
    name = key.split(b"\0", 1)[0].decode("utf-8", "replace")
    return "" if name == STORE_LOG else name


def _sum(counts: Iterable[Count]) -> Count:
    total = Count()
    for part in counts:
        total.rows += part.rows
        total.key_bytes += part.key_bytes
        total.value_bytes += part.value_bytes
    return total
