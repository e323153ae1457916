"""Whatever is changed in a bundle is found, where it stands, by both readers and at the same place."""

from __future__ import annotations

import io
import lzma
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from bundling import (
    CLAIMED,
    MADE_AT,
    bundle_of,
    contained,
    content_of,
    fault_of,
    framed,
    frames_of,
    kinds,
    ours,
    rehashed,
    said,
    single_block,
)
from project import ROOT
from tampering import rich_store

from sealbook.journal import Journal, entries
from sealbook.journal.bundle import frames as fr
from sealbook.journal.bundle.container import Codec
from sealbook.journal.bundle.faults import Damaged, Fault
from sealbook.journal.bundle.frames import Frame, encode_map
from sealbook.journal.bundle.reader import FAULTS_MAX, Bundle
from sealbook.journal.exporting.question import Question
from sealbook.journal.records.cbor import encode_map as encode_cbor
from sealbook.journal.records.row import decode_row, encode_row
from sealbook.journal.records.trust import Outside
from sealbook.journal.testing import ManualClock
from sealbook.merkle.checkpoint import Checkpoint

SEED = 20261129
QUESTIONS = {
    "store": Question("store"),
    "tenant": Question("tenant", "third"),
    "runs": Question("runs", "acme", ("wait", "done/1", "~tenant")),
    "cases": Question("cases", "beta", ("case-7",)),
    "span": Question("span", "beta"),
}


@pytest.fixture(scope="module")
def journal() -> Journal:
    return rich_store()


@pytest.fixture(scope="module")
def bundles(journal: Journal) -> dict[str, bytes]:
    return {name: bundle_of(journal, question, keys=CLAIMED) for name, question in QUESTIONS.items()}


@pytest.fixture(scope="module")
def small() -> bytes:
    """The smallest bundle that has a record, a seal and an open run."""
    journal = Journal.in_memory(clock=ManualClock())
    tenant = journal.tenant("t")
    tenant.append("a", [entries.concluded("completed")], epoch=1, seal=True)
    tenant.append("b", [entries.note("n")], epoch=1)
    return bundle_of(journal, Question("tenant", "t"))


def test_both_readers_find_every_kind_of_bundle_sound(journal: Journal) -> None:
    for question in QUESTIONS.values():
        for codec in Codec:
            assert said(bundle_of(journal, question, codec=codec)) == ("sound", 0)


def test_the_bundles_of_these_tests_have_frames_of_every_kind(bundles: dict[str, bytes]) -> None:
    assert set("".join(kinds(data) for data in bundles.values())) == set("HQKTSRBLCPEZ")


def test_a_bundle_that_was_cut_off_is_refused_wherever_that_was(small: bytes) -> None:
    assert [length for length in range(1, len(small)) if said(small[:length])[0] == "sound"] == []


def test_one_changed_bit_in_any_byte_is_found_and_located(small: bytes) -> None:
    chance = random.Random(SEED)
    for position in range(len(small)):
        changed = small[:position] + bytes([small[position] ^ 1 << chance.randrange(8)]) + small[position + 1 :]
        verdict = said(changed)
        assert verdict == ("not judged",) if position < 16 else verdict[0] == "file" and verdict[1] <= position


def test_a_changed_byte_of_the_content_is_found_even_under_a_new_digest(small: bytes) -> None:
    content, chance = content_of(small), random.Random(SEED)
    for position in range(len(content)):
        changed = content[:position] + bytes([content[position] ^ 1 << chance.randrange(8)]) + content[position + 1 :]
        if said(contained(changed))[0] == "sound":
            assert _without_words(contained(changed)) == _without_words(small), position


def _without_words(data: bytes) -> list[Any]:
    """The frames but for the exporter's own words, which nothing bears out: the log's name, what was left out, keys."""
    found: list[Any] = []
    for frame in frames_of(data):
        if frame.kind == fr.KEY:
            continue
        plain = frame.kind in (fr.HEADER, fr.TENANT)
        members = cbor2.loads(frame.payload) if plain else {"payload": frame.payload}
        found.append((frame.kind, {**members, "left_out": None, "origin": None}))
    return found


