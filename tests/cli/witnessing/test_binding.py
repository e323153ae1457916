"""A state belongs to the keys that signed out of it, and they to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from witness_world import NAME, ORIGIN, GrowingLog

from sealbook.cli.witnessing.binding import SERVING_LOCK, StateRefused, open_state, read_state, served_alone
from sealbook.cli.witnessing.cosigner import Cosigner
from sealbook.journal import Journal
from sealbook.journal.errors import Corrupt, ReadOnly, StoreMissing, UnknownVersion, WrongFormat
from sealbook.journal.keys.public_halves import KeyRefused, Purpose
from sealbook.journal.keys.ring import Key, Keyring


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    ring = Keyring(tmp_path / "keys")
    ring.generate(Purpose.WITNESS, NAME, created=0)
    return ring


def cosigner(ring: Keyring, name: str = NAME) -> Cosigner:
    return Cosigner.of_ring(ring, name)


Sign = Callable[..., None]


@pytest.fixture
def sign(log: GrowingLog) -> Sign:
    """Let the witness cosign, out of the state in a folder."""

    def signed(folder: Path, ring: Keyring, old: int, size: int, *, anew: bool = False) -> None:
        with open_state(folder, cosigner(ring), anew=anew) as state:
            (decision,) = state.decide([log.submission(old, size)])
            assert decision.answer.status == 200, decision.answer

    return signed


def the_key(ring: Keyring) -> Key:
    (key,) = ring.signing(Purpose.WITNESS, NAME)
    return key


def test_the_first_start_makes_the_state_and_the_next_ones_go_on(tmp_path: Path, ring: Keyring, sign: Sign) -> None:
    with open_state(tmp_path / "s", cosigner(ring)):
        assert not the_key(ring).signed, "it is marked when it signs"
    sign(tmp_path / "s", ring, 0, 3)
    assert the_key(ring).signed
    sign(tmp_path / "s", ring, 3, 4)


def test_a_key_that_never_signed_may_begin_again(tmp_path: Path, ring: Keyring, sign: Sign) -> None:
    open_state(tmp_path / "s", cosigner(ring)).close()
    shutil.rmtree(tmp_path / "s")
    sign(tmp_path / "s", ring, 0, 3)


@pytest.mark.parametrize("anew", [False, True])
def test_a_key_that_has_signed_does_not_start_without_its_state(
    tmp_path: Path, ring: Keyring, sign: Sign, anew: bool
) -> None:
    sign(tmp_path / "s", ring, 0, 3)
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(StateRefused, match="missing"):
        open_state(tmp_path / "s", cosigner(ring), anew=anew)
    assert not (tmp_path / "s").exists()


def test_after_a_loss_a_new_key_begins_anew_when_that_is_asked_for(tmp_path: Path, ring: Keyring, sign: Sign) -> None:
    sign(tmp_path / "s", ring, 0, 3)
    shutil.rmtree(tmp_path / "s")
    ring.rotate(NAME, created=1)
    with pytest.raises(StateRefused, match="missing"):
        open_state(tmp_path / "s", cosigner(ring), anew=True)
    ring.finish_rotation(NAME)
    with pytest.raises(StateRefused, match="new-state"):
        open_state(tmp_path / "s", cosigner(ring))
    sign(tmp_path / "s", ring, 0, 1, anew=True)


def test_of_two_states_begun_with_one_key_one_cosigns_and_the_other_never(
    tmp_path: Path, ring: Keyring, log: GrowingLog, fork: GrowingLog
) -> None:
    with open_state(tmp_path / "a", cosigner(ring)) as first, open_state(tmp_path / "b", cosigner(ring)) as last:
        with pytest.raises(KeyRefused, match="signs out of another state"):
            first.decide([log.submission(0, 3)])
        assert not the_key(ring).signed
        assert last.decide([fork.submission(0, 3)])[0].answer.status == 200
        with pytest.raises(KeyRefused, match="signs out of another state"):
            first.decide([log.submission(3, 4)])
    with pytest.raises(KeyRefused, match="signs out of another state"):
        open_state(tmp_path / "a", cosigner(ring))
    open_state(tmp_path / "b", cosigner(ring)).close()


def test_a_key_that_has_signed_returns_to_no_state_that_only_knew_it_once(
    tmp_path: Path, ring: Keyring, sign: Sign
) -> None:
    sign(tmp_path / "a", ring, 0, 3)
    ring.rotate(NAME, created=1)
    open_state(tmp_path / "a", cosigner(ring)).close()  # it knows the new key by now
    ring.finish_rotation(NAME)
    sign(tmp_path / "b", ring, 0, 2, anew=True)
    with pytest.raises(KeyRefused, match="signs out of another state"):
        open_state(tmp_path / "a", cosigner(ring))
    sign(tmp_path / "b", ring, 2, 3)


def test_a_key_serves_in_one_process_at_a_time(tmp_path: Path, ring: Keyring) -> None:
    elsewhere = Keyring(ring.folder)
    refused = pytest.raises(KeyRefused, match="another `witness serve` runs with it")
    with ring.serving(NAME), refused, elsewhere.serving(NAME):
        raise AssertionError("both serve")
    with elsewhere.serving(NAME):
        pass


def test_a_state_that_exists_is_not_begun_anew(tmp_path: Path, ring: Keyring) -> None:
    open_state(tmp_path / "s", cosigner(ring)).close()
    with pytest.raises(StateRefused, match="exists"):
        open_state(tmp_path / "s", cosigner(ring), anew=True)


def test_a_state_that_does_not_know_the_key_is_refused(tmp_path: Path, ring: Keyring, sign: Sign) -> None:
    sign(tmp_path / "s", ring, 0, 3)
    elsewhere = Keyring(tmp_path / "elsewhere")
    elsewhere.generate(Purpose.WITNESS, NAME, created=0)
    sign(tmp_path / "other", elsewhere, 0, 2)
    for folder, keys in ((tmp_path / "other", ring), (tmp_path / "s", elsewhere)):
        with pytest.raises(StateRefused, match="not out of this state"):
            open_state(folder, cosigner(keys))


def test_a_copy_from_before_the_first_cosignature_is_refused(tmp_path: Path, ring: Keyring, sign: Sign) -> None:
    open_state(tmp_path / "s", cosigner(ring)).close()
    shutil.copytree(tmp_path / "s", tmp_path / "old")
    sign(tmp_path / "s", ring, 0, 3)
    with pytest.raises(StateRefused, match="older copy"):
        open_state(tmp_path / "old", cosigner(ring))


def test_a_new_key_joins_the_state_during_a_rotation_and_goes_on_after_it(
    tmp_path: Path, ring: Keyring, sign: Sign
) -> None:
    sign(tmp_path / "s", ring, 0, 3)
    ring.rotate(NAME, created=1)
    assert len(cosigner(ring).signers) == 2
    sign(tmp_path / "s", ring, 3, 4)
    ring.finish_rotation(NAME)
    assert len(cosigner(ring).signers) == 1
    sign(tmp_path / "s", ring, 4, 5)
    with read_state(tmp_path / "s") as state:
        assert [each.checkpoint.size for each in state.states()] == [5]


def test_a_state_has_one_name_for_ever(tmp_path: Path, ring: Keyring) -> None:
    open_state(tmp_path / "s", cosigner(ring)).close()
    ring.generate(Purpose.WITNESS, "another.example", created=0)
    with pytest.raises(StateRefused, match=r"witness\.example"):
        open_state(tmp_path / "s", cosigner(ring, "another.example"))


def test_a_journal_is_no_state_and_a_state_no_journal(tmp_path: Path, ring: Keyring) -> None:
    Journal.open(tmp_path / "j", create=True).close()
    with pytest.raises(WrongFormat):
        open_state(tmp_path / "j", cosigner(ring))
    open_state(tmp_path / "s", cosigner(ring)).close()
    with pytest.raises(WrongFormat):
        Journal.open(tmp_path / "s", create=True)
    with pytest.raises(StoreMissing):
        read_state(tmp_path / "nothing")


def test_data_of_another_state_is_damage(tmp_path: Path, ring: Keyring) -> None:
    for name in ("a", "b"):
        open_state(tmp_path / name, cosigner(ring)).close()
    shutil.copy(tmp_path / "a" / "data.mdb", tmp_path / "b" / "data.mdb")
    with pytest.raises(Corrupt, match="two different states"):
        open_state(tmp_path / "b", cosigner(ring))


def test_a_damaged_identity_is_damage_and_a_newer_one_is_not(tmp_path: Path, ring: Keyring) -> None:
    open_state(tmp_path / "s", cosigner(ring)).close()
    identity = tmp_path / "s" / "SEALBOOK"
    text = identity.read_bytes()
    identity.write_bytes(text.replace(b"name witness", b"name Witness"))
    with pytest.raises(Corrupt):
        open_state(tmp_path / "s", cosigner(ring))
    identity.write_bytes(text.replace(b"sealbook witness 1", b"sealbook witness 2"))
    with pytest.raises(UnknownVersion):
        open_state(tmp_path / "s", cosigner(ring))


def test_a_state_is_served_by_one_at_a_time_and_read_by_others_beside_it(tmp_path: Path, ring: Keyring) -> None:
    folder = tmp_path / "s"
    open_state(folder, cosigner(ring)).close()
    with served_alone(folder):
        with pytest.raises(StateRefused, match="another `witness serve` runs on it"), served_alone(folder):
            pass
        with read_state(folder) as state:
            assert list(state.states()) == []
    with served_alone(folder):
        assert (folder / SERVING_LOCK).stat().st_mode & 0o777 == 0o600


def test_a_state_is_read_and_its_logs_disabled_beside_a_server(
    tmp_path: Path, ring: Keyring, log: GrowingLog, sign: Sign
) -> None:
    sign(tmp_path / "s", ring, 0, 3)
    with read_state(tmp_path / "s") as state, pytest.raises(ReadOnly):
        state.disable(ORIGIN)
    with read_state(tmp_path / "s", readonly=False) as state:
        state.disable(ORIGIN)
    with open_state(tmp_path / "s", cosigner(ring)) as state:
        (decision,) = state.decide([log.submission(3, 4)])
        assert decision.answer.status == 404
