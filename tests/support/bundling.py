"""Bundles of small stores, bundles that somebody has changed, and what the two readers say of them."""

from __future__ import annotations

import importlib.util
import io
import struct
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from blake3 import blake3
from project import ROOT

from sealbook.journal import Journal
from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import Codec, ContainerReader, ContainerWriter, Preamble
from sealbook.journal.bundle.faults import Damaged
from sealbook.journal.bundle.frames import ClaimedKey, Frame
from sealbook.journal.bundle.reader import Bundle
from sealbook.journal.errors import UnknownVersion, WrongFormat
from sealbook.journal.exporting import export
from sealbook.journal.exporting.question import Question
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.row import Row, decode_row, encode_row

MADE_AT = 1_795_939_200_000
CLAIMED = (  # keys of every sort; none of them has signed anything
    ClaimedKey("sealbook/beta", bytes(range(32)), "log", 1),
    ClaimedKey("w.example", bytes(range(1, 33)), "witness", 4),
    ClaimedKey("w.example", bytes(range(256)) * 5 + bytes(32), "witness", 6),
)


def _second_reader() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_bundle", ROOT / "tools" / "verify_bundle.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["verify_bundle"] = module
    spec.loader.exec_module(module)
    return module


SECOND: Any = _second_reader()


def bundle_of(
    journal: Journal,
    question: Question,
    *,
    codec: Codec = Codec.ZLIB,
    made_at: int = MADE_AT,
    keys: Sequence[ClaimedKey] = (),
) -> bytes:
    stream = io.BytesIO()
    export(journal, stream, question, made_at=made_at, codec=codec, keys=keys)
    return stream.getvalue()


def content_of(data: bytes) -> bytes:
    return b"".join(ContainerReader(io.BytesIO(data)).blocks())


def frames_of(data: bytes) -> list[Frame]:
    return list(fr.frames([content_of(data)]))


def contained(content: bytes, codec: Codec = Codec.PLAIN) -> bytes:
    """A bundle's file with this content, whatever it is."""
    stream = io.BytesIO()
    writer = ContainerWriter(stream, Preamble(codec, MADE_AT))
    writer.write(content)
    writer.finish()
    return stream.getvalue()


def single_block(stored: bytes, plain_bytes: int, codec: Codec) -> bytes:
    """A file with one block that is linked as it should be, whatever is stored in it."""
    head = Preamble(codec, 0).encode()
    lengths = struct.pack(">II", len(stored), plain_bytes)
    link = blake3(blake3(head[:24]).digest() + lengths + stored).digest()
    counted = struct.pack(">IQQ", 0, 1, plain_bytes)
    return head + lengths + link + stored + counted + blake3(head + link + counted).digest()


def framed(parts: Iterable[Frame | tuple[int, bytes]], codec: Codec = Codec.PLAIN) -> bytes:
    """A bundle's file with these frames, whatever they say."""
    return contained(b"".join(fr.HEAD.pack(part[0], len(part[1])) + part[1] for part in parts), codec)


def rehashed(frame: Frame, body: bytes) -> tuple[int, bytes]:
    """The record of a frame with another body, under a hash that covers it."""
    row = decode_row(frame.payload, None, None)
    changed = Row(row.arrival, row.prev, chain_hash(row.prev, body), row.signature, body)
    return fr.RECORD, encode_row(changed)


def ours(data: bytes) -> tuple[Any, ...]:
    """What our reader says first: `sound`, `not judged`, or where the first fault stands."""
    try:
        bundle = Bundle(io.BytesIO(data))
        for _ in bundle.items():
            pass
    except Damaged as error:
        return (error.fault.where, error.fault.offset)
    except (WrongFormat, UnknownVersion):
        return ("not judged",)
    return ("sound", bundle.newer)


def theirs(data: bytes) -> tuple[Any, ...]:
    """The same of the second reader."""
    try:
        return ("sound", SECOND.verify(io.BytesIO(data)).newer)
    except SECOND.Bad as error:
        return ("not judged",) if error.code == 6 else (error.where, error.offset)


def said(data: bytes) -> tuple[Any, ...]:
    """What both readers say, who must agree."""
    one, other = ours(data), theirs(data)
    assert one == other, f"ours says {one}, the second reader {other}"
    return one


def fault_of(data: bytes) -> str:
    """The first fault in our reader's words; both readers must find one, at one place."""
    assert said(data)[0] in ("file", "content")
    try:
        for _ in Bundle(io.BytesIO(data)).items():
            pass
    except Damaged as error:
        return str(error)
    raise AssertionError("no fault")


def kinds(data: bytes | Sequence[Frame]) -> str:
    return "".join(chr(frame.kind) for frame in (frames_of(data) if isinstance(data, bytes) else data))
