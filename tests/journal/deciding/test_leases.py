"""Who may append to a run: leases, and the fence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from sealbook.indexes.standing import Standing
from sealbook.journal import (
    Corrupt,
    Fenced,
    InvalidInput,
    InvalidName,
    Journal,
    LeaseHeld,
    LeaseNotHeld,
    NotFound,
    RunSealed,
    Tenant,
    entries,
)
from sealbook.journal.deciding import leases
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Moment
from sealbook.journal.records.names import EPOCH_MAX
from sealbook.journal.schema import tables
from sealbook.journal.schema.tables import LeaseRow
from sealbook.journal.testing import ManualClock, all_rows, rows, tamper

BOOT = b"b" * 16
OTHER_BOOT = b"o" * 16
NOW = Moment(1_000_000, 5_000, BOOT)


def row(owner: str = "w", epoch: int = 4, wall: int = 1_010_000, boot: int = 15_000, id: bytes = BOOT) -> LeaseRow:
    return LeaseRow(owner, epoch, wall, boot, id)


# --- whether a lease lives ------------------------------------------------------------------------------------------

LIVES: dict[str, tuple[LeaseRow, int]] = {
    "live": (row(), 10_000),
    "live for a millisecond": (row(boot=5_001), 1),
    "expired this very millisecond": (row(boot=5_000), 0),
    "expired": (row(boot=4_000), 0),
    "released": (row(owner="", wall=2_000_000, boot=20_000), 0),
    "same boot, wall clock stepped forward": (row(wall=0), 10_000),
    "same boot, wall clock stepped back": (row(boot=5_000, wall=9_000_000), 0),
    "other boot, wall time decides": (row(id=OTHER_BOOT, boot=0), 10_000),
    "other boot, expired by wall time": (row(id=OTHER_BOOT, wall=1_000_000, boot=99_000), 0),
    "other boot, far in the future": (row(id=OTHER_BOOT, wall=4_600_000), 3_600_000),
}


@pytest.mark.parametrize("case", LIVES)
def test_boot_time_decides_on_one_boot_and_wall_time_across_boots(case: str) -> None:
    lease, remaining = LIVES[case]
    assert leases.remaining_ms(lease, NOW) == remaining


def test_a_boot_that_the_machine_does_not_name_is_never_the_same_boot() -> None:
    unnamed = Moment(NOW.wall_ms, NOW.boot_ms, bytes(16))
    assert leases.remaining_ms(row(id=bytes(16), boot=0), unnamed) == 10_000


# --- the fence (A54 to A56, D5, D17) --------------------------------------------------------------------------------


def standing(epoch: int) -> Standing:
    return Standing(
        tenant="t", run="r", records=1, head=bytes(32), epoch=epoch, first_arrival=1, last_arrival=1,
        admitted_at=None, updated_at=0, case=None, source=None, last_kind="Note", outcome=None, outcome_arrival=None,
        waiting_seq=None, until=None, effects_started=0, effects_done=0, effects_failed=0, run_tag=bytes(32),
        highest_leaf=None, highest_leaf_seq=None, seal=None, recent_arrivals=bytes(7) + b"\1",
    )  # fmt: skip


@pytest.mark.parametrize("epoch", [0, 1, 2, 4, 5, 2**32, 2**53 - 1])
def test_a_leased_run_takes_the_epoch_of_its_lease_alone(epoch: int) -> None:
    for lease in (row(epoch=3), row(epoch=3, owner=""), row(epoch=3, boot=0, wall=0)):
        for stands in (None, standing(2), standing(3)):
            leases.fence("r", 3, lease, stands, 0)
            with pytest.raises(Fenced) as caught:
                leases.fence("r", epoch, lease, stands, 0)
            assert (caught.value.held, caught.value.current) == (epoch, 3)


@pytest.mark.parametrize(
    ("last", "restoration", "taken"),
    [(None, 0, {1}), (3, 0, {3, 4}), (3, 2, {*range(3, 6), 2 * 2**32, 2 * 2**32 + 1}), (None, 2, {2 * 2**32 + 1})],
)
def test_a_run_that_was_never_leased_takes_its_last_epoch_up_to_the_next_one(
    last: int | None, restoration: int, taken: set[int]
) -> None:
    stands = None if last is None else standing(last)
    for epoch in {0, 1, 2, 3, 4, 5, 2 * 2**32, 2 * 2**32 + 1, 2 * 2**32 + 2, EPOCH_MAX}:
        if epoch in taken:
            leases.fence("r", epoch, None, stands, restoration)
        else:
            with pytest.raises(Fenced):
                leases.fence("r", epoch, None, stands, restoration)


def test_the_next_epoch_is_above_every_one_issued_or_written_under() -> None:
    assert leases.next_epoch("r", None, None, 0) == 1
    assert leases.next_epoch("r", None, standing(7), 0) == 8
    assert leases.next_epoch("r", row(epoch=9), standing(7), 0) == 10
    assert leases.next_epoch("r", row(epoch=9), standing(7), 1) == 2**32 + 1


def test_epochs_end_below_2_to_53() -> None:
    assert leases.next_epoch("r", row(epoch=EPOCH_MAX - 1), None, 0) == EPOCH_MAX
    with pytest.raises(InvalidInput, match="would exceed"):
        leases.next_epoch("r", row(epoch=EPOCH_MAX), None, 0)


def test_an_expired_or_released_epoch_appends_until_somebody_acquires(acme: Tenant, clock: ManualClock) -> None:
    """Behaviour D5: the fence compares epochs, not clocks."""
    lease = acme.acquire("r", owner="a", ttl=10)
    clock.advance(3600)
    acme.append("r", [entries.note("late")], lease=lease)
    acme.release(lease)
    acme.append("r", [entries.note("later")], lease=lease)
    acme.acquire("r", owner="b", ttl=10)
    with pytest.raises(Fenced):
        acme.append("r", [entries.note("too late")], lease=lease)


@pytest.mark.parametrize("epoch", [1, 2, 2**53 - 1, 0])
def test_only_the_current_epoch_of_1_3_2_appends(acme: Tenant, engine: MemoryEngine, epoch: int) -> None:
    for number in range(3):
        acme.release(acme.acquire("r", owner=str(number), ttl=10))
    acme.append("r", [entries.note("x")], epoch=3)
    before = all_rows(engine)
    with pytest.raises(Fenced):
        acme.append("r", [entries.note("x")], epoch=epoch)
    assert all_rows(engine) == before


# --- acquire (A79 to A82, D7) ---------------------------------------------------------------------------------------


def test_the_first_lease_of_a_run_has_epoch_1(acme: Tenant, clock: ManualClock) -> None:
    lease = acme.acquire("r", owner="a", ttl=10)
    assert (lease.epoch, lease.owner, lease.expires_at) == (1, "a", clock.wall_ms + 10_000)
    assert acme.lease("r") == lease


@pytest.mark.parametrize("owner", ["a", "b"])
def test_a_live_lease_is_refused_to_everybody_its_owner_included(acme: Tenant, clock: ManualClock, owner: str) -> None:
    acme.acquire("r", owner="a", ttl=10)
    clock.advance(4)
    with pytest.raises(LeaseHeld) as caught:
        acme.acquire("r", owner=owner, ttl=10)
    assert (caught.value.owner, caught.value.epoch, caught.value.remaining_ms) == ("a", 1, 6000)
    assert "for 6 s more" in str(caught.value)


@pytest.mark.parametrize("owner", ["a", "b"])
def test_an_expired_lease_goes_to_whoever_asks_under_a_new_epoch(acme: Tenant, clock: ManualClock, owner: str) -> None:
    first = acme.acquire("r", owner="a", ttl=10)
    clock.advance(10)
    assert acme.acquire("r", owner=owner, ttl=10).epoch == 2
    with pytest.raises(Fenced):
        acme.append("r", [entries.note("x")], lease=first)


def test_a_refused_acquire_spends_no_epoch(acme: Tenant, engine: MemoryEngine, clock: ManualClock) -> None:
    acme.acquire("r", owner="a", ttl=10)
    before = all_rows(engine)
    for number in range(1000):
        with pytest.raises(LeaseHeld):
            acme.acquire("r", owner=f"w{number}", ttl=10)
    assert all_rows(engine) == before
    clock.advance(10)
    assert acme.acquire("r", owner="b", ttl=10).epoch == 2


def test_a_ttl_is_checked_before_anything_is_looked_at(acme: Tenant) -> None:
    acme.acquire("r", owner="a", ttl=10)
    with pytest.raises(InvalidInput, match="ttl"):
        acme.acquire("r", owner="b", ttl=0)
    with pytest.raises(InvalidInput, match="ttl"):
        acme.acquire("bad\0run", owner="b", ttl=0)


def test_a_sealed_run_has_no_lease_and_gets_none(acme: Tenant, engine: MemoryEngine) -> None:
    lease = acme.acquire("r", owner="a", ttl=10)
    acme.append("r", [entries.admitted(), entries.concluded("done")], lease=lease, seal=True)
    assert acme.lease("r") is None
    assert rows(engine, tables.LEASES) == []
    with pytest.raises(RunSealed, match="done"):
        acme.acquire("r", owner="b", ttl=10)
    standing = acme.standing("r")
    assert standing is not None
    assert (standing.epoch, standing.owner) == (1, None)


def test_a_lease_starts_past_the_last_record_of_a_run_that_was_never_leased(acme: Tenant) -> None:
    for epoch in range(1, 8):
        acme.append("r", [entries.note("x")], epoch=epoch)
    assert acme.acquire("r", owner="a", ttl=10).epoch == 8


def test_runs_of_one_name_under_two_tenants_are_leased_apart(journal: Journal, acme: Tenant) -> None:
    acme.acquire("r", owner="a", ttl=10)
    assert journal.tenant("other").acquire("r", owner="b", ttl=10).epoch == 1
    assert journal.tenant("third").lease("r") is None


def test_1_5_seconds_are_1500_milliseconds(acme: Tenant, clock: ManualClock) -> None:
    lease = acme.acquire("r", owner="a", ttl=1.5)
    assert lease.expires_at == clock.wall_ms + 1500
    clock.advance(1.499)
    with pytest.raises(LeaseHeld):
        acme.acquire("r", owner="b", ttl=1)
    clock.advance(0.001)
    assert acme.acquire("r", owner="b", ttl=1).epoch == 2


# --- renew (A83, A84) -----------------------------------------------------------------------------------------------


def test_a_renewal_counts_from_now_and_keeps_the_epoch(acme: Tenant, clock: ManualClock) -> None:
    lease = acme.acquire("r", owner="a", ttl=10)
    clock.advance(9.999)
    renewed = acme.renew(lease, ttl=20)
    assert (renewed.epoch, renewed.expires_at) == (1, clock.wall_ms + 20_000)
    clock.advance(19)
    with pytest.raises(LeaseHeld):
        acme.acquire("r", owner="b", ttl=10)


NOT_HELD: dict[str, tuple[LeaseRow | None, str]] = {
    "no row": (None, "has no lease"),
    "another epoch": (row(epoch=5), "current epoch is 5"),
    "released": (row(owner=""), "released"),
    "another owner": (row(owner="other"), "another owner"),
    "expired": (row(boot=5_000), "expired"),
    "expired on another boot": (row(id=OTHER_BOOT, wall=1_000_000), "expired"),
}


@pytest.mark.parametrize("why", NOT_HELD)
def test_a_lease_that_is_not_held_is_not_renewed(why: str) -> None:
    stored, reason = NOT_HELD[why]
    with pytest.raises(LeaseNotHeld, match=reason) as caught:
        leases.renew("r", stored, owner="w", epoch=4, ttl_ms=1000, moment=NOW)
    assert (caught.value.owner, caught.value.epoch) == ("w", 4)


def test_a_bad_ttl_is_refused_before_the_lease_is_looked_at(acme: Tenant, clock: ManualClock) -> None:
    lease = acme.acquire("r", owner="a", ttl=10)
    clock.advance(100)
    with pytest.raises(InvalidInput, match="ttl"):
        acme.renew(lease, ttl=0.5)


# --- release (A85, A86) ---------------------------------------------------------------------------------------------


def test_a_release_keeps_the_row_and_its_epoch(acme: Tenant, engine: MemoryEngine) -> None:
    acme.release(acme.acquire("r", owner="a", ttl=10))
    released = acme.lease("r")
    assert released is not None
    assert (released.owner, released.epoch, released.expires_at) == (None, 1, None)
    assert len(rows(engine, tables.LEASES)) == 1


def test_releasing_twice_or_what_was_lost_changes_nothing(
    acme: Tenant, engine: MemoryEngine, clock: ManualClock
) -> None:
    first = acme.acquire("r", owner="a", ttl=10)
    acme.release(first)
    before = all_rows(engine)
    acme.release(first)
    assert all_rows(engine) == before
    second = acme.acquire("r", owner="b", ttl=10)
    acme.release(first)
    assert acme.lease("r") == second


def test_a_release_of_a_run_without_a_lease_is_a_success(acme: Tenant, engine: MemoryEngine) -> None:
    lease = acme.acquire("r", owner="a", ttl=10)
    acme.append("r", [entries.admitted(), entries.concluded("done")], lease=lease, seal=True)
    before = all_rows(engine)
    acme.release(lease)
    assert all_rows(engine) == before


# --- force (D10) ----------------------------------------------------------------------------------------------------


def test_forcing_a_lease_fences_its_owner_frees_the_run_and_is_recorded(acme: Tenant, clock: ManualClock) -> None:
    lease = acme.acquire("r", owner="stuck", ttl=3600)
    acme.append("r", [entries.admitted()], lease=lease)
    forced = acme.force_lease("r", actor="ann", reason="the host is gone")
    assert (forced.owner, forced.epoch) == (None, 2)
    with pytest.raises(Fenced):
        acme.append("r", [entries.note("x")], lease=lease)
    assert acme.acquire("r", owner="b", ttl=10).epoch == 3
    [record] = acme.read("~tenant")
    assert (record.kind, record.arrival, record.epoch) == ("LeaseForced", 2, 0)
    assert record.data == {
        "run": "r",
        "actor": "ann",
        "reason": "the host is gone",
        "owner": "stuck",
        "epoch_before": 1,
        "epoch": 2,
    }


def test_a_run_that_nobody_knows_or_that_is_sealed_is_not_forced(acme: Tenant, engine: MemoryEngine) -> None:
    acme.append("sealed", [entries.admitted(), entries.concluded("done")], epoch=1, seal=True)
    before = all_rows(engine)
    with pytest.raises(NotFound):
        acme.force_lease("nobody", actor="ann", reason="x")
    with pytest.raises(RunSealed):
        acme.force_lease("sealed", actor="ann", reason="x")
    with pytest.raises(InvalidName, match="actor"):
        acme.force_lease("sealed", actor=" ", reason="x")
    assert all_rows(engine) == before


def test_a_lease_that_a_clock_put_far_into_the_future_can_be_forced(acme: Tenant, clock: ManualClock) -> None:
    acme.acquire("r", owner="a", ttl=20)
    clock.reboot()
    clock.step_wall(-3600)
    with pytest.raises(LeaseHeld) as caught:
        acme.acquire("r", owner="b", ttl=10)
    assert caught.value.remaining_ms == 3_620_000
    acme.force_lease("r", actor="ann", reason="clock")
    assert acme.acquire("r", owner="b", ttl=10).epoch == 3


# --- clocks ---------------------------------------------------------------------------------------------------------

STEPS: dict[str, Callable[[ManualClock], None]] = {
    "forward": lambda clock: clock.step_wall(10**6),
    "back": lambda clock: clock.step_wall(-(10**6)),
    "before 1970": lambda clock: clock.step_wall(-2 * 10**9),
}


@pytest.mark.parametrize("step", STEPS)
def test_no_step_of_the_wall_clock_frees_or_prolongs_a_lease_on_one_boot(
    acme: Tenant, clock: ManualClock, step: str
) -> None:
    lease = acme.acquire("r", owner="a", ttl=10)
    STEPS[step](clock)
    clock.advance(9.999)
    with pytest.raises(LeaseHeld):
        acme.acquire("r", owner="b", ttl=10)
    assert list(acme.abandoned()) == []
    acme.renew(lease, ttl=10)
    clock.advance(10)
    assert [item.run for item in acme.abandoned()] == ["r"]
    assert acme.acquire("r", owner="b", ttl=10).epoch == 2


def test_after_a_reboot_wall_time_decides(acme: Tenant, clock: ManualClock) -> None:
    acme.acquire("r", owner="a", ttl=10)
    clock.reboot(down_seconds=9.999)
    with pytest.raises(LeaseHeld):
        acme.acquire("r", owner="b", ttl=10)
    clock.advance(0.001)
    assert acme.acquire("r", owner="b", ttl=10).epoch == 2


# --- the row --------------------------------------------------------------------------------------------------------


def test_a_lease_row_of_which_any_byte_changed_is_corrupt(acme: Tenant, engine: MemoryEngine) -> None:
    acme.acquire("r", owner="a", ttl=10)
    [(key, value)] = rows(engine, tables.LEASES)
    for index in range(len(value)):
        tamper(engine, tables.LEASES, key, value[:index] + bytes([value[index] ^ 1]) + value[index + 1 :])
        for verb in (lambda: acme.lease("r"), lambda: acme.acquire("r", owner="b", ttl=10), acme.abandoned):
            with pytest.raises(Corrupt) as caught:
                verb()
            assert (caught.value.run, caught.value.table, caught.value.key) == ("r", tables.LEASES, key)


def test_a_lease_row_put_under_another_run_is_corrupt(acme: Tenant, engine: MemoryEngine) -> None:
    acme.acquire("r", owner="a", ttl=10)
    [(_, value)] = rows(engine, tables.LEASES)
    tamper(engine, tables.LEASES, tables.run_key("acme", "s"), value)
    with pytest.raises(Corrupt):
        acme.acquire("s", owner="b", ttl=10)


def test_a_lease_of_another_run_or_tenant_is_refused(journal: Journal, acme: Tenant) -> None:
    lease = acme.acquire("r", owner="a", ttl=10)
    with pytest.raises(InvalidInput, match="another run"):
        acme.append("s", [entries.note("x")], lease=lease)
    for verb in (
        lambda: journal.tenant("b").append("r", [entries.note("x")], lease=lease),
        lambda: journal.tenant("b").renew(lease, ttl=10),
        lambda: journal.tenant("b").release(lease),
    ):
        with pytest.raises(InvalidInput, match="another tenant"):
            verb()
    with pytest.raises(InvalidInput, match="not that of the lease"):
        acme.append("r", [entries.note("x")], lease=lease, epoch=2)
    with pytest.raises(InvalidInput, match="must be a Lease"):
        acme.append("r", [entries.note("x")], lease="r")  # type: ignore[arg-type]


def test_an_append_without_lease_or_epoch_is_refused(acme: Tenant) -> None:
    with pytest.raises(InvalidInput, match="pass lease= or epoch="):
        acme.append("r", [entries.note("x")])


# --- what a clock may say ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [Moment(-5, -5, BOOT), Moment(2**62, 2**62, BOOT), Moment(0, 0, bytes(16))])
def test_a_moment_may_lie_anywhere_as_long_as_a_lease_can_begin_at_it(moment: Moment) -> None:
    assert leases.check_moment(moment) is moment


@pytest.mark.parametrize(
    "moment",
    [
        None,
        (1, 2, BOOT),
        Moment(2**62 + 1, 0, BOOT),
        Moment(-(2**62) - 1, 0, BOOT),
        Moment(True, 0, BOOT),
        Moment(1.5, 0, BOOT),  # type: ignore[arg-type]
        Moment(math.nan, 0, BOOT),  # type: ignore[arg-type]
        Moment("1", 0, BOOT),  # type: ignore[arg-type]
        Moment(0, None, BOOT),  # type: ignore[arg-type]
        Moment(0, 2**63, BOOT),
        Moment(0, 0, b"short"),
        Moment(0, 0, None),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_what_is_no_moment_is_refused_as_the_clocks_fault(moment: Any) -> None:
    with pytest.raises(InvalidInput, match="clock"):
        leases.check_moment(moment)
