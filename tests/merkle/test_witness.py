"""The add-checkpoint exchange: what a witness cosigns and refuses, and what a log makes of the answer."""

from __future__ import annotations

import random
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import TIMESTAMP_AHEAD_SECONDS_MAX, cosign
from sealbook.merkle.errors import Malformed
from sealbook.merkle.hashing import EMPTY_ROOT, PROOF_HASHES_MAX, leaf_hash
from sealbook.merkle.keys import Algorithm, NoteSigner, SignatureLine, VerifierKey
from sealbook.merkle.note import Note, lines_text, open_checkpoint, sign_text
from sealbook.merkle.tree import added, consistency_proof, root
from sealbook.merkle.witness import (
    INTEGRITY,
    REQUEST_BYTES_MAX,
    SIZE_MEDIA_TYPE,
    TEXT_MEDIA_TYPE,
    AddCheckpoint,
    Answer,
    Cosigning,
    Evidence,
    Objection,
    Refusal,
    Submission,
    TrustedLog,
    WitnessState,
    check_trust,
    decide,
    origin_key,
    read_request,
)
from sealbook.merkle.witness_client import (
    ANSWER_BYTES_MAX,
    Alarm,
    AlarmKind,
    Cosigned,
    Stale,
    Unavailable,
    add_checkpoint,
    read_answer,
    split_views,
)

ORIGIN = "example.com/log"
LOG = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x01" * 32)
NEXT_LOG = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x02" * 32)
LATTICE_LOG = NoteSigner.from_seed(ORIGIN, Algorithm.MLDSA44_COSIGNATURE, b"\x05" * 32)
STRANGER = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x09" * 32)
WITNESS = NoteSigner.from_seed("w.example", Algorithm.ED25519_COSIGNATURE, b"\x03" * 32)
LATTICE = NoteSigner.from_seed("w.example", Algorithm.MLDSA44_COSIGNATURE, b"\x04" * 32)
OTHER = NoteSigner.from_seed("v.example", Algorithm.ED25519_COSIGNATURE, b"\x06" * 32)
LOGS = {ORIGIN: TrustedLog(ORIGIN, (LOG.key,))}
NOW = 1_700_000_000


@pytest.fixture(scope="module")
def tree(grow: Any) -> Any:
    return grow(40)


@pytest.fixture(scope="module")
def fork(grow: Any) -> Any:
    """The same first 12 leaves, and others after them."""
    tree = grow(12)
    tree.append(*(leaf_hash(b"fork %d" % number) for number in range(28)))
    return tree


def checkpoint(tree: Any, size: int, origin: str = ORIGIN) -> Checkpoint:
    return Checkpoint(origin, size, root(size, tree.read))


def note(stated: Checkpoint | str, *signers: NoteSigner) -> Note:
    text = stated if isinstance(stated, str) else stated.text()
    lines = [
        sign_text(text, signer) if signer.key.algorithm is Algorithm.ED25519 else cosign(text, NOW, signer)
        for signer in signers or (LOG,)
    ]
    return Note(text, tuple(lines))


def request(tree: Any, old_size: int, size: int, *signers: NoteSigner) -> AddCheckpoint:
    proof = consistency_proof(old_size=old_size, new_size=size, read=tree.read) if old_size <= size else ()
    return AddCheckpoint(old_size, tuple(proof), note(checkpoint(tree, size), *signers).encode())


def ask(
    body: bytes | AddCheckpoint,
    state: WitnessState | None = None,
    *,
    logs: dict[str, TrustedLog] = LOGS,
    signers: tuple[NoteSigner, ...] = (WITNESS,),
    now: int = NOW,
) -> Cosigning | Refusal:
    """What a witness with this state decides."""
    submission = read_request(body if isinstance(body, bytes) else body.encode(), logs)
    return submission if isinstance(submission, Refusal) else decide(submission, state, signers, now=now)


def cosigned(outcome: Cosigning | Refusal) -> WitnessState:
    assert isinstance(outcome, Cosigning), outcome
    return outcome.state


def refused(outcome: Cosigning | Refusal) -> Refusal:
    assert isinstance(outcome, Refusal), outcome
    return outcome


def state_at(tree: Any, size: int, *, now: int = NOW) -> WitnessState:
    return cosigned(ask(request(tree, 0, size), now=now))


# --- A witness cosigns ----------------------------------------------------------------------------------------------


