"""Recover what is readable of a damaged store into a new one, and report exactly what was lost.

The data file is read page by page and never opened as a store (`pages`); what proves itself is gathered and decided
(`rows`, `log`). What is kept becomes a bundle, beside the new store's place and without a name, and the store is built
from it by the rules of a restore (`restoring`). So a recovered store is all that a restored one is: complete under its
name or not there, its epochs above history, its leases free, a `Restored` in each tenant's own run.

The damaged store is not touched. Its writer's lock is held meanwhile, so that no other process writes to it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import Codec, ContainerWriter, Preamble
from sealbook.journal.bundle.faults import Damaged
from sealbook.journal.bundle.frames import Attested, Counts, Header, KeptNote, TenantPart, Totals
from sealbook.journal.copies import restoring
from sealbook.journal.copies.salvage.log import KeptLog, LogLeaf, SalvagedLog
from sealbook.journal.copies.salvage.pages import PageFault, SalvagedFile
from sealbook.journal.copies.salvage.rows import Salvage
from sealbook.journal.engine.lmdb import folder as store_folder
from sealbook.journal.engine.lmdb.datafile import DATA_FORMAT, META_BYTES_MIN
from sealbook.journal.engine.port import Clock
from sealbook.journal.errors import Corrupt, EngineFailed, InvalidInput, SealbookError, StoreMissing
from sealbook.journal.exporting.bundle import WHOLE_LEFT_OUT
from sealbook.journal.records.row import encode_row
from sealbook.journal.records.versions import IdentityUpcaster, Upcaster
from sealbook.journal.schema.identity import parse_identity
from sealbook.journal.schema.origins import tenant_origin
from sealbook.journal.store.journal import DEFAULT_ORIGIN
from sealbook.merkle.entry import LeafType

CUTS_MAX = 100  # runs that prove themselves and break a rule all the same: forged ones, not damaged ones

Progress = Callable[[int, int], None]  # (records written to the new store, records in all)


@dataclass(frozen=True, slots=True)
class LostRun:
    """A run of which records are lost: those from `kept` + 1 on, up to `known`, the last that anything tells of."""

    run: str
    kept: int
    known: int


@dataclass(frozen=True, slots=True)
class RecoveredTenant:
    """What a tenant has now, and what it has not any more.

    `lost_arrivals` are numbers of the damaged store, (first, last); behind the first of them records have other numbers
    now. `loose` records were found outside of the tables. Of records that are lost in arrival and in no run, nothing
    tells whose they were. `awaiting` runs were open, and take no lease until an operator lets each of them go on.
    """

    tenant: str
    origin: str
    records: int
    lost_arrivals: tuple[tuple[int, int], ...]
    lost_runs: tuple[LostRun, ...]
    loose: int
    log: KeptLog
    awaiting: int = 0

    @property
    def lost_records(self) -> int:
        """How many arrivals have no record any more."""
        return sum(last - first + 1 for first, last in self.lost_arrivals)

    @property
    def lost_nameless(self) -> int:
        """How many of them nothing tells the run of."""
        return max(0, self.lost_records - sum(run.known - run.kept for run in self.lost_runs))

    @property
    def must_adopt(self) -> bool:
        """Whether more of the log was signed than agrees with it: under its origin nothing can be signed any more."""
        return self.log.signed > self.log.agreed

    @property
    def whole(self) -> bool:
        """Whether nothing of the tenant was lost."""
        log = self.log
        return not self.lost_arrivals and (log.agreed, log.notes_known) == (log.known, len(log.notes)) and not log.lost


@dataclass(frozen=True, slots=True)
class Recovery:
    """What came of it. `faults` are the pages and rows of the data file that could not be read, `unbelieved` counts
    rows that could and do not prove themselves, `remarks` say what else was amiss."""

    tenants: tuple[RecoveredTenant, ...]
    restoration: int
    faults: tuple[PageFault, ...]
    unbelieved: int
    remarks: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing was lost, and nothing amiss."""
        return all(tenant.whole for tenant in self.tenants) and not (self.faults or self.unbelieved or self.remarks)


class NothingToRecover(StoreMissing):
    """The source holds no data file, or one without a page of data."""


