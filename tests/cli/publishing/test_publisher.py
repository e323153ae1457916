"""A turn: what is signed, who is asked, what is published, and what stops it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import trio
from publishing_world import BASE, NOW, Witness, World, policy, refused, rules

from sealbook.cli.publishing.publisher import NOBODY, Publisher, PublishingRules, PublishingState, Turn
from sealbook.cli.publishing.signing import LogSigner
from sealbook.journal import Busy, Journal, NotFound
from sealbook.journal.deciding.log.promises import PublishedAhead, PublishedDiffers
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.encoding import parse_base64
from sealbook.merkle.note import Note, open_checkpoint
from sealbook.merkle.witness import Answer, Evidence, WitnessState


def turn(publisher: Publisher, found: PublishingRules) -> Turn:
    return trio.run(publisher.turn, found)


def published_note(world: World) -> Note:
    data = world.tenant.published_checkpoint()
    assert data is not None
    return Note.parse(data)


def signed_size(world: World) -> int:
    kept = world.tenant.signed_checkpoint()
    return 0 if kept is None else kept.checkpoint.size


# --- what is published ----------------------------------------------------------------------------------------------


def test_a_log_is_published_with_the_cosignatures_of_its_quorum(world: World) -> None:
    w1, w2 = world.witness("w1"), world.witness("w2", both=True)
    done = turn(world.publisher(w1, w2), rules(policy(w1, w2, quorum=3)))
    assert (done.state, done.size, done.cosigners, done.failures) == (
        PublishingState.PUBLISHED,
        3,
        ("w1", "w2", "w2-1"),
        {},
    )
    opened = open_checkpoint(
        published_note(world).encode(),
        origin=BASE,
        log_keys=world.keys,
        cosigner_keys=[*w1.address.keys, *w2.address.keys],
    )
    assert opened.checkpoint == world.tenant.checkpoint()
    assert len(opened.cosignatures) == 3
    assert len(w2.requests) == 1, "one request for two keys"


def test_without_a_policy_the_log_signature_alone_is_published(world: World) -> None:
    done = turn(world.publisher(), rules(NOBODY))
    assert (done.state, done.cosigners) == (PublishingState.PUBLISHED, ())
    assert len(published_note(world).lines) == 1


def test_surplus_cosignatures_are_kept(world: World) -> None:
    w1, spare = world.witness("w1"), world.witness("spare")
    done = turn(world.publisher(w1, spare), rules(policy(w1, quorum=1, optional=(spare,))))
    assert done.cosigners == ("w1", "spare")
    assert len(published_note(world).lines) == 3


def test_only_the_log_s_own_lines_are_sent(world: World) -> None:
    w1, w2 = world.witness("w1"), world.witness("w2")
    w2.down = True
    publisher, found = world.publisher(w1, w2), rules(policy(w1, w2, quorum=2), patient=False)
    turn(publisher, found)
    turn(publisher, found)
    for request in (*w1.requests, *w2.requests):
        assert [line.name for line in Note.parse(request.checkpoint).lines] == [BASE]


def test_an_empty_log_is_not_signed(tmp_path: Path) -> None:
    with Journal.in_memory(origin=BASE) as journal:
        world = World(tmp_path, journal)
        w1 = world.witness("w1")
        assert turn(world.publisher(w1), rules(policy(w1, quorum=1))).state is PublishingState.EMPTY
        assert (w1.requests, signed_size(world)) == ([], 0)


def test_a_log_without_a_key_is_refused(tmp_path: Path) -> None:
    with Journal.in_memory(origin=BASE) as journal:
        world = World(tmp_path, journal)
        world.grow(1)
        w1 = world.witness("w1")
        world.ring = Keyring(tmp_path / "others")
        world.ring.generate(Purpose.LOG, "other", created=0)
        with pytest.raises(NotFound, match=BASE):
            turn(world.publisher(w1), rules(policy(w1, quorum=1)))


# --- the quorum -----------------------------------------------------------------------------------------------------


def test_without_its_quorum_nothing_is_published_and_the_head_before_stays(world: World) -> None:
    w1, w2 = world.witness("w1"), world.witness("w2")
    publisher, found = world.publisher(w1, w2), rules(policy(w1, w2, quorum=2), patient=False)
    assert turn(publisher, found).state is PublishingState.PUBLISHED
    world.grow(2)
    w2.down = True
    done = turn(publisher, found)
    assert (done.state, done.size, done.cosigners) == (PublishingState.WAITING, 5, ("w1",))
    assert done.failures == {"w2": "connection refused"}
    assert (world.published(), signed_size(world)) == (3, 5)


def test_a_checkpoint_that_waits_is_retried_at_its_size_before_a_newer_one_is_signed(world: World) -> None:
    w1, w2 = world.witness("w1"), world.witness("w2")
    publisher, found = world.publisher(w1, w2), rules(policy(w1, w2, quorum=2), patient=False)
    w2.down = True
    turn(publisher, found)
    world.grow(2)
    done = turn(publisher, found)
    assert (done.state, done.size, done.unsigned, signed_size(world)) == (PublishingState.WAITING, 3, 5, 3)
    w2.down = False
    done = turn(publisher, found)
    assert (done.state, done.size) == (PublishingState.PUBLISHED, 5)
    assert world.tenant.published_sizes(0) == [3, 5]


def test_cosignatures_of_different_turns_make_one_quorum(world: World) -> None:
    w1, w2 = world.witness("w1"), world.witness("w2")
    publisher, found = world.publisher(w1, w2), rules(policy(w1, w2, quorum=2), patient=False)
    w2.down = True
    assert turn(publisher, found).state is PublishingState.WAITING
    w1.down, w2.down = True, False
    done = turn(publisher, found)
    assert (done.state, done.cosigners) == (PublishingState.PUBLISHED, ("w1", "w2"))


def test_two_lines_of_one_key_count_once(world: World) -> None:
    w1, w2 = world.witness("w1"), world.witness("w2")

    async def twice(body: bytes) -> Answer:
        answer = w1.decide(body)
        return Answer(answer.status, answer.media_type, answer.body * 2)

    w1.script, w2.down = twice, True
    done = turn(world.publisher(w1, w2), rules(policy(w1, w2, quorum=2)))
    assert (done.state, done.cosigners) == (PublishingState.WAITING, ("w1",))


def test_failing_open_publishes_and_says_so(world: World) -> None:
    w1 = world.witness("w1")
    w1.down = True
    publisher, found = world.publisher(w1), rules(policy(w1, quorum=1), fail_open=True, patient=False)
    assert turn(publisher, found).state is PublishingState.WITHOUT_QUORUM
    kept = world.tenant.signed_checkpoint()
    assert kept is not None
    assert kept.without_quorum
    world.grow(1)
    assert (turn(publisher, found).state, world.published()) == (PublishingState.WITHOUT_QUORUM, 4)
    w1.down = False
    assert turn(publisher, found).state is PublishingState.PUBLISHED
    kept = world.tenant.signed_checkpoint()
    assert kept is not None
    assert not kept.without_quorum


# --- who is asked, and when -----------------------------------------------------------------------------------------


def test_nothing_is_asked_while_nothing_changes(world: World) -> None:
    w1 = world.witness("w1")
    publisher, found = world.publisher(w1), rules(policy(w1, quorum=1), refresh=3600)
    turn(publisher, found)
    world.now += 3599
    assert turn(publisher, found).state is PublishingState.UNCHANGED
    assert len(w1.requests) == 1


def test_an_idle_log_is_cosigned_anew_when_the_cosignature_is_old(world: World) -> None:
    w1 = world.witness("w1")
    publisher, found = world.publisher(w1), rules(policy(w1, quorum=1), refresh=3600)
    turn(publisher, found)
    world.now += 3600
    w1.now = world.now
    assert turn(publisher, found).state is PublishingState.PUBLISHED
    assert world.memory.known()[w1.url].cosigned_at == world.now
    assert (w1.requests[-1].old_size, w1.requests[-1].proof) == (3, ())


def test_runs_go_on_while_a_witness_is_asked(world: World) -> None:
    w1 = world.witness("w1")

    async def slow(body: bytes) -> Answer:
        world.grow(2)  # before it has answered
        return w1.decide(body)

    w1.script = slow
    done = turn(world.publisher(w1), rules(policy(w1, quorum=1)))
    assert (done.state, done.size, world.tenant.checkpoint().size) == (PublishingState.PUBLISHED, 3, 5)


def test_a_witness_that_failed_is_left_alone_for_ever_longer_and_nobody_else_is(world: World) -> None:
    w1, w2 = world.witness("w1"), world.witness("w2")
    w2.down = True
    publisher, found = world.publisher(w1, w2), rules(policy(w1, quorum=1, optional=(w2,)))
    asked_at = []
    for _ in range(20):
        before = len(w2.requests)
        turn(publisher, found)
        if len(w2.requests) > before:
            asked_at.append(world.now)
        world.now += 30
    assert [after - before for before, after in itertools.pairwise(asked_at)] == [30, 60, 120, 240]
    assert len(w1.requests) == 1


def test_a_witness_that_is_back_has_no_failures_any_more(world: World) -> None:
    w1 = world.witness("w1")
    w1.down = True
    publisher, found = world.publisher(w1), rules(policy(w1, quorum=1), patient=False)
    turn(publisher, found)
    turn(publisher, found)
    known = world.memory.known()[w1.url]
    assert (known.failures, known.failed_at, known.failure) == (2, NOW, "connection refused")
    w1.down = False
    turn(publisher, found)
    known = world.memory.known()[w1.url]
    assert (known.failures, known.failed_at, known.failure, known.cosigned) == (0, None, None, 3)


def test_a_witness_that_cosigns_with_one_of_its_keys_is_asked_for_the_other(world: World) -> None:
    w1 = world.witness("w1", both=True)

    async def one_line(body: bytes) -> Answer:
        answer = w1.decide(body)
        return Answer(200, answer.media_type, answer.body.splitlines(keepends=True)[0])

    w1.script = one_line
    publisher, found = world.publisher(w1), rules(policy(w1, quorum=1))
    done = turn(publisher, found)
    assert (done.state, done.cosigners) == (PublishingState.PUBLISHED, ("w1",))
    assert done.failures == {"w1, w1-1": "no cosignature of w1-1"}
    w1.script = None
    world.now += 30
    w1.now = world.now
    assert turn(publisher, found).cosigners == ("w1", "w1-1")


def test_a_witness_that_is_added_later_is_asked_for_the_same_size(world: World) -> None:
    w1, w2 = world.witness("w1"), world.witness("w2")
    publisher = world.publisher(w1, w2)
    turn(publisher, rules(policy(w1, quorum=1)))
    assert turn(publisher, rules(policy(w1, w2, quorum=2))).cosigners == ("w1", "w2")
    assert len(w1.requests) == 1


def test_a_witness_with_other_memory_is_caught_up(world: World) -> None:
    w1 = world.witness("w1")
    publisher, found = world.publisher(w1), rules(policy(w1, quorum=1))
    turn(publisher, found)
    (world.memory.folder / "memory").unlink()
    world.grow(4)
    assert (turn(publisher, found).state, w1.size) == (PublishingState.PUBLISHED, 7)


def test_a_rotation_goes_on_with_both_keys_and_then_with_the_new_one(world: World) -> None:
    w1 = world.witness("w1")
    publisher, found = world.publisher(w1), rules(policy(w1, quorum=1))
    turn(publisher, found)
    world.ring.rotate(BASE, created=1)
    assert turn(publisher, found).state is PublishingState.UNCHANGED
    kept = world.tenant.signed_checkpoint()
    assert kept is not None
    assert kept.note is not None
    assert sum(line.name == BASE for line in kept.note.lines) == 2
    world.ring.finish_rotation(BASE)
    w1.log = world.trusted
    world.grow(1)
    assert turn(world.publisher(w1), found).state is PublishingState.PUBLISHED
    open_checkpoint(published_note(world).encode(), origin=BASE, log_keys=world.keys)


def test_another_publisher_of_the_same_log_waits_outside(world: World) -> None:
    with world.memory.held(), pytest.raises(Busy):
        turn(world.publisher(), rules(NOBODY))


# --- what must never be signed --------------------------------------------------------------------------------------


def restored(world: World, folder: Path) -> World:
    """A log of two other leaves under the same origin and keys: the store was put back and went on differently."""
    world.journal = Journal.in_memory(origin=BASE)
    world.grow(2, word="other")
    return world


def test_an_older_store_is_refused_by_its_keys_even_if_nothing_is_to_be_signed(world: World, tmp_path: Path) -> None:
    turn(world.publisher(), rules(NOBODY))
    with pytest.raises(PublishedAhead, match="size 2 is not signed, because size 3 had been signed"):
        turn(restored(world, tmp_path).publisher(), rules(NOBODY))


def test_an_older_store_that_grew_again_is_refused_by_its_keys(world: World, tmp_path: Path) -> None:
    turn(world.publisher(), rules(NOBODY))
    restored(world, tmp_path).grow(5, word="other")
    with pytest.raises(PublishedDiffers):
        turn(world.publisher(), rules(NOBODY))


# A publisher that was killed between its key's promise and the commit that keeps the signature.


def cut_off(world: World, checkpoint: Checkpoint) -> None:
    LogSigner(world.ring, BASE).sign(checkpoint, lambda published: True)


@pytest.mark.parametrize("witnessed", [True, False])
def test_a_signing_that_was_cut_off_is_gone_on_with(world: World, witnessed: bool) -> None:
    w1 = world.witness("w1")
    found = rules(policy(w1, quorum=1)) if witnessed else rules(NOBODY)
    turn(world.publisher(w1), found)
    world.grow(1)
    cut_off(world, world.tenant.checkpoint())
    world.grow(2)
    done = turn(world.publisher(w1), found)
    assert (done.state, done.size, world.tenant.published_sizes(0)) == (PublishingState.PUBLISHED, 6, [3, 4, 6])


def test_a_first_signing_that_was_cut_off_is_gone_on_with(world: World) -> None:
    w1 = world.witness("w1")
    cut_off(world, world.tenant.checkpoint())
    world.grow(2)
    done = turn(world.publisher(w1), rules(policy(w1, quorum=1)))
    assert (done.state, world.tenant.published_sizes(0)) == (PublishingState.PUBLISHED, [3, 5])


def test_a_signing_that_was_cut_off_is_gone_on_with_by_the_next_key(world: World) -> None:
    w1 = world.witness("w1")
    found = rules(policy(w1, quorum=1))
    turn(world.publisher(w1), found)
    world.grow(1)
    cut_off(world, world.tenant.checkpoint())
    world.grow(2)
    world.ring.rotate(BASE, created=1)
    world.ring.finish_rotation(BASE)
    w1.log = world.trusted
    assert turn(world.publisher(w1), found).state is PublishingState.PUBLISHED
    assert world.tenant.published_sizes(0) == [3, 4, 6]


def test_after_an_interrupted_signing_the_next_key_waits_for_the_witnesses(
    world: World,
) -> None:
    w1 = world.witness("w1")
    found = rules(policy(w1, quorum=1), patient=False)
    turn(world.publisher(w1), found)
    world.grow(1)
    cut_off(world, world.tenant.checkpoint())
    world.grow(2)
    world.ring.rotate(BASE, created=1)
    world.ring.finish_rotation(BASE)
    w1.log, w1.down = world.trusted, True
    done = turn(world.publisher(w1), found)
    assert (done.state, done.size, done.unsigned) == (PublishingState.WAITING, 4, 6)
    assert signed_size(world) == 4, "which the key before had promised"
    assert [promise.size for promise in LogSigner(world.ring, BASE).promises()] == [4, 4]


def test_a_key_that_remembers_less_than_the_store_signs_on_beside_it(world: World) -> None:
    w1 = world.witness("w1")
    found = rules(policy(w1, quorum=1))
    turn(world.publisher(w1), found)
    before = {path: path.read_bytes() for path in world.ring.folder.glob("*/*") if path.is_file()}
    world.grow(2)
    turn(world.publisher(w1), found)
    world.grow(1)
    for path, data in before.items():
        path.write_bytes(data)
    assert [promise.size for promise in LogSigner(world.ring, BASE).promises()] == [3]
    assert (turn(world.publisher(w1), found).state, world.published()) == (PublishingState.PUBLISHED, 6)


def test_a_larger_promise_the_log_does_not_begin_with_is_refused_before_any_request(world: World) -> None:
    w1 = world.witness("w1")
    found = rules(policy(w1, quorum=1))
    turn(world.publisher(w1), found)
    cut_off(world, Checkpoint(BASE, 4, bytes(32)))
    world.grow(3)
    with pytest.raises(PublishedDiffers, match="size 4 had been signed"):
        turn(world.publisher(w1), found)
    assert len(w1.requests) == 1


def forget_promises(world: World) -> None:
    """The keys as they were before they signed, as if they had been put back together with the store."""
    (key,) = world.ring.keys()
    pem = next(world.ring.folder.glob("*/*.pem")).read_bytes()
    world.ring = Keyring(world.folder / "old-keys")
    world.ring.import_private(Purpose.LOG, key.name, pem, created=0, tenant="default", never_signed=True)


def test_an_older_store_is_refused_by_the_memory_of_its_witnesses(world: World, tmp_path: Path) -> None:
    w1 = world.witness("w1")
    turn(world.publisher(w1), rules(policy(w1, quorum=1)))
    memory = world.memory
    forget_promises(world)
    publisher = restored(world, tmp_path).publisher(w1)
    publisher.memory = memory
    world.grow(9, word="other")
    with pytest.raises(PublishedAhead, match="size 3 had been signed"):
        turn(publisher, rules(policy(w1, quorum=1)))
    assert signed_size(world) == 0


def test_with_everything_put_back_a_witness_that_knows_more_stops_the_signing(world: World, tmp_path: Path) -> None:
    w1 = world.witness("w1")
    found = rules(policy(w1, quorum=1))
    turn(world.publisher(w1), found)
    world.grow(2)
    ahead = w1.state
    ahead_size = 5
    turn(world.publisher(w1), found)
    later = w1.state
    assert (ahead is not later, w1.size) == (True, ahead_size)

    old = World(tmp_path / "yesterday", Journal.in_memory(origin=BASE))  # other keys: their lines the witness trusts
    w1.log = type(w1.log)(BASE, (*world.keys, *old.keys))
    w1.state = None
    old.grow(3)
    turn(old.publisher(w1), found)
    w1.state = later
    old.grow(9, word="other")
    signed = old.tenant.signed_checkpoint()
    done = turn(old.publisher(w1), found)
    assert (done.state, done.size) == (PublishingState.STOPPED, 3)
    assert done.stop is not None
    (charge,) = done.stop.charges
    assert (charge.kind, charge.url) == ("AHEAD", w1.url)
    assert signed_size(old) == 3, "nothing newer was signed"
    assert signed is not None
    members = json.loads(Path(charge.evidence).read_bytes())
    served = Note.parse(parse_base64("served", members["served"]))
    assert Checkpoint.parse(served.text).size == ahead_size, "the note that was signed elsewhere is kept"
    again = turn(old.publisher(w1), found)
    assert (again.state, signed_size(old)) == (PublishingState.STOPPED, 3)


def test_after_a_start_nothing_new_is_signed_before_a_quorum_has_answered(world: World) -> None:
    w1 = world.witness("w1")
    found = rules(policy(w1, quorum=1), patient=False)
    turn(world.publisher(w1), found)
    world.grow(2)
    w1.down = True
    publisher = world.publisher(w1)
    done = turn(publisher, found)
    assert (done.state, done.size, done.unsigned, signed_size(world)) == (PublishingState.WAITING, 3, 5, 3)
    w1.down = False
    assert turn(publisher, found).size == 5


def test_who_fails_open_or_needs_nobody_signs_even_if_nobody_answers(world: World) -> None:
    w1 = world.witness("w1")
    w1.down = True
    turn(world.publisher(w1), rules(NOBODY))
    world.grow(1)
    assert turn(world.publisher(w1), rules(NOBODY)).size == 4
    world.grow(1)
    assert turn(world.publisher(w1), rules(policy(w1, quorum=1), fail_open=True)).size == 5


# --- alarms ---------------------------------------------------------------------------------------------------------


def stopped_by(world: World, *witnesses: Witness) -> list[dict[str, str]]:
    """The evidence of the alarms that stop the next turn."""
    done = turn(world.publisher(*witnesses), rules(policy(*witnesses, quorum=1), patient=False))
    assert done.state is PublishingState.STOPPED
    assert done.stop is not None
    assert world.memory.stopped() == done.stop
    return [json.loads(Path(charge.evidence).read_bytes()) for charge in done.stop.charges]


def test_a_fork_stops_publishing_although_the_quorum_is_met(world: World, tmp_path: Path) -> None:
    w1, w2 = world.witness("w1"), world.witness("w2")
    fork = World(tmp_path / "fork", Journal.in_memory(origin=BASE))
    fork.grow(3, word="other")
    w2.log = fork.trusted
    turn(fork.publisher(w2), rules(policy(w2, quorum=1)))
    w2.log = world.trusted
    (evidence,) = stopped_by(world, w1, w2)
    assert evidence["kind"] == "PROOF_REFUSED", "the other history is under another key"
    assert world.published() is None
    kept = world.tenant.signed_checkpoint()
    assert kept is not None
    assert kept.note is not None
    assert len(kept.note.lines) == 2, "what the other witness said is kept"
    found = Evidence.decode(json.dumps(evidence).encode())
    ours, theirs = Note.parse(found.held), Note.parse(parse_base64("served", evidence["served"]))
    one, other = Checkpoint.parse(ours.text), Checkpoint.parse(theirs.text)
    assert (one.size, one.root != other.root) == (other.size, True), "the two notes of one size"


def test_a_witness_that_went_backwards_stops_publishing(world: World) -> None:
    w1 = world.witness("w1")
    turn(world.publisher(w1), rules(policy(w1, quorum=1)))
    w1.state = None
    world.grow(1)
    (evidence,) = stopped_by(world, w1)
    assert evidence["kind"] == "WENT_BACKWARDS"
    convicting = Note.parse(parse_base64("cosigned", evidence["cosigned"]))
    assert [line.name for line in convicting.lines] == [BASE, "w1"]


@pytest.mark.parametrize("media_type", ["", "text/plain", "text/x.tlog.size.else"])
def test_a_conflict_without_a_size_stops_publishing(world: World, media_type: str) -> None:
    w1 = world.witness("w1")

    async def conflict(body: bytes) -> Answer:
        return refused(409, b"3\n", media_type)

    w1.script = conflict
    (evidence,) = stopped_by(world, w1)
    assert evidence["kind"] == "SIZE_UNKNOWN"


def test_a_log_that_is_stopped_asks_and_signs_nothing_until_it_is_resolved(world: World) -> None:
    w1 = world.witness("w1")
    found = rules(policy(w1, quorum=1), patient=False)
    turn(world.publisher(w1), found)
    before = w1.state
    w1.state = None
    stopped_by_turn = turn(world.publisher(w1), found)
    world.grow(1)
    stopped_by(world, w1)
    asked = len(w1.requests)
    assert turn(world.publisher(w1), found).state is PublishingState.STOPPED
    assert (len(w1.requests), signed_size(world)) == (asked, 3)
    assert stopped_by_turn.state is PublishingState.STOPPED
    w1.state = before
    world.memory.resolve(at=world.now)
    assert turn(world.publisher(w1), found).state is PublishingState.PUBLISHED
    assert world.published() == 4


def test_what_is_resolved_and_not_settled_stops_again(world: World, tmp_path: Path) -> None:
    w1 = world.witness("w1")
    fork = World(tmp_path / "fork", Journal.in_memory(origin=BASE))
    fork.grow(3, word="other")
    w1.log = fork.trusted
    turn(fork.publisher(w1), rules(policy(w1, quorum=1)))
    w1.log = world.trusted
    stopped_by(world, w1)
    world.memory.resolve(at=world.now)
    stopped_by(world, w1)


# --- killed in between ----------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours handles it."""


@pytest.mark.parametrize("step", ["signed", "cosigned", "kept", "remembered"])
def test_a_turn_that_is_cut_off_anywhere_is_gone_on_with(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    w1 = world.witness("w1")
    found = rules(policy(w1, quorum=1), patient=False)
    turn(world.publisher(w1), found)
    world.grow(2)
    publisher = world.publisher(w1)

    def killed(*_: object, **__: object) -> object:
        raise Killed

    if step == "signed":
        monkeypatch.setattr(type(w1), "post", killed)
    elif step == "cosigned":
        monkeypatch.setattr(type(world.tenant), "keep_cosignatures", killed)
    elif step == "kept":
        monkeypatch.setattr(type(publisher.memory), "keep", killed)
    else:
        monkeypatch.setattr(type(world.tenant), "publish_checkpoint", killed)
    with pytest.raises((Killed, BaseExceptionGroup)):
        turn(publisher, found)
    monkeypatch.undo()
    assert world.published() == 3
    assert turn(world.publisher(w1), found).state is PublishingState.PUBLISHED
    assert world.published() == 5
    assert isinstance(w1.state, WitnessState)
    assert w1.state.checkpoint == world.tenant.checkpoint()
