"""What is already written of a bundle whose export was interrupted: read and checked as any reader does.

Nothing of the store is read again for it, save what tells that this store wrote it: where the tenants stood, and the
last record that stands there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import Mark, Preamble
from sealbook.journal.bundle.frames import ClaimedKey, Counts, Header, TenantPart, Totals
from sealbook.journal.bundle.reader import Bundle, Value
from sealbook.journal.deciding.log import leaves
from sealbook.journal.exporting.parts import Differs, FrameWriter, PartWriter
from sealbook.journal.exporting.question import Bound, Plan
from sealbook.journal.exporting.selected import SelectedPart
from sealbook.journal.exporting.whole import WholePart
from sealbook.journal.records.row import decode_row
from sealbook.journal.schema import lookup, tables
from sealbook.journal.schema.tables import TenantRow
from sealbook.merkle import tree

if TYPE_CHECKING:
    from sealbook.journal.store.journal import Journal


class BegunBundle:
    """What stands there: nothing, until `read`.

    `frames` are those around the parts, `rest` is how the frame begins that is next. Whole parts are known by their
    counts alone.
    """

    def __init__(self, journal: Journal, plan: Plan) -> None:
        self._journal, self.plan = journal, plan
        self.mark: Mark
        self.frames: list[tuple[int, bytes]] = []
        self.rest = bytearray()
        self._ended: list[Counts] = []
        self._part: PartWriter | None = None

    @property
    def records(self) -> int:
        """How many records stand there."""
        under_way = 0 if self._part is None else self._part.records
        return sum(counts.records for counts in self._ended) + under_way

    def read(self, stream: BinaryIO) -> None:
        """Read the stream, which may end anywhere, and check that the store still has what the plan says.

        `Damaged`, `WrongFormat`, `UnknownVersion`: no export wrote this. `Differs`: it is not of this plan, or the plan
        is not of this store.
        """
        for bound in self.plan.bounds:
            _check_holds(self._journal, bound)
        bundle = Bundle(stream, upcaster=self._journal.view.setting.upcaster)
        if bundle.preamble != Preamble(self.plan.codec, self.plan.made_at):
            raise Differs("it was not begun by the plan beside it")
        try:
            for item in bundle.items_so_far(self.rest):
                value = item.value
                if isinstance(value, Header | str | ClaimedKey | TenantPart | Counts | Totals):
                    self.frames.append((item.kind, _payload(value)))
                if isinstance(value, TenantPart):
                    self._part = self._new(len(self._ended))
                elif isinstance(value, Counts):
                    self._ended.append(value)
                    self.close()
                elif self._part is not None:
                    self._part.count_written(item)
        except BaseException:
            self.close()
            raise
        self.mark = bundle.mark

    def close(self) -> None:
        """Forget the part that is under way."""
        if self._part is not None:
            self._part.close()
            self._part = None

    def put_ended_part(self, number: int, out: FrameWriter) -> Counts | None:
        """Put the frames around a part that stands there whole; its counts."""
        if number >= len(self._ended):
            return None
        counts = self._ended[number]
        out.put(fr.TENANT, fr.encode_map(self.plan.bounds[number].stated))
        out.put(fr.END, fr.encode_map(counts))
        return counts

    def part_to_write(self, number: int) -> PartWriter:
        """The part that is to be continued, or started; the caller closes it."""
        part, self._part = self._part or self._new(number), None
        return part

    def _new(self, number: int) -> PartWriter:
        if number >= len(self.plan.bounds):
            raise Differs("it has more tenants than the plan beside it")
        bound, question = self.plan.bounds[number], self.plan.question
        if question.what in fr.WHOLE:
            return WholePart(self._journal, bound)
        return SelectedPart(self._journal, bound, question)


def _payload(value: Value) -> bytes:
    """What the frame of this value says."""
    if isinstance(value, str):
        return value.encode()
    assert isinstance(value, Header | ClaimedKey | TenantPart | Counts | Totals)
    return fr.encode_map(value)


def _check_holds(journal: Journal, bound: Bound) -> None:
    """`Differs` unless the tenant's records and its log go on from where they stood."""
    stated = bound.stated
    with journal.view.snapshot() as snapshot:
        place = lookup.record_place(stated.tenant, stated.records)
        counted, last = snapshot.get_many([(tables.TENANTS, stated.tenant.encode()), place])
        row = None if counted is None else TenantRow.decode(stated.tenant, counted)
        if row is None or row.arrivals < stated.records or row.leaves < bound.size:
            raise Differs(f"the store has less of tenant {stated.tenant} than when it was begun")
        if stated.records and (last is None or decode_row(last, None, None).hash != bound.last):
            raise Differs(f"the store has other records of tenant {stated.tenant} than when it was begun")
        read = leaves.snapshot_reader(stated.tenant, snapshot)
        log = (journal.tenant(stated.tenant)._origin_in(snapshot), tree.root(bound.size, read))
        if log != (stated.origin, bound.root):
            raise Differs(f"the log of tenant {stated.tenant} is another one than when it was begun")