def recover(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    actor: str,
    reason: str = "",
    origin: str = DEFAULT_ORIGIN,
    clock: Clock | None = None,
    upcaster: Upcaster | None = None,
    progress: Progress | None = None,
) -> Recovery:
    """Build a store at `target`, where nothing may stand, from what is readable in the store at `source`.

    `NothingToRecover`: there is no data file. `Corrupt`: nothing in it can be believed. `Busy`: a process writes to it.
    `UnknownVersion`: a record is of a newer version. `InvalidInput`: something stands at the target. Whatever is
    raised, the target is not there.
    """
    folder, place = Path(source), Path(target)
    restoring.check_free(place)
    if place.resolve().is_relative_to(folder.resolve()):
        raise InvalidInput("path", str(place), "lies inside the store that is recovered, which is not written to")
    data = folder / store_folder.DATA
    if not data.is_file():
        raise NothingToRecover(f"{folder} has no {store_folder.DATA}: there is nothing to recover")
    if data.stat().st_size < META_BYTES_MIN:
        raise NothingToRecover(f"{data} is empty: nothing can be recovered")
    if not place.absolute().parent.is_dir():
        raise EngineFailed(f"{place.parent} does not exist: make that folder first")
    with _held_still(folder), store_folder.told(f"cannot recover {folder}"):
        salvage = Salvage(SalvagedFile.open(data), upcaster or IdentityUpcaster())
        try:
            remarks = list(_read_identity(folder, salvage))
            salvage.gather()
            return _Recovering(salvage, place, origin, progress).build(actor, reason, clock, tuple(remarks))
        except sqlite3.OperationalError as error:
            raise EngineFailed(f"no room for what is remembered meanwhile ({error}): free some space") from error
        finally:
            salvage.close()


def _held_still(folder: Path) -> AbstractContextManager[None]:
    """Keep writers away, without writing anything: their lock is there unless the store is a copy."""
    busy = f"another process writes to {folder}: stop it first"
    return store_folder.held_if_there(folder / store_folder.WRITER_LOCK, fcntl.LOCK_SH, busy, missing=OSError)


def _read_identity(folder: Path, salvage: Salvage) -> Iterator[str]:
    """Whose store it is; what is wrong with the file that says so."""
    try:
        salvage.lineage = parse_identity(store_folder.read_identity(folder), DATA_FORMAT).lineage_id
    except SealbookError as error:
        yield f"{store_folder.SEALBOOK} cannot be read: {error}"


class _Recovering:
    """One recovery under way."""

    def __init__(self, salvage: Salvage, place: Path, origin: str, progress: Progress | None) -> None:
        self._salvage, self._place, self._base = salvage, place, origin
        self._progress = progress
        self._upcaster = salvage.upcaster

    def build(self, actor: str, reason: str, clock: Clock | None, remarks: tuple[str, ...]) -> Recovery:
        """Decide, write the bundle, and restore it; once more without what breaks a rule."""
        salvage = self._salvage
        while True:
            tenants = tuple(self._decided(name) for name in sorted(salvage.tenants))
            empty = not any(tenant.records for tenant in tenants)
            if salvage.lineage is None or (empty and (tenants or salvage.file.faults or salvage.unbelieved)):
                raise Corrupt("nothing that the data file holds can be believed: put a copy of the store back")
            lost = sum(tenant.lost_records for tenant in tenants)
            said = f"recovered, {lost} records lost" + (f": {reason}" if reason else "")
            with tempfile.TemporaryFile(dir=self._place.absolute().parent) as stream:
                self._write(stream, tenants)
                try:
                    built = restoring.restore(
                        [stream],
                        self._place,
                        actor=actor,
                        reason=said,
                        clock=clock,
                        upcaster=self._upcaster,
                        restoration_min=salvage.restoration + 1,
                        progress=self._progress,
                    )
                except Damaged as error:
                    self._cut(error)
                    continue
            restoration = self._restoration()
            faults = tuple(salvage.file.faults)
            awaiting = {tenant.tenant: tenant.awaiting for tenant in built}
            told = tuple(replace(tenant, awaiting=awaiting.get(tenant.tenant, 0)) for tenant in tenants)
            return Recovery(told, restoration, faults, salvage.unbelieved, (*remarks, *self._cut_remarks()))

    def _decided(self, name: str) -> RecoveredTenant:
        salvage = self._salvage
        records, log = salvage.chain(name), SalvagedLog(salvage, name)
        kept = log.decide()
        runs = tuple(LostRun(*lost) for lost in salvage.lost_runs(name))
        return RecoveredTenant(
            tenant=name,
            origin=log.origin or tenant_origin(self._base, name),
            records=records,
            lost_arrivals=tuple(salvage.lost_arrivals(name)),
            lost_runs=runs,
            loose=salvage.loose(name),
            log=kept,
        )

    def _cut(self, error: Damaged) -> None:
        """Let the run end before the record that breaks a rule."""
        fault, cuts = error.fault, self._salvage.cuts
        if fault.tenant is None or fault.run is None or fault.seq is None or len(cuts) >= CUTS_MAX:
            raise error
        before = cuts.get((fault.tenant, fault.run))
        if before is not None and before <= fault.seq:
            raise error
        cuts[fault.tenant, fault.run] = fault.seq

    def _cut_remarks(self) -> Iterator[str]:
        for (tenant, run), seq in sorted(self._salvage.cuts.items()):
            yield f"tenant {tenant} run {run} ends before record {seq}, which breaks a rule of the store"

    def _restoration(self) -> int:
        from sealbook.journal.store.journal import Journal

        with Journal.open(self._place, readonly=True) as journal:
            restoration: int = journal.info()["restoration"]
            return restoration

    # --- the bundle --------------------------------------------------------------------------------------------------

    def _write(self, stream: BinaryIO, tenants: tuple[RecoveredTenant, ...]) -> None:
        lineage = self._salvage.lineage
        assert lineage is not None
        writer = ContainerWriter(stream, Preamble(Codec.PLAIN, 0))
        writer.write(fr.frame(fr.HEADER, fr.encode_map(Header("store", lineage, 0, None, None, WHOLE_LEFT_OUT))))
        totals = Totals()
        for tenant in tenants:
            if tenant.records:
                totals = totals.plus(_SalvagedPart(self._salvage, writer, tenant).write())
        writer.write(fr.frame(fr.END_OF_ALL, fr.encode_map(totals)))
        writer.finish()


