"""What a verifier has accepted of each log: its last checkpoint, so that an older or another one is refused later."""

from __future__ import annotations

import json
from collections.abc import Mapping

from blake3 import blake3

from sealbook.journal.errors import UnknownVersion
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed, shown
from sealbook.merkle.note import Note, SignedCheckpoint

TITLE = "accepted checkpoints"
TEXT_VERSION = 1
BYTES_MAX = 64 * 2**20  # a thousand origins with notes of 64 KiB


class Accepted:
    """The last checkpoint accepted of each log, as the signed note that it was: each begins with those before it, as
    far as they were remembered. A file of it is one object of JSON:

    {"sealbook":"accepted checkpoints","v":1,"notes":{"<origin>":"<the note>"},"check":"<16 hex>"}

    `check` is 8 bytes of BLAKE3 of origins and notes, sorted by origin, each with its length before it as u32be: it
    finds damage, which could make less of what was accepted, and not forgery. The whole note is kept: with a forked one
    beside it, it is evidence against the log and its witnesses."""

    def __init__(self, notes: dict[str, str] | None = None) -> None:
        self._notes = dict(notes or {})

    def seen(self, origin: str) -> Checkpoint | None:
        """The last one accepted of this log; None when there was none."""
        note = self._notes.get(origin)
        return None if note is None else Checkpoint.parse(Note.parse(note.encode()).text)

    def accept(self, signed: SignedCheckpoint, *, proven: bool) -> None:
        """Remember this one. A larger one takes the place of another only when it is `proven` to begin with it: else
        it would be forgotten that this was never shown."""
        seen = self.seen(signed.checkpoint.origin)
        if seen is not None and signed.checkpoint.size > seen.size > 0 and not proven:
            return
        self._notes[signed.checkpoint.origin] = signed.note.encode().decode()

    def encode(self) -> bytes:
        """The bytes of the file."""
        notes = dict(sorted(self._notes.items()))
        members = {"sealbook": TITLE, "v": TEXT_VERSION, "notes": notes, "check": _check_of(notes)}
        return json.dumps(members, indent=1).encode() + b"\n"

    @classmethod
    def parse(cls, data: bytes) -> Accepted:
        """The memory in a file. `Malformed` when it cannot be told what was accepted: that is never taken for
        nothing."""
        if len(data) > BYTES_MAX:
            raise Malformed(f"state: at most {BYTES_MAX} bytes")
        try:
            members = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise Malformed("state: no JSON: what was accepted before is not known") from error
        if not isinstance(members, dict) or members.get("sealbook") != TITLE:
            raise Malformed("state: no accepted checkpoints of sealbook")
        if members.get("v") != TEXT_VERSION:
            raise UnknownVersion(f"state: version {shown(members.get('v'))}, {TEXT_VERSION} is known")
        notes = members.get("notes")
        if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
            raise Malformed("state: no notes: what was accepted before is not known")
        if members.get("check") != _check_of(notes):
            raise Malformed("state: it is damaged: what was accepted before is not known")
        memory = cls(notes)
        for origin in notes:
            checkpoint = memory.seen(origin)
            if checkpoint is None or checkpoint.origin != origin:
                raise Malformed(f"state: the checkpoint of {shown(origin)} is of another log")
        return memory


def _check_of(notes: Mapping[str, str]) -> str:
    """The check of a memory's file."""
    parts = [part.encode("utf-8", "surrogatepass") for item in sorted(notes.items()) for part in item]
    return blake3(b"".join(len(part).to_bytes(4) + part for part in parts)).hexdigest(8)
