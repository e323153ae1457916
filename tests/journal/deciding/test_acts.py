"""What a restore leaves in a tenant's own run is held to its form, when it is read and when the store is checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tampering import forge

from sealbook.journal import Corrupt, Journal, entries
from sealbook.journal.deciding.acts import RESTORED, Restoration, restoration_of
from sealbook.journal.records.names import OPERATOR_RUN, RESTORATION
from sealbook.journal.records.record import Record
from sealbook.journal.testing import ManualClock

ACT = Restoration(1, bytes(32), 5, 2, bytes(range(32)), "ada", "disk lost")


def record(**members: Any) -> Record:
    [written] = Journal.in_memory().tenant().append("a", [entries.note("n")], epoch=1)
    return written._replace(run=OPERATOR_RUN, kind=RESTORED, epoch=RESTORATION, data=ACT.data())._replace(**members)


def test_what_is_written_is_read() -> None:
    assert restoration_of(record()) == ACT


@pytest.mark.parametrize(
    "members",
    [
        {"restoration": 0},
        {"restoration": True},
        {"digest": bytes(31)},
        {"digest": "x"},
        {"root": bytes(33)},
        {"records": "5"},
        {"actor": None},
        {"reason": 7},
    ],
)
def test_an_act_that_is_no_restore_is_corrupt(members: dict[str, Any]) -> None:
    with pytest.raises(Corrupt):
        restoration_of(record(data=ACT.data() | members))


def test_a_restore_under_an_epoch_of_another_restoration_is_corrupt() -> None:
    with pytest.raises(Corrupt):
        restoration_of(record(epoch=2 * RESTORATION))
    assert restoration_of(record(epoch=2 * RESTORATION, data=replace(ACT, restoration=2).data())).restoration == 2


@pytest.mark.parametrize(("data", "found"), [(ACT.data(), 0), ({"actor": "ada"}, 1)])
def test_the_check_of_a_store_reads_it(data: dict[str, Any], found: int) -> None:
    journal = Journal.in_memory(clock=ManualClock())
    journal.tenant("t").append("a", [entries.note("n")], epoch=1)
    forge(journal, "t", OPERATOR_RUN, RESTORED, data, epoch=RESTORATION)
    findings = [finding for finding in journal.check().findings if "is no restore" in finding.what]
    assert len(findings) == found
