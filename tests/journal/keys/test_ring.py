"""Keys are made, kept and rotated, and no key signs what contradicts what it has signed."""

from __future__ import annotations

import base64
import os
import pickle
import random
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from sealbook.journal import Busy, Corrupt, InvalidInput, Journal, NotFound, Refused, UnknownVersion, entries
from sealbook.journal.keys import pkcs8, private_files
from sealbook.journal.keys import ring as rings
from sealbook.journal.keys.private_files import PathRefused
from sealbook.journal.keys.public_halves import (
    KeyRefused,
    Purpose,
    WrongPassphrase,
    name_folder,
    private_path,
    public_path,
    published_path,
)
from sealbook.journal.keys.ring import Key, Keyring, KeyState, Published
from sealbook.journal.records.signatures import verify_signature
from sealbook.journal.schema.origins import OriginsCoincide, tenant_origin, tenant_origins
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import cosign, verify_cosignature
from sealbook.merkle.errors import Malformed
from sealbook.merkle.hashing import EMPTY_ROOT
from sealbook.merkle.keys import Algorithm, NoteSigner, private_key_text
from sealbook.merkle.note import Note, open_note

SEED = 20261129
NOW = 1_795_939_200_000  # 2026-11-29T08:00:00Z
ORIGIN = "example.com/journal"
PASSPHRASE = b"correct horse battery staple"
MLDSA = Algorithm.MLDSA44_COSIGNATURE


def always(published: Published) -> bool:
    return True


def never(published: Published) -> bool:
    return False


def unasked(published: Published) -> bool:
    raise AssertionError(f"asked about size {published.size}")


def checkpoint(size: int, branch: str = "", origin: str = ORIGIN) -> Checkpoint:
    """A checkpoint of some log: its root depends on size and branch."""
    return Checkpoint(origin, size, sha256(f"{size}{branch}".encode()).digest() if size else EMPTY_ROOT)


@pytest.fixture
def random_bytes() -> Callable[[int], bytes]:
    return random.Random(SEED).randbytes


@pytest.fixture
def ring(tmp_path: Path, random_bytes: Callable[[int], bytes]) -> Keyring:
    return Keyring(tmp_path / "keys", random=random_bytes)


@pytest.fixture
def log_key(ring: Keyring) -> Key:
    return ring.generate(Purpose.LOG, ORIGIN, created=NOW, tenant="default")


