"""Who a store is: the text of its SEALBOOK file."""

from __future__ import annotations

from dataclasses import replace

import pytest
from blake3 import blake3

from sealbook.journal import Corrupt, UnknownVersion, WrongFormat
from sealbook.journal.schema.identity import Identity, check_store_row, new_identity, parse_identity
from sealbook.journal.schema.tables import FORMAT

IDENTITY = Identity(bytes(range(16)), bytes(range(16, 32)), bytes(range(32)), FORMAT, 3)
TEXT = IDENTITY.encode()


def with_check(lines: bytes) -> bytes:
    return lines + b"check " + blake3(lines).hexdigest(8).encode() + b"\n"


LINES = TEXT[: TEXT.index(b"check ")]


def test_an_identity_comes_back_from_its_text() -> None:
    assert parse_identity(TEXT, 3) == IDENTITY
    assert with_check(LINES) == TEXT


def test_a_new_store_is_like_no_other() -> None:
    first, second = new_identity(3), new_identity(3)
    assert len({first.store_id, second.store_id, first.lineage_id, second.lineage_id}) == 4
    assert first.secret != second.secret
    assert parse_identity(first.encode(), 3) == first


def test_the_secret_is_not_shown() -> None:
    assert IDENTITY.secret.hex() not in repr(IDENTITY)
    assert repr(IDENTITY.secret) not in repr(IDENTITY)


@pytest.mark.parametrize("text", [b"", b"\n", b"store", b"# readme\n", b"sealbook\n", b"sealbook x\n", bytes(64)])
def test_a_file_of_something_else_is_no_store(text: bytes) -> None:
    with pytest.raises(WrongFormat):
        parse_identity(text, 3)


def test_a_newer_text_is_an_unknown_version_whatever_follows() -> None:
    for text in (b"sealbook 2\n", TEXT.replace(b"sealbook 1", b"sealbook 2"), b"sealbook 999999999\nwhat\xff"):
        with pytest.raises(UnknownVersion):
            parse_identity(text, 3)


def test_a_newer_format_is_an_unknown_version_and_an_older_one_a_wrong_format() -> None:
    newer = LINES.replace(b"format %d" % FORMAT, b"format %d" % (FORMAT + 1))
    with pytest.raises(UnknownVersion, match=f"format {FORMAT + 1}"):
        parse_identity(with_check(newer), 3)
    older = LINES.replace(b"format %d" % FORMAT, b"format %d" % (FORMAT - 1))
    with pytest.raises(WrongFormat, match=f"format {FORMAT - 1}"):
        parse_identity(with_check(older), 3)


def test_another_engine_format_is_a_wrong_format() -> None:
    with pytest.raises(WrongFormat, match="engine format is 3"):
        parse_identity(TEXT, 4)


def test_any_byte_changed_or_missing_is_found() -> None:
    for index in range(len(TEXT)):
        for changed in (TEXT[:index] + bytes([TEXT[index] ^ 1]) + TEXT[index + 1 :], TEXT[:index]):
            with pytest.raises((Corrupt, WrongFormat, UnknownVersion)):
                parse_identity(changed, 3)
    first_line = TEXT.index(b"\n") + 1
    for index in range(first_line, len(TEXT)):
        with pytest.raises(Corrupt):
            parse_identity(TEXT[:index] + bytes([TEXT[index] ^ 1]) + TEXT[index + 1 :], 3)


def test_nothing_may_follow() -> None:
    for more in (b"\n", b"x", TEXT):
        with pytest.raises(Corrupt):
            parse_identity(TEXT + more, 3)


def test_the_store_row_must_be_that_of_the_file() -> None:
    row = IDENTITY.store_row()
    check_store_row(IDENTITY, row)
    for other in (
        replace(row, store_id=bytes(16)),
        replace(row, lineage_id=bytes(16)),
        replace(row, format=FORMAT + 1),
        replace(row, engine_format=4),
    ):
        with pytest.raises(Corrupt):
            check_store_row(IDENTITY, other)
