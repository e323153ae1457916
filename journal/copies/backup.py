"""Copy a store that is in use, whole and checked, and never over anything that it does not continue.

    BACKUP/             0700
      BACKUP            0600  the manifest, replaced last: it says which generation is the backup
      store-<number>/   0700  that generation: SEALBOOK and data.mdb, 0600
      lock              0600  `flock`ed by what writes the backup, or reads it

- Rule 1: the data file is copied by LMDB from one snapshot, compacted. A file that is copied in any other way while it
  is written to is broken.
- Rule 2: a copy becomes the backup when it was opened, and all that it holds derived again from its records; the one
  before it is removed after that. Whatever ends a backup earlier has changed nothing.
- Rule 3: a store that does not go on from what the backup holds never takes its place: another store, one that an older
  copy was put back of, or one whose log or last record is another.
- Rule 4: a store that has had no commit since is not copied again. A compacted copy has no page in common with the one
  before it, so there is nothing smaller than all of it that could be copied.

A backup carries the store's secret and everything that its records say. Keys live elsewhere, and are not in it. Put
into service as it is, a backup is an older copy of the store: epochs that were issued after it would be issued again.
So a backup is brought back with `recover`, which raises them above history.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from blake3 import blake3

from sealbook.journal.checking.report import CheckReport
from sealbook.journal.copies.manifest import BYTES_MAX, Manifest, TenantState
from sealbook.journal.deciding.log import adoption, leaves
from sealbook.journal.engine.lmdb import folder as store_folder
from sealbook.journal.engine.port import Snapshot
from sealbook.journal.errors import Corrupt, InvalidInput, NotFound
from sealbook.journal.operating.usage import count
from sealbook.journal.records.names import STORE_LOG
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import lookup, tables
from sealbook.journal.schema.identity import parse_identity
from sealbook.journal.schema.tables import StoreRow, TenantRow, rows_of
from sealbook.journal.store.journal import Journal
from sealbook.merkle import tree

MANIFEST = "BACKUP"
MANIFEST_NEW = "BACKUP.new"
LOCK = "lock"
READ_BYTES = 1 << 20
_GENERATION = re.compile(r"store-(\d{1,18})")
STATE_TABLES = (tables.STORE, tables.TENANTS, tables.ORIGINS, tables.LEASES, tables.CHECKPOINTS)

Progress = Callable[[int, int], None]  # (records checked, records in all)


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What the backup holds now. `copied` is False when the store has had no commit since: nothing was written."""

    manifest: Manifest
    folder: Path
    copied: bool


@dataclass(frozen=True, slots=True)
class VerifiedBackup:
    """A backup that was verified; the report says what was derived again."""

    manifest: Manifest
    folder: Path
    report: CheckReport


def generation_folder(path: Path, number: int) -> Path:
    """Where the store's files of this generation stand."""
    return path / f"store-{number}"


def read_manifest(path: Path) -> Manifest:
    """The backup's manifest. `NotFound`: no backup was completed there; `Corrupt`: it is damaged."""
    with store_folder.told(f"cannot read {path}"):
        try:
            with (path / MANIFEST).open("rb") as file:
                return Manifest.parse(file.read(BYTES_MAX + 1))
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound("backup", str(path)) from None


# --- making one ------------------------------------------------------------------------------------------------------


def backup(journal: Journal, path: Path, *, made_at: int, progress: Progress | None = None) -> BackedUp:
    """Let the backup at `path` be of the store as it is now. `made_at` is unix milliseconds.

    `InvalidInput`: what stands there is no backup of this store. `Corrupt`: the store is damaged, or does not go on
    from what the backup holds. `Busy`: another process writes or reads it. In all of these the backup is as it was.
    """
    from sealbook.journal.engine.lmdb import LmdbEngine

    engine = journal.view.engine
    if not isinstance(engine, LmdbEngine):
        raise InvalidInput("store", "in memory", "has no file to copy")
    check_place(path, journal.store_id)
    if path.resolve().is_relative_to(engine.path.resolve()):
        raise InvalidInput("path", str(path), "lies inside the store: a backup there goes where the store goes")
    with store_folder.told(f"cannot write the backup {path}"):
        made = False
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
            made = True
            store_folder.sync_folder(path.absolute().parent)
        with locked(path, fcntl.LOCK_EX), _taken_back(path, made):
            before = check_place(path, journal.store_id)
            _clear(path, None if before is None else before.generation)
            with journal.view.snapshot() as snapshot:
                state = _state(snapshot)
            if before is not None and state == before.state and _is_there(path, before):
                return BackedUp(before, generation_folder(path, before.generation), False)
            generation = 1 if before is None else before.generation + 1
            folder = generation_folder(path, generation)
            try:
                folder.mkdir(mode=0o700)
                engine.copy_to(folder)
                _write(folder / store_folder.SEALBOOK, engine.identity_text)
                manifest = _checked_copy(folder, before, generation, made_at, progress)
                _write(path / MANIFEST_NEW, manifest.encode())
                os.rename(path / MANIFEST_NEW, path / MANIFEST)
            except BaseException:
                if not _is_current(path, generation):
                    shutil.rmtree(folder, ignore_errors=True)
                raise
            store_folder.sync_folder(path)
            _clear(path, generation)
    return BackedUp(manifest, folder, True)


