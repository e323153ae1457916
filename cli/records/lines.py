"""Records, runs and effects as lines for people: aligned, in UTC, one line each whatever the data holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from sealbook.cli.records import objects
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import cut, fitted, safe, width
from sealbook.indexes.standing import seals
from sealbook.journal.records import instants

if TYPE_CHECKING:
    from sealbook.indexes.standing import Standing
    from sealbook.journal import Record

SUMMARY_COLUMNS_MAX = 120
COLUMN_COLUMNS_MAX = 48  # of a name in a table; `-o json` has the whole of it
DIGEST_DIGITS = 16
KEY_DIGITS = 8  # of an effect key, enough to match a start and its end by eye
BLANK = "-"

BAD = frozenset({"EffectFailed"})
PENDING = frozenset({"RunSuspended", "CancelRequested", "LeaseForced"})


ROWS_HELD = 200  # of records, before they are printed: their columns are as wide as the widest cell among them


class RecordLines:
    """Prints records in the `short` form: instant, run, seq, kind, and what the record says.

    Rows are held back until there are enough to align them, so `flush` after the last one.
    """

    def __init__(
        self,
        output: Output,
        *,
        with_run: bool = True,
        stamp: Callable[[Record], list[str]] | None = None,
        names: Callable[[Record], list[str]] | None = None,
        summary: Callable[[Record], str] | None = None,
        columns_max: int | None = None,
    ) -> None:
        """`stamp` and `names` make the first cells, `summary` the last; `columns_max` is of a whole line."""
        self._output = output
        self._stamp = stamp or (lambda record: [instants.of_millis(record.at)])
        self._names = names or (short_name if with_run else lambda record: [])
        self._summary = summary or short_summary
        self._columns_max = columns_max
        self._widths: list[int] = []
        self._held: list[tuple[list[str], tuple[str, ...], str, str]] = []

    def add(self, record: Record, *, now_ms: int) -> None:
        """Take one record. An instant that lies in the future is marked: a clock was, or is, wrong."""
        kind = cut(safe(record.kind), COLUMN_COLUMNS_MAX)
        cells = [*self._stamp(record), *self._names(record), str(record.seq), kind]
        mark = "[in the future] " if record.at > now_ms else ""
        self._held.append((cells, kind_styles(record), mark, self._summary(record)))
        if len(self._held) == ROWS_HELD:
            self.flush()

    def flush(self) -> None:
        """Print what is held. A column never gets narrower again."""
        paint = self._output.paint
        if self._held and not self._widths:
            self._widths = [0] * len(self._held[0][0])
        for index in range(len(self._widths)):
            self._widths[index] = max([self._widths[index], *(width(cells[index]) for cells, *_ in self._held)])
        for cells, styles, mark, text in self._held:
            cells = list(map(fitted, cells, self._widths))
            if self._columns_max is not None:
                text = cut(text, max(3, self._columns_max - sum(self._widths) - 2 * len(cells) - len(mark)))
            text = f"{paint(mark.rstrip(), 'yellow')} {text}" if mark else text
            self._output.line(
                "  ".join([paint(cells[0], "dim"), *cells[1:-1], paint(cells[-1], *styles), text]).rstrip()
            )
        self._held.clear()


def short_name(record: Record) -> list[str]:
    """The run, as far as it fits into a column."""
    return [cut(safe(record.run), COLUMN_COLUMNS_MAX)]


def kind_styles(record: Record) -> tuple[str, ...]:
    """Red for what failed, yellow for what is open, bold for the beginning and the end."""
    outcome = record.data.get("outcome")
    if record.kind in BAD or (record.kind == "RunConcluded" and isinstance(outcome, str) and not seals(outcome)):
        return ("red",)
    if record.kind == "EffectReconciled" and record.data.get("disposition") == "did-not-happen":
        return ("red",)
    if record.kind in PENDING:
        return ("yellow",)
    return ("bold",) if record.kind in ("RunAdmitted", "RunConcluded") else ()


_LEADS: dict[str, tuple[str, ...]] = {  # the members that are shown as words, before the rest as JSON
    "RunAdmitted": ("source", "id"),
    "EffectStarted": ("name",),
    "EffectReconciled": ("disposition",),
    "RunSuspended": ("until",),
    "RunConcluded": ("outcome",),
    "Note": ("text",),
    "CancelRequested": ("run", "actor", "reason"),
    "LeaseForced": ("run", "actor", "reason"),
    "Restored": ("actor", "reason"),
    "Imported": ("kind",),
}


def short_summary(record: Record) -> str:
    """What the record says, in one safe line; what does not fit is told by the length and digest of the whole line."""
    text = full_summary(record)
    if width(text) <= SUMMARY_COLUMNS_MAX:
        return text
    digest = blake3(text.encode()).hexdigest()[:DIGEST_DIGITS]
    return f"{cut(text, SUMMARY_COLUMNS_MAX)} [{len(text):,} characters, blake3 {digest}]"


def full_summary(record: Record) -> str:
    """The whole of it: the record's effect, its leading members as words, the rest as JSON."""
    parts = []
    if record.effect is not None:
        attempt = f" attempt {record.attempt}" if record.attempt and record.attempt > 1 else ""
        parts.append(f"[{record.effect.hex()[:KEY_DIGITS]}{attempt}]")
    leads = [name for name in _LEADS.get(record.kind, ()) if isinstance(record.data.get(name), str)]
    parts += [safe(record.data[name]) for name in leads]
    rest = {name: value for name, value in record.data.items() if name not in leads}
    if rest:
        parts.append(data_text(rest))
    return " ".join(parts)


