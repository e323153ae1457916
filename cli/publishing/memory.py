"""What is remembered of a log's witnesses, and against them: beside the keys and outside the store, so that an older
copy of the store cannot take it back.

    KEYS/witnesses/<hex of SHA-256 of the origin>/     0700, files 0600
        memory                   by witness address: sizes, times, failures
        stopped                  publishing is stopped: when, and by which alarms
        resolved-<time>          what a `stopped` becomes when a person has looked
        evidence-<time>-<hash>   an alarm's evidence: `merkle.witness.Evidence`, and the notes that speak
        lock                     one process publishes a log at a time

`memory` and `stopped` are a line that names the format, one line of JSON, and 8 bytes of BLAKE3 of the two, which find
damage and not forgery. Without `memory` a witness is asked as for the first time and tells the size that it remembers;
what is lost is the notice of a witness that went backwards meanwhile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from blake3 import blake3

from sealbook.cli.publishing.policy_file import FOLDER, make_folders
from sealbook.journal.errors import Corrupt, NotFound
from sealbook.journal.keys import private_files
from sealbook.journal.keys.private_files import PRIVATE_MODE
from sealbook.merkle.encoding import base64_text
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.witness import Evidence, origin_key
from sealbook.merkle.witness_client import Alarm

LOCK_SECONDS_MAX: Final = 5.0
FAILURE_CHARACTERS_MAX: Final = 200
ANSWER_BYTES_KEPT: Final = 16 * 1024  # of what a witness answered, in the evidence

_HEAD = b"sealbook witnesses 1\n"
_FILE = re.compile(rb"(sealbook witnesses 1\n[^\n]*\n)check ([0-9a-f]{16})\n")


@dataclass(frozen=True, slots=True)
class KnownWitness:
    """What is remembered of one witness address. Times are POSIX seconds."""

    size: int = 0
    """What the witness remembers, as far as we know."""
    cosigned: int = 0
    """The largest size of ours that it cosigned."""
    cosigned_at: int | None = None
    """The time that its last cosignature states."""
    failures: int = 0
    """How often it failed since it last cosigned."""
    failed_at: int | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Charge:
    """One alarm: which witness, what, and the file of its evidence."""

    url: str
    kind: str
    reason: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """Publishing of a log is stopped, until a person resolves it."""

    at: int
    charges: tuple[Charge, ...]


class PublishingStopped(VerificationError):
    """The log and a witness contradict each other: nothing is signed or published before a person has looked."""

    def __init__(self, origin: str, stop: Stopped) -> None:
        self.origin, self.stop = origin, stop
        reasons = "; ".join(f"{charge.url}: {charge.reason} (evidence: {charge.evidence})" for charge in stop.charges)
        super().__init__(
            f"{origin}: publishing is stopped: {reasons}: when it is understood, `sealbook witness resolve`"
        )


class Memory:
    """The memory of one log."""

    def __init__(self, keys: Path, origin: str, *, lock_timeout: float = LOCK_SECONDS_MAX) -> None:
        self.origin = origin
        self.folder = keys / FOLDER / origin_key(origin).hex()
        self._lock_timeout = lock_timeout

    @contextmanager
    def held(self) -> Iterator[None]:
        """Publish alone: `Busy` when another process does and does not end."""
        make_folders(self.folder.parent)
        private_files.make_folder(self.folder)
        with private_files.locked(self.folder, self._lock_timeout):
            yield

    def known(self) -> dict[str, KnownWitness]:
        """What is known, by address."""
        content = self._read("memory")
        return (
            {} if content is None else {url: KnownWitness(**members) for url, members in content["witnesses"].items()}
        )

    def keep(self, known: Mapping[str, KnownWitness]) -> None:
        """Remember this, durably, and nothing else."""
        if known != self.known():
            self._write("memory", {"witnesses": {url: asdict(item) for url, item in known.items()}})

    def stopped(self) -> Stopped | None:
        """Whether publishing is stopped, and why."""
        content = self._read("stopped")
        if content is None:
            return None
        return Stopped(content["at"], tuple(Charge(**members) for members in content["charges"]))

    def check_unstopped(self) -> None:
        """`PublishingStopped` when it is."""
        stop = self.stopped()
        if stop is not None:
            raise PublishingStopped(self.origin, stop)

    def stop(self, charges: Sequence[Charge], *, at: int) -> Stopped:
        """Stop publishing, durably. Charges whose evidence is kept already."""
        before = self.stopped()
        stop = Stopped(at, tuple(charges) if before is None else before.charges + tuple(charges))
        self._write("stopped", {"at": stop.at, "charges": [asdict(charge) for charge in stop.charges]})
        return stop

    def resolve(self, *, at: int) -> Stopped:
        """Publish again. What was charged stays on file, and what the witnesses are known to have cosigned is
        forgotten for those that were charged: they are asked as for the first time. `NotFound` when it is not
        stopped."""
        stop = self.stopped()
        if stop is None:
            raise NotFound("stop of", self.origin)
        charged = {charge.url for charge in stop.charges}
        self.keep({url: known for url, known in self.known().items() if url not in charged})
        (self.folder / "stopped").rename(self.folder / f"resolved-{at}")
        private_files.sync_folder(self.folder)
        return stop

    def charge(self, url: str, alarm: Alarm, *, cosigned: bytes, served: bytes) -> Charge:
        """Keep an alarm's evidence. `cosigned` is our note with this witness's cosignature at the largest size that it
        cosigned, `served` the note that it serves of our log; both empty where there is none."""
        held = alarm.evidence
        cut = Evidence(held.reason, held.origin, held.at, held.held, held.request, held.answer[:ANSWER_BYTES_KEPT])
        members = {
            **json.loads(cut.encode()),
            "witness": url,
            "kind": alarm.kind.name,
            "cosigned": base64_text(cosigned),
            "served": base64_text(served),
        }
        data = json.dumps(members, indent=1).encode() + b"\n"
        name = f"evidence-{held.at}-{sha256(data).hexdigest()[:16]}"
        private_files.write_file(self.folder / name, data, PRIVATE_MODE)
        return Charge(url, alarm.kind.name, held.reason, str(self.folder / name))

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        data = private_files.read_file(path)
        if data is None:
            return None
        match = _FILE.fullmatch(data)
        if match is None or blake3(match[1]).hexdigest(8) != match[2].decode():
            raise Corrupt(f"{path} is damaged: remove it when you know why, and the witnesses are asked again")
        content: dict[str, Any] = json.loads(match[1].removeprefix(_HEAD))
        if content["origin"] != self.origin:
            raise Corrupt(f"{path} is of another log")
        return content

    def _write(self, name: str, content: dict[str, Any]) -> None:
        line = json.dumps({"origin": self.origin, **content})
        data = _HEAD + f"{line}\n".encode()
        data += f"check {blake3(data).hexdigest(8)}\n".encode()
        private_files.write_file(self.folder / name, data, PRIVATE_MODE)
