"""The engine port: ordered bytes in named tables, small enough for a remote engine later.

An engine keeps rows in the tables that `sealbook.journal.schema.tables` names. It offers a snapshot,
and one way to write. Rules live above it: an engine knows nothing of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

Row = tuple[bytes, bytes]
Place = tuple[str, bytes]  # (table, key)


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant as the store sees it, read once per transaction after the lock is held.

    `wall_ms` is unix milliseconds; `boot_ms` is CLOCK_BOOTTIME in milliseconds, which no wall-clock step moves;
    `boot_id` is 16 bytes that name the boot which `boot_ms` counts from.
    """

    wall_ms: int
    boot_ms: int
    boot_id: bytes


Clock = Callable[[], Moment]


@dataclass(frozen=True, slots=True)
class Traits:
    """What an engine can hold. `shared` says whether other processes may write to the same rows."""

    shared: bool
    key_bytes_max: int
    value_bytes_max: int


@dataclass(frozen=True, slots=True)
class Writes:
    """What one transaction changes.

    `puts` maps (table, key) to the new value. `absent` are those of them that must not exist before: meeting one is
    damage (`Corrupt`), and nothing is written. `deletes` are rows to remove; one that is not there is damage too.
    """

    puts: Mapping[Place, bytes] = field(default_factory=dict)
    absent: frozenset[Place] | set[Place] = frozenset()
    deletes: frozenset[Place] | set[Place] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.puts or self.deletes)


class Snapshot(Protocol):
    """A consistent view of all tables. It is never carried out of the verb that took it."""

    @property
    def version(self) -> int:
        """Which commit this view shows: one more with every commit that wrote something, by whomever."""
        ...

    def get_many(self, places: Sequence[Place]) -> list[bytes | None]:
        """The values of these rows in this order, None where there is none."""
        ...

    def scan(self, table: str, lo: bytes, hi: bytes | None, limit: int, reverse: bool = False) -> list[Row]:
        """At most `limit` rows with lo <= key < hi in key order (`hi` None: to the end of the table).

        With `reverse` the rows come from the high end downwards. A page, never a cursor.
        """
        ...

    def count(self, table: str) -> int:
        """How many rows the table has."""
        ...


Work = Callable[[Snapshot, Moment], tuple[Writes, Any]]

NOT_WRITTEN: Final = "nothing was written"
DURABLE: Final = "the write is durable: its commit had returned"
UNDECIDED: Final = "whether the write is durable was not learnt"
STAGES: Final = (NOT_WRITTEN, DURABLE, UNDECIDED)


@dataclass(frozen=True, slots=True)
class Applied:
    """The writes are durable (or there were none); `answers` is what `work` returned beside them."""

    answers: Any


@dataclass(frozen=True, slots=True)
class Retry:
    """Nothing was written; the same work may be handed in again. `reason` says what got in the way."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The commit was sent, and whether it took effect could not be learnt."""

    cause: BaseException


class Engine(Protocol):
    """An open store of rows. All of it may be called from any thread."""

    @property
    def traits(self) -> Traits:
        """What this engine can hold."""
        ...

    @property
    def readonly(self) -> bool:
        """Whether `write` is refused."""
        ...

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """A consistent view, for the length of a `with` block on one thread."""
        ...

    def write(self, work: Work) -> Applied | Retry | Unknown:
        """Run `work` under the store's write lock and commit what it returns, durably, as one transaction.

        `work` is pure and may be called more than once; the last call counts. An exception from `work` leaves
        everything as it was and is raised on. Work that writes nothing commits nothing. To an exception that a
        signal handler raises meanwhile the engine adds a note, one of `STAGES`: how far the write had come. What
        became of a write that ends with an error which is none of ours and has no note is unknown, once `work` has
        returned.
        """
        ...

    def give_way(self) -> None:
        """Let other processes that wait to write go first. For a writer that is about to write again at once."""
        ...

    def refuse_replaced(self) -> None:
        """Raise `EngineFailed` when another store, or none, stands where this one was opened. It reads no rows."""
        ...

    def measures(self) -> Mapping[str, int]:
        """What the storage can tell of itself at no cost, by name, for an operator; empty once it is closed."""
        ...

    def close(self) -> None:
        """Free the store. Closing twice is harmless; anything else afterwards is `Closed`."""
        ...
