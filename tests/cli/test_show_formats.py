"""Every format of `show`: what programs read is exact, what people read can move no terminal and hides nothing."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import pytest
from blake3 import blake3
from click.testing import Result

from sealbook.cli.selecting.options import BYTES, FORMATS, JSON, ONE_LINE
from sealbook.journal import Journal, Record, entries
from sealbook.journal.records.chain import chain_hash

Call = Callable[..., Result]

EVIL = {
    "text": "\x1b[2Jgone\r\nsecond\u202eevil\x9b31m\x7f\u2066\u200b\ud7ff",
    "\x1b]0;title\x07": ["\x00\x08\x0b", b"\x1b[31m"],
    "bell\x07": {"in\u202dside": "\u2028\u2029\u0085"},
}
FRAMES = {"json-seq": "\x1e", "json-sse": "data: "}


def out(result: Result) -> str:
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture
def evil(store: Path) -> Path:
    with Journal.open(store) as journal:
        tenant = journal.tenant()
        tenant.append("r\u202eun", [entries.entry("Note", EVIL, case="c\u2066ase")], epoch=1)
        tenant.append("r\u202eun", [entries.suspended(awaiting="\x1b[2J", data={"x\r": "\x9c"})], epoch=1)
    return store


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in BYTES])
@pytest.mark.parametrize("more", [[], ["-a"], ["--no-full"], ["--output-fields", "run,case,data.text"]], ids=" ".join)
def test_no_text_of_strangers_moves_a_terminal(evil: Path, call: Call, form: str, more: list[str]) -> None:
    printed = out(call("show", "-n", "2", "-o", form, *more))
    shown = printed.replace("\x1e", "") if form == "json-seq" else printed  # that one is ours, in front of each record
    assert shown.count("\n") == len(shown.splitlines())  # no other end of a line
    assert all(line.isprintable() for line in shown.splitlines())
    if form in JSON:
        assert shown.isascii()


@pytest.mark.parametrize("form", JSON)
def test_json_of_every_frame_is_the_same_records(call: Call, form: str) -> None:
    expected = [json.loads(line) for line in out(call("show", "-o", "json")).splitlines()]
    printed = out(call("show", "-o", form))
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(printed):
        frame = FRAMES.get(form, "")
        assert printed[at : at + len(frame)] == frame
        record, at = decoder.raw_decode(printed, at + len(frame))
        found.append(record)
        end = "\n\n" if form == "json-sse" else "\n"
        assert printed[at : at + len(end)] == end
        at += len(end)
    assert found == expected
    assert len(found) == 15


def entries_of(content: bytes) -> list[dict[str, bytes]]:
    """A journal export, read as systemd's description of the format says."""
    stream = io.BytesIO(content)
    found: list[dict[str, bytes]] = [{}]
    while line := stream.readline():
        if line == b"\n":
            found.append({})
            continue
        name, equals, value = line[:-1].partition(b"=")
        if not equals:
            [length] = struct.unpack("<Q", stream.read(8))
            value = stream.read(length)
            assert stream.read(1) == b"\n"
        found[-1][name.decode()] = value
    assert found.pop() == {}
    return found


def stored(store: Path) -> list[Record]:
    with Journal.open(store, readonly=True) as journal:
        return list(journal.tenant().history(limit=1000))


def test_an_export_has_the_exact_bytes_that_the_hashes_cover(evil: Path, call: Call) -> None:
    found = entries_of(call("show", "-o", "export").stdout_bytes)
    records = stored(evil)
    assert len(found) == len(records) == 17
    for entry, record in zip(found, records, strict=True):
        assert entry["SEALBOOK_BODY"] == record.body
        assert chain_hash(bytes.fromhex(entry["SEALBOOK_PREV"].decode()), entry["SEALBOOK_BODY"]) == record.hash
        assert entry["SEALBOOK_HASH"].decode() == record.hash.hex()
        assert entry["SEALBOOK_RUN"].decode() == record.run
        assert int(entry["__REALTIME_TIMESTAMP"]) == record.at * 1000
        assert all(name.replace("_", "").isalnum() and name.upper() == name for name in entry)
    assert [entry["PRIORITY"] for entry in found][11] == b"3"  # the failed conclusion
    by_cursor = call("show", "-c", found[4]["__CURSOR"].decode(), "-n", "+1", "-o", "json")
    assert json.loads(out(by_cursor))["hash"] == found[4]["SEALBOOK_HASH"].decode()


def test_a_cbor_sequence_has_the_records_in_their_own_types(evil: Path, call: Call) -> None:
    stream = io.BytesIO(call("show", "-o", "cbor-seq").stdout_bytes)
    found = []
    while stream.tell() < len(stream.getvalue()):
        found.append(cbor2.load(stream))
    for item, record in zip(found, stored(evil), strict=True):
        assert item["data"] == record.data
        assert (item["hash"], item["at"], item["run"]) == (record.hash, record.at, record.run)
    assert set(found[0]) == set(json.loads(out(call("show", "-n", "1", "-o", "json"))))