def check_place(path: Path, store: bytes) -> Manifest | None:
    """The backup that stands there, None for none yet; `InvalidInput` for anything that is no backup of this store."""
    try:
        names = set(os.listdir(path))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise InvalidInput("path", str(path), "is a file: a backup is a folder of its own") from None
    if MANIFEST not in names:
        foreign = {name for name in names - {LOCK, MANIFEST_NEW} if not _GENERATION.fullmatch(name)}
        if foreign or (names and LOCK not in names):
            raise InvalidInput("path", str(path), "holds something that is no backup: name a folder that is not there")
        return None
    manifest = read_manifest(path)
    if manifest.store != store:
        raise InvalidInput("path", str(path), f"is a backup of another store, {manifest.store.hex()}")
    return manifest


def locked(path: Path, kind: int) -> AbstractContextManager[None]:
    """Hold the backup against other writers, or as a reader."""
    busy = f"another process uses the backup {path}: wait until it has ended"
    return store_folder.held_if_there(path / LOCK, kind, busy, create=kind == fcntl.LOCK_EX)


@contextmanager
def _taken_back(path: Path, made: bool) -> Iterator[None]:
    """Where no backup came to be, the folder that was made for it goes again."""
    try:
        yield
    except BaseException:
        if made and not (path / MANIFEST).exists():
            with suppress(OSError):
                for name in (MANIFEST_NEW, LOCK):
                    (path / name).unlink(missing_ok=True)
                path.rmdir()
        raise


def _clear(path: Path, generation: int | None) -> None:
    """Remove what an interrupted backup left, and generations that were replaced."""
    (path / MANIFEST_NEW).unlink(missing_ok=True)
    for name in os.listdir(path):
        found = _GENERATION.fullmatch(name)
        if found and int(found[1]) != generation:
            shutil.rmtree(path / name)


def _is_there(path: Path, manifest: Manifest) -> bool:
    folder = generation_folder(path, manifest.generation)
    try:
        return (folder / store_folder.DATA).stat().st_size == manifest.data_bytes and store_folder.is_complete(folder)
    except FileNotFoundError:
        return False


def _is_current(path: Path, generation: int) -> bool:
    try:
        return read_manifest(path).generation == generation
    except (NotFound, Corrupt):
        return False


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    store_folder.sync_folder(path.parent)


def _checked_copy(
    folder: Path, before: Manifest | None, generation: int, made_at: int, progress: Progress | None
) -> Manifest:
    """Open the copy, by Rules 2 and 3; what it holds."""
    with opened(folder) as journal:
        if before is not None:
            _check_goes_on(journal, before)
        report = journal.check(progress=progress)
        if damage := [finding for finding in report.findings if not finding.newer]:
            more = len(damage) + report.findings_more
            stays = "no backup was made" if before is None else "the backup stays as it was"
            words = "1 finding" if more == 1 else f"{more} findings, first"
            raise Corrupt(f"the store is damaged, {stays}: {words}: {damage[0].what}")
        manifest = _described(journal, folder)
    return replace(manifest, generation=generation, made_at=made_at)


@contextmanager
def opened(folder: Path) -> Iterator[Journal]:
    """The copy, opened for reading. LMDB's lock file, which a copy has none of, is gone afterwards."""
    lock = folder / store_folder.LOCK
    had_lock = lock.exists()
    try:
        with Journal.open(folder, readonly=True) as journal:
            yield journal
    finally:
        if not had_lock:
            with suppress(OSError):
                lock.unlink(missing_ok=True)


def _check_goes_on(journal: Journal, before: Manifest) -> None:
    """By Rule 3: what the backup says that each tenant had, this store has."""
    with journal.view.snapshot() as snapshot:
        for had in before.tenants:
            has = _tenant_state(snapshot, had.tenant, had.bytes)
            if has.records < had.records or (had.records and _head(snapshot, had.tenant, had.records) != had.head):
                what = f"it has {has.records} records" if has.records < had.records else "it has another one there"
                _refuse(f"tenant {had.tenant} had record {had.records} in the order of arrival, {what}")
            if has.origin != had.origin:
                continue  # the log was begun anew, in view of everybody; the records are what goes on
            shorter = has.size < had.size
            if shorter or tree.root(had.size, leaves.snapshot_reader(had.tenant, snapshot)) != had.root:
                _refuse(f"the log of tenant {had.tenant} had {had.size} leaves that this one does not begin with")


