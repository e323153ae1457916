"""The system's clock: the one place that asks the machine what time it is and which boot this is."""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys
import time
import uuid
from pathlib import Path

from sealbook.journal.engine.port import Moment

BOOT_UNKNOWN = bytes(16)  # the machine does not say which boot this is; lease rules then go by wall time
BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")

# CLOCK_BOOTTIME also counts while the machine sleeps; where there is none, the monotonic clock comes closest.
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def system_clock() -> Moment:
    """Now: wall time, time since boot, and the boot that this is."""
    return Moment(
        wall_ms=time.time_ns() // 1_000_000,
        boot_ms=time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000,
        boot_id=boot_id(),
    )


@functools.cache
def boot_id() -> bytes:
    """16 bytes that name this boot, the same in every process until the machine restarts.

    On Linux it is the kernel's boot id. On macOS it is derived from the boot session that the kernel names. Anywhere
    else, and where the kernel hides it, it is `BOOT_UNKNOWN`, which never proves that two instants are of one boot.
    """
    try:
        return uuid.UUID(BOOT_ID_FILE.read_text("ascii").strip()).bytes
    except (OSError, ValueError):
        return _boot_id_of_darwin() if sys.platform == "darwin" else BOOT_UNKNOWN


def _boot_id_of_darwin() -> bytes:
    try:
        answer = subprocess.run(["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return BOOT_UNKNOWN
    return hashlib.sha256(answer.stdout.strip()).digest()[:16]
