"""The keys that sign records, checkpoints and cosignatures: made, found, rotated, and held to what they have signed.

A ring is a folder outside every store (`keyfile` draws its files). What it promises:

- Rule 1: a key has one name and one purpose, and a name has one purpose. An Ed25519 cosignature does not name who
  signed it, so a key that served two names could be taken for either.
- Rule 2: a log's key signs checkpoints of the origin that it is named after, and each of them is durable in
  `<private half>.published` before its signature leaves (`published`). All keys of an origin, retired ones too, count
  together: a rotation forgets no promise.
- Rule 3: a promise that is missing or damaged is never taken for "nothing signed yet".
- Rule 4: private halves leave the ring through `export_private` alone, and stand in no text that it returns or raises.
- Rule 5: during a rotation the old key and the new one of a log or witness both sign, until `finish_rotation` retires
  the old one. A record has one signature, so there the new key takes over at once. Retired keys are kept: what they
  signed is still verified with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sealbook.journal.deciding.log import promises as published
from sealbook.journal.deciding.log.promises import Consistent, Published, PublishedAhead, PublishedDiffers
from sealbook.journal.errors import Corrupt, InvalidInput, NotFound
from sealbook.journal.keys import pkcs8, private_files, public_halves
from sealbook.journal.keys.private_files import PathRefused
from sealbook.journal.keys.public_halves import ALGORITHMS, Key, KeyRefused, KeyState, Purpose, WrongPassphrase
from sealbook.journal.records.signatures import Signer
from sealbook.journal.schema.origins import OriginsCoincide, check_origin
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed
from sealbook.merkle.keys import (
    NAME_BYTES_MAX,
    PRIVATE_KEY_PREFIX,
    SEED_BYTES,
    Algorithm,
    NoteSigner,
    SignatureLine,
    VerifierKey,
    check_key_name,
)
from sealbook.merkle.note import sign_text

__all__ = [
    "ALGORITHMS",
    "Consistent",
    "Key",
    "KeyRefused",
    "KeyState",
    "Keyring",
    "PathRefused",
    "Published",
    "PublishedAhead",
    "PublishedDiffers",
    "Purpose",
    "WrongPassphrase",
]

LOCK_SECONDS_MAX = 5.0
SERVING_LOCK = "serving.lock"


class Keyring:
    """The keys in one folder. Thread-safe; processes may share the folder.

    The folder comes into being with the first key. `PathRefused` when it lies inside a store or is open to others.
    `random` gives the seeds of new keys and the salts of their passphrases.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        random: Callable[[int], bytes] = os.urandom,
        lock_timeout: float = LOCK_SECONDS_MAX,
    ) -> None:
        self.folder = Path(folder)
        self._random = random
        self._lock_timeout = lock_timeout
        self._opened: dict[Path, NoteSigner] = {}  # private halves, once their passphrase was given
        _must_be_outside_stores(self.folder)
        if self.folder.exists():
            private_files.make_folder(self.folder)

    def __repr__(self) -> str:
        return f"Keyring({str(self.folder)!r})"

    # --- finding ---------------------------------------------------------------------------------------------------

    def keys(self) -> tuple[Key, ...]:
        """All keys: by purpose, name and algorithm, the oldest first."""
        if not self.folder.is_dir():
            return ()
        found = [key for folder in self.folder.iterdir() if folder.is_dir() for key in _keys_in(folder)]
        return tuple(sorted(found, key=_order))

    def named(self, name: str) -> tuple[Key, ...]:
        """The keys of this name, retired ones too; none for a name that has none."""
        folder = public_halves.name_folder(self.folder, name)
        found = _keys_in(folder) if folder.is_dir() else []
        return tuple(sorted((key for key in found if key.name == name), key=_order))

    def find(self, name_or_id: str) -> tuple[Key, ...]:
        """The keys of this name, or the one key with this id. `NotFound` when there is none."""
        keys = self.named(name_or_id)
        if not keys and "+" in name_or_id:
            keys = tuple(key for key in self.named(name_or_id.rpartition("+")[0]) if key.id == name_or_id)
        if not keys:
            raise NotFound("key", name_or_id)
        return keys

    def signing(self, purpose: Purpose, name: str) -> tuple[Key, ...]:
        """The keys that sign under this name, the newest of each algorithm first. `NotFound` when there is none."""
        keys = [key for key in self.named(name) if key.purpose is purpose and key.state is KeyState.ACTIVE]
        if not keys:
            raise NotFound(f"{purpose} key", name)
        keys.sort(key=lambda key: (ALGORITHMS[purpose].index(key.algorithm), -key.generation))
        return tuple(keys[:1] if purpose is Purpose.RECORD else keys)

    def is_protected(self, key: Key) -> bool:
        """Whether the key's private half is under a passphrase."""
        return pkcs8.is_protected(self._private_half(key))

    # --- making ----------------------------------------------------------------------------------------------------

    def generate(
        self,
        purpose: Purpose,
        name: str,
        *,
        created: int,
        algorithm: Algorithm | None = None,
        tenant: str | None = None,
        passphrase: bytes | None = None,
    ) -> Key:
        """A new key for a name that has none of this algorithm yet. `created` is unix milliseconds.

        A log's name is its origin, and `tenant` says whose log that is: the same origin for another tenant is
        `OriginsCoincide`. Without an algorithm it is Ed25519.
        """
        algorithm = _checked(purpose, name, algorithm, tenant)
        with self._changing(name):
            self._must_be_free(purpose, name, algorithm, tenant)
            return self._add(purpose, name, algorithm, self._random(SEED_BYTES), created, tenant, passphrase)

    def import_private(
        self,
        purpose: Purpose,
        name: str,
        private: bytes,
        *,
        created: int,
        tenant: str | None = None,
        passphrase: bytes | None = None,
        signed: bytes | None = None,
        never_signed: bool = False,
    ) -> Key:
        """Take in a private half: PKCS#8 in PEM, or the `PRIVATE+KEY+…` line of the Go tools. It stays under the
        passphrase that it came under.

        What a log's key has signed comes along as `signed`, the content of its `.published` file; for one that comes
        without, the caller must say that it never signed. A key that the ring has already is refused, under whatever
        name and purpose.
        """
        seed, algorithm = _parsed_private(purpose, name, private, passphrase)
        _checked(purpose, name, algorithm, tenant)
        promise = None if signed is None else published.parse(signed, "the file of what the key has signed")
        if purpose is Purpose.LOG:
            _check_history(name, promise, never_signed)
        under = passphrase if pkcs8.is_protected(private) else None
        with self._changing(name):
            self._must_be_free(purpose, name, algorithm, tenant)
            public_key = NoteSigner.from_seed(name, algorithm, seed).key.public_key
            for key in self.keys():
                if key.public_key == public_key:
                    raise KeyRefused(name, f"it stands in the ring already, as the {key.purpose} key {key.id}")
            return self._add(purpose, name, algorithm, seed, created, tenant, under, promise)

    def rotate(
        self, name: str, *, created: int, algorithm: Algorithm | None = None, passphrase: bytes | None = None
    ) -> tuple[Key, ...]:
        """A new key beside each key that signs under this name, or beside that of one algorithm.

        Where the old private half is under a passphrase, the new one is put under the same: it must be given. A
        rotation that is not finished is refused another one, except for record signers, which need no finish.
        """
        self.find(name)
        with self._changing(name):
            newest = self._newest(name, algorithm)
            for key in newest:
                if key.purpose is not Purpose.RECORD and self._older(key):
                    raise KeyRefused(key.id, "it is being rotated already: finish that first")
                self._signer(key, passphrase)
            made = tuple(self._succeed(key, created, passphrase) for key in newest)
            for key in made:
                if key.purpose is Purpose.RECORD:
                    self._retire_older(key)
        return made

    def finish_rotation(self, name: str) -> tuple[Key, ...]:
        """Retire every key of this name but the newest of each algorithm; returns those that were retired."""
        self.find(name)
        with self._changing(name):
            return tuple(old for key in self._newest(name, None) for old in self._retire_older(key))

    def export_private(self, key: Key, to: str | os.PathLike[str]) -> None:
        """Copy the private half into a new file, 0600, under its passphrase if it has one, and what the key has signed
        into the file's `.published`. From then on two places can sign: use the key in one."""
        with self._holding(key.name):
            pem, promise = self._private_half(key), self.published(key)
            target = Path(to)
            if promise is None:
                private_files.write_new_file(target, pem)
                return
            beside = public_halves.published_path(target)
            private_files.write_new_file(beside, published.encode(promise))  # first: no key without its promise
            try:
                private_files.write_new_file(target, pem)
            except BaseException:
                beside.unlink()
                raise

    # --- signing ---------------------------------------------------------------------------------------------------

    def record_signer(self, name: str, *, passphrase: bytes | None = None) -> Signer:
        """What signs records under this name: for `Journal.open(signer=…)`."""
        (key,) = self.signing(Purpose.RECORD, name)
        signer = self._signer(key, passphrase)
        return _RecordSigner(signer)

    def witness_signers(self, name: str, *, passphrase: bytes | None = None) -> tuple[NoteSigner, ...]:
        """What cosigns under this name. The witness holds them to what it has cosigned, not the ring."""
        return tuple(self._signer(key, passphrase) for key in self.signing(Purpose.WITNESS, name))

    def log_signers(
        self, origin: str, *, consistent: Consistent, passphrase: bytes | None = None
    ) -> tuple[NoteSigner, ...]:
        """What signs the log's checkpoints, and nothing else: each signer promises the checkpoint before it signs."""
        return tuple(
            self._guarded(key, self._signer(key, passphrase), consistent) for key in self.signing(Purpose.LOG, origin)
        )

    def sign_checkpoint(
        self, checkpoint: Checkpoint, *, consistent: Consistent, passphrase: bytes | None = None
    ) -> list[SignatureLine]:
        """The lines of all keys that sign for the checkpoint's origin, once the checkpoint is promised by each.

        `consistent(published)` says whether the log begins with that checkpoint, verified by a proof.
        `PublishedAhead` and `PublishedDiffers` when it is not to be signed.
        """
        signers = self.log_signers(checkpoint.origin, consistent=consistent, passphrase=passphrase)
        return [sign_text(checkpoint.text(), signer) for signer in signers]

    def published(self, key: Key) -> Published | None:
        """The largest checkpoint that this log's key has promised; None when it has signed nothing yet.

        `Corrupt` when that cannot be told: the file is damaged, or it is missing and the key has signed.
        """
        path = public_halves.published_path(public_halves.private_path(self.folder, key))
        promise = _read_promise(path, key.name)
        if promise is None and key.purpose is Purpose.LOG and self._is_marked(key):
            raise Corrupt(f"{path} is missing, and the key has signed: put the file back, or sign no more with it")
        return promise

    def promise(self, key: Key, checkpoint: Checkpoint, *, consistent: Consistent) -> None:
        """Make it durable that this key signs the checkpoint. The signature may leave once this has returned.

        `consistent(published)` is asked while the origin's keys are locked.
        """
        if key.purpose is not Purpose.LOG or checkpoint.origin != key.name:
            raise KeyRefused(key.id, f"it does not sign checkpoints of {checkpoint.origin!r}")
        with self._holding(key.name):
            keys = self.named(key.name)
            stored = next((each for each in keys if each.id == key.id), None)
            if stored is None or stored.state is not KeyState.ACTIVE:
                raise KeyRefused(key.id, "it signs no more" if stored else "it is not in the ring")
            for promise in self._promises(keys):
                published.check_growth(promise, checkpoint, consistent)
            self._write_promise(stored, checkpoint)

    @contextmanager
    def serving(self, name: str) -> Iterator[None]:
        """Serve as the witness of this name for as long as the block runs; `KeyRefused` when another process does, on
        whatever state. The lock ends with the process, however that ends."""
        folder = public_halves.name_folder(self.folder, name)
        if not folder.is_dir():
            raise NotFound("witness key", name)
        with private_files.held(folder / SERVING_LOCK) as alone:
            if not alone:
                raise KeyRefused(name, "another `witness serve` runs with it")
            yield

    def bind(self, key: Key, state: str) -> None:
        """Make it durable that a witness's key signs out of this state, 32 hex digits, and no other. One that never
        signed may change to another state, and then signs out of the one before no more. `KeyRefused` for one that has
        signed out of another."""
        with self._holding(key.name):
            (stored,) = self.find(key.id)
            if stored.signed and stored.bound not in (None, state):
                raise _bound_elsewhere(stored)
            if stored.bound != state:
                self._write_public(replace(stored, bound=state))

    def mark_signed(self, key: Key, state: str | None = None) -> None:
        """Make it durable that a signature of this key may have left, out of the state that it is bound to. What a key
        has signed is then never believed to be nothing: a witness whose state is gone must not start anew under it.
        `KeyRefused` when it is bound to another state. A log's key is marked by `promise`."""
        if key.purpose is Purpose.LOG:
            raise KeyRefused(key.id, "it is marked when it promises a checkpoint, and not without")
        with self._holding(key.name):
            (stored,) = self.find(key.id)
            if stored.bound != state:
                raise _bound_elsewhere(stored)
            self._mark_signed(stored)

    # --- within --------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        """Hold the ring, so that no other key comes in, and the name, so that nobody signs for it."""
        _must_be_outside_stores(self.folder)
        private_files.make_folder(self.folder)
        private_files.make_folder(public_halves.name_folder(self.folder, name))
        with private_files.locked(self.folder, self._lock_timeout), self._holding(name):
            yield

    @contextmanager
    def _holding(self, name: str) -> Iterator[None]:
        folder = public_halves.name_folder(self.folder, name)
        if not folder.is_dir():
            raise NotFound("key", name)
        with private_files.locked(folder, self._lock_timeout):
            yield

    def _must_be_free(self, purpose: Purpose, name: str, algorithm: Algorithm, tenant: str | None) -> None:
        for key in self.named(name):
            if key.purpose is not purpose:
                raise KeyRefused(name, f"the name has a {key.purpose} key already: a name serves one purpose")
            if key.tenant != tenant:
                raise OriginsCoincide(name, _whose(key.tenant), _whose(tenant))
            if key.algorithm is algorithm:
                raise KeyRefused(name, f"it has the {purpose} key {key.id} already: rotate it")

    def _add(
        self,
        purpose: Purpose,
        name: str,
        algorithm: Algorithm,
        seed: bytes,
        created: int,
        tenant: str | None,
        passphrase: bytes | None,
        promise: Published | None = None,
        generation: int = 1,
    ) -> Key:
        """The private half is written first, the public half, by which the key exists, last."""
        if passphrase == b"":
            raise WrongPassphrase(name, "an empty passphrase protects nothing")
        key = Key(
            purpose=purpose,
            name=name,
            algorithm=algorithm,
            public_key=NoteSigner.from_seed(name, algorithm, seed).key.public_key,
            tenant=tenant,
            generation=generation,
            created=created,
            state=KeyState.ACTIVE,
            signed=promise is not None,
        )
        if any(each.short_id == key.short_id for each in self.named(name)):
            raise KeyRefused(key.id, "another key of this name has the same id: make a new one")
        salt, iv = self._random(pkcs8.SALT_BYTES), self._random(pkcs8.IV_BYTES)
        pem = pkcs8.encode(algorithm, seed, passphrase, salt, iv)
        private = public_halves.private_path(self.folder, key)
        private_files.write_file(private, pem, private_files.PRIVATE_MODE)
        if promise is not None:
            private_files.write_file(
                public_halves.published_path(private), published.encode(promise), private_files.PRIVATE_MODE
            )
        private_files.write_file(public_halves.public_path(self.folder, key), key.encode(), private_files.PUBLIC_MODE)
        return key

    def _newest(self, name: str, algorithm: Algorithm | None) -> list[Key]:
        newest = {key.algorithm: key for key in self.named(name)}  # in the order of generations
        if algorithm is not None and algorithm not in newest:
            raise NotFound(f"{algorithm.name} key", name)
        return [key for key in newest.values() if algorithm in (None, key.algorithm)]

    def _older(self, key: Key) -> list[Key]:
        """The keys that still sign and that this one succeeds."""
        return [
            each
            for each in self.named(key.name)
            if each.algorithm is key.algorithm and each.generation < key.generation and each.state is KeyState.ACTIVE
        ]

    def _succeed(self, key: Key, created: int, passphrase: bytes | None) -> Key:
        seed = self._random(SEED_BYTES)
        return self._add(
            key.purpose,
            key.name,
            key.algorithm,
            seed,
            created,
            key.tenant,
            passphrase,
            generation=key.generation + 1,
        )

    def _retire_older(self, key: Key) -> list[Key]:
        retired = [replace(old, state=KeyState.RETIRED) for old in self._older(key)]
        for old in retired:
            self._write_public(old)
        return retired

    def _write_public(self, key: Key) -> None:
        private_files.write_file(public_halves.public_path(self.folder, key), key.encode(), private_files.PUBLIC_MODE)

    def _promises(self, keys: Sequence[Key]) -> list[Published]:
        """What was promised under one origin, the largest last. A promise counts even if its key's public half is gone:
        what was signed stays signed."""
        promises = {self.published(key) for key in keys}
        for path in public_halves.name_folder(self.folder, keys[0].name).glob(public_halves.PUBLISHED_PATTERN):
            promises.add(_read_promise(path, keys[0].name))
        return sorted((promise for promise in promises if promise is not None), key=lambda promise: promise.size)

    def _write_promise(self, key: Key, checkpoint: Checkpoint) -> None:
        private = public_halves.private_path(self.folder, key)
        if self.published(key) == checkpoint:
            # Whoever promised it may have been killed before the file's name was durable.
            private_files.sync_folder(private.parent)
        else:
            private_files.write_file(
                public_halves.published_path(private), published.encode(checkpoint), private_files.PRIVATE_MODE
            )
        self._mark_signed(key)  # after the promise: a key marked without one would never sign again

    def _mark_signed(self, key: Key) -> None:
        if not key.signed:
            self._write_public(replace(key, signed=True))

    def _is_marked(self, key: Key) -> bool:
        return any(each.signed for each in self.named(key.name) if each.id == key.id)

    def _private_half(self, key: Key) -> bytes:
        path = public_halves.private_path(self.folder, key)
        pem = private_files.read_file(path)
        if pem is None:
            raise Corrupt(f"{path} is missing: it is the private half of the key {key.id}")
        private_files.check_private(path, private_files.PRIVATE_MODE)
        return pem

    def _signer(self, key: Key, passphrase: bytes | None) -> NoteSigner:
        path = public_halves.private_path(self.folder, key)
        signer = self._opened.get(path)
        if signer is None:
            seed, _ = pkcs8.decode(self._private_half(key), passphrase, key.id)
            signer = NoteSigner.from_seed(key.name, key.algorithm, seed)
            if signer.key != VerifierKey(key.name, key.algorithm, key.public_key):
                raise Corrupt(f"{path} is the private half of another key than {key.id}")
            self._opened[path] = signer
        return signer

    def _guarded(self, key: Key, signer: NoteSigner, consistent: Consistent) -> NoteSigner:
        def sign(message: bytes) -> bytes:
            self.promise(key, Checkpoint.parse(message), consistent=consistent)
            return signer.sign(message)

        return NoteSigner(signer.key, sign)


