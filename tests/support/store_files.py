"""Change a store on disk past every rule, straight in its tables."""

from __future__ import annotations

from pathlib import Path

from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.lmdb import LmdbEngine
from sealbook.journal.engine.port import Place, Writes


def change(store: Path, place: Place, value: bytes | None) -> None:
    """Write past every rule, straight into the table."""
    engine = LmdbEngine.open(store, readonly=False, clock=system_clock)
    writes = Writes(deletes={place}) if value is None else Writes({place: value})
    engine.write(lambda snapshot, moment: (writes, None))
    engine.close()


def value(store: Path, place: Place) -> bytes:
    """The row, which must be there."""
    engine = LmdbEngine.open(store, readonly=True, clock=system_clock)
    with engine.snapshot() as snapshot:
        [found] = snapshot.get_many([place])
    engine.close()
    assert found is not None
    return found


def flip(store: Path, place: Place, at: int = -1) -> None:
    """Change one byte of the row."""
    changed = bytearray(value(store, place))
    changed[at] ^= 1
    change(store, place, bytes(changed))
