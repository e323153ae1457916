"""Every table: its key, its value, and the only functions that build and take them apart.

    table        key                              value
  * store        "store"                          ids, formats, restoration, index state, checksum
    tenants      tenant                           what the tenant has: see TenantRow
  * journal      tenant 00 arrival:u64be          row: arrival, prev, hash, flag, [signature], body
    arrivals     tenant 00 run 00 block:u64be     64 × u64be: the arrivals of the run's records 64 × block + 1 and on
  * leases       tenant 00 run                    epoch, expiries, boot id, owner, checksum
    state        tenant 00 run                    the packed Standing, and the arrivals after the last full block
    effects      tenant 00 run 00 key 32          attempt, recovery, status, start seq, end seq
    admissions   tenant 00 digest 32              run
    cancels      tenant 00 run                    seq:u64be of the CancelRequested in ~tenant
  * leaves       tenant 00 index:u64be            leaf entry 90
    positions    tenant 00 run 00 index:u64be     (empty)
    nodes        tenant 00 level:u8 index:u64be   hash 32
  * batches      tenant 00 index:u64be number:u32be   leaf entry 90, run: an entry of the anchor batch at that leaf
    batched      tenant 00 run 00 index:u64be     number:u32be of the run's entry in that batch
    origins      tenant                           seq:u64be of the LogAdopted in ~tenant, origin
    heads        tenant 00 index:u64be            (empty): that leaf of the store log is a head of the tenant's log
  * checkpoints  tenant 00 size:u64be             state u8, signed note, checksum
  * signers      signer id 32                     algorithm u8, public key
    activity, cases, outcome, source, waiting     see each module of `indexes`

The store log's rows in `tenants`, `leaves`, `nodes` and `checkpoints` have `~store` for a tenant, which names none.

`*` is ground truth. All else is derived from it, and `check` derives it again. Lease rows, checkpoints and the store
row have no second home, so they end in 8 bytes of BLAKE3(table ‖ key ‖ value): that finds damage, not forgery.
"""

from __future__ import annotations

import enum
import functools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from blake3 import blake3

from sealbook.indexes.packing import read_u64, text, u64
from sealbook.indexes.registry import INDEX_TABLES
from sealbook.indexes.standing import EffectStatus
from sealbook.journal.engine.port import Place, Snapshot
from sealbook.journal.errors import Corrupt
from sealbook.journal.records.entries import RECOVERIES, length_prefixed
from sealbook.journal.records.names import check_run, check_tenant
from sealbook.journal.records.signatures import ED25519, signer_id
from sealbook.merkle.entry import LEAF_ENTRY_BYTES, LeafEntry
from sealbook.merkle.errors import Malformed
from sealbook.merkle.keys import Algorithm, VerifierKey
from sealbook.merkle.tree import Node

STORE = "store"
TENANTS = "tenants"
JOURNAL = "journal"
ARRIVALS = "arrivals"
LEASES = "leases"
STATE = "state"
EFFECTS = "effects"
ADMISSIONS = "admissions"
CANCELS = "cancels"
LEAVES = "leaves"
POSITIONS = "positions"
NODES = "nodes"
BATCHES = "batches"
BATCHED = "batched"
ORIGINS = "origins"
HEADS = "heads"
CHECKPOINTS = "checkpoints"
SIGNERS = "signers"

TABLES = (
    *(
        STORE,
        TENANTS,
        JOURNAL,
        ARRIVALS,
        LEASES,
        STATE,
        EFFECTS,
        ADMISSIONS,
        CANCELS,
        LEAVES,
        POSITIONS,
        NODES,
        BATCHES,
        BATCHED,
        ORIGINS,
        HEADS,
        CHECKPOINTS,
        SIGNERS,
    ),
    *INDEX_TABLES,
)

FORMAT = 2  # of everything that this page and `indexes` draw
INDEX_VERSION = 1
CHECKSUM_BYTES = 8
PAGE_ROWS = 1000  # small rows per scan
BATCH_NUMBER_BYTES = 4


# --- keys ---------------------------------------------------------------------------------------------------------

STORE_PLACE: Place = (STORE, b"store")


@functools.lru_cache(maxsize=1024)
def run_key(tenant: str, run: str) -> bytes:
    """The key of a run in `state`, `leases` and `cancels`. Cached, because an append needs it a dozen times."""
    return text(tenant) + run.encode()


