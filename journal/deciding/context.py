"""What one batch is decided over: the store as it is for the batch, the moment, and the setting of the open journal."""

from __future__ import annotations

from dataclasses import dataclass

from sealbook.journal.deciding import leases
from sealbook.journal.deciding.overlay import Overlay
from sealbook.journal.engine.port import Moment
from sealbook.journal.records.signatures import signer_id
from sealbook.journal.schema.setting import Setting


@dataclass(frozen=True, slots=True)
class Context:
    """One batch under way. `at` is its wall-clock time in unix milliseconds; `signer_id` is the signer's."""

    overlay: Overlay
    moment: Moment
    at: int
    setting: Setting
    restoration: int
    signer_id: bytes | None


def context_of(overlay: Overlay, moment: Moment, setting: Setting, restoration: int) -> Context:
    """What a batch is decided over. A clock before 1970 is wrong anyway, and counts as 1970."""
    at = max(0, leases.check_moment(moment).wall_ms)
    signer = None if setting.signer is None else signer_id(setting.signer.public_key)
    return Context(overlay, moment, at, setting, restoration, signer)
