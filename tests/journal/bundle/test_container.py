"""The file around a bundle's content: any change of it is found, and where."""

from __future__ import annotations

import io
import lzma
import random
import zlib

import pytest
from blake3 import blake3
from bundling import contained, ours, said, single_block

from sealbook.journal.bundle.container import (
    BLOCK_PLAIN_BYTES,
    Codec,
    ContainerReader,
    ContainerWriter,
    Preamble,
)
from sealbook.journal.bundle.faults import Damaged
from sealbook.journal.errors import UnknownVersion, WrongFormat

SEED = 20261129
CONTENT = random.Random(SEED).randbytes(3 * BLOCK_PLAIN_BYTES + 17)


def read(data: bytes) -> bytes:
    return b"".join(ContainerReader(io.BytesIO(data)).blocks())


def fault(data: bytes) -> Damaged:
    with pytest.raises(Damaged) as caught:
        read(data)
    return caught.value


def blocks(data: bytes) -> list[tuple[int, int]]:
    """(start, end) of each block."""
    at, found = 40, []
    while stored := int.from_bytes(data[at : at + 4]):
        found.append((at, at + 40 + stored))
        at += 40 + stored
    return found


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [0, 1, BLOCK_PLAIN_BYTES - 1, BLOCK_PLAIN_BYTES, BLOCK_PLAIN_BYTES + 1, len(CONTENT)])
def test_content_comes_back_as_it_was_written(codec: Codec, size: int) -> None:
    assert read(contained(CONTENT[:size], codec)) == CONTENT[:size]


def test_the_parts_in_which_content_is_written_leave_no_trace() -> None:
    stream = io.BytesIO()
    writer = ContainerWriter(stream, Preamble(Codec.ZLIB, 1_795_939_200_000))
    for start in range(0, len(CONTENT), 1000):
        writer.write(CONTENT[start : start + 1000])
    writer.finish()
    assert stream.getvalue() == contained(CONTENT, Codec.ZLIB)


def test_two_files_of_one_content_differ_in_the_time_and_the_digest_alone() -> None:
    def at(made_at: int) -> bytes:
        stream = io.BytesIO()
        writer = ContainerWriter(stream, Preamble(Codec.ZLIB, made_at))
        writer.write(CONTENT)
        writer.finish()
        return stream.getvalue()

    one, other = at(1), at(2)
    different = {index for index, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]}
    assert different <= {*range(24, 40), *range(len(one) - 32, len(one))}
    assert one != other


def test_a_file_that_was_cut_off_is_incomplete_wherever_that_was() -> None:
    data = contained(CONTENT[:100], Codec.ZLIB)
    for length in range(1, len(data)):
        assert fault(data[:length]).fault.incomplete, length


def test_the_block_that_was_changed_is_named_with_its_place() -> None:
    data = contained(CONTENT)
    start, end = blocks(data)[1]
    for position in (start, start + 5, start + 8, start + 40, end - 1):
        changed = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        found = fault(changed).fault
        assert (found.section, found.where, found.offset) == ("block 1", "file", start)


def test_blocks_exchanged_repeated_left_out_or_foreign_are_met_where_they_stand() -> None:
    data, other = contained(CONTENT), contained(CONTENT[::-1])
    a, b, c = (start for start, _ in blocks(data)[:3])
    for changed in (data[:a] + data[b:c] + data[a:b] + data[c:], data[:a] + data[b:]):
        assert fault(changed).fault.offset == a
    for changed in (data[:b] + data[a:b] + data[b:], data[:b] + other[b:c] + data[c:], data[:b] + data[c:]):
        assert fault(changed).fault.offset == b


def test_the_end_of_another_file_is_not_taken_for_this_ones() -> None:
    data, other = contained(CONTENT), contained(CONTENT[::-1])
    assert fault(data[:-52] + other[-52:]).fault.section == "trailer"


def test_a_time_that_was_exchanged_with_its_check_is_found_at_the_end() -> None:
    data = contained(CONTENT[:10])
    assert fault(Preamble(Codec.PLAIN, 7).encode() + data[40:]).fault.section == "trailer"


def test_what_follows_the_trailer_is_found() -> None:
    assert "something follows" in str(fault(contained(CONTENT[:10]) + b"\0"))


def test_a_file_of_another_kind_is_no_damaged_bundle() -> None:
    for data in (b"", b"PK\3\4", b"sealbook/bundlf" + bytes(60)):
        with pytest.raises(WrongFormat):
            ContainerReader(io.BytesIO(data))
        assert said(data) == ("not judged",)


def test_a_newer_version_is_not_called_damage() -> None:
    head = bytearray(Preamble(Codec.PLAIN, 0).encode())
    head[16] = 2
    head[32:] = blake3(bytes(head[:32])).digest(8)
    with pytest.raises(UnknownVersion):
        ContainerReader(io.BytesIO(bytes(head)))
    assert said(bytes(head)) == ("not judged",)


@pytest.mark.parametrize(
    ("codec", "stored", "plain_bytes"),
    [
        (Codec.ZLIB, zlib.compress(bytes(10**7)), BLOCK_PLAIN_BYTES),  # a bomb
        (Codec.ZLIB, zlib.compress(bytes(10)) + b"more", 10),
        (Codec.ZLIB, zlib.compress(bytes(100))[:-4], 100),
        (Codec.ZLIB, zlib.compress(bytes(9)), 10),
        (Codec.LZMA, lzma.compress(bytes(10**7)), BLOCK_PLAIN_BYTES),
        (Codec.LZMA, lzma.compress(bytes(10)) + lzma.compress(b""), 10),
        (Codec.LZMA, lzma.compress(bytes(10), preset=9), 10),  # asks for 64 MiB
        (Codec.LZMA, b"no xz", 10),
        (Codec.PLAIN, bytes(11), 10),
        (Codec.PLAIN, bytes(10), BLOCK_PLAIN_BYTES + 1),
        (Codec.PLAIN, bytes(2 * BLOCK_PLAIN_BYTES + 1), 10),
        (Codec.PLAIN, bytes(10), 0),
    ],
)
def test_a_block_that_does_not_unpack_to_what_it_says_is_refused(codec: Codec, stored: bytes, plain_bytes: int) -> None:
    assert said(single_block(stored, plain_bytes, codec)) == ("file", 40)


def test_a_block_that_is_not_full_is_the_last() -> None:
    stream = io.BytesIO()
    writer = ContainerWriter(stream, Preamble(Codec.PLAIN, 0))
    writer.write(b"one")
    writer._block(bytes(writer._held))
    writer._held.clear()
    writer.write(b"two")
    writer.finish()
    assert ours(stream.getvalue()) == said(stream.getvalue()) == ("file", 40 + 40 + 3)
