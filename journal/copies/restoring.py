"""Build a store again from bundles: the original bytes, under their own epochs, in the order of their arrival.

- Rule 1: every bundle is checked to its last byte before anything is written. One that is damaged, incomplete, of a
  newer version, or of selected runs only, is refused; so is a place where something stands already.
- Rule 2: records, seals, anchors and checkpoints enter as they are. All that is derived from them is derived by the
  rules that made it first (`batch`, `seals`, `anchoring`, `publishing`).
- Rule 3: the store comes into being beside its place and takes it when it is complete: an interrupted restore
  leaves nothing behind, and is run again.
- Rule 4: epochs go on above history: the restoration is one more than any that the records were written under. An open
  run has a free lease row under it: what wrote before is fenced, and the run takes nothing until an operator forces
  the lease, because what the run did after the export is not known (`RestoredRun`).
- Rule 5: in each tenant's own run a `Restored` says which bundle the tenant was built from.

Not carried: leases and who held them, the store's secret and with it all cursors, and the store log.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from sealbook.indexes.packing import text
from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.faults import name_of, named
from sealbook.journal.bundle.frames import Counts, Header, TenantPart
from sealbook.journal.bundle.reader import Bundle, Item
from sealbook.journal.bundle.records import Believed
from sealbook.journal.copies.replaying import RestoreAct, RestoreStep
from sealbook.journal.deciding import leases
from sealbook.journal.deciding.acts import ACTS, Restoration
from sealbook.journal.engine.lmdb.folder import sync_folder
from sealbook.journal.engine.port import Applied, Clock, Engine, Moment, Snapshot, Writes
from sealbook.journal.errors import Busy, CommitUnknown, EngineFailed, InvalidInput, UnknownVersion
from sealbook.journal.records import names as ids
from sealbook.journal.records.body import SALT_BYTES
from sealbook.journal.records.names import EPOCH_MAX, OPERATOR_RUN, RESTORATION
from sealbook.journal.records.signatures import Signer
from sealbook.journal.records.versions import IdentityUpcaster, Upcaster
from sealbook.journal.schema import tables
from sealbook.journal.schema.identity import Identity
from sealbook.journal.schema.setting import Setting
from sealbook.journal.schema.tables import LeaseRow

ITEMS_MAX = 1000  # in one transaction, and
ITEM_BYTES_MAX = 4 * 2**20  # so many bytes of them; the entries of an anchor batch are never parted from their leaf
RETRIES_MAX = 8

Progress = Callable[[int, int], None]  # (records written, records in all)


@dataclass(frozen=True, slots=True)
class RestoredTenant:
    """A tenant as it was built. `origin` is that of its log when it was exported. `awaiting` runs were open, and wait
    for an operator who forces their leases."""

    tenant: str
    origin: str
    records: int
    size: int
    root: bytes
    awaiting: int


@dataclass(frozen=True, slots=True)
class Checked:
    """What the bundles hold, once all of them are known to be whole. `restoration` is the new store's."""

    lineage: bytes
    restoration: int
    records: int
    digests: tuple[bytes, ...]


# --- before anything is written --------------------------------------------------------------------------------------


