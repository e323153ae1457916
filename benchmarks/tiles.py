"""How long `log tiles` takes for a log of many leaves, and for those that come after: CPU seconds, and files written.

    python benchmarks/tiles.py [LEAVES]        1,000,000 unless given

The store is filled with the rows of a log and nothing else: what is measured reads leaves and nodes alone.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from sealbook.cli.tiles import Written, write_tiles
from sealbook.journal import Journal, Moment, tables
from sealbook.journal.engine.port import Place, Snapshot, Writes
from sealbook.journal.seals import snapshot_reader
from sealbook.journal.tables import TenantRow
from sealbook.merkle import tree
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.keys import Algorithm, Signer
from sealbook.merkle.note import Note, sign_text

TENANT = "default"
LEAVES = 1_000_000
MORE = 1_000
BATCH = 10_000
SIGNER = Signer.from_seed("sealbook", Algorithm.ED25519, bytes(32))


def main(leaves: int) -> None:
    """Fill a store, write its tiles, grow it, write those that are missing."""
    with tempfile.TemporaryDirectory() as place, Journal.open(Path(place) / "s", create=True) as journal:
        print(f"filling a log of {leaves} leaves", file=sys.stderr)
        _grow(journal, 0, leaves)
        _report(journal, Path(place) / "tiles", leaves)
        _grow(journal, leaves, leaves + MORE)
        _report(journal, Path(place) / "tiles", MORE)


def _report(journal: Journal, folder: Path, leaves: int) -> None:
    tenant = journal.tenant(TENANT)
    text = tenant.checkpoint().text()
    note = Note(text, (sign_text(text, SIGNER),)).encode()
    cpu, wall = time.process_time(), time.perf_counter()
    written: Written = write_tiles(folder, tenant, note)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(
        f"{leaves:>9} leaves, from size {written.old_size} to {written.new_size}: {written.files} files,"
        f" {cpu:.2f} s of CPU, {wall:.2f} s in all"
    )


def _grow(journal: Journal, old: int, new: int) -> None:
    for start in range(old, new, BATCH):
        stop = min(new, start + BATCH)

        def work(snapshot: Snapshot, moment: Moment, start: int = start, stop: int = stop) -> tuple[Writes, None]:
            entries = [LeafEntry(LeafType.ANCHOR, index.to_bytes(32), 1, bytes(32)) for index in range(start, stop)]
            puts: dict[Place, bytes] = {
                (tables.LEAVES, tables.number_key(TENANT, index)): entry.encode()
                for index, entry in enumerate(entries, start)
            }
            read = snapshot_reader(TENANT, snapshot)
            for node, value in tree.added(start, [entry.hash() for entry in entries], read):
                puts[tables.node_place(TENANT, node)] = value
            place = (tables.TENANTS, TENANT.encode())
            counts = TenantRow.decode(TENANT, snapshot.get_many([place])[0])
            puts[place] = counts._replace(leaves=stop).encode()
            return Writes(puts), None

        journal._write(work)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else LEAVES)
