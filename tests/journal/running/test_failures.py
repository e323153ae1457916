"""How an exception is recorded, and handed back as what it was."""

from __future__ import annotations

import pickle

import pytest

from sealbook.journal import RecordedFailure
from sealbook.journal.running import failures

EFFECT = bytes(32)


class Declined(Exception):
    """One that needs more than a text to be made."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code

    class Inner(ValueError):
        """One that stands inside of another."""


class Mute(Exception):
    """One whose text fails."""

    def __str__(self) -> str:
        raise RuntimeError


def round_trip(error: Exception) -> RecordedFailure:
    return failures.handed_back("r", EFFECT, 2, failures.described(error))


@pytest.mark.parametrize(
    ("error", "caught_as"),
    [
        (ValueError("x"), ValueError),
        (KeyError("x"), LookupError),
        (OSError(2, "no such file"), OSError),
        (FileNotFoundError(2, "no such file"), OSError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ValueError),
        (Declined(51, "funds"), Declined),
        (Declined.Inner("x"), Declined.Inner),
    ],
)
def test_a_failure_is_caught_as_what_it_was(error: Exception, caught_as: type[Exception]) -> None:
    again = round_trip(error)
    assert isinstance(again, caught_as)
    assert isinstance(again, RecordedFailure)
    assert again.message == str(error)
    assert (again.run, again.effect, again.attempt) == ("r", EFFECT.hex(), 2)
    assert str(error).splitlines()[0][:5] in str(again)


NO_EXCEPTIONS = ("no.such.Type", "os.path", "builtins", "KeyboardInterrupt", "json.loads", "", "a..b", ".", "int")


@pytest.mark.parametrize("name", NO_EXCEPTIONS)
def test_a_type_that_is_no_loaded_exception_is_a_recorded_failure_alone(name: str) -> None:
    again = failures.handed_back("r", EFFECT, 1, {"type": name, "message": "x"})
    assert type(again) is RecordedFailure


@pytest.mark.parametrize("recorded", [None, 7, "timed out", ["a"], {"code": 1}])
def test_a_failure_in_another_form_is_handed_back_too(recorded: object) -> None:
    assert type(failures.handed_back("r", EFFECT, 1, recorded)) is RecordedFailure


def test_a_failure_handed_back_can_be_sent_to_another_process() -> None:
    again = pickle.loads(pickle.dumps(round_trip(Declined(51, "funds"))))
    assert type(again) is RecordedFailure
    assert again.message == "51: funds"


def test_what_is_recorded_of_an_exception_is_its_type_and_its_text_cut_to_a_length() -> None:
    assert failures.described(Declined(51, "funds")) == {"type": f"{__name__}.Declined", "message": "51: funds"}
    assert failures.described(ValueError("x" * 5000))["message"] == "x" * 1999 + "…"
    assert failures.described(ValueError("\ud800"))["message"] == "\\ud800"
    assert failures.described(Mute()) == {"type": f"{__name__}.Mute", "message": ""}
    long = type("T" * 500, (Exception,), {})
    assert len(failures.described(long())["type"]) == 200