@pytest.mark.parametrize("name", QUESTIONS)
def test_frames_that_are_left_out_repeated_or_exchanged_are_found(bundles: dict[str, bytes], name: str) -> None:
    whole = frames_of(bundles[name])
    for index in range(len(whole)):
        for changed in (
            whole[:index] + whole[index + 1 :],
            whole[: index + 1] + whole[index:],
            whole[:index] + whole[index : index + 2][::-1] + whole[index + 2 :],
        ):
            if changed != whole:
                assert said(framed(changed))[0] == "content", (index, kinds(changed))


@pytest.mark.parametrize("name", ["store", "span"])
def test_frames_of_another_bundle_do_not_fit_in(bundles: dict[str, bytes], name: str) -> None:
    whole, other = frames_of(bundles[name]), frames_of(bundle_of(rich_store(), QUESTIONS[name], keys=CLAIMED))
    assert kinds(whole) == kinds(other)
    for index, (one, another) in enumerate(zip(whole, other, strict=True)):
        if one.payload != another.payload and one.kind != fr.HEADER:
            assert said(framed([*whole[:index], another, *whole[index + 1 :]]))[0] == "content", kinds(whole)[index]


def test_a_record_whose_hash_was_made_to_fit_is_found_by_what_follows_it(bundles: dict[str, bytes]) -> None:
    whole = frames_of(bundles["store"])
    index = next(at for at, frame in enumerate(whole) if frame.kind == fr.RECORD)
    row = decode_row(whole[index].payload, None, None)
    body = encode_cbor(cbor2.loads(row.body) | {"at": 7}, "body")[0]
    assert "does not follow the record before it" in fault_of(
        framed([*whole[:index], rehashed(whole[index], body), *whole[index + 1 :]])
    )


def test_a_record_that_cannot_be_believed_is_named_by_what_it_says(bundles: dict[str, bytes]) -> None:
    whole = frames_of(bundles["store"])
    index = next(at for at, frame in enumerate(whole) if frame.kind == fr.RECORD)
    row = decode_row(whole[index].payload, None, None)
    said_to_be = cbor2.loads(row.body)
    changed = encode_cbor(said_to_be | {"at": 7}, "body")[0]
    told: list[Fault] = []
    for body in (changed, b"\x80"):
        payload = encode_row(type(row)(row.arrival, row.prev, row.hash, row.signature, body))
        reading = Bundle(
            io.BytesIO(framed([*whole[:index], (fr.RECORD, payload), *whole[index + 1 :]])), tell=told.append
        )
        item = next(item for item in reading.items() if item.kind == fr.RECORD)
        assert item.value is None
    assert [(fault.run, fault.seq) for fault in told] == [(said_to_be["run"], said_to_be["seq"]), (None, None)]


def test_a_bundle_names_a_thousand_keys_and_no_more(bundles: dict[str, bytes]) -> None:
    whole = [frame for frame in frames_of(bundles["store"]) if frame.kind != fr.KEY]
    keys = [fr.ClaimedKey(f"{number:04}", bytes(32), "log", 1) for number in range(fr.KEYS_MAX + 1)]
    claimed = [(fr.KEY, encode_map(key)) for key in keys]
    most = changed_map(
        framed([whole[0], *claimed[:-1], *whole[1:]]), fr.END_OF_ALL, lambda value: value.update(keys=1000)
    )
    assert said(most) == ("sound", 0)
    more = changed_map(framed([whole[0], *claimed, *whole[1:]]), fr.END_OF_ALL, lambda value: value.update(keys=1001))
    assert "at most 1000 keys" in fault_of(more)


Change = Callable[[dict[str, Any]], None]


def changed_map(data: bytes, kind: int, change: Change, number: int = 0) -> bytes:
    """The bundle with the map of one of its frames changed."""
    whole: list[Frame | tuple[int, bytes]] = list(frames_of(data))
    index = [at for at, frame in enumerate(whole) if frame[0] == kind][number]
    members = cbor2.loads(whole[index][1])
    change(members)
    whole[index] = (kind, encode_cbor(members, "frame")[0])
    return framed(whole)


