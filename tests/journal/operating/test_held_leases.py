"""Leases that still live are listed, the longest first, and those that an earlier boot granted are marked."""

from __future__ import annotations

from pathlib import Path

from sealbook.journal import Journal, Moment
from sealbook.journal.deciding.leases import UNKNOWN_BOOT
from sealbook.journal.operating.held_leases import Held, held

THIS_BOOT, EARLIER_BOOT = b"this boot 000000", b"earlier boot 000"


def on(boot: bytes, wall_ms: int) -> Journal:
    return Journal.in_memory(clock=lambda: Moment(wall_ms, 1_000_000, boot))


def test_live_leases_are_listed_longest_first_and_released_ones_are_not() -> None:
    with on(THIS_BOOT, 1_000_000) as journal:
        tenant = journal.tenant()
        tenant.acquire("short", owner="a", ttl=10)
        tenant.acquire("long", owner="b", ttl=7200)
        tenant.release(tenant.acquire("free", owner="c", ttl=9000))
        journal.tenant("acme").acquire("other", owner="d", ttl=9000)
        assert held(tenant) == [
            Held("default", "long", "b", 1, 7_200_000, False),
            Held("default", "short", "a", 1, 10_000, False),
        ]


def test_a_lease_of_an_earlier_boot_lives_by_the_wall_clock_and_is_marked(tmp_path: Path) -> None:
    def leases(granted: bytes, now: bytes, set_back_ms: int) -> list[Held]:
        folder = tmp_path / f"{granted.hex()}-{now.hex()}-{set_back_ms}"
        with Journal.open(folder, create=True, clock=lambda: Moment(9_000_000, 1_000, granted)) as journal:
            journal.tenant().acquire("r", owner="w", ttl=20)
        with Journal.open(folder, clock=lambda: Moment(9_000_000 - set_back_ms, 2_000, now)) as journal:
            return held(journal.tenant())

    hour = 3_600_000
    assert leases(EARLIER_BOOT, THIS_BOOT, hour) == [Held("default", "r", "w", 1, hour + 20_000, True)]
    assert leases(THIS_BOOT, THIS_BOOT, hour) == [Held("default", "r", "w", 1, 19_000, False)]
    assert leases(UNKNOWN_BOOT, THIS_BOOT, hour) == [Held("default", "r", "w", 1, hour + 20_000, False)]
    assert leases(EARLIER_BOOT, THIS_BOOT, -hour) == []
