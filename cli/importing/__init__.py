"""Runs that other programs recorded: read strictly, and brought into a tenant whole or not at all.

>>> from sealbook.cli.importing import READERS
>>> history = READERS["traj"](b'[{"role": "assistant", "content": "hello"}]', "greeting.traj.json")
>>> history.run, history.records
('greeting', 3)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sealbook.cli.importing import temporal, traj
from sealbook.cli.importing.history import History as History
from sealbook.cli.importing.strict import DamagedDocument as Damaged

__all__ = ["READERS", "Damaged", "History"]

# format -> what reads a file's bytes, given the name that the file goes by in the report
READERS: Mapping[str, Callable[[bytes, str], History]] = MappingProxyType(
    {"temporal": temporal.read, "traj": traj.read}
)
