"""What a test moves by hand: time, and which versions of kinds a host knows."""

from __future__ import annotations

from typing import Any

from sealbook.journal.engine.port import Moment


class ManualClock:
    """A clock that stands still until the test moves it: wall time, boot time and boot apart."""

    def __init__(self, *, wall_ms: int = 1_800_000_000_000, boot_ms: int = 1_000_000, boot: int = 1) -> None:
        self.wall_ms = wall_ms
        self.boot_ms = boot_ms
        self.boot_id = boot.to_bytes(16, "big")

    def __call__(self) -> Moment:
        return Moment(self.wall_ms, self.boot_ms, self.boot_id)

    def advance(self, seconds: float) -> None:
        """Let time pass: both clocks move."""
        self.wall_ms += int(seconds * 1000)
        self.boot_ms += int(seconds * 1000)

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or NTP does; boot time knows nothing of it."""
        self.wall_ms += int(seconds * 1000)

    def reboot(self, *, down_seconds: float = 0, boot: int | None = None) -> None:
        """Start the machine anew: another boot id, and boot time from 0."""
        self.wall_ms += int(down_seconds * 1000)
        self.boot_ms = 0
        self.boot_id = (int.from_bytes(self.boot_id, "big") + 1 if boot is None else boot).to_bytes(16, "big")


class SwitchableUpcaster:
    """An upcaster whose current versions the test sets. Each step adds the member `lifted` with the version reached."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}

    def current_version(self, kind: str) -> int:
        """What the test set, otherwise 1."""
        return self.versions.get(kind, 1)

    def upcast(self, kind: str, version: int, data: dict[str, Any]) -> dict[str, Any] | None:
        """The data with `lifted`, from any older version."""
        return {**data, "lifted": self.current_version(kind)}
