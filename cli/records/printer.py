"""Prints records one after the other in the format that was asked for.

A person's formats hold one safe line per record (`short`, `short-…`, `with-run`), a block (`verbose`), or the data
alone (`cat`). Those for programs are JSON in four frames, all in ASCII, and the two streams of bytes.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any

from sealbook.cli.records import elision, members, objects, stamps, streams
from sealbook.cli.records.cursors import Cursor
from sealbook.cli.records.fields import OF_RECORD, member_text
from sealbook.cli.records.levels import level
from sealbook.cli.records.lines import RecordLines, data_text, full_summary, json_text, short_name, short_summary
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import safe

if TYPE_CHECKING:
    from sealbook.journal import Record

COLUMNS_ELSEWHERE = 80  # of a line under `--no-full` where there is no terminal
RECORD_SEPARATOR = "\x1e"  # RFC 7464


@dataclass(frozen=True, slots=True)
class Look:
    """How records are shown: long values `everything` or elided, lines cut to the terminal unless `full`."""

    form: str = "short"
    zone: tzinfo = UTC
    everything: bool = False
    full: bool = True
    chosen: tuple[str, ...] = ()
    with_run: bool = True


class Printer:
    """Prints records. `flush` after the last one, and before anybody waits."""

    def __init__(self, output: Output, look: Look) -> None:
        self._output = output
        self._look = look
        self._before: int | None = None
        self._lines = RecordLines(
            output,
            stamp=self._stamps(),
            names=self._names(),
            summary=full_summary if look.everything or not look.full else short_summary,
            columns_max=None if look.full else _columns(output),
        )
        self._show: Callable[[Record], None] = {
            "json": lambda record: output.line(self._json(record)),
            "json-pretty": lambda record: output.line(objects.pretty(self._members(record))),
            "json-seq": lambda record: output.line(f"{RECORD_SEPARATOR}{self._json(record)}"),
            "json-sse": lambda record: output.line(f"data: {self._json(record)}\n"),
            "verbose": self._verbose,
            "cat": self._cat,
            "export": lambda record: output.raw(
                streams.export(record, str(Cursor.of(record)), level(record, None), look.chosen)
            ),
            "cbor-seq": lambda record: output.raw(streams.cbor(record, look.chosen)),
        }.get(look.form, self._line)

    def show(self, record: Record) -> None:
        """Print one record."""
        self._show(record)

    def show_all(self, records: Iterable[Record]) -> None:
        """Print them all, now."""
        for record in records:
            self.show(record)
        self.flush()

    def wait(self, seconds: float) -> None:
        """Let time pass; `BrokenPipeError` as soon as nobody reads what will be printed."""
        self._output.wait(seconds)

    def flush(self) -> None:
        """Print what is held back, and hand it over."""
        self._lines.flush()
        self._output.flush()

    def _line(self, record: Record) -> None:
        self._lines.add(record, now_ms=time.time_ns() // 1_000_000)

    def _stamps(self) -> Callable[[Record], list[str]]:
        form, zone = self._look.form, self._look.zone
        stamp = {"short-iso": stamps.iso, "short-iso-precise": stamps.iso_precise, "short-unix": stamps.unix}.get(
            form, stamps.short
        )
        if form != "short-delta":
            return lambda record: [stamp(record.at, zone)]

        def with_delta(record: Record) -> list[str]:
            since, self._before = stamps.delta(record.at, self._before), record.at
            return [stamp(record.at, zone), since]

        return with_delta

    def _names(self) -> Callable[[Record], list[str]]:
        if not self._look.with_run:
            return lambda record: []
        if self._look.form == "with-run":
            return lambda record: [f"{safe(record.case)}/{safe(record.run)}" if record.case else safe(record.run)]
        return short_name

    def _members(self, record: Record) -> dict[str, Any]:
        return members.of_json(record, self._look.chosen, everything=self._look.everything)

    def _json(self, record: Record) -> str:
        return objects.text(self._members(record))

    def _elided(self, value: Any) -> Any:
        return objects.data(value) if self._look.everything else elision.data(value)

    def _cat(self, record: Record) -> None:
        if not self._look.chosen:
            self._output.line(json_text(self._elided(record.data)))
            return
        for name in self._look.chosen:
            text = _member(record, name)
            if text is not None:
                shown = text if self._look.everything else elision.data(text)
                self._output.line(safe(shown) if isinstance(shown, str) else json_text(shown))

    def _verbose(self, record: Record) -> None:
        paint, chosen = self._output.paint, self._look.chosen
        stamp = stamps.short(record.at, self._look.zone)
        self._output.line(f"{paint(stamp, 'dim')} [{safe(str(Cursor.of(record)))}]")
        for name, read in OF_RECORD.items():
            text = read(record)
            if text is not None and (not chosen or name.lower() in chosen or name.lower() in members.ALWAYS):
                self._output.line(f"    {paint(name, 'bold')}={safe(text)}")
        for name, value in members.data(record, chosen).items() if members.has_data(chosen) else ():
            shown = self._elided(value)
            text = safe(shown) if isinstance(shown, str) else json_text(shown)
            self._output.line(f"    {paint(f'DATA.{safe(name)}', 'bold')}={text}")


def _member(record: Record, name: str) -> str | None:
    """A member as text, for `cat`."""
    if name == "data":
        return data_text(record.data)
    if name.startswith(members.IN_DATA):
        return member_text(record.data, name.removeprefix(members.IN_DATA))
    value = objects.record(record._replace(data={}))[name]
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _columns(output: Output) -> int:
    return shutil.get_terminal_size().columns if output.terminal else COLUMNS_ELSEWHERE
