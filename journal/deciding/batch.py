"""Decide a batch of requests, in order, against one snapshot: writes and answers out, nothing touched.

A refused request is answered with its refusal and changes nothing; the others stand. Every answer waits for the one
commit that makes the batch durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sealbook.indexes import case as case_index
from sealbook.indexes.packing import u64
from sealbook.indexes.standing import BLOCK_RECORDS, EffectStatus, Standing, advance
from sealbook.journal.deciding import leases, requests
from sealbook.journal.deciding.acts import CANCEL_REQUESTED, LEASE_FORCED, LOG_ADOPTED, Cancellation, cancellation_of
from sealbook.journal.deciding.admission import check_open, check_place, move_effect
from sealbook.journal.deciding.leases import Lease
from sealbook.journal.deciding.log import adoption, anchors, checkpoints, heads
from sealbook.journal.deciding.log.adoption import AdoptedLog
from sealbook.journal.deciding.log.leaves import Leaf, add_leaf, leaf_of, leaf_place
from sealbook.journal.deciding.overlay import Overlay
from sealbook.journal.deciding.requests import EFFECT_KINDS, Prepared
from sealbook.journal.engine.port import Moment, Place, Snapshot, Writes
from sealbook.journal.errors import (
    Concluded,
    Conflict,
    Corrupt,
    DuplicateAdmission,
    IndexStale,
    InvalidInput,
    LeaseHeld,
    Mismatch,
    NotConcluded,
    NotFound,
    Refused,
    RunSealed,
    UnknownVersion,
)
from sealbook.journal.records.names import OPERATOR_RUN, RESTORATION
from sealbook.journal.records.record import (
    ED25519,
    GENESIS,
    SIGNATURE_BYTES,
    Head,
    Record,
    Row,
    chain_hash,
    encode_body,
    encode_row,
    read_record,
    run_tag,
    signed_message,
    signer_id,
)
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import arrivals_of, block_of, block_place, record_place
from sealbook.journal.schema.setting import Setting
from sealbook.journal.schema.tables import EffectRow, LeaseRow, StoreRow, TenantRow

Batch = Sequence[tuple[str, requests.Request]]  # (tenant, request)


class Appended(list[Record]):
    """The records that an append made, in order; `replayed` when an earlier call had made them already."""

    def __init__(self, records: Sequence[Record] = (), *, replayed: bool = False) -> None:
        super().__init__(records)
        self.replayed = replayed


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """What became of `request_cancel` (behaviour D18).

    `status` is `recorded`; `already-requested`, with the first request; `concluded`, with the outcome; or
    `unknown-run`, for a run that has no records yet: the request is stored all the same.
    """

    run: str
    status: str
    cancellation: Cancellation | None
    outcome: str | None = None


def decide(batch: Batch, snapshot: Snapshot, moment: Moment, setting: Setting) -> tuple[Writes, list[Any]]:
    """The writes of a whole batch, and each request's answer: a value, or the error to raise.

    Pure: the same batch over the same snapshot at the same moment gives the same result.
    """
    overlay = Overlay(snapshot)
    answers = decide_over(overlay, batch, moment, setting)
    return overlay.writes(), answers


def decide_over(overlay: Overlay, batch: Batch, moment: Moment, setting: Setting) -> list[Any]:
    """The same over an overlay that knows some of the snapshot already; its `writes()` are the batch's."""
    places = [tables.STORE_PLACE]
    for tenant, request in batch:
        places += _places(tenant, request, overlay)
    overlay.fetch(dict.fromkeys(places))
    store = StoreRow.decode(overlay.get(tables.STORE_PLACE))
    if not store.index_current:
        raise IndexStale
    rules = Rules(overlay, moment, setting, store.restoration)
    answers: list[Any] = []
    for tenant, request in batch:
        try:
            answers.append(rules.answer(tenant, request, {}))
        except (Refused, Corrupt, UnknownVersion) as error:
            answers.append(error)
            overlay.drop()
        else:
            overlay.enter()
    return answers