def test_first_contact_growth_and_refresh_are_cosigned(tree: Any) -> None:
    state = cosigned(ask(request(tree, 0, 5), now=NOW))
    for old_size, size, now in ((5, 5, NOW + 1), (5, 12, NOW + 1), (12, 40, NOW + 2), (40, 40, NOW + 9)):
        outcome = ask(request(tree, old_size, size), state, now=now)
        state = cosigned(outcome)
        assert (state.checkpoint, state.timestamp) == (checkpoint(tree, size), now)
        assert isinstance(outcome, Cosigning)
        assert outcome.answer.status == 200
        kept = open_checkpoint(state.note, origin=ORIGIN, log_keys=[LOG.key], cosigner_keys=[WITNESS.key])
        assert [signature.timestamp for signature in kept.cosignatures] == [now]
        assert outcome.answer.body == lines_text([kept.cosignatures[0].line]).encode()


def test_an_empty_log_is_cosigned_and_may_grow(tree: Any) -> None:
    state = cosigned(ask(request(tree, 0, 0)))
    state = cosigned(ask(request(tree, 0, 0), state))
    assert state.checkpoint.root == EMPTY_ROOT
    assert cosigned(ask(request(tree, 0, 7), state)).checkpoint.size == 7


def test_every_key_of_the_witness_cosigns(tree: Any) -> None:
    outcome = ask(request(tree, 0, 5), signers=(WITNESS, LATTICE))
    state = cosigned(outcome)
    keys = [WITNESS.key, LATTICE.key]
    kept = open_checkpoint(state.note, origin=ORIGIN, log_keys=[LOG.key], cosigner_keys=keys)
    assert [signature.key for signature in kept.cosignatures] == keys
    assert isinstance(outcome, Cosigning)
    assert outcome.answer.body.count(b"\n") == 2


def test_any_key_of_the_log_may_sign_while_it_rotates(tree: Any) -> None:
    logs = {ORIGIN: TrustedLog(ORIGIN, (LOG.key, NEXT_LOG.key, LATTICE_LOG.key))}
    state = cosigned(ask(request(tree, 0, 5, LOG), logs=logs))
    state = cosigned(ask(request(tree, 5, 6, LOG, NEXT_LOG), state, logs=logs))
    state = cosigned(ask(request(tree, 6, 7, NEXT_LOG), state, logs=logs))
    state = cosigned(ask(request(tree, 7, 8, LATTICE_LOG), state, logs=logs))
    # The old key is gone, what was remembered is not.
    assert (
        refused(ask(request(tree, 0, 5, NEXT_LOG), state, logs={ORIGIN: TrustedLog(ORIGIN, (NEXT_LOG.key,))})).size == 8
    )


def test_unknown_lines_are_neither_kept_nor_served_even_under_the_witnesss_own_name(tree: Any) -> None:
    stated = checkpoint(tree, 5)
    lines = (
        *note(stated, STRANGER, LOG, OTHER).lines,
        SignatureLine(WITNESS.key.name, WITNESS.key.key_id, b"\0" * 72),
        SignatureLine("unknown", b"abcd", b"s"),
    )
    outcome = ask(AddCheckpoint(0, (), Note(stated.text(), lines).encode()))
    kept = Note.parse(cosigned(outcome).note)
    assert [(line.name, line.key_id) for line in kept.lines] == [
        (LOG.key.name, LOG.key.key_id),
        (WITNESS.key.name, WITNESS.key.key_id),
    ]
    assert open_checkpoint(kept.encode(), origin=ORIGIN, log_keys=[LOG.key], cosigner_keys=[WITNESS.key]).cosignatures


def test_a_state_is_read_as_it_was_written(tree: Any) -> None:
    state = state_at(tree, 5)
    assert WitnessState.decode(state.encode(), origin=ORIGIN) == state
    for broken in (b"", bytes(8) + state.note, state.encode()[:-1], state.encode()[1:]):
        with pytest.raises(Malformed):
            WitnessState.decode(broken, origin=ORIGIN)
    with pytest.raises(Malformed, match="not of 'other'"):
        WitnessState.decode(state.encode(), origin="other")


def test_a_pinned_first_checkpoint_takes_the_place_of_trust_on_first_use(tree: Any, fork: Any) -> None:
    logs = {ORIGIN: TrustedLog(ORIGIN, (LOG.key,), initial=checkpoint(tree, 20))}
    assert refused(ask(request(tree, 0, 30), logs=logs)).size == 20
    assert refused(ask(request(fork, 20, 30), logs=logs)).objection is Objection.INCONSISTENT
    state = cosigned(ask(request(tree, 20, 30), logs=logs))
    assert cosigned(ask(request(tree, 30, 40), state, logs=logs)).checkpoint.size == 40


def test_a_log_is_kept_under_the_hash_of_its_origin() -> None:
    # SHA-256("example.com/log"), by coreutils' sha256sum.
    assert origin_key(ORIGIN).hex() == "4d3203c8f35cdf600e475f55fede6081a703d3d322f208865fca2ec4f0e030f8"