@pytest.fixture(scope="session", autouse=True)
def fewer_rounds() -> Iterator[None]:
    """A passphrase costs a quarter of a second; what is tested here does not depend on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pkcs8, "PBKDF2_ROUNDS", 1000)
        yield


def again(ring: Keyring) -> Keyring:
    """The ring as another process sees it."""
    return Keyring(ring.folder)


def modes(folder: Path) -> dict[str, int]:
    return {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in (folder, *sorted(folder.rglob("*")))
        if path.suffix != ".pub"
    }


# --- making and finding ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("purpose", "algorithm"),
    [
        (Purpose.RECORD, Algorithm.ED25519),
        (Purpose.LOG, Algorithm.ED25519),
        (Purpose.WITNESS, Algorithm.ED25519_COSIGNATURE),
        (Purpose.WITNESS, MLDSA),
    ],
)
def test_a_key_is_found_again_as_it_was_made(ring: Keyring, purpose: Purpose, algorithm: Algorithm) -> None:
    made = ring.generate(purpose, "some.name/x", created=NOW, algorithm=algorithm)
    assert again(ring).keys() == again(ring).find("some.name/x") == again(ring).find(made.id) == (made,)
    assert (made.created, made.generation, made.state, made.signed) == (NOW, 1, KeyState.ACTIVE, False)


def test_a_ring_that_was_never_used_has_no_keys_and_makes_no_folder(ring: Keyring) -> None:
    assert ring.keys() == ()
    with pytest.raises(NotFound):
        ring.find("nobody")
    assert not ring.folder.exists()


@pytest.mark.parametrize("umask", [0, 0o777])
def test_private_files_and_folders_are_the_owners_alone_whatever_the_umask(ring: Keyring, umask: int) -> None:
    before = os.umask(umask)
    try:
        ring.generate(Purpose.LOG, ORIGIN, created=NOW)
        ring.sign_checkpoint(checkpoint(1), consistent=unasked)
        ring.export_private(ring.find(ORIGIN)[0], ring.folder / "copy.pem")
    finally:
        os.umask(before)
    found = modes(ring.folder)
    assert {name: mode for name, mode in found.items() if mode & 0o077} == {}
    assert sum(name.endswith((".pem", ".published")) and mode == 0o600 for name, mode in found.items()) == 4


def test_a_folder_or_private_half_that_others_may_read_is_refused(ring: Keyring, log_key: Key) -> None:
    private_path(ring.folder, log_key).chmod(0o640)
    with pytest.raises(PathRefused, match="others may read it: chmod 600"):
        ring.sign_checkpoint(checkpoint(1), consistent=unasked)
    ring.folder.chmod(0o750)
    with pytest.raises(PathRefused, match="others may read it: chmod 700"):
        Keyring(ring.folder)


def test_a_ring_inside_a_store_is_refused(tmp_path: Path) -> None:
    Journal.open(tmp_path / "store", create=True).close()
    for folder in (tmp_path / "store", tmp_path / "store" / "a" / "keys"):
        with pytest.raises(PathRefused, match="inside the store"):
            Keyring(folder)
    (tmp_path / "link").symlink_to(tmp_path / "store")
    with pytest.raises(PathRefused, match="inside the store"):
        Keyring(tmp_path / "link" / "keys")
    assert Keyring(tmp_path / "beside").keys() == ()


def test_a_file_in_the_place_of_the_ring_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("x")
    with pytest.raises(InvalidInput, match="is not a folder"):
        Keyring(tmp_path / "keys")


@pytest.mark.parametrize("name", ["", "two words", "a+b", "x" * 256, "tab\t", "\udc80"])
@pytest.mark.parametrize("purpose", Purpose)
def test_a_name_that_cannot_stand_in_a_note_names_no_key(ring: Keyring, purpose: Purpose, name: str) -> None:
    with pytest.raises(InvalidInput):
        ring.generate(purpose, name, created=NOW)
    assert not ring.folder.exists()


def test_names_that_look_alike_on_disk_stand_apart(ring: Keyring) -> None:
    made = {ring.generate(Purpose.WITNESS, name, created=NOW) for name in ("a/b", "a_b", "A/B", "ä/b", "..", "a" * 255)}
    assert set(again(ring).keys()) == made
    assert all(path.parent.parent == ring.folder for path in ring.folder.rglob("*.pem"))


# --- one name, one purpose -----------------------------------------------------------------------------------------


def test_a_name_serves_one_purpose(ring: Keyring, log_key: Key) -> None:
    with pytest.raises(KeyRefused, match="a name serves one purpose"):
        ring.generate(Purpose.WITNESS, ORIGIN, created=NOW)


def test_a_name_that_has_a_key_is_rotated_instead(ring: Keyring, log_key: Key) -> None:
    with pytest.raises(KeyRefused, match="rotate it"):
        ring.generate(Purpose.LOG, ORIGIN, created=NOW, tenant="default")
    assert ring.keys() == (log_key,)


@pytest.mark.parametrize(
    ("purpose", "name", "algorithm"),
    [(Purpose.LOG, "w", MLDSA), (Purpose.RECORD, "w", MLDSA), (Purpose.WITNESS, "w", Algorithm.ED25519)],
)
def test_a_purpose_has_its_own_algorithms(ring: Keyring, purpose: Purpose, name: str, algorithm: Algorithm) -> None:
    with pytest.raises(KeyRefused, match="has no algorithm"):
        ring.generate(purpose, name, created=NOW, algorithm=algorithm)


def test_a_key_in_the_ring_is_refused_under_every_other_name_and_purpose(ring: Keyring, tmp_path: Path) -> None:
    key = ring.generate(Purpose.RECORD, "worker-1", created=NOW)
    ring.export_private(key, tmp_path / "out.pem")
    pem = (tmp_path / "out.pem").read_bytes()
    for purpose, name in [(Purpose.RECORD, "worker-2"), (Purpose.LOG, ORIGIN), (Purpose.WITNESS, "w.example")]:
        with pytest.raises(KeyRefused, match=r"stands in the ring already, as the record key worker-1\+"):
            ring.import_private(purpose, name, pem, created=NOW, never_signed=True)
    assert ring.keys() == (key,)


def test_an_origin_that_two_tenants_of_two_bases_would_share_is_refused(ring: Keyring) -> None:
    origin = tenant_origin("example.com", "journal")
    assert origin == tenant_origin("example.com/journal", "default")
    ring.generate(Purpose.LOG, origin, created=NOW, tenant="journal")
    with pytest.raises(OriginsCoincide, match="tenant journal and tenant default would share it"):
        ring.generate(Purpose.LOG, origin, created=NOW, tenant="default")


def test_every_tenant_has_an_origin_of_its_own() -> None:
    origins = tenant_origins("example.com/log", ["default", "acme", "b"])
    assert origins == {"default": "example.com/log", "acme": "example.com/log/acme", "b": "example.com/log/b"}


# --- private halves ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [Algorithm.ED25519, MLDSA])
@pytest.mark.parametrize("passphrase", [None, PASSPHRASE, "pass wört".encode()])
def test_private_halves_are_pkcs8_that_others_read(algorithm: Algorithm, passphrase: bytes | None) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    seed = random.Random(SEED).randbytes(32)
    pem = pkcs8.encode(algorithm, seed, passphrase, bytes(16), bytes(16))
    assert load_pem_private_key(pem, passphrase).private_bytes_raw() == seed  # type: ignore[union-attr]
    assert pkcs8.is_protected(pem) is (passphrase is not None)
    assert pkcs8.decode(pem, passphrase, "k") == (seed, algorithm is MLDSA)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on PATH")
def test_openssl_opens_a_protected_private_half(tmp_path: Path) -> None:
    (tmp_path / "k.pem").write_bytes(pkcs8.encode(Algorithm.ED25519, bytes(range(32)), b"secret", b"s" * 16, b"i" * 16))
    command = ["openssl", "pkey", "-in", str(tmp_path / "k.pem"), "-passin", "pass:secret", "-outform", "DER"]
    assert subprocess.run(command, capture_output=True, check=True).stdout.endswith(bytes(range(32)))


def test_a_passphrase_is_needed_and_must_be_the_right_one(ring: Keyring) -> None:
    key = ring.generate(Purpose.WITNESS, "w.example", created=NOW, passphrase=PASSPHRASE)
    assert ring.is_protected(key)
    for passphrase, reason in ((None, "none was given"), (b"wrong", "does not open"), (b"", "none was given")):
        with pytest.raises(WrongPassphrase, match=reason) as caught:
            again(ring).witness_signers("w.example", passphrase=passphrase)
        assert "\n" not in str(caught.value)
    (signer,) = again(ring).witness_signers("w.example", passphrase=PASSPHRASE)
    assert signer.key == key.verifier


def test_an_empty_passphrase_is_refused(ring: Keyring) -> None:
    with pytest.raises(WrongPassphrase, match="an empty passphrase protects nothing"):
        ring.generate(Purpose.WITNESS, "w.example", created=NOW, passphrase=b"")
    assert ring.keys() == ()


def test_a_passphrase_for_a_key_that_has_none_is_not_looked_at(ring: Keyring, log_key: Key) -> None:
    assert len(ring.sign_checkpoint(checkpoint(1), consistent=unasked, passphrase=b"whatever")) == 1


def test_a_private_half_that_is_damaged_missing_or_anothers_is_corrupt(ring: Keyring, log_key: Key) -> None:
    other = ring.generate(Purpose.RECORD, "worker-1", created=NOW)
    path = private_path(ring.folder, log_key)
    private_files.write_file(path, private_path(ring.folder, other).read_bytes(), 0o600)
    with pytest.raises(Corrupt, match="of another key"):
        ring.sign_checkpoint(checkpoint(1), consistent=unasked)
    private_files.write_file(path, b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0o600)
    with pytest.raises(Corrupt, match="is damaged"):
        ring.sign_checkpoint(checkpoint(1), consistent=unasked)
    path.unlink()
    with pytest.raises(Corrupt, match="is missing"):
        ring.sign_checkpoint(checkpoint(1), consistent=unasked)
    assert ring.published(log_key) is None


def test_every_byte_of_a_public_half_is_checked(ring: Keyring, log_key: Key) -> None:
    path = public_path(ring.folder, log_key)
    text = path.read_bytes()
    for position in range(len(text)):
        path.write_bytes(text[:position] + bytes([text[position] ^ 1]) + text[position + 1 :])
        with pytest.raises((Corrupt, UnknownVersion)):
            ring.keys()
    path.write_bytes(text[:-1])
    with pytest.raises(Corrupt):
        ring.keys()
    path.write_bytes(text)
    assert ring.keys() == (log_key,)


def test_a_public_half_in_another_place_is_corrupt(ring: Keyring, log_key: Key) -> None:
    path = public_path(ring.folder, log_key)
    path.rename(path.with_name("00000000.pub"))
    with pytest.raises(Corrupt, match="stands elsewhere"):
        ring.keys()


def test_a_newer_builds_key_is_not_called_damaged(ring: Keyring, log_key: Key) -> None:
    public_path(ring.folder, log_key).write_bytes(b"sealbook key 2\nnew things\n")
    with pytest.raises(UnknownVersion):
        ring.keys()


def test_seeds_stand_in_private_halves_and_nowhere_else(ring: Keyring, tmp_path: Path) -> None:
    seeds: list[bytes] = []

    def drawn(count: int) -> bytes:
        seeds.append(random.Random(len(seeds)).randbytes(count))
        return seeds[-1]

    ring = Keyring(ring.folder, random=drawn)
    made = [
        ring.generate(Purpose.RECORD, "worker-1", created=NOW),
        ring.generate(Purpose.LOG, ORIGIN, created=NOW),
        ring.generate(Purpose.WITNESS, "w", created=NOW, passphrase=PASSPHRASE),
        ring.generate(Purpose.WITNESS, "w", created=NOW, algorithm=MLDSA),
    ]
    ring.sign_checkpoint(checkpoint(1), consistent=unasked)
    said = [
        repr(ring),
        repr(made),
        repr(ring.record_signer("worker-1")),
        repr(ring.log_signers(ORIGIN, consistent=never)),
    ]
    said.append(repr(ring.witness_signers("w", passphrase=PASSPHRASE)))
    said.append(repr(vars(ring)))
    for make in (
        lambda: ring.generate(Purpose.LOG, ORIGIN, created=NOW),
        lambda: again(ring).witness_signers("w"),
        lambda: again(ring).witness_signers("w", passphrase=b"no"),
        lambda: ring.sign_checkpoint(checkpoint(1, "other"), consistent=never),
        lambda: ring.import_private(Purpose.RECORD, "x", b"junk", created=NOW),
    ):
        with pytest.raises(Refused) as caught:
            make()
        said.append(f"{caught.value!s} {caught.value!r}")
    public = [path for path in ring.folder.rglob("*") if path.is_file() and path.suffix != ".pem"]
    for text in (*(text.encode() for text in said), *(path.read_bytes() for path in public)):
        for seed in seeds:
            for form in (seed, seed.hex().encode(), base64.b64encode(seed)[:40], repr(seed)[2:-1].encode()):
                assert form not in text
    protected = private_path(ring.folder, made[2]).read_bytes()
    assert all(
        seed not in base64.b64decode(b"".join(protected.split(b"\n")[1:-2])) for seed in seeds if len(seed) == 32
    )


# --- signers -------------------------------------------------------------------------------------------------------


def test_records_are_signed_by_a_key_of_the_ring(ring: Keyring) -> None:
    key = ring.generate(Purpose.RECORD, "worker-1", created=NOW)
    journal = Journal.in_memory(signer=ring.record_signer("worker-1"))
    (record,) = journal.tenant().append("r", [entries.admitted()], epoch=1)
    assert record.signer == key.signer_id
    assert record.signature is not None
    assert verify_signature(key.public_key, record.hash, record.signature)


def test_a_witness_cosigns_with_the_keys_of_both_algorithms(ring: Keyring) -> None:
    for algorithm in rings.ALGORITHMS[Purpose.WITNESS]:
        ring.generate(Purpose.WITNESS, "w.example", created=NOW, algorithm=algorithm)
    signers = ring.witness_signers("w.example")
    assert [signer.key.algorithm for signer in signers] == [Algorithm.ED25519_COSIGNATURE, MLDSA]
    for signer in signers:
        line = cosign(checkpoint(3).text(), 1_000, signer)
        assert verify_cosignature(signer.key, checkpoint(3).text(), line.signature) == 1_000


def test_a_checkpoint_is_signed_by_the_logs_key(ring: Keyring, log_key: Key) -> None:
    lines = ring.sign_checkpoint(checkpoint(7), consistent=unasked)
    (signature,) = open_note(Note(checkpoint(7).text(), tuple(lines)), [log_key.verifier])
    assert signature.key == log_key.verifier
    assert ring.published(log_key) == checkpoint(7)


def test_a_key_signs_for_its_own_purpose_alone(ring: Keyring, log_key: Key) -> None:
    with pytest.raises(NotFound):
        ring.record_signer(ORIGIN)
    with pytest.raises(NotFound):
        ring.witness_signers(ORIGIN)
    with pytest.raises(NotFound):
        ring.sign_checkpoint(checkpoint(1, origin="example.com/other"), consistent=unasked)


def test_a_logs_signer_signs_checkpoints_and_nothing_else(ring: Keyring, log_key: Key) -> None:
    (signer,) = ring.log_signers(ORIGIN, consistent=never)
    with pytest.raises(Malformed):
        signer.sign(b"anything")
    with pytest.raises(KeyRefused, match=r"does not sign checkpoints of 'example\.com/other'"):
        signer.sign(checkpoint(1, origin="example.com/other").text().encode())
    assert ring.published(log_key) is None


# --- rotation ------------------------------------------------------------------------------------------------------


def test_both_keys_sign_until_the_rotation_is_finished(ring: Keyring, log_key: Key) -> None:
    (new,) = ring.rotate(ORIGIN, created=NOW + 1)
    both = ring.sign_checkpoint(checkpoint(1), consistent=unasked)
    assert [line.key_id for line in both] == [new.verifier.key_id, log_key.verifier.key_id]
    assert len(open_note(Note(checkpoint(1).text(), tuple(both)), [log_key.verifier, new.verifier])) == 2
    (retired,) = ring.finish_rotation(ORIGIN)
    assert (retired.id, retired.state) == (log_key.id, KeyState.RETIRED)
    (line,) = ring.sign_checkpoint(checkpoint(2), consistent=always)
    assert line.key_id == new.verifier.key_id
    assert [(key.generation, key.state) for key in ring.find(ORIGIN)] == [(1, KeyState.RETIRED), (2, KeyState.ACTIVE)]
    assert ring.find(ORIGIN)[1].tenant == "default"
    assert ring.finish_rotation(ORIGIN) == ()


def test_a_retired_key_is_refused_even_to_who_holds_its_signer(ring: Keyring, log_key: Key) -> None:
    (signer,) = ring.log_signers(ORIGIN, consistent=always)
    ring.rotate(ORIGIN, created=NOW)
    ring.finish_rotation(ORIGIN)
    with pytest.raises(KeyRefused, match="it signs no more"):
        signer.sign(checkpoint(1).text().encode())


def test_a_second_rotation_waits_for_the_first(ring: Keyring, log_key: Key) -> None:
    ring.rotate(ORIGIN, created=NOW)
    with pytest.raises(KeyRefused, match="being rotated already"):
        ring.rotate(ORIGIN, created=NOW)
    ring.finish_rotation(ORIGIN)
    assert ring.rotate(ORIGIN, created=NOW)[0].generation == 3


def test_records_are_signed_by_the_new_key_at_once(ring: Keyring) -> None:
    old = ring.generate(Purpose.RECORD, "worker-1", created=NOW)
    (new,) = ring.rotate("worker-1", created=NOW)
    assert ring.record_signer("worker-1").public_key == new.public_key != old.public_key
    assert [key.state for key in ring.find("worker-1")] == [KeyState.RETIRED, KeyState.ACTIVE]
    assert ring.rotate("worker-1", created=NOW)[0].generation == 3


def test_a_rotation_keeps_the_passphrase(ring: Keyring) -> None:
    ring.generate(Purpose.WITNESS, "w", created=NOW, passphrase=PASSPHRASE)
    for wrong in (None, b"wrong"):
        with pytest.raises(WrongPassphrase):
            again(ring).rotate("w", created=NOW, passphrase=wrong)
    assert len(ring.keys()) == 1
    (new,) = again(ring).rotate("w", created=NOW, passphrase=PASSPHRASE)
    assert ring.is_protected(new)
    assert len(again(ring).witness_signers("w", passphrase=PASSPHRASE)) == 2


def test_one_algorithm_of_a_witness_is_rotated_alone(ring: Keyring) -> None:
    for algorithm in rings.ALGORITHMS[Purpose.WITNESS]:
        ring.generate(Purpose.WITNESS, "w", created=NOW, algorithm=algorithm)
    (new,) = ring.rotate("w", created=NOW, algorithm=MLDSA)
    assert new.algorithm is MLDSA
    assert [signer.key.algorithm for signer in ring.witness_signers("w")] == [
        Algorithm.ED25519_COSIGNATURE,
        MLDSA,
        MLDSA,
    ]


# --- what was signed -----------------------------------------------------------------------------------------------


def test_a_size_below_the_one_that_was_signed_is_refused_and_names_it(ring: Keyring, log_key: Key) -> None:
    ring.sign_checkpoint(checkpoint(100), consistent=unasked)
    with pytest.raises(rings.PublishedAhead, match="size 99 is not signed, because size 100 had been signed") as caught:
        ring.sign_checkpoint(checkpoint(99), consistent=unasked)
    assert (caught.value.origin, caught.value.size, caught.value.published_size) == (ORIGIN, 99, 100)
    with pytest.raises(rings.PublishedAhead):
        ring.sign_checkpoint(checkpoint(0), consistent=unasked)
    assert ring.published(log_key) == checkpoint(100)


def test_the_size_that_was_signed_is_refused_under_another_root(ring: Keyring, log_key: Key) -> None:
    first = ring.sign_checkpoint(checkpoint(100), consistent=unasked)
    with pytest.raises(rings.PublishedDiffers, match="size 100 had been signed under another root"):
        ring.sign_checkpoint(checkpoint(100, "other"), consistent=unasked)
    assert ring.sign_checkpoint(checkpoint(100), consistent=unasked) == first


def test_a_growth_is_signed_when_it_is_shown_consistent_and_refused_otherwise(ring: Keyring, log_key: Key) -> None:
    ring.sign_checkpoint(checkpoint(100), consistent=unasked)
    asked: list[Published] = []

    def refused(published: Published) -> bool:
        asked.append(published)
        return False

    with pytest.raises(rings.PublishedDiffers, match="size 100 had been signed and this log does not begin with it"):
        ring.sign_checkpoint(checkpoint(101), consistent=refused)
    assert asked == [checkpoint(100)]
    assert ring.published(log_key) == checkpoint(100)
    ring.sign_checkpoint(checkpoint(101), consistent=always)
    assert ring.published(log_key) == checkpoint(101)


def test_every_log_begins_with_the_empty_one(ring: Keyring, log_key: Key) -> None:
    ring.sign_checkpoint(checkpoint(0), consistent=unasked)
    ring.sign_checkpoint(checkpoint(5), consistent=unasked)
    assert ring.published(log_key) == checkpoint(5)


def test_an_error_while_consistency_is_shown_promises_nothing(ring: Keyring, log_key: Key) -> None:
    ring.sign_checkpoint(checkpoint(1), consistent=unasked)
    with pytest.raises(AssertionError):
        ring.sign_checkpoint(checkpoint(2), consistent=unasked)
    assert ring.published(log_key) == checkpoint(1)
    ring.sign_checkpoint(checkpoint(2), consistent=always)


def test_every_byte_of_a_promise_is_checked_and_damage_is_never_nothing(ring: Keyring, log_key: Key) -> None:
    ring.sign_checkpoint(checkpoint(7), consistent=unasked)
    path = published_path(private_path(ring.folder, log_key))
    text = path.read_bytes()
    damaged = [text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :] for at in range(len(text))]
    for data in (b"", text[:-1], text + b"\n", *damaged):
        path.write_bytes(data)
        with pytest.raises((Corrupt, UnknownVersion)):
            ring.sign_checkpoint(checkpoint(8), consistent=always)
        assert path.read_bytes() == data


def test_a_promise_that_is_missing_is_corrupt_once_the_key_has_signed(ring: Keyring, log_key: Key) -> None:
    ring.sign_checkpoint(checkpoint(7), consistent=unasked)
    path = published_path(private_path(ring.folder, log_key))
    path.unlink()
    with pytest.raises(Corrupt, match="is missing, and the key has signed"):
        ring.published(log_key)
    with pytest.raises(Corrupt, match="is missing, and the key has signed"):
        again(ring).sign_checkpoint(checkpoint(7), consistent=always)
    assert not path.exists()


def test_a_promise_of_another_log_is_corrupt(ring: Keyring, log_key: Key) -> None:
    other = ring.generate(Purpose.LOG, "example.com/other", created=NOW)
    ring.sign_checkpoint(checkpoint(7), consistent=unasked)
    ring.sign_checkpoint(checkpoint(9, origin="example.com/other"), consistent=unasked)
    theirs = published_path(private_path(ring.folder, other))
    published_path(private_path(ring.folder, log_key)).write_bytes(theirs.read_bytes())
    with pytest.raises(Corrupt, match="another log's key"):
        ring.sign_checkpoint(checkpoint(10), consistent=always)


def test_a_new_key_is_held_to_what_the_retired_one_has_signed(ring: Keyring, log_key: Key) -> None:
    ring.sign_checkpoint(checkpoint(100), consistent=unasked)
    (new,) = ring.rotate(ORIGIN, created=NOW)
    ring.finish_rotation(ORIGIN)
    assert ring.published(new) is None
    with pytest.raises(rings.PublishedAhead, match="size 100 had been signed"):
        ring.sign_checkpoint(checkpoint(99), consistent=unasked)
    with pytest.raises(rings.PublishedDiffers):
        ring.sign_checkpoint(checkpoint(100, "other"), consistent=unasked)
    ring.sign_checkpoint(checkpoint(101), consistent=always)
    assert ring.published(new) == checkpoint(101)


def test_a_promise_counts_when_the_public_half_of_its_key_is_gone(ring: Keyring, log_key: Key) -> None:
    ring.sign_checkpoint(checkpoint(100), consistent=unasked)
    public_path(ring.folder, log_key).unlink()
    ring.generate(Purpose.LOG, ORIGIN, created=NOW)
    with pytest.raises(rings.PublishedAhead, match="size 100 had been signed"):
        ring.sign_checkpoint(checkpoint(99), consistent=unasked)


def test_a_key_that_is_not_a_logs_promises_nothing(ring: Keyring) -> None:
    key = ring.generate(Purpose.WITNESS, "w", created=NOW)
    with pytest.raises(KeyRefused):
        ring.promise(key, checkpoint(1, origin="w"), consistent=always)


def test_a_witnesss_key_is_marked_once_it_has_signed(ring: Keyring, log_key: Key) -> None:
    key = ring.generate(Purpose.WITNESS, "w", created=NOW)
    ring.mark_signed(key)
    assert [each.signed for each in again(ring).find("w")] == [True]
    with pytest.raises(KeyRefused, match="when it promises"):
        ring.mark_signed(log_key)


def test_refusals_keep_their_values_through_a_pickle() -> None:
    error = pickle.loads(pickle.dumps(rings.PublishedAhead(ORIGIN, 1, 2)))
    assert (error.origin, error.size, error.published_size) == (ORIGIN, 1, 2)


def test_signing_waits_for_the_name_and_gives_up(ring: Keyring, log_key: Key) -> None:
    with private_files.locked(name_folder(ring.folder, ORIGIN), 0), pytest.raises(Busy):
        Keyring(ring.folder, lock_timeout=0).sign_checkpoint(checkpoint(1), consistent=unasked)
    assert len(ring.sign_checkpoint(checkpoint(1), consistent=unasked)) == 1


# --- export and import ---------------------------------------------------------------------------------------------


def test_a_private_half_goes_from_ring_to_ring_under_its_passphrase(ring: Keyring, tmp_path: Path) -> None:
    key = ring.generate(Purpose.WITNESS, "w", created=NOW, algorithm=MLDSA, passphrase=PASSPHRASE)
    ring.export_private(key, tmp_path / "w.pem")
    pem = (tmp_path / "w.pem").read_bytes()
    other = Keyring(tmp_path / "other")
    with pytest.raises(WrongPassphrase):
        other.import_private(Purpose.WITNESS, "w", pem, created=NOW)
    taken = other.import_private(Purpose.WITNESS, "w", pem, created=NOW, passphrase=PASSPHRASE)
    assert taken == key
    assert other.is_protected(taken)
    assert other.witness_signers("w", passphrase=PASSPHRASE)[0].key == key.verifier


def test_an_export_overwrites_nothing_and_reaches_no_terminal(ring: Keyring, log_key: Key, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    for path in (tmp_path / "there", Path("/dev/null"), Path("/dev/stdout")):
        with pytest.raises(PathRefused, match="something stands there"):
            ring.export_private(log_key, path)
    leader, follower = os.openpty()
    try:
        with pytest.raises(PathRefused, match="something stands there"):
            ring.export_private(log_key, os.ttyname(follower))
    finally:
        os.close(leader)
        os.close(follower)
    assert (tmp_path / "there").read_text() == "mine"


def test_an_export_that_is_refused_leaves_nothing(ring: Keyring, log_key: Key, tmp_path: Path) -> None:
    ring.sign_checkpoint(checkpoint(7), consistent=unasked)
    (tmp_path / "there").write_text("mine")
    with pytest.raises(PathRefused):
        ring.export_private(log_key, tmp_path / "there")
    assert not (tmp_path / "there.published").exists()


def test_what_a_logs_key_has_signed_goes_along(ring: Keyring, log_key: Key, tmp_path: Path) -> None:
    ring.sign_checkpoint(checkpoint(7), consistent=unasked)
    ring.export_private(log_key, tmp_path / "log.pem")
    pem, signed = (tmp_path / "log.pem").read_bytes(), (tmp_path / "log.pem.published").read_bytes()
    other = Keyring(tmp_path / "other")
    with pytest.raises(KeyRefused, match="what it has signed did not come along"):
        other.import_private(Purpose.LOG, ORIGIN, pem, created=NOW)
    with pytest.raises(KeyRefused, match="it has signed size 7"):
        other.import_private(Purpose.LOG, ORIGIN, pem, created=NOW, signed=signed, never_signed=True)
    with pytest.raises(KeyRefused, match="it has signed for another origin"):
        other.import_private(Purpose.LOG, "example.com/b", pem, created=NOW, signed=signed)
    taken = other.import_private(Purpose.LOG, ORIGIN, pem, created=NOW, signed=signed)
    assert taken.signed
    assert other.published(taken) == checkpoint(7)
    with pytest.raises(rings.PublishedAhead):
        other.sign_checkpoint(checkpoint(6), consistent=always)


def test_a_private_key_line_of_the_go_tools_is_taken(ring: Keyring) -> None:
    seed = bytes(range(32))
    for purpose, name, algorithm in [
        (Purpose.LOG, ORIGIN, Algorithm.ED25519),
        (Purpose.WITNESS, "w.example", Algorithm.ED25519_COSIGNATURE),
        (Purpose.WITNESS, "m.example", MLDSA),
    ]:
        seed = sha256(seed).digest()
        verifier = NoteSigner.from_seed(name, algorithm, seed).key
        line = private_key_text(verifier, seed)
        wrong = Purpose.WITNESS if purpose is Purpose.LOG else Purpose.LOG
        for bad in (line[:-4], line.replace(name, "else.example"), line + "x"):
            with pytest.raises(KeyRefused):
                ring.import_private(purpose, name, bad.encode(), created=NOW, never_signed=True)
        with pytest.raises(KeyRefused):
            ring.import_private(wrong, name, line.encode(), created=NOW, never_signed=True)
        key = ring.import_private(purpose, name, f"{line}\n".encode(), created=NOW, never_signed=True)
        assert key.verifier == verifier


def test_a_key_of_another_kind_is_refused(ring: Keyring) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

    private = generate_private_key(SECP256R1())
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(KeyRefused, match="neither Ed25519 nor ML-DSA-44"):
        ring.import_private(Purpose.RECORD, "worker-1", pem, created=NOW)
    assert ring.keys() == ()


# --- kills and crowds ----------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from hashlib import sha256
from pathlib import Path
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.checkpoint import Checkpoint

folder, origin, size, calls = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def counted(function):
    def call(*args, **kwargs):
        global calls
        if calls == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        calls -= 1
        return function(*args, **kwargs)
    return call

ring = Keyring(folder)
os.fsync, os.replace = counted(os.fsync), counted(os.replace)
os.rename, Path.replace = counted(os.rename), counted(Path.replace)
checkpoint = Checkpoint(origin, size, sha256(str(size).encode()).digest())
lines = ring.sign_checkpoint(checkpoint, consistent=lambda published: True)
print(*lines, sep="\\n")
"""