class _SalvagedPart:
    """A tenant's part of the bundle: its records, and each leaf as soon as what it attests is there."""

    def __init__(self, salvage: Salvage, writer: ContainerWriter, tenant: RecoveredTenant) -> None:
        self._salvage, self._writer, self._tenant = salvage, writer, tenant
        self._counted = dict.fromkeys(Counts.__dataclass_fields__, 0)
        self._log = SalvagedLog(salvage, tenant.tenant)
        self._leaves = self._log.leaves()
        self._next = next(self._leaves, None)
        self._notes = {note.size: note for note in tenant.log.notes}
        self._signers: set[bytes] = set()
        self._size = 0

    def write(self) -> Counts:
        """The whole part; what it holds."""
        tenant, log = self._tenant, self._tenant.log
        stated = TenantPart(tenant.tenant, tenant.origin, tenant.records, log.size, log.root)
        self._writer.write(fr.frame(fr.TENANT, fr.encode_map(stated)))
        self._note()
        self._due(0)
        for row, seq, signer in self._salvage.kept(tenant.tenant):
            if signer is not None and signer not in self._signers:
                self._signers.add(signer)
                self._put(fr.SIGNER, self._salvage.signers[signer])
            self._put(fr.RECORD, encode_row(row))
            self._counted["runs"] += seq == 1
            self._due(row.arrival)
        counts = Counts(**self._counted)
        self._writer.write(fr.frame(fr.END, fr.encode_map(counts)))
        return counts

    def _put(self, kind: int, payload: bytes) -> None:
        self._writer.write(fr.frame(kind, payload))
        self._counted[fr.COUNTED[kind]] += 1

    def _due(self, arrival: int) -> None:
        while self._next is not None and self._next.due <= arrival:
            self._leaf(self._next)
            self._next = next(self._leaves, None)

    def _leaf(self, leaf: LogLeaf) -> None:
        if leaf.entry.type is LeafType.ANCHOR_BATCH:
            assert leaf.old is not None
            for row in self._log.entries(leaf.old):
                self._put(fr.ENTRY, fr.encode_attested(Attested(None, row.entry, row.run)))
        self._put(fr.LEAF, fr.encode_attested(Attested(self._size, leaf.entry, leaf.run)))
        self._size += 1
        self._note()

    def _note(self) -> None:
        note: KeptNote | None = self._notes.get(self._size)
        if note is not None:
            self._put(fr.CHECKPOINT, fr.encode_note(note))
