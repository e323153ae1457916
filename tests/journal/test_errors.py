"""Errors: sorted by what the caller does next, with values, in one line that people read."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from sealbook import journal
from sealbook.journal import Head, errors
from sealbook.journal.errors import (
    Corrupt,
    EngineFailed,
    Fenced,
    Refused,
    SealbookError,
    UnknownVersion,
    key_text,
    printable,
    shown,
)

FAMILIES = (Refused, Corrupt, EngineFailed, UnknownVersion)
KINDS: list[type[SealbookError]] = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, SealbookError) and kind is not SealbookError
]
VALUES: dict[str, Any] = {
    "run": "order\u202e-42",
    "holder": "order\n41",
    "owner": "worker\x1b[31m",
    "value": "\ud800\n",
    "what": "thing",
    "where": "entry 0",
    "reason": "is wrong",
    "outcome": "failed",
    "last_kind": "Note",
    "effect": "ab" * 32,
    "status": "done",
    "source": "sh\nop",
    "id": "4\n2",
    "head": Head(3, bytes(32)),
    "stated": "x\n",
    "recorded": 10**5000,
    "table": "journal",
    "key": b"acme\0r\0" + bytes(8),
}


def made(kind: type[SealbookError]) -> SealbookError:
    """An error of this kind, with values that no line should show as they are."""
    parameters = inspect.signature(kind).parameters if kind.__init__ is not SealbookError.__init__ else {}
    given = [name for name in parameters if parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return kind(*[VALUES.get(name, 7) for name in given])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_is_of_one_family_and_reads_as_one_line(kind: type[SealbookError]) -> None:
    assert sum(issubclass(kind, family) for family in FAMILIES) == 1
    if kind is not Refused:
        text = str(made(kind))
        assert text
        assert text.isprintable()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling_and_copying_with_its_values(kind: type[SealbookError]) -> None:
    error = made(kind)
    error.tenant = "acme"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert again.__dict__ == error.__dict__
        assert again.tenant == "acme"


def test_every_error_is_a_public_name() -> None:
    assert [kind.__name__ for kind in KINDS if kind.__name__ not in journal.__all__] == []


def test_only_an_unknown_commit_may_have_written() -> None:
    assert [kind.__name__ for kind in KINDS if getattr(kind, "maybe_written", False)] == ["CommitUnknown"]


def test_two_errors_are_never_equal_by_their_values() -> None:
    assert Fenced("r", 1, 2) != Fenced("r", 1, 2)
    assert len({Fenced("r", 1, 2), Fenced("r", 1, 2)}) == 2


def test_a_value_is_shown_quoted_escaped_and_cut() -> None:
    assert shown("a") == "'a'"
    assert shown("ü") == "'ü'"
    assert shown("a\nb\x1b") == "'a\\nb\\x1b'"
    assert shown("\ud800") == "'\\ud800'"
    assert shown("x" * 100) == "'" + "x" * 59 + "… (102 characters)"
    assert shown(10**5000) == "<int>"


def test_a_name_is_shown_as_it_is_unless_it_would_move_the_line() -> None:
    assert printable("größe/42") == "größe/42"
    assert printable("a\u202eb\n") == "a\\u202eb\\n"


def test_a_key_is_shown_by_its_names_and_what_is_no_text_as_hex() -> None:
    assert key_text(b"acme\0r") == "acme/r"
    assert key_text(b"acme\0r\0\xff\xfe") == "acme/r/fffe"
    assert key_text(b"acme\0\n") == "acme/0a"


def test_damage_names_its_record_and_its_row() -> None:
    assert str(Corrupt("is damaged", "r", 3)) == "r record 3: is damaged"
    assert str(Corrupt("is damaged", "r", None, "state", b"acme\0r")) == "r, table state key acme/r: is damaged"
    assert str(Corrupt("is damaged")) == "is damaged"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_says_what_its_caller_does_next(kind: type[SealbookError]) -> None:
    assert isinstance(kind.next_step, errors.NextStep)
    assert made(kind).next_step is kind.next_step


def test_what_is_no_refusal_by_its_nature_says_so_though_its_base_stays() -> None:
    steps = {kind.__name__: kind.next_step.name for kind in (errors.Busy, errors.Closed, errors.InDoubt)}
    assert steps == {"Busy": "RETRY", "Closed": "REOPEN", "InDoubt": "LOOK"}
