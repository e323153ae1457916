"""A second reader of bundles, written from docs/format.md alone: it shares no code with the one it is compared with.

It needs the standard library, `blake3` and `cryptography`. Exit codes: 0 sound, 1 sound with newer records, 2 usage,
3 damaged, with the first fault and its place, 6 no bundle, or a newer one. Claimed keys are counted and not used."""

from __future__ import annotations

import argparse
import base64
import lzma
import re
import sqlite3
import struct
import sys
import unicodedata
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any, BinaryIO

from blake3 import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAX, BLOCK, EMPTY_ROOT = 2**63 - 1, 65_536, sha256(b"").digest()
LIMITS = dict.fromkeys(b"HKTEZ", 4096) | dict(zip(b"QSRBLCP", (128, 33, 4194560, 218, 226, 1000009, 3389), strict=True))
KEYS = {("record", 1): 32, ("log", 1): 32, ("witness", 4): 32, ("witness", 6): 1312}  # bytes by purpose and algorithm
COUNTED = dict(zip(b"CBLPRS", ("checkpoints", "entries", "leaves", "proofs", "records", "signers"), strict=True))
(SEAL, ANCHOR, BATCH, ADOPTED), (FINAL, SEALED, ASKED, UNSURE) = range(1, 5), (1, 2, 4, 8)  # leaf types; flags of a run
RUN = struct.Struct(">Q32s32sQQQB")  # seq, hash, tag, arrival, epoch, seq of its last leaf, flags
P, ORDER_8 = 2**255 - 19, 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826  # of Ed25519
Test = Callable[[Any], bool]


class Bad(Exception):
    """What is wrong, and where: `offset` bytes into the `file` or the `content`. Code 6: it is not ours to judge."""

    def __init__(self, what: str, where: str = "content", offset: int = 0, code: int = 3) -> None:
        super().__init__(what)
        self.where, self.offset, self.code = where, offset, code


def need(holds: object, what: str) -> None:
    if not holds:
        raise Bad(what)


def blocks(file: BinaryIO) -> Iterator[bytes]:
    head = file.read(40)
    if not head or not b"sealbook/bundle\0".startswith(head[:16]):
        raise Bad("no bundle", "file", 0, 6)
    at = start = 0

    def require(holds: object, what: str = "the file ends here: it is incomplete") -> None:
        if not holds:
            raise Bad(what, "file", start)

    def read(count: int) -> bytes:
        nonlocal at
        data, at = file.read(count), at + count
        require(len(data) == count)
        return data

    require(len(head) == 40)
    require(blake3(head[:32]).digest()[:8] == head[32:], "the preamble's check does not match")
    if head[16] > 1:
        raise Bad(f"a bundle of version {head[16]}", "file", 0, 6)
    codec, made_at = head[17], int.from_bytes(head[24:32], "big")
    require(head[16] == 1 and codec <= 2 and head[18:24] == bytes(6) and made_at <= MAX, "no bundle begins so")
    link, count, total, at, start, last = blake3(head[:24]).digest(), 0, 0, 40, 40, BLOCK
    while (lengths := read(4)) != bytes(4):
        lengths += read(4)
        stored_bytes, plain_bytes = struct.unpack(">II", lengths)
        require(stored_bytes <= 2 * BLOCK and 1 <= plain_bytes <= BLOCK == last, "no such block stands here")
        stated, stored = read(32), read(stored_bytes)
        link = blake3(link + lengths + stored).digest()
        require(link == stated, "the block is not the one that was written")
        plain, whole = stored, codec == 0
        with suppress(zlib.error, lzma.LZMAError):
            if codec:
                stream = zlib.decompressobj() if codec == 1 else lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=1 << 22)
                plain = stream.decompress(stored, plain_bytes + 1)
                whole = stream.eof and not stream.unused_data
        require(whole and len(plain) == plain_bytes, "the block does not unpack to what it says")
        count, total, last, start = count + 1, total + plain_bytes, plain_bytes, at
        yield plain
    trailer = lengths + read(48)
    require(trailer[20:] == blake3(head + link + trailer[:20]).digest(), "the digest is not that of this file")
    require(struct.unpack(">QQ", trailer[4:20]) == (count, total) and not file.read(1), "no trailer of this file")


