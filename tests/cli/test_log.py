"""`log` prints what an outsider verifies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.hashing import LeafHash, leaf_hash
from sealbook.merkle.verify import verify_consistency, verify_inclusion

Call = Callable[..., Result]


def answer(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def test_the_head_has_origin_size_and_root(call: Call) -> None:
    head = answer(call("log", "head", "-o", "json"))
    assert list(head) == ["origin", "size", "root"]
    assert (head["origin"], head["size"]) == ("sealbook", 2)
    assert call("log", "head").stdout == f"origin  sealbook\nsize    2\nroot    {head['root']}\n"


def test_the_checkpoint_is_the_three_lines_that_are_signed(call: Call) -> None:
    text = call("--origin", "example.com/log", "--tenant", "acme", "log", "checkpoint").stdout
    assert Checkpoint.parse(text).origin == "example.com/log/acme"
    assert answer(call("log", "checkpoint", "-o", "json"))["text"].startswith("sealbook\n2\n")


@pytest.mark.parametrize(("run", "kind", "index"), [("order-45", "seal", 0), ("order-46", "anchor", 1)])
def test_a_proof_is_accepted_by_the_verifier(call: Call, run: str, kind: str, index: int) -> None:
    proof = answer(call("log", "proof", run, "-o", "json"))
    assert list(proof) == [
        *("run", "leaf_kind", "index", "size", "seq", "head", "leaf_data", "leaf_hash", "proof", "root"),
    ]
    assert (proof["run"], proof["leaf_kind"], proof["index"], proof["size"]) == (run, kind, index, 2)
    data = bytes.fromhex(proof["leaf_data"])
    entry = LeafEntry.decode(data)
    assert (entry.seq, entry.head.hex()) == (proof["seq"], proof["head"])
    assert entry.type is (LeafType.SEAL if kind == "seal" else LeafType.ANCHOR)
    assert leaf_hash(data).hex() == proof["leaf_hash"]
    verify_inclusion(
        leaf=LeafHash(bytes.fromhex(proof["leaf_hash"])),
        index=index,
        size=proof["size"],
        proof=[bytes.fromhex(node) for node in proof["proof"]],
        root=bytes.fromhex(proof["root"]),
    )
    assert proof["root"] in call("log", "proof", run).stdout


def test_a_proof_may_be_at_an_older_size(call: Call) -> None:
    assert answer(call("log", "proof", "order-45", "--size", "1", "-o", "json"))["size"] == 1


def test_a_consistency_proof_is_accepted_by_the_verifier(call: Call) -> None:
    proof = answer(call("log", "consistency", "1", "-o", "json"))
    assert list(proof) == ["old", "new", "old_root", "new_root", "proof"]
    verify_consistency(
        old_size=1,
        new_size=2,
        old_root=bytes.fromhex(proof["old_root"]),
        new_root=bytes.fromhex(proof["new_root"]),
        proof=[bytes.fromhex(node) for node in proof["proof"]],
    )
    assert proof["new_root"] in call("log", "consistency", "1").stdout
    assert answer(call("log", "consistency", "0", "-o", "json"))["proof"] == []
    assert answer(call("log", "consistency", "2", "-o", "json"))["proof"] == []


@pytest.mark.parametrize(
    ("args", "code", "part"),
    [
        (("proof", "order-42"), 4, "no leaf of run 'order-42': `sealbook seal` or `sealbook anchor`"),
        (("proof", "nobody"), 4, "no run 'nobody'"),
        (("proof", "order-46", "--size", "1"), 4, "no leaf below size 1 of run 'order-46'"),
        (("proof", "order-45", "--size", "0"), 4, "'order-45': --size is how many leaves the log then had"),
        (("proof", "order-45", "--size", "3"), 5, "exceeds the log's size, 2"),
        (("proof", "order-45", "--size", "-1"), 5, "size -1"),
        (("consistency", "3"), 5, "exceeds the log's size, 2"),
        (("consistency", "--", "-1"), 5, "old size -1"),
        (("consistency", str(2**64)), 5, "old size"),
    ],
)
def test_what_cannot_be_proved_is_one_line(call: Call, args: tuple[str, ...], code: int, part: str) -> None:
    result = call("log", *args)
    assert result.exit_code == code
    assert part in result.stderr
    assert result.stderr.count("\n") == 1