def data_text(value: Any) -> str:
    """Data as JSON that a person can read: letters of every language as they are, everything else escaped."""
    return json_text(objects.data(value))


def json_text(value: Any) -> str:
    """JSON that was made of data, in the same way."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    if text.isprintable():
        return text
    return "".join(map(_json_character, text))


def _json_character(character: str) -> str:
    if character.isprintable():
        return character
    return json.dumps(character)[1:-1] if ord(character) != 0x7F else "\\u007f"


def table(output: Output, headings: Sequence[str], rows: Iterable[Sequence[tuple[str, tuple[str, ...]]]]) -> None:
    """Print rows of (safe text, styles) under headings, each column as wide as its widest cell; none for no rows."""
    kept = list(rows)
    if not kept:
        return
    widths = [max(width(heading), *(width(row[index][0]) for row in kept)) for index, heading in enumerate(headings)]
    output.line(output.paint("  ".join(map(fitted, headings, widths)).rstrip(), "bold"))
    for row in kept:
        cells = [
            output.paint(text, *styles) + " " * (columns - width(text))
            for (text, styles), columns in zip(row, widths, strict=True)
        ]
        output.line("  ".join(cells).rstrip())


RUN_HEADINGS = ("RUN", "RECORDS", "STANDING", "EFFECTS", "EPOCH", "OWNER", "UPDATED", "CASE")


def run_row(standing: Standing) -> list[tuple[str, tuple[str, ...]]]:
    """A run as a row of the table of runs."""
    word, styles = standing_word(standing)
    effects, effects_styles = effects_word(standing)
    return [
        (cut(safe(standing.run), COLUMN_COLUMNS_MAX), ()),
        (str(standing.records), ()),
        (word, styles),
        (effects, effects_styles),
        (str(standing.epoch), ()),
        (cut(safe(standing.owner or BLANK), 24), ()),
        (instants.of_millis(standing.updated_at), ("dim",)),
        (cut(safe(standing.case or BLANK), COLUMN_COLUMNS_MAX), ()),
    ]


def standing_word(standing: Standing) -> tuple[str, tuple[str, ...]]:
    """Where a run stands, in a word or two: its end, its wait, or that it is open."""
    if standing.sealed:
        return f"{safe(standing.outcome or '')}, sealed", ("green",)
    if standing.concluded:
        return safe(standing.outcome or ""), () if standing.final else ("red",)
    if standing.waiting:
        until = objects.micros_or_none(standing.until)
        return f"waiting until {until}" if until else "waiting for an event", ("yellow",)
    return "open", ()


def effects_word(standing: Standing) -> tuple[str, tuple[str, ...]]:
    """The run's effects by how they stand: `3: 1 failed, 1 in doubt`."""
    if not standing.effects_started:
        return BLANK, ()
    apart = [
        f"{count} {word}"
        for count, word in ((standing.effects_failed, "failed"), (standing.effects_in_doubt, "in doubt"))
        if count
    ]
    styles = ("yellow",) if standing.effects_in_doubt else ("red",) if standing.effects_failed else ()
    return f"{standing.effects_started}{': ' if apart else ''}{', '.join(apart)}", styles


def lease_words(owner: str | None, epoch: int, expires_at: int | None) -> str:
    """A lease in words."""
    if owner is None or expires_at is None:
        return f"free, epoch {epoch}"
    return f"{safe(owner)} under epoch {epoch} until {instants.of_millis(expires_at)}"


def pairs(output: Output, items: Sequence[tuple[str, str]]) -> None:
    """Print (name, safe text) with the texts below one another."""
    columns = max((width(name) for name, _ in items), default=0)
    for name, text in items:
        output.line(f"{output.paint(fitted(name, columns), 'bold')}  {text}")
