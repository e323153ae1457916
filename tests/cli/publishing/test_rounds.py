"""All witnesses at once: nobody waits for another, and a slow one is left behind. Time is simulated."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from publishing_world import NOW, Witness, over, witness
from witness_world import GrowingLog

from sealbook.cli.publishing.client import SERVED_SECONDS_MAX, CosignatureRequest, Transport
from sealbook.cli.publishing.memory import KnownWitness
from sealbook.cli.publishing.rounds import CONVERSATION_SECONDS_MAX, SURPLUS_SECONDS_MAX, Report, run_round
from sealbook.journal import Corrupt
from sealbook.merkle.note import Note
from sealbook.merkle.tree import Reader
from sealbook.merkle.witness import Answer
from sealbook.merkle.witness_client import Alarm, AlarmKind, Cosigned, Unavailable


def slow(found: Witness, seconds: float) -> Witness:
    async def script(body: bytes) -> Answer:
        await trio.sleep(seconds)
        return found.decide(body)

    found.script = script
    return found


def run(
    log: GrowingLog,
    *witnesses: Witness,
    quorum: int = 99,
    read: Reader | None = None,
    through: Transport | None = None,
) -> tuple[list[Report], float]:
    """The reports, and how long the round took."""

    async def main() -> tuple[list[Report], float]:
        begun = trio.current_time()
        reports = await run_round(
            CosignatureRequest(Note.parse(log.note(12)), (log.signer.key,), read or log._read),
            [(each.address, KnownWitness(size=9)) for each in witnesses],
            transport=through or over(witnesses),
            clock=lambda: NOW,
            enough=lambda keys: len(keys) >= quorum,
        )
        return reports, trio.current_time() - begun

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.fixture
def log() -> GrowingLog:
    return GrowingLog()


def made(log: GrowingLog, count: int) -> list[Witness]:
    found = [witness(f"w{number}", log.trusted) for number in range(count)]
    for each in found:
        each.decide(log.request(0, 9))
    return found


def test_witnesses_are_asked_side_by_side(log: GrowingLog) -> None:
    reports, seconds = run(log, *(slow(each, 10) for each in made(log, 5)))
    assert all(isinstance(report.heard.outcome, Cosigned) for report in reports)
    assert seconds == pytest.approx(10)


def test_a_witness_that_does_not_answer_is_left_behind(log: GrowingLog) -> None:
    w0, w1 = made(log, 2)
    reports, seconds = run(log, slow(w0, 1e9), w1)
    assert [report.address for report in reports] == [w0.address, w1.address]
    assert reports[0].heard.outcome == Unavailable(0, "it took too long")
    assert reports[0].heard.size == 9
    assert isinstance(reports[1].heard.outcome, Cosigned)
    assert seconds == pytest.approx(CONVERSATION_SECONDS_MAX)


def test_once_the_quorum_is_met_the_others_have_a_little_longer(log: GrowingLog) -> None:
    w0, w1, w2, w3 = made(log, 4)
    reports, seconds = run(log, slow(w0, 1), slow(w1, 2), slow(w2, 2 + SURPLUS_SECONDS_MAX - 1), slow(w3, 25), quorum=2)
    assert [isinstance(report.heard.outcome, Cosigned) for report in reports] == [True, True, True, False]
    assert seconds == pytest.approx(2 + SURPLUS_SECONDS_MAX)


def test_an_alarm_is_heard_although_the_witness_never_says_what_it_serves(log: GrowingLog) -> None:
    w0, w1, w2 = made(log, 3)
    w2.decide(log.request(9, 30))
    answers = over([w0, w1, w2])

    async def silent(url: str, body: bytes | None) -> Answer:
        if body is None:
            await trio.sleep_forever()
        return await answers(url, body)

    reports, seconds = run(log, w0, w1, slow(w2, SURPLUS_SECONDS_MAX - 1), quorum=2, through=silent)
    outcome = reports[2].heard.outcome
    assert isinstance(outcome, Alarm)
    assert (outcome.kind, reports[2].heard.served) == (AlarmKind.AHEAD, b"")
    assert seconds == pytest.approx(SURPLUS_SECONDS_MAX - 1 + SERVED_SECONDS_MAX)


def test_a_store_that_cannot_prove_is_not_the_witness_s_fault(log: GrowingLog) -> None:
    def read(nodes: object) -> list[bytes]:
        raise Corrupt("a node is missing")

    with pytest.raises(Corrupt, match="a node is missing"):
        run(log, *made(log, 2), read=read)


def test_a_round_of_nobody_ends_at_once(log: GrowingLog) -> None:
    assert run(log) == ([], 0)
