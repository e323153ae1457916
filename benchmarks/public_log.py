"""A long log in public: what a signed checkpoint, its tiles and the check of an inclusion cost, in CPU alone.

The store is filled with the rows of a log, all nodes of a batch at once, and with nothing else: whatever is measured
reads leaves and nodes. What is sealed after that goes through the public verbs.
"""

from __future__ import annotations

import random
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import workload
from benchmarks.rounds import Scale, say
from benchmarks.table import Row
from sealbook.cli.publishing.signing import LogSigner
from sealbook.cli.serving.tiles import write_tiles
from sealbook.journal import Journal, Moment, Tenant, entries
from sealbook.journal import requests as ask
from sealbook.journal.deciding.log.leaves import snapshot_reader
from sealbook.journal.engine.port import Place, Snapshot, Writes
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import TenantRow
from sealbook.merkle import tree
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.tree import inclusion_proof
from sealbook.merkle.verify import verify_inclusion

ORIGIN = "bench.example/log"
TENANT = "default"
FILL_LEAVES = 20_000  # in one transaction
SEALS = 100  # runs that are sealed between two checkpoints
CHECKPOINTS = 20
MORE = 1_000  # leaves after which tiles are written again
CHECKS = 2_000  # inclusions in one round, of random leaves

SIGNING_MS_MAX = 5
TILES_SECONDS_MAX = 60  # for a million leaves
INCLUSIONS_PER_SECOND_MIN = 15_000


def public_log(folder: Path, scale: Scale) -> list[Row]:
    """Tiles of a log that is long already and of what comes after, checkpoints signed after seals, and verifying."""
    leaves = scale.large
    say(f"filling a log with the rows of {leaves:,} leaves")
    ring = Keyring(folder / "keys")
    ring.generate(Purpose.LOG, ORIGIN, created=0, tenant=TENANT)
    signer = LogSigner(ring, ORIGIN)
    with Journal.open(folder / "public.sealbook", create=True, origin=ORIGIN) as journal:
        _grow(journal, 0, leaves)
        tenant = journal.tenant(TENANT)
        say("its tiles")
        first = _tiles(folder / "tiles", tenant, signer)
        _grow(journal, leaves, leaves + MORE)
        more = _tiles(folder / "tiles", tenant, signer)
        say("checkpoints and inclusions")
        signing = [_signing(tenant, signer, number) * 1000 for number in range(CHECKPOINTS)]
        rates = _verifying(tenant, leaves, scale.rounds)
    milliseconds, rate = statistics.fmean(signing), statistics.median(rates)
    bound = TILES_SECONDS_MAX * leaves / 1_000_000
    return [
        Row(
            f"CPU of a checkpoint signed and kept after {SEALS} seals, {leaves:,} leaves",
            f"{SIGNING_MS_MAX} ms without what the kernel does to flush",
            f"{milliseconds:.2f} ms",
            f"{SIGNING_MS_MAX} ms",
            milliseconds / SIGNING_MS_MAX,
            at_most=1.0,
        ),
        Row(
            f"CPU of writing the tiles of {leaves:,} leaves",
            f"{TILES_SECONDS_MAX} s for 1,000,000",
            f"{first:.2f} s",
            f"{bound:.2f} s",
            first / bound,
            at_most=1.0,
        ),
        Row(
            f"CPU of writing the tiles of {MORE:,} leaves more",
            f"the tiles of {leaves:,} leaves",
            f"{more:.3f} s",
            f"{first:.2f} s",
            more / first,
            at_most=0.1,
        ),
        Row(
            f"inclusions verified per second and core, {leaves:,} leaves",
            f"{INCLUSIONS_PER_SECOND_MIN:,}/s",
            f"{rate:,.0f}/s",
            f"{INCLUSIONS_PER_SECOND_MIN:,}/s",
            rate / INCLUSIONS_PER_SECOND_MIN,
            at_least=1.0,
        ),
    ]


def _grow(journal: Journal, old: int, new: int) -> None:
    """Write the rows of the leaves from `old` up to and without `new`."""
    for start in range(old, new, FILL_LEAVES):
        stop = min(new, start + FILL_LEAVES)

        def work(snapshot: Snapshot, moment: Moment, start: int = start, stop: int = stop) -> tuple[Writes, None]:
            grown = [LeafEntry(LeafType.ANCHOR, index.to_bytes(32), 1, bytes(32)) for index in range(start, stop)]
            puts: dict[Place, bytes] = {
                (tables.LEAVES, tables.number_key(TENANT, index)): entry.encode()
                for index, entry in enumerate(grown, start)
            }
            read = snapshot_reader(TENANT, snapshot)
            for node, value in tree.added(start, [entry.hash() for entry in grown], read):
                puts[tables.node_place(TENANT, node)] = value
            place = (tables.TENANTS, TENANT.encode())
            counts = TenantRow.decode(TENANT, snapshot.get_many([place])[0])
            puts[place] = counts._replace(leaves=stop).encode()
            return Writes(puts), None

        journal.view.write(work)


def _tiles(folder: Path, tenant: Tenant, signer: LogSigner) -> float:
    """Seconds of CPU for the tiles of the log as it stands."""
    kept = tenant.sign_checkpoint(signer.sign)
    assert kept.note is not None
    note = kept.note.encode()
    return _cpu(lambda: write_tiles(folder, tenant, note))


def _signing(tenant: Tenant, signer: LogSigner, number: int) -> float:
    """Seconds of CPU outside of the kernel, where flushing goes on, for a checkpoint after a batch of seals, the key's
    promise included."""
    concluded = [entries.admitted(), entries.concluded("ok")]
    names = [f"run-{number}-{index}" for index in range(SEALS)]
    tenant.group([ask.append(name, concluded, epoch=1, seal=True) for name in names])
    start = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    tenant.sign_checkpoint(signer.sign)
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - start


def _verifying(tenant: Tenant, leaves: int, rounds: int) -> list[float]:
    """Inclusions verified in a second of CPU, in each round."""
    chance = random.Random(workload.SEED)
    head = tenant.checkpoint()
    chosen = [chance.randrange(leaves) for _ in range(CHECKS)]
    hashes = [LeafEntry(LeafType.ANCHOR, index.to_bytes(32), 1, bytes(32)).hash() for index in chosen]
    proofs = [inclusion_proof(index=index, size=head.size, read=tenant.tree_nodes) for index in chosen]

    def verify() -> None:
        for index, leaf, proof in zip(chosen, hashes, proofs, strict=True):
            verify_inclusion(leaf=leaf, index=index, size=head.size, proof=proof, root=head.root)

    return [CHECKS / _cpu(verify) for _ in range(rounds)]


def _cpu(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start
