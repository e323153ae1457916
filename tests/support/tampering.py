"""Change raw rows of a store behind the journal's back, and forge records that keep the chain but break a rule."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sealbook.indexes.standing import unpack
from sealbook.journal import Journal, SealbookError, entries
from sealbook.journal.deciding.requests import prepare_trusted
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Engine, Place, Writes
from sealbook.journal.records.body import encode_body
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.entries import EffectKey
from sealbook.journal.records.row import Row, decode_row, encode_row
from sealbook.journal.records.signatures import Ed25519Signer, Signer
from sealbook.journal.schema import tables
from sealbook.journal.schema.setting import Setting
from sealbook.journal.store.logs import Log
from sealbook.journal.testing import ManualClock, record_rows
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.keys import Algorithm
from sealbook.merkle.keys import NoteSigner as LogSigner
from sealbook.merkle.note import Note, sign_text


def engine_of(journal: Journal) -> Engine:
    return journal.view.engine


def rows(engine: Engine, table: str) -> dict[bytes, bytes]:
    with engine.snapshot() as snapshot:
        return dict(snapshot.scan(table, b"", None, 1_000_000))


def all_rows(engine: Engine) -> dict[Place, bytes]:
    return {(table, key): value for table in tables.TABLES for key, value in rows(engine, table).items()}


def change(engine: Engine, changes: dict[Place, bytes | None]) -> None:
    """Put these values; None removes the row."""
    puts = {place: value for place, value in changes.items() if value is not None}
    deletes = {place for place, value in changes.items() if value is None}
    engine.write(lambda snapshot, moment: (Writes(puts, deletes=deletes), None))


@contextmanager
def changed(engine: Engine, changes: dict[Place, bytes | None]) -> Iterator[None]:
    """The same for the length of a block."""
    with engine.snapshot() as snapshot:
        before = dict(zip(changes, snapshot.get_many(list(changes)), strict=True))
    change(engine, changes)
    try:
        yield
    finally:
        change(
            engine, {place: value for place, value in before.items() if value is not None or changes[place] is not None}
        )


def record_place(engine: Engine, tenant: str, run: str, seq: int) -> Place:
    """Where the record stands."""
    return tables.JOURNAL, record_rows(engine, tenant, run)[seq][0]


def flipped(value: bytes, position: int) -> bytes:
    """The value with one bit of one byte changed."""
    return value[:position] + bytes([value[position] ^ 1 << position % 8]) + value[position + 1 :]


def journal_over(engine: Engine, other: Journal, signer: Signer | None) -> Journal:
    """Another journal over the same store, with another signer."""
    setting = other.view.setting
    return Journal(engine, Setting(setting.identity, signer, setting.upcaster), other.view.clock, other.origin)


def forge(
    journal: Journal, tenant: str, run: str, kind: str, data: dict[str, Any] | None = None, /, **members: Any
) -> int:
    """Append a record that is chained, counted and numbered as it should be, whatever the rules say; its seq.

    `members` replace those of the envelope, `prev` the hash before, `body` all of the body. State and index rows stay.
    """
    engine = engine_of(journal)
    chain = record_rows(engine, tenant, run)
    seq, last = (len(chain) + 1, decode_row(chain[len(chain)][1], run, len(chain)) if chain else None)
    counts = tables.TenantRow.decode(tenant, rows(engine, tables.TENANTS).get(tenant.encode()))
    envelope: dict[str, Any] = {
        "v": 1,
        "tenant": tenant,
        "run": run,
        "seq": seq,
        "epoch": 1,
        "at": 1_700_000_000_000,
        "kind": kind,
    }
    if seq == 1:
        envelope |= {"journal": journal.view.setting.identity.lineage_id, "salt": bytes(32)}
    prev = members.pop("prev", bytes(32) if last is None else last.hash)
    body = members.pop("body", None) or encode_body(**envelope | members, data=prepare_trusted(kind, data or {}).data)
    row = Row(counts.arrivals + 1, prev, chain_hash(prev, body), None, body)
    change(
        engine,
        {
            (tables.JOURNAL, tables.number_key(tenant, row.arrival)): encode_row(row),
            (tables.TENANTS, tenant.encode()): counts._replace(arrivals=row.arrival).encode(),
        },
    )
    return seq


def forge_leaf(journal: Journal, tenant: str, run: str, kind: LeafType, seq: int) -> Place:
    """Append a leaf for the run's record `seq`, with nodes, position and the tenant's count; where it stands."""
    engine = engine_of(journal)
    counts = tables.TenantRow.decode(tenant, rows(engine, tables.TENANTS)[tenant.encode()])
    state = unpack(tenant, run, rows(engine, tables.STATE)[tables.run_key(tenant, run)])
    head = decode_row(record_rows(engine, tenant, run)[seq][1], run, seq).hash
    entry, index = LeafEntry(kind, state.run_tag, seq, head), counts.leaves
    nodes = rows(engine, tables.NODES)
    added = tree.added(index, [entry.hash()], lambda wanted: [nodes[tables.node_place(tenant, n)[1]] for n in wanted])
    place = (tables.LEAVES, tables.number_key(tenant, index))
    change(
        engine,
        {
            place: entry.encode(),
            (tables.POSITIONS, tables.position_key(tenant, run, index)): b"",
            (tables.TENANTS, tenant.encode()): counts._replace(leaves=index + 1).encode(),
            **{tables.node_place(tenant, node): hash_ for node, hash_ in added},
        },
    )
    return place


# --- stores to tamper with -------------------------------------------------------------------------------------------


def rich_store(engine: Engine | None = None) -> Journal:
    """A small store in which every kind of run occurs, and every table but `arrivals` has rows (see `long_store`)."""
    clock = ManualClock()
    engine = engine or MemoryEngine(clock=clock)
    journal = Journal.over(engine, clock=clock, store_origin="example.com/store")
    signing = journal_over(engine, journal, Ed25519Signer(bytes(range(32))))
    acme, beta = journal.tenant("acme"), journal.tenant("beta")

    charge, mail, book = EffectKey("charge"), EffectKey("mail"), EffectKey("book")
    lease = acme.acquire("done/1", owner="w1", ttl=30)
    acme.append("done/1", [entries.admitted(source="shop", id="42", case="case-7")], lease=lease)
    signing.tenant("acme").append("done/1", [entries.effect_started(charge, name="charge", args=7)], lease=lease)
    acme.append("done/1", [entries.effect_done(charge), entries.concluded("completed")], lease=lease, seal=True)

    lease = acme.acquire("wait", owner="w1", ttl=30)
    acme.append("wait", [entries.admitted(), entries.suspended(until="2030-01-01T00:00:00Z")], lease=lease)
    acme.force_lease("wait", actor="ops", reason="stuck")
    acme.request_cancel("wait", actor="ops")
    signing.tenant("acme").request_cancel("not yet", actor="ops", reason="early")
    acme.anchor("~tenant")
    acme.anchor_open()
    acme.append("wait", [entries.note("n")], lease=acme.acquire("wait", owner="w2", ttl=30))
    acme.anchor_open()

    first = [entries.effect_started(mail, name="mail"), entries.effect_failed(mail), entries.concluded("failed")]
    beta.append("failed", first, epoch=1)
    again = [entries.effect_started(mail, name="mail"), entries.effect_started(book, name="b", recovery="retry")]
    beta.append("failed", [*again, entries.effect_started(book, name="b", recovery="retry")], epoch=2)
    beta.append("failed", [entries.effect_reconciled(mail, disposition="landed", case="case-7")], epoch=2)
    beta.anchor("failed")
    beta.acquire("leased only", owner="w2", ttl=30)
    clock.step_wall(-5)
    beta.append("quit", [entries.admitted(source="shop", id="1"), entries.concluded("abandoned")], epoch=1)
    beta.seal("quit")
    sign_as_it_stands(beta)

    third = journal.tenant("third")
    third.append("r", [entries.note("n")], epoch=1)
    third.anchor("r")
    journal.store_log.gather()
    third.anchor_open()
    journal.store_log.gather()
    last = signed_by_nobody(Checkpoint(third.origin, 7, bytes(range(32))))
    third.adopt_log("elsewhere", last, actor="ops", reason="restored")
    journal.store_log.gather()
    sign_as_it_stands(journal.store_log)
    return journal


def long_store() -> Journal:
    """A store with a run that is longer than a block, beside another one."""
    journal = Journal.in_memory(clock=ManualClock())
    acme = journal.tenant("acme")
    for number in (20, 30, 16):
        acme.append("long", [entries.note("n", case="c" if index % 3 else None) for index in range(number)], epoch=1)
        acme.append("short", [entries.note("between", case="c")], epoch=1)
    return journal


def signed_by_nobody(checkpoint: Checkpoint) -> bytes:
    """A signed note with a key that nobody guards."""
    signer = LogSigner.from_seed(checkpoint.origin, Algorithm.ED25519, bytes(range(32)))
    return Note(checkpoint.text(), (sign_text(checkpoint.text(), signer),)).encode()


def sign_as_it_stands(log: Log) -> None:
    """Sign and publish the log's checkpoint with a key that nobody guards."""
    signer = LogSigner.from_seed(log.origin, Algorithm.ED25519, bytes(range(32)))
    kept = log.sign_checkpoint(lambda checkpoint, consistent: [sign_text(checkpoint.text(), signer)])
    log.publish_checkpoint(kept.checkpoint.size)


