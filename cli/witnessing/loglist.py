"""Which logs a witness cosigns for: log lists as the witness network writes them, and the file that is read again when
it changes.

    logs/v0
    # a comment; these lines and empty ones may stand anywhere
    vkey <verifier key>     algorithm 0x01
    origin <origin>         only where it is not the key's name
    qpd <number>            requests per day, 1 to 2^31-1
    contact <text>

The lines of a log stand in this order. A log with several keys, as during a rotation, has an entry for each: the keys
add up, and the largest of the numbers counts. A list says who may ask, never what was cosigned: reading one again
changes no state, and enables no log that its operator disabled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from sealbook.cli.ground.named_files import FileRefused
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.encoding import check_lines, parse_decimal, parse_utf8
from sealbook.merkle.errors import Malformed, shown
from sealbook.merkle.keys import Algorithm, NoteSigner, VerifierKey
from sealbook.merkle.note import Note
from sealbook.merkle.witness import TrustedLog, check_trust

HEADER: Final = "logs/v0"
QPD_MAX: Final = 2**31 - 1
LIST_BYTES_MAX: Final = 64 * 1024 * 1024  # a hundred thousand logs take a third of it

_ORDER = ("vkey", "origin", "qpd", "contact")


class LogListRefused(FileRefused):
    """The list cannot be served from."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One log's lines in a list, and the number of the first of them."""

    key: VerifierKey
    origin: str
    qpd: int
    contact: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs that may ask, by origin, and how often each may in a day."""

    trusted: Mapping[str, TrustedLog]
    requests_per_day_max: Mapping[str, int]


def parse(data: bytes, path: str = "log list") -> tuple[LogEntry, ...]:
    """The entries of a list. `LogListRefused` names the first line that is not as it must be."""
    if len(data) > LIST_BYTES_MAX:
        raise LogListRefused(path, 0, f"at most {LIST_BYTES_MAX} bytes, not {len(data)}")
    lines = _Lines(_numbered(data, path), path)
    if lines.take(HEADER) is None:
        raise lines.refusal(f"the first line is {HEADER}")
    entries = []
    while not lines.at_end():
        entries.append(_entry(lines))
    return tuple(entries)


def combine(
    entries: Iterable[LogEntry],
    signers: Iterable[NoteSigner],
    initial: Iterable[Checkpoint] = (),
    path: str = "log list",
) -> Logs:
    """The logs of these entries, for a witness with these signers. `initial` are pinned first checkpoints, each for the
    log of its origin."""
    pinned = {checkpoint.origin: checkpoint for checkpoint in initial}
    by_origin: dict[str, list[LogEntry]] = {}
    for entry in entries:
        by_origin.setdefault(entry.origin, []).append(entry)
    trusted = {}
    for origin, group in by_origin.items():
        try:
            trusted[origin] = TrustedLog(origin, tuple(entry.key for entry in group), pinned.get(origin))
        except (ValueError, Malformed) as error:
            raise LogListRefused(path, group[-1].line, str(error)) from error
    if missing := sorted(pinned.keys() - trusted.keys()):
        raise LogListRefused(path, 0, f"it has no log {shown(missing[0])}, whose first checkpoint is pinned")
    try:
        check_trust(tuple(signers), tuple(trusted.values()))
    except ValueError as error:
        raise LogListRefused(path, 0, str(error)) from error
    rates = {origin: max(entry.qpd for entry in group) for origin, group in by_origin.items()}
    return Logs(MappingProxyType(trusted), MappingProxyType(rates))


def parse_initial(data: bytes) -> Checkpoint:
    """The checkpoint in a file that pins a log's beginning: its three lines, or a note of them. Who signed the note is
    not asked: the operator vouches for the file."""
    return Checkpoint.parse(Note.parse(data).text if b"\n\n" in data else data)


class LogFile:
    """The log list in a file, to be read again when that was replaced or written to.

    A list that is refused then changes nothing: the one before stays in force.
    """

    def __init__(
        self, path: str | os.PathLike[str], signers: Iterable[NoteSigner], *, initial: Iterable[Checkpoint] = ()
    ) -> None:
        self._path = Path(path)
        self._signers, self._initial = tuple(signers), tuple(initial)
        self._seen = self._identity()
        self._logs = self._read()

    @property
    def logs(self) -> Logs:
        """The logs as the file had them when it was last taken."""
        return self._logs

    def changed(self) -> bool:
        """Whether the file is another one than was last looked into."""
        return self._identity() != self._seen

    def reload(self) -> Logs:
        """Read the file and take its list. `LogListRefused` or an `OSError` when the old one stays in force."""
        self._seen = self._identity()
        self._logs = self._read()
        return self._logs

    def _read(self) -> Logs:
        path = str(self._path)
        return combine(parse(self._path.read_bytes(), path), self._signers, self._initial, path)

    def _identity(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


# --- parsing ----------------------------------------------------------------------------------------------------------


class _Lines:
    """The lines that count, with their numbers, taken one by one."""

    def __init__(self, lines: list[tuple[int, str]], path: str) -> None:
        self._lines, self._path, self._at = lines, path, 0

    @property
    def number(self) -> int:
        return self._lines[min(self._at, len(self._lines) - 1)][0] if self._lines else 1

    def at_end(self) -> bool:
        return self._at == len(self._lines)

    def take(self, word: str) -> str | None:
        """What follows the word and one space in the next line, if that line begins so; the line is then taken."""
        if self.at_end():
            return None
        first, _, rest = self._lines[self._at][1].partition(" ")
        if first != word:
            return None
        self._at += 1
        return rest

    def refusal(self, reason: str, number: int | None = None) -> LogListRefused:
        return LogListRefused(self._path, self.number if number is None else number, reason)


def _numbered(data: bytes, path: str) -> list[tuple[int, str]]:
    try:
        text = parse_utf8("log list", data)
        check_lines("log list", text)
    except Malformed as error:
        raise LogListRefused(path, 0, str(error)) from error
    if not text.endswith("\n"):
        raise LogListRefused(path, text.count("\n") + 1, "the last line has no newline")
    numbered = enumerate(text.removesuffix("\n").split("\n"), 1)
    return [(number, line) for number, line in numbered if line and not line.startswith("#")]


def _entry(lines: _Lines) -> LogEntry:
    values: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for word in _ORDER:
        numbers[word] = lines.number
        value = lines.take(word)
        if value is None and word != "origin":
            raise lines.refusal(f"a line `{word}` expected here: a log has {', '.join(_ORDER)}, in this order")
        if value is not None:
            if not value or value != value.strip():
                raise lines.refusal(f"`{word}` is followed by one space and a value", numbers[word])
            values[word] = value
    try:
        key = VerifierKey.parse(values["vkey"])
    except Malformed as error:
        raise lines.refusal(str(error), numbers["vkey"]) from error
    # The witness network's lists have no other: it is the one algorithm that every witness takes from a log.
    if key.algorithm is not Algorithm.ED25519:
        raise lines.refusal(f"{key.id} is for {key.algorithm.name}: a log list has Ed25519 keys", numbers["vkey"])
    try:
        qpd = parse_decimal("qpd", values["qpd"])
    except Malformed as error:
        raise lines.refusal(str(error), numbers["qpd"]) from error
    if not 1 <= qpd <= QPD_MAX:
        raise lines.refusal(f"qpd is 1 to {QPD_MAX}, not {qpd}", numbers["qpd"])
    return LogEntry(key, values.get("origin", key.name), qpd, values["contact"], numbers["vkey"])
