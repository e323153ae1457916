"""An export into a file is whole under its name or not there, and goes on where it was cut off, or says why not."""

from __future__ import annotations

import errno
import fcntl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bundling import CLAIMED, MADE_AT, bundle_of, ours
from damaging import on_disk
from tampering import rich_store

from sealbook.journal import Busy, Corrupt, InvalidInput, Journal, NotFound, Unfinished, entries
from sealbook.journal.bundle import container
from sealbook.journal.bundle.container import Codec, ContainerWriter
from sealbook.journal.exporting import bundle
from sealbook.journal.exporting.file import Resumed, export_to
from sealbook.journal.exporting.question import Question

ACME = Question("tenant", "acme")
QUESTIONS = (Question("store"), ACME, Question("runs", "acme", ("wait", "done/1")), Question("span", "acme"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "BLOCK_PLAIN_BYTES", 256)


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Do the job, in which the n-th block meets this error; whether it got so far."""
    block = ContainerWriter._block

    def run(number: int, error: BaseException, job: Callable[[], Any]) -> bool:
        left = [number]

        def failing(writer: ContainerWriter, plain: bytes) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise error
            block(writer, plain)

        with monkeypatch.context() as patch:
            patch.setattr(ContainerWriter, "_block", failing)
            try:
                job()
            except type(error):
                return True
        return False

    return run


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def partial_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.partial")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.what)
@pytest.mark.parametrize("error", [full(), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_an_export_that_was_cut_off_goes_on_and_gives_the_first_ones_bytes(
    cut_off: Callable[..., bool], tmp_path: Path, question: Question, error: BaseException
) -> None:
    journal, target, number = rich_store(), tmp_path / "b", 0
    whole = bundle_of(journal, question)
    while number < 100:
        seen: list[Resumed] = []
        if not cut_off(number, error, lambda: export_to(journal, target, question, made_at=MADE_AT)):
            break
        data = partial_of(target).read_bytes()
        assert stat.S_IMODE(partial_of(target).stat().st_mode) == 0o600
        assert ours(data) == ("file", len(data))
        exported = export_to(journal, target, question, made_at=MADE_AT + number, resumed=seen.append)
        assert [found.made_at for found in seen] == [MADE_AT]
        assert exported.digest == target.read_bytes()[-32:]
        assert target.read_bytes() == whole
        assert names(tmp_path) == ["b"]
        target.unlink()
        number += 1
    assert number > 5


def test_an_export_that_is_cut_off_again_and_again_comes_to_its_end(
    cut_off: Callable[..., bool], tmp_path: Path
) -> None:
    journal, target = rich_store(), tmp_path / "b"
    whole, breaks = bundle_of(journal, ACME), 0
    while cut_off(2, full(), lambda: export_to(journal, target, ACME, made_at=MADE_AT)):
        breaks += 1
        assert breaks < 50
        journal.tenant("acme").append("grows", [entries.note("meanwhile")], epoch=1)
    assert target.read_bytes() == whole
    assert breaks > 2


def begun(cut_off: Callable[..., bool], journal: Journal, target: Path, question: Question = ACME) -> bytes:
    """An export that was cut off after some blocks; what stands there of it."""
    assert cut_off(5, full(), lambda: export_to(journal, target, question, made_at=MADE_AT))
    return partial_of(target).read_bytes()


def test_another_question_codec_or_keys_are_refused_and_leave_what_stands_there(
    cut_off: Callable[..., bool], tmp_path: Path
) -> None:
    journal, target = rich_store(), tmp_path / "b"
    since = Question("span", "acme", since=1_795_939_200_000_000)
    stands = begun(cut_off, journal, target, since)
    words = "it is of another question: tenant acme, since 2026-11-29T08:00:00Z; zlib"
    for question in (*QUESTIONS, Question("span", "acme", since=1)):
        with pytest.raises(Unfinished, match=words):
            export_to(journal, target, question, made_at=MADE_AT)
    with pytest.raises(Unfinished, match="another question"):
        export_to(journal, target, since, made_at=MADE_AT, codec=Codec.LZMA)
    with pytest.raises(Unfinished, match="other keys were offered"):
        export_to(journal, target, since, made_at=MADE_AT, keys=CLAIMED)
    assert partial_of(target).read_bytes() == stands and not target.exists()


def test_names_in_another_order_are_the_same_question(cut_off: Callable[..., bool], tmp_path: Path) -> None:
    journal, target = rich_store(), tmp_path / "b"
    begun(cut_off, journal, target, Question("runs", "acme", ("wait", "done/1")))
    seen: list[Resumed] = []
    again = Question("runs", "acme", ("done/1", "wait", "done/1"))
    export_to(journal, target, again, made_at=MADE_AT, resumed=seen.append)
    assert len(seen) == 1


def test_another_store_is_refused_though_it_is_of_the_same_lineage(
    cut_off: Callable[..., bool], tmp_path: Path
) -> None:
    target = tmp_path / "b"
    begun(cut_off, rich_store(), target)
    with pytest.raises(Unfinished, match="it is of another store"):
        export_to(rich_store(), target, ACME, made_at=MADE_AT)


def test_damage_is_refused_and_only_what_is_begun_anew_takes_its_place(
    cut_off: Callable[..., bool], tmp_path: Path
) -> None:
    journal, target = rich_store(), tmp_path / "b"
    stands = begun(cut_off, journal, target)
    plan = target.with_name("b.partial.plan")
    planned = plan.read_bytes()
    for path, data in ((partial_of(target), stands), (plan, planned)):
        for position in range(16 if path != plan else 0, len(data) - 300, 37):
            path.write_bytes(data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :])
            damaged = path.read_bytes()
            try:
                export_to(journal, target, ACME, made_at=MADE_AT + 1)
            except Unfinished:
                assert path.read_bytes() == damaged and not target.exists()
            else:  # a length that says that the file ends within the block: what follows was written again
                assert target.read_bytes() == bundle_of(journal, ACME)
                target.unlink()
            partial_of(target).write_bytes(stands)
            plan.write_bytes(planned)
    plan.unlink()
    with pytest.raises(Unfinished, match="is not beside it"):
        export_to(journal, target, ACME, made_at=MADE_AT)
    export_to(journal, target, ACME, made_at=MADE_AT + 1, restart=True)
    assert target.read_bytes() == bundle_of(journal, ACME, made_at=MADE_AT + 1)
    assert names(tmp_path) == ["b"]


def test_a_file_that_no_export_wrote_is_never_overwritten(tmp_path: Path) -> None:
    journal, target = rich_store(), tmp_path / "b"
    for text in ("mine", "my own notes, which have the name that a bundle would be written under"):
        partial_of(target).write_text(text)
        for restart in (False, True):
            with pytest.raises(InvalidInput, match="holds something else"):
                export_to(journal, target, ACME, made_at=MADE_AT, restart=restart)
        assert partial_of(target).read_text() == text
    partial_of(target).unlink()
    (tmp_path / "elsewhere").write_bytes(b"")
    partial_of(target).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        export_to(journal, target, ACME, made_at=MADE_AT)


def test_two_exports_to_one_file_do_not_write_into_each_other(tmp_path: Path) -> None:
    journal, target = rich_store(), tmp_path / "b"
    refused = []

    def other(written: int, total: int) -> None:
        for restart in (False, True):
            with pytest.raises(Busy):
                export_to(journal, target, ACME, made_at=MADE_AT, restart=restart)
            refused.append(written)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sealbook.journal.exporting.parts.PAGE_ROWS", 1)
        export_to(journal, target, ACME, made_at=MADE_AT, progress=other)
    assert refused and target.read_bytes() == bundle_of(journal, ACME)


def test_a_file_that_took_its_name_while_another_export_came_to_its_lock_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, target = rich_store(), tmp_path / "b"
    lock = fcntl.flock
    taken: list[Path] = []

    def late(stream: Any, how: int) -> None:
        if not taken:  # the first export ends between the second one's open and its lock
            taken.append(partial_of(target).replace(target))
        lock(stream, how)

    monkeypatch.setattr(fcntl, "flock", late)
    export_to(journal, target, ACME, made_at=MADE_AT)
    assert taken and target.read_bytes() == bundle_of(journal, ACME)


def test_an_export_that_is_refused_or_finds_damage_leaves_nothing(tmp_path: Path) -> None:
    journal, target = rich_store(), tmp_path / "b"
    for question in (Question("tenant", "nobody"), Question("runs", "acme", ("wait", "nothing"))):
        with pytest.raises(NotFound):
            export_to(journal, target, question, made_at=MADE_AT)
        assert names(tmp_path) == []

    def damaged(*args: Any) -> None:
        raise Corrupt("found")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "_check_unmoved", damaged)
        with pytest.raises(Corrupt):
            export_to(journal, target, ACME, made_at=MADE_AT)
    assert names(tmp_path) == []


def test_a_refused_question_leaves_what_another_export_has_begun(cut_off: Callable[..., bool], tmp_path: Path) -> None:
    journal, target = rich_store(), tmp_path / "b"
    stands = begun(cut_off, journal, target)
    for restart in (False, True):
        with pytest.raises((NotFound, Unfinished)):
            export_to(journal, target, Question("tenant", "nobody"), made_at=MADE_AT, restart=restart)
        with pytest.raises(InvalidInput):
            export_to(journal, target, Question("runs", "acme"), made_at=MADE_AT, restart=restart)
    assert partial_of(target).read_bytes() == stands


def test_a_bundle_that_was_whole_but_had_not_taken_its_name_takes_it(tmp_path: Path) -> None:
    journal, target = rich_store(), tmp_path / "b"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", lambda path, other: (_ for _ in ()).throw(full()))
        with pytest.raises(OSError, match="No space"):
            export_to(journal, target, ACME, made_at=MADE_AT)
    assert ours(partial_of(target).read_bytes()) == ("sound", 0)
    export_to(journal, target, ACME, made_at=MADE_AT + 1)
    assert target.read_bytes() == bundle_of(journal, ACME)


def test_a_store_on_disk_is_gone_on_with_by_another_process_that_opens_it(
    cut_off: Callable[..., bool], tmp_path: Path
) -> None:
    on_disk(rich_store(), tmp_path / "s")
    target = tmp_path / "b"
    with Journal.open(tmp_path / "s", readonly=True) as journal:
        begun(cut_off, journal, target)
    with Journal.open(tmp_path / "s", readonly=True) as journal:
        export_to(journal, target, ACME, made_at=MADE_AT + 1)
        assert target.read_bytes() == bundle_of(journal, ACME)