VERBS = ("append", "append-next", "conclude", "acquire", "force", "cancel", "seal", "anchor", "anchor-open")


def random_history(seed: int, steps: int = 30) -> Journal:
    """A store after random requests, refused ones included."""
    chance, clock = random.Random(seed), ManualClock()
    engine = MemoryEngine(clock=clock)
    journal = Journal.over(engine, clock=clock)
    signing = journal_over(engine, journal, Ed25519Signer(bytes([seed % 256]) * 32))
    for _ in range(steps):
        clock.advance(chance.choice([0, 0.001, 0.5, 40]))
        clock.step_wall(chance.choice([0, 0, 0, -2]))
        tenant = chance.choice([journal, journal, journal, signing]).tenant(chance.choice(["a", "ab", "b"]))
        run = chance.choice(["r", "r1", "r!", "ü/x", "s"])
        key = EffectKey(chance.choice("xyz"))
        case = chance.choice([None, None, "k1", "k2"])
        recovery = chance.choice([None, "retry", "idempotent", "reconcile"])
        choices = [
            entries.admitted(source=chance.choice(["q", None]) and "q", id=str(chance.randrange(4)), case=case),
            entries.effect_started(key, name="e", recovery=recovery, case=case),
            entries.effect_done(key),
            entries.effect_failed(key),
            entries.effect_reconciled(key, disposition=chance.choice(["landed", "did-not-happen"])),
            entries.suspended(until=chance.choice([None, "2031-05-05T05:05:05.5Z", "1960-01-01T00:00:00Z"])),
            entries.concluded(chance.choice(["failed", "exhausted", "completed", "withheld", "odd"])),
            entries.note("n", case=case),
            entries.entry("x.Custom", {"n": chance.random()}, case=case, effect=chance.choice([None, key])),
        ]
        batch = chance.sample(choices, chance.choice([1, 1, 1, 2, 3]))
        standing = tenant.standing(run)
        epoch = 1 if standing is None else standing.epoch
        anchored = chance.choice([run, "~tenant"])
        sealing = chance.random() < 0.1
        verb = chance.choices(VERBS, [10, 2, 2, 2, 1, 1, 2, 2, 2])[0]
        try:
            if verb == "append":
                tenant.append(run, batch, epoch=epoch, seal=sealing)
            elif verb == "append-next":
                tenant.append(run, batch[:1], epoch=epoch + 1)
            elif verb == "conclude":
                tenant.append(run, [entries.concluded("completed")], epoch=epoch, seal=sealing)
            elif verb == "acquire":
                tenant.acquire(run, owner="w", ttl=10)
            elif verb == "force":
                tenant.force_lease(run, actor="ops", reason="r")
            elif verb == "cancel":
                tenant.request_cancel(run, actor="ops")
            elif verb == "seal":
                tenant.seal(run)
            elif verb == "anchor-open":
                tenant.anchor_open()
            else:
                tenant.anchor(anchored)
        except SealbookError:
            continue
    return journal
