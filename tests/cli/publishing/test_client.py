"""One conversation: catch-up, and everything that may stand at a witness's address instead of a witness."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing
from publishing_world import NOW, Witness, over, refused, witness
from witness_world import GrowingLog

from sealbook.cli.publishing.client import SERVED_BYTES_MAX, CosignatureRequest, Heard, Transport, converse
from sealbook.merkle.cosignature import cosign
from sealbook.merkle.keys import Algorithm, NoteSigner, SignatureLine
from sealbook.merkle.note import Note, lines_text, sign_text
from sealbook.merkle.witness import Answer
from sealbook.merkle.witness_client import (
    ANSWER_BYTES_MAX,
    TRIES_MAX,
    Alarm,
    AlarmKind,
    Cosigned,
    Outcome,
    Unavailable,
)

SIZE = 12
FOREIGN = NoteSigner.from_seed("w1", Algorithm.ED25519_COSIGNATURE, b"\x77" * 32)  # the same name, another key


def asked(log: GrowingLog, size: int = SIZE) -> CosignatureRequest:
    return CosignatureRequest(Note.parse(log.note(size)), (log.signer.key,), log._read)


def ask(
    log: GrowingLog, found: Witness, *, size: int = 0, cosigned: int = 0, through: Transport | None = None
) -> Heard:
    async def main() -> Heard:
        transport = through or over([found])
        return await converse(
            asked(log),
            found.address,
            size=size,
            cosigned_size=cosigned,
            transport=transport,
            clock=lambda: NOW,
        )

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.fixture
def log() -> GrowingLog:
    return GrowingLog()


@pytest.fixture
def w1(log: GrowingLog) -> Witness:
    return witness("w1", log.trusted)


def answering(answer: Answer | Callable[[bytes], Answer]) -> Callable[[bytes], Awaitable[Answer]]:
    async def script(body: bytes) -> Answer:
        return answer(body) if callable(answer) else answer

    return script


# --- the size a witness remembers -----------------------------------------------------------------------------------


def test_the_first_contact_is_one_request_from_size_0(log: GrowingLog, w1: Witness) -> None:
    heard = ask(log, w1)
    assert isinstance(heard.outcome, Cosigned)
    assert (heard.size, [request.old_size for request in w1.requests]) == (SIZE, [0])


def test_growth_is_proved_from_the_size_that_we_remember(log: GrowingLog, w1: Witness) -> None:
    w1.decide(log.request(0, 9))
    assert isinstance(ask(log, w1, size=9, cosigned=9).outcome, Cosigned)
    assert [request.proof for request in w1.requests] == [log.proof(9, SIZE)]


@pytest.mark.parametrize("remembered", [0, 3, 11])
def test_after_a_409_the_proof_is_rebuilt_from_the_witness_s_size(
    log: GrowingLog, w1: Witness, remembered: int
) -> None:
    w1.decide(log.request(0, 9))
    assert isinstance(ask(log, w1, size=remembered).outcome, Cosigned)
    assert [request.old_size for request in w1.requests] == [remembered, 9]


def test_a_size_that_keeps_moving_is_given_up_after_three_requests(log: GrowingLog, w1: Witness) -> None:
    sizes = iter(range(1, 10))
    w1.script = answering(lambda body: refused(409, f"{next(sizes)}\n".encode(), "text/x.tlog.size"))
    heard = ask(log, w1)
    assert heard.outcome == Unavailable(409, "another size after each of 3 requests")
    assert (len(w1.requests), heard.size) == (TRIES_MAX, 3)


def test_what_was_cosigned_and_not_heard_is_caught_up(log: GrowingLog, w1: Witness) -> None:
    w1.decide(log.request(0, SIZE))
    assert isinstance(ask(log, w1, size=0).outcome, Cosigned)


# --- alarms ---------------------------------------------------------------------------------------------------------


def kind_of(outcome: Outcome) -> AlarmKind:
    assert isinstance(outcome, Alarm)
    return outcome.kind


def test_a_witness_that_remembers_more_than_we_have_is_an_alarm_with_its_note(log: GrowingLog, w1: Witness) -> None:
    w1.decide(log.request(0, 30))
    heard = ask(log, w1, size=9)
    assert kind_of(heard.outcome) is AlarmKind.AHEAD
    assert w1.state is not None
    assert (heard.size, heard.served) == (30, w1.state.note)


def test_a_witness_that_serves_no_note_is_an_alarm_all_the_same(log: GrowingLog, w1: Witness) -> None:
    w1.decide(log.request(0, 30))
    w1.serves = False
    heard = ask(log, w1, size=9)
    assert (kind_of(heard.outcome), heard.served) == (AlarmKind.AHEAD, b"")


def test_a_witness_whose_size_we_only_believed_goes_on_from_its_own(log: GrowingLog, w1: Witness) -> None:
    w1.decide(log.request(0, 3))
    assert isinstance(ask(log, w1, size=9, cosigned=0).outcome, Cosigned)


def test_a_witness_below_a_size_that_it_cosigned_is_an_alarm(log: GrowingLog, w1: Witness) -> None:
    w1.decide(log.request(0, 3))
    assert kind_of(ask(log, w1, size=9, cosigned=9).outcome) is AlarmKind.WENT_BACKWARDS


@pytest.mark.parametrize("size", [9, SIZE])
def test_another_root_served_under_our_signature_is_an_alarm_of_a_fork(w1: Witness, size: int) -> None:
    log, fork = GrowingLog(), GrowingLog(forked=True)
    w1.decide(log.request(0, size))
    heard = ask(fork, w1, size=size)
    assert kind_of(heard.outcome) is AlarmKind.FORKED
    assert isinstance(heard.outcome, Alarm)
    assert f"remembers another root at size {size}" in heard.outcome.evidence.reason
    assert (heard.outcome.size, heard.size) == (size, size)


def test_a_fork_is_told_by_what_we_signed_and_by_nothing_else(w1: Witness) -> None:
    log, fork = GrowingLog(), GrowingLog(forked=True)
    w1.decide(log.request(0, 9))
    assert w1.state is not None
    text, _, lines = w1.state.note.partition(b"\n\n")
    w1.state = replace(w1.state, note=text + b"\n\n" + lines.split(b"\n", 1)[1])  # without our line
    assert kind_of(ask(fork, w1, size=9).outcome) is AlarmKind.PROOF_REFUSED


def test_a_witness_that_refuses_our_proof_and_serves_nothing_is_an_alarm(w1: Witness) -> None:
    log, fork = GrowingLog(), GrowingLog(forked=True)
    w1.decide(log.request(0, 9))
    w1.serves = False
    heard = ask(fork, w1, size=9)
    assert kind_of(heard.outcome) is AlarmKind.PROOF_REFUSED
    assert isinstance(heard.outcome, Alarm)
    assert heard.outcome.evidence.held == fork.note(SIZE)
    assert len(w1.requests) == 1, "no retry"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused(409, b"", ""), AlarmKind.SIZE_UNKNOWN),  # as omniwitness answers a fork
        (refused(409, b"12\n", "text/plain"), AlarmKind.SIZE_UNKNOWN),
        (refused(409, b"12", "text/x.tlog.size"), AlarmKind.SIZE_UNKNOWN),
        (refused(409, b"+3\n", "text/x.tlog.size"), AlarmKind.SIZE_UNKNOWN),
        (refused(409, b"03\n", "text/x.tlog.size"), AlarmKind.SIZE_UNKNOWN),
        (refused(409, "٣\n".encode(), "text/x.tlog.size"), AlarmKind.SIZE_UNKNOWN),
        (refused(409, b"9223372036854775808\n", "text/x.tlog.size"), AlarmKind.SIZE_UNKNOWN),
        (refused(409, b"3\nmore\n", "text/x.tlog.size"), AlarmKind.SIZE_UNKNOWN),
        (refused(409, b"99\n", "text/x.tlog.size"), AlarmKind.AHEAD),
        (refused(409, b"99\n", "Text/X.tlog.size; charset=utf-8"), AlarmKind.AHEAD),
        (refused(422, b""), AlarmKind.PROOF_REFUSED),
    ],
)
def test_a_contradiction_is_an_alarm_whatever_its_form(
    log: GrowingLog, w1: Witness, answer: Answer, kind: AlarmKind
) -> None:
    w1.script = answering(answer)
    assert kind_of(ask(log, w1, size=3).outcome) is kind
    assert len(w1.requests) == 1


# --- answers that are no use, and speak against nobody --------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 405, 408, 413, 418, 429, 500, 502, 503, 204])
def test_any_other_answer_is_try_later(log: GrowingLog, w1: Witness, status: int) -> None:
    w1.script = answering(refused(status, b"what\x00ever\xff", "text/html"))
    heard = ask(log, w1, size=3)
    assert isinstance(heard.outcome, Unavailable)
    assert (heard.outcome.status, len(w1.requests)) == (status, 1)


def line(log: GrowingLog, signer: NoteSigner, *, size: int = SIZE, at: int = NOW) -> bytes:
    return lines_text([cosign(log.checkpoint(size).text(), at, signer)]).encode()


def bad_answers(log: GrowingLog, signer: NoteSigner) -> dict[str, bytes]:
    good = line(log, signer)
    return {
        "empty": b"",
        "only newlines": b"\n\n\n",
        "garbage": b"\x00\xff\xfe" * 100,
        "html": b"<html>200 OK</html>\n",
        "another checkpoint's signature": line(log, signer, size=SIZE - 1),
        "another log's signature": line(GrowingLog("other.example/log"), signer),
        "a fork's signature": line(GrowingLog(forked=True), signer),
        "a future timestamp": line(log, signer, at=NOW + 301),
        "a timestamp beyond all": line(log, signer, at=2**63 - 1),
        "a foreign key of the same name": line(log, FOREIGN),
        "a plain note signature": lines_text([sign_text(log.checkpoint(SIZE).text(), log.signer)]).encode(),
        "the log's own line sent back": lines_text(Note.parse(log.note(SIZE)).lines).encode(),
        "a flipped bit": good[:-6] + bytes([good[-6] ^ 1]) + good[-5:],
        "cut off": good[:-20],
        "carriage returns": good.replace(b"\n", b"\r\n"),
        "a whole note": log.note(SIZE),
        "huge": good + b"x" * ANSWER_BYTES_MAX,
    }


@pytest.mark.parametrize("name", bad_answers(GrowingLog(), FOREIGN))
def test_a_200_without_a_cosignature_of_ours_is_try_later(log: GrowingLog, w1: Witness, name: str) -> None:
    w1.script = answering(Answer(200, "text/plain", bad_answers(log, w1.signers[0])[name]))
    heard = ask(log, w1, size=3)
    assert isinstance(heard.outcome, Unavailable)
    assert (heard.size, len(w1.requests)) == (3, 1)


@pytest.mark.parametrize(
    "name", [name for name in bad_answers(GrowingLog(), FOREIGN) if name not in ("huge", "garbage")]
)
def test_a_good_line_counts_whatever_stands_beside_it(log: GrowingLog, w1: Witness, name: str) -> None:
    bad = bad_answers(log, w1.signers[0])[name]
    w1.script = answering(Answer(200, "text/plain", bad + b"\n" + line(log, w1.signers[0])))
    heard = ask(log, w1)
    assert isinstance(heard.outcome, Cosigned)
    (signature,) = heard.outcome.signatures
    assert (signature.key, signature.timestamp) == (w1.signers[0].key, NOW)


def test_a_transport_that_fails_is_try_later(log: GrowingLog, w1: Witness) -> None:
    w1.down = True
    assert ask(log, w1, size=3).outcome == Unavailable(0, "connection refused")


def test_what_a_charged_witness_serves_may_be_anything(log: GrowingLog, w1: Witness) -> None:
    w1.decide(log.request(0, 30))
    text = log.checkpoint(30).text()
    long = Note(text, tuple(SignatureLine("x", number.to_bytes(4), bytes(2428)) for number in range(60))).encode()
    assert len(long) > SERVED_BYTES_MAX
    for body in (b"", b"\xff", b"no note\n", long):

        async def through(url: str, sent: bytes | None, body: bytes = body) -> Any:
            return Answer(200, "", body) if sent is None else await w1.post(sent)

        heard = ask(log, w1, size=9, through=through)
        assert (kind_of(heard.outcome), heard.served) == (AlarmKind.AHEAD, b"")
