"""The case index: the records that belong to a case, whichever run wrote them.

    cases        tenant 00 case 00 run 00 block:u64be  ->  u64be: bit i is set when record 64 × block + 1 + i is one

The one index over records: a case's runs alone would miss what runs of other cases wrote for it. A run's records of
one case stand close together, so a row speaks of a block of 64.
"""

from __future__ import annotations

from collections.abc import Iterator

from sealbook.indexes.packing import read_u64, text, u64
from sealbook.indexes.standing import BLOCK_RECORDS

TABLE = "cases"


def place(tenant: str, case: str, run: str, seq: int) -> tuple[str, bytes]:
    """The row that says whether this record belongs to the case."""
    return TABLE, prefix(tenant, case) + text(run) + u64((seq - 1) // BLOCK_RECORDS)


def split_key(key: bytes) -> tuple[str, str, str, int]:
    """(tenant, case, run, block) of a row's key; ValueError when it is none."""
    names = key[:-9].split(b"\0")
    if len(names) != 3 or key[-9:-8] != b"\0":
        raise ValueError("the key is not tenant 00 case 00 run 00 block")
    tenant, case, run = (name.decode() for name in names)
    return tenant, case, run, read_u64(key, len(key) - 8)


def with_record(value: bytes | None, seq: int) -> bytes:
    """The row's value once this record belongs to the case; ValueError when it is no such value."""
    return u64((0 if value is None else _bits(value)) | 1 << (seq - 1) % BLOCK_RECORDS)


def seqs(block: int, value: bytes) -> Iterator[int]:
    """The records of the block that belong to the case, in order; ValueError when the value is none."""
    bits = _bits(value)
    if not bits:
        raise ValueError("the row is of no record")
    return (block * BLOCK_RECORDS + 1 + bit for bit in range(BLOCK_RECORDS) if bits >> bit & 1)


def prefix(tenant: str, case: str) -> bytes:
    """What the keys of all rows of this case begin with."""
    return text(tenant) + text(case)


def _bits(value: bytes) -> int:
    if len(value) != 8:
        raise ValueError("the row is no 64 bits")
    return read_u64(value, 0)
