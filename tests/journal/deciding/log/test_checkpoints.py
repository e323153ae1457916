"""A tenant's checkpoints: what is kept, what is refused, and what never goes back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sealbook.journal import Corrupt, InvalidInput, Journal, NotFound, Tenant, entries
from sealbook.journal.deciding.log.promises import Consistent, PublishedAhead
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import CheckpointState
from sealbook.journal.testing import ManualClock, tamper
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import cosign
from sealbook.merkle.keys import Algorithm, NoteSigner, SignatureLine
from sealbook.merkle.note import Note, sign_text

WITNESS = NoteSigner.from_seed("w.example.com", Algorithm.ED25519_COSIGNATURE, bytes(range(32)))


class Signs:
    """Signs checkpoints of any origin, and remembers what it was asked."""

    def __init__(self, seed: int = 1) -> None:
        self.seed = bytes([seed]) * 32
        self.asked: list[Checkpoint] = []

    def __call__(self, checkpoint: Checkpoint, consistent: Consistent) -> Sequence[SignatureLine]:
        assert all(consistent(earlier) for earlier in self.asked if 0 < earlier.size < checkpoint.size)
        self.asked.append(checkpoint)
        return [sign_text(checkpoint.text(), NoteSigner.from_seed(checkpoint.origin, Algorithm.ED25519, self.seed))]


def grow(tenant: Tenant, run: str) -> None:
    tenant.append(run, [entries.concluded("completed")], epoch=1, seal=True)


@pytest.fixture
def tenant() -> Tenant:
    tenant = Journal.in_memory().tenant()
    grow(tenant, "a")
    return tenant


def test_a_signed_checkpoint_is_kept_and_is_not_published_by_being_signed(tenant: Tenant) -> None:
    kept = tenant.sign_checkpoint(Signs())
    assert kept.checkpoint == tenant.checkpoint()
    assert kept.state is CheckpointState.SIGNED
    assert tenant.signed_checkpoint() == kept
    assert tenant.published_checkpoint() is None


def test_a_log_may_be_signed_as_it_was_at_a_size(tenant: Tenant) -> None:
    sizes = [tenant.checkpoint()]
    for run in ("b", "c"):
        grow(tenant, run)
        sizes.append(tenant.checkpoint())
    sign = Signs()
    for size in (2, 3):
        kept = tenant.sign_checkpoint(sign, size=size)
        assert kept == tenant.signed_checkpoint(size)
        assert (kept.checkpoint, kept.state) == (sizes[size - 1], CheckpointState.SIGNED)
    for size in (4, -1, 2**63):
        with pytest.raises(InvalidInput):
            tenant.sign_checkpoint(sign, size=size)
    assert sign.asked == sizes[1:]


def test_a_published_checkpoint_is_handed_out_as_it_was_signed(tenant: Tenant) -> None:
    kept = tenant.sign_checkpoint(Signs())
    assert kept.note is not None
    assert tenant.publish_checkpoint(1).published
    assert tenant.published_checkpoint() == kept.note.encode()


def test_publishing_without_the_quorum_is_visible_until_the_quorum_is_met(tenant: Tenant) -> None:
    tenant.sign_checkpoint(Signs())
    assert tenant.publish_checkpoint(1, without_quorum=True).without_quorum
    assert not tenant.publish_checkpoint(1).without_quorum
    assert not tenant.publish_checkpoint(1, without_quorum=True).without_quorum  # what was met stays met


def test_the_published_size_never_goes_back(tenant: Tenant) -> None:
    sign = Signs()
    tenant.sign_checkpoint(sign)
    grow(tenant, "b")
    tenant.sign_checkpoint(sign)
    tenant.publish_checkpoint(2)
    with pytest.raises(PublishedAhead, match="size 2 had been signed"):
        tenant.publish_checkpoint(1)
    published = tenant.published_checkpoint()
    assert published is not None
    assert Checkpoint.parse(Note.parse(published).text).size == 2


def test_lines_are_added_and_none_is_lost(tenant: Tenant) -> None:
    first = tenant.sign_checkpoint(Signs(1)).note
    assert first is not None
    line = cosign(first.text, 1_795_939_200, WITNESS)
    tenant.keep_cosignatures(1, [line])
    second = tenant.sign_checkpoint(Signs(2)).note
    assert second is not None
    assert set(second.lines) >= {*first.lines, line}
    assert len(second.lines) == 3


def test_what_is_not_signed_is_not_published(tenant: Tenant) -> None:
    with pytest.raises(NotFound, match="signed checkpoint"):
        tenant.publish_checkpoint(1)
    with pytest.raises(NotFound, match="signed checkpoint"):
        tenant.keep_cosignatures(7, [])


def test_a_signature_that_never_came_leaves_the_log_free_for_another_name() -> None:
    engine = MemoryEngine(clock=ManualClock())
    journal = Journal.over(engine, clock=ManualClock())
    grow(journal.tenant(), "a")

    def no_key(checkpoint: Checkpoint, consistent: Consistent) -> Sequence[SignatureLine]:
        raise NotFound("log key", checkpoint.origin)

    with pytest.raises(NotFound):
        journal.tenant().sign_checkpoint(no_key)
    renamed = Journal(engine, journal.view.setting, ManualClock(), "example.com/log").tenant()
    assert renamed.sign_checkpoint(Signs()).checkpoint.origin == "example.com/log"
    with pytest.raises(InvalidInput, match="under which size 1 was signed"):
        journal.tenant().sign_checkpoint(Signs())


def test_a_log_that_has_grown_is_not_signed_under_another_name_either() -> None:
    engine = MemoryEngine(clock=ManualClock())
    journal = Journal.over(engine, clock=ManualClock())
    grow(journal.tenant(), "a")
    journal.tenant().sign_checkpoint(Signs())
    grow(journal.tenant(), "b")
    renamed, sign = Journal(engine, journal.view.setting, ManualClock(), "example.com/log").tenant(), Signs()
    with pytest.raises(InvalidInput, match="is not sealbook, under which size 1 was signed"):
        renamed.sign_checkpoint(sign)
    assert sign.asked == []
    assert journal.tenant().sign_checkpoint(Signs()).checkpoint.size == 2


def test_checkpoints_of_one_log_under_two_names_are_found() -> None:
    engine = MemoryEngine(clock=ManualClock())
    journal = Journal.over(engine, clock=ManualClock())
    tenant = journal.tenant()
    for run in ("a", "b"):
        grow(tenant, run)
        tenant.sign_checkpoint(Signs())
    assert journal.check().ok
    place = (tables.CHECKPOINTS, tables.number_key("default", 2))
    renamed = Checkpoint("example.com/log", 2, tenant.checkpoint().root)
    note = Note(renamed.text(), tuple(Signs()(renamed, lambda published: True)))
    tamper(engine, *place, tables.CheckpointRow(CheckpointState.SIGNED, note.encode()).encode(place))
    [finding] = journal.check().findings
    assert finding.what == "the checkpoint is of example.com/log, and that of size 1 is of sealbook"


def test_a_log_that_was_rewritten_after_it_was_signed_is_found() -> None:
    engine = MemoryEngine(clock=ManualClock())
    journal = Journal.over(engine, clock=ManualClock())
    tenant = journal.tenant()
    grow(tenant, "a")
    tenant.sign_checkpoint(Signs())
    assert journal.check().ok
    key = tables.number_key("default", 1)
    row = next(value for place, value in _rows(engine, tables.CHECKPOINTS).items() if place == key)
    forged = Checkpoint("sealbook", 1, bytes(32)).text().encode()
    place = (tables.CHECKPOINTS, key)
    tamper(engine, tables.CHECKPOINTS, key, tables.CheckpointRow(CheckpointState.PENDING, forged).encode(place))
    found = [finding.what for finding in journal.check().findings]
    assert "the log has another root than was signed" in found
    tamper(engine, tables.CHECKPOINTS, key, row)
    assert journal.check().ok


def test_a_log_that_is_shorter_than_what_it_signed_is_damage(tenant: Tenant) -> None:
    tenant.sign_checkpoint(Signs())
    engine = tenant.view.engine
    [(key, value)] = _rows(engine, tables.TENANTS).items()
    row = tables.TenantRow.decode("default", value)
    tamper(engine, tables.TENANTS, key, row._replace(signed=9).encode())
    with pytest.raises(Corrupt):
        tenant.sign_checkpoint(Signs())


def _rows(engine: object, table: str) -> dict[bytes, bytes]:
    with engine.snapshot() as snapshot:  # type: ignore[attr-defined]
        return dict(snapshot.scan(table, b"", None, 1000))