class _RecordSigner:
    """A ring's key as the journal asks for it."""

    def __init__(self, signer: NoteSigner) -> None:
        self._signer = signer

    @property
    def public_key(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return self._signer.key.public_key

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature of the message."""
        return self._signer.sign(message)

    def __repr__(self) -> str:
        return f"RecordSigner(public_key={self.public_key.hex()})"


def _keys_in(folder: Path) -> list[Key]:
    keys = []
    for path in sorted(folder.glob("*.pub")):
        data = private_files.read_file(path)
        if data is None:
            continue  # an operator has just removed it
        key = Key.parse(data, str(path))
        if path != public_halves.public_path(folder.parent, key):
            raise Corrupt(f"{path} is the public half of {key.id}, which stands elsewhere")
        keys.append(key)
    return keys


def _read_promise(path: Path, origin: str) -> Published | None:
    data = private_files.read_file(path)
    if data is None:
        return None
    promise = published.parse(data, str(path))
    if promise.origin != origin:
        raise Corrupt(f"{path} is of another log's key")
    return promise


def _order(key: Key) -> tuple[str, str, Algorithm, int]:
    return key.purpose, key.name, key.algorithm, key.generation


def _checked(purpose: Purpose, name: str, algorithm: Algorithm | None, tenant: str | None) -> Algorithm:
    """The algorithm, if such a key may be made."""
    if purpose is Purpose.LOG:
        check_origin(name)
    elif tenant is not None:
        raise InvalidInput("tenant", tenant, f"a {purpose} key belongs to no tenant")
    chosen = ALGORITHMS[purpose][0] if algorithm is None else algorithm
    if chosen not in ALGORITHMS[purpose]:
        raise KeyRefused(name, f"a {purpose} key has no algorithm {chosen.name}")
    try:
        check_key_name(name)
    except Malformed as error:
        raise InvalidInput("key name", name, str(error).removeprefix("key name ").partition(":")[0]) from error
    if len(name.encode()) > NAME_BYTES_MAX:
        raise InvalidInput("key name", name, f"is longer than {NAME_BYTES_MAX} bytes")
    return chosen


def _check_history(origin: str, promise: Published | None, never_signed: bool) -> None:
    if promise is None and not never_signed:
        reason = "what it has signed did not come along: bring its .published file, or state that it never signed"
        raise KeyRefused(origin, reason)
    if promise is not None and promise.origin != origin:
        raise KeyRefused(origin, f"it has signed for another origin: {promise.origin!r}")
    if promise is not None and never_signed:
        raise KeyRefused(origin, f"it has signed size {promise.size}, so it cannot be stated that it never signed")


def _parsed_private(purpose: Purpose, name: str, private: bytes, passphrase: bytes | None) -> tuple[bytes, Algorithm]:
    if private.startswith(PRIVATE_KEY_PREFIX.encode()):
        seed, algorithm = pkcs8.decode_note_line(private.decode("utf-8", "replace").removesuffix("\n"), name)
        if algorithm not in ALGORITHMS[purpose] or purpose is Purpose.RECORD:
            raise KeyRefused(name, f"it is a key for {algorithm.name}, not a {purpose} key")
        return seed, algorithm
    try:
        seed, is_mldsa = pkcs8.decode(private, passphrase, name)
    except Corrupt as error:  # nothing of ours is damaged
        raise KeyRefused(name, "what is to be imported is no PKCS#8 key in PEM") from error
    return seed, Algorithm.MLDSA44_COSIGNATURE if is_mldsa else ALGORITHMS[purpose][0]


def _bound_elsewhere(key: Key) -> KeyRefused:
    return KeyRefused(key.id, f"it signs out of another state, {key.bound}: put that one back")


def _whose(tenant: str | None) -> str:
    return "a log of no tenant" if tenant is None else f"tenant {tenant}"


def _must_be_outside_stores(folder: Path) -> None:
    """A copy of a store must not take its keys along, nor an older copy put back what they have signed."""
    resolved = folder.resolve()
    for place in (resolved, *resolved.parents):
        if (place / "SEALBOOK").exists() or (place / "SEALBOOK.new").exists():
            raise PathRefused(str(folder), f"it lies inside the store {place}: keep keys outside of every store")
