"""What a file becomes before it meets a store: a run's name, and its records in order under their lease owners.

A history is a value. What depends on the run's final name, which only the store can settle, is its first record;
`segments_as` writes that one.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sealbook.indexes.standing import seals
from sealbook.journal.records.entries import Entry
from sealbook.journal.records.names import ADMISSION_BYTES_MAX, RUN_BYTES_MAX

SUFFIX_HEX = 8  # of a name that had to be changed, or of a run id that is taken
UNNAMED_PREFIX = "history-"  # begins the name of a history that states no run id
UNNAMED_HEX = 16  # of the digest, the rest of that name


@dataclass(frozen=True, slots=True)
class Cancel:
    """A request to cancel the run. It stands after the first `position` entries of its segment."""

    position: int
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Segment:
    """Entries in order that one owner wrote under one epoch."""

    owner: str
    entries: tuple[Entry, ...]
    cancels: tuple[Cancel, ...] = ()

    def without(self, count: int) -> Segment:
        """The segment after its first `count` entries."""
        cancels = (replace(cancel, position=cancel.position - count) for cancel in self.cancels)
        return Segment(self.owner, self.entries[count:], tuple(cancel for cancel in cancels if cancel.position > 0))


@dataclass(frozen=True, slots=True)
class Original:
    """A record that a line was printed from: whose it was, where it stood in its run, and its hash in hex."""

    tenant: str
    run: str
    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class History:
    """One run as somebody else recorded it.

    `run` is the name it should get, `digest` the SHA-256 of the canonical JSON of its file. The admission key is
    `source` and `admission_prefix` followed by the run's final name. `remarks` are for the report: what could not
    be taken over as it stood. `original` is the first record that the file tells the place and hash of.
    """

    run: str
    digest: str
    source: str
    segments: tuple[Segment, ...]
    admission_prefix: str = ""
    remarks: tuple[str, ...] = ()
    original: Original | None = None

    @property
    def records(self) -> int:
        """How many records the run gets."""
        return sum(len(segment.entries) for segment in self.segments)

    @property
    def outcome(self) -> str | None:
        """How the run ended; None for one that has no conclusion."""
        last = self.segments[-1].entries[-1]
        return str(last.data["outcome"]) if last.kind == "RunConcluded" else None

    @property
    def seal(self) -> bool:
        """Whether the run is sealed with its conclusion."""
        return self.outcome is not None and seals(self.outcome)

    @property
    def unnamed(self) -> bool:
        """Whether the name comes from the digest alone, so that a shorter copy of the file has another one."""
        return self.run == unnamed_run(self.digest)

    def admission_id(self, run: str) -> str:
        """The id half of the admission key under this name of the run."""
        return legal(self.admission_prefix + run, ADMISSION_BYTES_MAX)

    def segments_as(self, run: str) -> tuple[Segment, ...]:
        """The segments for a run of this name: the first record gets its admission key."""
        first, *others = self.segments
        admission = first.entries[0]
        assert admission.kind == "RunAdmitted"
        key = {"source": self.source, "id": self.admission_id(run)}
        keyed = replace(admission, data={**admission.data, **key})
        return (replace(first, entries=(keyed, *first.entries[1:])), *others)

    def run_with_digest(self, digits: int = SUFFIX_HEX) -> str:
        """The name for a history whose own name belongs to a different one: `<run>~<first hex of the digest>`."""
        return f"{cut(self.run, RUN_BYTES_MAX - 1 - digits)}~{self.digest[:digits]}"


def unnamed_run(digest: str) -> str:
    """The name of a history that states no run id."""
    return UNNAMED_PREFIX + digest[:UNNAMED_HEX]


def tail(segments: Iterable[Segment], count: int) -> tuple[Segment, ...]:
    """The segments after the first `count` entries of them all."""
    rest = []
    for segment in segments:
        known = min(count, len(segment.entries))
        count -= known
        if known < len(segment.entries):
            rest.append(segment.without(known))
    return tuple(rest)


def legal(text: str, bytes_max: int, *, run: bool = False) -> str:
    """The text if it is a legal name, otherwise a legal one made from it.

    A made one is NFC, has `_` for each control character (and for the `~` that begins a name of the store's own
    runs), is cut to its limit, and ends in `~` and eight hex digits of the SHA-256 of the original, so that two
    originals never share a name.
    """
    carried = text.encode("utf-8", "backslashreplace").decode()  # names of files may hold lone surrogates
    name = unicodedata.normalize("NFC", carried)
    name = "".join("_" if unicodedata.category(character) == "Cc" else character for character in name)
    if run and name.startswith("~"):
        name = "_" + name[1:]
    if name and name == text and len(name.encode()) <= bytes_max:
        return name
    original = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{cut(name or '_', bytes_max - 1 - SUFFIX_HEX)}~{original[:SUFFIX_HEX]}"


def cut(text: str, bytes_max: int) -> str:
    """The longest beginning of the text that fits: it never splits a character, and stays NFC if the text is."""
    return text.encode()[:bytes_max].decode("utf-8", "ignore")


def stem(name: str, endings: Sequence[str]) -> str:
    """The last part of a file's path, without the first of the endings that it has."""
    base = name.rsplit("/", 1)[-1]
    for ending in endings:
        if base.endswith(ending) and base != ending:
            return base[: -len(ending)]
    return base
