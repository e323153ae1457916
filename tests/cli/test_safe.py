"""Text of strangers reaches a terminal as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealbook.cli.records.lines import data_text
from sealbook.cli.screen.safe import cut, fitted, line, safe, width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("order-42", "order-42"),
        ("Bestellung für Zoë 注文", "Bestellung für Zoë 注文"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\nc\td\x00\x7f", "a\\rb\\nc\\td\\x00\\x7f"),
        ("paid\u202e0021\u2066\u200b", "paid\\u202e0021\\u2066\\u200b"),
        ("a\u2028b\u00a0c\u0085", "a\\u2028b\\xa0c\\x85"),
        ("\ud800\ue000\U000e0001", "\\ud800\\ue000\\U000e0001"),
        ("C:\\new", "C:\\\\new"),
    ],
)
def test_what_does_not_print_as_itself_is_escaped(text: str, shown: str) -> None:
    assert safe(text) == shown


@given(st.text(alphabet=st.characters()))
def test_safe_text_has_nothing_that_a_terminal_acts_on_and_one_reading(text: str) -> None:
    assert safe(text).isprintable() or safe(text) == ""
    readable = safe(text).replace("\\\\", "\0")
    assert ("\\" in readable) == any(not character.isprintable() for character in text)


@given(st.text(alphabet=st.characters()))
def test_a_line_is_one_line(text: str) -> None:
    assert line(text).isprintable() or line(text) == ""


@pytest.mark.slow
@given(st.recursive(st.text(alphabet=st.characters(codec="utf-8")) | st.binary(), st.lists))
def test_data_is_shown_without_anything_that_a_terminal_acts_on(value: object) -> None:
    assert data_text({"value": value}).isprintable()


def test_data_is_shown_in_the_letters_of_its_language() -> None:
    assert data_text({"name": "Zoë", "evil": "\x1b[0m\u202e\x7f"}) == (
        '{"name": "Zoë", "evil": "\\u001b[0m\\u202e\\u007f"}'
    )


def test_wide_and_combining_characters_have_the_width_that_terminals_give_them() -> None:
    assert (width("abc"), width("注文"), width("e\u0301")) == (3, 4, 1)
    assert fitted("注文", 6) == "注文  "


def test_a_cut_text_fits_and_says_that_it_is_cut() -> None:
    assert cut("abcdefgh", 8) == "abcdefgh"
    assert cut("abcdefghi", 8) == "abcde..."
    assert cut("注文注文注文", 8) == "注文..."
