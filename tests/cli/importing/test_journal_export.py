"""systemd's journal becomes a run per boot, and nothing of it is dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from sealbook.cli.importing import apply, journal_export
from sealbook.cli.importing.strict import DamagedDocument
from sealbook.journal import Journal

ENTRY = b"__CURSOR=s\n_BOOT_ID=b1\nMESSAGE=hello\n\n"


def test_a_recorded_journal_is_a_run_per_boot_with_its_stray_lines(shared: Path) -> None:
    text = (shared / "data" / "systemd-journal-export" / "multiple-boots.export").read_bytes()
    histories = journal_export.read(text, "f")
    assert len(histories) == 3
    records = [entry for history in histories for entry in history.segments[0].entries]
    stray = [entry for entry in records if entry.kind == "Imported"]
    assert len(stray) == 2 and all(str(entry.data["line"]).startswith("Sep 17") for entry in stray)
    assert sum(entry.kind == "systemd.Entry" for entry in records) == text.count(b"__CURSOR=")
    tenant = Journal.in_memory().tenant()
    assert {done.result for done in apply.apply_all(tenant, histories)} == {"new"}
    assert {done.result for done in apply.apply_all(tenant, journal_export.read(text, "f"))} == {"unchanged"}


def test_fields_are_text_bytes_or_lists() -> None:
    binary = b"MESSAGE\n" + (4).to_bytes(8, "little") + b"\xff\n=\n\n"
    text = b"__CURSOR=s\n_BOOT_ID=b1\nX=1\nX=2\nX=3\n" + binary + b"\n"
    [history] = journal_export.read(text, "f")
    assert history.run == "boot-b1"
    assert history.segments[0].entries[1].data == {
        "__CURSOR": "s",
        "_BOOT_ID": "b1",
        "X": ["1", "2", "3"],
        "MESSAGE": b"\xff\n=\n",
    }


def test_a_longer_copy_of_a_boot_appends_what_is_new() -> None:
    tenant = Journal.in_memory().tenant()
    apply.apply_all(tenant, journal_export.read(ENTRY, "f"))
    [done] = apply.apply_all(tenant, journal_export.read(ENTRY + ENTRY.replace(b"hello", b"bye"), "f"))
    assert (done.result, done.records, done.known) == ("extended", 1, 2)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n\n",
        b"no field\n",
        b"__CURSOR=s\nMESSAGE=hello\n\n",
        ENTRY[:-3],
        b"__CURSOR=s\n_BOOT_ID=b1\nMESSAGE\n" + (10).to_bytes(8, "little") + b"short\n",
        b"__CURSOR=s\n_BOOT_ID=b1\nMESSAGE\n" + (2**63).to_bytes(8, "little") + b"short\n",
    ],
)
def test_what_is_no_journal_is_damaged(text: bytes) -> None:
    with pytest.raises(DamagedDocument):
        journal_export.read(text, "f")