def _places(tenant: str, request: requests.Request, overlay: Overlay) -> list[Place]:
    """The rows that deciding the request will certainly read, so that they are read in one go."""
    if isinstance(request, requests.Group):
        return [place for part in request.requests for place in _places(tenant, part, overlay)]
    if isinstance(request, requests.KeepCheckpoint | requests.AnchorOpen | requests.AdoptLog | requests.GatherHeads):
        return [(tables.TENANTS, tenant.encode())]
    key = tables.run_key(tenant, request.run)
    places: list[Place] = []
    if not overlay.knows(tenant, request.run):
        places += [(tables.TENANTS, tenant.encode()), (tables.STATE, key), (tables.LEASES, key)]
    if isinstance(request, requests.Append):
        for entry in request.entries:
            if entry.effect is not None and entry.kind in EFFECT_KINDS:
                places.append((tables.EFFECTS, tables.effect_key(tenant, request.run, entry.effect)))
    return places


class Rules:
    """One decider per kind of request, over the overlay of one batch."""

    def __init__(self, overlay: Overlay, moment: Moment, setting: Setting, restoration: int) -> None:
        self._overlay = overlay
        self._moment = moment
        self._at = max(0, leases.check_moment(moment).wall_ms)  # before 1970 the clock is wrong anyway (A45)
        self._setting = setting
        self._restoration = restoration
        self._signer_id = None if setting.signer is None else signer_id(setting.signer.public_key)

    def answer(self, tenant: str, request: requests.Request, granted: dict[str, int]) -> Any:
        """Decide one request. `granted` are the epochs that its group has acquired, by run."""
        match request:
            case requests.Append():
                return self._append(tenant, request, granted)
            case requests.Acquire():
                return self._acquire(tenant, request, granted)
            case requests.Renew():
                return self._renew(tenant, request)
            case requests.Release():
                return self._release(tenant, request, granted)
            case requests.Seal():
                return self._seal(tenant, request)
            case requests.Anchor():
                return self._anchor(tenant, request.run)
            case requests.AnchorOpen():
                return anchors.anchor_open(self._overlay, tenant)
            case requests.GatherHeads():
                return heads.gather(self._overlay, self._setting.identity.lineage_id, request.origin)
            case requests.RequestCancel():
                return self._request_cancel(tenant, request)
            case requests.ForceLease():
                return self._force_lease(tenant, request)
            case requests.KeepCheckpoint():
                return checkpoints.keep(self._overlay, tenant, request)
            case requests.AdoptLog():
                return self._adopt_log(tenant, request)
            case requests.Group():
                granted = {}
                return [self.answer(tenant, part, granted) for part in request.requests]

    # --- records ---------------------------------------------------------------------------------------------------

    def _append(self, tenant: str, request: requests.Append, granted: dict[str, int]) -> Appended:
        overlay, run = self._overlay, request.run
        standing = overlay.standing(tenant, run)
        epoch = granted.get(run) if request.epoch is None else request.epoch
        if epoch is None:
            raise InvalidInput("epoch", None, "is needed: pass lease= or epoch=")
        if not request.entries:
            return Appended()
        if request.after is not None:
            head = Head(0, GENESIS) if standing is None else Head(standing.records, standing.head)
            if request.after != head:
                return self._replay(tenant, request, epoch, head)
        row = overlay.lease(tenant, run)
        if standing is None or not standing.sealed:
            leases.fence(run, epoch, row, standing, self._restoration)
        check_open(run, standing)
        records, standing = self._chain(tenant, run, standing, request.entries, epoch, request.salt)
        if request.seal:
            self._seal_concluded(standing)
        elif standing.concluded and not standing.final:
            add_leaf(overlay, standing, sealing=False)  # the conclusion does not seal, so it is anchored at once (D11)
        return Appended(records)

    def _chain(
        self, tenant: str, run: str, standing: Standing | None, entries: Sequence[Prepared], epoch: int, salt: bytes
    ) -> tuple[list[Record], Standing]:
        """Chain these entries to the run that stands so, with every row that one record brings along.

        The fence was passed. Answers with the records, and where the run stands after them.
        """
        overlay, at, setting, signer = self._overlay, self._at, self._setting, self._signer_id
        if standing is None:
            tag, seq, prev = run_tag(salt, tenant, run), 0, GENESIS
        else:
            overlay.check_head(standing)
            tag, seq, prev = standing.run_tag, standing.records, standing.head
        counts = overlay.tenant(tenant)
        arrival, previous = counts.arrivals, None
        records: list[Record] = []
        for entry in entries:
            seq, arrival = seq + 1, arrival + 1
            check_place(entry, seq, previous)
            before, after, attempt = self._effect(tenant, run, entry, seq)
            if entry.source is not None:
                self._admit_once(tenant, run, entry)
            version = setting.upcaster.current_version(entry.kind)
            if type(version) is not int or not 1 <= version < 2**32:
                raise InvalidInput(
                    "version", version, f"of kind {entry.kind}, which the upcaster states, is no version"
                )
            body = encode_body(
                v=version,
                tenant=tenant,
                run=run,
                seq=seq,
                epoch=epoch,
                at=at,
                kind=entry.kind,
                data=entry.data,
                case=entry.case,
                effect=entry.effect,
                attempt=attempt,
                signer=signer,
                journal=setting.identity.lineage_id if seq == 1 else None,
                salt=salt if seq == 1 else None,
            )
            hash_ = chain_hash(prev, body)
            signature = None if signer is None else self._sign(hash_)
            row = Row(arrival, prev, hash_, signature, body)
            overlay.insert(record_place(tenant, arrival), encode_row(row))
            if entry.case is not None:
                self._add_to_case(tenant, entry.case, run, seq)
            if seq % BLOCK_RECORDS == 0:
                assert standing is not None
                overlay.insert(block_place(tenant, run, block_of(seq)), standing.recent_arrivals + u64(arrival))
            facts = entry.facts(seq, arrival, epoch, at, hash_, before, after)
            standing = advance(standing, facts, tenant=tenant, run=run, run_tag=tag)
            records.append(
                Record(
                    tenant,
                    run,
                    seq,
                    arrival,
                    epoch,
                    at,
                    entry.kind,
                    version,
                    entry.case,
                    entry.effect,
                    attempt,
                    entry.plain,
                    prev,
                    hash_,
                    signer,
                    signature,
                    salt if seq == 1 else None,
                    body,
                )
            )
            prev, previous = hash_, entry
        assert standing is not None and standing.head == prev
        overlay.set_standing(standing)
        overlay.set_tenant(tenant, TenantRow(arrival, *counts[1:]))
        return records, standing

    def _add_to_case(self, tenant: str, case: str, run: str, seq: int) -> None:
        place = case_index.place(tenant, case, run, seq)
        value = self._overlay.get(place)
        try:
            moved = case_index.with_record(value, seq)
        except ValueError as error:
            raise Corrupt(f"a row of the case index is damaged: {error}", run, None, *place) from error
        (self._overlay.insert if value is None else self._overlay.put)(place, moved)

    def _effect(
        self, tenant: str, run: str, entry: Prepared, seq: int
    ) -> tuple[EffectStatus | None, EffectStatus | None, int | None]:
        """Move the entry's effect: its status before and after, and the attempt to stamp."""
        if entry.kind not in EFFECT_KINDS:
            return None, None, entry.attempt
        assert entry.effect is not None
        place = (tables.EFFECTS, tables.effect_key(tenant, run, entry.effect))
        row = EffectRow.decode(place, run, self._overlay.get(place))
        moved = move_effect(run, entry, seq, row)
        (self._overlay.insert if row is None else self._overlay.put)(place, moved.encode())
        return (None if row is None else row.status), moved.status, moved.attempt

    def _admit_once(self, tenant: str, run: str, entry: Prepared) -> None:
        assert entry.source is not None and entry.id is not None
        key = tables.admission_key(tenant, self._setting.identity.secret, entry.source, entry.id)
        holder = self._overlay.get((tables.ADMISSIONS, key))
        if holder is not None:
            raise DuplicateAdmission(entry.source, entry.id, read_holder(key, holder))
        self._overlay.insert((tables.ADMISSIONS, key), run.encode())

    def _sign(self, record_hash: bytes) -> bytes:
        signer = self._setting.signer
        assert signer is not None and self._signer_id is not None
        place = (tables.SIGNERS, self._signer_id)
        if self._overlay.get(place) is None:
            self._overlay.put(place, bytes([ED25519]) + signer.public_key)
        signature = signer.sign(signed_message(record_hash))
        if not isinstance(signature, bytes) or len(signature) != SIGNATURE_BYTES:  # nobody could read such a record
            raise InvalidInput(
                "signer", signer.public_key.hex(), f"makes signatures that are not {SIGNATURE_BYTES} bytes"
            )
        return signature

    def _replay(self, tenant: str, request: requests.Append, epoch: int, head: Head) -> Appended:
        """The records that an earlier call made of these entries after this head; `Conflict` when it made none."""
        run, after = request.run, request.after
        assert after is not None
        count = len(request.entries)
        conflict = Conflict(run, head)
        if after.seq + count > head.seq:
            raise conflict
        records = [self._read(tenant, run, seq) for seq in range(max(1, after.seq), after.seq + count + 1)]
        if (records.pop(0).hash if after.seq else GENESIS) != after.hash:
            raise conflict
        for entry, record in zip(request.entries, records, strict=True):
            made = (record.kind, record.case, record.effect, record.epoch)
            if made != (entry.kind, entry.case, entry.effect, epoch) or not same_data(record, entry):
                raise conflict
        if request.seal:
            self._seal_replayed(tenant, request, epoch, records[-1])
        return Appended(records, replayed=True)

    def _seal_replayed(self, tenant: str, request: requests.Append, epoch: int, last: Record) -> None:
        """Seal what an earlier call concluded and left unsealed, under the same rules as a seal of its own."""
        overlay, run = self._overlay, request.run
        standing = overlay.standing(tenant, run)
        assert standing is not None
        if last.seq != standing.records:
            raise NotConcluded(run, last.kind, request.entries[-1].outcome)
        if not standing.sealed:
            leases.fence(run, epoch, overlay.lease(tenant, run), standing, self._restoration)
            self._seal_concluded(standing)

    def _read(self, tenant: str, run: str, seq: int) -> Record:
        overlay = self._overlay
        standings = {run: overlay.standing(tenant, run)}
        [arrival] = arrivals_of(lambda places: list(map(overlay.get, places)), standings, [(run, seq)])
        value = overlay.get(record_place(tenant, arrival))
        return read_record(tenant, run, seq, arrival, value, self._setting.upcaster)

    # --- leases ----------------------------------------------------------------------------------------------------

    def _acquire(self, tenant: str, request: requests.Acquire, granted: dict[str, int]) -> Lease:
        overlay, run = self._overlay, request.run
        standing = overlay.standing(tenant, run)
        if standing is not None and standing.sealed:
            raise RunSealed(run, standing.outcome or "")
        before = overlay.lease(tenant, run)
        row = leases.acquire(
            run,
            before,
            standing,
            owner=request.owner,
            ttl_ms=request.ttl_ms,
            moment=self._moment,
            restoration=self._restoration,
        )
        overlay.set_lease(tenant, run, row)
        if before is not None and before.owner:
            overlay.take_over(tenant, run, before.epoch, row.epoch)
        granted[run] = row.epoch
        return leases.granted(tenant, run, row)

    def _renew(self, tenant: str, request: requests.Renew) -> Lease:
        overlay, run = self._overlay, request.run
        row = leases.renew(
            run,
            overlay.lease(tenant, run),
            owner=request.owner,
            epoch=request.epoch,
            ttl_ms=request.ttl_ms,
            moment=self._moment,
        )
        overlay.set_lease(tenant, run, row)
        return leases.granted(tenant, run, row)

    def _release(self, tenant: str, request: requests.Release, granted: dict[str, int]) -> None:
        """Free the lease if it stands under this epoch; anything else is a success that changes nothing (A86)."""
        row = self._overlay.lease(tenant, request.run)
        epoch = granted.get(request.run) if request.epoch is None else request.epoch
        if row is not None and row.epoch == epoch and row.owner:
            self._overlay.set_lease(tenant, request.run, leases.released(row.epoch))

    def _force_lease(self, tenant: str, request: requests.ForceLease) -> Lease:
        """Issue the next epoch to nobody: the old owner is fenced, and anybody may acquire."""
        overlay, run = self._overlay, request.run
        standing, row = overlay.standing(tenant, run), overlay.lease(tenant, run)
        if standing is None and row is None:
            raise NotFound("run", run)
        if standing is not None and standing.sealed:
            raise RunSealed(run, standing.outcome or "")
        epoch = leases.next_epoch(run, row, standing, self._restoration)
        act = {
            "run": run,
            "actor": request.actor,
            "reason": request.reason,
            "owner": row.owner or None if row is not None else None,
            "epoch_before": row.epoch if row is not None else standing.epoch if standing is not None else 0,
            "epoch": epoch,
        }
        self.operator_act(tenant, LEASE_FORCED, act, request.salt)
        forced = LeaseRow("", epoch, 0, 0, leases.UNKNOWN_BOOT)
        overlay.set_lease(tenant, run, forced)
        return leases.granted(tenant, run, forced)

    # --- the log ---------------------------------------------------------------------------------------------------

    def _seal(self, tenant: str, request: requests.Seal) -> Leaf:
        """Seal a concluded run. The first seal wins: later ones change nothing and answer with it (A93)."""
        overlay, run = self._overlay, request.run
        standing, row = overlay.standing(tenant, run), overlay.lease(tenant, run)
        if standing is None:
            if row is not None and request.epoch is not None:
                leases.fence(run, request.epoch, row, standing, self._restoration)
            raise NotConcluded(run, None, None) if row is not None else NotFound("run", run)
        if not standing.sealed:
            if request.epoch is not None:
                leases.fence(run, request.epoch, row, standing, self._restoration)
            elif row is not None and (remaining := leases.remaining_ms(row, self._moment)):
                raise LeaseHeld(run, row.owner, row.epoch, remaining)
        if request.outcome is not None and standing.concluded and request.outcome != standing.outcome:
            raise Mismatch(run, "the outcome", request.outcome, standing.outcome)  # D3
        if not standing.sealed:
            standing = self._seal_concluded(standing)
        return self._leaf(standing)

    def _seal_concluded(self, standing: Standing) -> Standing:
        if not standing.final:
            outcome = standing.outcome if standing.concluded else None
            raise NotConcluded(standing.run, standing.last_kind, outcome)
        self._overlay.check_head(standing)
        return add_leaf(self._overlay, standing, sealing=True)

    def _anchor(self, tenant: str, run: str) -> Leaf:
        """Anchor an open run's head. An unmoved head, or a sealed run, is answered with its leaf (D25)."""
        standing = self._overlay.standing(tenant, run)
        if standing is None:
            raise NotFound("run", run)
        if not standing.sealed:
            if standing.final:
                raise Concluded(run, standing.outcome or "")
            if standing.highest_leaf_seq != standing.records:
                self._overlay.check_head(standing)
                standing = add_leaf(self._overlay, standing, sealing=False)
        return self._leaf(standing)

    def _adopt_log(self, tenant: str, request: requests.AdoptLog) -> AdoptedLog:
        """Let the log go on under another origin, and record that it does."""
        act = adoption.begin_anew(self._overlay, tenant, request)
        adoption.remember(self._overlay, self.operator_act(tenant, LOG_ADOPTED, act, request.salt))
        return AdoptedLog(request.origin, self._overlay.tenant(tenant).leaves, request.old)

    def _leaf(self, standing: Standing) -> Leaf:
        index = standing.highest_leaf
        assert index is not None
        return leaf_of(standing, index, self._overlay.get(leaf_place(standing, index)))

    # --- operator acts ---------------------------------------------------------------------------------------------

    def _request_cancel(self, tenant: str, request: requests.RequestCancel) -> CancelAnswer:
        """Record the first request; later ones change nothing (A113). It needs no lease and no existing run."""
        overlay, run = self._overlay, request.run
        standing = overlay.standing(tenant, run)
        if standing is not None and (standing.sealed or standing.final):
            return CancelAnswer(run, "concluded", None, standing.outcome)
        place = (tables.CANCELS, tables.run_key(tenant, run))
        value = overlay.get(place)
        if value is not None:
            record = self._read(tenant, OPERATOR_RUN, int.from_bytes(value, "big"))
            return CancelAnswer(run, "already-requested", cancellation_of(record))
        act = {"run": run, "actor": request.actor, "reason": request.reason, "basis": request.basis}
        record = self.operator_act(tenant, CANCEL_REQUESTED, act, request.salt)
        overlay.insert(place, record.seq.to_bytes(8, "big"))
        # A run that concluded without being final may be resumed, and must then find the request.
        if standing is not None and standing.concluded:
            return CancelAnswer(run, "concluded", cancellation_of(record), standing.outcome)
        return CancelAnswer(run, "unknown-run" if standing is None else "recorded", cancellation_of(record))

    def operator_act(self, tenant: str, kind: str, data: dict[str, Any], salt: bytes) -> Record:
        """One record of the tenant's own run, in the transaction that acts. That run has no lease."""
        epoch = self._restoration * RESTORATION
        standing = self._overlay.standing(tenant, OPERATOR_RUN)
        [record], _ = self._chain(tenant, OPERATOR_RUN, standing, [requests.prepare_trusted(kind, data)], epoch, salt)
        return record


def read_holder(key: bytes, value: bytes) -> str:
    """The run that holds an admission key."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Corrupt("the admission row names no run", None, None, tables.ADMISSIONS, key) from error


def same_data(record: Record, entry: Prepared) -> bool:
    """Whether the record's data, as it was written, is the entry's: 1 and 1.0, or 0.0 and -0.0, are two things."""
    return b"\x64data" + entry.data in record.body and record.data == entry.plain