def head_of(data: bytes, at: int) -> tuple[int, int, int]:
    """(major type, argument, where it goes on) of an item that is written as short as it can be."""
    need(at < len(data), "CBOR is cut off")
    major, info = data[at] >> 5, data[at] & 31
    need(info < 28 and major != 6, "CBOR of indefinite length, or a tag")
    if info < 24:
        need(major != 7 or info in (20, 21, 22), "a simple value that no record holds")
        return major, info, at + 1
    size = 1 << (info - 24)
    stored = data[at + 1 : at + 1 + size]
    value = int.from_bytes(stored, "big")
    need(len(stored) == size and (major != 7 or size > 1), "CBOR is cut off, or a simple value that no record holds")
    need(major == 7 or value >= (24 if size == 1 else 1 << (4 * size)), "a number that is written too long")
    if major == 7:
        number = struct.unpack({2: ">e", 4: ">f", 8: ">d"}[size], stored)[0]
        need(number - number == 0, "a number that is not finite")
        with suppress(OverflowError):  # what a double cannot be as a single, it is not as a half
            for layout in (">f", ">e")[2 - size // 4 :]:
                need(struct.unpack(layout, struct.pack(layout, number))[0] != number, "a float written too long")
    return major, value, at + 1 + size


def item(data: bytes, at: int, depth: int, want: Any) -> tuple[Any, int]:
    """(value, end) of the item at `at`, `depth` containers deep; only what `want(name)` asks for is built."""
    major, value, at = head_of(data, at)
    if major < 2:
        need(major == 0 or value <= MAX, "an integer below -2**63")
        return (value if major == 0 else -1 - value), at
    if major < 4:
        need(at + value <= len(data), "CBOR is cut off")
        part = data[at : at + value]
        return (utf8(part) if major == 3 else part), at + value
    need(major == 7 or depth < 64, "nested too deep")
    built: dict[Any, Any] = {}
    before, name = (-1, b""), ""
    for _ in range(value if major < 7 else 0):
        if major == 5:
            need(at < len(data) and data[at] >> 5 == 3, "a key that is no text")
            start = at
            name, at = item(data, at, depth, None)
            before, last = (at - start, data[start:at]), before
            need(before > last, "keys out of order")
        wanted = want(name) if callable(want) else None
        member, at = item(data, at, depth + 1, wanted)
        if wanted:
            built[name if major == 5 else len(built)] = member
    return (None if major == 7 or not callable(want) else built if major == 5 else list(built.values())), at


def map_of(data: bytes, tests: dict[str, Test], may: dict[str, Test]) -> dict[str, Any]:
    """A frame's map, its members held to what they must be."""
    found, end = item(data, 0, 0, lambda name: (lambda text: True) if name == "left_out" else True)
    need(isinstance(found, dict) and end == len(data), "no map")
    need(tests.keys() <= found.keys() <= (tests | may).keys(), "other members than those of such a frame")
    need(all((tests | may)[name](value) for name, value in found.items()), "a member is not what it must be")
    return dict(found)


def utf8(data: bytes, named: bool = False) -> str:
    with suppress(UnicodeDecodeError):
        need(not named or is_name(data.decode()), "no name of a run or case")
        return data.decode()
    raise Bad("text that is no UTF-8")


def between(low: int, high: int) -> Test:
    return lambda value: type(value) is int and low <= value <= high


def is_name(value: object) -> bool:
    text = value if isinstance(value, str) else ""
    control = any(unicodedata.category(character) == "Cc" for character in text)
    return 1 <= len(text.encode()) <= 128 and not control and unicodedata.is_normalized("NFC", text)


def bytes_of(length: int) -> Test:
    return lambda value: isinstance(value, bytes) and len(value) == length


def matching(pattern: str) -> Test:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII) is not None