def block_key(tenant: str, run: str, block: int) -> bytes:
    """The key of a row of `arrivals`: of a full block of the run's records."""
    return run_key(tenant, run) + b"\0" + u64(block)


def number_key(tenant: str, number: int) -> bytes:
    """The key of a record, by its arrival, or of a leaf."""
    return text(tenant) + u64(number)


def effect_key(tenant: str, run: str, key: bytes) -> bytes:
    """The key of an effect."""
    return run_key(tenant, run) + b"\0" + key


def admission_key(tenant: str, secret: bytes, source: str, id: str) -> bytes:
    """The key of an admission: BLAKE3 of the length-prefixed pair, keyed with the store's secret."""
    return text(tenant) + blake3(length_prefixed(source.encode(), id.encode()), key=secret).digest()


def position_key(tenant: str, run: str, index: int) -> bytes:
    """The key that says that the leaf at `index` attests this run; in `batched`, that an anchor batch there does."""
    return run_key(tenant, run) + b"\0" + u64(index)


def batch_key(tenant: str, index: int, number: int) -> bytes:
    """The key of an entry of the anchor batch at leaf `index`."""
    return number_key(tenant, index) + number.to_bytes(BATCH_NUMBER_BYTES)


_NODE = struct.Struct(">BQ")


def node_place(tenant: str, node: Node) -> Place:
    """Where the hash of a complete subtree stands."""
    return NODES, text(tenant) + _NODE.pack(*node)


def prefix_end(prefix: bytes) -> bytes:
    """The least key above all keys with this prefix, which ends in 00 and so can be counted up."""
    assert prefix.endswith(b"\0")
    return prefix[:-1] + b"\1"


