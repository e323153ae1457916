"""Let what a bundle holds into a store, by the rules that made it first: one transaction of a restore at a time.

Records, leaves and checkpoints enter as they are, under their own epochs. What derives from them is derived again by
`batch`, `seals`, `anchoring` and `publishing`, as it was when they were written.
"""

from __future__ import annotations

from collections.abc import Sequence

from sealbook.indexes.packing import u64
from sealbook.indexes.standing import BLOCK_RECORDS, advance
from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.faults import CONTENT, Damaged, Fault
from sealbook.journal.bundle.frames import Attested, KeptNote, TenantPart, read_note
from sealbook.journal.bundle.part import SignerKey
from sealbook.journal.bundle.reader import Item
from sealbook.journal.bundle.records import Believed
from sealbook.journal.deciding import acts, leases, requests
from sealbook.journal.deciding.acts import (
    RESTORED,
    Restoration,
    cancellation_of,
    log_adoption_of,
    restoration_of,
)
from sealbook.journal.deciding.admission import check_open, check_place
from sealbook.journal.deciding.appending import add_to_case, hold_admission, move_effect_row
from sealbook.journal.deciding.context import context_of
from sealbook.journal.deciding.log import adoption, anchors, checkpoints, leaves
from sealbook.journal.deciding.operator_acts import enter_act
from sealbook.journal.deciding.overlay import Overlay
from sealbook.journal.deciding.requests import EFFECT_KINDS, KeepCheckpoint, Prepared
from sealbook.journal.engine.port import Moment, Snapshot, Writes
from sealbook.journal.errors import Corrupt, InvalidInput, Refused
from sealbook.journal.records import names
from sealbook.journal.records.chain import run_tag
from sealbook.journal.records.names import OPERATOR_RUN, RESTORATION
from sealbook.journal.records.record import Record
from sealbook.journal.records.row import encode_row
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import block_of, block_place, record_place
from sealbook.journal.schema.setting import Setting
from sealbook.journal.schema.tables import BatchRow, CheckpointState
from sealbook.merkle import tree
from sealbook.merkle.entry import LeafType


class RestoreStep:
    """One transaction of a restore. Pure, as all work is: it may be called again."""

    def __init__(self, items: Sequence[Item], setting: Setting, restoration: int) -> None:
        self._items, self._setting, self._restoration = items, setting, restoration
        self.records = sum(isinstance(item.value, Believed) for item in items)

    def __call__(self, snapshot: Snapshot, moment: Moment) -> tuple[Writes, None]:
        overlay = Overlay(snapshot)
        replay = RestoreRules(overlay, moment, self._setting, self._restoration)
        for item in self._items:
            try:
                replay.enter(item)
            except (Refused, Corrupt) as error:
                run, seq = _place_of(item)
                what = f"it breaks a rule: {error}"
                raise Damaged(Fault(what, fr.NAMES[item.kind], CONTENT, item.offset, item.tenant, run, seq)) from error
        overlay.enter()
        return overlay.writes(), None


def _place_of(item: Item) -> tuple[str | None, int | None]:
    if isinstance(item.value, Believed):
        return item.value.run, item.value.seq
    if isinstance(item.value, Attested) and item.value.run:
        return item.value.run, item.value.entry.seq
    return None, None


class RestoreAct:
    """The transaction that says, in the tenant's own run, that the tenant was restored, by Rule 5."""

    def __init__(self, stated: TenantPart, act: Restoration, setting: Setting, salt: bytes) -> None:
        self._stated, self._act, self._setting, self._salt = stated, act, setting, salt

    def __call__(self, snapshot: Snapshot, moment: Moment) -> tuple[Writes, None]:
        overlay, tenant, act = Overlay(snapshot), self._stated.tenant, self._act
        counts = overlay.tenant(tenant)
        root = tree.root(counts.leaves, leaves.node_reader(tenant, overlay.get))
        if (counts.arrivals, counts.leaves, root) != (act.records, act.size, act.root):
            raise Corrupt("the restored log is not the one that was exported", None, None, tables.TENANTS)
        context = context_of(overlay, moment, self._setting, act.restoration)
        enter_act(context, tenant, RESTORED, act.data(), self._salt)
        overlay.enter()
        return overlay.writes(), None


