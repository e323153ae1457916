"""Append to a run: fence, chain, effects, admissions, and the replay of an append that was made before."""

from __future__ import annotations

from collections.abc import Sequence

from sealbook.indexes import case as case_index
from sealbook.indexes.packing import u64
from sealbook.indexes.standing import BLOCK_RECORDS, EffectStatus, Standing, advance
from sealbook.journal.deciding import leases, requests
from sealbook.journal.deciding.admission import check_open, check_place, move_effect
from sealbook.journal.deciding.context import Context
from sealbook.journal.deciding.log.leaves import add_leaf
from sealbook.journal.deciding.requests import EFFECT_KINDS, Prepared
from sealbook.journal.deciding.sealing import seal_concluded
from sealbook.journal.errors import Conflict, Corrupt, DuplicateAdmission, InvalidInput, NotConcluded
from sealbook.journal.records.body import encode_body
from sealbook.journal.records.chain import GENESIS, Head, chain_hash, run_tag
from sealbook.journal.records.record import Record, read_record
from sealbook.journal.records.row import Row, encode_row
from sealbook.journal.records.signatures import ED25519, SIGNATURE_BYTES, signed_message
from sealbook.journal.schema import tables
from sealbook.journal.schema.lookup import arrivals_of, block_of, block_place, record_place
from sealbook.journal.schema.tables import EffectRow, TenantRow


class Appended(list[Record]):
    """The records that an append made, in order; `replayed` when an earlier call had made them already."""

    def __init__(self, records: Sequence[Record] = (), *, replayed: bool = False) -> None:
        super().__init__(records)
        self.replayed = replayed


def append(context: Context, tenant: str, request: requests.Append, granted: dict[str, int]) -> Appended:
    overlay, run = context.overlay, request.run
    standing = overlay.standing(tenant, run)
    epoch = granted.get(run) if request.epoch is None else request.epoch
    if epoch is None:
        raise InvalidInput("epoch", None, "is needed: pass lease= or epoch=")
    if not request.entries:
        return Appended()
    if request.after is not None:
        head = Head(0, GENESIS) if standing is None else Head(standing.records, standing.head)
        if request.after != head:
            return _replay(context, tenant, request, epoch, head)
    row = overlay.lease(tenant, run)
    if standing is None or not standing.sealed:
        leases.fence(run, epoch, row, standing, context.restoration)
    check_open(run, standing)
    records, standing = chain(context, tenant, run, standing, request.entries, epoch, request.salt)
    if request.seal:
        seal_concluded(context, standing)
    elif standing.concluded and not standing.final:
        add_leaf(overlay, standing, sealing=False)  # the conclusion does not seal, so it is anchored at once
    return Appended(records)


def chain(
    context: Context,
    tenant: str,
    run: str,
    standing: Standing | None,
    entries: Sequence[Prepared],
    epoch: int,
    salt: bytes,
) -> tuple[list[Record], Standing]:
    """Chain these entries to the run that stands so, with every row that one record brings along.

    The fence was passed. Answers with the records, and where the run stands after them.
    """
    overlay, at, setting, signer = context.overlay, context.at, context.setting, context.signer_id
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
        before, after, attempt = move_effect_row(context, tenant, run, entry, seq)
        if entry.source is not None:
            hold_admission(context, tenant, run, entry)
        version = setting.upcaster.current_version(entry.kind)
        if type(version) is not int or not 1 <= version < 2**32:
            raise InvalidInput("version", version, f"of kind {entry.kind}, which the upcaster states, is no version")
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
        signature = None if signer is None else _sign(context, hash_)
        row = Row(arrival, prev, hash_, signature, body)
        overlay.insert(record_place(tenant, arrival), encode_row(row))
        if entry.case is not None:
            add_to_case(context, tenant, entry.case, run, seq)
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


def add_to_case(context: Context, tenant: str, case: str, run: str, seq: int) -> None:
    place = case_index.place(tenant, case, run, seq)
    value = context.overlay.get(place)
    try:
        moved = case_index.with_record(value, seq)
    except ValueError as error:
        raise Corrupt(f"a row of the case index is damaged: {error}", run, None, *place) from error
    (context.overlay.insert if value is None else context.overlay.put)(place, moved)