def test_long_values_are_elided_with_length_and_digest_unless_all_is_asked_for(store: Path, call: Call) -> None:
    long = "payload " * 1000
    with Journal.open(store) as journal:
        journal.tenant().append("long", [entries.entry("Thought", {"text": long, "blob": bytes(9000)})], epoch=1)
    digest = blake3(long.encode()).hexdigest()
    for form in ("json", "json-pretty", "json-seq", "json-sse", "verbose", "cat"):
        short, whole = (out(call("show", "-n", "1", "-o", form, *more)) for more in ([], ["-a"]))
        assert digest in short
        assert "8000" in short
        assert long not in short
        assert long in whole
        assert "elided" not in whole
    [mark] = json.loads(out(call("show", "-n1", "-o", "json")))["data"]["text"].values()
    assert mark == {"type": "text", "bytes": 8000, "blake3": digest, "begins": long[:64]}
    for form in ONE_LINE:
        short, whole = (out(call("show", "-n", "1", "-o", form, *more)) for more in ([], ["-a"]))
        assert "characters, blake3 " in short
        assert len(short) < 300
        assert long.strip() in whole
        assert all(len(line) <= 80 for line in out(call("show", "-o", form, "--no-full")).splitlines())
    for form in BYTES:
        assert long.encode() in call("show", "-n", "1", "-o", form).stdout_bytes


def test_the_members_that_are_asked_for_are_printed_and_the_place_always(call: Call) -> None:
    def members(*args: str) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(out(call("show", "RUN=order-42", "-n", "1", "-o", "json", *args)))
        return shown

    assert set(members("--output-fields", "kind,at")) == {"seq", "hash", "kind", "at"}
    assert members("--output-fields", "KIND, data.text")["data"] == {"text": "still unclear"}
    assert members("--output-fields", "data.none")["data"] == {}
    assert set(members("--output-fields", "data")["data"]) == {"text"}
    cat = call("show", "RUN=order-42", "-n", "1", "-o", "cat", "--output-fields", "run,effect,seq,data.text")
    assert out(cat) == "order-42\n5\nstill unclear\n"
    verbose = out(call("show", "RUN=order-42", "-n", "1", "-o", "verbose", "--output-fields", "kind"))
    assert [line.split("=")[0].strip() for line in verbose.splitlines()[1:]] == ["SEQ", "KIND", "HASH"]
    [entry] = entries_of(call("show", "-n", "1", "-o", "export", "--output-fields", "run").stdout_bytes)
    assert set(entry) == {
        *("__CURSOR", "__REALTIME_TIMESTAMP", "MESSAGE", "PRIORITY"),
        *("SEALBOOK_RUN", "SEALBOOK_SEQ", "SEALBOOK_HASH"),
    }
    item = cbor2.loads(call("show", "-n", "1", "-o", "cbor-seq", "--output-fields", "run").stdout_bytes)
    assert set(item) == {"run", "seq", "hash"}
    assert call("show", "--output-fields", "nonsense").exit_code == 2


STAMPS = {
    "short": "2026-11-29T08:00:04.000Z",
    "short-iso": "2026-11-29T08:00:04+00:00",
    "short-iso-precise": "2026-11-29T08:00:04.000000+00:00",
    "short-unix": "1795939204.000000",
    "short-delta": "2026-11-29T08:00:04.000Z",
    "with-run": "2026-11-29T08:00:04.000Z",
}


@pytest.mark.parametrize("form", ONE_LINE)
def test_91_every_time_that_is_printed_is_taken_by_since_and_until(call: Call, form: str) -> None:
    [line, _] = out(call("show", "RUN=order-44", "-o", form)).splitlines()
    stamp = line.split()[0]
    assert stamp == STAMPS[form]
    assert out(call("show", "RUN=order-44", "-o", form, "-S", stamp, "-U", stamp)).count("\n") == 2
    zone = {"TZ": "America/St_Johns"}
    local = out(call("show", "--local", "RUN=order-44", "-o", form, env=zone)).split()[0]
    assert out(call("show", "RUN=order-44", "-S", local, "-U", local)).count("\n") == 2
    assert (local == stamp) == (form == "short-unix")


def test_deltas_are_seconds_since_the_line_before_and_negative_after_a_clock_step(call: Call) -> None:
    lines = out(call("show", "-n", "3", "-o", "short-delta")).splitlines()
    assert [line.split()[1] for line in lines] == ["order-47", "+1.000", "+1.000"]
    assert [line.split()[1] for line in out(call("show", "-n", "2", "-r", "-o", "short-delta")).splitlines()][
        1
    ] == "-1.000"


def test_with_run_tells_whole_names_and_the_case(store: Path, call: Call) -> None:
    name = "n" * 100
    with Journal.open(store) as journal:
        journal.tenant().append(name, [entries.note("x", case="k")], epoch=1)
    assert f"  k/{name}  1  Note" in out(call("show", "-n", "1", "-o", "with-run"))
    assert name not in out(call("show", "-n", "1"))