def _refuse(what: str) -> None:
    raise Corrupt(f"the store does not go on from what the backup holds, which stays as it was: {what}")


# --- what a store has ------------------------------------------------------------------------------------------------


def _described(journal: Journal, folder: Path) -> Manifest:
    identity = journal.view.setting.identity
    data = folder / store_folder.DATA
    with journal.view.snapshot() as snapshot:
        row = StoreRow.decode(snapshot.get_many([tables.STORE_PLACE])[0])
        names = [key.decode() for key, _ in rows_of(snapshot, tables.TENANTS) if key != STORE_LOG.encode()]
        counted = count(snapshot)
        return Manifest(
            store=identity.store_id,
            lineage=identity.lineage_id,
            format=identity.format,
            engine=identity.engine_format,
            restoration=row.restoration,
            made_at=0,
            generation=0,
            data_bytes=data.stat().st_size,
            data_digest=digest_of(data),
            state=_state(snapshot),
            tenants=tuple(_tenant_state(snapshot, name, counted.tenant(name).bytes) for name in names),
        )


def _state(snapshot: Snapshot) -> bytes:
    """A digest of the rows of which every commit changes one, and of each tenant's last record and root, by which two
    histories of one length are told apart."""
    digest = blake3()
    for table in STATE_TABLES:
        for key, value in rows_of(snapshot, table):
            parts = [table.encode(), key, value]
            if table == tables.TENANTS and key != STORE_LOG.encode():
                tenant = _tenant_state(snapshot, key.decode(), 0)
                parts += [tenant.head or b"", tenant.root]
            for part in parts:
                digest.update(len(part).to_bytes(8) + part)
    return digest.digest()


def _tenant_state(snapshot: Snapshot, name: str, row_bytes: int) -> TenantState:
    row = TenantRow.decode(name, snapshot.get_many([(tables.TENANTS, name.encode())])[0])
    head = _head(snapshot, name, row.arrivals) if row.arrivals else None
    root = tree.root(row.leaves, leaves.snapshot_reader(name, snapshot))
    origin = adoption.adopted_origin(snapshot, name)
    return TenantState(name, origin, row.arrivals, head, row.leaves, root, row_bytes)


def _head(snapshot: Snapshot, tenant: str, arrival: int) -> bytes | None:
    """The hash of the record with this arrival."""
    [value] = snapshot.get_many([lookup.record_place(tenant, arrival)])
    return None if value is None else decode_row(value, None, None).hash


def digest_of(path: Path) -> bytes:
    """BLAKE3 of the file."""
    digest = blake3()
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            digest.update(data)
    return digest.digest()


@contextmanager
def holding(path: Path) -> Iterator[Path]:
    """The folder with the store's files: of the backup that stands at the path, held meanwhile, or else the path."""
    if not (path / MANIFEST).is_file():
        yield path
        return
    with locked(path, fcntl.LOCK_SH):
        yield generation_folder(path, read_manifest(path).generation)


# --- verifying one ---------------------------------------------------------------------------------------------------


def verify_backup(path: Path, *, progress: Progress | None = None) -> VerifiedBackup:
    """Hold the backup to its manifest, and all that it holds to its records.

    `NotFound`: there is none. `Corrupt`: a file is another than it was, or the copy is not what the manifest says.
    Findings of the check are in the report.
    """
    with store_folder.told(f"cannot read {path}"), locked(path, fcntl.LOCK_SH):
        manifest = read_manifest(path)
        folder = generation_folder(path, manifest.generation)
        data = folder / store_folder.DATA
        try:
            data_bytes = data.stat().st_size
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
            raise Corrupt(f"the backup has lost {data}") from None
        if (data_bytes, digest_of(data)) != (manifest.data_bytes, manifest.data_digest):
            raise Corrupt(f"{data} is another file than was backed up")
        identity = parse_identity(store_folder.read_identity(folder), manifest.engine)
        if (identity.store_id, identity.lineage_id) != (manifest.store, manifest.lineage):
            raise Corrupt(f"{folder / store_folder.SEALBOOK} is that of another store")
        with opened(folder) as journal:
            report = journal.check(progress=progress)
            described = _described(journal, folder)
        if replace(described, generation=manifest.generation, made_at=manifest.made_at) != manifest:
            raise Corrupt("what the copy holds is not what the manifest says")
    return VerifiedBackup(manifest, folder, report)