NUMBER = between(0, MAX)
KIND = matching(r"(?=.{1,128}$)(?:[A-Za-z][A-Za-z0-9_-]*\.)*[A-Z][A-Za-z0-9]{0,63}")
ANYWAY: dict[str, Test] = {"run": is_name, "seq": between(1, MAX), "epoch": between(0, 2**53 - 1)}
ANYWAY_MAY: dict[str, Test] = {"signer": bytes_of(32), "salt": bytes_of(32), "journal": bytes_of(16)}
ANYWAY_MAY |= {"data": lambda value: isinstance(value, dict)}
BODY: dict[str, Test] = ANYWAY | {"at": NUMBER, "data": ANYWAY_MAY["data"], "kind": KIND}
BODY_MAY: dict[str, Test] = ANYWAY_MAY | {"case": is_name, "effect": bytes_of(32), "attempt": between(1, MAX)}


class Tree:
    def __init__(self) -> None:
        self.size, self.peaks = 0, list[bytes]()

    def add(self, data: bytes) -> None:
        value, size = sha256(b"\0" + data).digest(), self.size
        while size & 1:
            value, size = sha256(b"\1" + self.peaks.pop() + value).digest(), size >> 1
        self.peaks.append(value)
        self.size += 1

    def root(self) -> bytes:
        value = self.peaks[-1] if self.peaks else EMPTY_ROOT
        for peak in self.peaks[-2::-1]:
            value = sha256(b"\1" + peak + value).digest()
        return value


def check_inclusion(leaf: bytes, index: int, size: int, path: bytes, root: bytes) -> None:
    value, fn, sn = sha256(b"\0" + leaf).digest(), index, size - 1  # RFC 9162 section 2.1.3.2
    need(index < size, "no such leaf")
    for at in range(0, len(path), 32):
        sibling = path[at : at + 32]
        need(sn != 0, "the path is too long")
        right = fn & 1 or fn == sn
        value = sha256(b"\1" + (sibling + value if right else value + sibling)).digest()
        while right and not fn & 1 and fn:
            fn, sn = fn >> 1, sn >> 1
        fn, sn = fn >> 1, sn >> 1
    need(sn == 0 and value == root, "the path does not lead to the root")


def checkpoint_of(note: bytes, signed: bool) -> tuple[int, bytes]:
    text = utf8(note)
    if signed:
        need(len(note) <= 1_000_000 and not re.search(r"[\x00-\x09\x0b-\x1f]", text), "no note")
        text, separator, block = text.rpartition("\n\n")
        text, signatures = text + "\n", block.split("\n")
        need(separator and not signatures.pop() and 1 <= len(signatures) <= 100, "no note")
        for line in signatures:
            mark, name, signature = [*line.split(" ", 2), "", ""][:3]
            need(mark == "\N{EM DASH}" and name and not re.search(r"[\s+]", name), "no signature line")
            need(len(unbase64(signature)) > 4, "no signature line")
    origin, size, root = [*text.split("\n"), "", "", ""][:3]
    need(text == f"{origin}\n{size}\n{root}\n" and matching("0|[1-9][0-9]{0,18}")(size), "no checkpoint")
    breaking = any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in origin)
    need(1 <= len(origin.encode()) <= 255 and not breaking and int(size) <= MAX, "no checkpoint")
    need(len(unbase64(root)) == 32 and (int(size) or unbase64(root) == EMPTY_ROOT), "no checkpoint")
    return int(size), unbase64(root)


def unbase64(text: str) -> bytes:
    need(matching("[A-Za-z0-9+/]+={0,2}")(text) and len(text) % 4 == 0, "no base64")
    data = base64.b64decode(text)
    need(base64.b64encode(data).decode() == text, "no base64")
    return data


