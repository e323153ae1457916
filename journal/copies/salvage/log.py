"""Decide which leaves of a damaged store's log are kept, once it is known which of its records are (`rows`).

- Rule 1: a log is kept up to its first leaf that is lost, or attests what is lost. The seals and anchors behind it
  enter again, in their order, at other positions: from there on it is another log.
- Rule 2: an anchor batch states an arrival, so it cannot enter once its records have others.
- Rule 3: a conclusion that is anchored at once is anchored anew where that leaf is lost.
- Rule 4: the first leaf of a log that went on under another origin is that of the last adoption.
- Rule 5: a checkpoint is kept if the log that is kept reaches it, with its root.

A leaf is due behind the record that it attests, or behind the one that the leaf before it was due behind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from sealbook.journal.bundle.frames import KeptNote, read_note
from sealbook.journal.copies.salvage.rows import ARRIVAL_MAX, FINAL, RESUMABLE, Salvage
from sealbook.journal.deciding.acts import LOG_ADOPTED, log_adoption_of
from sealbook.journal.records.names import OPERATOR_RUN
from sealbook.journal.records.record import decode_record
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema.tables import BatchRow
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.monitor import Growth


@dataclass(frozen=True, slots=True)
class KeptLog:
    """What became of a tenant's log: `known` leaves it had, as far as can be told, of which the first `agreed` are its
    first ones now. `lost` are the indexes of the leaves that could not enter, as (first, last)."""

    known: int
    agreed: int
    lost: tuple[tuple[int, int], ...]
    size: int
    root: bytes
    notes_known: int
    notes: tuple[KeptNote, ...]
    signed: int
    """The largest size that is known to have been signed, -1 for none."""
    signed_note: bytes | None
    """The signed checkpoint of the largest size, if that is beyond `agreed`: what an adoption begins with."""


@dataclass(frozen=True, slots=True)
class LogLeaf:
    """A leaf to enter behind the record that is numbered `due`. `old` is the index that it had, None for a new one."""

    due: int
    old: int | None
    entry: LeafEntry
    run: str


class SalvagedLog:
    """The log of a tenant whose records `Salvage.chain` has decided. `origin` is that of its last adoption, if any."""

    def __init__(self, salvage: Salvage, tenant: str) -> None:
        self._salvage, self._tenant = salvage, tenant
        self._db: sqlite3.Connection = salvage.db
        self.origin: str | None = None

    def decide(self) -> KeptLog:
        """Decide which leaves are kept."""
        counts = self._salvage.tenants.get(self._tenant)
        [top] = self._db.execute(
            "SELECT coalesce(max(number) + 1, 0) FROM leaves WHERE tenant = ?", (self._tenant,)
        ).fetchone()
        known = max(top, 0 if counts is None else counts.leaves)
        self._db.execute("BEGIN")
        lost = self._place_leaves(known)
        self._anchor_conclusions()
        self._db.execute("COMMIT")
        growth, agreed = Growth(), 0
        notes = {note.size: note for note in self._notes()}
        notes_known, signed = len(notes), max((size for size, note in notes.items() if note.state > 0), default=-1)
        signed = max(signed, -1 if counts is None else counts.signed)
        kept = [notes[0]] if 0 in notes and read_note(notes[0]).root == growth.root() else []
        for leaf in self.leaves():
            agreed += leaf.old == growth.size == agreed
            growth.add([leaf.entry.hash()])
            note = notes.get(growth.size) if agreed == growth.size else None
            if note is not None and read_note(note).root == growth.root():
                kept.append(note)
        last = max((note for note in notes.values() if note.state > 0), key=lambda note: note.size, default=None)
        return KeptLog(
            known,
            agreed,
            tuple(lost),
            growth.size,
            growth.root(),
            notes_known,
            tuple(kept),
            signed,
            None if last is None or last.size <= agreed else last.note,
        )

    def leaves(self) -> Iterator[LogLeaf]:
        """The leaves that are kept, in their order."""
        query = "SELECT due, old, entry, run FROM log WHERE tenant = ? ORDER BY due, place"
        for due, old, entry, run in self._db.execute(query, (self._tenant,)):
            yield LogLeaf(due, old, LeafEntry.decode(entry), run)

    def entries(self, number: int) -> Iterator[BatchRow]:
        """The entries of the anchor batch whose leaf had this index."""
        query = "SELECT entry, run FROM batches WHERE tenant = ? AND number = ? ORDER BY place"
        for entry, run in self._db.execute(query, (self._tenant, number)):
            yield BatchRow(LeafEntry.decode(entry), run)

    def _notes(self) -> Iterator[KeptNote]:
        query = "SELECT size, state, note FROM notes WHERE tenant = ? ORDER BY size"
        for size, state, note in self._db.execute(query, (self._tenant,)):
            yield KeptNote(size, state, note)

    def _place_leaves(self, known: int) -> list[tuple[int, int]]:
        """Give each leaf that is kept its place; the indexes of the others."""
        lost: list[tuple[int, int]] = []
        adopted, due, covered, expected = self._adopted(), 0, 0, 0
        if adopted is not None:
            self._place(0, -1, None, adopted, "")
        stored = self._db.execute("SELECT number, entry FROM leaves WHERE tenant = ? ORDER BY number", (self._tenant,))
        for number, data in stored:
            if number > expected:
                lost.append((expected, number - 1))
            expected, entry, arrival = number + 1, LeafEntry.decode(data), None
            if number == 0 and entry == adopted:
                self._db.execute("UPDATE log SET old = 0 WHERE tenant = ? AND place = -1", (self._tenant,))
                continue
            match entry.type:
                case LeafType.ADOPTED_LOG:
                    run = ""  # of another adoption, or of one whose record is lost
                case LeafType.ANCHOR_BATCH:
                    arrival = self._batch_arrival(number, entry, max(due, entry.seq), covered)
                    covered = covered if arrival is None else arrival
                    run = ""
                case _:
                    run, arrival = self._attested(entry, due)
            if arrival is None:
                lost.append((number, number))
                continue
            due = max(due, arrival)
            self._place(due, number, number, entry, run)
        if expected < known:
            lost.append((expected, known - 1))
        return _joined(lost)

    def _place(self, due: int, place: int, old: int | None, entry: LeafEntry, run: str) -> None:
        self._salvage.put("log", self._tenant, due, place, old, entry.encode(), run)
        if run:
            update = "UPDATE tags SET attested = ?, sealed = ? WHERE tenant = ? AND tag = ?"
            self._db.execute(update, (entry.seq, entry.type is LeafType.SEAL, self._tenant, entry.run_tag))

    def _attested(self, entry: LeafEntry, due: int) -> tuple[str, int | None]:
        """The run of a seal or an anchor, and where the record stands that it attests; None if it cannot enter."""
        found = self._attests(entry, due)
        if found is None:
            return "", None
        run, number, ends = found
        query = "SELECT attested, sealed FROM tags WHERE tenant = ? AND tag = ?"
        attested, sealed = self._db.execute(query, (self._tenant, entry.run_tag)).fetchone()
        ended = (ends == FINAL) == (entry.type is LeafType.SEAL)
        return run, number if ended and not sealed and entry.seq > attested else None

    def _attests(self, entry: LeafEntry, due: int) -> tuple[str, int, int] | None:
        """(run, number, ends) of the record that an entry attests, if that is the run's last one when the entry is
        due."""
        row = self._db.execute(
            "SELECT run FROM tags WHERE tenant = ? AND tag = ?", (self._tenant, entry.run_tag)
        ).fetchone()
        if row is None:
            return None
        query = "SELECT number, hash, ends FROM kept WHERE tenant = ? AND run = ? AND seq = ?"
        record = self._db.execute(query, (self._tenant, row[0], entry.seq)).fetchone()
        after = self._db.execute(query, (self._tenant, row[0], entry.seq + 1)).fetchone()
        if record is None or record[1] != entry.head or (after is not None and after[0] <= max(due, record[0])):
            return None
        return row[0], record[0], record[2]

    def _batch_arrival(self, number: int, leaf: LeafEntry, due: int, covered: int) -> int | None:
        """The highest arrival of an anchor batch's records; None if the batch cannot enter as it was."""
        growth, arrival, last = Growth(), 0, b""
        for row in self.entries(number):
            found = self._attests(row.entry, due)
            sealed = "SELECT sealed FROM tags WHERE tenant = ? AND tag = ?"
            if (
                found is None
                or (found[0], row.entry.type) != (row.run, LeafType.ANCHOR)
                or found[1] <= covered
                or found[2] == FINAL
                or row.entry.run_tag <= last
                or self._db.execute(sealed, (self._tenant, row.entry.run_tag)).fetchone()[0]
            ):
                return None
            growth.add([row.entry.hash()])
            arrival, last = max(arrival, found[1]), row.entry.run_tag
        return arrival if growth.size and (growth.root(), arrival) == (leaf.run_tag, leaf.seq) else None

    def _adopted(self) -> LeafEntry | None:
        """The first leaf that the last adoption gave the log."""
        query = "SELECT seq, at, size FROM kept WHERE tenant = ? AND run = ? ORDER BY seq DESC"
        for seq, at, size in self._db.execute(query, (self._tenant, OPERATOR_RUN)):
            row = decode_row(self._salvage.file.at(at, size), OPERATOR_RUN, seq)
            record = decode_record(row, tenant=self._tenant, run=OPERATOR_RUN, seq=seq, upcaster=self._salvage.upcaster)
            if record.kind == LOG_ADOPTED:
                self.origin, entry = log_adoption_of(record)
                return entry
        return None

    def _anchor_conclusions(self) -> None:
        """Give each conclusion that leaves its run open a leaf, as it had one."""
        query = """
            SELECT number, kept.run, seq, hash, tag
            FROM kept JOIN tags ON tags.tenant = kept.tenant AND tags.run = kept.run
            WHERE kept.tenant = ? AND ends = ? ORDER BY number"""
        for number, run, seq, head, tag in self._db.execute(query, (self._tenant, RESUMABLE)):
            entry = LeafEntry(LeafType.ANCHOR, tag, seq, head).encode()
            stands = "SELECT 1 FROM log WHERE tenant = ? AND run = ? AND entry = ?"
            if self._db.execute(stands, (self._tenant, run, entry)).fetchone() is None:
                self._salvage.put("log", self._tenant, number, ARRIVAL_MAX, None, entry, run)


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in as few ranges as there can be."""
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined
