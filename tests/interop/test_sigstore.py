"""npm's @sigstore/verify: its Merkle verifier accepts our inclusion proofs, its checkpoint parser our notes."""

from __future__ import annotations

from typing import Any

import pytest
from published_log import log_signer
from went_public import Ask, Public


@pytest.fixture(scope="module")
def question(public: Public) -> dict[str, Any]:
    key = log_signer(public.origin).key
    return {
        "origin": public.origin,
        "note": public.note.decode(),
        "publicKey": key.public_key.hex(),
        "keyID": key.key_id.hex(),
        "inclusions": public.inclusions(),
    }


def test_it_accepts_our_checkpoint_and_every_inclusion_proof(
    sigstore: Ask, public: Public, question: dict[str, Any]
) -> None:
    answer = sigstore(question)
    assert answer == {
        "origin": public.origin,
        "size": str(public.size),
        "root": public.root.hex(),
        "checkpoint": "accepted",
        "inclusions": ["accepted"] * len(public.proofs),
    }


def test_it_refuses_what_we_refuse(sigstore: Ask, public: Public, question: dict[str, Any]) -> None:
    good = question["inclusions"][2]
    damaged = [
        {**good, "proof": good["proof"][1:]},
        {**good, "proof": [*good["proof"], "00" * 32]},
        {**good, "proof": ["00" * 32, *good["proof"][1:]]},
        {**good, "leaf": public.leaves[0].hex()},
        {**good, "index": public.size},
    ]
    answer = sigstore({**question, "publicKey": log_signer(seed=9).key.public_key.hex(), "inclusions": damaged})
    assert answer["checkpoint"] == "invalid checkpoint signature"
    assert answer["inclusions"] == [
        "invalid hash count",
        "invalid hash count",
        "calculated root hash does not match inclusion proof",
        "calculated root hash does not match inclusion proof",
        f"invalid index: {public.size}",
    ]