@pytest.mark.slow
def test_a_kill_at_any_step_leaves_the_old_promise_or_the_new_one(ring: Keyring, log_key: Key) -> None:
    before, size, finished = None, 0, 0
    for first in (True, False):
        calls = 0
        while True:
            if first:  # each time from a key that has never signed
                published_path(private_path(ring.folder, log_key)).unlink(missing_ok=True)
                private_files.write_file(public_path(ring.folder, log_key), log_key.encode(), 0o644)
                before = None
            size += 1
            command = [sys.executable, "-c", KILLED, str(ring.folder), ORIGIN, str(size), str(calls)]
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            after = again(ring).published(log_key)
            assert after in (before, checkpoint(size))
            if process.returncode == 0:
                assert after == checkpoint(size)
                assert process.stdout.startswith("\N{EM DASH}")
                before, finished = after, finished + 1
                break
            assert (process.returncode, process.stdout) == (-signal.SIGKILL, "")
            if after == checkpoint(size):  # promised, and killed before the signature: it may still be signed
                assert len(again(ring).sign_checkpoint(checkpoint(size), consistent=unasked)) == 1
                with pytest.raises(rings.PublishedDiffers):
                    again(ring).sign_checkpoint(checkpoint(size, "other"), consistent=always)
            before, calls = after, calls + 1
        assert calls >= 3
    assert finished == 2


