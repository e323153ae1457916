"""docs/auditing.md, run as it stands: every line of its ```sh blocks, in one shell."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from project import ROOT
from typed import Done, played, steps, told

pytestmark = pytest.mark.slow

DOCUMENT = ROOT / "docs" / "auditing.md"

# Where there are no histories: the demo's store, as the document says, and a case of it.
IN_THEIR_PLACE = {
    "sealbook init": "sealbook demo --keep demo",
    "sealbook import": "mv demo/agents.sealbook .",
    "case=": "case=customer-7",
    "run=": "run=order-42",
    "answer=": "answer='charged 1200 cents'",
    "words=": "words='1200 cents'",
    "forged=": "forged='9200 cents'",
}


def histories() -> Path | None:
    folder = Path(os.environ.get("SEALBOOK_SHARED") or ROOT.parent / "shared") / "data"
    return folder if folder.is_dir() else None


def of_the_demo(command: str) -> str:
    return next((ours for theirs, ours in IN_THEIR_PLACE.items() if command.startswith(theirs)), command)


def as_it_stands(command: str) -> str:
    return command


@pytest.fixture(scope="module", params=["histories", "demo"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    folder, data = tmp_path_factory.mktemp("auditing"), histories()
    shutil.copy(ROOT / "tools" / "verify_bundle.py", folder)
    if request.param == "demo":
        return played(DOCUMENT, folder, of_the_demo)
    if data is None:
        pytest.skip("no folder of histories: the demo's store stands in")
    (folder / "histories").symlink_to(data)
    return played(DOCUMENT, folder, as_it_stands)


def changed_record(session: list[Done]) -> tuple[str, int]:
    """The run, and the first of its records that has the words which are changed."""
    imported = told(session, "sealbook import")[0] != ""
    return ("0197c192-e1ea-72ee-9435-c3625ba774b3", 19) if imported else ("order-42", 4)


def places(lines: list[str]) -> list[tuple[int, str]]:
    """The seq and kind of each line of `-o with-run`."""
    return [(int(line.split()[2]), line.split()[3]) for line in lines]


def test_every_command_of_the_document_ends_as_it_is_told(session: list[Done]) -> None:
    last = session[-1]
    assert last.exit_code == last.step.exit_code, f"{last.step.command}\n{last.printed}"
    assert [each.step for each in session] == steps(DOCUMENT)


def test_the_question_is_answered_from_the_records(session: list[Done]) -> None:
    run, _ = changed_record(session)
    [_, listed] = told(session, "sealbook runs --case")[0].splitlines()
    assert listed.startswith(run)
    answer, words, nothing = (printed.splitlines() for printed in told(session, "sealbook show -u $run -g"))
    assert nothing == [] and all(run in line for line in answer + words)
    imported = [(13, "EffectDone"), (17, "EffectStarted")], [(19, "EffectDone"), (23, "RunConcluded")]
    demonstrated = [(4, "EffectStarted")], [(4, "EffectStarted")]
    assert (places(answer), places(words)) == (demonstrated if run == "order-42" else imported)
    newest, *_ = told(session, "sealbook show -u $run -S yesterday")[0].splitlines()
    assert "RunConcluded" in newest and run in newest
    story = told(session, "sealbook run $run")[0]
    assert "completed, sealed" in story and "done" in story and "holds" in story


def test_the_bundle_holds_elsewhere_and_what_stays_open_is_said(session: list[Done]) -> None:
    alone, brought, strict, everything, *_ = told(session, "sealbook bundle verify")
    assert ": sound: " in alone and "claimed by the exporter, not trusted" in alone
    assert "not checked: whether this is the log that others saw: no --checkpoint" in alone
    assert "not checked: who signed the checkpoints: no --policy" in alone
    for printed in (brought, strict):
        assert ": sound: " in printed and "brought by you too" in printed
        assert "no --checkpoint" not in printed and "no --policy" not in printed
        assert "not checked: completeness" in printed
    assert ": sound: " in everything and "completeness" not in everything
    assert told(session, "python verify_bundle.py case")[0].startswith("sound: ")


def test_a_changed_copy_is_located_to_the_record_by_both_readers(session: list[Done]) -> None:
    run, seq = changed_record(session)
    *_, short, forged = told(session, "sealbook bundle verify")
    assert "short: incomplete" in short
    *_, second_short, second_forged = told(session, "python verify_bundle.py")
    assert "it is incomplete" in second_short
    place = re.search(
        rf"record at byte (\d+) of the content: .*run {run} record {seq}: the hash does not cover", forged
    )
    assert place is not None, forged
    second = re.search(
        r"damaged: byte (\d+) of the content: the hash does not cover the bytes of record", second_forged
    )
    assert second is not None and second[1] == place[1], second_forged


def test_a_changed_store_is_located_to_the_record_and_exports_nothing(session: list[Done]) -> None:
    run, seq = changed_record(session)
    for verb in ("verify", "audit"):
        [printed] = told(session, f"sealbook -D changed.sealbook {verb}")
        assert re.search(rf"run {run}, record {seq}, .*: the hash does not cover", printed)
    for printed in told(session, "sealbook verify") + told(session, "sealbook audit"):
        assert "internally consistent" in printed and "not checked: times" in printed


def test_the_restored_store_says_so_and_agrees_with_the_checkpoint_from_outside(session: list[Done]) -> None:
    assert "Restored" in told(session, "sealbook -D again.sealbook show")[0]
    assert "begins with every outside checkpoint given" in told(session, "sealbook -D again.sealbook verify")[0]