@pytest.mark.parametrize(
    ("name", "kind", "members"),
    [
        ("store", fr.HEADER, {"what": "other"}),
        ("store", fr.HEADER, {"lineage": bytes(16)}),
        ("store", fr.HEADER, {"lineage": bytes(15)}),
        ("store", fr.HEADER, {"asked": 1}),
        ("store", fr.HEADER, {"since": 1}),
        ("store", fr.HEADER, {"left_out": [1]}),
        ("store", fr.HEADER, {"left_out": "x"}),
        ("store", fr.HEADER, {"more": 1}),
        ("span", fr.HEADER, {"since": 2**63}),
        ("runs", fr.HEADER, {"asked": 2}),
        ("runs", fr.HEADER, {"asked": 4}),
        ("runs", fr.HEADER, {"what": "cases", "asked": 0}),
        ("store", fr.KEY, {"name": ""}),
        ("store", fr.KEY, {"name": "n" * 256}),
        ("store", fr.KEY, {"name": b"n"}),
        ("store", fr.KEY, {"public": bytes(31)}),
        ("store", fr.KEY, {"public": "k" * 32}),
        ("store", fr.KEY, {"purpose": "log"}),
        ("store", fr.KEY, {"purpose": "other"}),
        ("store", fr.KEY, {"purpose": {"log": 1}}),
        ("store", fr.KEY, {"algorithm": 1}),
        ("store", fr.KEY, {"algorithm": 1.0}),
        ("store", fr.KEY, {"more": 1}),
        ("store", fr.TENANT, {"tenant": "b"}),
        ("store", fr.TENANT, {"tenant": "no tenant"}),
        ("store", fr.TENANT, {"records": 1}),
        ("store", fr.TENANT, {"records": -1}),
        ("store", fr.TENANT, {"size": 3}),
        ("store", fr.TENANT, {"size": 0}),
        ("store", fr.TENANT, {"root": bytes(32)}),
        ("store", fr.TENANT, {"origin": 7}),
        ("span", fr.TENANT, {"records": 1}),
        ("span", fr.TENANT, {"size": 9}),
        ("span", fr.TENANT, {"root": bytes(32)}),
        ("store", fr.END, {"records": 0}),
        ("store", fr.END, {"signers": True}),
        ("store", fr.END_OF_ALL, {"keys": 2}),
        ("store", fr.END_OF_ALL, {"runs": 0}),
        ("store", fr.END_OF_ALL, {"tenants": 4}),
    ],
)
def test_a_map_that_says_something_else_is_found(
    bundles: dict[str, bytes], name: str, kind: int, members: dict[str, Any]
) -> None:
    assert said(changed_map(bundles[name], kind, lambda value: value.update(members)))[0] == "content"


def test_a_run_that_was_asked_for_and_is_not_there_is_missed(bundles: dict[str, bytes]) -> None:
    whole = frames_of(bundles["runs"])
    asked = next(at for at, frame in enumerate(whole) if frame.kind == fr.ASKED)
    renamed: list[Any] = [*whole[:asked], (fr.ASKED, b"another"), *whole[asked + 1 :]]
    assert "was not asked for" in fault_of(framed(renamed))
    added: list[Any] = [*whole[:asked], (fr.ASKED, b"a"), *whole[asked:]]
    more = changed_map(framed(added), fr.HEADER, _one_more_asked)
    assert "1 of the runs that were asked for are not there" in fault_of(more)


def _one_more_asked(members: dict[str, Any]) -> None:
    members["asked"] += 1


def test_a_signature_of_another_key_is_found(bundles: dict[str, bytes]) -> None:
    whole: list[Any] = list(frames_of(bundles["store"]))
    index = next(at for at, frame in enumerate(whole) if frame.kind == fr.RECORD and frame.payload[72] == 1)
    row = decode_row(whole[index].payload, None, None)
    forged = bytes(64)
    whole[index] = (fr.RECORD, encode_row(type(row)(row.arrival, row.prev, row.hash, forged, row.body)))
    assert "signature is not that of its signer's key" in fault_of(framed(whole))


@pytest.mark.parametrize("key", [bytes(32), b"\1" + bytes(31), (2**255 - 19).to_bytes(32, "little"), b"\2" + bytes(31)])
def test_a_signer_whose_key_is_none_or_of_small_order_is_refused(bundles: dict[str, bytes], key: bytes) -> None:
    whole: list[Any] = list(frames_of(bundles["store"]))
    index = next(at for at, frame in enumerate(whole) if frame.kind == fr.SIGNER)
    whole[index] = (fr.SIGNER, b"\1" + key)
    assert "small order" in fault_of(framed(whole))