KILLED_AFTER_THE_PROMISE = """
import os, signal, sys
from hashlib import sha256
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.checkpoint import Checkpoint

ring = Keyring(sys.argv[1])
(key,) = ring.find(sys.argv[2])
ring.promise(key, Checkpoint(sys.argv[2], 7, sha256(b"7").digest()), consistent=lambda published: True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_between_promise_and_signature_leaves_the_promise(ring: Keyring, log_key: Key) -> None:
    command = [sys.executable, "-c", KILLED_AFTER_THE_PROMISE, str(ring.folder), ORIGIN]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert ring.published(log_key) == checkpoint(7)
    with pytest.raises(rings.PublishedAhead):
        ring.sign_checkpoint(checkpoint(6), consistent=always)
    with pytest.raises(rings.PublishedDiffers):
        ring.sign_checkpoint(checkpoint(7, "other"), consistent=always)
    assert len(ring.sign_checkpoint(checkpoint(7), consistent=unasked)) == 1


CROWD = """
import sys
from hashlib import sha256
from sealbook.journal import Refused
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.checkpoint import Checkpoint

folder, origin, branch = sys.argv[1:]
ring = Keyring(folder, lock_timeout=60)
print("ready", flush=True)
sys.stdin.readline()
for size in range(1, 41):
    checkpoint = Checkpoint(origin, size, sha256(f"{size}{branch}".encode()).digest())
    try:
        ring.sign_checkpoint(checkpoint, consistent=lambda published: True)
    except Refused:
        continue
    print(size, branch)
"""


def test_processes_that_sign_at_once_never_sign_two_roots_of_one_size(ring: Keyring, log_key: Key) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CROWD, str(ring.folder), ORIGIN, branch],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for branch in ("a", "b")
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    signed: list[str] = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        signed += process.communicate()[0].splitlines()
        assert process.returncode == 0
    sizes = [int(line.split()[0]) for line in signed]
    assert sorted(sizes) == sorted(set(sizes))
    assert max(sizes) == 40
    published = ring.published(log_key)
    assert published is not None
    assert published.size == 40
