"""The system's clock."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from sealbook.journal.engine import clock


def test_a_moment_has_wall_time_boot_time_and_this_boot() -> None:
    before, moment, after = time.time_ns() // 1_000_000, clock.system_clock(), time.time_ns() // 1_000_000
    assert before <= moment.wall_ms <= after
    assert moment.boot_ms > 0
    assert len(moment.boot_id) == 16
    assert moment.boot_id == clock.system_clock().boot_id


def test_boot_time_does_not_go_back() -> None:
    moments = [clock.system_clock().boot_ms for _ in range(100)]
    assert moments == sorted(moments)


@pytest.mark.skipif(not clock.BOOT_ID_FILE.exists(), reason="the kernel names no boot")
def test_the_boot_id_is_the_kernels() -> None:
    text = clock.BOOT_ID_FILE.read_text().strip()
    assert clock.boot_id().hex() == text.replace("-", "")


def test_a_boot_that_the_machine_does_not_name_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for content in (None, "", "no hex"):
        path = tmp_path / "boot_id"
        if content is not None:
            path.write_text(content)
        monkeypatch.setattr(clock, "BOOT_ID_FILE", path)
        clock.boot_id.cache_clear()
        try:
            assert clock.boot_id() == clock.BOOT_UNKNOWN
        finally:
            clock.boot_id.cache_clear()