def test_a_checkpoint_that_the_leaves_do_not_give_is_found(bundles: dict[str, bytes]) -> None:
    whole: list[Any] = list(frames_of(bundles["store"]))
    index = next(at for at, frame in enumerate(whole) if frame.kind == fr.CHECKPOINT)
    kept = fr.decode_note(whole[index].payload)
    text = Checkpoint("sealbook/beta", kept.size, bytes(32)).text().encode()
    whole[index] = (fr.CHECKPOINT, fr.encode_note(fr.KeptNote(kept.size, 0, text)))
    assert "another root than the checkpoint" in fault_of(framed(whole))


NOTES = [
    b"",
    b"no note",
    b"o\n1\n\n",
    b"\xff",
    b"o\n3\n" + b"A" * 43 + b"=\n\n",
    b"o\n3\nAAAA\n\n\xe2\x80\x94 k AAAAAAA=\n",
]


@pytest.mark.parametrize("note", NOTES)
def test_a_checkpoint_that_is_none_is_found(bundles: dict[str, bytes], note: bytes) -> None:
    whole: list[Any] = list(frames_of(bundles["store"]))
    index = next(at for at, frame in enumerate(whole) if frame.kind == fr.CHECKPOINT)
    for state in (0, 1):
        whole[index] = (fr.CHECKPOINT, fr.encode_note(fr.KeptNote(3, state, note)))
        assert said(framed(whole))[0] == "content"


def test_records_of_a_newer_version_are_counted_and_not_called_damage() -> None:
    class Newer:
        def current_version(self, kind: str) -> int:
            return 2

        def upcast(self, kind: str, version: int, data: dict[str, Any]) -> dict[str, Any] | None:
            return None

    journal = Journal.in_memory(clock=ManualClock(), upcaster=Newer())
    journal.tenant("t").append("a", [entries.note("n"), entries.concluded("completed")], epoch=1, seal=True)
    assert said(bundle_of(journal, Question("tenant", "t"))) == ("sound", 2)


def test_every_fault_that_reading_can_go_on_from_is_told(bundles: dict[str, bytes]) -> None:
    whole: list[Any] = list(frames_of(bundles["store"]))
    for index, frame in enumerate(list(whole)):
        if frame.kind in (fr.END, fr.END_OF_ALL):
            counts = dict.fromkeys(cbor2.loads(frame.payload), 0)
            whole[index] = (frame.kind, encode_cbor(counts, "counts")[0])
    told: list[Fault] = []
    for _ in Bundle(io.BytesIO(framed(whole)), tell=told.append).items():
        pass
    assert [fault.section for fault in told] == ["end", "end", "end", "end of all"]


def test_reading_ends_when_more_is_wrong_than_anybody_reads() -> None:
    journal = Journal.in_memory(clock=ManualClock())
    journal.tenant("t").append("a", [entries.note("n")] * (FAULTS_MAX + 5), epoch=1)
    whole: list[Any] = list(frames_of(bundle_of(journal, Question("tenant", "t"))))
    bad: list[Any] = [(f.kind, f.payload[:-1] + b"?") if f.kind == fr.RECORD else f for f in whole]
    told: list[Fault] = []
    with pytest.raises(Damaged):
        for _ in Bundle(io.BytesIO(framed(bad)), tell=told.append).items():
            pass
    assert len(told) == FAULTS_MAX


# --- anchors from outside ------------------------------------------------------------------------------------------


def told_of(data: bytes, *anchors: Checkpoint) -> list[str]:
    told: list[Fault] = []
    held = [Outside(f"anchor {number}", anchor) for number, anchor in enumerate(anchors)]
    for _ in Bundle(io.BytesIO(data), tell=told.append, outside=held).items():
        pass
    return [fault.what for fault in told]