def check(bundles: Sequence[BinaryIO], *, upcaster: Upcaster | None = None) -> Checked:
    """Read every bundle to its end, by Rule 1. `Damaged`, `UnknownVersion`, `WrongFormat`, `InvalidInput`."""
    if not bundles:
        raise InvalidInput("bundles", 0, "are needed: at least one")
    lineage: bytes | None = None
    tenants: set[str] = set()
    restoration = records = 0
    digests = []
    for stream in bundles:
        stream.seek(0)
        with named(stream):
            bundle = Bundle(stream, upcaster=upcaster)
            for item in bundle.items():
                value = item.value
                if isinstance(value, Header):
                    _check_header(value, lineage, name_of(stream))
                    lineage = value.lineage
                elif isinstance(value, TenantPart):
                    if value.tenant in tenants:
                        raise InvalidInput("bundles", value.tenant, "is a tenant that two of them hold")
                    tenants.add(value.tenant)
                elif isinstance(value, Believed):
                    _check_record(value)
                    records += 1
                    restoration = max(restoration, value.epoch // RESTORATION)
            assert bundle.digest is not None
            digests.append(bundle.digest)
    assert lineage is not None
    if restoration + 1 > EPOCH_MAX // RESTORATION:
        raise InvalidInput("restoration", restoration + 1, "leaves no room for epochs")
    return Checked(lineage, restoration + 1, records, tuple(digests))


def _check_header(header: Header, lineage: bytes | None, name: str) -> None:
    if not header.whole:
        what = "holds selected runs: it proves that they are in the log, and not that they are all that was"
        raise InvalidInput("bundle", name or header.what, what)
    if lineage is not None and header.lineage != lineage:
        raise InvalidInput("bundles", header.lineage.hex(), "are of stores of different lineages")


def _check_record(believed: Believed) -> None:
    record = believed.record
    if record is None:
        raise UnknownVersion("a record is of a newer version: restore with a newer build", believed.run, believed.seq)
    if record.run.startswith("~") and (record.run != OPERATOR_RUN or record.kind not in ACTS):
        what = f"this build does not know what {record.kind} changed: restore with a newer build"
        raise UnknownVersion(what, record.run, record.seq)


# --- the store's folder ----------------------------------------------------------------------------------------------


def restore(
    bundles: Sequence[BinaryIO],
    path: str | os.PathLike[str],
    *,
    actor: str,
    reason: str = "",
    clock: Clock | None = None,
    signer: Signer | None = None,
    upcaster: Upcaster | None = None,
    restoration_min: int = 0,
    progress: Progress | None = None,
) -> list[RestoredTenant]:
    """Build the store at `path`, where nothing may stand, from these bundles, each of other tenants of one store.

    The restoration is at least `restoration_min`, for who knows of epochs that no record was written under.
    Raises what `check` raises, `InvalidInput` when something stands there, `Busy` while another restore builds there.
    """
    from sealbook.journal.engine.clock import system_clock
    from sealbook.journal.engine.lmdb import ENGINE_FORMAT, LmdbEngine

    folder = Path(path)
    check_free(folder)
    ids.check_actor(actor)
    checked = check(bundles, upcaster=upcaster)
    checked = replace(checked, restoration=max(checked.restoration, restoration_min))
    clock = clock or system_clock
    with _building(folder) as building:
        identity = Identity(os.urandom(16), checked.lineage, os.urandom(32), tables.FORMAT, ENGINE_FORMAT)
        engine = LmdbEngine.create(
            building,
            identity_text=identity.encode(),
            store_value=store_value(identity, checked.restoration),
            clock=clock,
            tables=tables.TABLES,
        )
        try:
            setting = Setting(identity, signer, upcaster or IdentityUpcaster())
            built = rebuild(engine, bundles, checked, setting, actor=actor, reason=reason, progress=progress)
        finally:
            engine.close()
        _take_place(building, folder)
    return built


def store_value(identity: Identity, restoration: int) -> bytes:
    """The store row of a store that is restored, that often by now."""
    return replace(identity.store_row(), restoration=restoration).encode()


def check_free(folder: Path) -> None:
    """`InvalidInput` when anything stands at the store's place."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidInput("path", str(folder), f"cannot be read: {error.strerror}") from error
    if names:
        raise InvalidInput("path", str(folder), "holds something already: a store is built where nothing stands")


@contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """An empty folder beside the store's place, locked while the block runs and gone after it."""
    building = folder.with_name(f"{folder.name}.restoring")
    with _reporting(f"cannot build {building}"):
        building.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(building, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(descriptor, building)
        with _reporting(f"cannot build {building}"):
            for name in os.listdir(building):  # of an interrupted restore
                (building / name).unlink()
        try:
            yield building
        except BaseException:
            with suppress(OSError):
                shutil.rmtree(building)
            raise
    finally:
        os.close(descriptor)


def _lock(descriptor: int, building: Path) -> None:
    """Hold the folder against other restores, which would begin by emptying it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), building.stat()):
            return
    except (BlockingIOError, FileNotFoundError):
        pass
    raise Busy(f"another restore builds in {building}")


def _take_place(building: Path, folder: Path) -> None:
    with _reporting(f"cannot move the store to {folder}"):
        try:
            building.rename(folder)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise InvalidInput("path", str(folder), "holds something by now") from error
            raise
        sync_folder(folder.absolute().parent)


@contextmanager
def _reporting(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EngineFailed(f"{what}: {error.strerror or error}") from error


# --- the rows --------------------------------------------------------------------------------------------------------


def rebuild(
    engine: Engine,
    bundles: Sequence[BinaryIO],
    checked: Checked,
    setting: Setting,
    *,
    actor: str,
    reason: str = "",
    progress: Progress | None = None,
) -> list[RestoredTenant]:
    """Fill a store that has just been created, with the lineage and the restoration that were `checked`."""
    built: list[RestoredTenant] = []
    done = 0
    for stream, digest in zip(bundles, checked.digests, strict=True):
        stream.seek(0)
        bundle = Bundle(stream, upcaster=setting.upcaster)
        stated: TenantPart | None = None
        for group in _groups(bundle.items()):
            first = group[0].value
            if isinstance(first, TenantPart):
                stated = first
            work = RestoreStep(group, setting, checked.restoration)
            _write(engine, work)
            done += work.records
            if progress is not None:
                progress(done, checked.records)
            if isinstance(group[-1].value, Counts):
                assert stated is not None
                act = Restoration(checked.restoration, digest, stated.records, stated.size, stated.root, actor, reason)
                _write(engine, RestoreAct(stated, act, setting, os.urandom(SALT_BYTES)))
                awaiting = _awaiting(engine, stated.tenant)
                facts = (stated.tenant, stated.origin, stated.records, stated.size, stated.root)
                built.append(RestoredTenant(*facts, awaiting))
        if bundle.digest != digest:
            raise InvalidInput("bundle", digest.hex(), "changed while it was read")
    return built


def _awaiting(engine: Engine, tenant: str) -> int:
    """How many of the tenant's runs wait for an operator."""
    prefix, count = text(tenant), 0
    with engine.snapshot() as snapshot:
        for key, value in tables.rows_of(snapshot, tables.LEASES, prefix):
            row = LeaseRow.decode((tables.LEASES, key), key[len(prefix) :].decode(), value)
            count += row is not None and leases.is_restored(row)
    return count


def _groups(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Items that enter in one transaction: of one tenant, from its beginning to its end."""
    group: list[Item] = []
    size = 0
    for item in items:
        if item.tenant is None:
            continue
        if item.kind == fr.TENANT or (
            group and (len(group) >= ITEMS_MAX or size >= ITEM_BYTES_MAX) and group[-1].kind != fr.ENTRY
        ):
            if group:
                yield group
            group, size = [], 0
        group.append(item)
        size += len(item.value.row.body) if isinstance(item.value, Believed) else 0
        if item.kind == fr.END:
            yield group
            group, size = [], 0


def _write(engine: Engine, work: Callable[[Snapshot, Moment], tuple[Writes, Any]]) -> None:
    for _ in range(RETRIES_MAX):
        result = engine.write(work)
        if isinstance(result, Applied):
            return
        cause = getattr(result, "cause", None)
        if cause is not None:
            raise CommitUnknown(f"whether the commit took effect is unknown: {cause}") from cause
    raise Busy("the engine kept asking to try again")