def entry_of(data: bytes) -> tuple[int, bytes, int, bytes]:
    need(len(data) == 90 and data[:17] == b"sealbook/leaf/v1\0", "no leaf entry")
    kind, tag, seq, head = data[17], data[18:50], int.from_bytes(data[50:58], "big"), data[58:]
    need(1 <= kind <= 4 and seq >= 1 and (kind != BATCH or not any(head)), "no leaf entry")
    return kind, tag, seq, head


class Memory:
    """Short values by name. Those that are too many for memory stand in a temporary file."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes] = {}
        self.file = sqlite3.connect("", isolation_level=None)
        weakref.finalize(self, self.file.close)
        self.file.execute("CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")

    def get(self, name: bytes) -> Any:
        key = blake3(name).digest()[:16]
        row = self.file.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        return self.held.get(key) or (row[0] if row else None)

    def put(self, name: bytes, value: bytes) -> None:
        self.held[blake3(name).digest()[:16]] = value
        if len(self.held) > 50_000:
            self.file.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", self.held.items())
            self.held.clear()


class Reader:
    def __init__(self) -> None:
        self.header, self.part = dict[str, Any](), dict[str, Any]()  # the part is that of the tenant at hand
        self.asked, self.last_asked, self.last_key, self.last_tenant = 0, b"", b"", ""
        self.totals = {"keys": 0, "records": 0, "runs": 0, "tenants": 0}
        self.runs, self.signers, self.newer, self.over = Memory(), Memory(), 0, False

    def take(self, kind: int, data: bytes) -> None:
        allowed = (b"TZ" if self.totals["tenants"] else b"KTZ") if self.header else b"H"
        allowed = b"Q" if self.header and self.asked < self.header["asked"] else allowed
        if self.part:
            allowed = b"R" if self.part["signer"] else b"SRBLCE" if self.whole else b"SRCPE"
        need(kind in allowed and not self.over, "no such frame stands here")
        getattr(self, f"take_{chr(kind)}")(data)
        if kind in COUNTED:
            self.part["counts"][COUNTED[kind]] += 1

    def take_H(self, data: bytes) -> None:
        what = ("store", "tenant", "runs", "cases", "span")
        tests: dict[str, Test] = {"what": lambda value: value in what, "asked": NUMBER, "lineage": bytes_of(16)}
        tests["left_out"] = lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value)
        self.header = map_of(data, tests, dict.fromkeys(("since", "until"), between(-(2**63), MAX)))
        need((self.header["asked"] > 0) == (self.header["what"] in ("runs", "cases")), "names in another bundle")
        need(self.header["what"] == "span" or self.header.keys() == tests.keys(), "instants in another bundle")
        self.whole = self.header["what"] in ("store", "tenant")

    def take_Q(self, data: bytes) -> None:
        need(utf8(data, named=True) and data > self.last_asked, "names are sorted, each once")
        self.last_asked, self.asked = data, self.asked + 1
        if self.header["what"] == "runs":
            self.put(utf8(data), 0, bytes(32), bytes(32), 0, 0, 0, ASKED)

    def take_K(self, data: bytes) -> None:
        key = map_of(data, dict.fromkeys(("algorithm", "name", "public", "purpose"), bool), {})
        named = isinstance(key["name"], str) and len(key["name"].encode()) <= 255 and self.totals["keys"] < 1000
        length = KEYS.get((key["purpose"], key["algorithm"]), -1)
        need(named and bytes_of(length)(key["public"]) and data > self.last_key, "no such key stands here")
        self.last_key, self.totals["keys"] = data, self.totals["keys"] + 1

    def take_T(self, data: bytes) -> None:
        tests: dict[str, Test] = {"tenant": matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"), "root": bytes_of(32)}
        tests |= {"origin": lambda value: isinstance(value, str), "records": NUMBER, "size": NUMBER}
        part = map_of(data, tests, {})
        need(part["size"] or part["root"] == EMPTY_ROOT, "the empty log has another root")
        need(part["tenant"] > self.last_tenant, "tenants are sorted, each once")
        need(not self.totals["tenants"] or self.header["what"] == "store", "a second tenant")
        part |= {"log": Tree(), "arrival": 0, "covered": 0, "reached": 0, "fresh": True}
        part["signer"] = part["entries"] = None
        part["absent"] = self.asked if self.header["what"] == "runs" else 0
        part["counts"] = dict.fromkeys([*COUNTED.values(), "runs"], 0)
        self.part, self.last_tenant = part, part["tenant"]

    def take_S(self, data: bytes) -> None:
        y, d = int.from_bytes(data[1:], "little") & (1 << 255) - 1, -121665 * pow(121666, -1, P)
        need(len(data) == 33 and data[0] == 1 and y < P, "no signer")
        square = pow((y * y - 1) * pow(d * y * y + 1, -1, P), (P - 1) // 2, P) == 1
        need(square and y not in (0, 1, P - 1, ORDER_8, P - ORDER_8), "no point of the curve, or of small order")
        name = sha256(data).digest() + self.part["tenant"].encode()
        need(self.signers.get(name) is None, "the signer stands here twice")
        self.signers.put(name, data[1:])
        self.part["signer"] = name[:32]

    def take_R(self, data: bytes) -> None:
        part, tenant = self.part, self.part["tenant"]
        need(len(data) >= 73 and data[72] in (0, 1), "no row")
        arrival, prev, digest = int.from_bytes(data[:8], "little"), data[8:40], data[40:72]
        signature, at = data[77 : 77 + 64 * data[72]], 73 + 68 * data[72]
        need(at == 73 or data[73:77] == (64).to_bytes(4, "little"), "no signature")
        body = data[at + 4 :]
        need(data[at : at + 4] == len(body).to_bytes(4, "little") and 1 <= arrival <= MAX, "no row")
        hashed = blake3(prev + body, derive_key_context="sealbook 2026 record v1").digest()
        need(len(body) <= 4 * 2**20 and hashed == digest, f"the hash does not cover the bytes of record {arrival}")
        need(body and body[0] >> 5 == 5 and head_of(body, 0)[1] <= 14, "no body")
        found, end = item(body, 0, -1, lambda name: (lambda member: member == "outcome") if name == "data" else True)
        need(end == len(body) and found.get("tenant") == tenant, "no body of a record of this tenant")
        need(type(found.get("v")) is int and isinstance(found.get("kind"), str), "no record")
        known = found["v"] == 1
        tests, may = (BODY, BODY_MAY) if known else (ANYWAY, ANYWAY_MAY)
        need(tests.keys() <= found.keys(), "a member is missing")
        need(not known or found.keys() <= {*tests, *may, "v", "tenant"}, "an unknown member")
        need(all(test(found[name]) for name, test in (tests | may).items() if name in found), "no such member")
        name, seq, epoch = found["run"], found["seq"], found["epoch"]
        need(("signer" in found) == bool(signature), "signer and signature come together")
        need((seq == 1) == ("salt" in found) == ("journal" in found), "journal and salt stand in the first record")
        need(arrival == part["arrival"] + 1 if self.whole else arrival > part["arrival"], "arrivals grow")
        last_seq, last_hash, tag, _, last_epoch, attested, flags = self.run(name)
        if last_seq == 0:
            need(seq != 1 or found["journal"] == self.header["lineage"], "another lineage")
            need(flags & ASKED or self.header["what"] != "runs", "the run was not asked for")
            part["counts"]["runs"] += 1
            part["absent"] -= bool(flags & ASKED)
        need(seq == last_seq + 1 and prev == last_hash, "the record does not follow the one before it")
        need(not flags & (SEALED | FINAL) and epoch >= last_epoch, "the run has ended, or its epoch falls")
        need(epoch % 2**32 == 0 if name == "~tenant" else epoch >= 1, "the epoch is none of such a run")
        if signature:
            key = self.signers.get(found["signer"] + tenant.encode())
            need(key, "the key of the signer is not there")
            try:
                Ed25519PublicKey.from_public_bytes(key).verify(signature, b"sealbook/record/v1\0" + digest)
            except (InvalidSignature, ValueError):
                raise Bad("the signature is not that of the signer's key") from None
        outcome = found.get("data", {}).get("outcome") if known and found["kind"] == "RunConcluded" else None
        if matching("[a-z][a-z0-9-]{0,31}")(outcome):
            flags |= 0 if outcome in ("failed", "exhausted", "quarantined", "withheld") else FINAL
        if seq == 1:
            names = [part.encode() for part in (tenant, name)]
            message = found["salt"] + b"".join(len(part).to_bytes(8, "big") + part for part in names)
            tag = blake3(message, derive_key_context="sealbook 2026 run tag v1").digest()
        self.put(name, seq, digest, tag, arrival, epoch, attested, flags | (0 if known else UNSURE))
        need(part["signer"] in (None, found.get("signer")), "the key before it is another signer's")
        part |= {"arrival": arrival, "signer": None, "fresh": False}
        self.newer += not known

    def attested(self, entry: tuple[int, bytes, int, bytes], name: str, *, batched: bool) -> int:
        """Hold a leaf of the run, or its entry in a batch, to where the run stands; the arrival of its record."""
        seq, head, tag, arrival, epoch, attested, flags = self.run(name)
        need(seq and entry[1:] == (tag, seq, head), "it does not attest the run where it stands")
        need(not flags & SEALED and (batched or seq > attested), "it follows a leaf that leaves nothing to attest")
        need(flags & UNSURE or bool(flags & FINAL) == (entry[0] == SEAL), "a seal is of a run that has ended for good")
        if not batched:
            self.put(name, seq, head, tag, arrival, epoch, seq, flags | (SEALED if entry[0] == SEAL else 0))
        return int(arrival)

    def take_B(self, data: bytes) -> None:
        part, entry = self.part, entry_of(data[:90])
        entries = part["entries"] = part["entries"] or {"tree": Tree(), "last": b"", "arrival": 0}
        need(entry[0] == ANCHOR and entry[1] > entries["last"], "entries are anchors, sorted, one per run")
        arrival = self.attested(entry, utf8(data[90:], named=True), batched=True)
        need(arrival > part["covered"], "the batch before covers it")
        entries["tree"].add(data[:90])
        entries["last"], entries["arrival"] = entry[1], max(entries["arrival"], arrival)

    def take_L(self, data: bytes) -> None:
        part, entry, log, entries = self.part, entry_of(data[8:98]), self.part["log"], self.part["entries"]
        need(int.from_bytes(data[:8], "big") == log.size, "leaves count from 0")
        need((entry[0] in (SEAL, ANCHOR)) == (len(data) > 98), "a leaf of one run names it, and no other does")
        need(bool(entries) == (entry[0] == BATCH), "a batch's leaf follows its entries")
        if entry[0] == ADOPTED:
            need(log.size == 0 and part["arrival"] == 0, "only the first leaf adopts another log")
        elif entry[0] == BATCH:
            need(entry[1:3] == (entries["tree"].root(), entries["arrival"]), "the entries give another leaf")
            part["covered"], part["reached"] = entry[2], max(part["reached"], entry[2])
        else:
            part["reached"] = max(part["reached"], self.attested(entry, utf8(data[98:], named=True), batched=False))
        need(part["reached"] == part["arrival"], "it stands later than what it attests")
        part |= {"fresh": True, "entries": None}
        log.add(data[8:98])

    def take_C(self, data: bytes) -> None:
        part, log = self.part, self.part["log"]
        need(len(data) >= 9 and data[8] <= 3 and part["entries"] is None, "no checkpoint")
        size, root = checkpoint_of(data[9:], data[8] > 0)
        need(size == int.from_bytes(data[:8], "big") and part["fresh"], "a checkpoint stands behind the leaf it counts")
        here = (log.size, log.root()) if self.whole else (part["size"], part["root"])
        need((size, root) == here, "the checkpoint is of another log")
        need(self.whole or data[8], "a selection has a signed checkpoint")
        part["fresh"] = False

    def take_P(self, data: bytes) -> None:
        part, leaf, entry = self.part, data[8:98], entry_of(data[8:98])
        at = 99 + 32 * (data[98] if len(data) > 98 else 64)
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        need(at <= 99 + 32 * 63 and end < len(data), "no proof")
        inner, name = data[at + 4 : end], utf8(data[end:], named=True)
        need(not self.run(name)[5] and entry[0] in (SEAL, ANCHOR), "no proof stands here")
        need(self.attested(entry, name, batched=False) == part["arrival"], "it stands behind another record")
        if inner:
            need(len(inner) % 32 == 22 and 118 <= len(inner) <= 1142 and entry[0] == ANCHOR, "no inner path")
            need(inner[:20] == b"sealbook/batch/v1\0\0\0" and entry_of(inner[20:110])[0] == BATCH, "no inner path")
            index, size = struct.unpack(">II", inner[110:118])
            check_inclusion(leaf, index, size, inner[118:], inner[38:70])
            leaf = inner[20:110]
        check_inclusion(leaf, int.from_bytes(data[:8], "big"), part["size"], data[99:at], part["root"])

    def take_E(self, data: bytes) -> None:
        part, log, counts = self.part, self.part["log"], self.part["counts"]
        need(map_of(data, dict.fromkeys(counts, NUMBER), {}) == counts, "the counts are not those of the part")
        need(part["absent"] == 0 and part["entries"] is None, "something is missing")
        need(counts["records"] <= part["records"], "there are more records than the tenant had")
        if self.whole:
            need(counts["records"] == part["records"], "records are missing")
            need((log.size, log.root()) == (part["size"], part["root"]), "the leaves give another log")
        self.totals = {name: total + counts.get(name, int(name == "tenants")) for name, total in self.totals.items()}
        self.part, self.runs = {}, Memory()

    def take_Z(self, data: bytes) -> None:
        need(map_of(data, dict.fromkeys(self.totals, NUMBER), {}) == self.totals, "other counts than the bundle's")
        need(self.header["what"] == "store" or self.totals["tenants"] == 1, "no tenant")
        self.over = True

    def run(self, name: str) -> tuple[Any, ...]:
        value = self.runs.get(name.encode())
        return (0, bytes(32), bytes(32), 0, 0, 0, 0) if value is None else RUN.unpack(value)

    def put(self, name: str, *run: Any) -> None:
        self.runs.put(name.encode(), RUN.pack(*run))


def verify(file: BinaryIO) -> Reader:
    reader, held, offset = Reader(), bytearray(), 0
    try:
        for block in blocks(file):
            held += block
            while len(held) >= 5:
                kind, length = struct.unpack_from(">BI", held)
                need(length <= LIMITS.get(kind, -1), "no frame begins so")
                if len(held) < 5 + length:
                    break
                reader.take(kind, bytes(held[5 : 5 + length]))
                del held[: 5 + length]
                offset += 5 + length
        need(not held and reader.over, "the content ends too early")
    except Bad as error:
        if error.where == "content":
            error.offset = offset
        raise
    return reader


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("bundle", type=argparse.FileType("rb"))
    try:
        done = verify(arguments.parse_args().bundle)
    except Bad as error:
        print(f"{'damaged' if error.code == 3 else 'not judged'}: byte {error.offset} of the {error.where}: {error}")
        sys.exit(error.code)
    print(f"sound: {done.totals}, {done.newer} records of a newer version; age, completeness, witnesses: not checked")
    sys.exit(1 if done.newer else 0)