def test_each_outside_checkpoint_is_a_constraint_of_its_own(journal: Journal, bundles: dict[str, bytes]) -> None:
    acme = journal.tenant("acme")
    now = acme.checkpoint()
    assert now.size == 4
    before = Checkpoint(now.origin, 2, acme.consistency_proof(2).old_root)
    assert told_of(bundles["store"], now, before) == []
    forked = Checkpoint(now.origin, 2, bytes(32))
    assert told_of(bundles["store"], now, before, forked) == [
        "the log of 2 leaves is not that of anchor 2: its root is another one"
    ]
    taller = Checkpoint(now.origin, 5, bytes(32))
    assert told_of(bundles["store"], now, taller) == ["anchor 1 is of size 5, the log has 4 leaves: some are missing"]


def test_a_selection_is_compared_with_an_outside_checkpoint_of_its_size_alone(
    journal: Journal, bundles: dict[str, bytes]
) -> None:
    beta = journal.tenant("beta")
    now = beta.checkpoint()
    assert told_of(bundles["span"], now) == []
    assert told_of(bundles["span"], Checkpoint(now.origin, now.size, bytes(32))) != []
    bundle = Bundle(io.BytesIO(bundles["span"]), outside=[Outside("other", Checkpoint(now.origin, 1, bytes(32)))])
    assert [item for item in bundle.items() if item.kind == fr.END_OF_ALL]
    assert bundle.matched == frozenset()


# --- memory ----------------------------------------------------------------------------------------------------------

BEYOND_KIB_MAX = 64 * 1024
MEASURE = """
import io, resource, sys
sys.path.insert(0, sys.argv[1])
from bundling import ours, theirs
read = {"ours": ours, "theirs": theirs}[sys.argv[2]]
for path in sys.argv[3:]:
    print(read(open(path, "rb").read()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
"""


def bomb(data: object) -> bytes:
    """A record of almost 4 MiB that stands for hundreds of times as much, in a bundle that is sound but for its end."""
    journal = Journal.in_memory(clock=ManualClock())
    journal.tenant("t").append("a", [entries.note("n")], epoch=1)
    whole: list[Any] = list(frames_of(bundle_of(journal, Question("tenant", "t"))))
    index = next(at for at, frame in enumerate(whole) if frame.kind == fr.RECORD)
    row = decode_row(whole[index].payload, None, None)
    members = {name: cbor2.dumps(value) for name, value in cbor2.loads(row.body).items()}
    members["data"] = data if isinstance(data, bytes) else cbor2.dumps(data)
    body = bytes([0xA0 + len(members)]) + b"".join(cbor2.dumps(name) + value for name, value in members.items())
    whole[index] = rehashed(whole[index], body)
    return framed(whole, Codec.ZLIB)


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["ours", "theirs"])
def test_no_bundle_takes_more_than_64_mib_beyond_its_file(reader: str, small: bytes, tmp_path: Any) -> None:
    many = 4_100_000
    files = {
        "small": small,
        "arrays": bomb(b"\xa1\x61x\x9a" + many.to_bytes(4) + b"\x80" * many),
        "maps": bomb(b"\xa1\x67outcome\x9a" + many.to_bytes(4) + b"\xa0" * many),
        "text": bomb({"x": "\N{SNOWMAN}" * (many // 3)}),
        "newer": bomb({"outcome": "x" * many}),
        "zlib": single_block(zlib.compress(bytes(120 * 2**20), 9), 65_536, Codec.ZLIB),
        "lzma": single_block(lzma.compress(bytes(240 * 2**20), preset=0), 65_536, Codec.LZMA),
        "lengths": contained(b"H\xff\xff\xff\xff"),
    }
    paths = []
    for name, data in files.items():
        paths.append(str(tmp_path / name))
        (tmp_path / name).write_bytes(data)
    command = [sys.executable, "-c", MEASURE, str(ROOT / "tests" / "support"), reader, *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
    assert [line[0] for line in lines[:5]] == ["('sound', 0)"] * 5
    first = int(lines[0][1])
    for name, (_, peak) in zip(files, lines, strict=True):
        assert int(peak) - first <= BEYOND_KIB_MAX + len(files[name]) // 1024, name


def test_encode_map_leaves_out_what_is_not_there() -> None:
    header = fr.Header("span", bytes(16), 0, None, 5, ())
    assert fr.decode_header(encode_map(header)) == header
    assert b"since" not in encode_map(header)


def test_the_time_is_that_of_whoever_exported(small: bytes) -> None:
    assert Bundle(io.BytesIO(small)).preamble.made_at == MADE_AT
    assert ours(small) == ("sound", 0)