def move_effect_row(
    context: Context, tenant: str, run: str, entry: Prepared, seq: int
) -> tuple[EffectStatus | None, EffectStatus | None, int | None]:
    """Move the entry's effect: its status before and after, and the attempt to stamp."""
    if entry.kind not in EFFECT_KINDS:
        return None, None, entry.attempt
    assert entry.effect is not None
    place = (tables.EFFECTS, tables.effect_key(tenant, run, entry.effect))
    row = EffectRow.decode(place, run, context.overlay.get(place))
    moved = move_effect(run, entry, seq, row)
    (context.overlay.insert if row is None else context.overlay.put)(place, moved.encode())
    return (None if row is None else row.status), moved.status, moved.attempt


def hold_admission(context: Context, tenant: str, run: str, entry: Prepared) -> None:
    assert entry.source is not None and entry.id is not None
    key = tables.admission_key(tenant, context.setting.identity.secret, entry.source, entry.id)
    holder = context.overlay.get((tables.ADMISSIONS, key))
    if holder is not None:
        raise DuplicateAdmission(entry.source, entry.id, read_holder(key, holder))
    context.overlay.insert((tables.ADMISSIONS, key), run.encode())


def _sign(context: Context, record_hash: bytes) -> bytes:
    signer = context.setting.signer
    assert signer is not None and context.signer_id is not None
    place = (tables.SIGNERS, context.signer_id)
    if context.overlay.get(place) is None:
        context.overlay.put(place, bytes([ED25519]) + signer.public_key)
    signature = signer.sign(signed_message(record_hash))
    if not isinstance(signature, bytes) or len(signature) != SIGNATURE_BYTES:  # nobody could read such a record
        raise InvalidInput("signer", signer.public_key.hex(), f"makes signatures that are not {SIGNATURE_BYTES} bytes")
    return signature


def _replay(context: Context, tenant: str, request: requests.Append, epoch: int, head: Head) -> Appended:
    """The records that an earlier call made of these entries after this head; `Conflict` when it made none."""
    run, after = request.run, request.after
    assert after is not None
    count = len(request.entries)
    conflict = Conflict(run, head)
    if after.seq + count > head.seq:
        raise conflict
    records = [read_run_record(context, tenant, run, seq) for seq in range(max(1, after.seq), after.seq + count + 1)]
    if (records.pop(0).hash if after.seq else GENESIS) != after.hash:
        raise conflict
    for entry, record in zip(request.entries, records, strict=True):
        made = (record.kind, record.case, record.effect, record.epoch)
        if made != (entry.kind, entry.case, entry.effect, epoch) or not same_data(record, entry):
            raise conflict
    if request.seal:
        _seal_replayed(context, tenant, request, epoch, records[-1])
    return Appended(records, replayed=True)


def _seal_replayed(context: Context, tenant: str, request: requests.Append, epoch: int, last: Record) -> None:
    """Seal what an earlier call concluded and left unsealed, under the same rules as a seal of its own."""
    overlay, run = context.overlay, request.run
    standing = overlay.standing(tenant, run)
    assert standing is not None
    if last.seq != standing.records:
        raise NotConcluded(run, last.kind, request.entries[-1].outcome)
    if not standing.sealed:
        leases.fence(run, epoch, overlay.lease(tenant, run), standing, context.restoration)
        seal_concluded(context, standing)


def read_run_record(context: Context, tenant: str, run: str, seq: int) -> Record:
    overlay = context.overlay
    standings = {run: overlay.standing(tenant, run)}
    [arrival] = arrivals_of(lambda places: list(map(overlay.get, places)), standings, [(run, seq)])
    value = overlay.get(record_place(tenant, arrival))
    return read_record(tenant, run, seq, arrival, value, context.setting.upcaster)


def read_holder(key: bytes, value: bytes) -> str:
    """The run that holds an admission key."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Corrupt("the admission row names no run", None, None, tables.ADMISSIONS, key) from error


def same_data(record: Record, entry: Prepared) -> bool:
    """Whether the record's data, as it was written, is the entry's: 1 and 1.0, or 0.0 and -0.0, are two things."""
    return b"\x64data" + entry.data in record.body and record.data == entry.plain
