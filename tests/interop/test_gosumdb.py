"""golang.org/x/mod/sumdb, the reference: it opens our notes, checks our proofs, reads our tiles; we open its notes."""

from __future__ import annotations

from typing import Any

import pytest
from published_log import log_signer
from went_public import SIZES, Ask, Public

from sealbook.merkle.keys import private_key_text
from sealbook.merkle.note import open_checkpoint


@pytest.fixture(scope="module")
def question(public: Public) -> dict[str, Any]:
    return {
        "Note": public.note.decode(),
        "Verifier": str(log_signer(public.origin).key),
        "Tiles": str(public.tiles),
        "Size": public.size,
        "Root": public.root.hex(),
        "Inclusions": public.inclusions(),
        "Consistencies": [
            {
                "Size": old,
                "Root": public.checkpoints[old].root.hex(),
                "Proof": [value.hex() for value in public.consistency(old)],
            }
            for old in SIZES
        ],
    }


def test_it_opens_our_checkpoint_and_checks_our_proofs(gosumdb: Ask, public: Public, question: dict[str, Any]) -> None:
    answer = gosumdb(question)
    assert answer["Text"] == public.checkpoints[public.size].text()
    assert answer["Verified"] == [log_signer(public.origin).key.id]
    assert answer["Inclusions"] == ["accepted"] * len(public.proofs)
    assert answer["Consistencies"] == ["accepted"] * len(SIZES)


def test_it_computes_our_root_and_our_proofs_from_our_tiles(
    gosumdb: Ask, public: Public, question: dict[str, Any]
) -> None:
    answer = gosumdb(question)
    assert answer["TileRoot"] == public.root.hex()
    assert answer["TileProofs"] == [each["proof"] for each in question["Inclusions"]]


def test_it_refuses_what_we_refuse(gosumdb: Ask, public: Public, question: dict[str, Any]) -> None:
    good, old = question["Inclusions"][2], question["Consistencies"][1]
    answer = gosumdb(
        {
            **question,
            "Tiles": "",
            "Note": public.note.decode().replace("\n300\n", "\n301\n"),
            "Inclusions": [
                {**good, "proof": good["proof"][1:]},
                {**good, "proof": ["00" * 32, *good["proof"][1:]]},
                {**good, "index": good["index"] + 1},
            ],
            "Consistencies": [
                {**old, "Root": "00" * 32},
                {**old, "Proof": old["Proof"][1:]},
                {**old, "Size": old["Size"] - 1},
            ],
        }
    )
    assert answer["Refusal"] == f"invalid signature for key {log_signer(public.origin).key.id}"
    assert answer["Inclusions"] == ["invalid transparency proof"] * 3
    assert answer["Consistencies"] == ["invalid transparency proof"] * 3


def test_it_ignores_a_key_that_it_does_not_know(gosumdb: Ask, public: Public, question: dict[str, Any]) -> None:
    answer = gosumdb({**question, "Tiles": "", "Verifier": str(log_signer(public.origin, 9).key)})
    assert answer["Refusal"] == "note has no verifiable signatures"


def test_we_open_what_it_signs_with_a_private_key_of_ours(
    gosumdb: Ask, public: Public, question: dict[str, Any]
) -> None:
    key = log_signer(public.origin, 5).key
    text = public.checkpoints[260].text()
    answer = gosumdb({**question, "Tiles": "", "PrivateKey": private_key_text(key, bytes([5]) * 32), "Text": text})
    opened = open_checkpoint(answer["Signed"].encode(), origin=public.origin, log_keys=[key])
    assert opened.checkpoint == public.checkpoints[260]
