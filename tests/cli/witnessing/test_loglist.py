"""A log list is read strictly, and says which logs may ask and how often."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path

import pytest
from witness_world import LATTICE, NAME, ORIGIN, WITNESS, GrowingLog

from sealbook.cli.witnessing.loglist import QPD_MAX, LogFile, LogListRefused, combine, parse, parse_initial
from sealbook.merkle.errors import Malformed
from sealbook.merkle.keys import Algorithm, NoteSigner

KEY = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x01" * 32).key
NEXT = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x02" * 32).key
ELSEWHERE = NoteSigner.from_seed("key.example", Algorithm.ED25519, b"\x05" * 32).key
ENTRY = f"vkey {KEY}\nqpd 24\ncontact sysadmin (at) example.com\n"


def listed(*entries: str) -> bytes:
    return ("logs/v0\n" + "".join(entries)).encode()


def test_a_log_has_a_key_a_rate_and_a_contact_and_its_origin_is_the_keys_name() -> None:
    (entry,) = parse(listed(ENTRY))
    assert (entry.key, entry.origin, entry.qpd, entry.contact) == (KEY, ORIGIN, 24, "sysadmin (at) example.com")


def test_an_origin_is_named_where_it_is_not_the_keys_name() -> None:
    (entry,) = parse(listed(f"vkey {ELSEWHERE}\norigin {ORIGIN}\nqpd 1\ncontact x\n"))
    assert (entry.key, entry.origin) == (ELSEWHERE, ORIGIN)


def test_comments_and_empty_lines_may_stand_anywhere() -> None:
    lines = ENTRY.splitlines(keepends=True)
    spread = "# a list\n\n" + "logs/v0\n" + "\n# a log\n".join(lines) + "# the end\n"
    assert parse(spread.encode()) == parse(listed(ENTRY))


def test_a_list_without_logs_is_a_list() -> None:
    assert parse(b"logs/v0\n") == ()


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1),
        (b"\n", 1),
        (b"logs/v1\n", 1),
        (b" logs/v0\n", 1),
        (b"logs/v0", 1),
        (b"logs/v0\r\n", 0),
        (b"logs/v0\n\xff\n", 0),
        (listed(ENTRY).removesuffix(b"\n"), 4),
        (listed(ENTRY, "logs/v0\n"), 5),
        (listed(ENTRY, "bastion none\n"), 5),
        (listed(f"vkey {KEY}\nqpd 24\n"), 3),
        (listed(f"vkey {KEY}\ncontact x\nqpd 24\n"), 3),
        (listed(f"vkey {KEY}\nqpd 24\norigin {ORIGIN}\ncontact x\n"), 4),
        (listed("qpd 24\ncontact x\n"), 2),
        (listed(f"vkey {KEY}\nqpd 24\ncontact \n"), 4),
        (listed(f"vkey {KEY}\nqpd 24\ncontact\n"), 4),
        (listed(f"vkey  {KEY}\nqpd 24\ncontact x\n"), 2),
        *((listed(f"vkey {KEY}\nqpd {number}\ncontact x\n"), 3) for number in ("0", "+3", "03", "1_0", "٣", "-1")),
        (listed(f"vkey {KEY}\nqpd {QPD_MAX + 1}\ncontact x\n"), 3),
        (listed(f"vkey {KEY.name}+00000000+{str(KEY).rsplit('+', 1)[1]}\nqpd 1\ncontact x\n"), 2),
        (listed(f"vkey {WITNESS.key}\nqpd 1\ncontact x\n"), 2),
        (listed(f"vkey {LATTICE.key}\nqpd 1\ncontact x\n"), 2),
    ],
)
def test_anything_else_is_refused_with_its_line(data: bytes, line: int) -> None:
    with pytest.raises(LogListRefused) as refused:
        parse(data, "logs.txt")
    assert refused.value.line == line
    assert str(refused.value).startswith("logs.txt")


@pytest.mark.parametrize("public_key", [bytes(32), b"\x01" + bytes(31), b"\xed" + b"\xff" * 30 + b"\x7f", b"\xff" * 32])
def test_a_key_of_small_order_or_not_canonical_is_refused(public_key: bytes) -> None:
    from hashlib import sha256

    key_id = sha256(ORIGIN.encode() + b"\n\x01" + public_key).hexdigest()[:8]
    vkey = f"{ORIGIN}+{key_id}+{b64encode(bytes([1]) + public_key).decode()}"
    with pytest.raises(LogListRefused, match=r"small order|canonical"):
        parse(listed(f"vkey {vkey}\nqpd 1\ncontact x\n"))


def test_the_keys_of_one_origin_add_up_and_its_largest_rate_counts() -> None:
    logs = combine(parse(listed(ENTRY, f"vkey {NEXT}\nqpd 30\ncontact x\n")), [WITNESS])
    assert logs.trusted[ORIGIN].keys == (KEY, NEXT)
    assert logs.requests_per_day_max == {ORIGIN: 30}


def test_a_key_twice_for_one_origin_is_refused() -> None:
    with pytest.raises(LogListRefused, match="two keys"):
        combine(parse(listed(ENTRY, ENTRY)), [WITNESS])


def test_a_log_under_the_witness_s_own_name_is_refused() -> None:
    for entry in (f"origin {NAME}\n", ""):
        key = ELSEWHERE if entry else NoteSigner.from_seed(NAME, Algorithm.ED25519, b"\x07" * 32).key
        with pytest.raises(LogListRefused, match="own name"):
            combine(parse(listed(f"vkey {key}\n{entry}qpd 1\ncontact x\n")), [WITNESS])


def test_a_log_with_the_witness_s_own_key_is_refused() -> None:
    same = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x03" * 32).key
    assert same.public_key == WITNESS.key.public_key
    with pytest.raises(LogListRefused, match="own key"):
        combine(parse(listed(f"vkey {same}\nqpd 1\ncontact x\n")), [WITNESS])


def test_a_pinned_checkpoint_belongs_to_the_log_of_its_origin(log: GrowingLog) -> None:
    pinned = parse_initial(log.note(3))
    assert pinned == parse_initial(log.checkpoint(3).text().encode()) == log.checkpoint(3)
    logs = combine(parse(listed(ENTRY)), [WITNESS], [pinned])
    assert logs.trusted[ORIGIN].initial == pinned
    with pytest.raises(LogListRefused, match="pinned"):
        combine((), [WITNESS], [pinned])
    with pytest.raises(Malformed):
        parse_initial(b"example.com/log\n3\n")


def test_a_file_is_changed_when_it_is_replaced_written_to_or_gone(tmp_path: Path) -> None:
    path = tmp_path / "logs.txt"
    path.write_bytes(listed(ENTRY))
    file = LogFile(path, [WITNESS])
    assert not file.changed()
    replacement = tmp_path / "new.txt"
    replacement.write_bytes(listed())
    os.replace(replacement, path)
    assert file.changed()
    assert list(file.logs.trusted) == [ORIGIN]
    assert list(file.reload().trusted) == []
    assert not file.changed()
    path.write_bytes(listed(ENTRY, "rubbish\n"))
    assert file.changed()
    with pytest.raises(LogListRefused):
        file.reload()
    assert list(file.logs.trusted) == []
    assert not file.changed(), "a list that was refused is not read again and again"
    path.unlink()
    assert file.changed()
    with pytest.raises(FileNotFoundError):
        file.reload()
    assert not file.changed()
