"""Which state belongs to which witness: a key that has signed signs out of the state that remembers what it signed.

A state that is gone, that is another witness's, or that is older than it says would let the witness cosign a second
history. So, when a witness is started:

- Rule 1: a state is made only for a name of which no key has signed. If those that did are all retired, that is the
  witness's beginning anew, which its clients will notice: it has to be asked for.
- Rule 2: a state has one witness name for ever.
- Rule 3: a key that has signed must be one that this state knows. One that never signed joins the keys it knows, which
  is how a rotation goes on with the state.
- Rule 4: a state that remembers nothing is not that of a key that has signed.
- Rule 5: a key signs out of one state. Beside the key stands which (`Keyring.bind`), written before the witness listens
  and looked at again before its first signature leaves; of two states that a new key begins with, one cosigns.

What this cannot tell is that the state was put back to an earlier copy which does know the key. The witness's clients
can: it then asks for a size below one that it cosigned. Never restore a copy of a state into service.

Nor can it tell that the key was copied into another ring: two rings know nothing of each other.

The state's folder is one of the engine's, `serving.lock` in it is flock()ed by the one process that serves it
(`served_alone`), and its file SEALBOOK reads

    sealbook witness 1
    state <32 hex>          also in the row `store`: the file and the data belong together
    name <the witness's name>
    check <16 hex>          8 bytes of BLAKE3 of the lines above
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from blake3 import blake3

from sealbook.cli.witnessing.cosigner import Cosigner
from sealbook.cli.witnessing.state import KEYS, STATES, STORE, TABLES, StateStore, checked, with_check, written
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.lmdb import STORE_PLACE, LmdbEngine
from sealbook.journal.engine.lmdb import folder as engine_folder
from sealbook.journal.engine.port import Clock, Engine, Moment, Place, Snapshot, Writes
from sealbook.journal.errors import Corrupt, Refused, StoreMissing, UnknownVersion, WrongFormat, shown
from sealbook.journal.keys import private_files

TEXT_VERSION: Final = 1
STATE_ID_BYTES: Final = 16
SERVING_LOCK: Final = "serving.lock"

_TEXT = re.compile(r"(sealbook witness 1\nstate ([0-9a-f]{32})\nname ([^\n]+)\n)check ([0-9a-f]{16})\n")


@dataclass(eq=False)
class StateRefused(Refused):
    """This state and these keys must not serve together."""

    folder: str
    reason: str

    def __str__(self) -> str:
        return f"witness state {self.folder}: {self.reason}"


@dataclass(eq=False)
class StateMissing(StoreMissing):
    """No witness's state stands in this folder."""


def open_state(
    folder: str | os.PathLike[str], cosigner: Cosigner, *, clock: Clock = system_clock, anew: bool = False
) -> StateStore:
    """The witness's state, made if the witness has never signed. With `anew` it must not exist, and every key of the
    name that has signed must be retired. `StateRefused` when they do not belong together."""
    path = Path(folder)
    if engine_folder.is_complete(path):
        if anew:
            raise StateRefused(
                str(path), "it exists: it goes on without --new-state, or a new one needs another folder"
            )
        engine = LmdbEngine.open(path, readonly=False, clock=clock, tables=TABLES)
    else:
        _refuse_lost(path, cosigner, anew)
        state_id = os.urandom(STATE_ID_BYTES)
        try:
            engine = LmdbEngine.create(
                path,
                identity_text=_encode(state_id, cosigner.name),
                store_value=with_check(STORE_PLACE, state_id),
                clock=clock,
                tables=TABLES,
            )
        except StoreMissing as error:
            raise StateMissing(
                f"{path.parent} does not exist: the folder of the state comes into being, not this"
            ) from error
    try:
        _check_identity(engine, cosigner.name)
        bind(engine, cosigner, str(path))
        cosigner.bind(_state_id(engine))
    except BaseException:
        engine.close()
        raise
    return StateStore(engine, cosigner)


