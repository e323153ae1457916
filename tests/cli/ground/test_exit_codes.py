"""Every error has its exit code and its one line."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sealbook.cli.ground import exit_codes
from sealbook.cli.witnessing import binding
from sealbook.journal import errors
from sealbook.journal.records.chain import Head
from sealbook.merkle.errors import Malformed, VerificationError

EXAMPLES: list[tuple[BaseException, int]] = [
    (errors.Corrupt("is damaged", "r", 1), 3),
    (VerificationError("no"), 3),
    (Malformed("no"), 3),
    (errors.NotFound("run", "r"), 4),
    (errors.InvalidName("run", "", "is empty"), 2),
    (errors.InvalidEntry("entry 0", "bad"), 2),
    (errors.InvalidInput("ttl", 0, "bad"), 2),
    (errors.InvalidInput("path", "x", "holds something"), 5),
    (errors.InvalidCursor("bad"), 2),
    (errors.TooLarge(5, 4), 2),
    (errors.Fenced("r", 1, 2), 5),
    (errors.LeaseHeld("r", "o", 1, 5), 5),
    (errors.LeaseNotHeld("r", "o", 1, "no"), 5),
    (errors.RunSealed("r", "completed"), 5),
    (errors.Concluded("r", "completed"), 5),
    (errors.NotConcluded("r", None, None), 5),
    (errors.DuplicateEffect("r", "00" * 32, 1, "done"), 5),
    (errors.EffectNotStarted("r", "00" * 32), 5),
    (errors.EffectSettled("r", "00" * 32, 1, "done"), 5),
    (errors.DuplicateAdmission("s", "i", "r"), 5),
    (errors.Conflict("r", Head(1, bytes(32))), 5),
    (errors.Mismatch("r", "the outcome", "a", "b"), 5),
    (errors.KeyRequired("r", "effect charge"), 5),
    (errors.RestoredRun("r"), 5),
    (errors.RecordedFailure("r", "00" * 32, 1, "ValueError", "no"), 5),
    (errors.WrongLoop("no"), 5),
    (errors.Closed(), 5),
    (errors.Busy("locked"), 5),
    (errors.Unfinished("b.partial", "it is damaged"), 5),
    (errors.ReadOnly(), 5),
    (errors.EngineFailed("broken"), 6),
    (errors.StoreFull("full"), 6),
    (errors.StoreMissing("no store"), 6),
    (errors.WrongFormat("no"), 6),
    (errors.OpenedBeforeFork("no"), 6),
    (errors.IndexStale(), 6),
    (errors.CommitUnknown("unknown"), 6),
    (errors.UnknownVersion("newer store"), 6),
    (errors.UnknownVersion("newer record", "r", 1), 1),
    (errors.InDoubt("r", "00" * 32, 1), 7),
    (KeyboardInterrupt(), 130),
    (BrokenPipeError(), 141),
    (OSError(errno.ENOSPC, "No space left on device"), 6),
]


@pytest.mark.parametrize(("error", "code"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_every_error_has_its_code(error: BaseException, code: int) -> None:
    assert exit_codes.code_of(error) == code


@pytest.mark.parametrize("error", [error for error, code in EXAMPLES if code < 130], ids=lambda e: type(e).__name__)
def test_every_error_has_its_line(error: BaseException) -> None:
    line = exit_codes.line_of(error)
    assert line
    assert "\n" not in line


def test_every_class_of_error_is_among_the_examples() -> None:
    families = {errors.SealbookError, errors.Refused}
    classes = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)}
    assert classes - families <= {type(error) for error, _ in EXAMPLES}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.NotFound("log key", "example.com/log"), "`sealbook keys gen --log` makes one, and --origin"),
        (errors.NotFound("policy", "p"), "`sealbook witness add` writes one"),
        (errors.NotFound("policy", "/long" * 40), "/long" * 40),
        (errors.Mismatch("r", "the outcome", "a", "b"), "`sealbook run r` shows how it ended"),
        (errors.Mismatch("r", "step 2 (record 3)", "a()", "b()", 3), "`sealbook run r` shows what is recorded"),
        (errors.RecordedFailure("r", "00" * 32, 1, "ValueError", "no"), "`sealbook effects r` shows where it stands"),
        (errors.Mismatch("r", "the attempt of effect 00", 1, 2), "`sealbook effects r` shows where it stands"),
        (errors.Unfinished("b.partial", "it is damaged"), "repeat that export, or begin anew with --restart"),
        (
            errors.hinted(
                errors.EngineFailed("cannot open s/lock.mdb: denied: open it with readonly=True"),
                errors.Hint.FILE_MODES,
            ),
            "lock.mdb writable",
        ),
        (exit_codes.Unprinted("record 6 of r was written", OSError(errno.ENOSPC, "No space")), "record 6 of r was"),
    ],
)
def test_the_line_says_what_to_do_at_the_command_line(error: BaseException, words: str) -> None:
    line = exit_codes.line_of(error)
    assert words in line
    assert "readonly=True" not in line


def test_a_witness_state_that_is_missing_is_no_store_to_be_created(tmp_path: Path) -> None:
    with pytest.raises(binding.StateMissing) as raised:
        binding.read_state(tmp_path / "none")
    line = exit_codes.line_of(raised.value)
    assert "no witness state at" in line
    assert "sealbook init" not in line
    assert exit_codes.code_of(raised.value) == 6


def test_a_fault_of_the_program_has_no_code() -> None:
    assert exit_codes.code_of(ZeroDivisionError()) is None