def rows_of(snapshot: Snapshot, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of every row of the table whose key begins so, in key order, read in pages."""
    lo, hi = prefix, prefix_end(prefix) if prefix else None
    while page := snapshot.scan(table, lo, hi, PAGE_ROWS):
        yield from page
        lo = page[-1][0] + b"\0"


# --- taking keys apart: ValueError when the key is none of that table's -------------------------------------------


def split_run_key(key: bytes) -> tuple[str, str]:
    """(tenant, run) of a key of `state`, `leases` or `cancels`."""
    tenant, _, run = key.partition(b"\0")
    if not tenant or not run or b"\0" in run:
        raise ValueError("the key is not tenant 00 run")
    return tenant.decode(), run.decode()


def split_tail_key(key: bytes, tail_bytes: int) -> tuple[str, str, bytes]:
    """(tenant, run, tail) of a key of `arrivals`, `positions`, `batched` (tail 8) or `effects` (tail 32)."""
    if len(key) <= tail_bytes + 1 or key[-tail_bytes - 1] != 0:
        raise ValueError("the key is not tenant 00 run 00 and its tail")
    return *split_run_key(key[: -tail_bytes - 1]), key[-tail_bytes:]


def split_position_key(key: bytes) -> tuple[str, str, int]:
    """(tenant, run, index) of a key of `positions` or `batched`, or (tenant, run, block) of one of `arrivals`."""
    tenant, run, tail = split_tail_key(key, 8)
    return tenant, run, read_u64(tail, 0)


def split_number_key(key: bytes) -> tuple[str, int]:
    """(tenant, number) of a key of `journal`, `leaves`, `heads` or `checkpoints`."""
    if len(key) < 10 or key[-9] != 0 or b"\0" in key[:-9]:
        raise ValueError("the key is not tenant 00 number")
    return key[:-9].decode(), read_u64(key, len(key) - 8)


def split_batch_key(key: bytes) -> tuple[str, int, int]:
    """(tenant, index, number) of a key of `batches`."""
    tenant, index = split_number_key(key[:-BATCH_NUMBER_BYTES])
    return tenant, index, int.from_bytes(key[-BATCH_NUMBER_BYTES:])


# --- values -------------------------------------------------------------------------------------------------------
#
# Those that every append makes are named tuples, which cost a quarter of a frozen dataclass to make.


def checksum(place: Place, value: bytes) -> bytes:
    """The 8 bytes that end a row which has neither hash nor second home."""
    table, key = place
    return blake3(table.encode() + key + value).digest(CHECKSUM_BYTES)


def _checked(place: Place, value: bytes, what: str, run: str | None = None) -> bytes:
    content, check = value[:-CHECKSUM_BYTES], value[-CHECKSUM_BYTES:]
    if len(value) < CHECKSUM_BYTES or checksum(place, content) != check:
        raise Corrupt(f"{what} is damaged: its checksum does not match", run, None, place[0], place[1])
    return content


@dataclass(frozen=True, slots=True)
class StoreRow:
    """The one row of table `store`.

    `restoration` counts how often the store was restored. `rebuild` names the reindex under way (8 bytes), or is
    8 zero bytes when the indexes are current.
    """

    store_id: bytes
    lineage_id: bytes
    format: int
    engine_format: int
    restoration: int
    index_version: int
    rebuild: bytes

    _LAYOUT = struct.Struct("<16s16s4I8s")

    @property
    def index_current(self) -> bool:
        """Whether listings may be answered and writers admitted."""
        return self.index_version == INDEX_VERSION and self.rebuild == NO_REBUILD

    def encode(self) -> bytes:
        """The stored value, checksum included."""
        value = self._LAYOUT.pack(
            self.store_id,
            self.lineage_id,
            self.format,
            self.engine_format,
            self.restoration,
            self.index_version,
            self.rebuild,
        )
        return value + checksum(STORE_PLACE, value)

    @classmethod
    @functools.lru_cache(maxsize=8)
    def decode(cls, value: bytes | None) -> StoreRow:
        """The row; `Corrupt` when it is missing or damaged. Cached, because every write begins with it."""
        if value is None:
            raise Corrupt("the store row is missing", None, None, *STORE_PLACE)
        content = _checked(STORE_PLACE, value, "the store row")
        if len(content) != cls._LAYOUT.size:
            raise Corrupt("the store row has another length", None, None, *STORE_PLACE)
        return cls(*cls._LAYOUT.unpack(content))


NO_REBUILD = bytes(8)


_TENANT = struct.Struct("<7q")


class TenantRow(NamedTuple):
    """How many records a tenant has taken, how many leaves its log has, and how far that log has been signed.

    `checkpoints` counts the rows of table `checkpoints`; `signed` and `published` are the largest sizes among them, -1
    where there is none. `batch` is the position of the last anchor batch in the log, -1 before the first. `gathered`
    is the size that the last head of the log in the store log states, 0 before the first.
    """

    arrivals: int = 0
    leaves: int = 0
    checkpoints: int = 0
    signed: int = -1
    published: int = -1
    batch: int = -1
    gathered: int = 0

    def encode(self) -> bytes:
        """The stored value."""
        return _TENANT.pack(*self)

    @classmethod
    def decode(cls, tenant: str, value: bytes | None) -> TenantRow:
        """The row; a tenant without one has taken nothing. `Corrupt` when it is no such row."""
        if value is None:
            return cls()
        if len(value) != _TENANT.size:
            raise Corrupt("the tenant's row has another length", None, None, TENANTS, tenant.encode())
        row = cls(*_TENANT.unpack(value))
        counts = (row.arrivals, row.leaves, row.checkpoints, row.gathered)
        if min(*counts, row.signed + 1, row.published + 1, row.batch + 1) < 0:
            raise Corrupt("the tenant's row counts less than nothing", None, None, TENANTS, tenant.encode())
        return row


_LEASE = struct.Struct("<3q16s")


class LeaseRow(NamedTuple):
    """Who may append to a run. A released lease keeps its epoch and has no owner and no expiry.

    `wall_expiry` is unix milliseconds. `boot_expiry` is CLOCK_BOOTTIME milliseconds of the boot `boot_id`.
    """

    owner: str
    epoch: int
    wall_expiry: int
    boot_expiry: int
    boot_id: bytes

    def encode(self, place: Place) -> bytes:
        """The stored value, checksum included."""
        value = _LEASE.pack(self.epoch, self.wall_expiry, self.boot_expiry, self.boot_id) + self.owner.encode()
        return value + checksum(place, value)

    @classmethod
    @functools.lru_cache(maxsize=1024)
    def decode(cls, place: Place, run: str, value: bytes | None) -> LeaseRow | None:
        """The row, None for a run that was never leased; `Corrupt` when it is damaged. Cached: appends keep it."""
        if value is None:
            return None
        content = _checked(place, value, "the lease row", run)
        try:
            epoch, wall, boot, boot_id = _LEASE.unpack_from(content)
            return cls(content[_LEASE.size :].decode(), epoch, wall, boot, boot_id)
        except (struct.error, UnicodeDecodeError) as error:
            raise Corrupt(f"the lease row is no lease: {error}", run, None, *place) from error


_EFFECT = struct.Struct("<QBBQQ")


class EffectRow(NamedTuple):
    """The latest attempt of an effect. `end_seq` is 0 while it is undecided."""

    attempt: int
    recovery: str
    status: EffectStatus
    start_seq: int
    end_seq: int = 0

    def encode(self) -> bytes:
        """The stored value."""
        recovery = RECOVERIES.index(self.recovery)
        return _EFFECT.pack(self.attempt, recovery, self.status, self.start_seq, self.end_seq)

    @classmethod
    def decode(cls, place: Place, run: str, value: bytes | None) -> EffectRow | None:
        """The row, None for an effect that was never started; `Corrupt` for words that no build wrote."""
        if value is None:
            return None
        try:
            attempt, recovery, status, start_seq, end_seq = _EFFECT.unpack(value)
            return cls(attempt, RECOVERIES[recovery], EffectStatus(status), start_seq, end_seq)
        except (struct.error, ValueError, IndexError) as error:
            raise Corrupt(f"the effect row is no effect: {error}", run, None, *place) from error


class CheckpointState(enum.IntEnum):
    """How far a checkpoint has come. It never goes back."""

    PENDING = 0  # about to be signed: the row has its text alone
    SIGNED = 1  # by the log's own keys; cosignatures are collected under it
    WITHOUT_QUORUM = 2  # published although its witnesses did not suffice
    PUBLISHED = 3  # with what the policy asks for


class CheckpointRow(NamedTuple):
    """A checkpoint of the tenant's log: how far it has come, and its note (while pending, its text)."""

    state: CheckpointState
    note: bytes

    def encode(self, place: Place) -> bytes:
        """The stored value, checksum included."""
        value = bytes([self.state]) + self.note
        return value + checksum(place, value)

    @classmethod
    def decode(cls, place: Place, value: bytes | None) -> CheckpointRow | None:
        """The row, None for a size that was never signed; `Corrupt` for a state that no build wrote."""
        if value is None:
            return None
        content = _checked(place, value, "the checkpoint's row")
        if not content or content[0] not in CheckpointState._value2member_map_:
            raise Corrupt("the checkpoint's row has a state that no build wrote", None, None, *place)
        return cls(CheckpointState(content[0]), content[1:])


class BatchRow(NamedTuple):
    """An entry of an anchor batch, and the run that it is of."""

    entry: LeafEntry
    run: str

    def encode(self) -> bytes:
        """The stored value."""
        return self.entry.encode() + self.run.encode()

    @classmethod
    def decode(cls, value: bytes) -> BatchRow:
        """The row; ValueError when the bytes are no such row."""
        try:
            return cls(LeafEntry.decode(value[:LEAF_ENTRY_BYTES]), value[LEAF_ENTRY_BYTES:].decode())
        except Malformed as error:
            raise ValueError(str(error)) from error


def node_places(tenant: str, nodes: Sequence[Node]) -> list[Place]:
    """Where the hashes of these subtrees stand."""
    prefix = text(tenant)
    return [(NODES, prefix + _NODE.pack(level, index)) for level, index in nodes]


def signer_fault(key: bytes, value: bytes) -> str | None:
    """Why this is no row of table `signers`, or None."""
    if len(value) != 33 or value[0] != ED25519:
        return "the row is no Ed25519 key"
    try:
        VerifierKey("signer", Algorithm.ED25519, value[1:])
    except Malformed:
        return "the row's key is none, or one of small order"
    return None if key == signer_id(value[1:]) else "the row's key is not the name of its public key"


def check_names(tenant: str, run: str) -> None:
    """Refuse what no writer could have named: keys made of such names might be longer than an engine takes."""
    check_tenant(tenant)
    check_run(run)