@contextmanager
def served_alone(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Serve this state for as long as the block runs; `StateRefused` when another process does. The lock ends with the
    process, however that ends. Two would decide as one, too, for what they decide is in the tables; but one of them is
    a mistake, and nobody would know which of them answers."""
    with private_files.held(Path(folder) / SERVING_LOCK) as alone:
        if not alone:
            raise StateRefused(str(folder), "another `witness serve` runs on it")
        yield


def read_state(folder: str | os.PathLike[str], *, readonly: bool = True, clock: Clock = system_clock) -> StateStore:
    """A state that exists, for its operator to look into or to change, beside a server that runs, if there is one."""
    try:
        engine = LmdbEngine.open(folder, readonly=readonly, clock=clock)
    except StoreMissing as error:
        raise StateMissing(f"no witness state at {folder}: `sealbook witness serve --state` makes one") from error
    try:
        _check_identity(engine, None)
    except BaseException:
        engine.close()
        raise
    return StateStore(engine)


def bind(engine: Engine, cosigner: Cosigner, where: str) -> None:
    """Rules 3 and 4, and the new keys' entry, in one transaction."""

    def work(snapshot: Snapshot, moment: Moment) -> tuple[Writes, None]:
        keys = {_key_place(str(signer.key)): signer.key for signer in cosigner.signers}
        known = {place for place, value in zip(keys, snapshot.get_many(list(keys)), strict=True) if value is not None}
        for place, key in keys.items():
            if key in cosigner.signed and place not in known:
                raise StateRefused(where, f"{key.id} has signed, and not out of this state: put its own back")
            if key in cosigner.signed and snapshot.count(STATES) == 0:
                raise StateRefused(where, f"{key.id} has signed, and this state remembers nothing: it is an older copy")
        puts = {place: with_check(place, str(key).encode()) for place, key in keys.items() if place not in known}
        return Writes(puts, absent=set(puts)), None

    written(engine, work)


def _refuse_lost(folder: Path, cosigner: Cosigner, anew: bool) -> None:
    """Rule 1."""
    active = {signer.key for signer in cosigner.signers}
    if used := sorted(key.id for key in cosigner.signed & active):
        raise StateRefused(
            str(folder),
            f"it is missing, and {used[0]} has signed: put the state back, or retire the key and make a new one",
        )
    if cosigner.signed and not anew:
        retired = sorted(key.id for key in cosigner.signed)[0]
        raise StateRefused(
            str(folder),
            f"it is missing, and what {retired} has signed stood there: put it back,"
            " or let the new key begin anew with --new-state",
        )


def _state_id(engine: LmdbEngine) -> str:
    """The state's id, once `_check_identity` has seen it."""
    match = _TEXT.fullmatch(engine.identity_text.decode())
    assert match is not None
    return match[2]


def _key_place(key: str) -> Place:
    return KEYS, sha256(key.encode()).digest()


def _encode(state_id: bytes, name: str) -> bytes:
    lines = f"sealbook witness {TEXT_VERSION}\nstate {state_id.hex()}\nname {name}\n"
    return f"{lines}check {blake3(lines.encode()).hexdigest(8)}\n".encode()


def _check_identity(engine: LmdbEngine, name: str | None) -> None:
    """The folder is a witness's state, of this witness if one is named (Rule 2), and its file belongs to its data."""
    where, text = str(engine.path), engine.identity_text
    version = re.match(rb"sealbook witness (\d{1,9})\n", text)
    if version is None:
        raise WrongFormat(f"{where} is not the state of a witness")
    if int(version[1]) > TEXT_VERSION:
        raise UnknownVersion(f"{where}: a newer build wrote this witness's state")
    match = _TEXT.fullmatch(text.decode("utf-8", "replace"))
    if match is None or blake3(match[1].encode()).hexdigest(8) != match[4]:
        raise Corrupt(f"the file SEALBOOK in {where} is damaged")
    with engine.snapshot() as snapshot:
        value = snapshot.get_many([STORE_PLACE])[0]
    if value is None or checked(STORE_PLACE, value) != bytes.fromhex(match[2]):
        raise Corrupt(f"SEALBOOK and data.mdb in {where} belong to two different states", table=STORE)
    if name is not None and match[3] != name:
        raise StateRefused(where, f"it is the state of the witness {shown(match[3])}, not of {shown(name)}")