# --- A witness refuses, in the order of the specification -----------------------------------------------------------

ROOT_LINE = b64encode(bytes(range(32))).decode()
GOOD_TEXT = f"{ORIGIN}\n5\n{ROOT_LINE}\n"


def body(*, old: str = "old 0\n", proof: str = "", text: str = GOOD_TEXT, lines: str | None = None) -> bytes:
    return f"{old}{proof}\n{text}\n{lines_text([sign_text(text, LOG)]) if lines is None else lines}".encode()


HASH_LINE = b64encode(bytes(32)).decode() + "\n"
MALFORMED = {
    "nothing": b"",
    "no empty line": body().replace(b"\n\n", b"\n"),
    "no old size": body(old=""),
    "a checkpoint alone": body().partition(b"\n\n")[2],
    "an old size without its word": body(old="0\n"),
    "an old size in capitals": body(old="OLD 0\n"),
    "two spaces": body(old="old  0\n"),
    "a tab": body(old="old\t0\n"),
    "a space after the number": body(old="old 0 \n"),
    "no number": body(old="old \n"),
    "a number with a sign": body(old="old +3\n"),
    "a number below 0": body(old="old -1\n"),
    "a number with a zero before it": body(old="old 03\n"),
    "a number with an underscore": body(old="old 1_0\n"),
    "a number of another script": body(old="old ٣\n"),
    "2**63": body(old=f"old {2**63}\n"),
    "a number of 20 digits": body(old=f"old {10**19}\n"),
    "the old size twice": body(old="old 0\nold 0\n"),
    "carriage returns": body().replace(b"\n", b"\r\n"),
    "a carriage return after the old size": body(old="old 0\r\n"),
    "a hash of no bytes": body(old="old 1\n\n", proof=""),
    "a hash of 31 bytes": body(old="old 1\n", proof=b64encode(bytes(31)).decode() + "\n"),
    "a hash of 33 bytes": body(old="old 1\n", proof=b64encode(bytes(33)).decode() + "\n"),
    "a hash without padding": body(old="old 1\n", proof=HASH_LINE.replace("=", "")),
    "a hash for URLs": body(old="old 1\n", proof=HASH_LINE.replace("AAAA", "-_-_", 1)),
    "a hash with stray bits": body(old="old 1\n", proof=HASH_LINE.replace("A=", "B=")),
    "a hash with a space before it": body(old="old 1\n", proof=" " + HASH_LINE),
    "64 hashes": body(old="old 1\n", proof=HASH_LINE * 64),
    "bytes that are no UTF-8": body(old="old 1\n").replace(b"old", b"\xff"),
    "no newline at the end": body()[:-1],
    "no signature lines": body(lines=""),
    "a signature line that is malformed": body(lines=f"{SignatureLine.PREFIX}{ORIGIN} AAAA\n"),
    "an empty line among the signatures": body() + b"\n",
    "an extension line": body(text=GOOD_TEXT + "more\n"),
    "an empty line in the text": body(text=f"{ORIGIN}\n5\n{ROOT_LINE}\n\n"),
    "two checkpoints": body(text=GOOD_TEXT + "\n" + GOOD_TEXT),
    "no root": body(text=f"{ORIGIN}\n5\n"),
    "no origin": body(text=f"\n5\n{ROOT_LINE}\n"),
    "an origin of 256 bytes": body(text=f"{'o' * 256}\n5\n{ROOT_LINE}\n"),
    "a NUL in the origin": body(text=f"exam\0ple\n5\n{ROOT_LINE}\n", lines="\N{EM DASH} a AAAAAAA=\n"),
    "a size with a sign": body(text=f"{ORIGIN}\n+5\n{ROOT_LINE}\n"),
    "a size with a zero before it": body(text=f"{ORIGIN}\n05\n{ROOT_LINE}\n"),
    "a size of 2**63": body(text=f"{ORIGIN}\n{2**63}\n{ROOT_LINE}\n"),
    "a root of 31 bytes": body(text=f"{ORIGIN}\n5\n{b64encode(bytes(31)).decode()}\n"),
    "a root with stray bits": body(text=f"{ORIGIN}\n5\n{ROOT_LINE[:-2]}9=\n"),
    "an empty tree with a root of 31 bytes": body(text=f"{ORIGIN}\n0\n{b64encode(bytes(31)).decode()}\n"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_refused_with_400(name: str) -> None:
    refusal = refused(ask(MALFORMED[name]))
    assert (refusal.objection, refusal.answer().status) == (Objection.MALFORMED, 400)
    assert refusal.text.isprintable()
    assert refusal.evidence is None


def test_the_request_that_the_malformed_ones_are_made_from_is_cosigned() -> None:
    assert cosigned(ask(body())).checkpoint.text() == GOOD_TEXT
    parsed = AddCheckpoint.parse(body(old="old 9\n", proof=HASH_LINE * PROOF_HASHES_MAX))
    assert (parsed.old_size, len(parsed.proof)) == (9, PROOF_HASHES_MAX)


def test_a_body_is_read_up_to_its_limit() -> None:
    lines = lines_text([sign_text(GOOD_TEXT, LOG)] + [SignatureLine(f"k{i}", b"abcd", bytes(2428)) for i in range(16)])
    assert len(body(lines=lines)) < 64 * 1024
    assert isinstance(ask(body(lines=lines)), Cosigning)
    assert refused(ask(b"\xff" * (REQUEST_BYTES_MAX + 1))).text.startswith("request: at most")


def test_an_unknown_origin_is_refused_with_404_even_unsigned_and_stale(tree: Any) -> None:
    unknown = AddCheckpoint(9, (), note(checkpoint(tree, 5, "example.com/other"), STRANGER).encode())
    assert refused(ask(unknown, state_at(tree, 7))).answer().status == 404
    assert refused(ask(request(tree, 0, 5), logs={})).objection is Objection.UNKNOWN_ORIGIN


def test_a_checkpoint_that_no_trusted_key_signed_is_refused_with_403(tree: Any) -> None:
    stated = checkpoint(tree, 5)
    line = note(stated).lines[0]
    for lines in (
        note(stated, STRANGER).lines,
        note(stated, OTHER).lines,
        (SignatureLine(ORIGIN, b"\0\0\0\0", line.signature),),
        (SignatureLine("example.com/log2", line.key_id, line.signature),),
        note(checkpoint(tree, 6)).lines,
        note(checkpoint(tree, 5, "example.com/other")).lines,
        (SignatureLine(line.name, line.key_id, line.signature[:-1]),),
        (SignatureLine(line.name, line.key_id, bytes(64)),),
        (line, line),
        (line, SignatureLine(line.name, line.key_id, bytes(64))),
    ):
        # The old size is wrong as well: what is answered is what fails first.
        refusal = refused(ask(AddCheckpoint(3, (), Note(stated.text(), lines).encode())))
        assert (refusal.objection, refusal.answer().status) == (Objection.UNSIGNED, 403)
        assert refusal.evidence is None


def test_one_failing_line_of_a_trusted_key_is_refused_though_another_verifies(tree: Any) -> None:
    logs = {ORIGIN: TrustedLog(ORIGIN, (LOG.key, NEXT_LOG.key))}
    stated = checkpoint(tree, 5)
    lines = (*note(stated, LOG).lines, *note(checkpoint(tree, 6), NEXT_LOG).lines)
    assert refused(ask(AddCheckpoint(0, (), Note(stated.text(), lines).encode()), logs=logs)).answer().status == 403


def test_an_old_size_beyond_the_checkpoints_is_refused_with_400_before_409(tree: Any) -> None:
    refusal = refused(ask(request(tree, 7, 5), state_at(tree, 7)))
    assert (refusal.objection, refusal.answer().status) == (Objection.SHRANK, 400)
    assert refused(ask(request(tree, 9, 5), state_at(tree, 7))).answer().status == 400
    assert refusal.objection in INTEGRITY


def test_another_old_size_than_the_remembered_one_is_refused_with_409_and_the_size(tree: Any) -> None:
    state = state_at(tree, 7)
    for body_ in (request(tree, 0, 20), request(tree, 6, 20), request(tree, 8, 20), request(tree, 0, 5)):
        refusal = refused(ask(body_, state))
        assert refusal.objection is Objection.STALE
        assert refusal.answer() == Answer(409, SIZE_MEDIA_TYPE, b"7\n")
        assert refusal.evidence is None
    assert refused(ask(request(tree, 3, 20))).answer() == Answer(409, SIZE_MEDIA_TYPE, b"0\n")


def test_a_replayed_request_is_refused_after_growth(tree: Any) -> None:
    first, second = request(tree, 0, 7), request(tree, 7, 20)
    state = cosigned(ask(second, cosigned(ask(first))))
    assert refused(ask(first, state)).size == 20
    assert refused(ask(second, state)).size == 20


def test_an_empty_tree_with_another_root_is_refused_with_422_and_kept() -> None:
    poisoned = body(text=f"{ORIGIN}\n0\n{ROOT_LINE}\n")
    refusal = refused(ask(poisoned))
    assert (refusal.objection, refusal.answer().status) == (Objection.INCOHERENT, 422)
    assert refusal.evidence == Evidence("size 0 has the empty tree's root", ORIGIN, NOW, b"", poisoned)
    # What comes before it in the order is answered before it.
    assert refused(ask(body(old="old 3\n", text=f"{ORIGIN}\n0\n{ROOT_LINE}\n"))).answer().status == 400
    assert refused(ask(poisoned.replace(b"old 0", b"old 0"), logs={})).answer().status == 404


def test_a_proof_from_size_0_on_is_refused_with_422(tree: Any) -> None:
    surplus = AddCheckpoint(0, (bytes(32),), request(tree, 0, 7).checkpoint)
    for state in (None, state_at(tree, 0)):
        refusal = refused(ask(surplus, state))
        assert (refusal.objection, refusal.answer().status) == (Objection.INCONSISTENT, 422)


def test_another_root_at_the_remembered_size_is_refused_with_422_and_kept(tree: Any, fork: Any) -> None:
    state = state_at(tree, 20)
    second = request(fork, 20, 20)
    refusal = refused(ask(second, state))
    assert (refusal.objection, refusal.answer().status) == (Objection.FORKED, 422)
    assert refusal.objection in INTEGRITY
    assert refusal.evidence == Evidence("two roots at size 20", ORIGIN, NOW, state.note, second.encode())
    # Both sides of the contradiction are in it, each with the log's signature.
    held = open_checkpoint(refusal.evidence.held, origin=ORIGIN, log_keys=[LOG.key])
    given = AddCheckpoint.parse(refusal.evidence.request).checkpoint
    offered = open_checkpoint(given, origin=ORIGIN, log_keys=[LOG.key])
    assert split_views([held.checkpoint, offered.checkpoint]) == [(held.checkpoint, offered.checkpoint)]


def test_a_second_root_is_kept_whatever_old_size_the_request_names(tree: Any, fork: Any) -> None:
    state = state_at(tree, 20)
    for old_size, status in ((0, 409), (12, 409), (21, 400)):
        refusal = refused(ask(request(fork, old_size, 20), state))
        assert refusal.answer().status == status
        assert refusal.evidence is not None
        assert refusal.evidence.reason == "two roots at size 20"


def test_the_two_branches_of_a_fork_are_never_both_cosigned(tree: Any, fork: Any) -> None:
    state = state_at(tree, 12)
    for one, other in ((tree, fork), (fork, tree)):
        grown = cosigned(ask(request(one, 12, 20), state))
        for size in (20, 21, 40):
            outcome = ask(request(other, 20, size), grown)
            assert refused(outcome).answer().status == 422
            assert refused(outcome).evidence is not None
        assert refused(ask(request(other, 12, 21), grown)).size == 20


def test_growth_without_a_proof_is_refused_with_422(tree: Any) -> None:
    bare = AddCheckpoint(7, (), request(tree, 7, 20).checkpoint)
    refusal = refused(ask(bare, state_at(tree, 7)))
    assert (refusal.objection, refusal.answer().status) == (Objection.PROOF_MISSING, 422)
    assert refusal.objection not in INTEGRITY


def test_a_proof_that_was_cut_stretched_flipped_or_swapped_is_refused_with_422(tree: Any) -> None:
    seed = 20262
    print("seed", seed)
    chance = random.Random(seed)
    good = request(tree, 7, 20)
    state = state_at(tree, 7)
    proofs = [good.proof[:-1], good.proof[1:], (*good.proof, bytes(32)), (bytes(32), *good.proof), good.proof[::-1]]
    for _ in range(40):
        at, bit = chance.randrange(len(good.proof)), chance.randrange(256)
        value = int.from_bytes(good.proof[at]) ^ 1 << bit
        proofs.append((*good.proof[:at], value.to_bytes(32), *good.proof[at + 1 :]))
    proofs += [request(tree, 7, 21).proof, request(tree, 6, 20).proof]
    for proof in proofs:
        refusal = refused(ask(AddCheckpoint(7, proof, good.checkpoint), state))
        assert (refusal.objection, refusal.answer().status) == (Objection.INCONSISTENT, 422)
        assert refusal.evidence is not None
    surplus = AddCheckpoint(7, (bytes(32),), request(tree, 7, 7).checkpoint)
    assert refused(ask(surplus, state)).objection is Objection.INCONSISTENT


def test_a_clock_behind_the_last_cosignature_is_refused_with_503(tree: Any) -> None:
    state = state_at(tree, 7, now=NOW)
    for now in (NOW - 1, 1, 0, -1):
        refusal = refused(ask(request(tree, 7, 20), state, now=now))
        assert (refusal.objection, refusal.answer().status) == (Objection.CLOCK, 503)
    assert refused(ask(request(tree, 0, 7), now=0)).objection is Objection.CLOCK
    assert cosigned(ask(request(tree, 7, 20), state, now=NOW)).timestamp == NOW


def test_a_refusal_says_why_in_one_line(tree: Any) -> None:
    answer = refused(ask(request(tree, 7, 5), state_at(tree, 7))).answer()
    assert answer == Answer(400, TEXT_MEDIA_TYPE, b"old size 7 exceeds the checkpoint's, 5\n")


def test_whatever_a_witness_is_asked_it_cosigns_one_growing_tree(tree: Any, fork: Any) -> None:
    """Random requests from both branches: every cosigned size is at least the one before, and consistent with it."""
    seed = 20263
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(12):
        state: WitnessState | None = None
        branches: set[str] = set()
        for now in range(NOW, NOW + 25):
            name = chance.choice(["tree", "fork"])
            old_size = chance.choice([chance.randint(0, 40), 0 if state is None else state.checkpoint.size])
            size = chance.randint(0, 40)
            outcome = ask(request({"tree": tree, "fork": fork}[name], old_size, size), state, now=now)
            if isinstance(outcome, Refusal):
                continue
            assert state is None or outcome.state.checkpoint.size >= state.checkpoint.size
            state = outcome.state
            if size > 12:
                branches.add(name)
        assert len(branches) == 1


def test_a_submission_is_read_without_state_and_decided_with_it(tree: Any) -> None:
    submission = read_request(request(tree, 0, 5).encode(), LOGS)
    assert isinstance(submission, Submission)
    first = decide(submission, None, [WITNESS], now=NOW)
    # The same submission, decided again after the first was made durable: a race that was lost.
    assert refused(decide(submission, cosigned(first), [WITNESS], now=NOW)).size == 5


# --- Whom a witness may serve ---------------------------------------------------------------------------------------


def test_a_key_or_a_name_with_two_purposes_is_refused() -> None:
    check_trust([WITNESS, LATTICE], LOGS.values())
    ours = TrustedLog("w.example", (LOG.key,))
    named_as_ours = TrustedLog(ORIGIN, (VerifierKey("w.example", Algorithm.ED25519, LOG.key.public_key),))
    with_our_key = TrustedLog(ORIGIN, (VerifierKey("log.example", Algorithm.ED25519, WITNESS.key.public_key),))
    again = NoteSigner.from_seed("w2.example", Algorithm.ED25519_COSIGNATURE, b"\x03" * 32)
    for signers, logs, message in (
        ([], [], "at least one key"),
        ([LOG], [], "no witness's key"),
        ([WITNESS, again], [], "one key under two names"),
        ([WITNESS], [ours], "own name"),
        ([WITNESS], [named_as_ours], "own name"),
        ([WITNESS], [with_our_key], "own key"),
        ([WITNESS], [*LOGS.values(), *LOGS.values()], "configured twice"),
    ):
        with pytest.raises(ValueError, match=message):
            check_trust(signers, logs)


def test_a_log_that_no_witness_can_serve_cannot_be_configured(tree: Any) -> None:
    for origin, keys, initial in (
        ("", (LOG.key,), None),
        ("o" * 256, (LOG.key,), None),
        (ORIGIN, (), None),
        (ORIGIN, (LOG.key, LOG.key), None),
        (ORIGIN, (WITNESS.key,), None),
        (ORIGIN, (LOG.key,), checkpoint(tree, 5, "example.com/other")),
    ):
        with pytest.raises((ValueError, Malformed)):
            TrustedLog(origin, keys, initial)


# --- What a log makes of the answer ---------------------------------------------------------------------------------

KEYS = (WITNESS.key, LATTICE.key)


def read(
    tree: Any, answer: Answer, *, old_size: int = 7, size: int = 20, cosigned_size: int = 0, keys: Any = KEYS
) -> Cosigned | Stale | Alarm | Unavailable:
    return read_answer(request(tree, old_size, size), answer, keys=keys, cosigned_size=cosigned_size, now=NOW)


def lines(tree: Any, *signers: NoteSigner, size: int = 20, timestamp: int = NOW) -> bytes:
    return lines_text([cosign(checkpoint(tree, size).text(), timestamp, signer) for signer in signers]).encode()


def conflict(text: bytes, media_type: str = SIZE_MEDIA_TYPE) -> Answer:
    return Answer(409, media_type, text)


def test_log_and_witness_understand_each_other(tree: Any) -> None:
    state: WitnessState | None = None
    known = 0
    for size in (0, 3, 3, 17, 40):
        asked = add_checkpoint(note(checkpoint(tree, size), LOG, OTHER), [LOG.key], old_size=known, read=tree.read)
        assert b"v.example" not in asked.encode(), "the log's own lines only"
        outcome = ask(asked.encode(), state, signers=(WITNESS, LATTICE))
        state = cosigned(outcome)
        assert isinstance(outcome, Cosigning)
        answered = read_answer(asked, outcome.answer, keys=KEYS, cosigned_size=known, now=NOW)
        assert isinstance(answered, Cosigned)
        assert [signature.key for signature in answered.signatures] == list(KEYS)
        known = size


def test_a_log_that_does_not_know_the_remembered_size_learns_it(tree: Any) -> None:
    state = state_at(tree, 7)
    signed = note(checkpoint(tree, 20))
    asked = add_checkpoint(signed, [LOG.key], old_size=0, read=tree.read)
    answered = read_answer(asked, refused(ask(asked, state)).answer(), keys=KEYS, cosigned_size=7, now=NOW)
    assert answered == Stale(7)
    again = add_checkpoint(signed, [LOG.key], old_size=7, read=tree.read)
    assert cosigned(ask(again, state)).checkpoint.size == 20


def test_after_a_lost_answer_the_same_size_gets_its_cosignature(tree: Any) -> None:
    state = cosigned(ask(request(tree, 7, 20), state_at(tree, 7)))
    lost = refused(ask(request(tree, 7, 20), state)).answer()
    assert read(tree, lost, cosigned_size=7) == Stale(20)
    assert cosigned(ask(request(tree, 20, 20), state)).checkpoint.size == 20


def test_lines_of_known_keys_are_taken_and_all_others_dropped(tree: Any) -> None:
    answer = Answer(200, "", lines(tree, OTHER, WITNESS) + b"garbage\n" + lines(tree, LATTICE, WITNESS))
    outcome = read(tree, answer)
    assert isinstance(outcome, Cosigned)
    assert [signature.key for signature in outcome.signatures] == list(KEYS)
    assert len(outcome.dropped) == 2
    assert "unknown key" in outcome.dropped[0]


def test_a_line_of_another_checkpoint_key_or_time_is_dropped(tree: Any, fork: Any) -> None:
    known = lines(tree, WITNESS)
    for bad in (
        b"",
        b"\n\n",
        b"\xff",
        b"<html>ok</html>",
        lines(tree, OTHER),
        lines(tree, WITNESS, size=19),
        lines(fork, WITNESS),
        lines(tree, WITNESS, timestamp=NOW + TIMESTAMP_AHEAD_SECONDS_MAX + 1),
        known.replace(b"\n", b"\r\n"),
        known.replace(b"w.example", b"x.example"),
        known.replace(b"=", b""),
        lines_text(note(checkpoint(tree, 20), LOG).lines).encode(),
        lines_text([SignatureLine("w.example", WITNESS.key.key_id, bytes(72))]).encode(),
        b"\n" * (ANSWER_BYTES_MAX + 1) + known,
    ):
        outcome = read(tree, Answer(200, TEXT_MEDIA_TYPE, bad))
        assert isinstance(outcome, Unavailable), bad[:80]
        assert outcome.reason.isprintable()
    # A log's key is no witness's, even if somebody lists it among them.
    own = Answer(200, "", lines_text(note(checkpoint(tree, 20), LOG).lines).encode())
    assert isinstance(read(tree, own, keys=(LOG.key,)), Unavailable)


def test_a_cosignature_of_time_0_is_dropped(tree: Any) -> None:
    from sealbook.merkle.cosignature import mldsa44_message

    stated = checkpoint(tree, 20)
    message = mldsa44_message(cosigner="w.example", timestamp=0, origin=ORIGIN, start=0, end=20, root=stated.root)
    line = SignatureLine("w.example", LATTICE.key.key_id, bytes(8) + LATTICE.sign(message))
    outcome = read(tree, Answer(200, "", lines_text([line]).encode()))
    assert isinstance(outcome, Unavailable)
    assert "timestamp 0" in outcome.reason


def test_a_size_we_can_prove_from_is_tried_again(tree: Any) -> None:
    assert read(tree, conflict(b"3\n")) == Stale(3)
    assert read(tree, conflict(b"20\n")) == Stale(20)
    assert read(tree, conflict(b"9\n", "Text/X.tlog.size; charset=utf-8")) == Stale(9)
    # A size that was only assumed, and never cosigned, is no promise of the witness's.
    assert read(tree, conflict(b"3\n"), old_size=9, cosigned_size=3) == Stale(3)


ALARMS = {
    AlarmKind.AHEAD: (conflict(b"99\n"), {}),
    AlarmKind.WENT_BACKWARDS: (conflict(b"3\n"), {"cosigned_size": 7}),
    AlarmKind.FORKED: (conflict(b"20\n"), {"old_size": 20}),
    AlarmKind.SIZE_UNKNOWN: (conflict(b"", ""), {}),
    AlarmKind.PROOF_REFUSED: (Answer(422, TEXT_MEDIA_TYPE, b"no\n"), {}),
}


@pytest.mark.parametrize("kind", AlarmKind)
def test_a_contradiction_is_an_alarm_with_its_evidence(tree: Any, kind: AlarmKind) -> None:
    answer, given = ALARMS[kind]
    outcome = read(tree, answer, **given)
    assert isinstance(outcome, Alarm)
    assert outcome.kind is kind
    asked = request(tree, given.get("old_size", 7), 20)
    evidence = outcome.evidence
    assert (evidence.origin, evidence.at, evidence.held) == (ORIGIN, NOW, asked.checkpoint)
    assert (evidence.request, evidence.answer) == (asked.encode(), answer.body)
    assert Evidence.decode(evidence.encode()) == evidence


NO_SIZES = (
    *(b"7", b"07\n", b"+7\n", b"-7\n", b" 7\n", b"7 \n", b"7\r\n", b"7\n\n"),
    *(b"\n", b"x\n", b"\xd9\xa7\n", b"9" * 20 + b"\n", b"\xff\n"),
)


@pytest.mark.parametrize("text", NO_SIZES)
def test_a_409_whose_size_cannot_be_read_is_an_alarm(tree: Any, text: bytes) -> None:
    outcome = read(tree, conflict(text))
    assert isinstance(outcome, Alarm)
    assert outcome.kind is AlarmKind.SIZE_UNKNOWN


def test_a_409_of_another_media_type_is_an_alarm(tree: Any) -> None:
    outcome = read(tree, conflict(b"3\n", TEXT_MEDIA_TYPE))
    assert isinstance(outcome, Alarm)
    assert outcome.kind is AlarmKind.SIZE_UNKNOWN


def test_a_409_that_names_the_size_we_named_is_not_tried_again(tree: Any) -> None:
    assert isinstance(read(tree, conflict(b"7\n")), Unavailable)


@pytest.mark.parametrize("status", [201, 204, 301, 400, 403, 404, 405, 413, 421, 429, 500, 502, 503])
def test_every_other_status_means_later(tree: Any, status: int) -> None:
    outcome = read(tree, Answer(status, "text/html", b"<html>\r\n"))
    assert isinstance(outcome, Unavailable)
    assert outcome.status == status
    assert outcome.reason.isprintable()


def test_evidence_that_was_not_written_by_us_is_refused() -> None:
    for data in (b"", b"[]", b"{}", b'{"held": "x"}', b"\xff", b'{"held": 3, "request": "", "answer": ""}'):
        with pytest.raises(Malformed):
            Evidence.decode(data)


def test_split_views_are_found_pairwise_and_only_at_one_size_of_one_origin(tree: Any, fork: Any) -> None:
    seen = [
        checkpoint(tree, 20),
        checkpoint(tree, 20),
        checkpoint(fork, 20),
        checkpoint(fork, 21),
        checkpoint(tree, 12),
        checkpoint(fork, 12),
        checkpoint(fork, 20, "example.com/other"),
    ]
    assert split_views(seen) == [(seen[0], seen[2])]
    third = Checkpoint(ORIGIN, 20, bytes(32))
    assert len(split_views([*seen, third])) == 3


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**63 - 1), st.lists(st.binary(min_size=32, max_size=32), max_size=4), st.binary(max_size=30))
def test_every_request_that_can_be_made_is_read_as_it_was_written(
    old_size: int, proof: list[bytes], stated: bytes
) -> None:
    asked = AddCheckpoint(old_size, tuple(proof), stated)
    assert AddCheckpoint.parse(asked.encode()) == asked


@pytest.mark.parametrize(
    ("old_size", "proof"), [(-1, ()), (2**63, ()), (0, (bytes(31),)), (1, (bytes(32),) * 64)]
)  # fmt: skip
def test_a_request_that_has_no_body_cannot_be_made(old_size: int, proof: tuple[bytes, ...]) -> None:
    with pytest.raises(Malformed):
        AddCheckpoint(old_size, proof, b"")


def test_a_tree_grown_by_one_log_satisfies_a_witness_at_every_size(grow: Any) -> None:
    tree = grow(0)
    state: WitnessState | None = None
    for size in range(1, 34):
        new = added(tree.size, [leaf_hash(b"%d" % size)], tree.read)
        tree.nodes.update(new)
        tree.size += 1
        state = cosigned(ask(request(tree, size - 1, size), state))
    assert state is not None
    assert state.checkpoint.size == 33