class RestoreRules:
    """The rules of a batch, applied to what was decided before."""

    def __init__(self, overlay: Overlay, moment: Moment, setting: Setting, restoration: int) -> None:
        self._context = context_of(overlay, moment, setting, restoration)
        self._overlay, self._restoration = overlay, restoration
        self._entries: list[BatchRow] = []

    def enter(self, item: Item) -> None:
        """Let in what a frame says; `Refused` or `Corrupt` when no store could have written it there."""
        tenant, value = item.tenant, item.value
        assert tenant is not None
        match value:
            case Believed():
                assert value.record is not None
                self._enter_record(value, value.record)
            case SignerKey():
                self._overlay.put((tables.SIGNERS, value.id), bytes([value.algorithm]) + value.public_key)
            case Attested():
                self._enter_leaf(tenant, value)
            case KeptNote():
                state = CheckpointState(value.state)
                note = b"" if state is CheckpointState.PENDING else value.note
                checkpoints.keep(self._overlay, tenant, KeepCheckpoint(read_note(value), state, note))
            case _:
                pass  # the beginning and the end of a part hold nothing that is stored

    def _enter_record(self, believed: Believed, record: Record) -> None:
        overlay, tenant, run, seq = self._overlay, record.tenant, record.run, record.seq
        standing = overlay.standing(tenant, run)
        members = requests.read_members(record.kind, record.data, record.effect)
        entry = Prepared(record.kind, record.case, record.effect, record.attempt, b"", record.data, **members)
        check_open(run, standing)
        check_place(entry, seq, None)
        if entry.kind in EFFECT_KINDS and entry.attempt is None:
            raise InvalidInput("attempt", None, "is missing: the store numbers every attempt")
        before, after, _ = move_effect_row(self._context, tenant, run, entry, seq)
        if entry.source is not None:
            hold_admission(self._context, tenant, run, entry)
        if entry.case is not None:
            add_to_case(self._context, tenant, entry.case, run, seq)
        overlay.insert(record_place(tenant, record.arrival), encode_row(believed.row))
        if seq % BLOCK_RECORDS == 0:
            assert standing is not None
            overlay.insert(block_place(tenant, run, block_of(seq)), standing.recent_arrivals + u64(record.arrival))
        facts = entry.facts(seq, record.arrival, record.epoch, record.at, record.hash, before, after)
        if standing is not None:
            tag = standing.run_tag
        else:
            assert record.salt is not None
            tag = run_tag(record.salt, tenant, run)
            self._fence(tenant, run)
        overlay.set_standing(advance(standing, facts, tenant=tenant, run=run, run_tag=tag))
        overlay.set_tenant(tenant, overlay.tenant(tenant)._replace(arrivals=record.arrival))
        if run == OPERATOR_RUN:
            self._enter_act(tenant, record)

    def _fence(self, tenant: str, run: str) -> None:
        """By Rule 4. The seal removes the row, as it always does."""
        if not run.startswith("~"):
            self._overlay.set_lease(tenant, run, leases.restored(self._restoration))

    def _enter_act(self, tenant: str, record: Record) -> None:
        """What an act left behind elsewhere."""
        match record.kind:
            case acts.CANCEL_REQUESTED:
                run = names.check_own_run(cancellation_of(record).run)
                place = (tables.CANCELS, tables.run_key(tenant, run))
                if self._overlay.get(place) is not None:
                    raise InvalidInput("cancellation", run, "was requested before")
                self._overlay.insert(place, u64(record.seq))
            case acts.LEASE_FORCED:
                run = names.check_own_run(record.data.get("run"))
                standing = self._overlay.standing(tenant, run)
                if standing is None:  # of a run without records there is nothing to find out
                    self._overlay.set_lease(tenant, run, leases.released(self._restoration * RESTORATION + 1))
            case acts.LOG_ADOPTED:
                log_adoption_of(record)
                adoption.remember(self._overlay, record)
            case _:
                restoration_of(record)

    def _enter_leaf(self, tenant: str, attested: Attested) -> None:
        overlay, entry = self._overlay, attested.entry
        if attested.index is None:
            self._entries.append(BatchRow(entry, attested.run))
        elif entry.type is LeafType.ANCHOR_BATCH:
            anchors.append_batch(overlay, tenant, entry, self._entries)
            self._entries = []
        elif entry.type is LeafType.ADOPTED_LOG:
            leaves.append_entry(overlay, tenant, entry)
        else:
            standing = overlay.standing(tenant, attested.run)
            assert standing is not None
            leaves.add_leaf(overlay, standing, sealing=entry.type is LeafType.SEAL)
